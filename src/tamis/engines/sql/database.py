"""The base class of tables in a database: their columns, and queries about them.

Names of columns and tables come from users, so each is quoted where it enters a query. Everything else in a
query is written by this package: aliases, constants and names of functions. Values of rows are never part of
a query.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.engines.batches import Batch
from tamis.engines.opening import BatchShards, Request
from tamis.tables import Kind

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: str  # the type's name in the database
    kind: Kind | None  # the kind of its values; None for a type that no model reads, such as a list
    bits: int = 53  # number of bits of the significand, if its values are floats

    @property
    def identifier(self) -> str:
        """The name as it stands in a query."""
        return quote(self.name)


class SQLTable(ABC):
    """A table of a database, or the result of a query, that the database itself can sum."""

    # Ends a subquery. It makes PostgreSQL compute each expression of the subquery once; otherwise PostgreSQL
    # inlines the expression wherever the outer query uses it.
    fence: ClassVar[str] = ""

    @abstractmethod
    def list_columns(self) -> list[Column]:
        """Return the columns in their order."""

    @abstractmethod
    def name_source(self) -> str:
        """Return the table expression that follows FROM in queries about this table."""

    @abstractmethod
    def run(self, query: str) -> list[Row]:
        """Run a query and return all its rows.

        Raise ValueError if the database reports an error, and ConnectionError if it cannot be reached.
        """

    @abstractmethod
    def open_rows(self, request: Request) -> BatchShards[Batch]:
        """Return the rows in batches, for a model that the database cannot sum."""

    @contextmanager
    def keep_snapshot(self) -> Iterator[None]:
        """Let all queries of the `with` block see the same rows, if the database can do so."""
        yield


def quote(name: str) -> str:
    """Quote an identifier, which may contain any characters but a zero byte.

    >>> quote('x"; DROP TABLE mail; --')
    '"x""; DROP TABLE mail; --"'
    """
    if "\0" in name:
        raise ValueError(f"got the name {name!r}, expected one without a zero byte: rename it")
    return '"' + name.replace('"', '""') + '"'


def to_array(values: Sequence[Any], kind: str | None) -> NDArray[Any]:
    """Convert values of one column to an array, of floats if they are numbers; then None becomes NaN."""
    if kind in ("number", "integer"):
        return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def read_first_line(problem: object) -> str:
    """Return the first line of a database's error message; more lines may have hints and positions."""
    text = str(problem).strip()
    return text.splitlines()[0].rstrip(".") if text else type(problem).__name__


def refuse_nested(columns: Sequence[Column]) -> None:
    """Raise if a column is of a type that no model reads, such as a list."""
    for column in columns:
        if column.kind is None:
            raise TypeError(
                f"column {column.name!r} is of type {column.type}, expected numbers, booleans, text or "
                "dates: name the columns to learn from, as columns=[…]"
            )
