"""Text for terminals of any width and charset."""

import unicodedata
from typing import TextIO

# Unicode categories of characters that move the cursor, change the writing direction, or are invisible.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and symbols that look like a space
_COMBINING = frozenset({"Mn", "Me"})  # of marks that are drawn over the character before


def replace_hidden(text: str) -> str:
    """Replace characters that could move the cursor, or that most terminals do not show, by dots.

    >>> replace_hidden("a\\x1b[31mb\\u202ec")
    'a·[31mb·c'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join("·" if unicodedata.category(c) in _HIDDEN or c in _BLANK else c for c in text)


def make_displayable(out: TextIO, text: str) -> str:
    """Return the text in characters that the stream can show, without control characters."""
    text = replace_hidden(text)
    return text if can_show(out, text) else text.encode("ascii", "backslashreplace").decode("ascii")


def width_of(text: str) -> int:
    """Return the number of columns that a text takes: wide characters take two, combining marks none.

    Unicode calls these characters wide (W) or full-width (F).
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(c) in _COMBINING else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def clip(text: str, width: int, dots: str = "…") -> str:
    """Cut a text to a number of columns; `dots` end a text that was cut, if there is room for them.

    >>> clip("subject:unsubscribe", 10), clip("限时优惠", 5)
    ('subject:u…', '限时…')
    """
    if width_of(text) <= width:
        return text
    dots = dots[: max(width, 0)]
    kept, width_used = [], 0
    for c in text:
        width_used += width_of(c)
        if width_used > width - len(dots):
            break
        kept.append(c)
    return "".join(kept) + dots


def pad(text: str, width: int, dots: str = "…") -> str:
    """Cut or pad a text to a number of columns."""
    text = clip(text, width, dots)
    return text + " " * (width - width_of(text))


def can_show(out: TextIO, text: str) -> bool:
    """Whether a stream can encode all these characters."""
    try:
        text.encode(getattr(out, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
