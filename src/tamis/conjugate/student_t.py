"""Student t: a normal observation whose mean and variance have a normal–inverse-gamma distribution."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array, floats
from tamis.conjugate import normals
from tamis.conjugate.distribution import Univariate, broadcast_parameters, check_probabilities
from tamis.families.family import Size, check_generator, check_positive, set_fields
from tamis.families.stirling import log_rising

_LOG_PI = float(np.log(np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class StudentT(Univariate):
    """location + scale · t, where t has a t distribution with `freedom` degrees of freedom.

    With a freedom of 2 or less the variance is infinite; with 1 or less mean and variance are undefined, NaN.

    >>> next_one = StudentT(5, location=10, scale=2)
    >>> [round(float(end), 3) for end in next_one.interval()], round(float(next_one.variance), 4)
    ([4.859, 15.141], 6.6667)
    """

    freedom: Array  # batch
    location: Array  # batch
    scale: Array  # batch

    def __init__(self, freedom: ArrayLike, location: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> None:
        nu, centre, width = broadcast_parameters(
            freedom=check_positive(freedom, "freedom"),
            location=normals.check_location(location),
            scale=check_positive(scale, "scale"),
        )
        set_fields(self, freedom=nu, location=centre, scale=width)

    @property
    def mean(self) -> Array:
        return np.where(self.freedom > 1, self.location, np.nan)

    @property
    def variance(self) -> Array:
        finite = self.freedom > 2
        factor = self.freedom / np.where(finite, self.freedom - 2.0, 1.0)
        infinite = np.where(self.freedom > 1, np.inf, np.nan)
        return np.where(finite, np.square(self.scale) * factor, infinite)

    def log_density(self, x: ArrayLike) -> Array:
        value = floats(x, "x")
        inside = np.isfinite(value)
        deviation = np.abs(self._standardize(np.where(inside, value, 0.0))) / np.sqrt(self.freedom)
        density = (
            log_t_normalizer(self.freedom, 1)
            - np.log(self.scale)
            - 0.5 * (self.freedom + 1.0) * log_one_plus_square(deviation)
        )
        return np.where(inside, density, -np.inf)

    def cdf(self, x: ArrayLike) -> Array:
        return np.asarray(special.stdtr(self.freedom, self._standardize(x)))

    def quantile(self, probability: ArrayLike) -> Array:
        return np.asarray(
            self.location + self.scale * special.stdtrit(self.freedom, check_probabilities(probability))
        )

    def _standardize(self, x: ArrayLike) -> Array:
        return np.asarray((floats(x, "x") - self.location) / self.scale)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        return np.asarray(
            self.location + self.scale * check_generator(rng).standard_t(self.freedom, size=self._shape(size))
        )


def log_t_normalizer(freedom: Array, d: int) -> Array:
    """log Γ((ν + d)/2) − log Γ(ν/2) − d/2 log(νπ): the log-normalizer of a t density in d dimensions."""
    half = 0.5 * freedom
    return np.asarray(log_rising(half, np.asarray(0.5 * d)) - 0.5 * d * (np.log(freedom) + _LOG_PI))


def log_one_plus_square(x: Array) -> Array:
    """log(1 + x²) for x ≥ 0, even if x² would overflow."""
    small = np.minimum(x, 1e10)
    with np.errstate(divide="ignore"):
        return np.where(x < 1e10, np.log1p(np.square(small)), 2.0 * np.log(x))
