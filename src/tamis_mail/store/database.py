"""a path → one SQLite connection with the schema of today: the only place that knows tables and pragmas.

Write-ahead logging lets several processes read while one writes. A transaction is on disk when it is said to
be: synchronous=FULL.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["StoreError", "connect", "is_store", "reading", "writing"]

APPLICATION = 0x74616D69  # "tami": what `file` and we know a store by
PATIENCE = 30.0  # seconds that a writer waits for another
_SQLITE = b"SQLite format 3\0"
_FOREIGN = "{} is not a tamis store: give the path of a store, or one where nothing is yet"

# Each is applied once, in this order, and never changed after a release: a new need is a new name at the end.
MIGRATIONS: dict[str, str] = {
    "0001-counts-and-journal": """
        CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE label (
            id INTEGER PRIMARY KEY,            -- the column of its counts in a run
            name TEXT NOT NULL UNIQUE,
            messages INTEGER NOT NULL,         -- in the journal
            weight INTEGER NOT NULL,           -- of those messages, in units
            lent INTEGER NOT NULL,             -- of messages that another filter had counted
            features INTEGER NOT NULL          -- sum of all counts: what `check` adds up again
        );
        CREATE TABLE source (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE journal (
            digest BLOB PRIMARY KEY,
            label INTEGER NOT NULL,
            weight INTEGER NOT NULL,           -- under its label
            rest INTEGER NOT NULL,             -- under the other guess, if the label is one
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
}


class StoreError(Exception):
    """A store that cannot be used as was asked; the message is one line for the person who asked."""


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether the file says that it is a tamis store."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    return head.startswith(_SQLITE) and int.from_bytes(head[68:72], "big") == APPLICATION


def connect(
    path: str | os.PathLike[str], *, create: bool = True, readonly: bool = False
) -> sqlite3.Connection:
    """Open the store, make it if it is not there and that is allowed, and bring its schema up to date."""
    path = Path(path)
    exists = path.exists()
    if exists and not _may_be_store(path):
        raise StoreError(_FOREIGN.format(path))
    if not exists and (readonly or not create):
        raise StoreError(f"there is no store at {path}: learn some mail first (tamis learn --help)")
    writable = os.access(path if exists else path.parent, os.W_OK) and os.access(path.parent, os.W_OK)
    if not exists and not path.parent.is_dir():
        path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        writable = True
    if not writable and not readonly:
        raise StoreError(f"the store {path} cannot be written: check its permissions and its folder's")
    with explained(path):
        if readonly and not writable:
            connection = _open_readonly(path)
        else:
            if not exists:
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # mail is nobody else's business
            connection = sqlite3.connect(
                path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
        try:
            connection.execute("PRAGMA mmap_size = 268435456")
            _refuse_foreign(connection, path)
            _refuse_newer(connection, path)
            if writable:
                _upgrade(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _may_be_store(path: Path) -> bool:
    """A store, or a file that another process is making one: only SQLite knows, when it has the lock."""
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) in (_SQLITE, b"")
    except OSError as error:
        raise StoreError(
            f"the store {path} cannot be read ({error.strerror}): check its permissions and its folder's"
        ) from error


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    # In this order: a process that makes a store meanwhile sets the number first, the tables later.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION and (application or tables):
        raise StoreError(_FOREIGN.format(path))


def _open_readonly(path: Path) -> sqlite3.Connection:
    """Where nothing may be written, readers and a writer cannot agree, so the store must be at rest."""
    name = path.resolve().as_uri()
    at_rest = not Path(f"{path}-wal").exists()
    uri = f"{name}?mode=ro{'&immutable=1' if at_rest else ''}"
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    known = _applied(connection)
    if not known:
        # Both before there is a log: in the file itself, where `is_store` looks even if a process was killed.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
    if connection.execute("PRAGMA journal_mode").fetchone() != (
        "wal",
    ):  # a backup that was copied here by hand is not
        connection.execute("PRAGMA journal_mode = WAL")
    if known >= set(MIGRATIONS):
        return
    with writing(connection, path):
        known = _applied(connection)  # another process may have been first
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, time INTEGER NOT NULL)"
        )
        for name, statements in MIGRATIONS.items():
            if name not in known:
                for statement in _statements(statements):
                    connection.execute(statement)
                connection.execute("INSERT INTO migration VALUES (?, ?)", (name, int(time.time())))


def _statements(script: str) -> Iterator[str]:
    """One statement after the other (executescript would commit the transaction we are in)."""
    plain = "\n".join(line.partition("--")[0] for line in script.splitlines())
    return (statement for statement in plain.split(";") if statement.strip())


def _applied(connection: sqlite3.Connection) -> set[str]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'migration'").fetchone():
        return set()
    return {name for (name,) in connection.execute("SELECT name FROM migration")}


def _refuse_newer(connection: sqlite3.Connection, path: Path) -> None:
    unknown = _applied(connection) - set(MIGRATIONS)
    if unknown:
        raise StoreError(f"the store {path} was written by a newer tamis ({max(unknown)}): upgrade this one")


@contextmanager
def reading(connection: sqlite3.Connection, path: object) -> Iterator[None]:
    """See the store as it is now, whatever a writer does meanwhile."""
    if connection.in_transaction:
        yield
        return
    with explained(path):
        connection.execute("BEGIN")
        try:
            connection.execute(
                "SELECT 1 FROM sqlite_master"
            ).fetchone()  # it is the first look that fixes what is seen
            yield
        finally:
            _roll_back(connection)


@contextmanager
def writing(connection: sqlite3.Connection, path: object) -> Iterator[None]:
    """All of what happens inside, or nothing."""
    with explained(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # SQLite has rolled back itself if the disk was full
        connection.execute("ROLLBACK")


_HINTS = {
    "disk is full": "the disk is full: free some space and do it again; nothing was half-written",
    "readonly": "it cannot be written: check its permissions and its folder's",
    "locked": f"another process has been writing for {PATIENCE:.0f} seconds: try again when it is done",
    "malformed": "the file is damaged: restore a backup (tamis store restore)",
    "not a database": "the file is damaged: restore a backup (tamis store restore)",
    "disk I/O": "the disk cannot be read or written: check it, then tamis store check",
    "unable to open": "it cannot be opened: check its permissions and its folder's",
}


@contextmanager
def explained(path: object) -> Iterator[None]:
    """Turn SQLite's errors into one line that says what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        for sign, hint in _HINTS.items():
            if sign in text:
                raise StoreError(f"the store {path}: {hint}") from error
        raise StoreError(f"the store {path}: {text}") from error
