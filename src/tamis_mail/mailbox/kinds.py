"""Tell from the first bytes of a file whether it can be mail and, if not, what it is.

Mail begins with a postmark or has a header field before the first blank line. A text without any header is
also accepted as a message. Pictures, programs, databases, archives and binary data are not mail.
"""

HEAD = 4096  # bytes of a file that callers read, to be examined here

_MAGIC = {
    b"SQLite format 3\0": "a tamis store or another SQLite database",
    b"// <!-- <mdb:mork": "an index of Thunderbird",
    b"\x89PNG\r\n\x1a\n": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"GIF8": "a picture (GIF)",
    b"%PDF-": "a document (PDF)",
    b"\x7fELF": "a program",
    b"PK\x03\x04": "an archive (zip)",
    b"PK\x05\x06": "an archive (zip)",
    b"7z\xbc\xaf\x27\x1c": "an archive (7z)",
    b"Rar!\x1a\x07": "an archive (rar)",
    b"!<arch>\n": "an archive (ar)",
    b"\x28\xb5\x2f\xfd": "a file packed with zstd",
}
_TAR = b"ustar", 257  # the text that identifies a tar archive, and its offset
# Control characters that text does not have: all but those from backspace to carriage return, and the shift
# and escape characters of ISO 2022 (Japanese, Chinese and Korean text).
_CONTROLS = bytes({*range(32), 127} - {8, 9, 10, 11, 12, 13, 14, 15, 27})
_MAX_FRACTION = 0.02  # of these characters in a text; random bytes have 9 %
_ALWAYS_ACCEPTED = 10  # of these characters, in any text, however short
_SHORTEST = 2  # characters of a field's name; many lines of random bytes begin with one character and a colon


def describe_non_mail(head: bytes, *, is_delivered: bool = False) -> str | None:
    """Describe a file whose first bytes show that it is not mail; return None if it may be mail.

    `is_delivered` says that a mail system delivered the bytes: their control characters are not counted,
    because such mail may be binary.

    >>> describe_non_mail(b"Subject: hello\\n"), describe_non_mail(b"no header"), describe_non_mail(b"GIF89a")
    (None, None, 'a picture (GIF)')
    """
    for magic, description in _MAGIC.items():
        if head.startswith(magic):
            return description
    if head.startswith(*_TAR):
        return "an archive (tar)"
    if is_delivered or begins_with_field(head):
        return None
    head = head[:HEAD]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return "binary data" if controls > max(_ALWAYS_ACCEPTED, _MAX_FRACTION * len(head)) else None


def begins_with_field(head: bytes) -> bool:
    """Whether the first line is a postmark, or some line before the first blank line is a header field."""
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").replace(b"\r\n", b"\n")
    if head.lstrip(b">").startswith(b"From "):
        return True
    return any(map(_is_field, head.partition(b"\n\n")[0].split(b"\n")))


def _is_field(line: bytes) -> bool:
    name, colon, _ = line.partition(b":")
    return bool(colon) and len(name) >= _SHORTEST and name.rstrip(b" \t").replace(b"-", b"").isalnum()
