"""Make the Received field, a trace field (RFC 5321), that the mail server is about to add to a message.

Mail servers do not show this field to a filter. But mail in folders, which is learned, has it, and in mail
that comes directly from its sender it is the only field that names the sender's host. So a message is judged
with a field that says the same.
"""

import re
from email.utils import formatdate

from tamis_mail.surfaces.milter.session import Envelope

_UNSAFE = re.compile(rb"[^!-~]")  # bytes that are replaced, because a client chose some of these names


def format_trace(envelope: Envelope, now: float) -> bytes:
    """Return the field with its line ends; empty if the client's address is not known.

    >>> envelope = Envelope(b"mail.example.org", b"192.0.2.1", b"mx", b"home.example", b"4711")
    >>> print(format_trace(envelope, 0.0).decode().replace("\\r", ""), end="")
    Received: from mx (mail.example.org [192.0.2.1])
        by home.example with ESMTP id 4711; Thu, 01 Jan 1970 00:00:00 -0000
    """
    if not envelope.client_address:
        return b""
    helo, name, address, server, queue_id = (
        _UNSAFE.sub(b"?", text) or b"unknown"
        for text in (
            envelope.helo,
            envelope.client_name,
            envelope.client_address,
            envelope.server,
            envelope.queue_id,
        )
    )
    # RFC 3848: S stands for TLS, and A for a client that logged in.
    protocol = b"ESMTP" + b"S" * bool(envelope.tls_version) + b"A" * bool(envelope.auth_type)
    date = formatdate(now).encode("ascii")
    return b"Received: from %s (%s [%s])\r\n\tby %s with %s id %s; %s\r\n" % (
        helo,
        name,
        address,
        server,
        protocol,
        queue_id,
        date,
    )
