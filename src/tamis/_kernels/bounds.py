"""Checks of indices and sizes, since compiled code would read and write wherever an index points."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import reference
from tamis.compiled import choose

_kernels = choose(reference, "tamis._kernels.compiled")


def refuse_outside(what: str, places: NDArray[Any], size: int) -> None:
    """Raise if an index is not from 0 to below the size."""
    if not _kernels.are_within(places, size):
        raise ValueError(f"got {what} from {places.min()} to {places.max()}, expected 0 to {size - 1}")


def refuse_beyond(what: str, places: NDArray[Any], size: int) -> None:
    """Raise if an index is not below the size; negative ones mean that there is no element."""
    if places.size and int(places.max()) >= size:
        raise ValueError(f"got {what} up to {places.max()}, expected below {size}")


def refuse_unless(fits: bool, what: str) -> None:
    """Raise, naming the arrays, if `fits` is False: their sizes do not agree."""
    if not fits:
        raise ValueError(f"got {what} of several sizes, expected one")


def refuse_broken_rows(indptr: NDArray[np.int64], entries: int) -> None:
    """Raise if `indptr` (as in CSR matrices) decreases, or points beyond the entries."""
    if not _kernels.are_rows_within(indptr, entries):
        given = f"from {indptr[0]} to {indptr[-1]}" if len(indptr) else "without a beginning"
        raise ValueError(f"got rows of entries {given}, expected in order and 0 to {entries}")
