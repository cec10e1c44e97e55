"""Assemble the messages of one milter connection, and answer its commands; no I/O.

The session answers each command itself, but for the end of a message that is not exempt from being judged:
`Session.feed` then yields the message, and the caller decides on it.

A message is assembled byte for byte as the mail server has it, with CR LF as line ends. These are the
differences:

- The server does not send its own Received field. (`trace.py` makes one like it.)
- Of a field, it sends neither the blanks between name and colon nor the bytes after a NUL.
- A server that does not offer LEADING_SPACE removes one space after the colon. Nearly all mail has a space
  there, so one is added, unless the value begins with a tab or a line end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tamis_mail.surfaces.milter import codec
from tamis_mail.surfaces.milter.codec import (
    Action,
    Negotiation,
    Packet,
    PacketReader,
    ProtocolError,
    ProtocolOption,
)
from tamis_mail.verdict.header_fields import has_verdict_name

# With all of these options, the server waits after the negotiation for an answer to two commands only: BODY,
# so that the filter can skip the rest of a large message, and END_OF_BODY. The commands of NO_ are not sent
# (UNKNOWN reports an unknown SMTP command), and those of SILENT_ are not answered. A server that does not
# offer an option gets more answers.
_OPTIONS = (
    ProtocolOption.NO_END_OF_HEADER
    | ProtocolOption.NO_UNKNOWN
    | ProtocolOption.NO_DATA
    | ProtocolOption.SKIP
    | ProtocolOption.SILENT_CONNECT
    | ProtocolOption.SILENT_HELO
    | ProtocolOption.SILENT_MAIL
    | ProtocolOption.SILENT_RECIPIENT
    | ProtocolOption.SILENT_HEADER
    | ProtocolOption.LEADING_SPACE
)
# The macros (values that the server names) that fill an `Envelope`: i is the id of the message in its queue,
# and j the name of the server.
_MACROS = frozenset((b"i", b"j", b"auth_type", b"tls_version"))
# The macros of these commands hold for all messages of an SMTP client.
_CLIENT_COMMANDS = frozenset((codec.CONNECT, codec.HELO))
# Bytes of a host name and of a macro's value, which are cut off there, and of the name of an `OldField`.
_LONGEST_NAME = 255
_LONGEST_ADDRESS = 320  # bytes of a recipient
_MAX_OLD_FIELDS = 100  # of a message that are kept; to rename one, a server searches it from the top
# Bytes of the value of an `OldField`, and of all such values of a message; a longer value is not kept. By
# default, mail servers and filters send packets of at most 65,535 bytes.
_LONGEST_OLD_FIELD, _OLD_BYTES = 60_000, 400_000


@dataclass(frozen=True, slots=True)
class Envelope:
    """The envelope that a mail server sends with a message; fields that it does not send are empty."""

    client_name: bytes = b""
    client_address: bytes = b""
    helo: bytes = b""
    server: bytes = b""  # the name of the mail server
    queue_id: bytes = b""
    tls_version: bytes = b""
    auth_type: bytes = b""  # how the client logged in
    recipient: bytes = b""  # empty if there are several, or if the address is longer than _LONGEST_ADDRESS
    n_recipients: int = 0


@dataclass(frozen=True, slots=True)
class OldField:
    """A field of the message, as it came, with a name that filters give to verdicts (X-Spam-Status, …)."""

    name: bytes
    number: int  # the first field of its name has number 1
    value: bytes | None  # None if it is too long to be kept; the field then cannot be renamed


@dataclass(frozen=True, slots=True)
class Message:
    """A message that waits for a decision."""

    raw: bytes | None  # None if the message is larger than the limit
    size: int
    envelope: Envelope
    old_fields: tuple[OldField, ...]  # the first _MAX_OLD_FIELDS of them
    n_old_fields: int  # the number of all of them whose name has at most _LONGEST_NAME bytes


@dataclass(slots=True)
class _Draft:
    """The part of a message that has come so far."""

    content: bytearray = field(default_factory=bytearray)  # empty if the message is larger than the limit
    size: int = 0
    has_body: bool = False  # its body has begun
    is_exempt: bool = False  # it is accepted without a verdict
    recipient: bytes = b""
    n_recipients: int = 0
    old_fields: list[OldField] = field(default_factory=list)
    n_old_fields: int = 0
    old_bytes: int = 0  # of the values of `old_fields`


class Session:
    """One milter connection of a mail server, with any number of messages, perhaps of several SMTP clients.

    `agreed` is the result of the negotiation with the server. If `is_exempt` returns True for the envelope of
    a message, it is accepted unchanged, and its body is not read. A message of more than `largest` bytes is
    not kept. `actions` are the changes that the filter wants to make.
    """

    def __init__(
        self, largest: int, actions: Action, is_exempt: Callable[[Envelope], bool] = lambda envelope: False
    ) -> None:
        self.agreed = Negotiation(0, Action(0), ProtocolOption(0))
        self.is_ended = False
        self._largest = largest
        self._actions = actions
        self._is_exempt = is_exempt
        self._packets = PacketReader()
        self._macros: dict[bytes, dict[bytes, bytes]] = {}
        self._client = (b"", b"")  # its name and address
        self._helo = b""
        self._draft = _Draft()

    def feed(self, data: bytes) -> Iterator[bytes | Message]:
        """Take the next bytes, and yield answers to send and messages to decide on, in order.

        The caller sends the decision on a message before it takes the next item. Raise ProtocolError if the
        bytes are not valid.
        """
        self._packets.feed(data)
        while not self.is_ended and (packet := self._packets.take_packet()) is not None:
            answer = self._handle(packet)
            if answer is not None:
                yield answer

    def _handle(self, packet: Packet) -> bytes | Message | None:
        command = packet.command
        if command == codec.NEGOTIATE:
            return self._negotiate(Negotiation.read(packet.data))
        if not self.agreed.version:
            raise ProtocolError("the first packet is not the offer of a mail server")
        if command == codec.END_OF_BODY:
            return self._end_message(packet.data)
        if command == codec.BODY:
            return self._take_body(packet.data)
        if command == codec.MACRO:
            self._take_macros(packet.data)
        elif command == codec.CONNECT:
            name, address = codec.read_client(packet.data)
            self._client = name[:_LONGEST_NAME], address[:_LONGEST_NAME]
        elif command == codec.HELO:
            self._helo = codec.read_strings(packet.data)[0][:_LONGEST_NAME]
        elif command == codec.MAIL:
            codec.read_strings(packet.data)
            self._draft = _Draft()
        elif command == codec.RECIPIENT:
            recipient = codec.read_strings(packet.data)[0]
            self._draft.recipient = recipient if len(recipient) <= _LONGEST_ADDRESS else b""
            self._draft.n_recipients += 1
        elif command == codec.HEADER:
            self._take_header(packet.data)
        elif command == codec.ABORT:
            self._forget_message()
        elif command == codec.QUIT_NEW_CONNECTION:
            self._forget_message()
            self._macros, self._client, self._helo = {}, (b"", b""), b""
        elif command == codec.QUIT:
            self.is_ended = True
        return codec.CONTINUE if self.agreed.is_answered(command) else None

    def _negotiate(self, offer: Negotiation) -> bytes:
        self.agreed = Negotiation(offer.version, offer.actions & self._actions, offer.options & _OPTIONS)
        return codec.encode_negotiation(self.agreed)

    def _take_macros(self, data: bytes) -> None:
        command, macros = codec.read_macros(data)
        self._macros[command] = {
            name: value[:_LONGEST_NAME] for name, value in macros.items() if name in _MACROS
        }

    def _take_header(self, data: bytes) -> None:
        name, value = codec.read_header(data)
        if len(name) <= _LONGEST_NAME and has_verdict_name(name):
            self._take_old_field(name, value)
        has_space = self.agreed.options & ProtocolOption.LEADING_SPACE
        space = b"" if has_space or value.startswith((b"\t", b"\n", b"\r\n")) else b" "
        lines = value.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        self._add(b"".join((name, b":", space, lines, b"\r\n")))

    def _take_old_field(self, name: bytes, value: bytes) -> None:
        draft = self._draft
        draft.n_old_fields += 1
        if len(draft.old_fields) < _MAX_OLD_FIELDS:
            number = 1 + sum(old.name.lower() == name.lower() for old in draft.old_fields)
            is_kept = len(value) <= min(_LONGEST_OLD_FIELD, _OLD_BYTES - draft.old_bytes)
            draft.old_bytes += len(value) if is_kept else 0
            draft.old_fields.append(OldField(name, number, value if is_kept else None))

    def _take_body(self, data: bytes) -> bytes:
        if self._draft.is_exempt or self._is_exempt(self._make_envelope()):
            self._forget_message()
            self._draft.is_exempt = True  # the server may still send more of this message
            return codec.ACCEPT
        self._add_body(data)
        is_large = self._draft.size > self._largest
        return codec.SKIP if is_large and self.agreed.options & ProtocolOption.SKIP else codec.CONTINUE

    def _add_body(self, data: bytes) -> None:
        if not self._draft.has_body:
            self._draft.has_body = True
            self._add(b"\r\n")
        self._add(data)

    def _add(self, data: bytes) -> None:
        """Add bytes to the message; if it becomes larger than the limit, none of its bytes are kept."""
        draft = self._draft
        draft.size += len(data)
        if draft.size > self._largest:
            draft.content.clear()
        else:
            draft.content += data

    def _end_message(self, data: bytes) -> bytes | Message:
        envelope = self._make_envelope()
        if self._draft.is_exempt or self._is_exempt(envelope):
            self._forget_message()
            return codec.ACCEPT
        self._add_body(data)
        draft = self._draft
        raw = bytes(draft.content) if draft.size <= self._largest else None
        self._forget_message()
        return Message(raw, draft.size, envelope, tuple(draft.old_fields), draft.n_old_fields)

    def _forget_message(self) -> None:
        self._draft = _Draft()
        self._macros = {
            command: macros for command, macros in self._macros.items() if command in _CLIENT_COMMANDS
        }

    def _make_envelope(self) -> Envelope:
        macros: dict[bytes, bytes] = {}
        for macros_of_command in self._macros.values():
            macros |= macros_of_command
        draft = self._draft
        return Envelope(
            client_name=self._client[0],
            client_address=self._client[1],
            helo=self._helo,
            server=macros.get(b"j", b""),
            queue_id=macros.get(b"i", b""),
            tls_version=macros.get(b"tls_version", b""),
            auth_type=macros.get(b"auth_type", b""),
            recipient=draft.recipient if draft.n_recipients == 1 else b"",
            n_recipients=draft.n_recipients,
        )
