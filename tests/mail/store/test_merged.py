"""Features that the compiled core merges and sums, against bundles and tables in NumPy."""

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.compiled import core
from tamis_mail.features.batches import open_batch
from tamis_mail.store.bundle_arrays import Bundle, encode_by_numpy
from tamis_mail.store.feature_sums import PendingSum, read_features
from tamis_mail.store.tables import CountTable
from tests.compiled_core import needs_core

if TYPE_CHECKING:
    from tamis._core.mail import MergedFeatures

pytestmark = needs_core

LAST = (1 << 48) - 1
# Hashes, keys that share their highest bits as a sender may choose them, and keys that all messages have.
KEYS = st.integers(0, LAST) | st.integers(0, 300) | st.integers(LAST - 200, LAST) | st.integers(0, 9)
MESSAGES = st.lists(st.sets(KEYS, max_size=40), max_size=12)


def _merge(messages: list[set[int]]) -> "MergedFeatures":
    assert core is not None
    batch = open_batch([b""] * len(messages))
    for index, keys in enumerate(messages):
        batch.set_features(index, struct.pack(f"<{len(keys)}Q", *sorted(keys)))
    merged: MergedFeatures = core.mail.MergedFeatures(batch, range(len(messages)))
    return merged


def _bundle(messages: list[set[int]]) -> Bundle:
    return Bundle.of([np.array(sorted(keys), np.uint64) for keys in messages])


def _check(messages: list[set[int]]) -> None:
    merged, bundle = _merge(messages), _bundle(messages)
    assert (len(merged), merged.count_keys(), merged.count_features()) == (
        len(bundle),
        len(bundle.keys),
        len(bundle.indices),
    )
    for place in range(len(messages)):
        np.testing.assert_array_equal(read_features(merged, place), bundle.features(place))
    for low_bytes in (3, 4, 5):
        parts = bundle.keys, bundle.starts.astype(np.int64), bundle.indices.astype(np.int64)
        assert merged.encode(low_bytes) == encode_by_numpy(*parts, low_bytes)


@given(MESSAGES)
def test_merged_features_are_a_bundle(messages: list[set[int]]) -> None:
    _check(messages)


def test_many_features_are_merged_whatever_their_highest_bits() -> None:
    rng = np.random.default_rng(0)
    shared = rng.integers(0, LAST, 30).tolist()
    close = [int(one) for one in (1 << 40) + rng.integers(0, 5000, 900)]
    messages = [
        {*rng.integers(0, LAST, 200).tolist(), *shared, *rng.choice(close, 40).tolist()} for _ in range(90)
    ]
    _check(messages)


@given(
    st.lists(
        st.tuples(MESSAGES, st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=2)), max_size=5
    )
)
def test_sums_are_those_of_tables(parts: list[tuple[list[set[int]], list[tuple[int, int]]]]) -> None:
    merged = [(_merge(messages), tuple(dict(change).items()) or ((0, 1),)) for messages, change in parts]
    bundles = [(_bundle(messages), change) for (messages, _), (_, change) in zip(parts, merged, strict=True)]
    ours, theirs = PendingSum(merged, [], 3).compute(), PendingSum(bundles, [], 3).compute()
    assert ours.table == theirs.table
    assert theirs.gather([(bundles[0][0], 0)] if bundles and len(bundles[0][0]) else [(None, 0)]) is None  # type: ignore[list-item]
    everyone = [(part, place) for part, _ in merged for place in range(len(part))]
    if not merged:
        return
    gathered = ours.gather(everyone)
    assert gathered is not None
    rows, starts = gathered
    for number, (part, place) in enumerate(everyone):
        features = ours.table.keys[rows[starts[number] : starts[number + 1]]]
        np.testing.assert_array_equal(features, read_features(part, place))


def test_sums_with_tables_are_sums_of_all() -> None:
    merged, table = _merge([{1, 2}, {2, 9}]), CountTable(np.array([2, 5], np.uint64), np.array([[7], [1]]))
    pending = PendingSum([(merged, ((0, 2),))], [table], 1).compute()
    assert pending.table.keys.tolist() == [1, 2, 5, 9]
    assert pending.table.counts.tolist() == [[2], [11], [1], [2]]
    assert pending.gather([(merged, 0)]) is None


def test_what_does_not_fit_is_refused() -> None:
    assert core is not None
    merged = _merge([{1, 2}])
    with pytest.raises(ValueError, match="ascending features"):
        open_batch([b""]).set_features(0, struct.pack("<QQ", 2, 2))
    with pytest.raises(ValueError, match="below"):
        open_batch([b""]).set_features(0, struct.pack("<Q", 1 << 48))
    with pytest.raises(ValueError, match="indices of messages"):
        core.mail.MergedFeatures(open_batch([b""]), [1])
    sums = core.mail.FeatureSum(1, 2)
    with pytest.raises(ValueError, match="columns of labels"):
        sums.add(merged, [(1, 1)])
    sums.add(merged, [(0, 1)])
    with pytest.raises(ValueError, match="written"):
        sums.gather([(0, 0)], np.empty(2, np.int32))
    sums.sum_range(0)
    with pytest.raises(ValueError, match="once"):
        sums.sum_range(0)
    with pytest.raises(ValueError, match="all ranges were summed"):
        sums.write_range(0, np.empty(2, np.uint64), np.empty((2, 1), np.int64))
    sums.sum_range(1)
    with pytest.raises(ValueError, match="one row per key"):
        sums.write_range(0, np.empty(3, np.uint64), np.empty((3, 1), np.int64))
    with pytest.raises(ValueError, match="number of a range"):
        sums.write_range(2, np.empty(2, np.uint64), np.empty((2, 1), np.int64))
    sums.write_range(0, np.empty(2, np.uint64), np.empty((2, 1), np.int64))
    with pytest.raises(ValueError, match="written once"):
        sums.write_range(0, np.empty(2, np.uint64), np.empty((2, 1), np.int64))
    with pytest.raises(ValueError, match="sums were written"):
        sums.gather([(0, 0)], np.empty(2, np.int32))
    sums.write_range(1, np.empty(2, np.uint64), np.empty((2, 1), np.int64))
    with pytest.raises(ValueError, match="places of messages"):
        sums.count_features([(0, 1)])
    with pytest.raises(ValueError, match="one row per feature"):
        sums.gather([(0, 0)], np.empty(3, np.int32))
