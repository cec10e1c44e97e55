"""Gamma: prior of a rate; conjugate to the Poisson and to the exponential family."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array, floats
from tamis.conjugate import rates
from tamis.conjugate.distribution import broadcast_parameters, tail_of
from tamis.conjugate.lomax import Lomax
from tamis.conjugate.negative_binomial import NegativeBinomial
from tamis.conjugate.prior import (
    Interval,
    Prior,
    combine_keys,
    read_single_term,
    refuse_impossible,
    refuse_other_keys,
    refuse_unless_grouped,
    refuse_unless_named,
)
from tamis.families.family import Size, check_generator, check_positive, set_fields
from tamis.families.normalizers import log_gamma_normalizer, log_gamma_ratio
from tamis.stats import Exact, Keys, Tally

Likelihood = Literal["poisson", "exponential"]


@dataclass(frozen=True, slots=True, eq=False)
class Gamma(Prior):
    """Gamma(shape, rate): as if `shape` events had been observed in a time of `rate`.

    >>> calls = Gamma(2, 1).update(Tally.observe([3, 5]))  # calls per hour, in two hours
    >>> (float(calls.shape), float(calls.rate)), round(float(calls.mean), 4)
    ((10.0, 3.0), 3.3333)
    >>> round(float(calls.predictive(exposure=0.5).density(0)), 4)  # none in the next half hour
    0.2141
    """

    shape: Array  # batch
    rate: Array  # batch
    likelihood: Likelihood
    keys: Keys | None  # labels of the slices of the first batch axis, from a statistic by label

    def __init__(
        self,
        shape: ArrayLike,
        rate: ArrayLike,
        likelihood: Likelihood = "poisson",
        *,
        keys: Keys | None = None,
    ) -> None:
        a, b = broadcast_parameters(shape=check_positive(shape, "shape"), rate=check_positive(rate, "rate"))
        refuse_unless_named(keys, a.shape[0] if a.ndim else None, "keys")
        if likelihood not in ("poisson", "exponential"):
            raise ValueError(f"got likelihood={likelihood!r}, expected 'poisson' or 'exponential'")
        set_fields(self, shape=a, rate=b, likelihood=likelihood, keys=keys)

    @classmethod
    def from_mean(cls, mean: ArrayLike, strength: ArrayLike, likelihood: Likelihood = "poisson") -> Self:
        """The prior with this mean rate, equivalent to `strength` counts per unit of time, or waiting times.

        >>> prior = Gamma.from_mean(4, strength=2)
        >>> float(prior.shape), float(prior.rate)
        (8.0, 2.0)
        """
        value, count = broadcast_parameters(
            mean=check_positive(mean, "mean"), strength=check_positive(strength, "strength")
        )
        if likelihood == "poisson":
            return cls(value * count, count, likelihood)
        return cls(count, count / value, likelihood)

    @classmethod
    def from_statistic(cls, statistic: Tally, likelihood: Likelihood = "poisson") -> Self:
        """The posterior of a prior of strength 0, after this statistic."""
        events, time = _read_events(statistic, likelihood)
        return cls(events.value, time.value, likelihood, keys=statistic.keys)

    def as_statistic(self) -> Tally:
        """The pseudo-observations as a statistic, which can be added to an observed one."""
        events, time = Exact.of(self.shape), Exact.of(self.rate)
        weight, total = (time, events) if self.likelihood == "poisson" else (events, time)
        return Tally(weight=weight, total=total.reindex(lambda words: words[..., None]), keys=self.keys)

    @classmethod
    def fit(cls, groups: Tally, likelihood: Likelihood = "poisson") -> Self:
        """Empirical Bayes: the prior under which the groups, all together, have the largest evidence.

        See `Prior.fit`. A group's weight is its exposure, or its number of waiting times. If the rates of the
        groups have nothing in common, the shape is 1e-6. If all counts are zero, the mean is near zero, and
        the strength is the weight of the heaviest group. If time is measured in other units, only `rate`
        changes.
        """
        events, time = _read_events(groups, likelihood)
        refuse_unless_grouped(groups.weight.value)
        shape, rate = rates.fit(events.value, time.value, is_time_weight=likelihood == "poisson")
        return cls(shape, rate, likelihood)

    @property
    def strength(self) -> Array:
        """The number of pseudo-observations: the rate for counts, the shape for waiting times."""
        return self.rate if self.likelihood == "poisson" else self.shape

    @property
    def mean(self) -> Array:
        return np.asarray(self.shape / self.rate)

    @property
    def mode(self) -> Array:
        """The rate of largest density; 0 if the shape is 1 or less (below 1 the density at 0 is infinite)."""
        return np.asarray(np.maximum(self.shape - 1.0, 0.0) / self.rate)

    @property
    def variance(self) -> Array:
        return np.asarray(self.shape / self.rate / self.rate)

    def update(self, statistic: Tally, /) -> Self:
        events, time = _read_events(statistic, self.likelihood)
        keys = combine_keys(self.keys, self.batch, statistic, statistic.weight.shape)
        return type(self)(self.shape + events.value, self.rate + time.value, self.likelihood, keys=keys)

    def log_normalizer(self) -> Array:
        return log_gamma_normalizer(self.shape, self.rate)

    def _log_evidence(self, statistic: Tally) -> Array:
        events, time = _read_events(statistic, self.likelihood)
        refuse_other_keys(self.keys, self.batch, statistic, statistic.weight.shape)
        return log_gamma_ratio(self.shape, self.rate, events.value, time.value)

    def log_density(self, parameters: ArrayLike) -> Array:
        return rates.log_density(self.shape, self.rate, floats(parameters, "rate"))

    def interval(self, coverage: float = 0.95) -> Interval:
        tail = tail_of(coverage)
        return (
            np.asarray(special.gammaincinv(self.shape, tail) / self.rate),
            np.asarray(special.gammainccinv(self.shape, tail) / self.rate),
        )

    def predictive(self, exposure: ArrayLike = 1.0) -> NegativeBinomial | Lomax:
        """Poisson: the distribution of the next count, over `exposure` units.

        Exponential: the distribution of the next waiting time.
        """
        if self.likelihood == "poisson":
            rate, time = broadcast_parameters(rate=self.rate, exposure=check_positive(exposure, "exposure"))
            return NegativeBinomial(self.shape, rate / time)
        if np.any(np.asarray(exposure) != 1):
            raise ValueError(
                f"got exposure={exposure!r} with likelihood='exponential', expected 1: only one waiting time "
                "is predicted"
            )
        return Lomax(self.shape, self.rate)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        return np.asarray(check_generator(rng).standard_gamma(self.shape, size=self._shape(size)) / self.rate)

    def kl(self, other: Self) -> Array:
        return rates.kl(self.shape, self.rate, other.shape, other.rate)


def _read_events(statistic: Tally, likelihood: Likelihood) -> tuple[Exact, Exact]:
    """The number of events, and the time in which they occurred; raise if no data can have them."""
    weight, total = read_single_term(statistic, "a Gamma")
    refuse_impossible(total.value < 0, total, weight, "none below zero")
    if likelihood == "exponential":
        return weight, total
    refuse_impossible((total.value > 0) & (weight.value == 0), total, weight, "no events without exposure")
    return total, weight
