"""log Γ without its large terms, for ratios of gamma functions in which these terms cancel algebraically.

log Γ(x) = x log x − x + remainder(x). At x = 1e12 the first two terms are 2.7e13, which a float rounds to
multiples of 4e-3, and the remainder is −13. In every evidence, predictive density and divergence of this
package the large terms cancel, or nearly. What is left are a few remainders, and a `deviance`, which is never
negative and has no large terms (C. Loader, Fast and Accurate Computation of Binomial Probabilities, 2000).
"""

import numpy as np
from scipy import special

from tamis.arrays import Array

LOG_2PI = float(np.log(2.0 * np.pi))

# For x ≥ _LARGE, Stirling's series is used, with these coefficients of 1/x, 1/x³, …: the first omitted term
# is below 7e-16. _SLOPE are the coefficients of its derivative, of 1/x², 1/x⁴, …
_LARGE = 10.0
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SLOPE = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)
# Coefficients of the series of log((1 + v) / (1 − v)) / 2: at v = 0.1 the first omitted term is below 1e-19.
_ODD = tuple(1 / k for k in range(3, 21, 2))


def remainder(x: Array) -> Array:
    """log Γ(x) − x log x + x for x > 0: about ½ log(2π/x).

    >>> round(float(remainder(np.array(1e12))), 12)
    -12.89657202476
    """
    large = np.maximum(x, _LARGE)
    small = np.minimum(x, _LARGE)
    far = 0.5 * (LOG_2PI - np.log(large)) + _series(_STIRLING, 1.0 / large) / large
    near = special.gammaln(small) - small * np.log(small) + small
    return np.where(x >= _LARGE, far, near)


def factorial_remainder(x: Array) -> Array:
    """log x! − x log x + x for x ≥ 0: about ½ log(2πx), and 0 at 0."""
    large = np.maximum(x, _LARGE)
    small = np.minimum(x, _LARGE)
    far = 0.5 * (LOG_2PI + np.log(large)) + _series(_STIRLING, 1.0 / large) / large
    near = special.gammaln(small + 1.0) - special.xlogy(small, small) + small
    return np.where(x >= _LARGE, far, near)


def remainder_slope(x: Array) -> Array:
    """The derivative of the remainder, ψ(x) − log x: about −1/(2x)."""
    large = np.maximum(x, _LARGE)
    small = np.minimum(x, _LARGE)
    far = -0.5 / large + _series(_SLOPE, 1.0 / large) / np.square(large)
    near = special.digamma(small) - np.log(small)
    return np.where(x >= _LARGE, far, near)


def bregman(x: Array, point: Array) -> Array:
    """The Bregman divergence of the remainder: remainder(x) minus its tangent at `point`."""
    return np.asarray(remainder(x) - remainder(point) - (x - point) * remainder_slope(point))


def deviance(x: Array, mean: Array, step: Array | None = None) -> Array:
    """x log(x / mean) − (x − mean) ≥ 0 for x, mean ≥ 0; `step` is x − mean, if it is known more exactly.

    0 log 0 is 0, so that deviance(0, mean) is the mean; deviance(x, 0) is ∞ for x > 0.
    """
    step = x - mean if step is None else step
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        v = np.where(x + mean > 0, step / (x + mean), 0.0)
        near = step * v + 2.0 * x * v * np.square(v) * _series(_ODD, v)
        far = special.xlogy(x, x / mean) - step
    return np.where(np.abs(v) < 0.1, near, far)


def log1p_gap(t: Array) -> Array:
    """t − log(1 + t) for t ≥ −1: zero at 0, positive elsewhere, ∞ at −1."""
    return deviance(np.ones_like(t), 1.0 + t, -t)


def log_rising(x: Array, n: Array) -> Array:
    """log Γ(x + n) − log Γ(x).

    >>> float(log_rising(np.array(1e12), np.array(1.0)) - np.log(1e12))
    0.0
    """
    return np.asarray(n * np.log(x + n) - deviance(x, x + n, -n) + remainder(x + n) - remainder(x))


def digamma_rise(x: Array, n: Array) -> Array:
    """ψ(x + n) − ψ(x)."""
    return np.asarray(np.log1p(n / x) + remainder_slope(x + n) - remainder_slope(x))


def _series(coefficients: tuple[float, ...], x: Array) -> Array:
    """Σ c_j x^{2j}."""
    square = np.square(x)
    total = np.zeros_like(square)
    for coefficient in reversed(coefficients):
        total = total * square + coefficient
    return total
