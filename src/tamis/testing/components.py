"""Property tests (laws) of PCA: learning adds, forgetting subtracts, and cross-validation equals refitting.

`COMPONENTS` registers the forms of PCA that keep a statistic, and `tests/laws/test_components.py` runs each
law over each. To test your own model with a `statistic_`, make a `ComponentsCase` of it and run each law on
it. Laws that compare two ways of learning the same rows call `assert_alike`; the law that forgets an outlier,
whose rounding errors stay, calls `assert_near`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tamis.arrays import Array
from tamis.estimators import PCA
from tamis.testing.learning import (
    Sample,
    an_outlier_is_forgotten,
    forgetting_restores_the_model,
    merging_is_learning,
    shards_leave_no_trace,
    weight_is_repetition,
)

__all__ = [
    "COMPONENTS",
    "ComponentsCase",
    "an_outlier_is_forgotten",
    "cross_validation_is_refitting",
    "forgetting_restores_the_model",
    "merging_is_learning",
    "shards_leave_no_trace",
    "weight_is_repetition",
]

COLUMNS = 4  # of the rows that are drawn


@dataclass(frozen=True)
class ComponentsCase:
    """A form of PCA to test, and how its results are compared.

    `tolerance` is the largest difference of mean, variances and components if rows are learned in different
    parts (1e-12 if it is less); 0 also requires that statistics and components are equal to the bit.
    """

    name: str
    make: Callable[[], Any]
    tolerance: float = 1e-10

    outlier_column: ClassVar[int] = 1

    def sample(self, rng: np.random.Generator, n: int = 60) -> Sample:
        """Draw rows far from zero with distinct principal variances, and weights that are not integers."""
        rotation = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))[0]
        rows = 1000.0 + (rng.normal(size=(n, COLUMNS)) * [8.0, 3.0, 1.0, 0.4]) @ rotation
        return Sample(rows, rng.random(n) + 0.5)

    def assert_alike(self, left: Any, right: Any, rows: Array) -> None:
        """Raise unless the models have the same parameters within the tolerance, and transform rows alike."""
        if self.tolerance == 0.0:
            assert left.statistic_ == right.statistic_, "the statistics differ"
            assert np.array_equal(left.components_, right.components_), "the components differ"
        close = max(self.tolerance, 1e-12)
        for name in ("mean_", "explained_variance_", "components_", "noise_variance_"):
            np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=close, atol=close)
        np.testing.assert_allclose(left.transform(rows), right.transform(rows), rtol=1e-8, atol=1e-8)

    def assert_near(self, left: Any, right: Any, rows: Array) -> None:
        """Raise unless components and transformed rows agree to 1e-6."""
        np.testing.assert_allclose(left.components_, right.components_, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(left.transform(rows), right.transform(rows), rtol=1e-6, atol=1e-6)


COMPONENTS: tuple[ComponentsCase, ...] = (
    ComponentsCase("all", PCA),
    ComponentsCase("some", lambda: PCA(2)),
    ComponentsCase("fraction of variance", lambda: PCA(0.9)),
    ComponentsCase("evidence", lambda: PCA("mle")),
    ComponentsCase("held out", lambda: PCA("held-out")),
    ComponentsCase("whitened", lambda: PCA(2, whiten=True)),
    ComponentsCase("with gaps allowed", lambda: PCA(2, missing="em")),
    ComponentsCase("exact", lambda: PCA(2, exact=True), tolerance=0.0),
    ComponentsCase("held out, exact", lambda: PCA("held-out", exact=True), tolerance=0.0),
)


def cross_validation_is_refitting(case: ComponentsCase, rng: np.random.Generator) -> None:
    """`cross_validate` scores each fold as a model fitted to the other folds does."""
    data = case.sample(rng)
    fold = rng.integers(0, 4, len(data))
    held_out = case.make().cross_validate(data.rows, folds=fold, sample_weight=data.weights)
    for number in np.unique(fold):
        rest, rows = data.take(np.flatnonzero(fold != number)), np.flatnonzero(fold == number)
        model = case.make().set_params(n_components=int(held_out.counts[rows[0]]))
        model.fit(rest.rows, sample_weight=rest.weights)
        log_densities, x = model.score_samples(data.rows[rows]), data.rows[rows]
        error = np.square(x - model.inverse_transform(model.transform(x))).sum(axis=1)
        np.testing.assert_allclose(held_out.log_densities[rows], log_densities, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(held_out.errors[rows], error, rtol=1e-6, atol=1e-6)
