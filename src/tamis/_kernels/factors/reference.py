"""The reference implementation of the kernels of latent factors, in NumPy: see `__init__`."""

import numpy as np

from tamis._kernels.reference import Floats, Words

_CELLS = 1 << 16  # numbers of each side that are multiplied at a time


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
    other_offsets: Floats,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """See `tamis._kernels.factors`."""
    for row in range(start, stop):
        entries = slice(int(indptr[row]), int(indptr[row + 1]))
        v = other[indices[entries]]
        matrix = (v * weights[entries, None]).T @ v + np.diag(ridge[row])
        if base.size:
            matrix += base
        b = pull + (pulls[entries] - weights[entries] * other_offsets[indices[entries]]) @ v
        try:
            lower = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            out[row] = np.nan
            continue
        solution = np.linalg.solve(lower.T, np.linalg.solve(lower, b))
        if noise.size:
            solution += np.linalg.solve(lower.T, noise[row])
        out[row] = solution


def row_squares(
    indptr: Words,
    indices: Words,
    weights: Floats,
    targets: Floats,
    rows: Floats,
    other: Floats,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """See `tamis._kernels.factors`."""
    for row in range(start, stop):
        entries = slice(int(indptr[row]), int(indptr[row + 1]))
        v = other[indices[entries]]
        residuals = targets[entries] - (v[:, :-1] @ rows[row, :-1] + v[:, -1] + rows[row, -1])
        out[row] = (weights[entries] * residuals * residuals).sum()


def top_rows(scores: Floats, start: int, stop: int, out: Words) -> None:
    """See `tamis._kernels.factors`."""
    count = out.shape[1]
    for row in range(start, stop):
        order = np.argsort(-scores[row], kind="stable")[:count]
        order = order[scores[row, order] > -np.inf]
        out[row] = -1
        out[row, : len(order)] = order


def dot_pairs(left: Floats, right: Floats, i: Words, j: Words, start: int, stop: int, out: Floats) -> None:
    """See `tamis._kernels.factors`."""
    if not len(left) or not len(right):
        out[start:stop] = 0.0
        return
    step = max(1, _CELLS // max(1, left.shape[1]))  # pairs at a time, few enough for the cache
    for first in range(start, stop, step):
        part = slice(first, min(first + step, stop))
        own, other = (rows.take(at[part], axis=0, mode="clip") for rows, at in ((left, i), (right, j)))
        products = np.einsum("nk,nk->n", own, other)
        out[part] = np.where((i[part] >= 0) & (j[part] >= 0), products, 0.0)
