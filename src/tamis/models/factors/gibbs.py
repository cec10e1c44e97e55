"""Ratings → draws from the posterior of factors: Bayesian matrix factorisation (Salakhutdinov, Mnih 2008).

Given one side, each row of the other has the coefficients of a Bayesian linear regression, on the same
features and with the same Gram matrix as in alternating least squares; a step draws the row from its
posterior instead of taking the mode. Each side's rows have a Gaussian prior; its mean and covariance are
drawn from their posterior, a normal–inverse-Wishart distribution, and the variance of the noise from an
inverse gamma distribution. The level and the offsets of times do not change.
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
    require_factors,
    sum_squared_residuals,
)
from tamis.models.factors.ratings import GroupedRatings, Ratings
from tamis.protocols import Iterative
from tamis.stats import Moments


@dataclass(frozen=True, slots=True, eq=False)
class RowPrior:
    """The Gaussian prior of one side's rows, which have k factors and an offset."""

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

    The first draws still depend on the start. The ratings must have been divided by their standard deviation,
    because the priors of the factors and of the noise are made for ratings in this unit.
    """

    rank: int
    rng: np.random.Generator
    strength: float = 1.0  # the number of pseudo-observations in the prior of a side's mean row
    scale: float = 1.0  # prior variance of a factor, for ratings in units of their standard deviation

    def start(self, ratings: Ratings, factors: Factors) -> Draw:
        """Combine the factors with a draw of the noise; the priors of rows are flat until the first step."""
        width = self.rank + 1  # a row's factors and its offset
        flat_prior = RowPrior(np.zeros(width), np.zeros((width, width)))
        precision, rmse = self._draw_noise(ratings, factors)
        return Draw(factors, precision, flat_prior, flat_prior, rmse)

    def observe(self, data: Ratings, given: Draw | None = None) -> RatingsGiven[Draw]:
        """The ratings, given a draw; nothing is summed yet."""
        last_draw = require_factors(given)
        return RatingsGiven(data, last_draw)

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
        # The users' targets still hold: a draw changes neither the level nor the offsets of times.
        precision, rmse = self._draw_noise(ratings, factors, user_targets)
        return Draw(factors, precision, user_prior, item_prior, rmse)

    def objective(self, statistic: RatingsGiven[Draw]) -> float:
        """The RMSE of the ratings at the draw that was given to `observe`; it may rise from draw to draw."""
        return statistic.posterior.rmse

    def _draw_prior(self, rows: Array) -> RowPrior:
        """Draw the mean and the precision of the prior of one side's rows, given the rows."""
        width = self.rank + 1  # a row's factors and its offset
        # With this freedom, the least whole number for which it is finite, the mean covariance is the scale.
        prior = NormalInverseWishart(
            np.zeros(width), self.strength, freedom=width + 2.0, scale=self.scale * np.eye(width)
        )
        with threads.one_blas_thread:  # otherwise sums, and thus draws, depend on the number of BLAS threads
            gaussian = prior.update(Moments.observe(rows, form="full")).sample(self.rng)
            precision = Cholesky.of(gaussian.covariance, "covariance of the factors").inverse()
            return RowPrior(gaussian.mean, precision)

    def _draw_noise(
        self, ratings: Ratings, factors: Factors, targets: Array | None = None
    ) -> tuple[float, float]:
        """Draw the precision of the noise; return it and the RMSE of the ratings.

        `targets` are those of `ratings.by_user`, as in `draw_rows`; None: they are computed here.
        """
        squares, weight = sum_squared_residuals(ratings, factors, targets), ratings.total_weight
        # The prior of the noise's variance is an inverse gamma distribution of shape 1/2 and scale 1/2, for
        # ratings in units of their standard deviation.
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
    shape = len(side.counts), other.shape[1]  # of the result: `counts` has the number of ratings of each row
    noise = rng.standard_normal(shape)
    no_ridge = np.zeros(shape)  # the prior's precision takes the place of a ridge
    pull = prior.precision @ prior.mean
    # The kernel adds `base` to the Gram matrix and `pull` to the right-hand side of each row's regression.
    # With `noise`, it returns a draw from the posterior of the row instead of the mode.
    return kernels.solve_rows(
        side.indptr,  # where the ratings of each row begin
        side.other_index,  # the row of `other` that each rating belongs to
        weights,
        weights * targets,
        make_features(other),  # the factors of `other`, and a one for the offset that is drawn
        no_ridge,
        base=prior.precision,
        pull=pull,
        noise=noise,
        other_offsets=np.ascontiguousarray(other[:, -1]),  # the kernel subtracts them from the targets
    )


# The type checker verifies by this assignment that Gibbs has the methods of Iterative.
_: type[Iterative[Ratings, RatingsGiven[Draw], Draw]] = Gibbs
