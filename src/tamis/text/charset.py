"""Convert bytes to UTF-8, by the declared encoding or by a guess.

A guess never fails. Byte order marks, the zero bytes of UTF-16 and the escape sequences of ISO 2022 are
recognised first. Then valid or nearly valid UTF-8 is taken as UTF-8: other text is valid UTF-8 only by
chance, and only if it is very short. All other bytes are decoded in each encoding of `GUESSED`, and the guess
is the one whose text is most probable in one of the encoding's languages.
"""

import codecs
from functools import lru_cache
from importlib import import_module
from typing import Final
from unicodedata import category

from tamis.charsets import BYTE_ORDER_MARKS, resolve_alias

# The encodings that may be guessed, and the languages (ISO 639 codes) that are written in them. Of two that
# are equally probable, the first is guessed.
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

_ANY_TEXT: Final = frozenset(("x-unknown", "unknown-8bit", "8bit"))  # names for encodings that are unknown

# All bytes are tested for ASCII and UTF-8. Marks and zero bytes are searched in the first bytes, and words in
# the first chunk that is not ASCII; both have this size.
_HEAD = 1 << 16
_SAMPLE = 1500  # bytes of non-ASCII words that are decoded in each guessed encoding; more change no guess
_CP1252_LOG_ODDS = 3.0  # cp1252 is 20 times (e³) as frequent as any other encoding but UTF-8
_MIN_VALID_RATIO = 2  # words are UTF-8 if they have over twice as many valid non-ASCII characters as invalid

# The cost, −log P, of a non-ASCII character that is not a letter. A letter costs 2 to 4 in its own language,
# and 8 or more in another. Quotes and dashes are as frequent as letters, other signs are rare, and control
# characters do not occur in text.
_QUOTE, _SIGN, _CONTROL = 4.0, 8.0, 14.0
_QUOTES = frozenset("\xa0«»¿¡„“”‘’‚–—…•·€°§№、。，：；？！「」『』（）《》～　،؛؟।")


def to_utf8(document: bytes, encoding: str | None = None) -> bytes:
    """Return the text in UTF-8.

    Bytes that are guessed or declared to be UTF-8 stay unchanged, even if some are invalid; a byte order mark
    of guessed UTF-8 is removed. Raise LookupError for an encoding that Python does not know.

    >>> to_utf8("Größe".encode("cp1252"), "iso-8859-1").decode()
    'Größe'
    """
    name = guess(document) if encoding is None else _look_up_codec(encoding)
    if name == "ascii" and encoding is not None:  # much mail declares ASCII for text in another encoding
        name = guess(document)
    if name in ("ascii", "utf-8"):
        return document
    try:
        return document.decode(name, "replace").encode("utf-8", "replace")
    except (LookupError, UnicodeError) as error:  # codecs such as base64 give no text
        raise LookupError(_describe_unknown(encoding or name)) from error


def decode(document: bytes, encoding: str | None = None) -> str:
    """Return the text of bytes, by `to_utf8`; invalid bytes become the replacement character.

    >>> decode("Где мои ключи? Они были на столе.".encode("koi8-r"))
    'Где мои ключи? Они были на столе.'
    """
    return to_utf8(document, encoding).decode("utf-8", "replace")


def guess(document: bytes) -> str:
    """Return Python's name of the encoding that bytes are probably in.

    >>> guess(b"plain"), guess("żółw".encode())
    ('ascii', 'utf-8')
    >>> guess("Çok güzel bir şehir, değil mi?".encode("cp1254"))
    'cp1254'
    """
    head = document[:_HEAD]
    for mark, name in BYTE_ORDER_MARKS:
        if head.startswith(mark):  # the codecs "utf-8-sig", "utf-16" and "utf-32" skip the mark
            return "utf-8-sig" if name == "utf-8" else name.rpartition("-")[0]
    if b"\0" in head and (utf16 := _guess_utf16(head)):
        return utf16
    if b"\x1b$" in head:
        return "iso2022_kr" if b"\x1b$)C" in head else "iso2022_jp_2"
    if document.isascii():
        return "ascii"
    try:
        document.decode()
    except UnicodeDecodeError:
        # The codec that browsers use, such as cp1252 for ISO-8859-1.
        return resolve_alias(_guess_by_words(_find_non_ascii_words(document)))
    return "utf-8"


def _guess_utf16(head: bytes) -> str | None:
    """Return UTF-16 with its byte order, by the zero bytes of Latin letters; None if there are too few."""
    half = len(head) // 2
    first, second = head[: 2 * half : 2].count(0), head[1 : 2 * half : 2].count(0)
    if second > 0.3 * half and first < 0.05 * half:
        return "utf-16-le"
    if first > 0.3 * half and second < 0.05 * half:
        return "utf-16-be"
    return None


def _find_non_ascii_words(document: bytes) -> bytes:
    """Return the words that have non-ASCII bytes, separated by spaces, of the first chunk with such bytes.

    All bytes before are ASCII, so that the chunk begins with a whole character in any encoding.
    """
    first = next(
        start for start in range(0, len(document), _HEAD) if not document[start : start + _HEAD].isascii()
    )
    return b" ".join(word for word in document[first : first + _HEAD].split() if not word.isascii())


@lru_cache(maxsize=64)
def _guess_by_words(words: bytes) -> str:
    """Guess the encoding of words. Results are cached, because messages often have the same few words."""
    text = words.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if len(text) - len(text.encode("ascii", "ignore")) - broken > _MIN_VALID_RATIO * broken:
        return "utf-8"
    sample = words[:_SAMPLE]
    costs = {name: _compute_cost(sample, name, languages.split()) for name, languages in GUESSED.items()}
    costs["cp1252"] -= _CP1252_LOG_ODDS
    return min(costs, key=costs.__getitem__)


def _compute_cost(sample: bytes, name: str, languages: list[str]) -> float:
    """Return −log P of the sample in an encoding.

    Bytes and characters correspond one to one, so that the costs in different encodings can be compared.
    """
    decoder = codecs.getincrementaldecoder(resolve_alias(name))("replace")
    text = decoder.decode(sample)  # without a character that is cut off at the end
    signs = 0.0
    for character in set(text):
        if not character.isascii() and not character.isalpha():
            signs += text.count(character) * _get_sign_cost(character)
    # `identifier` loads a table of languages and imports this module, so it is imported only for a guess.
    letters: float = import_module("tamis.text.identifier").find_least_cost(text, languages)
    return letters + signs


def _get_sign_cost(character: str) -> float:
    if character in _QUOTES:
        return _QUOTE
    if character == "\ufffd" or "\x80" <= character < "\xa0" or "\ue000" <= character < "\uf900":
        return _CONTROL
    return 0.0 if category(character)[0] == "M" else _SIGN  # combining marks count as letters


def _look_up_codec(encoding: str) -> str:
    name = encoding.strip().strip("'\"").lower()
    try:
        return "ascii" if name in _ANY_TEXT else codecs.lookup(resolve_alias(name)).name
    except (LookupError, ValueError) as error:  # a ValueError if the name has a zero byte
        raise LookupError(_describe_unknown(encoding)) from error


def _describe_unknown(encoding: str) -> str:
    return f"got encoding={encoding!r}, expected a name that Python knows, such as 'utf-8', or None to guess"
