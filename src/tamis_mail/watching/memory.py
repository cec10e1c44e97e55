"""The state of a watcher between two passes and two runs, in one SQLite file beside the store.

A place is a message in a folder: its uid, its identity (the digest of `tamis_mail.message`), the keywords
that it had, and what is to be done with it. What the filter is about to do is written before it is done, so
that a kill at any moment neither repeats it nor lets it look like an act of the owner:

    unread      its identity is not known yet
    unsettled   it came from junk and is still there, too: it is being moved, or was delivered twice
    unsorted    new mail, to be judged
    untaught    the owner's act has taught `label`, to be learned
    moving      the verdict is `label`, and it is being moved to `target`
    moved       it was moved to `target`, where its uid is not known yet
    seen        nothing is to be done
    failed      it cannot be handled; `reason` says why

A memory that is missing or damaged begins anew: the messages of its first pass are a baseline, which teaches
nothing. Places that have gone are kept for some days, because a message that is moved can be missing for a
while, and then deleted.
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
from tamis_mail.watching.roles import Role

__all__ = [
    "FAILED",
    "MOVED",
    "MOVING",
    "SEEN",
    "UNREAD",
    "UNSETTLED",
    "UNSORTED",
    "UNTAUGHT",
    "Memory",
    "MemoryUnusableError",
    "Place",
]

UNREAD, UNSETTLED, UNSORTED, UNTAUGHT, MOVING, MOVED, SEEN, FAILED = (
    "unread",
    "unsettled",
    "unsorted",
    "untaught",
    "moving",
    "moved",
    "seen",
    "failed",
)

MAX_ATTEMPTS = 5  # after which a message that cannot be handled is left alone
_FIRST_RETRY_SECONDS = 60
_RETRY_FACTOR = 8  # the last attempt is after some nine hours
_GONE_SECONDS = 30 * 86400  # a laptop that is switched off over a holiday may then move a message
_MAX_GONE = 200_000  # places: about 30 MB
_MOVING_SECONDS = 3600  # after which a message that went elsewhere instead of its target is the owner's again
_BUSY_SECONDS = 10.0
_APPLICATION = 0x74616D77  # "tamw": identifies a memory
_VERSION = 1
_SQLITE = b"SQLite format 3\0"

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
    role TEXT NOT NULL,
    validity TEXT NOT NULL,
    is_baseline INTEGER NOT NULL,      -- 1 until its messages have been listed once
    is_gone INTEGER NOT NULL,
    UNIQUE (account, name)
);
CREATE TABLE place (
    id INTEGER PRIMARY KEY,
    folder INTEGER NOT NULL,
    validity TEXT NOT NULL,
    uid TEXT NOT NULL,
    identity BLOB,                     -- NULL if it was not read
    keywords TEXT NOT NULL,            -- JSON
    state TEXT NOT NULL,
    label TEXT NOT NULL,
    target TEXT NOT NULL,
    copy TEXT NOT NULL,                -- its uid in the target, where an interrupted move has left it
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    retry INTEGER NOT NULL,            -- when the next attempt is due
    gone INTEGER,                      -- when it was found to have gone
    UNIQUE (folder, validity, uid)
);
CREATE INDEX place_identity ON place (identity);
CREATE INDEX place_task ON place (folder) WHERE state NOT IN ('seen', 'failed') AND gone IS NULL;
CREATE INDEX place_gone ON place (gone) WHERE gone IS NOT NULL;
"""


class MemoryUnusableError(Exception):
    """The memory cannot be used now. The message is one line for the user."""


@dataclass(frozen=True, slots=True)
class Place:
    """A message in a folder, as it was last seen."""

    id: int
    folder: str
    role: Role
    uid: str
    identity: bytes | None
    keywords: frozenset[str]
    state: str
    label: str = ""
    target: str = ""
    copy: str = ""
    attempts: int = 0
    retry: int = 0
    is_gone: bool = False


_COLUMNS = (
    "place.id, folder.name, role, uid, identity, keywords, state, label, target, copy, attempts, retry, gone"
)
_ROLES = {role.value: role for role in Role}
_JOINED = f"SELECT {_COLUMNS} FROM place JOIN folder ON folder.id = place.folder"


class Memory:
    """The memory of one account. Each method is one transaction; `batch` makes one of several."""

    def __init__(
        self, path: Path | None, account: str, *, clock: Callable[[], float] = time.time, copy: bool = False
    ) -> None:
        """Open the memory at a path; None, or `copy`, is a memory that is not kept."""
        self._clock = clock
        self._lock = -1
        self.renewed = ""  # why an earlier memory was put aside
        try:
            self._connection = self._open(path, copy=copy)
            with self.batch():
                self._run("INSERT OR IGNORE INTO account (name, is_baseline) VALUES (?, 1)", (account,))
            ((self._account,),) = self._run("SELECT id FROM account WHERE name = ?", (account,))
            if path is not None and not copy:
                self._lock = _lock_account(path, self._account)
        except (sqlite3.Error, OSError) as error:
            raise MemoryUnusableError(f"the memory {path} cannot be used: {error}") from None

    @classmethod
    def path_of(cls, store: Path) -> Path:
        """Return the path of the memory of a store."""
        if is_address(store):  # beside its replica
            store = Path(find_local_path(store))
            store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return store.with_name(f"{store.name}.watch")

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            self._connection.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self, path: Path | None, *, copy: bool) -> sqlite3.Connection:
        if path is None or (copy and not is_there(path)):
            return _create(":memory:")
        if copy:
            try:
                with closing(_connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as original:
                    _check(original)
                    connection = _connect(":memory:")
                    original.backup(connection)
                    return connection
            except (sqlite3.DatabaseError, ValueError) as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                self.renewed = str(error)
                return _create(":memory:")
        try:
            if is_there(path):
                with open_regular(path) as file:
                    head = file.read(16)
                if head not in (b"", _SQLITE):
                    raise ValueError("it is no SQLite file")
            return _create(os.fspath(path))
        except (sqlite3.DatabaseError, ValueError) as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, full, not permitted: not damaged
                raise
            self.renewed = str(error)
            _put_aside(path)
            return _create(os.fspath(path))

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make one transaction of several calls."""
        if self._connection.in_transaction:
            yield
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise MemoryUnusableError(f"the memory cannot be written: {error}") from None
            raise

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _run(self, statement: str, values: Iterable[Any] = ()) -> list[Any]:
        try:
            return self._connection.execute(statement, tuple(values)).fetchall()
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                raise
            raise MemoryUnusableError(f"the memory cannot be used: {error}") from None

    # The account and its folders.

    @property
    def is_baseline(self) -> bool:
        """Whether the first pass of the account has not ended yet."""
        ((is_baseline,),) = self._run("SELECT is_baseline FROM account WHERE id = ?", (self._account,))
        return bool(is_baseline)

    def end_baseline(self) -> None:
        """Note that the first pass has ended."""
        with self.batch():
            self._run("UPDATE account SET is_baseline = 0 WHERE id = ?", (self._account,))

    def begin_folder(self, name: str, role: str, validity: str) -> bool:
        """Note a folder before its messages are compared; return whether they are a baseline.

        They are, in the first pass of an account, if the uids have become invalid, and if the folder had
        gone. A folder that is new later is none: the owner's first move to Junk may have created it.
        """
        with self.batch():
            rows = self._run(
                "SELECT id, validity, is_baseline, is_gone FROM folder WHERE account = ? AND name = ?",
                (self._account, name),
            )
            if not rows:
                is_baseline = self.is_baseline
                self._run(
                    "INSERT INTO folder (account, name, role, validity, is_baseline, is_gone) "
                    "VALUES (?, ?, ?, ?, ?, 0)",
                    (self._account, name, role, validity, is_baseline),
                )
                return is_baseline
            ((folder, known_validity, is_baseline, is_gone),) = rows
            is_baseline = bool(is_baseline or is_gone or known_validity != validity)
            if known_validity != validity:
                self._mark_gone("folder = ? AND validity <> ?", (folder, validity))
            self._run(
                "UPDATE folder SET role = ?, validity = ?, is_baseline = ?, is_gone = 0 WHERE id = ?",
                (role, validity, is_baseline, folder),
            )
            return is_baseline

    def end_folder(self, name: str) -> None:
        """Note that all messages of a folder have been compared."""
        with self.batch():
            self._run(
                "UPDATE folder SET is_baseline = 0 WHERE account = ? AND name = ?", (self._account, name)
            )

    def drop_folders_except(self, names: Iterable[str]) -> None:
        """Note that folders have gone; if they return, their messages are a baseline."""
        kept = set(names)
        with self.batch():
            for folder, name in self._run(
                "SELECT id, name FROM folder WHERE account = ? AND is_gone = 0", (self._account,)
            ):
                if name not in kept:
                    self._mark_gone("folder = ?", (folder,))
                    self._run("UPDATE folder SET is_gone = 1 WHERE id = ?", (folder,))

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
        """Return the place in which a message was found most recently, whether it has gone or not."""
        places = self._select(
            "folder.account = ? AND identity = ? ORDER BY place.id DESC LIMIT 1", (self._account, identity)
        )
        return next(iter(places), None)

    def is_in_role(self, identity: bytes, roles: Iterable[Role]) -> bool:
        """Whether a message is in a folder with one of these roles."""
        names = tuple(roles)
        return any(
            self._select(
                f"folder.account = ? AND identity = ? AND gone IS NULL AND role IN ({_marks(names)})",
                (self._account, identity, *names),
            )
        )

    def find_move(self, identity: bytes, target: str) -> Place | None:
        """Return the place from which the filter was moving this message to a folder.

        If there are several of the same message, those that have left their folder come first.
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
        """Return the places of a folder with something to be done now, oldest first."""
        return list(
            self._select(
                "folder.account = ? AND folder.name = ? AND place.validity = folder.validity "
                "AND state NOT IN ('seen', 'failed') AND gone IS NULL "
                "AND (retry <= ? OR state = ?) ORDER BY place.id",
                (self._account, folder, int(self._clock()), UNSETTLED),
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
        retry: int = 0,
    ) -> None:
        """Note a message in a folder."""
        with self.batch():
            self._run(
                "INSERT OR REPLACE INTO place (folder, validity, uid, identity, keywords, state, label, "
                "target, copy, reason, attempts, retry, gone) "
                "SELECT id, validity, ?, ?, ?, ?, ?, '', '', '', 0, ?, NULL "
                "FROM folder WHERE account = ? AND name = ?",
                (uid, identity, _write_keywords(keywords), state, label, retry, self._account, folder),
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
        """Note what is to be done with a message, or that nothing is; return its place as it is now."""
        changed = replace(
            place,
            state=state,
            label=place.label if label is None else label,
            target=target,
            keywords=place.keywords if keywords is None else keywords,
            retry=0,
        )
        with self.batch():
            self._run(
                "UPDATE place SET state = ?, label = ?, target = ?, keywords = ?, reason = '', retry = 0 "
                "WHERE id = ?",
                (state, changed.label, target, _write_keywords(changed.keywords), place.id),
            )
        return changed

    def note_keywords(self, place: Place, keywords: frozenset[str]) -> None:
        """Note the keywords that a message has now."""
        with self.batch():
            self._run("UPDATE place SET keywords = ? WHERE id = ?", (_write_keywords(keywords), place.id))

    def end_move(self, place: Place, uid: str | None, keywords: frozenset[str]) -> None:
        """Note that a message was moved to its target, where it has a uid, if that is known."""
        with self.batch():
            if uid is not None:
                self.add(place.target, uid, place.identity, keywords, SEEN, place.label)
            self._set_state(place, MOVED if uid is None else SEEN)
            self._mark_gone("place.id = ?", (place.id,))

    def recognize_move(self, move: Place, uid: str) -> None:
        """Note that the message of a move was found in the target; it may be in its old folder, too."""
        with self.batch():
            state = SEEN if move.is_gone else MOVING
            self._run("UPDATE place SET state = ?, copy = ? WHERE id = ?", (state, uid, move.id))

    def end_gone_move(self, place: Place) -> Role:
        """Note that a message which has left its folder was found elsewhere than in the target of its move.

        Return the role of the folder from which it came: the target, if it was there before.
        """
        with self.batch():
            self._set_state(place, SEEN)
        if place.state == MOVED:
            roles = self._run(
                "SELECT role FROM folder WHERE account = ? AND name = ?", (self._account, place.target)
            )
            return next((_ROLES[role] for (role,) in roles), place.role)
        return place.role

    def forget_places(self, places: Iterable[Place]) -> None:
        """Note that messages have gone from their folders."""
        with self.batch():
            for place in places:
                self._mark_gone("place.id = ?", (place.id,))

    def fail(self, place: Place, reason: str) -> bool:
        """Note that a message could not be handled; return whether it will be tried again."""
        attempts = place.attempts + 1
        is_tried = attempts < MAX_ATTEMPTS
        retry = int(self._clock()) + _FIRST_RETRY_SECONDS * _RETRY_FACTOR ** (attempts - 1)
        with self.batch():
            self._run(
                "UPDATE place SET state = ?, reason = ?, attempts = ?, retry = ? WHERE id = ?",
                (place.state if is_tried else FAILED, reason[:500], attempts, retry, place.id),
            )
        return is_tried

    def prune(self) -> int:
        """Delete places that went long ago, and return how many."""
        now = int(self._clock())
        with self.batch():
            self._run(
                "UPDATE place SET state = ? WHERE state IN (?, ?) AND gone < ?",
                (SEEN, MOVING, MOVED, now - _MOVING_SECONDS),
            )
            before = self._connection.total_changes
            self._run("DELETE FROM place WHERE gone < ?", (now - _GONE_SECONDS,))
            self._run(
                "DELETE FROM place WHERE gone IS NOT NULL AND id <= "
                "(SELECT id FROM place WHERE gone IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (_MAX_GONE,),
            )
            return self._connection.total_changes - before

    def _set_state(self, place: Place, state: str) -> None:
        self._run("UPDATE place SET state = ? WHERE id = ?", (state, place.id))

    def _mark_gone(self, condition: str, values: tuple[Any, ...]) -> None:
        self._run(
            f"UPDATE place SET gone = ? WHERE gone IS NULL AND {condition}", (int(self._clock()), *values)
        )

    def _select(self, condition: str, values: tuple[Any, ...]) -> Iterator[Place]:
        for row in self._run(f"{_JOINED} WHERE {condition}", values):
            (
                number,
                folder,
                role,
                uid,
                identity,
                keywords,
                state,
                label,
                target,
                copy,
                attempts,
                retry,
                gone,
            ) = row
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
                copy,
                attempts,
                retry,
                gone is not None,
            )


def _marks(values: tuple[Any, ...]) -> str:
    return ", ".join("?" * len(values))


def _connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=_BUSY_SECONDS, isolation_level=None, uri=uri)


def _create(name: str) -> sqlite3.Connection:
    """Open a memory, and create its tables if it is new."""
    if name != ":memory:" and not is_there(name):
        os.close(os.open(name, os.O_RDWR | os.O_CREAT, 0o600))  # it names folders: nobody else reads it
    connection = _connect(name)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # what is about to be done must be on disk before
        connection.execute("BEGIN IMMEDIATE")
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
    """Raise ValueError or DatabaseError unless this is a memory of this version."""
    values = [
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    ]
    if values != [_APPLICATION, _VERSION]:
        raise ValueError("it is no memory of this version of tamis")
    ((verdict,), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise ValueError("it is damaged")


def _lock_account(path: Path, account: int) -> int:
    """Let one process at a time watch an account: two would take each other for the owner."""
    handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        fcntl = import_module("fcntl")
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, account)
    except ImportError:
        pass
    except BlockingIOError:
        os.close(handle)
        raise MemoryUnusableError(
            "another tamis watch is at work on this account: end it first, or leave the work to it"
        ) from None
    return handle


def _put_aside(path: Path) -> None:
    """Rename a damaged memory, so that a new one can begin."""
    path.replace(path.with_name(f"{path.name}.damaged"))
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


@lru_cache(maxsize=1024)
def _read_keywords(text: str) -> frozenset[str]:
    return frozenset(json.loads(text))


def _write_keywords(keywords: frozenset[str]) -> str:
    return json.dumps(sorted(keywords))
