"""Every conjugate regression learns by adding, forgets by taking away, and is validated by subtraction."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import RegressorMixin

from tamis import estimators
from tamis.stats import Gram
from tamis.testing import regressions
from tamis.testing.regressions import REGRESSIONS, RegressionCase

Law = Callable[[RegressionCase, np.random.Generator], None]
LAWS = (
    regressions.shards_leave_no_trace,
    regressions.merging_is_learning,
    regressions.forgetting_restores_the_model,
    regressions.an_outlier_is_forgotten,
    regressions.weight_is_repetition,
    regressions.cross_validation_is_refitting,
    regressions.leave_one_out_is_refitting,
)


@pytest.mark.usefixtures("summed")
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("case", REGRESSIONS, ids=lambda case: case.name)
def test_regressions_keep_the_law(case: RegressionCase, law: Law) -> None:
    for seed in range(3):
        law(case, np.random.default_rng(seed))


def test_every_public_conjugate_regression_is_registered() -> None:
    public = [getattr(estimators, name) for name in estimators.__all__]
    regressors = {kind for kind in public if inspect.isclass(kind) and issubclass(kind, RegressorMixin)}
    kinds = {kind for kind in regressors if hasattr(kind, "unlearn")}  # that keep a statistic
    assert kinds == {type(case.make()) for case in REGRESSIONS}


def test_a_statistic_is_a_gram() -> None:
    for case in REGRESSIONS:
        data = case.sample(np.random.default_rng(0))
        assert isinstance(case.make().fit(data.rows, data.targets).statistic_, Gram)
