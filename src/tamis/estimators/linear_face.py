"""What the faces of all linear models share: columns that are numbers, and a state that is swapped whole."""

from dataclasses import dataclass
from typing import ClassVar

from tamis.arrays import Array
from tamis.estimators.base import T, TableFace
from tamis.inputs import read_first_table, read_next_table, read_numbers
from tamis.schema import Schema
from tamis.tables import Table


@dataclass(frozen=True, slots=True, eq=False)
class LinearState:
    """What a fitted linear model holds; each face adds what it learned."""

    schema: Schema

    is_empty: ClassVar[bool] = False  # a state is only ever made by learning


class LinearFace(TableFace[T]):
    """A linear model's columns: rows of numbers."""

    def _read(self, X: object) -> tuple[Table, Schema]:
        """Rows to learn: the first, which define the columns, or further rows of the same columns."""
        fitted = self._find_state()
        if fitted is None:
            return read_first_table(X, self._sparse)
        return self._table(X), fitted.schema

    def _table(self, X: object) -> Table:
        """Further rows of the same columns."""
        return read_next_table(X, self.state_.schema, type(self).__name__, self._sparse, missing=False)

    def _rows(self, X: object) -> Array:
        """Dense rows to answer for (n, d)."""
        return read_numbers(self._table(X))
