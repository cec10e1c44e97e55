"""statistic → (rows, own classes, weights → scores without the row): what all closed forms share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels
from tamis.arrays import Array
from tamis.stats import Exact

Marks = NDArray[np.bool_]
Indices = NDArray[np.int64]
Found = tuple[Array, Marks]  # scores (b, K) of some rows, and which of these are in doubt (b,)
Formula = Callable[[Any, Indices, Array], Found]  # of rows, their own class (b,) and their weight (b,)

CANCELLED = 1e-3  # of a sum that is left when its subtraction is no longer trusted: 1e-13 becomes 1e-10


class Sum(NamedTuple):
    """A sum in two floats, from which a product is taken without rounding either."""

    high: Array  # (K, d), or fewer axes
    rest: Array

    @classmethod
    def of(cls, total: Exact) -> "Sum":
        return cls(*total.pair)

    @property
    def whole(self) -> bool:
        """Whether all are integers that a float holds, so that their differences are exact."""
        return bool((self.high == np.floor(self.high)).all() and not self.rest.any())

    def at(self, *index: Any) -> "Sum":
        return Sum(self.high[index], self.rest[index])

    def less(self, w: Array, x: Array) -> Array:
        """self − w · x, for x (b, m) and w (b, 1): zero if and only if that is."""
        product, lost = _kernels.two_product(np.ascontiguousarray(x), np.ascontiguousarray(w))
        return np.asarray((self.high - product) + (self.rest - lost))


def replaced(found: Array, own: Indices, scores_of_own: Array) -> Array:
    """With the score of each row in its own class replaced."""
    found[np.arange(len(own)), own] = scores_of_own
    return found


def certain(n: int) -> Marks:
    """Of n rows none is in doubt."""
    return np.zeros(n, dtype=np.bool_)
