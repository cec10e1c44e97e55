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
    """Import a module. `user` says, for an error message, what needs the module, such as "a data frame".

    The garbage collector is paused meanwhile. Nearly all objects that an import makes stay alive, and the
    collector would traverse them several times: 0.1 s of the 0.8 s that scikit-learn takes. The frames of all
    calls that the import makes are in one chunk of memory (`_import_in_large_frame`), which saves another
    0.1 s.
    """
    loaded = sys.modules.get(module)
    # If another thread still initialises the module, `import_module` below waits for it.
    if loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False):
        return loaded
    # `get_freeze_count` walks over all frozen objects, 5 ms if there are some, so it is called only here.
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


# CPython allocates frames in chunks of 16 KB. A call whose frame does not fit allocates a new chunk, which is
# freed when it returns. A loop near the end of a chunk therefore allocates one at each call. Where chunks end
# depends on the depth of the caller: to import scikit-learn takes 0.50 to 0.65 s (Python 3.11, depths 0 to
# 80). A frame of more than half a megabyte gets a chunk of 1 MB, whose other half has room for the calls that
# it makes; pages that no frame touches take no memory. `co_stacksize` counts values of 8 bytes.
# `python -m benchmarks.first_call` measures this.
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
