"""Both sides of LMTP (RFC 2033): bytes in, values out; no I/O.

    LHLO mail.example.org           a client's commands, one per line
    MAIL FROM:<ann@example.net>
    RCPT TO:<bob@example.org>
    DATA
    <message>
    .

Each command gets a reply: three digits and text, on one line or several. The end of the message gets a reply
for each recipient that was accepted, which is what LMTP adds to SMTP.

Lines of a client and of a message end in CR LF and in nothing else; only replies may end in a bare LF. A lone
dot between line ends of other kinds belongs to the message: a server that took it for the end would read the
rest of the message as commands, which the sender can choose ("SMTP smuggling"). Dovecot 2.3 (an IMAP server,
which takes mail by LMTP) is such a server. So the service (`service.py`) sends a message with bare line ends
by BDAT (RFC 3030), which states its length. If the next hop does not offer BDAT, the service refuses messages
with such a dot.
"""

import re
from dataclasses import dataclass

_LONGEST_COMMAND = 4096  # bytes; RFC 5321 has 512, and its extensions add some hundreds
_LONGEST_REPLY_LINE = 4096  # bytes; the limit of RFC 5321 is 512
_MAX_REPLY_LINES = 100
_END = b"\r\n.\r\n"  # of a message sent by DATA
_COMMAND = re.compile(rb"([A-Za-z]{1,16})(?: (.*))?", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_REPLY = re.compile(rb"([2-5]\d\d)(?:([ -])(.*))?", re.DOTALL)
# What follows MAIL or RCPT: the address in angle brackets, and parameters.
_PATH = re.compile(rb"(?:FROM|TO):[ ]?<([^<>]*)>(?: .*)?", re.IGNORECASE | re.DOTALL)
_LONE_DOTS = (b"\n.\n", b"\n.\r", b"\r.\n", b"\r.\r")  # some servers take one of these for the end


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its verb in upper case, what follows the verb, and the line without its end."""

    verb: str
    argument: bytes
    line: bytes


@dataclass(frozen=True, slots=True)
class BadLine:
    """Says of a line why it is not a command; the line itself is skipped."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Content:
    """A part of a message."""

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The end of a message."""


class CommandReader:
    """Reads what a client sends: commands, and after `expect_content` a message.

    >>> reader = CommandReader()
    >>> reader.feed(b"DATA\\r\\n")
    >>> reader.read_event().verb
    'DATA'
    >>> reader.expect_content()
    >>> reader.feed(b"..\\r\\nb\\n.\\n\\r\\n.\\r\\nQUIT\\r\\n")
    >>> reader.read_event(), reader.read_event(), reader.read_event().verb
    (Content(data=b'.\\r\\nb\\n.\\n\\r\\n'), End(), 'QUIT')
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._is_content = False  # whether the next bytes are those of a message
        self._has_end = False  # the end of the message was read, and is the next event
        self._n_skipped = 0  # bytes at the start of the buffer that are not part of the message
        self._n_searched = 0  # bytes at the start of the buffer in which no line end was found
        self._is_line_too_long = False  # the first bytes of the command were dropped

    @property
    def has_pending(self) -> bool:
        """Whether bytes have come that no event was made of yet."""
        return len(self._buffer) > self._n_skipped

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._buffer += data

    def expect_content(self) -> None:
        """Read the next bytes as a message, until its end, and not as commands."""
        self._is_content = True
        self._buffer[:0] = b"\r\n"  # the first line begins after a line end, as the others do
        self._n_skipped = 2

    def read_event(self) -> Command | BadLine | Content | End | None:
        """Return the next command, or a part or the end of a message; None if more bytes are needed."""
        if self._has_end:
            self._has_end = False
            return End()
        return self._read_content() if self._is_content else self._read_command()

    def _read_content(self) -> Content | End | None:
        end = self._buffer.find(_END)
        if end >= 0:
            data = self._take_content(end + 2)  # the line end before the dot is part of the message
            del self._buffer[: len(_END) - 2]
            self._is_content, self._n_skipped = False, 0
            self._has_end = bool(data)
            return Content(data) if data else End()
        # The last bytes may be the beginning of _END.
        n_kept = next((n for n in (4, 3, 2, 1) if self._buffer.endswith(_END[:n])), 0)
        data = self._take_content(len(self._buffer) - n_kept)
        return Content(data) if data else None

    def _take_content(self, length: int) -> bytes:
        """Take bytes of the message out of the buffer, and remove the dots that the client has doubled."""
        if not length:
            return b""
        data = bytes(self._buffer[:length]).replace(b"\r\n.", b"\r\n")[self._n_skipped :]
        del self._buffer[:length]
        self._n_skipped = 0
        return data

    def _read_command(self) -> Command | BadLine | None:
        end = self._buffer.find(b"\r\n", max(0, self._n_searched - 1))
        if end < 0:
            if len(self._buffer) > _LONGEST_COMMAND + 1:  # the last byte may be a CR
                self._is_line_too_long = True
                del self._buffer[:-1]
            self._n_searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        self._n_searched = 0
        if self._is_line_too_long or end > _LONGEST_COMMAND:
            self._is_line_too_long = False
            return BadLine(f"the line is longer than {_LONGEST_COMMAND} bytes")
        return _parse_command(line)


def _parse_command(line: bytes) -> Command | BadLine:
    if _CONTROL.search(line):
        return BadLine("the line has a control character; lines end in CR LF")
    parts = _COMMAND.fullmatch(line.rstrip(b" "))
    if parts is None:
        return BadLine("the line is not a command")
    return Command(parts[1].decode("ascii").upper(), parts[2] or b"", line)


def read_path(command: Command) -> bytes | None:
    """Return the address of a command MAIL or RCPT; None if it has none in angle brackets.

    >>> read_path(Command("RCPT", b"TO:<ann@example.org> NOTIFY=NEVER", b""))
    b'ann@example.org'
    """
    path = _PATH.fullmatch(command.argument)
    return path[1] if path else None


class AmbiguousDotError(Exception):
    """The message has a lone dot between two line ends, of which the first one is not CR LF."""


class ContentWriter:
    """Writes a message for DATA, part by part: dots at the start of a line are doubled, and a dot ends it.

    >>> writer = ContentWriter()
    >>> writer.write(b".a\\r\\n") + writer.write(b".\\r\\n") + writer.end()
    b'..a\\r\\n..\\r\\n.\\r\\n'
    """

    def __init__(self) -> None:
        self._last_two = b"\r\n"  # bytes that were sent; at first, as after the end of a line

    def write(self, data: bytes) -> bytes:
        """Return a part as it is sent; raise AmbiguousDotError if it has a lone dot of `_LONE_DOTS`."""
        text = (self._last_two + data).replace(b"\r\n.", b"\r\n..")
        # After CR LF a dot is never alone: it was doubled.
        if any(dot in text for dot in _LONE_DOTS):
            raise AmbiguousDotError
        sent = text[len(self._last_two) :]
        self._last_two = text[-2:]
        return sent

    def end(self) -> bytes:
        """Return the end of the message; a last line without a line end gets one."""
        return b".\r\n" if self._last_two.endswith(b"\r\n") else _END


def has_bare_line_ends(message: bytes) -> bool:
    """Whether a CR or LF is not part of a CR LF; only some programs take it for a line end."""
    n_ends = message.count(b"\r\n")
    return message.count(b"\n") != n_ends or message.count(b"\r") != n_ends


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: its code, and its lines without the code.

    >>> Reply(550, (b"5.1.1 no such user", b"ask ann")).encode()
    b'550-5.1.1 no such user\\r\\n550 ask ann\\r\\n'
    """

    code: int
    lines: tuple[bytes, ...]

    @property
    def is_positive(self) -> bool:
        return 200 <= self.code < 300

    def encode(self) -> bytes:
        """Return the reply as it is sent."""
        last = len(self.lines) - 1
        return b"".join(
            b"%d%s%s\r\n" % (self.code, b" " if number == last else b"-", line)
            for number, line in enumerate(self.lines)
        )


class ReplyError(Exception):
    """The next hop sent bytes that are not a reply."""


class ReplyReader:
    """Reads the replies of a server.

    >>> reader = ReplyReader()
    >>> reader.feed(b"250-2.1.5 fine\\r\\n250 really\\r\\n2")
    >>> reader.read_reply(), reader.read_reply()
    (Reply(code=250, lines=(b'2.1.5 fine', b'really')), None)
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._code = 0  # of the reply that is being read
        self._lines: list[bytes] = []  # its lines so far

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._buffer += data

    def read_reply(self) -> Reply | None:
        """Return the next reply; None if more bytes are needed."""
        while True:
            end = self._buffer.find(b"\n")
            line = bytes(self._buffer[: end if end >= 0 else None]).removesuffix(b"\r")
            if len(line) > _LONGEST_REPLY_LINE:
                raise ReplyError(f"a line of a reply is longer than {_LONGEST_REPLY_LINE} bytes")
            if end < 0:
                return None
            del self._buffer[: end + 1]
            parts = _REPLY.fullmatch(line)
            if parts is None or (self._lines and int(parts[1]) != self._code):
                raise ReplyError("a line is not a reply: expected three digits and text")
            self._code = int(parts[1])
            self._lines.append(_CONTROL.sub(b"?", parts[3] or b""))
            if len(self._lines) > _MAX_REPLY_LINES:
                raise ReplyError(f"a reply has more than {_MAX_REPLY_LINES} lines")
            if parts[2] != b"-":
                lines, self._lines = tuple(self._lines), []
                return Reply(self._code, lines)


def read_extensions(reply: Reply) -> dict[str, str]:
    """Return the extensions that a server offers in its reply to LHLO: parameters by name.

    >>> read_extensions(Reply(250, (b"mail.example.org", b"SIZE 1000", b"pipelining")))
    {'SIZE': '1000', 'PIPELINING': ''}
    """
    words = [line.decode("ascii", "replace").split(None, 1) for line in reply.lines[1:]]
    return {parts[0].upper(): parts[1] if len(parts) > 1 else "" for parts in words if parts}
