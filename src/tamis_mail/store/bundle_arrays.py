"""Encode the feature sets of messages as bundles, and decode them, in NumPy. See `bundles` for the format.

Keys are stored by Elias–Fano coding: the low bytes of each key as they are, and the high parts in unary. The
indices of a message are stored as gaps: before each index, how many indices the message skips.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tamis.compiled import core
from tamis_mail.features import KEY_BITS
from tamis_mail.records import record
from tamis_mail.store.bundles import (
    HEAD,
    LONG_GAP,
    bundle_error,
    choose_low_bytes,
    decompress_gaps,
    read_layout,
    write_bundle,
)

# Error messages by the code that `decode_bundle` returns.
_FAULTS = {
    1: "the number of high parts differs from the number of keys",
    2: "the keys of a bundle are not in ascending order",
    3: "a message refers to more keys than there are",
}


@record(frozen=True, slots=True)
class Bundle:
    """The feature sets of some messages: message i has the keys keys[indices[starts[i] : starts[i + 1]]]."""

    keys: NDArray[np.uint64]  # (distinct,) in ascending order
    starts: NDArray[np.intp]  # (messages + 1,)
    indices: NDArray[np.intp]  # (features,) in ascending order within each message

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, features: Sequence[NDArray[np.uint64]]) -> "Bundle":
        """Make a bundle from the ascending keys of each message."""
        keys, indices = merge_lists(features)
        return cls(keys, np.cumsum([0, *(len(one) for one in features)], dtype=np.intp), indices)

    def features(self, place: int) -> NDArray[np.uint64]:
        """Return the keys of one message, in ascending order."""
        return self.keys[self.indices[self.starts[place] : self.starts[place + 1]]]

    def select(self, places: Sequence[int]) -> "Bundle":
        """Return a bundle of some of the messages, whose places are in ascending order."""
        sizes = np.diff(self.starts)
        is_selected = np.zeros(len(self), bool)
        is_selected[list(places)] = True
        indices = self.indices[np.repeat(is_selected, sizes)]
        starts = np.concatenate([[0], np.cumsum(sizes[is_selected])])
        is_used = np.zeros(len(self.keys), bool)
        is_used[indices] = True
        return Bundle(self.keys[is_used], starts, (np.cumsum(is_used) - 1)[indices])

    def keep(self, is_kept: NDArray[np.bool_]) -> "Bundle":
        """Return a bundle of the same messages without those keys that are not kept."""
        feature_is_kept = is_kept[self.indices]
        starts = np.concatenate([[0], np.cumsum(feature_is_kept)])[self.starts]
        return Bundle(self.keys[is_kept], starts, (np.cumsum(is_kept) - 1)[self.indices[feature_is_kept]])


@record(frozen=True, slots=True)
class MessageFeatures:
    """The features, labels and weights of the messages that a store remembers, in ascending order of digests.

    Message i has the features keys[indices[starts[i] : starts[i + 1]]], in ascending order.
    """

    digests: list[bytes]
    starts: NDArray[np.intp]  # (messages + 1,)
    indices: NDArray[np.intp]  # (features,)
    keys: NDArray[np.uint64]  # (distinct,) in ascending order
    labels: NDArray[np.intp]  # (messages,) the column of the label
    weights: NDArray[np.int64]  # (messages,) the weight under that label
    dates: NDArray[np.float64]  # (messages,) seconds since 1970 by the message's own date; NaN if unknown

    def __len__(self) -> int:
        return len(self.digests)


def pack(bundle: Bundle) -> bytes:
    """Write a bundle as bytes."""
    n_keys = len(bundle.keys)
    low_bytes = choose_low_bytes(n_keys)
    encode = encode_by_numpy if core is None else core.mail.encode_bundle
    starts, indices = (array.astype(np.int64, copy=False) for array in (bundle.starts, bundle.indices))
    parts, gaps = encode(bundle.keys, starts, indices, low_bytes)
    return write_bundle(len(bundle), n_keys, low_bytes, parts, gaps)


def encode_by_numpy(
    keys: NDArray[np.uint64], starts: NDArray[np.int64], indices: NDArray[np.int64], low_bytes: int
) -> tuple[bytes, bytes]:
    """Encode sizes and keys, and gaps. This is the reference for `core.mail.encode_bundle`."""
    n_keys = len(keys)
    lows = keys.astype("<u8").view(np.uint8).reshape(n_keys, 8)[:, :low_bytes]
    bits = np.zeros(n_keys + (1 << KEY_BITS - 8 * low_bytes), np.uint8)
    bits[(keys >> np.uint64(8 * low_bytes)).astype(np.intp) + np.arange(n_keys)] = 1
    sizes = np.diff(starts)
    gaps = np.diff(indices, prepend=0) - 1
    firsts = starts[:-1][sizes > 0]
    gaps[firsts] = indices[firsts]
    is_long = gaps >= LONG_GAP
    return (
        sizes.astype("<u4").tobytes() + lows.tobytes() + np.packbits(bits, bitorder="little").tobytes(),
        np.minimum(gaps, LONG_GAP).astype(np.uint8).tobytes() + gaps[is_long].astype("<u4").tobytes(),
    )


def unpack(stored: object) -> Bundle:
    """Read a bundle; raise StoreError unless it is valid."""
    data = decompress_gaps(stored)
    layout = read_layout(data)
    ends = (layout.lows, layout.highs, layout.gaps, layout.long_gaps, len(data))
    sizes, lows, highs, gaps, long_gaps = (
        np.frombuffer(data, np.uint8, end - begin, begin) for begin, end in pairwise((HEAD.size, *ends))
    )
    keys = np.empty(layout.keys, np.uint64)
    indices = np.empty(layout.long_gaps - layout.gaps, np.int64)
    decode = decode_by_numpy if core is None else core.mail.decode_bundle
    if fault := decode(sizes, lows, highs, gaps, long_gaps, layout.low_bytes, keys, indices):
        raise bundle_error(_FAULTS[fault])
    message_sizes = np.frombuffer(data, "<u4", layout.messages, HEAD.size)
    starts = np.concatenate([[0], np.cumsum(message_sizes, dtype=np.intp)])
    return Bundle(keys, starts, indices.astype(np.intp, copy=False))


def decode_by_numpy(
    sizes: NDArray[np.uint8],
    lows: NDArray[np.uint8],
    highs: NDArray[np.uint8],
    gaps: NDArray[np.uint8],
    long_gaps: NDArray[np.uint8],
    low_bytes: int,
    keys: NDArray[np.uint64],
    indices: NDArray[np.int64],
) -> int:
    """Fill the output arrays `keys` and `indices`; return 0, or a code of `_FAULTS`.

    It is the reference for `core.mail.decode_bundle`.
    """
    n_keys = len(keys)
    parts = np.zeros((n_keys, 8), np.uint8)
    parts[:, :low_bytes] = lows.reshape(n_keys, low_bytes)
    bit_indices = np.flatnonzero(np.unpackbits(highs, bitorder="little").view(bool))
    high_bits = n_keys + (1 << KEY_BITS - 8 * low_bytes)
    if len(bit_indices) != n_keys or (n_keys and bit_indices[-1] >= high_bits):
        return 1
    keys[:] = parts.view("<u8")[:, 0]
    keys |= (bit_indices - np.arange(n_keys)).astype(np.uint64) << np.uint64(8 * low_bytes)
    if not bool(np.all(keys[1:] > keys[:-1])):
        return 2
    steps = gaps.astype(np.intp)
    steps[steps == LONG_GAP] = np.frombuffer(long_gaps.tobytes(), "<u4")
    steps += 1
    message_sizes = np.frombuffer(sizes.tobytes(), "<u4")
    starts = np.concatenate([[0], np.cumsum(message_sizes, dtype=np.intp)])
    ends = np.cumsum(steps)
    offsets = np.concatenate([[0], ends])[starts[:-1]]
    indices[:] = ends - np.repeat(offsets + 1, message_sizes)
    return 3 if len(indices) and int(indices.max()) >= n_keys else 0


def combine(bundles: Sequence[Bundle]) -> Bundle:
    """Make one bundle of the messages of several bundles, in the order of the bundles."""
    keys, all_indices = merge_keys(bundles)
    indices, starts, features = [np.empty(0, np.intp)], [np.zeros(1, np.intp)], 0
    for bundle, bundle_indices in zip(bundles, all_indices, strict=True):
        indices.append(bundle_indices)
        starts.append(bundle.starts[1:] + features)
        features += len(bundle.indices)
    return Bundle(keys, np.concatenate(starts), np.concatenate(indices))


def merge_keys(bundles: Sequence[Bundle]) -> tuple[NDArray[np.uint64], Iterator[NDArray[np.intp]]]:
    """Return the distinct keys of bundles, and yield the indices of each bundle into these keys."""
    if len(bundles) == 1:
        return bundles[0].keys, iter([bundles[0].indices])
    keys, key_indices = merge_lists([bundle.keys for bundle in bundles])
    ends = np.cumsum([len(bundle.keys) for bundle in bundles]).tolist()
    return keys, (
        key_indices[end - len(bundle.keys) : end][bundle.indices]
        for bundle, end in zip(bundles, ends, strict=True)
    )


def merge_lists(lists: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the distinct keys of ascending lists, and the index of each element among them.

    It equals `np.unique(np.concatenate(lists), return_inverse=True)`. It is faster because it sorts plain
    integers: the list's number is stored in the 16 bits that a 48-bit key leaves free.
    """
    all_keys = np.concatenate([*lists, np.empty(0, np.uint64)])
    if len(lists) >= 1 << 64 - KEY_BITS:
        return np.unique(all_keys, return_inverse=True)
    sizes = np.array([len(one) for one in lists], np.int64)
    if core is None:
        return merge_sorted(all_keys, sizes)
    distinct, indices = np.empty(len(all_keys), np.uint64), np.empty(len(all_keys), np.int64)
    n_distinct = core.mail.merge_lists(all_keys, sizes, distinct, indices)
    return distinct[:n_distinct], indices.astype(np.intp, copy=False)


def merge_sorted(
    all_keys: NDArray[np.uint64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Merge lists whose concatenation is `all_keys`, as `merge_lists` does: the reference for the core."""
    numbers = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes)
    tagged = all_keys << np.uint64(64 - KEY_BITS) | numbers
    tagged.sort(kind="stable")  # merges ascending lists
    sorted_keys = tagged >> np.uint64(64 - KEY_BITS)
    is_first = np.ones(len(tagged), bool)
    is_first[1:] = sorted_keys[1:] != sorted_keys[:-1]
    # The low 16 bits (64 − KEY_BITS) are the list number; a stable argsort by it, which is a radix sort,
    # restores the order of the input.
    order = np.argsort(tagged.astype(np.uint16), kind="stable")
    return sorted_keys[is_first], (np.cumsum(is_first) - 1)[order]
