"""Property tests (laws) of PCA: learning adds, forgetting subtracts, and cross-validation equals refitting.

`COMPONENTS` registers PCA with each of the settings that keep a statistic, and
`tests/laws/test_components.py` runs each law on each case. To test your own model with a `statistic_`, make
a `ComponentsCase` for the model and run each law on the case. Laws that compare two ways of learning the same
rows call `assert_alike`; the law that forgets an outlier, whose rounding errors stay, calls `assert_near`.
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

COLUMNS = 4  # of the rows that `ComponentsCase.sample` draws


@dataclass(frozen=True)
class ComponentsCase:
    """A model to test, such as PCA with some settings, and how two of these are compared.

    `tolerance` is the largest difference, absolute and relative, of the means, variances and components of
    models that learned the same rows in different parts; 0 stands for 1e-12, and requires besides that their
    statistics and components are equal to the bit.
    """

    name: str
    make: Callable[[], Any]  # makes the model, not fitted
    tolerance: float = 1e-10

    outlier_column: ClassVar[int] = 1  # in which `an_outlier_is_forgotten` puts a large value

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
    ComponentsCase("some", lambda: PCA(n_components=2)),
    ComponentsCase("fraction of variance", lambda: PCA(n_components=0.9)),
    ComponentsCase("evidence", lambda: PCA(n_components="mle")),
    ComponentsCase("held out", lambda: PCA(n_components="held-out")),
    ComponentsCase("whitened", lambda: PCA(n_components=2, whiten=True)),
    ComponentsCase("with gaps allowed", lambda: PCA(n_components=2, missing="em")),
    ComponentsCase("exact", lambda: PCA(n_components=2, exact=True), tolerance=0.0),
    ComponentsCase("held out, exact", lambda: PCA(n_components="held-out", exact=True), tolerance=0.0),
)


def cross_validation_is_refitting(case: ComponentsCase, rng: np.random.Generator) -> None:
    """`cross_validate` scores each fold as a model fitted to the other folds does."""
    data = case.sample(rng)
    fold_of_row = rng.integers(0, 4, len(data))
    held_out = case.make().cross_validate(data.rows, folds=fold_of_row, sample_weight=data.weights)
    for fold in np.unique(fold_of_row):
        training, index = data.take(np.flatnonzero(fold_of_row != fold)), np.flatnonzero(fold_of_row == fold)
        # `counts` has, for each row, the number of components of the model that scored it.
        model = case.make().set_params(n_components=int(held_out.counts[index[0]]))
        model.fit(training.rows, sample_weight=training.weights)
        x = data.rows[index]
        log_densities = model.score_samples(x)
        squared_errors = np.square(x - model.inverse_transform(model.transform(x))).sum(axis=1)
        np.testing.assert_allclose(held_out.log_densities[index], log_densities, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(held_out.errors[index], squared_errors, rtol=1e-6, atol=1e-6)
