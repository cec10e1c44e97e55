"""Hashes tokens by MurmurHash3."""

from typing import Any

import numba
import numpy as np

from tamis._kernels.jit import BYTES_1D, WORDS_1D, kernel, part
from tamis._kernels.text.compiled.machine import ONE, U, eight
from tamis._kernels.text.kinds import Bytes, Hashes, Int64s


@part
def _rotate(word: np.uint32, bits: int) -> np.uint32:
    return np.uint32(word << np.uint32(bits) | word >> np.uint32(32 - bits))


@part
def _scramble(word: np.uint32) -> np.uint32:
    return np.uint32(_rotate(np.uint32(word * np.uint32(0xCC9E2D51)), 15) * np.uint32(0x1B873593))


@kernel(BYTES_1D, WORDS_1D, WORDS_1D, numba.uint32, numba.types.Array(numba.uint32, 1, "C"))
def _hash_tokens(text: Bytes, starts: Int64s, lengths: Int64s, seed: Any, out: Any) -> None:
    for token in range(len(starts)):
        start, length = starts[token], lengths[token]
        state = np.uint32(seed)
        for k in range(length >> 2):
            state = np.uint32(state ^ _scramble(np.uint32(eight(text, start + 4 * k))))
            state = np.uint32(_rotate(state, 13) * np.uint32(5) + np.uint32(0xE6546B64))
        rest = length & 3
        if rest:
            tail = eight(text, start + length - rest) & ((ONE << U(8 * rest)) - ONE)
            state = np.uint32(state ^ _scramble(np.uint32(tail)))
        state = np.uint32(state ^ np.uint32(length))
        state = np.uint32((state ^ state >> np.uint32(16)) * np.uint32(0x85EBCA6B))
        state = np.uint32((state ^ state >> np.uint32(13)) * np.uint32(0xC2B2AE35))
        out[token] = np.uint32(state ^ state >> np.uint32(16))


def hash_tokens(text: Bytes, starts: Int64s, lengths: Int64s, seed: int) -> Hashes:
    out = np.empty(len(starts), dtype=np.uint32)
    _hash_tokens(text, starts, lengths, np.uint32(seed), out)
    return out
