"""Checking, decaying, pruning, compacting and merging stores."""

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tamis_mail.schema import MAX_DECAYS
from tamis_mail.store import Store, StoreError, exchange, maintenance, saving
from tamis_mail.store.runs import all_runs
from tamis_mail.store.tables import CountTable
from tamis_mail.tokens import VERSION
from tests.mail.store.memory import (
    Memory,
    bag,
    careless,
    digest,
    expected,
    features,
    forget,
    learn,
    remembered,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        careless(store)
        learn(store, range(30), "spam", "a/spam")
        learn(store, range(30, 50), "ham", "a/inbox")
        yield store


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "other") as other:
        careless(other)
        learn(other, range(100, 110), "ham")
        learn(other, range(110, 125), "news")
        learn(other, range(125, 130), "spam")
        yield other


def messages(*ranges: tuple[int, int, str]) -> dict[int, str]:
    return {number: label for first, last, label in ranges for number in range(first, last)}


STORE = messages((0, 30, "spam"), (30, 50, "ham"))
OTHER = messages((100, 110, "ham"), (110, 125, "news"), (125, 130, "spam"))


def times(memory: Memory, factor: int) -> Memory:
    return {
        label: Counter({key: count * factor for key, count in counts.items()})
        for label, counts in memory.items()
    }


def test_status_says_what_is_there(store: Store) -> None:
    maintenance.decay(store)
    status = maintenance.status(store)
    assert [(label.name, label.messages, label.weight) for label in status.labels] == [
        ("spam", 30, 30),
        ("ham", 20, 20),
    ]
    assert (status.messages, status.decays, status.prunings, status.versions) == (50, 1, 0, [VERSION])
    assert status.last == 1_700_000_049
    assert status.sources == [("a/spam", 30), ("a/inbox", 20)]
    assert status.bytes > 10_000
    assert status.entries == len(set().union(*remembered(store).values()))


def test_status_tells_the_periods_of_spam_and_of_wanted_mail(store: Store) -> None:
    assert (maintenance.status(store).spam_period, maintenance.status(store).wanted_period) == (None, None)
    learn(store, range(60, 70), "news")
    learn(store, range(70, 90), "ham?", rest=3)
    dates = {number: 1_000_000_000 + number * 86_400 for number in range(90)}
    dates[0] = dates[29] = 0  # clocks that were not set
    for number, date in dates.items():
        store.connection.execute("UPDATE message SET date = ? WHERE digest = ?", (date, digest(number)))
    status = maintenance.status(store)
    spam = sorted(dates[number] for number in range(30))
    wanted = [dates[number] for number in (*range(30, 50), *range(60, 70))]
    assert status.spam_period == (spam[1], spam[-2])
    assert status.wanted_period == (wanted[1], wanted[-2])


def test_status_of_a_store_that_knows_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "empty") as store:
        status = maintenance.status(store)
        assert (status.labels, status.messages, status.entries, status.versions, status.last) == (
            [],
            0,
            0,
            [],
            None,
        )
        assert maintenance.check(store) == []
        assert maintenance.prune(store).dropped == 0
        assert maintenance.compact(store) > 0


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE label SET messages = messages + 1 WHERE name = 'ham'", "label 'ham' claims"),
        ("UPDATE label SET weight = 0 WHERE name = 'spam'", "label 'spam' claims"),
        ("UPDATE label SET features = features - 1 WHERE name = 'spam'", "its counts add up to"),
        ("INSERT INTO shelf VALUES (1 << 40, x'00')", "1 shelves that belong to no run"),
        (
            "UPDATE journal SET label = 7 WHERE digest = (SELECT min(digest) FROM journal)",
            "1 messages without a label",
        ),
        (
            "UPDATE journal SET source = 7 WHERE digest = (SELECT min(digest) FROM journal)",
            "1 messages without a source",
        ),
        ("UPDATE run SET entries = entries + 1", "should have"),
        ("UPDATE run SET width = 3", "counts of 3 bytes"),
        ("UPDATE run SET labels = 9", "runs with more labels than the store"),
        ("UPDATE shelf SET data = substr(data, 2)", "that are cut off"),
        ("UPDATE shelf SET data = CAST(data || data AS BLOB)", "entries out of order"),
        ("UPDATE shelf SET data = CAST(x'ffffffffffffffff0101' AS BLOB)", "on a wrong shelf"),
        ("DELETE FROM shelf", "has 0 entries, and should have"),
        (
            "INSERT INTO run SELECT 1000, generation, start, bits, width, labels, 0 FROM run LIMIT 1",
            "same shelves",
        ),
    ],
)
def test_check_finds_what_is_wrong(store: Store, damage: str, fault: str) -> None:
    assert maintenance.check(store) == []
    maintenance.compact(store)
    store.connection.execute(damage)
    faults = maintenance.check(store)
    assert any(fault in line for line in faults), faults


def test_check_finds_counts_below_zero(store: Store) -> None:
    with store.transaction() as writer:
        writer.add(bag(features(999), 1, 2, -1))
    faults = maintenance.check(store)
    assert len(faults) <= MAX_DECAYS
    assert "has counts [0, -1]" in faults[0]


def test_decay_halves_what_was_learned_before(store: Store) -> None:
    assert maintenance.decay(store) == 1
    learn(store, [200], "spam")
    assert remembered(store)["spam"][int(features(200)[0])] >= 2
    assert maintenance.decay(store) == 2
    learn(store, [201], "spam")
    assert {label.name: label.weight for label in store.labels()} == {"spam": 30 + 2 + 4, "ham": 20}
    forget(store, [200, 201])
    assert remembered(store) == expected(STORE)
    assert maintenance.check(store) == []


def test_decay_ends_before_counts_are_too_large(store: Store) -> None:
    for _ in range(MAX_DECAYS):
        maintenance.decay(store)
    with pytest.raises(StoreError, match="was decayed 40 times"):
        maintenance.decay(store)
    learn(store, [200], "spam")
    assert maintenance.check(store) == []


def test_compacting_changes_nothing_that_can_be_seen(store: Store) -> None:
    for number in range(60, 70):
        learn(store, [number])
    before = remembered(store)
    assert len({run.generation for run in all_runs(store.connection)}) > 1
    done: list[float] = []
    assert maintenance.compact(store, done.append) == store.path.stat().st_size
    assert done[-1] == 1
    assert len({run.generation for run in all_runs(store.connection)}) == 1
    assert remembered(store) == before
    assert store.connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert maintenance.check(store) == []


def test_pruning_takes_what_was_seen_once_before_the_last_decay(store: Store) -> None:
    before = remembered(store)
    assert maintenance.prune(store).dropped == 0
    assert store.prunings() == 0
    maintenance.decay(store)
    learn(store, [200], "ham")
    totals = remembered(store)["spam"] + remembered(store)["ham"]
    pruned = maintenance.prune(store)
    once = {key for key, count in totals.items() if count == 1}
    assert pruned.dropped == len(once) > 100
    assert pruned.kept == len(totals) - len(once)
    assert pruned.bytes_after < pruned.bytes_before
    assert store.prunings() == 1
    left = remembered(store)
    assert once.isdisjoint(left["spam"])
    assert once.isdisjoint(left["ham"])
    assert set(features(200).tolist()) <= set(left["ham"])
    assert all(left["spam"][key] == before["spam"][key] for key in left["spam"])
    assert maintenance.check(store) == []


def test_pruning_all_that_was_seen_once(store: Store) -> None:
    learn(store, [300], "spam?", rest=0)  # a unit among guesses is a sixteenth of a message
    before = remembered(store)
    maintenance.prune(store, halvings=0)
    after = remembered(store)
    known = before["spam"] + before["ham"]
    assert set(after["spam"] + after["ham"]) == {
        key for key, count in known.items() if count > 1 or (count == 1 and key in before["spam?"])
    }
    assert set(after["spam?"]) == set(before["spam?"]) & set(known)
    with pytest.raises(ValueError, match="halvings is -1"):
        maintenance.prune(store, halvings=-1)


def test_what_is_forgotten_after_pruning_leaves_nothing_below_zero(store: Store) -> None:
    maintenance.prune(store, halvings=0)
    learn(store, range(60, 70), "ham")
    forget(store, [*range(50), *range(60, 70)])
    assert maintenance.check(store) == []
    assert remembered(store) == {}


def test_two_stores_become_one(store: Store, other: Store) -> None:
    done: list[float] = []
    assert maintenance.merge(store, other, done.append).added == 30
    assert done[-1] == 1
    assert remembered(store) == expected(STORE | OTHER)
    assert remembered(other) == expected(OTHER)
    assert maintenance.check(store) == []
    assert maintenance.status(store).messages == 80
    forget(store, OTHER)
    assert remembered(store) == expected(STORE)


@pytest.mark.parametrize(("mine", "its"), [(2, 0), (0, 3), (2, 3), (1, 1)])
def test_stores_of_different_epochs_become_one_without_rounding(
    store: Store, other: Store, mine: int, its: int
) -> None:
    for one, often in ((store, mine), (other, its)):
        for _ in range(often):
            maintenance.decay(one)
    with store.transaction() as writer:
        writer.add_imported("spam", 5)
    with other.transaction() as writer:
        writer.add_imported("spam", 7)
    unit = max(mine, its)
    nothing = Counter[int]()
    maintenance.merge(store, other)
    assert store.message_weight() == 1 << unit
    left, right = times(expected(STORE), 1 << unit - mine), times(expected(OTHER), 1 << unit - its)
    both = {label: left.get(label, nothing) + right.get(label, nothing) for label in left | right}
    assert remembered(store) == both
    assert maintenance.check(store) == []
    lent = {label.name: label.lent for label in store.labels()}
    assert lent == {"spam": (5 << unit - mine) + (7 << unit - its), "ham": 0, "news": 0}
    forget(store, [*STORE, *OTHER])
    assert remembered(store) == {}


def test_messages_in_both_stores_without_their_features_are_not_counted_twice(
    store: Store, other: Store
) -> None:
    learn(other, [5, 45], "ham", stored=False)
    for number in (5, 45):
        forget(store, [number])
        learn(store, [number], "spam", stored=False)
    before = remembered(store)
    with pytest.raises(
        StoreError, match=r"2 messages of .*other are in .*store too.*forget them in one of the two"
    ):
        maintenance.merge(store, other)
    assert remembered(store) == before
    assert [label.name for label in store.labels()] == ["spam", "ham"]
    forget(other, [5, 45])
    assert maintenance.merge(store, other).added == 30


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two stores that share ten messages, of which five have two labels."""
    with Store(tmp_path / "one") as one, Store(tmp_path / "two") as two:
        learn(careless(one), range(20), "spam", "one")
        learn(one, range(20, 30), "ham", "one")
        learn(careless(two), range(15, 25), "ham", "two", time=1_700_001_000)
        learn(two, range(40, 45), "news", "two")
        yield one, two


UNION = messages((0, 15, "spam"), (15, 25, "ham"), (25, 30, "ham"), (40, 45, "news"))


def journal(store: Store) -> list[object]:
    return [(entry.digest, entry.label, entry.weight, entry.time, entry.source) for entry in store.entries()]


def text(store: Store) -> bytes:
    file = io.BytesIO()
    exchange.export(store, file)
    return file.getvalue()


def test_messages_of_both_stores_count_once_under_the_later_label(shared: tuple[Store, Store]) -> None:
    one, two = shared
    assert maintenance.merge(one, two) == maintenance.MergeSummary(added=5, shared=10, differing=5)
    assert remembered(one) == expected(UNION)
    assert maintenance.check(one) == []
    assert all(one.find_features(digest(number)) == features(number).tolist() for number in UNION)
    forget(one, UNION)
    assert remembered(one) == {}
    assert maintenance.check(one) == []


def test_the_order_of_two_stores_does_not_matter(shared: tuple[Store, Store], tmp_path: Path) -> None:
    one, two = shared
    saving.backup(one, tmp_path / "copy")
    maintenance.merge(one, two)
    with Store(tmp_path / "copy") as copy:
        assert maintenance.merge(two, copy) == maintenance.MergeSummary(added=20, shared=10, differing=5)
    assert journal(one) == journal(two)
    assert text(one) == text(two)


@pytest.mark.parametrize("decays", [0, 2])
def test_merging_again_changes_nothing(shared: tuple[Store, Store], decays: int) -> None:
    one, two = shared
    for _ in range(decays):
        maintenance.decay(one)
    learn(one, [50], "ham")
    maintenance.merge(one, two)
    before = text(one)
    assert maintenance.merge(one, two) == maintenance.MergeSummary(added=0, shared=15, differing=0)
    assert text(one) == before
    assert maintenance.check(one) == []


@pytest.mark.parametrize(("mine", "its"), [(2, 0), (0, 3)])
def test_shared_messages_of_different_epochs_count_once(
    shared: tuple[Store, Store], mine: int, its: int
) -> None:
    one, two = shared
    for store, often in ((one, mine), (two, its)):
        for _ in range(often):
            maintenance.decay(store)
    maintenance.merge(one, two)
    unit = max(mine, its)
    of_one, of_two = messages((0, 15, "spam"), (25, 30, "ham")), messages((15, 25, "ham"), (40, 45, "news"))
    left, right = times(expected(of_one), 1 << unit - mine), times(expected(of_two), 1 << unit - its)
    both = {label: left.get(label, Counter()) + right.get(label, Counter()) for label in left | right}
    assert remembered(one) == both
    assert maintenance.check(one) == []


@pytest.mark.parametrize("which", [0, 1])
def test_features_of_one_store_are_enough_for_a_shared_message(
    shared: tuple[Store, Store], which: int
) -> None:
    shared[which].connection.execute("DELETE FROM message")
    shared[which].connection.execute("DELETE FROM bundle")
    one, two = shared
    assert maintenance.merge(one, two).shared == 10
    assert remembered(one) == expected(UNION)
    assert all(one.find_features(digest(number)) == features(number).tolist() for number in range(15, 25))
    assert maintenance.check(one) == []


@pytest.mark.parametrize("which", [0, 1])
def test_shared_messages_of_a_pruned_store_count_once(shared: tuple[Store, Store], which: int) -> None:
    maintenance.decay(shared[which])
    assert maintenance.prune(shared[which]).dropped
    one, two = shared
    maintenance.merge(one, two)
    assert maintenance.check(one) == []
    forget_stored(one)
    assert remembered(one) == {}
    assert maintenance.check(one) == []


def forget_stored(store: Store) -> None:
    """Forget all messages by their stored features."""
    with store.transaction() as writer:
        for entry in list(store.entries()):
            keys = store.find_features(entry.digest)
            assert keys is not None
            table = bag(np.array(keys, np.uint64), writer.ensure_column(entry.label), writer.n_labels)
            writer.add(CountTable(table.keys, table.counts * -entry.weight))
            writer.remove(entry.digest)


def test_a_given_label_is_preferred_to_a_guessed_one(tmp_path: Path) -> None:
    with Store(tmp_path / "one") as one, Store(tmp_path / "two") as two:
        learn(careless(one), range(5), "spam")
        learn(careless(two), range(5), "ham?", rest=3, time=1_800_000_000)
        maintenance.merge(two, one)
        assert remembered(two) == expected(messages((0, 5, "spam")))
        assert maintenance.check(two) == []


def test_stores_that_cannot_be_one_are_refused(store: Store, other: Store) -> None:
    with pytest.raises(StoreError, match="cannot be merged with itself"):
        maintenance.merge(store, store)
    other.connection.execute("UPDATE journal SET version = 1")
    with pytest.raises(StoreError, match=r"counts tokens of version 1, and"):
        maintenance.merge(store, other)
    other.connection.execute("UPDATE journal SET version = ?", (VERSION,))
    for one in (store, other):
        one.connection.execute("INSERT INTO setting VALUES ('imported 1234', 'bogofilter')")
    with pytest.raises(StoreError, match="would count twice: import it into one"):
        maintenance.merge(store, other)
    other.connection.execute("DELETE FROM setting")
    store.connection.execute("INSERT OR REPLACE INTO setting VALUES ('epoch', '40')")
    other.connection.execute("UPDATE label SET weight = 1 << 30")
    with pytest.raises(StoreError, match="has counts too large to be merged"):
        maintenance.merge(store, other)
    assert remembered(store) == expected(STORE)


@pytest.mark.parametrize(("weight", "is_refused"), [((1 << 61) - 1, False), (1 << 61, True)])
def test_counts_that_might_not_fit_once_they_are_added_are_refused(
    tmp_path: Path, other: Store, weight: int, is_refused: bool
) -> None:
    other.connection.execute("UPDATE label SET weight = ? WHERE name = 'news'", (weight,))
    with Store(tmp_path / "new") as new:
        if is_refused:
            with pytest.raises(StoreError, match="has counts too large to be merged"):
                maintenance.merge(new, other)
        else:
            assert maintenance.merge(new, other).added == 30


def test_merging_into_an_empty_store_is_a_copy(tmp_path: Path, other: Store) -> None:
    with Store(tmp_path / "new") as new:
        maintenance.merge(new, other)
        assert remembered(new) == remembered(other)
        assert list(new.entries()) == list(other.entries())
        assert new.find_entry(digest(100)) == other.find_entry(digest(100))


def test_a_store_that_is_being_read_can_be_compacted(store: Store) -> None:
    """What cannot be done because of somebody else is done another time: it is no error."""
    with Store(store.path) as reader, reader.snapshot():
        maintenance.compact(store)
    assert maintenance.check(store) == []


def test_check_tells_how_far_it_is_by_the_last_key_that_it_read(store: Store) -> None:
    told: list[float] = []
    assert maintenance.check(store, told.append) == []
    assert told == [float(table.keys[-1]) / (1 << 48) for table in store.count_slices()]
