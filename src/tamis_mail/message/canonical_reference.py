"""bytes → canonical bytes (see `canonical`), in plain Python: the reference for `core/mail/canonical.cpp`.

A volatile field is one that filters, mailboxes or mail programs add to a message.
"""

import re
from functools import lru_cache

from tamis_mail.framing import LARGEST, LARGEST_RAW
from tamis_mail.message.envelope import envelope_end
from tamis_mail.message.volatile import LONGEST, VOLATILE_FIELDS, is_volatile_header

_HEADER = 1 << 20  # bytes of a header that are searched for volatile fields; the rest stays unchanged
_FIELDS = 10_000  # fields of a header that are compared by name; real mail has a few hundred at most
_HEADERS = 1000  # headers with volatile fields only: a message that begins with as many becomes empty
# A search for these beginnings is fast, and most fields have none of them, so that few names are compared.
_BEGINNINGS = "|".join(sorted({"x-" if name.startswith("x-") else name for name in VOLATILE_FIELDS}))
# A byte order mark before a name is skipped, because it is removed at the beginning of a message.
_CANDIDATE = re.compile(
    rb"\n(?:\xef\xbb\xbf)*+((?:%s)[^\n:]{0,%d}:)" % (_BEGINNINGS.encode(), LONGEST), re.IGNORECASE
)
_NEXT_FIELD = re.compile(rb"\n(?![ \t])")
_ESCAPED_FROM = re.compile(rb"(?<![^\n])>++(?=From )")  # an mbox puts ">" before lines like a postmark
_ESCAPED_LINES = 100_000  # lines that are changed; a digest, many messages of a list in one, has hundreds


def canonical(raw: bytes) -> bytes:
    """Return the canonical bytes of a message."""
    raw = raw[:LARGEST_RAW]
    if b"\r" in raw:
        raw = raw.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b">From " in raw:
        raw = _ESCAPED_FROM.sub(b"", raw, _ESCAPED_LINES)
    end = 0
    for _ in range(_HEADERS):  # a second time only if the first header has volatile fields only
        start = envelope_end(raw, end)  # after blank lines and postmarks
        end = raw.find(b"\n\n", start) + 1 or len(raw)
        header = _remove_volatile_fields(raw[start:end])
        if header or end == len(raw):
            return (header + raw[end:])[:LARGEST].rstrip(b"\n")
    return b""


def _remove_volatile_fields(header: bytes) -> bytes:
    """Remove volatile fields from a header, and postmarks that then come first."""
    block = b"\n" + header[:_HEADER]
    pieces, last = [], 0
    for number, candidate in enumerate(_CANDIDATE.finditer(block)):
        if number == _FIELDS:
            break
        if _is_volatile(candidate[1]):
            pieces.append(block[last : candidate.start()])
            next_field = _NEXT_FIELD.search(block, candidate.end())
            last = next_field.start() if next_field else len(block)
    if not last:
        return header[envelope_end(header) :]
    pieces += [block[last:], header[_HEADER:]]
    rest = b"".join(pieces)[1:]
    return rest[envelope_end(rest) :]


@lru_cache(maxsize=2048)
def _is_volatile(name: bytes) -> bool:
    """Whether a field of this name, given with its colon, is volatile."""
    return len(name) <= LONGEST + 1 and is_volatile_header(name[:-1])
