"""Normal–inverse-Wishart: prior of a mean and a covariance; conjugate to the multivariate Gaussian."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, floats
from tamis.conjugate import normals
from tamis.conjugate.inverse_gamma import InverseGamma
from tamis.conjugate.multivariate_t import MultivariateT
from tamis.conjugate.normals import MeanCovariance, MeanVariance, MomentsAboutPrior
from tamis.conjugate.prior import Prior, refuse_unless_named
from tamis.families.family import (
    Size,
    check_generator,
    check_positive,
    check_vectors,
    freeze_parameter,
    set_fields,
)
from tamis.families.stirling import bregman, deviance
from tamis.linalg import Cholesky, symmetrize
from tamis.stats import Keys, Moments

_LOG_PI = float(np.log(np.pi))
_LOG_2PI = float(np.log(2.0 * np.pi))
_LARGEST_ERROR = 0.1  # of a log-determinant: with a larger one, a covariance has at most one correct digit
_TOO_FAR = "the data are too far from the location for the precision of float64, put the location near them"


@dataclass(frozen=True, slots=True, eq=False)
class NormalInverseWishart(Prior):
    """covariance ~ InverseWishart(freedom, scale), mean ~ N(location, covariance / strength).

    The mean has `strength` pseudo-observations, but the covariance has `freedom` − d − 1, and a statistic has
    only one weight. So in general the prior is not equivalent to a statistic of pseudo-observations, and it
    has no `from_statistic` and `as_statistic`. The freedom must be above d − 1.

    The evidence is accurate however far the data are from the location. The scale of a posterior is not: it
    contains the square of that distance. At a distance of 1e4 standard deviations, only half of the digits of
    float64 are left for the covariance, and from 1e8 on none; then `update` raises an error.

    >>> prior = NormalInverseWishart.from_mean([0, 0], strength=2, covariance=np.eye(2))
    >>> after = prior.update(Moments.observe([[1.0, 0.0], [3.0, 4.0]], form="full"))
    >>> after.mean.mean.tolist(), after.mean.covariance.tolist()
    ([1.0, 1.0], [[2.0, 2.0], [2.0, 3.5]])
    """

    location: Array  # batch + (d,)
    strength: Array  # batch
    freedom: Array  # batch
    scale: Array  # batch + (d, d)
    keys: Keys | None  # labels of the slices of the first batch axis, from a statistic by label
    factor: Cholesky = field(repr=False)  # of the scale

    def __init__(
        self,
        location: ArrayLike,
        strength: ArrayLike,
        freedom: ArrayLike,
        scale: ArrayLike,
        *,
        keys: Keys | None = None,
    ) -> None:
        centre, matrix, lower = normals.check_location_and_scale(location, scale)
        k = freeze_parameter(check_positive(strength, "strength"), "strength")
        nu = freeze_parameter(check_positive(freedom, "freedom"), "freedom")
        d = centre.shape[-1]
        if not (nu > d - 1).all():
            raise ValueError(f"got a freedom of {nu.min()}, expected above d − 1 = {d - 1}")
        batch = np.broadcast_shapes(centre.shape[:-1], k.shape, nu.shape, matrix.shape[:-2])
        refuse_unless_named(keys, batch[0] if batch else None, "keys")
        set_fields(
            self,
            location=np.broadcast_to(centre, (*batch, d)),
            strength=np.broadcast_to(k, batch),
            freedom=np.broadcast_to(nu, batch),
            scale=np.broadcast_to(matrix, (*batch, d, d)),
            keys=keys,
            factor=Cholesky(np.broadcast_to(lower, (*batch, d, d))),
        )

    @classmethod
    def from_mean(
        cls,
        mean: ArrayLike,
        strength: ArrayLike,
        covariance: ArrayLike,
        covariance_strength: ArrayLike | None = None,
    ) -> Self:
        """The prior with this mean and mean covariance, equivalent to `strength` pseudo-observations.

        The covariance has `covariance_strength` pseudo-observations instead, if that is not None. The
        posterior mean of each is the average of prior and data, weighted by their numbers of observations.
        """
        centre, matrix, count = (
            floats(mean, "mean"),
            floats(covariance, "covariance"),
            check_positive(strength, "strength"),
        )
        nu = (
            count
            if covariance_strength is None
            else check_positive(covariance_strength, "covariance_strength")
        )
        if centre.ndim == 0 or matrix.shape[-2:] != (centre.shape[-1],) * 2:
            raise ValueError(
                f"got a mean of shape {centre.shape} and a covariance of shape {matrix.shape}, "
                "expected (..., d) and (..., d, d)"
            )
        return cls(centre, count, centre.shape[-1] + 1.0 + nu, nu[..., None, None] * matrix)

    @classmethod
    def fit(cls, groups: Moments) -> Self:
        """Empirical Bayes: the prior under which the groups, all together, have the largest evidence.

        See `Prior.fit`. If all groups have equal means, `strength` is at its upper limit; if they have equal
        covariances, `freedom` is. Groups of one observation do not distinguish differences of means from
        covariance: then the result is one of many priors of equal evidence. The covariance of all rows
        together must have full rank.
        """
        normals.refuse_unless_form(groups, "full", "a NormalInverseWishart")
        return cls(*normals.fit(groups.weight.value, groups.mean, groups.scatter))

    @property
    def batch(self) -> tuple[int, ...]:
        return self.strength.shape

    @property
    def dimension(self) -> int:
        """d, the length of the mean."""
        return int(self.location.shape[-1])

    @property
    def mean(self) -> MeanCovariance:
        """E[mean], NaN for a freedom of d or less; E[covariance], infinite for d + 1 or less.

        An infinite covariance has ∞ on its diagonal, and NaN elsewhere.
        """
        divisor = self.freedom - (self.dimension + 1.0)
        factor = np.where(divisor > 0, 1.0 / np.where(divisor > 0, divisor, 1.0), np.inf)
        return MeanCovariance(self.marginal_of_mean().mean, normals.scale_matrix(factor, self.scale))

    @property
    def mode(self) -> MeanCovariance:
        """The joint mode of mean and covariance."""
        factor = 1.0 / (self.freedom + self.dimension + 2.0)
        return MeanCovariance(self.location, factor[..., None, None] * self.scale)

    def update(self, statistic: Moments, /) -> Self:
        data = self._centre_moments(statistic)
        keys = normals.combine_keys_of_moments(self, self.keys, statistic)
        total = self.strength + data.weight
        scale = self.scale + data.growth
        determinant = Cholesky.of(scale, "scale matrix after the update", _TOO_FAR).log_determinant()
        rise = normals.scale_rise(self.factor, self.scale, data)
        if (np.abs(determinant - self.factor.log_determinant() - rise) > _LARGEST_ERROR).any():
            raise ValueError(f"the scale matrix after the update is lost to rounding: {_TOO_FAR}")
        return type(self)(
            self.location + (data.weight / total)[..., None] * data.shift,
            total,
            self.freedom + data.weight,
            scale,
            keys=keys,
        )

    def _centre_moments(self, statistic: Moments) -> MomentsAboutPrior:
        normals.refuse_unless_form(statistic, "full", "a NormalInverseWishart")
        if statistic.first.shape[-1] != self.dimension:
            raise ValueError(
                f"got Moments of {statistic.first.shape[-1]} columns, expected the prior's {self.dimension}"
            )
        weight = statistic.weight.reindex(lambda words: words[..., None])
        shift = normals.shift_of(weight, statistic.first, self.location)
        return normals.centre_moments(self.strength, statistic.weight.value, shift, statistic.scatter)

    def log_normalizer(self) -> Array:
        """The log-normalizer, including the factor (2π)^(−d/2) of each of `freedom` pseudo-observations."""
        d = self.dimension
        return np.asarray(
            normals.log_multigamma(0.5 * self.freedom, d)
            - 0.5 * self.freedom * (self.factor.log_determinant() + d * _LOG_PI)
            + 0.5 * d * (_LOG_2PI - np.log(self.strength))
        )

    def _log_evidence(self, statistic: Moments) -> Array:
        data = self._centre_moments(statistic)
        normals.combine_keys_of_moments(self, self.keys, statistic)  # raises an error if the keys differ
        return normals.log_evidence(self.strength, self.freedom, self.scale, self.factor, data)

    def log_density(self, parameters: tuple[ArrayLike, ArrayLike]) -> Array:
        """The log-density at a mean (..., d) and a covariance (..., d, d).

        It is −∞ if the covariance is not positive definite.
        """
        d, nu = self.dimension, self.freedom
        mean = check_vectors(parameters[0], d, "mean")
        covariance = symmetrize(floats(parameters[1], "covariance"), "covariance")
        if covariance.shape[-1] != d:
            raise ValueError(f"got a covariance of shape {covariance.shape}, expected (..., {d}, {d})")
        factor, inside = Cholesky.factorise_definite(covariance)
        inside = inside & np.isfinite(mean).all(axis=-1)
        mean = np.where(inside[..., None], mean, self.location)
        determinant = factor.log_determinant()
        normal = -0.5 * (
            d * (_LOG_2PI - np.log(self.strength))
            + determinant
            + self.strength * factor.quadratic(mean - self.location)
        )
        trace = np.trace(factor.solve(self._broadcast_scale(determinant)), axis1=-2, axis2=-1)
        wishart = (
            0.5 * (nu * (self.factor.log_determinant() - determinant) - trace) - 0.5 * (d + 1) * determinant
        )
        constant = normals.log_multigamma(0.5 * nu, d) + 0.5 * nu * d * float(np.log(2.0))
        return np.where(inside, normal + wishart - constant, -np.inf)

    def _broadcast_scale(self, batch: Array) -> Array:
        """The scale, broadcast to the shape of a batch of draws."""
        shape = np.broadcast_shapes(batch.shape, self.batch)
        return np.broadcast_to(self.scale, (*shape, self.dimension, self.dimension))

    def marginal_of_mean(self) -> MultivariateT:
        """The marginal distribution of the mean."""
        freedom = self.freedom - (self.dimension - 1.0)
        return MultivariateT(freedom, self.location, self.scale / (freedom * self.strength)[..., None, None])

    def marginal_of_variances(self) -> InverseGamma:
        """The marginal distribution of each coordinate's variance, a batch (*batch, d)."""
        shape = 0.5 * (self.freedom - (self.dimension - 1.0))
        return InverseGamma(shape[..., None], 0.5 * np.diagonal(self.scale, axis1=-2, axis2=-1))

    def interval(self, coverage: float = 0.95) -> tuple[MeanVariance, MeanVariance]:
        """Lower and upper ends of equal-tailed intervals of each mean and variance (*batch, d)."""
        mean = self.marginal_of_mean().marginals().interval(coverage)
        variance = self.marginal_of_variances().interval(coverage)
        return MeanVariance(mean[0], variance[0]), MeanVariance(mean[1], variance[1])

    def predictive(self) -> MultivariateT:
        freedom = self.freedom - (self.dimension - 1.0)
        factor = (1.0 + 1.0 / self.strength) / freedom
        return MultivariateT(freedom, self.location, factor[..., None, None] * self.scale)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> MeanCovariance:
        d, shape, rng = self.dimension, self._shape(size), check_generator(rng)
        # Bartlett's decomposition: a standard Wishart matrix is AAᵀ, and for the scale LLᵀ the covariance is
        # L(AAᵀ)⁻¹Lᵀ.
        bartlett = np.zeros((*shape, d, d))
        rows, columns = np.tril_indices(d, -1)
        bartlett[..., rows, columns] = rng.standard_normal((*shape, len(rows)))
        diagonal = np.arange(d)
        squares = rng.chisquare(self.freedom[..., None] - diagonal, size=(*shape, d))
        bartlett[..., diagonal, diagonal] = np.sqrt(squares)
        root = Cholesky(bartlett[..., None, :, :]).whiten(np.broadcast_to(self.factor.lower, bartlett.shape))
        normal = (root @ rng.standard_normal((*shape, d, 1)))[..., 0]
        covariance = root @ np.swapaxes(root, -1, -2)
        return MeanCovariance(self.location + normal / np.sqrt(self.strength)[..., None], covariance)

    def kl(self, other: Self) -> Array:
        d, half, other_half = self.dimension, 0.5 * self.freedom, 0.5 * other.freedom
        shift = self.freedom * other.strength * self.factor.quadratic(self.location - other.location)
        means = (
            d * deviance(self.strength, other.strength, self.strength - other.strength) / self.strength
            + shift
        )
        # The divergence of the Wishart distributions is that of the scales for equal freedoms, plus that of
        # the freedoms.
        step = (half / other_half)[..., None, None] * other.scale - self.scale
        ratio = self.factor.solve(np.broadcast_to(step, np.broadcast_shapes(step.shape, self.scale.shape)))
        scales = np.trace(ratio, axis1=-2, axis2=-1) - normals.log_determinant_rise(
            self.factor, self.scale, step
        )
        # The arguments of the d gamma functions in the normalizer of each Wishart distribution.
        x, y = (value[..., None] - 0.5 * np.arange(d) for value in (half, other_half))
        freedoms = (deviance(y, x, y - x) + bregman(y, x)).sum(axis=-1)
        freedoms = freedoms - d * deviance(other_half, half, other_half - half)
        # A divergence is never negative, except by rounding.
        return np.asarray(np.maximum(0.5 * means + other_half * scales + freedoms, 0.0))
