"""Property tests (laws) of classifiers: learning adds, forgetting subtracts, and the order does not matter.

`FACES` registers the public classifiers that keep a statistic, each with rows that suit it;
`tests/laws/test_faces.py` runs each law over each. To test a classifier of your own that keeps a statistic,
make a `FaceCase` of it and do the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

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
from tamis.testing.learning import (
    Sample,
    an_outlier_is_forgotten,
    fit,
    forgetting_restores_the_model,
    merging_is_learning,
    shards_leave_no_trace,
)

__all__ = [
    "FACES",
    "FaceCase",
    "an_outlier_is_forgotten",
    "cross_validation_is_refitting",
    "forgetting_restores_the_model",
    "merging_is_learning",
    "shards_leave_no_trace",
]

Rows = Any  # (n, d), of numbers or of objects


@dataclass(frozen=True)
class FaceCase:
    """A classifier, and how to draw rows for it.

    `tolerance` is the largest difference of log p(x, class) if rows are learned in different parts; 0
    requires the same bits.
    """

    name: str
    make: Callable[[], Any]
    draw: Callable[[np.random.Generator, int], Rows]
    tolerance: float = 0.0

    outlier_column: ClassVar[int] = 0

    def sample(self, rng: np.random.Generator, n: int = 60) -> Sample:
        """Draw rows that suit the classifier, of three classes, and weights that are not whole numbers."""
        rows, labels = self.draw(rng, n), rng.choice(["a", "b", "c"], n)
        return Sample(rows, rng.random(n) + 0.1, labels)

    def assert_alike(self, left: Any, right: Any, rows: Rows) -> None:
        """Raise unless the models have the same classes and log-joints, within the tolerance."""
        if self.tolerance == 0.0:
            assert left.statistic_ == right.statistic_, "the statistics differ"
        assert left.classes_.tolist() == right.classes_.tolist()
        _compare(left.predict_joint_log_proba(rows), right.predict_joint_log_proba(rows), self.tolerance)

    def assert_near(self, left: Any, right: Any, rows: Rows) -> None:
        """Raise unless the log-joints agree to 1e-6."""
        _compare(left.predict_joint_log_proba(rows), right.predict_joint_log_proba(rows), 1e-6)


def _compare(left: Array, right: Array, tolerance: float) -> None:
    if tolerance == 0.0:
        assert np.array_equal(left, right), np.abs(left - right).max()
    else:
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


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


def cross_validation_is_refitting(case: FaceCase, rng: np.random.Generator) -> None:
    """`cross_validate` predicts each fold as a model fitted to the other folds does."""
    data = case.sample(rng)
    fold = rng.integers(0, 4, len(data))
    held_out = case.make().cross_validate(*data.arguments, folds=fold, sample_weight=data.weights)
    for number in np.unique(fold):
        train, test = data.take(np.flatnonzero(fold != number)), np.flatnonzero(fold == number)
        model = fit(case, train)
        encoded = model.state_.model.encode(Table.of(data.rows[test]), learn=False)
        expected = model.posterior_.log_joint(encoded)
        _compare(held_out.log_joint[test], expected, case.tolerance)
