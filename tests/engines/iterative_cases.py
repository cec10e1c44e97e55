"""Models that read their rows several times, with rows that suit them, for every engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.engines import Batch

ROWS = 240
CENTRES = np.array([[0.0, 0.0, 5.0], [4.0, 4.0, 5.0], [-4.0, 3.0, 6.0]])


@dataclass(frozen=True)
class IterativeCase:
    """A model, and what it learns from: classes, some of them, none, counts, or ratings of pairs."""

    name: str
    make: Callable[[], Any]
    labels: str = "all"

    def draw(self) -> Batch:
        """Rows of three classes that overlap a little, or pairs with ratings; the weights of some are 0."""
        if self.labels == "ratings":
            return _draw_ratings()
        rng = np.random.default_rng(5)
        group = rng.integers(0, 3, ROWS)
        rows = CENTRES[group] + rng.normal(size=(ROWS, 3)) * [1.0, 1.5, 0.5]
        weights = np.where(rng.random(ROWS) < 0.1, 0.0, rng.random(ROWS) + 0.1)
        y = np.array(["a", "b", "c"], dtype=object)[group]
        if self.labels == "some":
            y[ROWS // 4 :] = None
        if self.labels in _TARGETS:
            scores = 0.2 * rows[:, 0] - 0.1 * rows[:, 1] + 1.0
            offset = rng.normal(0.0, 0.3, ROWS)
            return Batch(rows, _TARGETS[self.labels](rng, scores + offset), weights, {"offset": offset})
        return Batch(rows, None if self.labels == "none" else y, weights)

    def deal(self) -> list[Batch]:
        """The rows in four shards and an empty one."""
        data = self.draw()
        runs = [*np.array_split(np.arange(ROWS), 4), np.arange(0)]
        return [
            Batch(
                data.X[run],
                None if data.y is None else data.y[run],
                data.sample_weight[run],
                {name: values[run] for name, values in data.others.items()},
            )
            for run in runs
        ]

    def fit(self) -> Any:
        """The model fitted to all rows at once."""
        data = self.draw()
        return self.make().fit(data.X, data.y, sample_weight=data.sample_weight, **data.others)

    def assert_alike(self, left: Any, right: Any) -> None:
        """Raise unless coefficients, or log-joints, agree to 1e-6, after as many steps."""
        rows = self.draw().X
        if self.labels == "ratings":
            assert np.array_equal(left.users_, right.users_)
            assert np.array_equal(left.items_, right.items_)
            assert np.array_equal(left.user_factors_, right.user_factors_)
            assert np.array_equal(left.predict(rows), right.predict(rows))
        elif hasattr(left, "coef_"):
            np.testing.assert_allclose(left.coef_, right.coef_, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(left.intercept_, right.intercept_, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(left.coef_std_, right.coef_std_, rtol=1e-6)
            for name in _SUMS if self.labels in _TARGETS else ():
                assert getattr(left, name) == pytest.approx(getattr(right, name), rel=1e-9), name
        else:
            joint = left.predict_joint_log_proba(rows), right.predict_joint_log_proba(rows)
            np.testing.assert_allclose(*joint, rtol=1e-6, atol=1e-6)
        assert np.array_equal(left.n_iter_, right.n_iter_)


def _draw_ratings() -> Batch:
    """Pairs of users and items in no order, with ratings."""
    rng = np.random.default_rng(5)
    users, items = np.divmod(rng.permutation(30 * 12)[:ROWS], 12)
    weights = np.where(rng.random(ROWS) < 0.1, 0.0, rng.random(ROWS) + 0.1)
    ratings = 3.0 + np.sin(users) * np.cos(items) + rng.normal(0.0, 0.1, ROWS)
    return Batch(np.column_stack([users, items]).astype(np.float64), ratings, weights)


_SUMS = ("deviance_", "null_deviance_", "pearson_", "dispersion_", "log_likelihood_")
_TARGETS: dict[str, Callable[[np.random.Generator, Any], Any]] = {  # by scores
    "counts": lambda rng, scores: rng.poisson(np.exp(scores)).astype(np.float64),
    "numbers": lambda rng, scores: 1e4 * np.exp(scores) + rng.normal(0.0, 1e3, len(scores)),
    "amounts": lambda rng, scores: rng.gamma(2.0, 0.5 * np.exp(scores)),
    "shares": lambda rng, scores: rng.random(len(scores)) < 1.0 / (1.0 + np.exp(-scores)),
}

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
    IterativeCase("poisson", lambda: tamis.GeneralizedLinear("poisson"), "counts"),
    IterativeCase(
        "poisson, dispersion", lambda: tamis.GeneralizedLinear("poisson", dispersion="pearson"), "counts"
    ),
    IterativeCase("gaussian", tamis.GeneralizedLinear, "numbers"),
    IterativeCase("gaussian, log", lambda: tamis.GeneralizedLinear(link="log"), "numbers"),
    IterativeCase("gamma, log", lambda: tamis.GeneralizedLinear("gamma", link="log"), "amounts"),
    IterativeCase(
        "gamma, no intercept",
        lambda: tamis.GeneralizedLinear("gamma", link="log", fit_intercept=False),
        "amounts",
    ),
    IterativeCase(
        "bernoulli, evidence", lambda: tamis.GeneralizedLinear("bernoulli", alpha="evidence"), "shares"
    ),
    IterativeCase(
        "recommender", lambda: tamis.MatrixFactorization(3, ridge=0.1, tol=0.0, random_state=0), "ratings"
    ),
)
