"""A posterior of coefficients → probabilities of classes, averaged over it; a run of rows at a time."""

from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.estimators.curved_state import CurvedState
from tamis.models.linear.design import Design
from tamis.models.linear.responses import ClassResponse
from tamis.tables import runs

_CELLS = 1 << 20  # scores of draws, or covariances of scores, in memory at a time


def probit(state: CurvedState, response: ClassResponse, design: Design, scores: Array) -> Array:
    """By MacKay's closed form (n, K)."""
    if response.outputs == 1:
        return response.average_probabilities(scores, state.posterior.score_variances(design))
    found = np.empty_like(scores)
    covariance = state.posterior.covariance()
    for part in runs(len(scores), max(design.width, 4 * response.classes**2), _CELLS):
        own = state.posterior.score_covariances(design.take(part), response, covariance)
        found[part] = response.average_probabilities(scores[part], own)
    return found


def drawn(
    state: CurvedState, response: ClassResponse, design: Design, rng: np.random.Generator, count: int
) -> Array:
    """By draws of the coefficients (n, K)."""
    draws: Any = state.posterior.draw(rng, count)
    total = np.zeros((len(design), response.classes))
    for part in runs(len(draws), len(design) * total.shape[1], _CELLS):
        cells = state.lifted(draws[part])  # (draws, outputs, width)
        scores = design.scores(cells.reshape(-1, cells.shape[-1])).reshape(-1, cells.shape[1])
        total += response.probabilities(scores).reshape(len(design), -1, response.classes).sum(axis=1)
    return np.asarray(total / count)
