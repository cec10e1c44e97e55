"""Probabilities that sum to one, in both parametrisations, for the categorical and the multinomial family.

Full: one natural parameter per category, log p plus any constant. Minimal: the last category is the
reference, and the others have log(p / p of the last). A probability of 0 is a parameter of −∞. In the minimal
parametrisation, if the last probability is 0, each category of positive probability has the parameter +∞.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array
from tamis.families.family import freeze_parameter, log_or_minus_infinity

_LARGEST_ERROR = 1e-6  # probabilities whose sum differs more from 1 are refused; those of float32 differ less
_ROUNDING = 1e-12  # a smaller difference of a sum from 1, or of a probability below 0, is a rounding error


def check_probabilities(probabilities: ArrayLike) -> Array:
    """Return the probabilities (..., categories); raise unless they are at least 0 and sum to 1.

    If the sum differs from 1 by at most 1e-6, as that of float32 numbers may, the result is divided by it.
    """
    p = freeze_parameter(probabilities, "probabilities")
    if p.ndim == 0 or p.shape[-1] == 0:
        raise ValueError(
            f"got probabilities of shape {p.shape}, expected one per category: (..., categories)"
        )
    if not (p >= 0).all():
        raise ValueError(f"got a probability of {p.min()}, expected at least 0")
    total = p.sum(axis=-1, keepdims=True)
    error = np.abs(total - 1.0)
    if not (error <= _LARGEST_ERROR).all():
        wrong_sum = float(total.flat[np.argmax(error)])
        raise ValueError(f"got probabilities that sum to {wrong_sum}, expected 1: divide them by their sum")
    return p if (error <= _ROUNDING).all() else freeze_parameter(p / total, "probabilities")


def natural(probabilities: Array, minimal: bool) -> Array:
    """η of probabilities (..., categories)."""
    logs = log_or_minus_infinity(probabilities)
    if not minimal:
        return logs
    rest, reference = logs[..., :-1], logs[..., -1:]
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(rest), -np.inf, rest - reference)


def log_partition(eta: Array, minimal: bool) -> Array:
    """log Σ e^η, or log(1 + Σ e^η) if minimal."""
    return np.asarray(special.logsumexp(_append_reference(eta, minimal), axis=-1))


def softmax(eta: Array, minimal: bool) -> Array:
    """The probabilities (..., categories) that have these natural parameters."""
    eta_of_all = _append_reference(eta, minimal)
    largest = eta_of_all.max(axis=-1, keepdims=True)
    if np.isnan(eta_of_all).any() or np.isneginf(largest).any():
        raise ValueError(
            "got natural parameters that are NaN or all −∞, expected at least one possible category"
        )
    with np.errstate(invalid="ignore"):
        ratios = np.exp(np.where(eta_of_all == largest, 0.0, eta_of_all - largest))
    return np.asarray(ratios / ratios.sum(axis=-1, keepdims=True))


def drop_reference(values: Array, minimal: bool) -> Array:
    """Drop the last probability or count if the parametrisation is minimal."""
    return values[..., :-1] if minimal else values


def add_reference(values: Array, total: ArrayLike, minimal: bool) -> Array:
    """If minimal, append the last probability or count: the total minus the others, which are given."""
    if not minimal:
        return values
    sums = np.asarray(total)[..., None]
    rest = sums - values.sum(axis=-1, keepdims=True)
    rest = np.where((rest < 0) & (rest > -_ROUNDING * sums), 0.0, rest)
    others = np.broadcast_to(values, (*rest.shape[:-1], values.shape[-1]))
    return np.concatenate([others, rest], axis=-1)


def _append_reference(eta: Array, minimal: bool) -> Array:
    """Append the natural parameter of the reference, which is 0, if the parametrisation is minimal."""
    return np.concatenate([eta, np.zeros((*eta.shape[:-1], 1))], axis=-1) if minimal else eta
