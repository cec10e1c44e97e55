"""Exponential: a memoryless waiting time. T(x) = x, A(η) = −log(−η) with η = −rate."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats
from tamis.families.conjugacy import RateFamily
from tamis.families.family import check_positive, freeze_parameter
from tamis.families.stirling import log1p_gap


@dataclass(frozen=True, slots=True, eq=False)
class Exponential(RateFamily):
    """The time until the next event of a Poisson process with this rate: its mean is 1 / rate.

    >>> buses = Exponential(1).fit(Exponential(1).observe([3.0, 8.0, 1.0]))
    >>> float(buses.rate), round(float(buses.density(4.0)), 4)
    (0.25, 0.092)
    >>> float(Exponential(2).log_density(-1.0))
    -inf
    """

    discrete: ClassVar[bool] = False

    rate: Array  # batch

    def __init__(self, rate: ArrayLike) -> None:
        object.__setattr__(self, "rate", freeze_parameter(check_positive(rate, "rate"), "rate"))

    @property
    def support(self) -> str:
        return "a finite number, not below zero"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        value = floats(x, "x")
        return np.asarray(np.isfinite(value) & (value >= 0))

    def log_partition(self, natural: ArrayLike) -> Array:
        eta = floats(natural, "natural")[..., 0]
        inside = eta < 0
        return np.where(inside, -np.log(-np.where(inside, eta, -1.0)), np.inf)

    @property
    def natural(self) -> Array:
        return -self.rate[..., None]

    @property
    def mean_parameters(self) -> Array:
        return 1.0 / self.rate[..., None]

    def with_natural(self, natural: ArrayLike) -> Self:
        return type(self)(-floats(natural, "natural")[..., 0])

    def with_mean(self, mean: ArrayLike) -> Self:
        mu = floats(mean, "mean")[..., 0]
        if not (mu > 0).all():
            raise ValueError(
                f"got a mean of {mu.min()}, expected above zero: times that are all 0 have no rate"
            )
        return type(self)(1.0 / mu)

    def count_events(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """Return the events and the time: each row is the waiting time for one event."""
        return weight, total[..., 0]

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(rng.standard_exponential(shape) / self.rate)

    def log_density(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        return np.where(
            inside, np.log(self.rate) - self.rate * np.where(inside, floats(x, "x"), 0.0), -np.inf
        )

    def entropy(self) -> Array:
        return np.asarray(1.0 - np.log(self.rate))

    def _kl(self, other: Self) -> Array:
        return log1p_gap((other.rate - self.rate) / self.rate)
