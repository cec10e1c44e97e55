"""Bytes of a part → decoded bytes → text, also if the declared transfer encoding or charset is wrong.

A name from a sender never reaches `codecs.lookup`, which imports modules by name and caches each name for
ever. Only the codecs of `tamis.charsets` are used.
"""

import re
from binascii import Error, a2b_base64, a2b_qp
from codecs import charmap_decode
from functools import cache
from typing import Final

from tamis.charsets import BYTE_ORDER_MARKS, CODECS, find_codec

# Charsets in which a byte below 128 need not be the ASCII character of that number.
_NOT_ASCII: Final = frozenset(name for name in CODECS if name.startswith(("utf-7", "utf-16", "utf-32", "hz")))
# Beginnings of the names of codecs that have one byte per character.
_ONE_BYTE: Final = ("cp12", "iso8859", "koi8", "mac-", "cp4", "cp7", "cp8", "kz", "ptcp", "hp", "tis")
_SAMPLE = 4096  # bytes of a part that are examined to find out whether it is text
_MAX_PIECES = 1000  # pieces of base64, each with padding at its end, that are decoded
_BASE64_DIGITS = bytes(sorted(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="))
_NOT_BASE64 = bytes(set(range(256)) - set(_BASE64_DIGITS))
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\f\r\x1b")) + b"\x7f"
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz \n"
_BAD_ESCAPE = re.compile(rb"=(?![0-9A-Fa-f]{2}|\n|\Z)")
# These patterns are rarely needed: `re` compiles them on first use and caches them.
_GAP = rb"[A-Za-z,.] [A-Za-z]"
_SPACE_AFTER_EQUALS = rb"=[ \t]+\n"
_JAPANESE = rb"\x1b[$(][@B-DIJ]"
_UUENCODED = rb"(?:\A|\n)begin [0-7]{3,4} [^\n]{1,200}(?:\n[ -`]{1,62}(?=\n|\Z))++(?:\n`?end(?=\n|\Z))?"


def decode_transfer(data: bytes, encoding: str, faults: set[str]) -> bytes:
    """Decode quoted-printable or base64; return the bytes unchanged if they are in neither.

    Names of faults are added to `faults`, as by all functions here.
    """
    if encoding == "quoted-printable":
        return decode_quoted_printable(data, faults)
    if encoding == "base64":
        return decode_base64(data, faults)
    return data


def decode_quoted_printable(data: bytes, faults: set[str]) -> bytes:
    """Decode quoted-printable; an invalid escape stays unchanged.

    >>> decode_quoted_printable(b"caf=C3=A9 = 1=\\n !=", set())
    b'caf\\xc3\\xa9 = 1 !'
    """
    if b"=" not in data:
        return data
    if b"= " in data or b"=\t" in data:
        data = re.sub(_SPACE_AFTER_EQUALS, b"=\n", data)
    if _BAD_ESCAPE.search(data):
        faults.add("quoted-printable")
    return a2b_qp(data)


def decode_base64(data: bytes, faults: set[str]) -> bytes:
    """Decode base64 and skip other characters; return the bytes unchanged if they are not base64.

    >>> decode_base64(b"aGVs\\nbG8=", set()), decode_base64(b"hello, you!", set())
    (b'hello', b'hello, you!')
    """
    text = data.translate(None, b"\n")
    try:
        return a2b_base64(text, strict_mode=True)
    except Error:
        pass
    compact = text.translate(None, b" \t")
    if not compact:
        return b""
    faults.add("base64")
    digits = compact.translate(None, _NOT_BASE64)
    # Data with many spaces between letters, or with one character in ten outside base64, is plain text.
    other_characters = len(compact) - len(digits)
    gaps = len(re.findall(_GAP, data[:_SAMPLE]))
    if (other_characters > 1 and other_characters * 10 > len(compact)) or (
        gaps > 1 and gaps * 20 > len(data[:_SAMPLE])
    ):
        return data
    pieces = []
    for piece in digits.split(b"=", _MAX_PIECES)[:_MAX_PIECES]:
        if len(piece) % 4 == 1:  # the last character has six bits, which are less than a byte
            piece = piece[:-1]
        pieces.append(a2b_base64(piece + b"=" * (-len(piece) % 4)))
    return b"".join(pieces)


def size_of(data_length: int, line_ends: int, encoding: str) -> int:
    """Estimate the decoded size of a part from its length and the number of line ends in it.

    For valid base64, it is exact except for the padding. Of quoted-printable, it is the encoded size.
    """
    return (data_length - line_ends) * 3 // 4 if encoding == "base64" else data_length


def is_binary(data: bytes) -> bool:
    """Whether bytes that are declared as text seem to be binary, such as a picture sent as HTML.

    They are, unless they are UTF-16 or UTF-32, if more than one byte in twelve is a control character, and
    fewer than half are letters of ASCII or spaces.
    """
    sample = data[:_SAMPLE]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if (
        controls * 12 <= len(sample)
        or sample.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"))
        or _detect_utf16(sample)
    ):
        return False
    return (len(sample) - len(sample.translate(None, _LETTERS))) * 2 < len(sample)


def decode_text(data: bytes, charset: str, faults: set[str]) -> str:
    """Decode text by its declared or detected charset; the result has no lone surrogates.

    >>> decode_text("żółw".encode(), "", set()), decode_text(b"caf\\xe9", "utf-8", set())
    ('żółw', 'café')
    """
    codec = find_codec(charset)
    if codec is None:
        faults.add("charset")
        codec = ""
    if codec not in _NOT_ASCII and data.isascii() and b"\x1b" not in data and b"\0" not in data:
        return data.decode("ascii")
    for mark, name in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            codec, data = name, data[len(mark) :]
            break
    else:
        if b"\0" in data and codec not in _NOT_ASCII:
            codec = _detect_utf16(data[:_SAMPLE]) or codec
    if codec in ("", "ascii", "utf-8"):
        text = _decode_utf8_or_western(data, codec, faults)
    else:
        text = _decode_with(codec, data, faults)
        if codec == "utf-7":  # the only codec here that returns lone surrogates
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if "\0" in text:
        faults.add("nul")
        text = text.replace("\0", "")
    return text


def remove_uuencoded(data: bytes, faults: set[str]) -> bytes:
    """Remove uuencoded files from a text; uuencode is older than MIME and base64."""
    if b"begin " not in data:
        return data

    def replace_block(match: re.Match[bytes]) -> bytes:
        block = match[0]
        if not (block.endswith(b"end") or b"\nM" in block):
            return block
        faults.add("uuencode")
        return b"\n"

    return re.sub(_UUENCODED, replace_block, data)


def _decode_utf8_or_western(data: bytes, codec: str, faults: set[str]) -> str:
    """Decode UTF-8 or, if it is none, Windows-1252; escape sequences of Japanese text are recognised."""
    if codec != "utf-8" and b"\x1b" in data and re.search(_JAPANESE, data):
        return data.decode("iso2022-jp-ext", "replace")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        faults.add("charset")
        text = data.decode("utf-8", "replace")
        # Valid characters of several bytes make the text shorter than the data. If it is shorter by less than
        # the number of invalid bytes, this is another charset.
        if len(data) - len(text) < text.count("\ufffd"):
            text = _decode_with("cp1252", data, faults)
    else:
        if codec == "ascii" and not data.isascii():
            faults.add("charset")
    return text


def _decode_with(codec: str, data: bytes, faults: set[str]) -> str:
    """Decode bytes by a codec; invalid ones become U+FFFD and are a fault."""
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        faults.add("charset")
    if not codec.startswith(_ONE_BYTE):
        return data.decode(codec, "replace")
    # "replace" takes 500 ns per byte that the charset does not define; a complete table takes 1 ns.
    return charmap_decode(data, "strict", _make_table(codec))[0]


@cache  # a table takes 40 µs, and a message may have thousands of short texts
def _make_table(codec: str) -> str:
    """Return the characters of the bytes 0 to 255 in a codec of one byte per character."""
    return bytes(range(256)).decode(codec, "replace")


def _detect_utf16(sample: bytes) -> str:
    """Return the codec of UTF-16 if over 70 % of the bytes at odd or at even positions are zero; else ""."""
    half = len(sample) // 2
    if half < 4:
        return ""
    if sample[1::2].count(0) * 10 > half * 7:
        return "utf-16-le"
    if sample[::2].count(0) * 10 > half * 7:
        return "utf-16-be"
    return ""
