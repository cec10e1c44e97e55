"""The format of the counts on disk: sorted blocks of bytes (a log-structured merge tree, as explained here).

The counts are a sum of *runs*. A run is a sorted list of entries, written once and never changed. An entry is
the key of a feature (its number) with one count per label. Learning writes a small run, forgetting one with
negative counts, and reading adds the counts of all runs. Runs of similar size are merged: each generation has
at least `tables.RATIO` times the entries of the next younger one. So there are few runs, and the number of
times that an entry is rewritten grows only with the logarithm of the store's size.

A run is divided by the highest bits of the key into *shelves* of fewer than 128 entries on average. Each is
one row of the table `shelf`: a verdict reads one small row per feature and run. Counts of 1, 2, 4 and 8 bytes
are in separate runs, so that in a large run most entries of two labels have 6 bytes: four of the key, and one
per count. experiments/0006-store compares this with one row per feature (a B-tree with the feature as its
key).
"""

import sqlite3
import struct
from bisect import bisect_left
from collections.abc import Iterable

from tamis_mail.features import KEY_BITS
from tamis_mail.records import record
from tamis_mail.schema import MAX_RUNS, find_row_fault
from tamis_mail.store.database import StoreError

_ENTRY_BYTES = 5  # of the smallest entry: four bytes of a key and a count of one byte
_UNCHECKED_ENTRIES = 1 << 20  # if the rows of runs name more, the number is compared with the file's size
_BISECT_BYTES = 1 << 14  # longer shelves are searched by bisection; a typical one has 100 to 1,300 bytes
WIDTHS = {1: "b", 2: "h", 4: "i", 8: "q"}  # bytes of a count → its format in `struct`


@record(frozen=True, slots=True)
class Run:
    """One row of the table `run`."""

    id: int
    generation: int
    start: int  # the number (row id) of its first shelf
    bits: int  # it has 2**bits shelves
    width: int  # bytes of a count
    labels: int  # the number of counts of an entry, one per label
    entries: int

    @property
    def shift(self) -> int:
        """The number of low bits of a key that an entry stores. The other bits are the shelf's number."""
        return KEY_BITS - self.bits

    @property
    def format(self) -> str:
        """The format of an entry for `struct` and NumPy."""
        return ("I" if self.shift <= 32 else "Q") + WIDTHS[self.width] * self.labels


def all_runs(connection: sqlite3.Connection) -> list[Run]:
    """List all runs, the oldest first; raise StoreError for a run that is damaged."""
    rows = connection.execute("SELECT * FROM run ORDER BY generation, id LIMIT ?", (MAX_RUNS + 1,))
    runs = [Run(*row) for row in rows]
    faults = [find_row_fault("run", {name: getattr(run, name) for name in Run.__slots__}) for run in runs]
    faults += [
        f"run {run.id} has counts of {run.width} bytes, expected 1, 2, 4 or 8"
        for run, fault in zip(runs, faults, strict=True)
        if fault is None and run.width not in WIDTHS
    ]
    if len(runs) > MAX_RUNS:
        faults.append(f"there are more than {MAX_RUNS} runs")
    if not any(faults) and (entries := sum(run.entries for run in runs)) > _UNCHECKED_ENTRIES:
        (file_bytes,) = connection.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        ).fetchone()
        # The counts are read in slices, whose number is proportional to the claimed entries.
        if entries * _ENTRY_BYTES > file_bytes:
            faults.append(
                f"its runs claim {entries} entries, more than a file of {file_bytes} bytes can hold"
            )
    for fault in filter(None, faults):
        raise damage_error(fault)
    return runs


def damage_error(fault: str) -> StoreError:
    """Make the error for invalid counts."""
    return StoreError(f"the store's counts are damaged ({fault}): restore a backup (tamis store restore)")


def look_up(connection: sqlite3.Connection, keys: Iterable[int], labels: int) -> dict[int, list[int]]:
    """Return the counts of each key, zeros if it is unknown, without NumPy, for the keys of one message."""
    sorted_keys = sorted(keys)
    counts: dict[int, list[int]] = {key: [0] * labels for key in sorted_keys}
    for run in all_runs(connection):
        refuse_more_labels(run, labels)
        shift, low_bits = run.shift, (1 << run.shift) - 1
        rows = read_shelves(connection, run, {run.start + (key >> shift) for key in sorted_keys})
        entry = struct.Struct("<" + run.format)
        size, key_size = entry.size, struct.calcsize("<" + run.format[0])
        for key in sorted_keys:
            data = rows.get(run.start + (key >> shift))
            if data is None:
                continue
            # A search of the bytes of a short shelf is ten times as fast as a bisection of its entries. If it
            # finds a place that is not the beginning of an entry, it goes on.
            pattern = (key & low_bits).to_bytes(key_size, "little")
            if len(data) > _BISECT_BYTES:
                offset = _bisect(data, size, key_size, key & low_bits)
            else:
                offset = data.find(pattern)
                while offset > 0 and offset % size:
                    offset = data.find(pattern, offset + 1)
            if offset >= 0:
                total = counts[key]
                for column, count in enumerate(entry.unpack_from(data, offset)[1:]):
                    total[column] += count
    return counts


def refuse_more_labels(run: Run, labels: int) -> None:
    """Raise StoreError for a run with more labels than the store."""
    if run.labels > labels:
        raise damage_error(f"run {run.id} has {run.labels} labels, the store {labels}")


def _bisect(data: bytes, size: int, key_size: int, key: int) -> int:
    """Return the offset in bytes of the entry of a key among sorted entries; -1 if there is none."""
    index = bisect_left(
        range(len(data) // size),
        key,
        key=lambda entry: int.from_bytes(data[entry * size : entry * size + key_size], "little"),
    )
    is_there = data[index * size : index * size + key_size] == key.to_bytes(key_size, "little")
    return index * size if is_there else -1


def read_shelves(connection: sqlite3.Connection, run: Run, numbers: Iterable[int]) -> dict[int, bytes]:
    """Return the bytes of those shelves of a run with these numbers that exist."""
    rows = fetch_shelves(connection, "shelf", numbers)
    refuse_cut_off(run, rows.values())
    return rows


def fetch_shelves(connection: sqlite3.Connection, table: str, numbers: Iterable[int]) -> dict[int, bytes]:
    """Return the `data`, which may be damaged, of those rows of a table with these ids that exist."""
    numbers_json = str(sorted(numbers))  # Python prints a list of integers as JSON
    query = f"SELECT id, data FROM {table} WHERE id IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(query, (numbers_json,)))


def scan_shelves(
    connection: sqlite3.Connection, run: Run, low: int = 0, high: int = 1 << KEY_BITS
) -> sqlite3.Cursor:
    """Read the numbers and bytes of the shelves of a run that hold the entries with low <= key < high."""
    return connection.execute(
        "SELECT id, data FROM shelf WHERE id BETWEEN ? AND ? ORDER BY id",
        (run.start + (low >> run.shift), run.start + (high - 1 >> run.shift)),
    )


def choose_bits(entries: int, few_entries: int) -> int:
    """Choose b for 2**b shelves: from 128 entries on, these have 64 to 127 entries each, on average.

    From `few_entries` on, b is at least 16, so that an entry stores four bytes of its key instead of eight. A
    shelf may then have fewer than 64 entries.
    """
    return max(0 if entries < few_entries else 16, entries.bit_length() - 7)


def refuse_cut_off(run: Run, shelves: Iterable[object]) -> None:
    """Raise StoreError for a shelf that ends within an entry."""
    size = struct.calcsize("<" + run.format)
    for data in shelves:
        if not isinstance(data, bytes) or len(data) % size:
            raise damage_error(f"a shelf of run {run.id} is cut off")
