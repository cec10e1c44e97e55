"""The only entry to the kernels of dense symmetric matrices: products of many rows of few columns.

The number of columns alone chooses the implementation of products. BLAS and the compiled kernel round
differently, and rows must be unlearned by the one that learned them.
"""

from tamis import _kernels
from tamis._kernels.dense import reference
from tamis._kernels.reference import Floats, Words
from tamis.compiled import choose

__all__ = ["deposit_blocks", "multiply_blocks", "multiply_centred", "sum_responsible"]

# The compiled kernel takes 0.3 to 0.8 of the time of BLAS, from one row of 4 columns to 4096 rows of 512; for
# more columns BLAS is as fast.
_WIDEST = 512  # columns

_tiles = choose(reference, "tamis._core.dense")
_sums = choose(reference, "tamis._core.sums")


def multiply_centred(
    values: Floats,
    centre: Floats,
    place: slice,
    order: Words | None = None,
    weights: Floats | None = None,
    extra: Floats | None = None,
) -> Floats:
    """Σ w (x − c)(x − c)ᵀ of the rows at `place` (d, d); only the upper triangle is valid.

    Rows are `values` (n, p) and the `extra` columns (n, d − p); `order` (n,) is the row at each place, and
    `weights` is (n, 1).
    """
    kernels = _tiles if len(centre) <= _WIDEST else reference
    products: Floats = kernels.multiply_centred(
        values, centre, place.start, place.stop, order, weights, extra
    )
    return products


def multiply_blocks(rows: Floats | list[Floats], centre: Floats, place: slice, block: int) -> Floats:
    """Σ (x − c)(x − c)ᵀ of each block of rows at `place`: the packed upper triangles (blocks, d(d+1)/2).

    `rows` is (n, d), or a list of columns (n,) that lie apart in memory.
    """
    kernels = _tiles if len(centre) <= _WIDEST else reference
    multiply = kernels.multiply_column_blocks if isinstance(rows, list) else kernels.multiply_row_blocks
    products: Floats = multiply(rows, centre, place.start, place.stop, block)
    return products


def deposit_blocks(
    values: Floats, centre: Floats, block: int
) -> tuple[tuple[tuple[Words, int], ...], int, bool, Floats]:
    """Settled sums of the rows, as of `deposit_rows`, and what `multiply_blocks` returns for all rows.

    A block of few columns stays in the cache between the two, so that it is read from memory once. If a value
    is not finite, there are no sums, and products have no meaning.
    """
    if len(centre) <= _WIDEST:
        sums, largest, is_finite, products = _sums.deposit_row_blocks(values, centre, block)
        return sums, largest, is_finite, products
    sums, largest, is_finite = _kernels.deposit_rows(values, power=1)
    products = multiply_blocks(values, centre, slice(0, len(values) if is_finite else 0), block)
    return sums, largest, is_finite, products


def sum_responsible(
    rows: Floats,
    place: slice,
    weights: Floats | None,
    origin: Floats,
    constant: Floats,
    linear: Floats,
    quadratic: Floats,
    hard: bool,
) -> tuple[Floats, float]:
    """Σ r [x, 1][x, 1]ᵀ by class (K, d + 1, d + 1), and Σ w log p(row), of the rows at `place`.

    With x = row − origin, log p(row, class) is constant (K,) + linear (K, d) · x + xᵀ quadratic (K, d, d) x,
    and r is w p(class | row). If `hard`, a row belongs to its most probable class alone, and p(row) is
    p(row, class). Where the rows hold NaN, or numbers too large to be squared, some result is not finite, and
    none has a meaning.
    """
    sums, log_likelihood = _tiles.sum_responsible(
        rows, place.start, place.stop, weights, origin, constant, linear, quadratic, hard
    )
    return sums, log_likelihood
