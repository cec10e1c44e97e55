"""Text and files → the bytes of a message: encoded words, folded headers, transfer encodings, multiparts."""

import binascii
from collections.abc import Sequence
from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]  # names and values

# Bytes that stand for themselves in an encoded word (encoding Q).
_UNQUOTED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-!*+/")
# Each byte in quoted-printable, except at the end of a line.
_QUOTED = [
    chr(octet) if (32 <= octet <= 126 and octet != 61) or octet == 9 else f"={octet:02X}"
    for octet in range(256)
]


@dataclass(frozen=True)
class Part:
    """The headers of a MIME part, and the bytes below them."""

    headers: Headers
    payload: bytes


def encode_words(text: str, charset: str, *, base64: bool) -> str:
    """Encode text as encoded words of at most 72 characters; RFC 2047 allows 75."""
    if text.isascii():
        return text
    pieces, start = [], 0
    for end in range(1, len(text) + 1):
        if end == len(text) or len(_encode_word(text[start : end + 1], charset, base64)) > 72:
            pieces.append(_encode_word(text[start:end], charset, base64))
            start = end
    return " ".join(pieces)


def _encode_word(text: str, charset: str, base64: bool) -> str:
    raw = text.encode(charset)
    if base64:
        return f"=?{charset}?B?{binascii.b2a_base64(raw, newline=False).decode()}?="
    return f"=?{charset}?Q?" + "".join(
        chr(octet) if octet in _UNQUOTED else "_" if octet == 32 else f"={octet:02X}" for octet in raw
    ) + "?="  # fmt: skip


def format_mailbox(name: str, address: str, charset: str, *, base64: bool) -> str:
    """Format `Name <address>`; the name is quoted or encoded if necessary."""
    if not name:
        return address
    if not name.isascii():
        return f"{encode_words(name, charset, base64=base64)} <{address}>"
    return f'"{name}" <{address}>' if any(sign in name for sign in ',.@:()"') else f"{name} <{address}>"


def fold(name: str, value: str) -> str:
    """Fold a header at spaces into lines of one word or at most 78 characters; existing folds are kept."""
    if "\n" in value:
        return f"{name}: {value}"
    lines, line = [], f"{name}:"
    for word in value.split(" "):
        if len(line) + 1 + len(word) > 78 and line.strip() != f"{name}:":
            lines.append(line)
            line = ""
        line += " " + word
    return "\n".join([*lines, line])


def make_text_part(text: str, subtype: str, charset: str, encoding: str, parameters: str = "") -> Part:
    """Make a text part in `charset` with the given transfer encoding."""
    raw = text.encode(charset)
    if encoding == "quoted-printable":
        payload = _encode_quoted_printable(raw)
    elif encoding == "base64":
        payload = _encode_base64(raw)
    else:
        payload, encoding = raw, "7bit" if raw.isascii() else "8bit"
    kind = f"text/{subtype}; charset={charset}{parameters}"
    return Part((("Content-Type", kind), ("Content-Transfer-Encoding", encoding)), payload)


def make_attachment(content_type: str, name: str, data: bytes, *, inline: str = "") -> Part:
    """Make a part of a file: an attachment or, if `inline` is a content id, an inline part with it."""
    disposition = "inline" if inline else "attachment"
    identity = (("Content-ID", f"<{inline}>"),) if inline else ()
    headers = (
        ("Content-Type", f'{content_type}; name="{name}"'),
        ("Content-Transfer-Encoding", "base64"),
        *identity,
        ("Content-Disposition", f'{disposition}; filename="{name}"'),
    )
    return Part(headers, _encode_base64(data))


def make_multipart(subtype: str, boundary: str, parts: Sequence[Part], preamble: str = "") -> Part:
    """Join parts to a multipart."""
    lines = [preamble.encode("ascii")] if preamble else []
    for part in parts:
        lines.append(f"--{boundary}".encode("ascii"))
        lines.extend(fold(name, value).encode("ascii") for name, value in part.headers)
        lines.extend((b"", part.payload))
    lines.append(f"--{boundary}--\n".encode("ascii"))
    return Part((("Content-Type", f'multipart/{subtype}; boundary="{boundary}"'),), b"\n".join(lines))


def _encode_base64(raw: bytes) -> bytes:
    """Encode bytes in lines of 76 characters, which stand for 57 bytes each."""
    return b"".join(binascii.b2a_base64(raw[start : start + 57]) for start in range(0, len(raw), 57))


def _encode_quoted_printable(raw: bytes) -> bytes:
    lines = []
    for source in raw.split(b"\n"):
        signs = [_QUOTED[octet] for octet in source]
        if source.endswith((b" ", b"\t")):
            signs[-1] = f"={source[-1]:02X}"
        line = "".join(signs)
        while len(line) > 76:
            end = 74 if line[74] == "=" else 73 if line[73] == "=" else 75  # never inside =XX
            lines.append(line[:end] + "=")
            line = line[end:]
        lines.append(line)
    return "\n".join(lines).encode("ascii")
