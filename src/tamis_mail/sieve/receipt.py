"""`Receipt`, the outcome of learning or forgetting a message."""

from __future__ import annotations

from tamis_mail.records import field, record

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis_mail.store import Entry


@record(frozen=True, slots=True)
class Receipt:
    """The outcome for one message.

    The action is `known` if the message already had the label, `moved` if it had another one, `ignored` for a
    sent message without recipients, and `unknown` if it is to be forgotten or moved but was not learned.
    """

    action: str  # learned, moved, known, guessed, ignored, forgotten or unknown
    label: str | None  # the message's label after the call; None if it has none
    before: str | None  # its label before the call; None if it had none
    digest: bytes
    # The journal entries before and after, if they differ.
    old: Entry | None = field(default=None, compare=False, repr=False)
    new: Entry | None = field(default=None, compare=False, repr=False)
