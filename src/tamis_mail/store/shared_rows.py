"""The rows of a store on a server: their encoding as bytes, and the protocol that a server must implement.

A row has a key (the number of its table, then its primary key) and a value (all of its columns). The rows of
a store change by commits. A commit inserts, replaces and deletes rows, all of them or none, and changes the
*position* of the store. A position consists of the version (number of commits) and the id of the last commit,
which is random. A *replica*, the local SQLite copy of the store on each host, compares ids: if those of one
version differ, the server has lost its last commits, or the store was deleted and created again. On servers
the id has the name `token`.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Protocol

from tamis_mail.locations import Address
from tamis_mail.records import record
from tamis_mail.store.database import StoreError

Progress = Callable[[float], None]  # called with the completed share, from 0 to 1
Value = int | str | bytes | None

COMMIT_ID_BYTES = 16
# The number of a table is its index here. A new table is added at the end. The table `migration` lists the
# changes of the schema that were applied to one SQLite file, and is not shared.
SHARED_TABLES = (
    "setting",
    "label",
    "source",
    "journal",
    "run",
    "shelf",
    "bundle",
    "message",
    "listed",  # the senders that the user allowed or blocked
    "sent",  # the digests, senders and recipients of sent messages
    "correspondent",
    "coefficient",
    "word_list",  # the counts of words imported from another filter
)
# A value begins with a letter for its type: i, b, t (text) or n (NULL).
_INTEGER = struct.Struct("<cq")  # the letter and the integer
_LENGTH = struct.Struct("<cI")  # the letter and the number of bytes that follow
# Texts of errors that all servers can have; the first {} is for the address of the store.
NEWER = "the store {} was written by a newer tamis ({}): upgrade this one"
DELETED = "the store {} was deleted while it was created: try again"
MISSING = "the store {} no longer exists on the server: learning mail creates it again"
BUSY = "the store {}: waited {:.0f} seconds for another process that is writing: try again when it is done"
UNREACHABLE = (
    "the store {}: its server cannot be reached or used ({}): check the address and that the server "
    "is running"
)
_DELETED_ROW = 0xFFFFFFFF  # marks a deleted row, in place of the length of its value
_KEY_AND_VALUE_LENGTHS = struct.Struct("<II")


@record(frozen=True, slots=True)
class Position:
    """A state of a store: the number of its commits, and the random id of the last one."""

    version: int
    commit_id: bytes


@record(frozen=True, slots=True)
class Changes:
    """The rows that one or several commits write (insert or replace) and delete, in any order.

    A key occurs once: if several commits change a row, only its last value is here.
    """

    rows: Sequence[tuple[bytes, bytes]]  # keys and values
    deleted: Sequence[bytes]  # keys


class SharedRows(Protocol):
    """The rows of one store on a server. Its methods raise StoreError if the server fails."""

    def find_position(self) -> Position | None:
        """Return the position of the store; None if the server has no such store."""

    def create(self) -> Position:
        """Create the store, without rows, unless it exists; return its position."""

    def read_changes(self, since: Position) -> tuple[Position, list[Changes]] | None:
        """Return the present position and the changes since another.

        Return None if the changes since then are no longer known; the caller then reads all rows.
        """

    def read_all(self) -> Iterator[tuple[Position, list[tuple[bytes, bytes]]]]:
        """Yield all rows in parts, each with a position that the store had when it was read, or before.

        Rows may change meanwhile. Afterwards, the caller applies the changes since the position of the first
        part, which `read_changes` returns.
        """

    def begin(self, seconds: float) -> Position:
        """Take the writer's lock, and return the present position.

        Wait at most `seconds` for the lock, then raise StoreError.
        """

    def commit(
        self, base: Position, following: Position, changes: Changes, progress: Progress | None
    ) -> None:
        """Change the rows, all of them or none, take the store to `following`, and release the lock.

        If the position of the store is not `base`, or the lock was lost, raise StoreError and change nothing.
        If the server cannot be reached any more, raise StoreError; the rows may have been changed.
        """

    def roll_back(self) -> None:
        """Release the lock, if this client has it."""

    def delete(self) -> None:
        """Delete the store with all of its rows."""

    def close(self) -> None:
        """Close the connection."""


def require_driver(module: str, address: Address, *, extra: str) -> None:
    """Raise StoreError unless the driver of a server, a Python module, is installed.

    `extra` is the optional dependency of tamis that installs it.
    """
    try:
        import_module(module)
    except ImportError as error:
        raise StoreError(
            f"the store {address.own_name} needs {module}, which is not installed: "
            f'pip install "tamis[{extra}]"'
        ) from error


def encode_row(values: Iterable[Value]) -> bytes:
    """Encode the values of a row as bytes.

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
    """Decode the values of a row; raise StoreError unless the bytes are valid."""
    values: list[Value] = []
    offset = 0
    try:
        while offset < len(data):
            kind = data[offset : offset + 1]
            if kind == b"i":
                values.append(_INTEGER.unpack_from(data, offset)[1])
                offset += _INTEGER.size
            elif kind == b"n":
                values.append(None)
                offset += 1
            elif kind in (b"b", b"t"):
                _, length = _LENGTH.unpack_from(data, offset)
                offset += _LENGTH.size
                content = data[offset : offset + length]
                if len(content) < length:
                    raise ValueError("it is cut off")
                values.append(content if kind == b"b" else content.decode())
                offset += length
            else:
                raise ValueError(f"a value has the kind {kind!r}")
    except (ValueError, struct.error) as error:
        raise _damage_error(str(error)) from error
    return values


def encode_key(table: int, key: Value) -> bytes:
    """Encode the key of a row: the number of its table and its primary key."""
    return bytes([table]) + encode_row([key])


def decode_key(data: bytes) -> tuple[int, Value]:
    """Decode the number of a table and a primary key; raise StoreError unless the bytes are valid."""
    values = decode_row(data[1:])
    if len(values) == 1 and data[0] >= len(SHARED_TABLES):
        raise StoreError(
            f"the store on the server has a row of table {data[0]}, expected a table from 0 to "
            f"{len(SHARED_TABLES) - 1}: if a newer tamis wrote it, upgrade this one; otherwise the rows are "
            "damaged, restore them from a backup"
        )
    if len(values) != 1:
        raise _damage_error("a key is invalid")
    return data[0], values[0]


def encode_changes(changes: Changes) -> bytes:
    """Encode changes as bytes."""
    parts: list[bytes] = []
    for key, value in changes.rows:
        parts += (_KEY_AND_VALUE_LENGTHS.pack(len(key), len(value)), key, value)
    for key in changes.deleted:
        parts += (_KEY_AND_VALUE_LENGTHS.pack(len(key), _DELETED_ROW), key)
    return b"".join(parts)


def decode_changes(data: bytes) -> Changes:
    """Decode changes; raise StoreError unless the bytes are valid.

    >>> changes = Changes([(b"key", b"value"), (b"empty", b"")], [b"gone"])
    >>> decode_changes(encode_changes(changes)) == changes
    True
    """
    rows: list[tuple[bytes, bytes]] = []
    deleted: list[bytes] = []
    offset = 0
    while offset < len(data):
        if len(data) < offset + _KEY_AND_VALUE_LENGTHS.size:
            raise _damage_error("a commit is cut off")
        key_length, size = _KEY_AND_VALUE_LENGTHS.unpack_from(data, offset)
        offset += _KEY_AND_VALUE_LENGTHS.size
        key = data[offset : offset + key_length]
        offset += key_length
        if size == _DELETED_ROW:
            deleted.append(key)
        else:
            rows.append((key, data[offset : offset + size]))
            offset += size
    if offset > len(data):
        raise _damage_error("a commit is cut off")
    return Changes(rows, deleted)


def _damage_error(fault: str) -> StoreError:
    return StoreError(
        f"the rows of the store on the server are damaged ({fault}): restore them from a backup, "
        "or copy a store there (tamis store copy)"
    )
