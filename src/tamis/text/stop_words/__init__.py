"""Lists of stop words by language: articles, pronouns, prepositions, conjunctions, auxiliaries.

Each list is a file in this folder, with words separated by white space; lines that begin with # are comments.
"""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final

from tamis.text.checking import check_words

NAMES: Final = {
    "ar": "arabic",
    "bg": "bulgarian",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "he": "hebrew",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sk": "slovak",
    "sv": "swedish",
    "tr": "turkish",
    "uk": "ukrainian",
    "vi": "vietnamese",
}
_CODES = {name: code for code, name in NAMES.items()} | {"no": "nb"}


def stop_words(given: str | Iterable[str] | None) -> frozenset[str]:
    """Return the words of a list, of a language ("en", "English"), or of several ("en+de"); none for None.

    A string always names languages; anything else is a collection of words.

    >>> "the" in stop_words("en"), "und" in stop_words("English+German"), sorted(stop_words(["foo", "bar"]))
    (True, True, ['bar', 'foo'])
    """
    if given is None:
        return frozenset()
    if not isinstance(given, str):
        return frozenset(check_words("stop_words", given))
    return frozenset().union(*(_read_language(part) for part in given.split("+")))


def _read_language(given: str) -> frozenset[str]:
    name = given.strip().lower()
    code = _CODES.get(name, name)
    if code not in NAMES:
        raise ValueError(
            f"got stop_words={given!r}, expected a list of words or a language among {', '.join(NAMES)}"
        )
    return _read_words(code)


@cache
def _read_words(code: str) -> frozenset[str]:
    text = (files("tamis.text.stop_words") / f"{code}.txt").read_text(encoding="utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())
