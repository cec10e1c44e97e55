"""The store: counts of features and the journal of learned messages, changed in atomic transactions.

The counts equal the sum over the messages in the journal, plus the counts imported from another filter, minus
the counts of features that pruning dropped. This holds after any sequence of learning, relabelling,
forgetting and merging. Weights are integers: `decay` does not halve the weight of earlier messages, it
doubles the weight of later ones. So no count is ever rounded, and forgetting a message subtracts what
learning it added, except for features that pruning has dropped since.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from itertools import count, groupby, repeat
from operator import attrgetter
from threading import RLock

from tamis_mail.labels import GUESSED_LABELS, Label
from tamis_mail.locations import LocationError, find_local_path, is_address, name_location
from tamis_mail.records import record
from tamis_mail.schema import (
    MAX_COUNT,
    MAX_LABELS,
    MAX_SOURCE_LENGTH,
    find_label_fault,
    find_row_fault,
    find_setting_fault,
    parse_weights,
)
from tamis_mail.store import coefficients, runs
from tamis_mail.store.database import (
    BUSY_SECONDS,
    Connection,
    StoreError,
    connect,
    explain_errors,
    reraise_interrupts,
    snapshot,
    transaction,
)
from tamis_mail.tokens import VERSION, VERSIONS

TYPE_CHECKING = False  # `typing` and `pathlib` would take 8 ms of a process that judges one message
if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from tamis.stats import Tally
    from tamis_mail.store.bundle_arrays import MessageFeatures
    from tamis_mail.store.bundle_tables import BundleReader, MessageRow, Selection
    from tamis_mail.store.people import People
    from tamis_mail.store.tables import Counts, CountTable, FeatureKeys, RunCache

WORD_LIST_TOTALS = 0  # the key of the row of the word list that has the numbers of spam and ham messages
_PARAMETERS = 500  # values bound to one statement; older versions of SQLite allow 999


@record(frozen=True, slots=True)
class Entry:
    """The entry of a message in the journal."""

    digest: bytes  # hash of the message's canonical bytes
    label: str
    weight: int  # under `label`
    other_weight: int  # under the other guessed label; 0 if `label` is not a guessed one
    token_version: int
    prunings: int  # how often the store had been pruned when the message was learned
    source: str
    time: int  # seconds since 1970

    @property
    def label_weights(self) -> list[tuple[str, int]]:
        """The labels that count the message, with its weight in each: up to two, if its label is guessed."""
        if self.label not in GUESSED_LABELS:
            return [(self.label, self.weight)]
        other = GUESSED_LABELS[1 - GUESSED_LABELS.index(self.label)]
        pairs = ((self.label, self.weight), (other, self.other_weight))
        return [(label, weight) for label, weight in pairs if weight]


class Store:
    """Counts of features by label, and the journal of what was learned."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        readonly: bool = False,
        bulk: bool = False,
    ) -> None:
        """Open the store at a path or an address, as `database.connect` does.

        With `bulk`, a file that is created has no write-ahead log until `checkpoint`.
        """
        try:
            self.path_name = name_location(path)
        except LocationError as error:
            raise StoreError(str(error)) from error
        # Chooses the version of the tokens for a store without counts.
        self._choose_token_version: Callable[[], int] = lambda: VERSION
        self._lock = RLock()  # a connection has one transaction at a time, for all threads
        self._connection = connect(path, create=create, readonly=readonly, bulk=bulk)

    def close(self) -> None:
        self._connection.close()

    @property
    def name(self) -> str:
        """The path or the address, for messages to the user."""
        return self.path_name

    @property
    def path(self) -> Path:
        """The path of the file; of a store on a server, that of its replica on this host."""
        is_remote = is_address(self.path_name)
        path: Path = import_module("pathlib").Path(
            find_local_path(self.path_name) if is_remote else self.path_name
        )
        return path

    @property
    def sees_changes(self) -> bool:
        """Whether changes by other processes are seen.

        They are not if the store was opened without write permission while no process had it open for
        writing: it is then read without locks, and must be opened again to see changes.
        """
        return not self._connection.is_immutable

    @property
    def is_new(self) -> bool:
        """Whether this object has made the store for bulk work, and the store has no write-ahead log yet."""
        return self._connection.is_new

    @property
    def connection(self) -> Connection:
        """The connection, for modules of this package only."""
        return self._connection

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading.

    @contextmanager
    def snapshot(self, seconds: float | None = None) -> Iterator[None]:
        """Let all reads in the block see one state of the store.

        Other connections can write meanwhile; other threads that use this `Store` wait. `seconds` limits the
        time of each statement; the default is `database.MAINTENANCE_SECONDS`.
        """
        limit = nullcontext() if seconds is None else self._connection.limit_statements(seconds)
        with self._lock, limit, snapshot(self._connection, self.path_name):
            yield

    def labels(self) -> list[Label]:
        """List the labels in the order of the columns of counts."""
        with self._lock, explain_errors(self.path_name):
            rows = self._connection.execute("SELECT * FROM label ORDER BY id LIMIT ?", (MAX_LABELS + 1,))
            labels = [Label(*row) for row in rows]
        for column, label in enumerate(labels):
            fault = find_row_fault("label", {name: getattr(label, name) for name in _LABEL_FIELDS})
            fault = fault or find_label_fault(label.name)
            if fault is None and label.id != column:
                fault = f"label {label.name!r} has the column {label.id}, expected {column}"
            if fault:
                raise self._damage_error(fault)
        return labels

    def message_weight(self) -> int:
        """Return the weight of a message that is learned now under a label that is not guessed."""
        return 1 << self.integer_setting("epoch")  # the number of decays

    def token_version(self) -> int:
        """Return the version of the tokens that the store counts.

        A store without counts has the newest version, or that of the store given to `adopt_token_version`.
        """
        version: object = self.integer_setting("tokens")  # of imported counts; 0 if there are none
        if not version:  # all messages of a store have tokens of the same version
            with self._lock, explain_errors(self.path_name):
                row = self._connection.execute("SELECT version FROM journal LIMIT 1").fetchone()
            version = self._choose_token_version() if row is None else row[0]
        if fault := find_row_fault("journal", {"version": version}):
            raise self._damage_error(fault)
        if version not in VERSIONS:
            known = f"{', '.join(map(str, VERSIONS[:-1]))} and {VERSIONS[-1]}"
            raise StoreError(
                f"the store {self.name} counts tokens of version {version}, and this tamis knows {known}: "
                f"use a tamis that knows tokens of version {version}"
            )
        return version

    def adopt_token_version(self, other: Store) -> None:
        """Let this store, while it has no counts, count the tokens that another store counts."""
        self._choose_token_version = other.token_version

    def prunings(self) -> int:
        """Return how often the store has been pruned."""
        return self.integer_setting("era")

    def integer_setting(self, name: str) -> int:
        """Return the value of an integer setting; 0 if it is not set."""
        value = self.setting(name) or "0"
        fault = find_setting_fault(name, value)
        if fault:
            raise self._damage_error(fault)
        return int(value)

    def _damage_error(self, fault: str) -> StoreError:
        return StoreError(
            f"the store {self.name} is damaged ({fault}): restore a backup (tamis store restore)"
        )

    def data_version(self) -> int:
        """Return a number that changes when this or another connection changes the store."""
        with self._lock, explain_errors(self.path_name):
            return self._connection.state_number()

    def setting(self, name: str) -> str | None:
        """Return the value of a setting; None if it is not set."""
        with self._lock, explain_errors(self.path_name):
            row = self._connection.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def has_people(self) -> bool:
        """Whether the store has listed senders or correspondents; if not, a verdict looks up no senders."""
        with self._lock, explain_errors(self.path_name):
            (answer,) = self._connection.execute(
                "SELECT EXISTS (SELECT 1 FROM listed) OR EXISTS (SELECT 1 FROM correspondent)"
            ).fetchone()
        return bool(answer)

    def look_up_people(self, addresses: Iterable[str]) -> People:
        """Return the entries that cover these addresses, and which of the addresses are in sent mail."""
        people: People = import_module("tamis_mail.store.people").look_up(self, addresses)
        return people

    def is_log_on(self) -> bool:
        """Whether events are written to the log beside the store."""
        return self.setting("log") != "off"

    def counts(self, keys: Iterable[int]) -> dict[int, list[int]]:
        """Return the counts of each feature, one per label; zeros if the feature is unknown."""
        with self.snapshot():
            return runs.look_up(self._connection, keys, len(self.labels()))

    def count_arrays(self, keys: FeatureKeys, cache: RunCache | None = None) -> Counts:
        """(keys, labels): the counts of features, whose keys are in ascending order.

        `cache` keeps runs that were read completely, for later calls while `data_version` is the same.
        """
        with self.snapshot():
            counts: Counts = _tables().look_up(self._connection, keys, len(self.labels()), cache)
        return counts

    def has_counts(self) -> bool:
        """Whether any counts are stored, even if they cancel each other."""
        with self.snapshot():
            return bool(runs.all_runs(self._connection))

    def word_list_totals(self) -> tuple[int, int] | None:
        """Return the numbers of spam and of ham that the imported word list counts; None without a list."""
        return self.word_counts([WORD_LIST_TOTALS]).get(WORD_LIST_TOTALS)

    def word_counts(self, keys: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return how many spam and ham messages have each key, for the keys in the imported word list."""
        distinct = list(dict.fromkeys(keys))
        counts: dict[int, tuple[int, int]] = {}
        with self._lock, explain_errors(self.path_name):
            for start in range(0, len(distinct), _PARAMETERS):
                part = distinct[start : start + _PARAMETERS]
                placeholders = ", ".join("?" * len(part))
                rows = self._connection.execute(
                    f"SELECT * FROM word_list WHERE key IN ({placeholders})", part
                )
                counts.update({key: (spam, ham) for key, spam, ham in rows})
        for key, (spam, ham) in counts.items():
            if fault := find_row_fault("word_list", {"key": key, "spam": spam, "ham": ham}):
                raise self._damage_error(fault)
        return counts

    def coefficients(self, keys: Iterable[int]) -> dict[int, float]:
        """Return the fitted coefficients of those features that have one."""
        bits = self.shelf_bits()
        if bits is None:
            return {}
        with self.snapshot():
            return coefficients.look_up(self._connection, keys, bits)

    def coefficient_array(self, keys: FeatureKeys) -> NDArray[np.float64] | None:
        """(keys,): the fitted coefficients of features with ascending keys; None without fitted weights."""
        bits = self.shelf_bits()
        if bits is None:
            return None
        with self.snapshot():
            values: NDArray[np.float64] = _coefficient_arrays().look_up(self._connection, keys, bits)
        return values

    def shelf_bits(self) -> int | None:
        """Return b, where at most 2**b shelves hold the coefficients; None without fitted weights."""
        text = self.setting("weights")
        if not text:
            return None
        try:
            return parse_weights(text)[1]  # the bits
        except ValueError as error:
            raise self._damage_error(f"the setting 'weights': {error}") from error

    def count_slices(self) -> Iterator[CountTable]:
        """Yield all counts as tables of limited size, in ascending order of the features' keys."""
        tables = _tables()
        with self.snapshot():
            all_runs = runs.all_runs(self._connection)
            n_labels = len(self.labels())
            # A slice has the features with low <= key < high.
            for low, high in tables.slices(sum(run.entries for run in all_runs), n_labels):
                yield tables.sum_runs(self._connection, all_runs, low, high, n_labels)

    def statistic(self) -> Tally:
        """Return all counts, in memory, as a statistic of `tamis`: by label and by feature.

        The weight of a label is that of its messages, learned and imported. Weights are not normalised: a
        message learned now has weight `message_weight()`. Guessed labels use a finer scale: their weights
        are GUESS_UNITS times larger.
        """
        stats, np = import_module("tamis.stats"), import_module("numpy")
        with self.snapshot():
            labels, tables = self.labels(), list(self.count_slices())
        names, rows = stats.Keys.of([label.name for label in labels])
        weight, counts = np.zeros(len(rows), np.int64), np.zeros((len(rows), 0), np.int64)
        weight[rows] = [label.weight + label.lent for label in labels]
        terms: list[int] = []
        if tables:
            counts = np.empty((len(rows), sum(len(table.keys) for table in tables)), np.int64)
            counts[rows] = np.concatenate([table.counts for table in tables]).T
            terms = np.concatenate([table.keys for table in tables]).tolist()
        nonempty = (weight != 0) | counts.any(axis=1)
        tally: Tally = stats.Tally(
            weight=stats.Exact.from_integers(weight[nonempty]),
            total=stats.Exact.from_integers(counts[nonempty]),
            keys=names.keep(nonempty),
            terms=stats.Keys(tuple(terms)),
        )
        return tally

    def find_entry(self, digest: bytes) -> Entry | None:
        """Return the journal entry of a message, or None."""
        with self._lock, explain_errors(self.path_name):
            row = self._connection.execute(_SELECT_ENTRIES + " WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else self._entry(row)

    def find_entries(self, digests: Iterable[bytes]) -> dict[bytes, Entry]:
        """Return the journal entries of those messages that are in the journal."""
        wanted = list(digests)
        entries: dict[bytes, Entry] = {}
        with self._lock, explain_errors(self.path_name):
            for start in range(0, len(wanted), _PARAMETERS):
                part = wanted[start : start + _PARAMETERS]
                placeholders = ", ".join("?" * len(part))
                rows = self._connection.execute(f"{_SELECT_ENTRIES} WHERE digest IN ({placeholders})", part)
                entries.update({row[0]: self._entry(row) for row in rows})
        return entries

    def has_entries(self) -> bool:
        """Whether there are messages in the journal."""
        with self._lock, explain_errors(self.path_name):
            return self._connection.execute("SELECT 1 FROM journal LIMIT 1").fetchone() is not None

    def find_known(self, digests: Iterable[bytes], label: str) -> set[bytes]:
        """Return the digests of those messages that are in the journal under a label."""
        if not self.has_entries():
            return set()
        return {digest for digest, entry in self.find_entries(digests).items() if entry.label == label}

    def find_features(self, digest: bytes) -> list[int] | None:
        """Return the keys of a message's features, in ascending order; None if they are not stored."""
        with self._lock, explain_errors(self.path_name):
            row = self._connection.execute(
                "SELECT data, place FROM message JOIN bundle ON bundle.id = bundle WHERE digest = ?",
                (digest,),
            ).fetchone()
        if row is None:
            return None
        data, place = row
        keys: list[int] = import_module("tamis_mail.store.bundles").read_message(data, place)
        return keys

    def has_features(self, digest: bytes) -> bool:
        """Whether the features of a message are stored."""
        with self._lock, explain_errors(self.path_name):
            row = self._connection.execute(
                "SELECT 1 FROM message WHERE digest = ? AND bundle IS NOT NULL", (digest,)
            ).fetchone()
        return row is not None

    def find_date(self, digest: bytes) -> int | None:
        """Return the date in a message's header, in seconds since 1970; None if it is not known."""
        with self._lock, explain_errors(self.path_name):
            row = self._connection.execute("SELECT date FROM message WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            return None
        if fault := find_row_fault("message", {"date": row[0]}):
            raise self._damage_error(fault)
        date: int | None = row[0]
        return date

    def feature_reader(self) -> BundleReader:
        """Return a reader of the stored features of single messages, for one snapshot or transaction."""
        reader: BundleReader = _bundle_tables().BundleReader(self._connection)
        return reader

    def message_features(
        self,
        *,
        guessed: bool = False,
        choose: Selection | None = None,
    ) -> MessageFeatures:
        """Return the stored features of messages; of those with guessed labels only if `guessed`.

        `choose` is called with the columns of the messages' labels, an array in the order of digests. It
        returns the indices of the messages to read, in ascending order; by default, all are read.
        """
        with self.snapshot():
            return self.read_chosen(self.choose_messages(guessed=guessed, choose=choose))

    def choose_messages(self, *, guessed: bool = False, choose: Selection | None = None) -> list[MessageRow]:
        """Return the rows of the messages that `message_features` would read."""
        with self.snapshot():
            columns = [label.id for label in self.labels() if guessed or label.name not in GUESSED_LABELS]
            rows: list[MessageRow] = _bundle_tables().choose_messages(self._connection, columns, choose)
        return rows

    def read_chosen(
        self, rows: Sequence[MessageRow], at_hand: Mapping[bytes, FeatureKeys] | None = None
    ) -> MessageFeatures:
        """Read the features of messages whose rows `choose_messages` returned in the same snapshot.

        `at_hand` maps digests to features that the caller has, which are not read again.
        """
        with self.snapshot():
            result: MessageFeatures = _bundle_tables().read_messages(self._connection, rows, at_hand or {})
        return result

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of the journal, in the order of digests."""
        with explain_errors(self.path_name):
            for row in self._connection.execute(_SELECT_ENTRIES + " ORDER BY digest"):
                yield self._entry(row)

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        entry = Entry(*row)
        values = {column: getattr(entry, field) for column, field in _JOURNAL_FIELDS.items()}
        fault = find_row_fault("journal", values)
        fault = fault or find_row_fault("source", {"name": entry.source})
        if fault:
            raise self._damage_error(fault)
        return entry

    # Writing.

    @contextmanager
    def transaction(self) -> Iterator[Writer]:
        """Run the block as one transaction: commit it at its end, or roll it back after an error."""
        with self._lock, transaction(self._connection, self.path_name):
            writer = Writer(self, self._connection)
            yield writer
            writer.finish()
        self._shrink_if_worthwhile()

    @contextmanager
    def postpone_checkpoints(self) -> Iterator[None]:
        """Switch automatic checkpoints off: transactions in the block write only SQLite's write-ahead log.

        A transaction in that log is as durable as one in the file; `checkpoint` copies the log to the file.
        """
        with self._lock, explain_errors(self.path_name):
            (pages,) = self._connection.execute("PRAGMA wal_autocheckpoint").fetchone()
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        try:
            yield
        finally:
            with self._lock, explain_errors(self.path_name):
                self._connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")

    def sync_early(self) -> None:
        """Bring to disk what SQLite has written of a new store, so that the commit waits for less."""
        with self._lock, explain_errors(self.path_name):
            self._connection.sync_early()

    def checkpoint(self) -> None:
        """Copy SQLite's write-ahead log to the file, as far as no reader needs an older state of it.

        A new store, which has no such log, gets one.
        """
        # A failure loses nothing, because the transactions are committed; only damage is reported.
        with (
            self._lock,
            explain_errors(self.path_name),
            suppress(sqlite3.OperationalError),
            reraise_interrupts(),
        ):
            if self.is_new:
                self._connection.begin_log()
            else:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _shrink_if_worthwhile(self) -> None:
        """Return free space to the disk if it is over 1000 pages and over an eighth of the file."""
        # The transaction is committed. If another process holds a lock, a later transaction frees the space.
        # Damage is reported: nothing may have read the moved pages before.
        with (
            self._lock,
            explain_errors(self.path_name),
            suppress(sqlite3.OperationalError),
            reraise_interrupts(),
        ):
            (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            if free > 1000 and free * 8 > pages:
                self.shrink()

    def shrink(self) -> None:
        """Return free pages to the disk, without waiting for other processes.

        Raise sqlite3.OperationalError if another process is writing. While one is reading, the file stays as
        large as it is: a later checkpoint truncates it.
        """
        with self._lock:  # `executescript` would commit the open transaction of another thread
            self._connection.execute("PRAGMA busy_timeout = 0")
            try:
                # `execute` would run one step, which frees one page.
                self._connection.executescript("PRAGMA incremental_vacuum")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")


class Writer:
    """Changes a store inside a transaction.

    Journal, stored features and counts are changed by separate calls; the caller keeps them consistent.
    """

    def __init__(self, store: Store, connection: sqlite3.Connection) -> None:
        self._store = store
        self._connection = connection
        self._sources: dict[str, int] = {}
        self._columns = {label.name: label.id for label in store.labels()}
        self._total_changes: dict[str, list[int]] = {}  # label → changes of its weight, messages
        self._changed_bundles: set[int] = set()  # bundles with features of messages that were removed
        self._has_new_bundles = False

    def finish(self) -> None:
        """Write the totals of the labels, rewrite changed bundles and combine small ones.

        `Store.transaction` calls this at its end, once for all messages. Call it earlier to read the totals
        inside the transaction.
        """
        self._write_totals()
        if self._changed_bundles or self._has_new_bundles:
            _bundle_tables().tidy(self._connection, self._changed_bundles)
        self._changed_bundles.clear()
        self._has_new_bundles = False

    def _write_totals(self) -> None:
        weights = {label.name: label.weight for label in self._store.labels()} if self._total_changes else {}
        for label, (weight, messages) in self._total_changes.items():
            self._refuse_overflow(weights.get(label, 0) + weight)
            self._connection.execute(
                "UPDATE label SET weight = weight + ?, messages = messages + ? WHERE id = ?",
                (weight, messages, self.ensure_column(label)),
            )
        self._total_changes.clear()

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self._columns)

    def ensure_column(self, label: str) -> int:
        """Return the column of a label. Create the label if it is new."""
        if label not in self._columns:
            column = len(self._columns)
            if column >= MAX_LABELS:
                raise StoreError(
                    f"the store {self._store.name} has {MAX_LABELS} labels, the maximum: use fewer"
                )
            self._connection.execute(
                "INSERT INTO label (id, name, messages, weight, lent, features) VALUES (?, ?, 0, 0, 0, 0)",
                (column, label),
            )
            self._columns[label] = column
        return self._columns[label]

    def record(self, *entries: Entry) -> None:
        """Add entries to the journal; their messages must not be in it."""
        rows: list[tuple[object, ...]] = []
        for _, group in groupby(entries, _read_shared):  # entries in succession with equal fields
            alike = list(group)
            first = alike[0]
            for name, weight in first.label_weights:
                self._add_to_totals(name, weight * len(alike), len(alike) * (name == first.label))
            column, source = self.ensure_column(first.label), self._source_id(first.source)
            rows += [
                (
                    entry.digest,
                    column,
                    entry.weight,
                    entry.other_weight,
                    entry.token_version,
                    entry.prunings,
                    source,
                    entry.time,
                )
                for entry in alike
            ]
        self._connection.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def remove(self, digest: bytes) -> None:
        """Remove a message and its stored features; do nothing if it is not in the journal."""
        if self._remove_entry(digest):
            row = self._connection.execute(
                "SELECT bundle FROM message WHERE digest = ?", (digest,)
            ).fetchone()
            if row is not None:
                (bundle,) = row
                if bundle is not None:
                    self._changed_bundles.add(bundle)
                self._connection.execute("DELETE FROM message WHERE digest = ?", (digest,))

    def replace(self, entry: Entry) -> None:
        """Replace the journal entry of a message; its stored features stay."""
        self._remove_entry(entry.digest)
        self.record(entry)

    def _remove_entry(self, digest: bytes) -> bool:
        entry = self._store.find_entry(digest)
        if entry is None:
            return False
        for name, weight in entry.label_weights:
            self._add_to_totals(name, -weight, -int(name == entry.label))
        self._connection.execute("DELETE FROM journal WHERE digest = ?", (digest,))
        return True

    def store_features(
        self, digests: Sequence[bytes], packed: bytes | None, dates: Sequence[int | None]
    ) -> None:
        """Store the packed features and the dates of messages that are in the journal.

        `packed` is None if the features are too many to be stored, or not known. If a message has a row in
        the table `message` already, the date there is kept.
        """
        bundle = None
        if packed is not None:
            bundle = self._connection.execute(
                "INSERT INTO bundle (messages, data) VALUES (?, ?)", (len(digests), packed)
            ).lastrowid
            self._has_new_bundles = True
        self._connection.executemany(
            "INSERT INTO message VALUES (?, ?, ?, ?) "
            "ON CONFLICT (digest) DO UPDATE SET bundle = excluded.bundle, place = excluded.place",
            zip(digests, repeat(bundle), count(), dates, strict=False),  # `count` gives the places
        )

    def add(self, table: CountTable) -> None:
        """Add a table, whose counts may be negative, to the counts of the store."""
        tables = _tables()
        old_totals = {label.id: label.features for label in self._store.labels()}
        totals = tables.column_sums(table.counts)
        for column, total in enumerate(totals):
            self._refuse_overflow(old_totals[column] + total)
            self._refuse_overflow(total)
        tables.add(self._connection, table)
        for column, total in enumerate(totals):
            if total:
                self._connection.execute(
                    "UPDATE label SET features = features + ? WHERE id = ?", (total, column)
                )

    def add_clipped(self, table: CountTable) -> None:
        """Add a table to the counts of a pruned store; a sum that would be negative becomes zero."""
        self.add(_tables().clip(self._connection, table))

    def replace_coefficients(self, keys: FeatureKeys, values: NDArray[np.float64]) -> int:
        """Replace the coefficients of all features; return b, where at most 2**b shelves hold them."""
        bits: int = _coefficient_arrays().replace(self._connection, keys, values)
        return bits

    def drop_weights(self) -> None:
        """Delete the fitted weights, so that the default weights are used."""
        self._connection.execute("DELETE FROM setting WHERE name = 'weights'")
        self._connection.execute("DELETE FROM coefficient")

    def write_setting(self, name: str, value: object) -> None:
        """Write a setting."""
        self._connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, str(value)))

    def add_row(self, table: str, row: Sequence[object]) -> bool:
        """Add a row to one of the tables `schema.LISTS`; return False if the table has its key already."""
        placeholders = ", ".join("?" * len(row))
        cursor = self._connection.execute(
            f"INSERT OR IGNORE INTO {table} VALUES ({placeholders})", tuple(row)
        )
        return cursor.rowcount > 0

    def _refuse_overflow(self, total: int) -> None:
        if abs(total) >= MAX_COUNT:
            raise StoreError(
                f"the counts of the store {self._store.name} would be too large, because of many "
                "decays or wrong input: learn your mail into a new store"
            )

    def add_imported(self, label: str, weight: int) -> None:
        """Add `weight` to the weight of a label's messages that another filter had counted."""
        column = self.ensure_column(label)
        (lent,) = self._connection.execute("SELECT lent FROM label WHERE id = ?", (column,)).fetchone()
        self._refuse_overflow(lent + weight)
        self._connection.execute("UPDATE label SET lent = ? WHERE id = ?", (lent + weight, column))

    def _add_to_totals(self, label: str, weight: int, messages: int) -> None:
        change = self._total_changes.setdefault(label, [0, 0])
        change[0] += weight
        change[1] += messages

    def _source_id(self, name: str) -> int:
        name = name.encode("utf-8", "backslashreplace").decode()  # file names may be any bytes
        name = name[:MAX_SOURCE_LENGTH]
        if name not in self._sources:
            self._connection.execute("INSERT OR IGNORE INTO source (name) VALUES (?)", (name,))
            self._sources[name] = self._connection.execute(
                "SELECT id FROM source WHERE name = ?", (name,)
            ).fetchone()[0]
        return self._sources[name]


def _coefficient_arrays() -> ModuleType:
    return import_module("tamis_mail.store.coefficient_arrays")


def _bundle_tables() -> ModuleType:
    return import_module("tamis_mail.store.bundle_tables")


def _tables() -> ModuleType:
    """Import NumPy and the tables on demand; a verdict on one message needs neither."""
    return import_module("tamis_mail.store.tables")


_read_shared = attrgetter("label", "weight", "other_weight", "source")  # of an entry
# Fields of `Label`, and columns of the table `label`.
_LABEL_FIELDS = ("id", "name", "messages", "weight", "lent", "features")
_JOURNAL_FIELDS = {  # column of the table `journal` → field of `Entry`
    "digest": "digest",
    "weight": "weight",
    "rest": "other_weight",
    "version": "token_version",
    "era": "prunings",
    "time": "time",
}
_SELECT_ENTRIES = """
    SELECT digest, label.name, journal.weight, rest, version, era, source.name, time
    FROM journal JOIN label ON label.id = journal.label JOIN source ON source.id = journal.source
"""
