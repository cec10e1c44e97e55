"""A table of a database → the statistic of a model, which the database computes, or batches of rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tamis.engines.batches import Batch
from tamis.engines.opening import BatchShards, Request
from tamis.engines.sql.class_sums import TableObserver, refuse_missing, refuse_unsupported
from tamis.engines.sql.database import Column, SQLTable
from tamis.engines.sql.duckdb_table import DuckDBTable
from tamis.engines.sql.sums import TableSums
from tamis.engines.summing import UnsupportedSumsError
from tamis.models.generative.block import Block
from tamis.protocols import Statistic
from tamis.schema import Schema
from tamis.stats import Exact, Gram, Joint, Moments

S = TypeVar("S", bound=Statistic)
Y = TypeVar("Y")


@dataclass(frozen=True, eq=False)
class SQLShards:
    """A table in a database that sums the rows if it can; otherwise, the rows are read in batches."""

    table: SQLTable
    request: Request

    # ── sums by the database, as `DatabaseShards` describes them ──

    def read_schema(self) -> Schema:
        kinds = tuple(column.kind for column in self._make_sums().columns if column.kind is not None)
        return Schema(len(kinds), kinds, tuple(self._names))

    def sum_by_class(
        self, schema: Schema, blocks: Mapping[str, Block[Any, Any]], missing_label: object, /
    ) -> tuple[Schema, Joint]:
        self._refuse_roles_but_y()
        if self._label is None:
            raise ValueError("requires y to be passed, but the target y is None: name the column of labels")
        for name, block in blocks.items():
            refuse_unsupported(name, block)
        with self.table.keep_snapshot():
            return TableObserver(self._make_sums(), schema, blocks, missing_label).observe()

    def sum_products(self) -> tuple[Schema, int, Moments]:
        self._refuse_roles_but_y()
        n_rows, moments = self._sum_products(self._columns)
        return self.read_schema(), n_rows, moments

    def sum_normal_equations(self) -> tuple[Schema, Gram]:
        self._refuse_roles_but_y()
        if self._label is None:
            raise ValueError("requires y to be passed, but the target y is None: name the column of numbers")
        _, moments = self._sum_products((*self._columns, self._label))
        assert moments.second is not None
        gram = Gram(
            weight=moments.weight,
            first=moments.first,
            products=moments.second,
            width=len(self._columns),
            targets=1,
            rounded=moments.rounded,
        )
        return self.read_schema(), gram

    def _sum_products(self, columns: tuple[Column, ...]) -> tuple[int, Moments]:
        """Return the number of rows, and the moments of these columns in the form "full"."""
        sums, indices = TableSums(self.table, columns), range(len(columns))
        with self.table.keep_snapshot():
            profiles = sums.profile_columns(indices)  # the number and the range of each column's values
            powers = sums.sum_powers(profiles, squares=False)
            # The queries have no column of labels, so all rows have one label, of index 0.
            n_rows = powers.row_counts[0]
            refuse_missing(columns, profiles, n_rows)
            products = sums.sum_products(indices)
        return n_rows, Moments.from_centred_products(
            weight=Exact.from_integers(np.array(n_rows)),
            first=powers.first.reindex(lambda words: words[:, 0]),  # axes: words, labels, columns
            centre=products.centre[0],
            products=products.products[0],
        )

    def _refuse_roles_but_y(self) -> None:
        for role in self.request.roles:
            if role != "y":
                raise UnsupportedSumsError(f"{role} is not summed by a database")

    def _make_sums(self) -> TableSums:
        return TableSums(self.table, self._columns, self._label)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.table.list_columns()}

    @cached_property
    def _names(self) -> list[str]:
        names = self.request.choose_columns(list(self._by_name))
        if not names:
            raise ValueError("got a table without columns to learn from, expected one besides the label")
        return names

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        return tuple(self._by_name[name] for name in self._names)

    @cached_property
    def _label(self) -> Column | None:
        name = self.request.named_roles.get("y")
        # `_names` is never empty; to read it raises an error if the table has no column of this name.
        return None if name is None or not self._names else self._by_name[name]

    # ── rows, which are read in batches and observed in this process ──

    @cached_property
    def _batches(self) -> BatchShards[Batch]:
        return self.table.open_rows(self.request)

    def total(self, observe: Callable[[Batch], S | None], /) -> S:
        return self._batches.total(observe)

    def map(self, transform: Callable[[Batch], Y], /) -> BatchShards[Y]:
        return self._batches.map(transform)

    def keep(self) -> BatchShards[Batch]:
        return self._batches.keep()

    def read_first(self) -> Batch:
        return self._batches.read_first()


def open_shards(data: Any, request: Request) -> SQLShards:
    """Open an `SQLTable`, or a relation of DuckDB."""
    if request.engine not in (None, "sql"):
        raise TypeError("got an engine for a table of a database, expected none: the database is the engine")
    return SQLShards(data if isinstance(data, SQLTable) else DuckDBTable(data), request)
