"""bytes → the sender and the subject: one short line of clean text each, for a list of messages."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tamis_mail.message.canonical import canonical
from tamis_mail.message.compiled import CANONICAL_FORM, MESSAGE_READER
from tamis_mail.message.fields import decode_value, read_fields

__all__ = ["Heading", "read_heading", "read_headings"]

SENDER: Final = 100  # characters that are kept: more than a line of a terminal shows
SUBJECT: Final = 150
_HEAD = 1 << 16  # bytes of a message that are searched
_DECODED = 1000  # characters of a field that are decoded
_WORDS = 20  # encoded words that are decoded


class Heading(NamedTuple):
    """The sender and the subject of a message, without line ends, controls and invisible characters."""

    sender: str
    subject: str


def read_heading(raw: bytes, plain: bytes | None = None) -> Heading:
    """Return the first From and the first Subject of a message; each is empty if there is none.

    `plain` is the message in canonical form, if the caller has it: making it takes most of the time.

    >>> read_heading(b"Subject: =?utf-8?q?caf=C3=A9=0AX-Evil:_=1B[31m?=\\nFrom: me@home.example\\n\\nbody")
    Heading(sender='me@home.example', subject='café X-Evil: [31m')
    """
    if plain is None or len(raw) > _HEAD:
        plain = canonical(raw[:_HEAD])
    sender = subject = None
    for name, value in read_fields(plain, 0, len(plain), set())[0]:
        if sender is None and name == "from":
            sender = value
        elif subject is None and name == "subject":
            subject = value
    return Heading(_clean(sender or "", SENDER), _clean(subject or "", SUBJECT))


def read_headings(messages: Sequence[bytes], plain: Sequence[bytes]) -> list[Heading]:
    """Return `read_heading` of each message, given its canonical form, too."""
    if MESSAGE_READER is None:
        return [read_heading(raw, one) for raw, one in zip(messages, plain, strict=True)]
    headings = MESSAGE_READER.read_headings(list(messages), list(plain), CANONICAL_FORM)
    return [
        read_heading(raw, one) if heading is None else Heading(*heading)
        for raw, one, heading in zip(messages, plain, headings, strict=True)
    ]


def _clean(value: str, longest: int) -> str:
    text = decode_value(value[:_DECODED], set(), _WORDS)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(text.split())[:longest]
