"""rows of counts, chunk by chunk → one sparse matrix of SciPy."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn import get_config

from tamis import arrays
from tamis._kernels.text import Rows

_LARGEST = np.iinfo(np.int32).max


def matrix(rows: list[Rows], width: int, dtype: DTypeLike, binary: bool = False) -> Any:
    """Counts (texts, columns) in CSR; binary: whether, not how often."""
    stacked = _stacked(rows)
    values = np.ones(len(stacked.counts)) if binary else stacked.counts
    return _csr(stacked, values.astype(dtype, copy=False), width)


def signed_matrix(rows: list[Rows], width: int, dtype: DTypeLike, binary: bool = False) -> Any:
    """As above, of columns of which those from `width` on count negatively; what cancels is left out."""
    stacked = _stacked(rows)
    negative = stacked.indices >= width
    counts = np.ones(len(negative)) if binary else stacked.counts
    folded = Rows(stacked.indptr, stacked.indices - np.int32(width) * negative, counts)
    found = _csr(folded, np.where(negative, -counts, counts).astype(dtype, copy=False), width)
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


def known(rows: Rows, width: int, unknown: bool) -> Rows:
    """Less the entries of columns below zero; or these in a last column, `width - 1`, if `unknown`."""
    out = rows.indices < 0
    if not out.any():
        return rows
    row = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    indices, counts, row_of = rows.indices[~out], rows.counts[~out], row[~out]
    if unknown:
        lost = np.bincount(row[out], rows.counts[out], len(rows.indptr) - 1)
        with_some = np.flatnonzero(lost)
        order = np.argsort(np.concatenate([row_of, with_some]), kind="stable")
        indices = np.concatenate([indices, np.full(len(with_some), width - 1, dtype=np.int32)])[order]
        counts = np.concatenate([counts, lost[with_some]])[order]
        row_of = np.concatenate([row_of, with_some])[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=len(rows.indptr) - 1))])
    return Rows(indptr, indices, counts)


def _stacked(rows: list[Rows]) -> Rows:
    if not rows:
        return Rows(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0))
    if len(rows) == 1:
        return rows[0]
    ends = np.cumsum([0, *(part.indptr[-1] for part in rows)])
    indptr = [part.indptr[1:] + end for part, end in zip(rows, ends[:-1], strict=True)]
    return Rows(
        np.concatenate([np.zeros(1, dtype=np.int64), *indptr]),
        np.concatenate([part.indices for part in rows]),
        np.concatenate([part.counts for part in rows]),
    )


def _csr(rows: Rows, values: Any, width: int) -> Any:
    sparse = arrays.scipy_sparse()
    array = get_config().get("sparse_interface") == "sparray"
    small = rows.indptr[-1] <= _LARGEST
    indptr = rows.indptr.astype(np.int32) if small else rows.indptr
    indices = rows.indices if small else rows.indices.astype(np.int64)
    kind = sparse.csr_array if array else sparse.csr_matrix
    return kind((values, indices, indptr), shape=(len(indptr) - 1, width), copy=False)
