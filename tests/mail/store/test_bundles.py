"""The stored features of messages are read as they were written, removed exactly, and validated."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tamis.compiled import core
from tamis_mail import schema
from tamis_mail.features import KEY_BITS
from tamis_mail.features.arrays import find_keys
from tamis_mail.store import Store, StoreError, bundles, maintenance
from tamis_mail.store.bundle_arrays import (
    Bundle,
    combine,
    decode_by_numpy,
    encode_by_numpy,
    merge_lists,
    merge_sorted,
    pack,
    unpack,
)
from tamis_mail.store.bundles import HEAD, decompress_gaps, divide, read_message
from tests.compiled_core import needs_core
from tests.mail.store.memory import careless, digest, features, forget, learn

Keys = NDArray[np.uint64]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        yield careless(store)


def as_sets(bundle: Bundle) -> list[list[int]]:
    return [bundle.features(place).tolist() for place in range(len(bundle))]


SETS = st.lists(
    st.sets(st.integers(0, (1 << KEY_BITS) - 1) | st.integers(0, 40), max_size=12).map(sorted), max_size=6
)


@given(SETS)
@settings(max_examples=200, deadline=None)
def test_a_bundle_is_read_as_it_was_written(sets: list[list[int]]) -> None:
    bundle = Bundle.of([np.array(one, np.uint64) for one in sets])
    data = pack(bundle)
    assert as_sets(unpack(data)) == sets
    assert [read_message(data, place) for place in range(len(sets))] == sets
    assert pack(unpack(data)) == data


@needs_core
@given(SETS, st.sampled_from((4, 5)))
@settings(max_examples=100, deadline=None)
def test_the_core_writes_the_bytes_of_numpy_and_reads_them(sets: list[list[int]], low_bytes: int) -> None:
    bundle = Bundle.of([np.array(one, np.uint64) for one in sets])
    assert core is not None
    head, gaps = encode_by_numpy(bundle.keys, bundle.starts, bundle.indices, low_bytes)
    assert core.mail.encode_bundle(bundle.keys, bundle.starts, bundle.indices, low_bytes) == (head, gaps)
    lows, features = 4 * len(sets), len(bundle.indices)
    highs = lows + low_bytes * len(bundle.keys)
    sizes, low_parts, high_parts, short, long = (
        np.frombuffer(part, np.uint8)
        for part in (head[:lows], head[lows:highs], head[highs:], gaps[:features], gaps[features:])
    )
    for decode in (decode_by_numpy, core.mail.decode_bundle):
        keys, indices = np.empty_like(bundle.keys), np.empty(features, np.int64)
        assert decode(sizes, low_parts, high_parts, short, long, low_bytes, keys, indices) == 0
        assert keys.tolist() == bundle.keys.tolist()
        assert indices.tolist() == bundle.indices.tolist()


@given(st.lists(SETS, max_size=4))
@settings(max_examples=100, deadline=None)
def test_bundles_combined_have_the_messages_of_all(parts: list[list[list[int]]]) -> None:
    bundles = [Bundle.of([np.array(one, np.uint64) for one in sets]) for sets in parts]
    union = combine(bundles)
    assert as_sets(union) == [one for sets in parts for one in sets]
    distinct = {key for sets in parts for one in sets for key in one}
    assert union.keys.tolist() == sorted(distinct)
    odd = list(range(1, len(union), 2))
    assert as_sets(union.select(odd)) == as_sets(union)[1::2]
    assert pack(union.select(odd)) == pack(Bundle.of([union.features(place) for place in odd]))


@pytest.mark.parametrize("size", [0, 1, 254, 255, 256, 257, 70_000])
def test_long_gaps_and_low_parts_of_every_length(size: int) -> None:
    every = np.arange(size + 2, dtype=np.uint64) * np.uint64(3)
    sets = [every, every[[0, size + 1]], every[[size + 1]], every[:0]]
    data = pack(Bundle.of(sets))
    assert as_sets(unpack(data)) == [one.tolist() for one in sets]
    assert [read_message(data, place) for place in range(4)] == [one.tolist() for one in sets]


def test_a_bundle_without_compression_is_read_as_before() -> None:
    assert len(SOUND) == _GAPS + 10
    assert as_sets(unpack(SOUND)) == as_sets(unpack(PACKED)) == [[1, 2, 3, 4, 5, 6, 7, 8], [3, 4]]
    assert [read_message(data, 1) for data in (SOUND, PACKED)] == [[3, 4], [3, 4]]


def test_keys_that_are_dropped_leave_the_others_of_each_message() -> None:
    bundle = Bundle.of([np.array(one, np.uint64) for one in ([1, 2, 3], [2], [], [3, 4])])
    kept = bundle.keep(np.array([True, False, True, False]))
    assert as_sets(kept) == [[1, 3], [], [], [3]]
    assert kept.keys.tolist() == [1, 3]


def test_messages_are_divided_by_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MAX_BUNDLE_MESSAGES", 3)
    monkeypatch.setattr(bundles, "MAX_BUNDLE_FEATURES", 10)
    assert list(divide([1] * 7)) == [(0, 3), (3, 6), (6, 7)]
    assert list(divide([6, 5, 4, 1, 11, 1])) == [(0, 1), (1, 4), (4, 5), (5, 6)]
    assert list(divide([])) == []


def check_features(store: Store, numbers: dict[int, str]) -> None:
    """Compare all stored features with those of these messages."""
    found = store.message_features(guessed=True)
    assert found.digests == sorted(digest(number) for number in numbers)
    names = [label.name for label in store.labels()]
    of_digest = {digest(number): number for number in numbers}
    for place, name in enumerate(found.digests):
        number = of_digest[name]
        keys = found.keys[found.indices[found.starts[place] : found.starts[place + 1]]]
        assert np.array_equal(keys, features(number))
        assert store.find_features(name) == features(number).tolist()
        assert names[found.labels[place]] == numbers[number]
    union = [features(number) for number in numbers] or [np.empty(0, np.uint64)]
    assert np.array_equal(found.keys, np.unique(np.concatenate(union)))
    assert maintenance.check(store) == []


def test_features_are_stored_and_removed_with_their_messages(store: Store) -> None:
    learn(store, range(200), "spam")
    learn(store, range(200, 230), "ham")
    check_features(store, dict.fromkeys(range(200), "spam") | dict.fromkeys(range(200, 230), "ham"))
    forget(store, [3, 150, 210])
    kept = [number for number in range(230) if number not in (3, 150, 210)]
    check_features(store, {number: "spam" if number < 200 else "ham" for number in kept})
    assert store.find_features(digest(3)) is None
    forget(store, kept)
    check_features(store, {})
    assert store.connection.execute("SELECT count(*) FROM bundle").fetchone() == (0,)
    assert store.connection.execute("SELECT count(*) FROM message").fetchone() == (0,)


def test_single_messages_are_combined_so_that_few_bundles_are_left(store: Store) -> None:
    for number in range(150):
        learn(store, [number], "spam")
        (bundles,) = store.connection.execute("SELECT count(*) FROM bundle").fetchone()
        assert bundles <= 2 * 7 + 2
    check_features(store, dict.fromkeys(range(150), "spam"))


def test_compacting_combines_bundles_that_have_shrunk(store: Store) -> None:
    learn(store, range(600), "spam")
    kept = [number for number in range(600) if not number % 10]
    forget(store, [number for number in range(600) if number % 10])
    assert store.connection.execute("SELECT count(*) FROM bundle").fetchone() == (3,)
    maintenance.compact(store)
    assert store.connection.execute("SELECT count(*) FROM bundle").fetchone() == (1,)
    check_features(store, dict.fromkeys(kept, "spam"))


def test_the_arrays_do_not_depend_on_the_history(tmp_path: Path) -> None:
    with Store(tmp_path / "a") as a, Store(tmp_path / "b") as b:
        learn(careless(a), range(40), "spam")
        learn(careless(b), [99], "spam")
        for number in reversed(range(40)):
            learn(b, [number], "spam")
        forget(b, [99])
        one, other = a.message_features(), b.message_features()
        assert one.digests == other.digests
        for name in ("starts", "indices", "keys", "labels", "weights", "dates"):
            assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name == "dates")


def test_messages_with_guessed_labels_are_left_out_unless_asked_for(store: Store) -> None:
    learn(store, range(5), "spam?", rest=7)
    learn(store, range(5, 9), "ham")
    assert len(store.message_features()) == 4
    assert np.array_equal(
        store.message_features().keys, np.unique(np.concatenate([features(number) for number in range(5, 9)]))
    )
    assert len(store.message_features(guessed=True)) == 9
    assert maintenance.check(store) == []


def test_a_message_that_an_older_tamis_learned_has_none(store: Store) -> None:
    learn(store, range(5), "spam", stored=False)
    learn(store, range(5, 8), "ham")
    assert store.find_features(digest(1)) is None
    assert store.message_features().digests == sorted(digest(number) for number in range(5, 8))
    assert maintenance.check(store) == []
    forget(store, range(8))
    assert maintenance.check(store) == []


def test_pruning_drops_features_of_messages_too(store: Store) -> None:
    learn(store, range(30), "spam")
    maintenance.decay(store)
    learn(store, range(30, 50), "ham")
    assert maintenance.prune(store).dropped
    counted = np.concatenate([table.keys for table in store.count_slices()])
    found = store.message_features()
    assert np.array_equal(found.keys, counted)
    names = [name.hex() for name in found.digests]
    for number in range(50):
        place = names.index(digest(number).hex())
        keys = found.keys[found.indices[found.starts[place] : found.starts[place + 1]]]
        assert np.array_equal(keys, np.intersect1d(features(number), counted))
    assert maintenance.check(store) == []


DAMAGES = {
    "nothing": b"",
    "a head that is cut off": b"\1\0\0\0",
    "low parts of no length": HEAD.pack(0, 0, 0),
    "low parts of eight bytes": HEAD.pack(0, 0, 8) + bytes(99),
    "more messages than bytes": HEAD.pack(0xFFFFFFFF, 0, 5) + bytes(99),
    "more keys than bytes": HEAD.pack(0, 0xFFFFFFFF, 5) + bytes(99),
    "more features than bytes": HEAD.pack(1, 0, 5) + struct.pack("<I", 0xFFFFFFFF) + bytes(32),
    "more features than a bundle has": HEAD.pack(1, 0, 5) + struct.pack("<I", schema.MAX_BUNDLE_FEATURES + 1),
    "keys that no message has": HEAD.pack(1, 1, 5) + struct.pack("<I", 0) + b"abcde\1" + bytes(32),
}


def change(data: bytes, place: int, new: bytes) -> bytes:
    return data[:place] + new + data[place + len(new) :]


PACKED = pack(Bundle.of([np.arange(1, 9, dtype=np.uint64), np.arange(3, 5, dtype=np.uint64)]))
SOUND = decompress_gaps(PACKED)
_LOWS = HEAD.size + 8
_HIGHS = _LOWS + 8 * 5
_GAPS = _HIGHS + (8 + 256) // 8
DAMAGES |= {
    "a byte less": SOUND[:-1],
    "a byte more": SOUND + b"\0",
    "keys out of order": change(SOUND, _LOWS, b"\7"),
    "a key twice": change(SOUND, _LOWS, b"\2"),
    "too few high parts": change(SOUND, _HIGHS, b"\0"),
    "too many high parts": change(SOUND, _HIGHS + 4, b"\1"),
    "an index beyond the keys": change(SOUND, len(SOUND) - 1, b"\xfe"),
    "a long gap that is not there": change(SOUND, len(SOUND) - 1, b"\xff"),
    "another number of messages": change(SOUND, 0, b"\1"),
    "compressed, a byte less": PACKED[:-1],
    "compressed, a byte more": PACKED + b"\0",
    "compressed gaps of another length": PACKED[:_GAPS] + zlib.compress(bytes(9)),
    "compressed gaps without end": PACKED[:_GAPS] + zlib.compress(bytes(1 << 25)),
    "gaps that are not compressed": PACKED[:_GAPS] + bytes(10),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bundle_that_lies_is_refused_in_one_line(store: Store, damage: str) -> None:
    learn(store, [1, 2])
    data = DAMAGES[damage]
    with pytest.raises(StoreError, match=r"features of messages are damaged \(.*\): restore a backup"):
        unpack(data)
    store.connection.execute("UPDATE bundle SET data = ?", (data,))
    faults = maintenance.check(store)
    assert faults
    assert not any("\n" in fault for fault in faults)
    with pytest.raises(StoreError, match="restore a backup"):
        store.message_features()
    with pytest.raises(StoreError, match="restore a backup"):
        forget(store, [1])
    assert store.find_entry(digest(1)) is not None


@given(st.sampled_from([SOUND, PACKED]), st.data(), st.integers(0, 255), st.integers(0, 1))
@settings(max_examples=300, deadline=None)
def test_plain_python_reads_what_arrays_read_or_refuses(
    bundle: bytes, choice: st.DataObject, value: int, place: int
) -> None:
    data = change(bundle, choice.draw(st.integers(0, len(bundle) - 1)), bytes([value]))
    try:
        found = unpack(data)
    except StoreError:
        return
    if place < len(found):
        assert read_message(data, place) == found.features(place).tolist()


WRONG_ROWS = {
    "a message of no bundle": "UPDATE message SET bundle = 77",
    "a place beyond the bundle": "UPDATE message SET place = 9",
    "two messages at one place": "UPDATE message SET place = 0",
    "a place that is text": "UPDATE message SET place = 'x'",
    "a bundle that is text": "UPDATE message SET bundle = 'x'",
    "a date that is text": "UPDATE message SET date = 'x'",
    "a date beyond the calendar": f"UPDATE message SET date = {1 << 60}",
    "messages that are not remembered": "UPDATE message SET digest = digest || x'00'",
    "a number of messages": "UPDATE bundle SET messages = 3",
    "a number of messages that is text": "UPDATE bundle SET messages = 'x'",
    "features that are text": "UPDATE bundle SET data = 'x'",
    "features of another message": "UPDATE message SET place = 1 - place",
}


@pytest.mark.parametrize("damage", WRONG_ROWS)
def test_rows_that_lie_are_found_by_check(store: Store, damage: str) -> None:
    learn(store, [1], "spam")
    learn(store, [2], "ham")
    maintenance.compact(store)
    assert maintenance.check(store) == []
    store.connection.execute(WRONG_ROWS[damage])
    faults = maintenance.check(store)
    assert faults
    assert not any("\n" in fault for fault in faults)
    for act in (
        store.message_features,
        lambda: store.find_features(digest(1)),
        lambda: forget(store, [1]),
        lambda: maintenance.compact(store),
    ):
        with suppress(StoreError):  # nothing else may come of it
            act()


@given(st.lists(st.lists(st.integers(0, (1 << KEY_BITS) - 1) | st.integers(0, 9), unique=True)))
def test_merged_lists_are_the_distinct_keys_and_their_indices(lists: list[list[int]]) -> None:
    ascending = [np.array(sorted(one), np.uint64) for one in lists]
    all_keys = np.concatenate([*ascending, np.empty(0, np.uint64)])
    expected = np.unique(all_keys, return_inverse=True)
    for merged in (
        merge_lists(ascending),
        merge_sorted(all_keys, np.array([len(one) for one in lists], np.int64)),
    ):
        for array, expected_array in zip(merged, expected, strict=True):
            np.testing.assert_array_equal(array, expected_array)
            assert array.dtype == expected_array.dtype


@needs_core
@pytest.mark.parametrize("sizes", [[2], [4], [-1, 4], [2, 2], [3, -(1 << 63)]])
def test_lists_with_other_lengths_than_their_keys_are_refused(sizes: list[int]) -> None:
    assert core is not None
    keys = np.arange(3, dtype=np.uint64)
    with pytest.raises(ValueError, match="elements than there are keys"):
        core.mail.merge_lists(keys, np.array(sizes), np.empty(3, np.uint64), np.empty(3, np.int64))


@given(st.sets(st.integers(0, 60) | st.integers(0, (1 << 64) - 1)), st.lists(st.integers(0, (1 << 64) - 1)))
def test_keys_are_found_where_they_are_stored(stored: set[int], others: list[int]) -> None:
    ascending = np.array(sorted(stored), np.uint64)
    keys = np.array(sorted([*others, *sorted(stored)[::2], *range(0, 60, 3)]), np.uint64)
    is_stored, places = find_keys(ascending, keys)
    np.testing.assert_array_equal(is_stored, np.isin(keys, ascending))
    np.testing.assert_array_equal(ascending[places], keys[is_stored])


@needs_core
def test_keys_are_found_without_the_core_as_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = np.arange(0, 5000, 3, dtype=np.uint64)
    keys = np.sort(np.random.default_rng(0).integers(0, 6000, 900)).astype(np.uint64)
    compiled = find_keys(stored, keys)
    monkeypatch.setattr("tamis_mail.features.arrays.core", None)
    for array, expected in zip(compiled, find_keys(stored, keys), strict=True):
        np.testing.assert_array_equal(array, expected)
