"""Probabilities that sum to one, in both parametrisations: what the categorical and the multinomial share.

Full: one natural parameter a category, log p up to a shift that changes nothing. Minimal: the last category
is the reference, and the others have log(p / p of the last). A probability of 0 is a parameter of −∞; in the
minimal parametrisation a last probability of 0 has none, and shows as +∞ for each category that is possible.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array
from tamis.families.family import logarithm, parameter

_LOOSE = 1e-6  # probabilities computed in float32 sum to one about this well; they are then rescaled
_TIGHT = 1e-12  # what sums to one this well is kept to the bit, as given


def checked(probabilities: ArrayLike) -> Array:
    """The probabilities (..., categories), checked: not below 0, and summing to 1."""
    p = parameter(probabilities, "probabilities")
    if p.ndim == 0 or p.shape[-1] == 0:
        raise ValueError(
            f"got probabilities of shape {p.shape}, expected one per category: (..., categories)"
        )
    if not (p >= 0).all():
        raise ValueError(f"got a probability of {p.min()}, expected at least 0")
    total = p.sum(axis=-1, keepdims=True)
    off = np.abs(total - 1.0)
    if not (off <= _LOOSE).all():
        worst = float(total.flat[np.argmax(off)])
        raise ValueError(f"got probabilities that sum to {worst}, expected 1: divide them by their sum")
    return p if (off <= _TIGHT).all() else parameter(p / total, "probabilities")


def natural(probabilities: Array, minimal: bool) -> Array:
    """η of probabilities (..., categories)."""
    logs = logarithm(probabilities)
    if not minimal:
        return logs
    rest, reference = logs[..., :-1], logs[..., -1:]
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(rest), -np.inf, rest - reference)


def log_partition(eta: Array, minimal: bool) -> Array:
    """log Σ e^η, or log(1 + Σ e^η)."""
    return np.asarray(special.logsumexp(_with_reference(eta, minimal), axis=-1))


def softmax(eta: Array, minimal: bool) -> Array:
    """The probabilities (..., categories) that have these natural parameters."""
    every = _with_reference(eta, minimal)
    top = every.max(axis=-1, keepdims=True)
    if np.isnan(every).any() or np.isneginf(top).any():
        raise ValueError(
            "got natural parameters that are NaN or all −∞, expected at least one possible category"
        )
    with np.errstate(invalid="ignore"):
        share = np.exp(np.where(every == top, 0.0, every - top))
    return np.asarray(share / share.sum(axis=-1, keepdims=True))


def reduced(shares: Array, minimal: bool) -> Array:
    """All shares, or all but the reference's."""
    return shares[..., :-1] if minimal else shares


def completed(shares: Array, whole: ArrayLike, minimal: bool) -> Array:
    """The shares with the reference's put back: what is left of the whole, and 0 if rounding left less."""
    if not minimal:
        return shares
    total = np.asarray(whole)[..., None]
    rest = total - shares.sum(axis=-1, keepdims=True)
    rest = np.where((rest < 0) & (rest > -_TIGHT * total), 0.0, rest)
    given = np.broadcast_to(shares, (*rest.shape[:-1], shares.shape[-1]))
    return np.concatenate([given, rest], axis=-1)


def _with_reference(eta: Array, minimal: bool) -> Array:
    return np.concatenate([eta, np.zeros((*eta.shape[:-1], 1))], axis=-1) if minimal else eta
