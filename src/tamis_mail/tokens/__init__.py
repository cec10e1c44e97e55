"""a message → its tokens, as bytes, in documents.

- `head`: the first bytes of the header block, without unique values; its n-grams of bytes are one of the
  views, and need no parsing.
- `headers`: tokens of header fields, each with the field's name before it: `subject:offer`,
  `from:@shop.example`, `received:192.0.2`.
- `words`: the words of the body in order, one line per part of the message, so that neighbours can be paired.
- `marks`: other properties of the body: hosts, file names, the tree of MIME parts, hidden words, tricks,
  and numbers with their digits as 9.
- `relations`: whether the parts of a message agree: `links:other-domain`, `dkim:own-domain`.
- `patterns`: patterns of the values of header fields: `pattern:subject=Aa_a!`.
- `subject`: the words of the subject in order, between `^` and `$`, so that neighbours can be paired.

Tokens of `headers` and `marks` begin with a field's name, or what they describe. After it, `:` precedes a
word or a value, and `~` a property, such as the bit length of a number.

Bytes up to 32 separate the tokens of a document, and words on both sides of a line break are not paired. A
store counts these tokens, so VERSION changes whenever the tokens of any message change; a store that was made
with an older version keeps that version. `tests/mail/tokens` has expected tokens of all versions. Version 1
has no relations, and reads the pages of a message in another way (`body`). Version 3 has the tokens of
version 2 and further ones: patterns, the subject, numbers (`body`), and the relations of `agreements`.

The compiled core reads the tokens of COMPILED_VERSIONS. The modules of this package define them
(`reference`), read those of other versions, and are used where there is no core.
`tests/mail/tokens/test_compiled.py` compares both.
"""

from importlib import import_module

from tamis.compiled import core
from tamis_mail.message import Message
from tamis_mail.records import record

__all__ = ["COMPILED_VERSIONS", "VERSION", "VERSIONS", "Tokens", "read"]

VERSIONS = (1, 2, 3)
VERSION = VERSIONS[-1]  # the version that new stores use
COMPILED_VERSIONS = () if core is None else (2, 3)  # the versions that the compiled core reads


@record(frozen=True, slots=True)
class Tokens:
    """The documents of a message."""

    head: bytes
    headers: bytes
    words: bytes
    marks: bytes
    relations: bytes = b""
    patterns: bytes = b""
    subject: bytes = b""
    version: int = VERSION


def read(message: Message, version: int = VERSION) -> Tokens:
    """Compute the tokens of a message, as a version defines them.

    >>> from tamis_mail.message import parse
    >>> tokens = read(parse(b"Subject: Cheap watches!!\\n\\nBuy at http://shop.example/watch now"))
    >>> tokens.words
    b'buy at http shop example watch now'
    >>> tokens.headers.split()[:3]
    [b'subject:cheap', b'subject:watches!!', b'subject:!!']
    """
    if version not in VERSIONS:
        raise ValueError(f"version is {version}, expected one of {', '.join(map(str, VERSIONS))}")
    if core is None or version not in COMPILED_VERSIONS:
        # Imported only if needed: its regular expressions take long to compile.
        tokens: Tokens = import_module("tamis_mail.tokens.reference").read(message, version)
        return tokens
    head, headers, words, marks, relations, patterns, subject = core.mail.read_tokens(message, version)
    return Tokens(head, headers, words, marks, relations, patterns, subject, version)
