"""messages of features → four ways to keep their counts on disk → bytes, time to learn and to read: which one?

Synthetic mail: a message is 2,500 distinct features of 50 million, the k-th as common as 1/k, so that 2,500 messages have
some two million. They are loaded at once; then others are learned one by one, each its own transaction that is on disk when it ends
(synchronous=FULL, write-ahead log), and read one by one, each by a connection of its own, in plain Python, with warm caches.

    python experiments/0006-store/run.py [--repeats 3] [--messages 2500]     (LMDB takes part if `import lmdb` works)
"""

import argparse
import json
import os
import sqlite3
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tamis_mail.store import Store
from tamis_mail.store.tables import CountTable

try:
    import lmdb
except ImportError:
    lmdb = None

SIZE, KINDS, LEARN, READ = 2_500, 50_000_000, 300, 60
_PAIR = struct.Struct("<qq")


def message(dice: np.random.Generator) -> np.ndarray:
    ranks = (KINDS ** dice.random(2 * SIZE)).astype(np.uint64)
    some = dice.permutation(np.unique(ranks))[:SIZE]
    keys = some * np.uint64(0x9E3779B97F4A7C15)
    return np.unique((keys ^ keys >> np.uint64(29)) >> np.uint64(16))


class Rows:
    """One row for each feature."""

    def __init__(self, path: Path, ending: str) -> None:
        self.path = path / "rows.db"
        self.connection = self._open()
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute(f"CREATE TABLE feature (key INTEGER PRIMARY KEY, spam INTEGER, ham INTEGER) {ending}")

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA mmap_size = 268435456")
        return connection

    def add(self, keys: np.ndarray, counts: np.ndarray) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            "INSERT INTO feature VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET spam = spam + excluded.spam, ham = ham + excluded.ham",
            zip(keys.tolist(), counts[:, 0].tolist(), counts[:, 1].tolist()),
        )
        self.connection.execute("COMMIT")

    def read(self, keys: list[int]) -> dict[int, list[int]]:
        connection = self._open()
        rows = connection.execute(
            "SELECT key, spam, ham FROM feature WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(keys),)
        )
        found = {key: [0, 0] for key in keys}
        found.update((key, [spam, ham]) for key, spam, ham in rows)
        connection.close()
        return found

    def bytes(self) -> int:
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self.path.stat().st_size

    def close(self) -> None:
        self.connection.close()


class Runs:
    """Ours."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path / "store")

    def add(self, keys: np.ndarray, counts: np.ndarray) -> None:
        with self.store.transaction() as writer:
            writer.ensure_column("spam"), writer.ensure_column("ham")
            writer.add(CountTable(keys, counts))

    def read(self, keys: list[int]) -> dict[int, list[int]]:
        with Store(self.store.path) as store:
            return store.counts(keys)

    def bytes(self) -> int:
        self.store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self.store.path.stat().st_size

    def close(self) -> None:
        self.store.close()


class Lightning:
    """LMDB: a copy-on-write B-tree."""

    def __init__(self, path: Path) -> None:
        self.path = str(path / "lmdb")
        self.environment = lmdb.open(self.path, map_size=4 << 30, subdir=False)

    def add(self, keys: np.ndarray, counts: np.ndarray) -> None:
        with self.environment.begin(write=True) as transaction:
            for key, (spam, ham) in zip(keys.tolist(), counts.tolist()):
                name = key.to_bytes(6, "big")
                before = transaction.get(name)
                if before is not None:
                    old_spam, old_ham = _PAIR.unpack(before)
                    spam, ham = spam + old_spam, ham + old_ham
                transaction.put(name, _PAIR.pack(spam, ham))

    def read(self, keys: list[int]) -> dict[int, list[int]]:
        found = {}
        with self.environment.begin() as transaction:  # a process may open it only once: the cost of opening is not in here
            for key in keys:
                value = transaction.get(key.to_bytes(6, "big"))
                found[key] = list(_PAIR.unpack(value)) if value else [0, 0]
        return found

    def bytes(self) -> int:
        return os.stat(self.path).st_blocks * 512

    def close(self) -> None:
        self.environment.close()


WAYS: dict[str, Callable[[Path], Rows | Runs | Lightning]] = {
    "runs (ours)": Runs,
    "one row per feature": lambda path: Rows(path, ""),
    "the same, WITHOUT ROWID": lambda path: Rows(path, "WITHOUT ROWID"),
} | ({"LMDB": Lightning} if lmdb else {})
MEASURES = {
    "bytes per feature": 1,
    "load all at once, s": 1,
    "learn a message, median ms": 1,
    "learn a message, mean ms": 1,
    "learn a message, slowest ms": 1,
    "written to learn a message, kB": 1,
    "read a message, median ms": 1,
}


def written() -> int:
    """Bytes that this process gave to the system to write, to logs and to files."""
    return int(Path("/proc/self/io").read_text().split("wchar: ")[1].split()[0])


def measure(make: Callable[[Path], Rows | Runs | Lightning], total: CountTable, fresh: list[np.ndarray]) -> tuple[list[float], object]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/tmp")) as folder:
        way = make(Path(folder))
        began = time.perf_counter()
        way.add(total.keys, total.counts)
        load = time.perf_counter() - began
        size = way.bytes() / len(total.keys)
        times, before = [], written()
        for number, keys in enumerate(fresh[:LEARN]):
            counts = np.zeros((len(keys), 2), np.int64)
            counts[:, number % 2] = 1
            began = time.perf_counter()
            way.add(keys, counts)
            times.append(1000 * (time.perf_counter() - began))
        wrote = (written() - before) / LEARN / 1000
        reads, answers = [], []
        for keys in fresh[-READ:]:
            wanted = keys.tolist()
            began = time.perf_counter()
            answers.append(way.read(wanted))
            reads.append(1000 * (time.perf_counter() - began))
        way.close()
    median = statistics.median
    return [size, load, median(times), statistics.fmean(times), max(times), wrote, median(reads)], answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--messages", type=int, default=2_500)
    options = parser.parse_args()
    dice = np.random.default_rng(6)
    pieces = []
    for label in (0, 1):
        once = CountTable.count_features(np.concatenate([message(dice) for _ in range(options.messages // 2)]))
        counts = np.zeros((len(once.keys), 2), np.int64)
        counts[:, label] = once.counts[:, 0]
        pieces.append(CountTable(once.keys, counts))
    total = CountTable.total(pieces, 2)
    fresh = [message(dice) for _ in range(LEARN + READ)]
    print(f"{len(total.keys):,} features of {options.messages:,} messages; SQLite {sqlite3.sqlite_version}\n")
    found: dict[str, list[list[float]]] = {name: [] for name in WAYS}
    for _ in range(options.repeats):
        right = None
        for name, make in WAYS.items():  # in turn, so that what else the machine does hits all
            figures, answers = measure(make, total, fresh)
            found[name].append(figures)
            assert right is None or right == answers, name
            right = answers
    print("| | " + " | ".join(MEASURES) + " |\n|---" * 1 + "|---" * len(MEASURES) + "|")
    for name, rows in found.items():
        print(f"| {name} | " + " | ".join(f"{statistics.median(column):.4g}" for column in zip(*rows)) + " |")
    print("\n| ours against | measure | ours / its (least to most) | |\n|---|---|---|---|")
    ours, *others = found
    for name in others:
        for number, measure_name in enumerate(MEASURES):
            ratios = [mine[number] / its[number] for mine, its in zip(found[ours], found[name])]
            verdict = "won" if max(ratios) < 0.95 else "lost" if min(ratios) > 1.05 else "tied"
            print(f"| {name} | {measure_name} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {verdict} |")


if __name__ == "__main__":
    main()
