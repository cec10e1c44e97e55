"""Floats → settled words.

Values within 2**31 of the largest of their column are split, not rounded: scaled so that the largest is
below 1, and with s = 1.5 * 2**(52 - 42 t), the float `(v + s) - s` is v rounded to a multiple of
2**(-42 t), and the remainder is exact. Such pieces add without error over 2**11 rows, and an optimising
compiler turns the loop over columns into vector code: 4 ns a cell for a first and a second sum. Smaller
values, and sums of few rows or in many cells, are added digit by digit, at 10 ns each.
"""

import math

import numpy as np

from tamis._kernels.compiled.digits import carry_and_trim
from tamis._kernels.compiled.groups import sort_by_group
from tamis._kernels.compiled.push import push, push_product
from tamis._kernels.jit import FLOATS, FLOATS_1D, INTEGER, WORDS, WORDS_1D, kernel, part
from tamis._kernels.reference import BITS, Floats, Words

ROWS = 1 << 11  # pieces are at most 2**42 units, so the sum of this many is at most 2**53
DEPTH = 2.0**-31  # of the largest value: what is smaller has bits below the pieces' grids
S1, S2, S3 = (1.5 * 2.0 ** (52 - 42 * t) for t in (1, 2, 3))
SPLITTER = 134217729.0  # 2**27 + 1: cuts a 53-bit significand into two halves (Veltkamp)
LANES = 64  # columns that fill the vector units; narrower data is folded up to this width
CELLS = 1 << 15  # whose pieces fit a second-level cache
FEW = 8  # rows a group for which pieces do not pay
FAINT = -1000  # a largest value with a lower exponent could not be scaled up to 1


@kernel(FLOATS)
def extents(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Largest and smallest nonzero magnitude (0 and inf if none), and 0 if all are finite, of each column."""
    n, m = values.shape
    largest = np.zeros(m)
    smallest = np.full(m, np.inf)
    broken = np.zeros(m)
    for i in range(n):
        for j in range(m):
            v = values[i, j]
            a = abs(v)
            broken[j] += v - v
            largest[j] = max(largest[j], a)
            b = a if a > 0.0 else np.inf
            smallest[j] = min(smallest[j], b)
    return largest, smallest, broken


@kernel(FLOATS_1D, FLOATS_1D, FLOATS_1D)
def exponents(largest: Floats, smallest: Floats, broken: Floats) -> tuple[Words, int, int]:
    """The answer of `span` for columns with these extents."""
    m = largest.shape[0]
    bounds = np.zeros((2, m), np.int64)
    highest = 0
    first_broken = -1
    for j in range(m):
        if broken[j] != 0.0:
            first_broken = j if first_broken < 0 else first_broken
        elif largest[j] > 0.0:
            bounds[0, j] = math.frexp(largest[j])[1]
            bounds[1, j] = math.frexp(smallest[j])[1]
            highest = max(highest, bounds[0, j])
    return bounds, highest, first_broken


@kernel(FLOATS)
def span(values: Floats) -> tuple[Words, int, int]:
    largest, smallest, broken = extents(values)
    return exponents(largest, smallest, broken)


@kernel(FLOATS, FLOATS)
def two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    n, m = x.shape
    product = np.empty((n, m))
    rounding = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            u = x[i, j]
            v = y[i, j if y.shape[1] > 1 else 0]
            p = u * v
            t = SPLITTER * u
            u_high = t - (t - u)
            u_low = u - u_high
            t = SPLITTER * v
            v_high = t - (t - v)
            v_low = v - v_high
            product[i, j] = p
            rounding[i, j] = ((u_high * v_high - p) + u_high * v_low + u_low * v_high) + u_low * v_low
    return product, rounding


@part
def _window(high: int, low: int, rows: int, cells: int) -> tuple[int, Words]:
    """Position and room for sums of so many numbers below 2**high whose lowest bit is 2**low."""
    while rows > 0:
        rows >>= 1
        high += 1
    position = low // BITS
    return position, np.zeros((high // BITS + 1 - position, cells), np.int64)


@part
def _extremes(bounds: Words) -> tuple[int, int]:
    high, low = 0, 0
    for j in range(bounds.shape[1]):
        high = max(high, int(bounds[0, j]))
        low = min(low, int(bounds[1, j]))
    return high, low


@part
def _digitwise(n: int, m: int, groups: int) -> bool:
    return n <= FEW * groups or groups * m > CELLS


@part
def _fold(n: int, m: int, group: Words) -> int:
    """The number of rows to lay side by side so that the vector units are full."""
    return LANES // m if 0 < 4 * m <= LANES and group.shape[0] == 0 and n >= LANES else 1


@part
def _scales(exponents: Words, fold: int) -> tuple[Words, Floats]:
    """Exponents that bound the columns, and the powers of two that bring these below 1, `fold` times."""
    m = exponents.shape[0]
    tops = np.empty(m * fold, np.int64)
    scale = np.empty(m * fold)
    for j in range(m * fold):
        tops[j] = max(exponents[j % m], FAINT)
        scale[j] = math.ldexp(1.0, -tops[j])
    return tops, scale


@part
def _is_deep(tops: Words, low: Words, most: int) -> bool:
    """Whether any column holds a value more than that many bits below its largest."""
    for j in range(low.shape[0]):  # noqa: SIM110  (Numba has no generators here)
        if tops[j] - low[j] > most:
            return True
    return False


@part
def _flush(
    pieces: Floats, start: int, stop: int, tops: Words, power: int, words: Words, cell: int, low: int
) -> None:
    """Move the sums of pieces (planes, width) from start to stop into the cells of a group."""
    columns = min(words.shape[1], pieces.shape[1])
    for k in range(start, stop):
        for j in range(pieces.shape[1]):
            push(words, cell + j % columns, pieces[k, j], power * tops[j], low)
            pieces[k, j] = 0.0


@part
def _sum_values(
    values: Floats, tops: Words, scale: Floats, deep: bool, group: Words, groups: int, words: Words, low: int
) -> None:
    n, width = values.shape
    columns = words.shape[1] // groups
    pieces = np.zeros((groups, 2, width))
    count = np.zeros(groups, np.int64)
    for i in range(n):
        g = group[i] if group.shape[0] > 0 else 0
        piece = pieces[g]
        for j in range(width):
            v = values[i, j] * scale[j]
            v = v if abs(v) >= DEPTH else 0.0
            a = (v + S1) - S1
            piece[0, j] += a
            piece[1, j] += v - a
        if deep:
            for j in range(width):
                if abs(values[i, j] * scale[j]) < DEPTH:
                    push(words, g * columns + j % columns, values[i, j], 0, low)
        count[g] += 1
        if count[g] == ROWS:
            _flush(piece, 0, 2, tops, 1, words, g * columns, low)
            count[g] = 0
    for g in range(groups):
        _flush(pieces[g], 0, 2, tops, 1, words, g * columns, low)


@kernel(FLOATS, WORDS, WORDS_1D, INTEGER)
def deposit(values: Floats, bounds: Words, group: Words, groups: int) -> tuple[Words, int]:
    n, m = values.shape
    high, lowest = _extremes(bounds)
    low, words = _window(high, lowest - 53, n, groups * m)
    if _digitwise(n, m, groups):
        order = sort_by_group(group, groups)
        for k in range(n):
            i = order[k] if group.shape[0] > 0 else k
            g = group[i] if group.shape[0] > 0 else 0
            for j in range(m):
                push(words, g * m + j, values[i, j], 0, low)
    elif m > 0:
        fold = _fold(n, m, group)
        whole = n - n % fold
        tops, scale = _scales(bounds[0], fold)
        deep = _is_deep(tops, bounds[1], 30)
        _sum_values(
            values[:whole].reshape(whole // fold, fold * m), tops, scale, deep, group, groups, words, low
        )
        for i in range(whole, n):
            for j in range(m):
                push(words, j, values[i, j], 0, low)
    return carry_and_trim(words, low)


@part
def _sum_powers(
    values: Floats,
    tops: Words,
    scale: Floats,
    deep: bool,
    group: Words,
    groups: int,
    words: Words,
    low: int,
    squares: Words,
    square_low: int,
) -> None:
    n, width = values.shape
    columns = words.shape[1] // groups
    pieces = np.zeros((groups, 6, width))
    count = np.zeros(groups, np.int64)
    for i in range(n):
        g = group[i] if group.shape[0] > 0 else 0
        piece = pieces[g]
        for j in range(width):
            v = values[i, j] * scale[j]
            v = v if abs(v) >= DEPTH else 0.0
            a = (v + S1) - S1
            piece[0, j] += a
            piece[1, j] += v - a
            p = v * v
            t = SPLITTER * v
            x = t - (t - v)
            y = v - x
            e = ((x * x - p) + 2.0 * x * y) + y * y
            a = (p + S1) - S1
            p -= a
            b = (p + S2) - S2
            c = (e + S2) - S2
            e -= c
            d = (e + S3) - S3
            piece[2, j] += a
            piece[3, j] += b + c
            piece[4, j] += (p - b) + d
            piece[5, j] += e - d
        if deep:
            for j in range(width):
                if abs(values[i, j] * scale[j]) < DEPTH:
                    push(words, g * columns + j % columns, values[i, j], 0, low)
                    push_product(squares, g * columns + j % columns, values[i, j], values[i, j], square_low)
        count[g] += 1
        if count[g] == ROWS:
            _flush(piece, 0, 2, tops, 1, words, g * columns, low)
            _flush(piece, 2, 6, tops, 2, squares, g * columns, square_low)
            count[g] = 0
    for g in range(groups):
        _flush(pieces[g], 0, 2, tops, 1, words, g * columns, low)
        _flush(pieces[g], 2, 6, tops, 2, squares, g * columns, square_low)


@kernel(FLOATS, WORDS, WORDS_1D, INTEGER)
def deposit_powers(values: Floats, bounds: Words, group: Words, groups: int) -> tuple[Words, int, Words, int]:
    n, m = values.shape
    high, lowest = _extremes(bounds)
    low, words = _window(high, lowest - 53, n, groups * m)
    square_low, squares = _window(2 * high, 2 * lowest - 106, n, groups * m)
    whole = 0
    if not _digitwise(n, m, groups) and m > 0:
        fold = _fold(n, m, group)
        whole = n - n % fold
        tops, scale = _scales(bounds[0], fold)
        deep = _is_deep(tops, bounds[1], 30)
        folded = values[:whole].reshape(whole // fold, fold * m)
        _sum_powers(folded, tops, scale, deep, group, groups, words, low, squares, square_low)
    order = sort_by_group(group, groups) if whole == 0 else group
    for k in range(whole, n):
        i = order[k] if group.shape[0] > 0 else k
        g = group[i] if group.shape[0] > 0 else 0
        for j in range(m):
            push(words, g * m + j, values[i, j], 0, low)
            push_product(squares, g * m + j, values[i, j], values[i, j], square_low)
    first, first_low = carry_and_trim(words, low)
    second, second_low = carry_and_trim(squares, square_low)
    return first, first_low, second, second_low


@part
def _sum_products(
    x: Floats,
    y: Floats,
    tops: Words,
    x_scale: Floats,
    y_scale: Floats,
    deep: bool,
    group: Words,
    groups: int,
    words: Words,
    low: int,
) -> None:
    n, m = x.shape
    pieces = np.zeros((groups, 4, m))
    count = np.zeros(groups, np.int64)
    beside = np.empty(m)
    for i in range(n):
        g = group[i] if group.shape[0] > 0 else 0
        piece = pieces[g]
        for j in range(m):
            k = j if y.shape[1] > 1 else 0
            beside[j] = y[i, k] * y_scale[k]
        for j in range(m):
            u = x[i, j] * x_scale[j]
            v = beside[j]
            u = u if abs(u * v) >= DEPTH * DEPTH else 0.0
            p = u * v
            t = SPLITTER * u
            u_high = t - (t - u)
            u_low = u - u_high
            t = SPLITTER * v
            v_high = t - (t - v)
            v_low = v - v_high
            e = ((u_high * v_high - p) + u_high * v_low + u_low * v_high) + u_low * v_low
            a = (p + S1) - S1
            p -= a
            b = (p + S2) - S2
            c = (e + S2) - S2
            e -= c
            d = (e + S3) - S3
            piece[0, j] += a
            piece[1, j] += b + c
            piece[2, j] += (p - b) + d
            piece[3, j] += e - d
        if deep:
            for j in range(m):
                if abs(x[i, j] * x_scale[j] * beside[j]) < DEPTH * DEPTH:
                    push_product(words, g * m + j, x[i, j], y[i, j if y.shape[1] > 1 else 0], low)
        count[g] += 1
        if count[g] == ROWS:
            _flush(piece, 0, 4, tops, 1, words, g * m, low)
            count[g] = 0
    for g in range(groups):
        _flush(pieces[g], 0, 4, tops, 1, words, g * m, low)


@kernel(FLOATS, WORDS, FLOATS, WORDS, WORDS_1D, INTEGER)
def deposit_products(
    x: Floats, x_bounds: Words, y: Floats, y_bounds: Words, group: Words, groups: int
) -> tuple[Words, int]:
    n, m = x.shape
    shared = y.shape[1] != m
    bounds = np.empty((2, m), np.int64)
    for j in range(m):
        bounds[0, j] = x_bounds[0, j] + y_bounds[0, 0 if shared else j]
        bounds[1, j] = x_bounds[1, j] + y_bounds[1, 0 if shared else j]
    high, lowest = _extremes(bounds)
    low, words = _window(high, lowest - 106, n, groups * m)
    if _digitwise(n, m, groups):
        order = sort_by_group(group, groups)
        for k in range(n):
            i = order[k] if group.shape[0] > 0 else k
            g = group[i] if group.shape[0] > 0 else 0
            for j in range(m):
                push_product(words, g * m + j, x[i, j], y[i, 0 if shared else j], low)
    elif m > 0:
        x_tops, x_scale = _scales(x_bounds[0], 1)
        y_tops, y_scale = _scales(y_bounds[0], 1)
        for j in range(m):
            x_tops[j] += y_tops[0 if shared else j]
        deep = _is_deep(x_tops, bounds[1], 60)
        _sum_products(x, y, x_tops, x_scale, y_scale, deep, group, groups, words, low)
    return carry_and_trim(words, low)
