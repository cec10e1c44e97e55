"""Open a store: an SQLite connection, the migrations of its schema, transactions and error messages.

Write-ahead logging lets several processes read while one writes. A committed transaction is on disk
(synchronous=FULL; of a replica, which can be loaded again, synchronous=NORMAL).

A store that a bulk command makes has a rollback journal until its first transaction is committed, so that
this one writes pages into the file itself, most of them once. The journal has only the few pages of an empty
store. SQLite writes while the transaction goes on, so that little is left for its end; other processes wait.
"""
# pathlib would take 5 ms of a process that judges one message.
# ruff: noqa: PTH103, PTH109, PTH110, PTH112, PTH116, PTH118, PTH120

from __future__ import annotations

import os
import sqlite3
import time
from _blake2 import blake2b  # noqa: PLC2701 (hashlib's own; importing hashlib loads OpenSSL, which takes 4 ms)
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from importlib import import_module

from tamis_mail.files import is_there, open_regular, refuse_irregular
from tamis_mail.locations import is_address

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import Any, ClassVar, TypeVar

    C = TypeVar("C", bound="Connection")

APPLICATION = 0x74616D69  # "tami": identifies a store
BUSY_SECONDS = 30.0  # a writer waits at most this long for another writer
# Limits of the time of one statement: when a store is opened and one message is judged, which takes
# milliseconds, and in other work, such as a check of 10**7 messages, which takes minutes.
VERDICT_SECONDS = 10.0
MAINTENANCE_SECONDS = 1800.0
_CACHE_KILOBYTES = 32768  # SQLite's page cache: it holds the pages of a transaction of 10,000 messages
_NEW_CACHE_KILOBYTES = 4096  # the page cache of a new store: SQLite writes other changed pages to the file
_REPLICA = "tamis_mail.store.replica"  # imported for stores on servers only
_INSTRUCTIONS = 10_000  # of SQLite's virtual machine between two checks of the time: about a millisecond
_SQLITE = b"SQLite format 3\0"
_MIGRATION = "CREATE TABLE migration (name TEXT PRIMARY KEY, time INTEGER NOT NULL)"
_MISSING = "there is no store at {}: learn some mail first (tamis learn --help)"
_FOREIGN = "{} is not a tamis store: give the path of a store, or one where nothing is yet"

# The digest of the schema after all migrations; to compute it in each process would take a millisecond.
_NEWEST_OBJECTS = "0e037ff6cdcf789b11999ae56a770002"

# Each migration is applied once, in this order, and never changed after a release. A change of the schema is
# a new entry at the end. A migration after the first one only creates tables and indexes, so that an older
# store without write permission is read as if the tables were there and empty.
MIGRATIONS: dict[str, str] = {
    "0001-counts-and-journal": """
        CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE label (
            id INTEGER PRIMARY KEY,            -- the column of its counts in a run
            name TEXT NOT NULL UNIQUE,
            messages INTEGER NOT NULL,         -- in the journal
            weight INTEGER NOT NULL,           -- of those messages, in units
            lent INTEGER NOT NULL,             -- weight of messages that another filter had counted
            features INTEGER NOT NULL          -- sum of its counts of all features, for `check`
        );
        CREATE TABLE source (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE journal (
            digest BLOB PRIMARY KEY,
            label INTEGER NOT NULL,
            weight INTEGER NOT NULL,           -- under its label
            rest INTEGER NOT NULL,             -- under the other guessed label, if the label is guessed
            version INTEGER NOT NULL,          -- of the tokens
            era INTEGER NOT NULL,              -- how often the store had been pruned before
            source INTEGER NOT NULL,
            time INTEGER NOT NULL              -- seconds since 1970
        ) WITHOUT ROWID;
        CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            generation INTEGER NOT NULL,
            start INTEGER NOT NULL,            -- number of its first shelf
            bits INTEGER NOT NULL,             -- it has 2**bits shelves, by the highest bits of a key
            width INTEGER NOT NULL,            -- bytes of a count
            labels INTEGER NOT NULL,           -- counts of an entry
            entries INTEGER NOT NULL
        );
        CREATE TABLE shelf (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
    """,
    "0002-features-of-messages": """
        CREATE TABLE bundle (
            id INTEGER PRIMARY KEY,
            messages INTEGER NOT NULL,         -- whose features it holds
            data BLOB NOT NULL                 -- see `bundles`
        );
        CREATE TABLE message (                 -- of the journal; older entries have no row
            digest BLOB PRIMARY KEY,
            bundle INTEGER,                    -- NULL: the features are not stored
            place INTEGER NOT NULL,            -- among the messages of the bundle, from 0
            date INTEGER                       -- its own date, in seconds since 1970
        ) WITHOUT ROWID;
        CREATE INDEX message_bundle ON message (bundle);
    """,
    "0003-lists-and-correspondents": """
        CREATE TABLE listed (
            entry TEXT PRIMARY KEY,            -- an address, or @ and a domain
            is_allowed INTEGER NOT NULL        -- 1 allowed, 0 blocked
        ) WITHOUT ROWID;
        CREATE TABLE sent (
            digest TEXT PRIMARY KEY,           -- of a sent message, in hexadecimal digits
            senders TEXT NOT NULL,             -- the addresses in From, one per line: the user's own
            recipients TEXT NOT NULL           -- the addresses in To, Cc and Bcc, one per line
        ) WITHOUT ROWID;
        CREATE TABLE correspondent (
            address TEXT PRIMARY KEY,
            received INTEGER NOT NULL,         -- sent messages with this recipient
            wrote INTEGER NOT NULL             -- sent messages with this sender
        ) WITHOUT ROWID;
    """,
    "0004-coefficients": """
        CREATE TABLE coefficient (id INTEGER PRIMARY KEY, data BLOB NOT NULL);  -- see `coefficients`
    """,
    "0005-word-list": """
        CREATE TABLE word_list (
            key INTEGER PRIMARY KEY,           -- of a token that another filter had counted
            spam INTEGER NOT NULL,             -- messages that have it
            ham INTEGER NOT NULL
        );
    """,
}


class StoreError(Exception):
    """A store cannot be used. The message is one line for the user."""


class _Clock:
    """Measures the time of a statement and compares it with a limit."""

    __slots__ = ("_end", "seconds")
    timeouts: ClassVar[int] = 0  # how often a limit was exceeded

    def __init__(self) -> None:
        self.seconds = VERDICT_SECONDS
        self.start()

    def start(self) -> None:
        self._end = time.monotonic() + self.seconds

    def is_late(self) -> bool:
        is_late = time.monotonic() > self._end
        _Clock.timeouts += is_late
        return is_late


@contextmanager
def _report_damaged_names() -> Iterator[None]:
    """Raise DatabaseError where SQLite's message quotes a name of the schema that is not valid UTF-8."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError("malformed database schema") from error


class Connection(sqlite3.Connection):
    """A connection with a time limit per statement, so that a damaged file cannot block the process."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.commits = 0  # transactions that this connection has committed
        self.is_immutable = False  # opened without locks: changes by other processes are not seen
        self.is_new = False  # made by this connection, and without a write-ahead log: see `begin_log`
        self._descriptor = -1  # the file of a new store, for `sync_early`
        self.clock = _Clock()
        self.set_progress_handler(self.clock.is_late, _INSTRUCTIONS)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.clock.start()
        with _report_damaged_names():
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        self.clock.start()
        with _report_damaged_names():
            return super().executemany(sql, parameters)

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        self.clock.start()
        with _report_damaged_names():
            return super().executescript(sql_script)

    def begin_reading(self) -> None:
        """Begin a transaction in which all reads see one state of the store."""
        self.execute("BEGIN")
        self.execute("SELECT 1 FROM sqlite_master").fetchone()  # the first read fixes the state

    def begin_writing(self) -> None:
        """Begin a transaction that writes; wait for other writers, at most BUSY_SECONDS."""
        self.execute("BEGIN IMMEDIATE")

    def commit_writing(self) -> None:
        """Make the changes of the open transaction permanent."""
        self.execute("COMMIT")
        self.commits += 1

    def begin_log(self) -> None:
        """Give a new store a write-ahead log, unless another process is using it: then it gets one later."""
        self.execute("PRAGMA busy_timeout = 0")
        try:
            if _set_log(self):
                self.is_new = False
                self.execute("PRAGMA synchronous = FULL")
                self.execute(f"PRAGMA cache_size = -{_CACHE_KILOBYTES}")
        finally:
            self.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")

    def sync_early(self) -> None:
        """Bring to disk what SQLite has written of a new store, so that the commit waits for less.

        The commit brings the whole file to disk, so that nothing depends on what is done here, or fails.
        """
        if not self.is_new:
            return
        with suppress(OSError):
            if self._descriptor < 0:
                (_, _, path) = self.execute("PRAGMA database_list").fetchone()
                self._descriptor = os.open(path, os.O_RDWR)
            getattr(os, "fdatasync", os.fsync)(self._descriptor)  # macOS has no fdatasync

    def close(self) -> None:
        """Close the connection."""
        super().close()
        # Last, because a process that closes a descriptor of a file loses all its locks on the file.
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def roll_back(self) -> None:
        """Roll back the open transaction, if there is one."""
        if self.in_transaction:  # SQLite has already rolled back if the disk was full
            self.execute("ROLLBACK")

    def state_number(self) -> int:
        """Return a number that changes when this or another connection changes the store."""
        (version,) = self.execute("PRAGMA data_version").fetchone()  # of other connections
        return int(version) + (self.commits << 32)

    @contextmanager
    def limit_statements(self, seconds: float) -> Iterator[None]:
        """Set the time limit of each statement in the block."""
        before, self.clock.seconds = self.clock.seconds, seconds
        try:
            yield
        finally:
            self.clock.seconds = before


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether the file has the header of a tamis store."""
    try:
        with open_regular(path) as file:
            head = file.read(72)
    except OSError:
        return False
    return head.startswith(_SQLITE) and int.from_bytes(head[68:72], "big") == APPLICATION


def has_store(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file at a path, or a store at an address; raise an error if that cannot be known."""
    if is_address(path):
        return bool(import_module(_REPLICA).has_store(path))
    return is_there(path)


def connect(
    path: str | os.PathLike[str], *, create: bool = True, readonly: bool = False, bulk: bool = False
) -> Connection:
    """Open the store at a path or an address; if it does not exist, create it or raise StoreError.

    It is created if `create` is true and `readonly` is false. With `bulk`, a file that is created has no
    write-ahead log until `Connection.begin_log`. Until then, no other part of this process may open the
    store: closing a descriptor of a file ends all locks that the process has on it.
    """
    if is_address(path):
        connection: Connection = import_module(_REPLICA).connect(path, create=create, readonly=readonly)
        return connection
    return open_file(path, Connection, create=create, readonly=readonly, bulk=bulk)


def open_file(
    path: str | os.PathLike[str],
    factory: type[C],
    *,
    create: bool = True,
    readonly: bool = False,
    bulk: bool = False,
) -> C:
    """Open a store in a file as `connect` does, by a connection of the class `factory`.

    The migrations that the file lacks are applied, also with `readonly`, if it may be written.
    """
    path = os.fspath(path)
    if path == ":memory:" or path.startswith("file:"):
        raise StoreError(
            f"{path} is a name with a special meaning to SQLite, expected a path: write it in full, "
            f"as {os.path.join(os.getcwd(), path)}"
        )
    real_path = os.path.realpath(path)  # SQLite keeps its log beside the file, not beside a link
    exists = _is_file(real_path, path)
    if exists and not _may_be_store(real_path, path):
        raise StoreError(_FOREIGN.format(path))
    if not exists and (readonly or not create):
        raise StoreError(_MISSING.format(path))
    folder = os.path.dirname(real_path)
    writable = os.access(real_path if exists else folder, os.W_OK) and os.access(folder, os.W_OK)
    if not exists and not os.path.isdir(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        writable = True
    if not writable and not readonly:
        raise StoreError(f"the store {path} cannot be written: check its permissions and its folder's")
    with explain_errors(path):
        if readonly and not writable:
            connection = _open_readonly(real_path, factory)
        else:
            if not exists:
                os.close(os.open(real_path, os.O_CREAT | os.O_RDWR, 0o600))  # mail is private
            connection = sqlite3.connect(
                real_path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                factory=factory,
            )
        try:
            connection.execute("PRAGMA mmap_size = 268435456")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            _refuse_foreign(connection, path)
            refuse_other_schema(connection, path)
            if writable:
                connection.is_new = bulk and not exists
                _upgrade(connection, path)
            elif _list_applied(connection):
                _create_temporary_tables(connection)
            else:  # the file is empty, as while another process creates a store in it
                raise StoreError(_MISSING.format(path))
            if readonly:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
    connection.clock.seconds = MAINTENANCE_SECONDS
    return connection


def _is_file(real_path: str, path: str) -> bool:
    """Whether a file exists.

    Raise StoreError if that cannot be known, or if it, or a file that SQLite keeps beside it, is not regular.
    """
    try:
        for ending in ("-wal", "-shm", "-journal", ""):  # the file itself is last: its result is returned
            exists = True
            try:
                refuse_irregular(os.stat(f"{real_path}{ending}").st_mode, f"{path}{ending}")
            except FileNotFoundError:
                exists = False
    except OSError as error:
        raise _unreadable_error(path, error) from error
    return exists


def _may_be_store(real_path: str, path: str) -> bool:
    """Whether a file is an SQLite database, or empty, as while another process creates a store in it."""
    try:
        with open_regular(real_path) as file:
            return file.read(len(_SQLITE)) in (_SQLITE, b"")
    except OSError as error:
        raise _unreadable_error(path, error) from error


def _unreadable_error(path: str, error: OSError) -> StoreError:
    return StoreError(
        f"the store {path} cannot be read ({error.strerror}): check its permissions and its folder's"
    )


def _refuse_foreign(connection: sqlite3.Connection, path: object) -> None:
    # In this order, because a process that creates a store sets the number before it creates the tables.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION and (application or tables):
        raise StoreError(_FOREIGN.format(path))


Objects = frozenset[tuple[str, str, str, str]]  # type, name, table and definition


def refuse_other_schema(connection: Connection, path: object) -> None:
    """Raise StoreError unless the schema is that of a store: a trigger or a view could run for ever."""
    with snapshot(connection, path):  # another process may be creating the tables
        objects = _objects(connection)
        if _digest_objects(objects) == _NEWEST_OBJECTS and _list_applied(connection) == set(MIGRATIONS):
            return
        migration_objects = {row for row in objects if row[1] == "migration"}
        if not migration_objects <= _list_expected_objects(()):
            _refuse_objects(path, migration_objects)
        applied = _list_applied(connection)
        unknown = applied - set(MIGRATIONS)
    if unknown:
        newest = ascii(max(unknown))[1:-1][:60]
        raise StoreError(f"the store {path} was written by a newer tamis ({newest}): upgrade this one")
    expected = _list_expected_objects(
        tuple((name, MIGRATIONS[name]) for name in MIGRATIONS if name in applied)
    )
    if objects - expected:
        _refuse_objects(path, objects - expected)
    if objects and expected - objects:
        missing = min(expected - objects)[2]
        raise StoreError(f"the store {path} has no table {missing!r}: restore a backup (tamis store restore)")


def _refuse_objects(path: object, objects: Iterable[tuple[str, str, str, str]]) -> None:
    kind, name, *_ = min(objects)
    raise StoreError(
        f"the store {path} has a {kind} {ascii(name)[:60]} that no store of tamis has: another "
        "program changed it, restore a backup (tamis store restore)"
    )


def _digest_objects(objects: Objects) -> str:
    return blake2b(repr(sorted(objects)).encode(), digest_size=16).hexdigest()


@lru_cache
def _list_expected_objects(migrations: tuple[tuple[str, str], ...]) -> Objects:
    """List the schema objects that these migrations create."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        memory.execute(_MIGRATION)
        for _, script in migrations:
            for statement in _statements(script):
                memory.execute(statement)
        return _objects(memory)


def _objects(connection: sqlite3.Connection) -> Objects:
    rows = connection.execute(
        "SELECT type, name, tbl_name, substr(sql, 1, 9999) FROM sqlite_master LIMIT 999"
    )
    return frozenset(
        (str(kind), str(name), str(table), " ".join(str(sql).split())) for kind, name, table, sql in rows
    )


def _open_readonly(real_path: str, factory: type[C]) -> C:
    """Open a store without write permission.

    If it has neither a write-ahead log nor a rollback journal, no process has it open for writing: it is
    read without locks.
    """
    has_log = any(os.path.exists(f"{real_path}{ending}") for ending in ("-wal", "-journal"))
    uri = f"{import_module('pathlib').Path(real_path).as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=factory
    )
    connection.is_immutable = not has_log
    return connection


def _upgrade(connection: Connection, path: object) -> None:
    """Configure a connection that may write, and apply the migrations that the file lacks."""
    connection.execute("PRAGMA synchronous = FULL")
    # A page that does not fit into the cache goes to the log before the commit, and again if it changes.
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KILOBYTES}")
    applied = _list_applied(connection)
    if not applied:
        # Set before write-ahead logging, so that both are in the file itself, even if the process is killed.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
    if connection.is_new:
        connection.execute("PRAGMA synchronous = EXTRA")  # also the deletion of the journal is on disk
        connection.execute(f"PRAGMA cache_size = -{_NEW_CACHE_KILOBYTES}")
    elif connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):  # a copied backup has another mode
        _set_log(connection)
    if applied >= set(MIGRATIONS):
        return
    with transaction(connection, path):
        applied = _list_applied(connection)  # another process may have upgraded meanwhile
        if not _objects(connection):
            connection.execute(_MIGRATION)
        for name, statements in MIGRATIONS.items():
            if name not in applied:
                for statement in _statements(statements):
                    connection.execute(statement)
                connection.execute("INSERT INTO migration VALUES (?, ?)", (name, int(time.time())))


def _set_log(connection: Connection) -> bool:
    """Give a store a write-ahead log; return False if another process is writing without one."""
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        return False
    return True


def _create_temporary_tables(connection: sqlite3.Connection) -> None:
    """Create the tables that an older store without write permission lacks, empty and in memory."""
    applied = _list_applied(connection)
    connection.execute("PRAGMA temp_store = MEMORY")
    for name, script in MIGRATIONS.items():
        if name not in applied:
            for statement in map(str.strip, _statements(script)):
                if statement.startswith("CREATE TABLE "):  # an index of an empty table is not needed
                    connection.execute(statement.replace("TABLE", "TEMPORARY TABLE", 1))


def _statements(script: str) -> Iterator[str]:
    """Yield single statements (executescript would commit the open transaction)."""
    plain = "\n".join(line.partition("--")[0] for line in script.splitlines())
    return (statement for statement in plain.split(";") if statement.strip())


def _list_applied(connection: sqlite3.Connection) -> set[str]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'migration'").fetchone():
        return set()
    return {str(name) for (name,) in connection.execute("SELECT name FROM migration LIMIT 999")}


@contextmanager
def snapshot(connection: Connection, path: object) -> Iterator[None]:
    """Let all reads in the block see one state of the store, whatever other connections write."""
    if connection.in_transaction:
        yield
        return
    with explain_errors(path):
        try:
            connection.begin_reading()
            yield
        finally:
            connection.roll_back()


@contextmanager
def transaction(connection: Connection, path: object) -> Iterator[None]:
    """Run the block as one transaction: commit it at its end, or roll it back after an error."""
    with explain_errors(path):
        connection.begin_writing()
        try:
            yield
            connection.commit_writing()
        except BaseException:
            connection.roll_back()
            raise


_HINTS = {
    "disk is full": "the disk is full: free some space and do it again; nothing was half-written",
    "readonly": "it cannot be written: check its permissions and its folder's",
    "locked": f"waited {BUSY_SECONDS:.0f} seconds for another process that is writing: try again when it is "
    "done",
    "malformed": "the file is damaged: restore a backup (tamis store restore)",
    "not a database": "the file is damaged: restore a backup (tamis store restore)",
    "disk I/O": "the disk cannot be read or written: check it, then tamis store check",
    "interrupted": "a statement took too long: the file may be damaged, see tamis store check",
    "unable to open": "it cannot be opened: check its permissions and its folder's",
}


@contextmanager
def reraise_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C, which SQLite reports as "interrupted" in the progress handler."""
    before = _Clock.timeouts
    try:
        yield
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error) and _Clock.timeouts == before:
            raise KeyboardInterrupt from error
        raise


@contextmanager
def explain_errors(path: object) -> Iterator[None]:
    """Turn errors of SQLite into a StoreError of one line that says what to do."""
    try:
        with reraise_interrupts():
            yield
    except sqlite3.DatabaseError as error:
        text = " ".join(str(error).split())
        for phrase, hint in _HINTS.items():
            if phrase in text:
                raise StoreError(f"the store {path}: {hint}") from error
        raise StoreError(f"the store {path}: {text}") from error
