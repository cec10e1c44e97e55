"""a message → its tokens: what a person would point at, as bytes, in four documents.

- `head`: the first bytes of the header block, tidied; its n-grams are a view of their own, for which
  nothing need be understood.
- `headers`: tokens of header fields, each with the field's name before it: `subject:offer`,
  `from:@shop.example`, `received:192.0.2`.
- `words`: the words of the body in order, a line for each paragraph-like piece, so that neighbours can be
  paired.
- `marks`: what else the body tells: hosts, file names, the shape of the MIME tree, hidden words, tricks.

Bytes up to 32 separate the tokens of a document, and words on both sides of a line break are not paired. What
a store has counted is these tokens, so VERSION changes whenever any message's tokens do; `tests/mail/tokens`
keeps golden files.
"""

from dataclasses import dataclass

from tamis_mail.message import Message
from tamis_mail.tokens import body, head, headers

__all__ = ["VERSION", "Tokens", "read"]

VERSION = 1


@dataclass(frozen=True, slots=True)
class Tokens:
    """The documents of a message."""

    head: bytes
    headers: bytes
    words: bytes
    marks: bytes


def read(message: Message) -> Tokens:
    """The tokens of a message.

    >>> from tamis_mail.message import parse
    >>> tokens = read(parse(b"Subject: Cheap watches!!\\n\\nBuy at http://shop.example/watch now"))
    >>> tokens.words
    b'buy at http shop example watch now'
    >>> tokens.headers.split()[:3]
    [b'subject:cheap', b'subject:watches!!', b'subject:!!']
    """
    words, marks = body.read(message)
    return Tokens(
        head.read(message.raw),
        headers.read(message.headers).encode("utf-8", "replace"),
        words,
        marks.encode("utf-8", "replace"),
    )
