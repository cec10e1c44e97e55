"""Poisson: a count of events at a rate. T(x) = x, h(x) = 1/x!, A(η) = e^η with η = log rate."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tamis.arrays import Array, floats
from tamis.families.conjugacy import RateFamily
from tamis.families.counts import draw_poisson, is_count, log_poisson, mean_log_poisson
from tamis.families.family import freeze_parameter, log_or_minus_infinity
from tamis.families.stirling import deviance


@dataclass(frozen=True, slots=True, eq=False)
class Poisson(RateFamily):
    """Counts 0, 1, 2, … with the given mean. At a rate of 0 the count is always 0, and η = −∞.

    >>> calls = Poisson(1).fit(Poisson(1).observe([2, 0, 4]))
    >>> calls.rate.tolist(), round(float(calls.density(2)), 4)
    (2.0, 0.2707)
    >>> Poisson(1e8).entropy().round(9).tolist(), Poisson(2).log_density(-1).tolist()
    (10.629278904, -inf)
    """

    extra_events: ClassVar[float] = 0.0  # added to a prior's events for the gamma's shape: 0 if η = log rate

    rate: Array  # batch

    def __init__(self, rate: ArrayLike) -> None:
        value = freeze_parameter(rate, "rate")
        invalid = ~(np.isfinite(value) & (value >= 0))
        if invalid.any():
            raise ValueError(f"got a rate of {value[invalid][0]}, expected a finite number, not below zero")
        object.__setattr__(self, "rate", value)

    @property
    def support(self) -> str:
        return "a count: 0, 1, 2, …"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        return is_count(floats(x, "x"))

    def log_base(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        return np.where(inside, -special.gammaln(np.where(inside, floats(x, "x"), 0.0) + 1.0), -np.inf)

    def log_partition(self, natural: ArrayLike) -> Array:
        return np.asarray(np.exp(floats(natural, "natural")[..., 0]))

    def mean_of(self, natural: ArrayLike) -> Array:
        return np.asarray(np.exp(floats(natural, "natural")))

    def natural_of(self, mean: ArrayLike) -> Array:
        return log_or_minus_infinity(floats(mean, "mean"))

    @property
    def natural(self) -> Array:
        return self.natural_of(self.rate[..., None])

    @property
    def mean_parameters(self) -> Array:
        return self.rate[..., None]

    def with_natural(self, natural: ArrayLike) -> Self:
        return self.with_mean(self.mean_of(natural))

    def with_mean(self, mean: ArrayLike) -> Self:
        return type(self)(floats(mean, "mean")[..., 0])

    def count_events(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """Return the events and the time: each row is a count of events in a unit of time."""
        return total[..., 0], weight

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return draw_poisson(rng, self.rate, shape)

    def mean_log_base(self) -> Array:
        """−E[log x!], from the entropy, in which large terms do not cancel."""
        return np.asarray(self.rate - special.xlogy(self.rate, self.rate) - self.entropy())

    def log_density(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        return np.where(inside, log_poisson(np.where(inside, floats(x, "x"), 0.0), self.rate), -np.inf)

    def entropy(self) -> Array:
        """The entropy: a sum for rates below 256, else an asymptotic series; its error is below 1e-12."""
        return -mean_log_poisson(self.rate)

    def _kl(self, other: Self) -> Array:
        return deviance(self.rate, other.rate)
