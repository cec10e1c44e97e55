"""Property tests (laws) of regressions: learning adds, forgetting subtracts, validation equals refitting.

`REGRESSIONS` registers every public regression that is conjugate, in its several forms, and
`tests/laws/test_regressions.py` runs each law over each. To test one of your own that keeps a statistic, make
a `RegressionCase` of it and do the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators import BayesianLinearRegression
from tamis.testing.learning import (
    Sample,
    an_outlier_is_forgotten,
    fit,
    forgetting_restores_the_model,
    merging_is_learning,
    shards_leave_no_trace,
    weight_is_repetition,
)

__all__ = [
    "REGRESSIONS",
    "RegressionCase",
    "an_outlier_is_forgotten",
    "cross_validation_is_refitting",
    "forgetting_restores_the_model",
    "leave_one_out_is_refitting",
    "merging_is_learning",
    "shards_leave_no_trace",
    "weight_is_repetition",
]

COLUMNS = 3  # of the rows that are drawn
_COVARIANCE = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])  # of a prior of coefficients


@dataclass(frozen=True)
class RegressionCase:
    """A regression of three columns on one target or several.

    `fixed` makes a model with the α and β that another model chose by evidence, which leave-one-out does not
    choose again; None if nothing is chosen. `tolerance` is the largest difference of results if rows are
    learned in different parts: 0 requires the same bits of the statistic.
    """

    name: str
    make: Callable[[], Any]
    targets: int = 0  # the number of targets; 0 if y has one dimension
    fixed: Callable[[Any], Any] | None = None
    tolerance: float = 1e-8

    outlier_column: ClassVar[int] = 1

    def sample(self, rng: np.random.Generator, n: int = 60) -> Sample:
        """Draw correlated rows far from zero, noisy targets, and weights that are not whole numbers."""
        mixing = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 5.0]])
        rows = 100.0 + rng.normal(size=(n, COLUMNS)) @ mixing
        slopes = rng.normal(size=(COLUMNS, max(1, self.targets)))
        y = rows @ slopes + rng.normal(size=(n, max(1, self.targets)))
        return Sample(rows, rng.random(n) + 0.1, y if self.targets else y[:, 0])

    def assert_alike(self, left: Any, right: Any, rows: Array) -> None:
        """Raise unless the models have the same coefficients and predictions, within the tolerance."""
        if self.tolerance == 0.0:
            assert left.statistic_ == right.statistic_, "the statistics differ"
        close = max(self.tolerance, 1e-12)
        answers = (model.predict(rows, return_std=True) for model in (left, right))
        for ours, theirs in zip(*answers, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=close, atol=close)
        np.testing.assert_allclose(left.coef_, right.coef_, rtol=close, atol=close)

    def assert_near(self, left: Any, right: Any, rows: Array) -> None:
        """Raise unless coefficients and predictions agree to 1e-6."""
        np.testing.assert_allclose(left.coef_, right.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(left.predict(rows), right.predict(rows), rtol=1e-6)


def _fix_chosen(model: Any) -> Any:
    return BayesianLinearRegression(alpha=model.alpha_, beta=model.beta_)


REGRESSIONS: tuple[RegressionCase, ...] = (
    RegressionCase("known", lambda: BayesianLinearRegression(alpha=0.5, beta=2.0)),
    RegressionCase("flat", lambda: BayesianLinearRegression(alpha=0.0, beta="unknown")),
    RegressionCase(
        "unknown",
        lambda: BayesianLinearRegression(alpha=0.5, beta="unknown", noise_shape=1.0, noise_scale=0.5),
    ),
    RegressionCase("evidence", BayesianLinearRegression, fixed=_fix_chosen),
    RegressionCase(
        "no intercept", lambda: BayesianLinearRegression(alpha=1.0, beta=1.0, fit_intercept=False)
    ),
    RegressionCase(
        "full prior",
        lambda: BayesianLinearRegression(beta=2.0, prior=(np.array([1.0, -1.0, 0.5]), _COVARIANCE)),
    ),
    RegressionCase(
        "two targets", lambda: BayesianLinearRegression(alpha=[0.1, 1.0, 10.0], beta=[2.0, 0.5]), targets=2
    ),
    RegressionCase(
        "two targets, unknown", lambda: BayesianLinearRegression(alpha=1.0, beta="unknown"), targets=2
    ),
    RegressionCase("exact", lambda: BayesianLinearRegression(alpha=0.5, beta=2.0, exact=True), tolerance=0.0),
)


def cross_validation_is_refitting(case: RegressionCase, rng: np.random.Generator) -> None:
    """`cross_validate` predicts each fold as a model fitted to the other folds does."""
    data = case.sample(rng)
    fold = rng.integers(0, 4, len(data))
    held_out = case.make().cross_validate(*data.arguments, folds=fold, sample_weight=data.weights)
    for number in np.unique(fold):
        model = fit(case, data.take(np.flatnonzero(fold != number)))
        _assert_held_out(held_out, model, data, np.flatnonzero(fold == number), max(case.tolerance, 1e-10))


def leave_one_out_is_refitting(case: RegressionCase, rng: np.random.Generator) -> None:
    """Leave-one-out predicts as a model fitted to the other rows does, with the same α and β."""
    data = case.sample(rng, 20)
    held_out = case.make().cross_validate(*data.arguments, folds="leave-one-out", sample_weight=data.weights)
    model_of_all = fit(case, data)
    for row in range(len(data)):
        rest = data.take(np.delete(np.arange(len(data)), row))
        model = case.make() if case.fixed is None else case.fixed(model_of_all)
        model.fit(*rest.arguments, sample_weight=rest.weights)
        _assert_held_out(held_out, model, data, np.array([row]), max(case.tolerance, 1e-8))


def _assert_held_out(
    held_out: Any, model: Any, data: Sample, rows: NDArray[np.int64], tolerance: float
) -> None:
    """Assert that the predictions for held-out rows are those of this model."""
    mean, std = model.predict(data.rows[rows], return_std=True)
    log_densities = model.predict_distribution(data.rows[rows]).log_density(data.targets[rows])
    for ours, theirs in (
        (held_out.predictions, mean),
        (held_out.std, std),
        (held_out.log_densities, log_densities),
    ):
        np.testing.assert_allclose(ours[rows], theirs, rtol=tolerance, atol=tolerance)
