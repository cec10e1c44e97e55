"""Attributes of a tag → their effect on the text within the element: hidden, tiny, or coloured.

Edition 1 of `read_html` does not recognise text that is hidden by the height of its line, by clipping, by a
box too small for it, by a transparent colour, or by a position outside the page other than `text-indent`; nor
does it recognise images as backgrounds.
"""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from tamis_mail.message.entities import decode_entities

_TINY = 2.0  # pixels: text of this height or less is unreadable
_MIN_POSITION = -500.0  # pixels; text at a smaller position is outside the page
# Patterns are compiled on first use (`_compile`), which takes a millisecond: plain text needs none.
_STYLE = r"""(?a)\bstyle\s*+=\s*+(?:"([^"]*+)|'([^']*+)|([^\s"'>]++))"""
_COMMENT = r"/\*[^*]*+\*++/"
_PROPERTIES = "display|visibility|font-size|opacity|color|background|background-color|mso-hide|text-indent"
_EDITION_2_PROPERTIES = "line-height|left|top|margin-left|clip"
_DECLARATION = rf"(?a)(?:^|[;{{\s])({_PROPERTIES})\s*+:\s*+([^;]{{1,80}})"
_EDITION_2_DECLARATION = rf"(?a)(?:^|[;{{\s])({_PROPERTIES}|{_EDITION_2_PROPERTIES})\s*+:\s*+([^;]{{1,80}})"
_LENGTH = r"(-?[0-9]{0,6}\.?[0-9]{1,6})(px|pt|em|rem|ex|%)?"
_BOX_SIZE = r"(?a)(?:^|[;{\s])(?:max-)?(?:height|width)\s*+:\s*+([^;]{1,80})"
_HIDDEN_OVERFLOW = r"(?a)(?:^|[;{\s])overflow(?:-[xy])?\s*+:\s*+(?:hidden|clip)"
_EMPTY_CLIP = r"rect\(\s*+0(?:px)?[\s,]++0(?:px)?[\s,]++0(?:px)?"
_TRANSPARENT = r"transparent|(?:rgba|hsla)\([^)]{0,40},\s*+0?\.?0*+\s*+\)"
_BACKGROUND_IMAGE = r"(?a)background(?:-image)?\s*+[:=][^;>]{0,200}?(?:url\(|gradient\(|//)"
_HIDDEN_ATTRIBUTE = r"(?a)(?:^|\s)hidden(?:$|[\s=/])"
_COLOUR_ATTRIBUTE = r"""(?a)(?<![\w-])(bg)?color\s*+=\s*+["']?([#\w]{1,20})"""
_MAX_SELECTOR = 300  # characters before a rule that may be its selector
_RULE = r"\{\s*+(?:[a-zA-Z-]{1,40}+\s*+:[^{};]{1,300}+(?:;[\s;]*+|(?=\})))++\}"
_AT_RULE = r"@[a-z-]{3,20}+[^{};@]{0,300}+\{"
# The size of each unit, in pixels, for a font of 16 pixels.
_PIXELS_OF_UNIT = {"": 1.0, "px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "ex": 8.0, "%": 0.16}
_COLOUR_NAMES = {
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "snow": (255, 250, 250),
    "ivory": (255, 255, 240),
}

Colour = tuple[int, int, int]


class Effect(NamedTuple):
    """The effect of attributes on the text within the element; None where they have none."""

    is_hidden: bool = False
    is_visible: bool | None = None  # by the property `visibility`
    is_tiny: bool | None = None  # the font is too small to be read
    is_thin: bool | None = None  # the lines are too low to be read
    colour: Colour | None = None
    background: Colour | None = None
    has_image: bool = False  # the background is an image, so that its colours are unknown


_NO_EFFECT = Effect()
WHITE: Colour = (255, 255, 255)


_compile = cache(re.compile)  # a look-up takes half the time of one in the cache of `re`


def effect_of(attributes: str, edition: int) -> Effect:
    """Return the effect of attributes, given in lower case, on the text within the element.

    >>> effect_of(' style="display: none"', 2).is_hidden, effect_of(' style="font-size:1px"', 2).is_tiny
    (True, True)
    >>> effect_of(' style="max-height:0; overflow:hidden"', 2).is_hidden
    True
    """
    if len(attributes) <= 1000:
        return _compute_effect_cached(attributes, edition)
    return _compute_effect(attributes[:10_000], edition)


def remove_style_sheet(text: str) -> str:
    """Remove the rules of a style sheet, which some programs leave in plain text; a single rule stays.

    >>> remove_style_sheet("td { a: b; } p { c: d } @media print { i { e: f; } } Dear Ann").split()
    ['}', 'Dear', 'Ann']
    """
    rules = list(re.finditer(_RULE, text)) if text.count("{") > 1 else []
    if len(rules) < 2:
        return text
    pieces, last = [], 0
    for rule in rules:
        before = text[max(last, rule.start() - _MAX_SELECTOR) : rule.start()]
        selector = before[max(before.rfind(end) for end in "{}") + 1 :]
        selector = selector[max(selector.rfind("\n\n"), 0) :]
        pieces.append(text[last : rule.start() - len(selector)])
        last = rule.end()
    pieces.append(text[last:])
    return re.sub(_AT_RULE, " ", " ".join(pieces))


def is_same_colour(left: Colour | None, right: Colour | None) -> bool:
    """Whether two colours look the same; False if one of them is unknown."""
    return (
        left is not None
        and right is not None
        and all(abs(a - b) <= 12 for a, b in zip(left, right, strict=True))
    )


def _compute_effect(attributes: str, edition: int) -> Effect:
    """Compute `effect_of` without a cache."""
    if "&" in attributes:
        attributes = decode_entities(attributes)[0].lower()
    effect = _NO_EFFECT
    if "hidden" in attributes and _compile(_HIDDEN_ATTRIBUTE).search(attributes.partition("style")[0]):
        effect = effect._replace(is_hidden=True)
    if "color" in attributes:
        for kind, value in _compile(_COLOUR_ATTRIBUTE).findall(attributes)[:4]:
            colour = _parse_colour(value)
            effect = effect._replace(background=colour) if kind else effect._replace(colour=colour)
    style_match = _compile(_STYLE).search(attributes)
    if style_match:
        style = style_match[1] or style_match[2] or style_match[3] or ""
        if "/*" in style:
            style = re.sub(_COMMENT, "", style)
        if edition == 1:
            for name, value in _compile(_DECLARATION).findall(style)[:30]:
                effect = _apply_declaration(effect, name, value.strip())
        else:
            for name, value in _compile(_EDITION_2_DECLARATION).findall(style)[:30]:
                effect = _apply_declaration_in_edition_2(effect, name, value.strip())
            if "overflow" in style and _clips_everything(style):
                effect = effect._replace(is_hidden=True)
    if edition > 1 and "background" in attributes and _compile(_BACKGROUND_IMAGE).search(attributes):
        effect = effect._replace(has_image=True)
    return effect


_compute_effect_cached = lru_cache(maxsize=1024)(_compute_effect)


def _apply_declaration_in_edition_2(effect: Effect, name: str, value: str) -> Effect:
    """Return the effect after one more declaration, such as `color: red`, as edition 2 reads it."""
    if name == "line-height":
        size = _parse_length(value, "em")
        return effect if size is None else effect._replace(is_thin=size <= _TINY)
    if name == "visibility":
        return effect._replace(is_visible=not value.startswith(("hidden", "collapse")))
    if (
        (name in ("left", "top", "margin-left") and _is_outside(value))
        or (name == "clip" and _compile(_EMPTY_CLIP).match(value))
        or (name == "color" and _compile(_TRANSPARENT).match(value))
    ):
        return effect._replace(is_hidden=True)
    return _apply_declaration(effect, name, value)


def _clips_everything(style: str) -> bool:
    """Whether a box cuts off its overflow and is too small for any text."""
    sizes = [_parse_length(value.strip()) for value in _compile(_BOX_SIZE).findall(style)[:30]]
    return any(size is not None and size <= 1 for size in sizes) and bool(
        _compile(_HIDDEN_OVERFLOW).search(style)
    )


def _apply_declaration(effect: Effect, name: str, value: str) -> Effect:
    """Return the effect after one more declaration, as edition 1 reads it."""
    if name == "visibility":
        return effect._replace(is_visible=value.startswith("visible"))
    if name == "font-size":
        size = _parse_length(value)
        return effect if size is None else effect._replace(is_tiny=size <= _TINY)
    if name == "color":
        return effect._replace(colour=_parse_colour(value))
    if name in ("background", "background-color"):
        return effect._replace(background=_parse_colour(value))
    if (
        (name == "display" and value.startswith("none"))
        or (name == "opacity" and (size := _parse_length(value)) is not None and size <= 0.1)
        or (name == "mso-hide" and value.startswith("all"))  # a property of Microsoft Office
        or (name == "text-indent" and _is_outside(value))
    ):
        return effect._replace(is_hidden=True)
    return effect


def _is_outside(value: str) -> bool:
    """Whether a position is outside the page."""
    position = _parse_length(value)
    return position is not None and position < _MIN_POSITION


def _parse_length(value: str, unit: str = "") -> float | None:
    """Return a length in pixels; a number without a unit is in `unit`."""
    match = _compile(_LENGTH).match(value)
    return float(match[1]) * _PIXELS_OF_UNIT[match[2] or unit] if match else None


def _parse_colour(value: str) -> Colour | None:
    """Return a colour that is given as rgb(…), in hexadecimal or by a name of _COLOUR_NAMES; else None."""
    value = value.strip()
    if value.startswith("rgb"):
        numbers = [int(number) for number in re.findall(r"[0-9]{1,3}", value)[:3]]
        return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None
    word = value.split(" ", 1)[0]
    if word in _COLOUR_NAMES:
        return _COLOUR_NAMES[word]
    digits = word.lstrip("#")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    try:
        number = int(digits, 16) if len(digits) == 6 and digits.isalnum() else -1
    except ValueError:
        return None
    return None if number < 0 else (number >> 16, number >> 8 & 255, number & 255)
