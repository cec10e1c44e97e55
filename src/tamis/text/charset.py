"""bytes → UTF-8: by the encoding that is declared, or by what they seem to be.

Any bytes give an answer. What is valid UTF-8 is that: other encodings write it by chance in a word or two.
What is left is decoded in each way there is: it is in the encoding in which one of its languages reads best.
"""

import codecs
from functools import lru_cache
from importlib import import_module
from typing import Final
from unicodedata import category

from tamis.charsets import BYTE_ORDER_MARKS, resolve_alias

# Encodings that are guessed at, the likelier first, and the languages that are written in them.
GUESSED: Final = {
    "cp1252": "en de fr es it pt nl sv da nb fi is ca gl eu id af ga sq et",
    "cp1250": "pl cs sk hu ro hr sl sq",
    "iso8859-2": "pl cs sk hu ro hr sl sq",
    "cp1251": "ru uk bg sr mk",
    "koi8-r": "ru",
    "koi8-u": "uk",
    "cp1253": "el",
    "cp1254": "tr",
    "cp1255": "he",
    "cp1256": "ar fa ur",
    "cp1257": "lt lv et",
    "cp874": "th",
    "shift_jis": "ja",
    "euc_jp": "ja",
    "gb18030": "zh",
    "big5": "zh",
    "cp949": "ko",
}

_ANY_TEXT: Final = frozenset(("x-unknown", "unknown-8bit", "8bit"))  # declared where nothing is known

_HEAD = 1 << 16  # bytes that are looked at
_SAMPLE = 1500  # bytes of words beyond ASCII that are tried: more does not change a guess
_USUAL = 3.0  # nats: cp1252 is some 20 times as frequent as any other that is left
_SURE = 2  # times as many characters of UTF-8 as broken ones make it UTF-8: by chance, there are fewer

# What a character beyond ASCII that is no letter costs, in nats; a letter costs 2 to 4 in its own language,
# and 8 or more in another's. Quotes and dashes are as frequent as letters, other signs are rare, and
# controls are no text.
_QUOTE, _SIGN, _NO_TEXT = 4.0, 8.0, 14.0
_QUOTES = frozenset("\xa0«»¿¡„“”‘’‚–—…•·€°§№、。，：；？！「」『』（）《》～　،؛؟।")


def as_utf8(document: bytes, encoding: str | None = None) -> bytes:
    """The same text in UTF-8; what already is, or is declared to be, is not touched.

    >>> as_utf8("Größe".encode("cp1252"), "iso-8859-1").decode()
    'Größe'
    """
    name = guess(document) if encoding is None else _look_up_codec(encoding)
    if name == "ascii" and encoding is not None:  # mail says so of anything
        name = guess(document)
    if name in ("ascii", "utf-8"):
        return document
    try:
        return document.decode(name, "replace").encode("utf-8", "replace")
    except (LookupError, UnicodeError) as error:  # base64 and the like are codecs, too
        raise LookupError(_unknown(encoding or name)) from error


def decode(document: bytes, encoding: str | None = None) -> str:
    """The text that bytes are.

    >>> decode("Где мои ключи? Они были на столе.".encode("koi8-r"))
    'Где мои ключи? Они были на столе.'
    """
    return as_utf8(document, encoding).decode("utf-8", "replace")


def guess(document: bytes) -> str:
    """The name of the encoding that bytes seem to be in; Python decodes by it.

    >>> guess(b"plain"), guess("żółw".encode()), guess("Çok güzel bir şehir, değil mi?".encode("cp1254"))
    ('ascii', 'utf-8', 'cp1254')
    """
    head = document[:_HEAD]
    for mark, name in BYTE_ORDER_MARKS:
        if head.startswith(mark):  # Python's codecs of these names skip the mark
            return "utf-8-sig" if name == "utf-8" else name.rpartition("-")[0]
    if b"\0" in head and (wide := _wide(head)):
        return wide
    if b"\x1b$" in head:
        return "iso2022_kr" if b"\x1b$)C" in head else "iso2022_jp_2"
    if document.isascii():
        return "ascii"
    try:
        document.decode()
    except UnicodeDecodeError:
        return resolve_alias(_guess(_telling(document)))
    return "utf-8"


def _wide(head: bytes) -> str | None:
    """UTF-16 without a mark: Latin letters have a zero in every other place."""
    half = len(head) // 2
    first, second = head[: 2 * half : 2].count(0), head[1 : 2 * half : 2].count(0)
    if second > 0.3 * half and first < 0.05 * half:
        return "utf-16-le"
    if first > 0.3 * half and second < 0.05 * half:
        return "utf-16-be"
    return None


def _telling(document: bytes) -> bytes:
    """Some of the words with bytes beyond ASCII, of which the first begins a character in any encoding."""
    first = next(
        place for place in range(0, len(document), _HEAD) if not document[place : place + _HEAD].isascii()
    )
    return b" ".join(word for word in document[first : first + _HEAD].split() if not word.isascii())


@lru_cache(maxsize=64)
def _guess(words: bytes) -> str:
    """Lists and threads repeat themselves, and so do their words."""
    text = words.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if len(text) - len(text.encode("ascii", "ignore")) - broken > _SURE * broken:
        return "utf-8"
    sample = words[:_SAMPLE]
    costs = {name: _cost(sample, name, languages.split()) for name, languages in GUESSED.items()}
    costs["cp1252"] -= _USUAL
    return min(costs, key=costs.__getitem__)


def _cost(sample: bytes, name: str, languages: list[str]) -> float:
    """Nats of the sample, read in an encoding. Encodings are one to one, so these compare."""
    decoder = codecs.getincrementaldecoder(resolve_alias(name))("replace")
    text = decoder.decode(sample)  # a character that is cut off at the end is left out
    signs = 0.0
    for character in set(text):
        if not character.isascii() and not character.isalpha():
            signs += text.count(character) * _sign(character)
    # Languages need a table, and themselves read bytes by this module: they are loaded for those who guess.
    nats: float = import_module("tamis.text.identifier").nats(text, languages)
    return nats + signs


def _sign(character: str) -> float:
    if character in _QUOTES:
        return _QUOTE
    if character == "\ufffd" or "\x80" <= character < "\xa0" or "\ue000" <= character < "\uf900":
        return _NO_TEXT
    return 0.0 if category(character)[0] == "M" else _SIGN  # marks are told as letters


def _look_up_codec(encoding: str) -> str:
    name = encoding.strip().strip("'\"").lower()
    try:
        return "ascii" if name in _ANY_TEXT else codecs.lookup(resolve_alias(name)).name
    except (LookupError, ValueError) as error:  # a name with a zero in it
        raise LookupError(_unknown(encoding)) from error


def _unknown(encoding: str) -> str:
    return f"got encoding={encoding!r}, expected a name that Python knows, as 'utf-8', or None to guess"
