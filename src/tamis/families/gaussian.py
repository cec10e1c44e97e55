"""Gaussian: a real number. T(x) = (x, x²), A(η) = −η₁²/(4η₂) − ½ log(−2η₂)."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, floats
from tamis.families.family import Family, Size
from tamis.stats import Moments

_LOG_TAU = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian(Family):
    """A normal distribution with the given mean and variance.

    The density, entropy and divergence are computed from (x − μ)/σ: in natural parameters they would be
    differences of numbers as large as μ²/σ².

    >>> heights = Gaussian(0, 1).observe([1.0, 2.0, 3.0])
    >>> fitted = Gaussian(0, 1).fit(heights)
    >>> float(fitted.mean), round(float(fitted.variance), 6)
    (2.0, 0.666667)
    """

    mean: Array  # batch
    variance: Array  # batch

    def __init__(self, mean: ArrayLike, variance: ArrayLike) -> None:
        mu, sigma2 = np.broadcast_arrays(floats(mean, "mean"), floats(variance, "variance"))
        if not (sigma2 > 0).all():
            raise ValueError(f"got a variance of {sigma2.min()}, expected above zero")
        object.__setattr__(self, "mean", mu)
        object.__setattr__(self, "variance", sigma2)

    @property
    def batch(self) -> tuple[int, ...]:
        return self.mean.shape

    def sufficient(self, x: ArrayLike) -> Array:
        value = floats(x, "x")
        return np.stack([value, value * value], axis=-1)

    def log_base(self, x: ArrayLike) -> Array:
        return np.full(np.shape(x), -0.5 * _LOG_TAU)

    def log_partition(self, natural: ArrayLike) -> Array:
        eta = floats(natural, "natural")
        return np.asarray(-0.25 * eta[..., 0] ** 2 / eta[..., 1] - 0.5 * np.log(-2.0 * eta[..., 1]))

    def mean_of(self, natural: ArrayLike) -> Array:
        member = self.with_natural(natural)
        return np.stack([member.mean, member.mean**2 + member.variance], axis=-1)

    def natural_of(self, mean: ArrayLike) -> Array:
        return self.with_mean(mean).natural

    @property
    def natural(self) -> Array:
        return np.stack([self.mean / self.variance, -0.5 / self.variance], axis=-1)

    def with_natural(self, natural: ArrayLike) -> Self:
        eta = floats(natural, "natural")
        variance = -0.5 / eta[..., 1]
        return type(self)(eta[..., 0] * variance, variance)

    def with_mean(self, mean: ArrayLike) -> Self:
        mu = floats(mean, "mean")
        return type(self)(mu[..., 0], mu[..., 1] - mu[..., 0] ** 2)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        shape = (size,) if isinstance(size, int) else size
        return np.asarray(self.mean + np.sqrt(self.variance) * rng.standard_normal((*shape, *self.batch)))

    def expected_log_base(self) -> Array:
        return np.full(self.batch, -0.5 * _LOG_TAU)

    def log_density(self, x: ArrayLike) -> Array:
        deviation = floats(x, "x") - self.mean
        return np.asarray(-0.5 * (_LOG_TAU + np.log(self.variance) + deviation**2 / self.variance))

    def entropy(self) -> Array:
        return np.asarray(0.5 * (1.0 + _LOG_TAU + np.log(self.variance)))

    def kl(self, other: Self) -> Array:
        ratio = self.variance / other.variance
        step = (self.mean - other.mean) ** 2 / other.variance
        return np.asarray(0.5 * (ratio - 1.0 - np.log(ratio) + step))

    def observe(self, x: object, weights: object = None, by: object = None) -> Moments:
        """One Gaussian a column: x is (n,) or (n, columns)."""
        return Moments.observe(x, weights, by)

    def fit(self, statistic: Any) -> Self:
        return type(self)(statistic.mean, statistic.variance)
