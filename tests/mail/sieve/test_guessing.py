"""Unlabelled mail: only the surest is guessed, as much of either kind, and a guess can be taken back."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tamis_mail import Sieve
from tamis_mail.labels import GUESS_UNITS, GUESSED_LABELS
from tamis_mail.message import canonical, digest
from tamis_mail.sample import messages
from tamis_mail.sieve.executor import run_inline
from tamis_mail.sieve.guessing import guess_spam_units
from tamis_mail.sieve.jobs import extract_features
from tamis_mail.sieve.transaction import Transaction
from tamis_mail.store import Entry, Store, maintenance, saving
from tamis_mail.tokens import VERSION

SPAM, HAM = ([one.raw for one in messages() if one.label == label] for label in ("spam", "ham"))


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that knows ten messages of each kind: it is sure of some of the others, not of most."""
    path = tmp_path_factory.mktemp("learned") / "store"
    with Sieve.open(path) as sieve:
        sieve.learn_many(SPAM[:10], "spam", processes=1)
        sieve.learn_many(HAM[:10], "ham", processes=1)
        saving.backup(sieve.store, path.with_name("copy"))
    return path.with_name("copy")


@pytest.fixture
def sieve(learned: Path, tmp_path: Path) -> Iterator[Sieve]:
    with Sieve.open(shutil.copy(learned, tmp_path / "store"), create=False) as sieve:
        yield sieve


def contents(store: Store) -> tuple[dict[int, tuple[int, ...]], list[tuple[str, int, int]], list[Entry]]:
    """The counts that are not zero, the messages and weight of each label, and the journal."""
    counts = {
        int(key): tuple(row)
        for table in store.count_slices()
        for key, row in zip(table.keys, table.counts.tolist(), strict=True)
        if any(row)
    }
    return counts, [(one.name, one.messages, one.weight) for one in store.labels()], [*store.entries()]


def guess(sieve: Sieve, raw: bytes, share: int) -> Entry:
    """Learn a message as spam by so many GUESS_UNITS."""
    with sieve.store.transaction() as writer:
        transaction = Transaction(sieve.store, writer, "guessed")
        transaction.guess(canonical(raw), share)
        transaction.run((), run_inline)
    entry = sieve.store.find_entry(digest(canonical(raw)))
    assert entry is not None
    return entry


BATCHES = {
    "as many of each": SPAM[10:110] + HAM[10:110],
    "mostly spam": SPAM[10:] + HAM[100:130],
    "mostly ham": SPAM[10:30] + HAM[10:],
    "spam alone": SPAM[10:],
    "ham alone": HAM[10:],
    "few": SPAM[10:15] + HAM[10:16],
    "fewer than ten": SPAM[10:14] + HAM[10:15],
    "none": [],
}


@pytest.mark.parametrize("name", BATCHES)
def test_the_surest_tenth_at_most_is_guessed_and_as_much_of_either_kind(sieve: Sieve, name: str) -> None:
    batch = BATCHES[name]
    probability = np.array([sieve.sort(raw).probability for raw in batch])
    found = guess_spam_units(extract_features([canonical(raw) for raw in batch], VERSION), sieve.store)
    guessed = np.array([share is not None for share in found], np.bool_)
    spam, ham = guessed & (probability >= 0.5), guessed & (probability < 0.5)
    assert (probability[spam] >= 0.9).all()
    assert (probability[ham] <= 0.1).all()
    assert spam.sum() == ham.sum()
    assert spam.sum() == min(len(batch) // 10, (probability >= 0.9).sum(), (probability <= 0.1).sum())
    if spam.any():  # whatever was left is no surer
        assert probability[~guessed].max() <= probability[spam].min()
        assert probability[~guessed].min() >= probability[ham].max()
    expected = [round(GUESS_UNITS * p) for p in probability[guessed].tolist()]
    assert [share for share in found if share is not None] == expected


def test_the_batches_are_bounded_by_their_size_and_by_the_rarer_kind(sieve: Sieve) -> None:
    """Otherwise the test above would not tell one bound from the other."""
    numbers, shares = {}, set()
    for name in ("as many of each", "mostly spam", "mostly ham"):
        found = guess_spam_units(
            extract_features([canonical(raw) for raw in BATCHES[name]], VERSION), sieve.store
        )
        shares |= {share for share in found if share is not None}
        numbers[name] = (len(found) - found.count(None)) / (2 * (len(found) // 10))
    assert shares - {0, GUESS_UNITS}  # some are divided
    assert numbers["as many of each"] == 1
    assert 0 < numbers["mostly spam"] < 1
    assert 0 < numbers["mostly ham"] < 1


@pytest.mark.parametrize("name", ["mostly spam", "mostly ham"])
def test_mail_of_mostly_one_kind_does_not_outweigh_the_other(sieve: Sieve, name: str) -> None:
    actions = sieve.learn_unlabelled(BATCHES[name], processes=1)
    labels = {label.name: label for label in sieve.store.labels()}
    assert actions["guessed"] > 0
    assert actions.total() == len(BATCHES[name])
    assert labels["spam?"].messages == labels["ham?"].messages == actions["guessed"] / 2
    assert labels["spam?"].weight + labels["ham?"].weight == GUESS_UNITS * actions["guessed"]
    assert labels["spam?"].weight == pytest.approx(labels["ham?"].weight, rel=0.15)


@pytest.mark.parametrize("share", range(GUESS_UNITS + 1))
def test_a_guessed_message_counts_under_both_guesses_by_its_shares(sieve: Sieve, share: int) -> None:
    maintenance.decay(sieve.store)
    entry = guess(sieve, SPAM[50], share)
    column = {label.name: label.id for label in sieve.store.labels()}
    parts = {"spam?": 2 * share, "ham?": 2 * (GUESS_UNITS - share)}
    assert dict(entry.label_weights) == {name: weight for name, weight in parts.items() if weight}
    assert entry.label == max(parts, key=lambda name: parts[name])
    (keys,) = extract_features([canonical(SPAM[50])], VERSION)
    counts = sieve.store.count_arrays(np.sort(keys))
    for name, weight in parts.items():
        assert name in column or weight == 0
        if name in column:
            assert (counts[:, column[name]] == weight).all()
    assert {label.name: label.weight for label in sieve.store.labels() if label.name in parts} == {
        name: weight for name, weight in parts.items() if name in column
    }


@pytest.mark.parametrize(("share", "label"), [(GUESS_UNITS, "spam"), (0, "ham")])
def test_a_message_that_is_wholly_guessed_weighs_as_one_that_was_labelled(
    sieve: Sieve, share: int, label: str
) -> None:
    guess(sieve, SPAM[50], share)
    with sieve.store.transaction() as writer:  # the weights are fitted to labelled messages only
        writer.drop_weights()
    guessed = [sieve.sort(raw).log_odds for raw in SPAM[50:60]]
    sieve.learn(SPAM[50], label)
    with sieve.store.transaction() as writer:
        writer.drop_weights()
    assert guessed == pytest.approx([sieve.sort(raw).log_odds for raw in SPAM[50:60]], rel=1e-12)


def reopened(sieve: Sieve) -> None:
    path = sieve.store.path
    sieve.store.close()
    sieve.store = Store(path)


BETWEEN: dict[str, Callable[[Sieve], object]] = {
    "nothing": lambda _: None,
    "compaction": lambda sieve: maintenance.compact(sieve.store),
    "decay": lambda sieve: maintenance.decay(sieve.store),
    "opening anew": reopened,
}


@pytest.mark.parametrize("share", [0, 1, 7, 8, 9, 15, 16])
@pytest.mark.parametrize("between", BETWEEN)
def test_to_forget_a_guessed_message_leaves_nothing_of_it(sieve: Sieve, share: int, between: str) -> None:
    guess(sieve, HAM[60], 3)  # another one, that stays
    before = contents(sieve.store)
    guess(sieve, SPAM[50], share)
    assert contents(sieve.store)[0] != before[0]
    BETWEEN[between](sieve)
    assert sieve.forget(SPAM[50]).action == "forgotten"
    assert contents(sieve.store) == before
    assert maintenance.check(sieve.store) == []


def test_to_forget_guessed_messages_gives_back_the_verdicts_to_the_bit(sieve: Sieve) -> None:
    batch = BATCHES["as many of each"]
    before = [sieve.sort(raw).log_odds for raw in batch[::7]]
    actions = sieve.learn_unlabelled(batch, processes=1)
    assert [sieve.sort(raw).log_odds for raw in batch[::7]] != before
    assert sieve.forget_many(batch, processes=1)["forgotten"] == actions["guessed"]
    assert [sieve.sort(raw).log_odds for raw in batch[::7]] == before


@pytest.mark.parametrize("label", ["spam", "ham", "work"])
def test_a_guess_that_is_replaced_by_a_label_leaves_nothing_behind(sieve: Sieve, label: str) -> None:
    guess(sieve, HAM[60], 3)
    sieve.learn(SPAM[50], label)
    before = contents(sieve.store)[:2]
    sieve.forget(SPAM[50])
    guess(sieve, SPAM[50], 11)
    assert sieve.learn(SPAM[50], label).before == GUESSED_LABELS[0]
    assert contents(sieve.store)[:2] == before
    assert maintenance.check(sieve.store) == []


def test_a_guess_is_forgotten_by_a_store_that_was_pruned(sieve: Sieve) -> None:
    """What was guessed before is taken as far as it is still there, what was guessed later altogether."""
    guess(sieve, HAM[60], 5)
    maintenance.decay(sieve.store)
    assert maintenance.prune(sieve.store).dropped > 0
    guess(sieve, HAM[61], 3)
    before = contents(sieve.store)
    guess(sieve, SPAM[50], 11)
    sieve.forget(SPAM[50])
    assert contents(sieve.store) == before
    sieve.forget_many([HAM[60], HAM[61]], processes=1)
    labels = {label.name: label for label in sieve.store.labels()}
    for name in GUESSED_LABELS:
        assert (labels[name].messages, labels[name].weight, labels[name].features) == (0, 0, 0)
    assert maintenance.check(sieve.store) == []


@pytest.mark.parametrize("name", ["as many of each", "mostly spam", "mostly ham", "few"])
def test_the_same_mail_again_is_guessed_no_further(sieve: Sieve, name: str) -> None:
    first = sieve.learn_unlabelled(BATCHES[name], processes=1)
    entries = {entry.digest: entry.label for entry in sieve.store.entries()}
    for _ in range(3):
        again = sieve.learn_unlabelled(BATCHES[name], processes=1)
        assert (again["guessed"], again["unsure"]) == (0, first["unsure"])
        assert again["known"] == first["known"] + first["guessed"]
    assert {entry.digest: entry.label for entry in sieve.store.entries()} == entries


def test_guesses_do_not_depend_on_earlier_guesses(sieve: Sieve) -> None:
    batch = [canonical(raw) for raw in BATCHES["as many of each"]]
    before = guess_spam_units(extract_features(batch, VERSION), sieve.store)
    assert sieve.learn_unlabelled(BATCHES["mostly ham"], processes=1)["guessed"]
    assert guess_spam_units(extract_features(batch, VERSION), sieve.store) == before
