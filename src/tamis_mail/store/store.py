"""The store: counts of features and the journal of learned messages, changed in atomic transactions.

The counts always equal the sum over the messages in the journal, plus the counts imported from other filters
and minus the features that pruning dropped. Earlier relearning, relabelling, forgetting and merging do not
change that. Weights are integers. `decay` does not halve old weights; it doubles the weight of later
messages. So no count is ever rounded, and forgetting subtracts exactly what learning added.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
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

WORD_LIST_TOTALS = 0  # the key under which the word list holds the numbers of its messages
_PARAMETERS = 500  # values of a statement; SQLite allows at least 999


@record(frozen=True, slots=True)
class Entry:
    """A message in the journal."""

    digest: bytes
    label: str
    weight: int  # under `label`
    other_weight: int  # under the other guessed label; 0 if `label` is not a guessed one
    token_version: int
    prunings: int  # how often the store had been pruned when the message was learned
    source: str
    time: int  # seconds since 1970

    @property
    def label_weights(self) -> list[tuple[str, int]]:
        """(label, weight) pairs. A message with a guessed label counts under both guessed labels."""
        if self.label not in GUESSED_LABELS:
            return [(self.label, self.weight)]
        other = GUESSED_LABELS[1 - GUESSED_LABELS.index(self.label)]
        pairs = ((self.label, self.weight), (other, self.other_weight))
        return [(label, weight) for label, weight in pairs if weight]


class Store:
    """Counts of features by label, and the journal of what was learned."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, readonly: bool = False) -> None:
        try:
            self.path_name = name_location(path)
        except LocationError as error:
            raise StoreError(str(error)) from error
        self._lock = RLock()  # a connection has one transaction at a time, for all threads
        self._connection = connect(path, create=create, readonly=readonly)

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
        """Whether changes by other processes are seen; otherwise the store must be opened again to see them.

        They are not seen if the store was opened by a user who may not write it, while nobody wrote.
        """
        return not self._connection.is_immutable

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
        """Read one consistent state of the store. Writers do not affect it; threads of this process wait.

        `seconds` limits the time of each statement; the default is `database.MAINTENANCE_SECONDS`.
        """
        limit = nullcontext() if seconds is None else self._connection.limit(seconds)
        with self._lock, limit, snapshot(self._connection, self.path_name):
            yield

    def labels(self) -> list[Label]:
        """List the labels in the order of the columns of counts."""
        with self._lock, explain_errors(self.path_name):
            rows = self._connection.execute("SELECT * FROM label ORDER BY id LIMIT ?", (MAX_LABELS + 1,))
            labels = [Label(*row) for row in rows]
        for place, label in enumerate(labels):
            fault = find_row_fault("label", {name: getattr(label, name) for name in _LABEL_FIELDS})
            fault = fault or find_label_fault(label.name)
            if fault is None and label.id != place:
                fault = f"label {label.name!r} has the column {label.id}, expected {place}"
            if fault:
                raise self._damage_error(fault)
        return labels

    def message_weight(self) -> int:
        """Return the weight of a message that is learned now under a label that is not guessed."""
        return 1 << self.integer_setting("epoch")  # the number of decays

    def token_version(self) -> int:
        """Return the version of the tokens that are counted here; a store without counts has the newest."""
        version: object = self.integer_setting("tokens")  # of imported counts
        if not version:
            with self._lock, explain_errors(self.path_name):
                row = self._connection.execute("SELECT version FROM journal LIMIT 1").fetchone()
            version = VERSION if row is None else row[0]
        if fault := find_row_fault("journal", {"version": version}):
            raise self._damage_error(fault)
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise StoreError(
                f"the store {self.name} counts tokens of version {version}, and this tamis knows {known}: "
                f"use a tamis that knows tokens of version {version}"
            )
        return version

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
        """Whether the store knows any people; if not, the senders of a message have no effect."""
        with self._lock, explain_errors(self.path_name):
            (answer,) = self._connection.execute(
                "SELECT EXISTS (SELECT 1 FROM listed) OR EXISTS (SELECT 1 FROM correspondent)"
            ).fetchone()
        return bool(answer)

    def look_up_people(self, addresses: Iterable[str]) -> People:
        """Return the entries that cover these addresses, and those of them that are in sent mail."""
        people: People = import_module("tamis_mail.store.people").look_up(self, addresses)
        return people

    def is_log_on(self) -> bool:
        """Whether events are written to the log beside the store."""
        return self.setting("log") != "off"

    def counts(self, keys: Iterable[int]) -> dict[int, list[int]]:
        """Return the counts of each feature by label, zeros if it is unknown."""
        with self.snapshot():
            return runs.look_up(self._connection, keys, len(self.labels()))

    def count_arrays(self, keys: FeatureKeys, cache: RunCache | None = None) -> Counts:
        """(keys, labels): the counts of features, whose keys are in ascending order.

        `cache` keeps what was read for a later call, if `data_version` is still the same.
        """
        with self.snapshot():
            counts: Counts = _tables().look_up(self._connection, keys, len(self.labels()), cache)
        return counts

    def has_counts(self) -> bool:
        """Whether there is a count of any feature."""
        with self.snapshot():
            return bool(runs.all_runs(self._connection))

    def word_list_totals(self) -> tuple[int, int] | None:
        """Return the spam and the ham messages of the imported word list; None if there is no list."""
        return self.word_counts([WORD_LIST_TOTALS]).get(WORD_LIST_TOTALS)

    def word_counts(self, keys: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the spam and the ham messages of those keys that the imported word list has."""
        distinct = list(dict.fromkeys(keys))
        counts: dict[int, tuple[int, int]] = {}
        with self._lock, explain_errors(self.path_name):
            for start in range(0, len(distinct), _PARAMETERS):
                part = distinct[start : start + _PARAMETERS]
                places = ", ".join("?" * len(part))
                rows = self._connection.execute(f"SELECT * FROM word_list WHERE key IN ({places})", part)
                counts.update({key: (spam, ham) for key, spam, ham in rows})
        for key, (spam, ham) in counts.items():
            if fault := find_row_fault("word_list", {"key": key, "spam": spam, "ham": ham}):
                raise self._damage_error(fault)
        return counts

    def coefficients(self, keys: Iterable[int]) -> dict[int, float]:
        """Return the fitted coefficients of the features that have one."""
        bits = self.shelf_bits()
        if bits is None:
            return {}
        with self.snapshot():
            return coefficients.look_up(self._connection, keys, bits)

    def coefficient_array(self, keys: FeatureKeys) -> NDArray[np.float64] | None:
        """(keys,): the fitted coefficients of features with ascending keys; None before a fit."""
        bits = self.shelf_bits()
        if bits is None:
            return None
        with self.snapshot():
            values: NDArray[np.float64] = _coefficient_arrays().look_up(self._connection, keys, bits)
        return values

    def shelf_bits(self) -> int | None:
        """Return the bits of the shelves of coefficients; None before a fit."""
        text = self.setting("weights")
        if not text:
            return None
        try:
            return parse_weights(text)[1]
        except ValueError as error:
            raise self._damage_error(f"the setting 'weights': {error}") from error

    def count_slices(self) -> Iterator[CountTable]:
        """Yield all counts in slices, in the order of the features' keys."""
        tables = _tables()
        with self.snapshot():
            all_runs = runs.all_runs(self._connection)
            labels = len(self.labels())
            for low, high in tables.slices(sum(run.entries for run in all_runs), labels):
                yield tables.sum_runs(self._connection, all_runs, low, high, labels)

    def statistic(self) -> Tally:
        """All counts as a statistic of `tamis`: by label and by feature, in memory.

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
        names = list(digests)
        entries: dict[bytes, Entry] = {}
        with self._lock, explain_errors(self.path_name):
            for start in range(0, len(names), _PARAMETERS):
                part = names[start : start + _PARAMETERS]
                places = ", ".join("?" * len(part))
                rows = self._connection.execute(f"{_SELECT_ENTRIES} WHERE digest IN ({places})", part)
                entries.update({row[0]: self._entry(row) for row in rows})
        return entries

    def find_known(self, digests: Iterable[bytes], label: str) -> set[bytes]:
        """Return those messages that are in the journal under a label."""
        with self._lock, explain_errors(self.path_name):
            if self._connection.execute("SELECT 1 FROM journal LIMIT 1").fetchone() is None:
                return set()
        return {name for name, entry in self.find_entries(digests).items() if entry.label == label}

    def find_features(self, digest: bytes) -> list[int] | None:
        """Return the keys of a message's features as counted, in ascending order; None if not stored."""
        with self._lock, explain_errors(self.path_name):
            row = self._connection.execute(
                "SELECT data, place FROM message JOIN bundle ON bundle.id = bundle WHERE digest = ?",
                (digest,),
            ).fetchone()
        if row is None:
            return None
        keys: list[int] = import_module("tamis_mail.store.bundles").read_message(*row)
        return keys

    def has_features(self, digest: bytes) -> bool:
        """Whether the features of a message are stored."""
        with self._lock, explain_errors(self.path_name):
            row = self._connection.execute(
                "SELECT 1 FROM message WHERE digest = ? AND bundle IS NOT NULL", (digest,)
            ).fetchone()
        return row is not None

    def find_date(self, digest: bytes) -> int | None:
        """Return a message's own date, in seconds since 1970; None if it is not known."""
        with self._lock, explain_errors(self.path_name):
            row = self._connection.execute("SELECT date FROM message WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            return None
        if fault := find_row_fault("message", {"date": row[0]}):
            raise self._damage_error(fault)
        date: int | None = row[0]
        return date

    def feature_reader(self) -> BundleReader:
        """Return a reader of the stored features of single messages, for use inside one transaction."""
        reader: BundleReader = _bundle_tables().BundleReader(self._connection)
        return reader

    def message_features(
        self,
        *,
        guessed: bool = False,
        choose: Selection | None = None,
        at_hand: Mapping[bytes, FeatureKeys] | None = None,
    ) -> MessageFeatures:
        """Return the features of all messages that have stored ones; with guessed labels only if `guessed`.

        `choose` is given the columns of their labels, and returns the indices of those that are read.
        `at_hand` has stored features of some messages, by their digests: they need not be read.
        The result is a function of the set of remembered messages, their labels and their weights.
        """
        with self.snapshot():
            return self.read_chosen(self.choose_messages(guessed=guessed, choose=choose), at_hand)

    def choose_messages(self, *, guessed: bool = False, choose: Selection | None = None) -> list[MessageRow]:
        """Return the rows of those messages that `message_features` reads."""
        with self.snapshot():
            columns = [label.id for label in self.labels() if guessed or label.name not in GUESSED_LABELS]
            rows: list[MessageRow] = _bundle_tables().choose_messages(self._connection, columns, choose)
        return rows

    def read_chosen(
        self, rows: Sequence[MessageRow], at_hand: Mapping[bytes, FeatureKeys] | None = None
    ) -> MessageFeatures:
        """Return the features of messages that `choose_messages` returned in the same snapshot."""
        with self.snapshot():
            result: MessageFeatures = _bundle_tables().read_messages(self._connection, rows, at_hand or {})
        return result

    def entries(self) -> Iterator[Entry]:
        """Yield the journal, in the order of digests."""
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
        """Run the block as one transaction, visible only after its successful end."""
        with self._lock, transaction(self._connection, self.path_name):
            writer = Writer(self, self._connection)
            yield writer
            writer.finish()
        self._shrink_if_worthwhile()

    @contextmanager
    def postpone_checkpoints(self) -> Iterator[None]:
        """Let transactions inside only write SQLite's log, from which `checkpoint` copies to the file.

        What is in that log is as permanent as what is in the file.
        """
        with self._lock, explain_errors(self.path_name):
            (pages,) = self._connection.execute("PRAGMA wal_autocheckpoint").fetchone()
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        try:
            yield
        finally:
            with self._lock, explain_errors(self.path_name):
                self._connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")

    def checkpoint(self) -> None:
        """Copy what SQLite's log has to the file, as far as nobody reads older contents."""
        # The transactions are committed, whatever happens here; a damaged file is reported all the same.
        with (
            self._lock,
            explain_errors(self.path_name),
            suppress(sqlite3.OperationalError),
            reraise_interrupts(),
        ):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _shrink_if_worthwhile(self) -> None:
        """Return free space to the disk if it is more than 1000 pages and an eighth of the file."""
        # The transaction is committed. If another process holds a lock, a later transaction frees the space.
        # A damaged file is reported all the same: it may not be noticed before pages are moved.
        with explain_errors(self.path_name), suppress(sqlite3.OperationalError), reraise_interrupts():
            (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            if free > 1000 and free * 8 > pages:
                self.shrink()

    def shrink(self) -> None:
        """Return all free space to the disk. Do not wait for locks, which long readers may hold."""
        self._connection.execute("PRAGMA busy_timeout = 0")
        try:
            # `execute` would run one step, which frees one page.
            self._connection.executescript("PRAGMA incremental_vacuum")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")


class Writer:
    """The changes that are possible inside a transaction."""

    def __init__(self, store: Store, connection: sqlite3.Connection) -> None:
        self._store = store
        self._connection = connection
        self._sources: dict[str, int] = {}
        self._columns = {label.name: label.id for label in store.labels()}
        self._gained: dict[str, list[int]] = {}  # label → change of its weight and of its messages
        self._changed_bundles: set[int] = set()  # bundles with features of messages that were removed
        self._has_new_bundles = False

    def finish(self) -> None:
        """Write what is written once per transaction, which may have thousands of messages.

        A transaction calls this at its end. Call it earlier to read the totals within the transaction.
        """
        self._write_totals()
        if self._changed_bundles or self._has_new_bundles:
            _bundle_tables().tidy(self._connection, self._changed_bundles)
        self._changed_bundles.clear()
        self._has_new_bundles = False

    def _write_totals(self) -> None:
        weights = {label.name: label.weight for label in self._store.labels()} if self._gained else {}
        for label, (weight, messages) in self._gained.items():
            self._refuse_overflow(weights.get(label, 0) + weight)
            self._connection.execute(
                "UPDATE label SET weight = weight + ?, messages = messages + ? WHERE id = ?",
                (weight, messages, self.ensure_column(label)),
            )
        self._gained.clear()

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
            self._connection.execute("INSERT INTO label VALUES (?, ?, 0, 0, 0, 0)", (column, label))
            self._columns[label] = column
        return self._columns[label]

    def record(self, *entries: Entry) -> None:
        """Add new messages to the journal."""
        rows = []
        for entry in entries:
            for name, weight in entry.label_weights:
                self._add_to_totals(name, weight, int(name == entry.label))
            rows.append(
                (
                    entry.digest,
                    self.ensure_column(entry.label),
                    entry.weight,
                    entry.other_weight,
                    entry.token_version,
                    entry.prunings,
                    self._source_id(entry.source),
                    entry.time,
                )
            )
        self._connection.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def remove(self, digest: bytes) -> None:
        """Remove a message from the journal, and its stored features, if it is there."""
        if self._remove_entry(digest):
            row = self._connection.execute(
                "SELECT bundle FROM message WHERE digest = ?", (digest,)
            ).fetchone()
            if row is not None:
                self._changed_bundles.update(id for id in row if id is not None)
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
        """Store packed features of messages of the journal (None if they are too many), and their dates."""
        bundle = None
        if packed is not None:
            bundle = self._connection.execute(
                "INSERT INTO bundle (messages, data) VALUES (?, ?)", (len(digests), packed)
            ).lastrowid
            self._has_new_bundles = True
        self._connection.executemany(
            "INSERT INTO message VALUES (?, ?, ?, ?) "
            "ON CONFLICT (digest) DO UPDATE SET bundle = excluded.bundle, place = excluded.place",
            (
                (digest, bundle, place, date)
                for place, (digest, date) in enumerate(zip(digests, dates, strict=True))
            ),
        )

    def add(self, table: CountTable) -> None:
        """Add to the counts; the counts in `table` may be negative."""
        tables = _tables()
        sums = {label.id: label.features for label in self._store.labels()}
        totals = tables.column_sums(table.counts)
        for column, total in enumerate(totals):
            self._refuse_overflow(sums[column] + total)
            self._refuse_overflow(total)
        tables.add(self._connection, table)
        for column, total in enumerate(totals):
            if total:
                self._connection.execute(
                    "UPDATE label SET features = features + ? WHERE id = ?", (total, column)
                )

    def add_clipped(self, table: CountTable) -> None:
        """Add to the counts of a pruned store, and set sums that would be negative to zero."""
        self.add(_tables().clip(self._connection, table))

    def replace_coefficients(self, keys: FeatureKeys, values: NDArray[np.float64]) -> int:
        """Replace the coefficients of single features; return the bits of their shelves."""
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
        """Add a row to one of the lists of `schema.LISTS`; return False if its key is there."""
        places = ", ".join("?" * len(row))
        cursor = self._connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", tuple(row))
        return cursor.rowcount > 0

    def _refuse_overflow(self, total: int) -> None:
        if abs(total) >= MAX_COUNT:
            raise StoreError(
                f"the counts of the store {self._store.name} would be too large, because of many "
                "decays or wrong input: learn your mail into a new store"
            )

    def add_imported(self, label: str, weight: int) -> None:
        """Add the weight of messages that another filter had counted."""
        column = self.ensure_column(label)
        (lent,) = self._connection.execute("SELECT lent FROM label WHERE id = ?", (column,)).fetchone()
        self._refuse_overflow(lent + weight)
        self._connection.execute("UPDATE label SET lent = ? WHERE id = ?", (lent + weight, column))

    def _add_to_totals(self, label: str, weight: int, messages: int) -> None:
        gained = self._gained.setdefault(label, [0, 0])
        gained[0] += weight
        gained[1] += messages

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
