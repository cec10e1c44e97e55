"""Every model of components learns by adding, forgets by taking away, and is validated by subtraction."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from tamis import estimators
from tamis.stats import Moments
from tamis.testing import components
from tamis.testing.components import COMPONENTS, ComponentsCase

Law = Callable[[ComponentsCase, np.random.Generator], None]
LAWS = (
    components.shards_leave_no_trace,
    components.merging_is_learning,
    components.forgetting_restores_the_model,
    components.an_outlier_is_forgotten,
    components.weight_is_repetition,
    components.cross_validation_is_refitting,
)


@pytest.mark.usefixtures("summed")
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("case", COMPONENTS, ids=lambda case: case.name)
def test_components_keep_the_law(case: ComponentsCase, law: Law) -> None:
    for seed in range(3):
        law(case, np.random.default_rng(seed))


def test_every_public_model_of_components_is_registered() -> None:
    public = [getattr(estimators, name) for name in estimators.__all__]
    kinds = {kind for kind in public if inspect.isclass(kind) and hasattr(kind, "inverse_transform")}
    assert kinds == {type(case.make()) for case in COMPONENTS}


def test_a_statistic_is_moments() -> None:
    for case in COMPONENTS:
        rows = case.sample(np.random.default_rng(0)).rows
        assert isinstance(case.make().fit(rows).statistic_, Moments)
