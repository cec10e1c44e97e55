"""The choice of implementation: Python and NumPy until there was enough work to pay for loading Numba."""

import importlib
from functools import lru_cache
from types import ModuleType


class Door:
    """Counts the work that the reference has done so far."""

    def __init__(self, reference: ModuleType, compiled: str, call: int, patience: int) -> None:
        self.reference = reference
        self.name = compiled
        self.call = call  # the work that one call costs, whatever it does
        self.patience = patience  # the work after which the compiled kernels are loaded
        self.spent = 0
        self.compiled: ModuleType | None = None

    def kernels(self, work: int) -> ModuleType:
        # Threads that arrive during the import wait for it, so that none gets a module half loaded.
        if self.compiled is None:
            self.spent += self.call + work
            if self.spent < self.patience:
                return self.reference
            self.compiled = import_compiled(self.name) or self.reference
        return self.compiled


@lru_cache
def import_compiled(name: str) -> ModuleType | None:
    """Import compiled kernels; None where Numba is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in ("numba", "llvmlite"):
            raise
        return None
