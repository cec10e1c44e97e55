"""bytes → the canonical bytes, which are the same wherever a message was stored and however it was delivered.

This module defines which bytes belong to a message:

- Lines end in LF. CR LF, CR CR LF (converted twice) and a lone CR become LF, as in the module `email`.
- Postmarks and blank lines before the message (`envelope.py`) are removed.
- Fields that filters, mailboxes and mail programs add to the header (`volatile.py`) are removed. The header
  is everything before the first blank line, whether its lines look like fields or not, so that a message
  keeps its identity when a field is added before it.
- ">From " at the beginning of a line, with any number of ">", becomes "From ": an mbox puts a ">" before
  lines that look like a postmark, and the variants of mbox do so with different lines.
- Line ends at the end of the message are removed: an mbox adds some, and removes some.
- Bytes beyond `framing.LARGEST` (50 MB) are removed. If a message begins with a thousand headers that have
  volatile fields only, its canonical bytes are empty.

Of one message, at most 100,000 lines with ">From " are changed, and volatile fields are removed from the
first MiB of the header, among the first 10,000 fields whose names begin like theirs. The canonical bytes of a
message beyond these limits need not be in canonical form themselves.
"""

from _blake2 import blake2b  # noqa: PLC2701 (importing hashlib loads OpenSSL, which takes 4 ms)
from collections.abc import Sequence
from importlib import import_module

from tamis_mail.message.compiled import CANONICAL_FORM


def canonical(raw: bytes) -> bytes:
    """Return the canonical bytes of a message; canonical bytes within the limits are returned unchanged.

    >>> canonical(b"From me Mon\\r\\nX-Spam-Flag: YES\\r\\nSubject: hello\\r\\n\\r\\nbody\\r\\n")
    b'Subject: hello\\n\\nbody'
    """
    # Imported only if needed: its regular expressions take longer to compile than a message takes to read.
    make = (
        import_module("tamis_mail.message.canonical_reference").canonical
        if CANONICAL_FORM is None
        else CANONICAL_FORM.make
    )
    canonical_bytes: bytes = make(raw)
    return canonical_bytes


def digest(canonical: bytes) -> bytes:
    """Return sixteen bytes that identify a message.

    >>> digest(b"Subject: hello\\n\\nbody").hex()
    'efea167374e7550cdc65a0ae32938cbb'
    """
    return blake2b(canonical, digest_size=16).digest()


def identify(messages: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the canonical bytes and the digest of each message."""
    if CANONICAL_FORM is None:
        canonical_messages = [canonical(raw) for raw in messages]
        return canonical_messages, [digest(message) for message in canonical_messages]
    identified: tuple[list[bytes], list[bytes]] = CANONICAL_FORM.identify(list(messages))
    return identified
