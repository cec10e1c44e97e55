"""Evidence and its slope → the hyper-parameters of largest evidence, for a whole batch at once.

L-BFGS inside a box. Every cell of the batch takes its own steps, but all are evaluated together: a thousand columns
cost a few calls of NumPy more than one column, not a thousand optimisations.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array

Height = Callable[[Array], tuple[Array, Array]]  # places (cells, p) → values (cells,), slopes (cells, p)

# A prior worth a million of the heaviest group moves that group's own estimate all but a millionth of the way to the
# prior mean; nobody could tell it from an infinite one, and floats still can.
MOST_STRENGTH = 1e6
LEAST_STRENGTH = 1e-6
LEAST_SHARE = 1e-9  # of a category that no group holds, and of events that never came

_STEPS = 500  # 15 to 40 are usual; a flat ridge takes more
_MEMORY = 8
_LONGEST = 2.0  # in logarithms: a factor of 7 a step
_SLACK = 4.0 * float(np.finfo(np.float64).eps)  # of the value: nearer the top, rounding hides the rise
_FLAT = 1e-10  # of 1 + |value|


def climb(height: Height, start: Array, lower: Array, upper: Array) -> Array:
    """The top of the hill on which each cell starts (cells, p), inside lower ≤ place ≤ upper."""
    place = np.clip(start, lower, upper)
    value, slope = height(place)
    memory: list[tuple[Array, Array, Array]] = []
    stuck = np.zeros(len(place), dtype=np.bool_)
    for _ in range(_STEPS):
        held = ((place <= lower) & (slope < 0)) | ((place >= upper) & (slope > 0))
        free = np.where(held | stuck[:, None], 0.0, slope)
        if (np.abs(free).max(axis=-1) <= _FLAT * (1.0 + np.abs(value))).all():
            break
        heading = np.where(held, 0.0, _heading(free, memory))
        heading = np.where(_dot(heading, free) > 0, heading, free)
        longest = np.abs(heading).max(axis=-1, keepdims=True)
        heading = heading * np.minimum(1.0, (_LONGEST if memory else 0.5) / np.maximum(longest, 1e-300))
        reached, risen, steeper, ok = _step(height, place, value, free, heading, lower, upper)
        stuck |= ~ok
        memory = [*memory[1 - _MEMORY :], _secant(reached - place, slope - steeper)]
        place, value, slope = reached, risen, steeper
    return place


def _step(
    height: Height, place: Array, value: Array, free: Array, heading: Array, lower: Array, upper: Array
) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """Halve the step of each cell until it rises; the last says which cells found a rise."""
    length = np.ones((len(place), 1))
    for _ in range(40):
        reached = np.clip(place + length * heading, lower, upper)
        risen, slope = height(reached)
        promise = 1e-4 * _dot(free, reached - place)[:, 0] - _SLACK * np.abs(value)
        ok = (risen - value >= promise) & np.isfinite(slope).all(axis=-1)
        if ok.all():
            return reached, risen, slope, ok
        length = np.where(ok[:, None], length, 0.5 * length)
    reached = np.where(ok[:, None], reached, place)
    risen, slope = height(reached)
    return reached, risen, slope, ok


def _secant(step: Array, turn: Array) -> tuple[Array, Array, Array]:
    """Where a cell went and how its slope turned; nothing where it did not turn downwards."""
    curvature = _dot(step, turn)
    bent = curvature > 1e-12 * np.sqrt(_dot(step, step) * _dot(turn, turn))
    return np.where(bent, step, 0.0), np.where(bent, turn, 0.0), np.where(bent, curvature, 0.0)


def _heading(slope: Array, memory: list[tuple[Array, Array, Array]]) -> Array:
    """The two-loop recursion: the slope times an inverse curvature that the last steps imply."""
    heading, shares = slope, []
    for step, turn, curvature in reversed(memory):
        share = _dot(step, heading) / np.where(curvature > 0, curvature, np.inf)
        shares.append(share)
        heading = heading - share * turn
    scale = np.ones((len(slope), 1))
    for _, turn, curvature in memory:
        known = curvature > 0
        scale = np.where(known, curvature / np.where(known, _dot(turn, turn), 1.0), scale)
    heading = heading * scale
    for (step, turn, curvature), share in zip(memory, reversed(shares), strict=True):
        heading = heading + step * (share - _dot(turn, heading) / np.where(curvature > 0, curvature, np.inf))
    return heading


def _dot(a: Array, b: Array) -> Array:
    return (a * b).sum(axis=-1, keepdims=True)


def warn_where(held: NDArray[np.bool_], what: str) -> None:
    """Say which beliefs of a batch stopped at an edge, and why."""
    if held.any():
        where = "" if held.size == 1 else f" ({int(held.sum())} of {held.size} beliefs)"
        warnings.warn(f"{what}{where}", RuntimeWarning, stacklevel=4)


UNDERDISPERSED = (
    "the groups differ no more than chance would make them, expected a spread to learn a strength from: "
    "it is held at a million times the heaviest group; pool the groups, or set a prior by from_mean"
)
OVERDISPERSED = (
    "the groups have nothing in common, expected some likeness to learn a strength from: "
    "it is held at a millionth; fit each group by itself, or set a prior by from_mean"
)
SINGLES = (
    "no group has more than one observation, expected several to tell groups apart by: "
    "any strength has the same evidence and 1 was taken; observe more, or set a prior by from_mean"
)
