"""Numbers keys, finds tokens among known ones, and joins tokens to names."""

from typing import Any

import numpy as np

from tamis._kernels.jit import (
    BYTES_1D,
    BYTES_OUT_1D,
    DIGIT,
    DIGITS_1D,
    INDICES_1D,
    INDICES_OUT_1D,
    INTEGER,
    WORDS_1D,
    kernel,
)
from tamis._kernels.text.compiled.machine import U, eight, store
from tamis._kernels.text.compiled.tables import LONG_KEY, build_table, enter, is_same, share_of, slot
from tamis._kernels.text.kinds import PAD, SEED, Bytes, Indices, Int64s, Tokens, UInt64s
from tamis._kernels.text.reference import place_names, slots

_LEAST_SLOTS = 14  # bits


@kernel(DIGITS_1D, INTEGER, INTEGER, INTEGER, DIGIT, INDICES_OUT_1D)
def _number_keys(keys: UInt64s, share: int, shares: int, bits: int, seed: Any, numbers: Any) -> Int64s:
    first = np.empty(1 << (bits - 1), dtype=np.int64)
    table = np.zeros(2 << bits, dtype=np.uint64)
    known = 0
    for token in range(len(keys)):
        key = keys[U(token)]
        if shares > 1 and share_of(key, shares) != share:
            continue
        at = slot(key, bits, seed)
        while True:
            number: Any = np.int64(table[U(2 * at + 1)]) - 1
            if number < 0:
                if known == len(first):
                    bits += 1
                    wider = np.empty(1 << (bits - 1), dtype=np.int64)
                    wider[:known] = first
                    first = wider
                    table = np.zeros(2 << bits, dtype=np.uint64)
                    for k in range(known):
                        enter(table, bits, keys[first[k]], k, seed)
                    at = slot(key, bits, seed)
                    continue
                number = known
                table[U(2 * at)] = key
                table[U(2 * at + 1)] = U(known + 1)
                first[U(known)] = token
                known += 1
                break
            if table[U(2 * at)] == key:
                break
            at = (at + 1) & ((1 << bits) - 1)
        numbers[U(token)] = number
    return first[:known].copy()


def number_keys(keys: UInt64s, numbers: Indices, share: int, shares: int) -> Int64s:
    bits = max(_LEAST_SLOTS, slots(len(keys) // (2 * shares)))  # phrases are mostly new: a table grows once
    return _number_keys(keys, share, shares, bits, SEED, numbers)


def index_keys(keys: UInt64s) -> UInt64s:
    return build_table(keys, len(keys), slots(len(keys)), SEED)


@kernel(
    DIGITS_1D,
    INTEGER,
    DIGIT,
    BYTES_1D,
    WORDS_1D,
    WORDS_1D,
    BYTES_1D,
    WORDS_1D,
    WORDS_1D,
    DIGITS_1D,
    INDICES_OUT_1D,
)
def _find_tokens(
    table: UInt64s,
    bits: int,
    seed: Any,
    known: Bytes,
    starts: Int64s,
    lengths: Int64s,
    text: Bytes,
    places: Int64s,
    sizes: Int64s,
    keys: UInt64s,
    numbers: Any,
) -> None:
    for token in range(len(keys)):
        key = keys[U(token)]
        at = slot(key, bits, seed)
        number: Any = np.int64(table[U(2 * at + 1)]) - 1
        while number >= 0:
            if table[U(2 * at)] == key:
                size = sizes[U(token)]
                if key < LONG_KEY or (
                    lengths[U(number)] == size
                    and is_same(known, starts[U(number)], text, places[U(token)], size)
                ):
                    break
            at = (at + 1) & ((1 << bits) - 1)
            number = np.int64(table[U(2 * at + 1)]) - 1
        numbers[U(token)] = number


def find_tokens(table: UInt64s, tokens: Tokens, other: Tokens) -> Indices:
    numbers = np.empty(len(other.keys), dtype=np.int32)
    bits = (len(table) // 2).bit_length() - 1
    _find_tokens(table, bits, SEED, tokens.text, tokens.starts, tokens.lengths, *other, numbers)
    return numbers


@kernel(DIGITS_1D, INTEGER, DIGIT, DIGITS_1D, INDICES_OUT_1D)
def _find_keys(table: UInt64s, bits: int, seed: Any, keys: UInt64s, numbers: Any) -> None:
    for token in range(len(keys)):
        at = slot(keys[U(token)], bits, seed)
        number = np.int64(table[U(2 * at + 1)]) - 1
        while number >= 0 and table[U(2 * at)] != keys[U(token)]:
            at = (at + 1) & ((1 << bits) - 1)
            number = np.int64(table[U(2 * at + 1)]) - 1
        numbers[U(token)] = number


def find_keys(table: UInt64s, keys: UInt64s) -> Indices:
    numbers = np.empty(len(keys), dtype=np.int32)
    _find_keys(table, (len(table) // 2).bit_length() - 1, SEED, keys, numbers)
    return numbers


@kernel(BYTES_1D, WORDS_1D, WORDS_1D, INDICES_1D, WORDS_1D, BYTES_1D, WORDS_1D, BYTES_OUT_1D)
def _join_tokens(
    text: Bytes,
    starts: Int64s,
    lengths: Int64s,
    numbers: Any,
    bounds: Int64s,
    separator: Bytes,
    places: Int64s,
    out: Any,
) -> None:
    for name in range(len(bounds) - 1):
        w = places[name]
        for k in range(bounds[name], bounds[name + 1]):
            if k > bounds[name]:
                for b in range(len(separator)):
                    out[U(w)] = separator[b]
                    w += 1
            start, length = starts[numbers[U(k)]], lengths[numbers[U(k)]]
            for b in range(length >> 3):
                store(out, w + 8 * b, eight(text, start + 8 * b))
            for b in range(length & ~7, length):
                out[U(w + b)] = text[U(start + b)]
            w += length


def join_tokens(
    text: Bytes, starts: Int64s, lengths: Int64s, numbers: Indices, bounds: Int64s, separator: Bytes
) -> tuple[Bytes, Int64s, Int64s]:
    places, sizes = place_names(lengths, numbers, bounds, len(separator))
    out = np.zeros(int(sizes.sum()) + PAD, dtype=np.uint8)
    _join_tokens(text, starts, lengths, numbers, bounds, separator, places, out)
    return out, places, sizes
