"""Rows, a log link and where a climb has ended → columns whose coefficients grow for ever.

Means are exponentials, so that those of targets of 0 or less can fall without end. Where they do, Newton's
steps move their scores by ½ to 1 each time and never become shorter, though by then the objective hardly
changes: the length of the next step, measured in scores, tells that from an optimum.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.linalg import eigen
from tamis.models.linear.objective import Objective

_LONG = 0.1  # of a score: at an optimum the next step is far shorter, without one it is ½ or more
_STILL = 1e-5  # of the largest change of a score: rows that change less do not move
_LOST = 1e-13  # of the largest curvature: below, rounding has a say in how long a step is
_ROUNDING = 1e-16  # of the largest curvature: what is left of a direction in which there is none
_DISTANCES = 2.0 ** np.arange(
    25
)  # of the fastest score: in the end the slowest, by `_STILL`, moved by hundreds


def find_unbounded_columns(objective: Objective, at: Array) -> NDArray[np.int64] | None:
    """Find columns along which the objective falls for ever; None if it has an optimum, as steps tell it."""
    flat = objective.flat()
    if not flat.any() or not (objective.targets <= 0).any():
        return None
    for step, is_sure in _next_steps(objective, at):
        move = np.where(flat, step, 0.0)
        moves = objective.design.scores(move)
        longest = float(np.abs(moves).max(initial=0.0))
        if longest > (_LONG if is_sure else 0.0) and _falls_for_ever(objective, at, moves / longest):
            share = (np.abs(move) * objective.design.extent()[1])[: objective.design.columns]
            return np.flatnonzero(share > 0.1 * share.max(initial=0.0))
    return None


def _next_steps(objective: Objective, at: Array) -> Iterator[tuple[Array, bool]]:
    """Newton's step from there (D,), and whether its length counts: not of directions without curvature.

    Magnitudes of the Hessian's eigenvalues are taken, so that the step descends in any case.
    """
    _, gradient = objective.value_and_gradient(at)
    hessian = objective.prior.added_to(objective.curvature(at, observed=True))
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(hessian)), np.finfo(np.float64).tiny))
    values, vectors = eigen(hessian / (scale[:, None] * scale))
    sizes = np.abs(values) / np.abs(values).max()
    raised = np.maximum(sizes, _ROUNDING) * np.abs(values).max()
    yield -(vectors @ ((vectors.T @ (gradient / scale)) / raised)) / scale, True
    for place in np.flatnonzero(sizes <= _LOST):
        yield vectors[:, place] / scale, False
        yield -vectors[:, place] / scale, False


def _falls_for_ever(objective: Objective, at: Array, moves: Array) -> bool:
    """Whether all rows that move have falling scores, and their slope stays negative however far they go."""
    moving = np.abs(moves) > _STILL
    if (moves[moving] > 0).any():
        return False
    scores, targets, moves = objective.scores(at)[moving], objective.targets[moving], moves[moving]
    weights = np.ones(len(scores)) if objective.weights is None else objective.weights[moving]
    with np.errstate(over="ignore"):
        slopes = [
            (weights * moves) @ objective.response.loss(scores + far * moves, targets)[1]
            for far in _DISTANCES
        ]
    # at last, means are too small for floats and slopes are 0
    return bool(slopes[0] < 0 and max(slopes) <= 0)
