"""Requests and answers of the spamd protocol: bytes in, values out; no I/O.

    CHECK SPAMC/1.5            or SYMBOLS, REPORT, REPORT_IFSPAM, PROCESS, HEADERS, TELL, PING or SKIP
    Content-length: 1234       bytes after the empty line; without it, all until the end of the stream
    User: ann                  fields with other names are ignored

    <message>

Lines end in CR LF. The answer is `SPAMD/1.5 0 EX_OK`, header fields, an empty line and often a body. A code
other than 0 is one of sysexits.h; spamc then passes the message on unchanged.
"""

import re
import zlib
from dataclasses import dataclass, field

__all__ = ["METHODS", "ProtocolError", "Request", "RequestReader", "answer", "answer_error"]

METHODS = frozenset(
    ("CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "PROCESS", "HEADERS", "TELL", "PING", "SKIP")
)
WITHOUT_MESSAGE = frozenset(("PING", "SKIP"))
NAMES = {0: "EX_OK", 64: "EX_USAGE", 65: "EX_DATAERR", 69: "EX_UNAVAILABLE", 70: "EX_SOFTWARE"}
NAMES |= {74: "EX_IOERR", 75: "EX_TEMPFAIL", 76: "EX_PROTOCOL", 77: "EX_NOPERM", 79: "EX_TIMEOUT"}
USAGE, DATA_ERROR, TEMPORARY, PROTOCOL = 64, 65, 75, 76

_VERSION = "SPAMD/1.5"
_LARGEST_HEAD = 8192  # bytes of the request line and the header fields
_MOST_FIELDS = 100
_FIRST_LINE = re.compile(rb"([A-Z_]{1,20}) SPAMC/(\d{1,3})\.(\d{1,3})")
_FIELD = re.compile(rb"([A-Za-z0-9-]{1,100})[ \t]*:[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")


class ProtocolError(Exception):
    """What a client sent is no request: the code of the answer, and one sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True, slots=True)
class Request:
    """A request; names of fields are in lower case."""

    method: str
    fields: dict[str, str] = field(default_factory=dict)
    message: bytes = b""

    @property
    def user(self) -> str:
        """The user whose mail it is, as the client says; empty if it does not."""
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
        self._fields: dict[str, str] = {}
        self._length: int | None = None

    def feed(self, data: bytes) -> Request | None:
        """Take the next bytes; return the request once it is complete. What follows it is ignored."""
        if not self._method:
            rest = self._take_head(data)
            if rest is None:
                return None
            if self._method in WITHOUT_MESSAGE:
                return Request(self._method, self._fields)
            data = rest
        self._parts.append(data)
        self._size += len(data)
        if self._length is None:
            self._refuse_larger(self._size)
            return None
        return self._finish() if self._size >= self._length else None

    def end(self) -> Request:
        """Return the request when the client sends no more."""
        if not self._method:
            if not self._head:
                raise ProtocolError(PROTOCOL, "the connection ended before a request")
            raise ProtocolError(PROTOCOL, "the request ended before the empty line after its fields")
        if self._length is not None and self._size < self._length:
            raise ProtocolError(
                PROTOCOL, f"Content-length says {self._length} bytes, and {self._size} bytes were sent"
            )
        return self._finish()

    def _take_head(self, data: bytes) -> bytes | None:
        """Take what belongs to the head; return what follows it, or None if the head is not complete."""
        searched = max(0, len(self._head) - 3)
        self._head += data
        ends = [(self._head.find(mark, searched), len(mark)) for mark in (b"\r\n\r\n", b"\n\n")]
        ends = [end for end in ends if end[0] >= 0]
        end, length = min(ends) if ends else (-1, 0)
        if end > _LARGEST_HEAD or (end < 0 and len(self._head) > _LARGEST_HEAD):
            raise ProtocolError(PROTOCOL, f"the head of the request is longer than {_LARGEST_HEAD} bytes")
        if end < 0:
            return None
        head, rest = bytes(self._head[:end]), bytes(self._head[end + length :])
        self._read_head(head)
        return rest

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.replace(b"\r\n", b"\n").split(b"\n")
        found = _FIRST_LINE.fullmatch(first)
        if found is None:
            raise ProtocolError(PROTOCOL, "the first line is no request: expected METHOD SPAMC/1.5")
        method = found[1].decode("ascii")
        if method not in METHODS:
            raise ProtocolError(PROTOCOL, f"the method {method} is not known")
        if len(lines) > _MOST_FIELDS:
            raise ProtocolError(PROTOCOL, f"the request has more than {_MOST_FIELDS} fields")
        fields: dict[str, str] = {}
        for line in lines:
            entry = _FIELD.fullmatch(line)
            if entry is None:
                raise ProtocolError(PROTOCOL, "a line of the request is no field: expected Name: value")
            fields[entry[1].decode("ascii").lower()] = entry[2].decode("utf-8", "replace").strip()
        length = fields.get("content-length")
        if length is not None:
            if not (length.isascii() and length.isdigit() and len(length) <= 12):
                raise ProtocolError(
                    PROTOCOL, f"Content-length is {length[:40]!r}, expected a number of bytes"
                )
            self._length = int(length)
            self._refuse_larger(self._length)
        self._method, self._fields = method, fields

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
            raise ProtocolError(PROTOCOL, f"Compress is {compression[:40]!r}, expected zlib")
        return Request(self._method, self._fields, message)

    def _decompress(self, data: bytes) -> bytes:
        """Decompress a message, and no more than the limit of it."""
        machine = zlib.decompressobj()
        try:
            message = machine.decompress(data, self._largest + 1)
        except zlib.error:
            raise ProtocolError(
                DATA_ERROR, "the message is not compressed by zlib, as Compress says"
            ) from None
        self._refuse_larger(len(message))
        if not machine.eof:
            raise ProtocolError(DATA_ERROR, "the compressed message is not complete")
        return message


def answer(fields: dict[str, str], body: bytes | None = None) -> bytes:
    """Return a successful answer; with a body, its length comes first.

    >>> answer({"Spam": "True ; 7.1 / 2.9"})
    b'SPAMD/1.5 0 EX_OK\\r\\nSpam: True ; 7.1 / 2.9\\r\\n\\r\\n'
    """
    lines = [f"{_VERSION} 0 EX_OK"]
    if body is not None:
        lines.append(f"Content-length: {len(body)}")
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii", "replace") + (body or b"")


def answer_error(code: int, sentence: str) -> bytes:
    """Return an answer that says why there is none.

    >>> answer_error(76, "the method FOO is not known")
    b'SPAMD/1.5 76 EX_PROTOCOL the method FOO is not known\\r\\n'
    """
    line = " ".join(sentence.split())[:400]
    return f"{_VERSION} {code} {NAMES[code]} {line}\r\n".encode("ascii", "replace")
