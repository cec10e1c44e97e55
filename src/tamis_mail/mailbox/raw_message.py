"""`RawMessage`, the bytes of a message and where they came from, and the error of sources of mail."""

from sys import getfilesystemencoding


class SourceError(ValueError):
    """A path or stream cannot be read as mail. The error says what was expected, and what to do."""


class RawMessage:
    """One message as it was read, truncated to the largest size that its source allows; immutable.

    It is not a dataclass: that would import `inspect` and `re`, which takes 10 ms of each process.
    """

    __slots__ = ("name", "path", "position", "raw")

    raw: bytes
    name: str  # its origin, printable: "inbox.mbox#17" (its 17th), "cur/123:2,S", "mail/00017.eml"
    # The bytes of the files of its source (`Source.size` in all) up to the end of this message; in a
    # compressed file, the compressed bytes that were read for it.
    position: int
    path: str  # of its file; undecodable bytes are surrogates (as `os.fsdecode`); empty if there is no file

    def __init__(self, raw: bytes, name: str, position: int, path: str = "") -> None:
        assign = object.__setattr__
        assign(self, "raw", raw)
        assign(self, "name", name)
        assign(self, "position", position)
        assign(self, "path", path)

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"a RawMessage is frozen: cannot set {field}")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"a RawMessage is frozen: cannot delete {field}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RawMessage):
            return NotImplemented
        return self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.__reduce__())

    def __reduce__(self) -> tuple[type["RawMessage"], tuple[bytes, str, int, str]]:
        return RawMessage, (self.raw, self.name, self.position, self.path)

    def __repr__(self) -> str:
        return f"RawMessage({self.name!r}, {len(self.raw)} bytes, position={self.position})"


def printable(name: str) -> str:
    """Escape a name for printing: file names may hold newlines, terminal escapes and undecodable bytes."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def path_bytes(message: RawMessage) -> dict[str, str]:
    """Return a field for JSON with the path in base64, if the printed path could be ambiguous; else {}.

    It is ambiguous if it has characters that `printable` escapes, or a backslash.

    >>> (
    ...     path_bytes(RawMessage(b"", r"1\\n2", 0, "1" + chr(10) + "2")),
    ...     path_bytes(RawMessage(b"", "a", 0, "a")),
    ... )
    ({'path_bytes': 'MQoy'}, {})
    """
    if not message.path or (message.path.isprintable() and "\\" not in message.path):
        return {}
    from base64 import b64encode  # noqa: PLC0415 (few names need it)

    return {"path_bytes": b64encode(message.path.encode(getfilesystemencoding(), "surrogateescape")).decode()}
