"""Entries that name their cells → settled words.

Few cells stay in the cache, and every thread gets a copy of them to add its rows to. With many cells rows
are taken group by group, and cut into chunks with no regard to where groups end: a chunk that begins within
a group adds what it has of that group to words apart, which join the others at the end.

Numbers are first taken for whole ones that add up to little, and added as such at 3 ns an entry while it is
checked that they are; if they are not, the sums are thrown away and made anew, digit by digit.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tamis import threads
from tamis._kernels.compiled.digits import carry_and_trim
from tamis._kernels.compiled.groups import sort_by_group
from tamis._kernels.compiled.push import push, push_product
from tamis._kernels.jit import (
    FLOATS_1D,
    INDICES_1D,
    INTEGER,
    WORDS,
    WORDS_1D,
    WORDS_OUT,
    kernel,
    kernel_for,
    part,
)
from tamis._kernels.reference import BITS, HALF, Floats, Indices, Words

# (start, stop, words, apart, shared): rows to add, their cells, and what to use instead for one group.
Adder: TypeAlias = Callable[[int, int, Words, Words, int], tuple[int, int, int]]

_CHUNK = (WORDS_1D, WORDS_1D, INTEGER, INTEGER, WORDS_OUT, WORDS_OUT, INTEGER)
_SPARSE = tuple((WORDS_1D, kind, FLOATS_1D, FLOATS_1D, *_CHUNK) for kind in (INDICES_1D, WORDS_1D))
_CODES = (WORDS, WORDS_1D, FLOATS_1D, *_CHUNK)

FEW = 1 << 17  # cells that stay in a second-level cache: rows in their own order are read twice as fast
STRANGE = 1 << 62  # said of a number that is not whole: too large for all that follows


@kernel(WORDS_1D, INTEGER, INTEGER)
def _order(group: Words, groups: int, columns: int) -> Words:
    """The order in which to take the rows; empty for their own."""
    return sort_by_group(group if groups * columns > FEW else group[:0], groups)


@kernel(WORDS_1D, WORDS_1D, INTEGER)
def _cuts(indptr: Words, order: Words, count: int) -> Words:
    """The cuts of the rows, in their order, into chunks with about as many entries each."""
    n = indptr.shape[0] - 1
    cuts = np.full(count + 1, n)
    cuts[0] = 0
    seen = 0
    k = 1
    for row in range(n):
        while k < count and seen * count >= k * (indptr[n] - indptr[0]):
            cuts[k] = row
            k += 1
        i = order[row] if order.shape[0] > 0 else row
        seen += indptr[i + 1] - indptr[i]
    return cuts


@part
def _to_integer(value: float) -> int:
    """The integer that a number is, or one that is too large."""
    integer = int(value)
    return integer if float(integer) == value else STRANGE


@kernel_for(*_SPARSE)
def _add_sparse_integers(
    indptr: Words,
    indices: Indices,
    values: Floats,
    weights: Floats,
    group: Words,
    order: Words,
    start: int,
    stop: int,
    words: Words,
    apart: Words,
    shared: int,
) -> tuple[int, int, int]:
    """Add whole numbers. Returns the bits that any value and any weight has, and the sum of magnitudes."""
    columns = apart.shape[1]
    value_bits = 0
    weight_bits = 1
    total = 0
    for k in range(start, stop):
        i = order[k] if order.shape[0] > 0 else k
        g = group[i] if group.shape[0] > 0 else 0
        cells = apart[0] if g == shared else words[0, g * columns : (g + 1) * columns]
        weight = _to_integer(weights[i]) if weights.shape[0] > 0 else 1
        weight_bits |= weight ^ (weight >> 63)
        for e in range(indptr[i], indptr[i + 1]):
            value = _to_integer(values[e])
            value_bits |= value ^ (value >> 63)
            amount = weight * value
            total += abs(amount)
            cells[np.uint64(indices[e])] += amount  # unsigned, so that nobody asks whether it is negative
    return value_bits, weight_bits, total


@kernel_for(*((*signature, INTEGER) for signature in _SPARSE))
def _add_sparse_digits(
    indptr: Words,
    indices: Indices,
    values: Floats,
    weights: Floats,
    group: Words,
    order: Words,
    start: int,
    stop: int,
    words: Words,
    apart: Words,
    shared: int,
    low: int,
) -> None:
    columns = apart.shape[1]
    for k in range(start, stop):
        i = order[k] if order.shape[0] > 0 else k
        g = group[i] if group.shape[0] > 0 else 0
        room = apart if g == shared else words
        cell = 0 if g == shared else g * columns
        for e in range(indptr[i], indptr[i + 1]):
            if weights.shape[0] > 0:
                push_product(room, cell + indices[e], values[e], weights[i], low)
            else:
                push(room, cell + indices[e], values[e], 0, low)


@kernel(*_CODES)
def _add_code_integers(
    codes: Words,
    offsets: Words,
    weights: Floats,
    group: Words,
    order: Words,
    start: int,
    stop: int,
    words: Words,
    apart: Words,
    shared: int,
) -> tuple[int, int, int]:
    """Add whole weights, as `_add_sparse_integers` does."""
    d = codes.shape[1]
    columns = apart.shape[1]
    bits = 0
    total = 0
    for k in range(start, stop):
        i = order[k] if order.shape[0] > 0 else k
        g = group[i] if group.shape[0] > 0 else 0
        cells = apart[0] if g == shared else words[0, g * columns : (g + 1) * columns]
        amount = _to_integer(weights[i]) if weights.shape[0] > 0 else 1
        bits |= amount ^ (amount >> 63)
        total += d * abs(amount)
        for j in range(d):
            if codes[i, j] >= 0:
                cells[np.uint64(offsets[j] + codes[i, j])] += amount
    return bits, 1, total


@kernel(*_CODES, INTEGER)
def _add_code_digits(
    codes: Words,
    offsets: Words,
    weights: Floats,
    group: Words,
    order: Words,
    start: int,
    stop: int,
    words: Words,
    apart: Words,
    shared: int,
    low: int,
) -> None:
    columns = apart.shape[1]
    for k in range(start, stop):
        i = order[k] if order.shape[0] > 0 else k
        g = group[i] if group.shape[0] > 0 else 0
        room = apart if g == shared else words
        cell = 0 if g == shared else g * columns
        for j in range(codes.shape[1]):
            if codes[i, j] >= 0:
                push(room, cell + offsets[j] + codes[i, j], weights[i], 0, low)


@kernel(FLOATS_1D)
def _exponents(values: Floats) -> tuple[int, int]:
    """Exponents of the largest and of the smallest nonzero magnitude."""
    largest = 0.0
    smallest = np.inf
    for v in values:
        a = abs(v)
        largest = max(largest, a)
        if a > 0.0:
            smallest = min(smallest, a)
    return (math.frexp(largest)[1], math.frexp(smallest)[1]) if largest > 0.0 else (0, 0)


@kernel(WORDS_OUT, INTEGER)
def _settle_here(words: Words, low: int) -> tuple[Words, int]:
    return carry_and_trim(words, low)


@kernel(WORDS)
def _is_settled(words: Words) -> bool:
    """Whether whole numbers, in one plane, have room for their signs."""
    low = 0
    high = 0
    for c in range(words.shape[1]):
        low = min(low, words[0, c])
        high = max(high, words[0, c])
    return low >= -HALF and high < HALF


def deposit_sparse(
    indptr: Words,
    indices: Indices,
    values: Floats,
    weights: Floats,
    group: Words,
    groups: int,
    columns: int,
) -> tuple[Words, int]:
    order = _order(group, groups, columns)
    cuts = _cuts(indptr, order, threads.count_chunks(values.size + groups * columns))

    def add(start: int, stop: int, words: Words, apart: Words, shared: int) -> tuple[int, int, int]:
        chunk = group, order, start, stop, words, apart, shared
        return _add_sparse_integers(indptr, indices, values, weights, *chunk)

    settled = _add_integers(add, group, order, cuts, groups, columns, values.size)
    if settled is not None:
        return settled

    low, words = _room((values, weights), values.size, groups * columns)

    def add_digits(start: int, stop: int, words: Words, apart: Words, shared: int) -> tuple[int, int, int]:
        chunk = group, order, start, stop, words, apart, shared
        _add_sparse_digits(indptr, indices, values, weights, *chunk, low)
        return 0, 0, 0

    _add_in_chunks(add_digits, group, order, cuts, words, columns)
    return _settle_here(words, low)


def deposit_codes(
    codes: Words, offsets: Words, weights: Floats, group: Words, groups: int
) -> tuple[Words, int]:
    n = len(codes)
    columns = int(offsets[-1])
    order = _order(group, groups, columns)
    count = threads.count_chunks(codes.size + groups * columns)
    cuts = np.array([n * k // count for k in range(count + 1)])

    def add(start: int, stop: int, words: Words, apart: Words, shared: int) -> tuple[int, int, int]:
        return _add_code_integers(codes, offsets, weights, group, order, start, stop, words, apart, shared)

    settled = _add_integers(add, group, order, cuts, groups, columns, codes.size)
    if settled is not None:
        return settled

    low, words = _room((weights,), n, groups * columns)

    def add_digits(start: int, stop: int, words: Words, apart: Words, shared: int) -> tuple[int, int, int]:
        chunk = group, order, start, stop, words, apart, shared
        _add_code_digits(codes, offsets, weights, *chunk, low)
        return 0, 0, 0

    _add_in_chunks(add_digits, group, order, cuts, words, columns)
    return _settle_here(words, low)


def _add_integers(
    add: Adder, group: Words, order: Words, cuts: Words, groups: int, columns: int, entries: int
) -> tuple[Words, int] | None:
    """Settled sums of whole numbers, or None if they are not whole, or too large to be surely added right."""
    words = np.zeros((1, groups * columns), dtype=np.int64)  # by NumPy: pages are zeroed when first touched
    results = _add_in_chunks(add, group, order, cuts, words, columns)
    bits = sum(max(chunk[k].bit_length() for chunk in results) for k in (0, 1)) + entries.bit_length()
    if bits > 62:
        return None
    if sum(chunk[2] for chunk in results) < HALF or _is_settled(words):
        return words, 0
    return _settle_here(np.concatenate([words, np.zeros_like(words)]), 0)


def _add_in_chunks(
    add: Adder, group: Words, order: Words, cuts: Words, words: Words, columns: int
) -> list[tuple[int, int, int]]:
    """Add every chunk of rows to the words, side by side."""
    tasks = []
    joins = []
    for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        shared = _find_shared_group(group, order, start)
        apart = np.zeros((len(words), columns), dtype=np.int64)
        own = words if start == 0 or order.size else np.zeros_like(words)
        joins.append((own, shared, apart))
        tasks.append(_bind(add, start, stop, own, apart, shared))
    results = threads.run_together(tasks)
    for own, shared, apart in joins:
        if own is not words:
            words += own
        if shared >= 0:
            words[:, shared * columns : (shared + 1) * columns] += apart
    return results


def _bind(
    add: Adder, start: int, stop: int, words: Words, apart: Words, shared: int
) -> Callable[[], tuple[int, int, int]]:
    return lambda: add(start, stop, words, apart, shared)


def _find_shared_group(group: Words, order: Words, start: int) -> int:
    """The group that the cut before a row goes through, or -1."""
    if not 0 < start < order.size:
        return -1
    before, after = group[order[start - 1 : start + 1]].tolist()
    return int(after) if before == after else -1


def _room(factors: tuple[Floats, ...], entries: int, cells: int) -> tuple[int, Words]:
    """Position and room for the sums of so many products of factors, of which some may be empty (1 each)."""
    high, low = entries.bit_length(), 0
    for factor in factors:
        if factor.size:
            largest, smallest = _exponents(factor)
            high += max(largest, 0)
            low += min(smallest, 0) - 53
    position = low // BITS
    return position, np.zeros((high // BITS + 1 - position, cells), dtype=np.int64)
