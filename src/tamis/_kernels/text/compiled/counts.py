"""numbers of tokens → phrases, rows of counts and sums."""

from typing import Any

import numpy as np

from tamis._kernels.jit import (
    DIGITS_OUT_1D,
    FLOATS_1D,
    FLOATS_OUT_1D,
    INDICES_1D,
    INDICES_OUT_1D,
    INTEGER,
    WORDS_1D,
    WORDS_OUT,
    WORDS_OUT_1D,
    kernel,
)
from tamis._kernels.text.compiled.machine import U
from tamis._kernels.text.kinds import Digits, Floats, Indices, Rows, Words


@kernel(INDICES_1D, WORDS_1D, INDICES_1D, WORDS_1D, INTEGER, DIGITS_OUT_1D, WORDS_OUT_1D)
def _pair(
    left: Any,
    left_documents: Words,
    right: Any,
    right_documents: Words,
    shift: int,
    keys: Any,
    documents: Any,
) -> int:
    found = 0
    for document in range(len(right_documents) - 1):
        i, j = left_documents[document], right_documents[document] + shift
        while j < right_documents[document + 1]:
            keys[U(found)] = U(left[U(i)]) << U(32) | U(right[U(j)])
            found += 1
            i += 1
            j += 1
        documents[document + 1] = found
    return found


def pair(
    left: Indices, left_documents: Words, right: Indices, right_documents: Words, shift: int
) -> tuple[Digits, Words]:
    keys, documents = np.empty(len(right), dtype=np.uint64), np.zeros(len(right_documents), dtype=np.int64)
    found = _pair(left, left_documents, right, right_documents, shift, keys, documents)
    return keys[:found], documents


@kernel(INDICES_1D, WORDS_1D, INTEGER, WORDS_OUT_1D, INDICES_OUT_1D, FLOATS_OUT_1D)
def _tally(numbers: Any, documents: Words, known: int, indptr: Any, indices: Any, counts: Any) -> int:
    where = np.full(known, -1, dtype=np.int64)  # the entry that last counted each number
    found = 0
    for document in range(len(documents) - 1):
        begun = found
        for token in range(documents[document], documents[document + 1]):
            number = numbers[U(token)]
            if number < 0:
                continue
            at = where[U(number)]
            if at >= begun:
                counts[U(at)] += 1.0
            else:
                where[U(number)] = found
                indices[U(found)] = number
                counts[U(found)] = 1.0
                found += 1
        indptr[document + 1] = found
    return found


def tally(numbers: Indices, documents: Words, known: int) -> Rows:
    indptr = np.zeros(len(documents), dtype=np.int64)
    indices, counts = np.empty(len(numbers), dtype=np.int32), np.empty(len(numbers))
    found = _tally(numbers, documents, known, indptr, indices, counts)
    return Rows(indptr, indices[:found], counts[:found])


@kernel(
    WORDS_1D,
    INDICES_1D,
    FLOATS_1D,
    INDICES_1D,
    FLOATS_1D,
    WORDS_1D,
    WORDS_OUT_1D,
    INDICES_OUT_1D,
    FLOATS_OUT_1D,
)
def _arrange(
    indptr: Words,
    indices: Any,
    counts: Any,
    columns: Any,
    signs: Any,
    order: Words,
    ends: Any,
    moved: Any,
    values: Any,
) -> int:
    """Turned over and back: entries by number, and then, number by number in order, back to their rows."""
    begin = np.zeros(len(columns) + 1, dtype=np.int64)
    for entry in range(len(indices)):
        begin[U(indices[U(entry)] + 1)] += 1
    for number in range(len(columns)):
        begin[number + 1] += begin[number]
    place = begin[:-1].copy()
    row_of, value_of = np.empty(len(indices), dtype=np.int32), np.empty(len(indices))
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            number = indices[U(entry)]
            at = place[U(number)]
            row_of[U(at)] = row
            value_of[U(at)] = counts[U(entry)] * signs[U(number)]
            place[U(number)] = at + 1
    tail = indptr[:-1].copy()
    for k in range(len(order)):
        number = order[k]
        column = columns[number]
        for at in range(begin[number], begin[number + 1]):
            row = row_of[U(at)]
            end = tail[U(row)]
            if end > indptr[U(row)] and moved[U(end - 1)] == column:  # two numbers of one column
                values[U(end - 1)] += value_of[U(at)]
            else:
                moved[U(end)] = column
                values[U(end)] = value_of[U(at)]
                tail[U(row)] = end + 1
    kept = 0
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], tail[row]):
            moved[U(kept)] = moved[U(entry)]
            values[U(kept)] = values[U(entry)]
            kept += 1
        ends[row + 1] = kept
    return kept


def arrange(rows: Rows, columns: Indices, signs: Floats) -> Rows:
    order = np.argsort(columns, kind="stable")
    order = order[np.searchsorted(columns[order], 0) :]
    ends = np.zeros(len(rows.indptr), dtype=np.int64)
    moved, values = np.empty(len(rows.indices), dtype=np.int32), np.empty(len(rows.indices))
    kept = _arrange(*rows, columns, signs, order, ends, moved, values)
    return Rows(ends, moved[:kept], values[:kept])


@kernel(WORDS_1D, INDICES_1D, FLOATS_1D, WORDS_1D, WORDS_OUT)
def add(indptr: Words, indices: Any, counts: Any, group: Words, table: Any) -> None:
    for document in range(len(indptr) - 1):
        row = table[group[document]]
        for entry in range(indptr[document], indptr[document + 1]):
            row[U(indices[U(entry)])] += np.int64(counts[U(entry)])
