"""One float, or the product of two, → the words of one cell, digit by digit: about 10 ns."""

import numpy as np

from tamis._kernels.jit import part
from tamis._kernels.reference import BITS, MASK, Words

FRACTION = (1 << 52) - 1  # the bits of a float that hold its fraction
LOG_BITS = 5  # 2**5 = 32 bits a word


@part
def _integer(value: float) -> tuple[int, int]:
    """|value| as an integer of at most 53 bits, and the exponent of its unit, from its IEEE 754 bits."""
    pattern = int(np.float64(value).view(np.int64))
    exponent = (pattern >> 52) & 2047
    fraction = pattern & FRACTION
    return (fraction, -1074) if exponent == 0 else (fraction | (FRACTION + 1), exponent - 1075)


@part
def push(words: Words, cell: int, value: float, exponent: int, low: int) -> None:
    """Add value * 2**exponent to a cell, digit by digit."""
    integer, unit = _integer(value)
    unit += exponent
    sign = -1 if value < 0.0 else 1
    shift = unit & (BITS - 1)
    j = (unit >> LOG_BITS) - low
    bottom = (integer & MASK) << shift
    upper = (integer >> BITS) << shift
    middle = (bottom >> BITS) + (upper & MASK)
    # A word of zeros may lie outside the window: only the bits that a number has are promised a place.
    if bottom & MASK:
        words[j, cell] += sign * (bottom & MASK)
    if middle:
        words[j + 1, cell] += sign * middle
    if upper >> BITS:
        words[j + 2, cell] += sign * (upper >> BITS)


@part
def push_product(words: Words, cell: int, x: float, y: float, low: int) -> None:
    """Add the exact product to a cell, digit by digit."""
    a, a_unit = _integer(x)
    b, b_unit = _integer(y)
    if a == 0 or b == 0:
        return
    sign = -1 if (x < 0.0) != (y < 0.0) else 1
    shift = (a_unit + b_unit) & (BITS - 1)
    j = ((a_unit + b_unit) >> LOG_BITS) - low
    bottom = np.uint64(a & MASK) * np.uint64(b & MASK)
    middle = (a & MASK) * (b >> BITS) + (a >> BITS) * (b & MASK)
    top = (a >> BITS) * (b >> BITS)
    first = np.int64(bottom & np.uint64(MASK))
    second = np.int64(bottom >> np.uint64(BITS)) + (middle & MASK)
    third = (second >> BITS) + (middle >> BITS) + (top & MASK)
    fourth = (third >> BITS) + (top >> BITS)
    carry = np.int64(0)
    for digit in (first, second & MASK, third & MASK, fourth, np.int64(0)):
        shifted = (digit << shift) | carry
        carry = shifted >> BITS
        if shifted & MASK:
            words[j, cell] += sign * (shifted & MASK)
        j += 1
