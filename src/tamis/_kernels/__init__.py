"""The one door to the kernels: it bounds the numbers, then picks who computes.

`reference` (NumPy) serves until enough work has passed to pay for loading Numba, then `compiled` does.
Both give the same bits, so the choice can be seen on a clock and nowhere else.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType

import numpy as np

from tamis._kernels import reference
from tamis._kernels.reference import BITS, SMALLEST, Floats, Words, two_product

__all__ = [
    "Floats",
    "Span",
    "Words",
    "combine",
    "deposit",
    "deposit_products",
    "multiply",
    "read",
    "settle",
    "span",
    "two_product",
]

_CALL = 500  # one NumPy call costs what 500 cells do
_PATIENCE = 4_000_000  # cells: about 0.3 s of NumPy, a third of what importing Numba takes
_REACH = 400  # exponents up to which scaling, splitting and multiplying neither over- nor underflow
_LANES = 64  # columns that fill the vector units; narrower data is folded up to this width

Span = tuple[Words, Words]  # exponents of the largest and the smallest nonzero magnitude, per column


class _Door:
    """Counts the work that NumPy has done so far."""

    def __init__(self) -> None:
        self.spent = 0

    def kernels(self, cells: int) -> ModuleType:
        loaded = sys.modules.get("tamis._kernels.compiled")
        if loaded is not None:
            return loaded
        self.spent += _CALL + cells
        if self.spent < _PATIENCE:
            return reference
        return importlib.import_module("tamis._kernels.compiled")


_door = _Door()


def span(values: Floats) -> tuple[Span, np.ndarray]:
    """The exponents that bound each column of (n, m) values, and which columns are finite throughout."""
    high, low, finite = _door.kernels(values.size).span(values)
    return (high, low), finite


def deposit(values: Floats, bounds: Span, group: Words | None = None, groups: int = 1) -> tuple[Words, int]:
    """Settled sums of the rows of (n, m) values, by group: words (length, groups * m) and their position."""
    high, low = bounds
    kernels = _door.kernels(values.size) if _within_reach(high, low) else reference
    window = _window(high, low - 53)
    words = _sum_rows(kernels.deposit, (values,), high, group, groups, window)
    settled: tuple[Words, int] = kernels.settle(words, window[0])
    return settled


def deposit_products(
    x: Floats, x_bounds: Span, y: Floats, y_bounds: Span, group: Words | None = None, groups: int = 1
) -> tuple[Words, int]:
    """Settled sums of exact products x * y; `y` has the shape of `x`, or one column for all of them."""
    (x_high, x_low), (y_high, y_low) = x_bounds, y_bounds
    high, low = x_high + y_high, x_low + y_low
    reachable = _within_reach(x_high, x_low) and _within_reach(y_high, y_low)
    kernels = _door.kernels(x.size) if reachable else reference
    window = _window(high, low - 107)
    words = _sum_rows(kernels.deposit_products, (x, y), high, group, groups, window)
    settled: tuple[Words, int] = kernels.settle(words, window[0])
    return settled


def settle(words: Words, low: int) -> tuple[Words, int]:
    """The canonical writing of the numbers in (length, cells) words. Does not keep `words` as it was."""
    settled: tuple[Words, int] = _door.kernels(words.size).settle(words, low)
    return settled


def combine(a: Words, a_low: int, b: Words, b_low: int, sign: int) -> tuple[Words, int]:
    """Settled a + sign * b."""
    settled: tuple[Words, int] = _door.kernels(a.size + b.size).combine(a, a_low, b, b_low, sign)
    return settled


def multiply(words: Words, low: int, factors: Floats, keep: int) -> tuple[Words, int]:
    """Settled products of cells and factors, exact down to `keep` words below each cell's first."""
    settled: tuple[Words, int] = _door.kernels(20 * words.size).multiply(words, low, factors, keep)
    return settled


def read(words: Words, low: int) -> tuple[Floats, Floats]:
    """Each number as an unevaluated sum of two floats."""
    pair: tuple[Floats, Floats] = _door.kernels(words.size).read(words, low)
    return pair


def _within_reach(high: Words, low: Words) -> bool:
    return bool(high.max(initial=0) <= _REACH and low.min(initial=0) >= -_REACH)


def _window(high: Words, lowest: Words) -> tuple[int, int]:
    low_word = max(int(lowest.min(initial=0)), SMALLEST) // BITS
    return low_word, int(high.max(initial=0)) // BITS - low_word + 4


def _sum_rows(
    kernel: Callable[..., Words],
    arrays: tuple[Floats, ...],
    high: Words,
    group: Words | None,
    groups: int,
    window: tuple[int, int],
) -> Words:
    """Run a deposit kernel; without groups, narrow arrays are folded so that the vector units are full."""
    if group is not None:
        return kernel(*arrays, high, group, groups, *window)
    n, m = arrays[0].shape
    rows = _LANES // m if 0 < m <= _LANES // 4 and all(a.shape[1] == m for a in arrays) else 1
    whole = n - n % rows
    folded = [a[:whole].reshape(n // rows, rows * a.shape[1]) for a in arrays]
    words = kernel(*folded, np.tile(high, rows), np.zeros(n // rows, np.int64), 1, *window)
    words = np.asarray(words.reshape(window[1], rows, m).sum(axis=1))
    if whole < n:
        words += kernel(*[a[whole:] for a in arrays], high, np.zeros(n - whole, np.int64), 1, *window)
    return words
