"""Gaussian: a real number. T(x) = (x, x²), A(η) = −η₁²/(4η₂) − ½ log(−2η₂)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats, is_frame, to_numpy
from tamis.families.conjugacy import ConjugateFamily
from tamis.families.family import check_statistic, freeze_parameter, set_fields
from tamis.families.normalizers import log_gamma_normalizer, log_gamma_ratio
from tamis.families.stirling import LOG_2PI, log1p_gap
from tamis.stats import Moments

_MIN_VARIANCE = 1e-300  # columns of no larger variance count as constant; larger variances have an inverse


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian(ConjugateFamily):
    """A normal distribution with the given mean and variance.

    The density, entropy and divergence are computed from (x − μ)/σ: in natural parameters they would be
    differences of numbers as large as μ²/σ². If the variance is small compared with μ², it is lost to
    rounding in the mean parameters (μ, μ² + σ²), but not in natural parameters or in the statistic.

    The conjugate prior is normal–inverse-gamma. With ν pseudo-observations of mean m and variance v, μ is
    normal with mean m and variance σ²/ν, and σ² is inverse-gamma with shape 1 + ν/2 and mean v. Its density
    of (μ, σ²) is proportional to exp(η·τ − νA(η)) / σ⁵; as a density of η it would have σ⁶, and another mean.

    >>> heights = Gaussian(0, 1).observe([1.0, 2.0, 3.0])
    >>> fitted = Gaussian(0, 1).fit(heights)
    >>> float(fitted.mean), round(float(fitted.variance), 6)
    (2.0, 0.666667)
    """

    discrete: ClassVar[bool] = False
    log_base_constant: ClassVar[float] = -0.5 * LOG_2PI

    mean: Array  # batch
    variance: Array  # batch

    def __init__(self, mean: ArrayLike, variance: ArrayLike) -> None:
        mu, sigma2 = np.broadcast_arrays(
            freeze_parameter(mean, "mean"), freeze_parameter(variance, "variance")
        )
        refuse_unless_gaussian(mu, sigma2)
        set_fields(self, mean=mu, variance=sigma2)

    @property
    def support(self) -> str:
        return "a finite number"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        return np.isfinite(floats(x, "x"))

    def sufficient(self, x: ArrayLike) -> Array:
        value = floats(x, "x")
        return np.stack([value, value * value], axis=-1)

    def log_partition(self, natural: ArrayLike) -> Array:
        eta = floats(natural, "natural")
        return quadratic_partition(eta[..., 0], eta[..., 1])

    @property
    def natural(self) -> Array:
        return np.stack([self.mean / self.variance, -0.5 / self.variance], axis=-1)

    @property
    def mean_parameters(self) -> Array:
        return np.stack([self.mean, self.mean**2 + self.variance], axis=-1)

    def with_natural(self, natural: ArrayLike) -> Self:
        eta = floats(natural, "natural")
        variance = variance_of(eta[..., 1])
        return type(self)(eta[..., 0] * variance, variance)

    def with_mean(self, mean: ArrayLike) -> Self:
        mu = floats(mean, "mean")
        return type(self)(mu[..., 0], mu[..., 1] - mu[..., 0] ** 2)

    def log_prior_normalizer(self, weight: Array, total: Array) -> Array:
        shape, scale = 1.0 + 0.5 * weight, 0.5 * _scatter_of(weight, total)
        return np.asarray(log_gamma_normalizer(shape, scale) + 0.5 * (LOG_2PI - np.log(weight)))

    def log_evidence(self, prior_weight: Array, prior_total: Array, weight: Array, total: Array) -> Array:
        n = np.where(weight > 0, weight, 1.0)
        shift = np.where(weight > 0, total[..., 0] / n - prior_total[..., 0] / prior_weight, 0.0)
        between = weight * prior_weight / (weight + prior_weight) * np.square(shift)
        added_scale = 0.5 * (_scatter_of(n, total) + between)
        shape, scale = 1.0 + 0.5 * prior_weight, 0.5 * _scatter_of(prior_weight, prior_total)
        ratio = log_gamma_ratio(shape, scale, 0.5 * weight, added_scale)
        return np.asarray(ratio - 0.5 * np.log1p(weight / prior_weight))

    def prior_mode(self, weight: Array, total: Array) -> Self:
        # The density of (μ, σ²) at μ = m is proportional to σ^−(ν + 5) exp(−scatter / (2σ²)).
        return type(self)(total[..., 0] / weight, _scatter_of(weight, total) / (weight + 5.0))

    def sample_prior(self, rng: np.random.Generator, weight: Array, total: Array) -> Self:
        variance = 0.5 * _scatter_of(weight, total) / rng.standard_gamma(1.0 + 0.5 * weight)
        noise = np.sqrt(variance / weight) * rng.standard_normal(weight.shape)
        return type(self)(total[..., 0] / weight + noise, variance)

    def prior_mean(self, weight: Array, total: Array) -> Self:
        return type(self)(total[..., 0] / weight, _scatter_of(weight, total) / weight)

    def default_prior(self, strength: float, weight: Array, total: Array) -> tuple[Array, Array]:
        """A prior with the mean and variance of all observations; a constant column has a variance of 1."""
        n = np.where(weight > 0, weight, 1.0)
        mean, variance = total[..., 0] / n, _scatter_of(n, total) / n
        variance = np.where(variance > _MIN_VARIANCE, variance, 1.0)
        sums = np.stack([mean, np.square(mean) + variance], axis=-1)
        return np.full(weight.shape, float(strength)), strength * sums

    def is_possible(self, weight: Array, total: Array) -> NDArray[np.bool_]:
        smallest = np.square(total[..., 0]) * (1.0 - 1e-9)  # of weight · Σx², with a tolerance for rounding
        return np.asarray((weight >= 0) & (total[..., 1] >= 0) & (weight * total[..., 1] >= smallest))

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.mean + np.sqrt(self.variance) * rng.standard_normal(shape))

    def log_density(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        with np.errstate(over="ignore"):  # where the square overflows, the density is 0
            square = ((np.where(inside, floats(x, "x"), 0.0) - self.mean) / np.sqrt(self.variance)) ** 2
        return np.where(inside, -0.5 * (LOG_2PI + np.log(self.variance) + square), -np.inf)

    def entropy(self) -> Array:
        return np.asarray(0.5 * (1.0 + LOG_2PI + np.log(self.variance)))

    def _kl(self, other: Self) -> Array:
        ratio = log1p_gap((self.variance - other.variance) / other.variance)
        step = (self.mean - other.mean) ** 2 / other.variance
        return np.asarray(0.5 * (ratio + step))

    def observe(self, x: object, weights: object = None, by: object = None) -> Moments:
        """Sum the moments of each column of x, which is (n,) or (n, *columns)."""
        return observe_columns(x, weights, by)

    def fit(self, statistic: Any) -> Self:
        return type(self)(check_statistic(statistic, Moments).mean, statistic.variance)


def _scatter_of(weight: Array, total: Array) -> Array:
    """Σ(x − mean)² of observations of this weight, from Σx and Σx²."""
    return np.maximum(total[..., 1] - np.square(total[..., 0]) / weight, 0.0)


def refuse_unless_gaussian(mean: Array, variance: Array) -> None:
    """Raise unless all means are finite, and all variances finite and above zero."""
    if not np.isfinite(mean).all():
        raise ValueError(f"got a mean of {mean[~np.isfinite(mean)][0]}, expected a finite number")
    invalid = ~(np.isfinite(variance) & (variance > 0))
    if invalid.any():
        raise ValueError(
            f"got a variance of {variance[invalid][0]}, expected a finite number above zero: "
            "give more rows, or set a prior"
        )


def variance_of(eta: Array) -> Array:
    """The variance σ² whose natural parameter −1/(2σ²) is η."""
    if not (eta < 0).all():
        raise ValueError(f"got a natural parameter of {eta.max()} for x², expected below zero")
    return np.asarray(-0.5 / eta)


def quadratic_partition(first: Array, second: Array) -> Array:
    """A(η) of univariate Gaussians, from arrays of η₁ and of η₂; ∞ unless η₂ < 0."""
    inside = second < 0
    eta = np.where(inside, second, -1.0)
    return np.where(inside, -0.25 * first**2 / eta - 0.5 * np.log(-2.0 * eta), np.inf)


def observe_columns(x: object, weights: object, by: object) -> Moments:
    """Sum data (n, *columns) to diagonal moments, whose sums have the shape of the columns."""
    values: Any = x if is_frame(x) else to_numpy(x)
    columns = np.shape(values)[1:]
    if len(columns) <= 1:
        return Moments.observe(values, weights, by)
    moments = Moments.observe(np.reshape(values, (len(values), -1)), weights, by)
    parts: dict[str, Any] = {
        name: part.reindex(lambda words: words.reshape(*words.shape[:-1], *columns))
        for name, part in moments.parts().items()
    }
    return replace(moments, **parts)
