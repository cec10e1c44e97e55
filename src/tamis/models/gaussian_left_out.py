"""Gaussian columns without each row in turn: `leave_one_out.py` for numbers.

Sums are taken about one centre, so that nothing cancels that need not, and moments lose a row by Chan's
formula backwards. It cancels where the row is most of its class; such rows are marked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.conjugate import NormalInverseGamma
from tamis.models.gaussian_columns import GaussianColumns, Normal
from tamis.stats import Keys, Moments

Marks = NDArray[np.bool_]

_LEAST = 1e-300  # as in gaussian_columns.py
_LOG_TAU = float(np.log(2.0 * np.pi))


def gaussian(
    block: GaussianColumns, statistic: Moments, keys: Keys, cancelled: float
) -> Callable[[Array, NDArray[np.int64], Array], tuple[Array, Marks]]:
    """Rows, own classes, weights → scores (b, K), and which rows have less than the part `cancelled` left."""
    pooled = statistic.pooled()
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = np.nan_to_num(pooled.mean, nan=0.0)
    classes, whole = Centred.of(statistic.over(keys), centre), Centred.of(pooled, centre)
    density = block.infer(statistic, keys)
    constant = block.smoothing == 0 if block.estimate == "mle" else block.prior is not None
    series = _Series.of(block, density, classes, whole, centre) if isinstance(density, Normal) else None

    def formula(rows: Array, own: NDArray[np.int64], w: Array) -> tuple[Array, Marks]:
        about, present, each = rows - centre, None, w[:, None]
        if (missing := np.isnan(about)).any():
            present = ~missing
            about, each = np.where(missing, 0.0, about), np.where(missing, 0.0, each)
        mine, doubtful = classes.at(own).less(about, each, cancelled)
        if constant:
            found = density.scores(rows)
            members = _Members(block, centre, None)
        else:
            rest, other = whole.less(about, each, cancelled)
            doubtful |= other
            members = _Members(block, centre, rest)
            found = (
                series.scores(rows, about, present, members)
                if series is not None
                else members.every(about, present, classes)
            )
        found[np.arange(len(own)), own] = members.scores(about, present, mine)
        return found, doubtful

    return formula


class Centred(NamedTuple):
    """Moments about a centre."""

    weight: Array  # (..., d)
    weight_rest: Array  # what its rounding lost
    mean: Array  # less the centre; 0 where nothing was seen
    scatter: Array

    @classmethod
    def of(cls, seen: Moments, centre: Array) -> "Centred":
        weight, rest = seen.weight.pair
        first = (seen.first - seen.weight.times(centre)).value
        return cls(weight, rest, first / np.where(weight > 0, weight, 1.0), seen.scatter)

    def at(self, own: Any) -> "Centred":
        return Centred(*(part[own] for part in self))

    def less(self, about: Array, w: Array, cancelled: float) -> tuple["Centred", Marks]:
        """Without each row (b, d), its weight (b, 1), or (b, d) and 0 in columns where it says nothing."""
        weight = (self.weight - w) + self.weight_rest
        shift = about - self.mean
        with np.errstate(invalid="ignore", divide="ignore"):
            moved = shift * (w / weight)
            scatter = self.scatter - moved * shift * self.weight
        mean = self.mean - moved
        doubtful = (weight < cancelled * self.weight) | (scatter < cancelled * self.scatter)
        # no row can change that nothing was seen, nor that all are alike; and one that was all leaves nothing
        empty, flat = weight <= 0, self.scatter == 0
        doubtful &= ~(empty | flat)
        if flat.any() or empty.any():
            scatter = np.where(empty | flat, 0.0, scatter)
            mean = np.where(empty, 0.0, mean)
        left = Centred(weight, np.broadcast_to(0.0, weight.shape), mean, np.maximum(scatter, 0.0))
        return left, np.asarray(doubtful.any(axis=1))

    def mean_variance(self, centre: Array) -> tuple[Array, Array]:
        """Maximum-likelihood parameters; 0 (from zero, not from the centre) and 1 where nothing was seen."""
        empty = self.weight <= 0
        if not empty.any():
            return self.mean, self.scatter / self.weight
        return (
            np.where(empty, -centre, self.mean),
            np.where(empty, 1.0, self.scatter / np.where(empty, 1.0, self.weight)),
        )


@dataclass(frozen=True, slots=True)
class _Members:
    """From moments to scores, as `GaussianColumns.infer` goes, with what is pooled different for each row."""

    block: GaussianColumns
    centre: Array  # (d,)
    pooled: Centred | None  # (b, d); None if nothing is pooled
    axis: bool = False  # whether there is an axis of classes between rows and columns

    def at(self, rows: Marks) -> "_Members":
        pooled = None if self.pooled is None else Centred(*(part[rows] for part in self.pooled))
        return _Members(self.block, self.centre, pooled, self.axis)

    def every(self, about: Array, present: Marks | None, classes: Centred) -> Array:
        """Of all classes, (b, K)."""
        wide = _Members(self.block, self.centre, self.pooled, True)
        return wide.scores(about[:, None], None if present is None else present[:, None], classes)

    def scores(self, about: Array, present: Marks | None, seen: Centred) -> Array:
        """log p, summed over columns: (b,), or (b, K)."""
        if self.block.estimate == "mle":
            mean, variance = seen.mean_variance(self.centre)
            return _normal(about, present, mean, np.maximum(variance + self._smoothing(), _LEAST))
        after = self._updated(seen)
        if self.block.estimate == "predictive":
            terms = after.predictive().log_density(about)
            return np.asarray((terms if present is None else np.where(present, terms, 0.0)).sum(axis=-1))
        mean, variance = after.mode if self.block.estimate == "map" else after.mean
        variance = np.where(np.isfinite(variance), variance, after.scale / after.shape)
        return _normal(about, present, mean, np.maximum(variance, _LEAST))

    def largest(self) -> Array:
        """The largest variance of any column, (b, 1)."""
        if self.pooled is None:
            return np.zeros((1, 1))
        variance = self.pooled.scatter / np.maximum(self.pooled.weight, _LEAST)  # no scatter without weight
        return np.asarray(variance.max(axis=1, initial=0.0, keepdims=True))

    def _smoothing(self) -> Array:
        return self._wide(self.block.smoothing * self.largest())

    def _wide(self, part: Array) -> Array:
        return part[:, None] if self.axis else part

    def _prior(self) -> NormalInverseGamma:
        prior = self.block.prior
        if prior is not None:
            return NormalInverseGamma(prior.location - self.centre, prior.strength, prior.shape, prior.scale)
        if self.pooled is None:
            raise AssertionError("a prior that is not given is pooled")
        mean, variance = self.pooled.mean_variance(self.centre)
        floor = 1e-9 * np.maximum(self.largest(), 1e-9)
        variance = np.maximum(variance, floor)
        return NormalInverseGamma.from_mean(self._wide(mean), self.block.strength, self._wide(variance))

    def _updated(self, seen: Centred) -> NormalInverseGamma:
        """`NormalInverseGamma.update` on moments about a centre."""
        belief = self._prior()
        total = belief.strength + seen.weight
        shift = np.where(seen.weight > 0, seen.mean - belief.location, 0.0)
        pull = belief.strength * seen.weight / total
        return NormalInverseGamma(
            belief.location + seen.weight / total * shift,
            total,
            belief.shape + 0.5 * seen.weight,
            belief.scale + 0.5 * (seen.scatter + pull * np.square(shift)),
        )


def _normal(about: Array, present: Marks | None, mean: Array, variance: Array) -> Array:
    """Σ log N(x; mean, variance) over columns, −½ of what is summed here."""
    terms = about - mean
    np.square(terms, out=terms)
    terms /= variance
    terms += np.log(variance)
    terms += _LOG_TAU
    if present is not None:
        terms *= present
    return np.asarray(-0.5 * terms.sum(axis=-1))


@dataclass(frozen=True, slots=True)
class _Series:
    """Scores of maximum-likelihood members when one row less has changed the smoothing of all of them.

    The change δ of the variances is some part in 1e9 n of them, so that two terms of a series in δ / variance
    are exact to rounding, and BLAS sums them: 10 classes of 20 columns take 2 µs a row in all, where a
    logarithm and a division a term take 7. Rows for which the series is not exact go that way.
    """

    density: Normal
    classes: Centred
    smoothed: float  # by how much, with all rows
    terms: tuple[Array, Array]  # (3 d, K): of δ and δ², from [x², x, 1]
    precision: float  # the largest
    reach: float  # the largest square of a mean

    @classmethod
    def of(
        cls, block: GaussianColumns, density: Normal, classes: Centred, whole: Centred, centre: Array
    ) -> "_Series | None":
        if block.estimate != "mle" or not block.smoothing > 0:
            return None
        mean, _ = classes.mean_variance(centre)
        p = 1.0 / density.variance
        first, second = (
            np.concatenate([q, -2.0 * mean * q, np.square(mean) * q - part], axis=1).T
            for q, part in ((p * p, p), (p * p * p, 0.5 * p * p))
        )
        smoothed = block.smoothing * float(_Members(block, centre, whole.at(np.newaxis)).largest()[0, 0])
        reach = float(np.square(mean).max(initial=0.0))
        return cls(density, classes, smoothed, (first, second), float(p.max(initial=0.0)), reach)

    def scores(self, rows: Array, about: Array, present: Marks | None, members: _Members) -> Array:
        found = self.density.scores(rows)
        change = members.block.smoothing * members.largest()[:, 0] - self.smoothed
        squares = np.square(about)
        part = np.abs(change) * self.precision
        size = (squares.max(axis=1, initial=0.0) + self.reach) * self.precision
        far = ~((part <= 1e-5) & (part * size <= 1e2))
        ones = np.broadcast_to(1.0, rows.shape) if present is None else present
        values = np.concatenate([squares, about, ones], axis=1)
        once, twice = (values @ terms for terms in self.terms)
        found += 0.5 * change[:, None] * (once - change[:, None] * twice)
        if far.any():
            seen = None if present is None else present[far]
            found[far] = members.at(far).every(about[far], seen, self.classes)
        return found
