"""Packets of the milter protocol, versions 2 to 6: bytes in, values out, and answers as bytes; no I/O.

    length    4 bytes, most significant first: bytes of all that follows
    command   1 byte
    data      strings end in NUL

The mail server begins with NEGOTIATE: its version, the actions that it allows (`Action`) and the options of
the protocol that it offers (`ProtocolOption`). The filter answers with the version, actions and options that
it chooses. From then on,

    CONNECT HELO (MAIL RECIPIENT... DATA HEADER... END_OF_HEADER BODY... END_OF_BODY | ABORT)... QUIT

each after a packet MACRO with the macros of the command, if there are any: values that the server names, such
as `i`, the id of the message in its queue. ABORT ends a message that the server drops, UNKNOWN is an SMTP
command that the server does not know. Instead of QUIT, QUIT_NEW_CONNECTION announces the mail of another SMTP
client. Each command but MACRO, ABORT and these two has an answer of one packet, unless a ProtocolOption says
that the filter does not answer it. The answer to END_OF_BODY is any number of changes and one decision.

In libmilter, Sendmail's library for filters, NEGOTIATE is SMFIC_OPTNEG, END_OF_HEADER is SMFIC_EOH,
END_OF_BODY is SMFIC_BODYEOB and RECIPIENT is SMFIC_RCPT; an `Action` is a flag SMFIF_…, and a
`ProtocolOption` a flag SMFIP_….
"""

import struct
from dataclasses import dataclass
from enum import IntFlag

# Commands of a mail server: the byte after the length. (The decisions below are whole packets.)
ABORT, BODY, CONNECT, MACRO, END_OF_BODY, HELO = b"A", b"B", b"C", b"D", b"E", b"H"
QUIT_NEW_CONNECTION, HEADER, MAIL, END_OF_HEADER, NEGOTIATE = b"K", b"L", b"M", b"N", b"O"
QUIT, RECIPIENT, DATA, UNKNOWN = b"Q", b"R", b"T", b"U"
_COMMANDS = frozenset(b"ABCDEHKLMNOQRTU")

# Servers can be configured to send up to 1 MB of data per packet; 64 bytes are added as a margin.
LARGEST_PACKET = (1 << 20) + 64
_OLDEST, _NEWEST = 2, 6  # versions of the protocol
_UINT32 = struct.Struct("!I")
_NEGOTIATION = struct.Struct("!III")
_MAX_MACROS = 100  # in one packet; servers send ten or so


class Action(IntFlag):
    """The changes that a filter may make to a message."""

    ADD_HEADERS = 0x01
    CHANGE_HEADERS = 0x10
    QUARANTINE = 0x20  # the server holds the message instead of delivering it


class ProtocolOption(IntFlag):
    """Commands that a server leaves out (NO) or a filter does not answer (SILENT), and other options."""

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


# By command: the option with which the filter does not answer it.
_SILENT = {
    HEADER: ProtocolOption.SILENT_HEADER,
    CONNECT: ProtocolOption.SILENT_CONNECT,
    HELO: ProtocolOption.SILENT_HELO,
    MAIL: ProtocolOption.SILENT_MAIL,
    RECIPIENT: ProtocolOption.SILENT_RECIPIENT,
    DATA: ProtocolOption.SILENT_DATA,
    UNKNOWN: ProtocolOption.SILENT_UNKNOWN,
    END_OF_HEADER: ProtocolOption.SILENT_END_OF_HEADER,
}
_NEVER_ANSWERED = frozenset((MACRO, ABORT, QUIT, QUIT_NEW_CONNECTION))


class ProtocolError(Exception):
    """Invalid bytes of the milter protocol.

    The error message never contains the bytes, which may be private mail.
    """


@dataclass(frozen=True, slots=True)
class Packet:
    """A command and its data."""

    command: bytes
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Negotiation:
    """The version, actions and options that a mail server offers, or that were agreed upon."""

    version: int
    actions: Action
    options: ProtocolOption

    @classmethod
    def read(cls, data: bytes) -> "Negotiation":
        """Read an offer; raise ProtocolError if it is not valid. Unknown actions and options are left out."""
        if len(data) < _NEGOTIATION.size:
            raise ProtocolError(f"an offer has {len(data)} bytes, expected at least {_NEGOTIATION.size}")
        version, actions, options = _NEGOTIATION.unpack_from(data)
        if version < _OLDEST:
            raise ProtocolError(f"the protocol version is {version}, expected {_OLDEST} or later")
        return cls(
            min(version, _NEWEST), Action(actions & _ALL_ACTIONS), ProtocolOption(options & _ALL_OPTIONS)
        )

    def is_answered(self, command: bytes) -> bool:
        """Whether the server waits for an answer to a command."""
        return command not in _NEVER_ANSWERED and not self.options & _SILENT.get(command, 0)


_ALL_ACTIONS = sum(Action)
_ALL_OPTIONS = sum(ProtocolOption)


class PacketReader:
    """Splits the bytes of a connection into packets.

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

        Raise ProtocolError for a wrong length or command before the rest of the packet has come, so that the
        memory holds no more than one packet.
        """
        if len(self._buffer) < _UINT32.size:
            return None
        (length,) = _UINT32.unpack_from(self._buffer)
        if not 1 <= length <= LARGEST_PACKET:
            raise ProtocolError(f"a packet has {length} bytes, expected 1 to {LARGEST_PACKET}")
        end = _UINT32.size + length
        if len(self._buffer) > _UINT32.size and self._buffer[_UINT32.size] not in _COMMANDS:
            raise ProtocolError("a command is not known")
        if len(self._buffer) < end:
            return None
        command, data = self._buffer[_UINT32.size : _UINT32.size + 1], self._buffer[_UINT32.size + 1 : end]
        del self._buffer[:end]
        return Packet(bytes(command), bytes(data))


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
    """Return the command that the macros belong to, and the macros; braces around names are removed.

    >>> read_macros(b"Mi\\x004711\\0{auth_type}\\0PLAIN\\0")
    (b'M', {b'i': b'4711', b'auth_type': b'PLAIN'})
    """
    if not data:
        raise ProtocolError("macros without the command that they belong to")
    strings = read_strings(data[1:]) if len(data) > 1 else []
    if len(strings) % 2 or len(strings) > 2 * _MAX_MACROS:
        raise ProtocolError(
            f"macros have {len(strings)} strings, expected pairs, and at most {_MAX_MACROS} of them"
        )
    names = (name.removeprefix(b"{").removesuffix(b"}") for name in strings[::2])
    return data[:1], dict(zip(names, strings[1::2], strict=True))


def read_client(data: bytes) -> tuple[bytes, bytes]:
    """Read the name and the address of an SMTP client; the address is empty if it is not known.

    Between them are the family of the address, 4 or 6 for IPv4 or IPv6, and two bytes for the port.

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
    return _UINT32.pack(1 + len(data)) + command + data


# Decisions, as whole packets. (CONTINUE answers other commands, too: the server goes on. SKIP answers BODY:
# the server sends no more of the body.)
CONTINUE, ACCEPT, SKIP = encode(b"c"), encode(b"a"), encode(b"s")
DISCARD, TEMPORARY_FAILURE = encode(b"d"), encode(b"t")


def encode_negotiation(agreed: Negotiation) -> bytes:
    """Return the answer to a server's offer."""
    return encode(NEGOTIATE, _NEGOTIATION.pack(agreed.version, agreed.actions, agreed.options))


def encode_rejection(text: str) -> bytes:
    """Return the decision to reject a message with an SMTP reply, such as `550 5.7.1 no`.

    >>> encode_rejection("550 5.7.1 100% no")
    b'\\x00\\x00\\x00\\x14y550 5.7.1 100%% no\\x00'
    """
    # Percent signs are doubled, because servers pass the text to printf.
    return encode(b"y", _to_string(text.replace("%", "%%").encode("ascii")))


def encode_quarantine(reason: str) -> bytes:
    """Return the change by which the server holds a message instead of delivering it."""
    return encode(b"q", _to_string(reason.encode("ascii")))


def encode_insert_header(index: int, name: bytes, value: bytes) -> bytes:
    """Return the change that inserts a header field; index 0 is the top. Lines of a value end in LF."""
    return encode(b"i", _UINT32.pack(index) + _to_string(name) + _to_string(value))


def encode_add_header(name: bytes, value: bytes) -> bytes:
    """Return the change that appends a field to the header."""
    return encode(b"h", _to_string(name) + _to_string(value))


def encode_remove_header(name: bytes, number: int) -> bytes:
    """Return the change that removes a header field; the first field of its name has number 1."""
    return encode(b"m", _UINT32.pack(number) + _to_string(name) + b"\0")


def _to_string(text: bytes) -> bytes:
    if b"\0" in text:
        raise ValueError("a string of the milter protocol has a NUL, expected none")
    return text + b"\0"
