"""rows → Σ w x xᵀ, packed: the upper triangle of a symmetric matrix, row by row.

BLAS does the work, or on large data of few columns a kernel. They round, and on raw data with a large mean
their rounding would swamp the covariance, so they see the rows less their mean, and the exact sums of the
rows turn the answer back into one about zero: what is stored has no origin, and its error is that of the
centred products. With `exact`, and for little data, each column is cut into slices of 20 bits whose products
BLAS adds without rounding (Ozaki's scheme). Rows far out among many others are summed that way too
(`outliers.py`), so that nothing of them is left when they are taken away.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels, threads
from tamis._kernels import Floats, Words, dense
from tamis.stats.exact import Exact
from tamis.stats.outliers import find_outliers
from tamis.stats.rows import Rows

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]

_BLOCK = 4096  # rows of a sum in floats: 2**12 products of 2 * 20 bits stay below 2**53
_SLICE = 20  # bits
_FEW = 16  # rows for which summing every product exactly is faster than BLAS and its way back
_SMALL = 1 << 16  # cells whose exact products take twice the time of rounded ones: 2 ms for 3,000 × 20
_WEIGHED = 4  # times as many cells are summed exactly in the same time without weights
FAINT = 1e-8  # of squares that were rounded: of less, fewer than seven digits are left
_STACK = 64  # blocks whose answers are summed in one go
_DEEPEST, _LIGHTEST = -400, -100  # exponents of values and weights below which slices could underflow


@lru_cache(maxsize=4)  # a fifth of the time of a block
def triangle(d: int) -> Pairs:
    """Row and column of each packed entry."""
    rows, columns = np.triu_indices(d)
    rows.setflags(write=False)
    columns.setflags(write=False)
    return rows, columns


@lru_cache(maxsize=4)
def _flat_triangle(d: int) -> NDArray[np.int64]:
    rows, columns = triangle(d)
    return rows * d + columns


def pack(matrix: Floats) -> Floats:
    """(..., d, d) symmetric → (..., d(d+1)/2)."""
    d = matrix.shape[-1]
    flat = np.ascontiguousarray(matrix).reshape(*matrix.shape[:-2], d * d)
    return np.ascontiguousarray(flat.take(_flat_triangle(d), axis=-1))


def unpack(packed: Floats, d: int) -> Floats:
    """(..., d(d+1)/2) → (..., d, d) symmetric."""
    rows, columns = triangle(d)
    matrix = np.empty((*packed.shape[:-1], d, d))
    matrix[..., rows, columns] = packed
    matrix[..., columns, rows] = packed
    return matrix


def second_moments(
    rows: Rows, exact: bool, first: Exact | None = None, extra: Rows | None = None
) -> tuple[Exact, Floats | None]:
    """Σ w x xᵀ by group, packed (..., d(d+1)/2), and the squares (..., d) that were rounded, None if exact.

    `first` is Σ w x of these rows, if that is known already. `extra` holds the last columns of the rows. They
    are copied block by block: a full copy of 200,000 rows of 100 columns took a third of the time.
    """
    rows.refuse_unless_squarable()
    if extra is not None:
        extra.refuse_unless_squarable()
    n, d = len(rows.values), rows.values.shape[1] + (0 if extra is None else extra.values.shape[1])
    if not d or not rows.groups:
        return Exact.zeros(rows.shape(d * (d + 1) // 2)), None
    work = n * d * (1 if rows.weights is None else _WEIGHED)
    if exact or n <= _FEW * rows.groups or work <= _SMALL:
        return _sum_exactly(rows if extra is None else rows.join(extra)), None
    second, rounded = _sum_about_mean(rows, first, extra)
    far = find_outliers(rows, extra, rounded)
    if far is not None:
        near = np.flatnonzero(~far)
        second, rounded = _sum_about_mean(rows.take(near), None, None if extra is None else extra.take(near))
        out = rows.take(np.flatnonzero(far))
        second += _sum_exactly(out if extra is None else out.join(extra.take(np.flatnonzero(far))))
    return second, rounded.reshape(rows.shape(d))


def joint_moments(left: Rows, right: Rows, exact: bool) -> tuple[Exact, Exact, Floats | None]:
    """Σ w x and Σ w x xᵀ by group, packed, and what was rounded, of rows whose columns lie in two arrays."""
    first = _join([left.sum_values(), right.sum_values()], lambda words: np.concatenate(words, axis=-1))
    return first, *second_moments(left, exact, first, right)


def _sum_exactly(rows: Rows) -> Exact:
    d = rows.values.shape[1]
    deep = bool(rows.bounds[1].min(initial=0) < _DEEPEST) or (
        rows.weight_bounds is not None and bool(rows.weight_bounds[1].min(initial=0) < _LIGHTEST)
    )
    if deep or len(rows.values) <= _FEW * rows.groups:
        return _sum_by_product(rows, *triangle(d))
    return _stack_groups(rows, [_add_blocks(_multiply_slices(part), d) for part in rows.split()])


def _sum_about_mean(rows: Rows, first: Exact | None, extra: Rows | None) -> tuple[Exact, Floats]:
    """In floats about the mean c, then moved to zero: Σ(x−c)(x−c)ᵀ + c Sᵀ + S cᵀ − W c cᵀ.

    With it Σ(x−c)² (groups, d), of which the products were rounded.
    """
    if first is None:
        parts = [rows.sum_values()] if extra is None else [rows.sum_values(), extra.sum_values()]
        first = _join(parts, lambda words: np.concatenate(words, axis=-1))
    weight, d = rows.sum_weights(), first.shape[-1]
    centre = find_centre(weight, first)
    products = _sum_centred_products(rows, centre.reshape(rows.groups, d), extra)
    about = _stack_groups(rows, [_add_blocks(iter(blocks), d) for blocks in products])
    left, right = triangle(d)
    diagonal = left == right
    rounded = np.array([sum((block[diagonal] for block in blocks), np.zeros(d)) for blocks in products])
    return about + cross_terms(weight, first, centre, (left, right)), rounded


def _sum_by_product(rows: Rows, left: NDArray[np.int64], right: NDArray[np.int64]) -> Exact:
    step = max(1, (1 << 22) // max(1, len(rows.values)))  # pairs at a time: at most 32 MB of products
    pieces = [rows.sum_products(left[i : i + step], right[i : i + step]) for i in range(0, len(left), step)]
    return pieces[0] if len(pieces) == 1 else _join(pieces, lambda words: np.concatenate(words, axis=-1))


def _stack_groups(rows: Rows, parts: list[Exact]) -> Exact:
    """One sum per group, along the first axis; the only sum where rows have no groups."""
    return parts[0] if rows.keys is None else _join(parts, lambda words: np.stack(words, axis=1))


def _join(parts: list[Exact], join: Callable[[list[Words]], Words]) -> Exact:
    """Sums put together, once their words stand in one window."""
    low = min(part.low for part in parts)
    length = max(part.low + len(part.words) for part in parts) - low
    aligned = []
    for part in parts:
        words = np.zeros((length, *part.shape), dtype=np.int64)
        words[part.low - low : part.low - low + len(part.words)] = part.words
        aligned.append(words)
    return Exact.from_words(join(aligned), low)


def find_centre(weight: Exact, first: Exact) -> Floats:
    """A float near the mean (..., d), 0 where there is no weight; any would be right, a near one is best."""
    total = weight.value if weight.shape == first.shape else weight.value[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = first.value / total
    return np.where(np.isfinite(mean), mean, 0.0)


def cross_terms(weight: Exact, first: Exact, centre: Floats, pairs: Pairs | None) -> Exact:
    """c Sᵀ + S cᵀ − W c cᵀ = c Hᵀ + H cᵀ with H = S − W c / 2: second moments about zero less those about c.

    For the named pairs of columns with one weight for all; or, with None, for each column with itself and
    with a weight of its own.
    """
    if pairs is None:
        return first.times(2.0 * centre) - weight.times(centre).times(centre)
    left, right = pairs
    half = first - weight.reindex(lambda w: w[..., None]).times(0.5 * centre)
    return half.reindex(lambda w: w[..., right]).times(centre[..., left]) + half.reindex(
        lambda w: w[..., left]
    ).times(centre[..., right])


def compute_scatter(weight: Exact, first: Exact, second: Exact, pairs: Pairs | None) -> Floats:
    """Σ w (x − mean)(x − mean)ᵀ from sums about zero, packed as `second` is; 0 where nothing was seen.

    The sums are moved to a float next to the mean without rounding, so nothing cancels: the result is good
    to a few units in the last place whatever the mean. `pairs` as for `cross_terms`.
    """
    centre = find_centre(weight, first)
    about = (second - cross_terms(weight, first, centre, pairs)).value
    own = weight if pairs is None else weight.reindex(lambda w: w[..., None])
    rest = (first - own.times(centre)).value
    total = own.value
    square = rest * rest if pairs is None else rest[..., pairs[0]] * rest[..., pairs[1]]
    with np.errstate(invalid="ignore", divide="ignore"):
        scatter = about - np.where(total != 0, square / total, 0.0)
    # about ≥ square / total by Cauchy and Schwarz; only rounding can say otherwise
    on_diagonal = True if pairs is None else pairs[0] == pairs[1]
    return np.where(on_diagonal & (total > 0), np.maximum(scatter, 0.0), scatter)


def are_lost(left: Floats, rounded: Floats | None, least: float = FAINT) -> NDArray[np.bool_]:
    """Mark columns whose remaining squares are small compared with the rounding of all squares ever added.

    Rounding is about 1e-15 of the squares `rounded`, which is then more than 1e-7 of what is left.
    """
    if rounded is None:
        return np.zeros(np.shape(left), dtype=np.bool_)
    return np.asarray(left < least * rounded)


def refuse_lost(lost: NDArray[np.bool_], names: tuple[object, ...] | None = None) -> None:
    """Raise if some column (..., d) is lost."""
    if lost.any():
        j = int(lost.reshape(-1, lost.shape[-1]).any(axis=0).argmax())
        raise ValueError(
            f"too little would be left of column {repr(names[j]) if names else j} to tell after rounding, "
            f"expected at least {FAINT:g} of the squares that were learned: fit again without those rows, or "
            "fit with exact=True; nothing was changed"
        )


def are_impossible(
    weight: Exact, first: Exact, second: Exact | None, pairs: Pairs | None, rounding: Floats | float = 0.0
) -> bool:
    """Whether no rows have these sums, because more was subtracted than was there, beyond rounding."""
    total = weight.value if pairs is None else weight.value[..., None]
    wrong = bool((total < 0).any() or ((total == 0) & (first.value != 0)).any())
    if wrong or second is None:
        return wrong
    squares = second.value if pairs is None else second.value[..., pairs[0] == pairs[1]]
    with np.errstate(over="ignore", invalid="ignore"):
        # n Σx² ≥ (Σx)², but for the rounding of both sides
        wrong = bool(((squares + rounding) * total < np.square(first.value) * (1 - 1e-12)).any())
    return wrong or bool(((total == 0) & (squares != 0)).any())


def _sum_centred_products(rows: Rows, centres: Floats, extra: Rows | None = None) -> list[list[Floats]]:
    """Σ w (x − c)(x − c)ᵀ of each block of each group, packed; blocks are dealt out to threads, if many."""
    order, edges = rows.sort_by_group()
    places = [
        (g, slice(start, min(start + _BLOCK, stop)))
        for g, (begin, stop) in enumerate(pairwise(edges))
        for start in range(begin, stop, _BLOCK)
    ]

    extra_values = None if extra is None else extra.values
    large = dense.is_large(len(rows.values), centres.shape[1])

    def product(g: int, place: slice) -> Floats:
        return pack(
            dense.multiply_centred(rows.values, centres[g], place, order, rows.weights, extra_values, large)
        )

    def lane(start: int, stop: int) -> list[Floats]:
        return [product(g, place) for g, place in places[start:stop]]

    work = len(rows.values) * centres.shape[1] ** 2
    if len(places) == 1 or threads.count_chunks(work) == 1:
        blocks = lane(0, len(places))
    else:
        with threads.one_blas_thread:
            blocks = [block for chunk in threads.map_row_chunks(len(places), work, lane) for block in chunk]
    sums: list[list[Floats]] = [[] for _ in centres]
    for (g, _), block in zip(places, blocks, strict=True):
        sums[g].append(block)
    return sums


def _add_blocks(blocks: Iterator[Floats], d: int) -> Exact:
    """The exact sum of packed matrices of d columns; there may be none, if all slices are empty."""
    total = Exact.zeros((d * (d + 1) // 2,))
    while stack := list(islice(blocks, _STACK)):
        rows = np.stack(stack)
        total += Exact(*_kernels.deposit(rows, _kernels.span(rows)[0]))
    return total


def _multiply_slices(rows: Rows) -> Iterator[Floats]:
    for start in range(0, len(rows.values), _BLOCK):
        x = rows.values[start : start + _BLOCK]
        slices = list(_slice(x))
        if rows.weights is None:
            for s, left in enumerate(slices):
                yield pack(left.T @ left)
                for right in slices[s + 1 :]:
                    product = left.T @ right
                    yield pack(product + product.T)
        else:
            for half in _kernels.two_product(x, rows.weights[start : start + _BLOCK]):
                for left in _slice(half):
                    for right in slices:
                        yield pack(left.T @ right)


def _slice(values: Floats) -> Iterator[Floats]:
    """The values as a sum of arrays whose columns are integers of at most 20 bits, times a power of two."""
    rest = values
    exponent = _kernels.span(values)[0][0]
    while rest.any():
        exponent = exponent - _SLICE
        constant = np.ldexp(1.5, 52 + exponent)
        piece = (rest + constant) - constant
        yield piece
        rest = rest - piece
