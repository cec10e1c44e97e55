"""Beta: belief about a probability; conjugate to the Bernoulli and to the geometric family."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array, floats
from tamis.conjugate.beta_binomial import BetaBinomial
from tamis.conjugate.distribution import tail_of
from tamis.conjugate.prior import Interval, Prior
from tamis.families.family import Size
from tamis.stats import Tally

Likelihood = Literal["bernoulli", "geometric"]


@dataclass(frozen=True, slots=True, eq=False)
class Beta(Prior):
    """Beta(a, b): as if a successes and b failures had been seen.

    >>> coin = Beta(2, 2)
    >>> after = coin.update(Tally.observe([1, 1]))
    >>> (float(after.a), float(after.b)), round(float(after.mean), 4)
    ((4.0, 2.0), 0.6667)
    >>> swans = Beta(1, 1).update(Tally.observe([0, 0, 0]))  # three white ones; is the next one black?
    >>> round(float(swans.predictive().density(1)), 3)
    0.2
    """

    a: Array  # batch
    b: Array  # batch
    likelihood: Likelihood

    def __init__(self, a: ArrayLike, b: ArrayLike, likelihood: Likelihood = "bernoulli") -> None:
        first, second = np.broadcast_arrays(floats(a, "a"), floats(b, "b"))
        if not ((first > 0).all() and (second > 0).all()):
            raise ValueError(f"got Beta({first.min()}, {second.min()}), expected both above zero")
        if likelihood not in ("bernoulli", "geometric"):
            raise ValueError(f"got likelihood={likelihood!r}, expected 'bernoulli' or 'geometric'")
        object.__setattr__(self, "a", first)
        object.__setattr__(self, "b", second)
        object.__setattr__(self, "likelihood", likelihood)

    @classmethod
    def from_mean(cls, mean: ArrayLike, strength: ArrayLike, likelihood: Likelihood = "bernoulli") -> Self:
        """From a belief: this mean, worth `strength` observations.

        >>> prior = Beta.from_mean(0.3, strength=10)
        >>> float(prior.a), float(prior.b)
        (3.0, 7.0)
        """
        value, worth = floats(mean, "mean"), floats(strength, "strength")
        if not ((value > 0) & (value < 1)).all():
            raise ValueError(f"got a mean of {value.min()} to {value.max()}, expected between 0 and 1")
        return cls(value * worth, (1.0 - value) * worth, likelihood)

    @property
    def batch(self) -> tuple[int, ...]:
        return self.a.shape

    @property
    def strength(self) -> Array:
        """How many observations the belief is worth."""
        return self.a + self.b

    @property
    def mean(self) -> Array:
        return np.asarray(self.a / self.strength)

    @property
    def mode(self) -> Array:
        """The most probable value; NaN where the density has no single peak (a ≤ 1 and b ≤ 1)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            inner = (self.a - 1.0) / (self.strength - 2.0)
        edge = np.where(self.a > self.b, 1.0, 0.0)
        peaked = (self.a > 1) & (self.b > 1)
        leaning = (self.a > 1) | (self.b > 1)
        return np.where(peaked, inner, np.where(leaning, edge, np.nan))

    @property
    def variance(self) -> Array:
        return np.asarray(self.a * self.b / (self.strength**2 * (self.strength + 1.0)))

    def update(self, statistic: Tally, /) -> Self:
        weight, total = statistic.weight.value, statistic.total.value[..., 0]
        if self.likelihood == "bernoulli":
            return type(self)(self.a + total, self.b + (weight - total), self.likelihood)
        return type(self)(self.a + weight, self.b + total, self.likelihood)

    def log_normalizer(self) -> Array:
        return np.asarray(special.betaln(self.a, self.b))

    def log_density(self, probability: ArrayLike) -> Array:
        """log of the belief's density at a probability."""
        p = floats(probability, "probability")
        inside = special.xlogy(self.a - 1.0, p) + special.xlog1py(self.b - 1.0, -p) - self.log_normalizer()
        return np.where((p >= 0) & (p <= 1), inside, -np.inf)

    def interval(self, coverage: float = 0.95) -> Interval:
        """The credible interval that leaves equal tails on both sides."""
        tail = tail_of(coverage)
        return (
            np.asarray(special.betaincinv(self.a, self.b, tail)),
            np.asarray(special.betainccinv(self.a, self.b, tail)),
        )

    def predictive(self, trials: ArrayLike = 1) -> BetaBinomial:
        """Successes among the next `trials`."""
        if self.likelihood != "bernoulli":
            raise ValueError("the predictive of waiting times is not a beta-binomial: use .sample")
        return BetaBinomial(trials, self.a, self.b)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        shape = (size,) if isinstance(size, int) else size
        return np.asarray(rng.beta(self.a, self.b, size=(*shape, *self.batch)))

    def kl(self, other: Self) -> Array:
        return np.asarray(
            other.log_normalizer()
            - self.log_normalizer()
            + (self.a - other.a) * special.digamma(self.a)
            + (self.b - other.b) * special.digamma(self.b)
            + (other.strength - self.strength) * special.digamma(self.strength)
        )
