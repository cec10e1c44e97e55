"""The rows of a store in a PostgreSQL database.

    tamis_store    one row per store: its name and its position; a writer locks this row
    tamis_row      the rows of all stores; `version` is that of the commit that changed the row last, and a
                   deleted row is kept for some time, without a value, so that replicas can delete it too
    tamis_commit   the ids of the last commits (column `token`), used to check that a replica's version
                   belongs to this store's history

A row of the store is a key and a value, both bytes (`shared_rows`), and is one SQL row of tamis_row. A
replica is the local SQLite copy of the store on each host (`replica`), not a replica of PostgreSQL. A
position is the version of the store, which is its number of commits, and the random id of the last commit.

A writer holds the lock on the row of its store from `begin` to the end of its transaction, so that only one
writer changes a store at a time. A commit is one transaction. If a client is killed, or its host fails, the
server rolls its transaction back.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, TypeVar

from tamis_mail.locations import Address
from tamis_mail.store.database import MIGRATIONS, StoreError
from tamis_mail.store.shared_rows import (
    BUSY,
    COMMIT_ID_BYTES,
    DELETED,
    MISSING,
    NEWER,
    UNREACHABLE,
    Changes,
    Position,
    Progress,
    require_driver,
)

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

_CONNECT_SECONDS = 10
_RETRY_SECONDS = 5.0  # how long to try to connect again: enough for a restart of the server
_ROWS = 2000  # rows that are read or written at once
_KEPT_COMMITS = 10_000  # a replica that lacks more commits reads all rows
_TRIM = 500  # old commits and deleted rows are removed after every 500 commits
# "tami": the number of a lock that a process holds while it creates the tables. PostgreSQL calls a lock of a
# number, which belongs to no table, an advisory lock.
_SCHEMA_LOCK = 0x74616D69
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS tamis_store (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE,
        format text NOT NULL,      -- the newest migration (of the schema of stores) that its writers know
        version bigint NOT NULL,   -- the number of commits
        token bytea NOT NULL       -- the id of the last commit
    );
    CREATE TABLE IF NOT EXISTS tamis_commit (
        store integer NOT NULL REFERENCES tamis_store ON DELETE CASCADE,
        version bigint NOT NULL,
        token bytea NOT NULL,      -- the id of the commit
        PRIMARY KEY (store, version)
    );
    CREATE TABLE IF NOT EXISTS tamis_row (
        store integer NOT NULL REFERENCES tamis_store ON DELETE CASCADE,
        key bytea NOT NULL,
        version bigint NOT NULL,   -- of the last commit that changed it
        value bytea,               -- NULL: the row was deleted
        PRIMARY KEY (store, key)
    );
    CREATE INDEX IF NOT EXISTS tamis_row_version ON tamis_row (store, version);
"""
_FORMAT = max(MIGRATIONS)


def connect(address: Address) -> "PostgresqlRows":
    """Connect to the database of a store."""
    require_driver("psycopg", address, extra="postgresql")
    return PostgresqlRows(address)


class PostgresqlRows:
    """The rows of one store in a PostgreSQL database. `shared_rows.SharedRows` describes the methods."""

    def __init__(self, address: Address) -> None:
        self._name = address.own_name  # the address without the site's store, for error messages
        self._store = address.store  # the name of the store in the database
        self._url = address.url
        self._id: int | None = None  # the store's id in the database; set when its position is read
        self._connection = self._connect()

    def _connect(self) -> "Connection[tuple[Any, ...]]":
        psycopg = import_module("psycopg")
        with self._explain_errors():
            connection: Connection[tuple[Any, ...]] = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                application_name="tamis",
                # The server notices within a minute that a host has failed, and rolls its transaction back.
                options="-c client_min_messages=warning -c tcp_keepalives_idle=30 "
                "-c tcp_keepalives_interval=10 -c tcp_keepalives_count=3",
            )
        return connection

    def close(self) -> None:
        self._connection.close()

    # Reading.

    def find_position(self) -> Position | None:
        return self._retry(self._find_position)

    def _find_position(self) -> Position | None:
        psycopg = import_module("psycopg")
        try:
            row = self._connection.execute(
                "SELECT id, format, version, token FROM tamis_store WHERE name = %s",
                (self._store,),
                binary=True,
                prepare=True,
            ).fetchone()
        except psycopg.errors.UndefinedTable:
            return None
        return None if row is None else self._parse_store_row(row)

    def _parse_store_row(self, row: Sequence[Any]) -> Position:
        """Return the position in a row of tamis_store (id, format, version, token); set `_id`."""
        self._id, newest, version, commit_id = row
        if newest > _FORMAT:
            raise StoreError(NEWER.format(self._name, newest))
        return Position(version, bytes(commit_id))

    def read_changes(self, since: Position) -> tuple[Position, list[Changes]] | None:
        return self._retry(lambda: self._read_changes(since))

    def _read_changes(self, since: Position) -> tuple[Position, list[Changes]] | None:
        with self._snapshot():
            position = self._find_position()
            if position is None or position.version < since.version:
                return None  # the store was deleted, or lost commits: all rows must be read
            commit = self._connection.execute(
                "SELECT token FROM tamis_commit WHERE store = %s AND version = %s",
                (self._id, since.version),
                binary=True,
            ).fetchone()
            if commit is None or bytes(commit[0]) != since.commit_id:
                return None  # the commit is too old, or not of this store's history: all rows must be read
            rows = self._connection.execute(
                "SELECT key, value FROM tamis_row WHERE store = %s AND version > %s",
                (self._id, since.version),
                binary=True,
            ).fetchall()
        changed = [(bytes(key), bytes(value)) for key, value in rows if value is not None]
        return position, [Changes(changed, [bytes(key) for key, value in rows if value is None])]

    def read_all(self) -> Iterator[tuple[Position, list[tuple[bytes, bytes]]]]:
        self._retry(self._find_position)
        with self._explain_errors(), self._snapshot():
            position = self._find_position()
            if position is None:
                return
            # A cursor with a name is the server's: it sends the rows in parts, when they are fetched.
            with self._connection.cursor("tamis_rows", binary=True) as cursor:
                cursor.execute(
                    "SELECT key, value FROM tamis_row WHERE store = %s AND value IS NOT NULL", (self._id,)
                )
                yield position, []  # so that a store without rows has a position, too
                while rows := cursor.fetchmany(_ROWS):
                    yield position, [(bytes(key), bytes(value)) for key, value in rows]

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Let all reads in the block see one state: that of the open transaction, or of a new one."""
        if self._is_in_transaction():
            yield
            return
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            self._send_rollback()

    # Writing.

    def create(self) -> Position:
        return self._retry(self._create)

    def _create(self) -> Position:
        commit_id = token_bytes(COMMIT_ID_BYTES)
        with self._connection.transaction():
            # `to_regclass` returns NULL if there is no table of this name.
            (has_tables,) = self._connection.execute(
                "SELECT to_regclass('tamis_row') IS NOT NULL"
            ).fetchone() or (False,)
            if not has_tables:
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                self._connection.execute(_SCHEMA)
            row = self._connection.execute(
                "INSERT INTO tamis_store (name, format, version, token) VALUES (%s, %s, 0, %s) "
                "ON CONFLICT (name) DO NOTHING RETURNING id",
                (self._store, _FORMAT, commit_id),
            ).fetchone()
            if row is not None:
                self._connection.execute("INSERT INTO tamis_commit VALUES (%s, 0, %s)", (row[0], commit_id))
        position = self._find_position()
        if position is None:
            raise StoreError(DELETED.format(self._name))
        return position

    def begin(self, seconds: float) -> Position:
        return self._retry(lambda: self._begin(seconds))

    def _begin(self, seconds: float) -> Position:
        psycopg = import_module("psycopg")
        self._connection.execute("BEGIN")
        try:
            self._connection.execute(f"SET LOCAL lock_timeout = '{int(seconds * 1000)}ms'")
            row = self._connection.execute(
                "SELECT id, format, version, token FROM tamis_store WHERE name = %s FOR UPDATE",
                (self._store,),
                binary=True,
            ).fetchone()
            if row is None:
                raise StoreError(MISSING.format(self._name))
            return self._parse_store_row(row)
        except psycopg.errors.LockNotAvailable as error:
            self._send_rollback()
            raise StoreError(BUSY.format(self._name, seconds)) from error
        except BaseException:
            self._send_rollback()
            raise

    def commit(
        self, base: Position, following: Position, changes: Changes, progress: Progress | None
    ) -> None:
        psycopg = import_module("psycopg")
        try:
            with self._explain_errors():
                self._write(base, following, changes, progress)
                try:
                    self._connection.execute("COMMIT")
                except psycopg.OperationalError:
                    if not self._was_committed(following):  # the connection was lost meanwhile
                        raise
        except BaseException:
            self.roll_back()
            raise

    def _write(
        self, base: Position, following: Position, changes: Changes, progress: Progress | None
    ) -> None:
        execute = self._connection.execute
        cursor = execute(
            "UPDATE tamis_store SET version = %s, token = %s, format = greatest(format, %s) "
            "WHERE id = %s AND version = %s AND token = %s",
            (following.version, following.commit_id, _FORMAT, self._id, base.version, base.commit_id),
        )
        if cursor.rowcount != 1:
            raise StoreError(
                f"the store {self._name} was changed meanwhile, and nothing was written: try again"
            )
        execute(
            "INSERT INTO tamis_commit VALUES (%s, %s, %s)", (self._id, following.version, following.commit_id)
        )
        deleted: list[tuple[bytes, bytes | None]] = [(key, None) for key in changes.deleted]
        rows = [*changes.rows, *deleted]
        rows.sort(key=lambda row: row[0])
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            execute(
                "INSERT INTO tamis_row (store, key, version, value) "
                "SELECT %s, key, %s, value FROM unnest(%b::bytea[], %b::bytea[]) AS new (key, value) "
                "ON CONFLICT (store, key) DO UPDATE SET version = excluded.version, value = excluded.value",
                (self._id, following.version, [key for key, _ in part], [value for _, value in part]),
            )
            if progress is not None:
                progress((start + len(part)) / len(rows))
        if following.version % _TRIM == 0:
            oldest = following.version - _KEPT_COMMITS
            execute("DELETE FROM tamis_commit WHERE store = %s AND version < %s", (self._id, oldest))
            execute(
                "DELETE FROM tamis_row WHERE store = %s AND version <= %s AND value IS NULL",
                (self._id, oldest),
            )

    def _was_committed(self, position: Position) -> bool:
        """Whether the server has made a commit whose answer was lost."""

        def find() -> bool:
            # The server may still run the transaction of the lost connection: wait until the lock is free.
            self._connection.execute("SELECT 1 FROM tamis_store WHERE id = %s FOR UPDATE", (self._id,))
            row = self._connection.execute(
                "SELECT token FROM tamis_commit WHERE store = %s AND version = %s",
                (self._id, position.version),
                binary=True,
            ).fetchone()
            return row is not None and bytes(row[0]) == position.commit_id

        return self._retry(find)

    def roll_back(self) -> None:
        if self._is_in_transaction():
            self._send_rollback()

    def delete(self) -> None:
        def delete_rows() -> None:
            if self._find_position() is not None:
                self._connection.execute("DELETE FROM tamis_store WHERE name = %s", (self._store,))

        self._retry(delete_rows)

    # Connections and errors.

    def _is_in_transaction(self) -> bool:
        idle = import_module("psycopg").pq.TransactionStatus.IDLE
        return not self._connection.closed and self._connection.info.transaction_status != idle

    def _send_rollback(self) -> None:
        psycopg = import_module("psycopg")
        with suppress(psycopg.OperationalError):  # if the connection is lost, the server rolls back
            self._connection.execute("ROLLBACK")

    def _retry(self, work: Callable[[], T]) -> T:
        """Call `work`; if the connection is lost, and no transaction was open, connect and call it again."""
        psycopg = import_module("psycopg")
        end = time.monotonic() + _RETRY_SECONDS
        with self._explain_errors():
            while True:
                was_in_transaction = self._is_in_transaction()
                try:
                    return work()
                except psycopg.OperationalError:
                    if not self._connection.closed or was_in_transaction:
                        raise
                self._reconnect(end)

    def _reconnect(self, end: float) -> None:
        """Connect again; raise StoreError if that fails until `end`, a time of `time.monotonic`."""
        while True:
            try:
                self._connection = self._connect()
                return
            except StoreError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turn errors of the driver, psycopg, into a StoreError of one line that says what to do."""
        psycopg = import_module("psycopg")
        try:
            yield
        except psycopg.Error as error:
            text = " ".join(str(error).split())[:300] or type(error).__name__
            if isinstance(error, psycopg.OperationalError):
                raise StoreError(UNREACHABLE.format(self._name, text)) from error
            if isinstance(error, psycopg.errors.InsufficientPrivilege):
                text += ": grant this user CREATE on the schema for the first run"
            raise StoreError(f"the store {self._name}: {text}") from error
