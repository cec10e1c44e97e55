"""Messages → an mbox, as each dialect is written: small, and of another hand than the reader."""

import re

POSTMARK = b"From someone@example.org Thu Jan  1 00:00:00 2026\n"


def mboxo(messages: list[bytes]) -> bytes:
    return b"".join(POSTMARK + re.sub(rb"(?m)^From ", rb">From ", ended(m)) + b"\n" for m in messages)


def mboxrd(messages: list[bytes]) -> bytes:
    return b"".join(POSTMARK + re.sub(rb"(?m)^(>*From )", rb">\1", ended(m)) + b"\n" for m in messages)


def mboxcl2(messages: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(POSTMARK + counted(headers, body) + b"\n" for headers, body in messages)


def counted(headers: bytes, body: bytes) -> bytes:
    return headers + b"Content-Length: %d\n\n" % len(body) + body


def ended(message: bytes) -> bytes:
    return message if message.endswith(b"\n") else message + b"\n"
