"""the names of mail → what a store knows of each: spam, ham, and whatever else people sort by."""

from dataclasses import dataclass

__all__ = ["GUESSED_LABELS", "GUESS_UNITS", "HAM", "SPAM", "UNSURE", "Label", "check_label"]

SPAM, HAM = "spam", "ham"
UNSURE = "unsure"  # a verdict, never a label
GUESSED_LABELS = ("spam?", "ham?")  # labels of unlabelled mail, which is some of either
GUESS_UNITS = 16  # units into which a message is divided between them


@dataclass(frozen=True, slots=True)
class Label:
    """A kind of mail: its messages, their weight in units, and the weight that another filter lent."""

    id: int  # the column of its counts
    name: str
    messages: int
    weight: int
    lent: int
    features: int  # the sum of its counts


def check_label(name: str) -> None:
    """Refuse what cannot be the name of a label."""
    if (
        name != name.strip()
        or not 0 < len(name) <= 40
        or not name.isprintable()
        or name in (*GUESSED_LABELS, UNSURE)
    ):
        raise ValueError(f"{name[:60]!r} cannot be a label: give a short name, such as spam, ham or work")
    if name not in (SPAM, HAM) and name.lower() in (SPAM, HAM):
        raise ValueError(f"{name!r} would be another label than {name.lower()!r}: write it so")
