"""Features of messages as NumPy arrays."""

import numpy as np
from numpy.typing import NDArray

from tamis.compiled import core
from tamis_mail.features import hashing, pack_features
from tamis_mail.tokens import VERSION, Tokens

Numbers = NDArray[np.uint64]  # numbers of features


def hash_tokens(tokens: Tokens) -> Numbers:
    """Compute the features of a message (features,), in ascending order; the array is read-only."""
    return np.frombuffer(pack_features(tokens), "<u8")


def views(keys: Numbers, version: int = VERSION) -> NDArray[np.uint8]:
    """Compute `hashing.view` of each key. They are the lowest bits of its lowest byte."""
    return keys.astype(np.uint8) & np.uint8(hashing.view_mask(version))


def expand_ranges(
    begins: NDArray[np.intp], ends: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of all features of messages, and for each the index of its message.

    Message i has the positions begins[i], …, ends[i] - 1.

    >>> positions, owners = expand_ranges(np.array([2, 5]), np.array([5, 6]))
    >>> positions.tolist(), owners.tolist()
    ([2, 3, 4, 5], [0, 0, 0, 1])
    """
    sizes = ends - begins
    owners = np.repeat(np.arange(len(begins)), sizes)
    sizes_before = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) + (begins - sizes_before)[owners], owners


def find_keys(stored: Numbers, keys: Numbers) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Return whether each key is stored, and the indices in `stored` of those that are.

    Both arrays are in ascending order.

    >>> is_stored, indices = find_keys(np.array([3, 5, 8], np.uint64), np.array([2, 5, 8, 9], np.uint64))
    >>> is_stored.tolist(), indices.tolist()
    ([False, True, True, False], [1, 2])
    """
    if core is None or not len(stored):
        indices = np.searchsorted(stored, keys)
        is_stored = indices < len(stored)
        is_stored[is_stored] = stored[indices[is_stored]] == keys[is_stored]
    else:
        indices = np.empty(len(keys), np.int64)
        core.mail.find_keys(stored, keys, indices)
        is_stored = indices >= 0
    return is_stored, indices[is_stored].astype(np.intp, copy=False)


def find_firsts(ordered: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the index of the first occurrence of each value in a sorted array.

    `np.unique` would import `numpy.ma`, which takes 20 ms.

    >>> find_firsts(np.array([3, 3, 5, 8, 8])).tolist()
    [0, 2, 3]
    """
    changes = np.ones(len(ordered), bool)
    changes[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(changes)
