"""The only entry to the kernels of dense symmetric matrices: products of many rows of few columns.

For few columns, the compiled kernel computes the products, for more columns BLAS. Only the number of columns
decides, because the two round differently, and rows must be subtracted by the implementation that added them.
"""

from tamis import _kernels
from tamis._kernels.dense import reference
from tamis._kernels.reference import Floats, Int64s, Words
from tamis.compiled import choose_kernels

# The compiled kernel takes 0.3 to 0.8 of the time of BLAS, from one row of 4 columns to 4096 rows of 512
# columns; for more columns BLAS is as fast.
_MAX_COLUMNS = 512

# If there is no compiled core, both are the reference.
_matrix_kernels = choose_kernels(reference, "tamis._core.dense")
_sum_kernels = choose_kernels(reference, "tamis._core.sums")


def multiply_centred(
    values: Floats,
    centre: Floats,
    run: slice,
    order: Int64s | None = None,
    weights: Floats | None = None,
    extra: Floats | None = None,
) -> Floats:
    """Return Σ w (x − c)(x − c)ᵀ of some rows (d, d); only the upper triangle is valid.

    The rows are the run of consecutive ones at `run` or, if `order` (n,) is given, those at the indices
    order[run]. A row is one of `values` (n, p), followed by one of `extra` (n, d − p). `weights` is (n, 1).
    """
    kernels = _matrix_kernels if len(centre) <= _MAX_COLUMNS else reference
    products: Floats = kernels.multiply_centred(values, centre, run.start, run.stop, order, weights, extra)
    return products


def multiply_blocks(rows: Floats | list[Floats], centre: Floats, run: slice, block: int) -> Floats:
    """Return Σ (x − c)(x − c)ᵀ of each block of `block` rows, packed (blocks, d(d+1)/2).

    A packed matrix is its upper triangle, row by row. The blocks follow each other in the run of rows at
    `run`. `rows` is (n, d), or a list of columns (n,).
    """
    kernels = _matrix_kernels if len(centre) <= _MAX_COLUMNS else reference
    multiply = kernels.multiply_column_blocks if isinstance(rows, list) else kernels.multiply_row_blocks
    products: Floats = multiply(rows, centre, run.start, run.stop, block)
    return products


def deposit_blocks(
    values: Floats, centre: Floats, block: int
) -> tuple[tuple[tuple[Words, int], ...], int, bool, Floats]:
    """Return the rows' exact sums, the largest exponent of all values, whether all are finite, and products.

    The first three are what `_kernels.deposit_rows` returns with power 1: a tuple of one pair of words and
    `low`, an exponent as of `np.frexp`, and a flag. The last is the result of `multiply_blocks`. A block of
    few columns stays in the cache between the two, so that it is read from memory once. If a value is not
    finite, there are no sums, and the products have no meaning.
    """
    if len(centre) <= _MAX_COLUMNS:
        sums, exponent, is_finite, products = _sum_kernels.deposit_row_blocks(values, centre, block)
        return sums, exponent, is_finite, products
    sums, exponent, is_finite = _kernels.deposit_rows(values, power=1)
    products = multiply_blocks(values, centre, slice(0, len(values) if is_finite else 0), block)
    return sums, exponent, is_finite, products


def sum_responsible(
    rows: Floats,
    run: slice,
    weights: Floats | None,
    origin: Floats,
    constant: Floats,
    linear: Floats,
    quadratic: Floats,
    hard: bool,
) -> tuple[Floats, float]:
    """Return Σ r [x, 1][x, 1]ᵀ of each class (K, d + 1, d + 1), and Σ w log p(row), of the rows at `run`.

    With x = row − origin, log p(row, class) is constant (K,) + linear (K, d) · x + xᵀ quadratic (K, d, d) x,
    and r = w p(class | row) is the responsibility of the class, w being the row's weight: 1 if `weights` (n,)
    is None. If `hard`, r is w for the most probable class of a row and 0 for the others, and p(row) is
    p(row, class) of that class. If the rows hold NaN, or numbers too large to be squared, some result is not
    finite, and none has a meaning.
    """
    sums, log_likelihood = _matrix_kernels.sum_responsible(
        rows, run.start, run.stop, weights, origin, constant, linear, quadratic, hard
    )
    return sums, log_likelihood
