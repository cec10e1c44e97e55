"""Normal–inverse-gamma: prior of a mean and a variance together; conjugate to the Gaussian."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, floats
from tamis.conjugate import normals, rates
from tamis.conjugate.distribution import broadcast_parameters
from tamis.conjugate.inverse_gamma import InverseGamma
from tamis.conjugate.normals import MeanVariance
from tamis.conjugate.prior import Prior, refuse_unless_grouped, refuse_unless_named
from tamis.conjugate.student_t import StudentT
from tamis.families.family import Size, check_generator, check_positive, set_fields
from tamis.families.normalizers import log_gamma_normalizer, log_gamma_ratio
from tamis.families.stirling import deviance
from tamis.stats import Keys, Moments

Parameters = tuple[Array, Array, Array, Array]  # location, strength, shape and scale

_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class NormalInverseGamma(Prior):
    """variance ~ InverseGamma(shape, scale), mean ~ N(location, variance / strength).

    Each column of diagonal `Moments` has a prior. The mean has `strength` pseudo-observations, but the
    variance has 2 (shape − 1), and a statistic has only one weight. So in general the prior is not equivalent
    to a statistic of pseudo-observations, and it has no `from_statistic` and `as_statistic`.

    >>> prior = NormalInverseGamma(location=0, strength=1, shape=2, scale=2)
    >>> after = prior.update(Moments.observe([1.0, 2.0, 3.0]))
    >>> float(after.mean.mean), float(after.mean.variance), float(after.predictive().freedom)
    (1.5, 1.8, 7.0)
    """

    # All arrays have the batch axes.
    location: Array
    strength: Array
    shape: Array
    scale: Array
    keys: Keys | None  # labels of the slices of the first batch axis, from a statistic by label

    def __init__(
        self,
        location: ArrayLike,
        strength: ArrayLike,
        shape: ArrayLike,
        scale: ArrayLike,
        *,
        keys: Keys | None = None,
    ) -> None:
        m, k, a, b = broadcast_parameters(
            location=normals.check_location(location),
            strength=check_positive(strength, "strength"),
            shape=check_positive(shape, "shape"),
            scale=check_positive(scale, "scale"),
        )
        refuse_unless_named(keys, m.shape[0] if m.ndim else None, "keys")
        set_fields(self, location=m, strength=k, shape=a, scale=b, keys=keys)

    @classmethod
    def from_mean(
        cls,
        mean: ArrayLike,
        strength: ArrayLike,
        variance: ArrayLike,
        variance_strength: ArrayLike | None = None,
    ) -> Self:
        """The prior under which E[mean] is `mean` and E[variance] is `variance`.

        Both have `strength` pseudo-observations; the variance has `variance_strength` instead, if that is not
        None. The posterior E[mean] is the average of the prior's `mean` and the mean of the data, weighted by
        their numbers of observations; the posterior E[variance] is such an average if the two means are
        equal.

        >>> NormalInverseGamma.from_mean(5, strength=4, variance=2).mean
        MeanVariance(mean=array(5.), variance=array(2.))
        """
        count = check_positive(strength, "strength")
        half = 0.5 * (
            count if variance_strength is None else check_positive(variance_strength, "variance_strength")
        )
        return cls(floats(mean, "mean"), count, 1.0 + half, half * check_positive(variance, "variance"))

    @classmethod
    def fit(cls, groups: Moments) -> Self:
        """Empirical Bayes: the prior under which the groups, all together, have the largest evidence.

        See `Prior.fit`. If all groups have equal means, `strength` is at its upper limit; if they have equal
        variances, `shape` is. Groups of one observation do not distinguish differences of means from
        variance; then the result is one of many priors of equal evidence. A column with one and the same
        value in all rows of all groups is refused.
        """
        normals.refuse_unless_form(groups, "diagonal", "a NormalInverseGamma")
        weight, mean, scatter = groups.weight.value, groups.mean, groups.scatter
        refuse_unless_grouped(weight)
        _refuse_constant(weight, mean, scatter)
        location, strength, freedom, scale = normals.fit(weight, mean[..., None], scatter[..., None, None])
        return cls(location[..., 0], strength, 0.5 * freedom, 0.5 * scale[..., 0, 0])

    @property
    def mean(self) -> MeanVariance:
        """E[mean] (NaN where the shape is ½ or less) and E[variance] (∞ where the shape is 1 or less)."""
        # The mean follows a Student t of 2 · shape degrees of freedom, whose expectation needs more than 1.
        location = np.where(self.shape > 0.5, self.location, np.nan)
        return MeanVariance(location, compute_expected_variance(self.shape, self.scale))

    @property
    def mode(self) -> MeanVariance:
        """The joint mode of mean and variance; the marginal mode of the variance is larger."""
        return MeanVariance(self.location, np.asarray(self.scale / (self.shape + 1.5)))

    @property
    def parameters(self) -> Parameters:
        """The location, the strength, the shape and the scale."""
        return self.location, self.strength, self.shape, self.scale

    def update(self, statistic: Moments, /) -> Self:
        normals.refuse_unless_form(statistic, "diagonal", "a NormalInverseGamma")
        shift = normals.shift_of(statistic.weight, statistic.first, self.location)
        keys = normals.combine_keys_of_moments(self, self.keys, statistic)
        weight, scatter = statistic.weight.value, statistic.scatter
        return type(self)(*update_parameters(self.parameters, weight, shift, scatter), keys=keys)

    def log_normalizer(self) -> Array:
        """The log-normalizer, with a factor (2π)^(−shape), so that each observation adds (2π)^(−½)."""
        return np.asarray(
            log_gamma_normalizer(self.shape, self.scale)
            - self.shape * _LOG_2PI
            + 0.5 * (_LOG_2PI - np.log(self.strength))
        )

    def _log_evidence(self, statistic: Moments) -> Array:
        normals.refuse_unless_form(statistic, "diagonal", "a NormalInverseGamma")
        weight = statistic.weight.value
        shift = normals.shift_of(statistic.weight, statistic.first, self.location)
        increase = compute_scale_increase(self.strength, weight, shift, statistic.scatter)
        normals.combine_keys_of_moments(self, self.keys, statistic)  # raises an error if the keys differ
        return np.asarray(
            log_gamma_ratio(self.shape, self.scale, 0.5 * weight, increase)
            - 0.5 * np.log1p(weight / self.strength)
            - 0.5 * weight * _LOG_2PI
        )

    def log_density(self, parameters: tuple[ArrayLike, ArrayLike]) -> Array:
        """The log-density at a mean and a variance; −∞ where the variance is not positive."""
        mean, variance = floats(parameters[0], "mean"), floats(parameters[1], "variance")
        inside = np.isfinite(mean) & np.isfinite(variance) & (variance > 0)
        variance_of_mean = np.where(inside, variance, 1.0) / self.strength
        with np.errstate(over="ignore"):  # where the square overflows, the density is 0
            square = np.square(np.where(inside, mean, 0.0) - self.location) / variance_of_mean
        normal = -0.5 * (_LOG_2PI + np.log(variance_of_mean) + square)
        return np.where(inside, normal + self.marginal_of_variance().log_density(variance), -np.inf)

    def marginal_of_mean(self) -> StudentT:
        """The marginal distribution of the mean."""
        return StudentT(2.0 * self.shape, self.location, np.sqrt(self.scale / self.shape / self.strength))

    def marginal_of_variance(self) -> InverseGamma:
        """The marginal distribution of the variance."""
        return InverseGamma(self.shape, self.scale)

    def interval(self, coverage: float = 0.95) -> tuple[MeanVariance, MeanVariance]:
        """Lower and upper ends of the equal-tailed intervals of mean and variance, by their marginals."""
        mean = self.marginal_of_mean().interval(coverage)
        variance = self.marginal_of_variance().interval(coverage)
        return MeanVariance(mean[0], variance[0]), MeanVariance(mean[1], variance[1])

    def predictive(self) -> StudentT:
        squared_scale = self.scale / self.shape * (1.0 + 1.0 / self.strength)
        return StudentT(2.0 * self.shape, self.location, np.sqrt(squared_scale))

    def sample(self, rng: np.random.Generator, size: Size = ()) -> MeanVariance:
        variance = self.marginal_of_variance().sample(rng, size)
        normal = check_generator(rng).standard_normal(variance.shape)
        return MeanVariance(self.location + np.sqrt(variance / self.strength) * normal, variance)

    def kl(self, other: Self) -> Array:
        step = self.strength - other.strength
        shift = np.square(self.location - other.location) * (self.shape / self.scale)
        means = deviance(self.strength, other.strength, step) / self.strength + other.strength * shift
        return np.asarray(rates.kl(self.shape, self.scale, other.shape, other.scale) + 0.5 * means)


def update_parameters(
    prior: tuple[Any, Any, Any, Any], weight: Array, shift: Array, scatter: Array
) -> Parameters:
    """The parameters after an update by observations of this weight, shift (mean − location) and scatter."""
    location, strength, shape, scale = prior
    total = strength + weight
    return (
        location + (weight / total) * shift,
        total,
        shape + 0.5 * weight,
        scale + compute_scale_increase(strength, weight, shift, scatter),
    )


def compute_scale_increase(strength: Any, weight: Array, shift: Array, scatter: Array) -> Array:
    """The increase of the scale by an update."""
    shift_weight = strength * weight / (strength + weight)
    return np.asarray(0.5 * (scatter + shift_weight * np.square(shift)))


def compute_expected_variance(shape: Array, scale: Array) -> Array:
    """E[variance]: ∞ where the shape is 1 or less."""
    infinite = shape <= 1.0
    if not infinite.any():
        return np.asarray(scale / (shape - 1.0))
    return np.where(infinite, np.inf, scale / np.where(infinite, 1.0, shape - 1.0))


def _refuse_constant(weight: Array, mean: Array, scatter: Array) -> None:
    """Raise if a column has the same value in every row of every group."""
    has_rows = weight > 0
    first = np.take_along_axis(mean, np.argmax(has_rows, axis=0)[None], axis=0)
    constant = np.atleast_1d((~has_rows | ((scatter == 0) & (mean == first))).all(axis=0))
    if constant.any():
        column = ", ".join(map(str, np.argwhere(constant)[0]))
        raise ValueError(f"column {column} is constant in all groups, expected values that vary: drop it")
