"""A table of a database → sums by label that the database computes: counts, Σx, Σx² and products.

Each method runs a query for every few hundred sums. No query returns rows of the table. For sums that are
not rounded, `Slices` says how the values of a column are cut into integers, and of which terms a sum
consists: sums of these integers, each times a power of two.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.engines.sql.database import Column, Row, SQLTable, refuse_nested
from tamis.engines.sql.fixed_point import (
    SLICE_BITS,
    ColumnProfile,  # the number and the range of a column's values
    Slices,
    add_terms,
    write_float,
)
from tamis.engines.summing import UnsupportedSumsError
from tamis.stats import Exact

_MAX_SUMS = 400  # sums in one query; a query of PostgreSQL has at most 1664 columns
_MAX_SETS = 20  # columns in GROUPING SETS of one query; PostgreSQL's GROUPING accepts at most 31
_MAX_VALUES = 1_000_000  # counts of pairs of a label and a distinct value, for all columns together
_LARGEST_EXACT = 2**53  # float64 represents all integers up to this one
_NAN = "CAST('NaN' AS DOUBLE PRECISION)"


@dataclass(frozen=True, slots=True, eq=False)
class LabelSums:
    """Sums of d columns by label (G, d), for G labels in the order in which the database returned them."""

    labels: list[Any]
    row_counts: list[int]  # the number of rows of each label
    value_counts: Exact  # (G, d): the numbers of values that are not missing
    first: Exact  # Σx
    second: Exact | None = None  # Σx²


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Sums of products about a centre, by label; their last bits are rounded."""

    labels: list[Any]
    centre: Array  # (G, d)
    products: Array  # (G, d, d)


class ValueCount(NamedTuple):
    """The number of rows of a label that have a value in a column; the value is None where it is missing."""

    column: int  # the index of the column
    label: Any
    value: Any
    rows: int


@dataclass(frozen=True)
class TableSums:
    """Asks a database for sums of a table's columns, by the label in another column."""

    table: SQLTable
    columns: tuple[Column, ...]
    label: Column | None = None  # None: all rows have the label 0

    def __post_init__(self) -> None:
        refuse_nested(self.columns if self.label is None else (*self.columns, self.label))

    # ── queries ──

    def _select(
        self, indices: Sequence[int], thresholds: Mapping[int, float], keep_integers: bool = False
    ) -> str:
        """Write the query that selects the label as g and column number j as v{j}; NaN becomes NULL.

        A value of a column with a threshold becomes 1 if it is above the threshold, and 0 otherwise.
        """
        selected = [f"{'0' if self.label is None else self.label.identifier} AS g"]
        for j in indices:
            column = self.columns[j]
            is_kept = keep_integers and column.kind == "integer"
            number = column.identifier if is_kept else self._write_number(column)
            if j in thresholds:
                limit = write_float(thresholds[j])
                number = f"CASE WHEN {number} > {limit} THEN 1 WHEN {number} IS NOT NULL THEN 0 END"
            selected.append(f"{number} AS v{j}")
        return f"SELECT {', '.join(selected)} FROM {self.table.name_source()}"

    @staticmethod
    def _write_number(column: Column) -> str:
        if column.kind == "bool":
            return f"CAST({column.identifier} AS INTEGER)"
        if column.kind == "category":
            raise TypeError(
                f"column {column.name!r} is of type {column.type}, expected numbers: name the columns to "
                "learn from, as columns=[…], or use a categorical family"
            )
        return f"NULLIF(CAST({column.identifier} AS DOUBLE PRECISION), {_NAN})"

    def _nest(self, select: str, step: Mapping[str, str]) -> str:
        """Write a query that selects g and these expressions by their names, from the rows of `select`.

        The table's `fence` makes PostgreSQL compute the expressions of `select` only once.
        """
        selected = ", ".join(f"{expression} AS {alias}" for alias, expression in step.items())
        return f"SELECT g, {selected} FROM ({select}{self.table.fence}) AS cut"

    # ── what is summed ──

    def profile_columns(self, indices: Sequence[int]) -> dict[int, ColumnProfile]:
        """Find the number and the range of the values in the columns with these indices."""
        profiles: dict[int, ColumnProfile] = {}
        for indices_in_query in _split(list(indices), _MAX_SUMS // 5):  # five results per column
            selected = ["COUNT(*)"]
            for j in indices_in_query:
                smallest = f"MIN(ABS(NULLIF(CAST(v{j} AS DOUBLE PRECISION), 0)))"
                is_fraction = f"v{j} <> TRUNC(v{j})" if self.columns[j].kind == "number" else "FALSE"
                fractions = f"MAX(CASE WHEN {is_fraction} THEN 1 END)"
                selected += [f"COUNT(v{j})", f"MIN(v{j})", f"MAX(v{j})", smallest, fractions]
            select = self._select(indices_in_query, {}, keep_integers=True)
            (row,) = self.table.run(f"SELECT {', '.join(selected)} FROM ({select}) AS v")
            refuse_no_rows(row[0])
            for j, values in zip(indices_in_query, _split(row[1:], 5), strict=True):
                profiles[j] = _read_profile(self.columns[j], values)
        return profiles

    def count_labels(self) -> tuple[list[Any], list[int]]:
        """Return the labels, and the number of rows of each."""
        rows = self.table.run(f"SELECT g, COUNT(*) FROM ({self._select((), {})}) AS v GROUP BY g")
        refuse_no_rows(len(rows))
        return [row[0] for row in rows], [int(row[1]) for row in rows]

    def sum_powers(
        self,
        profiles: Mapping[int, ColumnProfile],
        squares: bool,
        thresholds: Mapping[int, float] | None = None,
    ) -> LabelSums:
        """Sum x, and x² if `squares`, of the columns with these profiles, by label, without rounding.

        Thresholds are as in `_select`. Raise UnsupportedSumsError if the magnitudes of a column, or their
        ratios, are too large.
        """
        flags = thresholds or {}
        cuts = []
        for j, profile in profiles.items():
            if j in flags:  # the values are 0 and 1
                profile = ColumnProfile(profile.count, 0.0, 1.0, 1.0, has_fractions=False)
            cut = Slices.of(j, profile, self.columns[j].bits)  # the bits of a float's significand
            if cut is None:
                raise UnsupportedSumsError(
                    f"column {self.columns[j].name!r} holds numbers from {profile.smallest_magnitude:.3g} to "
                    f"{profile.largest_magnitude:.3g}"
                )
            cuts.append(cut)
        parts = [self._sum_in_query(part, squares, flags) for part in _divide_by_sums(cuts, squares)]
        return _join_columns(parts)

    def _sum_in_query(self, cuts: list[Slices], squares: bool, thresholds: Mapping[int, float]) -> LabelSums:
        """Sum the columns that are cut in these ways, by one query: see `sum_powers`."""
        select = self._select([cut.column for cut in cuts], thresholds)
        counted = {f"v{cut.column}": f"v{cut.column}" for cut in cuts}
        # Each nested query cuts another chunk off each value; `widths` are the numbers of bits of chunks.
        for step in range(max(len(cut.widths) for cut in cuts)):
            select = self._nest(select, counted | _merge(cut.select_chunks(step) for cut in cuts))
        if squares:  # chunks are cut into slices, whose products an integer can hold
            select = self._nest(select, counted | _merge(cut.select_slices() for cut in cuts))
        terms = [(cut.first_terms, cut.second_terms if squares else []) for cut in cuts]
        selected = ["g", "COUNT(*)", *(f"COUNT(v{cut.column})" for cut in cuts)]
        selected += [f"SUM({sum_})" for first, second in terms for sum_, _ in (*first, *second)]
        rows = self.table.run(
            f"SELECT {', '.join(selected)} FROM ({select}{self.table.fence}) AS sliced GROUP BY g"
        )
        refuse_no_rows(len(rows))
        return _read_sums(rows, [(_list_exponents(a), _list_exponents(b)) for a, b in terms], squares)

    def count_values(self, indices: Sequence[int]) -> list[ValueCount]:
        """Count the distinct values of these columns, by label; too many raise UnsupportedSumsError."""
        counted: list[ValueCount] = []
        for indices_in_query in _split(list(indices), _MAX_SETS):
            names = [f"c{j}" for j in indices_in_query]
            columns = ", ".join(f"{self.columns[j].identifier} AS c{j}" for j in indices_in_query)
            label = "0" if self.label is None else self.label.identifier
            sets = ", ".join(f"(g, {name})" for name in names)
            number = f"GROUPING({', '.join(names)})"
            rows = self.table.run(
                f"SELECT {number}, g, {', '.join(names)}, COUNT(*) FROM (SELECT {label} AS g, {columns} FROM "
                f"{self.table.name_source()}) AS v GROUP BY GROUPING SETS ({sets}) LIMIT {_MAX_VALUES + 1}"
            )
            refuse_no_rows(len(rows))
            if len(counted) + len(rows) > _MAX_VALUES:
                raise UnsupportedSumsError(f"the columns hold more than {_MAX_VALUES:,} distinct values")
            # GROUPING returns a bit for each column, which is 0 if rows are grouped by this column. The last
            # column has the lowest bit.
            width = len(names)
            index_of_set = {(1 << width) - 1 - (1 << (width - 1 - k)): k for k in range(width)}
            for number_of_set, g, *values, count in rows:
                k = index_of_set[number_of_set]
                counted.append(ValueCount(indices_in_query[k], g, _drop_nan(values[k]), int(count)))
        return counted

    def sum_products(self, indices: Sequence[int]) -> Products:
        """Sum (x − c)(y − d) of each pair of these columns, by label; c and d are near the label's means.

        Each product is computed in float64, rounded to 2**-60 of the largest product that the ranges of its
        columns allow, and then added exactly. So the error does not depend on the order of the rows, and for
        n rows it is at most 2**-50 + n * 2**-60 of √(Σ(x − c)² Σ(y − d)²).
        """
        width = len(indices)
        pairs = list(combinations_with_replacement(range(width), 2))
        select = self._select(indices, {})
        labels: list[Any] = []
        index: dict[Any, int] = {}
        for number, pairs_in_query in enumerate(_split(pairs, _MAX_SUMS)):
            used = sorted({k for pair in pairs_in_query for k in pair})
            rows = self.table.run(self._write_products(select, indices, used, pairs_in_query))
            if number == 0:
                refuse_no_rows(len(rows))
                labels = [row[0] for row in rows]
                index = {label: g for g, label in enumerate(labels)}
                centre = np.zeros((len(labels), width))
                scale = np.zeros((len(labels), width))
                products = np.zeros((len(labels), width, width))
            for label, *numbers in rows:
                g = index[label]
                centre[g, used], scale[g, used] = numbers[: len(used)], numbers[len(used) : 2 * len(used)]
                for (a, b), total in zip(pairs_in_query, numbers[2 * len(used) :], strict=True):
                    size = scale[g, a] * scale[g, b]
                    products[g, a, b] = products[g, b, a] = int(total) / size if size else 0.0
        return Products(labels, centre, products)

    def _write_products(
        self, select: str, indices: Sequence[int], used: list[int], pairs: list[tuple[int, int]]
    ) -> str:
        """Write the query for sums of products; `used` and the `pairs` refer to elements of `indices`.

        A row has the label, the centres m{k} and the scales s{k} of the columns `used`, and a sum per pair. A
        value minus its centre is multiplied by its column's scale, which is 2**30 divided by the range, and
        then by the result for another column.
        """
        centres = ", ".join(
            f"LEAST(GREATEST(AVG(v{indices[k]}), MIN(v{indices[k]})), MAX(v{indices[k]})) AS m{k}, "
            f"CASE WHEN MAX(v{indices[k]}) > MIN(v{indices[k]}) THEN {write_float(2.0**SLICE_BITS)} / "
            f"(MAX(v{indices[k]}) - MIN(v{indices[k]})) ELSE {write_float(0.0)} END AS s{k}"
            for k in used
        )
        scaled = ", ".join(f"(v{indices[k]} - m{k}) * s{k} AS u{k}, m{k}, s{k}" for k in used)
        known = ", ".join([*(f"MIN(m{k})" for k in used), *(f"MIN(s{k})" for k in used)])
        sums = ", ".join(f"SUM(CAST(u{a} * u{b} AS BIGINT))" for a, b in pairs)
        joined = f"SELECT g, {scaled} FROM numbers JOIN centres ON g = h{self.table.fence}"
        return (
            f"WITH numbers AS ({select}), centres AS (SELECT g AS h, {centres} FROM numbers GROUP BY g) "
            f"SELECT g, {known}, {sums} FROM ({joined}) AS scaled GROUP BY g"
        )


# ── errors ──


def refuse_no_rows(count: int) -> None:
    """Raise if a table is empty."""
    if not count:
        raise ValueError(
            "got no rows, expected at least one: the table, or the result of the query, is empty"
        )


def refuse_inexact(column: Column, profile: ColumnProfile) -> None:
    """Raise for a column that holds infinity, or integers that float64 cannot represent."""
    if not profile.is_finite:
        raise ValueError(
            f"column {column.name!r} holds infinity, expected finite numbers, NaN or NULL: mend those rows"
        )
    if column.kind == "integer" and profile.largest_magnitude > _LARGEST_EXACT:
        raise ValueError(
            f"column {column.name!r} holds integers up to {profile.largest_magnitude:.3g}, expected integers "
            "up to 2**53, which float64 holds exactly: rescale them, or treat them as categories"
        )


# ── reading answers ──


def _read_sums(rows: list[Row], exponents: list[tuple[list[int], list[int]]], squares: bool) -> LabelSums:
    """Read rows of a label, its number of rows, its number of values per column, and its sums of all terms.

    `exponents` has, for each column, the exponents of the terms of Σx and those of the terms of Σx².
    """
    width = len(exponents)
    counts = np.array([row[2 : 2 + width] for row in rows], dtype=np.int64).reshape(len(rows), width)
    lowest = [min((e for both in exponents for e in both[power]), default=0) for power in (0, 1)]
    sums: tuple[list[int], list[int]] = ([], [])
    for row in rows:
        rest = list(row[2 + width :])  # the sums of all terms that are not read yet
        for both in exponents:
            for power in (0, 1):
                terms, rest = rest[: len(both[power])], rest[len(both[power]) :]
                sums[power].append(add_terms(terms, both[power], lowest[power]))
    shape = (len(rows), width)
    return LabelSums(
        [row[0] for row in rows],
        [int(row[1]) for row in rows],
        Exact.from_integers(counts),
        Exact.from_big_integers(sums[0], lowest[0], shape),
        Exact.from_big_integers(sums[1], lowest[1], shape) if squares else None,
    )


def _join_columns(parts: list[LabelSums]) -> LabelSums:
    """Join the sums of different columns of the same rows to one array per sum."""
    first = parts[0]
    if len(parts) == 1:
        return first
    index = {label: g for g, label in enumerate(first.labels)}
    aligned = [first]
    for part in parts[1:]:
        if sorted(zip(map(repr, part.labels), part.row_counts, strict=True)) != sorted(
            zip(map(repr, first.labels), first.row_counts, strict=True)
        ):
            raise ValueError("the table changed while it was summed, expected the same rows: sum it again")
        order = np.argsort([index[label] for label in part.labels])
        aligned.append(_reorder(part, order))
    widths = [part.first.shape[1] for part in aligned]
    starts = np.cumsum([0, *widths])

    def place(name: str) -> Exact:
        """Join the sums that a `LabelSums` has under this name."""
        total = Exact.zeros((len(first.labels), int(starts[-1])))
        for part, start, width in zip(aligned, starts, widths, strict=False):
            columns = np.arange(start, start + width)
            total += getattr(part, name).place(columns, int(starts[-1]), axis=1)
        return total

    second = None if first.second is None else place("second")
    return LabelSums(first.labels, first.row_counts, place("value_counts"), place("first"), second)


def _reorder(sums: LabelSums, order: NDArray[np.int64]) -> LabelSums:
    """Return the same sums with the labels in another order."""
    return LabelSums(
        [sums.labels[g] for g in order],
        [sums.row_counts[g] for g in order],
        reorder_labels(sums.value_counts, order),
        reorder_labels(sums.first, order),
        None if sums.second is None else reorder_labels(sums.second, order),
    )


def reorder_labels(sums: Exact, order: NDArray[np.int64]) -> Exact:
    """Return the sums (G, …) of the labels with these indices, in this order."""
    return sums.reindex(lambda words: words[:, order])


def _divide_by_sums(cuts: list[Slices], squares: bool) -> Iterator[list[Slices]]:
    """Divide the columns into parts with at most `_MAX_SUMS` sums each; yield one empty part for none."""
    part: list[Slices] = []
    size = 0
    for cut in cuts:
        sums = 1 + len(cut.first_terms) + (len(cut.second_terms) if squares else 0)
        if part and size + sums > _MAX_SUMS:
            yield part
            part, size = [], 0
        part.append(cut)
        size += sums
    yield part


def _split(values: Sequence[Any], size: int) -> list[Any]:
    return [values[start : start + size] for start in range(0, len(values), size)]


def _merge(parts: Iterator[dict[str, str]]) -> dict[str, str]:
    """Merge dicts of SQL expressions by their aliases."""
    return {alias: expression for part in parts for alias, expression in part.items()}


def _list_exponents(terms: list[tuple[str, int]]) -> list[int]:
    return [exponent for _, exponent in terms]


def _read_profile(column: Column, values: Sequence[Any]) -> ColumnProfile:
    count, *numbers, fractions = values
    minimum, maximum, smallest = (_to_number(number) for number in numbers)
    profile = ColumnProfile(count, minimum, maximum, smallest, bool(fractions))
    refuse_inexact(column, profile)
    return profile


def _to_number(value: Any) -> float | None:
    """Convert a number to float; do not convert integers, which may be too large for a float, and None."""
    return value if value is None or isinstance(value, int) else float(value)


def _drop_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
