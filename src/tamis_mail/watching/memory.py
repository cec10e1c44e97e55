"""The state of a watcher between two passes and two runs, in one SQLite file beside the store.

The file is the memory of the watcher. A place is a message in a folder: its uid, its identity (its digest as
`tamis_mail.message` computes it), the keywords that it had, and its state. Each move, keyword and lesson is
recorded before it is performed, so that after a crash it is completed, and not mistaken for an act of the
mailbox's owner. These are the states, with the words for them in the file:

    UNIDENTIFIED  "unread"     its identity is not known yet
    AMBIGUOUS     "unsettled"  found outside Junk while a copy is still in Junk: either a move in progress or
                               a second delivery, which is decided later (the folder for unsure mail counts
                               as Junk here)
    TO_SORT       "unsorted"   new mail, to be judged
    TO_LEARN      "untaught"   the owner gave it `label`; the filter still has to learn it
    MOVING        "moving"     the verdict is `label`, and it is being moved to `target`
    MOVED         "moved"      it was moved to `target`, where its uid is not known yet
    DONE          "seen"       nothing is to be done
    FAILED        "failed"     it cannot be handled; `reason` says why

If the file is missing or damaged, a new one is made. Nothing is learned from messages that are found in the
first pass after that (the baseline). A place whose message has left the folder is gone. Because a message
that is moved may reappear late, a place is deleted only 30 days later, or when too many are gone.
"""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tamis_mail.files import is_there, open_regular
from tamis_mail.locations import find_local_path, is_address
from tamis_mail.store.log import write_transaction
from tamis_mail.watching.roles import Role

UNIDENTIFIED, AMBIGUOUS, TO_SORT, TO_LEARN, MOVING, MOVED, DONE, FAILED = (
    "unread",
    "unsettled",
    "unsorted",
    "untaught",
    "moving",
    "moved",
    "seen",
    "failed",
)

MAX_ATTEMPTS = 5  # after so many failures, a message is not tried again
_FIRST_RETRY_SECONDS = 60  # time from the first failure to the second attempt
_RETRY_FACTOR = 8  # each wait is so many times the one before: the last attempt is ten hours after the first
# A place is kept for so long after its message has gone: a mail program that was offline for weeks may
# complete a move late.
_GONE_SECONDS = 30 * 86400
_MAX_GONE = 200_000  # if more places are gone (they take about 30 MB), the oldest are deleted earlier
# If a message that the filter moved is not found in its target within this time, the filter's move has ended;
# if the message is found later, the owner counts as having moved it there.
_MOVING_SECONDS = 3600
_BUSY_SECONDS = 10.0  # how long to wait for another process that writes
_APPLICATION = 0x74616D77  # "tamw": SQLite's application_id, by which the file is known as a memory
_VERSION = 1
_SQLITE_MAGIC = b"SQLite format 3\0"  # the first bytes of a file of SQLite

# The statements are separated at semicolons, so the comments have none.
_SCHEMA = """
CREATE TABLE account (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    is_baseline INTEGER NOT NULL       -- 1 until the first pass has ended
);
CREATE TABLE folder (
    id INTEGER PRIMARY KEY,
    account INTEGER NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,                -- a value of Role
    validity TEXT NOT NULL,            -- UIDVALIDITY, which changes when all uids do (empty for a Maildir)
    is_baseline INTEGER NOT NULL,      -- 1 while the messages of a baseline are noted
    is_gone INTEGER NOT NULL,
    UNIQUE (account, name)
);
CREATE TABLE place (
    id INTEGER PRIMARY KEY,
    folder INTEGER NOT NULL,
    validity TEXT NOT NULL,            -- of the folder when the message was noted
    uid TEXT NOT NULL,
    identity BLOB,                     -- NULL if the message was not read
    keywords TEXT NOT NULL,            -- JSON
    state TEXT NOT NULL,
    label TEXT NOT NULL,
    target TEXT NOT NULL,
    copy TEXT NOT NULL,                -- uid of the copy that an interrupted move left in the target
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    retry INTEGER NOT NULL,            -- time (seconds since 1970) from which the next attempt is due
    gone INTEGER,                      -- time when the message was missing in the folder, or NULL
    UNIQUE (folder, validity, uid)
);
CREATE INDEX place_identity ON place (identity);
CREATE INDEX place_task ON place (folder) WHERE state NOT IN ('seen', 'failed') AND gone IS NULL;
CREATE INDEX place_gone ON place (gone) WHERE gone IS NOT NULL;
"""


class MemoryUnusableError(Exception):
    """The memory cannot be used now. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Place:
    """A message in a folder, as it was when the folder was last listed."""

    id: int
    folder: str  # its name
    role: Role  # of the folder
    uid: str
    identity: bytes | None  # None if the message was not read
    keywords: frozenset[str]
    state: str  # one of the constants above
    label: str = ""  # of the lesson, the verdict or the move; empty if there is none
    target: str = ""  # the name of the folder to which it is or was moved
    copy_uid: str = ""  # uid of the copy that an interrupted move left in the target
    attempts: int = 0
    retry_time: int = 0  # seconds since 1970, from which the next attempt is due
    is_gone: bool = False


# In the order of the fields of Place.
_COLUMNS = (
    "place.id, folder.name, role, uid, identity, keywords, state, label, target, copy, attempts, retry, gone"
)
_ROLES = {role.value: role for role in Role}
_SELECT_PLACES = f"SELECT {_COLUMNS} FROM place JOIN folder ON folder.id = place.folder"


class Memory:
    """The memory of one account. Each method writes in one transaction; `batch` joins several into one."""

    def __init__(
        self,
        path: Path | None,
        account: str,
        *,
        clock: Callable[[], float] = time.time,
        is_copy: bool = False,
    ) -> None:
        """Open the memory at a path.

        If the path is None, the memory is an empty database in RAM; with `is_copy`, it is a copy of the file
        in RAM. Neither is saved.
        """
        self._clock = clock
        self._lock = -1  # descriptor of the locked file; -1 if there is none
        self.renewal_reason = ""  # why an earlier file could not be used; empty if it could
        try:
            self._connection = self._open(path, is_copy=is_copy)
            with self.batch():
                self._execute("INSERT OR IGNORE INTO account (name, is_baseline) VALUES (?, 1)", (account,))
            ((self._account,),) = self._execute("SELECT id FROM account WHERE name = ?", (account,))
            if path is not None and not is_copy:
                self._lock = _lock_account(path, self._account)
        except (sqlite3.Error, OSError) as error:
            raise MemoryUnusableError(f"the memory {path} cannot be used: {error}") from None

    @classmethod
    def path_of(cls, store: Path) -> Path:
        """Return the path of the memory of a store; create the folder of the replica of one on a server."""
        if is_address(store):  # a store on a server: its memory is beside its replica
            store = Path(find_local_path(store))
            store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return store.with_name(f"{store.name}.watch")

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self, path: Path | None, *, is_copy: bool) -> sqlite3.Connection:
        """Open the memory; if the file is damaged, or no memory, note that and open a new one."""
        if path is None or (is_copy and not is_there(path)):
            return _open_or_create(":memory:")
        try:
            if is_copy:
                with closing(_connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as original:
                    _check(original)
                    connection = _connect(":memory:")
                    original.backup(connection)
                    return connection
            if is_there(path):
                with open_regular(path) as file:
                    head = file.read(16)
                if head not in (b"", _SQLITE_MAGIC):
                    raise ValueError("it is not an SQLite file")
            return _open_or_create(os.fspath(path))
        except (sqlite3.DatabaseError, ValueError) as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, full, not permitted: not damaged
                raise
            self.renewal_reason = str(error)
        if is_copy:
            return _open_or_create(":memory:")
        _rename_damaged(path)
        return _open_or_create(os.fspath(path))

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make one transaction of several calls."""
        if self._connection.in_transaction:
            yield
            return
        try:
            with write_transaction(self._connection):
                yield
        except sqlite3.Error as error:
            raise MemoryUnusableError(f"the memory cannot be written: {error}") from None

    def _execute(self, statement: str, values: Iterable[Any] = ()) -> list[Any]:
        try:
            return self._connection.execute(statement, tuple(values)).fetchall()
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                raise
            raise MemoryUnusableError(f"the memory cannot be used: {error}") from None

    def _write(self, statement: str, values: Iterable[Any]) -> None:
        """Run a statement in the open transaction, or in one of its own."""
        with self.batch():
            self._execute(statement, values)

    # The account and its folders.

    @property
    def is_baseline(self) -> bool:
        """Whether the first pass of the account has not ended yet."""
        ((is_baseline,),) = self._execute("SELECT is_baseline FROM account WHERE id = ?", (self._account,))
        return bool(is_baseline)

    def end_baseline(self) -> None:
        """Note that the first pass of the account has ended."""
        self._write("UPDATE account SET is_baseline = 0 WHERE id = ?", (self._account,))

    def begin_folder(self, name: str, role: str, validity: str) -> bool:
        """Note a folder before its messages are compared with their places.

        Return whether its messages are a baseline. They are one, until `end_folder` is called, in the first
        pass over the account, after `validity` has changed, and if the folder was gone. The messages of a
        folder that appears after the first pass are not: the owner's first move to Junk may have created it.
        """
        with self.batch():
            rows = self._execute(
                "SELECT id, validity, is_baseline, is_gone FROM folder WHERE account = ? AND name = ?",
                (self._account, name),
            )
            if not rows:
                is_baseline = self.is_baseline
                self._execute(
                    "INSERT INTO folder (account, name, role, validity, is_baseline, is_gone) "
                    "VALUES (?, ?, ?, ?, ?, 0)",
                    (self._account, name, role, validity, is_baseline),
                )
                return is_baseline
            ((folder, known_validity, is_baseline, is_gone),) = rows
            is_baseline = bool(is_baseline or is_gone or known_validity != validity)
            if known_validity != validity:
                self._mark_gone("folder = ? AND validity <> ?", (folder, validity))
            self._execute(
                "UPDATE folder SET role = ?, validity = ?, is_baseline = ?, is_gone = 0 WHERE id = ?",
                (role, validity, is_baseline, folder),
            )
            return is_baseline

    def end_folder(self, name: str) -> None:
        """Note that all messages of a folder were compared with their places."""
        self._write("UPDATE folder SET is_baseline = 0 WHERE account = ? AND name = ?", (self._account, name))

    def mark_folders_gone_except(self, names: Iterable[str]) -> None:
        """Note that all folders without one of these names have gone.

        If such a folder returns, its messages are a baseline.
        """
        present = set(names)
        with self.batch():
            for folder, name in self._execute(
                "SELECT id, name FROM folder WHERE account = ? AND is_gone = 0", (self._account,)
            ):
                if name not in present:
                    self._mark_gone("folder = ?", (folder,))
                    self._execute("UPDATE folder SET is_gone = 1 WHERE id = ?", (folder,))

    # Places.

    def list_places(self, folder: str) -> dict[str, Place]:
        """Return the places of a folder that have not gone, by uid."""
        return {
            place.uid: place
            for place in self._select(
                "folder.account = ? AND folder.name = ? AND place.validity = folder.validity "
                "AND gone IS NULL",
                (self._account, folder),
            )
        }

    def find_last_place(self, identity: bytes) -> Place | None:
        """Return the place that was noted last for a message, even if it is gone; None if there is none."""
        places = self._select(
            "folder.account = ? AND identity = ? ORDER BY place.id DESC LIMIT 1", (self._account, identity)
        )
        return next(iter(places), None)

    def is_in_role(self, identity: bytes, roles: Iterable[Role]) -> bool:
        """Whether a message is in a folder with one of these roles."""
        names = tuple(roles)
        return any(
            self._select(
                "folder.account = ? AND identity = ? AND gone IS NULL "
                f"AND role IN ({_make_placeholders(names)})",
                (self._account, identity, *names),
            )
        )

    def find_move(self, identity: bytes, target: str) -> Place | None:
        """Return the place from which the filter was moving this message to a folder, or None.

        A place whose message was found in the target before is left out. If there are several places, one
        that is gone takes precedence.
        """
        places = self._select(
            "folder.account = ? AND identity = ? AND state IN (?, ?) AND target = ? AND copy = '' "
            "ORDER BY gone IS NULL, place.id LIMIT 1",
            (self._account, identity, MOVING, MOVED, target),
        )
        return next(iter(places), None)

    def find(self, folder: str, uid: str) -> Place:
        """Return the place of a message that was noted before."""
        (place,) = self._select(
            "folder.account = ? AND folder.name = ? AND place.validity = folder.validity AND uid = ?",
            (self._account, folder, uid),
        )
        return place

    def list_tasks(self, folder: str) -> list[Place]:
        """Return the places of a folder for which something is to be done now, oldest first.

        A place is left out before the time of its next attempt, unless it is ambiguous.
        """
        return list(
            self._select(
                "folder.account = ? AND folder.name = ? AND place.validity = folder.validity "
                "AND state NOT IN ('seen', 'failed') AND gone IS NULL "
                "AND (retry <= ? OR state = ?) ORDER BY place.id",
                (self._account, folder, int(self._clock()), AMBIGUOUS),
            )
        )

    def add(
        self,
        folder: str,
        uid: str,
        identity: bytes | None,
        keywords: frozenset[str],
        state: str,
        label: str = "",
        *,
        retry_time: int = 0,
    ) -> None:
        """Note a message in a folder."""
        self._write(
            "INSERT OR REPLACE INTO place (folder, validity, uid, identity, keywords, state, label, "
            "target, copy, reason, attempts, retry, gone) "
            "SELECT id, validity, ?, ?, ?, ?, ?, '', '', '', 0, ?, NULL "
            "FROM folder WHERE account = ? AND name = ?",
            (uid, identity, _write_keywords(keywords), state, label, retry_time, self._account, folder),
        )

    def update(
        self,
        place: Place,
        state: str,
        *,
        label: str | None = None,
        target: str = "",
        keywords: frozenset[str] | None = None,
    ) -> Place:
        """Note the new state of a message, without a target by default; return the place with this state."""
        changed = replace(
            place,
            state=state,
            label=place.label if label is None else label,
            target=target,
            keywords=place.keywords if keywords is None else keywords,
            retry_time=0,
        )
        self._write(
            "UPDATE place SET state = ?, label = ?, target = ?, keywords = ?, reason = '', retry = 0 "
            "WHERE id = ?",
            (state, changed.label, target, _write_keywords(changed.keywords), place.id),
        )
        return changed

    def note_keywords(self, place: Place, keywords: frozenset[str]) -> None:
        self._write("UPDATE place SET keywords = ? WHERE id = ?", (_write_keywords(keywords), place.id))

    def end_move(self, place: Place, uid: str | None, keywords: frozenset[str]) -> None:
        """Note that a message was moved to its target; `uid` is its uid there, if that is known."""
        with self.batch():
            if uid is not None:
                self.add(place.target, uid, place.identity, keywords, DONE, place.label)
            self._set_state(place, MOVED if uid is None else DONE)
            self._mark_gone("place.id = ?", (place.id,))

    def recognize_move(self, move: Place, uid: str) -> None:
        """Note that the message of a move was found in the target, under `uid`.

        If it is still in its old folder, too, it stays in the state MOVING, with `uid` as its `copy_uid`.
        """
        state = DONE if move.is_gone else MOVING
        self._write("UPDATE place SET state = ?, copy = ? WHERE id = ?", (state, uid, move.id))

    def abandon_move(self, place: Place) -> Role:
        """Note that a message has left its folder, and was not found in the target of its move.

        Return the role of the folder in which it was last: the target if the move was completed, else its old
        folder.
        """
        self._set_state(place, DONE)
        if place.state == MOVED:
            roles = self._execute(
                "SELECT role FROM folder WHERE account = ? AND name = ?", (self._account, place.target)
            )
            return next((_ROLES[role] for (role,) in roles), place.role)
        return place.role

    def mark_places_gone(self, places: Iterable[Place]) -> None:
        """Note that messages have gone from their folders."""
        with self.batch():
            for place in places:
                self._mark_gone("place.id = ?", (place.id,))

    def record_failure(self, place: Place, reason: str) -> bool:
        """Note that a message could not be handled; return whether there will be another attempt."""
        attempts = place.attempts + 1
        is_retried = attempts < MAX_ATTEMPTS
        retry_time = int(self._clock()) + _FIRST_RETRY_SECONDS * _RETRY_FACTOR ** (attempts - 1)
        self._write(
            "UPDATE place SET state = ?, reason = ?, attempts = ?, retry = ? WHERE id = ?",
            (place.state if is_retried else FAILED, reason[:500], attempts, retry_time, place.id),
        )
        return is_retried

    def prune(self) -> int:
        """End moves whose message was not found in time; delete places that have been gone for long.

        If more than _MAX_GONE places are gone, delete the oldest, too. Return the number of deleted places.
        """
        now = int(self._clock())
        with self.batch():
            self._execute(
                "UPDATE place SET state = ? WHERE state IN (?, ?) AND gone < ?",
                (DONE, MOVING, MOVED, now - _MOVING_SECONDS),
            )
            before = self._connection.total_changes
            self._execute("DELETE FROM place WHERE gone < ?", (now - _GONE_SECONDS,))
            self._execute(
                "DELETE FROM place WHERE gone IS NOT NULL AND id <= "
                "(SELECT id FROM place WHERE gone IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (_MAX_GONE,),
            )
            return self._connection.total_changes - before

    def _set_state(self, place: Place, state: str) -> None:
        self._write("UPDATE place SET state = ? WHERE id = ?", (state, place.id))

    def _mark_gone(self, condition: str, values: tuple[Any, ...]) -> None:
        self._execute(
            f"UPDATE place SET gone = ? WHERE gone IS NULL AND {condition}", (int(self._clock()), *values)
        )

    def _select(self, condition: str, values: tuple[Any, ...]) -> Iterator[Place]:
        """Yield the places that satisfy a condition of SQL with these values."""
        for row in self._execute(f"{_SELECT_PLACES} WHERE {condition}", values):
            number, folder, role, uid, identity, keywords, state, label, target, copy_uid = row[:10]
            attempts, retry_time, gone_time = row[10:]
            yield Place(
                number,
                folder,
                _ROLES[role],
                uid,
                identity,
                _read_keywords(keywords),
                state,
                label,
                target,
                copy_uid,
                attempts,
                retry_time,
                gone_time is not None,
            )


def _make_placeholders(values: tuple[Any, ...]) -> str:
    return ", ".join("?" * len(values))


def _connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=_BUSY_SECONDS, isolation_level=None, uri=uri)


def _open_or_create(name: str) -> sqlite3.Connection:
    """Open a memory; if there is none, create the file and its tables."""
    if name != ":memory:" and not is_there(name):
        os.close(os.open(name, os.O_RDWR | os.O_CREAT, 0o600))  # only the user may read the names of folders
    connection = _connect(name)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # an action must be on disk before it is performed
        connection.execute("BEGIN IMMEDIATE")  # only one process may create the tables
        if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() == (0,):
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        _check(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    """Raise ValueError or DatabaseError unless this is an undamaged memory of this version."""
    values = [
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    ]
    if values != [_APPLICATION, _VERSION]:
        raise ValueError("it is not a memory of this version of tamis")
    ((result,), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()  # "ok", or the first error
    if result != "ok":
        raise ValueError("it is damaged")


def _lock_account(path: Path, account: int) -> int:
    """Lock an account, because two watchers would mistake each other's moves for those of the owner.

    Return the descriptor of the lock file, of which the byte at the account's number is locked. On systems
    without fcntl (Windows), nothing is locked.
    """
    handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        fcntl = import_module("fcntl")
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, account)
    except ImportError:
        pass
    except BlockingIOError:
        os.close(handle)
        raise MemoryUnusableError(
            "another tamis watch is running for this account: end it first, or let it run"
        ) from None
    return handle


def _rename_damaged(path: Path) -> None:
    """Append `.damaged` to the name of a file that cannot be used, so that a new one can be made."""
    path.replace(path.with_name(f"{path.name}.damaged"))
    for ending in ("-wal", "-shm"):  # of the names of SQLite's write-ahead log and its index
        path.with_name(path.name + ending).unlink(missing_ok=True)


@lru_cache(maxsize=1024)
def _read_keywords(text: str) -> frozenset[str]:
    return frozenset(json.loads(text))


def _write_keywords(keywords: frozenset[str]) -> str:
    return json.dumps(sorted(keywords))
