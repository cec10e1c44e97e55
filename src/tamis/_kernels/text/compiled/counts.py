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
from tamis._kernels.text.kinds import Digits, Indices, Rows, Words


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


@kernel(WORDS_1D, INDICES_1D, FLOATS_1D, WORDS_1D, WORDS_1D, WORDS_OUT)
def add(indptr: Words, indices: Any, counts: Any, columns: Words, group: Words, table: Any) -> None:
    for document in range(len(indptr) - 1):
        row = table[group[document]]
        for entry in range(indptr[document], indptr[document + 1]):
            row[U(columns[U(indices[U(entry)])])] += np.int64(counts[U(entry)])
