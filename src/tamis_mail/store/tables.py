"""Read counts from the runs of a store as arrays, and write arrays of counts as new runs."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.compiled import core
from tamis_mail.features import KEY_BITS
from tamis_mail.features.arrays import find_firsts, find_keys
from tamis_mail.records import record
from tamis_mail.store.runs import (
    WIDTHS,
    Run,
    all_runs,
    choose_bits,
    damage_error,
    read_shelves,
    refuse_cut_off,
    refuse_more_labels,
    scan_shelves,
)

FeatureKeys = NDArray[np.uint64]  # keys of features
Counts = NDArray[np.int64]
# What a message adds to the counts of each of its features: pairs of a label's column and a weight.
Change = tuple[tuple[int, int], ...]

RATIO = 3  # a generation has at least so many times the entries of the next younger one
# A run of so many entries, or more, has at least 2**16 shelves, and keys take 4 bytes (`choose_bits`).
_SMALL_RUN = 1 << 20
# When runs are merged, at most so many entries of so many labels are in memory; with more labels, fewer.
_SLICE_ENTRIES, _SLICE_LABELS = 1 << 21, 4
_EXACT_BOUND = 2.0**62.5  # if a sum in float64 is below this, the same sum of integers fits into 64 bits
_MAX_SLICES = 1 << 14  # enough for 3 * 10**10 entries; a damaged store may claim more


@record(frozen=True, slots=True)
class CountTable:
    """An array of counts: keys of features in ascending order, with one count per label for each.

    It is not a table of the database. A feature that is absent has counts of zero.
    """

    keys: FeatureKeys  # (entries,)
    counts: Counts  # (entries, labels)

    @classmethod
    def total(cls, tables: Sequence["CountTable"], labels: int) -> "CountTable":
        """Sum tables, whose keys need not ascend, and drop features whose counts are all zero."""
        tables = [table for table in tables if len(table.keys)]
        if not tables:
            return cls(np.empty(0, np.uint64), np.empty((0, labels), np.int64))
        if len(tables) == 1 and tables[0].is_total(labels):
            return tables[0]
        keys = np.concatenate([table.keys for table in tables])
        counts = np.zeros((len(keys), labels), np.int64)
        row = 0
        for table in tables:
            counts[row : row + len(table.keys), : table.counts.shape[1]] = table.counts
            row += len(table.keys)
        if core is not None:
            sizes = np.array([len(table.keys) for table in tables], np.int64)
            total = cls(np.empty_like(keys), np.empty_like(counts))
            entries = core.mail.sum_tables(keys, sizes, counts, total.keys, total.counts)
            if entries >= 0:  # -1 says that the keys of a table do not ascend, as in an imported list
                return cls(total.keys[:entries], total.counts[:entries])
        order = np.argsort(keys, kind="stable")  # fast, because it merges runs that are sorted
        keys, counts = keys[order], counts[order]
        firsts = find_firsts(keys)
        keys, counts = keys[firsts], np.add.reduceat(counts, firsts, axis=0)
        is_nonzero = _find_nonzero(counts)
        return cls(keys[is_nonzero], counts[is_nonzero])

    @classmethod
    def count_features(cls, keys: FeatureKeys) -> "CountTable":
        """Count the occurrences of each key, in one column."""
        keys = np.sort(keys)
        firsts = find_firsts(keys)
        return cls(keys[firsts], np.diff(firsts, append=len(keys))[:, np.newaxis])

    @classmethod
    def sum_messages(
        cls, features: Sequence[FeatureKeys], changes: Sequence[Change], labels: int
    ) -> "CountTable":
        """Sum what messages add to the counts: message i adds changes[i] to the counts of features[i]."""
        messages_by_change: dict[Change, list[int]] = defaultdict(list)
        for number, change in enumerate(changes):
            messages_by_change[change].append(number)
        tables = []
        for change, numbers in messages_by_change.items():
            table = cls.count_features(np.concatenate([features[number] for number in numbers]))
            tables.append(cls.multiply_change(table.keys, table.counts[:, 0], change, labels))
        return tables[0] if len(tables) == 1 else cls.total(tables, labels)

    @classmethod
    def multiply_change(
        cls, keys: FeatureKeys, messages: Counts, change: Change, labels: int
    ) -> "CountTable":
        """Return what messages that add `change` each add to the counts; messages[i] of them have keys[i]."""
        counts = np.zeros((len(keys), labels), np.int64)
        for column, weight in change:
            counts[:, column] += messages * weight
        return cls(keys, counts)

    def is_total(self, labels: int) -> bool:
        """Whether the keys ascend, no row of counts is all zero, and there are `labels` columns."""
        return (
            self.counts.shape[1] == labels
            and bool((self.keys[1:] > self.keys[:-1]).all())
            and bool(_find_nonzero(self.counts).all())
        )

    def slice_keys(self, low: int, high: int) -> "CountTable":
        """Return the entries with low <= key < high."""
        first, last = np.searchsorted(self.keys, np.array([low, high], np.uint64))
        return CountTable(self.keys[first:last], self.counts[first:last])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CountTable)
            and np.array_equal(self.keys, other.keys)
            and np.array_equal(self.counts, other.counts)
        )

    def __hash__(self) -> int:
        raise TypeError("a table is not hashable")


def _find_nonzero(counts: Counts) -> NDArray[np.bool_]:
    """(entries,): whether an entry has a count that is not zero."""
    is_nonzero = np.zeros(len(counts), bool)
    for column in counts.T:
        is_nonzero |= column != 0
    return is_nonzero


def add(connection: sqlite3.Connection, table: CountTable) -> None:
    """Add a table to the counts inside the open transaction, as a new generation that replaces small ones."""
    if not len(table.keys):
        return
    runs = all_runs(connection)
    generations: dict[int, int] = {}
    for run in runs:
        generations[run.generation] = generations.get(run.generation, 0) + run.entries
    entries = len(table.keys)
    merged_generations = set()
    for generation, size in sorted(generations.items(), reverse=True):
        if size >= RATIO * entries:
            break
        entries += size
        merged_generations.add(generation)
    old = [run for run in runs if run.generation in merged_generations]
    labels = max([table.counts.shape[1], *(run.labels for run in old)])

    def read_slice(low: int, high: int) -> CountTable:
        return CountTable.total(
            [sum_runs(connection, old, low, high, labels), table.slice_keys(low, high)], labels
        )

    rewrite(connection, old, read_slice, entries, labels)


def rewrite(
    connection: sqlite3.Connection,
    old: Sequence[Run],
    read_slice: Callable[[int, int], CountTable],
    entries: int,
    labels: int,
    progress: Callable[[float], None] | None = None,
) -> int:
    """Replace some runs by one generation, written in slices, so that memory stays small.

    `read_slice(low, high)` returns the new entries with low <= key < high; `entries` estimates their number
    in all slices. Return the number that was written.
    """
    generation = 1 + max((run.generation for run in all_runs(connection)), default=0)
    ranges = list(slices(entries, labels))
    writer = _Writer(connection, entries, labels, generation, has_one_slice=len(ranges) == 1)
    for low, high in ranges:
        writer.write(read_slice(low, high))
        if progress is not None:
            progress(high / (1 << KEY_BITS))
    remove(connection, old)
    return writer.close()


def clip(connection: sqlite3.Connection, table: CountTable) -> CountTable:
    """Return a table with negative counts reduced, so that adding it makes no count of the store negative."""
    (labels,) = connection.execute("SELECT count(*) FROM label").fetchone()
    table = CountTable.total([table], labels)
    counts = np.maximum(look_up(connection, table.keys, labels), 0)
    return CountTable.total([CountTable(table.keys, np.maximum(table.counts, -counts))], labels)


def remove(connection: sqlite3.Connection, old: Sequence[Run]) -> None:
    """Delete runs from the store."""
    for run in old:
        connection.execute(
            "DELETE FROM shelf WHERE id >= ? AND id < ?", (run.start, run.start + (1 << run.bits))
        )
        connection.execute("DELETE FROM run WHERE id = ?", (run.id,))


def slices(entries: int, labels: int) -> Iterator[tuple[int, int]]:
    """Yield ranges [low, high) that cover all keys, each with at most about _SLICE_ENTRIES entries."""
    counts = entries * max(labels, _SLICE_LABELS) // _SLICE_LABELS
    parts = min(1 << max(0, -(-counts // _SLICE_ENTRIES) - 1).bit_length(), _MAX_SLICES)
    step = (1 << KEY_BITS) // parts
    return ((part * step, (part + 1) * step) for part in range(parts))


def scan(connection: sqlite3.Connection, run: Run, low: int, high: int) -> CountTable:
    """Read the entries of a run with low <= key < high."""
    keys, counts = _decode_entries(scan_shelves(connection, run, low, high).fetchall(), run)
    return CountTable(keys, counts.astype(np.int64)).slice_keys(low, high)


def sum_runs(
    connection: sqlite3.Connection, runs: Sequence[Run], low: int, high: int, labels: int
) -> CountTable:
    """Sum the entries of runs with low <= key < high."""
    for run in runs:
        refuse_more_labels(run, labels)
    return CountTable.total([scan(connection, run, low, high) for run in runs], labels)


RunCache = dict[int, tuple[FeatureKeys, NDArray[np.signedinteger]]]  # id of a run → its keys and counts


def look_up(
    connection: sqlite3.Connection, keys: FeatureKeys, labels: int, cache: RunCache | None = None
) -> Counts:
    """(keys, labels): the counts of keys in ascending order, zeros for unknown keys.

    A run that is read completely is kept in the cache, if there is one. The cache is valid while nothing
    changes the store.
    """
    counts = np.zeros((len(keys), labels), np.int64)
    for run in all_runs(connection):
        refuse_more_labels(run, labels)
        entries = None if cache is None else cache.get(run.id)
        if entries is None:
            shifted = keys >> np.uint64(run.shift)  # the numbers of shelves, from 0
            numbers = shifted[find_firsts(shifted)]
            if len(numbers) > 1 << run.bits >> 2:
                rows = scan_shelves(connection, run).fetchall()
            else:
                shelves = read_shelves(connection, run, (numbers + np.uint64(run.start)).tolist())
                rows = sorted(shelves.items())
            entries = _decode_entries(rows, run)
            if cache is not None and len(entries[0]) == run.entries:
                cache[run.id] = entries
        add_counts(*entries, keys, counts)
    return counts


def add_counts(
    stored: FeatureKeys, stored_counts: NDArray[np.signedinteger], keys: FeatureKeys, counts: Counts
) -> None:
    """Add to `counts` the stored counts of `keys`; both arrays of keys are in ascending order."""
    if core is None:
        is_present, places = find_keys(stored, keys)
        counts[is_present, : stored_counts.shape[1]] += stored_counts[places]
    else:
        core.mail.add_counts(stored, stored_counts, keys, counts)


def find_faults(connection: sqlite3.Connection, run: Run) -> tuple[list[str], float]:
    """Return the faults of the shelves of a run, and the sum of the absolute values of its counts.

    If the sum over all runs is below 2**63, adding the runs cannot overflow.
    """
    entry_type = _make_entry_type(run)
    size = entry_type.itemsize
    magnitude = 0.0
    numbers = Counter[str]()  # of each kind of fault
    entries = 0
    rows = scan_shelves(connection, run)
    while batch := rows.fetchmany(4096):
        complete = [data for _, data in batch if isinstance(data, bytes) and data and not len(data) % size]
        records = np.frombuffer(b"".join(complete), entry_type)
        keys = records["key"].astype(np.uint64)
        magnitude += float(np.abs(records["counts"].astype(np.float64)).sum())
        shelf_of_entry = np.repeat(np.arange(len(complete)), [len(data) // size for data in complete])
        is_same_shelf = shelf_of_entry[1:] == shelf_of_entry[:-1]
        entries += len(keys)
        numbers["shelves that are cut off"] += len(batch) - len(complete)
        numbers["entries on a wrong shelf"] += int(np.count_nonzero(keys >> np.uint64(run.shift)))
        numbers["entries out of order"] += int(np.count_nonzero((keys[1:] <= keys[:-1]) & is_same_shelf))
    faults = [f"run {run.id} has {number} {kind}" for kind, number in numbers.items() if number]
    if entries != run.entries:
        faults.append(f"run {run.id} has {entries} entries, and should have {run.entries}")
    return faults, magnitude


def column_sums(counts: Counts) -> list[int]:
    """Return the sum of each column, rounded if it exceeds 64 bits."""
    # Column by column: NumPy takes ten times as long for counts.sum(axis=0) of a long array.
    exact_sums = [int(column.sum()) for column in counts.T]
    rounded_sums = [float(column.sum(dtype=np.float64)) for column in counts.T]
    return [
        exact if abs(rounded) < _EXACT_BOUND else int(rounded)
        for exact, rounded in zip(exact_sums, rounded_sums, strict=True)
    ]


def _decode_entries(
    rows: Sequence[tuple[int, bytes]], run: Run
) -> tuple[FeatureKeys, NDArray[np.signedinteger]]:
    """Return the keys (entries,) and the counts (entries, labels) of shelves."""
    refuse_cut_off(run, [data for _, data in rows])
    # A damaged database can return rows that the condition of the query excludes.
    if any(not 0 <= number - run.start < 1 << run.bits for number, _ in rows):
        raise damage_error(f"a shelf of run {run.id} is out of place")
    records = np.frombuffer(b"".join(data for _, data in rows), _make_entry_type(run))
    sizes = [len(data) // records.itemsize for _, data in rows]
    high_bits = np.array([number - run.start for number, _ in rows], np.uint64) << np.uint64(run.shift)
    return np.repeat(high_bits, sizes) | records["key"], np.ascontiguousarray(records["counts"])


def find_widths(counts: Counts) -> NDArray[np.uint8]:
    """(entries,): the smallest of WIDTHS (1, 2, 4 or 8 bytes) into which all counts of an entry fit."""
    widths = np.full(len(counts), max(WIDTHS), np.uint8)
    if core is not None:
        core.mail.find_widths(counts, widths)
        return widths
    largest = np.zeros(len(counts), np.int64)
    for column in counts.T:
        # count ^ (count >> 63) is the count or, if it is negative, -1 - count.
        np.maximum(largest, column ^ (column >> 63), out=largest)
    for width in sorted(WIDTHS, reverse=True)[1:]:
        widths[largest < 1 << 8 * width - 1] = width
    return widths


def encode_entries(
    run: Run, table: CountTable, widths: NDArray[np.uint8], entries: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Encode those entries of a table that have the width of a run; `entries` is their number.

    Return the bytes of all shelves, the number of each shelf, counted from the run's first one, and where the
    bytes of each shelf end.
    """
    entry_type = _make_entry_type(run)
    if core is not None:
        data = np.empty(entries * entry_type.itemsize, np.uint8)
        numbers, ends = np.empty(entries, np.int64), np.empty(entries, np.int64)
        n_shelves = core.mail.encode_entries(
            table.keys, table.counts, widths, run.width, run.shift, data, numbers, ends
        )
        return data, numbers[:n_shelves], ends[:n_shelves]
    places = np.flatnonzero(widths == run.width)
    keys = table.keys[places]
    records = np.empty(len(keys), entry_type)
    records["key"] = keys & np.uint64((1 << run.shift) - 1)
    records["counts"] = table.counts[places]
    numbers = (keys >> np.uint64(run.shift)).astype(np.int64)
    firsts = find_firsts(numbers)
    ends = np.append(firsts[1:], len(numbers)) * entry_type.itemsize
    return np.frombuffer(records.tobytes(), np.uint8), numbers[firsts], ends


def _make_entry_type(run: Run) -> np.dtype[np.void]:
    return np.dtype([("key", f"<{run.format[0]}"), ("counts", f"<{WIDTHS[run.width]}", (run.labels,))])


class _Writer:
    """Writes the runs of one generation, one for each width of counts, slice by slice.

    The number of shelves of each run is chosen before its first entry is written. If there is one slice, the
    number of entries of each width is known then, and a run of few entries gets few shelves, which a verdict
    reads faster. If there are several slices, each run gets as many shelves as if it had all entries.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        entries: int,
        labels: int,
        generation: int,
        *,
        has_one_slice: bool,
    ) -> None:
        self._connection = connection
        self._generation, self._labels = generation, labels
        self._entries = dict.fromkeys(WIDTHS, 0)  # width → the number of entries that were written
        self._runs = {} if has_one_slice else self._plan_runs(dict.fromkeys(WIDTHS, entries))

    def _plan_runs(self, entries: dict[int, int]) -> dict[int, Run]:
        """Choose the shelves of the runs, given the number of entries of each width."""
        (start,) = self._connection.execute(
            "SELECT coalesce(max(start + (1 << bits)), 0) FROM run"
        ).fetchone()
        runs = {}
        for width, number in entries.items():  # an empty shelf has no row
            bits = choose_bits(number, _SMALL_RUN)
            runs[width] = Run(0, self._generation, start, bits, width, self._labels, 0)
            start += 1 << bits
        return runs

    def write(self, table: CountTable) -> None:
        """Write entries whose keys are above all previous ones."""
        widths = find_widths(table.counts)
        sizes = np.bincount(widths, minlength=max(WIDTHS) + 1).tolist()
        entries = {width: sizes[width] for width in WIDTHS}
        if not self._runs:
            self._runs = self._plan_runs(entries)
        for width, run in self._runs.items():
            if entries[width]:
                self._write_run(run, table, widths, entries[width])

    def _write_run(self, run: Run, table: CountTable, widths: NDArray[np.uint8], entries: int) -> None:
        self._entries[run.width] += entries
        encoded, numbers, ends = encode_entries(run, table, widths, entries)
        data = encoded.data
        rows = zip((numbers + run.start).tolist(), [0, *ends[:-1].tolist()], ends.tolist(), strict=True)
        self._connection.executemany(
            "INSERT INTO shelf VALUES (?, ?) "
            "ON CONFLICT (id) DO UPDATE SET data = CAST(data || excluded.data AS BLOB)",
            ((number, data[begin:end]) for number, begin, end in rows),
        )

    def close(self) -> int:
        """Write the rows of the runs that have entries; return the number of all entries."""
        for width, run in self._runs.items():
            if self._entries[width]:
                self._connection.execute(
                    "INSERT INTO run (generation, start, bits, width, labels, entries) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (run.generation, run.start, run.bits, width, run.labels, self._entries[width]),
                )
        return sum(self._entries.values())
