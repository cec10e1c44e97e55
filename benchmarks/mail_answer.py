"""What a mail filter says of a message."""

from dataclasses import dataclass

from tamis_mail.labels import HAM

__all__ = ["FAILED", "Answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a filter says of a message."""

    score: float  # the higher, the likelier spam; what mail is ranked by
    probability: float
    verdict: str
    failed: bool = False


FAILED = Answer(0.0, 0.0, HAM, failed=True)
