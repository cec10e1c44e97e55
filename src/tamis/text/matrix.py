"""Stack the rows of counts of many chunks to a sparse matrix of SciPy in the CSR form (compressed rows)."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn import get_config

from tamis import arrays
from tamis._kernels.text import Floats, Indices, Rows

_LARGEST = np.iinfo(np.int32).max  # matrices with more entries need 64-bit indices


def to_csr(rows: Rows, width: int, dtype: DTypeLike) -> Any:
    """Return counts (texts, columns) in CSR."""
    small = rows.indptr[-1] <= _LARGEST
    indptr = rows.indptr.astype(np.int32) if small else rows.indptr
    indices = rows.indices if small else rows.indices.astype(np.int64)
    values = rows.counts.astype(dtype, copy=False)
    counts = choose_csr_type()((values, indices, indptr), shape=(len(indptr) - 1, width), copy=False)
    counts.has_sorted_indices = counts.has_canonical_format = True  # by `TextCounter.arrange`
    return counts


def choose_csr_type() -> Any:
    """Return the type of sparse matrix that scikit-learn is configured to return."""
    sparse = arrays.import_scipy_sparse()
    return sparse.csr_array if get_config().get("sparse_interface") == "sparray" else sparse.csr_matrix


def stack_rows(rows: list[Rows], indices: Indices, counts: Floats) -> Rows:
    """Stack parts that were written to `indices` and `counts`, each from its own start.

    Where a part is shorter than the space that was reserved for it, the entries of later parts are moved up.
    """
    ends = np.cumsum([0, *(part.indptr[-1] for part in rows)]).astype(np.int64)
    indptr = [part.indptr[1:] + end for part, end in zip(rows, ends[:-1], strict=True)]
    if ends[-1] < len(indices):
        for part, (i, j) in zip(rows, pairwise(ends.tolist()), strict=True):
            indices[i:j], counts[i:j] = part.indices, part.counts
    return Rows(
        np.concatenate([np.zeros(1, dtype=np.int64), *indptr]), indices[: ends[-1]], counts[: ends[-1]]
    )
