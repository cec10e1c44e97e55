"""Maintenance of a store: status, check, decay, compaction, pruning and merging.

Each operation is one transaction: after a crash it is complete, or has no effect. Processes that read
meanwhile see the previous state. `decay` and `merge` delete the fitted weights, and so do `prune` and `drop`
if they drop any features: `Sieve.fit_weights` fits them again.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import KEY_BITS
from tamis_mail.labels import GUESS_UNITS, GUESSED_LABELS, Label
from tamis_mail.schema import (
    LISTS,
    MAX_COUNT,
    MAX_DECAYS,
    TABLES,
    find_row_fault,
    find_setting_fault,
    parse_weights,
)
from tamis_mail.store import bundle_arrays, bundle_tables, bundles, coefficient_arrays, people, runs, tables
from tamis_mail.store.database import StoreError, refuse_other_schema, reraise_interrupts
from tamis_mail.store.people import PeopleCounts
from tamis_mail.store.store import Entry, Store, Writer
from tamis_mail.store.tables import CountTable, FeatureKeys

Progress = Callable[[float], None]  # called with the completed share of the work, from 0 to 1
# A function that returns for each entry of a table whether it is selected.
EntrySelection = Callable[[CountTable, Sequence[Label]], NDArray[np.bool_]]

_MIN_DATES = 10  # with fewer messages of a known date, no period (of `Status`) is computed
_OUTERMOST = 0.05  # fraction of messages at each end that a period excludes, because clocks may be wrong
_MERGE_MESSAGES = 5000  # messages whose features are in memory at once in a merge
_MAX_FAULTS = 20  # faults of one kind that are listed


@dataclass(frozen=True, slots=True)
class Status:
    """The numbers that describe the contents of a store."""

    labels: list[Label]
    messages: int
    entries: int  # features with nonzero counts
    bytes: int  # on disk
    decays: int  # how often the store was decayed
    prunings: int  # how often the store was pruned
    versions: list[int]  # of the tokens
    last: int | None  # when a message was last learned, in seconds since 1970; None if none was
    sources: list[tuple[str, int]]  # mailboxes and their numbers of messages, largest first
    # The dates, in seconds since 1970, between which at least nine tenths of the spam was sent, and those of
    # the other mail, by the dates in the headers; None if fewer than ten dates are known.
    spam_period: tuple[int, int] | None
    wanted_period: tuple[int, int] | None
    people: PeopleCounts
    # The numbers of spam and ham messages that the imported word list counts; None if there is no list.
    word_list: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class PruningSummary:
    """The result of pruning."""

    dropped: int  # features
    kept: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class MergeSummary:
    """The result of a merge."""

    added: int  # messages that only the other store had
    shared: int  # messages that both stores had
    differing: int  # messages that had another label in each store, of which one was kept


def status(store: Store, sources: int = 10) -> Status:
    """Describe the contents of a store in numbers, with its largest `sources`."""
    connection = store.connection
    with store.snapshot():
        messages, last = connection.execute("SELECT count(*), max(time) FROM journal").fetchone()
        most_common = connection.execute(
            "SELECT source.name, count(*) AS number FROM journal JOIN source ON source.id = journal.source "
            "GROUP BY source.id ORDER BY number DESC, source.name LIMIT ?",
            (sources,),
        ).fetchall()
        if last is not None and not TABLES["journal"]["time"].accepts(last):
            raise StoreError(
                f"the store {store.name} is damaged (a time is {last!r:.40}): see tamis store check"
            )
        return Status(
            labels=store.labels(),
            messages=messages,
            # Runs may have several entries of a feature, also some whose sum is zero.
            entries=sum(int(np.count_nonzero(table.counts.any(axis=1))) for table in store.count_slices()),
            bytes=_count_bytes(store),
            decays=store.integer_setting("epoch"),
            prunings=store.prunings(),
            versions=versions(store),
            last=last,
            sources=[(str(name), number) for name, number in most_common],
            spam_period=_find_period(store, "label.name = 'spam'"),
            wanted_period=_find_period(store, "label.name NOT IN ('spam', 'spam?', 'ham?')"),
            people=people.count_people(store),
            word_list=store.word_list_totals(),
        )


def _find_period(store: Store, condition: str) -> tuple[int, int] | None:
    """Return the first and last date of the messages that meet a condition, except the outermost messages."""
    rows = store.connection.execute(
        "SELECT date FROM message JOIN journal USING (digest) JOIN label ON label.id = journal.label "
        f"WHERE date IS NOT NULL AND {condition} ORDER BY date"
    ).fetchall()
    dates = [date for (date,) in rows if TABLES["message"]["date"].accepts(date)]
    if len(dates) < _MIN_DATES:
        return None
    outermost = int(len(dates) * _OUTERMOST)
    return dates[outermost], dates[-1 - outermost]


def versions(store: Store) -> list[int]:
    """Return the versions of the tokens that are counted, by the journal and the imports."""
    with store.snapshot():
        rows = store.connection.execute(
            "SELECT DISTINCT version FROM journal WHERE typeof(version) = 'integer'"
        )
        numbers = {version for (version,) in rows}
        if store.setting("tokens") is not None:
            numbers.add(store.integer_setting("tokens"))
    return sorted(numbers)


def decay(store: Store) -> int:
    """Halve the weight of everything learned so far; return the number of decays."""
    with store.transaction() as writer:
        decays = store.integer_setting("epoch") + 1
        if decays > MAX_DECAYS:
            raise StoreError(
                f"the store {store.name} was decayed {MAX_DECAYS} times, the maximum: "
                "learn your mail again into a new store"
            )
        writer.write_setting("epoch", decays)
        writer.drop_weights()
    return decays


def compact(store: Store, progress: Progress | None = None) -> int:
    """Merge runs into one generation, combine bundles, and shrink the file; return its size in bytes.

    The file shrinks later if another process is reading or writing.
    """
    with store.transaction():
        # The name of a source whose messages were all forgotten is deleted, too.
        store.connection.execute("DELETE FROM source WHERE id NOT IN (SELECT source FROM journal)")
        bundle_tables.combine_all(store.connection)
        all_runs = runs.all_runs(store.connection)
        if len({run.generation for run in all_runs}) > 1:
            _rewrite(store, lambda table, *_: table, progress)
    # SQLite reports Ctrl-C as an OperationalError, too; it is not suppressed.
    with suppress(sqlite3.OperationalError), reraise_interrupts():
        store.shrink()
    return _count_bytes(store)


def prune(store: Store, halvings: int = 1, progress: Progress | None = None) -> PruningSummary:
    """Drop features whose total weight over all labels is at most message_weight() / 2**halvings.

    With halvings=0, these are the features that were seen in one message (or in two messages before the last
    decay, or four before the last two decays, and so on); with 1, those that were seen in one message before
    the last decay (or in two messages before the last two decays). Verdicts may change, considerably if few
    messages were learned, because a feature that was seen once then changes the log-odds much.
    """
    if halvings < 0:
        raise ValueError(
            f"halvings is {halvings}: give 0 for all features seen once, 1 for those seen once before a decay"
        )
    max_weight = store.message_weight() * GUESS_UNITS >> halvings

    def select_rare(table: CountTable, labels: Sequence[Label]) -> NDArray[np.bool_]:
        is_guessed = np.array([label.name in GUESSED_LABELS for label in labels], bool)
        weight = np.minimum(table.counts[:, ~is_guessed].sum(axis=1), MAX_COUNT // GUESS_UNITS) * GUESS_UNITS
        is_rare: NDArray[np.bool_] = weight + table.counts[:, is_guessed].sum(axis=1) <= max_weight
        return is_rare

    return drop(store, select_rare, progress)


def drop(
    store: Store, select: EntrySelection, progress: Progress | None = None, *, has_effect: bool = True
) -> PruningSummary:
    """Drop the selected features from the counts and from the stored features of messages.

    So forgetting a message whose features are stored subtracts exactly what is left of it. A message whose
    features are not stored may have features that were dropped: in a store with `prunings() > 0`, subtract
    it by `Writer.add_clipped`, which makes no count negative. The fitted weights are deleted if any feature
    is dropped. With `has_effect` False, the caller says that these features hardly change verdicts, and the
    fitted weights stay.
    """
    before = _count_bytes(store)
    with store.transaction() as writer:
        labels = store.labels()
        dropped = np.zeros(len(labels), np.int64)
        dropped_keys = [np.empty(0, np.uint64)]
        features = 0

        def remove_selected(table: CountTable, *_: int) -> CountTable:
            nonlocal features, dropped
            is_dropped = select(table, labels)
            dropped += table.counts[is_dropped].sum(axis=0)
            dropped_keys.append(table.keys[is_dropped])
            features += int(np.count_nonzero(is_dropped))
            return CountTable(table.keys[~is_dropped], table.counts[~is_dropped])

        entries = _rewrite(store, remove_selected, progress)
        for label, total in zip(labels, dropped.tolist(), strict=True):
            store.connection.execute(
                "UPDATE label SET features = features - ? WHERE id = ?", (total, label.id)
            )
        if features:
            bundle_tables.drop_keys(store.connection, np.concatenate(dropped_keys))
            writer.write_setting("era", store.prunings() + 1)
            if has_effect:
                writer.drop_weights()
    # If another process is reading or writing, a later transaction or maintenance shrinks the file.
    with suppress(sqlite3.OperationalError), reraise_interrupts():
        store.shrink()
    return PruningSummary(features, entries, before, _count_bytes(store))


def merge(store: Store, other: Store, progress: Progress | None = None) -> MergeSummary:
    """Add the contents of another store.

    The counts are then those of the union of the journals: a message of both stores counts once, by the
    entry that `_is_preferred` chooses. If both stores list a sender, this store's decision stays. Merging the
    same store again changes no counts; it is refused if that store has counts of another filter.
    """
    if store.path.resolve() == other.path.resolve():
        raise StoreError(f"the store {store.name} cannot be merged with itself: give another one")
    with other.snapshot(), store.transaction() as writer:
        _refuse_other_tokens(store, other)
        connection = store.connection
        # The counts of the store with fewer decays are multiplied: a message then has one weight in both.
        message_weight = max(store.message_weight(), other.message_weight())
        own_factor = message_weight // store.message_weight()
        other_factor = message_weight // other.message_weight()
        for one, factor in ((store, own_factor), (other, other_factor)):
            largest = max(
                (max(label.features, label.weight, label.lent) for label in one.labels()), default=0
            )
            if largest * factor >= MAX_COUNT // 2:
                raise StoreError(
                    f"the store {one.name} has counts too large to be merged (they would be multiplied by "
                    f"{factor}): learn its mail into a new store, and merge that"
                )
        # For each label of the other store, its column in this store.
        columns = [writer.ensure_column(label.name) for label in other.labels()]
        connection.execute(
            "UPDATE journal SET weight = weight * ?, rest = rest * ?", (own_factor, own_factor)
        )
        connection.execute(
            "UPDATE label SET weight = weight * ?1, lent = lent * ?1, features = features * ?1", (own_factor,)
        )
        journals = _JournalUnion(store, other, writer, other_factor)
        summary = journals.add_all()
        for label in other.labels():
            writer.add_imported(label.name, label.lent * other_factor)
            connection.execute(
                "UPDATE label SET features = features + ? WHERE name = ?",
                (label.features * other_factor, label.name),
            )
        other_runs = runs.all_runs(other.connection)

        def add_slice(table: CountTable, low: int, high: int) -> CountTable:
            pieces = [CountTable(table.keys, table.counts * own_factor)]
            for run in other_runs:
                piece = tables.scan(other.connection, run, low, high)
                if (
                    len(piece.keys)
                    and max(int(piece.counts.max()), -int(piece.counts.min())) * other_factor >= MAX_COUNT
                ):
                    raise StoreError(
                        f"the store {other.name} has counts too large to be merged: see tamis store check"
                    )
                counts = np.zeros((len(piece.keys), writer.n_labels), np.int64)
                counts[:, columns[: run.labels]] = piece.counts * other_factor
                pieces.append(CountTable(piece.keys, counts))
            return CountTable.total(pieces, writer.n_labels)

        _rewrite(store, add_slice, progress, sum(run.entries for run in other_runs))
        writer.write_setting("epoch", message_weight.bit_length() - 1)
        writer.write_setting("era", max(store.prunings(), other.prunings()))
        journals.subtract_shared()
        for name, value in _list_imports(other).items():
            writer.write_setting(name, value)
        for table in LISTS:
            for row in other.connection.execute(f"SELECT * FROM {table} ORDER BY 1"):
                if fault := find_row_fault(table, dict(zip(TABLES[table], row, strict=True))):
                    raise StoreError(f"the store {other.name} is damaged ({fault}): see tamis store check")
                writer.add_row(table, row)
        people.recount_correspondents(store)
        writer.drop_weights()
    return summary


def _is_preferred(one: Entry, other: Entry) -> bool:
    """Whether `one` is kept, of two entries of one message whose weights are in the same units.

    A label that the user gave is preferred to a guessed one, then the later time of learning. The other
    fields are compared only so that the result does not depend on which store is merged into which.
    """

    def rank(entry: Entry) -> tuple[bool, int, str, int, int, str]:
        return (
            entry.label not in GUESSED_LABELS,
            entry.time,
            entry.label,
            entry.weight,
            entry.other_weight,
            entry.source,
        )

    return rank(one) >= rank(other)


class _JournalUnion:
    """Adds the journal and the stored features of another store, but not its counts, which the caller adds.

    Messages of both stores are then counted twice: `subtract_shared` subtracts one of their entries.
    """

    def __init__(self, store: Store, other: Store, writer: Writer, factor: int) -> None:
        self._store = store
        self._other = other
        self._writer = writer
        self._factor = factor  # by which the weights of the other store are multiplied
        self._is_unpruned = not store.prunings() and not other.prunings()
        self._subtractions: list[CountTable] = []
        self._added = self._shared = self._differing = 0  # numbers of messages, as in `MergeSummary`
        self._inseparable = 0  # shared messages of which no entry can be subtracted

    def add_all(self) -> MergeSummary:
        """Add the messages of the other store to the journal, with their features."""
        # In the order of bundles, because messages that were learned together share many features.
        digests = [
            digest
            for (digest,) in self._other.connection.execute(
                "SELECT digest FROM journal LEFT JOIN message USING (digest) ORDER BY bundle, place, digest"
            )
        ]
        for start in range(0, len(digests), _MERGE_MESSAGES):
            self._add_batch(digests[start : start + _MERGE_MESSAGES])
        if self._inseparable:
            raise StoreError(
                f"{self._inseparable} messages of {self._other.name} are in {self._store.name} too, were "
                "learned by an older tamis without their features, and would count twice: "
                "forget them in one of the two, then merge"
            )
        return MergeSummary(self._added, self._shared, self._differing)

    def _add_batch(self, digests: Sequence[bytes]) -> None:
        features = self._other.feature_reader().find_many(digests)
        own_features = self._store.feature_reader().find_many(digests)
        new: list[tuple[bytes, int | None, FeatureKeys | None]] = []  # digest, date, features
        subtracted: list[tuple[FeatureKeys, tuple[tuple[int, int], ...]]] = []
        for digest, keys, own_keys in zip(digests, features, own_features, strict=True):
            entry = self._other.find_entry(digest)
            if entry is None:
                raise StoreError(f"the store {self._other.name} is damaged: see tamis store check")
            entry = replace(
                entry, weight=entry.weight * self._factor, other_weight=entry.other_weight * self._factor
            )
            date = self._other.find_date(digest)
            own = self._store.find_entry(digest)
            if own is None:
                self._added += 1
                self._writer.record(entry)
                new.append((digest, date, keys))
                continue
            self._shared += 1
            self._differing += own.label != entry.label
            is_own_kept = _is_preferred(own, entry)
            kept, kept_keys, dropped, dropped_keys = (
                (own, own_keys, entry, keys) if is_own_kept else (entry, keys, own, own_keys)
            )
            if self._is_unpruned:  # then both stores have counted the same features of the message
                kept_keys = dropped_keys if kept_keys is None else kept_keys
                dropped_keys = kept_keys if dropped_keys is None else dropped_keys
            if dropped_keys is None:
                self._inseparable += 1
                continue
            change = tuple(
                (self._writer.ensure_column(name), -weight) for name, weight in dropped.label_weights
            )
            subtracted.append((dropped_keys, change))
            if not is_own_kept or (own_keys is None and kept_keys is not None):
                date = self._store.find_date(digest) if date is None else date
                self._writer.remove(digest)
                self._writer.record(kept)
                new.append((digest, date, kept_keys))
        self._store_features(new)
        if subtracted:
            keys_sum_messages, changes = zip(*subtracted, strict=True)
            self._subtractions.append(
                CountTable.sum_messages(keys_sum_messages, changes, self._writer.n_labels)
            )

    def _store_features(self, messages: Sequence[tuple[bytes, int | None, FeatureKeys | None]]) -> None:
        for digest, date, keys in messages:
            if keys is None and date is not None:
                self._writer.store_features([digest], None, [date])
        stored = [(digest, date, keys) for digest, date, keys in messages if keys is not None]
        for begin, end in bundles.divide([len(keys) for *_, keys in stored]):
            digests, dates, features = zip(*stored[begin:end], strict=True)
            packed = bundle_arrays.pack(bundle_arrays.Bundle.of(features))
            self._writer.store_features(digests, packed, dates)

    def subtract_shared(self) -> None:
        """Subtract the counts of those entries of shared messages that were not kept."""
        if self._subtractions:
            total = CountTable.total(self._subtractions, self._writer.n_labels)
            (self._writer.add if self._is_unpruned else self._writer.add_clipped)(total)


def _refuse_other_tokens(store: Store, other: Store) -> None:
    """Raise StoreError if the stores count tokens of different versions, or have the same import."""
    own_versions, other_versions = versions(store), versions(other)
    if own_versions and other_versions and own_versions != other_versions:
        older = store if max(own_versions) < max(other_versions) else other
        raise StoreError(
            f"{other.name} counts tokens of version {_format_versions(other_versions)}, and {store.name} of "
            f"version {_format_versions(own_versions)}, which are not the same words: learn the mail of "
            f"{older.name} again (tamis store upgrade)"
        )
    shared_imports = sorted(
        name for name in _list_imports(store).keys() & _list_imports(other).keys() if name != "tokens"
    )
    if shared_imports:
        raise StoreError(
            f"{other.name} and {store.name} have both {shared_imports[0]}, "
            "which would count twice: import it into one of them only"
        )
    if store.word_list_totals() is not None and other.word_list_totals() is not None:
        raise StoreError(
            f"{other.name} and {store.name} both have a word list of another filter, and a store holds one: "
            "learn the mail of one of them again into a store without it, and merge that"
        )


def _format_versions(numbers: Sequence[int]) -> str:
    """Write versions of tokens for a message; a store that was made long ago may have several."""
    return " and ".join(map(str, numbers))


def _list_imports(store: Store) -> dict[str, str]:
    """Return the settings that record imports from other filters."""
    return dict(
        store.connection.execute("SELECT * FROM setting WHERE name = 'tokens' OR name LIKE 'imported %'")
    )


def _rewrite(
    store: Store,
    change: Callable[[CountTable, int, int], CountTable],
    progress: Progress | None,
    extra_entries: int = 0,
) -> int:
    """Rewrite all counts into one generation; return its number of entries.

    `change(table, low, high)` returns the new counts of the features with low <= key < high, given a table of
    their old ones. `extra_entries` estimates how many entries that adds.
    """
    connection = store.connection
    old = runs.all_runs(connection)
    labels = len(store.labels())

    def read_slice(low: int, high: int) -> CountTable:
        return change(tables.sum_runs(connection, old, low, high, labels), low, high)

    return tables.rewrite(
        connection, old, read_slice, sum(run.entries for run in old) + extra_entries, labels, progress
    )


def _count_bytes(store: Store) -> int:
    path = os.path.realpath(
        store.path
    )  # SQLite's write-ahead log is beside the file, not beside a link to it
    files = (Path(path), Path(f"{path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def check(store: Store, progress: Progress | None = None) -> list[str]:
    """List the faults of the store, one line per fault."""
    connection = store.connection
    try:
        with store.snapshot():
            faults = [
                f"SQLite: {' '.join(line.split())[:300]}"  # a report may have several lines
                for (line,) in connection.execute("PRAGMA integrity_check(20)")
                if line != "ok"
            ]
            refuse_other_schema(connection, store.path)
            if not faults:
                faults = _find_bad_values(connection)
            if not faults:
                all_runs, magnitude = runs.all_runs(connection), 0.0
                faults = (
                    _find_bad_references(connection)
                    + _compare_journal(store)
                    + people.find_faults(connection)
                )
                for run in all_runs:
                    run_faults, sum_of_counts = tables.find_faults(connection, run)
                    faults += run_faults
                    magnitude += sum_of_counts
                if magnitude >= 2 * MAX_COUNT:
                    faults.append(
                        f"the counts add up to about {magnitude:.1e}, expected less than {2 * MAX_COUNT:.1e}"
                    )
                faults += bundle_tables.find_faults(connection) + _find_bad_coefficients(store)
            if not faults:
                faults = _compare_sums(store, progress)
    except StoreError as error:
        faults = [str(error)]
    return faults


def _find_bad_values(connection: sqlite3.Connection) -> list[str]:
    """Find columns and settings with invalid values."""
    faults = []
    for table, columns in TABLES.items():
        conditions = {column: kind.make_fault_condition(column) for column, kind in columns.items()}
        numbers = connection.execute(
            f"SELECT {', '.join(f'total({condition})' for condition in conditions.values())} FROM {table}"
        ).fetchone()
        faults += [
            f"there are {number:.0f} rows where {table}.{column} is not {kind}"
            for (column, kind), number in zip(columns.items(), numbers, strict=True)
            if number
        ]
    if not faults:
        setting_faults = (
            find_setting_fault(*row) for row in connection.execute("SELECT name, value FROM setting")
        )
        faults = [fault for fault in setting_faults if fault][:_MAX_FAULTS]
    return faults


def _find_bad_coefficients(store: Store) -> list[str]:
    """Find faults of the coefficients that were fitted."""
    text = store.setting("weights")
    shelf_bits = parse_weights(text)[1] if text else 0  # 2**shelf_bits shelves hold the coefficients
    return coefficient_arrays.find_faults(store.connection, shelf_bits)


def _find_bad_references(connection: sqlite3.Connection) -> list[str]:
    """Find rows that refer to a missing row, and runs that overlap."""
    without_run = """SELECT count(*) FROM shelf WHERE NOT EXISTS
        (SELECT 1 FROM run WHERE shelf.id >= start AND shelf.id < start + (1 << bits))"""
    overlapping = """SELECT count(*) FROM run AS a JOIN run AS b ON a.id < b.id
        AND a.start < b.start + (1 << b.bits) AND b.start < a.start + (1 << a.bits)"""
    queries = {
        "shelves that belong to no run": without_run,
        "pairs of runs on the same shelves": overlapping,
        "messages without a label": "SELECT count(*) FROM journal WHERE label NOT IN (SELECT id FROM label)",
        "messages without a source": (
            "SELECT count(*) FROM journal WHERE source NOT IN (SELECT id FROM source)"
        ),
        "runs with more labels than the store": (
            "SELECT count(*) FROM run WHERE labels > (SELECT count(*) FROM label)"
        ),
        "features of messages that are not in the journal": (
            "SELECT count(*) FROM message WHERE digest NOT IN (SELECT digest FROM journal)"
        ),
        "messages whose bundle is missing": (
            "SELECT count(*) FROM message WHERE bundle IS NOT NULL AND bundle NOT IN (SELECT id FROM bundle)"
        ),
        "labels that are not numbered from 0": (
            "SELECT count(*) FROM label WHERE id < 0 OR id >= (SELECT count(*) FROM label)"
        ),
    }
    numbers = {fault: connection.execute(query).fetchone()[0] for fault, query in queries.items()}
    return [f"there are {number} {fault}" for fault, number in numbers.items() if number]


def _compare_journal(store: Store) -> list[str]:
    """Compare the totals of labels with the journal."""
    journal = dict.fromkeys([label.name for label in store.labels()], (0, 0))
    rows = store.connection.execute(
        "SELECT label.name, count(*), sum(journal.weight), sum(rest) "
        "FROM journal JOIN label ON label.id = journal.label GROUP BY label.id"
    )
    for name, messages, weight, other_weight in rows:
        journal[name] = (journal[name][0] + messages, journal[name][1] + weight)
        if name in GUESSED_LABELS and other_weight:
            other = GUESSED_LABELS[1 - GUESSED_LABELS.index(name)]
            journal[other] = (journal.get(other, (0, 0))[0], journal.get(other, (0, 0))[1] + other_weight)
    totals = {label.name: (label.messages, label.weight) for label in store.labels()}
    return [
        f"label {name!r} claims {_format_total(*totals.get(name, (0, 0)))}, and the journal has "
        f"{_format_total(*journal[name])}"
        for name in sorted(journal)
        if totals.get(name, (0, 0)) != journal[name]
    ]


def _format_total(messages: int, weight: int) -> str:
    return f"{messages} messages with the weight {weight}"


def _compare_sums(store: Store, progress: Progress | None) -> list[str]:
    """Check that counts are not negative, and that their sums agree with the labels and the messages."""
    labels = store.labels()
    features = np.zeros(len(labels), np.int64)
    negative_counts: list[str] = []
    negative_features = 0
    for table in store.count_slices():
        features += table.counts.sum(axis=0)
        rows = np.flatnonzero((table.counts < 0).any(axis=1))
        negative_features += len(rows)
        negative_counts += [
            f"feature {table.keys[row]:012x} has counts {table.counts[row].tolist()}"
            for row in rows[:_MAX_FAULTS]
        ]
        if progress is not None and len(table.keys):
            progress(float(table.keys[-1]) / (1 << KEY_BITS))
    faults = negative_counts[:_MAX_FAULTS]
    if negative_features > _MAX_FAULTS:
        faults.append(f"there are {negative_features} features with counts below zero")
    faults += [
        f"label {label.name!r} claims {label.features} features, and its counts add up to {total}"
        for label, total in zip(labels, features.tolist(), strict=True)
        if label.features != total
    ]
    return faults or compare_counts_with_features(store)


def compare_counts_with_features(store: Store) -> list[str]:
    """Compare the counts with the stored features of messages, if they must be the sum of these.

    Each key gets a pseudo-random number (`bundle_tables.fingerprint`). If the sums of these numbers are
    equal, the counts almost certainly are.
    """
    if not _has_all_features(store):
        return []
    labels, seed = store.labels(), secrets.randbits(64)
    count_sums = np.zeros(len(labels), np.uint64)
    for table in store.count_slices():
        fingerprints = bundle_tables.fingerprint(table.keys, seed)
        count_sums += (table.counts.astype(np.uint64) * fingerprints[:, np.newaxis]).sum(axis=0)
    message_sums = bundle_tables.sum_fingerprints(store.connection, labels, seed)
    return [
        f"the counts of label {label.name!r} are not the sum of the features of its messages"
        for label, count_sum, message_sum in zip(labels, count_sums.tolist(), message_sums, strict=True)
        if count_sum != message_sum
    ]


def _has_all_features(store: Store) -> bool:
    """Whether the counts must be the sum of the stored features of messages.

    They need not be if counts were imported or pruned, or if a message has no stored features.
    """
    messages, missing = store.connection.execute(
        "SELECT count(*), total(bundle IS NULL) FROM journal LEFT JOIN message USING (digest)"
    ).fetchone()
    is_changed = store.prunings() or any(label.lent for label in store.labels())
    return bool(messages and not missing and not is_changed)
