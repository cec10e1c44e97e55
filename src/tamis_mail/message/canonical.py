"""bytes → the canonical bytes: the same for one message, however it was stored, delivered or read.

This is the only place that decides what belongs to a message:

- Lines end in LF. CR LF is one end of line, CR CR LF (converted twice) too, and so is a lone CR, as `email`
  has it.
- Postmarks and blank lines before the message (`envelope.py`) are left out.
- Fields that filters, stores and readers write into the header (`volatile.py`) are left out. The header is
  all that stands before the first blank line, whether its lines look like fields or not: a message keeps its
  identity when a field is put before it.
- ">From " at the beginning of a line, with any number of ">", is "From ": each dialect of mbox quotes other
  lines.
- End-of-line characters at the very end are left out: an mbox adds some, and removes some.
- What lies beyond LARGEST bytes is left out; a message that begins with a thousand headers of volatile fields
  alone is empty.
"""

import re
from _blake2 import blake2b  # noqa: PLC2701 (hashlib's own; importing hashlib loads OpenSSL, which takes 4 ms)
from functools import lru_cache

from tamis_mail.framing import LARGEST, LARGEST_RAW
from tamis_mail.message.envelope import envelope_end
from tamis_mail.message.volatile import LONGEST, VOLATILE_FIELDS, is_volatile_header

__all__ = ["canonical", "digest"]

_HEADER = 1 << 20  # bytes of a header that are searched for volatile fields
_FIELDS = 10_000  # fields of a header that are looked at by name; real mail has a few hundred at most
_HEADERS = (
    1000  # headers of nothing but volatile fields, one after the other: what comes after so many is no mail
)
# Most fields begin in none of these ways, and need no look at their names.
_BEGINNINGS = "|".join(sorted({"x-" if name.startswith("x-") else name for name in VOLATILE_FIELDS}))
# A byte order mark before a name is passed over: with it gone, as at the beginning, the name would be seen.
_CANDIDATE = re.compile(
    rb"\n(?:\xef\xbb\xbf)*+((?:%s)[^\n:]{0,%d}:)" % (_BEGINNINGS.encode(), LONGEST), re.IGNORECASE
)
_NEXT_FIELD = re.compile(rb"\n(?![ \t])")
_QUOTED_FROM = re.compile(rb"(?<![^\n])>++(?=From )")
_QUOTED_LINES = 100_000  # of these are changed; a digest of a hundred letters has a few hundred


def canonical(raw: bytes) -> bytes:
    """The message without what was written over it on the way; of canonical bytes, the same bytes.

    >>> canonical(b"From me Mon\\r\\nX-Spam-Flag: YES\\r\\nSubject: hello\\r\\n\\r\\nbody\\r\\n")
    b'Subject: hello\\n\\nbody'
    """
    raw = raw[:LARGEST_RAW]
    if b"\r" in raw:
        raw = raw.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b">From " in raw:
        raw = _QUOTED_FROM.sub(b"", raw, _QUOTED_LINES)
    end = 0
    for _ in range(_HEADERS):  # once, but for a header that held nothing except volatile fields
        start = envelope_end(raw, end)
        end = raw.find(b"\n\n", start) + 1 or len(raw)
        header = _remove_volatile_fields(raw[start:end])
        if header or end == len(raw):
            return (header + raw[end:])[:LARGEST].rstrip(b"\n")
    return b""


def digest(canonical: bytes) -> bytes:
    """Sixteen bytes that tell a message from all others.

    >>> digest(b"Subject: hello\\n\\nbody").hex()
    'efea167374e7550cdc65a0ae32938cbb'
    """
    return blake2b(canonical, digest_size=16).digest()


def _remove_volatile_fields(header: bytes) -> bytes:
    """The header without fields that others wrote, and without postmarks that then come first."""
    block = b"\n" + header[:_HEADER]
    pieces, last = [], 0
    for number, candidate in enumerate(_CANDIDATE.finditer(block)):
        if number == _FIELDS:
            break
        if _is_volatile(candidate[1]):
            pieces.append(block[last : candidate.start()])
            following = _NEXT_FIELD.search(block, candidate.end())
            last = following.start() if following else len(block)
    if not last:
        return header[envelope_end(header) :]
    pieces += [block[last:], header[_HEADER:]]
    rest = b"".join(pieces)[1:]
    return rest[envelope_end(rest) :]


@lru_cache(maxsize=2048)
def _is_volatile(name: bytes) -> bool:
    """Whether a field of this name, which comes with its colon, is left out."""
    return len(name) <= LONGEST + 1 and is_volatile_header(name[:-1])
