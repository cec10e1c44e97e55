"""What a predictive distribution answers, derived from its density, its cumulative function and its quantiles."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array
from tamis.families.family import Size


class Distribution(ABC):
    """Of the next observation, parameters integrated out; one, or a batch."""

    @property
    @abstractmethod
    def batch(self) -> tuple[int, ...]:
        """The shape of the batch."""

    @property
    @abstractmethod
    def mean(self) -> Array:
        """E[x] (*batch, *event)."""

    @abstractmethod
    def log_density(self, x: ArrayLike) -> Array:
        """log p(x), of mass or density, broadcast over the batch; −∞ outside the support."""

    def density(self, x: ArrayLike) -> Array:
        """p(x)."""
        return np.asarray(np.exp(self.log_density(x)))

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        """Independent draws (*size, *batch, *event)."""


class Univariate(Distribution):
    """A distribution of one number."""

    @property
    @abstractmethod
    def variance(self) -> Array:
        """Var[x] (*batch,)."""

    @abstractmethod
    def cdf(self, x: ArrayLike) -> Array:
        """P(X ≤ x)."""

    @abstractmethod
    def quantile(self, probability: ArrayLike) -> Array:
        """The smallest x with cdf(x) ≥ probability."""

    def interval(self, coverage: float = 0.95) -> tuple[Array, Array]:
        """The interval that leaves equal tails on both sides."""
        tail = tail_of(coverage)
        return self.quantile(tail), self.quantile(1.0 - tail)


def tail_of(coverage: float) -> float:
    """The mass left on each side of an equal-tailed interval."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"got a coverage of {coverage}, expected between 0 and 1, as 0.95")
    return 0.5 * (1.0 - coverage)
