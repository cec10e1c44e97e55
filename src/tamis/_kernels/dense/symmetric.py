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
_corner, _make_rest = tiles.corner, tiles.multiply_rest
_beside_1, _beside_2, _beside_3 = tiles.side_1, tiles.side_2, tiles.side_3


@part
def width_of(columns: int) -> int:
    """Whole vectors for so many columns."""
    return (columns + LANES - 1) // LANES * LANES


@part
def _add_to_row(left: Floats, right: Floats, count: int, sign: float, sums: Floats, i: int) -> None:
    """Add ± LᵀR, of the first rows, to the sums' row of tiles that begins on the diagonal at i."""
    width, j = sums.shape[1], i
    while j + _TRIPLE <= width:
        _add_3(left, right, count, sign, sums, i, j)
        j += _TRIPLE
    if j + _PAIR <= width:
        _add_2(left, right, count, sign, sums, i, j)
    elif j + LANES <= width:
        _add_1(left, right, count, sign, sums, i, j)


@part
def add_products(left: Floats, right: Floats, count: int, sums: Floats) -> None:
    """Add the upper triangle of LᵀR, of the first rows (count, width), to the sums (width, width)."""
    for i in range(0, sums.shape[1], LANES):
        _add_to_row(left, right, count, 1.0, sums, i)


@part
def factorise(sums: Floats, n: int, inverses: Floats) -> bool:
    """A = UᵀU and U⁻ᵀ b in place, and one over U's diagonal; False if A is not positive definite.

    What lies below U, in the rows from n on and in the inverses from n on, is nothing to be read.
    """
    width = sums.shape[1]
    for i in range(0, n, LANES):
        _add_to_row(sums, sums, i, -1.0, sums, i)  # less what the rows above have had
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
        _make_rest(upper, i, x, later)
        last = min(i + LANES, n)
        for p in range(last - 1, i - 1, -1):
            left = x[p] - later[p - i]
            for q in range(p + 1, last):
                left -= upper[p, q] * x[q]
            x[p] = left * inverses[p]
