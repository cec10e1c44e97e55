"""Beta-binomial: successes among trials, whose probability has a beta distribution."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, floats
from tamis.conjugate import simplex
from tamis.conjugate.distribution import (
    Univariate,
    allow_rounding,
    broadcast_parameters,
    check_counts,
    check_probabilities,
    mask_counts,
    to_integers,
)
from tamis.families.family import Size, check_generator, check_positive, set_fields

_BLOCK = 1 << 20  # array elements of a sum over counts that are computed at a time: 8 MB
_MOST_TERMS = 1 << 27  # the largest number of terms that are summed, which takes about a minute


@dataclass(frozen=True, slots=True, eq=False)
class BetaBinomial(Univariate):
    """Successes among `trials` with a probability drawn once from Beta(a, b).

    `cdf` and `quantile` are sums over counts; their cost grows with the number of trials.

    >>> votes = BetaBinomial(10, 3, 7)
    >>> float(votes.mean), votes.interval(0.9)[1].tolist(), round(float(votes.cdf(2)), 4)
    (3.0, 7.0, 0.4443)
    """

    trials: Array  # batch
    a: Array  # batch
    b: Array  # batch

    def __init__(self, trials: ArrayLike, a: ArrayLike, b: ArrayLike) -> None:
        n, first, second = broadcast_parameters(
            trials=check_counts(trials, "trials"),
            a=check_positive(a, "pseudo-count a"),
            b=check_positive(b, "pseudo-count b"),
        )
        set_fields(self, trials=n, a=first, b=second)

    @property
    def mean(self) -> Array:
        return np.asarray(self.trials * self.a / (self.a + self.b))

    @property
    def variance(self) -> Array:
        strength = self.a + self.b
        bernoulli_variance = (self.a / strength) * (self.b / strength)
        return np.asarray(self.trials * bernoulli_variance * (strength + self.trials) / (strength + 1.0))

    def log_density(self, x: ArrayLike) -> Array:
        counts, value = mask_counts(x)
        inside = counts & (value <= self.trials)
        k = np.where(inside, value, 0.0)
        return np.where(inside, self._log_mass(k), -np.inf)

    def _log_mass(self, k: Array) -> Array:
        pairs = np.stack(np.broadcast_arrays(k, self.trials - k), axis=-1)
        return simplex.log_mass(np.stack([self.a, self.b], axis=-1), pairs)

    def cdf(self, x: ArrayLike) -> Array:
        k = np.floor(floats(x, "x"))
        shape = np.broadcast_shapes(k.shape, self.batch)
        result = np.where(k >= self.trials, np.ones(shape), 0.0)
        inside = (k >= 0) & (k < self.trials)
        for first, cumulative in self._cumulate(np.where(inside, k, -1.0), shape):
            offset = np.broadcast_to(k - first, shape)
            in_block = inside & (offset >= 0) & (offset < cumulative.shape[-1])
            index = np.where(in_block, offset, 0).astype(np.int64)[..., None]
            result = np.where(in_block, np.take_along_axis(cumulative, index, axis=-1)[..., 0], result)
        return result

    def quantile(self, probability: ArrayLike) -> Array:
        p = check_probabilities(probability)
        required = allow_rounding(p)[..., None]
        shape = np.broadcast_shapes(p.shape, self.batch)
        counts_below = np.zeros(shape)
        for _, cumulative in self._cumulate(np.broadcast_to(self.trials - 1.0, shape), shape):
            counts_below = counts_below + (cumulative < required).sum(axis=-1)
        return np.where(p < 1, np.minimum(counts_below, self.trials), self.trials)

    def _cumulate(self, last: Array, shape: tuple[int, ...]) -> Iterator[tuple[int, Array]]:
        """Yield blocks of counts k up to the largest `last`: the first k, and P(X ≤ k) (*shape, block)."""
        terms = int(last.max(initial=-1.0)) + 1
        cells = max(1, int(np.prod(self.batch, dtype=np.int64)))
        if terms * cells > _MOST_TERMS:
            raise ValueError(
                f"got {terms} counts to sum for {cells} priors, expected up to 2**27 in all: sample instead"
            )
        block = max(64, _BLOCK // max(1, int(np.prod(shape, dtype=np.int64))))
        last_sum = np.zeros((*self.batch, 1))
        with_axis = type(self)(self.trials[..., None], self.a[..., None], self.b[..., None])
        for first in range(0, terms, block):
            k = np.arange(first, min(first + block, terms), dtype=np.float64)
            cumulative = np.minimum(last_sum + np.cumsum(with_axis.density(k), axis=-1), 1.0)
            last_sum = cumulative[..., -1:]
            yield first, np.broadcast_to(cumulative, (*shape, cumulative.shape[-1]))

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        p = check_generator(rng).beta(self.a, self.b, size=self._shape(size))
        return np.asarray(rng.binomial(to_integers(self.trials), p), dtype=np.float64)
