"""Digits with their places → exact sums, of digits that a stranger may have written."""

from math import prod

import numpy as np

from tamis._kernels import Words
from tamis.stats.exact import FARTHEST, Exact

_LARGEST = 2.0**62  # what the digits of 2**30 tables come to in one place, at most
# Zeros are not written, so a few digits may be of wide sums: so many words at least (32 MB), or so many per
# digit.
_ROOM, _SPARSEST = 1 << 22, 64


def gather(word: Words, cell: Words, digits: Words, shape: tuple[int, ...]) -> Exact:
    """The sums of this shape of digits (n,), each at its word and its cell; what is wrong is a ValueError.

    Only cells that have digits are settled, because most may have none.

    >>> gather(np.array([0, 1, 0]), np.array([2, 2, 0]), np.array([5, 1, 7]), (3,)).value.tolist()
    [7.0, 0.0, 4294967301.0]
    """
    if not len(word):
        _refuse_large(prod(shape), 0)
        return Exact.zeros(shape)
    low, high = int(word.min()), int(word.max())
    if low < -FARTHEST or high >= FARTHEST - 2:
        raise ValueError("exponents beyond any sum")
    length = high - low + 1
    _refuse_large(length * prod(shape), len(word))
    used, place = np.unique(cell, return_inverse=True)
    flat = (word - low) * len(used) + place.reshape(-1)
    if np.bincount(flat, np.abs(digits.astype(np.float64))).max() >= _LARGEST:
        raise ValueError("digits that are too large")
    words = np.zeros(length * len(used), dtype=np.int64)
    np.add.at(words, flat, digits)
    settled = Exact.of_words(words.reshape(length, len(used)), low)
    found = np.zeros((len(settled.words), prod(shape)), dtype=np.int64)
    found[:, used] = settled.words
    return Exact(found.reshape(len(found), *shape), settled.low)


def _refuse_large(words: int, digits: int) -> None:
    """Raise for sums that are far larger than what is written of them."""
    if words > _ROOM + _SPARSEST * digits:
        raise ValueError(f"{digits} digits for {words} words")
