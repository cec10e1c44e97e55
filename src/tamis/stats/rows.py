"""Data → checked rows with weights, grouped by label, and exact sums over them.

Statistics read their data here, except where a faster kernel checks and sums rows at once.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels, arrays
from tamis._kernels import Floats, Int64s, Words
from tamis.arrays import Matrix
from tamis.stats.exact import Exact
from tamis.stats.keys import Keys

_MAX_EXPONENT = 1000  # weighted squares from 2**1000 on are refused: their sums may overflow
_MAX_WEIGHT_EXPONENT = 500  # weights from 2**500 on are refused: means and variances square sums of them
_LARGEST = 1e100  # a weight or value below this magnitude has weighted squares below 2**1000
_SMALLEST = 1e-140  # the rounding error of the square of a value above this magnitude does not underflow
_BLOCK = 1 << 16  # values whose weighted products are in memory at a time


@dataclass(frozen=True, slots=True)
class Rows:
    """n rows of d finite values, with a weight and a group each.

    Without weights, each row has the weight 1; without labels, all rows are one group.
    """

    table: Matrix  # (n, d)
    # (2, d): exponents of the largest and of the smallest nonzero magnitude of each column (`_kernels.span`)
    bounds: Int64s
    largest: int  # the largest exponent of all columns
    weights: Floats | None = None  # (n, 1)
    weight_bounds: Int64s | None = None  # (2, 1): the largest and the smallest exponent of the weights
    group: Int64s | None = None  # (n,): the index of each row's key
    keys: Keys | None = None  # the labels of the groups
    present: NDArray[np.bool_] | None = None  # (n, d); where False, the value was missing and is 0

    @classmethod
    def of(cls, data: object, weights: object = None, by: object = None, missing: bool = False) -> Self:
        """Check the data, the weights and the labels `by`. With `missing`, NaN is left out of every sum."""
        table = arrays.to_matrix(data)
        # `nonfinite` is the first column with NaN or ∞, or -1.
        bounds, largest, nonfinite = _kernels.span(table.values)
        present = None
        if nonfinite >= 0 and missing:
            present = ~np.isnan(table.values)
            table = Matrix(np.where(present, table.values, 0.0), table.names, table.had_one_axis)
            bounds, largest, nonfinite = _kernels.span(table.values)
        if nonfinite >= 0:
            table.refuse_nonfinite(nonfinite)
        if weights is None and by is None:
            return cls(table, bounds, largest, present=present)
        weight_column = weight_bounds = None
        if (row_weights := arrays.to_weights(weights, len(table.values))) is not None:
            weight_column = row_weights[:, None]
            weight_bounds, _, _ = _kernels.span(weight_column)
        keys, group = (None, None) if by is None else Keys.of(by)
        if group is not None:
            arrays.refuse_unless_one_per_row(len(group), len(table.values), "labels")
        return cls(table, bounds, largest, weight_column, weight_bounds, group, keys, present)

    def with_table(self, table: Matrix) -> "Rows":
        """Replace the columns by others of the same rows, with the same weights and groups."""
        bounds, largest, nonfinite = _kernels.span(table.values)
        if nonfinite >= 0:
            table.refuse_nonfinite(nonfinite)
        return Rows(table, bounds, largest, self.weights, self.weight_bounds, self.group, self.keys)

    def join(self, other: "Rows") -> "Rows":
        """Append the columns of `other`, which has the same rows."""
        table = Matrix(np.hstack([self.values, other.values]))
        bounds = np.hstack([self.bounds, other.bounds])
        largest = max(self.largest, other.largest)
        return Rows(table, bounds, largest, self.weights, self.weight_bounds, self.group, self.keys)

    @property
    def values(self) -> Floats:
        return self.table.values

    @property
    def groups(self) -> int:
        return 1 if self.keys is None else len(self.keys)

    def shape(self, *entry_shape: int) -> tuple[int, ...]:
        """Return the shape of sums that have this shape in each group; groups, if any, are the first axis."""
        return entry_shape if self.keys is None else (len(self.keys), *entry_shape)

    def sum_weights(self) -> Exact:
        """Return the total weight, by group."""
        if self.weights is None or self.weight_bounds is None:
            if self.group is None:
                return Exact.count(len(self.values), ())
            return Exact.from_integers(np.bincount(self.group, minlength=self.groups).astype(np.int64))
        return self._reshape(_kernels.deposit(self.weights, self.weight_bounds, self.group, self.groups), ())

    def sum_weights_by_column(self) -> Exact:
        """Return the total weight of the values that are not missing, by group and column."""
        d = self.values.shape[1]
        if self.present is not None:
            present = self.present.astype(np.float64)
            return self.sum_columns(present, _kernels.span(present)[0])
        if self.weights is None:
            if self.group is None:
                return Exact.count(len(self.values), (d,))
            counts = np.bincount(self.group, minlength=self.groups)
            return Exact.from_integers(np.repeat(counts[:, None], d, axis=1))
        return self.sum_weights().reindex(lambda w: np.broadcast_to(w[..., None], (*w.shape, d)))

    def sum_values(self) -> Exact:
        """Return Σ w x, by group (..., d)."""
        return self.sum_columns(self.values, self.bounds)

    def sum_powers(self) -> tuple[Exact, Exact]:
        """Return Σ w x and Σ w x², by group (..., d)."""
        self.refuse_unless_squarable()
        if self.weights is not None:
            columns = np.arange(self.values.shape[1])
            return self.sum_values(), self.sum_products(columns, columns)
        first, first_low, second, second_low = _kernels.deposit_powers(
            self.values, self.bounds, self.group, self.groups
        )
        entry_shape = self.values.shape[1:]
        return self._reshape((first, first_low), entry_shape), self._reshape(
            (second, second_low), entry_shape
        )

    def sum_products(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Exact:
        """Return Σ w x_i x_j by group (..., pairs), for pairs of columns i in `left` and j in `right`.

        The sums are exact without weights; with weights, if every |x_i x_j| is 0 or above 1e-290.
        """
        self.refuse_unless_squarable()
        entry_shape = (len(left),)
        if self.weights is None:
            x, y = _take_columns(self.values, left), _take_columns(self.values, right)
            x_bounds, y_bounds = _take_columns(self.bounds, left), _take_columns(self.bounds, right)
            sums = _kernels.deposit_products(x, x_bounds, y, y_bounds, self.group, self.groups)
            return self._reshape(sums, entry_shape)
        total = Exact.zeros(self.shape(*entry_shape))
        # At least four rows per group, because each block adds sums of all groups to the total.
        step = max(1, _BLOCK // max(1, len(left)), 4 * self.groups)
        for start in range(0, len(self.values), step):
            block = self.take(slice(start, start + step))
            # The exact products: the rounded ones, and their rounding errors.
            for products in _kernels.two_product(
                _take_columns(block.values, left), _take_columns(block.values, right)
            ):
                total += block.sum_columns(products, _kernels.span(products)[0])
        return total

    def sort_by_group(self) -> tuple[NDArray[np.int64] | None, list[int]]:
        """Return the indices that sort rows by group (None without labels), and the groups' boundaries."""
        if self.group is None:
            return None, [0, len(self.values)]
        counts = np.bincount(self.group, minlength=self.groups)
        return arrays.argsort_codes(self.group, self.groups), [0, *np.cumsum(counts).tolist()]

    def split(self) -> "list[Rows]":
        """Return the rows of each group as `Rows` without groups, in the order of the groups."""
        order, edges = self.sort_by_group()
        if order is None:
            return [self]
        parts = (self.take(index) for index in np.split(order, edges[1:-1]))
        return [
            Rows(
                part.table, part.bounds, part.largest, part.weights, part.weight_bounds, present=part.present
            )
            for part in parts
        ]

    def refuse_unless_squarable(self) -> None:
        """Raise if the largest square, times the largest weight if that is above 1, may overflow in sums.

        Raise also if the square of a weight may.
        """
        weight_exponent = 0 if self.weight_bounds is None else max(0, int(self.weight_bounds[0, 0]))
        if weight_exponent > _MAX_WEIGHT_EXPONENT and self.weights is not None:
            raise ValueError(
                f"got a weight of {self.weights.max():.3g}, expected below about 1e150: "
                "divide the weights by a constant"
            )
        if 2 * self.largest + weight_exponent > _MAX_EXPONENT:
            column = int(self.bounds[0].argmax())
            largest = float(np.abs(self.values[:, column]).max())
            raise ValueError(
                f"{self.table.describe(column)} holds {largest:.3g}, expected magnitudes that can be squared "
                f"{'and weighted ' if weight_exponent else ''}(below about 1e150): rescale the column"
            )

    def take(self, rows: slice | NDArray[np.int64]) -> "Rows":
        """Select rows; the groups stay, even those without rows."""
        return Rows(
            Matrix(self.values[rows], self.table.names, self.table.had_one_axis),
            self.bounds,
            self.largest,
            None if self.weights is None else self.weights[rows],
            self.weight_bounds,
            None if self.group is None else self.group[rows],
            self.keys,
            None if self.present is None else self.present[rows],
        )

    def sum_columns(self, values: Floats, bounds: Int64s) -> Exact:
        """Return Σ w v by group (..., d), for values v (n, d) with their bounds by `_kernels.span`."""
        entry_shape = values.shape[1:]
        if self.weights is None or self.weight_bounds is None:
            return self._reshape(_kernels.deposit(values, bounds, self.group, self.groups), entry_shape)
        sums = _kernels.deposit_products(
            values, bounds, self.weights, self.weight_bounds, self.group, self.groups
        )
        return self._reshape(sums, entry_shape)

    def _reshape(self, sums: tuple[Words, int], entry_shape: tuple[int, ...]) -> Exact:
        words, low = sums
        if self.keys is None and len(entry_shape) == 1:
            return Exact(words, low)
        return Exact(words.reshape(len(words), *self.shape(*entry_shape)), low)


def can_square(exponent: int) -> bool:
    """Return whether values below 2**exponent can be squared and summed without overflow."""
    return 2 * exponent <= _MAX_EXPONENT


def can_add_row(values: Floats, weight: float, power: int) -> bool:
    """Return whether `Exact.add_row` can add weight * values**power exactly, without the checks of `Rows`.

    NaN is ignored.
    """
    least, most = np.fmin.reduce(values, initial=0.0), np.fmax.reduce(values, initial=0.0)
    if weight == 1.0:
        return bool(least > -_LARGEST and most < _LARGEST)
    if not (1.0 / _LARGEST < weight < _LARGEST and least > -_LARGEST and most < _LARGEST):
        return False
    if power < 2:
        return True
    magnitudes = np.abs(values)
    return not ((magnitudes < _SMALLEST) & (magnitudes > 0)).any()


def _take_columns(values: NDArray[Any], index: NDArray[np.int64]) -> NDArray[Any]:
    """Return the columns at these indices; not a copy if they are all columns in order."""
    if len(index) == values.shape[1] and (index == np.arange(len(index))).all():
        return values
    return np.ascontiguousarray(values[:, index])
