"""Log-probabilities of Poisson counts, and their means, accurate to nearly all digits at any size.

x log λ − λ − log x! is a small difference of large numbers. It equals −(s(x) + deviance(x, λ)), a sum of two
terms of one sign, where s(x) = log x! − x log x + x is `factorial_remainder` (Loader 2000, "Fast and accurate
computation of binomial probabilities"). Binomial and multinomial counts are Poisson counts given their sum,
so these functions serve them, too.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis.arrays import Array
from tamis.families.stirling import deviance, factorial_remainder

# For means below _LARGE_MEAN, sums run over the counts 0 … 511: larger ones have a probability below e⁻⁹⁹.
# For larger means, fourteen central moments leave an error below 2e-13 (measured against 60-digit sums).
_LARGE_MEAN = 256.0
_SUMMED_COUNTS = 512
_HIGHEST_MOMENT = 14
_SUMMED_SPAN = 4096.0  # further from the first count, an integral replaces the sum
# Counts of larger means are drawn from a normal distribution: NumPy's Poisson counts are below 9.2e18.
_MAX_POISSON_MEAN = 1e18
_CHUNK = 2048  # means whose sums are computed at a time: 8 MB per intermediate array


def is_count(value: Array) -> NDArray[np.bool_]:
    """Whether each value is one of 0, 1, 2, …"""
    return np.asarray(np.isfinite(value) & (value >= 0) & (value == np.floor(value)))


def log_poisson(x: Array, mean: Array) -> Array:
    """log(meanˣ e^(−mean) / x!) for whole x; −∞ for x < 0."""
    inside = np.maximum(x, 0.0)
    return np.where(x < 0, -np.inf, -(factorial_remainder(inside) + deviance(inside, mean)))


def draw_poisson(rng: np.random.Generator, mean: Array, shape: tuple[int, ...]) -> Array:
    """Draw an array of this shape of Poisson counts, which may have any mean."""
    counts = np.asarray(rng.poisson(np.minimum(mean, _MAX_POISSON_MEAN), shape), dtype=np.float64)
    if not (mean > _MAX_POISSON_MEAN).any():
        return counts
    normal = np.rint(mean + np.sqrt(mean) * rng.standard_normal(shape))
    return np.where(mean > _MAX_POISSON_MEAN, normal, counts)


def expect_over_counts(
    log_mass: Callable[[Array], Array],
    function: Callable[[Array], Array],
    mean: float,
    deviation: float,
    tail: float,
) -> float:
    """E[function(log p(x))] over counts x, for a distribution with this mean and standard deviation.

    `log_mass` is log p(x). Far above the mean, p(x) falls by a factor of e every `tail` counts. The first
    counts are summed one by one. Further on, the sum is replaced by an integral (the Euler–Maclaurin
    formula), over intervals that are short compared with the deviation and with their distance from 0.
    """

    def term(x: Array) -> Array:
        log_p = log_mass(x)
        return np.asarray(np.exp(log_p) * function(log_p))

    last = mean + 12.0 * deviation + 45.0 * tail  # the probability of larger counts is about e⁻⁴⁵ or less
    first = max(0.0, np.floor(mean - 12.0 * deviation))
    total = float(term(np.arange(first, min(last, first + _SUMMED_SPAN) + 1.0)).sum())
    start = first + _SUMMED_SPAN + 0.5
    if last <= start:
        return total
    # The formula's first correction is f′(start) / 24, where a difference is used for the derivative.
    total += float(term(np.array([start + 0.5]))[0] - term(np.array([start - 0.5]))[0]) / 24.0
    edges = [start]
    while edges[-1] < last:
        edges.append(edges[-1] + min(0.25 * edges[-1], 0.5 * deviation))
    left, width = np.array(edges[:-1])[:, None], np.diff(edges)[:, None]
    points, weights = np.polynomial.legendre.leggauss(20)
    integral = term(left + width * (0.5 * points + 0.5)) * (0.5 * width * weights)
    return total + float(integral.sum())


def mean_log_poisson(mean: Array, probability: Array | None = None, trials: Array | None = None) -> Array:
    """E[log Poisson(X | mean)] for X of this mean: Poisson, or binomial with mean = trials · probability.

    The arguments have the same shape. For a Poisson X, the result is minus its entropy.
    """
    means = mean.reshape(-1)
    p = np.zeros_like(means) if probability is None else probability.reshape(-1)
    n = None if trials is None else trials.reshape(-1)
    result = np.empty_like(means)
    large = means >= _LARGE_MEAN
    result[large] = _expand_in_moments(means[large], p[large])
    small = np.flatnonzero(~large)
    for start in range(0, len(small), _CHUNK):
        indices = small[start : start + _CHUNK]
        result[indices] = _sum_terms(means[indices], p[indices], None if n is None else n[indices])
    return result.reshape(mean.shape)


def _sum_terms(mean: Array, probability: Array, trials: Array | None) -> Array:
    """Compute `mean_log_poisson` for means below _LARGE_MEAN, by a sum over counts."""
    x = np.arange(float(_SUMMED_COUNTS))[:, None]
    log_term = log_poisson(x, mean)
    log_mass = log_term
    if trials is not None:
        others = log_poisson(trials - x, trials * (1.0 - probability)) - log_poisson(trials, trials)
        log_mass = log_term + others
    mass = np.exp(log_mass)
    return np.asarray((mass * np.where(mass > 0, log_term, 0.0)).sum(axis=0))


def _expand_in_moments(mean: Array, probability: Array) -> Array:
    """Compute `mean_log_poisson` for large means, by the Taylor series of f(x) = log x! about the mean.

    It is −s(mean) − Σ μₖ f⁽ᵏ⁾(mean)/k! for k ≥ 2, with the central moments μₖ.
    """
    m = np.minimum(mean, 1e15)  # above, all terms but the first are below 1e-15, and would overflow
    variance = m * (1.0 - probability)
    cumulants = [
        variance * np.polyval(polynomial, probability) for polynomial in _list_cumulants()
    ]  # κ₂, κ₃, …
    moments = [np.ones_like(m), np.zeros_like(m)]
    series = np.zeros_like(m)
    for k in range(2, _HIGHEST_MOMENT + 1):
        terms = (math.comb(k - 1, j - 1) * cumulants[j - 2] * moments[k - j] for j in range(2, k + 1))
        moments.append(np.sum(list(terms), axis=0))
        series = series + moments[k] * special.polygamma(k - 1, m + 1.0) / math.factorial(k)
    return -(factorial_remainder(mean) + series)


def _list_cumulants() -> list[list[int]]:
    """Coefficients of polynomials R₂, R₃, …, highest power first, which give the cumulants.

    These are κₖ = np(1 − p) Rₖ(p) of a binomial count, and λRₖ(0) of a Poisson count. From
    κₖ₊₁ = p(1 − p) dκₖ/dp follows Rₖ₊₁ = d/dp [(p − p²) Rₖ].
    """
    polynomial = [1]  # lowest power first
    polynomials = [[1]]
    for _ in range(_HIGHEST_MOMENT - 2):
        shifted = [0, *polynomial]
        polynomial = [
            (j + 1) * (a - b) for j, (a, b) in enumerate(zip([*polynomial, 0], shifted, strict=True))
        ]
        polynomials.append(polynomial[::-1])
    return polynomials
