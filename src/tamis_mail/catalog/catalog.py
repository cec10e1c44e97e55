"""The catalog of messages for the web page, in one SQLite file beside the store.

It lists the messages of folders, of imports and of the log: location, sender, subject and last verdict.

Lists are read by keyset paging: a page begins after the last row of the page before it. Where an index has
the order of the list, the thousandth page takes as long as the first. Words of senders and subjects are found
by an index of trigrams. The catalog can be deleted at any time: the messages of the log are added again from
the log, and other messages when their folder is added again.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tamis_mail.files import is_there, refuse_irregular
from tamis_mail.locations import find_local_path
from tamis_mail.store.log import FORGOTTEN, VERDICT, Event, EventLog, LogError, write_transaction

APPLICATION = 0x74616D63  # "tamc": identifies a catalog
VERSION = 1
_BUSY_SECONDS = 30.0  # how long to wait for another process that writes
_EVENT_BATCH = 5000  # events of the log that are read at a time
_MIN_INDEXED_LENGTH = 3  # characters of a word; shorter words are not found by the index of trigrams
_MAX_WORDS = 8  # of a search; further words are ignored
_MAX_WORD_LENGTH = 100  # characters; of a longer word, only the beginning is searched for
# A condition that at most _MAX_SORTED messages meet is rare: SQLite finds and sorts all of them. If more meet
# it, SQLite reads rows in the order of the list, and soon finds enough for a page.
_MAX_SORTED = 2000
_MAX_PAGE = 500  # rows of a page
_UNJUDGED = 3.0  # the doubt of a message without a verdict: larger than all others, so that it is listed last
_MAX_INTEGER = (1 << 62) - 1  # limit of the integers of a cursor, which SQLite holds in 64 bits
_TEMPORARY_ERRORS = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
)
# The `length` of a message in a compressed mbox, where it is found by its index, not by offsets: `Location`.
IN_PACKED_FILE = -1

# `search` is the index of trigrams. In `message`: `start` and `length` are those of `Location`, `heading` is
# the sender and the subject after `casefold`, `age` is minus the date, `doubt` is the sort key of
# `_compute_doubt_key` (the key of a doubtful verdict is small, so that it is listed first), and `judged` is
# the number of an event of the log: if something was learned after it, the verdict is stale. In `source`:
# `added` is a time in seconds since 1970. In `file`: `changed` is the time of the last change of its content,
# in nanoseconds. In `state`: `event` is the number of the last event of the log that was applied, `learned`
# that of the last one that taught something, and `indexed` the last id that `search` includes.
_SCHEMA = """
CREATE TABLE source (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, name TEXT NOT NULL, is_import INTEGER NOT NULL,
    added INTEGER NOT NULL
);
CREATE TABLE file (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL, path BLOB NOT NULL UNIQUE, size INTEGER NOT NULL,
    changed INTEGER NOT NULL
);
CREATE INDEX file_source ON file (source);
CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, file INTEGER, start INTEGER NOT NULL,
    length INTEGER NOT NULL, sender TEXT NOT NULL, subject TEXT NOT NULL, heading TEXT NOT NULL,
    age INTEGER NOT NULL, size INTEGER NOT NULL, verdict TEXT NOT NULL, probability REAL,
    doubt REAL NOT NULL, judged INTEGER NOT NULL, label TEXT NOT NULL
);
CREATE INDEX message_age ON message (age, id);
CREATE INDEX message_doubt ON message (doubt, age, id);
CREATE INDEX message_verdict_age ON message (verdict, age, id);
CREATE INDEX message_verdict_doubt ON message (verdict, doubt, age, id);
CREATE INDEX message_label_age ON message (label, age, id);
CREATE INDEX message_label_doubt ON message (label, doubt, age, id);
CREATE INDEX message_file ON message (file);
CREATE VIRTUAL TABLE search USING fts5 (
    heading, content = 'message', content_rowid = 'id', tokenize = 'trigram'
);
CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
# The columns that `_make_row` takes.
_COLUMNS = (
    "message.id, digest, sender, subject, age, message.size, verdict, probability, doubt, judged, label, file"
)
# `Query.order` → the columns by which a list is sorted.
_ORDERS = {"newest": "age, message.id", "doubt": "doubt, age, message.id"}


class CatalogError(Exception):
    """The catalog cannot be used. The message is one line for the user."""


@dataclass(frozen=True, slots=True)
class CatalogSource:
    """A folder that the page reads again and again ("watched"), or a mailbox that was imported into it."""

    number: int
    path: str
    name: str  # shown to the user: the path as it was given, or the name of the imported file
    is_import: bool
    messages: int  # the number of its messages


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a message: its file, and its part of the file.

    A file of one message has 0 as start and length. In an mbox, `start` is the offset of the message's
    postmark (0 for the first message), and `length` the number of bytes up to the next postmark or the end of
    the file. In a compressed mbox, `start` is the index of the message, from 0, and `length` is
    IN_PACKED_FILE.
    """

    path: str
    start: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A message in a list."""

    number: int
    digest: bytes
    sender: str
    subject: str
    date: int  # seconds since 1970
    size: int  # bytes; 0 if it is known from the log only
    verdict: str  # empty before the first verdict
    probability: float | None
    doubt: float  # the smaller, the less certain is the verdict (`_compute_doubt_key`)
    is_stale: bool  # it has a file, but no verdict, or something was learned after the verdict
    label: str  # with which the message was learned; empty if it was not
    has_file: bool


@dataclass(frozen=True, slots=True)
class Query:
    """Which messages are listed, and in which order; a field that is empty or 0 excludes no message."""

    text: str = ""  # words, each of which the sender or the subject must contain
    verdict: str = ""  # "none" for messages without a verdict; "" for all
    label: str = ""  # "none" for messages that were not learned; "" for all
    source: int = 0  # the number of a source; 0 for all
    order: str = "doubt"  # "doubt" for unsure messages first, or "newest"

    def __post_init__(self) -> None:
        if self.order not in _ORDERS:
            raise ValueError(f"order is {self.order!r}, expected one of {', '.join(_ORDERS)}")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The sort keys of a row: a page of a list begins after this row, or ends before it."""

    doubt: float
    age: int  # minus the date
    number: int

    @classmethod
    def of(cls, row: Row) -> Cursor:
        return cls(row.doubt, -row.date, row.number)

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read a cursor that `str` wrote; raise ValueError if it is not valid.

        >>> str(Cursor.parse("0.25,-1700000000,7"))
        '0.25,-1700000000,7'
        """
        try:
            doubt, age, number = text.split(",")
            cursor = cls(float(doubt), int(age), int(number))
        except ValueError:
            cursor = cls(float("nan"), 0, 0)  # which is refused below
        if not (
            0 <= cursor.doubt < 1 + _UNJUDGED
            and abs(cursor.age) < _MAX_INTEGER
            and 0 < cursor.number < _MAX_INTEGER
        ):
            raise ValueError(f"the cursor is {text[:40]!r}, expected one that a list has given")
        return cursor

    def __str__(self) -> str:
        return f"{self.doubt!r},{self.age},{self.number}"


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list, and whether there are pages before and after it.

    Of a page after a cursor's row, `has_previous` is true, and of a page before it, `has_next`, even if that
    row was removed meanwhile.
    """

    rows: list[Row]
    has_previous: bool
    has_next: bool


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that was found in a file, or in the log."""

    digest: bytes
    sender: str
    subject: str
    date: int  # seconds since 1970
    size: int = 0  # bytes
    file: int | None = None  # the number of its file; None if it is known from the log only
    start: int = 0  # as of `Location`, like `length`
    length: int = 0
    label: str = ""


class Catalog:
    """The catalog of a store; each thread opens its own."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        with self._explain_errors():
            if is_there(self.path):
                refuse_irregular(os.stat(self.path).st_mode, self.path)  # noqa: PTH116 (no pathlib here)
            else:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600))
            self._connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            self._set_up()

    @classmethod
    def of(cls, store_path: str | os.PathLike[str]) -> Catalog:
        """Open the catalog of the store at a path: the file with `.catalog` added to its name."""
        return cls(f"{find_local_path(store_path)}.catalog")

    def close(self) -> None:
        self._connection.close()

    def _set_up(self) -> None:
        """Set the options of the connection, and create the tables of a new file."""
        connection = self._connection
        # Views and triggers of a file that somebody else made cannot call functions with side effects.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = NORMAL")  # commits do not wait for the disk
        # In KiB, as the minus says. With 16,000, pages of the list were read no faster, and memory grew with
        # each page.
        connection.execute("PRAGMA cache_size = -2000")
        connection.execute("PRAGMA journal_mode = WAL")
        with self._transaction():
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if (application, version) == (0, 0) and not connection.execute(
                "SELECT 1 FROM sqlite_master"
            ).fetchone():
                for statement in _split_script(_SCHEMA):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            elif (application, version) != (APPLICATION, VERSION):
                raise CatalogError(
                    f"{self.path} is not a catalog of this version: move it away, and a new one is made"
                )

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Raise CatalogError, with advice, for an error of SQLite or of the operating system."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            # The lowest byte of an extended error code of SQLite is the primary code.
            is_damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF not in _TEMPORARY_ERRORS
            advice = "delete it, and a new one is made" if is_damaged else "check its disk, and try again"
            raise CatalogError(f"the catalog {self.path} cannot be used ({error}): {advice}") from error
        except OSError as error:
            raise CatalogError(
                f"the catalog {self.path} cannot be used ({error.strerror or error}): check its permissions"
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explain_errors(), write_transaction(self._connection):
            yield

    def _query(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        with self._explain_errors():
            return self._connection.execute(statement, parameters).fetchall()

    # Sources and files.

    def add_source(self, path: str, *, name: str = "", is_import: bool = False) -> int:
        """Add a folder or a mailbox to the sources, unless it is one of them; return its number."""
        with self._transaction():
            self._connection.execute(
                "INSERT OR IGNORE INTO source (path, name, is_import, added) VALUES (?, ?, ?, ?)",
                (os.fsencode(path), _make_encodable(name or path), int(is_import), int(time.time())),
            )
            row = self._connection.execute("SELECT id FROM source WHERE path = ?", (os.fsencode(path),))
            return int(row.fetchone()[0])

    def remove_source(self, number: int) -> None:
        """Remove a folder or a mailbox, and its messages, from the catalog; the mail itself stays."""
        with self._transaction():
            self._delete("file IN (SELECT id FROM file WHERE source = ?)", number)
            self._connection.execute("DELETE FROM file WHERE source = ?", (number,))
            self._connection.execute("DELETE FROM source WHERE id = ?", (number,))

    def sources(self) -> list[CatalogSource]:
        """Return all sources, each with the number of messages that it has."""
        rows = self._query(
            "SELECT source.id, source.path, name, is_import, count(message.id) FROM source "
            "LEFT JOIN file ON file.source = source.id LEFT JOIN message ON message.file = file.id "
            "GROUP BY source.id ORDER BY source.id"
        )
        return [
            CatalogSource(number, os.fsdecode(path), name, bool(is_import), messages)
            for number, path, name, is_import, messages in rows
        ]

    def list_files(self, source: int) -> list[tuple[int, str]]:
        """Return the numbers and paths of the files of a source."""
        rows = self._query("SELECT id, path FROM file WHERE source = ?", (source,))
        return [(number, os.fsdecode(path)) for number, path in rows]

    def remove_files(self, numbers: Iterable[int]) -> None:
        """Remove files, and their messages; a learned message stays in the list, without a file."""
        with self._transaction():
            for number in numbers:
                self._delete("file = ? AND label = ''", number)
                self._connection.execute("UPDATE message SET file = NULL WHERE file = ?", (number,))
                self._connection.execute("DELETE FROM file WHERE id = ?", (number,))

    def find_file(self, path: str) -> tuple[int, int] | None:
        """Return the size and the time of change (nanoseconds) that `note_file` was given last, or None."""
        rows = self._query("SELECT size, changed FROM file WHERE path = ?", (os.fsencode(path),))
        return rows[0] if rows else None

    def note_file(self, source: int, path: str, size: int, changed: int) -> int:
        """Note that a file was read when it had this size and time of change (nanoseconds).

        Return its number.
        """
        with self._transaction():
            (number,) = self._connection.execute(
                "INSERT INTO file (source, path, size, changed) VALUES (?, ?, ?, ?) ON CONFLICT (path) "
                "DO UPDATE SET source = excluded.source, size = excluded.size, changed = excluded.changed "
                "RETURNING id",
                (source, os.fsencode(path), size, changed),
            ).fetchone()
        return int(number)

    # Messages.

    def add_messages(self, messages: Iterable[NewMessage]) -> None:
        """Add messages; one that is listed already gets the new location, date and size."""
        with self._transaction():
            self._connection.executemany(_INSERT, map(_make_values, messages))
            self._index_new_rows()

    def note_verdicts(self, verdicts: Iterable[tuple[bytes, str, float]]) -> None:
        """Write verdicts: for each message its digest, the label and the probability of spam."""
        with self._transaction():
            learned = self._read_state("learned")  # what is learned after this event makes the verdicts stale
            self._connection.executemany(
                _UPDATE_VERDICT,
                (
                    (label, probability, _compute_doubt_key(label, probability), learned, digest)
                    for digest, label, probability in verdicts
                ),
            )

    def note_labels(self, labels: Iterable[tuple[bytes, str]]) -> None:
        """Write the digests and labels of learned messages; the label of a forgotten message is empty."""
        with self._transaction():
            self._connection.executemany(
                "UPDATE message SET label = ? WHERE digest = ?", ((label, digest) for digest, label in labels)
            )

    def _index_new_rows(self) -> None:
        """Add to the index of trigrams the messages that it does not have yet.

        SQLite's table `sqlite_sequence` has the last id that it gave to a row of each table.
        """
        self._connection.execute(
            "INSERT INTO search (rowid, heading) SELECT id, heading FROM message WHERE id > ?",
            (self._read_state("indexed"),),
        )
        self._connection.execute(
            "INSERT OR REPLACE INTO state SELECT 'indexed', seq FROM sqlite_sequence WHERE name = 'message'"
        )

    def _delete(self, condition: str, parameter: object) -> None:
        """Delete messages that meet a condition, and before that, by a command of FTS5, their index entries.

        The command is a row whose column `search` is 'delete', with the id and the text that was indexed.
        """
        self._connection.execute(
            "INSERT INTO search (search, rowid, heading) SELECT 'delete', id, heading FROM message "
            f"WHERE {condition}",
            (parameter,),
        )
        self._connection.execute(f"DELETE FROM message WHERE {condition}", (parameter,))

    def find(self, digest: bytes) -> Row | None:
        """Return the row of a message, or None if it is not in the catalog."""
        rows = self._query(f"SELECT {_COLUMNS} FROM message WHERE digest = ?", (digest,))
        return self._make_row(rows[0], self._read_state("learned")) if rows else None

    def locate(self, digest: bytes) -> Location | None:
        """Return the location of a message, or None if the catalog names no file for it."""
        statement = "SELECT path, start, length FROM message JOIN file ON file.id = file WHERE digest = ?"
        rows = self._query(statement, (digest,))
        return Location(os.fsdecode(rows[0][0]), *rows[0][1:]) if rows else None

    def list_page(
        self, query: Query, *, after: Cursor | None = None, before: Cursor | None = None, limit: int = 50
    ) -> Listing:
        """Return a page of a list: the first one, or the one after or before the row of a cursor.

        It has at most `limit` rows, from 1 to _MAX_PAGE. If both cursors are given, `before` is used.
        """
        limit = max(1, min(limit, _MAX_PAGE))
        conditions, parameters = self._make_conditions(query)
        order = _ORDERS[query.order]
        cursor = before or after
        if cursor is not None:
            sign = "<" if before is not None else ">"
            # A list by date is not sorted by doubt, the first of these.
            sort_keys = (cursor.doubt, cursor.age, cursor.number)[-len(order.split(",")) :]
            conditions.append(f"({order}) {sign} ({', '.join('?' * len(sort_keys))})")
            parameters += sort_keys
        if before is not None:
            order = ", ".join(f"{column} DESC" for column in order.split(", "))
        if any(len(word) < _MIN_INDEXED_LENGTH for word in query.text.split()):
            # A short word is found by scanning the table. To scan and then sort takes a fifth of the time of
            # reading rows in the order of an index. `+` before the columns makes SQLite scan and sort.
            order = ", ".join(f"+{column}" for column in order.split(", "))
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        statement = f"SELECT {_COLUMNS} FROM message {where} ORDER BY {order} LIMIT {limit + 1}"
        values = self._query(statement, parameters)
        learned = self._read_state("learned")
        rows = [self._make_row(row_values, learned) for row_values in values[:limit]]
        has_more = len(values) > limit
        if before is not None:
            return Listing(rows[::-1], has_more, True)
        return Listing(rows, after is not None, has_more)

    def _make_conditions(self, query: Query) -> tuple[list[str], list[object]]:
        """Return the SQL conditions of a query, and their parameters."""
        conditions: list[str] = []
        parameters: list[object] = []
        label_is_rare = bool(query.label and query.verdict) and self._is_rare(
            "label = ?", _make_stored_label(query.label)
        )
        # SQLite uses one index per query. `+` before a condition keeps it from using that condition's index.
        # Of verdict and label, the index of the label is used only if the label is rare.
        if query.verdict:
            conditions.append("+verdict = ?" if label_is_rare else "verdict = ?")
            parameters.append(_make_stored_label(query.verdict))
        if query.label:
            conditions.append("+label = ?" if query.verdict and not label_is_rare else "label = ?")
            parameters.append(_make_stored_label(query.label))
        if query.source:
            condition = "file IN (SELECT id FROM file WHERE source = ?)"
            conditions.append(condition if self._is_rare(condition, query.source) else f"+{condition}")
            parameters.append(query.source)
        words = query.text.casefold().split()[:_MAX_WORDS]
        words = [_make_encodable(word)[:_MAX_WORD_LENGTH] for word in words]
        long_words = [word for word in words if len(word) >= _MIN_INDEXED_LENGTH]
        numbers = self._search(long_words) if long_words else []
        if long_words and len(numbers) <= _MAX_SORTED:
            conditions.append(f"message.id IN ({', '.join(map(str, numbers))})")
            words = [word for word in words if word not in long_words]
        # The other words are looked for in each heading that is read.
        conditions += ["instr(heading, ?)"] * len(words)
        parameters += words
        return conditions, parameters

    def _is_rare(self, condition: str, parameter: object) -> bool:
        """Whether at most _MAX_SORTED messages meet a condition."""
        statement = f"SELECT count(*) FROM (SELECT 1 FROM message WHERE {condition} LIMIT {_MAX_SORTED + 1})"
        ((count,),) = self._query(statement, (parameter,))
        return bool(count <= _MAX_SORTED)

    def _search(self, words: Sequence[str]) -> Sequence[int]:
        """Return the numbers of messages whose heading has all words, at most _MAX_SORTED + 1 of them."""
        quoted = " ".join('"' + word.replace('"', '""') + '"' for word in words)
        rows = self._query(
            f"SELECT rowid FROM search WHERE search MATCH ? LIMIT {_MAX_SORTED + 1}", (quoted,)
        )
        return [number for (number,) in rows]

    def count_verdicts(self) -> dict[str, int]:
        """Return the number of messages by verdict; the empty verdict stands for messages without one."""
        return dict(self._query("SELECT verdict, count(*) FROM message GROUP BY verdict"))

    def count_days(self) -> list[tuple[int, str, int]]:
        """Count the judged messages by the day of their date (days since 1970, UTC) and by verdict."""
        return self._query(
            "SELECT -age / 86400, verdict, count(*) FROM message WHERE verdict <> '' GROUP BY 1, 2"
        )

    def digests_with_file(self, after: int = 0, limit: int = 200) -> list[tuple[int, bytes]]:
        """Return number and digest of the first `limit` messages with a file and a number above `after`."""
        return self._query(
            "SELECT id, digest FROM message WHERE file IS NOT NULL AND id > ? ORDER BY id LIMIT ?",
            (after, limit),
        )

    def count_with_file(self) -> int:
        ((count,),) = self._query("SELECT count(*) FROM message WHERE file IS NOT NULL")
        return int(count)

    def _make_row(self, values: tuple[Any, ...], learned: int) -> Row:
        """Make a row of _COLUMNS; `learned` is the number of the last event that taught something."""
        number, digest, sender, subject, age, size, verdict, probability, doubt, judged, label, file = values
        has_file = file is not None
        is_stale = has_file and (not verdict or judged < learned)
        return Row(
            number,
            digest,
            sender,
            subject,
            -age,  # the date
            size,
            verdict,
            probability,
            doubt,
            is_stale,
            label,
            has_file,
        )

    # The log.

    def follow(self, log: EventLog) -> None:
        """Apply the new events of the log: verdicts, and labels of learned and forgotten messages."""
        try:
            newest = next(log.events(), None)
            last = newest.number if newest is not None else 0
            if self._read_state("event") > last:  # the log was cleared, and began again
                with self._transaction():
                    self._write_state("event", 0)
                    self._write_state("learned", 0)
                    self._connection.execute("UPDATE message SET judged = 0")
            first = self._read_state("event") + 1
            while first <= last:
                end = min(last, first + _EVENT_BATCH - 1)
                oldest_first = [*log.find_range(first, end)][::-1]
                self._apply_events(oldest_first, end)
                first = end + 1
        except LogError:
            return  # there is no log, or it is damaged: the events that were applied before stay applied

    def _apply_events(self, events: Sequence[Event], last: int) -> None:
        """Apply events, oldest first, and note that all events up to the number `last` are applied."""
        with self._transaction():
            connection = self._connection
            applied = self._read_state("event")  # another thread may have applied some meanwhile
            events = [event for event in events if event.number > applied]
            message_events = [event for event in events if event.digest]  # those whose digest is not erased
            connection.executemany(
                _INSERT_FROM_LOG,
                (
                    _make_values(NewMessage(event.digest, event.sender, event.subject, event.time))
                    for event in message_events
                    if event.action != FORGOTTEN
                ),
            )
            self._index_new_rows()
            learned = max((event.number for event in events if event.is_learning), default=0)
            for event in message_events:
                if event.action != VERDICT:
                    connection.execute(
                        "UPDATE message SET label = ? WHERE digest = ?", (event.label, event.digest)
                    )
                elif event.probability is not None:
                    doubt = _compute_doubt_key(event.label, event.probability)
                    connection.execute(
                        _UPDATE_VERDICT,
                        (event.label, event.probability, doubt, event.number, event.digest),
                    )
                if event.action == FORGOTTEN:
                    self._delete("digest = ? AND file IS NULL", event.digest)
            self._write_state("event", max(last, applied))
            if learned:
                self._write_state("learned", learned)

    def _read_state(self, name: str) -> int:
        rows = self._query("SELECT value FROM state WHERE name = ?", (name,))
        return int(rows[0][0]) if rows else 0

    def _write_state(self, name: str, value: int) -> None:
        self._connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))


_INSERTED = "digest, sender, subject, heading, age, size, file, start, length, label, verdict, doubt, judged"
_INSERT_ROW = f"INSERT INTO message ({_INSERTED}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', {_UNJUDGED}, 0)"
_INSERT = (
    f"{_INSERT_ROW} ON CONFLICT (digest) DO UPDATE SET file = excluded.file, start = excluded.start, "
    "length = excluded.length, age = excluded.age, size = excluded.size"
)
_UPDATE_VERDICT = "UPDATE message SET verdict = ?, probability = ?, doubt = ?, judged = ? WHERE digest = ?"
_INSERT_FROM_LOG = f"{_INSERT_ROW} ON CONFLICT (digest) DO NOTHING"


def _make_values(message: NewMessage) -> tuple[object, ...]:
    """Return the parameters of _INSERT_ROW for a message."""
    sender, subject = _make_encodable(message.sender), _make_encodable(message.subject)
    # The sender may have chosen any date: it is limited to the time from 1970 to a day after now.
    date = max(0, min(message.date, int(time.time()) + 86_400))
    return (
        message.digest,
        sender,
        subject,
        f"{sender}\n{subject}".casefold(),
        -date,
        message.size,
        message.file,
        message.start,
        message.length,
        message.label,
    )


def _make_stored_label(label: str) -> str:
    """Return the label or verdict as the table has it: "" for "none"."""
    return "" if label == "none" else label


def _compute_doubt_key(label: str, probability: float) -> float:
    """Return the key by which the list is sorted: first the unsure messages, then the others.

    Among each, the key increases with the distance of the probability from 1/2.

    >>> _compute_doubt_key("unsure", 0.5), _compute_doubt_key("ham", 0.0)
    (0.0, 1.5)
    """
    return abs(probability - 0.5) + (0.0 if label == "unsure" else 1.0)


def _make_encodable(text: str) -> str:
    """Replace lone surrogates, which SQLite refuses, and zero bytes, at which it would truncate the text."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _split_script(script: str) -> Iterator[str]:
    """Yield the statements of an SQL script."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
