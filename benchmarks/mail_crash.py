"""`python -m benchmarks.mail_crash`: kill a filter that learns, 200 times, and see whether anything is lost.

A child learns, forgets and relabels messages of the sample mailbox, one by one and in bulk, and writes a line
to a log (with fsync) before each operation and after it was acknowledged. It is killed (SIGKILL) at a random
instant. Then every message must be as the last acknowledged operation left it, or, if the kill came amid an
operation on it, as before or as after; `tamis store check` must find nothing; and the counts must be, feature
by feature, the sum over the journal. The next child goes on with the same store, decayed now and then; every
tenth makes a new one, and is killed about then.

Other rounds fill the disk (a small tmpfs for root, else a limit on the size of files) or make it read-only:
then operations must be refused with one line, and nothing may change but by those that were acknowledged.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from benchmarks.mail_corpus import SEED, tell
from benchmarks.mail_filters import installed
from tamis_mail import Sieve, sample
from tamis_mail.labels import HAM, SPAM
from tamis_mail.message import canonical, digest
from tamis_mail.sieve.jobs import count
from tamis_mail.store import Store, StoreError
from tamis_mail.store.maintenance import check, decay
from tamis_mail.store.tables import CountTable

LONGEST = 0.5  # seconds that a child may work before it is killed
ROOM = 3_000_000  # bytes of the disk that fills up
FULL_OPERATIONS = 150  # of a child on it
_MOST = 40  # messages of a bulk operation

Labels = dict[int, str | None]  # what each message is; None: unknown to the store


def messages() -> list[bytes]:
    """The sample mailbox, as the store knows it: one of each digest."""
    found = {digest(canonical(one.raw)): one.raw for one in sample.messages()}
    return list(found.values())


def child(path: Path, log: Path, seed: int, limit: int, room: int | None) -> None:
    """Do operations until killed, or so many of them."""
    if room:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    mail = messages()
    dice = random.Random(seed)
    with log.open("a", encoding="utf-8") as file:
        try:
            sieve = Sieve.open(path, bulk=True)
        except StoreError as error:
            _note(file, ["refused", 0, str(error)])
            return
        _note(file, ["ready"])
        for number in range(limit):
            if dice.random() < 0.7:
                chosen = [dice.randrange(len(mail))]
            else:
                chosen = dice.sample(range(len(mail)), dice.randint(2, _MOST))
            label = dice.choices((SPAM, HAM, None), (4, 4, 3))[0]
            _note(file, ["begin", number, label, chosen])
            try:
                _do(sieve, [mail[index] for index in chosen], label)
            except StoreError as error:
                _note(file, ["refused", number, str(error)])
            else:
                _note(file, ["done", number])
        sieve.close()


def _do(sieve: Sieve, chosen: Sequence[bytes], label: str | None) -> None:
    if label is None:
        if len(chosen) == 1:
            sieve.forget(chosen[0])
        else:
            sieve.forget_many(chosen, processes=1)
    elif len(chosen) == 1:
        sieve.learn(chosen[0], label)
    else:
        sieve.learn_many(chosen, label, processes=1)


def _note(file: IO[str], what: list[object]) -> None:
    file.write(json.dumps(what) + "\n")
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError:
        return  # a full disk: the line is in the page cache, which a kill does not empty


class Auditor:
    """What the store should hold, by the log, and whether it does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mail = [canonical(raw) for raw in messages()]
        self._numbers = {digest(plain): number for number, plain in enumerate(self._mail)}
        self.labels: Labels = dict.fromkeys(range(len(self._mail)))
        self.found: Counter[str] = Counter()

    def audit(self, log: Path) -> None:
        """Compare the store with what a child has been told; what is there is where the next begins."""
        pending = self._follow(log)
        if not self._path.exists():  # it was killed before it had made the store
            self.found["lost or changed"] += sum(label is not None for label in self.labels.values())
            return
        with Store(self._path, readonly=True) as store:
            entries = {self._numbers[entry.digest]: entry for entry in store.entries()}
            for number, expected in self.labels.items():
                label = entries[number].label if number in entries else None
                allowed = {expected, pending[number]} if number in pending else {expected}
                self.found["lost or changed"] += label not in allowed
                self.found["messages amid one"] += number in pending
                self.labels[number] = label
            faults = check(store)
            self.found["faults"] += len(faults)
            labels = {label.name: label.id for label in store.labels()}
            work = list(entries.items())
            said = CountTable.total(list(store.count_slices()), len(labels))
            store_version = store.token_version()
        expected_counts = (
            count(
                [self._mail[number] for number, _ in work],
                [tuple((labels[name], units) for name, units in entry.label_weights) for _, entry in work],
                len(labels),
                store_version,
            )
            if work
            else CountTable.total([], len(labels))
        )
        if faults or not _same(said, expected_counts, len(labels)):
            difference = CountTable.total(
                [said, CountTable(expected_counts.keys, -expected_counts.counts)], len(labels)
            )
            self.found["features counted too often"] += int((difference.counts > 0).any(axis=1).sum())
            self.found["features counted too seldom"] += int((difference.counts < 0).any(axis=1).sum())
            tell(f"{self._path}: {faults or 'counts are not those of the journal'}")

    def _follow(self, log: Path) -> Labels:
        """Take over what was acknowledged; what was begun and not answered may be or not."""
        pending: Labels = {}
        written = log.read_text(encoding="utf-8") if log.exists() else ""
        for line in written.splitlines():
            try:
                what, *rest = json.loads(line)
            except ValueError:  # the kill came amid the line
                continue
            if what == "begin":
                pending = dict.fromkeys(rest[2], rest[1])
            elif what == "done":
                self.labels |= pending
                self.found["acknowledged operations"] += 1
                pending = {}
            elif what == "refused":
                self.found["refused operations"] += 1
                pending = {}
        return pending


def _same(one: CountTable, other: CountTable, labels: int) -> bool:
    one, other = CountTable.total([one], labels), CountTable.total([other], labels)
    return np.array_equal(one.keys, other.keys) and np.array_equal(one.counts, other.counts)


def start(path: Path, log: Path, seed: int, limit: int = 10**9, room: int = 0) -> "subprocess.Popen[bytes]":
    """A child, at work."""
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.mail_crash", "--child"]
    words = map(str, (path, log, seed, limit, room))
    return subprocess.Popen([*command, *words], cwd=Path(__file__).parents[1])


def kills(folder: Path, number: int) -> Counter[str]:
    """Kill a child so many times; one time in ten about when it makes a new store."""
    path, log = folder / "mail.tamis", folder / "log"
    auditor = Auditor(path)
    newborn: Counter[str] = Counter()
    dice = random.Random(SEED)
    starting = 1.0  # seconds until a child is ready, last time
    for round_ in range(number):
        is_new = round_ % 10 == 9
        place = folder / f"new{round_}.tamis" if is_new else path
        begun = time.perf_counter()
        process = start(place, log, SEED + round_)
        if is_new:
            time.sleep(starting * dice.uniform(0.7, 1.3))
        else:
            while not (log.exists() and log.stat().st_size) and process.poll() is None:
                time.sleep(0.002)
            starting = time.perf_counter() - begun
            time.sleep(dice.random() * LONGEST)
        process.kill()
        ended = process.wait()
        if ended != -signal.SIGKILL:
            raise SystemExit(f"the child of round {round_} ended by itself with {ended}: see what it printed")
        one = Auditor(place) if is_new else auditor
        one.found["rounds"] += 1
        one.audit(log)
        if is_new:
            newborn += one.found
        elif round_ % 20 == 18:
            with Store(path) as store:
                decay(store)
            tell(f"{round_ + 1} kills: {dict(auditor.found + newborn)}")
    return auditor.found + newborn


def full_disk(folder: Path, rounds: int) -> tuple[str, Counter[str]]:
    """Let children learn until nothing fits any more."""
    total: Counter[str] = Counter()
    how = f"a tmpfs of {ROOM / 1e6:g} MB"
    for round_ in range(rounds):
        with _small_disk(folder / "small") as disk:
            if disk is None:
                how = f"files of at most {ROOM / 1e6:g} MB (no tmpfs could be mounted)"
            place = disk or folder / f"limited{round_}"
            place.mkdir(exist_ok=True)
            auditor = Auditor(place / "mail.tamis")
            room = 0 if disk else ROOM
            ended = start(place / "mail.tamis", folder / "log", round_, FULL_OPERATIONS, room).wait()
            auditor.found["rounds"] += 1
            auditor.found["ended by themselves with an error"] += ended != 0
            auditor.audit(folder / "log")
            total += auditor.found
    return how, total


def read_only(folder: Path) -> tuple[str, Counter[str]]:
    """Let a child try to learn where nothing can be written."""
    with _small_disk(folder / "small", 50_000_000) as disk:
        place = disk or folder / "fixed"
        place.mkdir(exist_ok=True)
        path = place / "mail.tamis"
        auditor = Auditor(path)
        start(path, folder / "log", 1, 60).wait()
        auditor.audit(folder / "log")
        auditor.found.clear()
        before = path.read_bytes()
        if disk:
            how = "a disk mounted read-only"
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        else:
            how = "a file and a folder without write permission"
            path.chmod(0o400)
            place.chmod(0o500)
        ended = start(path, folder / "log", 2, 60).wait()
        auditor.found["rounds"] += 1
        auditor.found["ended by themselves with an error"] += ended != 0
        auditor.audit(folder / "log")
        auditor.found["lost or changed"] += path.read_bytes() != before
        if not disk:
            place.chmod(0o700)
    return how, auditor.found


@contextmanager
def _small_disk(place: Path, room: int = ROOM) -> Iterator[Path | None]:
    """A tmpfs of little room; None if it cannot be had."""
    place.mkdir(exist_ok=True)
    mounted = (
        os.geteuid() == 0
        and shutil.which("mount") is not None
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(place)],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)


COLUMNS = (
    "rounds",
    "acknowledged operations",
    "refused operations",
    "messages amid one",
    "lost or changed",
    "features counted too often",
    "features counted too seldom",
    "faults",
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mail_crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="default: 200")
    parser.add_argument("--folder", type=Path, help="for itself")
    parser.add_argument("--full", type=int, default=5, help="rounds with a full disk (default: 5)")
    parser.add_argument(
        "--child", nargs=5, metavar=("STORE", "LOG", "SEED", "LIMIT", "ROOM"), help="for itself"
    )
    options = parser.parse_args()
    if options.child:
        path, log, *numbers = options.child
        seed, limit, room = map(int, numbers)
        child(Path(path), Path(log), seed, limit, room or None)
        return
    if options.folder is None:
        with tempfile.TemporaryDirectory() as name:
            environment = installed(Path(name) / "site-packages")  # or an edit would seem to be damage
            command = [sys.executable, "-m", "benchmarks.mail_crash", *sys.argv[1:], "--folder", name]
            raise SystemExit(subprocess.run(command, env=environment, check=False).returncode)
    lines = [("SIGKILL", kills(options.folder, options.kills))]
    lines += [full_disk(options.folder, options.full)] if options.full else []
    lines.append(read_only(options.folder))
    sys.stdout.write(f"| | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}\n")
    for what, found in lines:
        sys.stdout.write(f"| {what} | {' | '.join(str(found[column]) for column in COLUMNS)} |\n")
        others = {name: number for name, number in found.items() if name not in COLUMNS and number}
        if others:
            tell(f"{what}: {others}")


if __name__ == "__main__":
    main()
