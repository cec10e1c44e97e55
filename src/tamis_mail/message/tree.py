"""Canonical bytes → Message: the tree of parts in one pass over the lines that may be boundaries.

There is no recursion: open multiparts are a stack of frames of bounded depth. A boundary of an outer frame
closes the inner frames, as mail programs do. Where the structure is contradictory, all that may be text is
read as text.
"""

import re
from typing import Final

from tamis_mail.message.bodies import decode_text, decode_transfer, is_binary, remove_uuencoded, size_of
from tamis_mail.message.fields import (
    BLOCK_BYTES,
    WORDS,
    Fields,
    decode_parameter,
    decode_value,
    find_encoded_fields,
    kind_of,
    parameters_of,
    read_fields,
    token_of,
)
from tamis_mail.message.values import Message, Part

# Limits, so that time and memory are bounded for any message.
DEPTH: Final = 30  # multiparts and embedded messages within each other
PARTS: Final = 1000  # parts of a message that are read
HEADER_BLOCKS: Final = 3000  # headers of parts and multiparts that are read
HEADER_BYTES: Final = BLOCK_BYTES  # bytes of the headers of all parts that are read
ALL_WORDS: Final = 3000  # encoded words of a message that are decoded
PART_TEXT: Final = 1 << 20  # bytes of a part that are decoded
MESSAGE_TEXT: Final = 1 << 22  # bytes of all parts that are decoded
SHAPE: Final = 2000  # characters of `Message.shape`
NAME: Final = 500  # characters of a file name
_DASHES = 100_000  # lines beginning with two dashes that are examined
_BOUNDARY = 200  # bytes of a boundary that are compared; RFC 2046 allows 70

_DASHED_LINE = re.compile(rb"\n--([^\n]{1,%d})" % _BOUNDARY)
_EMBEDDED = ("message/rfc822", "message/global", "message/news")
_NOT_ENCODED = ("", "7bit", "8bit", "binary")
_READABLE = ("text/", "message/", "multipart/")


class _Frame:
    """An open multipart or embedded message."""

    __slots__ = ("boundaries", "children", "kind", "length", "outer_depths", "start")

    def __init__(self, kind: str, boundaries: tuple[bytes, ...], start: int) -> None:
        self.kind = kind
        self.boundaries = boundaries
        # Boundaries that an outer frame has, too, and the depth of that frame.
        self.outer_depths: dict[bytes, int] = {}
        self.start = start  # of its body
        self.children: list[str] = []  # shapes of its parts
        self.length = 0  # characters of these shapes

    def add(self, shape: str) -> None:
        if self.length < SHAPE:
            self.children.append(shape)
            self.length += len(shape) + 1

    def shape(self) -> str:
        return f"{self.kind}({','.join(self.children)})"[:SHAPE]


class _Reader:
    """The state of a message while it is read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.faults: set[str] = set()
        self.parts: list[Part] = []
        self.text_budget = MESSAGE_TEXT  # bytes of parts that may still be decoded
        self.header_budget = HEADER_BYTES  # bytes of headers that may still be read
        self.word_budget = ALL_WORDS  # encoded words that may still be decoded
        self.n_headers = 0  # headers that were read
        self.root = _Frame("", (), 0)
        self.stack: list[_Frame] = [self.root]
        self.depths: dict[bytes, int] = {}  # depth of the innermost open frame with a boundary
        self.leaf: tuple[Fields, str, int] | None = None  # fields, kind and start of the part that is open
        self.body = 0  # start of the body of the part that was opened last

    def open(self, start: int, end: int, kind: str) -> Fields:
        """Read the fields of the part from `start` to at most `end`, open it, and return its fields.

        `kind` is its default media type. If it is an embedded message, its content is opened, too.
        """
        top_fields: Fields | None = None
        while True:
            fields, self.body = read_fields(self.data, start, end, self.faults, self.header_budget)
            self.header_budget -= self.body - start
            self.n_headers += 1
            top_fields = fields if top_fields is None else top_fields
            content_types = [value for name, value in fields if name == "content-type"]
            if len(content_types) > 1:
                self.faults.add("duplicate-field")
            if content_types:
                kind = kind_of(content_types[0]) or "text/plain"
            if kind.startswith("multipart/"):
                boundaries = self._read_boundaries(content_types[0] if content_types else "")
                if boundaries and self._may_nest():
                    self.push(_Frame(kind, boundaries, self.body))
                    return top_fields
            elif (
                kind in _EMBEDDED
                and token_of(_find_field(fields, "content-transfer-encoding")) in _NOT_ENCODED
                and self._may_nest()
            ):
                self.push(_Frame(kind, (), self.body))
                start, kind = self.body, "text/plain"
                continue
            self.leaf = (fields, kind, self.body)
            return top_fields

    def close_leaf(self, end: int) -> None:
        """Close the open leaf (a part without parts), if there is one; its body ends at `end`."""
        if self.leaf is None:
            return
        fields, kind, start = self.leaf
        self.leaf = None
        self.stack[-1].add(kind)
        self.parts.append(self._make_part(fields, kind, start, max(start, end)))

    def close_to(self, depth: int, end: int) -> None:
        """Close all frames deeper than `depth`, the innermost first."""
        self.close_leaf(end)
        while len(self.stack) > depth:
            frame = self.stack[-1]
            if not frame.children:  # its boundary does not occur: its content is one text part
                self.faults.add("boundary")
                self.leaf = ([], "text/plain", frame.start)
                self.close_leaf(end)
            self.pop()
            self.stack[-1].add(frame.shape())

    def depth_of(self, line: bytes) -> tuple[int, bool]:
        """Return the depth of the frame whose boundary a line has (0: none), and whether it ends there."""
        line = line.rstrip(b" \t")
        if line in self.depths:
            return self.depths[line], False
        if line.endswith(b"--"):
            return self.depths.get(line[:-2].rstrip(b" \t"), 0), True
        return 0, False

    def push(self, frame: _Frame) -> None:
        """Open a frame. Its boundaries take precedence over equal ones of outer frames."""
        depths = self.depths
        frame.outer_depths = {text: depths[text] for text in frame.boundaries if text in depths}
        depths.update(dict.fromkeys(frame.boundaries, len(self.stack)))
        self.stack.append(frame)

    def pop(self) -> None:
        """Close the innermost frame."""
        frame = self.stack.pop()
        for text in frame.boundaries:
            self.depths.pop(text, None)
        self.depths.update(frame.outer_depths)

    def decode(self, value: str) -> str:
        """Decode the value of a field within the budget of encoded words."""
        return decode_value(value, self.faults, self._take_words(value))

    def decode_parameter(self, parameters: Fields, name: str) -> str:
        """Decode a parameter within the budget of encoded words."""
        words = min(sum(self._take_words(value) for key, value in parameters if key.startswith(name)), WORDS)
        return decode_parameter(parameters, name, self.faults, words)

    def _take_words(self, value: str) -> int:
        """Take the encoded words of a value from the budget; return how many may be decoded."""
        words = min(value.count("=?"), WORDS, self.word_budget)
        self.word_budget -= words
        return words

    def _may_nest(self) -> bool:
        """Whether one more frame may be opened; note a fault if not."""
        if len(self.stack) <= DEPTH:
            return True
        self.faults.add("depth")
        return False

    def _read_boundaries(self, value: str) -> tuple[bytes, ...]:
        """Return all boundaries that a Content-Type declares, because mail programs differ in which they use.

        A filter that reads only one of them may not see the parts that a mail program shows (CVE-2024-28054).
        """
        parameters = parameters_of(value)
        texts = [text for name, text in parameters if name == "boundary"]
        if len(texts) > 1:
            self.faults.add("duplicate-parameter")
        if not texts and (joined_pieces := self.decode_parameter(parameters, "boundary")):
            texts = [joined_pieces]  # RFC 2231 allows a parameter in pieces
        encoded = (text.encode("latin-1", "replace")[:_BOUNDARY].rstrip(b" \t") for text in texts)
        boundaries = tuple(boundary for boundary in encoded if boundary)
        if not boundaries:
            self.faults.add("boundary")
        return boundaries

    def _make_part(self, fields: Fields, kind: str, start: int, end: int) -> Part:
        """Make a leaf of its fields, its media type, and its body from `start` to `end`."""
        encoding = _find_field(fields, "content-transfer-encoding")
        encoding = token_of(encoding) if encoding else ""
        charset = name = disposition = ""
        if value := _find_field(fields, "content-type"):
            parameters = parameters_of(value)
            charset = self.decode_parameter(parameters, "charset").lower()[:60]
            name = self.decode_parameter(parameters, "name")
        if value := _find_field(fields, "content-disposition"):
            word = token_of(value)
            disposition = "inline" if word == "inline" else "attachment" if word else ""
            name = self.decode_parameter(parameters_of(value), "filename") or name
        name = name[:NAME]
        if not kind.startswith(_READABLE):
            size = size_of(end - start, self.data.count(b"\n", start, end), encoding)
            return Part(kind, charset, encoding, name, disposition, size, "")
        limit = min(PART_TEXT, self.text_budget)
        # Quoted-printable has at most three bytes per decoded byte; base64 has 4/3 and line ends.
        raw_limit = (
            limit * 3 if encoding == "quoted-printable" else limit * 3 // 2 if encoding == "base64" else limit
        )
        body = self.data[start : min(end, start + raw_limit)]
        if end - start > raw_limit:
            self.faults.add("long")
        decoded = decode_transfer(body, encoding, self.faults)[:limit]
        size = len(decoded) + max(0, size_of(end - start - raw_limit, 0, encoding))
        self.text_budget -= len(decoded)
        if is_binary(decoded):
            self.faults.add("binary")
            return Part(kind, charset, encoding, name, disposition, size, "")
        text = decode_text(remove_uuencoded(decoded, self.faults), charset, self.faults)
        if "\r" in text:  # a transfer encoding can contain line ends that are not canonical
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return Part(kind, charset, encoding, name, disposition, size, text)


def parse(canonical: bytes) -> Message:
    """Parse a message; any bytes are accepted.

    >>> message = parse(b"Subject: =?utf-8?q?caf=C3=A9?=\\nContent-Type: text/html\\n\\n<b>body</b>")
    >>> message.headers[0], message.shape, message.parts[0].text
    (('subject', 'café'), 'text/html', '<b>body</b>')
    """
    reader = _Reader(canonical)
    end = len(canonical)
    top_fields = reader.open(0, end, "text/plain")
    headers = top_fields.copy()
    for index in find_encoded_fields(top_fields):
        name, value = top_fields[index]
        headers[index] = (name, reader.decode(value))
    if len(reader.stack) > 1:
        _read_parts(reader, end)
    reader.close_to(1, end)
    if not top_fields and canonical:
        reader.faults.add("headers")
    shape = ",".join(reader.root.children)
    return Message(canonical, tuple(headers), tuple(reader.parts), shape, tuple(sorted(reader.faults)))


def _read_parts(reader: _Reader, end: int) -> None:
    """Open and close parts at the lines that are boundaries.

    A part is opened when the next line with two dashes is known: its fields end there at the latest, so that
    no byte is searched twice for the empty line after them.
    """
    data = reader.data
    part_start = -1
    for number, line in enumerate(_DASHED_LINE.finditer(data, max(0, reader.body - 1))):
        if part_start >= 0:
            reader.open(part_start, max(part_start, line.start() + 1), "text/plain")
            part_start = -1
        if number > _DASHES or len(reader.parts) >= PARTS or reader.n_headers >= HEADER_BLOCKS:
            reader.faults.add("parts")
            return
        depth, is_last = reader.depth_of(line[1])
        if not depth:
            continue
        # A boundary closes the parts within its multipart; the last boundary closes the multipart, too.
        reader.close_to(depth if is_last else depth + 1, line.start())
        if len(reader.stack) == 1:
            return
        if not is_last:
            part_start = data.find(b"\n", line.end()) + 1 or end
    if part_start >= 0:
        reader.open(part_start, end, "text/plain")
    if any(frame.boundaries for frame in reader.stack):
        reader.faults.add("truncated")


def _find_field(fields: Fields, name: str) -> str:
    """Return the first value of a field; empty if there is none."""
    for key, value in fields:
        if key == name:
            return value
    return ""
