"""Beliefs in a rate: what Gamma, and the variance of a normal (its inverse is a rate), have in common.

Events s in a time t update Gamma(a, b) to Gamma(a + s, b + t): counts and their exposure for the Poisson,
number and sum of waiting times for the exponential, half the weight and half the scatter for the normal. Each
formula is the textbook's with the bulk of its gamma functions cancelled on paper (see stirling).
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
    UNDERDISPERSED,
    climb,
    warn_where,
)
from tamis.families.stirling import bregman, deviance, digamma_rise, remainder


def log_normalizer(shape: Array, rate: Array) -> Array:
    """log Γ(a) / b^a."""
    return np.asarray(special.gammaln(shape) - shape * np.log(rate))


def log_ratio(shape: Array, rate: Array, events: Array, time: Array) -> Array:
    """log_normalizer(shape + events, rate + time) − log_normalizer(shape, rate)."""
    posterior = (shape + events) / (rate + time)
    step = (shape * time - rate * events) / (rate + time)
    likelihood = events * np.log(posterior) - time * posterior
    loss = deviance(shape, rate * posterior, step)
    return np.asarray(likelihood - loss + (remainder(shape + events) - remainder(shape)))


def log_density(shape: Array, rate: Array, value: Array) -> Array:
    """Of the belief, at a rate; −∞ below zero, NaN at NaN."""
    inside = np.where((value > 0) & np.isfinite(value), value, 1.0)
    density = -deviance(shape, rate * inside, shape - rate * inside) - remainder(shape) - np.log(inside)
    outside = np.where(np.isnan(value), np.nan, -np.inf)
    at_zero = special.xlogy(shape - 1.0, 0.0) - log_normalizer(shape, rate)
    return np.where((value > 0) & np.isfinite(value), density, np.where(value == 0, at_zero, outside))


def kl(shape: Array, rate: Array, other_shape: Array, other_rate: Array) -> Array:
    """From Gamma(shape, rate) to Gamma(other_shape, other_rate)."""
    step = (other_shape * rate - other_rate * shape) / rate
    loss = deviance(other_shape, other_rate * (shape / rate), step)
    # it cannot be below; only rounding can say otherwise
    return np.asarray(np.maximum(loss + bregman(other_shape, shape), 0.0))


def fit(events: Array, time: Array, by_time: bool) -> tuple[Array, Array]:
    """Shape and rate (*cells,) of largest evidence for groups of events in times (groups, *cells).

    A group's weight is its time (`by_time`, the Poisson's exposure) or its number of events (waiting times).
    """
    cells = events.shape[1:]
    s, t = events.reshape(len(events), -1), time.reshape(len(time), -1)
    weight = t if by_time else s
    heaviest = weight.max(axis=0)
    if not by_time and not (t.sum(axis=0) > 0).all():
        raise ValueError("got waiting times that are all zero, expected some above: their rate is infinite")
    mean = np.maximum(s.sum(axis=0), LEAST_SHARE) / np.maximum(t.sum(axis=0), 1e-300)
    start = np.column_stack([np.log(mean), np.log(_strength(s, t, mean, by_time))])
    lower, upper = start - 40.0, start + 40.0
    lower[:, 0] = np.where(s.sum(axis=0) > 0, lower[:, 0], start[:, 0])
    lower[:, 1] = np.log(LEAST_STRENGTH * (heaviest if by_time else np.ones_like(heaviest)))
    upper[:, 1] = np.log(MOST_STRENGTH * heaviest)

    def height(place: Array, live: NDArray[np.int64]) -> tuple[Array, Array]:
        (a, b), n, time = _parameters(place, by_time), s[:, live], t[:, live]
        value = log_ratio(a, b, n, time).sum(axis=0)
        by_shape = a * (digamma_rise(a, n) - np.log1p(time / b)).sum(axis=0)
        by_rate = ((a * time - b * n) / (b + time)).sum(axis=0)
        return value, np.column_stack([by_shape if by_time else -by_rate, by_shape + by_rate])

    top = climb(height, start, lower, upper)
    warn_where(top[:, 1] >= upper[:, 1], UNDERDISPERSED)
    warn_where(top[:, 1] <= lower[:, 1], OVERDISPERSED)
    a, b = _parameters(top, by_time)
    return a.reshape(cells), b.reshape(cells)


def _parameters(place: Array, by_time: bool) -> tuple[Array, Array]:
    """log mean and log strength (cells, 2) → shape and rate (cells,)."""
    mean, strength = np.exp(place[:, 0]), np.exp(place[:, 1])
    return (mean * strength, strength) if by_time else (strength, strength / mean)


def _strength(events: Array, time: Array, mean: Array, by_time: bool) -> Array:
    """By moments, to start from: of counts, χ² exceeds its degrees of freedom by Σt / strength."""
    if not by_time:
        return np.full(events.shape[1:], 2.0)
    expected = time * mean
    square = np.square(events - expected) / np.where(expected > 0, expected, 1.0)
    excess = square.sum(axis=0) - (time > 0).sum(axis=0)
    strength = time.sum(axis=0) / np.maximum(excess, 1e-2)
    return np.asarray(np.clip(strength, 1e-3 * time.max(axis=0), 10.0 * time.max(axis=0)))
