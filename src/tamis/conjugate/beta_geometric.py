"""Beta-geometric: failures before the first success, whose probability has a beta distribution."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, floats
from tamis.conjugate.distribution import Counting, broadcast_parameters, mask_counts
from tamis.families.family import Size, check_generator, check_positive, set_fields
from tamis.families.normalizers import log_dirichlet_ratio


@dataclass(frozen=True, slots=True, eq=False)
class BetaGeometric(Counting):
    """Failures before a success with a probability drawn once from Beta(a, b).

    Its tail is as heavy as x^−(a + 1): with a ≤ 1 the mean is infinite, with a ≤ 2 the variance is.

    >>> wait = BetaGeometric(2, 3)
    >>> round(float(wait.density(0)), 3), float(wait.mean), float(wait.quantile(0.9))
    (0.4, 3.0, 7.0)
    """

    a: Array  # batch
    b: Array  # batch

    def __init__(self, a: ArrayLike, b: ArrayLike) -> None:
        first, second = broadcast_parameters(
            a=check_positive(a, "pseudo-count a"), b=check_positive(b, "pseudo-count b")
        )
        set_fields(self, a=first, b=second)

    @property
    def mean(self) -> Array:
        return np.where(self.a > 1, self.b / np.where(self.a > 1, self.a - 1.0, 1.0), np.inf)

    @property
    def variance(self) -> Array:
        finite = self.a > 2
        a = np.where(finite, self.a, 3.0)
        return np.where(finite, a * self.b * (a + self.b - 1.0) / ((a - 1.0) ** 2 * (a - 2.0)), np.inf)

    def log_density(self, x: ArrayLike) -> Array:
        inside, k = mask_counts(x)
        return np.where(inside, self._log_ratio(np.ones_like(k), k), -np.inf)

    def cdf(self, x: ArrayLike) -> Array:
        k = np.floor(floats(x, "x"))
        failures = np.where((k >= 0) & np.isfinite(k), k + 1.0, 0.0)
        inside = -np.expm1(self._log_ratio(np.zeros_like(failures), failures))
        return np.where(k == np.inf, 1.0, inside)

    def _log_ratio(self, successes: Array, failures: Array) -> Array:
        """log p of a given sequence of trials with these numbers of successes and failures."""
        return log_dirichlet_ratio(
            np.stack([self.a, self.b], axis=-1), np.stack([successes, failures], axis=-1)
        )

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        p = check_generator(rng).beta(self.a, self.b, size=self._shape(size))
        # A geometric count is the integer part of an exponential waiting time of rate −log(1 − p).
        with np.errstate(divide="ignore"):
            return np.asarray(np.floor(rng.standard_exponential(p.shape) / -np.log1p(-p)))
