"""What a transaction answers, and how its work is divided."""

import inspect
import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis_mail import Receipt, Sieve, features, tokens
from tamis_mail.features import PAIRS, WORDS
from tamis_mail.features.arrays import views
from tamis_mail.labels import SPAM
from tamis_mail.message import canonical, digest, parse
from tamis_mail.records import replace
from tamis_mail.sample import messages
from tamis_mail.sieve import jobs, reading, sieve, transaction
from tamis_mail.sieve.executor import JOB_BYTES, JOB_MESSAGES, run_inline
from tamis_mail.sieve.pruning import prune
from tamis_mail.sieve.transaction import Transaction
from tamis_mail.store import Entry, Store, StoreError, bundles, exchange, maintenance
from tamis_mail.store.feature_sums import count_part
from tamis_mail.store.tables import Change, CountTable
from tamis_mail.tokens import VERSION
from tamis_mail.verdict import RULES, Rule, judge
from tamis_mail.verdict.judging import list_other_labels
from tamis_mail.verdict.rule import list_comparisons, sides

SAMPLE = [one.raw for one in messages()]
LUNCH = b"Subject: Lunch?\n\nAt noon, as always?"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Sieve]:
    with Sieve.open(tmp_path / "store") as opened:
        yield opened


def test_a_receipt_says_what_became_of_a_message(opened: Sieve) -> None:
    name = digest(canonical(LUNCH))
    assert opened.learn(LUNCH, "ham") == Receipt("learned", "ham", None, name)
    assert opened.learn(LUNCH, "ham") == Receipt("known", "ham", "ham", name)
    assert opened.learn(LUNCH, "spam") == Receipt("moved", "spam", "ham", name)
    assert opened.forget(LUNCH) == Receipt("forgotten", None, "spam", name)
    assert opened.forget(LUNCH) == Receipt("unknown", None, None, name)


def remove_features(opened: Sieve) -> None:
    """Make a store as an older tamis wrote it."""
    with opened.store.transaction():
        opened.store.connection.execute("DELETE FROM message")
        opened.store.connection.execute("DELETE FROM bundle")


def test_a_message_known_by_other_tokens_is_not_taken_back(
    opened: Sieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.learn(LUNCH, "ham")
    monkeypatch.setattr(opened.store, "token_version", lambda: 1)
    with pytest.raises(StoreError, match="learn your mail into a new store"):
        opened.learn(LUNCH, "spam")
    remove_features(opened)
    with pytest.raises(StoreError, match="learn your mail into a new store"):
        opened.forget(LUNCH)
    with pytest.raises(StoreError, match="learn your mail into a new store"):
        opened.learn(LUNCH, "spam")
    monkeypatch.undo()
    assert opened.forget(LUNCH).before == "ham"


def test_a_message_known_by_other_tokens_is_forgotten_by_its_stored_features(
    opened: Sieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.learn(LUNCH, "ham")
    monkeypatch.setattr(opened.store, "token_version", lambda: 1)
    assert opened.forget(LUNCH).before == "ham"
    assert [(label.messages, label.features) for label in opened.store.labels()] == [(0, 0)]


def learn_as_before(store: Store, raw: bytes, label: str) -> None:
    """Learn a message as a tamis did that knew tokens of version 1 only."""
    plain = canonical(raw)
    with store.transaction() as writer:
        writer.record(Entry(digest(plain), label, 1, 0, 1, 0, "", 0))
        change: Change = ((writer.ensure_column(label), 1),)
        writer.add(jobs.count([plain], [change], writer.n_labels, 1))


@pytest.fixture
def old(opened: Sieve) -> Sieve:
    """A store of version 1."""
    for one in [*messages()][::12]:
        learn_as_before(opened.store, one.raw, one.label)
    return opened


def test_a_new_store_counts_the_newest_tokens(opened: Sieve) -> None:
    assert opened.store.token_version() == VERSION
    opened.learn(LUNCH, "ham")
    assert maintenance.versions(opened.store) == [VERSION]


def test_a_store_keeps_the_version_of_its_tokens(old: Sieve) -> None:
    export = io.BytesIO()
    exchange.export(old.store, export)
    assert old.store.token_version() == 1
    new = [one for one in SAMPLE if old.store.find_entry(digest(canonical(one))) is None][:300]
    assert old.learn(new[0], "spam").action == "learned"
    assert old.learn_many(new[1:], "spam", processes=2) == {"learned": len(new) - 1}
    assert maintenance.versions(old.store) == [1]
    assert maintenance.check(old.store) == []
    assert old.forget_many(new, processes=2) == {"forgotten": len(new)}
    again = io.BytesIO()
    exchange.export(old.store, again)
    assert again.getvalue() == export.getvalue()


def test_a_store_of_version_1_judges_by_its_own_tokens_and_rule(old: Sieve) -> None:
    rule, labels = RULES[1], old.store.labels()
    for raw in SAMPLE[5:400:40]:
        read = tokens.read(parse(canonical(raw)), 1)
        counts = old.store.counts(features.hash_tokens(read))
        expected = judge(counts, labels, rule, 1, partial(features.name_features, read))
        verdict = old.sort(raw)
        assert verdict.log_odds == expected.log_odds
        assert verdict.evidence == expected.evidence
        assert "relations" not in {one.view for one in verdict.evidence}
        ((judged, _),) = jobs.judge(str(old.store.path), [raw])
        assert judged.log_odds == pytest.approx(expected.log_odds)


def test_guesses_of_a_store_of_version_1_are_counted_by_its_tokens(old: Sieve) -> None:
    actions = old.learn_unlabelled(SAMPLE, processes=1)
    assert actions["guessed"]
    assert maintenance.versions(old.store) == [1]
    assert old.forget_many(SAMPLE, processes=1)["forgotten"] > actions["guessed"]
    assert maintenance.check(old.store) == []
    assert all(label.features == 0 for label in old.store.labels())


@pytest.mark.parametrize("version", [0, 4])
def test_a_store_of_tokens_that_are_not_known_is_refused_in_one_line(opened: Sieve, version: int) -> None:
    opened.learn(LUNCH, "ham")
    opened.store.connection.execute("UPDATE journal SET version = ?", (version,))
    uses = (
        lambda: opened.sort(LUNCH),
        lambda: opened.learn(SAMPLE[0], "spam"),
        lambda: opened.forget(LUNCH),
        lambda: list(opened.sort_many([LUNCH])),
    )
    for use in uses:
        with pytest.raises(
            StoreError, match=f"tokens of version {version}, and this tamis knows 1, 2 and 3"
        ) as error:
            use()
        assert "\n" not in str(error.value)


def test_a_damaged_version_is_reported(opened: Sieve) -> None:
    opened.learn(LUNCH, "ham")
    opened.store.connection.execute("UPDATE journal SET version = 'two'")
    with pytest.raises(StoreError, match=r"is damaged .*journal.version is 'two'"):
        opened.sort(LUNCH)


def job_sizes(opened: Sieve, raws: list[bytes]) -> list[int]:
    """How many messages each job counts when these are learned."""
    sizes: list[int] = []

    def note(job: str | Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        for given in inputs:
            sizes.append(len(given[0]))
            yield next(run_inline(job, [given]))

    with opened.store.transaction() as writer:
        chosen = Transaction(opened.store, writer, "")
        receipts = chosen.run((chosen.learn(raw, "ham") for raw in raws), note)
    assert [receipt.action for receipt in receipts] == ["learned"] * len(raws)
    return sizes


def test_a_job_has_a_bounded_number_of_messages(opened: Sieve) -> None:
    raws = [b"Subject: %d\n\nx" % number for number in range(2 * JOB_MESSAGES + 1)]
    assert job_sizes(opened, raws) == [JOB_MESSAGES, JOB_MESSAGES, 1]
    assert maintenance.check(opened.store) == []


def test_a_job_has_a_bounded_number_of_bytes(opened: Sieve) -> None:
    raws = [b"Subject: %d\n\n" % number + b"word " * 210_000 for number in range(6)]  # 1 MiB and a little
    assert 3 * len(raws[0]) < JOB_BYTES <= 4 * len(raws[0])
    assert job_sizes(opened, raws) == [4, 2]


@pytest.mark.parametrize(("more", "sizes"), [(-1, [2, 2, 2]), (0, [2, 2, 2]), (1, [3, 3])])
def test_the_last_byte_fills_a_job(
    opened: Sieve, monkeypatch: pytest.MonkeyPatch, more: int, sizes: list[int]
) -> None:
    raws = [b"Subject: %d\n\nx" % number for number in range(6)]
    monkeypatch.setattr(transaction, "JOB_BYTES", 2 * len(canonical(raws[0])) + more)
    assert job_sizes(opened, raws) == sizes


def test_messages_that_are_taken_back_from_pruned_counts_make_jobs_too(opened: Sieve) -> None:
    raws = [b"Subject: %d\n\nword%d" % (number, number) for number in range(JOB_MESSAGES + 2)]
    opened.learn_many(raws, "ham", processes=1)
    maintenance.decay(opened.store)
    assert maintenance.prune(opened.store).dropped > 0
    assert opened.forget_many(raws, processes=1) == {"forgotten": JOB_MESSAGES + 2}
    assert [(label.weight, label.features) for label in opened.store.labels()] == [(0, 0)]
    assert maintenance.check(opened.store) == []


def test_features_of_many_messages_are_those_of_each() -> None:
    plain = [canonical(raw) for raw in SAMPLE[:20]]
    together, alone = (
        jobs.extract_features(plain, VERSION),
        [jobs.extract_features([raw], VERSION)[0] for raw in plain],
    )
    assert len(together) == len(plain)
    assert all(np.array_equal(one, other) for one, other in zip(together, alone, strict=True))
    digests, each = jobs.digest_messages(SAMPLE[:3], VERSION)
    assert digests == [digest(raw) for raw in plain[:3]]
    assert all(np.array_equal(one, other) for one, other in zip(each, alone, strict=False))
    assert jobs.extract_features([], VERSION) == []


def test_a_count_is_the_sum_of_what_each_message_changes() -> None:
    plain = [canonical(raw) for raw in SAMPLE[:5]]
    changes: list[Change] = [((0, 1),), ((1, 2),), ((0, 1),), ((0, 3), (2, -5)), ()]
    total: dict[int, list[int]] = {}
    for raw, change in zip(plain, changes, strict=True):
        for key in jobs.extract_features([raw], VERSION)[0].tolist():
            for column, units in change:
                total.setdefault(key, [0, 0, 0])[column] += units
    for chosen, width in ((slice(None), 3), (slice(0, 1), 1), (slice(1, 2), 2)):
        counted = jobs.count(plain[chosen], changes[chosen], width, VERSION)
        assert counted.counts.shape[1] == width
        if width == 3:
            rows = dict(zip(counted.keys.tolist(), counted.counts.tolist(), strict=True))
            assert {key: row for key, row in rows.items() if any(row)} == total
        else:
            assert counted.counts[:, width - 1].tolist() == [width] * len(
                jobs.extract_features(plain[chosen], VERSION)[0]
            )


def test_many_are_judged_as_each_is(opened: Sieve) -> None:
    for one in [*messages()][::10]:
        opened.learn(one.raw, one.label)
    asked = SAMPLE[1:60:20]
    judged = jobs.judge(str(opened.store.path), asked)
    assert [one.log_odds for one, _ in judged] == pytest.approx([opened.sort(raw).log_odds for raw in asked])
    assert jobs.judge(str(opened.store.path), []) == []


def test_progress_is_told_after_each_transaction(opened: Sieve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sieve, "_LEARN_BATCH", 2)
    monkeypatch.setattr(sieve, "JOB_MESSAGES", 2)
    monkeypatch.setattr(sieve, "_GUESS_BATCH", 2)
    raws = [b"Subject: %d\n\nx" % number for number in range(5)]
    told: list[int] = []
    assert opened.learn_many(raws, "ham", processes=1, progress=told.append) == {"learned": 5}
    assert opened.learn_many(raws[:1], "spam", processes=1, progress=told.append) == {"moved": 1}
    new = [b"Subject: new %d\n\nx" % number for number in range(3)]
    asked = [*raws[:2], *new]
    opened.learn_unlabelled(asked, processes=1, progress=told.append)
    assert opened.forget_many(raws, processes=1, progress=told.append) == {"forgotten": 5}
    assert told == [2, 4, 5, 1, 2, 4, 5, 2, 4, 5]


def test_transactions_are_shorter_where_labels_are_many(
    opened: Sieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sieve, "_LEARN_BATCH", 40)
    monkeypatch.setattr(sieve, "JOB_MESSAGES", 3)
    raws = [b"Subject: %d\n\nx" % number for number in range(40)]
    sizes = []
    for labels in range(5):
        told: list[int] = []
        opened.forget_many(raws, processes=1, progress=told.append)
        sizes.append((len(opened.store.labels()), told[0]))
        opened.learn(b"Subject: of a label\n\n%d" % labels, f"label{labels}")
    assert sizes == [(0, 40), (1, 40), (2, 40), (3, 40), (4, 20)]
    for labels in range(5, 30):
        opened.learn(b"Subject: of a label\n\n%d" % labels, f"label{labels}")
    told = []
    opened.forget_many(raws, processes=1, progress=told.append)
    assert told[0] == 3  # never fewer than a job


def test_a_label_of_which_all_was_forgotten_is_not_known_to_guess_by(opened: Sieve) -> None:
    opened.learn(LUNCH, "ham")
    opened.learn(b"Subject: Pills\n\nBuy.", "spam")
    assert opened.learn_unlabelled([b"Subject: x\n\ny"], processes=1) == {"unsure": 1}
    opened.forget(LUNCH)
    with pytest.raises(StoreError, match="has not learned spam and other mail"):
        opened.learn_unlabelled([b"Subject: x\n\ny"], processes=1)


def test_messages_that_are_known_or_repeated_are_not_guessed(opened: Sieve) -> None:
    opened.learn(LUNCH, "ham")
    opened.learn(b"Subject: Pills\n\nBuy.", "spam")
    asked = [LUNCH, b"Subject: x\n\ny", b"Subject: x\n\ny", b"Subject: z\n\ny"]
    assert opened.learn_unlabelled(asked, processes=1) == {"unsure": 2, "known": 2}


def test_a_store_is_made_unless_that_is_not_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError):
        Sieve.open(tmp_path / "store", create=False)
    monkeypatch.setenv("TAMIS_STORE", str(tmp_path / "own"))
    with Sieve.open() as opened:
        assert opened.store.path == tmp_path / "own"
        opened.learn(LUNCH, "ham", source="here")
        assert [entry.source for entry in opened.store.entries()] == ["here"]


def rows_of(opened: Sieve) -> dict[int, tuple[int, ...]]:
    """All counts, by key."""
    return {
        int(key): tuple(row)
        for table in opened.store.count_slices()
        for key, row in zip(table.keys, table.counts.tolist(), strict=True)
    }


@pytest.mark.parametrize("labels", [("spam", "ham"), ("spam", "ham", "work")])
@pytest.mark.parametrize("bound", [0.5, 20.0, 40.0])
def test_pruning_drops_just_what_weighs_little_by_the_definition(
    opened: Sieve, bound: float, labels: tuple[str, ...]
) -> None:
    for number, raw in enumerate(SAMPLE[:120:2]):
        opened.learn(raw, labels[number % len(labels)])
    maintenance.decay(opened.store)
    for number, raw in enumerate(SAMPLE[1:20:2]):
        opened.learn(raw, labels[number % len(labels)])
    before, unit, rule = rows_of(opened), opened.store.message_weight(), Rule.of(opened.store)
    known = opened.store.labels()
    least = bound / (rule.views[WORDS].scale + rule.views[PAIRS].scale)

    def is_negligible(key: int, row: tuple[int, ...]) -> bool:
        kind = int(views(np.array([key], np.uint64))[0])
        if kind not in (WORDS, PAIRS) or sum(row) > unit:
            return False
        for name, rest in list_comparisons(list_other_labels(known)):
            one, other = sides(known, name, rest, unit, rule.guessed)
            weight = rule.views[kind].weigh(
                one.count(row), other.count(row), one.messages[kind], other.messages[kind]
            )
            if name == SPAM:
                weight -= rule.views[kind].centre
            if abs(weight) > least:
                return False
        return True

    kept = {key: row for key, row in before.items() if not is_negligible(key, row)}
    pruned = prune(opened.store, bound)
    assert rows_of(opened) == kept
    assert pruned.dropped == len(before) - len(kept)
    assert pruned.dropped > 0 or bound < 20


@pytest.mark.parametrize("bound", [0.0, -0.5, float("nan")])
def test_a_bound_that_is_not_above_zero_is_refused(opened: Sieve, bound: float) -> None:
    with pytest.raises(ValueError, match="give log-odds above 0"):
        prune(opened.store, bound)


def test_nothing_is_pruned_before_both_kinds_are_known(opened: Sieve) -> None:
    for raw in SAMPLE[:20]:
        opened.learn(raw, "ham")
    maintenance.decay(opened.store)
    assert prune(opened.store, 1000.0).dropped == 0


def test_a_table_of_one_job_is_the_whole_sum(opened: Sieve) -> None:
    opened.learn(LUNCH, "ham")
    (keys,) = jobs.extract_features([canonical(LUNCH)], VERSION)
    assert next(opened.store.count_slices()) == CountTable(np.sort(keys), np.ones((len(keys), 1), np.int64))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (Sieve.open, ["create", "readonly", "log", "bulk"]),
        (Sieve.learn, ["source"]),
        (Sieve.sort_many, ["processes"]),
        (Sieve.learn_many, ["source", "processes", "progress"]),
        (Sieve.learn_unlabelled, ["source", "processes", "progress"]),
        (Sieve.forget, ["source"]),
        (Sieve.forget_many, ["source", "processes", "progress"]),
    ],
)
def test_options_are_given_by_name(method: Callable[..., object], options: list[str]) -> None:
    parameters = inspect.signature(method).parameters.values()
    assert [each.name for each in parameters if each.kind is each.KEYWORD_ONLY] == options
    assert not any(each.kind is each.POSITIONAL_ONLY for each in parameters)


def test_many_are_sorted_as_each_is(opened: Sieve) -> None:
    for one in [*messages()][::25]:
        opened.learn(one.raw, one.label)
    asked = SAMPLE[1:60:20]
    verdicts = list(opened.sort_many(asked, processes=1))
    assert [each.log_odds for each in verdicts] == pytest.approx([opened.sort(raw).log_odds for raw in asked])


def memory(opened: Sieve) -> tuple[list[object], list[object]]:
    """All counts and all stored features of a store."""
    store = opened.store
    tables: list[object] = [(table.keys.tolist(), table.counts.tolist()) for table in store.count_slices()]
    found = store.message_features(guessed=True)
    names = [label.name for label in store.labels()]
    return tables, [
        (
            name,
            names[found.labels[place]],
            found.keys[found.indices[found.starts[place] : found.starts[place + 1]]].tolist(),
        )
        for place, name in enumerate(found.digests)
    ]


def test_learning_stores_the_features_of_each_message(opened: Sieve) -> None:
    opened.learn_many(SAMPLE[:140], "ham", processes=1)
    opened.learn(SAMPLE[140], "spam")
    digests, features_of_messages = jobs.digest_messages(SAMPLE[:141], VERSION)
    for name, keys in zip(digests, features_of_messages, strict=True):
        assert opened.store.find_features(name) == keys.tolist()
    assert len(opened.store.message_features()) == len(set(digests))
    assert maintenance.check(opened.store) == []


def test_the_own_date_of_a_message_is_stored_and_stays_when_it_is_moved(opened: Sieve) -> None:
    dated = b"Date: Fri, 23 Aug 2002 23:10:22 +0800\nSubject: x\n\ny"
    name = digest(canonical(dated))
    opened.learn_many([dated, LUNCH], "ham", processes=1)
    assert opened.store.find_date(name) == 1030115422
    assert opened.store.find_date(digest(canonical(LUNCH))) is None
    opened.relabel_digest(name, "spam")
    assert opened.store.find_date(name) == 1030115422
    opened.learn(dated, "ham")
    assert opened.store.find_date(name) == 1030115422
    found = opened.store.message_features()
    assert sorted(found.dates[~np.isnan(found.dates)].tolist()) == [1030115422]
    opened.forget(dated)
    assert opened.store.find_date(name) is None


def test_a_message_with_too_many_features_is_learned_without_storing_them(
    opened: Sieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (bundles, jobs, reading):
        monkeypatch.setattr(module, "MAX_BUNDLE_FEATURES", 100)
    long = b"Subject: long\n\n" + b" ".join(b"word%d" % number for number in range(100))
    opened.learn_many([LUNCH, long, b"Subject: x\n\ny"], "ham", processes=1)
    assert opened.store.find_features(digest(canonical(long))) is None
    assert len(opened.store.message_features()) == 2
    assert maintenance.check(opened.store) == []
    assert opened.forget_many([LUNCH, long, b"Subject: x\n\ny"], processes=1) == {"forgotten": 3}
    assert [(label.weight, label.features) for label in opened.store.labels()] == [(0, 0)]
    assert maintenance.check(opened.store) == []


@pytest.mark.parametrize("pruned", [False, True])
def test_forgetting_by_digest_is_forgetting(tmp_path: Path, pruned: bool) -> None:
    with Sieve.open(tmp_path / "a") as one, Sieve.open(tmp_path / "b") as other:
        for opened in (one, other):
            opened.learn_many(SAMPLE[:20], "ham", processes=1)
            opened.learn_many(SAMPLE[20:30], "spam", processes=1)
            if pruned:
                maintenance.decay(opened.store)
                assert maintenance.prune(opened.store).dropped
                opened.learn_many(SAMPLE[30:40], "spam", processes=1)
        for raw in (SAMPLE[3], SAMPLE[25]):
            assert one.forget_digest(digest(canonical(raw))) == other.forget(raw)
            assert memory(one) == memory(other)
        assert one.forget_digest(b"nothing").action == "unknown"
        assert maintenance.check(one.store) == []


def test_forgetting_is_exact_after_pruning_and_learning_a_feature_again(opened: Sieve) -> None:
    opened.learn(LUNCH, "ham")
    maintenance.decay(opened.store)
    assert maintenance.prune(opened.store).dropped
    opened.learn(b"Subject: Lunch?\n\nAt noon, as never", "ham")
    before = memory(opened)[0]
    opened.forget(LUNCH)  # nothing is left of it; the other message has the same words
    assert memory(opened)[0] == before
    opened.forget(b"Subject: Lunch?\n\nAt noon, as never")
    assert [label.features for label in opened.store.labels()] == [0]
    assert maintenance.check(opened.store) == []


def test_moving_by_digest_is_learning_under_another_label(tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "a") as one, Sieve.open(tmp_path / "b") as other:
        for opened in (one, other):
            opened.learn_many(SAMPLE[:20], "ham", processes=1)
            maintenance.decay(opened.store)
        name = digest(canonical(SAMPLE[3]))
        assert one.relabel_digest(name, "spam") == other.learn(SAMPLE[3], "spam")
        assert one.relabel_digest(name, "spam") == other.learn(SAMPLE[3], "spam")
        assert memory(one) == memory(other)
        assert maintenance.check(one.store) == []
        assert one.relabel_digest(b"nothing", "spam").action == "unknown"
        with pytest.raises(ValueError, match="cannot be a label"):
            one.relabel_digest(name, "unsure")


def test_a_guessed_message_is_moved_by_digest(opened: Sieve) -> None:
    for one in [*messages()][::3]:
        opened.learn(one.raw, one.label)
    assert opened.learn_unlabelled(SAMPLE, processes=1)["guessed"]
    guessed = next(entry for entry in opened.store.entries() if entry.label.endswith("?"))
    assert opened.relabel_digest(guessed.digest, "ham").before == guessed.label
    moved = opened.store.find_entry(guessed.digest)
    assert moved is not None
    assert (moved.label, moved.weight, moved.other_weight) == ("ham", 1, 0)
    assert maintenance.check(opened.store) == []


def test_a_message_without_stored_features_is_not_changed_by_digest(opened: Sieve) -> None:
    opened.learn(LUNCH, "ham")
    remove_features(opened)
    name = digest(canonical(LUNCH))
    with pytest.raises(StoreError, match="give the message itself"):
        opened.forget_digest(name)
    with pytest.raises(StoreError, match="give the message itself"):
        opened.relabel_digest(name, "spam")
    assert opened.learn(LUNCH, "spam").before == "ham"
    assert opened.forget_digest(name).before == "spam"
    assert maintenance.check(opened.store) == []


def test_copies_and_messages_that_became_known_meanwhile_are_learned_once(
    opened: Sieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers read messages before the transaction, so that more may be known when it begins."""
    monkeypatch.setattr(sieve, "JOB_MESSAGES", 4)
    mail = list(dict.fromkeys(SAMPLE[:30]))
    assert opened.learn_many(mail[:3], "ham", processes=1) == {"learned": 3}
    assert opened.learn_many(mail[3:5], "spam", processes=1) == {"learned": 2}
    read = jobs.read_messages(opened.store.path_name, mail[:10], "ham", True)
    assert read.places == list(range(3, 10))
    assert len(read.headings) == 10
    opened.learn(mail[6], "ham")
    with opened.store.transaction() as writer:
        transaction = Transaction(opened.store, writer, "")
        receipts = transaction.learn_read(mail[:10], read, "ham")
        transaction.run((), run_inline, has_moved=True)
    actions = [receipt.action for receipt in receipts]
    assert actions == ["known"] * 3 + ["moved"] * 2 + ["learned", "known"] + ["learned"] * 3
    copies = [mail[10], mail[11], mail[10], mail[12], mail[0], mail[11], mail[13], mail[10]]
    assert opened.learn_many(copies, "ham", processes=1) == {"learned": 4, "known": 4}
    assert maintenance.check(opened.store) == []
    with Sieve.open(opened.store.path.with_name("other")) as other:
        for raw in mail[:14]:
            other.learn(raw, "ham")
        (table,), (expected,) = opened.store.count_slices(), other.store.count_slices()
        assert table == CountTable(
            expected.keys, np.pad(expected.counts, [(0, 0), (0, 1)])
        )  # no spam is left
        assert opened.store.message_features().digests == other.store.message_features().digests


def test_messages_that_were_read_for_other_tokens_are_read_again(opened: Sieve) -> None:
    mail = SAMPLE[:5]
    read = jobs.read_messages(opened.store.path_name, mail, "ham", False)
    outdated = replace(read, token_version=1, parts=read.parts[:0], bundles=[])
    with opened.store.transaction() as writer:
        transaction = Transaction(opened.store, writer, "")
        transaction.learn_read(mail, outdated, "ham")
        transaction.run((), run_inline)
    assert maintenance.check(opened.store) == []
    (table,) = opened.store.count_slices()
    assert table.keys.tolist() == count_part(read.parts[0])[0].tolist()


@pytest.mark.parametrize("is_stored", [True, False])
def test_messages_that_were_read_for_a_new_store_need_not_be_kept(
    opened: Sieve, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    """Not even those with two labels, whether or not their features are few enough to be stored."""
    mail = list(dict.fromkeys(SAMPLE[:12]))
    if not is_stored:
        monkeypatch.setattr("tamis_mail.sieve.jobs.MAX_BUNDLE_FEATURES", 0)
    as_ham, as_spam = (
        jobs.read_messages(None, part, label, False)
        for part, label in ((mail[:8], "ham"), (mail[4:], "spam"))
    )
    with opened.store.transaction() as writer:
        transaction = Transaction(opened.store, writer, "")
        transaction.learn_read(None, as_ham, "ham")
        receipts = transaction.learn_read(None, as_spam, "spam")
        transaction.run((), run_inline, has_moved=True)
    assert [receipt.action for receipt in receipts] == ["moved"] * 4 + ["learned"] * (len(mail) - 8)
    assert maintenance.check(opened.store) == []
    with Sieve.open(opened.store.path.with_name("other")) as other:
        for place, raw in enumerate(mail):
            other.learn(raw, "ham" if place < 4 else "spam")
        (table,), (expected,) = opened.store.count_slices(), other.store.count_slices()
        assert table == expected


def test_messages_that_are_not_kept_are_refused_if_the_store_has_other_tokens_meanwhile(
    opened: Sieve,
) -> None:
    opened.learn(LUNCH, "ham")
    read = jobs.read_messages(None, SAMPLE[:5], "ham", False)
    (before,) = opened.store.count_slices()
    with pytest.raises(StoreError, match="run the command again"), opened.store.transaction() as writer:
        Transaction(opened.store, writer, "").learn_read(None, replace(read, token_version=1), "ham")
    (after,) = opened.store.count_slices()
    assert after == before
    assert maintenance.check(opened.store) == []


def test_features_at_hand_are_those_that_the_store_would_give(opened: Sieve) -> None:
    mail = SAMPLE[:20]
    opened.learn_many(mail, "ham", processes=1)
    stored = opened.store.message_features()
    keys = {
        name: stored.keys[stored.indices[stored.starts[place] : stored.starts[place + 1]]]
        for place, name in enumerate(stored.digests)
    }
    for n_at_hand in (1, 7, len(keys)):
        at_hand = dict(list(keys.items())[:n_at_hand])
        with opened.store.snapshot():
            found = opened.store.read_chosen(opened.store.choose_messages(), at_hand)
        assert found.digests == stored.digests
        for field in ("starts", "indices", "keys", "labels", "weights"):
            np.testing.assert_array_equal(getattr(found, field), getattr(stored, field))
