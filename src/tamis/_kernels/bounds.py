"""Check indices and sizes, because compiled code would read and write wherever an index points."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import reference
from tamis.compiled import choose_kernels

_kernels = choose_kernels(reference, "tamis._kernels.compiled")


def refuse_outside(what: str, indices: NDArray[Any], size: int) -> None:
    """Raise unless all indices are at least 0 and below the size; `what` names the indices."""
    if not _kernels.are_within(indices, size):
        raise ValueError(f"got {what} from {indices.min()} to {indices.max()}, expected 0 to {size - 1}")


def refuse_beyond(what: str, indices: NDArray[Any], size: int) -> None:
    """Raise unless all indices are below the size; a negative index means that there is no element."""
    if indices.size and int(indices.max()) >= size:
        raise ValueError(f"got {what} up to {indices.max()}, expected below {size}")


def refuse_unless(sizes_agree: bool, what: str) -> None:
    """Raise unless the sizes of arrays agree; `what` names the arrays."""
    if not sizes_agree:
        raise ValueError(f"got {what} of several sizes, expected one")


def refuse_broken_rows(indptr: NDArray[np.int64], entries: int) -> None:
    """Raise if `indptr` (of a CSR matrix) is empty, decreases, or leaves the range from 0 to `entries`."""
    if not _kernels.are_rows_within(indptr, entries):
        given = f"from {indptr[0]} to {indptr[-1]}" if len(indptr) else "of length 0"
        raise ValueError(f"got an indptr {given}, expected ascending numbers from 0 to {entries}")
