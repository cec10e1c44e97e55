"""folded bytes → tokens, 64 bytes at a time."""

from typing import Any

import numpy as np

from tamis._kernels.jit import (
    BOOLEAN,
    BYTES_1D,
    DIGITS_OUT_1D,
    INDICES_1D,
    INTEGER,
    NUMBERS_1D,
    WORDS_1D,
    WORDS_OUT_1D,
    kernel,
    part,
)
from tamis._kernels.text.compiled.characters import cell_of, character
from tamis._kernels.text.compiled.machine import HIGHS, ONE, SEVENS, U, eight, lowest
from tamis._kernels.text.kinds import LONG, MIX, PAD, SPACE, UNSPACED, Alphabet, Bytes, Tokens, Words

LONG_KEY = U(LONG << 56)
_MIX = U(MIX)
_BYTE = U(8)
_GATHER = U(0x0102040810204080)  # times eight bytes of 0 or 1: their bits, in the highest byte


@part
def key_of(text: Bytes, start: int, length: int) -> Any:
    """What a token is known by."""
    if length < 8:
        return (eight(text, start) & ((ONE << U(8 * length)) - ONE)) | U(length) << U(56)
    found = U(length) * _MIX
    for k in range(length >> 3):
        found = (found ^ eight(text, start + 8 * k)) * _MIX
        found ^= found >> U(29)
    found = (found ^ eight(text, start + length - 8)) * _MIX
    return found >> _BYTE | LONG_KEY


@part
def _is_short(text: Bytes, start: int, length: int, shortest: int, blocks: Any, cells: Any) -> Any:
    """Whether a token has too few characters; those of scripts without spaces never do."""
    count = 0
    for k in range(start, start + length):
        count += text[U(k)] & 0xC0 != 0x80
    if count >= shortest:
        return False
    code, _ = character(text, start, start + length)
    return code < 0x80 or cell_of(blocks, cells, code) & 7 != UNSPACED


@kernel(
    BYTES_1D,
    WORDS_1D,
    INTEGER,
    INDICES_1D,
    NUMBERS_1D,
    WORDS_OUT_1D,
    WORDS_OUT_1D,
    DIGITS_OUT_1D,
    WORDS_OUT_1D,
)
def _scan(
    folded: Bytes,
    offsets: Words,
    shortest: int,
    blocks: Any,
    cells: Any,
    starts: Any,
    lengths: Any,
    keys: Any,
    documents: Any,
) -> int:
    found = 0
    for document in range(len(offsets) - 1):
        i, stop = offsets[document], offsets[document + 1]
        carry, start = U(0), i
        while i < stop or carry:
            inside = U(0)  # a bit for each of 64 bytes: is it of a token
            if i < stop:
                for k in range(8):
                    word = eight(folded, i + 8 * k)
                    ones = ((((word & SEVENS) + SEVENS) | word) & HIGHS) >> U(7)
                    inside |= (ones * _GATHER >> U(56)) << U(8 * k)
                if stop - i < 64:
                    inside &= (ONE << U(stop - i)) - ONE
            edges = inside ^ (inside << ONE | carry)
            carry = inside >> U(63)
            while edges != 0:
                at = lowest(edges)
                edges &= edges - ONE
                if inside >> U(at) & ONE:
                    start = i + at
                    continue
                length = i + at - start
                key = key_of(folded, start, length)
                short = length < shortest
                if length < 4 * shortest and (length > 7 or key & HIGHS != 0):  # asked for few tokens: a call
                    short = _is_short(folded, start, length, shortest, blocks, cells)
                if not short:
                    starts[U(found)] = start
                    lengths[U(found)] = length
                    keys[U(found)] = key
                    found += 1
            i += 64
        documents[document + 1] = found
    return found


def scan(folded: Bytes, offsets: Words, shortest: int, alphabet: Alphabet) -> Tokens:
    most = (len(folded) + len(offsets)) // 2 + 1
    starts, lengths = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    keys, documents = np.empty(most, dtype=np.uint64), np.zeros(len(offsets), dtype=np.int64)
    found = _scan(
        folded, offsets, shortest, alphabet.blocks, alphabet.cells, starts, lengths, keys, documents
    )
    return Tokens(starts[:found], lengths[:found], keys[:found], documents)


@part
def _slide(
    folded: Bytes, start: int, stop: int, n: int, starts: Any, lengths: Any, keys: Any, found: int
) -> tuple[int, int]:
    """All runs of n characters of a stretch, or itself if it is shorter; how many, and its characters."""
    first = last = start
    count = 0
    while last < stop:
        last += 1
        while last < stop and folded[U(last)] & 0xC0 == 0x80:
            last += 1
        count += 1
        if count < n and last < stop:
            continue
        starts[U(found)] = first
        lengths[U(found)] = last - first
        keys[U(found)] = key_of(folded, first, last - first)
        found += 1
        first += 1
        while first < last and folded[U(first)] & 0xC0 == 0x80:
            first += 1
    return found, count


@kernel(
    BYTES_1D, WORDS_1D, INTEGER, INTEGER, BOOLEAN, WORDS_OUT_1D, WORDS_OUT_1D, DIGITS_OUT_1D, WORDS_OUT_1D
)
def _grams(
    folded: Bytes,
    offsets: Words,
    least: int,
    most: int,
    within: bool,
    starts: Any,
    lengths: Any,
    keys: Any,
    documents: Any,
) -> int:
    found = 0
    for document in range(len(offsets) - 1):
        i, stop = offsets[document], offsets[document + 1]
        if not within:
            for n in range(least, most + 1):
                before = found
                found, count = _slide(folded, i, stop, n, starts, lengths, keys, found)
                if count < n:
                    found = before
                    break
        while within and i + 1 < stop:  # from a space to the next
            end = i + 1
            while folded[U(end)] != SPACE:
                end += 1
            for n in range(least, most + 1):
                found, count = _slide(folded, i, end + 1, n, starts, lengths, keys, found)
                if count <= n:
                    break
            i = end
        documents[document + 1] = found
    return found


def grams(folded: Bytes, offsets: Words, least: int, most: int, within: bool) -> Tokens:
    room = (most - least + 1) * (2 * (len(folded) - PAD) if within else len(folded) - PAD) + 1
    starts, lengths = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    keys, documents = np.empty(room, dtype=np.uint64), np.zeros(len(offsets), dtype=np.int64)
    found = _grams(folded, offsets, least, most, within, starts, lengths, keys, documents)
    return Tokens(starts[:found], lengths[:found], keys[:found], documents)
