"""A public type that no law is run over fails here."""

import inspect
from types import ModuleType

import pytest

from tamis import conjugate, families, stats
from tamis.conjugate.prior import Prior
from tamis.families.family import Family
from tamis.stats import Sums
from tamis.testing import FAMILIES, PRIORS, STATISTICS

REGISTERED = {case.kind for registry in (STATISTICS, FAMILIES, PRIORS) for case in registry}


def unregistered(module: ModuleType, base: type) -> list[str]:
    """Names of public concrete subclasses of the base that no registry has."""
    public = [getattr(module, name) for name in module.__all__]
    kinds = [kind for kind in public if inspect.isclass(kind) and issubclass(kind, base) and kind is not base]
    assert kinds, f"{module.__name__} has no public {base.__name__}"
    return [kind.__name__ for kind in kinds if kind not in REGISTERED]


@pytest.mark.parametrize(("module", "base"), [(stats, Sums), (families, Family), (conjugate, Prior)])
def test_every_public_type_is_registered(module: ModuleType, base: type) -> None:
    assert unregistered(module, base) == []


def test_a_public_type_that_is_not_registered_is_noticed() -> None:
    class Stray(Sums):
        pass

    module = ModuleType("stray")
    module.__dict__.update(__all__=["Stray"], Stray=Stray)
    assert unregistered(module, Sums) == ["Stray"]
