"""Gamma of a fixed shape k: a positive number. T(x) = x, h(x) = x^(k−1)/Γ(k), A(η) = −k log(−η)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tamis.arrays import Array, floats
from tamis.families.conjugacy import RateFamily
from tamis.families.family import check_positive, check_positive_number, freeze_parameter, set_fields
from tamis.families.stirling import deviance, log1p_gap, remainder

_SMALLEST = float(np.nextafter(0.0, 1.0))  # the smallest positive float, in place of a draw rounded to 0


@dataclass(frozen=True, slots=True, eq=False)
class Gamma(RateFamily):
    """A positive number of mean shape / rate, whose standard deviation is its mean / √shape.

    The shape is given and never inferred. With a shape of 1 this is the exponential family; with a whole
    shape k, it is the time until the k-th event of a Poisson process. (The gamma distribution as a prior is
    `tamis.conjugate.Gamma`.)

    >>> claims = Gamma(shape=2).fit(Gamma(shape=2).observe([300.0, 100.0, 800.0]))
    >>> float(claims.rate), round(float(claims.density(400.0)), 6)
    (0.005, 0.001353)
    """

    discrete: ClassVar[bool] = False
    fixed: ClassVar[tuple[str, ...]] = ("shape",)

    shape: float
    rate: Array  # batch

    def __init__(self, shape: float, rate: ArrayLike = 1.0) -> None:
        set_fields(
            self,
            shape=check_positive_number(shape, "shape"),
            rate=freeze_parameter(check_positive(rate, "rate"), "rate"),
        )

    @property
    def support(self) -> str:
        return f"a finite number above zero, for a gamma of shape {self.shape:g}"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        value = floats(x, "x")
        return np.asarray(np.isfinite(value) & (value > 0))

    def log_base(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        log_x = np.log(np.where(inside, floats(x, "x"), 1.0))
        return np.where(inside, (self.shape - 1.0) * log_x - special.gammaln(self.shape), -np.inf)

    def log_partition(self, natural: ArrayLike) -> Array:
        eta = floats(natural, "natural")[..., 0]
        inside = eta < 0
        return np.where(inside, -self.shape * np.log(-np.where(inside, eta, -1.0)), np.inf)

    @property
    def natural(self) -> Array:
        return -self.rate[..., None]

    @property
    def mean_parameters(self) -> Array:
        return self.shape / self.rate[..., None]

    def with_natural(self, natural: ArrayLike) -> Self:
        return replace(self, rate=-floats(natural, "natural")[..., 0])

    def with_mean(self, mean: ArrayLike) -> Self:
        mu = floats(mean, "mean")[..., 0]
        if not (mu > 0).all():
            raise ValueError(f"got a mean of {mu.min()}, expected above zero")
        return replace(self, rate=self.shape / mu)

    def count_events(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """Return the events and the time: each row is the waiting time for `shape` events."""
        return self.shape * weight, total[..., 0]

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(np.maximum(rng.standard_gamma(self.shape, shape) / self.rate, _SMALLEST))

    def mean_log_base(self) -> Array:
        expected_log = special.digamma(self.shape) - np.log(self.rate)
        return np.asarray((self.shape - 1.0) * expected_log - special.gammaln(self.shape))

    def log_density(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        value = np.where(inside, floats(x, "x"), 1.0)
        shape = np.asarray(self.shape)
        return np.where(
            inside, -deviance(shape, self.rate * value) - remainder(shape) - np.log(value), -np.inf
        )

    def entropy(self) -> Array:
        k = self.shape
        return np.asarray(k - np.log(self.rate) + special.gammaln(k) + (1.0 - k) * special.digamma(k))

    def _kl(self, other: Self) -> Array:
        return np.asarray(self.shape * log1p_gap((other.rate - self.rate) / self.rate))
