"""Bernoulli: a value that is 0 or 1. T(x) = x, A(η) = log(1 + e^η), ∇A the logistic function."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tamis.arrays import Array, floats
from tamis.families.conjugacy import ProbabilityFamily
from tamis.families.family import freeze_parameter
from tamis.families.stirling import deviance


@dataclass(frozen=True, slots=True, eq=False)
class Bernoulli(ProbabilityFamily):
    """A coin that shows 1 with the given probability. At the probabilities 0 and 1, η is −∞ and ∞.

    >>> coin = Bernoulli(0.5).fit(Bernoulli(0.5).observe([1] * 55 + [0] * 45))
    >>> coin.probability.tolist(), round(float(Bernoulli(0.3).natural[0]), 3)
    (0.55, -0.847)
    """

    # Added to the pseudo-successes of a prior for the beta's first parameter: 0, because η is the logit.
    extra_successes: ClassVar[float] = 0.0

    probability: Array  # batch

    def __init__(self, probability: ArrayLike) -> None:
        value = freeze_parameter(probability, "probability")
        if not ((value >= 0) & (value <= 1)).all():
            raise ValueError(f"got a probability of {value.min()} to {value.max()}, expected between 0 and 1")
        object.__setattr__(self, "probability", value)

    @property
    def support(self) -> str:
        return "0 or 1"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        value = floats(x, "x")
        return np.asarray((value == 0) | (value == 1))

    def log_partition(self, natural: ArrayLike) -> Array:
        return np.asarray(np.logaddexp(0.0, floats(natural, "natural")[..., 0]))

    def mean_of(self, natural: ArrayLike) -> Array:
        return np.asarray(special.expit(floats(natural, "natural")))

    def natural_of(self, mean: ArrayLike) -> Array:
        return np.asarray(special.logit(floats(mean, "mean")))

    @property
    def natural(self) -> Array:
        return self.natural_of(self.probability[..., None])

    @property
    def mean_parameters(self) -> Array:
        return self.probability[..., None]

    def with_natural(self, natural: ArrayLike) -> Self:
        return self.with_mean(self.mean_of(natural))

    def with_mean(self, mean: ArrayLike) -> Self:
        return type(self)(floats(mean, "mean")[..., 0])

    def count_outcomes(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """Return the numbers of ones and of zeros."""
        return total[..., 0], weight - total[..., 0]

    def default_prior(self, strength: float, weight: Array, total: Array) -> tuple[Array, Array]:
        """A prior of `strength` pseudo-observations of 0, and `strength` of 1."""
        return np.full(weight.shape, 2.0 * strength), np.full(total.shape, float(strength))

    def is_possible(self, weight: Array, total: Array) -> NDArray[np.bool_]:
        return np.asarray((total[..., 0] >= 0) & (total[..., 0] <= weight))

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return (rng.random(shape) < self.probability).astype(np.float64)

    def log_density(self, x: ArrayLike) -> Array:
        inside, p = self.supports(x), self.probability
        value = np.where(inside, floats(x, "x"), 0.0)
        return np.where(inside, special.xlogy(value, p) + special.xlog1py(1.0 - value, -p), -np.inf)

    def entropy(self) -> Array:
        p = self.probability
        # log1p(−p) keeps a small p, which log(1 − p) would round away.
        return np.asarray(special.entr(p) - special.xlog1py(1.0 - p, -p))

    def _kl(self, other: Self) -> Array:
        p, q = self.probability, other.probability
        return np.asarray(deviance(p, q) + deviance(1.0 - p, 1.0 - q))
