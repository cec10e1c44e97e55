"""Numbers without each row in turn.

Sums are taken about one centre, so that nothing cancels that need not, and moments lose a row by Chan's
formula backwards. It cancels where the row is most of its class; such rows are marked.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tamis.arrays import Array
from tamis.conjugate import NormalInverseGamma
from tamis.models.generative.gaussian_columns import GaussianColumns, Normal, known_spread
from tamis.models.generative.leave_one_out.formula import CANCELLED, Formula, Found, Indices, Marks, replaced
from tamis.stats import Keys, Moments

_LEAST = 1e-300  # as in gaussian_columns.py
_LOG_TAU = float(np.log(2.0 * np.pi))


def gaussian(block: GaussianColumns, statistic: Moments, keys: Keys) -> Formula:
    """Numbers: the row is gone from the moments of its class, and from what is pooled."""
    pooled = statistic.pooled()
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = np.nan_to_num(pooled.mean, nan=0.0)
    classes, whole = Centred.of(statistic.over(keys), centre), Centred.of(pooled, centre)
    density = block.infer(statistic, keys)
    constant = block.smoothing == 0 if block.estimate == "mle" else block.prior is not None
    series = _Series.of(block, density, classes, whole, centre) if isinstance(density, Normal) else None

    def formula(rows: Array, own: Indices, w: Array) -> Found:
        about, present, each = rows - centre, None, w[:, None]
        if (missing := np.isnan(about)).any():
            present = ~missing
            about, each = np.where(missing, 0.0, about), np.where(missing, 0.0, each)
        mine, doubtful = classes.at(own).less(about, each)
        if constant:
            found = density.scores(rows)
            members = _Members(block, centre)
        else:
            rest, other = whole.less(about, each)
            doubtful |= other
            members = _Members(block, centre, rest, rest.largest())
            found = (
                series.scores(rows, about, present, members)
                if series is not None
                else members.every(about, present, classes)
            )
        return replaced(found, own, members.scores(about, present, mine)), doubtful

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

    def less(self, about: Array, w: Array) -> tuple["Centred", Marks]:
        """Without each row (b, d), its weight (b, 1), or (b, d) and 0 in columns where it says nothing."""
        weight = (self.weight - w) + self.weight_rest
        shift = about - self.mean
        with np.errstate(invalid="ignore", divide="ignore"):
            moved = shift * (w / weight)
            scatter = self.scatter - moved * shift * self.weight
        mean, rest = self.mean - moved, np.broadcast_to(0.0, weight.shape)
        if (weight > CANCELLED * self.weight).all() and (scatter > CANCELLED * self.scatter).all():
            return Centred(weight, rest, mean, scatter), np.zeros(len(weight), dtype=np.bool_)
        doubtful = (weight < CANCELLED * self.weight) | (scatter < CANCELLED * self.scatter)
        # no row can change that nothing was seen, nor that all are alike; and one that was all leaves nothing
        empty, flat = weight <= 0, self.scatter == 0
        doubtful &= ~(empty | flat)
        scatter = np.where(empty | flat, 0.0, np.maximum(scatter, 0.0))
        return Centred(weight, rest, np.where(empty, 0.0, mean), scatter), np.asarray(doubtful.any(axis=1))

    def largest(self) -> Array:
        """The largest variance of any column, (..., 1)."""
        variance = self.scatter / np.maximum(self.weight, _LEAST)  # no scatter without weight
        return np.asarray(variance.max(axis=-1, initial=0.0, keepdims=True))

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
    pooled: Centred | None = None  # (b, d); None if nothing is pooled
    largest: Array | float = 0.0  # (b, 1): variance of any column, all classes together
    axis: bool = False  # whether there is an axis of classes between rows and columns

    def at(self, rows: Marks) -> "_Members":
        if self.pooled is None or isinstance(self.largest, float):
            return self
        return replace(self, pooled=self.pooled.at(rows), largest=self.largest[rows])

    def every(self, about: Array, present: Marks | None, classes: Centred) -> Array:
        """Of all classes, (b, K)."""
        wide = replace(self, axis=True)
        return wide.scores(about[:, None], None if present is None else present[:, None], classes)

    def scores(self, about: Array, present: Marks | None, seen: Centred) -> Array:
        """log p, summed over columns: (b,), or (b, K)."""
        if self.block.estimate == "mle":
            mean, variance = seen.mean_variance(self.centre)
            smoothing = self._wide(np.asarray(self.block.smoothing * self.largest))
            return _normal(about, present, mean, np.maximum(variance + smoothing, _LEAST))
        after = self._updated(seen)
        if self.block.estimate == "predictive":
            terms = after.predictive().log_density(about)
            return np.asarray((terms if present is None else np.where(present, terms, 0.0)).sum(axis=-1))
        mean, variance = after.mode if self.block.estimate == "map" else after.mean
        variance = np.where(np.isfinite(variance), variance, after.scale / after.shape)
        return _normal(about, present, mean, np.maximum(variance, _LEAST))

    def _wide(self, part: Array) -> Array:
        return part[:, None] if self.axis and part.ndim else part

    def _prior(self) -> NormalInverseGamma:
        prior = self.block.prior
        if prior is not None:
            return NormalInverseGamma(prior.location - self.centre, prior.strength, prior.shape, prior.scale)
        if self.pooled is None:
            raise AssertionError("a prior that is not given is pooled")
        mean, variance = self.pooled.mean_variance(self.centre)
        return NormalInverseGamma.from_mean(
            self._wide(mean), self.block.strength, self._wide(known_spread(variance))
        )

    def _updated(self, seen: Centred) -> NormalInverseGamma:
        """`NormalInverseGamma.update` on moments about a centre."""
        belief = self._prior()
        total = belief.strength + seen.weight
        shift = np.where(seen.weight > 0, seen.mean - belief.location, 0.0)
        pull = belief.strength * seen.weight / total
        after = (
            belief.location + seen.weight / total * shift,
            total,
            belief.shape + 0.5 * seen.weight,
            belief.scale + 0.5 * (seen.scatter + pull * np.square(shift)),
        )
        flat = self.flat
        if flat is None or not flat.any():
            return NormalInverseGamma(*after)
        before = belief.location, belief.strength, belief.shape, belief.scale
        wide = flat[:, None] if self.axis else flat
        return NormalInverseGamma(*(np.where(wide, a, b) for a, b in zip(before, after, strict=True)))

    @property
    def flat(self) -> Marks | None:
        """Columns that never vary (b, d), of which a prior that is pooled knows nothing."""
        if self.pooled is None:
            return None
        _, variance = self.pooled.mean_variance(self.centre)
        return ~((variance > _LEAST) & (self.pooled.weight > 0))


def _normal(about: Array, present: Marks | None, mean: Array, variance: Array) -> Array:
    """Σ log N(x; mean, variance) over columns, −½ of what is summed here."""
    terms = about - mean
    np.square(terms, out=terms)
    with np.errstate(over="ignore"):  # of a class that has no variance, nor smoothing
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
        if block.estimate != "mle" or not block.smoothing > 0 or density.variance.min(initial=1.0) < 1e-60:
            return None
        mean, _ = classes.mean_variance(centre)
        p = 1.0 / density.variance
        first, second = (
            np.concatenate([q, -2.0 * mean * q, np.square(mean) * q - part], axis=1).T
            for q, part in ((p * p, p), (p * p * p, 0.5 * p * p))
        )
        smoothed = block.smoothing * float(whole.largest()[0])
        reach = float(np.square(mean).max(initial=0.0))
        return cls(density, classes, smoothed, (first, second), float(p.max(initial=0.0)), reach)

    def scores(self, rows: Array, about: Array, present: Marks | None, members: _Members) -> Array:
        found = self.density.scores(rows)
        change = np.ravel(members.block.smoothing * members.largest) - self.smoothed
        squares = np.square(about)
        part = np.abs(change) * self.precision
        size = (squares.max(axis=1, initial=0.0) + self.reach) * self.precision
        far = ~((part <= 1e-5) & (part * size <= 1e2))
        found += 0.5 * change[:, None] * self._summed(0, squares, about, present)
        if part.max(initial=0.0) > 1e-9:  # else what follows is below rounding
            found -= 0.5 * np.square(change)[:, None] * self._summed(1, squares, about, present)
        if far.any():
            seen = None if present is None else present[far]
            found[far] = members.at(far).every(about[far], seen, self.classes)
        return found

    def _summed(self, order: int, squares: Array, about: Array, present: Marks | None) -> Array:
        """[x², x, 1] · terms, (b, K); without those of columns in which a row says nothing."""
        terms, d = self.terms[order], about.shape[1]
        if present is not None:
            return np.asarray(np.concatenate([squares, about, present], axis=1) @ terms)
        return np.asarray(squares @ terms[:d] + about @ terms[d : 2 * d] + terms[2 * d :].sum(axis=0))
