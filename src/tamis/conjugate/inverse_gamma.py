"""Inverse gamma: distribution of a variance whose inverse has a gamma distribution."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array, floats
from tamis.conjugate import rates
from tamis.conjugate.distribution import Univariate, broadcast_parameters, check_probabilities
from tamis.families.family import Size, check_generator, check_positive, set_fields


@dataclass(frozen=True, slots=True, eq=False)
class InverseGamma(Univariate):
    """The distribution of 1 / x, where x has the distribution Gamma(shape, rate=scale).

    With a shape of 1 or less the mean is infinite, with 2 or less the variance is.

    >>> float(InverseGamma(3, 4).mean), float(InverseGamma(3, 4).mode), float(InverseGamma(3, 4).variance)
    (2.0, 1.0, 4.0)
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
    def mode(self) -> Array:
        """The most probable value."""
        return np.asarray(self.scale / (self.shape + 1.0))

    @property
    def variance(self) -> Array:
        finite = self.shape > 2
        a = np.where(finite, self.shape, 3.0)
        return np.where(finite, np.square(self.scale / (a - 1.0)) / (a - 2.0), np.inf)

    def log_density(self, x: ArrayLike) -> Array:
        value = floats(x, "x")
        inside = (value > 0) & np.isfinite(value)
        v = np.where(inside, value, 1.0)
        # The density of v is that of 1 / v, divided by v².
        density = rates.log_density(self.shape, self.scale, 1.0 / v) - 2.0 * np.log(v)
        return np.where(inside, density, -np.inf)

    def cdf(self, x: ArrayLike) -> Array:
        value = floats(x, "x")
        below = special.gammaincc(self.shape, self.scale / np.where(value > 0, value, 1.0))
        return np.where(value > 0, below, 0.0)

    def quantile(self, probability: ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(self.scale / special.gammainccinv(self.shape, check_probabilities(probability)))

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(
                self.scale / check_generator(rng).standard_gamma(self.shape, size=self._shape(size))
            )
