"""The kernels of latent factors, compiled: symmetric products and Cholesky by SciPy's BLAS and LAPACK.

BLAS wants pointers, and matrices by columns: rows (r, k) as they lie are columns (k, r) to it, and of a
symmetric matrix it is all one.
"""

from typing import Any

import llvmlite.binding
import numpy as np
from numba.core import types
from numba.extending import get_cython_function_address

from tamis._kernels.jit import (
    FLOATS,
    FLOATS_1D,
    FLOATS_OUT,
    FLOATS_OUT_1D,
    INTEGER,
    WORDS_1D,
    WORDS_OUT,
    kernel,
)
from tamis._kernels.reference import Floats, Words

_POINTER = types.voidptr


def _from_scipy(name: str, module: str, arguments: int) -> Any:
    """A function of BLAS or LAPACK, known to compiled code by name, so that code can be kept on disk."""
    symbol = f"tamis_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{module}", name))
    return types.ExternalFunction(symbol, types.void(*[_POINTER] * arguments))


_syrk = _from_scipy("dsyrk", "cython_blas", 10)
_potrf = _from_scipy("dpotrf", "cython_lapack", 5)
_potrs = _from_scipy("dpotrs", "cython_lapack", 8)
_trtrs = _from_scipy("dtrtrs", "cython_lapack", 10)

_LOWER, _PLAIN, _TURNED = ord("L"), ord("N"), ord("T")


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
    start: int,
    stop: int,
    out: Floats,
) -> None:
    k = other.shape[1]
    most = 1
    for row in range(start, stop):
        most = max(most, indptr[row + 1] - indptr[row])
    rows = np.empty((most, k))
    matrix = np.empty((k, k))
    small = np.empty((min(most, k), min(most, k)))
    b = np.empty(k)
    dual = np.empty(min(most, k))
    letters = np.array([_LOWER, _PLAIN, _TURNED], dtype=np.uint8)
    lower, plain, turned = letters[0:], letters[1:], letters[2:]
    ones = np.array([1.0, 0.0])
    one, zero = ones[0:], ones[1:]
    sizes = np.array([k, 0, 1, 0], dtype=np.int32)
    size_k, size_r, size_1, info = sizes[0:], sizes[1:], sizes[2:], sizes[3:]
    for row in range(start, stop):
        first, last = indptr[row], indptr[row + 1]
        r = last - first
        sizes[1] = r
        held = True  # whether every direction has a ridge
        for j in range(k):
            held &= ridge[row, j] > 0.0
        if r < k and held and base.size == 0 and noise.size == 0 and r > 0 and not pull.any():
            # fewer entries than unknowns: (D + BᵀB)⁻¹ Bᵀt = D⁻¹Bᵀ (I + B D⁻¹ Bᵀ)⁻¹ t
            for j in range(k):
                b[j] = 1.0 / np.sqrt(ridge[row, j])
            usable = True
            for i in range(r):
                w = weights[first + i]
                usable &= w > 0.0
                root = np.sqrt(w)
                dual[i] = pulls[first + i] / root if w > 0.0 else 0.0
                v = other[indices[first + i]]
                for j in range(k):
                    rows[i, j] = root * v[j] * b[j]
            if usable:
                _syrk(
                    lower.ctypes,
                    turned.ctypes,
                    size_r.ctypes,
                    size_k.ctypes,
                    one.ctypes,
                    rows.ctypes,
                    size_k.ctypes,
                    zero.ctypes,
                    small.ctypes,
                    size_r.ctypes,
                )
                flat = small.reshape(-1)
                for i in range(r):
                    flat[i * r + i] += 1.0
                _potrf(lower.ctypes, size_r.ctypes, small.ctypes, size_r.ctypes, info.ctypes)
                _potrs(
                    lower.ctypes,
                    size_r.ctypes,
                    size_1.ctypes,
                    small.ctypes,
                    size_r.ctypes,
                    dual.ctypes,
                    size_r.ctypes,
                    info.ctypes,
                )
                for j in range(k):
                    out[row, j] = 0.0
                for i in range(r):
                    for j in range(k):
                        out[row, j] += dual[i] * rows[i, j]
                for j in range(k):
                    out[row, j] *= b[j]
                continue
        for j in range(k):
            b[j] = pull[j]
        for i in range(r):
            root, t = np.sqrt(weights[first + i]), pulls[first + i]
            v = other[indices[first + i]]
            for j in range(k):
                rows[i, j] = root * v[j]
                b[j] += t * v[j]
        _syrk(
            lower.ctypes,
            plain.ctypes,
            size_k.ctypes,
            size_r.ctypes,
            one.ctypes,
            rows.ctypes,
            size_k.ctypes,
            zero.ctypes,
            matrix.ctypes,
            size_k.ctypes,
        )
        if base.size:
            for i in range(k):
                for j in range(i, k):  # the lower triangle by columns
                    matrix[i, j] += base[i, j]
        for j in range(k):
            matrix[j, j] += ridge[row, j]
        _potrf(lower.ctypes, size_k.ctypes, matrix.ctypes, size_k.ctypes, info.ctypes)
        if sizes[3] != 0:
            for j in range(k):
                out[row, j] = np.nan
            continue
        _potrs(
            lower.ctypes,
            size_k.ctypes,
            size_1.ctypes,
            matrix.ctypes,
            size_k.ctypes,
            b.ctypes,
            size_k.ctypes,
            info.ctypes,
        )
        for j in range(k):
            out[row, j] = b[j]
        if noise.size:
            for j in range(k):
                b[j] = noise[row, j]
            _trtrs(
                lower.ctypes,
                turned.ctypes,
                plain.ctypes,
                size_k.ctypes,
                size_1.ctypes,
                matrix.ctypes,
                size_k.ctypes,
                b.ctypes,
                size_k.ctypes,
                info.ctypes,
            )
            for j in range(k):
                out[row, j] += b[j]


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


@kernel(FLOATS, FLOATS, WORDS_1D, WORDS_1D, INTEGER, INTEGER, FLOATS_OUT_1D)
def dot_pairs(left: Floats, right: Floats, i: Words, j: Words, start: int, stop: int, out: Floats) -> None:
    k = left.shape[1]
    for n in range(start, stop):
        u, v = i[n], j[n]
        total = 0.0
        if u >= 0 and v >= 0:
            a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0  # four sums side by side, for no one waits for the last
            whole = k - k % 4
            for c in range(0, whole, 4):
                a0 += left[u, c] * right[v, c]
                a1 += left[u, c + 1] * right[v, c + 1]
                a2 += left[u, c + 2] * right[v, c + 2]
                a3 += left[u, c + 3] * right[v, c + 3]
            for c in range(whole, k):
                a0 += left[u, c] * right[v, c]
            total = (a0 + a1) + (a2 + a3)
        out[n] = total
