"""The only entry to the kernels (functions on arrays): it checks arguments and chooses the implementation.

`compiled` is used where the compiled core is installed, else `reference` (NumPy). Both give the same bits, so
the choice changes only the speed. (The exception is `log_sum_rows`, whose last digits may differ, because
each implementation has its own exp and log.)

Exact sums are int64 `words` (length, cells): cell c holds Σ_j words[j, c] * 2**(32 * (low + j)). Functions
take and return pairs of `words` and `low`. "Settled" sums are in the canonical form that `reference` defines.
Where rows are summed by group, `group` (n,) is the index of each row's group, from 0 to `groups` − 1; None
means one group. Cells are ordered by group, then by column.

Indices and sizes are checked here, because compiled code would read and write wherever an index points.
(Checking 1,000,000 entries of a sparse matrix takes 0.1 ms of the 8 ms of their sums.)
"""

from typing import TYPE_CHECKING

import numpy as np

from tamis._kernels import reference
from tamis._kernels.bounds import refuse_broken_rows, refuse_outside, refuse_unless
from tamis._kernels.reference import KEEP as KEEP
from tamis._kernels.reference import Floats as Floats
from tamis._kernels.reference import Indices as Indices
from tamis._kernels.reference import Int64s as Int64s
from tamis._kernels.reference import Words as Words
from tamis.compiled import choose_kernels

_ONE_GROUP: Int64s = np.zeros(0, dtype=np.int64)  # an empty `group`: all rows are one group
_ALL_ONE: Floats = np.zeros(0)  # empty `weights`: each row has the weight 1

if TYPE_CHECKING:
    _kernels = reference  # both have the same signatures
else:
    _kernels = choose_kernels(reference, "tamis._kernels.compiled")


def span(values: Floats) -> tuple[Int64s, int, int]:
    """Exponents of the largest and of the smallest nonzero magnitude in each column of (n, m) values (2, m).

    As of `np.frexp`, a magnitude is below 2**exponent, and at least half of that. Return also the largest
    exponent of all columns, at least 0, and the index of the first column with a value that is not finite,
    or -1.
    """
    return _kernels.span(values)


def two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The rounded products x * y, and their rounding errors; `y` has the shape of `x`, or one column for all.

    The factors must be below 2**996, because larger ones overflow.
    """
    return _kernels.two_product(x, y)


def deposit(
    values: Floats, bounds: Int64s, group: Int64s | None = None, groups: int = 1
) -> tuple[Words, int]:
    """Settled sums of the rows of (n, m) values, by group: words (length, groups * m), and `low`.

    `bounds` (2, m) is the first result of `span`.
    """
    rows = _check_groups(group, groups, len(values))
    return _kernels.deposit(values, bounds, rows, groups)


def deposit_powers(
    values: Floats, bounds: Int64s, group: Int64s | None = None, groups: int = 1
) -> tuple[Words, int, Words, int]:
    """Settled sums as `deposit` returns, and then those of the exact squares of the values."""
    rows = _check_groups(group, groups, len(values))
    return _kernels.deposit_powers(values, bounds, rows, groups)


def deposit_products(
    x: Floats, x_bounds: Int64s, y: Floats, y_bounds: Int64s, group: Int64s | None = None, groups: int = 1
) -> tuple[Words, int]:
    """Settled sums of the exact products x * y, by group; `y` has the shape of `x`, or one column for all."""
    rows = _check_groups(group, groups, len(x))
    refuse_unless(y.shape in (x.shape, (len(x), 1)), "factors")
    return _kernels.deposit_products(x, x_bounds, y, y_bounds, rows, groups)


def deposit_rows(
    values: Floats, group: Int64s | None = None, groups: int = 1, power: int = 2
) -> tuple[tuple[tuple[Words, int], ...], int, bool]:
    """Settled sums of the rows by group, reading them once; with power 2, also those of their exact squares.

    Return the one or two sums, the largest exponent of all values as `span` does, and True. If a value is not
    finite, return no sums, 0 and False.
    """
    rows = _check_groups(group, groups, len(values))
    return _kernels.deposit_rows(values, rows, groups, power)


def deposit_columns(
    columns: list[Floats], group: Int64s | None = None, groups: int = 1, power: int = 2
) -> tuple[tuple[tuple[Words, int], ...], int, int]:
    """Settled sums of columns (n,) in separate arrays; with power 2, also those of their exact squares.

    Return the one or two sums, the largest exponent of all columns as `span` does, and -1. If a value is not
    finite, return no sums, 0, and the index of the first column with such a value.
    """
    refuse_unless(len({len(column) for column in columns}) == 1, "columns")
    rows = _check_groups(group, groups, len(columns[0]))
    return _kernels.deposit_columns(columns, rows, groups, power)


def add_row(
    words: Words, low: int, start: int, values: Floats, weight: float, power: int
) -> tuple[Words, int]:
    """Add weight * values**power (d,) to d cells of settled sums (length, cells), from cell `start` on.

    The power is 0, 1 or 2; a value that is NaN adds nothing. For squares with a weight other than 1, the
    squares must be finite, and either 0 or above 1e-290.
    """
    return _kernels.add_row(words, low, start, values, weight, power)


def describe_moments(
    weight: Words,
    weight_low: int,
    first: Words,
    first_low: int,
    second: Words,
    second_low: int,
    columns: int,
    pooled: bool,
) -> Floats:
    """Weight W, mean and scatter Σ w (x − mean)² of each cell (3, cells), from settled sums.

    `weight`, `first` and `second` are the sums of weights, of values and of squares. Cells are in groups of
    `columns`, one for each column. If `pooled`, the result is (4, cells + columns): the last columns describe
    all groups together, and the fourth row is each mean minus the mean of all groups.
    """
    moments = np.empty((4, weight.shape[1] + columns) if pooled else (3, weight.shape[1]))
    _kernels.describe_moments(weight, weight_low, first, first_low, second, second_low, columns, moments)
    return moments


def deposit_sparse(
    indptr: Int64s,
    indices: Indices,
    values: Floats,
    weights: Floats | None,
    group: Int64s | None,
    groups: int,
    columns: int,
) -> tuple[Words, int]:
    """Settled sums of the rows of a sparse matrix (CSR), times their weights, by group and column.

    Words are (length, groups * columns); indices are int32 or int64. Two entries of a row may have the same
    column: both are added. All numbers must be finite.
    """
    refuse_unless(len(indices) == len(values), "indices and values")
    refuse_broken_rows(indptr, len(indices))
    refuse_outside("columns", indices, columns)
    rows = _check_groups(group, groups, len(indptr) - 1)
    factors = _check_weights(weights, len(indptr) - 1)
    return _kernels.deposit_sparse(indptr, indices, values, factors, rows, groups, columns)


def deposit_codes(
    codes: Int64s,
    offsets: Int64s,
    weights: Floats | None = None,
    group: Int64s | None = None,
    groups: int = 1,
) -> tuple[Words, int]:
    """Settled sums of the weights of the rows in each category, by group; a code (n, d) of -1 is missing.

    A group has offsets[d] cells; cell offsets[j] + c counts category c of column j. Weights must be
    finite; None means 1 each.
    """
    _refuse_codes(codes, offsets, int(offsets[-1]))
    rows = _check_groups(group, groups, len(codes))
    factors = _check_weights(weights, len(codes))
    return _kernels.deposit_codes(codes, offsets, factors, rows, groups)


def gaussian_scores(x: Floats, mean: Floats, precision: Floats, log_peak: Floats, constant: Floats) -> Floats:
    """constant[k] + Σ_j (log_peak[k, j] - precision[k, j] / 2 * (x[i, j] - mean[k, j])**2): (n, K).

    `log_peak` is the log-density of each Gaussian at its mean. A value that is missing (NaN) is left out of
    the sum.
    """
    shape = (len(constant), x.shape[1])
    refuse_unless(mean.shape == precision.shape == log_peak.shape == shape, "parameters")
    return _kernels.gaussian_scores(x, mean, precision, log_peak, constant)


def gather_scores(codes: Int64s, offsets: Int64s, table: Floats, constant: Floats) -> Floats:
    """constant[k] + Σ_j table[offsets[j] + codes[i, j], k]: (n, K); a code of -1 adds nothing."""
    _refuse_codes(codes, offsets, len(table))
    refuse_unless(table.shape[1] == len(constant), "scores")
    return _kernels.gather_scores(codes, offsets, table, constant)


def log_sum_rows(scores: Floats) -> Floats:
    """log Σ_k exp(scores[i, k]) of each row (n,), from -inf to inf."""
    return _kernels.log_sum_rows(scores)


def settle(words: Words, low: int) -> tuple[Words, int]:
    """The same numbers in canonical form (settled); `words` (length, cells) may be any int64."""
    return _kernels.settle(words, low)


def combine(a: Words, a_low: int, b: Words, b_low: int, sign: int) -> tuple[Words, int]:
    """a + sign * b, in canonical form (settled)."""
    refuse_unless(a.shape[1] == b.shape[1], "sums")
    return _kernels.combine(a, a_low, b, b_low, sign)


def multiply(words: Words, low: int, factors: Floats, keep: int) -> tuple[Words, int]:
    """Settled products of each cell with its finite factor (cells,).

    The `keep` highest words of each product are exact, and lower ones are dropped.
    """
    refuse_unless(factors.shape == words.shape[1:], "sums and factors")
    return _kernels.multiply(words, low, factors, keep)


def read(words: Words, low: int) -> tuple[Floats, Floats]:
    """Each number correctly rounded (cells,), and the number minus the rounded one (cells,)."""
    return _kernels.read(words, low)


def _check_groups(group: Int64s | None, groups: int, rows: int) -> Int64s:
    """Return the group of each row as the kernels take it; raise unless all are from 0 to below `groups`."""
    if group is None:
        return _ONE_GROUP
    if group.size:
        refuse_unless(len(group) == rows, "rows and groups")
        refuse_outside("groups", group, groups)
    return group


def _check_weights(weights: Floats | None, rows: int) -> Floats:
    """Return the weights as the kernels take them; raise unless there is one per row, or none."""
    if weights is None:
        return _ALL_ONE
    refuse_unless(len(weights) in (0, rows), "rows and weights")
    return weights


def _refuse_codes(codes: Int64s, offsets: Int64s, cells: int) -> None:
    """Raise if a code is outside its column's cells; codes below 0 are missing values."""
    refuse_unless(len(offsets) == codes.shape[1] + 1, "codes and offsets")
    if not _kernels.are_codes_within(codes, offsets, cells):
        raise ValueError(
            f"got codes up to {codes.max()} at offsets {offsets}, expected cells 0 to {cells - 1}"
        )
