"""The laws of components: learning is adding, forgetting is taking away, validation is fitting again.

`COMPONENTS` registers the forms of PCA that keep a statistic, and `tests/laws/test_components.py` runs each
law over each. To test a model of your own that keeps one, make a `ComponentsCase` of it and do the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators import PCA
from tamis.testing.forgetting import can_unlearn

COLUMNS = 4


@dataclass(frozen=True)
class ComponentsCase:
    """A model of components.

    `tolerance` is how far apart answers may be whose rows came in other shards: 0 asks for the same bits of
    the statistic.
    """

    name: str
    make: Callable[[], Any]
    tolerance: float = 1e-10


COMPONENTS: tuple[ComponentsCase, ...] = (
    ComponentsCase("all", PCA),
    ComponentsCase("some", lambda: PCA(2)),
    ComponentsCase("share", lambda: PCA(0.9)),
    ComponentsCase("evidence", lambda: PCA("mle")),
    ComponentsCase("held out", lambda: PCA("held-out")),
    ComponentsCase("whitened", lambda: PCA(2, whiten=True)),
    ComponentsCase("with gaps allowed", lambda: PCA(2, missing="em")),
    ComponentsCase("exact", lambda: PCA(2, exact=True), tolerance=0.0),
    ComponentsCase("held out, exact", lambda: PCA("held-out", exact=True), tolerance=0.0),
)


@dataclass(frozen=True)
class Sample:
    """Rows and their weights."""

    rows: Array  # (n, d)
    weights: Array  # (n,)

    def take(self, index: NDArray[np.int64]) -> "Sample":
        """The rows at these places, in this order."""
        return Sample(self.rows[index], self.weights[index])


def sample(rng: np.random.Generator, n: int = 60) -> Sample:
    """Rows far from zero whose variances lie apart, and weights that are no round numbers."""
    rotation = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))[0]
    rows = 1000.0 + (rng.normal(size=(n, COLUMNS)) * [8.0, 3.0, 1.0, 0.4]) @ rotation
    return Sample(rows, rng.random(n) + 0.5)


def learn_parts(case: ComponentsCase, parts: list[Sample]) -> Any:
    """A model that learned the parts one after another."""
    model = case.make()
    for part in parts:
        model.partial_fit(part.rows, sample_weight=part.weights)
    return model


def _fit(case: ComponentsCase, data: Sample) -> Any:
    return case.make().fit(data.rows, sample_weight=data.weights)


def _deal(rng: np.random.Generator, n: int) -> list[NDArray[np.int64]]:
    """Some shards of n rows, in no order."""
    cuts = np.sort(rng.choice(np.arange(1, n), 5, replace=False))
    return np.split(rng.permutation(n), cuts)


def shards_leave_no_trace(case: ComponentsCase, rng: np.random.Generator) -> None:
    """fit = partial_fit of any shards in any order."""
    data = sample(rng)
    parts = learn_parts(case, [data.take(index) for index in _deal(rng, len(data.rows))])
    _assert_alike(case, _fit(case, data), parts, data.rows)


def merging_is_learning(case: ComponentsCase, rng: np.random.Generator) -> None:
    """fit = merge of models that each learned a shard."""
    data = sample(rng)
    first, *others = [learn_parts(case, [data.take(index)]) for index in _deal(rng, len(data.rows))]
    _assert_alike(case, _fit(case, data), first.merge(*others), data.rows)


def forgetting_restores_the_model(case: ComponentsCase, rng: np.random.Generator) -> None:
    """unlearn after partial_fit restores the model, whatever came between."""
    data = sample(rng, 90)
    kept, gone = data.take(np.arange(60)), data.take(np.arange(60, 90))
    model = learn_parts(case, [gone, kept])
    for index in np.array_split(rng.permutation(30), 3):
        part = gone.take(index)
        model.unlearn(part.rows, sample_weight=part.weights)
    _assert_alike(case, learn_parts(case, [kept]), model, data.rows)


def an_outlier_is_forgotten(case: ComponentsCase, rng: np.random.Generator) -> None:
    """A row of 1e9, or a cell of 2e8, learned among others and forgotten leaves no trace, or is refused."""
    data = sample(rng, 90)
    for cells, value in ((slice(None), 1e9), (slice(1, 2), 2e8)):
        rows = data.rows.copy()
        rows[40, cells] = value
        changed = Sample(rows, data.weights)
        kept, gone = data.take(np.delete(np.arange(90), 40)), changed.take(np.array([40]))
        model = learn_parts(case, [changed])
        if not can_unlearn(model, gone.rows, sample_weight=gone.weights):
            continue
        fresh = learn_parts(case, [kept])
        np.testing.assert_allclose(model.components_, fresh.components_, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            model.transform(kept.rows), fresh.transform(kept.rows), rtol=1e-6, atol=1e-6
        )


def weight_is_repetition(case: ComponentsCase, rng: np.random.Generator) -> None:
    """A row of weight 2 is that row twice, and one of weight 0 was never there."""
    data = sample(rng)
    times = rng.integers(0, 4, len(data.rows))
    often = data.take(np.repeat(np.arange(len(data.rows)), times))
    weighed = case.make().fit(data.rows, sample_weight=times)
    _assert_alike(case, case.make().fit(often.rows), weighed, data.rows)


def cross_validation_is_refitting(case: ComponentsCase, rng: np.random.Generator) -> None:
    """`cross_validate` answers for each fold as a model fitted to the other folds does."""
    data = sample(rng)
    fold = rng.integers(0, 4, len(data.rows))
    held = case.make().cross_validate(data.rows, folds=fold, sample_weight=data.weights)
    for number in np.unique(fold):
        rest, rows = data.take(np.flatnonzero(fold != number)), np.flatnonzero(fold == number)
        model = case.make().set_params(n_components=int(held.counts[rows[0]]))
        model.fit(rest.rows, sample_weight=rest.weights)
        log_densities, x = model.score_samples(data.rows[rows]), data.rows[rows]
        error = np.square(x - model.inverse_transform(model.transform(x))).sum(axis=1)
        np.testing.assert_allclose(held.log_densities[rows], log_densities, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(held.errors[rows], error, rtol=1e-6, atol=1e-6)


def _assert_alike(case: ComponentsCase, left: Any, right: Any, rows: Array) -> None:
    if case.tolerance == 0.0:
        assert left.statistic_ == right.statistic_, "the statistics differ"
        assert np.array_equal(left.components_, right.components_), "the components differ"
    tolerance = max(case.tolerance, 1e-12)
    for name in ("mean_", "explained_variance_", "components_", "noise_variance_"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(left.transform(rows), right.transform(rows), rtol=1e-8, atol=1e-8)
