"""rows of counts, chunk by chunk → one sparse matrix of SciPy."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn import get_config

from tamis import arrays
from tamis._kernels.text import Floats, Indices, Rows

_LARGEST = np.iinfo(np.int32).max


def matrix(
    rows: list[Rows], width: int, dtype: DTypeLike, whole: tuple[Indices, Floats] | None = None
) -> Any:
    """Counts (texts, columns) in CSR; `whole` has the entries of all rows, if nothing was left out."""
    stacked = _stacked(rows, whole)
    small = stacked.indptr[-1] <= _LARGEST
    indptr = stacked.indptr.astype(np.int32) if small else stacked.indptr
    indices = stacked.indices if small else stacked.indices.astype(np.int64)
    values = stacked.counts.astype(dtype, copy=False)
    found = csr()((values, indices, indptr), shape=(len(indptr) - 1, width), copy=False)
    found.has_sorted_indices = found.has_canonical_format = True  # as `arrange` leaves them
    return found


def csr() -> Any:
    """The kind of sparse matrix that scikit-learn is set to give."""
    sparse = arrays.scipy_sparse()
    return sparse.csr_array if get_config().get("sparse_interface") == "sparray" else sparse.csr_matrix


def _stacked(rows: list[Rows], whole: tuple[Indices, Floats] | None) -> Rows:
    if not rows:
        return Rows(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0))
    if len(rows) == 1:
        return rows[0]
    ends = np.cumsum([0, *(part.indptr[-1] for part in rows)])
    indptr = [part.indptr[1:] + end for part, end in zip(rows, ends[:-1], strict=True)]
    every = np.concatenate([np.zeros(1, dtype=np.int64), *indptr])
    if whole is not None and len(whole[0]) == every[-1]:
        return Rows(every, *whole)
    indices = np.concatenate([part.indices for part in rows])
    return Rows(every, indices, np.concatenate([part.counts for part in rows]))
