"""Ratings → draws from the posterior of factors: Bayesian matrix factorisation (Salakhutdinov, Mnih 2008).

Given one side, a row of the other is a Bayesian linear regression on the same Gram that alternating least
squares has; the step draws from its posterior instead of going to its top. Each side's rows have a Gaussian
prior, whose mean and covariance are drawn from their own posterior, a normal–inverse-Wishart, and the noise
from its inverse gamma. The level and the offsets of times stay as the start has them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tamis._kernels import factors as kernels
from tamis._kernels import threads
from tamis.arrays import Array
from tamis.conjugate import NormalInverseWishart
from tamis.linalg import Cholesky
from tamis.models.factors.alternating import Factors, features, squares, targets
from tamis.models.factors.ratings import Ratings, Side
from tamis.stats import Moments


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """The Gaussian prior of one side's rows."""

    mean: Array  # (k + 1,)
    precision: Array  # (k + 1, k + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """One draw of everything."""

    factors: Factors
    precision: float  # of a rating's noise, of weight 1
    users: Belief
    items: Belief
    rmse: float  # of the ratings


@dataclass(frozen=True, slots=True)
class Gibbs:
    """Draws of each side in turn."""

    rank: int
    strength: float = 1.0  # what the prior of a side's mean is worth in rows
    scale: float = 1.0  # prior variance of a factor; ratings are to be in units of their spread

    def draws(self, ratings: Ratings, start: Factors, rng: np.random.Generator) -> Iterator[Draw]:
        """Without end; the first ones still tell of the start."""
        at = start
        precision, _ = self._noise(ratings, at, rng)
        own, other = (targets(ratings, side, at) for side in (ratings.by_user, ratings.by_item))
        while True:
            users = self._belief(at.users, rng)
            at = replace(at, users=drawn_rows(ratings.by_user, own, at.items, precision, users, rng))
            items = self._belief(at.items, rng)
            at = replace(at, items=drawn_rows(ratings.by_item, other, at.users, precision, items, rng))
            precision, rmse = self._noise(ratings, at, rng)
            yield Draw(at, precision, users, items, rmse)

    def _belief(self, rows: Array, rng: np.random.Generator) -> Belief:
        k = self.rank + 1
        prior = NormalInverseWishart(np.zeros(k), self.strength, k + 2.0, self.scale * np.eye(k))
        with threads.one_blas_thread:
            drawn = prior.update(Moments.observe(rows, form="full")).sample(rng)
            return Belief(drawn.mean, Cholesky.of(drawn.covariance, "covariance of the factors").inverse())

    def _noise(self, ratings: Ratings, at: Factors, rng: np.random.Generator) -> tuple[float, float]:
        """A draw of the noise's precision, and how wrong the ratings are."""
        total, mass = squares(ratings, at), ratings.mass  # one of weight 0.1 tells a tenth of what one tells
        drawn = float(rng.gamma(0.5 * (1.0 + mass), 2.0 / (1.0 + total)))
        return drawn, float(np.sqrt(total / mass))


def drawn_rows(
    side: Side,
    wanted: Array,
    other: Array,
    precision: float,
    belief: Belief,
    rng: np.random.Generator,
) -> Array:
    """A draw of the rows of one side (rows, k + 1), given the other and all else."""
    weights = precision * side.weights
    shape = len(side.counts), other.shape[1]
    noise, ridge = rng.standard_normal(shape), np.zeros(shape)
    pull = belief.precision @ belief.mean
    return kernels.solve_rows(
        side.indptr,
        side.others,
        weights,
        weights * wanted,
        features(other),
        ridge,
        belief.precision,
        pull,
        noise,
        np.ascontiguousarray(other[:, -1]),
    )
