"""Small symmetric matrices, tile by tile: sums of products, their Cholesky root, and the answer x of A x = b.

Matrices have a width of whole vectors and hold their upper triangle; b is their column n, beyond the n of A.
"""

import numpy as np

from tamis._kernels.dense import tiles
from tamis._kernels.jit import part
from tamis._kernels.reference import Floats

LANES = tiles.LANES
_PAIR, _TRIPLE = 2 * LANES, 3 * LANES
_add_1, _add_2, _add_3 = tiles.add_1, tiles.add_2, tiles.add_3
_take_1, _take_2, _take_3 = tiles.take_1, tiles.take_2, tiles.take_3
_corner, _beyond = tiles.corner, tiles.beyond
_beside_1, _beside_2, _beside_3 = tiles.beside_1, tiles.beside_2, tiles.beside_3


@part
def width_of(n: int) -> int:
    """Whole vectors for n columns and one more."""
    return (n // LANES + 1) * LANES


@part
def add_products(left: Floats, right: Floats, count: int, sums: Floats) -> None:
    """Add the upper triangle of LᵀR, of the first rows (count, width), to the sums (width, width)."""
    width = left.shape[1]
    for i in range(0, width, LANES):
        j = i
        while j + _TRIPLE <= width:
            _add_3(left, right, count, sums, i, j)
            j += _TRIPLE
        if j + _PAIR <= width:
            _add_2(left, right, count, sums, i, j)
        elif j + LANES <= width:
            _add_1(left, right, count, sums, i, j)


@part
def factorise(sums: Floats, n: int, inverses: Floats) -> bool:
    """A = UᵀU and U⁻ᵀ b in place, and one over U's diagonal; False if A is not positive definite.

    What lies below U, in the rows from n on and in the inverses from n on, is nothing to be read.
    """
    width = sums.shape[1]
    for i in range(0, n, LANES):
        j = i
        while j + _TRIPLE <= width:  # less what the rows above have had
            _take_3(sums, sums, i, sums, i, j)
            j += _TRIPLE
        if j + _PAIR <= width:
            _take_2(sums, sums, i, sums, i, j)
        elif j + LANES <= width:
            _take_1(sums, sums, i, sums, i, j)
        _corner(sums, i, inverses)
        for p in range(i, min(i + LANES, n)):
            if not sums[p, p] > 0.0:
                return False
        j = i + LANES
        while j + _TRIPLE <= width:
            _beside_3(sums, i, j, inverses)
            j += _TRIPLE
        if j + _PAIR <= width:
            _beside_2(sums, i, j, inverses)
        elif j + LANES <= width:
            _beside_1(sums, i, j, inverses)
    return True


@part
def solve_upper(upper: Floats, n: int, inverses: Floats, x: Floats) -> None:
    """U⁻¹ x in place (width,)."""
    later = np.empty(LANES)
    x[n:] = 0.0
    for i in range((n - 1) // LANES * LANES, -1, -LANES):
        _beyond(upper, i, x, later)
        last = min(i + LANES, n)
        for p in range(last - 1, i - 1, -1):
            left = x[p] - later[p - i]
            for q in range(p + 1, last):
                left -= upper[p, q] * x[q]
            x[p] = left * inverses[p]
