"""Normalizers of the gamma and the Dirichlet distribution, and ratios of two of them.

The log-evidence of a statistic, and the predictive probability of one observation, are such ratios. A
difference of two log-normalizers would lose all digits where counts are large; so in each formula the large
terms of the gamma functions are cancelled algebraically (see `stirling`).
"""

import numpy as np
from scipy import special

from tamis.arrays import Array
from tamis.families.stirling import deviance, remainder


def log_gamma_normalizer(shape: Array, rate: Array) -> Array:
    """log Γ(a) / b^a."""
    return np.asarray(special.gammaln(shape) - shape * np.log(rate))


def log_gamma_ratio(shape: Array, rate: Array, events: Array, time: Array) -> Array:
    """log_gamma_normalizer(shape + events, rate + time) − log_gamma_normalizer(shape, rate)."""
    mean = (shape + events) / (rate + time)  # of the posterior
    step = (shape * time - rate * events) / (rate + time)  # shape − rate · mean
    likelihood = events * np.log(mean) - time * mean
    loss = deviance(shape, rate * mean, step)
    return np.asarray(likelihood - loss + (remainder(shape + events) - remainder(shape)))


def log_dirichlet_normalizer(concentration: Array) -> Array:
    """log ∏Γ(α_i) / Γ(Σα), over the last axis."""
    gammas = special.gammaln(concentration).sum(axis=-1)
    return np.asarray(gammas - special.gammaln(concentration.sum(axis=-1)))


def log_dirichlet_ratio(concentration: Array, counts: Array) -> Array:
    """log_dirichlet_normalizer(concentration + counts) − log_dirichlet_normalizer(concentration)."""
    strength, weight = concentration.sum(axis=-1, keepdims=True), counts.sum(axis=-1, keepdims=True)
    posterior, total = concentration + counts, strength + weight
    step = concentration * (weight / total) - strength * (counts / total)  # as `deviance` takes it
    with np.errstate(over="ignore"):
        likelihood = -counts * np.log1p(np.where(counts != 0, sum_of_others(posterior) / posterior, 0.0))
    loss = deviance(concentration, posterior * (strength / total), step)
    terms = likelihood - loss + (remainder(posterior) - remainder(concentration))
    return np.asarray(terms.sum(axis=-1) - (remainder(total) - remainder(strength))[..., 0])


def sum_of_others(x: Array) -> Array:
    """For each number, the sum of all others on the last axis.

    It does not subtract from the total, which would lose small numbers beside large ones.
    """
    before = np.cumsum(x, axis=-1)
    after = np.cumsum(x[..., ::-1], axis=-1)[..., ::-1]
    others = np.zeros_like(x)
    others[..., 1:] += before[..., :-1]
    others[..., :-1] += after[..., 1:]
    return others
