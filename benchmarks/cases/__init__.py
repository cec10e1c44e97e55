"""Every module here holds `CASES`, a sequence of `benchmarks.harness.Case`; being here is being run."""

from importlib import import_module
from pkgutil import iter_modules

from benchmarks.harness import AnyCase

__all__ = ["discover"]


def discover() -> list[AnyCase]:
    """All cases of all modules in this folder, by name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    cases: list[AnyCase] = [case for module in modules for case in module.CASES]
    names = [case.name for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"benchmark names must differ; given twice: {', '.join(twice)}")
    return sorted(cases, key=lambda case: case.name)
