"""a message → its tokens, in plain Python: the reference for the compiled core."""

from tamis_mail.message import Message
from tamis_mail.tokens import Tokens, agreements, body, head, headers, patterns, relations


def read(message: Message, version: int) -> Tokens:
    """Compute the tokens of a message, as a version defines them."""
    content = body.read(message, version)
    relation_tokens = relations.read(message, content) if version > 1 else ""
    pattern_tokens = subject = ""
    if version > 2:
        fields, hops = headers.select_fields(message.headers)
        relation_tokens += " " + agreements.read(fields, hops, content.words)
        pattern_tokens = patterns.read(fields, hops)
        subject = " ".join(["^", *agreements.read_subject_words(fields.get("subject", "")), "$"])
    return Tokens(
        head.read(message.raw),
        headers.read(message.headers).encode("utf-8", "replace"),
        content.words,
        content.marks.encode("utf-8", "replace"),
        relation_tokens.encode("utf-8", "replace"),
        pattern_tokens.encode("utf-8", "replace"),
        subject.encode("utf-8", "replace"),
        version,
    )
