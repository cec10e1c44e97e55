"""bytes → the bytes that are learned: those that are the same each time the message is met.

Fields that filters, stores and readers write are left out (`volatile.py`), so is an mbox's `From ` line, and
lines end in LF. CR LF is one end of line, CR CR LF (converted twice) too, and so is a lone CR, as `email` has
it.
"""

import re
from _blake2 import blake2b  # noqa: PLC2701 (hashlib's own; importing hashlib loads OpenSSL, which takes 4 ms)
from functools import cache, lru_cache

from tamis_mail.message.volatile import LONGEST, VOLATILE, is_volatile_header

# Most fields begin in none of these ways, and need no look at their names.
_BEGINNINGS = "|".join(sorted({"x-" if name.startswith("x-") else name for name in VOLATILE}))
_CANDIDATE = re.compile(rf"\n((?:{_BEGINNINGS})[^\n:]{{0,{LONGEST}}}:)".encode(), re.IGNORECASE)
_NEXT = re.compile(rb"\n(?![ \t])")
_FIRST = re.compile(rb"[!-9;-~]++[ \t]*+:|[ \t]")  # how a block of fields begins
_MBOX = re.compile(rb"(?:>?From [^\n]*+(?:\n|\Z))++")  # there may be several
_SMALL = 1 << 16  # bytes of fields that are looked at one by one; above, by one long expression


@lru_cache(maxsize=2048)
def _drops(name: bytes) -> bool:
    """Whether a field goes; its name comes with the colon."""
    return len(name) <= LONGEST + 1 and is_volatile_header(name[:-1])


def canonical(raw: bytes) -> bytes:
    """The message without what was written over it on the way; of such bytes, the same bytes.

    >>> canonical(b"From me Mon\\r\\nX-Spam-Flag: YES\\r\\nSubject: hello\\r\\n\\r\\nbody")
    b'Subject: hello\\n\\nbody'
    """
    if b"\r" in raw:
        raw = raw.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if raw[:1] in (b"F", b">") and (lines := _MBOX.match(raw)):
        raw = raw[lines.end() :]
    if not _FIRST.match(raw):
        return raw
    end = raw.find(b"\n\n") + 1
    if not end:  # fields and no body
        raw = raw if raw.endswith(b"\n") else raw + b"\n"
        end = len(raw)
    block = b"\n" + raw[:end]
    head = _without_volatile_fields(block) if end <= _SMALL else _volatile().sub(b"", block)
    if head is block:
        return raw
    lines = _MBOX.match(head, 1)
    return head[lines.end() if lines else 1 :] + raw[end:]


def digest(canonical: bytes) -> bytes:
    """Sixteen bytes that tell a message from all others.

    >>> digest(b"Subject: hello\\n\\nbody").hex()
    'efea167374e7550cdc65a0ae32938cbb'
    """
    return blake2b(canonical, digest_size=16).digest()


def _without_volatile_fields(block: bytes) -> bytes:
    """A block that begins with an end of line, without the fields that are not the message's own.

    The expression in `_volatile` does the same for a million fields in no more time than reading them takes,
    but takes 5 ms to make. `test_many_fields_are_left_out_as_few_are` keeps the two equal.
    """
    kept, last = [], 0
    for found in _CANDIDATE.finditer(block):
        if _drops(found[1]):
            kept.append(block[last : found.start()])
            after = _NEXT.search(block, found.end())
            last = after.start() if after else len(block)
    if not last:
        return block
    kept.append(block[last:])
    return b"".join(kept)


@cache
def _volatile() -> re.Pattern[bytes]:
    names = sorted(VOLATILE, key=lambda name: name.startswith("x-"))  # the few others are soon tried
    whole = "|".join(re.escape(name) for name in names if not name.endswith("*"))
    begin = "|".join(re.escape(name[:-1]) for name in names if name.endswith("*"))
    initials = "".join(sorted({name[0] for name in names}))
    short = rf"(?=[{initials}])(?=[^\n:]{{1,{LONGEST}}}:)"
    name = rf"(?:x-old-(?!spam))*+(?:(?:{whole})[ \t]*+|(?:{begin})[^\n:]*+):"
    field = rf"\n{short}{name}[^\n]*+(?:\n[ \t][^\n]*+)*+"
    return re.compile(rf"{field}(?:{field})*+".encode(), re.IGNORECASE)
