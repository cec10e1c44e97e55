"""The meaning of the kernels of latent factors, in NumPy."""

import numpy as np

from tamis._kernels.reference import Floats, Words


def solve_rows(
    indptr: Words,
    indices: Words,
    weights: Floats,
    pulls: Floats,
    other: Floats,
    ridge: Floats,
    base: Floats,
    pull: Floats,
    noise: Floats,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """See the door."""
    for row in range(start, stop):
        entries = slice(int(indptr[row]), int(indptr[row + 1]))
        v = other[indices[entries]]
        matrix = (v * weights[entries, None]).T @ v + np.diag(ridge[row])
        if base.size:
            matrix += base
        b = pull + pulls[entries] @ v
        try:
            lower = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            out[row] = np.nan
            continue
        found = np.linalg.solve(lower.T, np.linalg.solve(lower, b))
        if noise.size:
            found += np.linalg.solve(lower.T, noise[row])
        out[row] = found


def top_rows(scores: Floats, start: int, stop: int, out: Words) -> None:
    """See the door."""
    count = out.shape[1]
    for row in range(start, stop):
        order = np.argsort(-scores[row], kind="stable")[:count]
        order = order[scores[row, order] > -np.inf]
        out[row] = -1
        out[row, : len(order)] = order
