"""data → Tally: weight and ΣT(x), the statistic of every exponential family."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis import _kernels, arrays
from tamis._kernels import Floats
from tamis.stats.exact import Exact
from tamis.stats.keys import Keys, Labels
from tamis.stats.rows import Rows, can_add_row
from tamis.stats.sums import Place, Sums

TallyT = TypeVar("TallyT", bound="Tally")

_ONE: Floats = np.ones(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(Sums):
    """The weight of the rows, and the sum of their sufficient statistics T(x).

    >>> coin = Tally.observe([1, 0, 1, 1])
    >>> float(coin.weight.value), coin.total.value.tolist()
    (4.0, [3.0])
    >>> Tally.count(["sun", "rain", "sun"]).table()
    {'rain': 1.0, 'sun': 2.0}
    """

    weight: Exact  # its shape: the batch axes
    total: Exact  # its shape: the batch axes, then one axis of terms
    terms: Keys | None = None  # names of the last axis: categories, words

    @classmethod
    def of(
        cls, weight: ArrayLike, total: ArrayLike, keys: Keys | None = None, terms: Keys | None = None
    ) -> Self:
        """Make a statistic from numbers: `total` (*batch, k), and `weight`, broadcast to the batch axes."""
        totals = Exact.of(total)
        weights = Exact.of(np.broadcast_to(np.asarray(weight), totals.shape[:-1]))
        return cls(weight=weights, total=totals, keys=keys, terms=terms).drop_zeros()

    @classmethod
    def observe(cls, values: object, weights: object = None, by: object = None) -> Self:
        """Sum sufficient statistics T(x) over their rows, by label if labels are given.

        Their shape is (n, *batch, k), or (n,) if T(x) is one number.
        """
        is_table = isinstance(values, arrays.Matrix) or arrays.is_frame(values)
        array = None if is_table else arrays.to_numpy(values)
        if array is None or array.ndim <= 2:
            rows = Rows.of(values if array is None else array, weights, by)
            return cls(weight=rows.sum_weights(), total=rows.sum_values(), keys=rows.keys).drop_zeros()
        shape = array.shape[1:]
        rows = Rows.of(array.reshape(len(array), math.prod(shape)), weights, by)
        return cls(
            weight=rows.sum_weights().reindex(lambda words: _add_axes(words, shape[:-1])),
            total=rows.sum_values().reindex(lambda words: words.reshape(*words.shape[:-1], *shape)),
            keys=rows.keys,
        ).drop_zeros()

    @classmethod
    def count(cls, values: object, weights: object = None, by: object = None) -> Self:
        """Count distinct values, by label if labels are given. Values and labels become names of axes."""
        if isinstance(values, Labels) and weights is None and by is None:  # already encoded, none missing
            number = Exact.count(len(values.group), ())
            tally = cls(weight=number, total=Exact.from_integers(values.counts), terms=values.keys)
            return tally if values.counts.all() else tally.drop_zeros()
        terms, codes = Keys.of(values)
        row_weights = arrays.to_weights(weights, len(codes))
        keys, group = (None, np.zeros(len(codes), dtype=np.int64)) if by is None else Keys.of(by)
        if len(group) != len(codes):
            raise ValueError(f"got {len(group)} labels for {len(codes)} values, expected one per value")
        shape = (len(terms),) if keys is None else (len(keys), len(terms))
        cell = group * len(terms) + codes
        n_cells = int(np.prod(shape, dtype=np.int64))
        if row_weights is None:
            total = Exact.from_integers(np.bincount(cell, minlength=n_cells).astype(np.int64).reshape(shape))
        else:
            column = np.ascontiguousarray(row_weights[:, None])
            bounds = _kernels.span(column)[0]  # exponents of the largest and the smallest weight
            words, low = _kernels.deposit(column, bounds, cell, n_cells)
            total = Exact(words.reshape(words.shape[0], *shape), low)
        return cls(weight=total.sum(axis=-1), total=total, keys=keys, terms=terms).drop_zeros()

    def add_row(self, values: Floats, label: Hashable = None, weight: float = 1.0) -> Self:
        """Add one row of sufficient statistics (terms,), none of them NaN.

        A row that cannot be added directly (another shape, a new label, extreme values) is observed and then
        added: the result is the same, in more time.
        """
        group = 0 if self.keys is None else self.keys.position(label)
        has_shape = values.shape == self.total.shape[-1:] and len(self.total.shape) == (
            1 if self.keys is None else 2
        )
        if (
            group is None
            or not has_shape
            or self.terms is not None
            or not can_add_row(values, weight, power=1)
        ):
            return self + type(self).observe(values[None], [weight], None if self.keys is None else [label])
        return self._add(group, values, weight)

    def add_terms(self, indices: Sequence[int], label: Hashable, weight: float = 1.0) -> Self | None:
        """Add one row with this label, which has the terms at these indices, each once.

        Return None, and let the caller observe the row, if the label is new, if this is not grouped by label,
        or if the weight is too large or too small to be added directly.
        """
        group = None if self.keys is None else self.keys.position(label)
        if group is None or not _can_count(weight):
            return None
        counts = np.zeros(self.total.shape[-1])
        counts[indices] = 1.0
        return self._add(group, counts, weight)

    def _add(self, group: int, values: Floats, weight: float) -> Self:
        return self.with_fields(
            weight=self.weight.add_row(group, _ONE, weight, power=1),
            total=self.total.add_row(group, values, weight, power=1),
        )

    def add_term(self, term: Hashable, weight: float = 1.0) -> Self | None:
        """Count a named term once more, as `self + Tally.count([term], [weight])` does, but faster.

        Return None, and let the caller do so, if the term is new, if the terms have no names, if the counts
        are by label, or if the weight is too large or too small to be added directly.
        """
        index = None if self.keys is not None or self.terms is None else self.terms.position(term)
        if index is None or not _can_count(weight):
            return None
        return self.with_fields(
            weight=self.weight.add_row(0, _ONE, weight, power=1),
            total=self.total.add_row(index, _ONE, weight, power=1),
        )

    @property
    def mean(self) -> Floats:
        """The mean of T(x), which is the maximum-likelihood mean parameter; NaN where the weight is 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.total.value / self.weight.value[..., None])

    def table(self) -> dict[object, object]:
        """Return the totals by term, as a dict; terms without names are known by their indices.

        If the statistic is grouped by label, return a dict of such dicts by label.
        """
        names = range(self.total.shape[-1]) if self.terms is None else self.terms
        if self.keys is None:
            return dict(zip(names, self.total.value.tolist(), strict=True))
        return {
            key: dict(zip(names, row, strict=True))
            for key, row in zip(self.keys, self.total.value.tolist(), strict=True)
        }

    def _align(self, other: Self) -> tuple[Self, dict[str, Place]]:
        """Extend this statistic to the labels and terms of both; return it and where to add the other's sums.

        A `Place` is the index, in the extended array of a sum, at which the other's is added, and the array's
        shape.
        """
        left, places = super(Tally, self)._align(other)
        if (left.terms is None) != (other.terms is None):
            raise ValueError("cannot combine a Tally of named terms with one of numbered terms")
        if left.terms is None or other.terms is None or left.terms == other.terms:
            return left, places
        terms, ours, theirs = left.terms.union(other.terms)
        if terms is not left.terms:
            left = _extend_terms(left, terms, ours)
        index, shape = places.get("total", ((), other.total.shape))
        axes = [*index, *map(np.arange, other.total.shape[len(index) : -1]), theirs]
        mesh = (theirs,) if len(axes) == 1 else np.ix_(*axes)
        return left, {**places, "total": Place(mesh, (*shape[:-1], len(terms)))}

    def drop_zeros(self) -> Self:
        """Drop labels and terms whose sums are all zero, as if their rows had never been observed."""
        return self.with_sums(self.parts())

    def with_sums(self, parts: dict[str, Exact]) -> Self:
        """Replace the sums, and drop the labels and terms whose sums are all zero."""
        tally = super(Tally, self).with_sums(parts)
        if tally.terms is None:
            return tally
        nonzero = tally.total.find_nonzero(axis=-1)
        if nonzero.all():
            return tally
        total = tally.total.reindex(lambda words: words[..., nonzero])
        return tally.with_fields(terms=tally.terms.keep(nonzero), total=total)


def _can_count(weight: float) -> bool:
    """Return whether a row of this weight can be counted by `Exact.add_row`."""
    return weight == 1.0 or can_add_row(_ONE, weight, power=1)


def _extend_terms(tally: TallyT, terms: Keys, index: NDArray[np.int64]) -> TallyT:
    """Extend a statistic to `terms`, which has its own at `index`; the totals of the others are zero."""
    return tally.with_fields(terms=terms, total=tally.total.place(index, len(terms), axis=-1))


def _add_axes(words: NDArray[np.int64], batch: tuple[int, ...]) -> NDArray[np.int64]:
    """Broadcast words to further axes of these lengths, which come last."""
    return np.broadcast_to(words.reshape(*words.shape, *(1,) * len(batch)), (*words.shape, *batch))
