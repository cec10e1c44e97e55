"""Functions for priors of probabilities that sum to one: Beta (two probabilities) and Dirichlet (any number).

The probabilities are on the last axis of all arrays. The large terms of the gamma functions are cancelled
algebraically in all formulas (see `families.stirling`). What is left of a log-evidence is the log-likelihood
at the posterior mean, minus the deviance of the prior mean from it, minus remainders of log Γ, which penalise
vague priors (the Occam factor).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis.arrays import Array
from tamis.conjugate.ascent import (
    LEAST_MEAN,
    LEAST_STRENGTH,
    MOST_STRENGTH,
    OVERDISPERSED,
    SINGLES,
    UNDERDISPERSED,
    maximize,
    warn_where,
)
from tamis.conjugate.prior import refuse_unless_grouped
from tamis.families.normalizers import log_dirichlet_ratio, sum_of_others
from tamis.families.stirling import bregman, deviance, digamma_rise, factorial_remainder, remainder

# With at most this number of categories, L-BFGS (`ascent.maximize`) is enough. For 500 categories in 200
# groups of 300 observations, it evaluates the evidence 319 times, in 7.7 s; after 5 steps of Newton's method,
# only 14 times, and both together take 0.6 s.
_FEW_CATEGORIES = 8
_NEWTON_STEPS = 60  # the largest number of steps
_SUM_TOLERANCE = 1e-6  # by which the sum of probabilities, which may be float32, may differ from 1


def log_mass(concentration: Array, counts: Array) -> Array:
    """The log-probability of counts under a Dirichlet-multinomial, with the multinomial coefficient."""
    strength, weight = concentration.sum(axis=-1, keepdims=True), counts.sum(axis=-1, keepdims=True)
    posterior, total = concentration + counts, strength + weight
    step = strength * (counts / total) - concentration * (weight / total)
    loss = deviance(counts, posterior * (weight / total), step)
    loss = loss + deviance(concentration, posterior * (strength / total), -step)
    terms = remainder(posterior) - remainder(concentration) - factorial_remainder(counts) - loss
    pooled = remainder(total) - remainder(strength) - factorial_remainder(weight)
    return np.asarray(terms.sum(axis=-1) - pooled[..., 0])


def log_density(concentration: Array, probabilities: Array) -> Array:
    """The log-density of a Dirichlet distribution at probabilities; NaN where one is NaN.

    It is −∞ outside the simplex, where a probability is negative or they do not sum to 1. The logarithm of a
    probability near 1 is computed from the sum of the others, because float64 rounds 1 − 1e-17 to 1.
    """
    strength, total = concentration.sum(axis=-1, keepdims=True), probabilities.sum(axis=-1, keepdims=True)
    on_simplex = ((probabilities >= 0) & (np.abs(total - 1.0) <= _SUM_TOLERANCE)).all(axis=-1)
    inside = probabilities > 0
    x = np.where(
        inside & on_simplex[..., None], probabilities / np.where(on_simplex[..., None], total, 1.0), 0.0
    )
    others = sum_of_others(x)
    step = concentration * others - x * sum_of_others(concentration)
    logs = np.where(x > 0.5, np.log1p(-np.minimum(others, 0.5)), np.log(np.where(x > 0, x, 1.0)))
    terms = -deviance(concentration, strength * x, step) - remainder(concentration) - logs
    # A probability of 0 multiplies the density by 0, by the strength, or by ∞.
    edge = np.where(concentration == 1, np.log(strength), np.where(concentration > 1, -np.inf, np.inf))
    with np.errstate(invalid="ignore"):  # 0 · ∞ is NaN: two probabilities are 0, with opposite effects
        density = np.where(x > 0, terms, edge).sum(axis=-1) + remainder(strength)[..., 0]
    return np.where(on_simplex, density, np.where(np.isnan(probabilities).any(axis=-1), np.nan, -np.inf))


def kl(concentration: Array, other: Array) -> Array:
    """KL(Dirichlet(concentration) ‖ Dirichlet(other))."""
    strength, others = concentration.sum(axis=-1, keepdims=True), other.sum(axis=-1, keepdims=True)
    step = (other * strength - concentration * others) / strength
    loss = deviance(other, concentration * (others / strength), step)
    divergence = (loss + bregman(other, concentration)).sum(axis=-1) - bregman(others, strength)[..., 0]
    return np.asarray(np.maximum(divergence, 0.0))  # a divergence is never negative, except by rounding


def fit(counts: Array) -> Array:
    """The concentration (*cells, K) of largest evidence, for groups of counts (groups, *cells, K).

    Each cell has its own prior.
    """
    refuse_unless_grouped(counts.sum(axis=-1))
    groups, cells, k = len(counts), counts.shape[1:-1], counts.shape[-1]
    table = counts.reshape(groups, -1, k)
    weight = table.sum(axis=-1)
    heaviest = weight.max(axis=0)
    start_mean = np.maximum(table.sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300)[:, None], LEAST_MEAN)
    strength = _choose_start(table, weight, start_mean)
    if k > _FEW_CATEGORIES:
        start_mean, strength = _maximize_by_newton(table, weight, start_mean, strength)
    start = np.column_stack([np.log(start_mean), np.log(strength)])
    lower, upper = np.full_like(start, np.log(LEAST_MEAN)), np.full_like(start, 5.0)
    lower[:, -1], upper[:, -1] = np.log(LEAST_STRENGTH), np.log(MOST_STRENGTH * np.maximum(heaviest, 1.0))

    def objective(point: Array, active: NDArray[np.int64]) -> tuple[Array, Array]:
        """The log-evidence and its gradient at points (active, K + 1): logits of means, and log strength.

        `active` has the indices of the points' cells, those that `maximize` has not finished.
        """
        mean = special.softmax(point[:, :-1], axis=-1)
        concentration = mean * np.exp(point[:, -1:])
        value = log_dirichlet_ratio(concentration, table[:, active]).sum(axis=0)
        pooled = digamma_rise(concentration.sum(axis=-1, keepdims=True), weight[:, active, None])
        rise = digamma_rise(concentration, table[:, active]) - pooled
        by_mean = (rise * concentration).sum(axis=0)
        by_strength = by_mean.sum(axis=-1, keepdims=True)
        return value, np.concatenate([by_mean - mean * by_strength, by_strength], axis=-1)

    optimum = maximize(objective, start, lower, upper)
    single = (((table == 0) | (table == 1)) & (weight <= 1)[..., None]).all(axis=(0, -1))
    warn_where(single, SINGLES)
    warn_where(~single & (optimum[:, -1] >= upper[:, -1]), UNDERDISPERSED)
    warn_where(~single & (optimum[:, -1] <= lower[:, -1]), OVERDISPERSED)
    strength = np.where(single, 1.0, np.exp(optimum[:, -1]))[:, None]
    return np.asarray((special.softmax(optimum[:, :-1], axis=-1) * strength).reshape(*cells, k))


def _choose_start(table: Array, weight: Array, mean: Array) -> Array:
    """The starting strength, by the method of moments.

    It solves E[χ²] = degrees of freedom · (1 + Σ(n − 1) / (strength + 1)).
    """
    expected = weight[..., None] * mean
    square = np.square(table - expected) / np.where(expected > 0, expected, 1.0)
    freedom = np.maximum((table.sum(axis=0) > 0).sum(axis=-1) - 1, 1)
    excess = square.sum(axis=(0, -1)) / freedom - (weight > 0).sum(axis=0)
    strength = np.maximum(weight - 1.0, 0.0).sum(axis=0) / np.maximum(excess, 1e-2) - 1.0
    return np.asarray(np.clip(strength, 0.01, 10.0 * np.maximum(weight.max(axis=0), 1.0)))


def _maximize_by_newton(table: Array, weight: Array, mean: Array, strength: Array) -> tuple[Array, Array]:
    """Mean probabilities (cells, K) and strength (cells,) near the optimum, by Newton's method.

    Its coordinates are the logarithms of the concentrations α. The Hessian is a diagonal plus an outer
    product (T. Minka, Estimating a Dirichlet distribution, 2000), so that a step costs no more than a
    gradient. The Hessian is made negative definite, and steps are halved until the evidence increases.
    """
    least, most = LEAST_STRENGTH, MOST_STRENGTH * np.maximum(weight.max(axis=0), 1.0)

    def clip(logs: Array) -> Array:
        peak = logs.max(axis=-1, keepdims=True)
        total = peak[:, 0] + np.log(np.exp(logs - peak).sum(axis=-1))
        logs = logs + (np.clip(total, np.log(least), np.log(most)) - total)[:, None]
        return np.asarray(np.maximum(logs, np.log(LEAST_MEAN) + np.minimum(total, np.log(most))[:, None]))

    point = clip(np.log(mean * strength[:, None]))
    value = log_dirichlet_ratio(np.exp(point), table).sum(axis=0)
    for _ in range(_NEWTON_STEPS):
        step = _newton_step(np.exp(point), table, weight)
        step = step * np.minimum(1.0, 2.0 / np.maximum(np.abs(step).max(axis=-1, keepdims=True), 1e-300))
        for _ in range(10):
            new_point = clip(point + step)
            new_value = log_dirichlet_ratio(np.exp(new_point), table).sum(axis=0)
            is_worse = ~(new_value >= value)
            if not is_worse.any():
                break
            step = np.where(is_worse[:, None], 0.5 * step, step)
        increase = np.where(is_worse, 0.0, new_value - value)
        point = np.where(is_worse[:, None], point, new_point)
        value = np.where(is_worse, value, new_value)
        if (increase <= 1e-12 * (1.0 + np.abs(value))).all():
            break
    alpha = np.exp(point)
    total = alpha.sum(axis=-1)
    return np.asarray(np.maximum(alpha / total[:, None], LEAST_MEAN)), total


def _newton_step(alpha: Array, table: Array, weight: Array) -> Array:
    """Newton's step in log α (cells, K)."""
    strength = alpha.sum(axis=-1)
    positive_counts = table > 0
    pooled = digamma_rise(strength, weight).sum(axis=0)[:, None]
    gradient = alpha * (_sum_over_groups(digamma_rise, alpha, table, positive_counts) - pooled)
    curvature = np.square(alpha) * _sum_over_groups(
        _trigamma_rise, alpha, table, positive_counts
    ) + np.minimum(gradient, 0.0)
    curvature = np.minimum(curvature, -1e-300)
    outer = -_trigamma_rise(strength, weight).sum(axis=0)
    outer = np.minimum(outer, (1.0 - 1e-8) / (np.square(alpha) / -curvature).sum(axis=-1))
    # The inverse of diagonal plus outer product, by the Sherman–Morrison formula.
    by_gradient, by_alpha = gradient / curvature, alpha / curvature
    factor = outer * (alpha * by_gradient).sum(axis=-1) / (1.0 + outer * (alpha * by_alpha).sum(axis=-1))
    return np.asarray(by_alpha * factor[:, None] - by_gradient)


def _trigamma_rise(x: Array, n: Array) -> Array:
    """ψ′(x + n) − ψ′(x); the trigamma function ψ′(x) is the Hurwitz zeta function ζ(2, x)."""
    return np.asarray(special.zeta(2.0, x + n) - special.zeta(2.0, x))


def _sum_over_groups(
    rise: Callable[[Array, Array], Array], alpha: Array, table: Array, positive_counts: NDArray[np.bool_]
) -> Array:
    """Σ over groups of the rise of a function at each positive count (cells, K); it is 0 at a count of 0."""
    rises = np.zeros(table.shape)
    rises[positive_counts] = rise(
        np.broadcast_to(alpha, table.shape)[positive_counts], table[positive_counts]
    )
    return np.asarray(rises.sum(axis=0))
