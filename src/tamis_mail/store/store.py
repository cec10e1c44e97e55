"""The store: counts of features and the journal of learned messages, changed in atomic transactions.

The counts are the sum over the messages in the journal, whatever was learned twice, relabelled, forgotten or
merged before, in any order. Weights are integers: to halve the weight of all messages so far, later messages
count double (`decay`). So no count is ever rounded, and forgetting subtracts exactly what learning added.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tamis_mail.labels import GUESSED_LABELS, Label
from tamis_mail.schema import (
    LONGEST_SOURCE,
    MOST_LABELS,
    ROOM,
    find_label_fault,
    find_row_fault,
    find_setting_fault,
)
from tamis_mail.store import runs
from tamis_mail.store.database import (
    PATIENCE,
    Connection,
    StoreError,
    connect,
    explain_errors,
    keep_interrupts,
    snapshot,
    transaction,
)

if TYPE_CHECKING:
    from tamis.stats import Tally
    from tamis_mail.store.tables import Counts, Keys, Table

__all__ = ["Entry", "Store", "Writer"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in the journal."""

    digest: bytes
    label: str
    weight: int
    rest: int
    version: int
    era: int
    source: str
    time: int

    @property
    def columns(self) -> list[tuple[str, int]]:
        """The labels under which its features are counted, with weights."""
        return columns(self.label, self.weight, self.rest)


def columns(label: str, weight: int, rest: int) -> list[tuple[str, int]]:
    """Return the labels under which features of a message are counted: its own, or both guessed ones."""
    if label not in GUESSED_LABELS:
        return [(label, weight)]
    other = GUESSED_LABELS[1 - GUESSED_LABELS.index(label)]
    return [(name, share) for name, share in ((label, weight), (other, rest)) if share]


class Store:
    """Counts of features by label, and the journal of what was learned."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, readonly: bool = False) -> None:
        self.path = Path(path)
        self._lock = RLock()  # a connection has one transaction at a time, for all threads
        self._connection = connect(path, create=create, readonly=readonly)

    def close(self) -> None:
        self._connection.close()

    @property
    def connection(self) -> Connection:
        """The connection, for modules of this package only."""
        return self._connection

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading.

    @contextmanager
    def snapshot(self, seconds: float | None = None) -> Iterator[None]:
        """Read a consistent state of the store, whatever a writer does meanwhile; other threads wait.

        `seconds` limits each statement; the default is the limit for maintenance.
        """
        limit = nullcontext() if seconds is None else self._connection.limit(seconds)
        with self._lock, limit, snapshot(self._connection, self.path):
            yield

    def labels(self) -> list[Label]:
        """List the labels in the order of the columns of counts."""
        with self._lock, explain_errors(self.path):
            rows = self._connection.execute("SELECT * FROM label ORDER BY id LIMIT ?", (MOST_LABELS + 1,))
            labels = [Label(*row) for row in rows]
        for place, label in enumerate(labels):
            fault = find_row_fault("label", {name: getattr(label, name) for name in _LABEL})
            fault = fault or find_label_fault(label.name)
            if fault is None and label.id != place:
                fault = f"label {label.name!r} has the column {label.id}, expected {place}"
            if fault:
                raise self._damage_error(fault)
        return labels

    def unit(self) -> int:
        """Return the weight of a message that is learned now."""
        return 1 << self.number("epoch")

    def era(self) -> int:
        """Return how often the store has been pruned."""
        return self.number("era")

    def number(self, name: str) -> int:
        """Return a setting that is an integer; 0 if it is not set."""
        value = self.setting(name) or "0"
        fault = find_setting_fault(name, value)
        if fault:
            raise self._damage_error(fault)
        return int(value)

    def _damage_error(self, fault: str) -> StoreError:
        return StoreError(
            f"the store {self.path} is damaged ({fault}): restore a backup (tamis store restore)"
        )

    def setting(self, name: str) -> str | None:
        with self._lock, explain_errors(self.path):
            row = self._connection.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def counts(self, keys: Iterable[int]) -> dict[int, list[int]]:
        """Return the counts of each key by label, zeros if it is unknown."""
        with self.snapshot():
            return runs.look_up(self._connection, keys, len(self.labels()))

    def count_arrays(self, keys: "Keys") -> "Counts":
        """(keys, labels): the counts of keys in ascending order."""
        with self.snapshot():
            counts: Counts = _tables().look_up(self._connection, keys, len(self.labels()))
        return counts

    def tables(self) -> Iterator["Table"]:
        """Yield all counts in slices, in the order of keys."""
        tables = _tables()
        with self.snapshot():
            all_runs = runs.all_runs(self._connection)
            labels = len(self.labels())
            for low, high in tables.slices(sum(run.entries for run in all_runs), labels):
                yield tables.sum_runs(self._connection, all_runs, low, high, labels)

    def statistic(self) -> "Tally":
        """All counts as a statistic of `tamis`: by label and by feature, in memory.

        The weight of a label is that of its messages, learned and imported. All numbers are in units: a
        message that is learned now weighs `unit()`, one of a guessed label GUESS_UNITS times as much.
        """
        stats, np = import_module("tamis.stats"), import_module("numpy")
        with self.snapshot():
            labels, tables = self.labels(), list(self.tables())
        names, rows = stats.Keys.of([label.name for label in labels])
        weight, counts = np.zeros(len(rows), np.int64), np.zeros((len(rows), 0), np.int64)
        weight[rows] = [label.weight + label.lent for label in labels]
        terms: list[int] = []
        if tables:
            counts = np.empty((len(rows), sum(len(table.keys) for table in tables)), np.int64)
            counts[rows] = np.concatenate([table.counts for table in tables]).T
            terms = np.concatenate([table.keys for table in tables]).tolist()
        held = (weight != 0) | counts.any(axis=1)
        tally: Tally = stats.Tally(
            weight=stats.Exact.from_integers(weight[held]),
            total=stats.Exact.from_integers(counts[held]),
            keys=names.keep(held),
            terms=stats.Keys(tuple(terms)),
        )
        return tally

    def find(self, digest: bytes) -> Entry | None:
        """Return the journal entry of a message, or None."""
        with self._lock, explain_errors(self.path):
            row = self._connection.execute(_ENTRIES + " WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else self._entry(row)

    def entries(self) -> Iterator[Entry]:
        """Yield the journal, in the order of digests."""
        with explain_errors(self.path):
            for row in self._connection.execute(_ENTRIES + " ORDER BY digest"):
                yield self._entry(row)

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        entry = Entry(*row)
        fault = find_row_fault("journal", {name: getattr(entry, name) for name in _JOURNAL})
        fault = fault or find_row_fault("source", {"name": entry.source})
        if fault:
            raise self._damage_error(fault)
        return entry

    # Writing.

    @contextmanager
    def transaction(self) -> Iterator["Writer"]:
        """Run the block as one transaction, visible only after its successful end."""
        with self._lock, transaction(self._connection, self.path):
            writer = Writer(self, self._connection)
            yield writer
            writer.close()
        self._shrink()

    def _shrink(self) -> None:
        """Return free space to the disk, if it is much."""
        # The transaction is committed; if another process is busy, a later one frees the space.
        with suppress(sqlite3.OperationalError), keep_interrupts():
            (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            if free > 1000 and free * 4 > pages:
                self.shrink()

    def shrink(self) -> None:
        """Return all free space to the disk, without waiting for other processes: readers would block us."""
        self._connection.execute("PRAGMA busy_timeout = 0")
        try:
            # `execute` would run one step, which frees one page.
            self._connection.executescript("PRAGMA incremental_vacuum")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {int(PATIENCE * 1000)}")


class Writer:
    """The changes that are possible inside a transaction."""

    def __init__(self, store: Store, connection: sqlite3.Connection) -> None:
        self._store = store
        self._connection = connection
        self._sources: dict[str, int] = {}
        self._columns = {label.name: label.id for label in store.labels()}
        self._gained: dict[str, list[int]] = {}  # label → weight and messages gained in this transaction

    def close(self) -> None:
        """Write the totals of the labels: once, because a transaction may have thousands of messages."""
        weights = {label.name: label.weight for label in self._store.labels()} if self._gained else {}
        for label, (weight, messages) in self._gained.items():
            self._refuse_overflow(weights.get(label, 0) + weight)
            self._connection.execute(
                "UPDATE label SET weight = weight + ?, messages = messages + ? WHERE id = ?",
                (weight, messages, self.column(label)),
            )
        self._gained.clear()

    @property
    def width(self) -> int:
        """The number of labels."""
        return len(self._columns)

    def column(self, label: str) -> int:
        """Return the column of a label; a new label is created."""
        if label not in self._columns:
            number = len(self._columns)
            if number >= MOST_LABELS:
                raise StoreError(
                    f"the store {self._store.path} has {MOST_LABELS} labels, the maximum: use fewer"
                )
            self._connection.execute("INSERT INTO label VALUES (?, ?, 0, 0, 0, 0)", (number, label))
            self._columns[label] = number
        return self._columns[label]

    def record(self, entry: Entry) -> None:
        """Add a new message to the journal."""
        for name, weight in entry.columns:
            self._weigh(name, weight, int(name == entry.label))
        row = (
            entry.digest,
            self.column(entry.label),
            entry.weight,
            entry.rest,
            entry.version,
            entry.era,
            self._source(entry.source),
            entry.time,
        )
        self._connection.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def remove(self, digest: bytes) -> None:
        """Remove a message from the journal, if it is there."""
        entry = self._store.find(digest)
        if entry is not None:
            for name, weight in entry.columns:
                self._weigh(name, -weight, -int(name == entry.label))
            self._connection.execute("DELETE FROM journal WHERE digest = ?", (digest,))

    def add(self, table: "Table") -> None:
        """Add to the counts; the table may be negative."""
        tables = _tables()
        sums = {label.id: label.features for label in self._store.labels()}
        for number, total in enumerate(tables.column_sums(table.counts)):
            self._refuse_overflow(sums[number] + total)
            self._refuse_overflow(total)
        tables.add(self._connection, table)
        for number, total in enumerate(table.counts.sum(axis=0).tolist()):
            if total:
                self._connection.execute(
                    "UPDATE label SET features = features + ? WHERE id = ?", (total, number)
                )

    def add_clipped(self, table: "Table") -> None:
        """Add to the counts without making any negative, for a pruned store."""
        self.add(_tables().clip(self._connection, table))

    def set(self, name: str, value: object) -> None:
        """Write a setting."""
        self._connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, str(value)))

    def _refuse_overflow(self, total: int) -> None:
        if abs(total) >= ROOM:
            raise StoreError(
                f"the counts of the store {self._store.path} would be too large: after many decays, or "
                "because the input is wrong; learn your mail into a new store"
            )

    def add_imported(self, label: str, weight: int) -> None:
        """Add the weight of messages that another filter had counted."""
        column = self.column(label)
        (lent,) = self._connection.execute("SELECT lent FROM label WHERE id = ?", (column,)).fetchone()
        self._refuse_overflow(lent + weight)
        self._connection.execute("UPDATE label SET lent = ? WHERE id = ?", (lent + weight, column))

    def _weigh(self, label: str, weight: int, messages: int) -> None:
        gained = self._gained.setdefault(label, [0, 0])
        gained[0] += weight
        gained[1] += messages

    def _source(self, name: str) -> int:
        name = name.encode("utf-8", "backslashreplace").decode()  # file names may be any bytes
        name = name[:LONGEST_SOURCE]
        if name not in self._sources:
            self._connection.execute("INSERT OR IGNORE INTO source (name) VALUES (?)", (name,))
            self._sources[name] = self._connection.execute(
                "SELECT id FROM source WHERE name = ?", (name,)
            ).fetchone()[0]
        return self._sources[name]


def _tables() -> ModuleType:
    """Import NumPy and the tables on demand; a verdict on one message needs neither."""
    return import_module("tamis_mail.store.tables")


_LABEL = ("id", "name", "messages", "weight", "lent", "features")
_JOURNAL = ("digest", "weight", "rest", "version", "era", "time")
_ENTRIES = """
    SELECT digest, label.name, journal.weight, rest, version, era, source.name, time
    FROM journal JOIN label ON label.id = journal.label JOIN source ON source.id = journal.source
"""
