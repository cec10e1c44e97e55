"""Negative binomial: a Poisson count whose rate has a gamma distribution."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array, floats
from tamis.conjugate.distribution import Counting, broadcast_parameters, mask_counts
from tamis.families.family import Size, check_generator, check_positive, set_fields
from tamis.families.stirling import deviance, factorial_remainder, remainder

_MAX_MEAN = 1e15  # counts of larger means are drawn from a normal distribution: their skewness is below 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class NegativeBinomial(Counting):
    """A Poisson count with a mean drawn from Gamma(shape, rate).

    SciPy's nbinom(n, p) is the same with n = shape and p = rate / (1 + rate).

    >>> calls = NegativeBinomial(3, 1.5)
    >>> float(calls.mean), round(float(calls.variance), 4), float(calls.quantile(0.5))
    (2.0, 3.3333, 2.0)
    """

    shape: Array  # batch
    rate: Array  # batch

    def __init__(self, shape: ArrayLike, rate: ArrayLike) -> None:
        a, b = broadcast_parameters(shape=check_positive(shape, "shape"), rate=check_positive(rate, "rate"))
        set_fields(self, shape=a, rate=b)

    @property
    def mean(self) -> Array:
        return np.asarray(self.shape / self.rate)

    @property
    def variance(self) -> Array:
        return np.asarray(self.mean * (1.0 + 1.0 / self.rate))

    def log_density(self, x: ArrayLike) -> Array:
        inside, k = mask_counts(x)
        a, b = self.shape, self.rate
        step = (a - k * b) / (1.0 + b)  # a − (a + k) b / (1 + b)
        loss = deviance(a, (a + k) * (b / (1.0 + b)), step) + deviance(k, (a + k) / (1.0 + b), -step)
        mass = remainder(a + k) - remainder(a) - factorial_remainder(k) - loss
        return np.where(inside, mass, -np.inf)

    def cdf(self, x: ArrayLike) -> Array:
        k = np.floor(floats(x, "x"))
        inside = (k >= 0) & np.isfinite(k)
        next_k = np.where(inside, k, 0.0) + 1.0
        # Of two equal formulas, the one with the smaller last argument is more accurate.
        for_small_rates = special.betainc(self.shape, next_k, self.rate / (1.0 + self.rate))
        for_large_rates = special.betaincc(next_k, self.shape, 1.0 / (1.0 + self.rate))
        below = np.where(self.rate < 1, for_small_rates, for_large_rates)
        return np.where(inside, below, np.where(k == np.inf, 1.0, 0.0))

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        with np.errstate(over="ignore"):
            means = check_generator(rng).standard_gamma(self.shape, size=self._shape(size)) / self.rate
        large = means > _MAX_MEAN
        counts = np.asarray(rng.poisson(np.where(large, 0.0, means)), dtype=np.float64)
        if not large.any():
            return counts
        # An infinite mean gives an infinite count.
        deviations = np.sqrt(np.where(np.isfinite(means), means, 0.0))
        return np.where(large, np.rint(means + deviations * rng.standard_normal(means.shape)), counts)
