"""Finds tokens in folded bytes, 64 bytes at a time, and numbers them."""

from typing import Any

import numpy as np

from tamis._kernels.jit import (
    BOOLEAN,
    BYTES_1D,
    BYTES_OUT_1D,
    DIGIT,
    DIGITS_1D,
    DIGITS_OUT_1D,
    INDICES_1D,
    INDICES_OUT_1D,
    INTEGER,
    NUMBERS_1D,
    WORDS_1D,
    WORDS_OUT_1D,
    kernel,
    part,
)
from tamis._kernels.text.compiled.characters import cell_of, character
from tamis._kernels.text.compiled.machine import HIGHS, ONE, SEVENS, U, eight, lowest, store
from tamis._kernels.text.compiled.tables import COUNT, LONG_KEY, USED, Known, is_same, key_of, slot
from tamis._kernels.text.kinds import (
    PAD,
    SEED,
    SPACE,
    UNSPACED,
    Alphabet,
    Bytes,
    Indices,
    Int64s,
    Tokens,
    TokenStream,
    UInt64s,
)

# A table, log2 of its slots, the text of tokens, their starts, lengths and keys, and the counts of `Known`.
_KNOWN = (DIGITS_OUT_1D, INTEGER, BYTES_OUT_1D, WORDS_OUT_1D, WORDS_OUT_1D, DIGITS_OUT_1D, WORDS_OUT_1D)
_GATHER = U(0x0102040810204080)  # times eight bytes of 0 or 1: their bits, in the highest byte


@part
def _is_short(text: Bytes, start: int, length: int, shortest: int, blocks: Any, cells: Any) -> Any:
    """Return whether a token is too short; tokens of scripts without spaces never are."""
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
    DIGIT,
    WORDS_OUT_1D,
    WORDS_OUT_1D,
    DIGITS_OUT_1D,
    WORDS_OUT_1D,
)
def _scan(
    folded: Bytes,
    offsets: Int64s,
    shortest: int,
    blocks: Any,
    cells: Any,
    seed: Any,
    starts: Any,
    lengths: Any,
    keys: Any,
    documents: Any,
) -> int:
    total = 0
    for document in range(len(offsets) - 1):
        i, stop = offsets[document], offsets[document + 1]
        carry, start = U(0), i
        while i < stop or carry:
            inside = U(0)  # one bit per byte: whether it belongs to a token
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
                key = key_of(folded, start, length, seed)
                short = length < shortest
                if length < 4 * shortest and (length > 7 or key & HIGHS != 0):  # few tokens need this call
                    short = _is_short(folded, start, length, shortest, blocks, cells)
                if not short:
                    starts[U(total)] = start
                    lengths[U(total)] = length
                    keys[U(total)] = key
                    total += 1
            i += 64
        documents[document + 1] = total
    return total


def read_words(folded: Bytes, offsets: Int64s, shortest: int, alphabet: Alphabet) -> TokenStream:
    room = (len(folded) + len(offsets)) // 2 + 1
    starts, lengths = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    keys, documents = np.empty(room, dtype=np.uint64), np.zeros(len(offsets), dtype=np.int64)
    total = _scan(
        folded, offsets, shortest, alphabet.blocks, alphabet.cells, SEED, starts, lengths, keys, documents
    )
    numbers, tokens = number_tokens(
        Tokens(folded, starts[:total], lengths[:total], keys[:total]), len(folded)
    )
    return TokenStream(numbers, documents, tokens)


@part
def _slide(
    folded: Bytes, start: int, stop: int, n: int, seed: Any, starts: Any, lengths: Any, keys: Any, total: int
) -> tuple[int, int]:
    """Write the n-grams of a stretch, or itself if it is shorter; return the total and its length."""
    first = last = start
    count = 0
    while last < stop:
        last += 1
        while last < stop and folded[U(last)] & 0xC0 == 0x80:
            last += 1
        count += 1
        if count < n and last < stop:
            continue
        starts[U(total)] = first
        lengths[U(total)] = last - first
        keys[U(total)] = key_of(folded, first, last - first, seed)
        total += 1
        first += 1
        while first < last and folded[U(first)] & 0xC0 == 0x80:
            first += 1
    return total, count


@kernel(
    BYTES_1D,
    WORDS_1D,
    INTEGER,
    INTEGER,
    BOOLEAN,
    DIGIT,
    WORDS_OUT_1D,
    WORDS_OUT_1D,
    DIGITS_OUT_1D,
    WORDS_OUT_1D,
)
def _grams(
    folded: Bytes,
    offsets: Int64s,
    least: int,
    most: int,
    within: bool,
    seed: Any,
    starts: Any,
    lengths: Any,
    keys: Any,
    documents: Any,
) -> int:
    total = 0
    for document in range(len(offsets) - 1):
        i, stop = offsets[document], offsets[document + 1]
        if not within:
            for n in range(least, most + 1):
                before = total
                total, count = _slide(folded, i, stop, n, seed, starts, lengths, keys, total)
                if count < n:
                    total = before
                    break
        while within and i + 1 < stop:  # from one space to the next
            end = i + 1
            while folded[U(end)] != SPACE:
                end += 1
            for n in range(least, most + 1):
                total, count = _slide(folded, i, end + 1, n, seed, starts, lengths, keys, total)
                if count <= n:
                    break
            i = end
        documents[document + 1] = total
    return total


def read_grams(folded: Bytes, offsets: Int64s, least: int, most: int, within: bool) -> TokenStream:
    most = min(
        most, max(least, int(np.diff(offsets).max(initial=0)))
    )  # no n-gram is longer than its document
    room = (most - least + 1) * (2 * (len(folded) - PAD) if within else len(folded) - PAD) + 1
    starts, lengths = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    keys, documents = np.empty(room, dtype=np.uint64), np.zeros(len(offsets), dtype=np.int64)
    total = _grams(folded, offsets, least, most, within, SEED, starts, lengths, keys, documents)
    numbers, tokens = number_tokens(
        Tokens(folded, starts[:total], lengths[:total], keys[:total]), len(folded)
    )
    return TokenStream(numbers, documents, tokens)


# ── tokens → numbers, by first occurrence ──


@kernel(BYTES_1D, WORDS_1D, WORDS_1D, DIGITS_1D, INTEGER, DIGIT, *_KNOWN, INDICES_OUT_1D)
def _number_tokens(
    text: Bytes,
    places: Int64s,
    sizes: Int64s,
    given: UInt64s,
    first: int,
    seed: Any,
    table: Any,
    bits: int,
    known: Any,
    starts: Any,
    lengths: Any,
    keys: Any,
    state: Any,
    numbers: Any,
) -> int:
    """Number tokens from `first` on, until there is no room for one; return its position.

    All in one function: a call of so many arrays would cost more than what is done here for a token.
    """
    count, used = state[COUNT], state[USED]
    last = (1 << bits) - 1
    for token in range(first, len(given)):
        key = given[U(token)]
        at = slot(key, bits, seed)
        number: Any = np.int64(table[U(2 * at + 1)]) - 1
        while number >= 0:
            if table[U(2 * at)] == key:
                if key < LONG_KEY:
                    break
                size, place, start = sizes[U(token)], places[U(token)], starts[U(number)]
                if (
                    lengths[U(number)] == size
                    and eight(known, start) == eight(text, place)
                    and eight(known, start + size - 8) == eight(text, place + size - 8)
                    and (size <= 16 or is_same(known, start, text, place, size))
                ):
                    break
            at = (at + 1) & last
            number = np.int64(table[U(2 * at + 1)]) - 1
        if number < 0:
            size, place = sizes[U(token)], places[U(token)]
            if count == len(starts) or used + size + PAD > len(known):
                state[COUNT], state[USED] = count, used
                return token
            for k in range(0, size, 8):  # the next token overwrites the bytes beyond the end
                store(known, used + k, eight(text, place + k))
            starts[U(count)] = used
            lengths[U(count)] = size
            keys[U(count)] = key
            table[U(2 * at)] = key
            table[U(2 * at + 1)] = U(count + 1)
            number = count
            count += 1
            used += size
        numbers[U(token)] = number
    state[COUNT], state[USED] = count, used
    return len(given)


def number_tokens(tokens: Tokens, size: int = 0) -> tuple[Indices, Tokens]:
    kernel: Any = _number_tokens
    numbers = np.empty(len(tokens.keys), dtype=np.int32)
    known = Known(size or 64 * len(numbers))
    at = 0
    while True:
        at = kernel(*tokens, at, SEED, *known.arrays(), numbers)
        if at == len(numbers):
            return numbers, known.tokens()
        known.widen(int(tokens.lengths[at]))
