"""Text → normalised text, in which disguised words have their usual letters, and the tricks of disguise.

NFKC is the normalization form of Unicode that replaces characters by their compatible equivalents, such as
full-width letters by ordinary ones.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Final, Literal, NamedTuple

# Letters, and the Latin letters they look like; only lower case, because text is folded before.
_CYRILLIC: Final = ("абвгезіїјкмнорстухѕԁԛԝһӏь", "a6bre3iijkmhopctyxsdqwhlb")
_GREEK: Final = ("αβγεζηικνορτυχωϲ", "abyeznikvoptuxwc")
_INVISIBLE: Final = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
_LETTER: Final = (
    "A-Za-z\u00c0-\u024f\u0370-\u052f"  # letters of scripts whose words need no invisible characters
)
# Consecutive combining marks, or other non-ASCII characters that are neither letters, digits nor spaces, that
# are kept: NFKC takes quadratic time in the number of marks.
_MAX_MARKS: Final = 20
# The only letters of Unicode that NFKC turns into combining marks (test_bounds.py checks all letters).
_LETTERS_TO_MARKS: Final = {0xFF9E: 0x3099, 0xFF9F: 0x309A}
# At least five single letters with one separator between them: "v i a g r a". The pattern begins with the
# separator, because letters are more frequent, and a search for them would be slower.
_SPACED_OUT = re.compile(r"([ ._*-])(?<=(?<![a-z0-9])[a-z]\1)[a-z]\1[a-z]\1[a-z]\1[a-z](?![a-z0-9])")


def fold_text(text: str) -> tuple[str, tuple[str, ...]]:
    """Normalise text (NFKC, lower case); return it, and the names of the obfuscation tricks in it.

    Invisible characters are removed. In words of mixed scripts, look-alikes are replaced by Latin letters,
    unless a letter of the word has none.

    >>> fold_text("V\\u0456agra Ｆｒｅｅ v i a g r a")
    ('viagra free v i a g r a', ('full-width', 'mixed-script', 'spaced-out'))
    """
    if text.isascii():
        text = text.lower()
        return text, ("spaced-out",) if _SPACED_OUT.search(text) else ()
    tools = _load_unicode_tools()
    tricks: set[str] = set()
    if tools.unusual.search(text):
        text = _remove_disguise(text, tricks)
    text = tools.normalize("NFKC", text).casefold()
    if tools.mixed_script.search(text):
        tricks.add("mixed-script")
        text = tools.word.sub(_replace_look_alikes, text)
    if _SPACED_OUT.search(text):
        tricks.add("spaced-out")
    return text, tuple(sorted(tricks))


def _remove_disguise(text: str, tricks: set[str]) -> str:
    """Remove invisible characters and excess marks; search only for characters that the text has."""
    tools = _load_unicode_tools()
    characters = "".join(set(text))
    if tools.invisible.search(characters):
        if tools.soft_hyphen.search(text):
            tricks.add("soft-hyphen")
        if tools.zero_width.search(text):
            tricks.add("zero-width")
        text = tools.invisible.sub("", text)
    if tools.full_width.search(characters):
        tricks.add("full-width")
    if tools.mathematical.search(characters):
        tricks.add("math-letters")
    # This precedes the count of marks, because NFKC would turn these letters into marks.
    if "\uff9e" in characters or "\uff9f" in characters:
        text = text.translate(_LETTERS_TO_MARKS)
        characters += "\u3099"
    if any(map(tools.combining, characters)):
        text = tools.marks.sub(r"\1", text)
    # NFKC would expand this one character, an Arabic formula, to its 18 letters and spaces; here the usual
    # abbreviation of the formula replaces it.
    return text.replace("\ufdfa", "صلعم")


class _UnicodeTools(NamedTuple):
    """The functions and patterns for text that is not ASCII."""

    normalize: Callable[[Literal["NFKC"], str], str]
    combining: Callable[[str], int]
    unusual: re.Pattern[str]  # characters that `_remove_disguise` may change
    invisible: re.Pattern[str]
    soft_hyphen: re.Pattern[str]  # between two letters
    zero_width: re.Pattern[str]  # invisible characters between two letters
    full_width: re.Pattern[str]
    mathematical: re.Pattern[str]  # mathematical and enclosed letters
    marks: re.Pattern[str]  # more than _MAX_MARKS of them
    mixed_script: re.Pattern[str]  # a Latin letter beside a Greek or Cyrillic one
    word: re.Pattern[str]  # of Latin, Greek and Cyrillic letters
    latin: dict[int, int]  # look-alikes and their Latin letters, for `str.translate`


@cache
def _load_unicode_tools() -> _UnicodeTools:
    """Compile the patterns for non-ASCII text on first use: half of all mail is ASCII."""
    from unicodedata import combining, normalize  # noqa: PLC0415 (not loaded for ASCII)

    latin = str.maketrans(_CYRILLIC[0] + _GREEK[0], _CYRILLIC[1] + _GREEK[1])
    return _UnicodeTools(
        normalize,
        combining,
        re.compile("[^\x00-\xac\xae-\u024f\u0410-\u044f\u2010-\u2027\u2030-\u205e\u20ac\u2122\ufffd]"),
        re.compile(f"[{_INVISIBLE}\U000e0000-\U000e007f]++"),
        re.compile(f"\xad(?<=[{_LETTER}]\xad)[{_LETTER}]"),
        re.compile(f"[\u200b-\u200f\u2060-\u2064\ufeff](?<=[{_LETTER}].)[{_INVISIBLE}]*+[{_LETTER}]"),
        re.compile("[Ａ-Ｚａ-ｚ]"),
        re.compile("[\U0001d400-\U0001d7ff\u24b6-\u24e9\U0001f130-\U0001f149]"),
        re.compile(rf"([^\w\s\x00-\x7f]{{{_MAX_MARKS}}})[^\w\s\x00-\x7f]++"),
        re.compile("[a-z][\u0370-\u052f]|[\u0370-\u052f][a-z]"),
        re.compile("[a-z\u0370-\u052f]++"),
        latin,
    )


def _replace_look_alikes(match: re.Match[str]) -> str:
    """Replace look-alikes in a word of mixed scripts, unless a letter of it has no Latin look-alike."""
    word = match[0]
    if word.isascii() or not _load_unicode_tools().mixed_script.search(word):
        return word
    latin = word.translate(_load_unicode_tools().latin)
    return latin if latin.isascii() else word
