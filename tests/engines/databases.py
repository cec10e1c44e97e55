"""Tables of DuckDB and PostgreSQL that tests fill, under one interface."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import psycopg

from tamis.engines.sql import DuckDBTable, PostgreSQLTable, SQLTable
from tests.engines.postgresql import run_postgresql

KINDS = ("duckdb", "postgresql")


@dataclass
class Database:
    """A database that makes tables; `connection` runs other statements."""

    kind: str
    connection: Any
    address: str = ""  # of the server
    _made: list[str] = field(default_factory=list)

    def make(
        self, types: Mapping[str, str], columns: Sequence[Sequence[Any]], name: str | None = None
    ) -> SQLTable:
        """A table of columns of these types, with these values."""
        table = name or f"made {len(self._made)}"
        self._made.append(table)
        quoted = _quote(table)
        described = ", ".join(f"{_quote(column)} {kind}" for column, kind in types.items())
        self.connection.execute(f"CREATE TABLE {quoted} ({described})")
        rows = [list(row) for row in zip(*columns, strict=True)]
        if rows:
            if self.kind == "duckdb":
                marks = ", ".join("?" for _ in types)
                self.connection.executemany(f"INSERT INTO {quoted} VALUES ({marks})", rows)
            else:
                marks = ", ".join("%s" for _ in types)
                self.connection.cursor().executemany(f"INSERT INTO {quoted} VALUES ({marks})", rows)
        return self.open(table)

    def open(self, table: str) -> SQLTable:
        """A table that is there, or its name if it is not: DuckDB makes a relation at once."""
        if self.kind == "duckdb":
            return DuckDBTable(self.connection.sql(f"SELECT * FROM {_quote(table)}"))
        return PostgreSQLTable(self.connection, table)

    def query(self, query: str) -> SQLTable:
        """The result of a query."""
        if self.kind == "duckdb":
            return DuckDBTable(self.connection.sql(query))
        return PostgreSQLTable(self.connection, query=query)


@contextmanager
def run_database(kind: str) -> Iterator[Database]:
    """Run a database without tables."""
    if kind == "duckdb":
        with duckdb.connect() as connection:
            yield Database(kind, connection)
        return
    with run_postgresql() as address, psycopg.connect(address, autocommit=True) as connection:
        yield Database(kind, connection, address)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
