"""Processes that watch a Maildir are killed at random moments: nothing is lost, doubled or learned twice."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tamis_mail import Sieve
from tamis_mail.message import canonical, digest
from tests.surfaces.maildir.maildirs import list_files, make_maildir
from tests.surfaces.terminal import HAM, SPAM, make_store

KILLS = 40
ROUNDS = 10

# Reads "pass" or "work" per line, and does that in a child, which begins at once because all is loaded.
PROGRAM = """
import io, os, sys
from pathlib import Path
from tamis_mail.serving.logs import Log
from tamis_mail.surfaces.maildir.mailbox import MaildirMailbox
from tamis_mail.watching.classifier import StoreClassifier
from tamis_mail.watching.memory import Memory
from tamis_mail.watching.watcher import Settings, Watcher
import tamis_mail.sieve.jobs, tamis_mail.sieve.transaction, tamis_mail.sieve.weights

store = Path(sys.argv[2])
for line in sys.stdin:
    child = os.fork()
    if child:
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)
        continue
    memory = Memory(Memory.path_of(store), "test")
    classifier = StoreClassifier(store, source="test")
    mailbox = MaildirMailbox(sys.argv[1])
    watcher = Watcher(mailbox, memory, classifier, Log(io.StringIO()), Settings(adds_keywords=True))
    while not watcher.run_pass() or line == "work\\n":
        pass
    classifier.close()
    memory.close()
    os._exit(0)
"""


class Filter:
    """Watchers in processes of their own, one at a time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run_pass(self) -> None:
        """Let one do all that there is to do."""
        self._start("pass")
        assert self._read() == 0

    def work_until_killed(self, seconds: float, folder: Path, messages: int) -> None:
        """Kill one after some seconds, or as soon as some messages have come into a folder."""
        enough = len(list(folder.iterdir())) + messages
        child = self._start("work")
        limit = time.monotonic() + seconds
        while time.monotonic() < limit and len(os.listdir(folder)) < enough:  # noqa: PTH208 (quickly)
            pass
        os.kill(child, signal.SIGKILL)
        assert self._read() == signal.SIGKILL

    def _start(self, word: str) -> int:
        assert self._process.stdin
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> int:
        assert self._process.stdout
        return int(self._process.stdout.readline())


@contextmanager
def run_filter(maildir: Path, store: Path) -> Iterator[Filter]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(maildir), str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            yield Filter(process)
        finally:
            process.kill()


class Owner:
    """Gets mail, and moves some of it by hand."""

    def __init__(self, maildir: Path, seed: int) -> None:
        self.maildir = maildir
        self.random = random.Random(seed)
        self.messages: dict[str, bytes] = {}  # by the unique part of their names
        self.lessons: dict[str, str] = {}
        self.moved_to: dict[str, str] = {}

    def receive(self) -> None:
        number = len(self.messages)
        like = self.random.choice(SPAM * 3 + HAM)
        raw = like.replace(b"\n\n", b"\nX-Number: %d\n\n" % number, 1)
        name = f"{1_700_000_000 + number}.M{number}P1.host,S={len(raw)}"
        self.messages[name] = raw
        (self.maildir / "tmp" / name).write_bytes(raw)
        (self.maildir / "tmp" / name).rename(self.maildir / "new" / name)

    def move_some(self) -> None:
        """Move messages that no process is at work on."""
        for path in self.random.sample(sorted(list_files(self.maildir)), 1):
            name = Path(path).name.partition(":")[0]
            is_junk = path.startswith(".Junk/")
            target = "." if is_junk else ".Junk"
            (self.maildir / path).rename(self.maildir / target / "cur" / f"{name}:2,S")
            self.lessons[name] = "ham" if is_junk else "spam"
            self.moved_to[name] = "" if is_junk else ".Junk/"


def test_kills_at_any_moment_lose_double_and_mislearn_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path / "mail.tamis")
    maildir = make_maildir(tmp_path / "Maildir")
    make_maildir(maildir / ".Junk")
    (maildir / "dovecot-keywords").touch()
    owner = Owner(maildir, seed=20)
    with run_filter(maildir, store) as filter_:
        filter_.run_pass()  # the baseline
        for _ in range(ROUNDS):
            for _ in range(8):
                owner.receive()
            for _ in range(KILLS // ROUNDS):
                seconds, messages = owner.random.uniform(0.0, 0.5), owner.random.randint(1, 4)
                filter_.work_until_killed(seconds, maildir / ".Junk" / "new", messages)
                owner.receive()
            filter_.run_pass()
            owner.move_some()
        filter_.run_pass()
    files = list_files(maildir)
    places = {Path(path).name.partition(":")[0]: path for path in files}
    assert len(files) == len(places) == len(owner.messages)
    assert {name: files[path] for name, path in places.items()} == owner.messages
    verdicts = read_verdicts(store)
    for name, raw in owner.messages.items():
        is_spam = verdicts[digest(canonical(raw))] == "spam"
        expected = owner.moved_to.get(name, ".Junk/" if is_spam else "")
        assert places[name].startswith(expected or ("cur/", "new/")), (name, places[name])
    with Sieve.open(store, readonly=True) as sieve:
        learned = {entry.digest: entry.label for entry in sieve.store.entries() if entry.source == "test"}
        counts = {label.name: label.messages for label in sieve.store.labels()}
    assert learned == {
        digest(canonical(owner.messages[name])): label for name, label in owner.lessons.items()
    }
    taught = Counter(owner.lessons.values())
    assert counts == {"spam": len(SPAM) + taught["spam"], "ham": len(HAM) + taught["ham"]}


def read_verdicts(store: Path) -> dict[bytes, str]:
    """Return the last verdict on each message, by the log beside the store."""
    with closing(sqlite3.connect(store.with_name(f"{store.name}.log"))) as log:
        rows = log.execute("SELECT digest, label FROM event WHERE action = 'verdict' ORDER BY number")
        return dict(rows.fetchall())
