"""Packages that `tamis[models]` brings, and the message for an installation without them.

The mail filter, the statistics and their Python kernels run with NumPy alone.
"""

from importlib import import_module
from typing import Any

__all__ = ["MissingPackageError", "explain_missing", "import_package"]

_BROUGHT_BY_MODELS = {
    "joblib": "scikit-learn",
    "narwhals": "narwhals",
    "scipy": "SciPy",
    "sklearn": "scikit-learn",
    "threadpoolctl": "threadpoolctl",
}


class MissingPackageError(ImportError):
    """A package that an extra brings is not installed; the message names the command that installs it."""


def import_package(module: str, user: str) -> Any:
    """Import a module that `user` needs, such as "a data frame"."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise explain_missing(error, user) from None


def explain_missing(error: ModuleNotFoundError, user: str) -> ImportError:
    """Return an error that names the extra; the error itself where no extra brings the missing package.

    >>> explain_missing(ModuleNotFoundError("No module named 'scipy'", name="scipy"), "tamis.conjugate")
    MissingPackageError('tamis.conjugate needs SciPy, which is not installed: pip install "tamis[models]"')
    """
    package = _BROUGHT_BY_MODELS.get((error.name or "").partition(".")[0])
    if package is None:
        return error
    return MissingPackageError(f'{user} needs {package}, which is not installed: pip install "tamis[models]"')
