"""Every class of `tamis.models` that observes and infers is a `Model`: it has the verbs of `protocols.py`."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import tamis.models
from tamis.models.components import PrincipalComponents
from tamis.models.generative import Block, Generative
from tamis.models.linear import BayesianLinear
from tamis.protocols import Iterative, Model, fit, iterate


def find_models() -> Iterator[type]:
    """Classes with `observe` and `infer`; blocks of columns are parts of a `Generative` model."""
    for module in pkgutil.walk_packages(tamis.models.__path__, "tamis.models."):
        for kind in vars(import_module(module.name)).values():
            if not inspect.isclass(kind) or kind.__module__ != module.name or issubclass(kind, Block):
                continue
            if all(callable(getattr(kind, verb, None)) for verb in ("observe", "infer")):
                yield kind


MODELS = sorted(find_models(), key=lambda kind: kind.__name__)


def parameters(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def test_the_models_of_the_library_are_found() -> None:
    assert {BayesianLinear, Generative, PrincipalComponents} <= set(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_has_the_verbs_of_the_protocol(model: Any) -> None:
    _, data, given, *others = parameters(model.observe)
    assert (data.name, given.name, given.default) == ("data", "given", None)
    assert all(other.default is not inspect.Parameter.empty for other in others)
    assert [one.name for one in parameters(model.infer)] == ["self", "statistic"]
    if hasattr(model, "objective"):
        assert [one.name for one in parameters(model.objective)] == ["self", "statistic"]


def test_the_protocols_name_the_same_verbs() -> None:
    for protocol in (Model, Iterative):
        assert [one.name for one in parameters(protocol.observe)] == ["self", "data", "given"]
        assert [one.name for one in parameters(protocol.infer)] == ["self", "statistic"]
    assert [one.name for one in parameters(fit)] == ["model", "shards"]
    assert [one.name for one in parameters(iterate)] == ["model", "shards", "start"]
