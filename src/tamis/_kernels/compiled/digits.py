"""Words → words → floats: carrying, adding, scaling and reading what the sums have gathered."""

import math

import numpy as np

from tamis._kernels.jit import FLOATS_1D, INTEGER, WORDS, kernel, part
from tamis._kernels.reference import BITS, DEEPEST, MASK, Digits, Floats, Words


@part
def _is_spare(words: Words, plane: int) -> bool:
    """Whether the plane only repeats the sign of the one below."""
    for c in range(words.shape[1]):  # noqa: SIM110  (Numba has no generators here)
        if words[plane, c] != -(words[plane - 1, c] >> (BITS - 1)):
            return False
    return True


@part
def _is_zero(words: Words, plane: int) -> bool:
    for c in range(words.shape[1]):  # noqa: SIM110
        if words[plane, c] != 0:
            return False
    return True


@part
def carry_and_trim(words: Words, low: int) -> tuple[Words, int]:
    """Settle words in place, given that the last plane has room for the sign."""
    length, cells = words.shape
    for j in range(length - 1):
        for c in range(cells):
            raw = words[j, c]
            words[j, c] = raw & MASK
            words[j + 1, c] += raw >> BITS
    last = length
    while last > 1 and _is_spare(words, last - 1):
        last -= 1
        for c in range(cells):
            words[last - 1, c] -= (words[last - 1, c] >> (BITS - 1)) << BITS
    first = 0
    while first < last - 1 and _is_zero(words, first):
        first += 1
    settled = words
    if last - first < length:
        settled = np.empty((last - first, cells), np.int64)
        for j in range(first, last):
            for c in range(cells):
                settled[j - first, c] = words[j, c]
    return settled, 0 if last - first == 1 and _is_zero(settled, 0) else low + first


@kernel(WORDS, INTEGER)
def settle(words: Words, low: int) -> tuple[Words, int]:
    length, cells = words.shape
    wide = np.zeros((length + 2, cells), np.int64)
    for j in range(length):
        for c in range(cells):
            wide[j, c] = words[j, c]
    return carry_and_trim(wide, low)


@kernel(WORDS, INTEGER, WORDS, INTEGER, INTEGER)
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
    return carry_and_trim(words, low)


@part
def _magnitude(words: Words, c: int, digits: Digits) -> int:
    """Write |number| of one cell as digits; returns how many it has."""
    negative = words[words.shape[0] - 1, c] < 0
    borrow = np.int64(0)
    size = 0
    for j in range(words.shape[0]):
        digit = words[j, c]
        if negative:
            digit = -digit - borrow
            borrow = np.int64(1) if digit < 0 else np.int64(0)
            digit &= MASK
        digits[j] = np.uint64(digit)
        if digit != 0:
            size = j + 1
    return size


@part
def _product(number: Digits, factor: np.uint64, shift: np.uint64, product: Digits) -> int:
    """Write number * factor * 2**shift as digits; returns how many it has."""
    mask, bits = np.uint64(MASK), np.uint64(BITS)
    length = number.shape[0]
    product[:] = np.uint64(0)
    for half in range(2):
        digit = factor & mask if half == 0 else factor >> bits
        carry = np.uint64(0)
        for j in range(length):
            total = number[j] * digit + product[j + half] + carry
            product[j + half] = total & mask
            carry = total >> bits
        product[length + half] += carry
    carry = np.uint64(0)
    size = 0
    for j in range(product.shape[0]):
        shifted = (product[j] << shift) | carry
        product[j] = shifted & mask
        carry = shifted >> bits
        if product[j] != np.uint64(0):
            size = j + 1
    return size


@kernel(WORDS, INTEGER, FLOATS_1D, INTEGER)
def multiply(words: Words, low: int, factors: Floats, keep: int) -> tuple[Words, int]:
    length, cells = words.shape
    lowest, highest = 1 << 30, -(1 << 30)
    for c in range(cells):
        if factors[c] != 0.0:
            position = (math.frexp(factors[c])[1] - 53) // BITS
            lowest = min(lowest, position)
            highest = max(highest, position)
    if lowest > highest:
        return np.zeros((1, cells), np.int64), 0
    out = np.zeros((length + 5 + highest - lowest, cells), np.int64)
    number = np.zeros(length, np.uint64)
    product = np.zeros(length + 4, np.uint64)
    for c in range(cells):
        fraction, exponent = math.frexp(factors[c])
        size = _magnitude(words, c, number)
        if fraction == 0.0 or size == 0:
            continue
        negative = (fraction < 0.0) != (words[length - 1, c] < 0)
        unit = exponent - 53
        offset = unit // BITS - lowest
        size = _product(number, np.uint64(math.ldexp(abs(fraction), 53)), np.uint64(unit % BITS), product)
        floor = max(offset + size - keep, DEEPEST - (low + lowest))
        whole = abs(factors[c]) == 1.0
        for j in range(size):
            if whole or j + offset >= floor:
                digit = np.int64(product[j])
                out[j + offset, c] = -digit if negative else digit
    return carry_and_trim(out, low + lowest)


@kernel(WORDS, INTEGER)
def read(words: Words, low: int) -> tuple[Floats, Floats]:
    length, cells = words.shape
    value = np.zeros(cells)
    rest = np.zeros(cells)
    digits = np.zeros(length, np.uint64)
    bits = np.uint64(BITS)
    tail_mask = np.uint64(2047)
    for c in range(cells):
        size = _magnitude(words, c, digits)
        if size == 0:
            continue
        window = np.zeros(5, np.uint64)
        for k in range(min(5, size)):
            window[k] = digits[size - 1 - k]
        lost = False
        for j in range(size - 5):
            lost = lost or digits[j] != np.uint64(0)
        back = np.uint64(math.frexp(float(window[0]))[1])
        shift = bits - back
        upper = (((window[0] << bits) | window[1]) << shift) | (window[2] >> back)
        lower = (((window[2] << bits) | window[3]) << shift) | (window[4] >> back)
        high = float(upper | np.uint64(lower != np.uint64(0) or lost))
        tail = float(upper & tail_mask)
        if high != float(upper & ~tail_mask):
            tail -= 2048.0
        unit = BITS * (low + size - 3) + int(back)
        sign = -1.0 if words[length - 1, c] < 0 else 1.0
        value[c] = math.ldexp(sign * high, unit)
        if math.isfinite(value[c]):
            rest[c] = math.ldexp(sign * (tail + math.ldexp(float(lower), -64)), unit)
    return value, rest
