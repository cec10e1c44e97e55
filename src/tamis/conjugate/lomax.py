"""Lomax: an exponential waiting time whose rate has a gamma distribution."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, floats
from tamis.conjugate.distribution import Univariate, broadcast_parameters, check_probabilities
from tamis.families.family import Size, check_generator, check_positive, set_fields


@dataclass(frozen=True, slots=True, eq=False)
class Lomax(Univariate):
    """An exponential waiting time, with a rate drawn once from Gamma(shape, rate=scale).

    With a shape of 1 or less the mean is infinite, with 2 or less the variance is.

    >>> wait = Lomax(3, 4)
    >>> float(wait.mean), float(wait.variance), round(float(wait.quantile(0.5)), 4)
    (2.0, 12.0, 1.0397)
    """

    shape: Array  # batch
    scale: Array  # batch

    def __init__(self, shape: ArrayLike, scale: ArrayLike) -> None:
        a, b = broadcast_parameters(
            shape=check_positive(shape, "shape"), scale=check_positive(scale, "scale")
        )
        set_fields(self, shape=a, scale=b)

    @property
    def mean(self) -> Array:
        return np.where(self.shape > 1, self.scale / np.where(self.shape > 1, self.shape - 1.0, 1.0), np.inf)

    @property
    def variance(self) -> Array:
        finite = self.shape > 2
        a = np.where(finite, self.shape, 3.0)
        return np.where(finite, np.square(self.scale / (a - 1.0)) * (a / (a - 2.0)), np.inf)

    def log_density(self, x: ArrayLike) -> Array:
        value = floats(x, "x")
        inside = np.log(self.shape / self.scale) - (self.shape + 1.0) * self._log1p_ratio(value)
        return np.where(value >= 0, inside, -np.inf)

    def cdf(self, x: ArrayLike) -> Array:
        return np.asarray(-np.expm1(-self.shape * self._log1p_ratio(floats(x, "x"))))

    def quantile(self, probability: ArrayLike) -> Array:
        p = check_probabilities(probability)
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(self.scale * np.expm1(-np.log1p(-p) / self.shape))

    def _log1p_ratio(self, x: Array) -> Array:
        """log(1 + x / scale); 0 where x is negative."""
        return np.asarray(np.log1p(np.maximum(x, 0.0) / self.scale))

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        waits = check_generator(rng).standard_exponential(self._shape(size))
        with np.errstate(over="ignore"):
            return np.asarray(self.scale * np.expm1(waits / self.shape))
