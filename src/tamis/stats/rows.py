"""Data → rows that are checked, weighed and filed by label, and the exact sums over them.

Every `observe` of this package goes through here, and nothing else touches data.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels, arrays
from tamis._kernels import Floats, Span, Words
from tamis.arrays import Matrix
from tamis.stats.exact import Exact
from tamis.stats.keys import Keys


@dataclass(frozen=True, slots=True)
class Rows:
    """n rows of d finite values, each with a weight (none: 1) and a group (none: all are one)."""

    values: Floats  # (n, d)
    bounds: Span
    weights: Floats | None  # (n, 1)
    weight_bounds: Span | None
    group: Words | None  # (n,)
    keys: Keys | None
    present: NDArray[np.bool_] | None = None  # (n, d); where False, the value was missing and is 0

    @classmethod
    def of(cls, data: object, weights: object = None, by: object = None, missing: bool = False) -> Self:
        """Check and file the data; `missing` lets NaN through, to be left out of every sum."""
        table = arrays.matrix(data)
        values = table.values
        bounds, finite = _kernels.span(values)
        present = None
        if not finite.all():
            if missing:
                present = ~np.isnan(values)
                table = Matrix(np.where(present, values, 0.0), table.names)
                values = table.values
                bounds, finite = _kernels.span(values)
            arrays.refuse_unless_finite(table, finite)
        weighed = arrays.weights(weights, len(values))
        weight_column = weight_bounds = None
        if weighed is not None:
            weight_column = weighed[:, None]
            weight_bounds, _ = _kernels.span(weight_column)
        keys, group = (None, None) if by is None else Keys.of(by)
        if group is not None and len(group) != len(values):
            raise ValueError(f"got {len(group)} labels for {len(values)} rows, expected one a row")
        return cls(values, bounds, weight_column, weight_bounds, group, keys, present)

    @property
    def groups(self) -> int:
        return 1 if self.keys is None else len(self.keys)

    def shape(self, *event: int) -> tuple[int, ...]:
        """The shape of a sum: a row for each group if there are groups."""
        return event if self.keys is None else (len(self.keys), *event)

    def weight(self) -> Exact:
        """Total weight, by group."""
        if self.weights is None or self.weight_bounds is None:
            if self.group is None:
                return Exact.of_integers(np.array(len(self.values), dtype=np.int64))
            return Exact.of_integers(np.bincount(self.group, minlength=self.groups).astype(np.int64))
        return self._shaped(_kernels.deposit(self.weights, self.weight_bounds, self.group, self.groups), ())

    def weight_by_column(self) -> Exact:
        """Total weight of the values that are present, by group and column."""
        event = (self.values.shape[1],)
        if self.present is None:
            weight = self.weight()
            return weight.reindex(lambda w: np.broadcast_to(w[..., None], (*w.shape, *event)))
        present = self.present.astype(np.float64)
        return self._sum(present, _kernels.span(present)[0], event)

    def first(self) -> Exact:
        """Σ w x, by group (..., d)."""
        return self._sum(self.values, self.bounds, (self.values.shape[1],))

    def squares(self) -> Exact:
        """Σ w x², by group (..., d)."""
        return self.products(np.arange(self.values.shape[1]), np.arange(self.values.shape[1]))

    def products(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Exact:
        """Σ w x_i x_j for the named pairs of columns, each product exact, by group (..., pairs)."""
        self.refuse_unless_squarable()
        x, y = _columns(self.values, left), _columns(self.values, right)
        (high, low) = self.bounds
        x_bounds, y_bounds = (high[left], low[left]), (high[right], low[right])
        if self.weights is None or self.weight_bounds is None:
            sums = _kernels.deposit_products(x, x_bounds, y, y_bounds, self.group, self.groups)
            return self._shaped(sums, (len(left),))
        product, rounding = _kernels.two_product(x, y)
        return self._sum(product, _kernels.span(product)[0], (len(left),)) + self._sum(
            rounding, _kernels.span(rounding)[0], (len(left),)
        )

    def split(self) -> "list[Rows]":
        """The rows of each group by itself, in the order of the groups."""
        if self.group is None:
            return [self]
        order = np.argsort(self.group, kind="stable")
        edges = np.cumsum(np.bincount(self.group, minlength=self.groups))[:-1]
        return [self._only(index) for index in np.split(order, edges)]

    def refuse_unless_squarable(self) -> None:
        """Raise if a square of the values, or a weighted one, would leave the range of float64."""
        high = self.bounds[0]
        extra = 0 if self.weight_bounds is None else max(0, int(self.weight_bounds[0][0]))
        wide = np.flatnonzero(2 * high + extra > _WIDEST)
        if wide.size:
            column = int(wide[0])
            largest = float(np.abs(self.values[:, column]).max())
            raise ValueError(
                f"column {column} holds {largest:.3g}, expected magnitudes that can be squared "
                "(below about 1e150): rescale the column"
            )

    def _only(self, index: NDArray[np.int64]) -> "Rows":
        weights = None if self.weights is None else np.ascontiguousarray(self.weights[index])
        return Rows(self.values[index], self.bounds, weights, self.weight_bounds, None, None)

    def _sum(self, values: Floats, bounds: Span, event: tuple[int, ...]) -> Exact:
        if self.weights is None or self.weight_bounds is None:
            return self._shaped(_kernels.deposit(values, bounds, self.group, self.groups), event)
        sums = _kernels.deposit_products(
            values, bounds, self.weights, self.weight_bounds, self.group, self.groups
        )
        return self._shaped(sums, event)

    def _shaped(self, sums: tuple[Words, int], event: tuple[int, ...]) -> Exact:
        words, low = sums
        return Exact(words.reshape(words.shape[0], *self.shape(*event)), low)


_WIDEST = 1000  # exponents: beyond 2**1000 the halves of a product could overflow


def _columns(values: Floats, index: NDArray[np.int64]) -> Floats:
    """The named columns; the array itself when that is all of them in order, as for squares."""
    if len(index) == values.shape[1] and (index == np.arange(len(index))).all():
        return values
    return np.ascontiguousarray(values[:, index])
