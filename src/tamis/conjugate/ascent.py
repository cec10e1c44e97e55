"""Maximise log-evidence over hyper-parameters, for a batch of problems (cells) at once.

The method is L-BFGS within bounds. Each cell of the batch takes its own steps and stops at its own optimum.
Cells that have not stopped are evaluated together: a thousand columns take a few more calls of NumPy, not a
thousand runs.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array

# points (live, p) and which cells they are (live,) → values (live,) and gradients (live, p)
Objective = Callable[[Array, NDArray[np.int64]], tuple[Array, Array]]

# A prior worth a million times the heaviest group moves that group's estimate to the prior mean within one
# millionth: it acts like an infinite one, and floats can still represent it.
MOST_STRENGTH = 1e6
LEAST_STRENGTH = 1e-6
LEAST_SHARE = 1e-9  # the prior probability of a category that no group has, or of events that never occurred

_STEPS = 500  # 10 to 40 steps are usual; a flat objective takes more
_MEMORY = 8
_LONGEST = 2.0  # the longest step, in logarithms of parameters: a factor of 7
_SLACK = 4.0 * float(np.finfo(np.float64).eps)  # relative: smaller increases are hidden by rounding
_FLAT = 1e-13  # times 1 + |value|: a cell with a smaller gradient has converged
_STEEP = 1e-6  # times 1 + |value|: with a larger gradient a cell has not converged
_IDLE = 3  # steps without an increase beyond rounding, after which a cell stops


def maximize(objective: Objective, start: Array, lower: Array, upper: Array) -> Array:
    """The local maximum that each cell reaches from its start (cells, p), inside lower ≤ point ≤ upper."""
    optimum = np.clip(start, lower, upper)
    live = np.arange(len(optimum))
    point, low, high = optimum, lower, upper
    value, gradient = objective(point, live)
    memory: list[_Secant] = []
    idle = np.zeros(len(optimum), dtype=np.int64)
    unfinished = np.zeros(len(optimum), dtype=np.bool_)
    for _ in range(_STEPS):
        at_bound = ((point <= low) & (gradient < 0)) | ((point >= high) & (gradient > 0))
        free = np.where(at_bound, 0.0, gradient)
        steepness = np.abs(free).max(axis=-1) / (1.0 + np.abs(value))
        active = (steepness > _FLAT) & (idle < _IDLE)
        # Cells that stop now keep these values.
        optimum[live], unfinished[live] = point, steepness > _STEEP
        if not active.any():
            break
        live, point, low, high, idle = live[active], point[active], low[active], high[active], idle[active]
        value, gradient, free, at_bound = value[active], gradient[active], free[active], at_bound[active]
        memory = [tuple(part[active] for part in secant) for secant in memory]
        direction = np.where(at_bound, 0.0, _direction(free, memory))
        direction = np.where(_dot(direction, free) > 0, direction, free)
        longest = np.abs(direction).max(axis=-1, keepdims=True)
        direction = direction * np.minimum(1.0, (_LONGEST if memory else 0.5) / longest)
        new_point, new_value, new_gradient = _step(
            objective, live, (point, value, gradient), free, direction, (low, high)
        )
        idle = np.where(new_value - value > _SLACK * (1.0 + np.abs(value)), 0, idle + 1)
        memory = [*memory[1 - _MEMORY :], _secant(new_point - point, gradient - new_gradient)]
        point, value, gradient = new_point, new_value, new_gradient
    else:
        free = np.where(((point <= low) & (gradient < 0)) | ((point >= high) & (gradient > 0)), 0.0, gradient)
        optimum[live], unfinished[live] = point, np.abs(free).max(axis=-1) > _STEEP * (1.0 + np.abs(value))
    warn_where(unfinished, UNFINISHED, depth=5)
    return optimum


_State = tuple[Array, Array, Array]  # point, value, gradient
_Secant = tuple[Array, ...]  # step, change, curvature


def _step(
    objective: Objective,
    live: NDArray[np.int64],
    state: _State,
    free: Array,
    direction: Array,
    box: tuple[Array, Array],
) -> _State:
    """Halve the step of each cell until its value increases; a cell without an increase does not move."""
    point, value, gradient = (part.copy() for part in state)
    remaining = np.arange(len(live))
    for halving in range(40):
        start = state[0][remaining]
        new_point = np.clip(start + 0.5**halving * direction[remaining], box[0][remaining], box[1][remaining])
        new_value, new_gradient = objective(new_point, live[remaining])
        least = 1e-4 * _dot(free[remaining], new_point - start)[:, 0] - _SLACK * (
            1.0 + np.abs(state[1][remaining])
        )
        ok = (new_value - state[1][remaining] >= least) & np.isfinite(new_gradient).all(axis=-1)
        accepted = remaining[ok]
        point[accepted], value[accepted], gradient[accepted] = new_point[ok], new_value[ok], new_gradient[ok]
        remaining = remaining[~ok]
        if not len(remaining):
            break
    return point, value, gradient


def _secant(step: Array, change: Array) -> _Secant:
    """The step of each cell and the change of its gradient; zeros where the function is not concave."""
    curvature = _dot(step, change)
    curved = curvature > 1e-12 * np.sqrt(_dot(step, step) * _dot(change, change))
    return np.where(curved, step, 0.0), np.where(curved, change, 0.0), np.where(curved, curvature, 0.0)


def _direction(gradient: Array, memory: list[_Secant]) -> Array:
    """The two-loop recursion: the gradient times an inverse curvature that the last steps imply."""
    direction, coefficients = gradient, []
    for step, change, curvature in reversed(memory):
        coefficient = _dot(step, direction) / np.where(curvature > 0, curvature, np.inf)
        coefficients.append(coefficient)
        direction = direction - coefficient * change
    scale = np.ones((len(gradient), 1))
    for _, change, curvature in memory:
        known = curvature > 0
        scale = np.where(known, curvature / np.where(known, _dot(change, change), 1.0), scale)
    direction = direction * scale
    for (step, change, curvature), coefficient in zip(memory, reversed(coefficients), strict=True):
        direction = direction + step * (
            coefficient - _dot(change, direction) / np.where(curvature > 0, curvature, np.inf)
        )
    return direction


def _dot(a: Array, b: Array) -> Array:
    return np.asarray((a * b).sum(axis=-1, keepdims=True))


def warn_where(at_bound: NDArray[np.bool_], what: str, depth: int = 4) -> None:
    """Warn, at the call of a prior's `fit`, how many priors of a batch stopped at a bound, and why."""
    if at_bound.any():
        where = "" if at_bound.size == 1 else f" ({int(at_bound.sum())} of {at_bound.size} priors)"
        warnings.warn(f"{what}{where}", RuntimeWarning, stacklevel=depth)


UNDERDISPERSED = (
    "the groups differ no more than chance would make them, expected a spread to learn a strength from: "
    "it is held at a million times the heaviest group; pool the groups, or set a prior by from_mean"
)
OVERDISPERSED = (
    "the groups have nothing in common, expected some similarity to learn a strength from: "
    "it is held at a millionth; fit each group by itself, or set a prior by from_mean"
)
UNFINISHED = (
    f"the evidence still rises where steps ended, after {_STEPS} or where rounding hides what they gain, "
    "expected a maximum: the result is near it at best; drop categories or columns that hardly occur, or "
    "set a prior by from_mean"
)
SINGLES = (
    "every group is one observation, expected several in some to tell groups apart by: "
    "any strength has the same evidence and 1 was taken; observe more, or set a prior by from_mean"
)
