"""tokens → numbers, by tables of their keys.

A table is pairs of a key and its number plus one, each in the first free place from the slot of its key on.
"""

from typing import Any

import numpy as np

from tamis._kernels.jit import (
    BOOLEAN,
    BYTES_1D,
    BYTES_OUT_1D,
    DIGITS_1D,
    INDICES_1D,
    INDICES_OUT_1D,
    INTEGER,
    WORDS_1D,
    kernel,
    part,
)
from tamis._kernels.text.compiled.machine import U, eight, store
from tamis._kernels.text.compiled.tokens import LONG_KEY
from tamis._kernels.text.kinds import MIX, PAD, SHARE, Bytes, Digits, Found, Indices, Tokens, Words
from tamis._kernels.text.reference import joined_places, slots

_MIX = U(MIX)
_SHARE = U(SHARE)
_FIRST_SLOTS = 14  # bits: a table that fits the second cache at first
_NO_TEXT = np.zeros(0, dtype=np.uint8)
_NO_PLACES = np.zeros(0, dtype=np.int64)


@part
def _same(text: Bytes, start: int, other: Bytes, place: int, length: int) -> Any:
    """Whether two tokens of eight bytes or more have the same bytes."""
    for k in range(length >> 3):
        if eight(text, start + 8 * k) != eight(other, place + 8 * k):
            return False
    return eight(text, start + length - 8) == eight(other, place + length - 8)


@part
def _slot(key: Any, bits: int) -> Any:
    return np.int64(key * _MIX >> U(64 - bits))


@part
def _enter(table: Any, bits: int, key: np.uint64, number: int) -> None:
    at = _slot(key, bits)
    while table[U(2 * at + 1)] != 0:
        at = (at + 1) & ((1 << bits) - 1)
    table[U(2 * at)] = key
    table[U(2 * at + 1)] = U(number + 1)


@kernel(BYTES_1D, WORDS_1D, WORDS_1D, DIGITS_1D, INTEGER, INTEGER, INTEGER, INDICES_OUT_1D)
def _identify(
    text: Bytes, starts: Words, lengths: Words, keys: Digits, share: int, shares: int, bits: int, numbers: Any
) -> Words:
    """Number all tokens of a text; or of keys that are exact (`shares` > 0), those of one share."""
    first = np.empty(1 << (bits - 1), dtype=np.int64)
    table = np.zeros(2 << bits, dtype=np.uint64)
    known = 0
    for token in range(len(keys)):
        key = keys[U(token)]
        if shares > 1 and np.int64(key * _SHARE >> U(40)) % shares != share:
            continue
        at = _slot(key, bits)
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
                        _enter(table, bits, keys[first[k]], k)
                    at = _slot(key, bits)
                    continue
                number = known
                table[U(2 * at)] = key
                table[U(2 * at + 1)] = U(known + 1)
                first[U(known)] = token
                known += 1
                break
            if table[U(2 * at)] == key:
                if shares > 0 or key < LONG_KEY:
                    break
                other = first[U(number)]
                length = lengths[U(token)]
                if lengths[U(other)] == length and _same(
                    text, starts[U(other)], text, starts[U(token)], length
                ):
                    break
            at = (at + 1) & ((1 << bits) - 1)
        numbers[U(token)] = number
    return first[:known].copy()


@kernel(DIGITS_1D, INTEGER)
def _index(keys: Digits, bits: int) -> Digits:
    table = np.zeros(2 << bits, dtype=np.uint64)
    for number in range(len(keys)):
        _enter(table, bits, keys[U(number)], number)
    return table


def index(keys: Digits) -> Digits:
    return _index(keys, slots(len(keys)))


@kernel(
    DIGITS_1D,
    INTEGER,
    BYTES_1D,
    WORDS_1D,
    WORDS_1D,
    BYTES_1D,
    WORDS_1D,
    WORDS_1D,
    DIGITS_1D,
    BOOLEAN,
    INDICES_OUT_1D,
)
def _find(
    table: Digits,
    bits: int,
    text: Bytes,
    starts: Words,
    lengths: Words,
    asked_text: Bytes,
    asked_starts: Words,
    asked_lengths: Words,
    keys: Digits,
    exact: bool,
    numbers: Any,
) -> None:
    for token in range(len(keys)):
        key = keys[U(token)]
        at = _slot(key, bits)
        while True:
            number = np.int64(table[U(2 * at + 1)]) - 1
            if number < 0:
                break
            if table[U(2 * at)] == key:
                if exact or key < LONG_KEY:
                    break
                length = asked_lengths[U(token)]
                if lengths[U(number)] == length and _same(
                    text, starts[U(number)], asked_text, asked_starts[U(token)], length
                ):
                    break
            at = (at + 1) & ((1 << bits) - 1)
        numbers[U(token)] = number


def find(table: Digits, text: Bytes, starts: Words, lengths: Words, asked: Bytes, tokens: Tokens) -> Indices:
    numbers = np.empty(len(tokens.keys), dtype=np.int32)
    bits = (len(table) // 2).bit_length() - 1
    _find(
        table, bits, text, starts, lengths, asked, tokens.starts, tokens.lengths, tokens.keys, False, numbers
    )
    return numbers


def find_keys(table: Digits, keys: Digits) -> Indices:
    numbers = np.empty(len(keys), dtype=np.int32)
    bits = (len(table) // 2).bit_length() - 1
    _find(
        table,
        bits,
        _NO_TEXT,
        _NO_PLACES,
        _NO_PLACES,
        _NO_TEXT,
        _NO_PLACES,
        _NO_PLACES,
        keys,
        True,
        numbers,
    )
    return numbers


@kernel(BYTES_1D, WORDS_1D, WORDS_1D, INDICES_1D, WORDS_1D, BYTES_1D, WORDS_1D, BYTES_OUT_1D)
def _join(
    text: Bytes,
    starts: Words,
    lengths: Words,
    parts: Any,
    bounds: Words,
    between: Bytes,
    places: Words,
    out: Any,
) -> None:
    for name in range(len(bounds) - 1):
        w = places[name]
        for k in range(bounds[name], bounds[name + 1]):
            if k > bounds[name]:
                for b in range(len(between)):
                    out[U(w)] = between[b]
                    w += 1
            start, length = starts[parts[U(k)]], lengths[parts[U(k)]]
            for b in range(length >> 3):
                store(out, w + 8 * b, eight(text, start + 8 * b))
            for b in range(length & ~7, length):
                out[U(w + b)] = text[U(start + b)]
            w += length


def join(
    text: Bytes, starts: Words, lengths: Words, parts: Indices, bounds: Words, between: Bytes
) -> tuple[Bytes, Words, Words]:
    places, sizes = joined_places(lengths, parts, bounds, len(between))
    out = np.zeros(int(sizes.sum()) + PAD, dtype=np.uint8)
    _join(text, starts, lengths, parts, bounds, between, places, out)
    return out, places, sizes


def identify(folded: Bytes, tokens: Tokens) -> Found:
    numbers = np.empty(len(tokens.keys), dtype=np.int32)
    first = _identify(folded, tokens.starts, tokens.lengths, tokens.keys, 0, 0, _FIRST_SLOTS, numbers)
    return Found(numbers, first)


def identify_keys(keys: Digits, numbers: Indices, share: int, shares: int) -> Words:
    bits = max(
        _FIRST_SLOTS, slots(len(keys) // (2 * shares))
    )  # phrases are mostly new: a table grows once at most
    return _identify(_NO_TEXT, _NO_PLACES, _NO_PLACES, keys, share, shares, bits, numbers)
