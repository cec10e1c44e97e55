"""Maps tokens to numbers by a hash table of keys; new tokens are copied to a text of their own.

Each slot of a table holds a key and its number plus one. A key is in the first slot that was free for it.
"""

from typing import Any

import numpy as np

from tamis._kernels.jit import BYTES_1D, DIGIT, DIGITS_1D, DIGITS_OUT_1D, INTEGER, WORDS_1D, kernel, part
from tamis._kernels.text.compiled.machine import ONE, U, eight
from tamis._kernels.text.kinds import LONG, PAD, SEED, SHARE, Bytes, Int64s, Tokens, UInt64s

LONG_KEY = U(LONG << 56)
COUNT, USED = 0, 1  # indices in `Known.state`: the number of known tokens, the length of their text
_LEAST_SLOTS, _SPARE = 8, 64  # log2 of the least number of slots; bytes of text per slot
_SHARE = U(SHARE)
_BYTE = U(8)


@part
def key_of(text: Bytes, start: int, length: int, seed: Any) -> Any:
    """Return the key of a token."""
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
    """Return the first slot to search for a key."""
    return np.int64(key * seed >> U(64 - bits))


@part
def share_of(key: Any, shares: int) -> Any:
    """Return the share of work that a key belongs to."""
    return np.int64(key * _SHARE >> U(40)) % shares


@part
def is_same(text: Bytes, start: int, other: Bytes, place: int, length: int) -> Any:
    """Return whether two tokens of eight bytes or more have the same bytes."""
    for k in range(length >> 3):
        if eight(text, start + 8 * k) != eight(other, place + 8 * k):
            return False
    return eight(text, start + length - 8) == eight(other, place + length - 8)


@part
def enter(table: Any, bits: int, key: Any, number: int, seed: Any) -> None:
    """Insert a key with its number."""
    at = slot(key, bits, seed)
    while table[U(2 * at + 1)] != 0:
        at = (at + 1) & ((1 << bits) - 1)
    table[U(2 * at)] = key
    table[U(2 * at + 1)] = U(number + 1)


@kernel(DIGITS_1D, INTEGER, INTEGER, DIGIT)
def build_table(keys: UInt64s, count: int, bits: int, seed: Any) -> UInt64s:
    """Build a table of the first `count` keys."""
    table = np.zeros(2 << bits, dtype=np.uint64)
    for number in range(count):
        enter(table, bits, keys[U(number)], number, seed)
    return table


@kernel(BYTES_1D, WORDS_1D, WORDS_1D, DIGIT, DIGITS_OUT_1D)
def _make_keys(text: Bytes, starts: Int64s, lengths: Int64s, seed: Any, out: Any) -> None:
    for token in range(len(starts)):
        out[token] = key_of(text, starts[token], lengths[token], seed)


def make_keys(text: Bytes, starts: Int64s, lengths: Int64s) -> UInt64s:
    out = np.empty(len(starts), dtype=np.uint64)
    _make_keys(text, starts, lengths, SEED, out)
    return out


class Known:
    """The known tokens, and room for more. A kernel that needs more room returns, and `widen` provides it."""

    def __init__(self, size: int) -> None:
        self.bits = max(_LEAST_SLOTS, (size // _SPARE).bit_length())
        half = 1 << (self.bits - 1)
        self.table = np.zeros(2 << self.bits, dtype=np.uint64)
        self.text = np.empty(8 * half + PAD, dtype=np.uint8)
        self.starts, self.lengths = np.empty(half, dtype=np.int64), np.empty(half, dtype=np.int64)
        self.keys = np.empty(half, dtype=np.uint64)
        self.state = np.zeros(2, dtype=np.int64)

    def arrays(self) -> tuple[Any, ...]:
        """Return the arguments that kernels take."""
        return self.table, self.bits, self.text, self.starts, self.lengths, self.keys, self.state

    def widen(self, longest: int) -> None:
        """Double the room, and provide enough for one token of length `longest`."""
        self.bits += 1
        half = 1 << (self.bits - 1)
        self.table = build_table(self.keys, int(self.state[COUNT]), self.bits, SEED)
        self.text = _wider(self.text, 2 * len(self.text) + longest)
        self.starts, self.lengths = _wider(self.starts, half), _wider(self.lengths, half)
        self.keys = _wider(self.keys, half)

    def tokens(self) -> Tokens:
        """Return the tokens, without unused room."""
        count, used = int(self.state[COUNT]), int(self.state[USED])
        text = np.zeros(used + PAD, dtype=np.uint8)
        text[:used] = self.text[:used]
        return Tokens(text, self.starts[:count].copy(), self.lengths[:count].copy(), self.keys[:count].copy())


def _wider(array: Any, size: int) -> Any:
    larger = np.empty(size, dtype=array.dtype)
    larger[: len(array)] = array
    return larger
