"""Packets of the milter protocol, versions 2 to 6: bytes in, values out, and answers as bytes; no I/O.

    length    4 bytes, most significant first: bytes of all that follows
    command   1 byte
    data      strings end in NUL

The mail server begins with OPTNEG: its version, the actions that it allows (`Action`) and the steps of the
protocol that a filter may leave out (`Step`). The answer has those that the filter takes. From then on,

    CONNECT HELO (MAIL RCPT... DATA HEADER... EOH BODY... BODYEOB | ABORT)... QUIT

each with the macros of its step before it, if there are any. Each command but MACRO, ABORT and QUIT has an
answer of one packet, unless a Step says that the filter does not answer it. The answer to BODYEOB is any
number of changes and one decision.
"""

import struct
from dataclasses import dataclass
from enum import IntFlag

__all__ = [
    "ABORT",
    "ACCEPT",
    "BODY",
    "CONNECT",
    "CONTINUE",
    "DATA",
    "DISCARD",
    "END_OF_BODY",
    "END_OF_HEADER",
    "HEADER",
    "HELO",
    "LARGEST_PACKET",
    "MACRO",
    "MAIL",
    "NEGOTIATE",
    "QUIT",
    "QUIT_NEW_CONNECTION",
    "RECIPIENT",
    "SKIP",
    "TEMPORARY_FAILURE",
    "UNKNOWN",
    "Action",
    "Negotiation",
    "Packet",
    "PacketReader",
    "ProtocolError",
    "Step",
    "add_header",
    "encode",
    "insert_header",
    "negotiate",
    "quarantine",
    "read_client",
    "read_header",
    "read_macros",
    "read_strings",
    "reject",
    "remove_header",
]

# Commands of a mail server.
ABORT, BODY, CONNECT, MACRO, END_OF_BODY, HELO = b"A", b"B", b"C", b"D", b"E", b"H"
QUIT_NEW_CONNECTION, HEADER, MAIL, END_OF_HEADER, NEGOTIATE = b"K", b"L", b"M", b"N", b"O"
QUIT, RECIPIENT, DATA, UNKNOWN = b"Q", b"R", b"T", b"U"
_COMMANDS = frozenset(b"ABCDEHKLMNOQRTU")

LARGEST_PACKET = (1 << 20) + 64  # data of at most 1 MB is the largest that any server may be told to send
_OLDEST, _NEWEST = 2, 6
_LENGTH = struct.Struct("!I")
_NEGOTIATION = struct.Struct("!III")
_MOST_MACROS = 100  # of one packet; servers send ten or so


class Action(IntFlag):
    """The changes that a filter may make to a message."""

    ADD_HEADERS = 0x01
    CHANGE_HEADERS = 0x10
    QUARANTINE = 0x20


class Step(IntFlag):
    """Steps that are left out (NO), that are not answered (SILENT), and other properties of the protocol."""

    NO_END_OF_HEADER = 0x40
    SILENT_HEADER = 0x80
    NO_UNKNOWN = 0x100
    NO_DATA = 0x200
    SKIP = 0x400  # the answer SKIP is understood
    SILENT_CONNECT = 0x1000
    SILENT_HELO = 0x2000
    SILENT_MAIL = 0x4000
    SILENT_RECIPIENT = 0x8000
    SILENT_DATA = 0x10000
    SILENT_UNKNOWN = 0x20000
    SILENT_END_OF_HEADER = 0x40000
    LEADING_SPACE = 0x100000  # values of header fields keep the space after the colon, in both directions


_SILENT = {
    HEADER: Step.SILENT_HEADER,
    CONNECT: Step.SILENT_CONNECT,
    HELO: Step.SILENT_HELO,
    MAIL: Step.SILENT_MAIL,
    RECIPIENT: Step.SILENT_RECIPIENT,
    DATA: Step.SILENT_DATA,
    UNKNOWN: Step.SILENT_UNKNOWN,
    END_OF_HEADER: Step.SILENT_END_OF_HEADER,
}
_NEVER_ANSWERED = frozenset((MACRO, ABORT, QUIT, QUIT_NEW_CONNECTION))


class ProtocolError(Exception):
    """Invalid bytes of the milter protocol; the sentence does not quote them, since they may be mail."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A command and its data."""

    command: bytes
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Negotiation:
    """The version, actions and steps that a mail server offers, or that were agreed upon."""

    version: int
    actions: Action
    steps: Step

    @classmethod
    def read(cls, data: bytes) -> "Negotiation":
        """Read an offer. Bits that have no meaning here are ignored."""
        if len(data) < _NEGOTIATION.size:
            raise ProtocolError(f"an offer has {len(data)} bytes, expected at least {_NEGOTIATION.size}")
        version, actions, steps = _NEGOTIATION.unpack_from(data)
        if version < _OLDEST:
            raise ProtocolError(f"the protocol version is {version}, expected {_OLDEST} or later")
        return cls(min(version, _NEWEST), Action(actions & _ALL_ACTIONS), Step(steps & _ALL_STEPS))

    def is_answered(self, command: bytes) -> bool:
        """Whether the server waits for an answer to a command."""
        return command not in _NEVER_ANSWERED and not self.steps & _SILENT.get(command, 0)


_ALL_ACTIONS = sum(Action)
_ALL_STEPS = sum(Step)


class PacketReader:
    """Cuts the bytes of a connection into packets.

    >>> reader = PacketReader()
    >>> reader.feed(b"\\0\\0\\0\\4Hab\\0\\0\\0")
    >>> reader.take_packet()
    Packet(command=b'H', data=b'ab\\x00')
    >>> reader.take_packet() is None
    True
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._buffer += data

    def take_packet(self) -> Packet | None:
        """Return the next packet, or None if it is not complete.

        A wrong length or command is refused before the rest of the packet has come, so that no more than a
        packet is held.
        """
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if not 1 <= length <= LARGEST_PACKET:
            raise ProtocolError(f"a packet has {length} bytes, expected 1 to {LARGEST_PACKET}")
        end = _LENGTH.size + length
        if len(self._buffer) > _LENGTH.size and self._buffer[_LENGTH.size] not in _COMMANDS:
            raise ProtocolError("a command is not known")
        if len(self._buffer) < end:
            return None
        command, data = self._buffer[_LENGTH.size : _LENGTH.size + 1], self._buffer[_LENGTH.size + 1 : end]
        del self._buffer[:end]
        return Packet(bytes(command), bytes(data))

    @property
    def is_between_packets(self) -> bool:
        """Whether all bytes belonged to packets that were returned."""
        return not self._buffer


def read_strings(data: bytes) -> list[bytes]:
    """Read strings that end in NUL.

    >>> read_strings(b"<ann@example.org>\\0SIZE=10\\0")
    [b'<ann@example.org>', b'SIZE=10']
    """
    if not data.endswith(b"\0"):
        raise ProtocolError("a string does not end in NUL")
    return data[:-1].split(b"\0")


def read_header(data: bytes) -> tuple[bytes, bytes]:
    """Read the name and the value of a header field."""
    strings = read_strings(data)
    if len(strings) != 2:
        raise ProtocolError(f"a header field has {len(strings)} strings, expected a name and a value")
    return strings[0], strings[1]


def read_macros(data: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Read the command whose macros these are, and the macros; names have no braces.

    >>> read_macros(b"Mi\\x004711\\0{auth_type}\\0PLAIN\\0")
    (b'M', {b'i': b'4711', b'auth_type': b'PLAIN'})
    """
    if not data:
        raise ProtocolError("macros without the command that they belong to")
    strings = read_strings(data[1:]) if len(data) > 1 else []
    if len(strings) % 2 or len(strings) > 2 * _MOST_MACROS:
        raise ProtocolError(
            f"macros have {len(strings)} strings, expected pairs, and at most {_MOST_MACROS} of them"
        )
    names = (name.removeprefix(b"{").removesuffix(b"}") for name in strings[::2])
    return data[:1], dict(zip(names, strings[1::2], strict=True))


def read_client(data: bytes) -> tuple[bytes, bytes]:
    """Read the name and the address of an SMTP client; the address is empty if it is not known.

    >>> read_client(b"mail.example.org\\x004\\0\\x19192.0.2.1\\0")
    (b'mail.example.org', b'192.0.2.1')
    """
    name, separator, rest = data.partition(b"\0")
    if not separator or not rest:
        raise ProtocolError("a connection has no name or no family of its address")
    if rest[:1] not in (b"4", b"6"):
        return name, b""
    if len(rest) < 4 or not rest.endswith(b"\0") or b"\0" in rest[3:-1]:
        raise ProtocolError("a connection has no address after its port")
    return name, rest[3:-1]


def encode(command: bytes, data: bytes = b"") -> bytes:
    """Return the bytes of a packet."""
    return _LENGTH.pack(1 + len(data)) + command + data


# Decisions.
CONTINUE, ACCEPT, SKIP = encode(b"c"), encode(b"a"), encode(b"s")
DISCARD, TEMPORARY_FAILURE = encode(b"d"), encode(b"t")


def negotiate(agreed: Negotiation) -> bytes:
    """Return the answer to an offer."""
    return encode(NEGOTIATE, _NEGOTIATION.pack(agreed.version, agreed.actions, agreed.steps))


def reject(text: str) -> bytes:
    """Return the decision to reject a message with a reply of SMTP, as in `550 5.7.1 no`.

    >>> reject("550 5.7.1 100% no")
    b'\\x00\\x00\\x00\\x14y550 5.7.1 100%% no\\x00'
    """
    return encode(b"y", _to_string(text.replace("%", "%%").encode("ascii")))  # servers use it as a format


def quarantine(reason: str) -> bytes:
    """Return the change that keeps a message in quarantine."""
    return encode(b"q", _to_string(reason.encode("ascii")))


def insert_header(index: int, name: bytes, value: bytes) -> bytes:
    """Return the change that inserts a header field; index 0 is the top. Lines of a value end in LF."""
    return encode(b"i", _LENGTH.pack(index) + _to_string(name) + _to_string(value))


def add_header(name: bytes, value: bytes) -> bytes:
    """Return the change that appends a field to the header."""
    return encode(b"h", _to_string(name) + _to_string(value))


def remove_header(name: bytes, number: int) -> bytes:
    """Return the change that removes a header field; the first of its name has number 1."""
    return encode(b"m", _LENGTH.pack(number) + _to_string(name) + b"\0")


def _to_string(text: bytes) -> bytes:
    if b"\0" in text:
        raise ValueError("a string of the milter protocol has a NUL, expected none")
    return text + b"\0"
