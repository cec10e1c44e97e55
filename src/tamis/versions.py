"""Print the versions of installed packages, for bug reports."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from tamis.compiled import describe

_PACKAGES = ("numpy", "scipy", "scikit-learn", "narwhals", "threadpoolctl", "pandas", "polars", "pyarrow")


def show_versions() -> None:
    """Print the versions of tamis, Python and related packages, and whether the compiled core is used.

    >>> show_versions()
    tamis: ...
    kernels: ...
    python: ...
    """
    lines = {
        "tamis": version("tamis"),
        "kernels": describe(),
        "python": f"{platform.python_version()} ({sys.executable})",
        "machine": platform.platform(),
    }
    for package in _PACKAGES:
        try:
            lines[package] = version(package)
        except PackageNotFoundError:
            lines[package] = "not installed"
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in lines.items()))
