"""Geometric: failures before the first success. T(x) = x, A(η) = −log(1 − e^η) with η = log(1 − p)."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tamis.arrays import Array, floats
from tamis.families.conjugacy import ProbabilityFamily
from tamis.families.counts import is_count
from tamis.families.family import freeze_parameter, log_or_minus_infinity
from tamis.families.stirling import deviance


@dataclass(frozen=True, slots=True, eq=False)
class Geometric(ProbabilityFamily):
    """The number of failures, 0, 1, …, before the first success, in trials that succeed with `probability`.

    The successful trial is not counted; some books, and scipy.stats.geom, count it: their count is x + 1.
    At a probability of 1 the count is always 0, and η = −∞.

    >>> failures = Geometric(0.5).fit(Geometric(0.5).observe([0, 3, 6]))  # by maximum likelihood
    >>> failures.probability.tolist(), failures.mean_parameters.tolist()
    (0.25, [3.0])
    >>> Geometric(0.5).density([0, 1, -1]).tolist()
    [0.5, 0.25, 0.0]
    """

    probability: Array  # batch

    def __init__(self, probability: ArrayLike) -> None:
        value = freeze_parameter(probability, "probability")
        if not ((value > 0) & (value <= 1)).all():
            raise ValueError(
                f"got a probability of {value.min()} to {value.max()}, expected above 0, and at most 1"
            )
        object.__setattr__(self, "probability", value)

    @property
    def support(self) -> str:
        return "a count of failures: 0, 1, 2, …"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        return is_count(floats(x, "x"))

    def log_partition(self, natural: ArrayLike) -> Array:
        eta = floats(natural, "natural")[..., 0]
        inside = eta < 0
        return np.where(inside, -np.log(-np.expm1(np.where(inside, eta, -1.0))), np.inf)

    def mean_of(self, natural: ArrayLike) -> Array:
        eta = floats(natural, "natural")
        if not (eta < 0).all():
            raise ValueError(f"got a natural parameter of {eta.max()}, expected below zero")
        return np.asarray(np.exp(eta) / -np.expm1(eta))

    def natural_of(self, mean: ArrayLike) -> Array:
        mu = floats(mean, "mean")
        if not ((mu >= 0) & np.isfinite(mu)).all():
            raise ValueError(f"got a mean of {mu.min()} to {mu.max()}, expected finite, and not below zero")
        # log(μ / (1 + μ)), for a large μ as −log(1 + 1/μ), because the quotient would round to 1
        small = np.minimum(mu, 1.0)
        return np.where(
            mu > 1, -np.log1p(1.0 / np.maximum(mu, 1.0)), log_or_minus_infinity(small) - np.log1p(small)
        )

    @property
    def natural(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-self.probability))[..., None]

    @property
    def mean_parameters(self) -> Array:
        return np.asarray((1.0 - self.probability) / self.probability)[..., None]

    def with_natural(self, natural: ArrayLike) -> Self:
        return type(self)(-np.expm1(floats(natural, "natural")[..., 0]))

    def with_mean(self, mean: ArrayLike) -> Self:
        mu = floats(mean, "mean")[..., 0]
        if not (mu >= 0).all():
            raise ValueError(f"got a mean of {mu.min()}, expected not below zero")
        return type(self)(1.0 / (1.0 + mu))

    def count_outcomes(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """Return the numbers of successes and of failures: each row ends with one success."""
        return weight, total[..., 0]

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        # The integer part of an exponential variable: exact, and not limited to int64 at tiny probabilities.
        return np.floor(rng.standard_exponential(shape) / -self.natural[..., 0])

    def log_density(self, x: ArrayLike) -> Array:
        inside, p = self.supports(x), self.probability
        return np.where(
            inside, np.log(p) + special.xlog1py(np.where(inside, floats(x, "x"), 0.0), -p), -np.inf
        )

    def entropy(self) -> Array:
        p = self.probability
        return np.asarray(-np.log(p) - special.xlog1py((1.0 - p) / p, -p))

    def _kl(self, other: Self) -> Array:
        """The divergence of one trial times the expected number of trials, 1/p."""
        p, q = self.probability, other.probability
        return np.asarray((deviance(p, q) + deviance(1.0 - p, 1.0 - q)) / p)
