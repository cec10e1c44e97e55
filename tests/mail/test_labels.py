"""Which mail must be learned before messages can be judged."""

import pytest

from tamis_mail.labels import Label, find_missing


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ((), "anything"),
        (("spam",), "wanted mail"),
        (("work", "ham"), "spam"),
        (("spam", "ham"), ""),
        (("spam?",), "wanted mail"),
        (("ham?",), "spam"),
        (("spam?", "ham?"), ""),
    ],
)
def test_spam_and_other_mail_are_needed_and_guesses_count(names: tuple[str, ...], missing: str) -> None:
    labels = [Label(column, name, 1, 16, 0, 100) for column, name in enumerate(names)]
    assert find_missing(labels) == missing
