"""The laws of regressions: learning is adding, forgetting is taking away, and validation is fitting again.

`REGRESSIONS` registers every public regression that is conjugate, in its several forms, and
`tests/laws/test_regressions.py` runs each law over each. To test one of your own that keeps a statistic, make
a `RegressionCase` of it and do the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators import BayesianLinearRegression
from tamis.testing.forgetting import can_unlearn

COLUMNS = 3
_COVARIANCE = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])


@dataclass(frozen=True)
class RegressionCase:
    """A regression of three columns on one target or several.

    `fixed` makes a model with the α and β that evidence chose, to leave one out; None if nothing
    is chosen.
    `tolerance` is how far apart answers may be whose rows came in other shards: 0 asks for the same bits of
    the statistic.
    """

    name: str
    make: Callable[[], Any]
    targets: int = 0  # 0: y has one dimension
    fixed: Callable[[Any], Any] | None = None
    tolerance: float = 1e-8


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


@dataclass(frozen=True)
class Sample:
    """Rows with their targets and weights."""

    rows: Array  # (n, d)
    targets: Array  # (n,) or (n, q)
    weights: Array  # (n,)

    def take(self, index: NDArray[np.int64]) -> "Sample":
        """The rows at these places, in this order."""
        return Sample(self.rows[index], self.targets[index], self.weights[index])


def sample(case: RegressionCase, rng: np.random.Generator, n: int = 60) -> Sample:
    """Rows that are correlated and far from zero, noisy targets, and weights that are no round numbers."""
    mixing = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 5.0]])
    rows = 100.0 + rng.normal(size=(n, COLUMNS)) @ mixing
    slopes = rng.normal(size=(COLUMNS, max(1, case.targets)))
    y = rows @ slopes + rng.normal(size=(n, max(1, case.targets)))
    return Sample(rows, y if case.targets else y[:, 0], rng.random(n) + 0.1)


def learn_parts(case: RegressionCase, parts: list[Sample]) -> Any:
    """A model that learned the parts one after another."""
    model = case.make()
    for part in parts:
        model.partial_fit(part.rows, part.targets, sample_weight=part.weights)
    return model


def _fit(case: RegressionCase, data: Sample) -> Any:
    return case.make().fit(data.rows, data.targets, sample_weight=data.weights)


def _deal(rng: np.random.Generator, n: int) -> list[NDArray[np.int64]]:
    """Some shards of n rows, in no order."""
    cuts = np.sort(rng.choice(np.arange(1, n), 5, replace=False))
    return np.split(rng.permutation(n), cuts)


def shards_leave_no_trace(case: RegressionCase, rng: np.random.Generator) -> None:
    """fit = partial_fit of any shards in any order."""
    data = sample(case, rng)
    parts = learn_parts(case, [data.take(index) for index in _deal(rng, len(data.rows))])
    _assert_alike(case, _fit(case, data), parts, data.rows)


def merging_is_learning(case: RegressionCase, rng: np.random.Generator) -> None:
    """fit = merge of models that each learned a shard."""
    data = sample(case, rng)
    first, *others = [learn_parts(case, [data.take(index)]) for index in _deal(rng, len(data.rows))]
    _assert_alike(case, _fit(case, data), first.merge(*others), data.rows)


def forgetting_restores_the_model(case: RegressionCase, rng: np.random.Generator) -> None:
    """unlearn after partial_fit restores the model, whatever came between."""
    data = sample(case, rng, 90)
    kept, gone = data.take(np.arange(60)), data.take(np.arange(60, 90))
    model = learn_parts(case, [gone, kept])
    for index in np.array_split(rng.permutation(30), 3):
        part = gone.take(index)
        model.unlearn(part.rows, part.targets, sample_weight=part.weights)
    _assert_alike(case, learn_parts(case, [kept]), model, data.rows)


def an_outlier_is_forgotten(case: RegressionCase, rng: np.random.Generator) -> None:
    """A row of 1e9, or a cell of 2e8, learned among others and forgotten leaves no trace, or is refused."""
    data = sample(case, rng, 90)
    for cells, value in ((slice(None), 1e9), (slice(1, 2), 2e8)):
        rows = data.rows.copy()
        rows[40, cells] = value
        changed = Sample(rows, data.targets, data.weights)
        kept, gone = data.take(np.delete(np.arange(90), 40)), changed.take(np.array([40]))
        model = learn_parts(case, [changed])
        if not can_unlearn(model, gone.rows, gone.targets, sample_weight=gone.weights):
            continue
        fresh = learn_parts(case, [kept])
        np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.predict(kept.rows), fresh.predict(kept.rows), rtol=1e-6)


def weight_is_repetition(case: RegressionCase, rng: np.random.Generator) -> None:
    """A row of weight 2 is that row twice, and one of weight 0 was never there."""
    data = sample(case, rng)
    times = rng.integers(0, 4, len(data.rows))
    often = data.take(np.repeat(np.arange(len(data.rows)), times))
    weighed = case.make().fit(data.rows, data.targets, sample_weight=times)
    _assert_alike(case, case.make().fit(often.rows, often.targets), weighed, data.rows)


def cross_validation_is_refitting(case: RegressionCase, rng: np.random.Generator) -> None:
    """`cross_validate` answers for each fold as a model fitted to the other folds does."""
    data = sample(case, rng)
    fold = rng.integers(0, 4, len(data.rows))
    held = case.make().cross_validate(data.rows, data.targets, folds=fold, sample_weight=data.weights)
    for number in np.unique(fold):
        model = _fit(case, data.take(np.flatnonzero(fold != number)))
        _assert_held_out(held, model, data, np.flatnonzero(fold == number), max(case.tolerance, 1e-10))


def leave_one_out_is_refitting(case: RegressionCase, rng: np.random.Generator) -> None:
    """Leaving one out answers as a model fitted to the other rows does, with the same α and β."""
    data = sample(case, rng, 20)
    held = case.make().cross_validate(
        data.rows, data.targets, folds="leave-one-out", sample_weight=data.weights
    )
    model_of_all = _fit(case, data)
    for row in range(len(data.rows)):
        rest = data.take(np.delete(np.arange(len(data.rows)), row))
        model = case.make() if case.fixed is None else case.fixed(model_of_all)
        model.fit(rest.rows, rest.targets, sample_weight=rest.weights)
        _assert_held_out(held, model, data, np.array([row]), max(case.tolerance, 1e-8))


def _assert_held_out(held: Any, model: Any, data: Sample, rows: NDArray[np.int64], tolerance: float) -> None:
    """Assert that the answers for rows held out are those of this model."""
    mean, std = model.predict(data.rows[rows], return_std=True)
    log_densities = model.predict_distribution(data.rows[rows]).log_density(data.targets[rows])
    for ours, theirs in ((held.predictions, mean), (held.std, std), (held.log_densities, log_densities)):
        np.testing.assert_allclose(ours[rows], theirs, rtol=tolerance, atol=tolerance)


def _assert_alike(case: RegressionCase, left: Any, right: Any, rows: Array) -> None:
    if case.tolerance == 0.0:
        assert left.statistic_ == right.statistic_, "the statistics differ"
    tolerance = max(case.tolerance, 1e-12)
    for ours, theirs in zip(
        left.predict(rows, return_std=True), right.predict(rows, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(left.coef_, right.coef_, rtol=tolerance, atol=tolerance)
