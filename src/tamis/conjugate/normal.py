"""Normal: an observation whose mean has a normal distribution, with noise of known variance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array, floats
from tamis.conjugate import normals
from tamis.conjugate.distribution import Univariate, broadcast_parameters, check_probabilities
from tamis.families.family import Size, check_generator, check_positive, set_fields

_HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class Normal(Univariate):
    """location + scale · z, with z standard normal: the prediction of a linear model with known noise.

    >>> next_one = Normal(location=10, scale=2)
    >>> [round(float(end), 3) for end in next_one.interval()], float(next_one.variance)
    ([6.08, 13.92], 4.0)
    """

    location: Array  # batch
    scale: Array  # batch

    def __init__(self, location: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> None:
        centre, width = broadcast_parameters(
            location=normals.check_location(location), scale=check_positive(scale, "scale")
        )
        set_fields(self, location=centre, scale=width)

    @property
    def mean(self) -> Array:
        return self.location

    @property
    def variance(self) -> Array:
        return np.asarray(np.square(self.scale))

    def log_density(self, x: ArrayLike) -> Array:
        value = floats(x, "x")
        inside = np.isfinite(value)
        with np.errstate(over="ignore"):  # where the square overflows, the density is 0
            square = np.square(self._standardize(np.where(inside, value, 0.0)))
        return np.where(inside, -0.5 * square - np.log(self.scale) - _HALF_LOG_2PI, -np.inf)

    def cdf(self, x: ArrayLike) -> Array:
        return np.asarray(special.ndtr(self._standardize(x)))

    def quantile(self, probability: ArrayLike) -> Array:
        return np.asarray(self.location + self.scale * special.ndtri(check_probabilities(probability)))

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        return np.asarray(
            self.location + self.scale * check_generator(rng).standard_normal(self._shape(size))
        )

    def _standardize(self, x: ArrayLike) -> Array:
        return np.asarray((floats(x, "x") - self.location) / self.scale)
