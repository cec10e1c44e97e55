"""rows → Σ w x xᵀ, packed: the upper triangle of a symmetric matrix, row by row.

BLAS or a compiled kernel sums the products of a block of rows. Both round, and if the mean were large, their
rounding errors would exceed the covariance. So the mean is subtracted from the rows first; the exact sums of
the rows then convert the result to sums of products about zero, which have the rounding errors of the
centred products. With `exact`, and for few values, each column is split into slices of 20 bits, whose
products BLAS adds without rounding (Ozaki et al. 2012, Error-free transformations of matrix multiplication).
Outliers are summed in this way, too (`outliers.py`), so that no rounding errors remain after they are
subtracted.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, reduce
from itertools import islice, pairwise
from operator import add

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels, threads
from tamis._kernels import Floats, Words, dense
from tamis.stats.exact import Exact
from tamis.stats.outliers import find_outliers, may_have_outliers, sample_columns
from tamis.stats.rows import Rows, can_square

ColumnPairs = tuple[NDArray[np.int64], NDArray[np.int64]]

_BLOCK = 4096  # rows whose products are summed in floats: 2**12 products of 2 * 20 bits stay below 2**53
# Values in a chunk of `sum_unweighted_rows`: 8 MB for each thread, which stay in the third-level cache. If
# there is only one thread, one call of a kernel takes the whole array.
_CHUNK = 1 << 20
_SLICE = 20  # bits of a slice
_FEW_ROWS = 16  # with up to 16 rows per group, exact sums of products are faster than those about the mean
# Up to this number of values, products are summed exactly, which takes twice as long: 2 ms for 3,000 rows of
# 20 columns. A weighted value counts as four, because its exact sums take four times as long.
_MAX_EXACT_VALUES = 1 << 16
_WEIGHTED_COST = 4
MIN_REMAINDER = 1e-8  # a smaller fraction of the squares that were rounded has less than seven correct digits
_STACK = 64  # the number of blocks whose sums of products one call of a kernel adds
_MIN_EXPONENT, _MIN_WEIGHT_EXPONENT = -400, -100  # below these, slices of values and weights could underflow


@lru_cache(maxsize=4)  # computing it takes a fifth of the time of a block
def triangle(d: int) -> ColumnPairs:
    """Return the row and the column of each entry of a packed d × d matrix."""
    rows, columns = np.triu_indices(d)
    rows.setflags(write=False)
    columns.setflags(write=False)
    return rows, columns


@lru_cache(maxsize=4)
def _flat_triangle(d: int) -> NDArray[np.int64]:
    rows, columns = triangle(d)
    return rows * d + columns


def pack(matrix: Floats) -> Floats:
    """Return the upper triangles (..., d(d+1)/2) of symmetric matrices (..., d, d)."""
    d = matrix.shape[-1]
    flat = np.ascontiguousarray(matrix).reshape(*matrix.shape[:-2], d * d)
    return np.ascontiguousarray(flat.take(_flat_triangle(d), axis=-1))


def unpack(packed: Floats, d: int) -> Floats:
    """Return the symmetric matrices (..., d, d) of upper triangles (..., d(d+1)/2)."""
    rows, columns = triangle(d)
    matrix = np.empty((*packed.shape[:-1], d, d))
    matrix[..., rows, columns] = packed
    matrix[..., columns, rows] = packed
    return matrix


def second_moments(
    rows: Rows, exact: bool, first: Exact | None = None, last_columns: Rows | None = None
) -> tuple[Exact, Floats | None]:
    """Sum w x xᵀ by group, packed (..., d(d+1)/2).

    Return also the squares whose sums were rounded, Σ w (x − c)² (..., d), or None if the sums are exact.
    `first` is Σ w x of these rows, if it is known already. `last_columns` holds further columns of the same
    rows. They are joined block by block: to join all 200,000 rows of 100 columns took a third of the time.
    """
    rows.refuse_unless_squarable()
    if last_columns is not None:
        last_columns.refuse_unless_squarable()
    n, d = rows.values.shape
    d += 0 if last_columns is None else last_columns.values.shape[1]
    if not d or not rows.groups:
        return Exact.zeros(rows.shape(d * (d + 1) // 2)), None
    work = n * d * (1 if rows.weights is None else _WEIGHTED_COST)
    if exact or n <= _FEW_ROWS * rows.groups or work <= _MAX_EXACT_VALUES:
        return _sum_exactly(rows, last_columns), None
    second, rounded = _sum_about_mean(rows, first, last_columns)
    is_outlier = find_outliers(rows, last_columns, rounded)
    if is_outlier is not None:
        (others, last_others), (outliers, last_outliers) = (
            (rows.take(index), None if last_columns is None else last_columns.take(index))
            for index in (np.flatnonzero(~is_outlier), np.flatnonzero(is_outlier))
        )
        second, rounded = _sum_about_mean(others, None, last_others)
        second += _sum_exactly(outliers, last_outliers)
    return second, rounded.reshape(rows.shape(d))


def sum_unweighted_rows(rows: Floats | list[Floats]) -> tuple[Exact, Exact, Floats] | None:
    """Return Σ x, Σ x xᵀ packed, and the rounded squares (d,) of rows without weights or groups, in one pass.

    The rounded squares are as in `second_moments`. `rows` is (n, d), or a list of columns (n,). Chunks of
    rows stay in the cache while they are checked, summed and multiplied. So products are not about the mean,
    which is known only at the end, but about the median of a sample of rows. None if `second_moments` would
    sum some rows exactly, or if a value is not finite or cannot be squared.
    """
    n, d = (len(rows[0]), len(rows)) if isinstance(rows, list) else rows.shape
    if n <= _FEW_ROWS or n * d <= _MAX_EXACT_VALUES:
        return None
    centre, scale = sample_columns(rows)  # medians, and the usual deviations from them
    if not np.isfinite(centre).all():
        return None
    is_one_chunk = not isinstance(rows, list) and threads.count_chunks(n * d**2) == 1
    step = n if is_one_chunk else max(1, _CHUNK // d // _BLOCK) * _BLOCK
    chunks: list[tuple[Exact, Floats] | None] = [None] * -(-n // step)

    def sum_chunk(k: int) -> None:
        run = slice(k * step, min((k + 1) * step, n))
        if isinstance(rows, list):
            columns = [column[run] for column in rows]
            sums, exponent, nonfinite = _kernels.deposit_columns(columns, power=1)
            if nonfinite < 0 and can_square(exponent):
                blocks = dense.multiply_blocks(columns, centre, slice(0, run.stop - run.start), _BLOCK)
                chunks[k] = Exact(*sums[0]), blocks
        else:
            sums, exponent, is_finite, blocks = dense.deposit_blocks(rows[run], centre, _BLOCK)
            if is_finite and can_square(exponent):
                chunks[k] = Exact(*sums[0]), blocks

    threads.run_in_turns(len(chunks), n * d**2, sum_chunk)
    finished = [chunk for chunk in chunks if chunk is not None]
    if len(finished) < len(chunks):
        return None
    blocks = np.concatenate([products for _, products in finished])
    squares = _sum_squares(blocks, d)
    if may_have_outliers(squares, scale, n):
        return None
    first = reduce(add, [sums for sums, _ in finished])
    cross = cross_terms(Exact.count(n, ()), first, centre, triangle(d))
    return first, _add_blocks(iter(blocks), d) + cross, squares


def joint_moments(left: Rows, right: Rows, exact: bool) -> tuple[Exact, Exact, Floats | None]:
    """Return Σ w x, Σ w x xᵀ packed, and the rounded squares, by group, of the columns of both together.

    The rounded squares are as in `second_moments`.
    """
    first = _join_columns([left.sum_values(), right.sum_values()])
    return first, *second_moments(left, exact, first, right)


def _sum_exactly(rows: Rows, last_columns: Rows | None) -> Exact:
    """Sum w x xᵀ by group, packed, without rounding: by slices, or by products where slices underflow."""
    rows = rows if last_columns is None else rows.join(last_columns)
    d = rows.values.shape[1]
    # The second row of bounds has the exponents of the smallest nonzero magnitudes.
    may_underflow = bool(rows.bounds[1].min(initial=0) < _MIN_EXPONENT) or (
        rows.weight_bounds is not None and bool(rows.weight_bounds[1].min(initial=0) < _MIN_WEIGHT_EXPONENT)
    )
    if may_underflow or len(rows.values) <= _FEW_ROWS * rows.groups:
        return _sum_by_product(rows, *triangle(d))
    return _stack_groups(rows, [_add_blocks(_multiply_slices(part), d) for part in rows.split()])


def _sum_about_mean(rows: Rows, first: Exact | None, last_columns: Rows | None) -> tuple[Exact, Floats]:
    """Sum products about the mean c in floats, and convert: Σxxᵀ = Σ(x−c)(x−c)ᵀ + c Sᵀ + S cᵀ − W c cᵀ.

    Return also Σ(x−c)² (groups, d), the squares whose sums were rounded.
    """
    if first is None:
        first = _join_columns([part.sum_values() for part in (rows, last_columns) if part is not None])
    weight, d = rows.sum_weights(), first.shape[-1]
    centre = find_centre(weight, first)
    products = _sum_centred_products(rows, centre.reshape(rows.groups, d), last_columns)
    centred = _stack_groups(rows, [_add_blocks(iter(blocks), d) for blocks in products])
    second = centred + cross_terms(weight, first, centre, triangle(d))
    return second, np.array([_sum_squares(blocks, d) for blocks in products])


def _sum_by_product(rows: Rows, left: NDArray[np.int64], right: NDArray[np.int64]) -> Exact:
    """Sum w x_i x_j of pairs of columns i in `left` and j in `right`, by group, without rounding."""
    step = max(1, (1 << 22) // max(1, len(rows.values)))  # pairs at a time: at most 32 MB of products
    sums = [rows.sum_products(left[i : i + step], right[i : i + step]) for i in range(0, len(left), step)]
    return sums[0] if len(sums) == 1 else _join_columns(sums)


def _stack_groups(rows: Rows, parts: list[Exact]) -> Exact:
    """Stack the sums of the groups along a new first axis; return the only sum if rows have no groups."""
    return parts[0] if rows.keys is None else _join(parts, lambda words: np.stack(words, axis=1))


def _join_columns(parts: list[Exact]) -> Exact:
    """Join sums along their last axis."""
    return _join(parts, lambda words: np.concatenate(words, axis=-1))


def _join(parts: list[Exact], join: Callable[[list[Words]], Words]) -> Exact:
    """Join sums, after their words are aligned to the same lowest and highest exponent."""
    low = min(part.low for part in parts)
    length = max(part.low + len(part.words) for part in parts) - low
    aligned = []
    for part in parts:
        words = np.zeros((length, *part.shape), dtype=np.int64)
        words[part.low - low : part.low - low + len(part.words)] = part.words
        aligned.append(words)
    return Exact.from_words(join(aligned), low)


def find_centre(weight: Exact, first: Exact) -> Floats:
    """Return the mean, rounded (..., d); 0 where the weight is 0."""
    total = weight.value if weight.shape == first.shape else weight.value[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = first.value / total
    return np.where(np.isfinite(mean), mean, 0.0)


def cross_terms(weight: Exact, first: Exact, centre: Floats, pairs: ColumnPairs | None) -> Exact:
    """Return Σ w x xᵀ − Σ w (x − c)(x − c)ᵀ = c Sᵀ + S cᵀ − W c cᵀ = c Hᵀ + H cᵀ with H = S − W c / 2.

    W is `weight`, S is `first` and c is `centre`. `pairs` gives the pairs of columns, which share one weight.
    If it is None, each column is paired with itself and has its own weight.
    """
    if pairs is None:
        return first.times(2.0 * centre) - weight.times(centre).times(centre)
    left, right = pairs
    half = first - weight.reindex(lambda w: w[..., None]).times(0.5 * centre)
    return half.reindex(lambda w: w[..., right]).times(centre[..., left]) + half.reindex(
        lambda w: w[..., left]
    ).times(centre[..., right])


def compute_scatter(weight: Exact, first: Exact, second: Exact, pairs: ColumnPairs | None) -> Floats:
    """Compute Σ w (x − mean)(x − mean)ᵀ from Σ w x and Σ w x xᵀ, packed as `second` is.

    The sums are converted, without rounding, to sums about a float next to the mean, where the subtraction
    cancels no digits: the error is a few units in the last place, however large the mean. `pairs` is as in
    `cross_terms`.
    """
    if pairs is None:
        return np.asarray(describe_moments(weight, first, second)[2])
    centre = find_centre(weight, first)
    centred = (second - cross_terms(weight, first, centre, pairs)).value
    column_weight = weight.reindex(lambda w: w[..., None])
    rest = (first - column_weight.times(centre)).value
    total = column_weight.value
    square = rest[..., pairs[0]] * rest[..., pairs[1]]
    with np.errstate(invalid="ignore", divide="ignore"):
        scatter = centred - np.where(total != 0, square / total, 0.0)
    # centred ≥ square / total by the Cauchy–Schwarz inequality; only rounding can violate it
    return np.where((pairs[0] == pairs[1]) & (total > 0), np.maximum(scatter, 0.0), scatter)


def describe_moments(weight: Exact, first: Exact, second: Exact, pooled: bool = False) -> Floats:
    """Return weight, mean and scatter of the diagonal form (3, ..., d); the mean is NaN if the weight is 0.

    If `pooled`, the sums are (groups, d) and the result is (4, groups + 1, d): the last group is all groups
    together, and the fourth row is the shift, each mean minus the mean of all groups.
    """
    shape = first.shape
    columns = shape[-1] if shape else 1
    moments = _kernels.describe_moments(
        weight.flat_words,
        weight.low,
        first.flat_words,
        first.low,
        second.flat_words,
        second.low,
        columns,
        pooled,
    )
    return moments.reshape(4, shape[0] + 1, columns) if pooled else moments.reshape(3, *shape)


def find_lost_columns(
    remaining: Floats, rounded: Floats | None, least: float = MIN_REMAINDER
) -> NDArray[np.bool_]:
    """Mark the columns whose remaining sum of squares has too few correct digits.

    The rounding error is about 1e-15 of `rounded`, the squares of all rows that were ever added or
    subtracted. In a marked column it is more than 1e-7 of the remaining squares, if `least` is 1e-8.
    """
    if rounded is None:
        return np.zeros(np.shape(remaining), dtype=np.bool_)
    return np.asarray(remaining < least * rounded)


def refuse_lost_precision(is_lost: NDArray[np.bool_], names: tuple[object, ...] | None = None) -> None:
    """Raise if `find_lost_columns` marked a column (..., d); `names` are the columns' names."""
    if is_lost.any():
        j = int(is_lost.reshape(-1, is_lost.shape[-1]).any(axis=0).argmax())
        raise ValueError(
            f"too little would be left of column {repr(names[j]) if names else j} after rounding errors, "
            f"expected at least {MIN_REMAINDER:g} of the squares that were learned: fit again without those "
            "rows, or fit with exact=True; nothing was changed"
        )


def are_impossible(
    weight: Exact,
    first: Exact,
    second: Exact | None,
    pairs: ColumnPairs | None,
    rounding: Floats | float = 0.0,
) -> bool:
    """Return whether no data has these sums: more was subtracted than was added, beyond `rounding`."""
    total = weight.value if pairs is None else weight.value[..., None]
    is_impossible = bool((total < 0).any() or ((total == 0) & (first.value != 0)).any())
    if is_impossible or second is None:
        return is_impossible
    squares = second.value if pairs is None else second.value[..., pairs[0] == pairs[1]]
    with np.errstate(over="ignore", invalid="ignore"):
        # n Σx² ≥ (Σx)², up to the rounding of both sides
        is_impossible = bool(((squares + rounding) * total < np.square(first.value) * (1 - 1e-12)).any())
    return is_impossible or bool(((total == 0) & (squares != 0)).any())


def _sum_centred_products(rows: Rows, centres: Floats, last_columns: Rows | None = None) -> list[Floats]:
    """Compute Σ w (x − c)(x − c)ᵀ of blocks of rows: for each group, packed (blocks, d(d+1)/2)."""
    d = centres.shape[1]
    order, edges = rows.sort_by_group()
    spans = [
        (g, slice(start, min(start + _BLOCK, stop)))
        for g, (begin, stop) in enumerate(pairwise(edges))
        for start in range(begin, stop, _BLOCK)
    ]
    last_values = None if last_columns is None else last_columns.values

    def multiply_block(g: int, span: slice) -> Floats:
        return pack(dense.multiply_centred(rows.values, centres[g], span, order, rows.weights, last_values))

    def multiply_blocks(start: int, stop: int) -> list[Floats]:
        return [multiply_block(g, span) for g, span in spans[start:stop]]

    sums: list[list[Floats]] = [[] for _ in centres]
    for (g, _), block in zip(
        spans, _map_blocks(len(spans), len(rows.values), d, multiply_blocks), strict=True
    ):
        sums[g].append(block)
    return [np.reshape(blocks, (len(blocks), d * (d + 1) // 2)) for blocks in sums]


def _map_blocks(
    count: int, n: int, d: int, multiply_blocks: Callable[[int, int], Iterable[Floats]]
) -> list[Floats]:
    """Return the results of multiply_blocks(start, stop) for all of `count` blocks, in threads if many.

    The blocks have n rows of d columns in all.
    """
    work = n * d**2
    if count == 1 or threads.count_chunks(work) == 1:
        return list(multiply_blocks(0, count))
    with threads.one_blas_thread:
        chunks = threads.map_row_chunks(count, work, multiply_blocks)
    return [block for chunk in chunks for block in chunk]


def _sum_squares(blocks: Floats, d: int) -> Floats:
    """Return the sums of the diagonals (d,) of packed matrices (blocks, d(d+1)/2)."""
    left, right = triangle(d)
    return np.asarray(blocks[:, left == right].sum(axis=0))


def _add_blocks(blocks: Iterator[Floats], d: int) -> Exact:
    """Return the exact sum of packed d × d matrices; zero if there are none."""
    total = Exact.zeros((d * (d + 1) // 2,))
    while stack := list(islice(blocks, _STACK)):
        rows = np.stack(stack)
        bounds = _kernels.span(rows)[0]  # exponents by column, by which `deposit` chooses words
        total += Exact(*_kernels.deposit(rows, bounds))
    return total


def _multiply_slices(rows: Rows) -> Iterator[Floats]:
    """Yield packed matrices, computed without rounding, whose sum is Σ w x xᵀ of rows of one group."""
    for start in range(0, len(rows.values), _BLOCK):
        x = rows.values[start : start + _BLOCK]
        slices = list(_split_into_slices(x))
        if rows.weights is None:
            for s, left in enumerate(slices):
                yield pack(left.T @ left)
                for right in slices[s + 1 :]:
                    product = left.T @ right
                    yield pack(product + product.T)
        else:
            # The rounded products of rows and weights, and then their rounding errors.
            for weighted in _kernels.two_product(x, rows.weights[start : start + _BLOCK]):
                for left in _split_into_slices(weighted):
                    for right in slices:
                        yield pack(left.T @ right)


def _split_into_slices(values: Floats) -> Iterator[Floats]:
    """Yield arrays whose sum is `values`: integers of at most 20 bits, times a power of two per column."""
    rest = values
    exponent = _kernels.span(values)[0][0]  # magnitudes in each column are below 2**exponent
    while rest.any():
        exponent = exponent - _SLICE
        constant = np.ldexp(1.5, 52 + exponent)  # floats of this size are multiples of 2**exponent
        rounded = (rest + constant) - constant
        yield rounded
        rest = rest - rounded
