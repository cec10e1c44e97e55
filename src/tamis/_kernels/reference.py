"""The meaning of every kernel, in NumPy and Python integers: arrays in, arrays out.

An exact sum is an integer written in base 2**32. Its digits are an int64 array `words` of shape
(length, cells) and a position `low`; the number in cell c is

    sum over j of  words[j, c] * 2 ** (32 * (low + j)).

*Settled* words are the one canonical writing of those numbers: every word but the last lies in
[0, 2**32), the last is signed and lies in [-2**31, 2**31), and no plane of words could be dropped at
either end. Two settled arrays are equal if and only if the numbers are.

`compiled.py` has the same functions; `tests/kernels` keeps the two equal to the bit.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = NDArray[np.int64]

BITS = 32
BASE = 1 << BITS
MASK = BASE - 1
HALF = 1 << (BITS - 1)
SPLITTER = 134217729.0  # 2**27 + 1: cuts a 53-bit significand into two halves (Veltkamp)
SMALLEST = -1126  # no significand scaled to 53 bits has a unit below 2**-1126 (subnormals included)


def span(values: Floats) -> tuple[Words, Words, NDArray[np.bool_]]:
    """Per column: exponents of the largest and smallest nonzero magnitude, and whether all is finite.

    Exponents are those of `frexp`: the magnitude is below 2**exponent. A column of zeros gives 0, 0.
    """
    finite = np.isfinite(values).all(axis=0)
    magnitude = np.abs(np.where(np.isfinite(values), values, 0.0))
    largest = magnitude.max(axis=0, initial=0.0)
    smallest = np.where(magnitude > 0, magnitude, np.inf).min(axis=0, initial=np.inf)
    smallest = np.where(np.isfinite(smallest), smallest, 0.0)
    high, low = (np.frexp(bound)[1].astype(np.int64) for bound in (np.asarray(largest), smallest))
    return high, low, np.asarray(finite)


def two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """`x * y` rounded, and what the rounding lost (Dekker); exact unless the product underflows."""
    p = x * y
    scaled = SPLITTER * x
    x_high = scaled - (scaled - x)
    x_low = x - x_high
    scaled = SPLITTER * y
    y_high = scaled - (scaled - y)
    y_low = y - y_high
    return p, ((x_high * y_high - p) + x_high * y_low + x_low * y_high) + x_low * y_low


def deposit(values: Floats, high: Words, group: Words, groups: int, low: int, length: int) -> Words:
    """Sum the rows of `values` (n, m) by group into words (length, groups * m), not settled.

    `high` (m,) bounds the exponents of each column, as `span` gives them; `low` and `length` are a window
    that holds every bit, with two words to spare.
    """
    n, m = values.shape
    words = np.zeros((length, groups * m), dtype=np.int64)
    fraction, exponent = np.frexp(values)
    significand = np.ldexp(fraction, 53).astype(np.int64)
    unit = exponent.astype(np.int64) - 53
    unit[significand == 0] = low * BITS
    sign = np.sign(significand)
    magnitude = np.abs(significand)
    shift = unit % BITS
    position = unit // BITS - low
    cell = np.broadcast_to((group * m)[:, None] + np.arange(m), (n, m))
    bottom = (magnitude & MASK) << shift
    upper = (magnitude >> BITS) << shift
    np.add.at(words, (position, cell), sign * (bottom & MASK))
    np.add.at(words, (position + 1, cell), sign * ((bottom >> BITS) + (upper & MASK)))
    np.add.at(words, (position + 2, cell), sign * (upper >> BITS))
    return words


def deposit_products(
    x: Floats, y: Floats, high: Words, group: Words, groups: int, low: int, length: int
) -> Words:
    """Sum the exact products `x * y` by group; `y` has the shape of `x`, or one column for all."""
    p, e = two_product(x, np.ascontiguousarray(np.broadcast_to(y, x.shape)))
    return deposit(p, high, group, groups, low, length) + deposit(e, high, group, groups, low, length)


def settle(words: Words, low: int) -> tuple[Words, int]:
    """The canonical writing of the same numbers. May use `words` as its workspace."""
    carry = np.zeros(words.shape[1], dtype=np.int64)
    for j in range(words.shape[0] - 1):
        raw = words[j] + carry
        carry = raw >> BITS
        words[j] = raw & MASK
    words[-1] += carry
    while ((words[-1] < -HALF) | (words[-1] >= HALF)).any():
        top = words[-1] >> BITS
        words[-1] &= MASK
        words = np.vstack([words, top])
    return _trim(words, low)


def _trim(words: Words, low: int) -> tuple[Words, int]:
    first, last = 0, words.shape[0]
    while last - first > 1 and (words[last - 1] == -(words[last - 2] >> (BITS - 1))).all():
        last -= 1
        words[last - 1] -= (words[last - 1] >> (BITS - 1)) << BITS
    while last - first > 1 and not words[first].any():
        first += 1
    low += first
    if last - first == 1 and not words[first].any():
        low = 0
    return np.ascontiguousarray(words[first:last]), low


def combine(a: Words, a_low: int, b: Words, b_low: int, sign: int) -> tuple[Words, int]:
    """Settled `a + sign * b`."""
    low = min(a_low, b_low)
    length = max(a_low + a.shape[0], b_low + b.shape[0]) - low + 1
    words = np.zeros((length, a.shape[1]), dtype=np.int64)
    words[a_low - low : a_low - low + a.shape[0]] += a
    words[b_low - low : b_low - low + b.shape[0]] += sign * b
    return settle(words, low)


def multiply(words: Words, low: int, factors: Floats, keep: int) -> tuple[Words, int]:
    """Settled products of each cell with its finite factor, exact down to `keep` words below its first."""
    products = [
        _scale(number, factor) for number, factor in zip(_integers(words), factors.tolist(), strict=True)
    ]
    low_unit = min(unit for _, unit in products)
    low_word = low_unit // BITS
    numbers = [number << (unit - low_word * BITS) for number, unit in products]
    for c, number in enumerate(numbers):
        dropped = max(0, (abs(number).bit_length() + BITS - 1) // BITS - keep) * BITS
        numbers[c] = (number >> dropped) << dropped
    return settle(_words(numbers), low + low_word)


def _scale(number: int, factor: float) -> tuple[int, int]:
    numerator, denominator = factor.as_integer_ratio()
    return number * numerator, 1 - denominator.bit_length()


def _integers(words: Words) -> list[int]:
    numbers = [0] * words.shape[1]
    for plane in reversed(words.tolist()):
        numbers = [(number << BITS) + digit for number, digit in zip(numbers, plane, strict=True)]
    return numbers


def _words(numbers: list[int]) -> Words:
    length = max((abs(number).bit_length() for number in numbers), default=0) // BITS + 2
    words = np.zeros((length, len(numbers)), dtype=np.int64)
    for c, number in enumerate(numbers):
        rest = number
        for j in range(length):
            words[j, c] = rest & MASK
            rest >>= BITS
        if number < 0:
            words[length - 1, c] -= BASE
    return words


def read(words: Words, low: int) -> tuple[Floats, Floats]:
    """Each number as an unevaluated sum of two floats, good to about 2**-105 of its size."""
    high = np.zeros(words.shape[1])
    rest = np.zeros(words.shape[1])
    for j in range(words.shape[0] - 1, -1, -1):
        digit = np.ldexp(words[j].astype(np.float64), BITS * (low + j))
        total = high + digit
        part = total - high
        rest += (high - (total - part)) + (digit - part)
        high = total
    total = high + rest
    return total, np.where(np.isfinite(total), rest - (total - high), 0.0)
