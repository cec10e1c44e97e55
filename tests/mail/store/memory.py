"""numbers → messages to learn, the same each time; a store → what it remembers, to be compared."""

import hashlib
from collections import Counter
from collections.abc import Iterable

import numpy as np

from tamis_mail.schema import MAX_BUNDLE_MESSAGES
from tamis_mail.store import Entry, Store
from tamis_mail.store.bundle_arrays import Bundle, pack
from tamis_mail.store.tables import CountTable, FeatureKeys
from tamis_mail.tokens import VERSION

Memory = dict[str, Counter[int]]  # the counts of features, by label


def digest(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()[:16]


def features(number: int, size: int = 60) -> FeatureKeys:
    """Some common to many messages, some of its own."""
    dice = np.random.default_rng(number)
    common = dice.zipf(1.3, size // 2).astype(np.uint64) * np.uint64(0x9E3779B97F4A)
    own = dice.integers(0, 1 << 48, size // 2, np.uint64)
    return np.unique(np.concatenate([common, own]) & np.uint64((1 << 48) - 1))


def careless(store: Store) -> Store:
    """The same store, which does not wait for the disk: for tests of many transactions."""
    store.connection.execute("PRAGMA synchronous = OFF")
    return store


def bag(keys: FeatureKeys, column: int, labels: int, weight: int = 1) -> CountTable:
    """Features of one label, each once."""
    keys = np.unique(keys)
    counts = np.zeros((len(keys), labels), np.int64)
    counts[:, column] = weight
    return CountTable(keys, counts)


def learn(
    store: Store,
    numbers: Iterable[int],
    label: str = "spam",
    source: str = "test",
    rest: int = 0,
    *,
    stored: bool = True,
    time: int = 1_700_000_000,
) -> None:
    """Learn messages in one transaction; if not stored, as a tamis that does not store their features."""
    numbers = list(numbers)
    with store.transaction() as writer:
        for number in numbers:
            entry = Entry(
                digest(number),
                label,
                store.message_weight(),
                rest,
                VERSION,
                store.prunings(),
                source,
                time + number,
            )
            for name, weight in entry.label_weights:
                column = writer.ensure_column(name)
                writer.add(bag(features(number), column, writer.n_labels, weight))
            writer.record(entry)
        for start in range(0, len(numbers) if stored else 0, MAX_BUNDLE_MESSAGES):
            part = numbers[start : start + MAX_BUNDLE_MESSAGES]
            packed = pack(Bundle.of([features(number) for number in part]))
            writer.store_features([digest(number) for number in part], packed, [None] * len(part))


def forget(store: Store, numbers: Iterable[int]) -> None:
    with store.transaction() as writer:
        for number in numbers:
            entry = store.find_entry(digest(number))
            assert entry is not None
            for name, weight in entry.label_weights:
                table = bag(features(number), writer.ensure_column(name), writer.n_labels, -weight)
                writer.add_clipped(table) if store.prunings() else writer.add(table)
            writer.remove(entry.digest)


def remembered(store: Store) -> Memory:
    """All counts that are not zero."""
    names = [label.name for label in store.labels()]
    found: Memory = {name: Counter() for name in names}
    for table in store.count_slices():
        for key, counts in zip(table.keys.tolist(), table.counts.tolist(), strict=True):
            found_here = {name: count for name, count in zip(names, counts, strict=True) if count}
            for name, count in found_here.items():
                found[name][key] = count
    return {name: counts for name, counts in found.items() if counts}


def expected(messages: dict[int, str], weight: int = 1) -> Memory:
    """What a store should remember of messages and their labels."""
    found: Memory = {}
    for number, label in messages.items():
        counter = found.setdefault(label, Counter())
        for key in features(number).tolist():
            counter[key] += weight
    return found
