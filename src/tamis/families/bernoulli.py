"""Bernoulli: one bit. T(x) = x, A(η) = log(1 + e^η), ∇A the logistic function."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array, floats
from tamis.families.family import Family, Size


@dataclass(frozen=True, slots=True, eq=False)
class Bernoulli(Family):
    """A coin that shows 1 with the given probability.

    >>> coin = Bernoulli(0.5).fit(Bernoulli(0.5).observe([1] * 55 + [0] * 45))
    >>> coin.probability.tolist(), round(float(Bernoulli(0.3).natural[0]), 3)
    (0.55, -0.847)
    """

    probability: Array  # batch

    def __init__(self, probability: ArrayLike) -> None:
        value = floats(probability, "probability")
        if not ((value >= 0) & (value <= 1)).all():
            raise ValueError(f"got a probability of {value.min()} to {value.max()}, expected between 0 and 1")
        object.__setattr__(self, "probability", value)

    @property
    def batch(self) -> tuple[int, ...]:
        return self.probability.shape

    def sufficient(self, x: ArrayLike) -> Array:
        return floats(x, "x")[..., None]

    def log_base(self, x: ArrayLike) -> Array:
        value = floats(x, "x")
        return np.where((value == 0) | (value == 1), 0.0, -np.inf)

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

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        shape = (size,) if isinstance(size, int) else size
        return (rng.random((*shape, *self.batch)) < self.probability).astype(np.float64)

    def log_density(self, x: ArrayLike) -> Array:
        value, p = floats(x, "x"), self.probability
        inside = special.xlogy(value, p) + special.xlog1py(1.0 - value, -p)
        return np.asarray(np.where(np.isfinite(self.log_base(value)), inside, -np.inf))

    def entropy(self) -> Array:
        return np.asarray(special.entr(self.probability) + special.entr(1.0 - self.probability))

    def kl(self, other: Self) -> Array:
        p, q = self.probability, other.probability
        return np.asarray(special.rel_entr(p, q) + special.rel_entr(1.0 - p, 1.0 - q))
