"""Import optional packages; where one is missing, the error names the extra that installs it.

The mail filter, the statistics and their Python kernels need only NumPy.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from importlib import import_module

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import Any

_EXTRAS = {  # module: its package, and the extra of tamis that installs the package
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
    """An optional package is not installed; the message says how to install it."""


def import_package(module: str, user: str) -> Any:
    """Import a module. `user` names, for an error message, what needs it, such as "a data frame".

    The garbage collector pauses meanwhile. Objects that an import makes stay alive, and the collector would
    search them several times: 0.1 s of the 0.8 s that scikit-learn takes. The frames of all calls that the
    import makes are in one piece of memory (`_import_in_large_frame`): another 0.1 s.
    """
    loaded = sys.modules.get(module)
    # A module that another thread still initialises is waited for, as by any import.
    if loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False):
        return loaded
    # The count walks over all frozen objects, which takes 5 ms where some are: it comes after the look-up.
    can_pause = gc.isenabled() and not gc.get_freeze_count()
    if can_pause:
        gc.disable()
    try:
        return _import_in_large_frame(module)
    except ModuleNotFoundError as error:
        raise explain_missing(error, user) from None
    finally:
        if can_pause:
            gc.freeze()  # freeze and unfreeze move all objects to the oldest generation without a search
            gc.unfreeze()
            gc.enable()


def _import_in_large_frame(module: str) -> Any:
    return import_module(module)


# CPython allocates frames in chunks of 16 KB. A call that does not fit allocates a chunk, which its return
# frees: a loop just below the end of a chunk does so at each call. Where the chunks end depends on the depth
# of the caller; scikit-learn takes 0.50 to 0.65 s (Python 3.11, depths 0 to 80). A frame of more than half a
# megabyte gets a chunk of 1 MB, whose other half has room for the calls below it; memory that no frame
# touches is only reserved. `python -m benchmarks.first_call` measures it.
_import_in_large_frame.__code__ = _import_in_large_frame.__code__.replace(co_stacksize=1 << 16)


def make_getattr(
    namespace: dict[str, Any], modules: Mapping[str, str], public: str
) -> Callable[[str], object]:
    """Return the `__getattr__` of a module, which imports each name from its module when it is first used.

    `namespace` is the module's `globals()`. `public` is the package from which users import the names, for
    error messages.
    """

    def look_up(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = getattr(import_package(modules[name], f"{public}.{name}"), name)
        namespace[name] = value
        return value

    return look_up


def explain_missing(error: ModuleNotFoundError, user: str) -> ImportError:
    """Return an error that names the extra to install, or the same error if no extra has the package.

    >>> explain_missing(ModuleNotFoundError("No module named 'scipy'", name="scipy"), "tamis.conjugate")
    MissingPackageError('tamis.conjugate needs SciPy, which is not installed: pip install "tamis[models]"')
    """
    optional = _EXTRAS.get((error.name or "").partition(".")[0])
    if optional is None:
        return error
    package, extra = optional
    return MissingPackageError(
        f'{user} needs {package}, which is not installed: pip install "tamis[{extra}]"'
    )
