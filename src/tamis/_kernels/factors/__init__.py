"""The only entry to the kernels of latent factors: many small ridge regressions, and the best of many scores.

There are two sides, such as users and items, and ratings between their rows. A kernel is given the ratings of
n rows of one side as a CSR matrix: row i has the entries from indptr[i] to indptr[i + 1], and `indices` are
the rows of the other side. Each row is solved separately, so that no result depends on the number of threads.
The compiled kernels and the reference solve the same equations; they round differently. Where the equations
are well conditioned, they agree to about 1e-12.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis import threads
from tamis._kernels.bounds import refuse_beyond, refuse_broken_rows, refuse_outside, refuse_unless
from tamis._kernels.factors import reference
from tamis._kernels.reference import Floats, Int64s
from tamis.compiled import choose_kernels

Result = TypeVar("Result", bound=NDArray[Any])

_ROW_COST = 100  # the cost of a row besides its arithmetic, in multiplications
_CHUNKS = 32  # the number of chunks of rows: enough that all threads end at about the same time
_NO_MATRIX: Floats = np.zeros((0, 0))

_kernels = choose_kernels(reference, "tamis._core.factors")


def solve_rows(
    indptr: Int64s,
    indices: Int64s,
    weights: Floats,
    pulls: Floats,
    other_factors: Floats,
    ridge: Floats,
    base: Floats | None = None,
    pull: Floats | None = None,
    noise: Floats | None = None,
    other_offsets: Floats | None = None,
) -> Floats:
    """Solve a ridge regression for each row, A x = b, and return the solutions x (n, k).

    A = base + diag(ridge) + Σ weight v vᵀ and b = pull + Σ (pulls − weight s) v are sums over the entries of
    a row. For an entry, v is other_factors[index], of `other_factors` (m, k), and s is other_offsets[index],
    of `other_offsets` (m,), which is subtracted from the target. `pulls` is weight times target of each
    entry; weights are at least 0. `ridge` is (n, k). `base` (k, k) and `pull` (k,) are added to the equations
    of all rows, such as the sums over entries that are not listed.

    With `noise` (n, k), standard normal numbers z, L⁻ᵀ z is added, where A = L Lᵀ: the result is a draw from
    N(x, A⁻¹), as Gibbs sampling needs. If the matrix A of a row is not positive definite, its result is NaN.
    """
    n, k = ridge.shape
    work = len(indices) * k * k // 2 + n * (k * k * k // 6 + _ROW_COST)
    out = np.zeros((n, k))
    matrix = _NO_MATRIX if base is None else base
    vector = np.zeros(k) if pull is None else pull
    normals = _NO_MATRIX if noise is None else noise
    offsets = np.zeros(len(other_factors)) if other_offsets is None else other_offsets
    refuse_unless(len(indices) == len(weights) == len(pulls), "entries")
    refuse_unless(other_factors.shape[1] == k and vector.shape == (k,), "rows")
    refuse_unless(len(offsets) == len(other_factors), "rows")
    refuse_unless(matrix.shape in ((0, 0), (k, k)) and normals.shape in ((0, 0), (n, k)), "equations")
    _refuse_entries(indptr, indices, n, len(other_factors))

    def solve(start: int, stop: int) -> None:
        entries = indptr, indices, weights, pulls
        _kernels.solve_rows(
            *entries, other_factors, ridge, matrix, vector, normals, offsets, start, stop, out
        )

    if _kernels is reference:
        with threads.one_blas_thread:  # sums must not depend on the number of BLAS threads
            solve(0, n)
    elif threads.count_chunks(work) == 1:
        solve(0, n)
    else:
        cuts = _cut_by_work(indptr, k)
        threads.run_in_turns(len(cuts) - 1, work, lambda chunk: solve(cuts[chunk], cuts[chunk + 1]))
    return out


def row_squares(
    indptr: Int64s, indices: Int64s, weights: Floats, targets: Floats, rows: Floats, other_rows: Floats
) -> Floats:
    """Return Σ weight (target − u · v − offset of u − offset of v)² over each row's entries (n,).

    `rows` are (n, k + 1), and `other_rows`, of the other side, are (m, k + 1): k factors, u or v, and then
    the offset.
    """
    refuse_unless(len(indices) == len(weights) == len(targets), "entries")
    refuse_unless(rows.shape[1] == other_rows.shape[1], "rows")
    _refuse_entries(indptr, indices, len(rows), len(other_rows))
    sum_squares = partial(_kernels.row_squares, indptr, indices, weights, targets, rows, other_rows)
    return _write_rows(sum_squares, len(indices) * rows.shape[1], np.empty(len(rows)))


def _cut_by_work(indptr: Int64s, k: int) -> list[int]:
    """Return the boundaries of chunks of rows with about the same work.

    To factorise the matrix of a row takes k³ / 6 multiplications, and to add an entry to it k² / 2: so a row
    costs as much as k / 3 entries.
    """
    n = len(indptr) - 1
    cost_before = indptr - indptr[0] + np.arange(n + 1) * (k / 3.0 + 1.0)  # of all rows before each row
    costs = np.linspace(0.0, float(cost_before[-1]), _CHUNKS + 1)[1:-1]
    return [0, *np.searchsorted(cost_before, costs).tolist(), n]


def top_rows(scores: Floats, count: int) -> Int64s:
    """Return the columns of the largest scores of each row (n, count), in descending order of scores.

    Equal scores are in the order of their columns. Scores of −∞ are left out. A row with fewer scores than
    `count` is filled with −1.
    """
    columns = np.empty((len(scores), count), dtype=np.int64)
    return _write_rows(partial(_kernels.top_rows, scores), scores.size, columns)


def dot_pairs(left: Floats, right: Floats, i: Int64s, j: Int64s) -> Floats:
    """Return the inner product of the rows left[i] and right[j] of each pair (n,); 0 where i or j is −1."""
    refuse_unless(left.shape[1] == right.shape[1], "rows")
    refuse_unless(len(i) == len(j), "pairs")
    # Unlike `refuse_outside`, `refuse_beyond` accepts negative indices.
    refuse_beyond("rows", i, len(left))
    refuse_beyond("rows", j, len(right))
    return _write_rows(
        partial(_kernels.dot_pairs, left, right, i, j), left.shape[1] * len(i), np.empty(len(i))
    )


def _write_rows(kernel: Callable[..., None], work: int, out: Result) -> Result:
    """Call `kernel(start, stop, out)` for chunks of the rows of `out`, in threads; return `out`.

    The reference is called once, because it holds the interpreter's lock.
    """
    if _kernels is reference:
        kernel(0, len(out), out)
    else:
        threads.map_row_chunks(len(out), work, lambda start, stop: kernel(start, stop, out))
    return out


def _refuse_entries(indptr: Int64s, indices: Int64s, rows: int, others: int) -> None:
    """Raise unless `indptr` describes `rows` rows, and all `indices` are below `others`.

    `others` is the number of rows of the other side.
    """
    refuse_unless(len(indptr) == rows + 1, "rows")
    refuse_broken_rows(indptr, len(indices))
    refuse_outside("rows of the other side", indices, others)
