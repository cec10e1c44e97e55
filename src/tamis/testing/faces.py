"""The laws of faces: learning is adding, forgetting is taking away, and the order of it all leaves no trace.

`FACES` registers every public classifier with rows that suit it; `tests/laws/test_faces.py` runs each law
over each. To test a classifier of your own that keeps a statistic, make a `FaceCase` of it and do the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    FisherDiscriminant,
    GaussianDiscriminant,
    GaussianNB,
    MultinomialNB,
    NaiveBayes,
    PoissonNB,
)
from tamis.tables import Table
from tamis.testing.forgetting import can_unlearn

Rows = Any  # (n, d), of numbers or of objects


@dataclass(frozen=True)
class FaceCase:
    """A classifier, and how to draw rows for it.

    `tolerance` is how far apart log-joints may be whose rows came in other shards: 0 asks for the same bits.
    """

    name: str
    make: Callable[[], Any]
    draw: Callable[[np.random.Generator, int], Rows]
    tolerance: float = 0.0


def _draw_numbers(rng: np.random.Generator, n: int) -> Array:
    mixing = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 5.0]])
    return np.asarray(1e6 + rng.normal(size=(n, 3)) @ mixing)


def _draw_counts(rng: np.random.Generator, n: int) -> Array:
    return rng.poisson([0.5, 2.0, 4.0], size=(n, 3)).astype(np.float64)


def _draw_mixed(rng: np.random.Generator, n: int) -> NDArray[Any]:
    rows = np.empty((n, 3), dtype=object)
    rows[:, 0] = rng.normal(size=n)
    rows[:, 1] = rng.choice(["red", "green", "blue"], n)
    rows[:, 2] = [None if rng.random() < 0.2 else bool(rng.integers(2)) for _ in range(n)]
    return rows


FACES: tuple[FaceCase, ...] = (
    FaceCase("NaiveBayes", NaiveBayes, _draw_mixed),
    FaceCase("NaiveBayes, predictive", lambda: NaiveBayes(estimate="predictive"), _draw_mixed),
    FaceCase("GaussianNB", GaussianNB, _draw_numbers),
    FaceCase("MultinomialNB", MultinomialNB, _draw_counts),
    FaceCase("ComplementNB", ComplementNB, _draw_counts),
    FaceCase("BernoulliNB", BernoulliNB, _draw_counts),
    FaceCase("PoissonNB", PoissonNB, _draw_counts),
    FaceCase("CategoricalNB", CategoricalNB, _draw_counts),
    FaceCase("GaussianDiscriminant, tied", GaussianDiscriminant, _draw_numbers, 1e-9),
    FaceCase("GaussianDiscriminant, full", lambda: GaussianDiscriminant("full"), _draw_numbers, 1e-9),
    FaceCase("GaussianDiscriminant, exact", lambda: GaussianDiscriminant("full", exact=True), _draw_numbers),
    FaceCase("GaussianDiscriminant, diag", lambda: GaussianDiscriminant("diag"), _draw_numbers),
    FaceCase("GaussianDiscriminant, spherical", lambda: GaussianDiscriminant("spherical"), _draw_numbers),
    FaceCase("FisherDiscriminant", FisherDiscriminant, _draw_numbers, 1e-9),
)


@dataclass(frozen=True)
class Sample:
    """Rows with their labels and weights."""

    rows: Rows
    labels: NDArray[Any]
    weights: Array

    def take(self, index: NDArray[np.int64]) -> "Sample":
        """The rows at these places, in this order."""
        return Sample(self.rows[index], self.labels[index], self.weights[index])


def sample(case: FaceCase, rng: np.random.Generator, n: int = 60) -> Sample:
    """Rows that suit the case, of three classes, and weights that are no round numbers."""
    return Sample(case.draw(rng, n), rng.choice(["a", "b", "c"], n), rng.random(n) + 0.1)


def learn_parts(case: FaceCase, parts: list[Sample]) -> Any:
    """A model that learned the parts one after another."""
    model = case.make()
    for part in parts:
        model.partial_fit(part.rows, part.labels, sample_weight=part.weights)
    return model


def _deal(rng: np.random.Generator, n: int) -> list[NDArray[np.int64]]:
    """Some shards of n rows, in no order."""
    cuts = np.sort(rng.choice(np.arange(1, n), 5, replace=False))
    return np.split(rng.permutation(n), cuts)


def shards_leave_no_trace(case: FaceCase, rng: np.random.Generator) -> None:
    """fit = partial_fit of any shards in any order."""
    data = sample(case, rng)
    model_of_all = case.make().fit(data.rows, data.labels, sample_weight=data.weights)
    parts = learn_parts(case, [data.take(index) for index in _deal(rng, len(data.labels))])
    _assert_alike(case, model_of_all, parts, data.rows)


def merging_is_learning(case: FaceCase, rng: np.random.Generator) -> None:
    """fit = merge of models that each learned a shard."""
    data = sample(case, rng)
    model_of_all = case.make().fit(data.rows, data.labels, sample_weight=data.weights)
    first, *others = [learn_parts(case, [data.take(index)]) for index in _deal(rng, len(data.labels))]
    _assert_alike(case, model_of_all, first.merge(*others), data.rows)


def forgetting_restores_the_model(case: FaceCase, rng: np.random.Generator) -> None:
    """unlearn after partial_fit restores the model, whatever came between."""
    data = sample(case, rng, 90)
    kept, gone = data.take(np.arange(60)), data.take(np.arange(60, 90))
    expected = learn_parts(case, [kept])
    model = learn_parts(case, [gone, kept])
    order = rng.permutation(30)
    for index in np.array_split(order, 3):
        part = gone.take(index)
        model.unlearn(part.rows, part.labels, sample_weight=part.weights)
    _assert_alike(case, expected, model, data.rows)


def an_outlier_is_forgotten(case: FaceCase, rng: np.random.Generator) -> None:
    """A row of 1e9, or a cell of 2e8, learned among others and forgotten leaves no trace, or is refused."""
    data = sample(case, rng, 90)
    for cells, value in ((slice(None), 1e9), (slice(0, 1), 2e8)):
        rows = data.rows.copy()
        rows[40, cells] = [value if isinstance(cell, float) else cell for cell in rows[40, cells].tolist()]
        changed = Sample(rows, data.labels, data.weights)
        kept, gone = data.take(np.delete(np.arange(90), 40)), changed.take(np.array([40]))
        model = learn_parts(case, [changed])
        if not can_unlearn(model, gone.rows, gone.labels, sample_weight=gone.weights):
            continue
        _assert_near(
            _predict_log_joint(model, kept.rows),
            _predict_log_joint(learn_parts(case, [kept]), kept.rows),
            1e-6,
        )


def _predict_log_joint(model: Any, rows: Rows) -> Array:
    log_joint: Array = model.predict_joint_log_proba(rows)
    return log_joint


def cross_validation_is_refitting(case: FaceCase, rng: np.random.Generator) -> None:
    """`cross_validate` answers for each fold as a model fitted to the other folds does."""
    data = sample(case, rng)
    fold = rng.integers(0, 4, len(data.labels))
    held = case.make().cross_validate(data.rows, data.labels, folds=fold, sample_weight=data.weights)
    for number in np.unique(fold):
        train, test = data.take(np.flatnonzero(fold != number)), np.flatnonzero(fold == number)
        model = case.make().fit(train.rows, train.labels, sample_weight=train.weights)
        encoded = model.state_.model.encode(Table.of(data.rows[test]), learn=False)
        expected = model.posterior_.log_joint(encoded)
        _assert_near(held.log_joint[test], expected, case.tolerance)


def _assert_alike(case: FaceCase, left: Any, right: Any, rows: Rows) -> None:
    if case.tolerance == 0.0:
        assert left.statistic_ == right.statistic_, "the statistics differ"
    assert left.classes_.tolist() == right.classes_.tolist()
    _assert_near(left.predict_joint_log_proba(rows), right.predict_joint_log_proba(rows), case.tolerance)


def _assert_near(left: Array, right: Array, tolerance: float) -> None:
    if tolerance == 0.0:
        assert np.array_equal(left, right), np.abs(left - right).max()
    else:
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)
