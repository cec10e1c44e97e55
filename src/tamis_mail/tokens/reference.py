"""a message → its tokens, in plain Python: the reference for the compiled core."""

from tamis_mail.message import Message
from tamis_mail.tokens import Tokens, body, head, headers, relations


def read(message: Message, version: int) -> Tokens:
    """Compute the tokens of a message, as a version defines them."""
    content = body.read(message, version)
    return Tokens(
        head.read(message.raw),
        headers.read(message.headers).encode("utf-8", "replace"),
        content.words,
        content.marks.encode("utf-8", "replace"),
        relations.read(message, content).encode("utf-8", "replace") if version > 1 else b"",
        version,
    )
