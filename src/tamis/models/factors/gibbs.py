"""Ratings → draws from the posterior of all factors: Bayesian matrix factorisation (Salakhutdinov, Mnih 2008).

Given one side, a row of the other is a Bayesian linear regression on the same Gram that alternating least
squares has; the step draws from its posterior instead of going to its top. Each side's rows have a Gaussian
prior, whose mean and covariance are drawn from their own posterior, a normal–inverse-Wishart, and the noise
from its inverse gamma.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tamis._kernels import factors as kernels
from tamis.arrays import Array
from tamis.conjugate import NormalInverseWishart
from tamis.linalg import Cholesky
from tamis.models.factors.alternating import Factors
from tamis.models.factors.ratings import Ratings, Side
from tamis.stats import Moments


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """One draw of everything."""

    factors: Factors
    precision: float  # of a rating's noise, of weight 1


@dataclass(frozen=True, slots=True)
class Gibbs:
    """Draws of each side in turn."""

    rank: int
    strength: float = 1.0  # what the prior of a side's mean is worth in rows
    scale: float = 1.0  # prior variance of a factor, in units where the level's spread is one

    def draws(self, ratings: Ratings, start: Factors, rng: np.random.Generator) -> Iterator[Draw]:
        """Without end; the first ones still tell of the start."""
        at = start
        precision = self._noise(ratings, at, rng)
        while True:
            at = replace(
                at, users=self._side(ratings, ratings.by_user, at.users, at.items, at.level, precision, rng)
            )
            at = replace(
                at, items=self._side(ratings, ratings.by_item, at.items, at.users, at.level, precision, rng)
            )
            precision = self._noise(ratings, at, rng)
            yield Draw(at, precision)

    def _side(
        self,
        ratings: Ratings,
        side: Side,
        own: Array,
        other: Array,
        level: float,
        precision: float,
        rng: np.random.Generator,
    ) -> Array:
        k = self.rank + 1
        prior = NormalInverseWishart(np.zeros(k), self.strength, k + 2.0, self.scale * np.eye(k))
        drawn = prior.update(Moments.observe(own, form="full")).sample(rng)
        belief = Cholesky.of(drawn.covariance, "covariance of the factors").inverse()
        weights = precision * ratings.weights[side.order]
        pulls = weights * (ratings.value[side.order] - level - other[side.others, -1])
        features = other.copy()
        features[:, -1] = 1.0
        noise = rng.standard_normal((len(side.counts), k))
        ridge = np.zeros((len(side.counts), k))
        return kernels.solve_rows(
            side.indptr, side.others, weights, pulls, features, ridge, belief, belief @ drawn.mean, noise
        )

    def _noise(self, ratings: Ratings, at: Factors, rng: np.random.Generator) -> float:
        wrong = ratings.value - at.predict(ratings.user, ratings.item)
        rate = 0.5 * (1.0 + float(ratings.weights @ np.square(wrong)))
        return float(rng.gamma(0.5 * (1.0 + len(ratings)), 1.0 / rate))
