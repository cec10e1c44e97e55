"""a store → a store that is sound, smaller, lighter or joined with another: what is done from time to time.

Each of these is one transaction: after a crash it was done, or was never begun. Processes that read meanwhile
see the store as it was before.
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

Chosen = Callable[[Table, Sequence[Label]], NDArray[np.bool_]]  # which entries of a table


@dataclass(frozen=True, slots=True)
class Status:
    """What a store holds."""

    labels: list[Label]
    messages: int
    entries: int  # features that some message has
    bytes: int  # on disk
    epoch: int  # how often the store was decayed
    era: int  # how often it was pruned
    versions: list[int]  # of the tokens
    last: int | None  # seconds since 1970: when the newest message of the journal was learned
    sources: list[tuple[str, int]]  # where messages came from, and how many; most first


@dataclass(frozen=True, slots=True)
class Pruned:
    """What pruning did."""

    dropped: int  # features
    kept: int
    bytes_before: int
    bytes_after: int


def status(store: Store, sources: int = 10) -> Status:
    """What the store holds."""
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
            # Of runs, entries would be counted that forgetting has brought to zero, and others several times.
            entries=sum(int(np.count_nonzero(table.counts.any(axis=1))) for table in store.tables()),
            bytes=_bytes(store),
            epoch=store.unit().bit_length() - 1,
            era=store.era(),
            versions=versions(store),
            last=last,
            sources=[(str(name), number) for name, number in most_common],
        )


def versions(store: Store) -> list[int]:
    """The versions of the tokens that were counted: of the journal, and of what another filter lent."""
    with store.snapshot():
        rows = store.connection.execute(
            "SELECT DISTINCT version FROM journal WHERE typeof(version) = 'integer'"
        )
        numbers = {version for (version,) in rows}
        if store.setting("tokens") is not None:
            numbers.add(store.number("tokens"))
    return sorted(numbers)


def decay(store: Store) -> int:
    """Halve the weight of all that was learned so far, and return how often that was done."""
    with store.transaction() as writer:
        epoch = store.unit().bit_length()
        if epoch > MOST_EPOCHS:
            raise StoreError(
                f"the store {store.path} was decayed {MOST_EPOCHS} times, more its counts have no room for: "
                "learn your mail anew into a new store"
            )
        writer.set("epoch", epoch)
    return epoch


def compact(store: Store, progress: Progress | None = None) -> int:
    """Put all runs into one generation, give what is free back to the disk, return the bytes left."""
    with store.transaction():
        # What only forgotten messages had: with their features, which no run has now, the last trace of them.
        store.connection.execute("DELETE FROM source WHERE id NOT IN (SELECT source FROM journal)")
        all_runs = runs.all_runs(store.connection)
        if len({run.generation for run in all_runs}) > 1:
            _rewrite(store, lambda table, *_: table, progress)
    with suppress(sqlite3.OperationalError), keep_interrupts():
        store.shrink()
    return _bytes(store)


def prune(store: Store, halvings: int = 1, progress: Progress | None = None) -> Pruned:
    """Drop features that are worth at most a unit / 2**halvings, over all labels.

    With halvings=1 those were seen once, and before the store was decayed; with 0, all that were seen
    once. Verdicts may change, and by much where little was learned: a feature seen once tells a lot when it
    comes again.
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
    """Drop the features that are chosen.

    What a message had given may then be gone: in a store with `era() > 0`, forget by `Writer.add_clipped`.
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
    # If another process is reading or writing, a later one gives the room back.
    with suppress(sqlite3.OperationalError), keep_interrupts():
        store.shrink()
    return Pruned(features, entries, before, _bytes(store))


def merge(store: Store, other: Store, progress: Progress | None = None) -> int:
    """Add all that another store remembers; return how many messages that were."""
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
                    f"the store {one.path} counts too much to be merged at {factor} times: decay less often"
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
                        f"the store {other.path} counts too much to be merged: see tamis store check"
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
    """Settings that say what other filters have lent."""
    return dict(
        store.connection.execute("SELECT * FROM setting WHERE name = 'tokens' OR name LIKE 'imported %'")
    )


def _rewrite(
    store: Store,
    change: Callable[[Table, int, int], Table],
    progress: Progress | None,
    extra_entries: int = 0,
) -> int:
    """Put all counts into one generation, each slice of them changed."""
    connection = store.connection
    old = runs.all_runs(connection)
    labels = len(store.labels())

    def piece(low: int, high: int) -> Table:
        return change(tables.sum_runs(connection, old, low, high, labels), low, high)

    return tables.rewrite(
        connection, old, piece, sum(run.entries for run in old) + extra_entries, labels, progress
    )


def _bytes(store: Store) -> int:
    place = os.path.realpath(store.path)  # the log is beside the file, not beside a link to it
    files = (Path(place), Path(f"{place}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
