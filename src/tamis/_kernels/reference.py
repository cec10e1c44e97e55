"""The reference implementation of the kernels, in NumPy and Python integers: it defines their results.

An exact sum is an integer written in base 2**32. Its digits are an int64 array `words` of shape
(length, cells) and a position `low`; the number in cell c is

    sum over j of  words[j, c] * 2 ** (32 * (low + j)).

The first word of a cell is thus its lowest digit. *Settled* words are the canonical form of these numbers:
every word but the last is in [0, 2**32), the last is signed and in [-2**31, 2**31), and neither the first nor
the last row of words can be dropped. Two settled arrays are equal if and only if their numbers are.

Rows are summed by group: `group` (n,) is the index of each row's group, or is empty if all rows are one
group. `deposit`, `deposit_powers` and `deposit_products` take finite floats (n, m) with their `bounds`
(2, m), which `span` computes; the other functions need no bounds.

The entry, `__init__`, describes the arguments and the results; the docstrings here add what it leaves open.
`compiled` has the same functions, and `tests/kernels` checks that both return the same bits. Only the last
digits of `log_sum_rows` may differ.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = NDArray[np.int64]  # digits in base 2**32
Int64s = NDArray[np.int64]  # indices, offsets, exponents
Digits = NDArray[np.uint64]
Indices = NDArray[np.int32] | NDArray[np.int64]

BITS = 32
MASK = (1 << BITS) - 1
HALF = 1 << (BITS - 1)
# Every float is an integer below 2**53 times a power of two that is at least 2**SMALLEST: `frexp` writes the
# smallest, 2**-1074, as 2**52 * 2**-1126.
SMALLEST = -1126
# The lowest power of 2**32 that a product of a sum and a factor keeps: no product of two floats has a bit
# below it.
DEEPEST = 2 * SMALLEST // BITS
# The number of words that a product of a sum and a factor keeps. A weighted square has 159 bits, three times
# the 53 of a float, and a sum of 2**30 of them, all of about the same size, has 189: such a sum times a float
# of up to 35 bits is exact.
# Without a limit, repeated scaling (decay) would add words without end.
KEEP = 8
LARGEST_WHOLE = 2.0**52  # if the magnitudes of integers sum to less, float64 adds them exactly, in any order
BLOCK = 1 << 17  # numbers that fit a second-level cache


def are_within(indices: Indices, size: int) -> bool:
    """Whether all indices (n,) are at least 0 and below the size."""
    # As unsigned integers, negative indices are large.
    return not len(indices) or int(indices.view(f"u{indices.dtype.itemsize}").max()) < size


def are_rows_within(indptr: Int64s, entries: int) -> bool:
    """Whether `indptr` can belong to a CSR matrix of `entries` entries: not empty, ascending, in range."""
    return bool(len(indptr) and 0 <= indptr[0] <= indptr[-1] <= entries and (indptr[1:] >= indptr[:-1]).all())


def are_codes_within(codes: Int64s, offsets: Int64s, cells: int) -> bool:
    """Whether all cells offsets[j] + codes[i, j] are from 0 to below `cells`; negative codes are missing."""
    most = codes.max(axis=0, initial=-1)
    return bool(offsets.min(initial=0) >= 0 and (most < np.maximum(cells - offsets[:-1], 0)).all())


def span(values: Floats) -> tuple[Int64s, int, int]:
    """Exponents of the largest and of the smallest nonzero magnitude in each column of (n, m) values (2, m).

    Exponents are those of `frexp`: a magnitude is below 2**exponent. A column of zeros, or one with a value
    that is not finite, has 0 and 0. Return also the largest exponent of all columns, or 0 if all are below 0,
    and the index of the first column with a value that is not finite, or -1.
    """
    finite = np.isfinite(values).all(axis=0)
    magnitude = np.abs(np.where(finite, values, 0.0))
    largest = magnitude.max(axis=0, initial=0.0)
    smallest = np.where(magnitude > 0, magnitude, np.inf).min(axis=0, initial=np.inf)
    bounds = np.frexp(np.stack([largest, np.where(largest > 0, smallest, 0.0)]))[1].astype(np.int64)
    return bounds, int(bounds.max(initial=0)), -1 if finite.all() else int(np.argmin(finite))


def two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The rounded products x * y, and their rounding errors (Dekker's algorithm).

    `y` has the shape of `x`, or one column for all. The sum of both results is exact if the factors are below
    2**996 and neither a product nor its rounding error over- or underflows.
    """
    p = x * y
    x_high, x_low = _halve(x)
    y_high, y_low = _halve(y)
    return p, ((x_high * y_high - p) + x_high * y_low + x_low * y_high) + x_low * y_low


def _halve(x: Floats) -> tuple[Floats, Floats]:
    scaled = 134217729.0 * x  # 2**27 + 1 splits a 53-bit significand into two halves (Veltkamp)
    high = scaled - (scaled - x)
    return high, x - high


def deposit(values: Floats, bounds: Int64s, group: Int64s, groups: int) -> tuple[Words, int]:
    """Settled sums of the rows by group: words (length, groups * m), and `low`."""
    cell = _find_cells(values, group)
    return _add_digits(*_split_digits(values), _find_window(bounds, 53), cell, groups * values.shape[1])


def deposit_products(
    x: Floats, x_bounds: Int64s, y: Floats, y_bounds: Int64s, group: Int64s, groups: int
) -> tuple[Words, int]:
    """Settled sums of the exact products x * y by group; `y` has the shape of `x`, or one column for all."""
    window = _find_window(x_bounds + y_bounds, 106)
    return _add_digits(*_multiply_digits(x, y), window, _find_cells(x, group), groups * x.shape[1])


def deposit_powers(
    values: Floats, bounds: Int64s, group: Int64s, groups: int
) -> tuple[Words, int, Words, int]:
    """Settled sums by group of the values (words and `low`), and of their exact squares (words and `low`)."""
    first = deposit(values, bounds, group, groups)
    return *first, *deposit_products(values, bounds, values, bounds, group, groups)


def deposit_rows(
    values: Floats, group: Int64s, groups: int, power: int
) -> tuple[tuple[tuple[Words, int], ...], int, bool]:
    """Settled sums by group of (n, m) values and, if `power` is 2 and not 1, of their exact squares."""
    sums, largest, nonfinite = _deposit_finite(values, group, groups, power)
    return sums, largest, nonfinite < 0


def deposit_columns(
    columns: list[Floats], group: Int64s, groups: int, power: int
) -> tuple[tuple[tuple[Words, int], ...], int, int]:
    """Settled sums by group of columns (n,) and, if `power` is 2 and not 1, of their exact squares."""
    return _deposit_finite(np.column_stack(columns), group, groups, power)


def _deposit_finite(
    values: Floats, group: Int64s, groups: int, power: int
) -> tuple[tuple[tuple[Words, int], ...], int, int]:
    """Return what `deposit_columns` returns, for rows of values (n, m)."""
    bounds, largest, nonfinite = span(values)
    if nonfinite >= 0:
        return (), 0, nonfinite
    first = deposit(values, bounds, group, groups)
    if power == 1:
        return (first,), largest, nonfinite
    return (first, deposit_products(values, bounds, values, bounds, group, groups)), largest, nonfinite


def add_row(
    words: Words, low: int, start: int, values: Floats, weight: float, power: int
) -> tuple[Words, int]:
    """Add weight * values**power (d,) exactly to d cells of settled sums (length, cells), from `start` on.

    The power is 0, 1 or 2. A value that is NaN adds nothing; other values, and the weight, must be finite.
    For squares with a weight other than 1, the squares must be finite, and either 0 or above 1e-290.
    """
    present = ~np.isnan(values)
    x, group = np.where(present, values, 0.0)[None], np.zeros(0, dtype=np.int64)
    terms, factor = [x], np.full((1, 1), weight)
    if power == 0:
        terms = [present.astype(np.float64)[None]]
    elif power == 2 and weight == 1.0:
        factor = x
    elif power == 2:
        terms = list(two_product(x, x))
    for term in terms:
        part, part_low = deposit_products(term, span(term)[0], factor, span(factor)[0], group, 1)
        row = np.zeros((len(part), words.shape[1]), dtype=np.int64)
        row[:, start : start + len(values)] = part
        words, low = combine(words, low, row, part_low, 1)
    return words, low


def describe_moments(
    weight: Words,
    weight_low: int,
    first: Words,
    first_low: int,
    second: Words,
    second_low: int,
    columns: int,
    moments: Floats,
) -> None:
    """Write the result to `moments`: (3, cells), or (4, cells + columns) if it is pooled.

    The sums are converted exactly to sums about a float next to the mean, so that a large mean cancels no
    digits: the error is a few units in the last place. Where the weight is 0, the mean is NaN (or infinite,
    if the sum of values is not 0), and the fourth row is 0.
    """
    is_pooled = moments.shape[1] > weight.shape[1]
    if is_pooled:
        weight, weight_low = _append_pooled(weight, weight_low, columns)
        first, first_low = _append_pooled(first, first_low, columns)
        second, second_low = _append_pooled(second, second_low, columns)
    total, sums = read(weight, weight_low)[0], read(first, first_low)[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums / total
    centre = np.where(np.isfinite(mean), mean, 0.0)
    # Σ(x − c)² = Σx² − (2c Σx − W c²), and Σ(x − c) = Σx − W c
    weight_centre = multiply(weight, weight_low, centre, KEEP)
    products = combine(
        *multiply(first, first_low, 2.0 * centre, KEEP), *multiply(*weight_centre, centre, KEEP), -1
    )
    squares = read(*combine(second, second_low, *products, -1))[0]
    rest = read(*combine(first, first_low, *weight_centre, -1))[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        scatter = squares - np.where(total != 0, rest * rest / total, 0.0)
    # squares ≥ rest² / total by the inequality of Cauchy and Schwarz; only rounding can violate it
    moments[0], moments[1], moments[2] = total, mean, np.where(total > 0, np.maximum(scatter, 0.0), scatter)
    if is_pooled:
        pooled_mean = np.tile(centre[-columns:], len(centre) // columns)
        rest = read(*combine(first, first_low, *multiply(weight, weight_low, pooled_mean, KEEP), -1))[0]
        moments[3] = np.where(total != 0, rest / np.where(total != 0, total, 1.0), 0.0)


def _append_pooled(words: Words, low: int, columns: int) -> tuple[Words, int]:
    """Append to cells, which are in groups of `columns`, the sum over the groups of each column."""
    length, cells = words.shape
    pooled = words.reshape(length, cells // columns, columns).sum(axis=1)
    return settle(np.concatenate([words, pooled], axis=1), low)


def deposit_sparse(
    indptr: Int64s,
    indices: Indices,
    values: Floats,
    weights: Floats,
    group: Int64s,
    groups: int,
    columns: int,
) -> tuple[Words, int]:
    """Settled sums by group of the rows of a CSR matrix, times `weights` (n,), or 1 if these are empty."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    entries = slice(int(indptr[0]), int(indptr[-1]))
    cell = indices[entries] + (group[rows] if group.size else 0 * rows) * columns
    return _sum_by_cell(values[entries], weights[rows] if weights.size else weights, cell, groups * columns)


def deposit_codes(
    codes: Int64s, offsets: Int64s, weights: Floats, group: Int64s, groups: int
) -> tuple[Words, int]:
    """Settled sums by group of `weights` (n,), or of 1 if these are empty, of the rows in each category."""
    rows, j = np.nonzero(codes >= 0)
    cell = offsets[j] + codes[rows, j] + (group[rows] if group.size else 0 * rows) * offsets[-1]
    amounts = weights[rows] if weights.size else np.ones(len(rows))
    return _sum_by_cell(amounts, np.zeros(0), cell, groups * int(offsets[-1]))


def _sum_by_cell(values: Floats, weights: Floats, cell: Int64s, cells: int) -> tuple[Words, int]:
    """Settled sums, in each cell, of values times weights, or of values if `weights` is empty.

    `cell` is the index of each value's cell; all three arrays are (n,).
    """
    with np.errstate(over="ignore", under="ignore"):
        amounts = values * weights if weights.size else values
        total = np.abs(amounts).sum()
    if total < LARGEST_WHOLE and (values == np.trunc(values)).all() and (weights == np.trunc(weights)).all():
        words = np.bincount(cell, amounts, cells).astype(np.int64)[None]
        return (words, 0) if total < HALF else settle(words, 0)
    bounds = span(values[:, None])[0]
    if not weights.size:
        return _add_digits(*_split_digits(values), _find_window(bounds, 53), cell, cells)
    bounds = bounds + span(weights[:, None])[0]
    return _add_digits(*_multiply_digits(values, weights), _find_window(bounds, 106), cell, cells)


def _find_cells(values: Floats, group: Int64s) -> Int64s:
    """The cell to which each of (n, m) values is added: group * m + column."""
    n, m = values.shape
    rows = group if group.size else np.zeros(n, dtype=np.int64)
    cell: Int64s = (rows * m)[:, None] + np.arange(m)
    return cell


def _find_window(bounds: Int64s, bits: int) -> tuple[int, int]:
    """`low` and the number of words of sums of up to 2**30 numbers with these bounds, of `bits` bits each."""
    low = (int(bounds[1].min(initial=0)) - bits) // BITS
    return low, int(bounds[0].max(initial=0)) // BITS - low + 4


def _split_digits(values: Floats) -> tuple[tuple[Digits, ...], Floats, Int64s]:
    """The digits of |value| * 2**-exponent, the lowest first, its sign, and the exponent.

    One more digit, a zero, makes room for shifts.
    """
    significand, exponent = _split_significands(values)
    digits = significand & np.uint64(MASK), significand >> np.uint64(BITS), np.zeros_like(significand)
    return digits, np.sign(values), exponent


def _multiply_digits(x: Floats, y: Floats) -> tuple[tuple[Digits, ...], Floats, Int64s]:
    """The same as `_split_digits` of the exact product x * y."""
    a, a_exponent = _split_significands(x)
    b, b_exponent = _split_significands(y)
    return _long_product(a, b), np.sign(x) * np.sign(y), a_exponent + b_exponent


def _split_significands(values: Floats) -> tuple[Digits, Int64s]:
    """Integers below 2**53 and exponents, such that |value| = integer * 2**exponent."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.abs(fraction), 53).astype(np.uint64), exponent.astype(np.int64) - 53


def _long_product(a: Digits, b: Digits) -> tuple[Digits, ...]:
    """The digits of a * b, the lowest first; one more digit, a zero, makes room for shifts."""
    mask, bits = np.uint64(MASK), np.uint64(BITS)
    bottom = (a & mask) * (b & mask)
    middle = (a & mask) * (b >> bits) + (a >> bits) * (b & mask)
    top = (a >> bits) * (b >> bits)
    second = (bottom >> bits) + (middle & mask)
    third = (second >> bits) + (middle >> bits) + (top & mask)
    fourth = (third >> bits) + (top >> bits)
    return bottom & mask, second & mask, third & mask, fourth, np.zeros_like(a)


def _add_digits(
    digits: tuple[Digits, ...],
    sign: Floats,
    exponent: Int64s,
    window: tuple[int, int],
    cell: Int64s,
    cells: int,
) -> tuple[Words, int]:
    """Settled sums, in each cell, of sign * integer * 2**exponent; `digits` are the integers' digits.

    `cell` is the index of each number's cell; all arrays have one shape. `window` is the result
    of `_find_window`.
    """
    low, length = window
    words = np.zeros(length * cells, dtype=np.int64)
    signed = sign.astype(np.int64)
    place = np.where(signed == 0, 0, exponent // BITS - low) * cells + cell
    shift = (exponent % BITS).astype(np.uint64)
    carry = np.zeros(sign.shape, dtype=np.uint64)
    for j, digit in enumerate(digits):
        shifted = (digit << shift) | carry
        carry = shifted >> np.uint64(BITS)
        np.add.at(words, place + j * cells, signed * (shifted & np.uint64(MASK)).astype(np.int64))
    return settle(words.reshape(length, cells), low)


def settle(words: Words, low: int) -> tuple[Words, int]:
    """The canonical form of the numbers in any (length, cells) words."""
    words = np.concatenate([words, np.zeros((2, words.shape[1]), dtype=np.int64)])
    for j in range(len(words) - 1):
        words[j + 1] += words[j] >> BITS
        words[j] &= MASK
    last = len(words)
    while last > 1 and (words[last - 1] == -(words[last - 2] >> (BITS - 1))).all():
        last -= 1
        words[last - 1] -= (words[last - 1] >> (BITS - 1)) << BITS
    first = 0
    while first < last - 1 and not words[first].any():
        first += 1
    settled = np.ascontiguousarray(words[first:last])
    return settled, low + first if settled.any() else 0


def combine(a: Words, a_low: int, b: Words, b_low: int, sign: int) -> tuple[Words, int]:
    """a + sign * b, in canonical form (settled)."""
    low = min(a_low, b_low)
    words = np.zeros((max(a_low + len(a), b_low + len(b)) - low, a.shape[1]), dtype=np.int64)
    words[a_low - low : a_low - low + len(a)] += a
    words[b_low - low : b_low - low + len(b)] += sign * b
    return settle(words, low)


def multiply(words: Words, low: int, factors: Floats, keep: int) -> tuple[Words, int]:
    """Settled products of each cell with its finite factor.

    The `keep` highest words of each product are exact. Lower ones, and those below 2**(32 * DEEPEST), are
    dropped (truncation towards zero), unless the factor is 1 or -1.
    """
    numbers = _join_words(words)
    ratios = [factor.as_integer_ratio() for factor in factors.tolist()]
    added_low = min((1 - denominator.bit_length() for _, denominator in ratios), default=0) // BITS
    for c, (numerator, denominator) in enumerate(ratios):
        product = (abs(numbers[c] * numerator) << -BITS * added_low) // denominator
        if abs(numerator) != denominator:
            length = -(-product.bit_length() // BITS)
            dropped = BITS * max(0, length - keep, DEEPEST - (low + added_low))
            product = (product >> dropped) << dropped
        numbers[c] = -product if (numbers[c] < 0) != (numerator < 0) else product
    return settle(_split_words(numbers), low + added_low)


def _join_words(words: Words) -> list[int]:
    """The integer of each cell, as if `low` were 0."""
    numbers = [0] * words.shape[1]
    for digits in reversed(words.tolist()):
        numbers = [(number << BITS) + digit for number, digit in zip(numbers, digits, strict=True)]
    return numbers


def _split_words(numbers: list[int]) -> Words:
    """The inverse of `_join_words`."""
    length = max((number.bit_length() for number in numbers), default=0) // BITS + 1
    size = length * BITS // 8
    digits = b"".join((number % (1 << 8 * size)).to_bytes(size, "little") for number in numbers)
    words = np.frombuffer(digits, dtype="<u4").reshape(len(numbers), length).T.astype(np.int64)
    words[-1] -= (words[-1] >> (BITS - 1)) << BITS
    return words


def read(words: Words, low: int) -> tuple[Floats, Floats]:
    """Each number correctly rounded, and the remainder, whose error is at most 2**-105 of the number.

    A number beyond the range of float64 becomes infinite, with a remainder of 0. Subnormal results are
    rounded twice, and the remainders of numbers below about 2**-968 lose further bits.
    """
    negative = words[-1] < 0
    digits = _find_magnitudes(words, negative)
    # `top` is the index of the highest digit that is not 0. It and the four below it, a to e, are read;
    # `has_more` is whether any digit below these is not 0.
    top = len(words) - 1 - np.argmax(digits[::-1] != 0, axis=0)
    has_more = (np.argmax(digits != 0, axis=0) < top - 4) & digits.any(axis=0)
    padded = np.concatenate([np.zeros((4, words.shape[1]), dtype=np.uint64), digits])
    a, b, c, d, e = (np.take_along_axis(padded, top[None] + k, axis=0)[0] for k in (4, 3, 2, 1, 0))
    size = np.frexp(a.astype(np.float64))[1]
    shift = np.uint64(BITS) - size.astype(np.uint64)
    back, bits = np.uint64(BITS) - shift, np.uint64(BITS)
    upper = (((a << bits) | b) << shift) | (c >> back)  # the first 64 bits of the number …
    lower = (((c << bits) | d) << shift) | (e >> back)  # … and the 64 after them
    high = (upper | ((lower != 0) | has_more)).astype(np.float64)  # the last bit only decides ties
    tail = (upper & np.uint64(2047)).astype(np.float64)  # the lowest 11 bits: float64 keeps 53 of the 64
    tail -= np.where(high == (upper & ~np.uint64(2047)).astype(np.float64), 0.0, 2048.0)
    exponent = BITS * (low + top - 2) + size
    sign = np.where(negative, -1.0, 1.0)
    with np.errstate(over="ignore", under="ignore"):
        value = np.ldexp(sign * high, exponent)
        rest = np.ldexp(sign * (tail + np.ldexp(lower.astype(np.float64), -64)), exponent)
    return value, np.where(np.isfinite(value), rest, 0.0)


def _find_magnitudes(words: Words, negative: NDArray[np.bool_]) -> Digits:
    """The digits of the absolute values of settled words, the lowest first."""
    sign = np.where(negative, -1, 1)
    digits = np.empty(words.shape, dtype=np.uint64)
    borrow = np.zeros(words.shape[1], dtype=np.int64)
    for j, word in enumerate(words):
        digit = sign * word - borrow
        borrow = (digit < 0).astype(np.int64)
        digits[j] = digit & MASK
    return digits


def gaussian_scores(x: Floats, mean: Floats, precision: Floats, log_peak: Floats, constant: Floats) -> Floats:
    """constant[k] + Σ_j log_peak[k, j] - Σ_j precision[k, j] / 2 * (x[i, j] - mean[k, j])**2: (n, K).

    `log_peak` is the log-density of each Gaussian at its mean. Both sums run over the columns that are not
    missing (NaN) in row i, in the order of the columns; the first sum is computed first.
    """
    n, d = x.shape
    if (d + 1) * n * len(constant) > BLOCK and n > 1:
        halves = x[: n // 2], x[n // 2 :]
        return np.concatenate([gaussian_scores(half, mean, precision, log_peak, constant) for half in halves])
    terms = np.empty((d + 1, n, len(constant)))
    distance = terms[1:]
    np.subtract(x.T[:, :, None], mean.T[:, None], out=distance)
    np.multiply(distance, distance, out=distance)
    np.multiply(distance, (0.5 * precision).T[:, None], out=distance)
    missing = np.isnan(x)
    if not np.count_nonzero(missing):  # any() takes a microsecond more, which matters for a single row
        scales = np.empty((d + 1, len(constant)))
        scales[0] = constant
        np.negative(log_peak.T, out=scales[1:])
        terms[0] = _subtract_in_order(scales)
        return _subtract_in_order(terms)
    absent = missing.T[:, :, None]
    scales = np.where(absent, 0.0, -log_peak.T[:, None])
    terms[0] = _subtract_in_order(np.concatenate([np.broadcast_to(constant, (1, n, len(constant))), scales]))
    distance[...] = np.where(absent, 0.0, distance)
    return _subtract_in_order(terms)


def gather_scores(codes: Int64s, offsets: Int64s, table: Floats, constant: Floats) -> Floats:
    """constant[k] + Σ_j table[offsets[j] + codes[i, j], k]: (n, K), in the order of the columns.

    A code of -1 is a missing value and adds nothing.
    """
    n, d = codes.shape
    if (d + 1) * n * len(constant) > BLOCK and n > 1:
        halves = codes[: n // 2], codes[n // 2 :]
        return np.concatenate([gather_scores(half, offsets, table, constant) for half in halves])
    terms = np.empty((d + 1, n, len(constant)))
    terms[0] = constant
    missing = codes.T < 0
    cell = np.where(missing, 0, codes.T + offsets[:-1, None])
    if len(table):
        np.negative(table[cell], out=terms[1:])
    terms[1:][missing] = 0.0
    return _subtract_in_order(terms)


def _subtract_in_order(terms: Floats) -> Floats:
    """terms[0] - terms[1] - terms[2] - …, from left to right.

    NumPy adds pairwise where it can, and so in an order that depends on the shape; it never subtracts so.
    """
    total: Floats = np.subtract.reduce(terms, axis=0)
    return total


def log_sum_rows(scores: Floats) -> Floats:
    """log Σ_k exp(scores[i, k]) of each row (n,); a row of -inf gives -inf.

    Both implementations agree to 1e-14 of the largest score (or of 1), not to the bit: each has its own exp
    and log.
    """
    largest = scores.max(axis=1, initial=-np.inf)
    finite = np.isfinite(largest)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.log(np.exp(scores - np.where(finite, largest, 0.0)[:, None]).sum(axis=1))
    return np.asarray(np.where(finite, largest + rest, largest))
