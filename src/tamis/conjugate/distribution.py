"""The base classes of predictive distributions: density, distribution function, quantiles, and draws."""

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats
from tamis.families import counts
from tamis.families.family import Batched, Size, freeze_parameter, to_shape

_LARGEST_COUNT = 2.0**1000  # larger counts are returned as infinity: computing with them would overflow
# A cumulative probability of exactly 0.3 may be computed as 0.29999999999999993. For the beta-binomial with a
# uniform prior and any number of trials up to 2000, the relative error of `cdf` is at most 116 times the
# machine epsilon; `quantile` tolerates 256 times.
_CDF_ERROR = 256.0 * float(np.finfo(np.float64).eps)
_MOST_TRIALS = 2.0**63  # for draws, numbers of trials must be below: NumPy draws 64-bit integers


class Distribution(Batched, ABC):
    """The distribution of a new observation, with the parameters integrated out; one, or a batch.

    In shapes, `batch` is the shape of the batch, () for one distribution, and `event` the shape of one
    observation: () for a number, (d,) for a vector.
    """

    @property
    @abstractmethod
    def mean(self) -> Array:
        """E[x] (*batch, *event)."""

    @abstractmethod
    def log_density(self, x: ArrayLike) -> Array:
        """The log-density, or log-probability of a count, of x (..., *event); −∞ outside the support.

        x is broadcast over the batch.
        """

    def density(self, x: ArrayLike) -> Array:
        """p(x)."""
        return np.asarray(np.exp(self.log_density(x)))

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        """Independent draws (*size, *batch, *event)."""

    def _shape(self, size: Size) -> tuple[int, ...]:
        return shape_of(size, self.batch)


class Univariate(Distribution):
    """A distribution of one number."""

    @property
    @abstractmethod
    def variance(self) -> Array:
        """Var[x] (*batch,)."""

    @abstractmethod
    def cdf(self, x: ArrayLike) -> Array:
        """The cumulative distribution function, P(X ≤ x)."""

    @abstractmethod
    def quantile(self, probability: ArrayLike) -> Array:
        """The smallest x with cdf(x) ≥ probability."""

    def interval(self, coverage: float = 0.95) -> tuple[Array, Array]:
        """The equal-tailed interval; for a count, each tail has at most half of 1 − coverage."""
        tail = tail_of(coverage)
        return self.quantile(tail), self.quantile(1.0 - tail)

    def pdf(self, x: ArrayLike) -> Array:
        """The same as `density`, by SciPy's name; for a count, the probability mass."""
        return self.density(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The same as `log_density`, by SciPy's name."""
        return self.log_density(x)

    def ppf(self, probability: ArrayLike) -> Array:
        """The same as `quantile`, by SciPy's name."""
        return self.quantile(probability)

    def rvs(self, size: Size = (), random_state: Any = None) -> Array:
        """The same as `sample`, by SciPy's name, with a seed or a generator."""
        return self.sample(np.random.default_rng(random_state), size)


class Counting(Univariate):
    """A distribution of unbounded counts 0, 1, 2, …"""

    def quantile(self, probability: ArrayLike) -> Array:
        """The smallest count with cdf(count) ≥ probability; ∞ for a probability of 1, or beyond 2¹⁰⁰⁰."""
        p = allow_rounding(check_probabilities(probability))
        shape = np.broadcast_shapes(p.shape, self.batch)
        low, high = np.full(shape, -1.0), np.where(p < 1, np.zeros(shape), np.inf)
        while (is_below := (self.cdf(high) < p) & np.isfinite(high)).any():
            low = np.where(is_below, high, low)
            high = np.where(is_below, np.where(high < _LARGEST_COUNT, 2.0 * high + 1.0, np.inf), high)
        while True:
            middle = np.floor(low + 0.5 * (high - low))
            is_unfinished = np.isfinite(high) & (middle > low) & (middle < high)
            if not is_unfinished.any():
                return high
            is_enough = self.cdf(middle) >= p
            high = np.where(is_unfinished & is_enough, middle, high)
            low = np.where(is_unfinished & ~is_enough, middle, low)


def tail_of(coverage: float) -> float:
    """The probability on each side of an equal-tailed interval of this coverage."""
    if np.ndim(coverage):
        raise ValueError(f"got coverages of shape {np.shape(coverage)}, expected one number")
    argument: object = coverage  # a caller may pass another type than the annotated one
    number = float(argument) if isinstance(argument, Real | np.ndarray) else np.nan
    if not 0.0 < number < 1.0:
        raise ValueError(f"got a coverage of {argument!r}, expected between 0 and 1, such as 0.95")
    return 0.5 * (1.0 - number)


def shape_of(size: Size, batch: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array of `size` draws from each distribution of a batch."""
    return (*to_shape(size), *batch)


def broadcast_parameters(**parameters: Array) -> tuple[Array, ...]:
    """Broadcast parameters to one shape and copy them to read-only arrays."""
    try:
        arrays = np.broadcast_arrays(*parameters.values())
    except ValueError:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in parameters.items())
        raise ValueError(f"got parameters of shapes {shapes}, expected shapes that broadcast") from None
    return tuple(freeze_parameter(value, name) for name, value in zip(parameters, arrays, strict=True))


def to_integers(trials: Array) -> NDArray[np.int64]:
    """Return trials as integers; raise if there are too many to draw."""
    if not (trials < _MOST_TRIALS).all():
        raise ValueError(
            f"got {trials.max():.3g} trials, expected below 2**63 to draw: use mean and variance"
        )
    return np.asarray(trials.astype(np.int64))


def allow_rounding(probability: Array) -> Array:
    """Reduce probabilities below 1 by the rounding error of `cdf`."""
    return np.where(probability < 1, probability * (1.0 - _CDF_ERROR), probability)


def check_probabilities(probability: ArrayLike) -> Array:
    """Return the probabilities; raise unless they are between 0 and 1."""
    p = floats(probability, "probability")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"got a probability of {p.min()} to {p.max()}, expected between 0 and 1")
    return p


def check_counts(value: ArrayLike, what: str) -> Array:
    """Return the counts; raise unless they are whole numbers of at least 0."""
    array = floats(value, what)
    if not mask_counts(array)[0].all():
        raise ValueError(
            f"got {array[~mask_counts(array)[0]].flat[0]} {what}, expected a whole number, 0 or more"
        )
    return array


def mask_counts(x: ArrayLike) -> tuple[NDArray[np.bool_], Array]:
    """Return a mask of the numbers that are counts 0, 1, 2, …, and x with 0 in place of the others."""
    value = floats(x, "x")
    inside = counts.is_count(value)
    return inside, np.where(inside, value, 0.0)
