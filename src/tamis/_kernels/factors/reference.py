"""The reference implementation of the kernels of latent factors, in NumPy.

Each function computes rows start … stop − 1 of what the function of the same name in `__init__` returns, and
writes them to `out`. An argument that is None there is an empty array or zeros here.
"""

import numpy as np

from tamis._kernels.reference import Floats, Int64s

_CELLS = 1 << 16  # numbers of each operand that are multiplied at a time


def solve_rows(
    indptr: Int64s,
    indices: Int64s,
    weights: Floats,
    pulls: Floats,
    other_factors: Floats,
    ridge: Floats,
    base: Floats,
    pull: Floats,
    noise: Floats,
    other_offsets: Floats,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """Write to `out` (n, k) the solution of (base + diag(ridge) + Σ w v vᵀ) x = pull + Σ (pulls − w s) v.

    For each entry of a row, w is its weight, v is other_factors[index], and s is other_offsets[index]. `base`
    is (k, k), or (0, 0) if there is none; `noise` is (n, k) for a draw around the solution, or (0, 0).
    """
    for row in range(start, stop):
        entries = slice(int(indptr[row]), int(indptr[row + 1]))
        v = other_factors[indices[entries]]
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
    indptr: Int64s,
    indices: Int64s,
    weights: Floats,
    targets: Floats,
    rows: Floats,
    other_rows: Floats,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """Write to `out` (n,) the weighted sum of squared residuals of each row's entries.

    `rows` (n, k + 1) and `other_rows` (m, k + 1) hold k factors and then the offset.
    """
    for row in range(start, stop):
        entries = slice(int(indptr[row]), int(indptr[row + 1]))
        v = other_rows[indices[entries]]
        residuals = targets[entries] - (v[:, :-1] @ rows[row, :-1] + v[:, -1] + rows[row, -1])
        out[row] = (weights[entries] * residuals * residuals).sum()


def top_rows(scores: Floats, start: int, stop: int, out: Int64s) -> None:
    """Write to `out` (n, count) the columns of the largest scores of each row, and −1 after the last."""
    count = out.shape[1]
    for row in range(start, stop):
        order = np.argsort(-scores[row], kind="stable")[:count]
        order = order[scores[row, order] > -np.inf]
        out[row] = -1
        out[row, : len(order)] = order


def dot_pairs(left: Floats, right: Floats, i: Int64s, j: Int64s, start: int, stop: int, out: Floats) -> None:
    """Write to `out` (n,) the inner products of left[i] and right[j]; 0 where i or j is −1."""
    if not len(left) or not len(right):
        out[start:stop] = 0.0
        return
    step = max(1, _CELLS // max(1, left.shape[1]))  # pairs at a time, few enough for the cache
    for first in range(start, stop, step):
        part = slice(first, min(first + step, stop))
        # An index of −1 takes row 0, whose product is replaced below.
        u, v = (rows.take(index[part], axis=0, mode="clip") for rows, index in ((left, i), (right, j)))
        products = np.einsum("nk,nk->n", u, v)
        out[part] = np.where((i[part] >= 0) & (j[part] >= 0), products, 0.0)
