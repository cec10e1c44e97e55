"""Character references in text → characters, as in browsers: `&eacute;`, `&#233;`, `&#xe9;`, `&eacute`.

Unlike in browsers, no-break spaces and numbers below 32 become spaces.
"""

import re

# With these frequent names, most pages need not import `html.entities`, which takes 2 ms.
_FREQUENT_NAMES = """
nbsp amp lt gt quot apos copy reg trade mdash ndash lsquo rsquo ldquo rdquo hellip bull middot euro pound
shy zwnj zwj raquo laquo eacute egrave agrave ccedil auml ouml uuml szlig oacute aacute iacute ntilde
"""
_FREQUENT_CHARACTERS = " &<>\"'©®™—–‘’“”…•·€£\xad\u200c\u200d»«éèàçäöüßóáíñ"
_FREQUENT = dict(zip(_FREQUENT_NAMES.split(), _FREQUENT_CHARACTERS, strict=True))
_REFERENCE = r"&(?:#([0-9]{1,8}+)|#[xX]([0-9a-fA-F]{1,7}+)|([a-zA-Z][a-zA-Z0-9]{1,31}+));?"


def decode_entities(text: str) -> tuple[str, bool]:
    """Decode references; also return whether ASCII letters or digits were written as numeric references.

    >>> decode_entities("caf&eacute; &amp; &#x56;iagra")
    ('café & Viagra', True)
    """
    if "&" not in text:
        return text, False
    cache: dict[str, str] = {}
    has_hidden_letters = False

    def decode_reference(match: re.Match[str]) -> str:
        nonlocal has_hidden_letters
        reference = match[0]
        character = cache.get(reference)
        if character is None:
            decimal, hexadecimal, name = match.groups()
            if name is None:
                character = _decode_number(int(decimal) if decimal else int(hexadecimal, 16))
                has_hidden_letters = has_hidden_letters or (character.isascii() and character.isalnum())
            else:
                character = _decode_name(name, reference)
            if len(cache) < 10_000:
                cache[reference] = character
        return character

    return re.sub(_REFERENCE, decode_reference, text), has_hidden_letters


def _decode_number(code: int) -> str:
    if code == 160:
        return " "
    if 128 <= code < 160:  # browsers decode these numbers as Windows-1252
        return bytes([code]).decode("cp1252", "replace")
    if code < 32:
        return " "
    return "\ufffd" if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)


def _decode_name(name: str, reference: str) -> str:
    character = _FREQUENT.get(name)
    if character is not None:
        return character
    from html.entities import html5  # noqa: PLC0415 (2 ms that few messages need)

    character = html5.get(name + ";") if reference.endswith(";") else None
    if character is None:  # without a semicolon, the longest HTML 4 name at the beginning: &copy2026
        for length in range(min(len(name), 6), 1, -1):
            if (character := html5.get(name[:length])) is not None:
                return character + reference[length + 1 :]
    return reference if character is None else character
