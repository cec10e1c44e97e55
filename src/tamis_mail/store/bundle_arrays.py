"""Feature sets of messages ↔ bundles, in NumPy. See `bundles` for the format."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import KEY_BITS
from tamis_mail.schema import MAX_BUNDLE_FEATURES, MAX_BUNDLE_MESSAGES
from tamis_mail.store.bundles import (
    HEAD,
    LONG_GAP,
    LOW_BYTES,
    bundle_error,
    compress_gaps,
    expand_gaps,
    read_layout,
)

__all__ = ["Bundle", "MessageFeatures", "combine", "divide", "merge_keys", "merge_lists", "pack", "unpack"]


@dataclass(frozen=True, slots=True)
class Bundle:
    """The feature sets of some messages: message i has keys[indices[starts[i] : starts[i + 1]]]."""

    keys: NDArray[np.uint64]  # (distinct,) in ascending order
    starts: NDArray[np.intp]  # (messages + 1,)
    indices: NDArray[np.intp]  # (features,) in ascending order within each message

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, features: Sequence[NDArray[np.uint64]]) -> "Bundle":
        """Make a bundle of messages, of each its keys in ascending order."""
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
        """Return a bundle of the same messages with some of the keys."""
        feature_is_kept = is_kept[self.indices]
        starts = np.concatenate([[0], np.cumsum(feature_is_kept)])[self.starts]
        return Bundle(self.keys[is_kept], starts, (np.cumsum(is_kept) - 1)[self.indices[feature_is_kept]])


@dataclass(frozen=True, slots=True)
class MessageFeatures:
    """The features, labels and weights of the messages that a store remembers, in the order of digests.

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
    low_bytes = min(LOW_BYTES, key=lambda size: 8 * size * n_keys + (1 << KEY_BITS - 8 * size))
    lows = bundle.keys.astype("<u8").view(np.uint8).reshape(n_keys, 8)[:, :low_bytes]
    bits = np.zeros(n_keys + (1 << KEY_BITS - 8 * low_bytes), np.uint8)
    bits[(bundle.keys >> np.uint64(8 * low_bytes)).astype(np.intp) + np.arange(n_keys)] = 1
    sizes = np.diff(bundle.starts)
    gaps = np.diff(bundle.indices, prepend=0) - 1
    firsts = bundle.starts[:-1][sizes > 0]
    gaps[firsts] = bundle.indices[firsts]
    is_long = gaps >= LONG_GAP
    data = b"".join(
        (
            HEAD.pack(len(bundle), n_keys, low_bytes),
            sizes.astype("<u4").tobytes(),
            lows.tobytes(),
            np.packbits(bits, bitorder="little").tobytes(),
            np.minimum(gaps, LONG_GAP).astype(np.uint8).tobytes(),
            gaps[is_long].astype("<u4").tobytes(),
        )
    )
    return compress_gaps(data, len(data) - len(gaps) - 4 * int(is_long.sum()))


def unpack(stored: object) -> Bundle:
    """Read a bundle; raise StoreError unless it is valid."""
    data = expand_gaps(stored)
    layout = read_layout(data)
    n_keys, low_bytes = layout.keys, layout.low_bytes
    sizes = np.frombuffer(data, "<u4", layout.messages, HEAD.size)
    parts = np.zeros((n_keys, 8), np.uint8)
    parts[:, :low_bytes] = np.frombuffer(data, np.uint8, low_bytes * n_keys, layout.lows).reshape(
        n_keys, low_bytes
    )
    highs = np.frombuffer(data, np.uint8, layout.gaps - layout.highs, layout.highs)
    bit_indices = np.flatnonzero(np.unpackbits(highs, bitorder="little").view(bool))
    if len(bit_indices) != n_keys or (n_keys and bit_indices[-1] >= layout.high_bits):
        raise bundle_error("the high parts of keys are not one per key")
    keys = parts.view("<u8")[:, 0].astype(np.uint64)
    keys |= (bit_indices - np.arange(n_keys)).astype(np.uint64) << np.uint64(8 * low_bytes)
    if not bool(np.all(keys[1:] > keys[:-1])):
        raise bundle_error("the keys of a bundle are not in ascending order")
    steps = np.frombuffer(data, np.uint8, layout.long_gaps - layout.gaps, layout.gaps).astype(np.intp)
    steps[steps == LONG_GAP] = np.frombuffer(data, "<u4", -1, layout.long_gaps)
    steps += 1
    starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)])
    ends = np.cumsum(steps)
    offsets = np.concatenate([[0], ends])[starts[:-1]]
    indices = ends - np.repeat(offsets + 1, sizes)
    if len(indices) and int(indices.max()) >= n_keys:
        raise bundle_error("a message refers to more keys than there are")
    return Bundle(keys, starts, indices)


def combine(bundles: Sequence[Bundle]) -> Bundle:
    """Make one bundle of the messages of several, one after the other."""
    keys, all_indices = merge_keys(bundles)
    indices, starts, features = [np.empty(0, np.intp)], [np.zeros(1, np.intp)], 0
    for bundle, bundle_indices in zip(bundles, all_indices, strict=True):
        indices.append(bundle_indices)
        starts.append(bundle.starts[1:] + features)
        features += len(bundle.indices)
    return Bundle(keys, np.concatenate(starts), np.concatenate(indices))


def merge_keys(bundles: Sequence[Bundle]) -> tuple[NDArray[np.uint64], Iterator[NDArray[np.intp]]]:
    """Return the distinct keys of bundles, and yield the indices of each bundle into these keys."""
    keys, key_indices = merge_lists([bundle.keys for bundle in bundles])
    ends = np.cumsum([len(bundle.keys) for bundle in bundles]).tolist()
    return keys, (
        key_indices[end - len(bundle.keys) : end][bundle.indices]
        for bundle, end in zip(bundles, ends, strict=True)
    )


def divide(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges [begin, end) of messages that one bundle holds, given the numbers of their features."""
    begin = total = 0
    for number, size in enumerate(sizes):
        if number > begin and (number - begin >= MAX_BUNDLE_MESSAGES or total + size > MAX_BUNDLE_FEATURES):
            yield begin, number
            begin, total = number, 0
        total += size
    if len(sizes) > begin:
        yield begin, len(sizes)


def merge_lists(lists: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the distinct keys of ascending lists, and the index of each element among them.

    It equals `np.unique(np.concatenate(lists), return_inverse=True)` and is faster, because it sorts numbers
    and no indices: the number of a list fits into the bits of a 64-bit number that a key leaves free.
    """
    numbers = np.repeat(np.arange(len(lists), dtype=np.uint64), [len(one) for one in lists])
    all_keys = np.concatenate([*lists, np.empty(0, np.uint64)])
    if len(lists) >= 1 << 64 - KEY_BITS:
        return np.unique(all_keys, return_inverse=True)
    tagged = all_keys << np.uint64(64 - KEY_BITS) | numbers
    tagged.sort(kind="stable")  # merges ascending lists
    sorted_keys = tagged >> np.uint64(64 - KEY_BITS)
    is_first = np.ones(len(tagged), bool)
    is_first[1:] = sorted_keys[1:] != sorted_keys[:-1]
    # A stable sort of 16-bit numbers is a radix sort; the elements of a list stay in ascending order.
    order = np.argsort(tagged.astype(np.uint16), kind="stable")
    return sorted_keys[is_first], (np.cumsum(is_first) - 1)[order]
