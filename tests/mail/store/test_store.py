"""Learning, moving and forgetting by transactions, and several processes at once."""

import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tamis_mail.store import Store, StoreError, database, maintenance
from tests.mail.store.memory import bag, careless, digest, expected, features, forget, learn, remembered


def test_what_was_forgotten_never_was(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(store, range(20), "spam")
        learn(store, range(20, 30), "ham")
        forget(store, range(10, 25))
        messages = {number: "spam" if number < 20 else "ham" for number in [*range(10), *range(25, 30)]}
        assert remembered(store) == expected(messages)
        assert maintenance.check(store) == []
        assert [label.messages for label in store.labels()] == [10, 5]
        forget(store, messages)
        assert remembered(store) == {}
        assert list(store.entries()) == []
        assert all(label.features == label.weight == 0 for label in store.labels())


def test_a_guess_counts_under_both_labels(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(store, [1, 2], "spam?", rest=15)
        learn(store, [3], "ham?", rest=4)
        weights = {label.name: (label.messages, label.weight) for label in store.labels()}
        assert weights == {"spam?": (2, 2 + 4), "ham?": (1, 1 + 30)}
        assert maintenance.check(store) == []
        forget(store, [1, 2, 3])
        assert remembered(store) == {}
        assert maintenance.check(store) == []


def test_an_error_inside_a_transaction_undoes_all_of_it(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(store, [1])
        before = remembered(store)

        def fail() -> None:
            with store.transaction() as writer:
                writer.ensure_column("other")
                writer.add(bag(features(2), 1, 2))
                writer.remove(digest(1))
                raise RuntimeError("on the way")

        with pytest.raises(RuntimeError, match="on the way"):
            fail()
        assert remembered(store) == before
        assert [label.name for label in store.labels()] == ["spam"]
        assert store.find_entry(digest(1)) is not None


def test_a_reader_sees_the_store_as_it_was_when_it_began(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as writer, Store(tmp_path / "store", readonly=True) as reader:
        learn(writer, range(5))
        with reader.snapshot():
            learn(writer, range(5, 50))  # before the reader has read anything
            assert remembered(reader) == expected(dict.fromkeys(range(5), "spam"))
            maintenance.compact(writer)
            assert remembered(reader) == expected(dict.fromkeys(range(5), "spam"))
        assert remembered(reader) == expected(dict.fromkeys(range(50), "spam"))


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    def work(label: str, first: int) -> None:
        with Store(tmp_path / "store") as store:
            for number in range(first, first + 10):
                learn(store, [number], label)

    Store(tmp_path / "store").close()
    threads = [
        threading.Thread(target=work, args=(label, first))
        for label, first in (("spam", 0), ("ham", 10), ("x", 20))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Store(tmp_path / "store") as store:
        messages = {number: ("spam", "ham", "x")[number // 10] for number in range(30)}
        assert remembered(store) == expected(messages)
        assert maintenance.check(store) == []


def test_a_writer_that_waits_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    statements: list[str] = []
    with Store(tmp_path / "store") as one, Store(tmp_path / "store") as other, one.transaction():
        other._connection.set_trace_callback(statements.append)
        with pytest.raises(StoreError, match="seconds for another process that is writing"):
            learn(other, [1])
        other._connection.set_trace_callback(None)
        assert statements == ["BEGIN IMMEDIATE"]  # one attempt, which SQLite makes for as long as it is told:
        assert other._connection.execute("PRAGMA busy_timeout").fetchone() == (50,)


def test_shrinking_waits_for_the_transaction_of_another_thread(tmp_path: Path) -> None:
    has_written, has_shrunk = threading.Event(), threading.Event()

    def fail() -> None:
        with suppress(ZeroDivisionError), store.transaction() as writer:
            writer.write_setting("log", "off")
            has_written.set()
            has_shrunk.wait(0.3)
            raise ZeroDivisionError

    with Store(tmp_path / "store") as store:
        thread = threading.Thread(target=fail)
        thread.start()
        has_written.wait()
        store.shrink()
        has_shrunk.set()
        thread.join()
        assert store.setting("log") is None


def test_names_of_sources_that_are_no_text_are_kept_readable(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(store, [1], source="folder/\udcff")
        assert [entry.source for entry in store.entries()] == ["folder/\\udcff"]


class Memory(RuleBasedStateMachine):
    """Learn, learn otherwise, forget, decay, compact and open again, against a dictionary."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store"
        self.store = careless(Store(self.path))
        self.known: dict[int, tuple[str, int]] = {}

    @rule(number=st.integers(0, 12), label=st.sampled_from(["spam", "ham", "news"]))
    def learn(self, number: int, label: str) -> None:
        if number in self.known:
            forget(self.store, [number])
        learn(self.store, [number], label)
        self.known[number] = label, self.store.message_weight()

    @rule(number=st.integers(0, 12))
    def forget(self, number: int) -> None:
        if self.known.pop(number, None):
            forget(self.store, [number])

    @rule()
    def decay(self) -> None:
        if self.store.message_weight() < 1 << 20:
            maintenance.decay(self.store)

    @rule()
    def compact(self) -> None:
        maintenance.compact(self.store)

    @rule()
    def open_again(self) -> None:
        self.store.close()
        self.store = careless(Store(self.path))

    @invariant()
    def counts_are_those_of_the_journal(self) -> None:
        if not hasattr(self, "store"):
            return
        right: dict[tuple[str, int], int] = {}
        for number, (label, weight) in self.known.items():
            for key, count in expected({number: label}, weight)[label].items():
                right[label, key] = right.get((label, key), 0) + count
        found = {
            (label, key): count
            for label, counts in remembered(self.store).items()
            for key, count in counts.items()
        }
        assert found == right
        assert maintenance.check(self.store) == []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


TestMemory = Memory.TestCase
TestMemory.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)
