"""Turns numbers of tokens into keys of pairs, rows of counts, and sums."""

from typing import Any

import numpy as np

from tamis._kernels.jit import (
    DIGITS_OUT_1D,
    FLOATS_1D,
    FLOATS_OUT_1D,
    INDICES_1D,
    INDICES_OUT_1D,
    INTEGER,
    WORDS,
    WORDS_1D,
    WORDS_OUT,
    WORDS_OUT_1D,
    kernel,
    part,
)
from tamis._kernels.text.compiled.machine import ONE, U
from tamis._kernels.text.kinds import Floats, Indices, Int64s, Rows, UInt64s

_FEW = 24  # for fewer words, insertion sort is faster
_LAST = U(0xFF)
_LOW = U(0xFFFFFFFF)


@kernel(INDICES_1D, WORDS_1D, INDICES_1D, WORDS_1D, INTEGER, DIGITS_OUT_1D, WORDS_OUT_1D)
def _make_pair_keys(
    left: Any,
    left_documents: Int64s,
    right: Any,
    right_documents: Int64s,
    shift: int,
    keys: Any,
    documents: Any,
) -> int:
    total = 0
    for document in range(len(right_documents) - 1):
        i, j = left_documents[document], right_documents[document] + shift
        while j < right_documents[document + 1]:
            keys[U(total)] = U(left[U(i)]) << U(32) | U(right[U(j)])
            total += 1
            i += 1
            j += 1
        documents[document + 1] = total
    return total


def make_pair_keys(
    left: Indices, left_documents: Int64s, right: Indices, right_documents: Int64s, shift: int
) -> tuple[UInt64s, Int64s]:
    keys, documents = np.empty(len(right), dtype=np.uint64), np.zeros(len(right_documents), dtype=np.int64)
    total = _make_pair_keys(left, left_documents, right, right_documents, shift, keys, documents)
    return keys[:total], documents


@kernel(INDICES_1D, WORDS_1D, INTEGER, WORDS_OUT_1D, INDICES_OUT_1D, FLOATS_OUT_1D)
def _count_numbers(
    numbers: Any, documents: Int64s, n_numbers: int, indptr: Any, indices: Any, counts: Any
) -> int:
    where = np.full(n_numbers, -1, dtype=np.int64)  # the entry that last counted each number
    total = 0
    for document in range(len(documents) - 1):
        begun = total
        for token in range(documents[document], documents[document + 1]):
            number = numbers[U(token)]
            at = where[U(number)]
            if at >= begun:
                counts[U(at)] += 1.0
            else:
                where[U(number)] = total
                indices[U(total)] = number
                counts[U(total)] = 1.0
                total += 1
        indptr[document + 1] = total
    return total


def count_numbers(numbers: Indices, documents: Int64s, n_numbers: int) -> Rows:
    indptr = np.zeros(len(documents), dtype=np.int64)
    indices, counts = np.empty(len(numbers), dtype=np.int32), np.empty(len(numbers))
    total = _count_numbers(numbers, documents, n_numbers, indptr, indices, counts)
    return Rows(indptr, indices[:total], counts[:total])


@kernel(
    WORDS_1D,
    INDICES_1D,
    FLOATS_1D,
    WORDS_1D,
    WORDS_1D,
    INTEGER,
    WORDS_OUT_1D,
    INDICES_OUT_1D,
    FLOATS_OUT_1D,
)
def _sum_groups(
    indptr: Int64s,
    indices: Any,
    counts: Any,
    order: Int64s,
    bounds: Int64s,
    n_numbers: int,
    ends: Any,
    numbers: Any,
    values: Any,
) -> int:
    where = np.full(n_numbers, -1, dtype=np.int64)  # the entry that last counted each number
    total = 0
    for group in range(len(bounds) - 1):
        begun = total
        for k in range(bounds[group], bounds[group + 1]):
            for entry in range(indptr[order[k]], indptr[order[k] + 1]):
                number = indices[U(entry)]
                at = where[U(number)]
                if at >= begun:
                    values[U(at)] += counts[U(entry)]
                else:
                    where[U(number)] = total
                    numbers[U(total)] = number
                    values[U(total)] = counts[U(entry)]
                    total += 1
        ends[group + 1] = total
    return total


def sum_groups(rows: Rows, group: Int64s, groups: int, n_numbers: int) -> Rows:
    order = np.argsort(group, kind="stable")
    bounds = np.append(0, np.cumsum(np.bincount(group, minlength=groups))).astype(np.int64)
    ends = np.zeros(groups + 1, dtype=np.int64)
    numbers, values = np.empty(len(rows.indices), dtype=np.int32), np.empty(len(rows.indices))
    total = _sum_groups(*rows, order, bounds, n_numbers, ends, numbers, values)
    return Rows(ends, numbers[:total].copy(), values[:total].copy())


@part
def _sort(words: Any, other: Any, count: int, digits: int) -> Any:
    """Sort by the upper half of each word, eight bits at a time; return both arrays, the sorted one first."""
    if count < _FEW:
        for k in range(1, count):
            word = words[k]
            at: Any = k
            while at > 0 and words[at - 1] > word:
                words[at] = words[at - 1]
                at -= 1
            words[at] = word
        return words, other
    for digit in range(digits):
        shift = U(32 + 8 * digit)
        places = np.zeros(257, dtype=np.int64)
        for k in range(count):
            places[U((words[U(k)] >> shift & _LAST) + ONE)] += 1
        for k in range(256):
            places[k + 1] += places[k]
        for k in range(count):
            word = words[U(k)]
            at = U(word >> shift & _LAST)
            other[U(places[at])] = word
            places[at] += 1
        words, other = other, words
    return words, other


@kernel(
    WORDS_1D,
    INDICES_1D,
    FLOATS_1D,
    INDICES_1D,
    FLOATS_1D,
    INTEGER,
    WORDS_OUT_1D,
    INDICES_OUT_1D,
    FLOATS_OUT_1D,
)
def _arrange(
    indptr: Int64s,
    indices: Any,
    counts: Any,
    columns: Any,
    signs: Any,
    digits: int,
    ends: Any,
    positions: Any,
    values: Any,
) -> int:
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    words, other = np.empty(longest, dtype=np.uint64), np.empty(longest, dtype=np.uint64)
    size = 0
    for row in range(len(indptr) - 1):
        start = indptr[row]
        count = 0
        for entry in range(start, indptr[row + 1]):
            column = columns[U(indices[U(entry)])]
            if column >= 0:
                words[U(count)] = U(column) << U(32) | U(entry - start)
                count += 1
        words, other = _sort(words, other, count, digits)
        before: Any = -1
        for k in range(count):
            word = words[U(k)]
            column = np.int64(word >> U(32))
            entry = start + np.int64(word & _LOW)
            value = counts[U(entry)] * signs[U(indices[U(entry)])]
            if column == before:  # two numbers of one column
                values[U(size - 1)] += value
            else:
                positions[U(size)] = column
                values[U(size)] = value
                size += 1
                before = column
        ends[row + 1] = size
    return size


def arrange(rows: Rows, columns: Indices, signs: Floats, positions: Indices, values: Floats) -> Rows:
    digits = (int(columns.max(initial=0)).bit_length() + 7) // 8
    ends = np.zeros(len(rows.indptr), dtype=np.int64)
    size = _arrange(*rows, columns, signs, digits, ends, positions, values)
    return Rows(ends, positions[:size], values[:size])


@kernel(WORDS, WORDS_1D, WORDS_OUT)
def add_columns(sums: Any, numbers: Int64s, table: Any) -> None:
    for row in range(len(sums)):
        for k in range(len(numbers)):
            table[U(row), U(numbers[U(k)])] += sums[U(row), U(k)]


@kernel(WORDS_1D, INDICES_1D, FLOATS_1D, INDICES_1D, WORDS_1D, WORDS_OUT)
def add_rows(indptr: Int64s, indices: Any, counts: Any, columns: Any, group: Int64s, table: Any) -> None:
    for document in range(len(indptr) - 1):
        row = table[group[document]]
        for entry in range(indptr[document], indptr[document + 1]):
            column = columns[U(indices[U(entry)])]
            if column >= 0:
                row[U(column)] += np.int64(counts[U(entry)])
