"""A public type that no law is run over fails here."""

import inspect
from types import ModuleType
from typing import get_args

import pytest

from tamis import conjugate, families, stats
from tamis.conjugate.prior import Prior
from tamis.families import MultivariateGaussian, registry
from tamis.families.family import Family
from tamis.models.generative.column_blocks import FASTER
from tamis.models.linear.responses import Family as ResponseFamily
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


def test_every_list_of_names_is_among_those_of_the_families() -> None:
    names = set(registry.FAMILIES)
    assert set(FASTER) <= names
    assert set(registry.AUTOMATIC.values()) <= names
    assert set(get_args(ResponseFamily)) <= names
    kinds = {type(member) for member in registry.FAMILIES.values()}
    assert kinds == {getattr(families, name) for name in families.__all__} - {Family, MultivariateGaussian}
    for name, member in registry.FAMILIES.items():
        assert registry.name_of(member) == name
        assert registry.find_family(member) is member


def test_a_public_type_that_is_not_registered_is_noticed() -> None:
    class Stray(Sums):
        pass

    module = ModuleType("stray")
    module.__dict__.update(__all__=["Stray"], Stray=Stray)
    assert unregistered(module, Sums) == ["Stray"]
