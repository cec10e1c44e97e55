"""The first bulk learning of a new store, without a write-ahead log: kills, failures, other processes."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tamis_mail import Sieve, sample
from tamis_mail.labels import HAM, SPAM
from tamis_mail.message import canonical, digest
from tamis_mail.sieve import LabelledMail
from tamis_mail.store import Store, StoreError
from tamis_mail.store.log import EventLog
from tamis_mail.store.maintenance import check
from tests.mail.store.memory import learn, remembered

KILLS = 12
CHILD = """
import sys, time
from tamis_mail import Sieve, sample
from tamis_mail.sieve import LabelledMail
from tamis_mail.store import database
database._NEW_CACHE_KILOBYTES = 64  # SQLite writes to the file long before the commit, as for more mail
messages = list(sample.messages())
mail = [LabelledMail([one.raw for one in messages if one.label == label], label) for label in ("spam", "ham")]
print(time.monotonic(), flush=True)
with Sieve.open(sys.argv[1], bulk=True) as sieve:
    list(sieve.learn_sources(mail))
    print(time.monotonic(), flush=True)
"""
OTHER = """
import sys
from tamis_mail.store import Store
with Store(sys.argv[1], readonly=sys.argv[2] == "readonly") as store:
    print(len(list(store.entries())))
"""


def _journal_mode(store: Store) -> str:
    (mode,) = store.connection.execute("PRAGMA journal_mode").fetchone()
    return str(mode)


def _sources() -> list[LabelledMail]:
    messages = list(sample.messages())
    return [LabelledMail([one.raw for one in messages if one.label == label], label) for label in (SPAM, HAM)]


def test_a_new_store_has_a_write_ahead_log_after_its_first_learning(tmp_path: Path) -> None:
    with Sieve.open(tmp_path / "new", bulk=True) as sieve:
        assert _journal_mode(sieve.store) == "delete"
        assert sum(counts.total() for counts in sieve.learn_sources(_sources())) > 300
        assert _journal_mode(sieve.store) == "wal"
        assert not sieve.store.is_new
        assert check(sieve.store) == []
        counts = remembered(sieve.store)
    with Sieve.open(tmp_path / "old") as sieve:
        assert _journal_mode(sieve.store) == "wal"
        list(sieve.learn_sources(_sources()))
        assert remembered(sieve.store) == counts
    logs = [EventLog.of(tmp_path / name) for name in ("new", "old")]
    first, second = ([(event.digest, event.label) for event in log.find_range(1, 10**6)] for log in logs)
    assert first == second != []


def test_a_store_that_exists_keeps_its_write_ahead_log(tmp_path: Path) -> None:
    Store(tmp_path / "store").close()
    with Store(tmp_path / "store", bulk=True) as store:
        assert _journal_mode(store) == "wal"
        assert not store.is_new


def test_a_first_learning_that_fails_leaves_an_empty_store_and_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise StoreError("the disk is full")

    with Sieve.open(tmp_path / "store", bulk=True) as sieve:
        with monkeypatch.context() as patch:
            patch.setattr("tamis_mail.store.database.Connection.commit_writing", fail)
            with pytest.raises(StoreError, match="disk is full"):
                list(sieve.learn_sources(_sources()))
        assert sieve.log_fault is None
        assert list(sieve.store.entries()) == []
        log = EventLog.of(tmp_path / "store")
        assert not log.exists() or list(log.find_range(1, 10**6)) == []
        list(sieve.learn_sources(_sources()))
        assert _journal_mode(sieve.store) == "wal"
        assert check(sieve.store) == []


@pytest.mark.parametrize("how", ["readonly", "writable"])
def test_other_processes_can_open_a_store_while_it_learns_first(tmp_path: Path, how: str) -> None:
    path = tmp_path / "store"

    def open_elsewhere() -> str:
        arguments = [sys.executable, "-c", OTHER, str(path), how]
        return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip()

    with Store(path, bulk=True) as store:
        with store.transaction() as writer:
            writer.write_setting("log", "off")
            assert open_elsewhere() == "0"
        store.checkpoint()
        learn(store, [1, 2])
        assert _journal_mode(store) == "wal"
        assert open_elsewhere() == "2"
        assert check(store) == []


def test_a_store_that_is_synced_before_its_commit_stays_locked(tmp_path: Path) -> None:
    code = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""

    def lock_elsewhere() -> str:
        arguments = [sys.executable, "-c", code, str(tmp_path / "store")]
        return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip()

    with Store(tmp_path / "store", bulk=True) as store:
        assert lock_elsewhere() == ""
        with store.transaction() as writer:
            writer.write_setting("log", "off")
            for _ in range(2):
                store.sync_early()
                assert lock_elsewhere() == "database is locked"
        store.checkpoint()
        store.sync_early()
        assert check(store) == []
    assert lock_elsewhere() == ""


def test_another_process_may_learn_first(tmp_path: Path) -> None:
    path = tmp_path / "store"
    sources = _sources()
    first = next(iter(sources[0].messages))
    code = """
import sys
from tamis_mail import Sieve
Sieve.open(sys.argv[1]).learn(sys.stdin.buffer.read(), "ham")
"""
    with Sieve.open(path, bulk=True) as sieve:
        subprocess.run([sys.executable, "-c", code, str(path)], input=first, check=True)
        counts = list(sieve.learn_sources(sources))
        assert counts[0]["moved"] == 1
        entry = sieve.store.find_entry(digest(canonical(first)))
        assert entry is not None
        assert entry.label == SPAM
        assert check(sieve.store) == []


def test_a_first_learning_that_is_killed_leaves_all_or_nothing(tmp_path: Path) -> None:
    dice = random.Random(14)
    all_messages = {digest(canonical(raw)) for one in _sources() for raw in one.messages}
    seconds = 0.0  # that learning takes
    for kill in range(KILLS + 1):
        path = tmp_path / f"store{kill}"
        arguments = [sys.executable, "-c", CHILD, str(path)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
            assert child.stdout is not None
            start = float(child.stdout.readline())
            if kill:
                time.sleep(seconds * dice.uniform(0.3, 1.1))
                child.send_signal(signal.SIGKILL)
            line = child.stdout.read()
            if not kill:
                seconds = float(line) - start
        if not path.exists():
            continue
        with Store(path) as store:
            assert check(store) == []
            known = {entry.digest for entry in store.entries()}
            assert known == all_messages or not (known or line)
            assert _journal_mode(store) == "wal"
