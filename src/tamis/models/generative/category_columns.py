"""Categories → counts by class → the probability of each value of a column, in each class."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from tamis import _kernels
from tamis.arrays import Array, one_line
from tamis.models.generative.block import Block, Codes, Contrast, Density, Responsibilities, subtract_logs
from tamis.models.generative.counting import (
    choose_pseudo_counts,
    refuse_missing_prior,
    refuse_negative_sums,
    sum_weights,
)
from tamis.stats import Exact, Keys, Labels, Tally
from tamis.tables import OneRow, Table  # OneRow is a table of one row

_MAX_INTEGER = 2**52  # all smaller integers can be stored as float64
_MAX_RANGE = 1 << 16  # up to this range, integers are encoded without a dictionary: code = value − least


@dataclass(frozen=True, kw_only=True)
class CategoryColumns(Block[Codes, Tally]):
    """Each column holds categories, with a distribution of its own in each class.

    One Tally (a statistic of counts) holds all columns; its terms are pairs (index of a column in the block,
    value). A value that was never learned has a count of 0 in every class; without pseudo-counts it does not
    distinguish the classes that have counts in its column.
    """

    kind: ClassVar[str] = "categorical"

    alpha: float = 1.0  # the pseudo-count of each value
    numbered: bool = False  # whether all integers from 0 to the largest seen are values, as in scikit-learn
    # The least number of values, of all columns or of each: `min_categories` of scikit-learn.
    min_values: ArrayLike | None = None

    def encode(self, table: Table, learn: bool = True) -> Codes:
        columns = self.column_indices(table)
        codes = _encode_columns(table, columns)
        if learn and self.numbered:
            _refuse_negative_values(codes, table, columns)
        return codes

    def admits(self, values: Array) -> bool:
        return bool(values.min() >= 0 and values.max() < _MAX_RANGE)  # False if any value is NaN

    def observe(
        self,
        rows: Codes,
        by: Labels | Responsibilities,
        weights: Array | None = None,
        given: Density[Codes] | None = None,
    ) -> Tally:
        terms, offsets = _list_terms(rows)
        count = int(offsets[-1])
        if isinstance(by, Responsibilities):
            r, totals = by.values, np.zeros((len(by.keys), count))
            for j in range(rows.codes.shape[1]):
                present = rows.codes[:, j] >= 0
                cells = rows.codes[present, j] + offsets[j]
                for k in range(len(by.keys)):
                    totals[k] += np.bincount(cells, r[present, k], minlength=count)
            return self._name_terms(Tally.of(r.sum(axis=0), totals, by.keys), terms)
        # The exact sum of the weights of each class and term.
        words, low = _kernels.deposit_codes(
            rows.codes, offsets, np.zeros(0) if weights is None else weights, by.group, len(by.keys)
        )
        total = Exact(words.reshape(len(words), len(by.keys), count), low)
        return self._name_terms(Tally(weight=sum_weights(by, weights), total=total, keys=by.keys), terms)

    def _name_terms(self, tally: Tally, terms: list[tuple[int, Any]]) -> Tally:
        """Name the terms, sort them, and drop those without a count."""
        keys, index = Keys.of(terms)
        total = tally.total.place(index, len(keys), axis=-1)
        return Tally(weight=tally.weight, total=total, keys=tally.keys, terms=keys).drop_zeros()

    def add_row(self, statistic: Tally, row: Codes, label: Hashable, weight: float) -> Tally | None:
        terms = statistic.terms
        if terms is None:
            return None
        row_terms = row.list_terms()
        cells = [index for term in row_terms if (index := terms.position(term)) is not None]
        # A new category needs a new term, which `add_terms` cannot add.
        return statistic.add_terms(cells, label, weight) if len(cells) == len(row_terms) else None

    def infer(self, statistic: Tally, keys: Keys) -> Density[Codes]:
        if self.estimate == "map" and self.alpha < 1:
            raise ValueError(
                f"estimate='map' needs alpha of at least 1, got {self.alpha}: raise it, or use 'mean'"
            )
        class_sums = statistic.over(keys)
        terms = Keys(()) if statistic.terms is None else statistic.terms
        layout = _lay_out(_Identical(terms), self._width(statistic))
        sizes = self.apply_min_values(layout.numbered_sizes if self.numbered else layout.sizes)
        pseudo = choose_pseudo_counts(self.estimate, self.alpha)
        counts = class_sums.total.value  # (K, terms)
        total = layout.sum_columns(class_sums.total) + pseudo * sizes  # (K, d)
        has_no_counts = total == 0
        with np.errstate(divide="ignore", invalid="ignore"):
            log_total = np.log(total)
            logs = np.log(counts + pseudo) - log_total[:, layout.column]
            log_unseen = np.log(pseudo) - log_total if pseudo > 0 else np.zeros(total.shape)
        if has_no_counts.any():
            uniform = np.broadcast_to(-np.log(np.maximum(sizes, 1)), total.shape)
            logs = np.where(has_no_counts[:, layout.column], uniform[:, layout.column], logs)
            log_unseen = np.where(has_no_counts, uniform, log_unseen)
        return Values(keys, terms, layout, logs, log_unseen.T, counts, self.alpha, sizes)

    def columns_of(self, statistic: Tally) -> list[tuple[list[int], tuple[Any, ...]]]:
        """For each column the indices of its terms, and their values."""
        terms = Keys(()) if statistic.terms is None else statistic.terms
        return _lay_out(_Identical(terms), self._width(statistic)).columns

    def _width(self, statistic: Tally) -> int:
        """The number of columns; if the block takes all columns, those up to the last that has a term."""
        if self.columns is not None:
            return len(self.columns)
        return 1 + max((term[0] for term in statistic.terms or ()), default=-1)  # type: ignore[index]

    def count_values(self, values: tuple[Any, ...]) -> int:
        """The number of values that a column can have, if these values of it were learned."""
        return _count_numbers(values) if self.numbered else len(values)

    def apply_min_values(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of values of each column: `counts`, or `min_values` where that is larger."""
        if self.min_values is None:
            return counts
        least = np.asarray(self.min_values)
        written = f"got min_categories={one_line(self.min_values)}, expected"
        if least.dtype.kind not in "iu":
            raise ValueError(f"'min_categories' should have integral type: {written} whole numbers")
        if least.shape not in ((), (len(counts),)) or (least < 0).any():
            raise ValueError(
                f"{written} one number of at least 0, or one for each of the {len(counts)} columns"
            )
        return np.asarray(np.maximum(counts, least), dtype=np.int64)

    def count_parameters(self, density: Any) -> int:
        return len(density.keys) * int(sum(max(0, size - 1) for size in density.sizes.tolist()))

    def refuse_impossible(self, statistic: Tally) -> None:
        refuse_negative_sums(statistic)
        counts, weight = statistic.total.value, statistic.weight.value
        for indices, _ in self.columns_of(statistic):
            # The factor allows for rounding.
            if (counts[:, indices].sum(axis=1) > weight * (1.0 + 1e-9)).any():
                raise ValueError(
                    "a class would have more values than rows, expected rows that were learned, with their "
                    "weights: nothing was changed"
                )


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The indices of the terms of each column, among all terms of a Tally."""

    columns: list[tuple[list[int], tuple[Any, ...]]]  # d pairs: indices of terms, and their values
    sizes: NDArray[np.int64]  # (d,): the number of values
    numbered_sizes: NDArray[np.int64]  # (d,): for integers, the number of integers from 0 to the largest
    column: NDArray[np.int64]  # (terms,): the column of each term
    order: NDArray[np.int64]  # (terms,): the terms column by column
    nonempty: NDArray[np.int64]  # (m,): the columns that have a term
    starts: NDArray[np.int64]  # (m,): the index in `order` of the first term of each of these columns

    def sum_columns(self, total: Exact) -> Array:
        """The sum of the terms of each column (K, d): exact, then rounded once."""
        sums = np.zeros((total.shape[0], len(self.columns)))
        if len(self.nonempty):
            words = np.add.reduceat(total.words[:, :, self.order], self.starts, axis=2)
            sums[:, self.nonempty] = Exact.from_words(words, total.low).value
        return sums


class _Identical(NamedTuple):
    """The key of a cache. It is compared by `is`, because by `==` terms with 1 and with True are equal."""

    terms: Keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identical) and other.terms is self.terms

    def __hash__(self) -> int:
        return id(self.terms)


@lru_cache(maxsize=16)  # new terms are rare: if rows are learned one by one, the layout seldom changes
def _lay_out(key: _Identical, width: int) -> Layout:
    """Find the terms of each of `width` columns."""
    indices: list[list[int]] = [[] for _ in range(width)]
    values: list[list[Any]] = [[] for _ in range(width)]
    pairs: Any = key.terms  # (column, value), from `_list_terms`
    for index, (column, value) in enumerate(pairs):
        indices[column].append(index)
        values[column].append(value)
    sizes = [len(term_indices) for term_indices in indices]
    order = np.array([index for term_indices in indices for index in term_indices], dtype=np.int64)
    column = np.array([j for j, _ in pairs], dtype=np.int64)
    nonempty = np.flatnonzero(sizes)
    starts = np.cumsum([0, *sizes])[nonempty]
    columns = [(indices[j], tuple(values[j])) for j in range(width)]
    numbered = [_count_numbers(numbers) for _, numbers in columns]
    lengths, ranges = np.array(sizes, dtype=np.int64), np.array(numbered, dtype=np.int64)
    return Layout(columns, lengths, ranges, column, order, nonempty, starts)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """log p of integer values, in one array indexed by value minus `least`, without a dictionary."""

    least: NDArray[np.int64]  # (d,): the smallest integer
    widths: NDArray[np.int64]  # (d,): the number of integers from the least to the largest seen
    # (d + 1,): the index of the first cell of each column; its last cell is for values that were not learned
    offsets: NDArray[np.int64]
    table: Array  # (cells, K): log p

    @classmethod
    def of(cls, values: tuple[Keys, ...], tables: tuple[Array, ...], log_unseen: Array) -> "Grid | None":
        """Build the grid; return None unless each column has values, which are integers of a narrow range."""
        grids, least, widths = [], [], []
        for keys, table, column_log_unseen in zip(values, tables, log_unseen, strict=True):
            column_values: list[Any] = list(keys)
            if not column_values or not all(map(_is_integer, column_values)):
                return None
            numbers = np.array([int(key) for key in column_values])
            start, width = int(numbers.min()), int(numbers.max() - numbers.min()) + 1
            if width > _MAX_RANGE:
                return None
            cells = np.repeat(column_log_unseen[None, :], width + 1, axis=0)
            cells[numbers - start] = table.T
            grids.append(cells)
            least.append(start)
            widths.append(width)
        offsets = np.concatenate([[0], np.cumsum(np.array(widths) + 1)]).astype(np.int64)
        return cls(np.array(least), np.array(widths), offsets, np.ascontiguousarray(np.concatenate(grids)))

    def find_cells(self, codes: NDArray[np.int64], least: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell of each code in its column of the grid; -1 (missing) stays -1.

        The code 0 stands for the value `least` of the column.
        """
        cells = codes + (least - self.least)
        is_unseen = (cells < 0) | (cells >= self.widths)
        if is_unseen.any() or (codes < 0).any():
            cells = np.where(is_unseen, self.widths, cells)
            cells = np.where(codes < 0, -1, cells)
        return np.ascontiguousarray(cells)


def _encode_columns(table: Table, columns: Sequence[int]) -> Codes:
    """Encode columns of a table, without a dictionary if they are integers of a narrow range."""
    if isinstance(table, OneRow):
        values = table.list_categories(columns)
        return Codes(np.array([[0 if len(keys) else -1 for keys in values]], dtype=np.int64), values)
    integers = _read_integers(table.data, columns) if isinstance(table.data, np.ndarray) else None
    if integers is not None:
        return integers
    pairs = [table.categories(j) for j in columns]
    codes = np.empty((table.rows, len(columns)), dtype=np.int64)
    for j, (_, column) in enumerate(pairs):
        codes[:, j] = column
    return Codes(codes, tuple(keys for keys, _ in pairs))


def _refuse_negative_values(codes: Codes, table: Table, columns: Sequence[int]) -> None:
    """Raise if a value is a number below 0."""
    smallest = (
        [keys[0] if keys else 0 for keys in codes.keys] if codes.least is None else codes.least.tolist()
    )
    for column, value in zip(columns, smallest, strict=True):
        if _is_number(value) and value < 0:
            raise ValueError(
                f"Negative values in data: {table.describe(column)} holds {value:g}, expected 0, 1, 2 …"
            )


def _read_integers(data: NDArray[Any], columns: Sequence[int]) -> Codes | None:
    """Encode integers of a narrow range without a dictionary; None if the values are something else."""
    values = data if len(columns) == data.shape[1] else data[:, list(columns)]
    if not len(values) or values.dtype.kind not in "iubf":
        return None
    # For a single row, each further check takes measurable time.
    if len(values) == 1 and values.dtype.kind == "f" and isfinite(values.sum()):
        integers = values.astype(np.int64)
        if (integers == values).all() and np.abs(values).max(initial=0.0) <= _MAX_INTEGER:
            return Codes(np.zeros_like(integers), least=integers[0])
    if values.dtype.kind == "f" and (not np.isfinite(values).all() or (values != np.floor(values)).any()):
        return None
    smallest, largest = values.min(axis=0), values.max(axis=0)
    spans = largest.astype(np.float64) - smallest.astype(np.float64)
    if (
        spans.max(initial=0.0) > _MAX_RANGE
        or np.abs(smallest.astype(np.float64)).max(initial=0.0) > _MAX_INTEGER
    ):
        return None
    integers = values.astype(np.int64, copy=False)
    start = smallest.astype(np.int64)
    if start.any():
        integers = integers - start
    return Codes(np.ascontiguousarray(integers), least=start)


def _count_numbers(values: tuple[Any, ...]) -> int:
    """The number of integers from 0 to the largest value; the number of values if one is not an integer."""
    return 1 + int(max(values)) if values and all(map(_is_integer, values)) else len(values)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and abs(value) < _MAX_INTEGER and value == int(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _list_terms(rows: Codes) -> tuple[list[tuple[int, Any]], NDArray[np.int64]]:
    """The pairs (column, value) of all columns, and the index of each column's first pair (d + 1,)."""
    terms = [(j, value) for j, keys in enumerate(rows.keys) for value in keys]
    offsets = np.concatenate([[0], np.cumsum([len(keys) for keys in rows.keys])]).astype(np.int64)
    return terms, offsets


@dataclass(frozen=True, eq=False)
class Values(Density[Codes]):
    """log p(value | class) of each column."""

    keys: Keys
    terms: Keys  # pairs of column and value
    layout: Layout
    logs: Array  # (K, terms): log p of each term
    log_unseen: Array  # (d, K): log p of a value that was never learned
    term_counts: Array  # (K, terms)
    alpha: float  # the pseudo-count of each value
    sizes: NDArray[np.int64]  # (d,): the number of values that each column can have

    @cached_property
    def values(self) -> tuple[Keys, ...]:
        """The values of each column."""
        return tuple(Keys(values) for _, values in self.layout.columns)

    @cached_property
    def tables(self) -> tuple[Array, ...]:
        """log p of the values of each column: d arrays (K, values)."""
        return tuple(self.logs[:, indices] for indices, _ in self.layout.columns)

    @cached_property
    def counts(self) -> tuple[Array, ...]:
        """The counts of the values of each column: d arrays (K, values)."""
        return tuple(self.term_counts[:, indices] for indices, _ in self.layout.columns)

    @cached_property
    def grid(self) -> Grid | None:
        """The tables as a grid, if all values are integers of a narrow range."""
        return Grid.of(self.values, self.tables, self.log_unseen)

    def scores(self, rows: Codes) -> Array:
        codes, offsets, table = self._arrange(rows)
        # Each score is a sum over columns of the cell that the row has there.
        return _kernels.gather_scores(codes, offsets, table, np.zeros(len(self.keys)))

    def contrasts(self, rows: Codes, for_: int, against: int) -> Contrast:
        codes, offsets, table = self._arrange(rows)
        difference = np.append(subtract_logs(table[:, for_], table[:, against]), 0.0)
        terms = difference[np.where(codes < 0, len(difference) - 1, codes + offsets[:-1])]
        return Contrast(terms, np.zeros(len(terms)))

    def _arrange(self, rows: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """The rows' codes, the first cell of each column (d + 1,), and log p of each cell (cells, K).

        The cells are in the order of the rows' own keys, or of the grid.
        """
        if len(rows) == 1 and rows.codes.shape[1] == len(self.log_unseen):
            return self._arrange_one(rows)
        if rows.least is not None and self.grid is not None and len(self.values) == len(rows.least):
            return self.grid.find_cells(rows.codes, rows.least), self.grid.offsets, self.grid.table
        tables = []
        for j, keys in enumerate(rows.keys):
            if j >= len(self.values):  # no value of this column was learned
                tables.append(np.zeros((len(keys), len(self.keys))))
                continue
            values, table, log_unseen = self.values[j], self.tables[j], self.log_unseen[j]
            if keys == values:
                tables.append(table.T)
                continue
            extended = np.concatenate([table, log_unseen[:, None]], axis=1)
            # -1 selects the last entry: log p of an unseen value.
            tables.append(extended[:, values.find(keys)].T)
        offsets = np.concatenate([[0], np.cumsum([len(keys) for keys in rows.keys])]).astype(np.int64)
        stacked = np.concatenate(tables) if tables else np.zeros((0, len(self.keys)))
        return rows.codes, offsets, np.ascontiguousarray(stacked)

    def _arrange_one(self, row: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Arrange one row as `_arrange` does, without the cells of values that the row does not have."""
        table = self.log_unseen.copy()
        position = self.terms.position
        cells = [(term[0], index) for term in row.list_terms() if (index := position(term)) is not None]
        if cells:
            columns, indices = zip(*cells, strict=True)
            table[list(columns)] = self.logs.T[list(indices)]
        return np.minimum(row.codes, 0), np.arange(len(table) + 1), table

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        drawn = []
        for values, table in zip(self.values, self.tables, strict=True):
            column = np.empty(len(group), dtype=object)
            if not len(values):  # no value of this column was learned
                drawn.append(column)
                continue
            for k in np.unique(group).tolist():
                probabilities = np.exp(table[k])
                in_class = group == k
                chosen = rng.choice(
                    len(values), size=int(in_class.sum()), p=probabilities / probabilities.sum()
                )
                column[in_class] = np.array([*values, None], dtype=object)[chosen]
            drawn.append(column)
        return drawn

    def log_evidence(self) -> float:
        refuse_missing_prior(self.alpha > 0)
        log_evidence = 0.0
        for counts, size in zip(self.counts, self.sizes.tolist(), strict=True):
            total = self.alpha * size
            log_evidence += float((gammaln(counts + self.alpha) - gammaln(self.alpha)).sum())
            log_evidence -= float((gammaln(counts.sum(axis=1) + total) - gammaln(total)).sum())
        return log_evidence
