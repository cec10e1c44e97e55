"""See core/factors.cpp."""

import numpy as np
from numpy.typing import NDArray

def solve_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    weights: NDArray[np.float64],
    pulls: NDArray[np.float64],
    other_factors: NDArray[np.float64],
    ridge: NDArray[np.float64],
    base: NDArray[np.float64],
    pull: NDArray[np.float64],
    noise: NDArray[np.float64],
    other_offsets: NDArray[np.float64],
    start: int,
    stop: int,
    out: NDArray[np.float64],
) -> None: ...
def row_squares(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    weights: NDArray[np.float64],
    targets: NDArray[np.float64],
    rows: NDArray[np.float64],
    other_rows: NDArray[np.float64],
    start: int,
    stop: int,
    out: NDArray[np.float64],
) -> None: ...
def top_rows(scores: NDArray[np.float64], start: int, stop: int, out: NDArray[np.int64]) -> None: ...
def dot_pairs(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    i: NDArray[np.int64],
    j: NDArray[np.int64],
    start: int,
    stop: int,
    out: NDArray[np.float64],
) -> None: ...
