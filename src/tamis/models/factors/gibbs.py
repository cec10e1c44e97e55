"""Ratings → draws from the posterior of factors: Bayesian matrix factorisation (Salakhutdinov, Mnih 2008).

Given one side, a row of the other is a Bayesian linear regression on the same Gram as in alternating least
squares; a step draws the row from its posterior instead of taking the mode. Each side's rows have a Gaussian
prior; its mean and covariance are drawn from their posterior, a normal–inverse-Wishart distribution, and the
variance of the noise from an inverse gamma distribution. The level and the offsets of times do not change.
"""

from dataclasses import dataclass, replace

import numpy as np

from tamis import threads
from tamis._kernels import factors as kernels
from tamis.arrays import Array
from tamis.conjugate import NormalInverseWishart
from tamis.linalg import Cholesky
from tamis.models.factors.alternating import (
    Factors,
    RatingsGiven,
    compute_targets,
    make_features,
    refuse_no_factors,
    sum_squared_residuals,
)
from tamis.models.factors.ratings import GroupedRatings, Ratings
from tamis.protocols import Iterative
from tamis.stats import Moments


@dataclass(frozen=True, slots=True, eq=False)
class RowPrior:
    """The Gaussian prior of one side's rows."""

    mean: Array  # (k + 1,)
    precision: Array  # (k + 1, k + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """One draw of all parameters from their posterior."""

    factors: Factors
    precision: float  # of the noise of a rating of weight 1
    user_prior: RowPrior
    item_prior: RowPrior
    rmse: float  # of the ratings


@dataclass(frozen=True, slots=True, eq=False)
class Gibbs:
    """Gibbs sampling: each step of `iterate` draws the users, the items and the noise.

    The first draws still depend on the start.
    """

    rank: int
    rng: np.random.Generator
    strength: float = 1.0  # the number of pseudo-observations in the prior of a side's mean row
    scale: float = 1.0  # prior variance of a factor, for ratings in units of their standard deviation

    def start(self, ratings: Ratings, factors: Factors) -> Draw:
        """Combine the factors with a draw of the noise; the priors of rows are flat until the first step."""
        k = self.rank + 1
        flat_prior = RowPrior(np.zeros(k), np.zeros((k, k)))
        precision, rmse = self._draw_noise(ratings, factors)
        return Draw(factors, precision, flat_prior, flat_prior, rmse)

    def observe(self, data: Ratings, given: Draw | None = None) -> RatingsGiven[Draw]:
        """The ratings, given a draw; nothing is summed yet."""
        return RatingsGiven(data, refuse_no_factors(given))

    def infer(self, statistic: RatingsGiven[Draw]) -> Draw:
        """Draw the users, the items, their priors and the noise, given the last draw."""
        ratings, last_draw = statistic.ratings, statistic.posterior
        factors, precision, sides = last_draw.factors, last_draw.precision, (ratings.by_user, ratings.by_item)
        user_targets, item_targets = (compute_targets(ratings, side, factors) for side in sides)
        user_prior = self._draw_prior(factors.users)
        users = draw_rows(ratings.by_user, user_targets, factors.items, precision, user_prior, self.rng)
        item_prior = self._draw_prior(factors.items)
        items = draw_rows(ratings.by_item, item_targets, users, precision, item_prior, self.rng)
        factors = replace(factors, users=users, items=items)
        precision, rmse = self._draw_noise(ratings, factors, user_targets)
        return Draw(factors, precision, user_prior, item_prior, rmse)

    def objective(self, statistic: RatingsGiven[Draw]) -> float:
        """The RMSE of the ratings."""
        return statistic.posterior.rmse

    def _draw_prior(self, rows: Array) -> RowPrior:
        """Draw the mean and the precision of the prior of one side's rows, given the rows."""
        k = self.rank + 1
        prior = NormalInverseWishart(
            np.zeros(k), self.strength, freedom=k + 2.0, scale=self.scale * np.eye(k)
        )
        with threads.one_blas_thread:
            gaussian = prior.update(Moments.observe(rows, form="full")).sample(self.rng)
            precision = Cholesky.of(gaussian.covariance, "covariance of the factors").inverse()
            return RowPrior(gaussian.mean, precision)

    def _draw_noise(
        self, ratings: Ratings, factors: Factors, targets: Array | None = None
    ) -> tuple[float, float]:
        """Draw the precision of the noise; return it and the RMSE of the ratings."""
        squares, weight = sum_squared_residuals(ratings, factors, targets), ratings.total_weight
        # The prior of the variance is an inverse gamma distribution of shape 1/2 and scale 1/2.
        precision = float(self.rng.gamma(0.5 * (1.0 + weight), 2.0 / (1.0 + squares)))
        return precision, float(np.sqrt(squares / weight))


def draw_rows(
    side: GroupedRatings,
    targets: Array,
    other: Array,
    precision: float,
    prior: RowPrior,
    rng: np.random.Generator,
) -> Array:
    """Draw the rows of one side (rows, k + 1), given those of the other side and the noise's precision.

    `targets` (n,) are the ratings of the side without the level and the offsets of times.
    """
    weights = precision * side.weights
    shape = len(side.counts), other.shape[1]
    noise, ridge = rng.standard_normal(shape), np.zeros(shape)
    pull = prior.precision @ prior.mean
    # The kernel adds `base` to the Gram matrix and `pull` to the right-hand side of each row's regression.
    # With `noise`, it returns a draw from the posterior of the row instead of the mode.
    return kernels.solve_rows(
        side.indptr,
        side.other_index,
        weights,
        weights * targets,
        make_features(other),
        ridge,
        base=prior.precision,
        pull=pull,
        noise=noise,
        other_offsets=np.ascontiguousarray(other[:, -1]),
    )


# The type checker verifies by this assignment that Gibbs has the methods of Iterative.
_: type[Iterative[Ratings, RatingsGiven[Draw], Draw]] = Gibbs
