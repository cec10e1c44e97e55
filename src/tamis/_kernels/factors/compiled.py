"""The kernels of latent factors, compiled."""

import numpy as np

from tamis._kernels.dense.symmetric import add_products, factorise, solve_upper, width_of
from tamis._kernels.jit import (
    FLOATS,
    FLOATS_1D,
    FLOATS_OUT,
    FLOATS_OUT_1D,
    INTEGER,
    WORDS_1D,
    WORDS_OUT,
    kernel,
    part,
    part_unordered,
)
from tamis._kernels.reference import Floats, Words

_PIECE = 256  # rows gathered at a time: they stay in the cache
_STEEPEST = 1e4  # condition of equations in the entries, where those in the unknowns have a better one


# The indices, weights and pulls of a row's entries, and the offsets of the other side.
_Entries = tuple[Words, Floats, Floats, Floats]


@part
def _gather(entries: _Entries, begin: int, count: int, other: Floats, rows: Floats, b: Floats) -> None:
    """Rows by the root of their weight, one after the other, and what they pull towards added to b."""
    indices, weights, pulls, other_offsets = entries
    k = other.shape[1]
    for i in range(count):
        place, weight = indices[begin + i], weights[begin + i]
        root, pull = np.sqrt(weight), pulls[begin + i] - weight * other_offsets[place]
        v = other[place]
        for j in range(k):
            rows[i, j] = root * v[j]
            b[j] += pull * v[j]


@part
def _solve_few(
    entries: _Entries,
    other: Floats,
    ridge: Floats,
    turned: Floats,
    small: Floats,
    z: Floats,
    inverses: Floats,
    out: Floats,
) -> bool:
    """Of few entries: (D + BᵀB)⁻¹ Bᵀt = D⁻¹Bᵀ (I + B D⁻¹ Bᵀ)⁻¹ t, B = √w v.

    False if that would lose digits: as many as its condition has.
    """
    indices, weights, pulls, other_offsets = entries
    k, r = len(ridge), len(indices)
    width, scale = width_of(r + 1), 1.0 / np.sqrt(ridge)
    columns, sums = turned[: k * width].reshape(k, width), small[: width * width].reshape(width, width)
    for i in range(r):
        root, v = np.sqrt(weights[i]), other[indices[i]]
        for j in range(k):
            columns[j, i] = root * v[j] * scale[j]
    columns[:, r:] = 0.0
    sums[:] = 0.0
    add_products(columns, columns, k, sums)
    condition = 1.0
    for i in range(r):
        condition += sums[i, i]
        sums[i, i] += 1.0
        root = np.sqrt(weights[i])
        sums[i, r] = pulls[i] / root - root * other_offsets[indices[i]]
    if not condition < _STEEPEST or not factorise(sums, r, inverses):
        return False
    for i in range(r):
        z[i] = sums[i, r]
    solve_upper(sums, r, inverses, z[:width])
    out[:] = 0.0
    for i in range(r):
        share, v = z[i] * np.sqrt(weights[i]), other[indices[i]]
        for j in range(k):
            out[j] += share * v[j]
    out /= ridge
    return True


@kernel(
    WORDS_1D,
    WORDS_1D,
    FLOATS_1D,
    FLOATS_1D,
    FLOATS,
    FLOATS,
    FLOATS,
    FLOATS_1D,
    FLOATS,
    FLOATS_1D,
    INTEGER,
    INTEGER,
    FLOATS_OUT,
)
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
    k = other.shape[1]
    width = width_of(k + 1)  # the right-hand side is a column
    rows = np.zeros((_PIECE, width))
    sums = np.empty((width, width))
    b, inverses = np.empty(width), np.empty(width)
    plain = base.size == 0 and noise.size == 0 and not pull.any()
    turned, small = np.empty(k * width), np.empty(width * width)
    for row in range(start, stop):
        first, last = indptr[row], indptr[row + 1]
        entries = indices[first:last], weights[first:last], pulls[first:last], other_offsets
        few = plain and 2 * (last - first) <= k and (ridge[row] > 0.0).all() and (entries[1] > 0.0).all()
        if few and _solve_few(entries, other, ridge[row], turned, small, b, inverses, out[row]):
            continue
        sums[:] = 0.0
        b[:k] = pull
        for begin in range(0, last - first, _PIECE):
            count = min(_PIECE, last - first - begin)
            _gather(entries, begin, count, other, rows, b)
            add_products(rows, rows, count, sums)
        if base.size:
            for i in range(k):
                for j in range(i, k):
                    sums[i, j] += base[i, j]
        for j in range(k):
            sums[j, j] += ridge[row, j]
            sums[j, k] = b[j]
        if not factorise(sums, k, inverses):
            out[row] = np.nan
            continue
        for j in range(k):
            b[j] = sums[j, k]
        if noise.size:
            b[:k] += noise[row]
        solve_upper(sums, k, inverses, b)
        out[row] = b[:k]


@kernel(FLOATS, INTEGER, INTEGER, WORDS_OUT)
def top_rows(scores: Floats, start: int, stop: int, out: Words) -> None:
    m, count = scores.shape[1], out.shape[1]
    best = np.empty(count)
    for row in range(start, stop):
        held = 0
        least = -np.inf
        for j in range(m):
            score = scores[row, j]
            if score > least or (held < count and score > -np.inf):
                place = held if held < count else count - 1
                while place > 0 and best[place - 1] < score:  # behind those it equals, which came first
                    best[place] = best[place - 1]
                    out[row, place] = out[row, place - 1]
                    place -= 1
                best[place] = score
                out[row, place] = j
                held = min(held + 1, count)
                least = best[count - 1] if held == count else -np.inf
        for j in range(held, count):
            out[row, j] = -1


@part_unordered
def _dot(left: Floats, i: int, right: Floats, j: int, k: int) -> float:
    total = 0.0
    for c in range(k):
        total += left[i, c] * right[j, c]
    return total


@kernel(WORDS_1D, WORDS_1D, FLOATS_1D, FLOATS_1D, FLOATS, FLOATS, INTEGER, INTEGER, FLOATS_OUT_1D)
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
    k = rows.shape[1] - 1
    for row in range(start, stop):
        total = 0.0
        for n in range(indptr[row], indptr[row + 1]):
            v = indices[n]
            wrong = targets[n] - (rows[row, k] + other[v, k] + _dot(rows, row, other, v, k))
            total += weights[n] * wrong * wrong
        out[row] = total


@kernel(FLOATS, FLOATS, WORDS_1D, WORDS_1D, INTEGER, INTEGER, FLOATS_OUT_1D)
def dot_pairs(left: Floats, right: Floats, i: Words, j: Words, start: int, stop: int, out: Floats) -> None:
    k = left.shape[1]
    for n in range(start, stop):
        u, v = i[n], j[n]
        out[n] = _dot(left, u, right, v, k) if u >= 0 and v >= 0 else 0.0
