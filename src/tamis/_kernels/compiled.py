"""The kernels of `reference.py`, compiled by Numba. Same functions, same bits; `tests/kernels` holds them so.

Sums are split, not rounded: with s = 1.5 * 2**(52 + 32 t), the float `(v + s) - s` is v rounded to a
multiple of 2**(32 t), and the remainder is exact. Pieces on such a grid add without error as long as a
block has at most 2**20 rows, and an optimising compiler turns the loop over columns into vector code:
3 ns a cell for a first and a second sum, half of what NumPy's two passes for a variance take.
"""

import math
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba
import numpy as np

from tamis._kernels.reference import BITS, MASK, SPLITTER, Floats, Words

P = ParamSpec("P")
R = TypeVar("R")

ROWS = 1 << 20  # pieces are at most 2**32 units, so this many of them stay below 2**53
CHUNK = 64  # rows whose remainders are looked at together
S0, S1, S2, S3, S4, S5 = (1.5 * 2.0 ** (52 - BITS * k) for k in range(6))


def _compile(function: Callable[P, R]) -> Callable[P, R]:
    compiled: Callable[P, R] = numba.njit(cache=True, nogil=True)(function)
    return compiled


@_compile
def span(values: Floats) -> tuple[Words, Words, np.ndarray]:
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
    high = np.zeros(m, np.int64)
    low = np.zeros(m, np.int64)
    finite = np.ones(m, np.bool_)
    for j in range(m):
        finite[j] = broken[j] == 0.0
        if math.isfinite(largest[j]):
            high[j] = math.frexp(largest[j])[1]
        if math.isfinite(smallest[j]):
            low[j] = math.frexp(smallest[j])[1]
    return high, low, finite


@_compile
def _push(words: Words, cell: int, value: float, low: int) -> None:
    """Add one float to one cell, digit by digit: for what lies below the vector path's grids."""
    fraction, exponent = math.frexp(value)
    significand = np.int64(math.ldexp(fraction, 53))
    if significand == 0:
        return
    unit = exponent - 53
    sign = np.int64(1)
    if significand < 0:
        sign = np.int64(-1)
        significand = -significand
    position = unit // BITS - low
    shift = unit % BITS
    bottom = (significand & MASK) << shift
    upper = (significand >> BITS) << shift
    words[position, cell] += sign * (bottom & MASK)
    words[position + 1, cell] += sign * ((bottom >> BITS) + (upper & MASK))
    words[position + 2, cell] += sign * (upper >> BITS)


@_compile
def _cut(v: float) -> tuple[float, float, float, float, float]:
    """Split a float below 2**32 into units of 1, 2**-32, 2**-64, 2**-96, and the rest."""
    a = (v + S0) - S0
    v -= a
    b = (v + S1) - S1
    v -= b
    c = (v + S2) - S2
    v -= c
    d = (v + S3) - S3
    return a, b, c, d, v - d


@_compile
def _cut_product(u: float, v: float) -> tuple[float, float, float, float, float, float, float, float]:
    """Split the exact product into units of 1, 2**-32 .. 2**-160, and what is left of its two floats."""
    p = u * v
    scaled = SPLITTER * u
    u_high = scaled - (scaled - u)
    u_low = u - u_high
    scaled = SPLITTER * v
    v_high = scaled - (scaled - v)
    v_low = v - v_high
    e = ((u_high * v_high - p) + u_high * v_low + u_low * v_high) + u_low * v_low
    a, b, c, d, p = _cut(p)
    q = (e + S1) - S1
    b += q
    e -= q
    q = (e + S2) - S2
    c += q
    e -= q
    q = (e + S3) - S3
    d += q
    e -= q
    f = (e + S4) - S4
    e -= f
    g = (e + S5) - S5
    return a, b, c, d, f, g, p, e - g


@_compile
def _tops(exponents: Words) -> tuple[Words, Floats]:
    """Per column the word its largest value reaches, and the power of two that brings that word to 0."""
    tops = (exponents - 1) // BITS
    scale = np.empty(tops.shape[0])
    for j in range(tops.shape[0]):
        scale[j] = math.ldexp(1.0, -BITS * tops[j])
    return tops, scale


@_compile
def _flush(pieces: Floats, tops: Words, words: Words, low: int) -> None:
    """Move whole units from float accumulators (groups, planes, m) into words."""
    groups, planes, m = pieces.shape
    for g in range(groups):
        for k in range(planes):
            for j in range(m):
                piece = pieces[g, k, j]
                if piece != 0.0:
                    words[tops[j] - k - low, g * m + j] += np.int64(math.ldexp(piece, BITS * k))
                    pieces[g, k, j] = 0.0


@_compile
def deposit(values: Floats, high: Words, group: Words, groups: int, low: int, length: int) -> Words:
    n, m = values.shape
    words = np.zeros((length, groups * m), np.int64)
    tops, scale = _tops(high)
    pieces = np.zeros((groups, 4, m))
    left = np.zeros(m)
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        for i in range(start, stop):
            piece = pieces[group[i]]
            for j in range(m):
                a, b, c, d, rest = _cut(values[i, j] * scale[j])
                piece[0, j] += a
                piece[1, j] += b
                piece[2, j] += c
                piece[3, j] += d
                left[j] += abs(rest)
        if left.any():
            left[:] = 0.0
            for i in range(start, stop):
                for j in range(m):
                    rest = _cut(values[i, j] * scale[j])[4]
                    if rest != 0.0:
                        _push(words, group[i] * m + j, rest, low - tops[j])
        if stop % ROWS == 0:
            _flush(pieces, tops, words, low)
    _flush(pieces, tops, words, low)
    return words


@_compile
def deposit_products(
    x: Floats, y: Floats, high: Words, group: Words, groups: int, low: int, length: int
) -> Words:
    n, m = x.shape
    shared = y.shape[1] == 1  # one column of y stands beside every column of x
    words = np.zeros((length, groups * m), np.int64)
    tops, scale = _tops(high)
    pieces = np.zeros((groups, 6, m))
    left = np.zeros(m)
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        for i in range(start, stop):
            piece = pieces[group[i]]
            if shared:
                v = y[i, 0]
                for j in range(m):
                    a, b, c, d, f, g, rest, rounding = _cut_product(x[i, j] * scale[j], v)
                    piece[0, j] += a
                    piece[1, j] += b
                    piece[2, j] += c
                    piece[3, j] += d
                    piece[4, j] += f
                    piece[5, j] += g
                    left[j] += abs(rest) + abs(rounding)
            else:
                for j in range(m):
                    a, b, c, d, f, g, rest, rounding = _cut_product(x[i, j] * scale[j], y[i, j])
                    piece[0, j] += a
                    piece[1, j] += b
                    piece[2, j] += c
                    piece[3, j] += d
                    piece[4, j] += f
                    piece[5, j] += g
                    left[j] += abs(rest) + abs(rounding)
        if left.any():
            left[:] = 0.0
            for i in range(start, stop):
                for j in range(m):
                    v = y[i, 0] if shared else y[i, j]
                    _, _, _, _, _, _, rest, rounding = _cut_product(x[i, j] * scale[j], v)
                    if rest != 0.0:
                        _push(words, group[i] * m + j, rest, low - tops[j])
                    if rounding != 0.0:
                        _push(words, group[i] * m + j, rounding, low - tops[j])
        if stop % ROWS == 0:
            _flush(pieces, tops, words, low)
    _flush(pieces, tops, words, low)
    return words


@_compile
def _carry(words: Words) -> None:
    """Bring every word but the last into [0, 2**32). The last plane must be spare: it takes the sign."""
    length, cells = words.shape
    for j in range(length - 1):
        for c in range(cells):
            raw = words[j, c]
            words[j, c] = raw & MASK
            words[j + 1, c] += raw >> BITS


@_compile
def _trim(words: Words, low: int) -> tuple[Words, int]:
    length, cells = words.shape
    last = length
    while last > 1:
        spare = True
        for c in range(cells):
            if words[last - 1, c] != -(words[last - 2, c] >> (BITS - 1)):
                spare = False
                break
        if not spare:
            break
        last -= 1
        for c in range(cells):
            words[last - 1, c] -= (words[last - 1, c] >> (BITS - 1)) << BITS
    first = 0
    while first < last - 1 and not words[first].any():
        first += 1
    low += first
    if last - first == 1 and not words[first].any():
        low = 0
    return words[first:last].copy(), low


@_compile
def settle(words: Words, low: int) -> tuple[Words, int]:
    length, cells = words.shape
    wide = np.zeros((length + 2, cells), np.int64)
    wide[:length] = words
    _carry(wide)
    return _trim(wide, low)


@_compile
def combine(a: Words, a_low: int, b: Words, b_low: int, sign: int) -> tuple[Words, int]:
    low = min(a_low, b_low)
    length = max(a_low + a.shape[0], b_low + b.shape[0]) - low + 1
    cells = a.shape[1]
    words = np.zeros((length, cells), np.int64)
    for j in range(a.shape[0]):
        for c in range(cells):
            words[j + a_low - low, c] = a[j, c]
    for j in range(b.shape[0]):
        for c in range(cells):
            words[j + b_low - low, c] += sign * b[j, c]
    _carry(words)
    return _trim(words, low)


@_compile
def multiply(words: Words, low: int, factors: Floats, keep: int) -> tuple[Words, int]:
    length, cells = words.shape
    lowest = 1 << 30
    highest = -(1 << 30)
    for c in range(cells):
        if factors[c] != 0.0:
            position = (math.frexp(factors[c])[1] - 53) // BITS
            lowest = min(lowest, position)
            highest = max(highest, position)
    if lowest > highest:
        return np.zeros((1, cells), np.int64), 0
    out = np.zeros((length + 5 + highest - lowest, cells), np.int64)
    digits = np.zeros(length + 4, np.uint64)
    mask = np.uint64(MASK)
    bits = np.uint64(BITS)
    for c in range(cells):
        fraction, exponent = math.frexp(factors[c])
        significand = np.int64(math.ldexp(fraction, 53))
        if significand == 0:
            continue
        negative = (significand < 0) != (words[length - 1, c] < 0)
        significand = abs(significand)
        unit = exponent - 53
        shift = np.uint64(unit % BITS)
        offset = unit // BITS - lowest
        digits[:] = 0
        borrow = np.int64(0)
        flip = words[length - 1, c] < 0
        for half in range(2):
            factor = np.uint64((significand >> (BITS * half)) & MASK)
            carry = np.uint64(0)
            borrow = np.int64(0)
            for j in range(length):
                digit = words[j, c]
                if flip:
                    digit = -digit - borrow
                    borrow = np.int64(1) if digit < 0 else np.int64(0)
                    if j < length - 1:
                        digit &= MASK
                product = np.uint64(digit) * factor + digits[j + half] + carry
                digits[j + half] = product & mask
                carry = product >> bits
            digits[length + half] += carry
        carry = np.uint64(0)
        first = 0
        for j in range(length + 4):
            shifted = (digits[j] << shift) | carry
            digits[j] = shifted & mask
            carry = shifted >> bits
            if digits[j] != 0:
                first = j + 1
        _write(out, c, digits, max(0, offset + first - keep), offset, negative)
    _carry(out)
    return _trim(out, low + lowest)


@_compile
def _write(out: Words, c: int, digits: np.ndarray, floor: int, offset: int, negative: bool) -> None:
    """Put the digits into a column, with their sign, rounding down what lies below `floor`."""
    lost = False
    for j in range(digits.shape[0]):
        digit = np.int64(digits[j])
        if digit == 0:
            continue
        if j + offset < floor:
            lost = True
        else:
            out[j + offset, c] = -digit if negative else digit
    if lost and negative:
        out[floor, c] -= 1


@_compile
def read(words: Words, low: int) -> tuple[Floats, Floats]:
    length, cells = words.shape
    high = np.zeros(cells)
    rest = np.zeros(cells)
    for j in range(length - 1, -1, -1):
        for c in range(cells):
            digit = math.ldexp(float(words[j, c]), BITS * (low + j))
            total = high[c] + digit
            part = total - high[c]
            rest[c] += (high[c] - (total - part)) + (digit - part)
            high[c] = total
    for c in range(cells):
        total = high[c] + rest[c]
        rest[c] = rest[c] - (total - high[c]) if math.isfinite(total) else 0.0
        high[c] = total
    return high, rest
