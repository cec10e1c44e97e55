"""How far apart two means are, without cancellation: the one formula in most densities and divergences.

The obvious ways to write these lose every digit where it matters most, when the two are close.
"""

import numpy as np
from scipy import special

from tamis.arrays import Array

_NEAR = 0.1  # beyond it t and log1p(t) share at most 20 times their difference: 20 units in the last place
_TERMS = 7  # |r| < 0.053 there, and 2r^17/17 is below 1e-20 of the sum


def excess(t: Array) -> Array:
    """t − log(1 + t) for t ≥ −1: zero at 0, positive elsewhere, ∞ at −1.

    Near zero, with r = t/(2 + t): log(1 + t) = 2(r + r³/3 + r⁵/5 + …) and t − 2r = rt, which do not cancel.
    """
    r = t / (2.0 + t)
    square = r * r
    tail = np.zeros_like(r)
    for term in range(_TERMS, 0, -1):
        tail = square * (tail + 2.0 / (2 * term + 1))
    with np.errstate(divide="ignore"):
        return np.where(np.abs(t) <= _NEAR, r * (t - tail), t - np.log1p(t))


def deviance(x: Array, mean: Array) -> Array:
    """x log(x / mean) − x + mean for x, mean ≥ 0: zero where they are equal, positive elsewhere.

    0 log 0 is 0, so that deviance(0, mean) is the mean; deviance(x, 0) is ∞ for x > 0.
    """
    near = np.abs(mean - x) <= _NEAR * x
    step = np.where(near, mean - x, 0.0) / np.where(x > 0, x, 1.0)
    return np.where(near, x * excess(step), special.rel_entr(x, mean) - x + mean)
