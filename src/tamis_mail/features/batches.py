"""Read the features of messages in batches, which the compiled core keeps in its own memory.

A batch (`core.mail.MessageBatch`) has the canonical form, the digest and the features of each message. Python
reads the few messages that the core leaves to it. Only tokens of `tokens.COMPILED_VERSIONS` are read
in this way.
CANONICAL_FORM and MESSAGE_READER are the readers of the core; both are None if there is no core.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from tamis_mail import tokens
from tamis_mail.features import pack_features
from tamis_mail.message.compiled import CANONICAL_FORM, MESSAGE_READER

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis._core.mail import MessageBatch


def open_batch(messages: Sequence[bytes]) -> MessageBatch:
    """Make a batch of messages, with the canonical form and the digest of each."""
    if CANONICAL_FORM is None:
        raise AssertionError("a batch was opened without the compiled core")
    batch: MessageBatch = CANONICAL_FORM.open(list(messages))
    return batch


def read_batch(batch: MessageBatch, places: Sequence[int], version: int) -> list[int | None]:
    """Compute the features of some messages of a batch, which keeps them; return the messages' dates.

    `places` are the indices of the messages, and `version` is that of the tokens; a date is in seconds since
    1970, or None.
    """
    if MESSAGE_READER is None or version not in tokens.COMPILED_VERSIONS:
        raise AssertionError(f"a batch was read without a compiled reader of tokens of version {version}")
    dates: list[int | None] = []
    for place, date in zip(places, MESSAGE_READER.read_batch(batch, list(places), version), strict=True):
        if date is not True:
            dates.append(date)
            continue
        # In place of a date, the core returns True for a message that Python must read.
        message = import_module("tamis_mail.message.tree").parse(batch.canonical(place))
        batch.set_features(place, pack_features(tokens.read(message, version)))
        dates.append(import_module("tamis_mail.message.dates").read_date(message.headers))
    return dates
