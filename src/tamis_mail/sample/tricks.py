"""Tricks of spammers: words that are written in other characters, and hidden or harmless words as padding."""

import re
from collections.abc import Callable

from tamis_mail.sample.dice import Dice
from tamis_mail.sample.recipes import words

_MARKED = re.compile(r"~([^~\n]+)~")
# Latin letters, and Cyrillic letters that look like them (homoglyphs).
_LOOK_ALIKE = str.maketrans("aeopcxyiACEHKMOPTX", "аеорсхуіАСЕНКМОРТХ")
_LEET = str.maketrans("aeiost", "43105+")  # letters, and digits and signs that look like them (leet)


def disguise(text: str, tricks: tuple[str, ...], dice: Dice, *, html: bool) -> str:
    """Apply to each word between two ~ one of the tricks, and remove the marks.

    Names of `tricks` that change no words, such as "hidden", are ignored, and "tags" if the text is not HTML.
    """
    applicable = [trick for trick in tricks if trick in _TRICKS and (html or trick != "tags")]

    def replace(match: re.Match[str]) -> str:
        return _TRICKS[dice.pick(applicable)](match[1], dice) if applicable else match[1]

    return _MARKED.sub(replace, text)


def _insert_signs(word: str, dice: Dice, signs: tuple[str, ...]) -> str:
    """Insert one of the signs into a word, at one or two positions."""
    cuts = sorted(dice.pick_several(range(1, len(word)), min(2, len(word) - 1)))
    pieces = [word[start:end] for start, end in zip([0, *cuts], [*cuts, len(word)], strict=True)]
    return dice.pick(signs).join(pieces)


_TRICKS: dict[str, Callable[[str, Dice], str]] = {
    "zero-width": lambda word, dice: _insert_signs(word, dice, ("\u200b", "\u200c", "\u2060", "\u00ad")),
    "tags": lambda word, dice: _insert_signs(
        word, dice, ("<b></b>", "<!-- x -->", "<span></span>", "<i></i>")
    ),
    "homoglyph": lambda word, _: word.translate(_LOOK_ALIKE),
    "spaced": lambda word, dice: dice.pick((" ", ".", "_", "-")).join(word.replace(" ", "")),
    "split": lambda word, dice: _insert_signs(word, dice, (" ", "-", " . ")),
    "leet": lambda word, _: word.translate(_LEET),
}


def make_padding(dice: Dice, count: int) -> str:
    """Return harmless words, so that these outnumber the words of spam."""
    chosen_words = [dice.pick(words()["en.padding"]) for _ in range(count)]
    return "\n".join(" ".join(chosen_words[start : start + 9]) for start in range(0, count, 9))


def append_hidden_text(page: str, dice: Dice) -> str:
    """Append harmless words to a page of HTML, in a style that browsers do not show."""
    style = dice.pick(
        (
            "display:none",
            "font-size:0px;color:#ffffff",
            "color:#fefefe;font-size:1px",
            "position:absolute;left:-9999px",
        )
    )
    return f'{page}<div style="{style}">{make_padding(dice, dice.draw_between(25, 60))}</div>\n'
