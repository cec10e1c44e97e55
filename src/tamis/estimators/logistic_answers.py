"""A posterior of coefficients → probabilities of classes, averaged over it; a run of rows at a time."""

from typing import Any

import numpy as np
from scipy import special

from tamis.arrays import Array
from tamis.estimators.curved_state import CurvedState
from tamis.models.linear.design import Design
from tamis.models.linear.laplace import averaged, averaged_softmax
from tamis.models.linear.softmax import Softmax
from tamis.tables import runs

_CELLS = 1 << 20  # scores of draws, or covariances of scores, in memory at a time


def probit(state: CurvedState, design: Design, scores: Array) -> Array:
    """By MacKay's closed form (n, K)."""
    response = state.response
    if not isinstance(response, Softmax):
        odds = averaged(scores[:, 0], state.posterior.score_variances(design))
        return np.column_stack([special.expit(-odds), special.expit(odds)])
    found = np.empty_like(scores)
    covariance = state.posterior.covariance()
    for part in runs(len(scores), max(design.width, 4 * response.classes**2), _CELLS):
        own = state.posterior.score_covariances(design.take(part), response, covariance)
        found[part] = averaged_softmax(scores[part], own)
    return found


def drawn(state: CurvedState, design: Design, rng: np.random.Generator, count: int) -> Array:
    """By draws of the coefficients (n, K)."""
    draws: Any = state.posterior.draw(rng, count)
    total = np.zeros((len(design), max(2, len(state.outputs))))
    for part in runs(len(draws), len(design) * total.shape[1], _CELLS):
        cells = state.lifted(draws[part])  # (draws, outputs, width)
        scores = design.scores(cells.reshape(-1, cells.shape[-1])).reshape(len(design), *cells.shape[:2])
        if isinstance(state.response, Softmax):
            shares = state.response.probabilities(scores.reshape(-1, cells.shape[1]))
            total += shares.reshape(scores.shape).sum(axis=1)
        else:
            total[:, 1] += special.expit(scores[..., 0]).sum(axis=1)
            total[:, 0] += special.expit(-scores[..., 0]).sum(axis=1)
    return np.asarray(total / count)
