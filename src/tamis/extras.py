"""Packages that extras of tamis bring, and the message for an installation without them.

The mail filter, the statistics and their Python kernels run with NumPy alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from importlib import import_module

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import Any

__all__ = ["MissingPackageError", "explain_missing", "import_package", "make_getattr"]

_BROUGHT_BY = {  # module: the package that has it, and the extra that brings the package
    "dask": ("Dask", "dask"),
    "distributed": ("Dask's distributed", "dask"),
    "duckdb": ("DuckDB", "duckdb"),
    "joblib": ("scikit-learn", "models"),
    "narwhals": ("narwhals", "models"),
    "psycopg": ("psycopg", "postgresql"),
    "pyarrow": ("pyarrow", "arrow"),
    "pyspark": ("PySpark", "spark"),
    "scipy": ("SciPy", "models"),
    "sklearn": ("scikit-learn", "models"),
    "threadpoolctl": ("threadpoolctl", "models"),
}


class MissingPackageError(ImportError):
    """A package that an extra brings is not installed; the message names the command that installs it."""


def import_package(module: str, user: str) -> Any:
    """Import a module that `user` needs, such as "a data frame".

    The garbage collector pauses meanwhile. Objects that an import makes stay alive, and the collector would
    search them several times: 0.1 s of the 0.8 s that scikit-learn takes.
    """
    pause = gc.isenabled() and not gc.get_freeze_count()
    if pause:
        gc.disable()
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise explain_missing(error, user) from None
    finally:
        if pause:
            gc.freeze()  # freezing and unfreezing moves all objects to the oldest generation, unsearched
            gc.unfreeze()
            gc.enable()


def make_getattr(namespace: dict[str, Any], homes: Mapping[str, str], users: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a module that imports each name from its home when it is first used.

    An error for a missing package says that the name, after `users` and a dot, needs it.
    """

    def look_up(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = getattr(import_package(homes[name], f"{users}.{name}"), name)
        namespace[name] = value
        return value

    return look_up


def explain_missing(error: ModuleNotFoundError, user: str) -> ImportError:
    """Return an error that names the extra; the error itself where no extra brings the missing package.

    >>> explain_missing(ModuleNotFoundError("No module named 'scipy'", name="scipy"), "tamis.conjugate")
    MissingPackageError('tamis.conjugate needs SciPy, which is not installed: pip install "tamis[models]"')
    """
    brought = _BROUGHT_BY.get((error.name or "").partition(".")[0])
    if brought is None:
        return error
    package, extra = brought
    return MissingPackageError(
        f'{user} needs {package}, which is not installed: pip install "tamis[{extra}]"'
    )
