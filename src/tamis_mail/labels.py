"""Labels of mail: spam, ham, and names that the user chooses."""

from collections.abc import Iterable

from tamis_mail.records import record

SPAM, HAM = "spam", "ham"
UNSURE = "unsure"  # a verdict, never a label
GUESSED_LABELS = ("spam?", "ham?")  # labels of unlabelled mail whose label was estimated
# The weight of a message with a guessed label is divided between both guesses, by their probabilities, in
# steps of 1 / GUESS_UNITS. Counts are integers, so they have GUESS_UNITS times this weight.
GUESS_UNITS = 16


@record(frozen=True, slots=True)
class Label:
    """A label: its messages, their weight, and the weight imported from another filter."""

    id: int  # the index of its counts in each row of counts
    name: str
    messages: int  # learned messages that have the label
    weight: int  # of these messages
    lent: int  # weight of the messages that another filter had counted
    features: int  # the sum of the counts of its features


def count_messages(labels: Iterable[Label]) -> tuple[int, int]:
    """Count the labelled messages of spam and of other mail; guessed ones do not count."""
    spams = others = 0
    for label in labels:
        if label.name == SPAM:
            spams += label.messages
        elif label.name not in GUESSED_LABELS:
            others += label.messages
    return spams, others


def find_missing(labels: Iterable[Label]) -> str:
    """Name the mail that must be learned before messages can be judged by their content.

    Return "spam", "wanted mail" or "anything" (nothing was learned), or "" if nothing is missing. Mail with
    guessed labels counts as learned.
    """
    kinds = {label.name in (SPAM, GUESSED_LABELS[0]) for label in labels if label.weight + label.lent}
    if len(kinds) == 2:
        return ""
    return "anything" if not kinds else "wanted mail" if True in kinds else "spam"


def check_label(name: str) -> None:
    """Raise ValueError unless the name can be a label."""
    if (
        name != name.strip()
        or not 0 < len(name) <= 40
        or not name.isprintable()
        or name in (*GUESSED_LABELS, UNSURE)
    ):
        raise ValueError(f"{name[:60]!r} cannot be a label: give a short name, such as spam, ham or work")
    if name not in (SPAM, HAM) and name.lower() in (SPAM, HAM):
        raise ValueError(f"{name!r} is not the label {name.lower()!r}: write it in lower case")
