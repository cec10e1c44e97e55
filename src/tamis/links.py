"""Probability ↔ log-odds: the sigmoid and its inverse, the logit. `decide.probabilities` is the softmax.

Both need only NumPy, because the mail filter is installed without SciPy.
"""

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, floats


def sigmoid(log_odds: ArrayLike) -> Array:
    """Compute 1 / (1 + e⁻ˣ), for numbers of any shape, without overflow.

    Parameters
    ----------
    log_odds : array-like
        Any numbers, infinite ones included; NaN stays NaN.

    Returns
    -------
    array of the same shape
        Probabilities, accurate near 0; near 1, `sigmoid(-x)` is the distance to 1.

    >>> sigmoid([-1000.0, 0.0, np.log(3.0)]).round(6).tolist()
    [0.0, 0.5, 0.75]
    """
    x = floats(log_odds, "log_odds")
    power = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0.0, 1.0, power) / (1.0 + power))


def logit(probability: ArrayLike) -> Array:
    """Compute log(p / (1 − p)), for numbers of any shape: the inverse of `sigmoid`.

    Parameters
    ----------
    probability : array-like
        Numbers from 0 to 1; the ends give −∞ and ∞, and NaN stays NaN.

    Returns
    -------
    array of the same shape
        Log-odds, accurate near 0 and near 1/2.

    >>> logit([0.0, 0.5, 0.75]).round(6).tolist()
    [-inf, 0.0, 1.098612]
    """
    p = floats(probability, "probability")
    outside = (p < 0.0) | (p > 1.0)
    if outside.any():
        raise ValueError(f"got a probability of {p[outside].flat[0]}, expected a number from 0 to 1")
    with np.errstate(divide="ignore"):
        shift = 2.0 * (p - 0.5)  # exact near 1/2, where log p − log(1 − p) would cancel
        near_half = np.log1p(shift) - np.log1p(-shift)
        elsewhere = np.log(p) - np.log1p(-p)
    return np.asarray(np.where(np.abs(shift) < 0.5, near_half, elsewhere))
