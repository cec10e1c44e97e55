"""Copy a store to another one, between files and servers, row by row in one transaction of the target."""

from collections.abc import Callable

from tamis_mail.schema import REPLICA_POSITION, TABLES
from tamis_mail.store.database import StoreError
from tamis_mail.store.replica import ReplicaConnection
from tamis_mail.store.shared_rows import SHARED_TABLES
from tamis_mail.store.store import Store

_ROWS = 5000  # rows that are in memory at once
_READING_SHARE = 0.5  # of the progress bar, for reading the rows, if they are sent to a server afterwards


def copy(
    source: Store, target: Store, progress: Callable[[float], None] | None = None, *, replace: bool = False
) -> int:
    """Copy the contents of a store to another one; return the number of learned messages.

    With `replace`, the contents of the other store are deleted; otherwise StoreError is raised if it has any.
    SHARED_TABLES, which are copied, are all tables except the list of migrations of an SQLite file. Counts,
    settings, coefficients and lists are the same, to the bit. The log of events is not copied.
    """
    if source.path.resolve() == target.path.resolve():
        raise StoreError(f"the store {source.name} cannot be copied to itself: give another one")
    connection = target.connection
    reading_share = _READING_SHARE if isinstance(connection, ReplicaConnection) else 1.0
    if isinstance(connection, ReplicaConnection) and progress is not None:
        connection.progress = _scale(progress, reading_share)
    try:
        with source.snapshot(), target.transaction():
            sizes = {table: _count_rows(source, table) for table in SHARED_TABLES}
            total, done = sum(sizes.values()), 0
            for table in SHARED_TABLES:
                if _count_rows(target, table):
                    if not replace:
                        raise StoreError(
                            f"the store {target.name} is not empty: give a new one, or --replace to replace "
                            "all that it has learned"
                        )
                    connection.execute(f"DELETE FROM {table} {_make_condition(table)}")
            for table in SHARED_TABLES:
                rows = source.connection.execute(f"SELECT * FROM {table} {_make_condition(table)}")
                placeholders = ", ".join("?" * len(TABLES[table]))
                while part := rows.fetchmany(_ROWS):
                    connection.executemany(f"INSERT INTO {table} VALUES ({placeholders})", part)
                    done += len(part)
                    if progress is not None:
                        progress(reading_share * done / total)
    finally:
        if isinstance(connection, ReplicaConnection):
            connection.progress = None
    return sizes["journal"]


def _scale(progress: Callable[[float], None], start: float) -> Callable[[float], None]:
    """Return a function that takes the completed share of the work that remains after the share `start`."""
    return lambda share: progress(start + (1 - start) * share)


def _make_condition(table: str) -> str:
    """Return an SQL condition that excludes the row that only a replica has."""
    return f"WHERE name <> '{REPLICA_POSITION}'" if table == "setting" else ""


def _count_rows(store: Store, table: str) -> int:
    (rows,) = store.connection.execute(f"SELECT count(*) FROM {table} {_make_condition(table)}").fetchone()
    return int(rows)
