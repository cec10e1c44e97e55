"""bytes → the sender and the subject: one short line of clean text each, for a list of messages."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from importlib import import_module

from tamis_mail.message.canonical import canonical
from tamis_mail.message.compiled import CANONICAL_FORM, MESSAGE_READER

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import NamedTuple

    from tamis._core.mail import MessageBatch

# Limits; what exceeds them is ignored.
SENDER = 100  # characters of a sender that are kept: more than a line of a terminal shows
SUBJECT = 150  # characters of a subject that are kept
_HEAD = 1 << 16  # bytes of a message that are searched for the fields
_DECODED = 1000  # characters of a field that are decoded
_WORDS = 20  # encoded words of a field that are decoded


if TYPE_CHECKING:

    class Heading(NamedTuple):
        """The sender and the subject of a message, without line ends, controls and invisible characters."""

        sender: str
        subject: str

else:
    Heading = namedtuple("Heading", ("sender", "subject"))


def read_heading(raw: bytes, canonical_bytes: bytes | None = None) -> Heading:
    """Return the first From and the first Subject of a message; each is empty if there is none.

    A caller that has the canonical bytes gives them, because making them takes most of the time.

    >>> read_heading(b"Subject: =?utf-8?q?caf=C3=A9=0AX-Evil:_=1B[31m?=\\nFrom: me@home.example\\n\\nbody")
    Heading(sender='me@home.example', subject='café X-Evil: [31m')
    """
    (heading,) = read_headings([raw], [canonical(raw) if canonical_bytes is None else canonical_bytes])
    return heading


def read_by_python(raw: bytes, canonical_bytes: bytes) -> Heading:
    """Return the same as `read_heading`, without the compiled core."""
    fields = import_module("tamis_mail.message.fields")
    if len(raw) > _HEAD:
        canonical_bytes = canonical(raw[:_HEAD])
    sender = subject = None
    all_fields, _ = fields.read_fields(canonical_bytes, 0, len(canonical_bytes), faults=set())
    for name, value in all_fields:
        if sender is None and name == "from":
            sender = value
        elif subject is None and name == "subject":
            subject = value
    sender = fields.decode_value((sender or "")[:_DECODED], faults=set(), words=_WORDS)
    subject = fields.decode_value((subject or "")[:_DECODED], faults=set(), words=_WORDS)
    return Heading(_clean(sender, SENDER), _clean(subject, SUBJECT))


def read_headings(messages: Sequence[bytes], canonical_messages: Sequence[bytes]) -> list[Heading]:
    """Return `read_heading` of each message, given also their canonical bytes."""
    if MESSAGE_READER is None:  # without the core, CANONICAL_FORM is None, too
        return [read_by_python(*pair) for pair in zip(messages, canonical_messages, strict=True)]
    headings = MESSAGE_READER.read_headings(list(messages), list(canonical_messages), CANONICAL_FORM)
    return [
        read_by_python(raw, canonical_bytes) if heading is None else Heading(*heading)
        for raw, canonical_bytes, heading in zip(messages, canonical_messages, headings, strict=True)
    ]


def read_batch_headings(messages: Sequence[bytes], batch: MessageBatch) -> list[Heading]:
    """Return `read_heading` of each message; `batch` has what the core read of these messages."""
    if MESSAGE_READER is None or CANONICAL_FORM is None:
        raise AssertionError("a batch was read without the compiled core")
    headings = MESSAGE_READER.read_batch_headings(list(messages), batch, CANONICAL_FORM)
    return [
        read_by_python(raw, batch.canonical(index)) if heading is None else Heading(*heading)
        for index, (raw, heading) in enumerate(zip(messages, headings, strict=True))
    ]


def _clean(text: str, longest: int) -> str:
    """Return the first `longest` characters of a text as one line, without unprintable characters."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(text.split())[:longest]
