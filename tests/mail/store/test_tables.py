"""Counts on disk against counts in a dictionary, and the algebra of tables."""

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis_mail.features import KEY_BITS
from tamis_mail.store import Store, tables
from tamis_mail.store.maintenance import check, compact
from tamis_mail.store.runs import WIDTHS, Run, all_runs
from tamis_mail.store.tables import CountTable
from tests.compiled_core import needs_core
from tests.mail.store.memory import bag, careless

KEYS = st.one_of(st.integers(0, 40), st.integers(0, (1 << 48) - 1), st.just((1 << 48) - 1))
# The edges of each width, on both sides.
EDGES = [
    edge + step
    for width in (8, 16, 32)
    for edge in (1 << width - 1, -(1 << width - 1))
    for step in (-1, 0, 1)
]
COUNTS = st.one_of(st.integers(-3, 3), st.sampled_from(EDGES), st.integers(-(1 << 50), 1 << 50))


def table(entries: dict[int, list[int]], labels: int) -> CountTable:
    keys = np.array(sorted(entries), np.uint64)
    counts = np.array([entries[key] for key in sorted(entries)], np.int64).reshape(
        len(keys), -1 if entries else labels
    )
    return CountTable.total([CountTable(keys, counts)], labels)


@st.composite
def entries(draw: st.DrawFn, labels: int) -> dict[int, list[int]]:
    return draw(st.dictionaries(KEYS, st.lists(COUNTS, min_size=labels, max_size=labels), max_size=25))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_tables_are_a_group(data: st.DataObject) -> None:
    labels = data.draw(st.integers(1, 4))
    a, b, c = (table(data.draw(entries(labels)), labels) for _ in range(3))
    nothing = CountTable.total([], labels)
    less_b = CountTable(b.keys, -b.counts)

    def total(*some: CountTable) -> CountTable:
        return CountTable.total(some, labels)

    assert total(a, b) == total(b, a)
    assert total(total(a, b), c) == total(a, total(b, c)) == total(a, b, c)
    assert total(a, nothing) == a
    assert total(a, b, less_b) == a
    assert total(b, less_b) == nothing


@needs_core
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_core_sums_tables_as_numpy_does(data: st.DataObject) -> None:
    labels = data.draw(st.integers(1, 3))
    some = [table(data.draw(entries(labels)), labels) for _ in range(data.draw(st.integers(1, 5)))]
    if data.draw(st.booleans()):  # a list that is imported
        some.append(CountTable(some[0].keys[::-1].copy(), some[0].counts[::-1].copy()))
    total = CountTable.total(some, labels)
    with mock.patch("tamis_mail.store.tables.core", None):
        assert CountTable.total(some, labels) == total


def test_a_table_of_fewer_labels_has_zeros_in_the_rest() -> None:
    narrow, wide = table({1: [5]}, 1), table({1: [1, 2, 3], 2: [0, 0, 4]}, 3)
    assert CountTable.total([narrow, wide], 3) == table({1: [6, 2, 3], 2: [0, 0, 4]}, 3)


def test_a_table_is_no_key() -> None:
    with pytest.raises(TypeError, match="not hashable"):
        hash(CountTable.total([], 1))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_store_is_the_sum_of_what_was_added(data: st.DataObject) -> None:
    """Whatever was added, in however many runs, of whatever width, while labels grew."""
    oracle: dict[int, Counter[int]] = {}
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store") as store:
        careless(store)
        labels = 0
        for _ in range(data.draw(st.integers(1, 12))):
            labels = max(labels, data.draw(st.integers(1, 5)))
            more = data.draw(entries(labels))
            with store.transaction() as writer:
                for number in range(labels):
                    writer.ensure_column(f"label {number}")
                writer.add(table(more, labels))
            for key, counts in more.items():
                for column, count in enumerate(counts):
                    oracle.setdefault(key, Counter())[column] += count
            wanted = sorted({*oracle, *data.draw(st.lists(KEYS, max_size=5))})
            right = {key: [oracle.get(key, Counter())[column] for column in range(labels)] for key in wanted}
            assert store.counts(wanted) == right
            assert store.count_arrays(np.array(wanted, np.uint64)).tolist() == [right[key] for key in wanted]
        compact(store)
        assert store.counts(wanted) == right
        assert not [
            fault for fault in check(store) if "below zero" not in fault and "has counts" not in fault
        ]


def test_large_runs_have_short_keys_and_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_SMALL_RUN", 1 << 18)
    dice = np.random.default_rng(7)
    keys = np.unique(dice.integers(0, 1 << 48, 600_000, np.uint64))
    counts = dice.zipf(1.5, (len(keys), 2)).clip(0, 1 << 40).astype(np.int64)
    with Store(tmp_path / "store") as store:
        with store.transaction() as writer:
            writer.ensure_column("a"), writer.ensure_column("b")
            writer.add(CountTable(keys, counts))
        assert {run.width for run in all_runs(store.connection)} == {1, 2, 4, 8}
        assert all_runs(store.connection)[0].shift == 32
        assert [run.bits < 16 for run in all_runs(store.connection)] == [False, True, True, True]
        some = np.sort(dice.choice(keys, 500, replace=False))
        expected = counts[np.searchsorted(keys, some)]
        assert store.count_arrays(some).tolist() == expected.tolist()
        assert list(store.counts(some.tolist()).values()) == expected.tolist()
        assert CountTable.total(list(store.count_slices()), 2) == CountTable(keys, counts)
        assert check(store) == []


def test_slices_cover_all_keys_and_shelves_may_straddle_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_SLICE_ENTRIES", 10)
    with Store(tmp_path / "store") as store:
        for start in range(0, 200, 20):
            with store.transaction() as writer:
                writer.ensure_column("a")
                keys = np.arange(start, start + 30, dtype=np.uint64) << np.uint64(40)
                writer.add(CountTable(keys, np.ones((30, 1), np.int64)))
        total = CountTable.total(list(store.count_slices()), 1)
        assert total.keys.tolist() == [number << 40 for number in range(210)]
        assert total.counts.sum() == 300
        assert check(store) == []


def test_runs_stay_few_and_their_generations_grow(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        careless(store)
        for number in range(200):
            with store.transaction() as writer:
                writer.ensure_column("a")
                writer.add(bag(np.random.default_rng(number).integers(0, 1 << 48, 50, np.uint64), 0, 1))
        sizes = Counter({run.generation: run.entries for run in all_runs(store.connection)})
        oldest_first = [sizes[generation] for generation in sorted(sizes)]
        assert len(oldest_first) <= 7
        assert all(older >= tables.RATIO * younger for older, younger in pairwise(oldest_first))


def test_what_is_taken_away_is_at_most_what_is_there(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        with store.transaction() as writer:
            writer.ensure_column("a"), writer.ensure_column("b")
            writer.add(table({1: [2, 0], 2: [1, 5]}, 2))
        with store.transaction() as writer:
            writer.add_clipped(table({1: [-3, -1], 2: [-1, -1], 3: [-1, 1]}, 2))
        assert store.counts([1, 2, 3]) == {1: [0, 0], 2: [0, 4], 3: [0, 1]}
        with store.transaction() as writer:
            writer.add_clipped(table({2: [-9]}, 1))
        assert check(store) == []


@needs_core
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from(["i1", "i2", "i4", "i8"]), st.integers(0, 99))
def test_the_core_and_numpy_add_stored_counts_alike(n_stored: int, n_keys: int, kind: str, seed: int) -> None:
    dice = np.random.default_rng(seed)
    stored, keys = (np.unique(dice.integers(0, 99, size).astype(np.uint64)) for size in (n_stored, n_keys))
    stored_counts = dice.integers(-128, 128, (len(stored), 2)).astype(kind)
    counts = dice.integers(0, 9, (len(keys), 3))
    found, expected = counts.copy(), counts.copy()
    tables.add_counts(stored, stored_counts, keys, found)
    with mock.patch("tamis_mail.store.tables.core", None):
        tables.add_counts(stored, stored_counts, keys, expected)
    np.testing.assert_array_equal(found, expected)
    assert found[:, 2].tolist() == counts[:, 2].tolist()


@needs_core
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 300), st.integers(0, 3), st.sampled_from([0, 3, 16, 20]), st.integers(0, 99))
def test_the_core_and_numpy_encode_entries_alike(n_keys: int, labels: int, bits: int, seed: int) -> None:
    dice = np.random.default_rng(seed)
    keys = np.unique(dice.integers(0, 1 << KEY_BITS, n_keys).astype(np.uint64))
    magnitudes = dice.integers(0, 64, (len(keys), 1)).astype(np.uint64)
    counts = (dice.integers(-(2**63), 2**63, (len(keys), labels)) >> magnitudes.astype(np.int64)).astype(
        np.int64
    )
    entries = tables.CountTable(keys, counts)
    widths = tables.find_widths(counts)
    with mock.patch("tamis_mail.store.tables.core", None):
        np.testing.assert_array_equal(widths, tables.find_widths(counts))
    for width in WIDTHS:
        run = Run(1, 1, 0, bits, width, labels, 0)
        number = int(np.count_nonzero(widths == width))
        if not number:  # no run is written
            continue
        encoded = tables.encode_entries(run, entries, widths, number)
        with mock.patch("tamis_mail.store.tables.core", None):
            expected = tables.encode_entries(run, entries, widths, number)
        for ours, theirs in zip(encoded, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
