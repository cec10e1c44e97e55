"""Rows → the kind of each column as far as they tell it, and columns that make poor categories."""

import re
from collections.abc import Iterable
from datetime import date, time, timedelta
from typing import Any, Literal

import numpy as np

from tamis.arrays import is_missing
from tamis.tables import Kind, Sparse, Table

ColumnKind = Kind | Literal["unknown"]

_ROWS = 30  # with fewer rows it is normal that all values of a category are distinct
_DISTINCT = 0.8  # of the rows: from here on nearly every value is seen once, and tells nothing of new rows
_DATES = (date, time, timedelta, np.datetime64, np.timedelta64)
_WRITTEN_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{4}([T ].*)?")


def observed_kinds(table: Table) -> tuple[ColumnKind, ...] | ColumnKind:
    """What each column holds; "unknown" where all values are missing, and no type says what they would be."""
    if isinstance(table.data, Sparse):
        return table.kinds
    empty = [j for j in range(table.width) if table.kind(j) == "number" and _is_empty(table, j)]
    if not empty:
        return table.kinds
    return tuple("unknown" if j in empty else table.kind(j) for j in range(table.width))


def _is_empty(table: Table, column: int) -> bool:
    values: Any = table.data[:, column] if isinstance(table.data, np.ndarray) else table.data[column]  # type: ignore[index]
    return bool(np.isnan(values[0]) and np.isnan(values).all())


def poor_categories(table: Table, columns: Iterable[int]) -> tuple[tuple[int, str], ...]:
    """Those of the columns that would be categories and hold dates, or nearly as many values as rows.

    Each comes with a message for the user.
    """
    if not isinstance(table.data, tuple):
        return ()
    categories = [j for j in columns if table.kind(j) == "category"]
    doubts = [(j, _doubt(table.name(j), table.data[j].tolist())) for j in categories]
    return tuple((j, message) for j, message in doubts if message is not None)


def _doubt(name: str, values: list[Any]) -> str | None:
    known = [value for value in values if not is_missing(value)]
    try:
        distinct = set(known)
    except TypeError:  # what is no category is refused where it is read
        return None
    count = f"{len(distinct)} distinct values in {len(known)} rows"
    keep = "or name its family in `families` to keep it"
    if distinct and all(map(_is_date, distinct)):
        return (
            f"{name} holds dates ({count}), which are taken for categories: turn the date into numbers, as "
            f"days since a start, the month or the weekday, drop the column, {keep}"
        )
    if len(known) >= _ROWS and len(distinct) >= _DISTINCT * len(known):
        return (
            f"{name} has {count} and is taken for a category, though hardly any value will be seen again: "
            f"drop the column if it is an identifier, group its values, {keep}"
        )
    return None


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return _WRITTEN_DATE.fullmatch(value.strip()) is not None
    return isinstance(value, _DATES)
