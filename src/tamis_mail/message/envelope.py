"""bytes → the start of the message, after the lines that an mbox or a delivery agent put before it.

A postmark is the line "From sender date" that separates the messages of an mbox. It is not part of the
message. Neither are blank lines before the first field (procmail drops them) and byte order marks. The names
here call these lines the envelope; they are not the envelope of SMTP.
"""

import re

_FIRST_BYTES = (b"F", b">", b"\n", b"\r", b"\xef")
_END_OF_LINE = rb"(?>\r\r\n|\r\n|\n|\r)"
_POSTMARK = rb">*+From [^\r\n]*+(?:" + _END_OF_LINE + rb"|\Z)"  # there may be several, some with ">" before
_ENVELOPE = re.compile(rb"(?:\xef\xbb\xbf|[\r\n]++|" + _POSTMARK + rb")*+")


def envelope_end(raw: bytes, start: int = 0) -> int:
    """Return the index after blank lines and postmarks at `start`, for any line ends.

    >>> envelope_end(b"From ann@example.org Mon Jan  1 00:00:00 2024\\r\\nSubject: hello\\r\\n")
    47
    >>> envelope_end(b"Subject: hello\\n")
    0
    """
    if raw[start : start + 1] not in _FIRST_BYTES:
        return start
    lines = _ENVELOPE.match(raw, start)
    return lines.end() if lines else start
