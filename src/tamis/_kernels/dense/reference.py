"""The reference implementation of the kernels of dense matrices, in NumPy, which uses BLAS."""

from functools import reduce

import numpy as np

from tamis._kernels.reference import Floats, Int64s, Words, deposit_rows

_CHUNK = 1024  # number of rows, so few that their copy is still in the cache when BLAS reads it


def multiply_centred(
    values: Floats,
    centre: Floats,
    start: int,
    stop: int,
    order: Int64s | None,
    weights: Floats | None,
    extra: Floats | None,
) -> Floats:
    """Return Σ w (x − centre)(x − centre)ᵀ (d, d) of the rows at start … stop − 1, or at those of `order`."""
    chunks = (slice(first, min(first + _CHUNK, stop)) for first in range(start, stop, _CHUNK))
    return reduce(np.add, (_multiply_chunk(values, centre, chunk, order, weights, extra) for chunk in chunks))


def _multiply_chunk(
    values: Floats,
    centre: Floats,
    chunk: slice,
    order: Int64s | None,
    weights: Floats | None,
    extra: Floats | None,
) -> Floats:
    index = chunk if order is None else order[chunk]
    if extra is not None:
        p = values.shape[1]
        x = np.empty((chunk.stop - chunk.start, len(centre)))
        np.subtract(values[index], centre[:p], out=x[:, :p])
        np.subtract(extra[index], centre[p:], out=x[:, p:])
    else:
        x = values[index] - centre if order is None else values[index]
        if order is not None:  # indexing by an array has made a copy
            x -= centre
    wx = x if weights is None else x * weights[index]
    return np.asarray(wx.T @ x)


def multiply_row_blocks(values: Floats, centre: Floats, start: int, stop: int, block: int) -> Floats:
    """Return Σ (x − centre)(x − centre)ᵀ of each block of rows: upper triangles by row (blocks, d(d+1)/2)."""
    d = len(centre)
    upper = np.triu_indices(d)
    blocks = [
        multiply_centred(values, centre, first, min(first + block, stop), None, None, None)[upper]
        for first in range(start, stop, block)
    ]
    return np.array(blocks).reshape(len(blocks), d * (d + 1) // 2)


def deposit_row_blocks(
    values: Floats, centre: Floats, block: int
) -> tuple[tuple[tuple[Words, int], ...], int, bool, Floats]:
    """Return the rows' exact sums, the largest exponent of all values, whether all are finite, and products.

    The first three are what `deposit_rows` returns, the last is the result of `multiply_row_blocks`.
    """
    one_group = np.zeros(0, dtype=np.int64)
    sums, exponent, is_finite = deposit_rows(values, group=one_group, groups=1, power=1)
    products = multiply_row_blocks(values, centre, 0, len(values) if is_finite else 0, block)
    return sums, exponent, is_finite, products


def multiply_column_blocks(
    columns: list[Floats], centre: Floats, start: int, stop: int, block: int
) -> Floats:
    """Return what `multiply_row_blocks` returns, for rows given as columns (n,)."""
    return multiply_row_blocks(np.column_stack(columns), centre, start, stop, block)


def sum_responsible(
    rows: Floats,
    start: int,
    stop: int,
    weights: Floats | None,
    origin: Floats,
    constant: Floats,
    linear: Floats,
    quadratic: Floats,
    hard: bool,
) -> tuple[Floats, float]:
    """Return Σ r [x, 1][x, 1]ᵀ of each class (K, d + 1, d + 1) and Σ w log p(row) of rows start … stop − 1.

    With x = row − origin, log p(row, class) is constant + linear · x + xᵀ quadratic x. w is the row's weight,
    and r its responsibilities: w p(class | row) or, if `hard`, w for the most probable class and otherwise 0.
    """
    k, d = linear.shape
    sums, log_likelihood = np.zeros((k, d + 1, d + 1)), 0.0
    for first in range(start, stop, _CHUNK):
        chunk = slice(first, min(first + _CHUNK, stop))
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.ones((chunk.stop - first, d + 1))
            np.subtract(rows[chunk], origin, out=x[:, :d])
            terms = linear[:, None] + x[:, :d] @ quadratic  # (K, rows, d)
            joint = constant[:, None] + np.einsum("kni,ni->kn", terms, x[:, :d])
            r, log_density = _compute_responsibilities(joint, hard)
            if weights is not None:
                r *= weights[chunk]
                log_density *= weights[chunk]
            for c in range(k):
                sums[c] += (x * r[c][:, None]).T @ x
        log_likelihood += float(log_density.sum())
    return sums, log_likelihood


def _compute_responsibilities(joint: Floats, hard: bool) -> tuple[Floats, Floats]:
    """Compute p(class | row) (K, n) and log p(row) (n,) from log p(row, class) (K, n).

    If `hard`, the most probable class of a row has 1, and log p(row) is its log p(row, class).
    """
    largest = joint.max(axis=0)
    if hard:
        return np.where(np.arange(len(joint))[:, None] == joint.argmax(axis=0), 1.0, 0.0), largest
    r = np.exp(joint - largest)
    density = r.sum(axis=0)
    return r / density, np.log(density) + largest
