"""Models that read their rows several times, with rows that suit them, for every engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tamis
from tamis.engines import Batch

ROWS = 240
CENTRES = np.array([[0.0, 0.0, 5.0], [4.0, 4.0, 5.0], [-4.0, 3.0, 6.0]])


@dataclass(frozen=True)
class IterativeCase:
    """A model, and which labels it learns from: classes, some of them, or none."""

    name: str
    make: Callable[[], Any]
    labels: str = "all"

    def draw(self) -> Batch:
        """Rows of three classes that overlap a little; the weights of some are 0."""
        rng = np.random.default_rng(5)
        group = rng.integers(0, 3, ROWS)
        rows = CENTRES[group] + rng.normal(size=(ROWS, 3)) * [1.0, 1.5, 0.5]
        weights = np.where(rng.random(ROWS) < 0.1, 0.0, rng.random(ROWS) + 0.1)
        y = np.array(["a", "b", "c"], dtype=object)[group]
        if self.labels == "some":
            y[ROWS // 4 :] = None
        return Batch(rows, None if self.labels == "none" else y, weights)

    def deal(self) -> list[Batch]:
        """The rows in four shards and an empty one."""
        data = self.draw()
        runs = [*np.array_split(np.arange(ROWS), 4), np.arange(0)]
        return [
            Batch(data.X[run], None if data.y is None else data.y[run], data.sample_weight[run])
            for run in runs
        ]

    def fit(self) -> Any:
        """The model fitted to all rows at once."""
        data = self.draw()
        return self.make().fit(data.X, data.y, sample_weight=data.sample_weight)

    def assert_alike(self, left: Any, right: Any) -> None:
        """Raise unless coefficients, or log-joints, agree to 1e-6, after as many steps."""
        rows = self.draw().X
        if hasattr(left, "coef_"):
            np.testing.assert_allclose(left.coef_, right.coef_, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(left.intercept_, right.intercept_, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(left.coef_std_, right.coef_std_, rtol=1e-6)
        else:
            joint = left.predict_joint_log_proba(rows), right.predict_joint_log_proba(rows)
            np.testing.assert_allclose(*joint, rtol=1e-6, atol=1e-6)
        assert np.array_equal(left.n_iter_, right.n_iter_)


ITERATIVE: tuple[IterativeCase, ...] = (
    IterativeCase("logistic", tamis.LogisticRegression),
    IterativeCase("logistic, evidence", lambda: tamis.LogisticRegression(alpha="evidence")),
    IterativeCase("logistic, whitened", lambda: tamis.LogisticRegression(solver="whitened")),
    IterativeCase("logistic, balanced", lambda: tamis.LogisticRegression(class_weight="balanced")),
    IterativeCase("mixture, full", lambda: tamis.Mixture(3, random_state=0), "none"),
    IterativeCase("mixture, diagonal", lambda: tamis.Mixture(3, covariance="diag", random_state=0), "none"),
    IterativeCase(
        "mixture, tied", lambda: tamis.Mixture(3, covariance="tied", n_init=2, random_state=0), "none"
    ),
    IterativeCase("naive Bayes, some labels", tamis.GaussianNB, "some"),
    IterativeCase("discriminant, some labels", lambda: tamis.GaussianDiscriminant("full"), "some"),
)
