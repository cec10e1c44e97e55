"""The log: verdicts and learning events, numbered, in an SQLite file of its own beside the store.

It is separate from the store, so that a verdict waits for no lock of the store, and so that a full or damaged
log does not stop mail: every error is a `LogError`, which the caller reports or ignores. The journal of the
store says under which label each message is learned now; the log has the changes in their order.

The log holds senders and subjects. Only its owner can read it, it holds a bounded number of events, and the
sender, the subject, the paths and the digest of a forgotten message are erased from its earlier events.
"""
# pathlib would take 5 ms of a process that judges one message.
# ruff: noqa: PTH105, PTH108, PTH116, PTH120

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from operator import attrgetter

from tamis_mail.files import is_there, open_regular, refuse_irregular
from tamis_mail.locations import find_local_path
from tamis_mail.records import record
from tamis_mail.store.database import Connection, reraise_interrupts

TYPE_CHECKING = False  # `typing` and `pathlib` would take 8 ms of a process that judges one message
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

VERDICT, LEARNED, MOVED, FORGOTTEN, GUESSED = "verdict", "learned", "moved", "forgotten", "guessed"
_ACTIONS = frozenset({VERDICT, LEARNED, MOVED, FORGOTTEN, GUESSED})

APPLICATION = 0x74616D6C  # "taml": identifies a log
VERDICTS = 100_000  # a verdict is deleted after so many newer events, which take about 25 MB
LEARNINGS = 100_000  # so many learning events are kept, however many verdicts there are
_TRIM = 500  # old events are deleted after every 500 new ones
_PARAMETERS = 500  # values bound to one statement; older versions of SQLite allow 999
_BUSY_SECONDS = 1.0  # how long to wait for another writer, which has the lock for milliseconds
_SQLITE = b"SQLite format 3\0"  # the first bytes of a file of SQLite
_ENDINGS = ("", "-wal", "-shm", "-journal")  # of the names of the log and of SQLite's files for it

_TABLE = """CREATE TABLE event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    action TEXT NOT NULL,
    digest BLOB NOT NULL,
    label TEXT NOT NULL,
    before TEXT NOT NULL,
    probability REAL,
    sender TEXT NOT NULL,
    subject TEXT NOT NULL,
    source TEXT NOT NULL,
    weight INTEGER NOT NULL,
    old_weight INTEGER NOT NULL,
    old_rest INTEGER NOT NULL,
    old_source TEXT NOT NULL,
    old_time INTEGER NOT NULL,
    undoes INTEGER NOT NULL
)"""
_OBJECTS = {
    "event": _TABLE,
    "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)",  # which SQLite creates for AUTOINCREMENT
    "event_digest": "CREATE INDEX event_digest ON event (digest)",
    "event_learning": "CREATE INDEX event_learning ON event (number) WHERE action <> 'verdict'",
    "event_undo": "CREATE INDEX event_undo ON event (undoes) WHERE undoes <> 0",
}


class LogError(Exception):
    """The log cannot be used. The message is one line for the user."""


@record(frozen=True, slots=True)
class Event:
    """A verdict on a message, or a change of what is learned about it."""

    time: int  # seconds since 1970
    action: str
    digest: bytes  # of the message; erased when it is forgotten, except in the event of forgetting it
    label: str  # the verdict, or the label after the event; empty if the message was forgotten
    before: str = ""  # the label before the event
    probability: float | None = None  # of spam, if the event is a verdict
    sender: str = ""
    subject: str = ""
    source: str = ""  # the mailbox or the file that the message came from
    weight: int = 0  # of the message in the journal, after the event
    # The journal entry before the event, which undoing it restores.
    old_weight: int = 0
    old_rest: int = 0  # the weight under the other guessed label
    old_source: str = ""
    old_time: int = 0
    undoes: int = 0  # the number of the event that this one has undone
    number: int = 0  # 0 until it is written

    @property
    def is_learning(self) -> bool:
        """Whether the event changed the store."""
        return self.action != VERDICT


_COLUMNS = Event.__slots__[:-1]
_read_columns = attrgetter(*_COLUMNS)
_INSERT = f"INSERT INTO event ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_SELECT = f"SELECT {', '.join(_COLUMNS)}, number FROM event"
_ERASE = """UPDATE event SET digest = x'', sender = '', subject = '', source = '', old_source = ''
    WHERE digest = ?"""


class EventLog:
    """The log of a store. Each method opens the file; the first event creates it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name = os.fspath(path)

    @property
    def path(self) -> Path:
        path: Path = import_module("pathlib").Path(self._name)
        return path

    @classmethod
    def of(cls, store_path: str | os.PathLike[str]) -> EventLog:
        """Return the log of the store at a path: the file with `.log` added to its name."""
        return cls(f"{find_local_path(store_path)}.log")

    def exists(self) -> bool:
        """Whether there is a file of the log."""
        with self._explain_errors():
            return is_there(self._name)

    # Writing.

    def append(
        self,
        events: Sequence[Event],
        *,
        erase: Iterable[bytes] = (),
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Sequence[int]:
        """Erase the events of some messages, write events, and return the numbers of these.

        It is one transaction, which is rolled back if `is_wanted`, called at its end, returns false. A file
        that SQLite finds damaged is renamed (`.damaged` is appended), the events are written to a new log,
        and LogError says so.
        """
        digests = list(erase)
        try:
            return self._append(events, digests, is_wanted)
        except LogError as error:
            if not isinstance(error.__cause__, sqlite3.DatabaseError) or not _is_damage(error.__cause__):
                raise
            self._rename_damaged()
            self._append(events, digests, is_wanted)
            raise LogError(
                f"the log {self.path} was damaged: it is now {self.path.name}.damaged, and a new log begins"
            ) from error

    def _append(
        self, events: Sequence[Event], digests: Sequence[bytes], is_wanted: Callable[[], bool]
    ) -> Sequence[int]:
        if not events and not (digests and self.exists()):
            return []
        is_verdict = len(events) == 1 and not events[0].is_learning and not digests
        with self._explain_errors(), closing(self._open(create=bool(events))) as connection:
            # For a verdict, SQLite does not wait for the disk, which would delay each delivery by 20 ms. If
            # the process is killed, nothing is lost; a power failure may lose the last verdicts, or damage
            # the log.
            connection.execute(f"PRAGMA synchronous = {'OFF' if is_verdict else 'NORMAL'}")
            if digests:
                connection.execute("PRAGMA secure_delete = ON")
            with write_transaction(connection):
                for digest in digests:
                    connection.execute(_ERASE, (digest,))
                connection.executemany(_INSERT, map(_list_values, events))
                (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM event").fetchone()
                numbers = range(last - len(events) + 1, last + 1)  # AUTOINCREMENT gives consecutive numbers
                if events and numbers[0] // _TRIM != (last + 1) // _TRIM:
                    _trim(connection, last)
                if not is_wanted():
                    connection.execute("ROLLBACK")
                    numbers = range(0)
            if digests:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return numbers

    def clear(self) -> None:
        with self._explain_errors():
            if is_there(self._name) and not self._has_our_header():
                raise self._foreign_error()
            for ending in reversed(_ENDINGS):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self._name}{ending}")

    def _rename_damaged(self) -> None:
        """Append `.damaged` to the name of the log; an older file of that name is replaced."""
        with self._explain_errors():
            for ending in reversed(_ENDINGS):
                with suppress(FileNotFoundError):
                    os.replace(f"{self._name}{ending}", f"{self._name}.damaged{ending}")

    # Reading.

    def find(self, number: int) -> Event | None:
        """Return the event of a number, or None."""
        return next(self._select("WHERE number = ?", (number,)), None)

    def find_range(self, first: int, last: int) -> Iterator[Event]:
        """Yield the events of a range of numbers, newest first."""
        return self._select("WHERE number BETWEEN ? AND ? ORDER BY number DESC", (first, last))

    def find_history(self, digest: bytes) -> list[Event]:
        """Return the learning events of a message, oldest first."""
        return [
            event
            for event in self._select("WHERE digest = ? ORDER BY number", (digest,))
            if event.is_learning
        ]

    def events(self, since: int | None = None) -> Iterator[Event]:
        """Yield events, newest first; only those since a time, if it is given."""
        if since is None:
            return self._select("ORDER BY number DESC", ())
        return self._select("WHERE time >= ? ORDER BY number DESC", (since,))

    def find_learning(self, limit: int, before: int | None = None) -> list[Event]:
        """Return the newest learning events, at most `limit`, with numbers below `before`."""
        newest = (1 << 62) if before is None else before
        condition = "WHERE action <> 'verdict' AND number < ? ORDER BY number DESC LIMIT ?"
        return list(self._select(condition, (newest, limit)))

    def newest_number(self) -> int:
        """Return the number of the newest event; 0 if there is none."""
        if not self.exists():
            return 0
        with self._open_to_read() as connection:
            (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM event").fetchone()
        return int(number)

    def count_days(self) -> list[tuple[int, str, int]]:
        """Count the verdicts by day (days since 1970, UTC) and label, in the order of days."""
        if not self.exists():
            return []
        with self._open_to_read() as connection:
            return connection.execute(
                "SELECT CAST(time AS INTEGER) / 86400 AS day, CAST(label AS TEXT), count(*) FROM event "
                "WHERE action = 'verdict' GROUP BY 1, 2 ORDER BY 1, 2"
            ).fetchall()

    def find_headings(self, digests: Iterable[bytes]) -> dict[bytes, tuple[str, str]]:
        """Return the sender and the subject in the newest event of each message that has events."""
        headings: dict[bytes, tuple[str, str]] = {}
        if not self.exists():
            return headings
        remaining = list(digests)
        with self._open_to_read() as connection:
            for start in range(0, len(remaining), _PARAMETERS):
                part = remaining[start : start + _PARAMETERS]
                placeholders = ", ".join("?" * len(part))
                rows = connection.execute(
                    "SELECT digest, CAST(sender AS TEXT), CAST(subject AS TEXT) FROM event "
                    f"WHERE digest IN ({placeholders}) ORDER BY number",
                    part,
                )
                headings.update({digest: (sender, subject) for digest, sender, subject in rows})
        return headings

    def undo_numbers(self) -> dict[int, int]:
        """Return {number of an undone event: number of the newest event that has undone it}."""
        with self._open_to_read() as connection:
            rows = connection.execute(
                "SELECT undoes, max(number) FROM event WHERE undoes <> 0 GROUP BY undoes"
            ).fetchall()
        return dict(rows)

    def _select(self, condition: str, parameters: tuple[object, ...]) -> Iterator[Event]:
        with self._open_to_read() as connection:
            for row in connection.execute(f"{_SELECT} {condition}", parameters):
                yield self._make_event(row)

    @contextmanager
    def _open_to_read(self) -> Iterator[Connection]:
        with self._explain_errors():
            if not is_there(self._name):
                raise LogError(
                    f"there is no log at {self.path}: it begins with the next verdict (tamis sort) or with "
                    "the next learned message (tamis learn)"
                )
            with closing(self._open(create=False)) as connection:
                connection.execute("PRAGMA query_only = ON")
                yield connection

    def _make_event(self, row: tuple[Any, ...]) -> Event:
        """Make an event of a row; raise LogError for a value of a wrong type or an unknown action."""
        event = Event(*row)
        for column, value in zip((*_COLUMNS, "number"), row, strict=True):
            kind = _COLUMN_TYPES.get(column, str)
            if not isinstance(value, kind) or (column == "action" and value not in _ACTIONS):
                raise LogError(self._describe_damage(f"event {event.number!r:.20}, {column} {value!r:.40}"))
        return event

    # The file.

    def _open(self, *, create: bool) -> Connection:
        """Open the log. With `create`, it is created if it does not exist, and must be writable."""
        for ending in _ENDINGS:
            with suppress(FileNotFoundError):
                refuse_irregular(os.stat(f"{self._name}{ending}").st_mode, f"{self._name}{ending}")
        exists = is_there(self._name)
        if exists and os.stat(self._name).st_size and not self._has_our_header():
            raise self._foreign_error()
        if not exists:
            if not create:
                raise FileNotFoundError(0, "there is no such file", self._name)
            os.close(os.open(self._name, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600))
        can_write = os.access(self._name, os.W_OK) and os.access(os.path.dirname(self._name) or ".", os.W_OK)
        if create and not can_write:
            raise PermissionError(0, "it cannot be written", self._name)
        has_wal = is_there(f"{self._name}-wal")
        name = self._name
        if not can_write:
            name = f"{self.path.as_uri()}?mode=ro{'' if has_wal else '&immutable=1'}"
        connection = sqlite3.connect(
            name,
            uri=not can_write,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            factory=Connection,
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            self._check_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_schema(self, connection: Connection) -> None:
        """Create the tables of an empty file; raise LogError for other tables, or for triggers."""
        rows = connection.execute("SELECT name, substr(sql, 1, 9999) FROM sqlite_master LIMIT 99").fetchall()
        if not rows:
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute("PRAGMA journal_mode = WAL")
            with write_transaction(connection):
                rows = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
                if not rows:  # otherwise another process has created them meanwhile
                    for name, statement in _OBJECTS.items():
                        if name != "sqlite_sequence":
                            connection.execute(statement)
                    return
        if dict(rows) != _OBJECTS:
            raise LogError(self._describe_damage("it has other tables"))

    def _has_our_header(self) -> bool:
        """Whether this is an SQLite file whose application id, in bytes 68 to 71, is that of a log or 0."""
        with open_regular(self._name) as file:
            head = file.read(72)
        return head.startswith(_SQLITE) and int.from_bytes(head[68:72], "big") in (0, APPLICATION)

    def _foreign_error(self) -> LogError:
        return LogError(
            f"{self.path} is not a log of tamis, and the log would be written there: move it away"
        )

    def _describe_damage(self, fault: str) -> str:
        return f"the log {self.path} is damaged ({fault}): tamis log --clear deletes it; the store is sound"

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Raise LogError, with advice, for an error of SQLite or of the operating system."""
        try:
            with reraise_interrupts():
                yield
        except sqlite3.DatabaseError as error:
            text = " ".join(str(error).split())
            if _is_damage(error):
                raise LogError(self._describe_damage(text)) from error
            hint = next((hint for phrase, hint in _HINTS.items() if phrase in text), text)
            raise LogError(f"the log {self.path}: {hint}") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise LogError(f"the log {self.path} cannot be used ({reason}): check its permissions") from error


# The types of the values of columns other than text.
_COLUMN_TYPES: dict[str, type | tuple[type, ...]] = {
    "time": int,
    "digest": bytes,
    "probability": (float, type(None)),
    "weight": int,
    "old_weight": int,
    "old_rest": int,
    "old_time": int,
    "undoes": int,
    "number": int,
}
# A phrase of an error message of SQLite → what LogError says instead.
_HINTS = {
    "disk is full": "the disk is full: free some space",
    "readonly": "it cannot be written: check its permissions and its folder's",
    "locked": f"waited {_BUSY_SECONDS:.0f} second for another process that is writing",
    "unable to open": "it cannot be opened: check its permissions and its folder's",
    "disk I/O": "the disk cannot be read or written: check it and its free space",
}


def _is_damage(error: BaseException) -> bool:
    return any(phrase in str(error) for phrase in ("malformed", "not a database"))


def _list_values(event: Event) -> tuple[object, ...]:
    """Return the values of `_COLUMNS`, as text that SQLite can store."""
    values: tuple[object, ...] = _read_columns(event)
    if event.source.isascii() and event.old_source.isascii():
        return values
    return tuple(  # file names may be any bytes
        value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for value in values
    )


@contextmanager
def write_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction, which the block may roll back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        if connection.in_transaction:
            connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _trim(connection: Connection, newest: int) -> None:
    """Delete the events that are too old; `newest` is the number of the newest event."""
    connection.execute("DELETE FROM event WHERE number <= ? AND action = 'verdict'", (newest - VERDICTS,))
    connection.execute(
        "DELETE FROM event WHERE action <> 'verdict' AND number <= "
        "(SELECT number FROM event WHERE action <> 'verdict' ORDER BY number DESC LIMIT 1 OFFSET ?)",
        (LEARNINGS,),
    )
