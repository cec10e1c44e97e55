"""Functions for priors of a rate: the gamma prior, and the prior of a normal distribution's inverse variance.

Events s in a time t update Gamma(a, b) to Gamma(a + s, b + t): counts and their exposure for the Poisson,
number and sum of waiting times for the exponential, half the weight and half the scatter for the normal. The
large terms of the gamma functions are cancelled algebraically in all formulas (see `families.stirling`).
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis.arrays import Array
from tamis.conjugate.ascent import (
    LEAST_MEAN,
    LEAST_STRENGTH,
    MOST_STRENGTH,
    OVERDISPERSED,
    UNDERDISPERSED,
    maximize,
    warn_where,
)
from tamis.families.normalizers import log_gamma_normalizer
from tamis.families.stirling import bregman, deviance, digamma_rise, remainder


def log_density(shape: Array, rate: Array, value: Array) -> Array:
    """The log-density of a gamma distribution at a rate; −∞ below zero, NaN at NaN."""
    inside = np.where((value > 0) & np.isfinite(value), value, 1.0)
    density = -deviance(shape, rate * inside, shape - rate * inside) - remainder(shape) - np.log(inside)
    outside = np.where(np.isnan(value), np.nan, -np.inf)
    at_zero = special.xlogy(shape - 1.0, 0.0) - log_gamma_normalizer(shape, rate)
    return np.where((value > 0) & np.isfinite(value), density, np.where(value == 0, at_zero, outside))


def kl(shape: Array, rate: Array, other_shape: Array, other_rate: Array) -> Array:
    """KL(Gamma(shape, rate) ‖ Gamma(other_shape, other_rate))."""
    step = (other_shape * rate - other_rate * shape) / rate
    loss = deviance(other_shape, other_rate * (shape / rate), step)
    # A divergence is never negative, except by rounding.
    return np.asarray(np.maximum(loss + bregman(other_shape, shape), 0.0))


def fit(events: Array, time: Array, is_time_weight: bool) -> tuple[Array, Array]:
    """The shape and the rate (*cells,) of largest evidence, for events and times (groups, *cells).

    Each cell has its own prior. The weight of a group is its time if `is_time_weight` (the exposure of a
    Poisson count), else its number of events (of waiting times). Time is measured in units of the mean time
    between events, so that the bounds do not depend on the caller's unit.
    """
    cells = events.shape[1:]
    s, time = events.reshape(len(events), -1), time.reshape(len(time), -1)
    if not is_time_weight and not (time.sum(axis=0) > 0).all():
        raise ValueError("got waiting times that are all zero, expected some above: their rate is infinite")
    has_events = s.sum(axis=0) > 0
    pooled = np.where(has_events, s.sum(axis=0), LEAST_MEAN) / np.maximum(time.sum(axis=0), 1e-300)
    t = time * pooled
    heaviest = (t if is_time_weight else s).max(axis=0)
    start = np.column_stack([np.zeros_like(pooled), np.log(_choose_start(s, t, is_time_weight))])
    lower, upper = start - 40.0, start + 40.0
    lower[:, 1] = np.log(LEAST_STRENGTH * np.minimum(heaviest, 1.0))
    upper[:, 1] = np.log(MOST_STRENGTH * heaviest)
    without_events = np.column_stack([np.zeros_like(pooled), np.log(heaviest)])
    lower, start, upper = (
        np.where(has_events[:, None], bound, without_events) for bound in (lower, start, upper)
    )

    def objective(point: Array, active: NDArray[np.int64]) -> tuple[Array, Array]:
        """The log-evidence, up to a constant, and its gradient at points: see `_unpack_parameters`.

        `active` has the indices of the points' cells, those that `maximize` has not finished.
        """
        (a, b), events, time = _unpack_parameters(point), s[:, active], t[:, active]
        value = _relative_log_evidence(a, b, events, time).sum(axis=0)
        by_shape = a * (digamma_rise(a, events) - np.log1p(time / b)).sum(axis=0)
        by_rate = ((a * time - b * events) / (b + time)).sum(axis=0)
        return value, np.column_stack([-by_rate, by_shape + by_rate])

    optimum = maximize(objective, start, lower, upper)
    warn_where(has_events & (optimum[:, 1] >= upper[:, 1]), UNDERDISPERSED)
    warn_where(has_events & (optimum[:, 1] <= lower[:, 1]), OVERDISPERSED)
    a, b = _unpack_parameters(optimum)
    return a.reshape(cells), (b / pooled).reshape(cells)


def _relative_log_evidence(shape: Array, rate: Array, events: Array, time: Array) -> Array:
    """log_gamma_normalizer of each group's posterior − that of the prior, minus a constant.

    That is `log_gamma_ratio` minus the maximum of the group's log-likelihood. This constant may be as low as
    −1,000,000; with it, rounding would hide small changes of the evidence.
    """
    posterior = (shape + events) / (rate + time)
    step = (shape * time - rate * events) / (rate + time)
    likelihood = np.where(
        time > 0, -deviance(events, time * posterior, -step), special.xlogy(events, posterior)
    )
    loss = deviance(shape, rate * posterior, step)
    return np.asarray(likelihood - loss + (remainder(shape + events) - remainder(shape)))


def _unpack_parameters(point: Array) -> tuple[Array, Array]:
    """Shape and rate (cells,), from points (cells, 2): log mean and log shape."""
    shape = np.exp(point[:, 1])
    return shape, shape / np.exp(point[:, 0])


def _choose_start(events: Array, time: Array, is_time_weight: bool) -> Array:
    """The starting shape, by the method of moments.

    For counts of rate 1, E[χ²] = degrees of freedom + Σt / shape.
    """
    if not is_time_weight:
        return np.full(events.shape[1:], 2.0)
    square = np.square(events - time) / np.where(time > 0, time, 1.0)
    excess = square.sum(axis=0) - (time > 0).sum(axis=0)
    heaviest = time.max(axis=0)
    shape = time.sum(axis=0) / np.maximum(excess, 1e-2)
    return np.asarray(np.clip(shape, 1e-3 * np.minimum(heaviest, 1.0), 10.0 * heaviest))
