"""Split the text of an mbox into messages, in the variants mboxo, mboxrd, mboxcl and mboxcl2. No I/O.

- A message begins after a postmark: a line "From …" with a time, a year and a day or month, after a blank
  line or at the start of the text, where a byte order mark and blank lines may precede the postmark. "From
  now on we meet at 12:30" is not a postmark, although it has no ">" before it.
- A message ends where its Content-Length says, if the end of the text or a postmark, even without a blank
  line before it, follows there; otherwise before the next postmark after a blank line, or at the end of the
  text. The blank line before a postmark belongs to neither message. A length is ignored if the message would
  exceed `largest` bytes, if the header is longer than 64 KiB, or if the "ength" of the field's name is not in
  lower case.
- From a message that ends where its length says, no ">" is removed. This is right for mboxcl2; in mboxcl,
  lines are escaped, and stay so. In other messages one ">" is removed from each line that begins with
  ">From ", ">>From " and so on: in mboxrd all such lines are escaped. In mboxo only lines that began with
  "From " are escaped; others that look so cannot be told from these, so mboxo is read as mboxrd.

To find messages, the text is searched for "From ", at 1 GB/s; to read it by lines would be slower. The core
finds the messages that end within the bytes in memory. This module is the reference for the core, and finds
the messages for which more bytes must be read.
"""

from collections.abc import Callable, Iterator

from tamis.compiled import core
from tamis_mail.framing import is_postmark

BLOCK = 1 << 20  # bytes read at a time, at least: more within a long message
HEAD = 4096  # bytes of a file that `is_mbox` needs to recognise an mbox
_LINE = 1024  # bytes; a line of this length or more is no postmark, except the first of the text
_MAX_HEADER = 1 << 16  # bytes; in a longer header, no Content-Length is searched for
_MAX_DIGITS = 12  # of a Content-Length
_MAX_VALUE = 80  # bytes from the colon of a Content-Length to the end of its line
_LENGTH_NAME = b"content-length:"
_NAME_END = b"ength:"  # the text that is searched for: the end of Content-Length and content-length
_FROM = b"From "
_NEWLINE, _RETURN, _QUOTE = b"\n\r>"  # each a number, as `raw[0]` is


def is_mbox(head: bytes) -> bool:
    """Whether the first bytes of a file are a postmark, after an optional byte order mark and blank lines."""
    line, _, _ = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").partition(b"\n")
    # A file whose lines end in CR alone is one line for this search: it counts as one message, not an mbox.
    return line.startswith(_FROM) and b"\r" not in line[:-2] and is_postmark(line)


def split(read: Callable[[int], bytes], largest: int) -> Iterator[tuple[bytes, int]]:
    """Yield each message, truncated to `largest` bytes, and the offset of the next postmark or of the end.

    `read(limit)` returns the next bytes of the text: about `limit` or fewer, but none only at the end. The
    text must be an mbox by `is_mbox`.
    """
    return _Window(read, largest).messages()


class _Window:
    """The part of the text in memory: the current message, up to `largest` bytes, and some bytes after it."""

    __slots__ = ("_at_end", "_begin", "_buffer", "_largest", "_offset", "_read")

    def __init__(self, read: Callable[[int], bytes], largest: int) -> None:
        self._read = read
        self._largest = largest
        self._buffer = read(BLOCK)
        # Where the part of the buffer that is still needed begins: the current message, or its last bytes if
        # its beginning is kept elsewhere.
        self._begin = 0
        self._offset = 0  # bytes of text before the buffer
        self._at_end = not self._buffer  # whether all of the text was read

    def messages(self) -> Iterator[tuple[bytes, int]]:
        """Yield what `split` yields."""
        postmark = self._buffer.find(_FROM)
        while postmark >= 0:
            newline = self._buffer.find(b"\n", postmark)
            self._begin = newline + 1 if newline >= 0 else len(self._buffer)
            if core is not None and (
                complete_messages := core.mail.split_mbox(
                    self._buffer, self._begin, self._largest, self._at_end
                )
            ):
                for begin, end, has_escapes, postmark in complete_messages:
                    raw = self._buffer[begin : min(end, begin + self._largest)]
                    offset = self._offset + (postmark if postmark >= 0 else len(self._buffer))
                    yield _unescape(raw) if has_escapes else raw, offset
                continue  # with the message after the last of these postmarks
            by_length = self._split_by_length()
            if by_length is None:
                raw, postmark = self._split_by_scan()
            else:
                raw, postmark = by_length
            yield raw, self._offset + (postmark if postmark >= 0 else len(self._buffer))

    def _grow(self, index: int) -> int:
        """Read another block, drop the bytes before `_begin`, and return `index` less their number."""
        rest = self._buffer[self._begin :]
        # The block grows with the message, so that each byte of it is copied a few times, not once per block.
        block = self._read(max(BLOCK, len(rest) // 4))
        self._at_end = not block
        self._buffer = rest + block
        self._offset += self._begin
        index -= self._begin
        self._begin = 0
        return index

    def _split_by_length(self) -> tuple[bytes, int] | None:
        """Return the message that ends where its Content-Length says, and the position of the next postmark.

        The position is -1 if the text ends there. Return None if the header has no Content-Length after which
        a postmark or the end of the text follows.
        """
        body = self._find_body()
        place = self._buffer.find(_NAME_END, self._begin, body)
        while place >= 0:
            value_start = place + len(_NAME_END)
            start = value_start - len(_LENGTH_NAME)  # of the field
            # A limited search for the line's end, so that a long line with many "ength:" is not slow.
            line, newline, _ = self._buffer[value_start : value_start + _MAX_VALUE].partition(b"\n")
            value = line.strip()
            if (
                newline
                and value.isdigit()
                and len(value) <= _MAX_DIGITS
                and (start == self._begin or (start > self._begin and self._buffer[start - 1] == _NEWLINE))
                and self._buffer[start:value_start].lower() == _LENGTH_NAME
                and body + int(value) - self._begin <= self._largest
            ):
                end = body + int(value)
                # Two lines: more than two line ends and a postmark.
                while len(self._buffer) < end + 2 * _LINE and not self._at_end:
                    # `_grow` drops the bytes before the message, so all positions change.
                    body -= self._begin
                    value_start -= self._begin
                    end = self._grow(end)
                postmark = self._find_postmark_after(end)
                if postmark is not None:
                    return self._buffer[self._begin : end], postmark
            place = self._buffer.find(_NAME_END, value_start, body)
        return None

    def _find_body(self) -> int:
        """Return where the body begins; the beginning of the message if the header exceeds _MAX_HEADER."""
        while True:
            buffer, begin = self._buffer, self._begin
            newline = buffer.find(b"\n", begin, begin + _MAX_HEADER)
            blank = b"\r\n\r\n" if buffer[newline - 1 : newline] == b"\r" else b"\n\n"
            end = buffer.find(blank, begin, begin + _MAX_HEADER)
            if end >= 0:
                return end + len(blank)
            if self._at_end or len(buffer) - begin >= _MAX_HEADER:
                return begin
            self._grow(begin)

    def _find_postmark_after(self, end: int) -> int | None:
        """Return the position of a postmark that follows `end`, -1 if the text ends there, or else None."""
        buffer = self._buffer
        if end > len(buffer):
            return None
        for _ in range(2):  # skip the last line's end, if the length does not count it, and the blank line
            end += 1 if buffer.startswith(b"\n", end) else 2 if buffer.startswith(b"\r\n", end) else 0
        if end == len(buffer):
            return -1
        return end if self._is_postmark_at(end) else None

    def _is_postmark_at(self, place: int) -> bool:
        """Whether the line that begins at this position is a postmark."""
        newline = self._buffer.find(b"\n", place, place + _LINE)
        if newline < 0:
            newline = len(self._buffer)
        return (
            newline - place < _LINE
            and self._buffer.startswith(_FROM, place)
            and is_postmark(self._buffer[place:newline])
        )

    def _split_by_scan(self) -> tuple[bytes, int]:
        """Return the message up to the next postmark, and the postmark's position (-1 if there is none)."""
        head = None  # the first `largest` bytes of a message that is longer
        has_escapes = False
        place = self._begin
        while True:
            candidate = self._buffer.find(_FROM, place)
            if candidate < 0 or (len(self._buffer) < candidate + _LINE and not self._at_end):
                if self._at_end:
                    return self._take_message(head, self._end_of_text(), has_escapes), -1
                # The next block may complete a "From " at the end of this one, or the line of the candidate.
                place = max(self._begin, len(self._buffer) - len(_FROM)) if candidate < 0 else candidate
                if place - self._begin > self._largest + _LINE:
                    if head is None:
                        head = self._buffer[self._begin : self._begin + self._largest]
                    self._begin = place - _LINE  # more than the blank line before a postmark
                place = self._grow(place)
                continue
            place = candidate + len(_FROM)
            end = self._end_before(candidate)
            if end is None:
                has_escapes = has_escapes or (
                    candidate > self._begin and self._buffer[candidate - 1] == _QUOTE
                )
            elif self._is_postmark_at(candidate):
                return self._take_message(head, end, has_escapes), candidate

    def _take_message(self, head: bytes | None, end: int, has_escapes: bool) -> bytes:
        """Return the message up to `end`, unescaped; `head` is its first `largest` bytes if it has more."""
        raw = self._buffer[self._begin : min(end, self._begin + self._largest)] if head is None else head
        return _unescape(raw) if has_escapes else raw

    def _end_before(self, candidate: int) -> int | None:
        """Return where the blank line before this position begins, as the message's end; None without one."""
        buffer, begin = self._buffer, self._begin
        end = candidate - 1
        if end < begin or buffer[end] != _NEWLINE:
            return None
        if end > begin and buffer[end - 1] == _RETURN:
            end -= 1
        return end if end == begin or buffer[end - 1] == _NEWLINE else None

    def _end_of_text(self) -> int:
        """Return where the text ends, not counting a final blank line."""
        end = self._end_before(len(self._buffer))
        return len(self._buffer) if end is None else end


def _unescape(raw: bytes) -> bytes:
    """Remove one ">" from each line that begins with ">From ", ">>From " and so on."""
    pieces, copied_to = [], 0
    place = raw.find(b">From ")
    while place >= 0:
        line_start = place
        while line_start > copied_to and raw[line_start - 1] == _QUOTE:
            line_start -= 1
        if line_start == 0 or raw[line_start - 1] == _NEWLINE:
            pieces.append(raw[copied_to:place])
            copied_to = place + 1
        place = raw.find(b">From ", place + 1)
    pieces.append(raw[copied_to:])
    return b"".join(pieces)
