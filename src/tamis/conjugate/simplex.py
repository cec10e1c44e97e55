"""Beliefs in shares that sum to one: what Beta (two shares) and Dirichlet (any number) have in common.

All arrays have the shares on their last axis. Each formula is the textbook's with the bulk of its gamma
functions cancelled on paper (see stirling). What is left of an evidence is a likelihood at the posterior
mean, less the deviance of the prior mean from it, less remainders that a reader may know as Occam's factor.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis.arrays import Array
from tamis.conjugate.ascent import (
    LEAST_SHARE,
    LEAST_STRENGTH,
    MOST_STRENGTH,
    OVERDISPERSED,
    SINGLES,
    UNDERDISPERSED,
    climb,
    warn_where,
)
from tamis.conjugate.prior import refuse_unless_grouped
from tamis.families.stirling import bregman, deviance, digamma_rise, factorial_remainder, remainder

_ON_SIMPLEX = 1e-9  # how far from one shares may sum and still be shares


def rest(x: Array) -> Array:
    """The sum of all others, for each: without a subtraction, which would lose the small beside the large."""
    before = np.cumsum(x, axis=-1)
    after = np.cumsum(x[..., ::-1], axis=-1)[..., ::-1]
    others = np.zeros_like(x)
    others[..., 1:] += before[..., :-1]
    others[..., :-1] += after[..., 1:]
    return others


def log_normalizer(concentration: Array) -> Array:
    """log ∏Γ(α_i) / Γ(Σα)."""
    gammas = special.gammaln(concentration).sum(axis=-1)
    return np.asarray(gammas - special.gammaln(concentration.sum(axis=-1)))


def log_ratio(concentration: Array, counts: Array) -> Array:
    """log_normalizer(concentration + counts) − log_normalizer(concentration)."""
    strength, weight = concentration.sum(axis=-1, keepdims=True), counts.sum(axis=-1, keepdims=True)
    posterior, total = concentration + counts, strength + weight
    step = concentration * (weight / total) - strength * (counts / total)
    with np.errstate(over="ignore"):
        likelihood = -counts * np.log1p(np.where(counts != 0, rest(posterior) / posterior, 0.0))
    loss = deviance(concentration, posterior * (strength / total), step)
    terms = likelihood - loss + (remainder(posterior) - remainder(concentration))
    return np.asarray(terms.sum(axis=-1) - (remainder(total) - remainder(strength))[..., 0])


def log_mass(concentration: Array, counts: Array) -> Array:
    """Of counts drawn with shares that the belief draws: log_ratio and the multinomial coefficient."""
    strength, weight = concentration.sum(axis=-1, keepdims=True), counts.sum(axis=-1, keepdims=True)
    posterior, total = concentration + counts, strength + weight
    step = strength * (counts / total) - concentration * (weight / total)
    loss = deviance(counts, posterior * (weight / total), step)
    loss = loss + deviance(concentration, posterior * (strength / total), -step)
    terms = remainder(posterior) - remainder(concentration) - factorial_remainder(counts) - loss
    pooled = remainder(total) - remainder(strength) - factorial_remainder(weight)
    return np.asarray(terms.sum(axis=-1) - pooled[..., 0])


def log_density(concentration: Array, shares: Array) -> Array:
    """Of the belief, at shares; −∞ off the simplex, NaN at NaN."""
    strength = concentration.sum(axis=-1, keepdims=True)
    inside = np.where((shares > 0) & (shares < 1), shares, 0.5)
    expected = strength * inside
    terms = (
        deviance(concentration, expected, concentration - expected)
        + remainder(concentration)
        + np.log(inside)
    )
    density = remainder(strength)[..., 0] - terms.sum(axis=-1)
    with np.errstate(invalid="ignore"):  # 0 · ∞ at an edge that one share seeks and another shuns: NaN
        at_edge = special.xlogy(concentration - 1.0, shares).sum(axis=-1) - log_normalizer(concentration)
    density = np.where(((shares > 0) & (shares < 1)).all(axis=-1), density, at_edge)
    on = (shares >= 0).all(axis=-1) & (np.abs(shares.sum(axis=-1) - 1.0) <= _ON_SIMPLEX)
    return np.where(on, density, np.where(np.isnan(shares).any(axis=-1), np.nan, -np.inf))


def kl(concentration: Array, other: Array) -> Array:
    """From the belief with one concentration to that with another."""
    strength, others = concentration.sum(axis=-1, keepdims=True), other.sum(axis=-1, keepdims=True)
    step = (other * strength - concentration * others) / strength
    loss = deviance(other, concentration * (others / strength), step)
    divergence = (loss + bregman(other, concentration)).sum(axis=-1) - bregman(others, strength)[..., 0]
    return np.asarray(np.maximum(divergence, 0.0))  # it cannot be below; only rounding can say otherwise


def fit(counts: Array) -> Array:
    """The concentration (*cells, K) of largest evidence for groups of counts (groups, *cells, K)."""
    refuse_unless_grouped(counts.sum(axis=-1))
    groups, cells, k = len(counts), counts.shape[1:-1], counts.shape[-1]
    table = counts.reshape(groups, -1, k)
    weight = table.sum(axis=-1)
    heaviest = weight.max(axis=0)
    share = np.maximum(table.sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300)[:, None], LEAST_SHARE)
    start = np.column_stack([np.log(share), np.log(_strength(table, weight, share))])
    lower, upper = np.full_like(start, np.log(LEAST_SHARE)), np.full_like(start, 5.0)
    lower[:, -1], upper[:, -1] = np.log(LEAST_STRENGTH), np.log(MOST_STRENGTH * np.maximum(heaviest, 1.0))

    def height(place: Array, live: NDArray[np.int64]) -> tuple[Array, Array]:
        mean = special.softmax(place[:, :-1], axis=-1)
        concentration = mean * np.exp(place[:, -1:])
        value = log_ratio(concentration, table[:, live]).sum(axis=0)
        pooled = digamma_rise(concentration.sum(axis=-1, keepdims=True), weight[:, live, None])
        rise = digamma_rise(concentration, table[:, live]) - pooled
        by_share = (rise * concentration).sum(axis=0)
        by_strength = by_share.sum(axis=-1, keepdims=True)
        return value, np.concatenate([by_share - mean * by_strength, by_strength], axis=-1)

    top = climb(height, start, lower, upper)
    single = heaviest <= 1.0
    warn_where(single, SINGLES)
    warn_where(~single & (top[:, -1] >= upper[:, -1]), UNDERDISPERSED)
    warn_where(~single & (top[:, -1] <= lower[:, -1]), OVERDISPERSED)
    strength = np.where(single, 1.0, np.exp(top[:, -1]))[:, None]
    return np.asarray((special.softmax(top[:, :-1], axis=-1) * strength).reshape(*cells, k))


def _strength(table: Array, weight: Array, share: Array) -> Array:
    """By moments, to start from: χ² exceeds its degrees of freedom by Σ(n − 1) / (strength + 1) each."""
    expected = weight[..., None] * share
    square = np.square(table - expected) / np.where(expected > 0, expected, 1.0)
    live = np.maximum((table.sum(axis=0) > 0).sum(axis=-1) - 1, 1)
    excess = square.sum(axis=(0, -1)) / live - (weight > 0).sum(axis=0)
    room = np.maximum(weight - 1.0, 0.0).sum(axis=0)
    strength = room / np.maximum(excess, 1e-2) - 1.0
    return np.asarray(np.clip(strength, 0.01, 10.0 * np.maximum(weight.max(axis=0), 1.0)))
