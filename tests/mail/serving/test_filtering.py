"""Verdicts and learning for daemons: faults of a store are values, and verdicts do not wait for learning."""

import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from tamis_mail import Sieve
from tamis_mail.serving import stores as stores_module
from tamis_mail.serving.filtering import Fault, Filtering, TimedVerdict
from tamis_mail.sieve import Receipt
from tamis_mail.verdict import Verdict
from tests.surfaces.terminal import HAM, NEW_HAM, NEW_SPAM, SPAM, make_store

T = TypeVar("T")

LEARN = """
import sys
from tamis_mail import Sieve
with Sieve.open(sys.argv[1]) as sieve:
    print(sieve.learn(sys.stdin.buffer.read(), sys.argv[2]).action)
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "mail.tamis")


def run(store: Path, scenario: Callable[[Filtering], Awaitable[T]], threads: int = 1) -> T:
    """Run a scenario; the store of a user lies beside the common store."""

    async def whole() -> T:
        filtering = Filtering(
            lambda user: store.with_name(f"{user}.tamis") if user else store, threads=threads, source="test"
        )
        try:
            return await scenario(filtering)
        finally:
            await filtering.close()

    return asyncio.run(whole())


def label_of(outcome: TimedVerdict | Fault) -> str:
    assert isinstance(outcome, TimedVerdict), outcome
    return outcome.verdict.label


def probability_of(outcome: TimedVerdict | Fault) -> float:
    assert isinstance(outcome, TimedVerdict), outcome
    return outcome.verdict.probability


def action_of(outcome: Receipt | Fault) -> str:
    assert isinstance(outcome, Receipt), outcome
    return outcome.action


def sentence_of(outcome: object) -> str:
    assert isinstance(outcome, Fault), outcome
    assert "\n" not in outcome.sentence
    return outcome.sentence


def test_verdicts_are_those_of_the_store(store: Path) -> None:
    async def scenario(filtering: Filtering) -> list[str]:
        return [label_of(await filtering.judge(raw)) for raw in (NEW_SPAM, NEW_HAM)]

    assert run(store, scenario) == ["spam", "ham"]


def test_evidence_is_that_of_the_store(store: Path) -> None:
    async def scenario(filtering: Filtering) -> TimedVerdict | Fault:
        return await filtering.judge(NEW_SPAM, with_evidence=True)

    judged = run(store, scenario)
    assert isinstance(judged, TimedVerdict)
    with Sieve.open(store) as sieve:
        expected = sieve.sort(NEW_SPAM).strongest
    for one, other in zip(judged.verdict.strongest[:15], expected, strict=False):
        assert (one.token, one.view) == (other.token, other.view)
        assert one.contribution == pytest.approx(other.contribution)


def test_a_verdict_follows_what_was_learned_a_moment_ago(store: Path) -> None:
    async def scenario(filtering: Filtering) -> None:
        assert label_of(await filtering.judge(NEW_HAM)) == "ham"
        for number in range(20):
            raw = NEW_HAM.replace(b"Mary", b"Mary %d" % number)
            assert action_of(await filtering.learn(raw, "spam")) == "learned"
        assert label_of(await filtering.judge(NEW_HAM)) != "ham"

    run(store, scenario)


def test_learning_is_idempotent_and_forgetting_undoes_it(store: Path) -> None:
    async def scenario(filtering: Filtering) -> list[str]:
        return [
            action_of(await filtering.learn(NEW_SPAM, "ham")),
            action_of(await filtering.learn(NEW_SPAM, "ham")),
            action_of(await filtering.learn(NEW_SPAM, "spam")),
            action_of(await filtering.forget(NEW_SPAM)),
            action_of(await filtering.forget(NEW_SPAM)),
        ]

    assert run(store, scenario) == ["learned", "known", "moved", "forgotten", "unknown"]


def test_a_user_without_a_store_is_judged_by_the_common_store_until_something_is_learned(store: Path) -> None:
    async def scenario(filtering: Filtering) -> None:
        assert label_of(await filtering.judge(NEW_SPAM, "ann")) == "spam"
        assert filtering.find_store_user("ann") == ""
        assert action_of(await filtering.forget(NEW_SPAM, "ann")) == "unknown"
        assert not store.with_name("ann.tamis").exists()
        assert action_of(await filtering.learn(NEW_SPAM, "ham", "ann")) == "learned"
        assert filtering.find_store_user("ann") == "ann"
        assert label_of(await filtering.judge(NEW_SPAM, "ann")) != "spam"
        assert label_of(await filtering.judge(NEW_SPAM, "bob")) == "spam"

    run(store, scenario)
    assert store.with_name("ann.tamis").exists()
    assert not store.with_name("bob.tamis").exists()


def test_a_thread_keeps_only_some_stores_open(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores_module, "_MAX_STORES", 3)
    users = [f"user{number}" for number in range(6)]
    for user in users:
        shutil.copy(store, store.with_name(f"{user}.tamis"))

    async def scenario(filtering: Filtering) -> int:
        for user in users * 2:
            assert label_of(await filtering.judge(NEW_SPAM, user)) == "spam"
        return len(filtering._judge_workers[0].stores._sieves)

    assert run(store, scenario) == 3


def test_a_store_that_was_replaced_is_opened_again(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tamis"
    with Sieve.open(other) as sieve:
        sieve.learn_many(SPAM, "ham", processes=1)
        sieve.learn_many(HAM, "spam", processes=1)

    async def scenario(filtering: Filtering) -> tuple[str, str]:
        before = label_of(await filtering.judge(NEW_SPAM))
        other.replace(store)
        return before, label_of(await filtering.judge(NEW_SPAM))

    assert run(store, scenario) == ("spam", "ham")


def test_after_reopening_verdicts_go_on(store: Path) -> None:
    async def scenario(filtering: Filtering) -> None:
        assert label_of(await filtering.judge(NEW_SPAM)) == "spam"
        filtering.reopen()
        assert label_of(await filtering.judge(NEW_SPAM)) == "spam"

    run(store, scenario)


def test_verdicts_are_in_the_log_of_the_store_after_closing(store: Path) -> None:
    async def scenario(filtering: Filtering) -> None:
        for _ in range(3):
            await filtering.judge(NEW_SPAM)

    run(store, scenario)
    with closing(sqlite3.connect(next(store.parent.glob("*log*")))) as log:
        assert log.execute("SELECT count(*) FROM event WHERE source = 'test'").fetchone() == (3,)


# The fault table of docs/howto/mail-spamd.md.


def test_a_missing_store_makes_mail_unsure_and_learning_creates_it(tmp_path: Path) -> None:
    async def scenario(filtering: Filtering) -> None:
        assert label_of(await filtering.judge(NEW_SPAM)) == "unsure"
        assert action_of(await filtering.learn(NEW_SPAM, "spam")) == "learned"

    run(tmp_path / "new" / "mail.tamis", scenario)


def test_while_the_store_is_locked_mail_is_judged_and_learning_is_a_fault(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tamis_mail.store.database", "tamis_mail.store.store"):
        monkeypatch.setattr(f"{name}.BUSY_SECONDS", 0.2)

    async def scenario(filtering: Filtering) -> None:
        with closing(sqlite3.connect(store, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            learning = asyncio.create_task(filtering.learn(NEW_HAM, "spam"))
            assert label_of(await filtering.judge(NEW_SPAM)) == "spam"
            assert "another process that is writing" in sentence_of(await learning)
            writer.execute("ROLLBACK")
        assert action_of(await filtering.learn(NEW_HAM, "spam")) == "learned"

    run(store, scenario)


def test_with_a_readonly_store_mail_is_judged_and_learning_is_a_fault(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what `access` answers, because root may write anywhere."""
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)

    async def scenario(filtering: Filtering) -> None:
        assert label_of(await filtering.judge(NEW_SPAM)) == "spam"
        assert "cannot be written" in sentence_of(await filtering.learn(NEW_HAM, "ham"))

    run(store, scenario)


def test_a_daemon_that_may_not_write_the_store_sees_what_others_learn(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)

    def learn_elsewhere(raw: bytes, label: str) -> None:
        words = [sys.executable, "-c", LEARN, str(store), label]
        assert subprocess.run(words, input=raw, stdout=subprocess.PIPE, check=True).stdout == b"learned\n"

    async def scenario(filtering: Filtering) -> None:
        for raw in (NEW_SPAM, NEW_HAM, NEW_SPAM + b"again"):
            learn_elsewhere(raw, "ham")
            judged = await filtering.judge(NEW_SPAM)
            with Sieve.open(store, readonly=True) as sieve:
                assert probability_of(judged) == pytest.approx(sieve.sort(NEW_SPAM).probability, rel=1e-12)

    run(store, scenario)


def test_on_a_full_disk_mail_is_judged_and_learning_is_a_fault(store: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def scenario(filtering: Filtering) -> None:
        assert label_of(await filtering.judge(NEW_SPAM)) == "spam"
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        try:
            learned = await filtering.learn(NEW_HAM, "ham")
            judged = await filtering.judge(NEW_SPAM)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "disk" in sentence_of(learned)
        assert label_of(judged) == "spam"
        assert action_of(await filtering.learn(NEW_HAM, "ham")) == "learned"

    run(store, scenario)


def test_a_corrupt_store_is_a_fault_until_it_is_restored(store: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    shutil.copy(store, backup)
    data = store.read_bytes()

    async def scenario(filtering: Filtering) -> None:
        store.write_bytes(b"no store at all" * 1000)
        assert "is not a tamis store" in sentence_of(await filtering.judge(NEW_SPAM))
        assert sentence_of(await filtering.learn(NEW_SPAM, "spam"))
        store.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
        assert sentence_of(await filtering.judge(NEW_SPAM))
        backup.replace(store)
        assert label_of(await filtering.judge(NEW_SPAM)) == "spam"

    run(store, scenario)


def test_a_store_of_a_newer_version_is_a_fault(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(migration)")]
        values = {name: "9999-later" if name == "name" else 0 for name in columns}
        connection.execute(
            f"INSERT INTO migration ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
            list(values.values()),
        )

    async def scenario(filtering: Filtering) -> None:
        assert "was written by a newer tamis" in sentence_of(await filtering.judge(NEW_SPAM))
        assert "was written by a newer tamis" in sentence_of(await filtering.learn(NEW_SPAM, "spam"))

    run(store, scenario)


def test_an_unexpected_error_is_a_fault_that_does_not_quote_the_message(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sort_batch = Sieve.sort_batch

    def fail(self: Sieve, messages: Sequence[bytes], *, with_strongest: bool) -> list[Verdict]:
        if NEW_HAM in messages:
            raise ValueError(NEW_HAM.decode())
        return sort_batch(self, messages, with_strongest=with_strongest)

    monkeypatch.setattr(Sieve, "sort_batch", fail)

    async def scenario(filtering: Filtering) -> None:
        mail = (NEW_SPAM, NEW_HAM, NEW_SPAM, NEW_SPAM)
        outcomes = await asyncio.gather(*(filtering.judge(raw) for raw in mail))
        assert sentence_of(outcomes[1]) == "unexpected ValueError"
        assert [label_of(outcomes[number]) for number in (0, 2, 3)] == ["spam"] * 3

    run(store, scenario)


def test_messages_that_come_together_get_the_verdicts_that_they_get_alone(store: Path) -> None:
    shutil.copy(store, store.with_name("ann.tamis"))
    mail = [(raw, user) for raw in (*SPAM, NEW_SPAM, *HAM, NEW_HAM) for user in ("", "ann", "bob")]

    async def scenario(filtering: Filtering) -> list[TimedVerdict | Fault]:
        return await asyncio.gather(*(filtering.judge(raw, user) for raw, user in mail))

    outcomes = run(store, scenario, threads=2)
    with Sieve.open(store) as sieve:
        for (raw, _), outcome in zip(mail, outcomes, strict=True):
            assert isinstance(outcome, TimedVerdict)
            alone = sieve.sort(raw)
            assert outcome.verdict.label == alone.label
            assert outcome.verdict.probability == pytest.approx(alone.probability, rel=1e-9)


def test_who_still_waits_when_the_daemon_stops_gets_a_fault(store: Path) -> None:
    async def whole() -> list[TimedVerdict | Fault]:
        filtering = Filtering(lambda user: store, threads=1)
        waiting = [asyncio.create_task(filtering.judge(NEW_SPAM)) for _ in range(100)]
        await asyncio.sleep(0)
        await filtering.close()
        return [*await asyncio.gather(*waiting), await filtering.judge(NEW_SPAM)]

    outcomes = asyncio.run(whole())
    assert len(outcomes) == 101
    assert sentence_of(outcomes[-1]) == "the daemon is stopping"
