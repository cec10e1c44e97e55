"""The fault table of docs/howto/mail-maildir.md: whatever is wrong, nothing is lost."""

import io
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tamis_mail import Sieve
from tamis_mail.mailbox.maildir import MaildirTarget
from tamis_mail.message import canonical, digest
from tamis_mail.serving.logs import Log
from tamis_mail.surfaces.maildir.mailbox import MaildirMailbox
from tamis_mail.watching.classifier import StoreClassifier
from tamis_mail.watching.memory import Memory
from tamis_mail.watching.watcher import Watcher
from tests.surfaces.maildir.maildirs import list_files, make_maildir
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, make_store

INBOX_SPAM, JUNK_SPAM = {"new/1.host": NEW_SPAM}, {".Junk/new/1.host": NEW_SPAM}


class Bench:
    """A Maildir, a store, and a watcher of them."""

    def __init__(self, folder: Path) -> None:
        self.maildir = make_maildir(folder / "Maildir")
        make_maildir(self.maildir / ".Junk")
        self.store = folder / "mail.tamis"
        self.log = io.StringIO()
        self.memory = Memory(Memory.path_of(self.store), "test")
        self.classifier = StoreClassifier(self.store, source="test")
        self.watcher = Watcher(MaildirMailbox(str(self.maildir)), self.memory, self.classifier, Log(self.log))
        assert self.run()  # the baseline

    def run(self) -> bool:
        return self.watcher.run_pass()

    def deliver(self, raw: bytes, name: str = "1.host") -> None:
        (self.maildir / "new" / name).write_bytes(raw)

    def move_by_hand(self, name: str = "2.host") -> None:
        """Move a message to Junk, as its owner does."""
        (self.maildir / "new" / name).rename(self.maildir / ".Junk" / "cur" / f"{name}:2,S")

    def label_of(self, raw: bytes) -> str | None:
        """Return what was learned of a message."""
        with Sieve.open(self.store, readonly=True) as sieve:
            entry = sieve.store.find_entry(digest(canonical(raw)))
        return entry.label if entry else None

    @property
    def faults(self) -> int:
        return self.log.getvalue().count("event=fault ")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    make_store(made.store)
    yield made
    made.classifier.close()
    made.memory.close()


@contextmanager
def locked(store: Path) -> Iterator[None]:
    with closing(sqlite3.connect(store, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        yield


def test_without_a_store_mail_stays_and_a_lesson_creates_the_store(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.deliver(NEW_SPAM)
    assert not bench.run()
    assert not bench.run()
    assert bench.faults == 1
    assert list_files(bench.maildir) == INBOX_SPAM
    bench.deliver(NEW_HAM, "2.host")
    bench.move_by_hand()
    assert not bench.run()  # one kind of mail is not enough
    assert bench.label_of(NEW_HAM) == "spam"
    assert "has not learned wanted mail yet" in bench.log.getvalue()
    assert "new/1.host" in list_files(bench.maildir)


def test_while_the_store_is_locked_mail_is_sorted_and_lessons_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tamis_mail.store.database", "tamis_mail.store.store"):
        monkeypatch.setattr(f"{name}.BUSY_SECONDS", 0.2)
    bench.deliver(NEW_HAM, "2.host")
    assert bench.run()
    bench.move_by_hand()
    bench.deliver(NEW_SPAM)
    with locked(bench.store):
        assert not bench.run()
        assert not bench.run()
        assert list_files(bench.maildir).items() >= JUNK_SPAM.items()
        assert bench.faults == 1
    assert bench.run()
    assert bench.label_of(NEW_HAM) == "spam"
    assert "event=fault-ended stops=learning" in bench.log.getvalue()


def test_with_a_readonly_store_mail_is_sorted_and_lessons_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what `access` answers, because root may write anywhere."""
    bench.deliver(NEW_HAM, "2.host")
    assert bench.run()
    bench.move_by_hand()
    bench.deliver(NEW_SPAM)
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "access", lambda path, mode, **_: mode != os.W_OK or ".tamis" not in os.fspath(path)
        )
        assert not bench.run()
        assert list_files(bench.maildir).items() >= JUNK_SPAM.items()
    assert bench.run()
    assert bench.label_of(NEW_HAM) == "spam"


def test_on_a_full_disk_nothing_is_moved_and_nothing_is_lost(bench: Bench) -> None:
    bench.deliver(NEW_HAM, "2.host")
    assert bench.run()
    bench.move_by_hand()
    bench.deliver(NEW_SPAM)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        assert not bench.run()
        assert not bench.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "new/1.host" in list_files(bench.maildir)
    assert bench.faults == 1
    assert bench.run()
    assert list_files(bench.maildir).items() >= JUNK_SPAM.items()
    assert bench.label_of(NEW_HAM) == "spam"


def test_a_corrupt_store_leaves_mail_where_it_is_until_it_is_restored(bench: Bench, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    shutil.copy(bench.store, backup)
    bench.store.write_bytes(b"no store at all" * 1000)
    bench.deliver(NEW_SPAM)
    assert not bench.run()
    assert list_files(bench.maildir) == INBOX_SPAM
    assert "is not a tamis store" in bench.log.getvalue()
    backup.replace(bench.store)
    assert bench.run()
    assert list_files(bench.maildir) == JUNK_SPAM


def test_a_store_of_a_newer_version_leaves_mail_where_it_is(bench: Bench) -> None:
    with closing(sqlite3.connect(bench.store)) as connection, connection:
        connection.execute("INSERT INTO migration (name, time) VALUES ('9999-later', 0)")
    bench.deliver(NEW_SPAM)
    assert not bench.run()
    assert "was written by a newer tamis" in bench.log.getvalue()
    assert list_files(bench.maildir) == INBOX_SPAM


def test_a_folder_that_takes_nothing_stops_moves_and_nothing_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    bench.deliver(NEW_HAM, "2.host")
    assert bench.run()
    bench.move_by_hand()
    bench.deliver(NEW_SPAM)
    bench.deliver(NEW_SPAM + b"again\n", "3.host")
    with monkeypatch.context() as patch:
        patch.setattr(MaildirTarget, "take", fail)
        assert not bench.run()
        assert not bench.run()
    assert bench.faults == 1
    assert {"new/1.host", "new/3.host"} <= set(list_files(bench.maildir))
    assert bench.label_of(NEW_HAM) == "spam"
    assert bench.run()
    assert {".Junk/new/1.host", ".Junk/new/3.host"} <= set(list_files(bench.maildir))


def test_a_maildir_that_is_not_mounted_is_waited_for_and_teaches_nothing(bench: Bench) -> None:
    bench.deliver(NEW_SPAM)
    assert bench.run()
    aside = bench.maildir.with_name("aside")
    bench.maildir.rename(aside)
    assert not bench.run()
    assert not bench.run()
    assert bench.faults == 1
    aside.rename(bench.maildir)
    assert bench.run()
    assert list_files(bench.maildir) == JUNK_SPAM
    assert bench.label_of(NEW_SPAM) is None


def test_one_watcher_at_a_time_has_an_account(bench: Bench) -> None:
    program = (
        "import sys; from pathlib import Path; from tamis_mail.watching.memory import Memory\n"
        "Memory(Path(sys.argv[1]), sys.argv[2])"
    )
    for account, is_free in (("test", False), ("another", True)):
        words = [sys.executable, "-c", program, str(Memory.path_of(bench.store)), account]
        done = subprocess.run(words, capture_output=True, check=False)
        assert (done.returncode == 0) == is_free
        assert (b"another tamis watch is running for this account" in done.stderr) == (not is_free)
