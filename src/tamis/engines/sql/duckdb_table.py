"""A relation of DuckDB → a table that DuckDB sums."""

from dataclasses import dataclass, replace
from typing import Any

from tamis.engines.arrow import open_relation
from tamis.engines.batches import Batch
from tamis.engines.opening import BatchShards, Request
from tamis.engines.sql.database import Column, Row, SQLTable, read_first_line
from tamis.extras import import_package
from tamis.tables import Kind

_SOURCE = "tamis_rows"  # the relation's name in queries; a view of the database with this name is unaffected
_INTEGERS = frozenset(
    f"{sign}{name}" for sign in ("", "U") for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
)
_NESTED = ("STRUCT", "MAP", "UNION", "ROW")


@dataclass(frozen=True, eq=False)
class DuckDBTable(SQLTable):
    """A relation of DuckDB, which the database sums itself where the model allows it.

    `relation` is what `connection.table(name)` and `connection.sql(query)` return. A fit runs several
    queries, and its rows must not change before the last one has ended.
    """

    relation: Any

    def __post_init__(self) -> None:
        kind = type(self.relation)
        if kind.__name__ != "DuckDBPyRelation":
            import_package("duckdb", "tamis.engines.sql.DuckDBTable")
            raise TypeError(
                f"got a {kind.__name__}, expected a relation of DuckDB: connection.table(name), or "
                "connection.sql(query)"
            )

    def list_columns(self) -> list[Column]:
        pairs = zip(self.relation.columns, map(str, self.relation.types), strict=True)
        return [
            Column(name, type_, _find_kind(type_), bits=24 if type_ == "FLOAT" else 53)  # of the significand
            for name, type_ in pairs
        ]

    def name_source(self) -> str:
        return _SOURCE

    def run(self, query: str) -> list[Row]:
        duckdb = import_package("duckdb", "tamis.engines.sql.DuckDBTable")
        try:
            rows: list[Row] = self.relation.query(_SOURCE, query).fetchall()
        except duckdb.Error as problem:
            raise ValueError(f"DuckDB cannot sum the relation: {read_first_line(problem)}") from problem
        return rows

    def open_rows(self, request: Request) -> BatchShards[Batch]:
        # The engine may be "sql", which `open_relation` refuses.
        return open_relation(self.relation, replace(request, engine=None))


def _find_kind(type_: str) -> Kind | None:
    """Return the kind of values of a type of DuckDB; None for a nested type."""
    if type_.endswith("]") or type_.startswith(_NESTED):
        return None
    if type_ in _INTEGERS:
        return "integer"
    if type_ in ("FLOAT", "DOUBLE") or type_.startswith("DECIMAL"):
        return "number"
    return "bool" if type_ == "BOOLEAN" else "category"
