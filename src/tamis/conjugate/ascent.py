"""LabelledRows and its slope → the hyper-parameters of largest evidence, for a whole batch at once.

L-BFGS inside a box. Every cell of the batch takes its own steps and stops at its own top, but those on their
way are evaluated together: a thousand columns are a few more calls of NumPy, not a thousand optimisations.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array

# places (live, p) and which cells they are (live,) → values (live,) and slopes (live, p)
Height = Callable[[Array, NDArray[np.int64]], tuple[Array, Array]]

# A prior worth a million of the heaviest group moves that group's own estimate all but a millionth of the way
# to the prior mean: nobody could tell it from an infinite one, and floats still can.
MOST_STRENGTH = 1e6
LEAST_STRENGTH = 1e-6
LEAST_SHARE = 1e-9  # of a category that no group holds, and of events that never came

_STEPS = 500  # 10 to 40 are usual; a flat ridge takes more
_MEMORY = 8
_LONGEST = 2.0  # in logarithms: a factor of 7 a step
_SLACK = 4.0 * float(np.finfo(np.float64).eps)  # of the value: nearer the top, rounding hides the rise
_FLAT = 1e-13  # of 1 + |value|
_STEEP = 1e-6  # of 1 + |value|: a slope that says the top is still far
_IDLE = 3  # steps without a rise that rounding would not hide


def climb(height: Height, start: Array, lower: Array, upper: Array) -> Array:
    """The top of the hill on which each cell starts (cells, p), inside lower ≤ place ≤ upper."""
    top = np.clip(start, lower, upper)
    live = np.arange(len(top))
    place, low, high = top, lower, upper
    value, slope = height(place, live)
    memory: list[_Secant] = []
    idle = np.zeros(len(top), dtype=np.int64)
    unfinished = np.zeros(len(top), dtype=np.bool_)
    for _ in range(_STEPS):
        held = ((place <= low) & (slope < 0)) | ((place >= high) & (slope > 0))
        free = np.where(held, 0.0, slope)
        steepness = np.abs(free).max(axis=-1) / (1.0 + np.abs(value))
        going = (steepness > _FLAT) & (idle < _IDLE)
        top[live], unfinished[live] = (
            place,
            steepness > _STEEP,
        )  # of those that stop now, this is the last word
        if not going.any():
            break
        live, place, low, high, idle = live[going], place[going], low[going], high[going], idle[going]
        value, slope, free, held = value[going], slope[going], free[going], held[going]
        memory = [tuple(part[going] for part in secant) for secant in memory]
        heading = np.where(held, 0.0, _heading(free, memory))
        heading = np.where(_dot(heading, free) > 0, heading, free)
        longest = np.abs(heading).max(axis=-1, keepdims=True)
        heading = heading * np.minimum(1.0, (_LONGEST if memory else 0.5) / longest)
        reached, risen, steeper = _step(height, live, (place, value, slope), free, heading, (low, high))
        idle = np.where(risen - value > _SLACK * (1.0 + np.abs(value)), 0, idle + 1)
        memory = [*memory[1 - _MEMORY :], _secant(reached - place, slope - steeper)]
        place, value, slope = reached, risen, steeper
    else:
        free = np.where(((place <= low) & (slope < 0)) | ((place >= high) & (slope > 0)), 0.0, slope)
        top[live], unfinished[live] = place, np.abs(free).max(axis=-1) > _STEEP * (1.0 + np.abs(value))
    warn_where(unfinished, UNFINISHED, depth=5)
    return top


_State = tuple[Array, Array, Array]  # place, value, slope
_Secant = tuple[Array, ...]  # step, turn, curvature


def _step(
    height: Height,
    live: NDArray[np.int64],
    state: _State,
    free: Array,
    heading: Array,
    box: tuple[Array, Array],
) -> _State:
    """Halve the step of each cell until it rises; a cell that finds no rise stays where it is."""
    place, value, slope = (part.copy() for part in state)
    todo = np.arange(len(live))
    for halving in range(40):
        start = state[0][todo]
        reached = np.clip(start + 0.5**halving * heading[todo], box[0][todo], box[1][todo])
        risen, steeper = height(reached, live[todo])
        least = 1e-4 * _dot(free[todo], reached - start)[:, 0] - _SLACK * (1.0 + np.abs(state[1][todo]))
        ok = (risen - state[1][todo] >= least) & np.isfinite(steeper).all(axis=-1)
        done = todo[ok]
        place[done], value[done], slope[done] = reached[ok], risen[ok], steeper[ok]
        todo = todo[~ok]
        if not len(todo):
            break
    return place, value, slope


def _secant(step: Array, turn: Array) -> _Secant:
    """Where a cell went and how its slope turned; nothing where it did not turn downwards."""
    curvature = _dot(step, turn)
    bent = curvature > 1e-12 * np.sqrt(_dot(step, step) * _dot(turn, turn))
    return np.where(bent, step, 0.0), np.where(bent, turn, 0.0), np.where(bent, curvature, 0.0)


def _heading(slope: Array, memory: list[_Secant]) -> Array:
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
    return np.asarray((a * b).sum(axis=-1, keepdims=True))


def warn_where(held: NDArray[np.bool_], what: str, depth: int = 4) -> None:
    """Say which beliefs of a batch stopped short of a top, and why, where a prior's `fit` was called."""
    if held.any():
        where = "" if held.size == 1 else f" ({int(held.sum())} of {held.size} beliefs)"
        warnings.warn(f"{what}{where}", RuntimeWarning, stacklevel=depth)


UNDERDISPERSED = (
    "the groups differ no more than chance would make them, expected a spread to learn a strength from: "
    "it is held at a million times the heaviest group; pool the groups, or set a prior by from_mean"
)
OVERDISPERSED = (
    "the groups have nothing in common, expected some likeness to learn a strength from: "
    "it is held at a millionth; fit each group by itself, or set a prior by from_mean"
)
UNFINISHED = (
    f"the evidence still rises where steps ended, after {_STEPS} or where rounding hides what they gain, "
    "expected a top: what was reached is near it at best; drop categories or columns that hardly occur, or "
    "set a prior by from_mean"
)
SINGLES = (
    "every group is one observation, expected several in some to tell groups apart by: "
    "any strength has the same evidence and 1 was taken; observe more, or set a prior by from_mean"
)
