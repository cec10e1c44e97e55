"""Every module here holds `CASES`, a sequence of `benchmarks.harness.Case`; being here is being run.

A module may also hold `WANTED`: the ratio peer / ours that is wanted of a case, by name. Cases without one
are compared with their peer alone.
"""

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from benchmarks.harness import AnyCase

__all__ = ["discover"]


def discover() -> list[AnyCase]:
    """All cases of all modules in this folder, by name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    cases: list[AnyCase] = []
    for module in modules:
        wanted: dict[str, float] = getattr(module, "WANTED", {})
        if unknown := sorted(wanted.keys() - {case.name for case in module.CASES}):
            raise ValueError(f"{module.__name__}.WANTED names no case: {', '.join(unknown)}")
        group = module.__name__.rpartition(".")[2].replace("_", " ")
        cases += [replace(case, wanted=wanted.get(case.name), group=group) for case in module.CASES]
    names = [case.name for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"benchmark names must differ; given twice: {', '.join(twice)}")
    return sorted(cases, key=lambda case: case.name)
