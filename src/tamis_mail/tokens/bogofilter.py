"""a message → the tokens that bogofilter 1.2.5 counts, for stores with counts imported from bogofilter.

A token of the header has a prefix that names its field: `subj:`, `from:`, `to:` (To and Cc), `rtrn:`
(Return-Path), `rcvd:` (Received), `mime:` (headers of parts) and `head:` (all other fields, whose names are
tokens, too). A token of the body has no prefix, and no word contains a colon. Upper and lower case differ.
The rules were found by experiment with `bogolexer -p`, the program that prints the tokens of bogofilter;
experiments/0011-bogofilter-import measures how many tokens are the same.
"""

import re
from itertools import islice

from tamis_mail.message import Message, Part

_MIN_LENGTH = 3  # bytes of a word; shorter words are ignored, but not amounts such as $5
_MAX_LENGTH = 30  # bytes of a token with its prefix; longer tokens are ignored
# Limits, which keep the time for one message short.
_TEXT = 200_000  # characters of the body that are read
_FIELDS = 300  # fields of a header that are read
_BLOCKS = 100  # headers of parts that are read
# Characters of the values of the header that are read, bytes of the header of a part, and bytes of the header
# in which the upper and lower case of names is looked up: the names of later fields are in lower case.
_HEADER = 200_000
_MAX_TAG = 5000  # characters of a tag or a comment: a longer tag, and the rest of a longer comment, are text

_OCTET = r"(?:25[0-5]|2[0-4]\d|[01]?\d{1,2})"  # of an IPv4 address
# An amount, an IPv4 address, or a word. A word begins with a letter, and ends with a letter, a digit or an
# exclamation mark; every character that is not ASCII counts as a letter.
_TOKEN = re.compile(
    rf"(\$\d++(?:\.\d++)?|{_OCTET}(?:\.{_OCTET}){{3}})"
    r"|[a-zA-Z\x80-\U0010ffff](?:[._~'`\-]*+[^\x00-\x20\x7f<>;=():&%$#@+|/\\{}^\"?*,\[\]._~'`\-]++)*+"
)
_PREFIXES = {"subject": "subj:", "from": "from:", "to": "to:", "cc": "to:"}
_PREFIXES |= {"return-path": "rtrn:", "received": "rcvd:"}
_SKIPPED = frozenset(
    ["date", "message-id", "in-reply-to", "references"]
)  # fields of which only the names are tokens
_NAME = re.compile(rb"^([!-9;-~]{1,100}+)[ \t]*+:", re.MULTILINE)
_QUEUE_ID = re.compile(r"\bid [^ ;]++")  # in a Received field: the id of the message in a server's queue
# Dropped from values: a boundary, which is unique, and the names of parameters that name a file.
_DROPPED = re.compile(r"\bboundary ?= ?(?:\"[^\"]*+\"?|[^\s;]*+)|\b(?:file)?name ?(?==)", re.IGNORECASE)
_PART_HEADER = re.compile(
    rb"\n--[^\n]*+\n((?=[Cc]ontent-|CONTENT-)(?:[!-9;-~]++:[^\n]*+\n(?:[ \t][^\n]*+\n)*+)++)"
)
_COMMENT = re.compile(rf"<!--(?:[^-]|-(?!->)){{0,{_MAX_TAG}}}+(?:-->)?")
_TAG = re.compile(rf"<([/!?]?)([a-zA-Z][a-zA-Z0-9:]*+)([^<>]{{0,{_MAX_TAG}}}+)>")
# Opening tags that end a word; any other tag, and any closing tag, may stand within a word.
_BREAK_NAMES = "br dd form h1 h2 h3 h4 h5 hr li map p table td title tr"
_BREAKS = frozenset(_BREAK_NAMES.split())
_NUMERIC_ENTITY = re.compile(r"&#(\d{1,7});")


def read(message: Message) -> list[bytes]:
    """Return the distinct tokens of a message, first those of the header.

    >>> from tamis_mail.message import parse
    >>> read(parse(b"From: Ann <ann@a.example>\\nX-Mailer: Post 7\\n\\nBuy it for $9.99!"))
    [b'from:Ann', b'from:ann', b'from:a.example', b'head:X-Mailer', b'head:Post', b'Buy', b'for', b'$9.99']
    """
    tokens = _read_header(message)
    for block in islice(_PART_HEADER.finditer(message.raw), _BLOCKS):
        text = _DROPPED.sub("", block[1][:_HEADER].decode("utf-8", "replace"))
        tokens |= dict.fromkeys(_split_tokens(text, "mime:"))
    remaining = _TEXT
    for part in message.parts:
        if part.text and remaining > 0:
            tokens |= dict.fromkeys(_split_tokens(_read_text(part, remaining), ""))
            remaining -= len(part.text)
    return list(tokens)


def _read_header(message: Message) -> dict[bytes, None]:
    """Return the distinct tokens of the header, in order."""
    end = message.raw.find(b"\n\n", 0, _HEADER)
    names = _NAME.findall(message.raw[: end if end >= 0 else _HEADER])
    spelling = {name.lower().decode(): name.decode() for name in reversed(names)}
    tokens: dict[bytes, None] = {}
    remaining = _HEADER
    for name, value in message.headers[:_FIELDS]:
        prefix = _PREFIXES.get(name, "head:")
        if prefix == "head:":
            tokens |= dict.fromkeys(_split_tokens(spelling.get(name, name), prefix))
            value = "" if name in _SKIPPED else _DROPPED.sub("", value)
        elif prefix == "rcvd:":
            value = _QUEUE_ID.sub("", value)
        tokens |= dict.fromkeys(_split_tokens(value[: max(remaining, 0)], prefix))
        remaining -= len(value)
    return tokens


def _read_text(part: Part, remaining: int) -> str:
    """Return the first `remaining` characters of a part's text; of HTML, without tags and comments.

    The attributes of links, images and fonts follow the text, because bogofilter reads them.
    """
    text = part.text[:remaining]
    if part.kind != "text/html":
        return text
    attributes: list[str] = []

    def replace(tag: re.Match[str]) -> str:
        name = tag[2].lower()
        if name in ("a", "img", "font") and not tag[1]:
            attributes.append(tag[3])
        return " " if name in _BREAKS and not tag[1] else ""

    text = _TAG.sub(replace, _COMMENT.sub("", text))
    text = "\n".join([text, *attributes])
    return _NUMERIC_ENTITY.sub(lambda entity: _decode_number(int(entity[1])), text) if "&#" in text else text


def _decode_number(code: int) -> str:
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else " "


def _split_tokens(text: str, prefix: str) -> list[bytes]:
    """Return the tokens of a text, each with the prefix."""
    tokens = []
    for match in _TOKEN.finditer(text):
        word = match[0].encode("utf-8", "replace")
        token = prefix.encode() + word
        if len(token) <= _MAX_LENGTH and (match[1] or len(word) >= _MIN_LENGTH):
            tokens.append(token)
    return tokens
