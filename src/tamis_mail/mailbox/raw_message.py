"""Bytes and where they came from → a message: what every source gives, and the error if it cannot."""

from sys import getfilesystemencoding

__all__ = ["RawMessage", "SourceError", "path_bytes", "printable"]


class SourceError(ValueError):
    """What was given is no source of mail; the message says what was expected and what to do."""


class RawMessage:
    """One message, byte for byte; frozen.

    Written out: a dataclass would import `inspect` and `re`, 10 ms of a process that reads one message.
    """

    __slots__ = ("name", "path", "position", "raw")

    raw: bytes
    name: str  # where it came from, fit to be printed: "inbox.mbox#17", "cur/123:2,S", "mail/00017.eml"
    position: int  # bytes of the source read when this message ends, of `Source.size`
    path: str  # of the file it is in, as the system has it; empty if there is none

    def __init__(self, raw: bytes, name: str, position: int, path: str = "") -> None:
        assign = object.__setattr__
        assign(self, "raw", raw)
        assign(self, "name", name)
        assign(self, "position", position)
        assign(self, "path", path)

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"a message is frozen: cannot set {field}")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"a message is frozen: cannot delete {field}")

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
    """The name on one line: a file's may hold newlines, terminal escapes and bytes that are no text."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def path_bytes(message: RawMessage) -> dict[str, str]:
    """For JSON, the bytes of a path, in base64, if its name cannot be shown as it is.

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
