"""Load the compiled core: `core` is its module, or None where it was not built or is switched off.

The core has functions on arrays and texts, called kernels. Every kernel has a reference in Python or NumPy,
which defines its results and is used where there is no core.
The environment variable `TAMIS_CORE=off` chooses the references, for tests and comparisons.
"""

import os
from importlib import import_module
from types import ModuleType

_VARIABLE = "TAMIS_CORE"


def _load() -> ModuleType | None:
    if os.environ.get(_VARIABLE, "").lower() in ("off", "0", "no"):
        return None
    module = import_module("tamis._core")
    # Without the extension module, Python imports the folder `_core` of type stubs as an empty package.
    return module if hasattr(module, "processor") else None


core = _load()


def choose_kernels(reference: ModuleType, compiled: str) -> ModuleType:
    """Import the module named `compiled`, which calls the core; return `reference` if there is no core."""
    return reference if core is None else import_module(compiled)


def describe() -> str:
    """Return one line that says which kernels are in use."""
    if core is not None:
        return f"compiled core for {core.processor}"
    return "no compiled core: slower (it is built where a C++ compiler is found)"
