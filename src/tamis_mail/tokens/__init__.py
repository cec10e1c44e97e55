"""a message → its tokens, as bytes, in four documents.

- `head`: the first bytes of the header block, cleaned; its n-grams are a view of their own, which needs no
  parsing.
- `headers`: tokens of header fields, each with the field's name before it: `subject:offer`,
  `from:@shop.example`, `received:192.0.2`.
- `words`: the words of the body in order, one line per paragraph-like piece, so that neighbours can be
  paired.
- `marks`: other properties of the body: hosts, file names, the shape of the MIME tree, hidden words, tricks.

Bytes up to 32 separate the tokens of a document, and words on both sides of a line break are not paired. A
store counts these tokens, so VERSION changes whenever the tokens of any message change; `tests/mail/tokens`
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
    """Compute the tokens of a message.

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
