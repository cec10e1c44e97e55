"""Sums without rounding: floats → integers in base 2**32 → floats.

A finite float is an integer times a power of two, and so is every sum of floats. A sum that is stored as
this integer is not rounded and does not depend on the order of its terms: `+` and `-` add and subtract the
integers, so subtracting rows restores the sum before they were added. Only `value` rounds. (Kulisch, Computer
Arithmetic and Validity, calls such a sum a complete accumulator.)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis import _kernels, arrays
from tamis._kernels import Floats, Words

_HALF = 1 << 31  # the last word of a settled number is from -_HALF to _HALF - 1
# The powers of 2**32 in every sum are from -MAX_POWER to MAX_POWER - 1. The kernels write a float as an
# integer below 2**53 times a power of two, the smallest float, 2**-1074, as 2**52 * 2**-1126; so a product of
# four floats has at most 4 * 1126 bits below the binary point, and the kernels truncate scaled sums far above
# that. Sums from files are checked against this bound, because adding two numbers allocates all words between
# their powers.
MAX_POWER = 160


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """An array of sums, stored exactly: the sum over j of words[j] * 2**(32 * (low + j)).

    >>> tenth = Exact.of([0.1])
    >>> total = sum([tenth] * 9, start=tenth)
    >>> float(total.value[0]), (total - total).value.tolist()
    (1.0, [0.0])
    """

    words: Words  # (length, *shape), settled: in the canonical form that `_kernels.settle` makes
    low: int  # the power of 2**32 for which words[0] stands

    def __post_init__(self) -> None:
        self.words.setflags(write=False)

    def __reduce__(self) -> tuple[type["Exact"], tuple[Words, int]]:
        return Exact, (self.words, self.low)  # through the constructor, so that copies are read-only too

    @classmethod
    def of(cls, values: ArrayLike) -> "Exact":
        """Read numbers of any shape; they must be finite."""
        array = arrays.floats(values, "the array")
        entries = np.ascontiguousarray(array.reshape(1, -1))
        # The exponents by which the kernel chooses words, and the first column that is not finite, or -1.
        bounds, _, nonfinite = _kernels.span(entries)
        if nonfinite >= 0:
            raise ValueError(f"got {entries[0, nonfinite]}, expected finite numbers")
        return cls._reshape(_kernels.deposit(entries, bounds), array.shape)

    @classmethod
    def from_integers(cls, values: NDArray[np.int64]) -> "Exact":
        """Make sums from integers of any shape. The caller must not change the array afterwards."""
        if values.size and values.min() >= -_HALF and values.max() < _HALF:  # one word, which is settled
            return cls(np.ascontiguousarray(values[None]), 0)
        return cls.from_words(values[None], 0)

    @classmethod
    def from_words(cls, words: Words, low: int) -> "Exact":
        """Make sums from words (length, *shape) that need not be in the canonical form."""
        shape = words.shape[1:]
        flat = np.ascontiguousarray(words).reshape(len(words), math.prod(shape))
        return cls._reshape(_kernels.settle(flat, low), shape)

    @classmethod
    def from_big_integers(cls, values: Sequence[int], exponent: int, shape: tuple[int, ...]) -> "Exact":
        """Make sums of this shape from Python integers, in row-major order, each times 2**exponent.

        >>> Exact.from_big_integers([3 << 200, -1], -1, (2,)).value.tolist()
        [2.4104070663884854e+60, -0.5]
        """
        low, shift = divmod(exponent, 32)
        length = max((value.bit_length() + shift for value in values), default=0) // 32 + 1
        words = np.empty((length, len(values)), dtype=np.int64)
        for i, value in enumerate(values):
            rest = value << shift
            for j in range(length - 1):
                words[j, i] = rest & 0xFFFFFFFF
                rest >>= 32
            words[-1, i] = rest
        return cls.from_words(words.reshape(length, *shape), low)

    @staticmethod
    @lru_cache(maxsize=4)  # statistics of single rows, observed one by one, share the same object
    def count(number: int, shape: tuple[int, ...]) -> "Exact":
        """Make sums that are all equal to an integer of at least 0 and below 2**63."""
        return Exact.from_words(np.full((1, *shape), number, dtype=np.int64), 0)

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> "Exact":
        """Make sums that are all zero."""
        return cls(np.zeros((1, *shape), dtype=np.int64), 0)

    @classmethod
    def _reshape(cls, settled: tuple[Words, int], shape: tuple[int, ...]) -> "Exact":
        words, low = settled
        return cls(words if len(shape) == 1 else words.reshape(len(words), *shape), low)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.words.shape[1:]

    @property
    def value(self) -> Floats:
        """The numbers rounded to float64; ∞ or −∞ for a number beyond its range."""
        if self.low == 0 and len(self.words) == 1:  # counts: a word is a float
            return np.asarray(self.words[0], dtype=np.float64)
        return self.pair[0]

    @property
    def pair(self) -> tuple[Floats, Floats]:
        """The numbers rounded to float64, and the remainders; their sum has a relative error up to 2**-105.

        Numbers below about 2**-968 have less precise remainders, and those beyond the range of float64 none.
        """
        high, rest = _kernels.read(self.flat_words, self.low)
        return high.reshape(self.shape), rest.reshape(self.shape)

    @property
    def negative(self) -> NDArray[np.bool_]:
        """Whether each number is below zero: the last word has the sign."""
        return np.asarray(self.words[-1] < 0)

    def find_nonzero(self, axis: int) -> NDArray[np.bool_]:
        """Mark the slices along an axis that are not all zero."""
        word_axis = axis % len(self.shape) + 1
        return np.asarray(self.words.any(axis=tuple(i for i in range(self.words.ndim) if i != word_axis)))

    def __add__(self, other: "Exact") -> "Exact":
        return self._add(other, 1)

    def __sub__(self, other: "Exact") -> "Exact":
        return self._add(other, -1)

    def _add(self, other: "Exact", sign: int) -> "Exact":
        if self.shape != other.shape:
            raise ValueError(f"cannot combine sums of shape {self.shape} and {other.shape}")
        return self.combine(other, sign)

    def combine(self, other: "Exact", sign: int) -> "Exact":
        """Return self + sign * other, for a sign of 1 or -1; the shapes must be equal."""
        ours, theirs = self.words, other.words
        if self.low == other.low == 0 and len(ours) == len(theirs) == 1:  # counts need no kernel
            return Exact.from_integers(ours[0] + theirs[0] if sign > 0 else ours[0] - theirs[0])
        if ours.ndim == 2:  # the same as below without reshaping, in half the time
            return Exact(*_kernels.combine(ours, self.low, theirs, other.low, sign))
        return self._reshape(
            _kernels.combine(self.flat_words, self.low, other.flat_words, other.low, sign), self.shape
        )

    def combine_at(self, other: "Exact", index: tuple[NDArray[np.int64], ...], sign: int) -> "Exact":
        """Return self + sign * other, where `other` is added to the entries self[index], which are distinct.

        This is `combine` with the result of `place`, in one pass.
        """
        low = min(self.low, other.low)
        length = max(self.low + len(self.words), other.low + len(other.words)) - low
        words = np.zeros((length, *self.shape), dtype=np.int64)
        words[self.low - low : self.low - low + len(self.words)] = self.words
        target = words[other.low - low : other.low - low + len(other.words)]
        word_index: tuple[Any, ...] = (slice(None), *index)
        target[word_index] += other.words if sign > 0 else -other.words
        return Exact.from_integers(words[0]) if low == 0 and length == 1 else Exact.from_words(words, low)

    def add_row(self, group: int, values: Floats, weight: float, power: int) -> "Exact":
        """Return self (groups, d), or (d,), with weight * values**power (d,) added to one group.

        The power is 0, 1 or 2; a value that is NaN adds nothing. This is `+` with the sum of one row, in a
        tenth of the time. `tamis.stats.rows.can_add_row` says whether the result is exact.
        """
        words = self.words
        flat = words if words.ndim == 2 else words.reshape(len(words), math.prod(words.shape[1:]))
        summed, low = _kernels.add_row(flat, self.low, group * len(values), values, weight, power)
        return Exact(summed if words.ndim == 2 else summed.reshape(len(summed), *words.shape[1:]), low)

    def times(self, factor: ArrayLike) -> "Exact":
        """Multiply by finite floats, which are broadcast, with a relative error of at most 2**-224.

        Products below 2**-2048 have a larger relative error, because bits below 2**-2272 are dropped.
        """
        factors = np.asarray(factor, dtype=np.float64)
        shape = np.broadcast_shapes(self.shape, factors.shape)
        broadcast = self if shape == self.shape else self._broadcast(shape)
        flat = np.ascontiguousarray(np.broadcast_to(factors, shape)).reshape(-1)
        if not flat.size:
            return Exact.zeros(shape)
        return self._reshape(
            # KEEP is the number of words of each product that are kept, the highest ones.
            _kernels.multiply(broadcast.flat_words, broadcast.low, flat, keep=_kernels.KEEP),
            shape,
        )

    def _broadcast(self, shape: tuple[int, ...]) -> "Exact":
        """Broadcast to a larger shape. New axes are inserted after the axis of words."""
        new_axes = (1,) * (len(shape) - len(self.shape))
        return self.reindex(
            lambda words: np.broadcast_to(
                words.reshape(len(words), *new_axes, *self.shape), (len(words), *shape)
            )
        )

    def sum(self, axis: int) -> "Exact":
        """Sum over one axis."""
        axis = axis + 1 if axis >= 0 else axis
        return Exact.from_words(self.words.sum(axis=axis), self.low)

    def reindex(self, view: Callable[[Words], Words]) -> "Exact":
        """Select or rearrange entries: `view` maps the words (length, *shape) to (length, *new shape)."""
        return Exact.from_words(view(self.words), self.low)

    def place(self, index: NDArray[np.int64], size: int, axis: int) -> "Exact":
        """Enlarge an axis to `size` slices: the existing ones are placed at `index`, and the rest is zero."""
        axis = axis + 1 if axis >= 0 else self.words.ndim + axis
        shape = list(self.words.shape)
        shape[axis] = size
        words = np.zeros(shape, dtype=np.int64)
        slices: list[Any] = [slice(None)] * len(shape)
        slices[axis] = index
        words[tuple(slices)] = self.words
        return Exact(words, self.low)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Exact):
            return NotImplemented
        return self.low == other.low and np.array_equal(self.words, other.words)

    def __hash__(self) -> int:
        return hash((self.low, self.words.shape, self.words.tobytes()))

    def __repr__(self) -> str:
        return f"Exact({self.value.tolist()})"

    @property
    def flat_words(self) -> Words:
        """The words with the shape flattened (length, entries)."""
        words = self.words
        return words if words.ndim == 2 else words.reshape(len(words), math.prod(self.shape))
