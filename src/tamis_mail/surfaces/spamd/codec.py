"""Requests and answers of the spamd protocol: bytes in, values out; no I/O.

    CHECK SPAMC/1.5            the method, and the version of the protocol
    Content-length: 1234       bytes after the empty line; without it, all until the end of the stream
    User: ann                  unknown fields are ignored

    <message>

The method says what the answer has:

    CHECK            whether the message is spam, with its score
    SYMBOLS          the same, and the names of the rules that matched
    REPORT           the same as CHECK, and a text that explains it; with REPORT_IFSPAM only if it is spam
    PROCESS          the same as CHECK, and the message with the verdict in its header; HEADERS has no body
    TELL             whether the message was learned (fields Set, Message-class) or forgotten (Remove)
    PING, SKIP       there is no message: the answer is PONG; there is no answer

Lines end in CR LF. The answer is `SPAMD/1.1 0 EX_OK`, header fields, an empty line and often a body. A code
other than 0 reports an error, after which spamc passes the message on unchanged: 79 is SpamAssassin's own,
the others are those of sysexits.h.

The answer depends on the version of the client, as SpamAssassin's answer does: Exim sends 1.2, and does not
understand a report with a Content-length.

    before 1.1   the request has no fields, and the message follows the first line
    before 1.2   the answer to PROCESS and HEADERS has no fields
    before 1.3   the answer has a Spam field or a Content-length, never both
    before 1.5   PING and SKIP are requests of one line
"""

import re
import zlib
from dataclasses import dataclass, field

METHODS = frozenset(  # of requests
    ("CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "PROCESS", "HEADERS", "TELL", "PING", "SKIP")
)
METHODS_WITHOUT_MESSAGE = frozenset(("PING", "SKIP"))
# The names of the codes of an answer.
CODE_NAMES = {0: "EX_OK", 64: "EX_USAGE", 65: "EX_DATAERR", 69: "EX_UNAVAILABLE", 70: "EX_SOFTWARE"}
CODE_NAMES |= {74: "EX_IOERR", 75: "EX_TEMPFAIL", 76: "EX_PROTOCOL", 77: "EX_NOPERM", 79: "EX_TIMEOUT"}
USAGE, DATA_ERROR, UNAVAILABLE, TEMPORARY, PROTOCOL, TIMEOUT = 64, 65, 69, 75, 76, 79
# SpamAssassin's answers have these versions, too: 1.5 to PING, 1.0 with an error, 1.1 for all others.
PONG = b"SPAMD/1.5 0 PONG\r\n"
MARKING_METHODS = frozenset(("PROCESS", "HEADERS"))  # they return the marked message, or its header

_OK = "SPAMD/1.1 0 EX_OK"
_LARGEST_HEAD = 8192  # bytes of the request line and the header fields
_MAX_FIELDS = 100
_LONGEST_LINE = 64  # bytes of a first line that is searched for a request of one line
_FIRST_LINE = re.compile(rb"([A-Z_]{1,20}) SPAMC/(\d{1,3})\.(\d{1,3})[ \t]*\r?")
_FIELD = re.compile(rb"([A-Za-z0-9-]{1,100})[ \t]*:[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")


class ProtocolError(Exception):
    """A request that is refused: the code of the answer, and a sentence for the answer and the log.

    The answer also quotes `given`, the part of the request that is wrong. The sentence does not, because it
    is logged, and that part may be mail.
    """

    def __init__(self, code: int, sentence: str, given: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.given = given


@dataclass(frozen=True, slots=True)
class Request:
    """A request; names of fields are in lower case."""

    method: str
    fields: dict[str, str] = field(default_factory=dict)
    message: bytes = b""
    version: tuple[int, int] = (1, 5)

    @property
    def user(self) -> str:
        """The user that the client names; empty if it names none."""
        return self.fields.get("user", "")


class RequestReader:
    """Collects the bytes of one request.

    >>> reader = RequestReader(largest=1000)
    >>> reader.feed(b"CHECK SPAMC/1.2\\r\\nContent-length: 2\\r\\n\\r\\nh")
    >>> reader.feed(b"i").message
    b'hi'
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._head = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._method = ""
        self._version = (1, 5)
        self._fields: dict[str, str] = {}
        self._length: int | None = None

    def feed(self, data: bytes) -> Request | None:
        """Take the next bytes; return the request once it is complete. Bytes after it are ignored.

        Raise ProtocolError if it is not valid or too large.
        """
        if not self._method:
            rest = self._take_head(data)
            if rest is None:
                return None
            if self._method in METHODS_WITHOUT_MESSAGE:
                return Request(self._method, self._fields, b"", self._version)
            data = rest
        self._parts.append(data)
        self._size += len(data)
        if self._length is None:
            self._refuse_larger(self._size)
            return None
        return self._finish() if self._size >= self._length else None

    def end(self) -> Request | None:
        """Return the request after the last bytes of the client; None if it has sent nothing.

        Raise ProtocolError if the request is not complete.
        """
        if not self._method:
            if not self._head:
                return None
            raise ProtocolError(PROTOCOL, "the request ended before the empty line after its fields")
        if self._length is not None and self._size < self._length:
            raise ProtocolError(
                PROTOCOL, f"Content-length says {self._length} bytes, and {self._size} bytes were sent"
            )
        return self._finish()

    def _take_head(self, data: bytes) -> bytes | None:
        """Take the bytes of the head; return the bytes after it, or None if the head is not complete."""
        searched = max(0, len(self._head) - 3)
        self._head += data
        ends = [(self._head.find(mark, searched), len(mark)) for mark in (b"\r\n\r\n", b"\n\n")]
        ends = [end for end in ends if end[0] >= 0]
        end, length = min(ends) if ends else (-1, 0)
        if (line := self._head.find(b"\n", 0, _LONGEST_LINE)) >= 0 and _is_one_line(bytes(self._head[:line])):
            end, length = line, 1
        if end > _LARGEST_HEAD or (end < 0 and len(self._head) > _LARGEST_HEAD):
            raise ProtocolError(PROTOCOL, f"the head of the request is longer than {_LARGEST_HEAD} bytes")
        if end < 0:
            return None
        head, rest = bytes(self._head[:end]), bytes(self._head[end + length :])
        self._read_head(head)
        return rest

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.replace(b"\r\n", b"\n").split(b"\n")
        parts = _FIRST_LINE.fullmatch(first)
        if parts is None:
            raise ProtocolError(
                PROTOCOL, "the first line is not a request: expected METHOD SPAMC/1.5", _quote(first)
            )
        method = parts[1].decode("ascii")
        if method not in METHODS:
            raise ProtocolError(PROTOCOL, "the method is not known", method)
        if len(lines) > _MAX_FIELDS:
            raise ProtocolError(PROTOCOL, f"the request has more than {_MAX_FIELDS} fields")
        fields: dict[str, str] = {}
        for line in lines:
            entry = _FIELD.fullmatch(line)
            if entry is None:
                raise ProtocolError(
                    PROTOCOL, "a line of the request is not a field: expected Name: value", _quote(line)
                )
            fields[entry[1].decode("ascii").lower()] = entry[2].decode("utf-8", "replace").strip()
        length = fields.get("content-length")
        if length is not None:
            if not (length.isascii() and length.isdigit() and len(length) <= 12):
                raise ProtocolError(PROTOCOL, "Content-length is not a number of bytes", length[:40])
            self._length = int(length)
            self._refuse_larger(self._length)
        self._method, self._fields, self._version = method, fields, (int(parts[2]), int(parts[3]))

    def _refuse_larger(self, size: int) -> None:
        if size > self._largest:
            raise ProtocolError(DATA_ERROR, f"the message is larger than {self._largest} bytes")

    def _finish(self) -> Request:
        message = b"".join(self._parts)
        if self._length is not None:
            message = message[: self._length]
        compression = self._fields.get("compress", "").lower()
        if compression == "zlib":
            message = self._decompress(message)
        elif compression:
            raise ProtocolError(PROTOCOL, "Compress is not known: expected zlib", compression[:40])
        return Request(self._method, self._fields, message, self._version)

    def _decompress(self, data: bytes) -> bytes:
        """Decompress a message; refuse it, without decompressing the rest, if it exceeds the limit."""
        decompressor = zlib.decompressobj()
        try:
            message = decompressor.decompress(data, self._largest + 1)
        except zlib.error:
            raise ProtocolError(
                DATA_ERROR, "the message is not compressed by zlib, as Compress says"
            ) from None
        self._refuse_larger(len(message))
        if not decompressor.eof:
            raise ProtocolError(DATA_ERROR, "the compressed message is not complete")
        return message


def _is_one_line(first: bytes) -> bool:
    """Whether a request has no header fields: it ends with its first line, or its message follows there."""
    parts = _FIRST_LINE.fullmatch(first)
    if parts is None:
        return False
    version = (int(parts[2]), int(parts[3]))
    return version < (1, 1) or (version < (1, 5) and parts[1].decode("ascii") in METHODS_WITHOUT_MESSAGE)


def answer_verdict(
    request: Request, *, is_spam: bool, score: float, required: float, body: bytes | None
) -> bytes:
    """Return the answer to a request for a verdict, with its fields in the order that clients expect.

    `required` is the score from which mail is spam.

    >>> answer_verdict(Request("CHECK"), is_spam=True, score=7.1, required=2.94, body=None)
    b'SPAMD/1.1 0 EX_OK\\r\\nSpam: True ; 7.1 / 2.9\\r\\n\\r\\n'
    """
    words = ("No", "Yes") if request.method == "REPORT_IFSPAM" else ("False", "True")
    threshold = round(required, 1)
    # Exim compares the two numbers: they must agree with the verdict after rounding, too.
    rounded = max(round(score, 1), threshold) if is_spam else min(round(score, 1), threshold - 0.1)
    spam = f"Spam: {words[is_spam]} ; {rounded:.1f} / {threshold:.1f}"
    version, is_marked = request.version, request.method in MARKING_METHODS
    if is_marked and version < (1, 2):
        return f"{_OK}\r\n".encode("ascii") + (body or b"")
    lines = [_OK]
    if body is not None and (version >= (1, 3) or is_marked):
        lines.append(f"Content-length: {len(body)}")
    if version >= (1, 3) or not is_marked:
        lines.append(spam)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + (body or b"")


def answer_learning(field_name: str = "") -> bytes:
    """Return the answer to TELL with the field DidSet or DidRemove, or with neither if nothing was changed.

    The value "local" of the field means the filter that was asked, and not a network that collects spam.

    >>> answer_learning("DidSet")
    b'SPAMD/1.1 0 EX_OK\\r\\nDidSet: local\\r\\n\\r\\n'
    """
    lines = [_OK, f"{field_name}: local"] if field_name else [_OK]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def answer_error(code: int, sentence: str, given: str = "") -> bytes:
    """Return an answer that reports an error.

    >>> answer_error(76, "the method is not known", "FOO")
    b"SPAMD/1.0 76 EX_PROTOCOL the method is not known (got 'FOO')\\r\\n"
    """
    line = " ".join((sentence + (f" (got {given!r})" if given else "")).split())[:400]
    return f"SPAMD/1.0 {code} {CODE_NAMES[code]} {line}\r\n".encode("ascii", "replace")


def find_body(message: bytes) -> int:
    """Return the index at which spamc expects the body, which it appends itself to the answer to HEADERS.

    >>> find_body(b"Subject: a\\n\\nb")
    12
    """
    ends = [message.find(mark) + len(mark) for mark in (b"\n\n", b"\r\n\r\n") if mark in message]
    return min(ends, default=len(message))


def _quote(line: bytes) -> str:
    return line[:40].decode("ascii", "replace")
