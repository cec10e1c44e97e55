"""Checks at the doors: compiled code reads and writes wherever an index points, so every index is checked."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def refuse_outside(what: str, places: NDArray[Any], size: int) -> None:
    """Raise if a place is not from 0 to below the size; in one pass: negatives are large if unsigned."""
    if len(places) and int(places.view(f"u{places.dtype.itemsize}").max()) >= size:
        raise ValueError(f"got {what} from {places.min()} to {places.max()}, expected 0 to {size - 1}")


def refuse_beyond(what: str, places: NDArray[Any], size: int) -> None:
    """Raise if a place is not below the size; negative places mean none."""
    if places.size and int(places.max()) >= size:
        raise ValueError(f"got {what} up to {places.max()}, expected below {size}")


def refuse_unless(fits: bool, what: str) -> None:
    """Raise for arrays that are not of one size."""
    if not fits:
        raise ValueError(f"got {what} of several sizes, expected one")


def refuse_broken_rows(indptr: NDArray[np.int64], entries: int) -> None:
    """Raise if rows of entries, from indptr[i] to indptr[i + 1], go back or beyond the entries."""
    first, last = int(indptr[0]), int(indptr[-1])
    if first < 0 or last > entries or not bool((indptr[1:] >= indptr[:-1]).all()):
        raise ValueError(f"got rows of entries from {first} to {last}, expected in order and 0 to {entries}")
