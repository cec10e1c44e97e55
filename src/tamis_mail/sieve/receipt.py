"""`Receipt`, the outcome of learning or forgetting a message."""

from __future__ import annotations

from tamis_mail.records import field, record

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis_mail.store import Entry


@record(frozen=True, slots=True)
class Receipt:
    """The outcome for a message: learned, moved, known, guessed, ignored, forgotten, or unknown."""

    action: str
    label: str | None
    before: str | None
    digest: bytes
    # The journal entries before and after, if they differ.
    old: Entry | None = field(default=None, compare=False, repr=False)
    new: Entry | None = field(default=None, compare=False, repr=False)
