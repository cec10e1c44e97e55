"""The schema of a table: the kind and name of each column, by which later rows are read."""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from typing import Any, Literal

import numpy as np

from tamis.arrays import is_missing
from tamis.tables import Kind, Sparse, Table, widen_kinds

ColumnKind = Kind | Literal["unknown"]

_FEW_ROWS = 30  # with fewer rows it is normal that all values of a category are distinct
_DISTINCT_PER_ROW = 0.8  # with at least this number of distinct values per row, a category predicts little
_DATES = (date, time, timedelta, np.datetime64, np.timedelta64)
_DATE_TEXT = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{4}([T ].*)?")


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of the first rows that a model was fitted to."""

    width: int  # number of columns
    kinds: tuple[ColumnKind, ...] | ColumnKind  # the kind of each column, or one kind for all columns
    names: tuple[object, ...] | None = None
    library: str | None = None  # the library of the data frame; results are frames of the same library
    remarks: tuple[tuple[int, str], ...] = ()  # (column, message) from `find_poor_categories`

    def kind(self, column: int) -> ColumnKind:
        """Return the kind of the column's values; "unknown" until the first value was read."""
        return self.kinds if isinstance(self.kinds, str) else self.kinds[column]

    @property
    def unknown_columns(self) -> tuple[int, ...]:
        """The columns in which all values so far were missing."""
        if isinstance(self.kinds, str):
            return tuple(range(self.width)) if self.kinds == "unknown" else ()
        return tuple(j for j, kind in enumerate(self.kinds) if kind == "unknown")

    def with_kinds_of(self, other: "Table | Schema") -> "Schema":
        """Replace "unknown" by the kinds that the columns have in these rows, or in this other schema."""
        columns = self.unknown_columns
        if not columns:
            return self
        other_kinds = find_kinds(other) if isinstance(other, Table) else other.kinds
        new = {j: other_kinds if isinstance(other_kinds, str) else other_kinds[j] for j in columns}
        if set(new.values()) == {"unknown"}:
            return self
        kinds = tuple(new.get(j, self.kind(j)) for j in range(self.width))
        remarks = find_poor_categories(other, columns) if isinstance(other, Table) else ()
        return replace(self, kinds=kinds, remarks=remarks)

    def widen_kinds(self, other: "Schema") -> "Schema":
        """Replace each kind by one that holds the values of both schemas, such as "number" for "integer"."""
        if self.kinds == other.kinds:
            return self
        kinds = tuple(_combine_kinds(self.kind(j), other.kind(j)) for j in range(self.width))
        return replace(self, kinds=kinds)

    def with_columns(self, names: Iterable[object]) -> "Schema":
        """Append columns of these names and of kind "unknown"; indices become names of unnamed columns."""
        new = tuple(names)
        kinds: list[ColumnKind] = [self.kind(j) for j in range(self.width)] + ["unknown"] * len(new)
        old = tuple(range(self.width)) if self.names is None else self.names
        return replace(self, width=self.width + len(new), kinds=tuple(kinds), names=old + new)

    def drop_remarks(self) -> "Schema":
        """Return the same columns without remarks, which concern only the rows just read."""
        return replace(self, remarks=()) if self.remarks else self

    def to_tuple(self) -> tuple[Any, ...]:
        """Return width, kinds, names and library, which are saved in files."""
        return self.width, self.kinds, self.names, self.library

    def name(self, column: int) -> Any:
        """Return the column's name, or its index if it has none."""
        return column if self.names is None else self.names[column]


def find_kinds(table: Table) -> tuple[ColumnKind, ...] | ColumnKind:
    """Return the kind of each column; "unknown" for a column of numbers that are all missing."""
    if isinstance(table.data, Sparse):
        return table.kinds
    empty = [j for j in range(table.width) if table.kind(j) == "number" and _is_empty(table, j)]
    if not empty:
        return table.kinds
    return tuple("unknown" if j in empty else table.kind(j) for j in range(table.width))


def _combine_kinds(first: ColumnKind, second: ColumnKind) -> ColumnKind:
    """Return the kind that holds the values of both; an unknown kind has no values."""
    if first == "unknown" or second == "unknown":
        return second if first == "unknown" else first
    return widen_kinds(first, second)


def _is_empty(table: Table, column: int) -> bool:
    """Return whether all values of a column of numbers are missing."""
    values: Any = table.data[:, column] if isinstance(table.data, np.ndarray) else table.data[column]  # type: ignore[index]
    return bool(np.isnan(values[0]) and np.isnan(values).all())


def find_poor_categories(table: Table, columns: Iterable[int]) -> tuple[tuple[int, str], ...]:
    """Return (column, message to the user) of categories that are dates, or hardly ever repeat a value."""
    if not isinstance(table.data, tuple):
        return ()
    categories = [j for j in columns if table.kind(j) == "category"]
    problems = [(j, _describe_problem(table.describe(j), table.data[j].tolist())) for j in categories]
    return tuple((j, message) for j, message in problems if message is not None)


def _describe_problem(name: str, values: list[Any]) -> str | None:
    known = [value for value in values if not is_missing(value)]
    try:
        return describe_poor_category(name, set(known), len(known))
    except TypeError:  # a value that is not hashable is refused later, where it is encoded
        return None


def describe_poor_category(name: str, distinct: Set[Any], rows: int) -> str | None:
    """Say why a category of these distinct values predicts little; return None if it may predict.

    `rows` is the number of rows whose value is not missing. `name` is what the message calls the column, such
    as "column 'city'".
    """
    count = f"{len(distinct)} distinct values in {rows} rows"
    keep = "or name its family in `families` to keep it"
    if distinct and all(map(_is_date, distinct)):
        return (
            f"{name} holds dates ({count}), which are treated as categories: turn the date into numbers, "
            f"such as days since a start, the month or the weekday, drop the column, {keep}"
        )
    if rows >= _FEW_ROWS and len(distinct) >= _DISTINCT_PER_ROW * rows:
        return (
            f"{name} has {count} and is treated as a category, though hardly any value will be seen again: "
            f"drop the column if it is an identifier, group its values, {keep}"
        )
    return None


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return _DATE_TEXT.fullmatch(value.strip()) is not None
    return isinstance(value, _DATES)
