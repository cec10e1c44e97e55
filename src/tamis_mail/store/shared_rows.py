"""The rows of a store on a server: their encoding as bytes, and the protocol that a server must implement.

A row has a key (the number of its table, then its primary key) and a value (all of its columns). The rows of
a store change by commits. A commit replaces and deletes rows, all of them or none, and takes the store from
one *position* to the next. A position is a version, which is the number of commits, and the id of the last
commit. This id is random, so that a *replica*, the local SQLite copy of the store on each host, can tell that
the server lost its last commits, or that the store was deleted and created again. On servers the id has the
name `token`.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from tamis_mail.records import record
from tamis_mail.store.database import StoreError

Progress = Callable[[float], None]  # called with the completed share, from 0 to 1
Value = int | str | bytes | None

COMMIT_ID_BYTES = 16
# The number of a table is its index here. A new table is added at the end; `migration` is not shared.
SHARED_TABLES = (
    "setting",
    "label",
    "source",
    "journal",
    "run",
    "shelf",
    "bundle",
    "message",
    "listed",
    "sent",
    "correspondent",
    "coefficient",
    "word_list",
)
_INTEGER = struct.Struct("<cq")
_LENGTH = struct.Struct("<cI")
_DELETED = 0xFFFFFFFF  # in place of the length of a value
_SIZES = struct.Struct("<II")


@record(frozen=True, slots=True)
class Position:
    """A state of a store: the number of commits, and the random id of the last one."""

    version: int
    commit_id: bytes


@record(frozen=True, slots=True)
class Changes:
    """The rows that a commit replaces and deletes, in the order of their keys."""

    rows: Sequence[tuple[bytes, bytes]]  # keys and values
    deleted: Sequence[bytes]  # keys


class SharedRows(Protocol):
    """The rows of one store on a server. Errors of the server are StoreErrors of one line."""

    def find_position(self) -> Position | None:
        """Return the position of the store; None if the server has no such store."""

    def create(self) -> Position:
        """Create the store, without rows, unless it is there; return its position."""

    def read_changes(self, since: Position) -> tuple[Position, list[Changes]] | None:
        """Return the present position and all changes since another one; None if all rows must be read."""

    def read_all(self) -> Iterator[tuple[Position, list[tuple[bytes, bytes]]]]:
        """Yield all rows in parts, each with a position from which on changes must be read.

        The rows of all parts, and then all changes since the position of the first part, are the store.
        """

    def begin(self, seconds: float) -> Position:
        """Take the lock of the writer; wait for it at most so long. Return the present position."""

    def commit(
        self, base: Position, following: Position, changes: Changes, progress: Progress | None
    ) -> None:
        """Change the rows, all of them or none, and release the lock.

        StoreError is raised, and nothing was changed, unless the store is at `base`.
        """

    def roll_back(self) -> None:
        """Release the lock, and change nothing."""

    def delete(self) -> None:
        """Delete the store with all of its rows."""

    def close(self) -> None:
        """Close the connection."""


def encode_row(values: Iterable[Value]) -> bytes:
    """Write the values of a row as bytes.

    >>> decode_row(encode_row([1, "text", b"bytes", None]))
    [1, 'text', b'bytes', None]
    """
    parts: list[bytes] = []
    for value in values:
        if isinstance(value, int):
            parts.append(_INTEGER.pack(b"i", value))
        elif isinstance(value, bytes):
            parts += (_LENGTH.pack(b"b", len(value)), value)
        elif isinstance(value, str):
            data = value.encode()
            parts += (_LENGTH.pack(b"t", len(data)), data)
        else:
            parts.append(b"n")
    return b"".join(parts)


def decode_row(data: bytes) -> list[Value]:
    """Read the values of a row; raise StoreError unless the bytes are valid."""
    values: list[Value] = []
    place = 0
    try:
        while place < len(data):
            kind = data[place : place + 1]
            if kind == b"i":
                values.append(_INTEGER.unpack_from(data, place)[1])
                place += _INTEGER.size
            elif kind == b"n":
                values.append(None)
                place += 1
            elif kind in (b"b", b"t"):
                _, length = _LENGTH.unpack_from(data, place)
                place += _LENGTH.size
                content = data[place : place + length]
                if len(content) < length:
                    raise ValueError("it is cut off")
                values.append(content if kind == b"b" else content.decode())
                place += length
            else:
                raise ValueError(f"a value has the kind {kind!r}")
    except (ValueError, struct.error) as error:
        raise _damage_error(str(error)) from error
    return values


def encode_key(table: int, key: Value) -> bytes:
    """Write the key of a row as bytes."""
    return bytes([table]) + encode_row([key])


def decode_key(data: bytes) -> tuple[int, Value]:
    """Read the number of a table and a primary key; raise StoreError unless the bytes are valid."""
    values = decode_row(data[1:])
    if len(values) != 1 or data[0] >= len(SHARED_TABLES):
        raise _damage_error("a key is invalid, or of a table that a newer tamis has")
    return data[0], values[0]


def encode_changes(changes: Changes) -> bytes:
    """Write changes as bytes."""
    parts: list[bytes] = []
    for key, value in changes.rows:
        parts += (_SIZES.pack(len(key), len(value)), key, value)
    for key in changes.deleted:
        parts += (_SIZES.pack(len(key), _DELETED), key)
    return b"".join(parts)


def decode_changes(data: bytes) -> Changes:
    """Read changes; raise StoreError unless the bytes are valid.

    >>> changes = Changes([(b"key", b"value"), (b"empty", b"")], [b"gone"])
    >>> decode_changes(encode_changes(changes)) == changes
    True
    """
    rows: list[tuple[bytes, bytes]] = []
    deleted: list[bytes] = []
    place = 0
    while place < len(data):
        if len(data) < place + _SIZES.size:
            raise _damage_error("a commit is cut off")
        key_size, size = _SIZES.unpack_from(data, place)
        place += _SIZES.size
        key = data[place : place + key_size]
        place += key_size
        if size == _DELETED:
            deleted.append(key)
        else:
            rows.append((key, data[place : place + size]))
            place += size
    if place > len(data):
        raise _damage_error("a commit is cut off")
    return Changes(rows, deleted)


def _damage_error(fault: str) -> StoreError:
    return StoreError(
        f"the rows of the store on the server are damaged ({fault}): restore them from a backup, "
        "or copy a store there (tamis store copy)"
    )
