"""A store as a watcher uses it."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.verdict import Verdict
from tamis_mail.watching.classifier import JudgedMessage, StoreClassifier, StoreUnusableError
from tamis_mail.watching.mailbox import MessageError
from tests.surfaces.terminal import HAM, NEW_HAM, NEW_SPAM, SPAM, make_store


@pytest.fixture
def classifier(tmp_path: Path) -> Iterator[StoreClassifier]:
    made = StoreClassifier(make_store(tmp_path / "mail.tamis"), source="test")
    yield made
    made.close()


def labels_of(outcomes: Sequence[JudgedMessage | MessageError]) -> list[str]:
    return [outcome.label if isinstance(outcome, JudgedMessage) else str(outcome) for outcome in outcomes]


def test_messages_are_judged_together_and_one_that_was_learned_is_what_it_was_learned_as(
    classifier: StoreClassifier,
) -> None:
    assert labels_of(classifier.judge([NEW_SPAM, NEW_HAM])) == ["spam", "ham"]
    assert classifier.learn([NEW_SPAM], "ham") == ["learned"]
    assert classifier.learn([NEW_SPAM, NEW_SPAM], "ham") == ["known", "known"]
    assert labels_of(classifier.judge([NEW_SPAM, SPAM[0], HAM[0]])) == ["ham", "spam", "ham"]


def test_a_label_of_the_users_own_is_wanted_mail(classifier: StoreClassifier) -> None:
    with Sieve.open(classifier.path) as sieve:
        sieve.learn(NEW_HAM, "work")
    assert labels_of(classifier.judge([NEW_HAM])) == ["ham"]


def test_an_error_with_one_message_is_an_error_of_that_message_and_quotes_nothing(
    classifier: StoreClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    sort_batch = Sieve.sort_batch

    def fail(self: Sieve, messages: Sequence[bytes]) -> list[Verdict]:
        if NEW_HAM in messages:
            raise ValueError(NEW_HAM.decode())
        return sort_batch(self, messages)

    monkeypatch.setattr(Sieve, "sort_batch", fail)
    outcomes = labels_of(classifier.judge([NEW_SPAM, NEW_HAM, NEW_SPAM]))
    assert outcomes == ["spam", "unexpected ValueError", "spam"]


def test_a_store_that_knows_one_kind_of_mail_judges_none(tmp_path: Path) -> None:
    classifier = StoreClassifier(tmp_path / "new.tamis", source="test")
    with pytest.raises(StoreUnusableError, match="there is no store"):
        classifier.judge([NEW_SPAM])
    classifier.learn([NEW_SPAM], "spam")
    with pytest.raises(StoreUnusableError, match="has not learned wanted mail yet"):
        classifier.judge([NEW_SPAM])
    classifier.learn([NEW_HAM], "ham")
    assert len(classifier.judge([NEW_SPAM])) == 1
    classifier.close()


def test_verdicts_are_logged_with_their_source_unless_that_is_switched_off(
    classifier: StoreClassifier,
) -> None:
    silent = StoreClassifier(classifier.path, source="test", logs_verdicts=False)
    silent.judge([NEW_HAM])
    silent.close()
    classifier.judge([NEW_SPAM])
    with closing(sqlite3.connect(f"{classifier.path}.log")) as log:
        rows = log.execute("SELECT label, source FROM event WHERE action = 'verdict'").fetchall()
    assert rows == [("spam", "test")]
