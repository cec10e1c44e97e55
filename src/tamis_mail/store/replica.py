"""Use a store on a server by its replica on this host, an SQLite store that is updated before each use.

The server has the rows of the store (`shared_rows`), and the replica has the same rows in the usual tables.
So a store on a server gives the same results as a store in a file, to the bit:

    reading   ask the server for its position; if it differs from the replica's, apply the changes since then;
              read the replica
    writing   take the server's lock, update the replica, change it, send the changed rows, commit

If the process is killed before the server has committed, nothing was changed; if it is killed later, or
cannot write the replica, the changes are on the server all the same. The processes of a host share its
replica. While no process has it open, it may be deleted: the next one loads it again.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from tamis_mail.files import is_there
from tamis_mail.locations import Address, LocationError, find_local_path, parse_address
from tamis_mail.schema import REPLICA_POSITION, TABLES
from tamis_mail.store.database import (
    BUSY_SECONDS,
    Connection,
    StoreError,
    explain_errors,
    open_file,
    reraise_interrupts,
)
from tamis_mail.store.log import EventLog, LogError
from tamis_mail.store.shared_rows import (
    COMMIT_ID_BYTES,
    SHARED_TABLES,
    Changes,
    Position,
    Progress,
    SharedRows,
    Value,
    decode_key,
    decode_row,
    encode_key,
    encode_row,
)

# Modules with a function `connect`, by the kind of server in an address.
_DRIVERS = {
    "postgresql": "tamis_mail.store.postgresql_rows",
    "redis": "tamis_mail.store.redis_rows",
}
_ENDINGS = ("", "-wal", "-shm")  # of the names of a replica and of SQLite's files for it
_KEY_COLUMNS = {table: next(iter(TABLES[table])) for table in SHARED_TABLES}  # the column of the primary key
_PLACEHOLDERS = {table: ", ".join("?" * len(TABLES[table])) for table in SHARED_TABLES}
# A row of these is deleted when its message is forgotten. The key is the digest; that of `sent`, the table of
# sent mail, has it as hexadecimal text.
_MESSAGE_TABLES = ("journal", "sent")


def has_store(name: str | os.PathLike[str]) -> bool:
    """Whether the server has the store of an address or, if the address names a site's store, that one."""
    address = _parse(name)
    rows = _open_rows(_parse(address.site_name) if address.site else address)
    try:
        return rows.find_position() is not None
    finally:
        rows.close()


def delete(name: str | os.PathLike[str]) -> None:
    """Delete a store from its server, and the replica of this host."""
    rows = _open_rows(_parse(name))
    try:
        rows.delete()
    finally:
        rows.close()
    _delete_replica(find_local_path(name))


def connect(name: str | os.PathLike[str], *, create: bool = True, readonly: bool = False) -> Connection:
    """Open a store on a server.

    If it does not exist, it is created if `create` is true and `readonly` is false, or if the address also
    names a site's store, by which mail is judged until the user has learned some. Otherwise StoreError is
    raised.
    """
    address = _parse(name)
    rows = _open_rows(address)
    try:
        if rows.find_position() is None:
            if (readonly or not create) and not address.site:
                raise StoreError(
                    f"there is no store at {address.own_name}: learn some mail first (tamis learn --help)"
                )
            rows.create()
        path = find_local_path(name)
        _make_folder(os.path.dirname(path))  # noqa: PTH120
        try:
            connection = _open_replica(path, address, rows, readonly=readonly)
        except StoreError as error:
            if not _is_unusable(error):
                raise
            _delete_replica(path)
            connection = _open_replica(path, address, rows, readonly=readonly)
    except BaseException:
        rows.close()
        raise
    return connection


def _is_unusable(error: StoreError) -> bool:
    """Whether an error means that the replica is damaged or of a newer tamis and must be loaded again.

    An error of the server, or a lock of another process, does not mean that.
    """
    cause = error.__cause__
    return cause is None or (isinstance(cause, sqlite3.DatabaseError) and "locked" not in str(cause))


def _parse(name: str | os.PathLike[str]) -> Address:
    try:
        return parse_address(name)
    except LocationError as error:
        raise StoreError(str(error)) from error


def _open_rows(address: Address) -> SharedRows:
    rows: SharedRows = import_module(_DRIVERS[address.kind]).connect(address)
    return rows


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    except OSError as error:
        raise StoreError(
            f"the folder {folder} for replicas of stores cannot be made ({error.strerror}): "
            "set TAMIS_REPLICAS to another one"
        ) from error


def _delete_replica(path: str) -> None:
    for ending in reversed(_ENDINGS):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{ending}")  # noqa: PTH108


def _open_replica(path: str, address: Address, rows: SharedRows, *, readonly: bool) -> "ReplicaConnection":
    connection = open_file(path, factory=ReplicaConnection)
    try:
        connection.follow_server(address.own_name, path, rows, readonly=readonly)
    except BaseException:
        sqlite3.Connection.close(connection)
        raise
    return connection


class ReplicaConnection(Connection):
    """A connection to a replica. Outside a transaction, it updates the replica before each statement."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.progress: Progress | None = None  # of sending the rows that a transaction has changed
        self._rows: SharedRows | None = None  # None until `follow_server`, and after `close`
        self._name = self._path = ""
        self._readonly = False
        self._base: Position | None = None  # of the store when the open transaction that writes began
        self._is_updating = False  # while it is true, statements do not update the replica first

    def follow_server(self, name: str, path: str, rows: SharedRows, *, readonly: bool) -> None:
        """Update the replica from the server, now and before each use, and record which rows change."""
        self._name, self._path, self._readonly = name, path, readonly
        with explain_errors(name):
            # Commits do not wait for the disk: after a power failure, the replica is updated or loaded again.
            super().execute("PRAGMA synchronous = NORMAL")
            super().execute("PRAGMA temp_store = MEMORY")  # for the table `changed`
            super().execute(
                "CREATE TEMP TABLE changed (number, key, PRIMARY KEY (number, key)) WITHOUT ROWID"
            )
            for number, table in enumerate(SHARED_TABLES):
                for statement in _make_triggers(number, table):
                    super().execute(statement)
        self._rows = rows
        self._update()

    @property
    def rows(self) -> SharedRows:
        """The rows on the server."""
        if self._rows is None:
            raise StoreError(f"the store {self._name} is closed")
        return self._rows

    def close(self) -> None:
        super().close()
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        is_outside = not self.in_transaction and not sql.startswith("PRAGMA")
        if is_outside and self._rows is not None and not self._is_updating:
            self._update()
        return super().execute(sql, parameters)

    # Transactions.

    def begin_writing(self) -> None:
        if self._rows is None:  # before `follow_server`, the tables of a new replica are created
            super().begin_writing()
            return
        if self._readonly:
            raise StoreError(f"the store {self._name} was opened for reading only")
        position = self.rows.begin(BUSY_SECONDS)
        try:
            with self._suspend_updates():
                self._apply(position)
                super().begin_writing()
            self._base = position
        except BaseException:
            self.rows.roll_back()
            raise

    def commit_writing(self) -> None:
        if self._base is None:
            super().commit_writing()
            return
        changes = self._list_changes()
        if changes.rows or changes.deleted:
            following = Position(self._base.version + 1, secrets.token_bytes(COMMIT_ID_BYTES))
            self._write_position(following)
            super().execute("DELETE FROM changed")
            base, self._base = self._base, None
            self.rows.commit(base, following, changes, self.progress)
            # If the replica cannot be written, it is updated from the server before its next use. SQLite
            # reports Ctrl-C as an OperationalError, too; it is not suppressed.
            with suppress(sqlite3.OperationalError), reraise_interrupts():
                super().commit_writing()
            super().roll_back()
            return
        super().commit_writing()
        self._release()

    def roll_back(self) -> None:
        try:
            super().roll_back()
        finally:
            self._release()

    def _release(self) -> None:
        if self._base is not None:
            self._base = None
            self.rows.roll_back()

    def state_number(self) -> int:
        """Return a number that changes with each commit: the beginning of the id of the last one."""
        position = self._read_position()
        return int.from_bytes(position.commit_id[:7], "big") if position else 0

    # Updating the replica.

    @contextmanager
    def _suspend_updates(self) -> Iterator[None]:
        """Let statements in the block not update the replica first."""
        self._is_updating = True
        try:
            yield
        finally:
            self._is_updating = False

    def _update(self) -> None:
        """Update the replica to the present position of the server."""
        with self._suspend_updates():
            position = self.rows.find_position()
            if position is None:
                raise StoreError(
                    f"the store {self._name} no longer exists on the server: learn mail to create it again, "
                    "or copy a store there (tamis store copy)"
                )
            self._apply(position)

    def _apply(self, position: Position) -> None:
        """Update the replica to the state of the server at a position, or at a later one."""
        if self._read_position() == position:
            return
        forgotten: set[bytes] = set()
        with explain_errors(self._name):
            sqlite3.Connection.execute(self, "BEGIN IMMEDIATE")
            try:
                present = self._read_position()  # again: another process may have updated the replica
                if present != position:
                    answer = None if present is None else self.rows.read_changes(present)
                    if answer is None:
                        forgotten = self._load()
                    else:
                        position, commits = answer
                        for changes in commits:
                            forgotten |= self._apply_changes(changes)
                        self._write_position(position)
                sqlite3.Connection.execute(self, "DELETE FROM changed")
                sqlite3.Connection.execute(self, "COMMIT")
            except BaseException:
                if self.in_transaction:
                    sqlite3.Connection.execute(self, "ROLLBACK")
                raise
        self._erase(forgotten)

    def _load(self) -> set[bytes]:
        """Load all rows from the server; return the digests of messages that only the replica had."""
        before = self._list_digests()
        for table in SHARED_TABLES:
            super().execute(f"DELETE FROM {table}")
        start: Position | None = None
        for position, rows in self.rows.read_all():
            start = start or position
            self._insert(rows)
        if start is None:
            raise StoreError(f"the store {self._name} no longer exists on the server")
        answer = self.rows.read_changes(start)
        if answer is None:
            raise StoreError(f"the store {self._name} changes faster than it can be read: try again")
        position, commits = answer
        for changes in commits:
            self._apply_changes(changes)
        self._write_position(position)
        return before - self._list_digests()

    def _apply_changes(self, changes: Changes) -> set[bytes]:
        """Apply changes; return the digests of messages that they remove."""
        forgotten: set[bytes] = set()
        by_table: dict[int, list[tuple[Value]]] = {}
        for data in changes.deleted:
            number, key = decode_key(data)
            by_table.setdefault(number, []).append((key,))
            if SHARED_TABLES[number] in _MESSAGE_TABLES:
                forgotten.add(key if isinstance(key, bytes) else bytes.fromhex(str(key)))
        for number, keys in by_table.items():
            table = SHARED_TABLES[number]
            super().executemany(f"DELETE FROM {table} WHERE {_KEY_COLUMNS[table]} = ?", keys)
        self._insert(changes.rows)
        return forgotten

    def _insert(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        by_table: dict[int, list[list[Value]]] = {}
        for key, value in rows:
            number, _ = decode_key(key)
            by_table.setdefault(number, []).append(decode_row(value))
        for number, values in by_table.items():
            table = SHARED_TABLES[number]
            super().executemany(f"INSERT OR REPLACE INTO {table} VALUES ({_PLACEHOLDERS[table]})", values)

    def _list_changes(self) -> Changes:
        """List the rows that the open transaction has changed, in the order of their keys."""
        rows: list[tuple[bytes, bytes]] = []
        deleted: list[bytes] = []
        for number, table in enumerate(SHARED_TABLES):
            key = _KEY_COLUMNS[table]
            changed = super().execute(
                f"SELECT {table}.* FROM changed JOIN {table} ON {table}.{key} = changed.key WHERE number = ?",
                (number,),
            )
            rows += [(encode_key(number, row[0]), encode_row(row)) for row in changed]
            deleted += [
                encode_key(number, value)
                for (value,) in super().execute(
                    "SELECT changed.key FROM changed WHERE number = ? AND NOT EXISTS "
                    f"(SELECT 1 FROM {table} WHERE {table}.{key} = changed.key)",
                    (number,),
                )
            ]
        return Changes(sorted(rows), sorted(deleted))

    def _list_digests(self) -> set[bytes]:
        rows = super().execute("SELECT digest FROM journal UNION ALL SELECT digest FROM sent")
        return {digest if isinstance(digest, bytes) else bytes.fromhex(digest) for (digest,) in rows}

    def _erase(self, digests: set[bytes]) -> None:
        """Erase messages that another host has forgotten from the log of this host."""
        log = f"{self._path}.log"
        if digests and is_there(log):
            with suppress(LogError):  # `tamis log` reports the error
                EventLog(log).append((), erase=digests)

    def _read_position(self) -> Position | None:
        row = super().execute("SELECT value FROM setting WHERE name = ?", (REPLICA_POSITION,)).fetchone()
        if row is None:
            return None
        try:
            version, commit_id = str(row[0]).split()
            return Position(int(version), bytes.fromhex(commit_id))
        except ValueError:
            return None

    def _write_position(self, position: Position) -> None:
        value = f"{position.version} {position.commit_id.hex()}"
        super().execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (REPLICA_POSITION, value))


def _make_triggers(number: int, table: str) -> Iterator[str]:
    """Yield statements that create triggers, which insert the keys of changed rows into `changed`."""
    key = _KEY_COLUMNS[table]
    # SQLite gives the row before and after an event the names `old` and `new`.
    for event, names in (("INSERT", ("new",)), ("UPDATE", ("old", "new")), ("DELETE", ("old",))):
        # Not INSERT OR IGNORE: the conflict clause of the statement that fires a trigger would override it.
        insertions = "".join(
            f"INSERT INTO changed SELECT {number}, {name}.{key} WHERE NOT EXISTS "
            f"(SELECT 1 FROM changed WHERE number = {number} AND changed.key = {name}.{key});"
            for name in names
        )
        condition = f"WHEN {names[-1]}.name <> '{REPLICA_POSITION}'" if table == "setting" else ""
        yield (
            f"CREATE TEMP TRIGGER record_{event}_{table} AFTER {event} ON main.{table} {condition} "
            f"BEGIN {insertions} END"
        )
