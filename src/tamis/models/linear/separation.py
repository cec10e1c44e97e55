"""Rows and where a climb without a prior ended → whether it has an end at all: classes that lie apart.

If a plane has every row on its own side, scores may grow for ever, whatever the rows' weights; a direction
along which that is so is proof. If some rows lie on the border, they tell nothing along it, and information
dies out there.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.linalg import Cholesky, eigen
from tamis.models.linear.newton import minimise
from tamis.models.linear.objective import Objective

_LOST = 1e-3  # of one row's information at first: less along some direction, and no row holds it
_SURE = 1e-2  # of a row's information at first: if every row has more, none has gone far
_LIGHT = 1e-3  # of the mean weight: rows too light to be on their own side when a climb ends
_BORDER = 1e-4  # of the largest margin: rows no further from the border lie on it
_STRICT = 1e-12  # of the largest margin: less is rounding
_WHOLE = 1000  # parameters up to which directions are looked for; beyond, columns


def margins(objective: Objective, direction: Array) -> Array:
    """By how much rows' own classes gain on the next best along a direction (n,)."""
    scores = objective.design.scores(objective.expand(direction))
    return objective.response.margins(scores, objective.targets)


def on_own_sides(objective: Objective, direction: Array) -> bool:
    """Whether every row that has weight has its own class strictly ahead."""
    found = _weighed(objective, margins(objective, direction))
    return bool(found.min() > _STRICT * found.max()) if len(found) else False


def _weighed(objective: Objective, values: Array) -> Array:
    return values if objective.weights is None else values[objective.weights > 0]


def separating(objective: Objective, at: Array, precision: Array | None) -> NDArray[np.int64] | None:
    """Columns along which scores grow for ever, for want of rows on the wrong side and of a prior.

    None of them are named if every row is on its own side. `precision` is that of the posterior at the end
    of the climb, if it is known whole; over more than 1,000 parameters of which it is not, only single
    columns along which no class overlaps are found.
    """
    width, columns = objective.design.width, objective.design.columns
    if not objective.response.has_classes:
        return None
    flat = objective.flat()
    if not flat.reshape(-1, width)[:, :columns].any():
        return None
    loose = np.where(flat, at, 0.0)
    if on_own_sides(objective, loose) or _apart_but_for_light_rows(objective, at, flat):
        return np.empty(0, dtype=np.int64)
    if not _far_out(objective, at):
        return None
    if precision is None or precision.ndim == 1:
        if objective.size > _WHOLE:
            return _lost_columns(objective, at, loose)
        precision = objective.prior.added_to(objective.curvature(at))
    return _lost_directions(objective, at, flat, precision)


def _apart_but_for_light_rows(objective: Objective, at: Array, flat: NDArray[np.bool_]) -> bool:
    """Whether rows on the wrong side are but too light to be heard: sides do not depend on weights."""
    weights = objective.weights
    if weights is None or not flat.all():
        return False
    wrong = (margins(objective, at) <= 0.0) & (weights > 0)
    if not wrong.any() or weights[wrong].max() > _LIGHT * weights[weights > 0].mean():
        return False
    alike = replace(objective, weights=(weights > 0).astype(np.float64))
    return on_own_sides(alike, minimise(alike, np.zeros_like(at)).last.parameters)


def _far_out(objective: Objective, at: Array) -> bool:
    """Whether some row has lost nearly all its information."""
    remaining = objective.response.remaining_information(objective.scores(at))
    return bool(_weighed(objective, remaining).min() < _SURE)


def _count(objective: Objective) -> int:
    return len(_weighed(objective, objective.targets))


def _proves(objective: Objective, direction: Array) -> bool:
    """Whether along the direction some rows gain, and none lose."""
    found = _weighed(objective, margins(objective, direction))
    return bool(found.max() > 0.0 and found.min() >= -_BORDER * found.max())


def _lost_columns(objective: Objective, at: Array, loose: Array) -> NDArray[np.int64] | None:
    width, columns = objective.design.width, objective.design.columns
    first, last = objective.diagonal(np.zeros_like(at)), objective.diagonal(at)
    lost = np.logical_and(objective.flat(), last <= _LOST / _count(objective) * first)
    lost.reshape(-1, width)[:, columns:] = False
    if not lost.any() or not _proves(objective, np.where(lost, loose, 0.0)):
        return None
    return np.flatnonzero(np.asarray(lost.reshape(-1, width).any(axis=0))[:columns])


def _lost_directions(
    objective: Objective, at: Array, flat: NDArray[np.bool_], precision: Array
) -> NDArray[np.int64] | None:
    width, columns = objective.design.width, objective.design.columns
    first = objective.prior.added_to(objective.curvature(np.zeros_like(at)))
    scale = np.sqrt(np.diagonal(first))
    values, vectors = eigen(precision / (scale[:, None] * scale))
    level = _LOST * float(eigen(first / (scale[:, None] * scale))[0][0])
    lost = vectors[:, values <= level / _count(objective)]
    if not lost.shape[1]:
        return None
    direction = lost @ (lost.T @ (scale * at))  # where rows tell nothing, the climb went out for ever
    if not _proves(objective, np.where(flat, direction / scale, 0.0)):
        weights = objective.weights
        lightest = 1.0 / len(objective.targets)
        if weights is not None:
            lightest = float(weights[weights > 0].min() / weights.sum())
        if values[0] > level * lightest:
            return None
        direction = vectors[:, 0]
    share = np.abs(direction.reshape(-1, width)).max(axis=0)[:columns]
    return np.flatnonzero(share > 0.1 * share.max())


def made_definite(objective: Objective, precision: Array) -> Array:
    """A precision that rounding may have left without some direction: told there is next to nothing."""
    if precision.ndim == 1:
        least = 1e-14 * objective.diagonal(np.zeros_like(precision))
        return np.maximum(precision, np.maximum(least, np.finfo(np.float64).tiny))
    if bool(Cholesky.where_definite(precision)[1]):
        return precision
    first = np.diagonal(objective.prior.added_to(objective.curvature(np.zeros(len(precision)))))
    for share in 10.0 ** np.arange(-15.0, -5.0):
        raised = precision + share * np.diag(first)
        if bool(Cholesky.where_definite(raised)[1]):
            return np.asarray(raised)
    return np.diag(np.maximum(np.diagonal(precision), 1e-6 * first))
