"""Block of header lines → fields; a field → its decoded text, or its parameters.

A block is decoded as Latin-1, byte for byte, and each value is later decoded by its charset, so that an
invalid byte affects one field only. A block ends at an empty line, or where no field follows. Functions with
a parameter `faults` add the names of the faults that they find to it.
"""

import re
from binascii import a2b_qp
from collections.abc import Iterable
from itertools import islice
from typing import Final

from tamis.compiled import core
from tamis_mail.message.bodies import decode_base64, decode_text

# Limits; what exceeds them is ignored, except for encoded words, which then stay encoded.
FIELDS: Final = 1000  # fields of a block that are kept
LONGEST: Final = 10_000  # characters of a value that are kept
NAME: Final = 100  # characters of a name that are kept
PARAMETERS: Final = 100  # parameters of a field that are read
WORDS: Final = 100  # encoded words of a value that are decoded
BLOCK_BYTES: Final = 1 << 21  # bytes of a block that are read
_BAD_LINES = 1000  # lines of a block that are not fields and are skipped; after more, the body begins

_NAME = "[!-9;-~]"
_BLOCK = re.compile(rf"(?:{_NAME}++[ \t]*+:[^\n]*+\n(?:[ \t][^\n]*+\n)*+)*+")
_FIELD = re.compile(rf"({_NAME}++)[ \t]*+:[ \t]*+([^\n]*+(?:\n[ \t][^\n]*+)*+)\n")
_FIELD_START = re.compile(rf"{_NAME}++[ \t]*+:")
_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*+)\?=")
_PARAMETER = re.compile(r'[; ] ?([^=;" ]{1,60}+) ?= ?(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"?|([^;" ]*+))')
_MEDIA_TYPE = re.compile(r"[ \"']?([a-z0-9][a-z0-9!#$&^_.+-]{0,60}) ?/ ?([a-z0-9*][a-z0-9!#$&^_.+-]{0,60})")
_TOKEN = re.compile(r"[a-z0-9][a-z0-9._+-]{0,40}")
_SPACES = re.compile(r"[ \t\n\r\f\v]++")
_CONTROLS = "[\x00-\x1f\x7f-\x9f\u2028\u2029]+"
_BLANKS = " \t\n\r\f\v"  # `str.strip` would also strip bytes of UTF-8 that were read as Latin-1

Fields = list[tuple[str, str]]  # name in lower case and value; the name of a line that is no field is empty


def read_fields(
    data: bytes, start: int, end: int, faults: set[str], limit: int = BLOCK_BYTES
) -> tuple[Fields, int]:
    """Return the fields of `data[start:end]`, with unfolded raw values, and the index where the body starts.

    Of the block, at most `limit` and BLOCK_BYTES bytes are read; later fields are ignored.
    """
    if start >= end:
        return [], start
    if data.startswith(b"\n", start, end):
        return [], start + 1
    blank = data.find(b"\n\n", start, end)
    stop = end if blank < 0 else blank + 1
    block_end = stop
    limit = min(limit, BLOCK_BYTES)
    if stop - start > limit:  # the rest is ignored, from the end of a line if there is one
        faults.add("headers")
        if limit <= 0:
            return [], min(stop + 1, end)
        block_end = data.rfind(b"\n", start, start + limit) + 1 or start + limit
    well_formed_fields = _read_well_formed_block(data, start, block_end)
    if well_formed_fields is not None:
        fields = well_formed_fields
        body = min(stop + 1, end) if blank >= 0 else end
    else:
        block = _decode_block(data, start, block_end)
        fields, length = _read_malformed_block(block, faults)
        body = start + length if length < len(block) else min(stop + 1, end)
    if len(fields) > FIELDS:
        faults.add("headers")
        del fields[FIELDS:]
    return fields, body


def _read_well_formed_block(data: bytes, start: int, end: int) -> Fields | None:
    """Read a block in which every line belongs to a field; None if some line does not."""
    if core is not None:
        fields: Fields | None = core.mail.read_header_block(data, start, end, FIELDS + 1, NAME, LONGEST)
        return fields
    block = _decode_block(data, start, end)
    return (
        _fields_of(block, 0, len(block), FIELDS + 1) if _find_end_of_fields(block, 0) == len(block) else None
    )


def _decode_block(data: bytes, start: int, end: int) -> str:
    block = data[start:end].decode("latin-1")
    return block if block.endswith("\n") else block + "\n"


def _read_malformed_block(block: str, faults: set[str]) -> tuple[Fields, int]:
    """Read a block with lines that are not fields; return its fields and its length.

    Such a line is skipped if a field follows it. Otherwise the body begins with it, without an empty line.
    """
    fields: Fields = []
    position, bad_lines = 0, 0
    while position < len(block):
        stop = _find_end_of_fields(block, position)
        if stop > position:
            fields += _fields_of(block, position, stop, FIELDS + 1 - len(fields))
            position = stop
            continue
        next_line = block.find("\n", position) + 1
        if not block.startswith(("From ", ">From "), position):
            faults.add("headers")
            bad_lines += 1
            if bad_lines > _BAD_LINES or not _FIELD_START.match(block, next_line):
                break
            if len(fields) <= FIELDS:
                fields.append(("", block[position : min(next_line, position + LONGEST)].strip(_BLANKS)))
        position = next_line
    return fields, position


def _find_end_of_fields(block: str, position: int) -> int:
    """Return the end of the well-formed fields that begin at a position."""
    match = _BLOCK.match(block, position)
    return match.end() if match else position


def _fields_of(block: str, start: int, stop: int, limit: int) -> Fields:
    """Return the first `limit` fields of a well-formed part of a block."""
    if stop - start < LONGEST:  # no value is too long
        pairs: Iterable[tuple[str, str]] = _FIELD.findall(block, start, stop)[:limit]
    else:
        pairs = (
            (match[1][:NAME], match[2][:LONGEST])
            for match in islice(_FIELD.finditer(block, start, stop), limit)
        )
    return [
        (
            name[:NAME].lower(),
            (value.replace("\n\t", " ").replace("\n", "") if "\n" in value else value).rstrip(_BLANKS),
        )
        for name, value in pairs
    ]


def find_encoded_fields(fields: Fields) -> list[int]:
    """Return the indices of the fields whose raw values must be decoded.

    >>> find_encoded_fields([("subject", "hello"), ("subject", "=?utf-8?q?caf=C3=A9?=")])
    [1]
    """
    if core is not None:
        indices: list[int] = core.mail.find_encoded_fields(fields)
        return indices
    return [
        index
        for index, (_, value) in enumerate(fields)
        if not (value.isascii() and value.isprintable() and "=?" not in value)
    ]


def decode_value(value: str, faults: set[str], words: int = WORDS) -> str:
    """Decode the raw value of a field: its charset, and at most `words` encoded words.

    >>> decode_value("=?utf-8?q?caf=C3=A9?= =?utf-8?b?IQ==?=", set())
    'café!'
    """
    if words > 0 and "=?" in value:
        value = _decode_words(value, faults, words)
    elif not value.isascii():
        value = _decode_bytes(value, faults)
    if not value.isprintable():
        if "\0" in value:
            faults.add("nul")
            value = value.replace("\0", "")
        value = re.sub(_CONTROLS, " ", value)
    return value


def _decode_words(value: str, faults: set[str], words: int) -> str:
    """Decode encoded words; adjacent ones of one charset are joined first: they may split a character."""
    pieces: list[str] = []
    charset, data, last = "", b"", 0
    for match in islice(_WORD.finditer(value), words):
        between = value[last : match.start()]
        name, kind, body = match.groups()
        name = name.partition("*")[0].lower()  # RFC 2231 adds a language: utf-8*en
        if data and (name != charset or (between and not between.isspace())):
            pieces.append(decode_text(data, charset, faults))
            data = b""
        if not last or not between.isspace():
            pieces.append(_decode_bytes(between, faults))
        word = body.encode("latin-1")
        data += a2b_qp(word, header=True) if kind in "qQ" else decode_base64(word, faults)
        charset, last = name, match.end()
    if data:
        pieces.append(decode_text(data, charset, faults))
    pieces.append(_decode_bytes(value[last:], faults))
    return "".join(pieces)


def _decode_bytes(value: str, faults: set[str]) -> str:
    """Decode a value that names no charset; `decode_text` detects it: mostly UTF-8 or Windows-1252."""
    return value if value.isascii() else decode_text(value.encode("latin-1"), charset="", faults=faults)


def kind_of(value: str) -> str:
    """Return the media type of a Content-Type, or an empty string.

    >>> kind_of(" Text/HTML; charset=utf-8")
    'text/html'
    """
    match = _MEDIA_TYPE.match(value[:200].lower())
    return f"{match[1]}/{match[2]}" if match else ""


def token_of(value: str) -> str:
    """Return the first word of a value, in lower case, such as the name of a transfer encoding."""
    match = _TOKEN.search(value[:200].lower())
    return match[0] if match else ""


def parameters_of(value: str) -> Fields:
    """Return the names and raw values of a field's parameters; an unclosed quoted string ends with the field.

    >>> parameters_of('text/plain; charset="utf-8"; Name=a.txt')
    [('charset', 'utf-8'), ('name', 'a.txt')]
    """
    if "=" not in value:
        return []
    parameters = []
    for match in islice(_PARAMETER.finditer(_SPACES.sub(" ", value)), PARAMETERS):
        name, quoted, unquoted = match.groups("")
        if "\\" in quoted:
            quoted = _unescape(quoted)
        parameters.append((name.lower(), unquoted or quoted))
    return parameters


def _unescape(quoted: str) -> str:
    """Remove the backslashes before escaped characters; `re.sub` would take twice the time."""
    return "\\".join([piece.replace("\\", "") for piece in quoted.split("\\\\")])


def decode_parameter(parameters: Fields, name: str, faults: set[str], words: int = WORDS) -> str:
    """Return a decoded parameter, also one in pieces by RFC 2231 (`name*0*=`); empty if there is none."""
    values = [value for key, value in parameters if key == name]
    if len(values) > 1:
        faults.add("duplicate-parameter")
    star = name + "*"
    pieces = [(key[len(star) :], value) for key, value in parameters if key.startswith(star)]
    if not pieces:
        return decode_value(values[0], faults, words) if values else ""
    charset, data = "", b""  # without a charset, `decode_text` detects it
    for index, (number, value) in enumerate(sorted(pieces, key=_read_piece_number)):
        # A percent-encoded piece is decoded as quoted-printable, with = in place of %. The first piece names
        # the charset.
        if number.endswith("*") or not number:
            if not index:
                charset, quote, rest = value.partition("'")
                value = rest.partition("'")[2] if quote else value
                charset = charset.lower() if quote else ""
            data += a2b_qp(value.encode("latin-1", "replace").replace(b"=", b"=3D").replace(b"%", b"="))
        else:
            data += value.encode("latin-1", "replace")
    return decode_value(decode_text(data, charset, faults).encode().decode("latin-1"), faults, words)


def _read_piece_number(piece: tuple[str, str]) -> int:
    digits = piece[0].rstrip("*")[:6]
    return int(digits) if digits.isdecimal() and digits.isascii() else 0
