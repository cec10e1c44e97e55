"""Maintenance of a store: status, check, decay, compaction, pruning and merging.

Each operation is one transaction: after a crash it is complete, or has no effect. Processes that read
meanwhile see the previous state.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tamis_mail.labels import GUESS_UNITS, GUESSED_LABELS, Label
from tamis_mail.schema import MOST_EPOCHS, ROOM, TABLES
from tamis_mail.store import runs, tables
from tamis_mail.store.checking import Progress, check
from tamis_mail.store.database import StoreError, keep_interrupts
from tamis_mail.store.store import Store
from tamis_mail.store.tables import Table

__all__ = [
    "MOST_EPOCHS",
    "Progress",
    "Pruned",
    "Status",
    "check",
    "compact",
    "decay",
    "drop",
    "merge",
    "prune",
    "status",
    "versions",
]

Chosen = Callable[[Table, Sequence[Label]], NDArray[np.bool_]]  # selects entries of a table


@dataclass(frozen=True, slots=True)
class Status:
    """The contents of a store in numbers."""

    labels: list[Label]
    messages: int
    entries: int  # features with nonzero counts
    bytes: int  # on disk
    epoch: int  # number of decays
    era: int  # number of prunings
    versions: list[int]  # of the tokens
    last: int | None  # seconds since 1970 of the last learned message
    sources: list[tuple[str, int]]  # mailboxes and their numbers of messages, largest first


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of pruning."""

    dropped: int  # features
    kept: int
    bytes_before: int
    bytes_after: int


def status(store: Store, sources: int = 10) -> Status:
    """Return the contents of a store in numbers."""
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
                f"the store {store.path} is damaged (a time is {last!r:.40}): see tamis store check"
            )
        return Status(
            labels=store.labels(),
            messages=messages,
            # Runs contain entries whose sum is zero, and others several times.
            entries=sum(int(np.count_nonzero(table.counts.any(axis=1))) for table in store.tables()),
            bytes=_bytes(store),
            epoch=store.unit().bit_length() - 1,
            era=store.era(),
            versions=versions(store),
            last=last,
            sources=[(str(name), number) for name, number in most_common],
        )


def versions(store: Store) -> list[int]:
    """Return the versions of the counted tokens: of the journal, and of imported counts."""
    with store.snapshot():
        rows = store.connection.execute(
            "SELECT DISTINCT version FROM journal WHERE typeof(version) = 'integer'"
        )
        numbers = {version for (version,) in rows}
        if store.setting("tokens") is not None:
            numbers.add(store.number("tokens"))
    return sorted(numbers)


def decay(store: Store) -> int:
    """Halve the weight of everything learned so far; return the number of decays."""
    with store.transaction() as writer:
        epoch = store.unit().bit_length()
        if epoch > MOST_EPOCHS:
            raise StoreError(
                f"the store {store.path} was decayed {MOST_EPOCHS} times, the maximum: "
                "learn your mail again into a new store"
            )
        writer.set("epoch", epoch)
    return epoch


def compact(store: Store, progress: Progress | None = None) -> int:
    """Merge all runs into one generation, return free space to the disk, and return the size in bytes."""
    with store.transaction():
        # Sources of forgotten messages only; like their features, they leave no trace.
        store.connection.execute("DELETE FROM source WHERE id NOT IN (SELECT source FROM journal)")
        all_runs = runs.all_runs(store.connection)
        if len({run.generation for run in all_runs}) > 1:
            _rewrite(store, lambda table, *_: table, progress)
    with suppress(sqlite3.OperationalError), keep_interrupts():
        store.shrink()
    return _bytes(store)


def prune(store: Store, halvings: int = 1, progress: Progress | None = None) -> Pruned:
    """Drop features whose total weight over all labels is at most unit / 2**halvings.

    With halvings=1, these were seen once, before a decay; with 0, all that were seen once. Verdicts may
    change, considerably so if little was learned: a feature that was seen once has a large weight.
    """
    if halvings < 0:
        raise ValueError(
            f"halvings is {halvings}: give 0 for all features seen once, 1 for those seen once before a decay"
        )
    least = store.unit() * GUESS_UNITS >> halvings

    def stale(table: Table, labels: Sequence[Label]) -> NDArray[np.bool_]:
        guesses = np.array([label.name in GUESSED_LABELS for label in labels], bool)
        worth = np.minimum(table.counts[:, ~guesses].sum(axis=1), ROOM // GUESS_UNITS) * GUESS_UNITS
        is_stale: NDArray[np.bool_] = worth + table.counts[:, guesses].sum(axis=1) <= least
        return is_stale

    return drop(store, stale, progress)


def drop(store: Store, select: Chosen, progress: Progress | None = None) -> Pruned:
    """Drop the selected features.

    Counts of a message may then be missing: in a store with `era() > 0`, forget by `Writer.add_clipped`.
    """
    before = _bytes(store)
    with store.transaction() as writer:
        labels = store.labels()
        dropped = np.zeros(len(labels), np.int64)
        features = 0

        def remove_chosen(table: Table, *_: int) -> Table:
            nonlocal features, dropped
            is_dropped = select(table, labels)
            dropped += table.counts[is_dropped].sum(axis=0)
            features += int(np.count_nonzero(is_dropped))
            return Table(table.keys[~is_dropped], table.counts[~is_dropped])

        entries = _rewrite(store, remove_chosen, progress)
        for label, total in zip(labels, dropped.tolist(), strict=True):
            store.connection.execute(
                "UPDATE label SET features = features - ? WHERE id = ?", (total, label.id)
            )
        if features:
            writer.set("era", store.era() + 1)
    # If another process is reading or writing, a later operation returns the space.
    with suppress(sqlite3.OperationalError), keep_interrupts():
        store.shrink()
    return Pruned(features, entries, before, _bytes(store))


def merge(store: Store, other: Store, progress: Progress | None = None) -> int:
    """Add the contents of another store; return the number of its messages."""
    if store.path.resolve() == other.path.resolve():
        raise StoreError(f"the store {store.path} cannot be merged with itself: give another one")
    with other.snapshot(), store.transaction() as writer:
        _refuse_other_tokens(store, other)
        connection = store.connection
        unit = max(store.unit(), other.unit())
        own_factor, other_factor = unit // store.unit(), unit // other.unit()
        for one, factor in ((store, own_factor), (other, other_factor)):
            largest = max(
                (max(label.features, label.weight, label.lent) for label in one.labels()), default=0
            )
            if largest * factor >= ROOM // 2:
                raise StoreError(
                    f"the store {one.path} has counts too large to be merged, times {factor}: decay it less"
                )
        columns = [writer.column(label.name) for label in other.labels()]
        connection.execute(
            "UPDATE journal SET weight = weight * ?, rest = rest * ?", (own_factor, own_factor)
        )
        connection.execute(
            "UPDATE label SET weight = weight * ?1, lent = lent * ?1, features = features * ?1", (own_factor,)
        )
        messages = duplicates = 0
        for entry in other.entries():
            if store.find(entry.digest) is not None:
                duplicates += 1
            elif not duplicates:
                writer.record(
                    replace(entry, weight=entry.weight * other_factor, rest=entry.rest * other_factor)
                )
                messages += 1
        if duplicates:
            raise StoreError(
                f"{duplicates} messages of {other.path} are in {store.path} too, and would count twice: "
                "forget them in one of the two, then merge"
            )
        for label in other.labels():
            writer.add_imported(label.name, label.lent * other_factor)
            connection.execute(
                "UPDATE label SET features = features + ? WHERE name = ?",
                (label.features * other_factor, label.name),
            )
        other_runs = runs.all_runs(other.connection)

        def add_slice(table: Table, low: int, high: int) -> Table:
            pieces = [Table(table.keys, table.counts * own_factor)]
            for run in other_runs:
                piece = tables.scan(other.connection, run, low, high)
                if (
                    len(piece.keys)
                    and max(int(piece.counts.max()), -int(piece.counts.min())) * other_factor >= ROOM
                ):
                    raise StoreError(
                        f"the store {other.path} has counts too large to be merged: see tamis store check"
                    )
                counts = np.zeros((len(piece.keys), writer.width), np.int64)
                counts[:, columns[: run.labels]] = piece.counts * other_factor
                pieces.append(Table(piece.keys, counts))
            return Table.total(pieces, writer.width)

        _rewrite(store, add_slice, progress, sum(run.entries for run in other_runs))
        writer.set("epoch", unit.bit_length() - 1)
        writer.set("era", max(store.era(), other.era()))
        for name, value in _list_imports(other).items():
            writer.set(name, value)
    return messages


def _refuse_other_tokens(store: Store, other: Store) -> None:
    own_versions, other_versions = versions(store), versions(other)
    if own_versions and other_versions and own_versions != other_versions:
        raise StoreError(
            f"{other.path} counts tokens of version {other_versions}, {store.path} of version "
            f"{own_versions}: they are not the same words; learn the mail of one of them again"
        )
    shared_imports = sorted(
        name for name in _list_imports(store).keys() & _list_imports(other).keys() if name != "tokens"
    )
    if shared_imports:
        raise StoreError(
            f"{other.path} and {store.path} have both {shared_imports[0]}, "
            "which would count twice: import it into one of them only"
        )


def _list_imports(store: Store) -> dict[str, str]:
    """Return the settings that record imports from other filters."""
    return dict(
        store.connection.execute("SELECT * FROM setting WHERE name = 'tokens' OR name LIKE 'imported %'")
    )


def _rewrite(
    store: Store,
    change: Callable[[Table, int, int], Table],
    progress: Progress | None,
    extra_entries: int = 0,
) -> int:
    """Rewrite all counts into one generation, after a change of each slice."""
    connection = store.connection
    old = runs.all_runs(connection)
    labels = len(store.labels())

    def piece(low: int, high: int) -> Table:
        return change(tables.sum_runs(connection, old, low, high, labels), low, high)

    return tables.rewrite(
        connection, old, piece, sum(run.entries for run in old) + extra_entries, labels, progress
    )


def _bytes(store: Store) -> int:
    place = os.path.realpath(store.path)  # the log is beside the file, not beside a link
    files = (Path(place), Path(f"{place}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
