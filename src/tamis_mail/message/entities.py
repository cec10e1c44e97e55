"""Text with references to characters → text, as browsers do it: `&eacute;`, `&#233;`, `&#xe9;`, `&eacute`."""

import re
from collections.abc import Mapping

# The usual ones, so that most pages do not need the two thousand of `html.entities` (2 ms to import).
_NAMES = """
nbsp amp lt gt quot apos copy reg trade mdash ndash lsquo rsquo ldquo rdquo hellip bull middot euro pound
shy zwnj zwj raquo laquo eacute egrave agrave ccedil auml ouml uuml szlig oacute aacute iacute ntilde
"""
_SIGNS = " &<>\"'©®™—–‘’“”…•·€£\xad\u200c\u200d»«éèàçäöüßóáíñ"
_USUAL = dict(zip(_NAMES.split(), _SIGNS, strict=True))
_REFERENCE = r"&(?:#([0-9]{1,8}+)|#[xX]([0-9a-fA-F]{1,7}+)|([a-zA-Z][a-zA-Z0-9]{1,31}+));?"


def decode_entities(text: str) -> tuple[str, bool]:
    """The text, and whether ordinary letters were written as numbers in it.

    >>> decode_entities("caf&eacute; &amp; &#x56;iagra")
    ('café & Viagra', True)
    """
    if "&" not in text:
        return text, False
    known: dict[str, str] = {}
    disguised = False

    def decoded(found: re.Match[str]) -> str:
        nonlocal disguised
        whole = found[0]
        answer = known.get(whole)
        if answer is None:
            decimal, hexadecimal, name = found.groups()
            if name is None:
                answer = _character(int(decimal) if decimal else int(hexadecimal, 16))
                disguised = disguised or (answer.isascii() and answer.isalnum())
            else:
                answer = _named(name, whole)
            if len(known) < 10_000:
                known[whole] = answer
        return answer

    return re.sub(_REFERENCE, decoded, text), disguised


def _character(code: int) -> str:
    if code == 160:
        return " "
    if 128 <= code < 160:  # meant in Windows' charset, as browsers know
        return bytes([code]).decode("cp1252", "replace")
    if code < 32:
        return " "
    return "\ufffd" if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)


def _named(name: str, whole: str) -> str:
    usual = _USUAL.get(name)
    if usual is not None:
        return usual
    names = _names()
    found = names.get(name + ";") if whole.endswith(";") else None
    if found is None:  # without a semicolon, the longest name of old that it begins with: &copy2026
        for length in range(min(len(name), 6), 1, -1):
            if (found := names.get(name[:length])) is not None:
                return found + whole[length + 1 :]
    return whole if found is None else found


def _names() -> Mapping[str, str]:
    from html.entities import html5  # noqa: PLC0415 (2 ms that few messages need)

    return html5
