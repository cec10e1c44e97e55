"""What `undo` takes back is as it was, to the bit; and what it would get wrong it refuses in one line."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.labels import GUESSED_LABELS
from tamis_mail.message import canonical, digest
from tamis_mail.sample import messages
from tamis_mail.sieve.executor import run_inline
from tamis_mail.sieve.transaction import Transaction
from tamis_mail.sieve.undoing import UndoError
from tamis_mail.store import Entry, Store, maintenance
from tamis_mail.store.log import Event, EventLog

MESSAGES = [one.raw for one in messages()][:40]
BY_DIGEST = {digest(canonical(raw)): raw for raw in MESSAGES}
A, B, C = MESSAGES[:3]

Contents = tuple[dict[int, dict[str, int]], dict[str, tuple[int, int, int]], list[Entry]]


@pytest.fixture
def sieve(tmp_path: Path) -> Iterator[Sieve]:
    with Sieve.open(tmp_path / "store") as sieve:
        yield sieve
        assert sieve.log_fault is None


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog.of(tmp_path / "store")


def contents(store: Store) -> Contents:
    """The counts that are not zero, the totals of each label that has any, and the journal."""
    names = [label.name for label in store.labels()]
    counts = {
        int(key): {name: count for name, count in zip(names, row, strict=True) if count}
        for table in store.count_slices()
        for key, row in zip(table.keys, table.counts.tolist(), strict=True)
        if any(row)
    }
    totals = {one.name: (one.messages, one.weight, one.features) for one in store.labels() if one.weight}
    return counts, totals, [*store.entries()]


def test_a_verdict_that_is_not_written_yet_is_erased_when_its_message_is_forgotten(
    sieve: Sieve, log: EventLog
) -> None:
    sieve.learn(A, "ham")
    sieve.log_verdict(A, sieve.sort(A))
    sieve.forget(A)
    sieve.flush_log()
    assert len([*log.events()]) == 3
    assert all(event.sender == event.subject == "" for event in log.events())


def test_a_verdict_keeps_its_heading_when_its_message_is_relabelled_without_being_learned(
    sieve: Sieve, log: EventLog
) -> None:
    sieve.log_verdict(A, sieve.sort(A))
    sieve.flush_log()
    (before,) = log.events()
    assert sieve.relabel_digest(before.digest, "spam").action == "unknown"
    assert [*log.events()] == [before]
    assert before.subject


def undo(sieve: Sieve, *numbers: int) -> list[str]:
    events = sieve.plan_undo((number, number) for number in numbers)
    return [receipt.action for receipt, _ in sieve.undo(events, BY_DIGEST)]


def newest(log: EventLog) -> Event:
    return next(log.events())


@pytest.mark.parametrize("seed", range(6))
def test_undoing_event_after_event_goes_back_through_every_state(
    sieve: Sieve, log: EventLog, seed: int
) -> None:
    dice = random.Random(seed)
    states = [contents(sieve.store)]  # after each event
    while len(states) < 15:
        if dice.randrange(3):
            sieve.learn(
                dice.choice(MESSAGES[:4]), dice.choice(["spam", "ham", "work"]), source=str(dice.random())
            )
        elif len(states) > 1:
            undo(sieve, len(states) - 1)
        if not dice.randrange(4):
            maintenance.decay(sieve.store)
        if log.exists() and newest(log).number == len(states):
            states.append(contents(sieve.store))
    for number in range(len(states) - 1, 0, -1):
        undo(sieve, number)
        assert contents(sieve.store) == states[number - 1]
    assert [*sieve.store.entries()] == []
    assert maintenance.check(sieve.store) == []


def test_a_learned_message_is_forgotten(sieve: Sieve, log: EventLog) -> None:
    sieve.learn(B, "ham")
    before = contents(sieve.store)
    sieve.learn(A, "spam")
    assert undo(sieve, 2) == ["forgotten"]
    assert contents(sieve.store) == before
    event = newest(log)
    assert (event.action, event.before, event.undoes) == ("forgotten", "spam", 2)
    assert event.subject  # an undo is no wish for privacy


def test_a_moved_message_gets_its_old_weight_source_and_time_back(sieve: Sieve) -> None:
    sieve.learn(A, "spam", source="/first")
    maintenance.decay(sieve.store)
    maintenance.decay(sieve.store)
    sieve.learn(B, "ham")
    before = contents(sieve.store)
    sieve.learn(A, "ham", source="/second")
    entry = sieve.store.find_entry(digest(canonical(A)))
    assert entry is not None
    assert (entry.weight, entry.source) == (4, "/second")
    assert undo(sieve, 3) == ["moved"]
    assert contents(sieve.store) == before
    assert undo(sieve, 4) == ["moved"]  # and forth again
    assert sieve.store.find_entry(entry.digest) == entry


def test_a_forgotten_message_is_learned_again_with_its_old_weight(sieve: Sieve) -> None:
    sieve.learn(A, "spam", source="/first")
    maintenance.decay(sieve.store)
    before = contents(sieve.store)
    sieve.forget(A)
    assert undo(sieve, 2) == ["learned"]
    assert contents(sieve.store) == before


def test_a_guess_comes_back_with_both_of_its_weights(sieve: Sieve, log: EventLog) -> None:
    with sieve.store.transaction() as writer:
        transaction = Transaction(sieve.store, writer, "guessed")
        transaction.guess(canonical(A), 7)
        transaction.run((), run_inline)
    before = contents(sieve.store)
    assert [(entry.weight, entry.other_weight) for entry in before[2]] == [(9, 7)]
    sieve.learn(A, "work")
    assert (newest(log).action, newest(log).before) == ("moved", GUESSED_LABELS[1])
    assert undo(sieve, 1) == ["moved"]
    assert contents(sieve.store) == before


def test_a_guess_is_forgotten(sieve: Sieve, log: EventLog) -> None:
    everything = {digest(canonical(one.raw)): one.raw for one in messages()}
    for label in ("spam", "ham"):
        sieve.learn_many([one.raw for one in messages() if one.label == label][:20], label, processes=1)
    before = contents(sieve.store)
    assert sieve.learn_unlabelled(everything.values(), processes=1)["guessed"]
    guesses = [event for event in log.events() if event.action == "guessed"]
    assert {event.label for event in guesses} == set(GUESSED_LABELS)
    events = sieve.plan_undo([(guesses[-1].number, guesses[0].number)])
    assert {receipt.action for receipt, _ in sieve.undo(events, everything)} == {"forgotten"}
    assert contents(sieve.store) == before


def test_a_merge_that_multiplies_all_weights_multiplies_the_old_weight_too(
    sieve: Sieve, tmp_path: Path
) -> None:
    sieve.learn(A, "spam")
    maintenance.decay(sieve.store)
    sieve.learn(A, "ham")
    with Store(tmp_path / "other") as other:
        for _ in range(4):
            maintenance.decay(other)
        maintenance.merge(sieve.store, other)
    assert undo(sieve, 2) == ["moved"]
    entry = sieve.store.find_entry(digest(canonical(A)))
    assert entry is not None
    assert (entry.label, entry.weight) == ("spam", 8)  # half of a message that is learned now, as before
    assert maintenance.check(sieve.store) == []


def test_an_event_is_undone_once_and_its_undo_can_be_undone(sieve: Sieve) -> None:
    sieve.learn(A, "spam")
    assert undo(sieve, 1) == ["forgotten"]
    with pytest.raises(
        UndoError, match=r"event 1 was undone already, by event 2: to have it back, run tamis undo 2"
    ):
        undo(sieve, 1)
    assert undo(sieve, 2) == ["learned"]
    with pytest.raises(UndoError, match="event 2 was undone already, by event 3"):
        undo(sieve, 2)
    assert undo(sieve, 1) == ["forgotten"]  # it is in force again, and is undone again
    with pytest.raises(UndoError, match="event 1 was undone already, by event 4"):
        undo(sieve, 1)


def test_a_later_event_of_the_message_comes_first(sieve: Sieve) -> None:
    sieve.learn(A, "spam")
    sieve.learn(B, "spam")
    sieve.learn(A, "ham")
    sieve.learn(A, "work")
    before = contents(sieve.store)
    with pytest.raises(
        UndoError,
        match=r"event 1 cannot be undone before event 4, which came later and moved the message from ham to "
        r"work: begin with tamis undo 4",
    ):
        undo(sieve, 1)
    assert contents(sieve.store) == before
    undo(sieve, 2)  # of another message
    undo(sieve, 4)
    with pytest.raises(UndoError, match="before event 3"):
        undo(sieve, 1)
    undo(sieve, 3)
    undo(sieve, 1)
    assert [*sieve.store.entries()] == []


def test_a_range_is_undone_newest_first(sieve: Sieve, log: EventLog) -> None:
    sieve.learn(C, "ham")
    before = contents(sieve.store)
    sieve.learn_many([A, B], "spam", processes=1)
    sieve.log_verdict(A, sieve.sort(A))
    sieve.flush_log()
    sieve.learn(A, "ham")
    sieve.learn(A, "work")
    undo(sieve, 6)
    events = sieve.plan_undo([(2, 5)])
    assert [event.number for event in events] == [5, 3, 2]
    assert [receipt.action for receipt, _ in sieve.undo(events, BY_DIGEST)] == [
        "moved",
        "forgotten",
        "forgotten",
    ]
    assert contents(sieve.store) == before
    assert [event.undoes for event in log.events()][:3] == [2, 3, 5]
    with pytest.raises(UndoError, match="there is nothing to undo in this range"):
        sieve.plan_undo([(2, 5)])


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_range_that_has_undos_in_it_goes_back_to_the_state_before_it(sieve: Sieve, first: int) -> None:
    states = {1: contents(sieve.store)}
    sieve.learn(A, "spam")
    states[2] = contents(sieve.store)
    sieve.learn(A, "ham")
    states[3] = contents(sieve.store)
    undo(sieve, 2)
    undo(sieve, 1)
    undo(sieve, 4)
    undo(sieve, 5)
    undo(sieve, 6)
    undo(sieve, 3)
    sieve.undo(sieve.plan_undo([(first, 99)]), BY_DIGEST)
    assert contents(sieve.store) == states[first]


def test_a_long_chain_of_undos_is_followed(sieve: Sieve) -> None:
    sieve.learn(A, "spam")
    for number in range(1, 30):
        undo(sieve, number)
    assert [*sieve.store.entries()] == []
    for number in (29, 27, 3, 1):
        with pytest.raises(UndoError, match=f"was undone already, by event {number + 1}:"):
            undo(sieve, number)
    assert undo(sieve, 30) == ["learned"]


def test_what_is_no_learning_event_is_refused(sieve: Sieve) -> None:
    sieve.learn(A, "spam")
    sieve.log_verdict(A, sieve.sort(A))
    sieve.flush_log()
    with pytest.raises(UndoError, match=r"event 2 is a verdict, which changed nothing: .* tamis relabel"):
        undo(sieve, 2)
    with pytest.raises(UndoError, match=r"there is no event 99 in the log, whose newest event is 2"):
        undo(sieve, 99)


def test_events_of_a_forgotten_message_are_refused(sieve: Sieve, log: EventLog) -> None:
    sieve.learn(A, "spam")
    sieve.forget(A)
    with pytest.raises(UndoError, match="event 1 is of a message that was forgotten later"):
        undo(sieve, 1)
    event = log.find(1)
    assert event is not None
    assert (event.digest, event.sender, event.subject, event.source) == (b"", "", "", "")


def test_a_change_that_is_not_in_the_log_is_not_overwritten(sieve: Sieve, tmp_path: Path) -> None:
    sieve.learn(A, "spam")
    with Sieve.open(tmp_path / "store", log=False) as other:
        other.learn(A, "ham")
    before = contents(sieve.store)
    with pytest.raises(
        UndoError, match=r"event 1 learned the message as spam, but now it is ham, by a change"
    ):
        undo(sieve, 1)
    assert contents(sieve.store) == before


def test_another_message_is_not_taken_for_the_right_one(sieve: Sieve) -> None:
    sieve.learn(A, "spam")
    sieve.forget(A)
    events = sieve.plan_undo([(2, 2)])
    assert sieve.needs_message(events[0])
    for wrong in ({}, {events[0].digest: B}):
        before = contents(sieve.store)
        with pytest.raises(UndoError, match="the message of event 2 is needed"):
            sieve.undo(events, wrong)
        assert contents(sieve.store) == before


def test_recipients_of_a_sent_message_stay_known_after_an_undo(sieve: Sieve, log: EventLog) -> None:
    sent = b"From: me@home.example\nTo: ann@home.example\nSubject: Lunch\n\nAt noon?\n"
    assert sieve.learn_sent([sent]) == {"learned": 1}
    sieve.learn(sent, "ham")
    sieve.undo(sieve.plan_undo([(1, 1)]), {digest(canonical(sent)): sent})
    assert sieve.learn_sent([sent]) == {"known": 1}
    assert sieve.forget(sent).action == "forgotten"
    assert newest(log).number == 2  # the store had no label of it


def test_learned_and_moved_messages_are_undone_without_their_text(sieve: Sieve, log: EventLog) -> None:
    states = [contents(sieve.store)]
    for raw, label in ((A, "spam"), (B, "ham"), (A, "ham"), (B, "work")):
        sieve.learn(raw, label)
        states.append(contents(sieve.store))
        maintenance.decay(sieve.store)
    events = sieve.plan_undo([(1, 4)])
    assert not any(map(sieve.needs_message, events))
    for event, state in zip(events, states[-2::-1], strict=True):
        sieve.undo([event], {})
        assert contents(sieve.store) == state
        assert newest(log).subject == event.subject
    assert maintenance.check(sieve.store) == []


def test_changes_by_digest_are_logged_and_undone(sieve: Sieve, log: EventLog) -> None:
    sieve.learn(A, "spam")
    before = contents(sieve.store)
    name = digest(canonical(A))
    sieve.relabel_digest(name, "ham")
    event = newest(log)
    assert (event.action, event.before, event.label) == ("moved", "spam", "ham")
    assert event.subject
    assert undo(sieve, 2) == ["moved"]
    assert contents(sieve.store) == before
    sieve.forget_digest(name)
    assert [each.subject for each in log.events()] == [""] * 4
    assert undo(sieve, 4) == ["learned"]
    assert contents(sieve.store) == before


def test_forgetting_erases_verdicts_on_messages_that_were_never_learned(sieve: Sieve, log: EventLog) -> None:
    sieve.learn(B, "ham")
    sieve.log_verdict(A, sieve.sort(A), source="/somewhere")
    sieve.flush_log()
    assert newest(log).subject
    assert sieve.forget(A).action == "unknown"
    assert (newest(log).subject, newest(log).source, newest(log).digest) == ("", "", b"")


def test_a_log_that_is_switched_off_stays_empty_and_still_forgets(
    sieve: Sieve, log: EventLog, tmp_path: Path
) -> None:
    sieve.learn(A, "spam")
    with sieve.store.transaction() as writer:
        writer.write_setting("log", "off")
    sieve.learn(B, "spam")
    sieve.log_verdict(B, sieve.sort(B))
    sieve.flush_log()
    assert newest(log).number == 1
    sieve.forget(A)
    assert replace(newest(log), time=0, weight=0) == Event(0, "learned", b"", "spam", number=1)
    with Sieve.open(tmp_path / "store", log=False) as quiet:
        quiet.learn(C, "spam")
    assert newest(log).number == 1


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "store") as sieve:
        sieve.learn(A, "spam")
        with closing(sqlite3.connect(tmp_path / "store.log", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert sieve.learn(B, "ham").action == "learned"
            assert sieve.forget(A).action == "forgotten"
            sieve.log_verdict(B, sieve.sort(B))
            sieve.flush_log()
        assert sieve.log_fault is not None
        assert "another process that is writing" in sieve.log_fault
        assert sieve.store.find_entry(digest(canonical(B))) is not None


def test_a_failed_erasure_says_that_messages_are_still_named(tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "store") as sieve:
        sieve.learn(A, "spam")
        with closing(sqlite3.connect(tmp_path / "store.log", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            sieve.forget(A)
        assert sieve.log_fault is not None
        assert sieve.log_fault.endswith("it may still name messages that were forgotten: forget them again")
        assert sieve.forget(A).action == "unknown"
    assert [event.subject for event in EventLog.of(tmp_path / "store").events()] == [""]
