"""A token → its number, by a table of keys; new ones are copied to a text of their own.

A table is pairs of a key and its number plus one, each in the first free place from the slot of its key on.
"""

from typing import Any

import numpy as np

from tamis._kernels.jit import BYTES_1D, DIGIT, DIGITS_1D, DIGITS_OUT_1D, INTEGER, WORDS_1D, kernel, part
from tamis._kernels.text.compiled.machine import ONE, U, eight
from tamis._kernels.text.kinds import LONG, PAD, SEED, SHARE, Bytes, Digits, Stems, Words

LONG_KEY = U(LONG << 56)
COUNT, USED = 0, 1  # places in a state: how many tokens are known, how long their text is
_LEAST_SLOTS, _SPARE = 8, 64  # bits of a table at least; bytes of text for each of its slots
_SHARE = U(SHARE)
_BYTE = U(8)


@part
def key_of(text: Bytes, start: int, length: int, seed: Any) -> Any:
    """The key of a token."""
    if length < 8:
        return (eight(text, start) & ((ONE << U(8 * length)) - ONE)) | U(length) << U(56)
    key = U(length) * seed
    for k in range(length >> 3):
        key = (key ^ eight(text, start + 8 * k)) * seed
        key ^= key >> U(29)
    key = (key ^ eight(text, start + length - 8)) * seed
    return key >> _BYTE | LONG_KEY


@part
def slot(key: Any, bits: int, seed: Any) -> Any:
    """The first slot to search for a key."""
    return np.int64(key * seed >> U(64 - bits))


@part
def share_of(key: Any, shares: int) -> Any:
    """The share of work that a key belongs to."""
    return np.int64(key * _SHARE >> U(40)) % shares


@part
def is_same(text: Bytes, start: int, other: Bytes, place: int, length: int) -> Any:
    """Whether two tokens of eight bytes or more have the same bytes."""
    for k in range(length >> 3):
        if eight(text, start + 8 * k) != eight(other, place + 8 * k):
            return False
    return eight(text, start + length - 8) == eight(other, place + length - 8)


@part
def enter(table: Any, bits: int, key: Any, number: int, seed: Any) -> None:
    """Give a key a number."""
    at = slot(key, bits, seed)
    while table[U(2 * at + 1)] != 0:
        at = (at + 1) & ((1 << bits) - 1)
    table[U(2 * at)] = key
    table[U(2 * at + 1)] = U(number + 1)


@kernel(DIGITS_1D, INTEGER, INTEGER, DIGIT)
def build_table(keys: Digits, count: int, bits: int, seed: Any) -> Digits:
    """A table of the first keys."""
    table = np.zeros(2 << bits, dtype=np.uint64)
    for number in range(count):
        enter(table, bits, keys[U(number)], number, seed)
    return table


@kernel(BYTES_1D, WORDS_1D, WORDS_1D, DIGIT, DIGITS_OUT_1D)
def _keys(text: Bytes, starts: Words, lengths: Words, seed: Any, out: Any) -> None:
    for token in range(len(starts)):
        out[token] = key_of(text, starts[token], lengths[token], seed)


def keys(text: Bytes, starts: Words, lengths: Words) -> Digits:
    out = np.empty(len(starts), dtype=np.uint64)
    _keys(text, starts, lengths, SEED, out)
    return out


class Known:
    """Tokens that are known, and room for more. Kernels cannot widen what they write to: they ask for it."""

    def __init__(self, size: int) -> None:
        self.bits = max(_LEAST_SLOTS, (size // _SPARE).bit_length())
        half = 1 << (self.bits - 1)
        self.table = np.zeros(2 << self.bits, dtype=np.uint64)
        self.text = np.empty(8 * half + PAD, dtype=np.uint8)
        self.starts, self.lengths = np.empty(half, dtype=np.int64), np.empty(half, dtype=np.int64)
        self.keys = np.empty(half, dtype=np.uint64)
        self.state = np.zeros(2, dtype=np.int64)

    def arrays(self) -> tuple[Any, ...]:
        """The arrays, as kernels take them."""
        return self.table, self.bits, self.text, self.starts, self.lengths, self.keys, self.state

    def widen(self, longest: int) -> None:
        """Twice the room, and enough for one token so long."""
        self.bits += 1
        half = 1 << (self.bits - 1)
        self.table = build_table(self.keys, int(self.state[COUNT]), self.bits, SEED)
        self.text = _wider(self.text, 2 * len(self.text) + longest)
        self.starts, self.lengths = _wider(self.starts, half), _wider(self.lengths, half)
        self.keys = _wider(self.keys, half)

    def stems(self) -> Stems:
        """The tokens, without unused room, and with zeros after the text."""
        count, used = int(self.state[COUNT]), int(self.state[USED])
        text = np.zeros(used + PAD, dtype=np.uint8)
        text[:used] = self.text[:used]
        return Stems(text, self.starts[:count].copy(), self.lengths[:count].copy(), self.keys[:count].copy())


def _wider(array: Any, size: int) -> Any:
    larger = np.empty(size, dtype=array.dtype)
    larger[: len(array)] = array
    return larger
