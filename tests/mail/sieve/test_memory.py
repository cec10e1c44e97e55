"""The store is the sum of what is remembered, bit for bit, whatever happened in between."""

import io
import math
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tamis_mail import Sieve
from tamis_mail.labels import GUESS_UNITS, GUESSED_LABELS
from tamis_mail.message import canonical, digest
from tamis_mail.sample import messages
from tamis_mail.sieve.executor import run_inline
from tamis_mail.sieve.jobs import extract_features
from tamis_mail.sieve.transaction import Transaction
from tamis_mail.store import exchange, maintenance, people
from tamis_mail.store.store import Store
from tamis_mail.store.tables import CountTable
from tamis_mail.tokens import VERSION
from tamis_mail.verdict import RULE

SAMPLE = [one.raw for one in messages()]
SMALL = [f"Subject: note {n}\n\n{'word ' * (n % 7)} number {n % 11} of {n}\n".encode() for n in range(30)]
# Sent messages with their senders and their recipients.
SENT: list[tuple[bytes, list[str], list[str]]] = [
    (b"From: me@home.example\nTo: Ann <ann@example.org>\n\none", ["me@home.example"], ["ann@example.org"]),
    (
        b"From: Me <ME@home.example>\nTo: ann@example.org, bob@example.net\nCc: me@home.example\n\ntwo",
        ["me@home.example"],
        ["ann@example.org", "bob@example.net", "me@home.example"],
    ),
    (
        b"From: me@work.example\nTo: Bob <bob@example.net>, BOB@example.net\n\nthree",
        ["me@work.example"],
        ["bob@example.net"],
    ),
    (b"From: me@home.example\nBcc: carl@example.com\n\nfour", ["me@home.example"], ["carl@example.com"]),
    (b"To: carl@example.com\n\nfive", [], ["carl@example.com"]),
    (b"From: me@home.example\nTo: undisclosed-recipients:;\n\nsix", [], []),  # ignored
]
MAIL = (
    random.Random(5).sample(SAMPLE, 30)
    + SMALL
    + [b"", b"\0\xff", b"no headers at all", b"\r\n\r\nbody\r\n"]
    + [raw for raw, _, _ in SENT]
)
BAGS = {
    digest(canonical(raw)): keys
    for raw, keys in zip(MAIL, extract_features([canonical(raw) for raw in MAIL], VERSION), strict=True)
}
FROM_PEOPLE = [
    f"From: {name}\n\nhello".encode()
    for name in ("ann@example.org", "bob@example.net", "carl@example.com", "me@home.example")
]
PROBES = SAMPLE[:3] + SMALL[:2]
NUMBERS = st.integers(0, len(MAIL) - 1)
LABELS = st.sampled_from(["spam", "ham", "work"])
SENT_NUMBERS = st.integers(0, len(SENT) - 1)
ENTRIES = st.sampled_from(["ann@example.org", "@example.org", "bob@example.net", "@xn--mnchen-3ya.example"])


class KilledError(Exception):
    """Stands for a kill: nothing after it is done."""


def everything(store: Store) -> dict[int, tuple[int, ...]]:
    """All counts, by key."""
    return {
        int(k): tuple(row)
        for t in store.count_slices()
        for k, row in zip(t.keys, t.counts.tolist(), strict=True)
    }


class Memory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.places = 0
        self.path = self.make_place()
        self.sieve = Sieve.open(self.path)
        self.remembered: dict[bytes, list[tuple[str, int]]] = {}  # digest: (label, weight) of each column
        self.unit = 1
        self.listed: dict[str, bool] = {}
        self.sent: set[int] = set()  # numbers of sent messages

    def make_place(self) -> str:
        """Return the path or the address of a new store."""
        self.places += 1
        return str(Path(self.folder.name) / f"mail{self.places}.tamis")

    def teardown(self) -> None:
        self.sieve.close()
        self.folder.cleanup()

    @rule(number=NUMBERS, label=LABELS)
    def learn(self, number: int, label: str) -> None:
        name = digest(canonical(MAIL[number]))
        before = self.remembered.get(name)
        known = before is not None and before[0][0] == label
        expected = "known" if known else "learned" if before is None else "moved"
        assert self.sieve.learn(MAIL[number], label).action == expected
        if not known:
            self.remembered[name] = [(label, self.unit)]

    @rule(numbers=st.lists(NUMBERS, max_size=8), label=LABELS)
    def learn_many(self, numbers: list[int], label: str) -> None:
        self.sieve.learn_many([MAIL[number] for number in numbers], label, processes=1)
        for name in (digest(canonical(MAIL[number])) for number in numbers):
            if self.remembered.get(name, [("", 0)])[0][0] != label:
                self.remembered[name] = [(label, self.unit)]

    @rule(number=NUMBERS)
    def forget(self, number: int) -> None:
        name = digest(canonical(MAIL[number]))
        sent = {n for n in self.sent if SENT[n][0] == MAIL[number]}
        expected = "forgotten" if name in self.remembered or sent else "unknown"
        assert self.sieve.forget(MAIL[number]).action == expected
        self.remembered.pop(name, None)
        self.sent -= sent

    @rule(entries=st.lists(ENTRIES, max_size=3), is_allowed=st.booleans())
    def list_senders(self, entries: list[str], is_allowed: bool) -> None:
        before = people.add_entries(self.sieve.store, entries, is_allowed=is_allowed)
        assert before == {entry: self.listed.get(entry) for entry in entries}
        self.listed.update(dict.fromkeys(entries, is_allowed))

    @rule(entries=st.lists(ENTRIES, max_size=2), is_allowed=st.booleans())
    def remove_senders(self, entries: list[str], is_allowed: bool) -> None:
        before = people.remove_entries(self.sieve.store, entries, is_allowed=is_allowed)
        assert before == {entry: self.listed.get(entry) for entry in entries}
        for entry in entries:
            if self.listed.get(entry) == is_allowed:
                del self.listed[entry]

    @rule(numbers=st.lists(SENT_NUMBERS, max_size=4))
    def learn_sent(self, numbers: list[int]) -> None:
        expected: Counter[str] = Counter()
        for number in numbers:
            is_ignored = not SENT[number][2]
            expected["ignored" if is_ignored else "known" if number in self.sent else "learned"] += 1
            self.sent |= set() if is_ignored else {number}
        assert self.sieve.learn_sent(SENT[number][0] for number in numbers) == expected

    @rule(number=SENT_NUMBERS)
    def learn_sent_and_forget_leaves_verdicts(self, number: int) -> None:
        if number in self.sent or digest(canonical(SENT[number][0])) in self.remembered:
            return
        before = [self.sieve.sort(raw).judgement for raw in FROM_PEOPLE]
        self.sieve.learn_sent([SENT[number][0]])
        self.sieve.forget(SENT[number][0])
        assert [self.sieve.sort(raw).judgement for raw in FROM_PEOPLE] == before

    @rule(number=SENT_NUMBERS, entry=ENTRIES)
    def crash_among_people(self, number: int, entry: str) -> None:
        with suppress(KilledError), self.sieve.store.transaction() as writer:
            transaction = Transaction(self.sieve.store, writer, "")
            transaction.learn_sent(SENT[number][0])
            transaction.forget(SENT[number - 1][0])
            self.sieve.store.connection.execute("INSERT OR REPLACE INTO listed VALUES (?, 1)", (entry,))
            raise KilledError

    @rule()
    def export_and_import(self) -> None:
        text = io.BytesIO()
        exchange.export(self.sieve.store, text)
        self.sieve.close()
        self.path = self.make_place()
        self.sieve = Sieve.open(self.path)
        exchange.load(self.sieve.store, io.BytesIO(text.getvalue()))
        again = io.BytesIO()
        exchange.export(self.sieve.store, again)
        assert again.getvalue() == text.getvalue()

    @rule(number=NUMBERS, label=LABELS)
    def learn_and_forget_leaves_verdicts(self, number: int, label: str) -> None:
        name = digest(canonical(MAIL[number]))
        if name in self.remembered or any(SENT[sent][0] == MAIL[number] for sent in self.sent):
            return  # forgetting would also forget what was known before
        before = [self.sieve.sort(raw).judgement for raw in PROBES]
        self.sieve.learn(MAIL[number], label)
        self.sieve.forget(MAIL[number])
        after = [self.sieve.sort(raw).judgement for raw in PROBES]
        assert [one.log_odds for one in before] == [one.log_odds for one in after]
        assert [one.probability for one in before] == [one.probability for one in after]

    @precondition(
        lambda self: {"spam", "ham"} <= {label for row in self.remembered.values() for label, _ in row}
    )
    @rule(numbers=st.lists(NUMBERS, min_size=10, max_size=30))  # of fewer than ten, none is guessed
    def learn_unlabelled(self, numbers: list[int]) -> None:
        self.sieve.learn_unlabelled([MAIL[number] for number in numbers], processes=1)
        for name in (digest(canonical(MAIL[number])) for number in numbers):
            if name not in self.remembered:
                entry = self.sieve.store.find_entry(name)
                if entry is None:  # nothing sure could be said of it
                    continue
                assert entry.label in GUESSED_LABELS
                assert entry.weight + entry.other_weight == GUESS_UNITS * self.unit
                assert entry.weight >= entry.other_weight
                self.remembered[name] = entry.label_weights

    @rule(number=NUMBERS, share=st.integers(0, GUESS_UNITS))
    def guess(self, number: int, share: int) -> None:
        plain = canonical(MAIL[number])
        if digest(plain) in self.remembered:
            return
        with self.sieve.store.transaction() as writer:
            transaction = Transaction(self.sieve.store, writer, "")
            transaction.guess(plain, share)
            transaction.run((), run_inline)
        parts = [("spam?", share * self.unit), ("ham?", (GUESS_UNITS - share) * self.unit)]
        likelier_first = sorted(parts, key=lambda part: -part[1])
        self.remembered[digest(plain)] = [part for part in likelier_first if part[1]]

    @rule(number=NUMBERS, label=LABELS, after=st.integers(0, 3))
    def crash(self, number: int, label: str, after: int) -> None:
        steps = iter(range(after))

        def guarded(step: Callable[..., object]) -> Callable[..., object]:
            def run(*given: object) -> object:
                if next(steps, None) is None:
                    raise KilledError
                return step(*given)

            return run

        try:
            with self.sieve.store.transaction() as writer:
                name = digest(canonical(MAIL[number]))
                guarded(writer.remove)(name)
                guarded(writer.ensure_column)(label + "-new")
                guarded(writer.add)(CountTable(np.array([7], np.uint64), np.array([[1]])))
                raise KilledError
        except KilledError:
            pass

    @rule()
    def reopen(self) -> None:
        self.sieve.close()
        self.sieve = Sieve.open(self.path)

    @rule()
    def compact(self) -> None:
        maintenance.compact(self.sieve.store)

    @precondition(lambda self: self.unit < 8)
    @rule()
    def decay(self) -> None:
        maintenance.decay(self.sieve.store)
        self.unit *= 2

    @rule(
        numbers=st.lists(NUMBERS, max_size=5, unique=True),
        label=LABELS,
        decays=st.integers(0, 2),
        sent=st.sets(SENT_NUMBERS, max_size=3),
        listed=st.dictionaries(ENTRIES, st.booleans(), max_size=3),
    )
    def merge(
        self, numbers: list[int], label: str, decays: int, sent: set[int], listed: dict[str, bool]
    ) -> None:
        """Merge a store, and again: messages of both count once, under the label that was learned later."""
        with tempfile.TemporaryDirectory() as folder, Sieve.open(Path(folder) / "other.tamis") as other:
            other.learn_many([MAIL[number] for number in numbers], label, processes=1)
            for _ in range(decays):
                maintenance.decay(other.store)
            other.store.connection.execute("UPDATE journal SET time = ?", (self.latest() + 1,))
            other.learn_sent(SENT[number][0] for number in sent)
            for entry, is_allowed in listed.items():
                people.add_entries(other.store, [entry], is_allowed=is_allowed)
            contradictions = people.find_contradictions(self.sieve.store, other.store)
            for _ in range(2):
                maintenance.merge(self.sieve.store, other.store)
        assert dict(contradictions) == {
            entry: self.listed[entry]
            for entry, is_allowed in listed.items()
            if self.listed.get(entry, is_allowed) != is_allowed
        }
        self.listed = listed | self.listed
        self.sent |= {number for number in sent if SENT[number][2]}
        unit = max(self.unit, 1 << decays)
        for name, row in self.remembered.items():
            self.remembered[name] = [(label, weight * unit // self.unit) for label, weight in row]
        for number in numbers:
            self.remembered[digest(canonical(MAIL[number]))] = [(label, unit >> decays)]
        self.unit = unit

    def latest(self) -> int:
        return max((entry.time for entry in self.sieve.store.entries()), default=0)

    @rule(number=NUMBERS, label=LABELS)
    def relabel_by_digest(self, number: int, label: str) -> None:
        name = digest(canonical(MAIL[number]))
        before = self.remembered.get(name)
        known = before is not None and before[0][0] == label
        expected = "unknown" if before is None else "known" if known else "moved"
        assert self.sieve.relabel_digest(name, label).action == expected
        if expected == "moved":
            self.remembered[name] = [(label, self.unit)]

    @rule(number=NUMBERS)
    def forget_by_digest(self, number: int) -> None:
        name = digest(canonical(MAIL[number]))
        expected = "forgotten" if name in self.remembered else "unknown"
        assert self.sieve.forget_digest(name).action == expected
        self.remembered.pop(name, None)

    @invariant()
    def stored_features_are_those_of_what_is_remembered(self) -> None:
        found = self.sieve.store.message_features(guessed=True)
        assert found.digests == sorted(self.remembered)
        for place, name in enumerate(found.digests):
            keys = found.keys[found.indices[found.starts[place] : found.starts[place + 1]]]
            assert np.array_equal(keys, BAGS[name])

    @invariant()
    def counts_are_the_sum_of_what_is_remembered(self) -> None:
        columns = {label.name: label for label in self.sieve.store.labels()}
        expected: dict[int, list[int]] = {}
        weights = dict.fromkeys(columns, 0)
        for name, row in self.remembered.items():
            for label, weight in row:
                weights[label] += weight
                for key in BAGS[name].tolist():
                    expected.setdefault(key, [0] * len(columns))[columns[label].id] += weight
        assert everything(self.sieve.store) == {key: tuple(row) for key, row in expected.items()}
        assert {name: label.weight for name, label in columns.items()} == weights
        assert {entry.digest for entry in self.sieve.store.entries()} == set(self.remembered)

    @invariant()
    def people_are_those_of_the_lists_and_of_sent_mail(self) -> None:
        received = Counter(address for number in self.sent for address in SENT[number][2])
        wrote = Counter(address for number in self.sent for address in SENT[number][1])
        rows = self.sieve.store.connection.execute("SELECT * FROM correspondent ORDER BY address").fetchall()
        assert rows == [(name, received[name], wrote[name]) for name in sorted(received | wrote)]
        for is_allowed in (True, False):
            found = people.list_entries(self.sieve.store, is_allowed=is_allowed)
            assert set(found) == {entry for entry, value in self.listed.items() if value == is_allowed}

    @invariant()
    def verdicts_follow_the_lists(self) -> None:
        for raw, verdict in zip(FROM_PEOPLE, self.sieve.sort_many(FROM_PEOPLE, processes=1), strict=True):
            alone = self.sieve.sort(raw)
            assert (alone.label, alone.listed, alone.remark) == (
                verdict.label,
                verdict.listed,
                verdict.remark,
            )
            assert math.isclose(alone.log_odds, verdict.log_odds, abs_tol=1e-9)
            assert math.isclose(
                math.fsum(one.contribution for one in alone.evidence), alone.log_odds, abs_tol=1e-9
            )
            address = canonical(raw).split()[1].decode()
            decision = self.listed.get(address, self.listed.get(f"@{address.rpartition('@')[2]}"))
            expected = {True: "allowed", False: "blocked", None: None}[decision]
            assert (alone.listed or ":").partition(":")[0] == (expected or "")
            assert (alone.label == "spam") == (
                expected == "blocked" or (expected is None and alone.probability >= RULE.spam)
            )

    @invariant()
    def check_is_clean(self) -> None:
        assert maintenance.check(self.sieve.store) == []


Memory.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestMemory = Memory.TestCase


def test_a_batch_is_judged_by_all_that_the_same_sieve_has_learned(tmp_path: Path) -> None:
    """Merging runs gives numbers of runs again, so that counts must not be kept after a lesson."""
    with Sieve.open(tmp_path / "a") as sieve:
        for number, raw in enumerate(SMALL[:12]):
            sieve.learn(raw, "spam" if number % 2 else "ham")
            (batch,) = sieve.sort_batch([raw])
            assert math.isclose(batch.log_odds, sieve.sort(raw).log_odds, abs_tol=1e-9)


def test_order_and_detours_leave_no_trace(tmp_path: Path) -> None:
    """The same mail in another order, with mistakes taken back, gives the same verdicts to the bit."""
    half = len(SAMPLE) // 10
    with Sieve.open(tmp_path / "a") as one, Sieve.open(tmp_path / "b") as other:
        one.learn_many(SAMPLE[:half], "ham")
        one.learn_many(SAMPLE[half : 2 * half], "spam")
        other.learn_many(SAMPLE[half : 3 * half], "ham")
        other.learn_many(SAMPLE[half : 2 * half], "spam")
        other.forget_many(SAMPLE[2 * half : 3 * half])
        for raw in reversed(SAMPLE[:half]):
            other.learn(raw, "ham")
        one.fit_weights()
        other.fit_weights()
        for raw in SAMPLE[-10:]:
            assert one.sort(raw).log_odds == other.sort(raw).log_odds


def test_after_forgetting_the_weights_are_those_of_a_store_that_never_had_the_message(tmp_path: Path) -> None:
    """Whatever was learned before, a removal fits the weights to the messages that remain, to the bit."""
    half = len(SAMPLE) // 10
    forgotten = SAMPLE[2 * half : 2 * half + 7]
    with Sieve.open(tmp_path / "a") as one, Sieve.open(tmp_path / "b") as other:
        one.learn_many([*SAMPLE[:half], *forgotten], "ham")
        one.learn_many(SAMPLE[half : 2 * half], "spam")
        before = one.store.setting("weights")
        one.forget_many(forgotten)
        other.learn_many(SAMPLE[half : 2 * half], "spam")
        other.learn_many(SAMPLE[:half], "ham")
        other.fit_weights()
        assert one.store.setting("weights") == other.store.setting("weights") != before
        for raw in SAMPLE[-10:]:
            first, second = one.sort(raw), other.sort(raw)
            assert first.log_odds == second.log_odds
            assert first.evidence == second.evidence
