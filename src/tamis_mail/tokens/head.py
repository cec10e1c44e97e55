"""the raw header block → its beginning, without times and queue ids.

The n-grams of these bytes distinguish mail programs and routes without parsing. Times, and the ids of the
message in the queues of servers (in Received, after "id"), are unique to a message, and would only enlarge
the store.
"""

import re

LONGEST = 1500  # maximum bytes of the result (experiments/0005-mail-views)
_BLOCK = 8000  # bytes of the block that are read
_FOLD = re.compile(rb"\n[ \t]+")
_QUEUE_ID = re.compile(rb"\bid [^ ;]+")
_NINE_FOR_DIGIT = bytes(ord("9") if ord("0") <= code <= ord("9") else code for code in range(256))


def read(raw: bytes) -> bytes:
    """Return the beginning of the header block, without times and queue ids, and one line per field.

    >>> read(
    ...     b"Received: from a by b id 4711; Fri, 23 Aug 2002 11:14:11 -0400\\nSubject: hi\\n there\\n\\nbody"
    ... )
    b'Received: from a by b \\nSubject: hi there'
    """
    end = raw.find(b"\n\n", 0, _BLOCK)
    lines: list[bytes] = []
    size = 0
    for line in _FOLD.sub(b" ", raw[: end if end >= 0 else _BLOCK]).split(b"\n"):
        name = line[:9].lower()
        if name == b"received:":
            line = _QUEUE_ID.sub(b"", line.rpartition(b";")[0] or line)
        elif name[:5] == b"date:":
            line = line[:5] + line[-12:].translate(_NINE_FOR_DIGIT)  # the form of the end of the date
        lines.append(line)
        size += len(line) + 1
        if size > LONGEST:
            break
    return b"\n".join(lines)[:LONGEST]
