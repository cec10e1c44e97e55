"""A table or query of PostgreSQL → a table that the server sums."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from tamis.engines.batches import Batch
from tamis.engines.iterables import Batches
from tamis.engines.iterables import open_shards as open_batches
from tamis.engines.opening import BatchShards, Request
from tamis.engines.sql.database import Column, Row, SQLTable, quote, read_first_line, to_array
from tamis.extras import import_package
from tamis.tables import Kind, Table

_ROWS_PER_BATCH = 1 << 15  # rows that are read at a time
_INTEGERS = frozenset(("int2", "int4", "int8", "oid"))
_NESTED = frozenset(("json", "jsonb", "xml", "record", "tsvector", "point", "box", "polygon", "path"))


@dataclass(frozen=True, eq=False)
class PostgreSQLTable(SQLTable):
    """A table, view or query of PostgreSQL, which the server sums itself where the model allows it.

    `connection` is a connection of psycopg, or a text that `psycopg.connect` takes; a connection that is
    opened here is closed after use. `table` is a name, or a tuple such as ("schema", "table"); "a.b" is the
    name of one table, with a point in it. `query` is a SELECT, given instead of a table.
    """

    fence: ClassVar[str] = " OFFSET 0"  # PostgreSQL computes a subquery that ends so once: see `SQLTable`

    connection: Any
    table: str | tuple[str, ...] | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        if (self.table is None) == (self.query is None):
            raise ValueError("got both a table and a query, or neither, expected one of them")
        kind = type(self.connection)
        if not isinstance(self.connection, str) and not kind.__module__.startswith("psycopg"):
            raise TypeError(
                f"got a {kind.__name__}, expected a connection of psycopg 3, or a text such as "
                "'host=db.example.org dbname=mail'"
            )

    @cached_property
    def _psycopg(self) -> Any:
        return import_package("psycopg", "tamis.engines.sql.PostgreSQLTable")

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        """Yield the connection that was given, else that of the snapshot, else a new one.

        A snapshot is a transaction in which all queries see the same rows. A new connection is closed at the
        end of the `with` block.
        """
        if not isinstance(self.connection, str):
            yield self.connection
            return
        if self._snapshot_connections:  # inside `keep_snapshot`
            yield self._snapshot_connections[-1]
            return
        try:
            connection = self._psycopg.connect(self.connection)
        except self._psycopg.Error as problem:
            raise ConnectionError(
                f"cannot reach the PostgreSQL server: {read_first_line(problem)}: start it, or mend the "
                "connection"
            ) from None
        with connection:
            yield connection

    @cached_property
    def _snapshot_connections(self) -> list[Any]:
        """The connections of the calls of `keep_snapshot` that have not ended, the innermost last."""
        return []

    @contextmanager
    def keep_snapshot(self) -> Iterator[None]:
        with self._connect() as connection:
            idle = self._psycopg.pq.TransactionStatus.IDLE
            starts_transaction = connection.info.transaction_status == idle
            self._snapshot_connections.append(connection)
            try:
                with connection.transaction():
                    if starts_transaction:  # otherwise the caller began it, and its isolation level is fixed
                        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                    yield
            finally:
                self._snapshot_connections.pop()

    def list_columns(self) -> list[Column]:
        with self._connect() as connection, self._explain_errors():
            cursor = connection.execute(f"SELECT * FROM {self.name_source()} LIMIT 0".encode())
            types = [(column.name, _name_type(column, connection)) for column in cursor.description]
        return [
            Column(name, type_, _find_kind(type_), bits=24 if type_ == "float4" else 53)  # of the significand
            for name, type_ in types
        ]

    def name_source(self) -> str:
        if self.query is not None:
            return f"({self.query.strip().rstrip(';')}) AS tamis_rows"
        names = (self.table,) if isinstance(self.table, str) else self.table
        return ".".join(map(quote, names or ()))

    def run(self, query: str) -> list[Row]:
        with self._connect() as connection, self._explain_errors():
            rows: list[Row] = connection.execute(query.encode()).fetchall()
        return rows

    def open_rows(self, request: Request) -> BatchShards[Batch]:
        by_name = {column.name: column for column in self.list_columns()}
        names = request.choose_columns(list(by_name))
        selected = [by_name[name] for name in dict.fromkeys([*names, *request.named_roles.values()])]
        query = f"SELECT {', '.join(column.identifier for column in selected)} FROM {self.name_source()}"

        def read_batches() -> Iterator[Batch]:
            for number, rows in enumerate(self._read(query)):
                columns = dict(
                    zip((column.name for column in selected), zip(*rows, strict=True), strict=True)
                )
                table = _make_table([by_name[name] for name in names], columns, len(rows))
                values = {role: list(columns[name]) for role, name in request.named_roles.items()}
                yield Batch.from_roles(table, values, number)

        return open_batches(Batches(read_batches), Request(progress=request.progress))

    def _read(self, query: str) -> Iterator[list[Row]]:
        """Yield the rows of a query, which the server sends in groups of at most `_ROWS_PER_BATCH`."""
        with (
            self._connect() as connection,
            self._explain_errors(),
            connection.transaction(),
            connection.cursor(name="tamis_rows") as cursor,
        ):
            cursor.execute(query.encode())
            while rows := cursor.fetchmany(_ROWS_PER_BATCH):
                yield rows

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except self._psycopg.OperationalError as problem:
            raise ConnectionError(f"the PostgreSQL server went away: {read_first_line(problem)}") from problem
        except self._psycopg.Error as problem:
            raise ValueError(f"PostgreSQL cannot query the table: {read_first_line(problem)}") from problem


def _name_type(column: Any, connection: Any) -> str:
    """Return the name of a column's type, followed by [] for an array."""
    known = connection.adapters.types.get(column.type_code)
    if known is None:
        return str(column.type_display)
    return f"{known.name}[]" if column.type_code == known.array_oid else str(known.name)


def _find_kind(type_: str) -> Kind | None:
    """Return the kind of values of a type of PostgreSQL; None for a type that no model reads."""
    if type_.endswith("[]") or type_ in _NESTED:
        return None
    if type_ in _INTEGERS:
        return "integer"
    if type_ in ("float4", "float8", "numeric"):
        return "number"
    return "bool" if type_ == "bool" else "category"


def _make_table(columns: list[Column], values: dict[str, Row], rows: int) -> Table:
    """Make a table of these columns; `values` has the values of each by its name."""
    arrays = tuple(to_array(values[column.name], column.kind) for column in columns)
    kinds: tuple[Kind, ...] = tuple(column.kind or "category" for column in columns)
    return Table(arrays, rows, kinds, tuple(column.name for column in columns))
