"""Maximise the log-evidence over hyper-parameters, for a batch of independent problems at once.

The method is L-BFGS within bounds. Each problem takes its own steps and stops at its own optimum. The
problems that have not stopped are evaluated together, so that a thousand of them need hardly more calls of
NumPy than one.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array

# Maps points (active, p), and the indices of their problems (active,), to values (active,) and gradients
# (active, p).
Objective = Callable[[Array, NDArray[np.int64]], tuple[Array, Array]]

# With a strength of a million times the weight of the heaviest group, estimates of all groups equal the prior
# mean up to a millionth: it acts like an infinite strength, and floats can still represent it.
MOST_STRENGTH = 1e6
LEAST_STRENGTH = 1e-6
LEAST_SHARE = 1e-9  # the prior probability of a category that no group has, or of events that never occurred

_STEPS = 500  # 10 to 40 steps are usual; a flat objective takes more
_MEMORY = 8
_LONGEST = 2.0  # the longest step, in logarithms of parameters: a factor of 7
_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)  # times 1 + |value|: a smaller increase is ignored
_CONVERGED = 1e-13  # times 1 + |value|: a problem with a smaller gradient has converged
_NOT_CONVERGED = 1e-6  # times 1 + |value|: a larger gradient at the end causes a warning
_IDLE = 3  # a problem stops after so many steps without an increase beyond rounding


def maximize(objective: Objective, start: Array, lower: Array, upper: Array) -> Array:
    """The local maxima (problems, p) reached from `start` (problems, p), with lower ≤ point ≤ upper."""
    optimum = np.clip(start, lower, upper)
    active = np.arange(len(optimum))
    point, low, high = optimum, lower, upper
    value, gradient = objective(point, active)
    memory: list[_Secant] = []
    idle = np.zeros(len(optimum), dtype=np.int64)
    unfinished = np.zeros(len(optimum), dtype=np.bool_)
    for _ in range(_STEPS):
        at_bound = ((point <= low) & (gradient < 0)) | ((point >= high) & (gradient > 0))
        free = np.where(at_bound, 0.0, gradient)
        steepness = np.abs(free).max(axis=-1) / (1.0 + np.abs(value))
        # The mask selects the problems that go on; those that stop keep these values.
        mask = (steepness > _CONVERGED) & (idle < _IDLE)
        optimum[active], unfinished[active] = point, steepness > _NOT_CONVERGED
        if not mask.any():
            break
        active, point, low, high, idle = active[mask], point[mask], low[mask], high[mask], idle[mask]
        value, gradient, free, at_bound = value[mask], gradient[mask], free[mask], at_bound[mask]
        memory = [tuple(part[mask] for part in secant) for secant in memory]
        direction = np.where(at_bound, 0.0, _direction(free, memory))
        direction = np.where(_dot(direction, free) > 0, direction, free)
        longest = np.abs(direction).max(axis=-1, keepdims=True)
        direction = direction * np.minimum(1.0, (_LONGEST if memory else 0.5) / longest)
        new_point, new_value, new_gradient = _step(
            objective, active, (point, value, gradient), free, direction, (low, high)
        )
        idle = np.where(new_value - value > _ROUNDING * (1.0 + np.abs(value)), 0, idle + 1)
        memory = [*memory[1 - _MEMORY :], _secant(new_point - point, gradient - new_gradient)]
        point, value, gradient = new_point, new_value, new_gradient
    else:
        free = np.where(((point <= low) & (gradient < 0)) | ((point >= high) & (gradient > 0)), 0.0, gradient)
        optimum[active], unfinished[active] = (
            point,
            np.abs(free).max(axis=-1) > _NOT_CONVERGED * (1.0 + np.abs(value)),
        )
    warn_where(unfinished, UNFINISHED, depth=5)
    return optimum


_State = tuple[Array, Array, Array]  # point, value, gradient
_Secant = tuple[Array, ...]  # step, change, curvature


def _step(
    objective: Objective,
    active: NDArray[np.int64],
    state: _State,
    free: Array,
    direction: Array,
    box: tuple[Array, Array],
) -> _State:
    """Halve the step of each problem until its value increases; a problem without an increase does not move.

    `free` is the gradient without the coordinates at a bound, and `box` the lower and upper bounds.
    """
    point, value, gradient = (part.copy() for part in state)
    remaining = np.arange(len(active))
    for halving in range(40):
        start = state[0][remaining]
        new_point = np.clip(start + 0.5**halving * direction[remaining], box[0][remaining], box[1][remaining])
        new_value, new_gradient = objective(new_point, active[remaining])
        least = 1e-4 * _dot(free[remaining], new_point - start)[:, 0] - _ROUNDING * (
            1.0 + np.abs(state[1][remaining])
        )
        accept = (new_value - state[1][remaining] >= least) & np.isfinite(new_gradient).all(axis=-1)
        accepted = remaining[accept]
        point[accepted], value[accepted], gradient[accepted] = (
            new_point[accept],
            new_value[accept],
            new_gradient[accept],
        )
        remaining = remaining[~accept]
        if not len(remaining):
            break
    return point, value, gradient


def _secant(step: Array, change: Array) -> _Secant:
    """The step of each problem and the change of its gradient; zeros where the function is not concave."""
    curvature = _dot(step, change)
    curved = curvature > 1e-12 * np.sqrt(_dot(step, step) * _dot(change, change))
    return np.where(curved, step, 0.0), np.where(curved, change, 0.0), np.where(curved, curvature, 0.0)


def _direction(gradient: Array, memory: list[_Secant]) -> Array:
    """The two-loop recursion of L-BFGS: the gradient times the inverse Hessian that the last steps imply."""
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
    """Warn that `what` happened to some priors of a batch, at the call of `fit`, `depth` calls from here."""
    if at_bound.any():
        count = "" if at_bound.size == 1 else f" ({int(at_bound.sum())} of {at_bound.size} priors)"
        warnings.warn(f"{what}{count}", RuntimeWarning, stacklevel=depth)


UNDERDISPERSED = (
    "the groups differ no more than by chance, expected differences that determine the strength: "
    "it is limited to a million times the weight of the heaviest group; pool the groups, or set a prior by "
    "from_mean"
)
OVERDISPERSED = (
    "the groups have nothing in common, expected similarities that determine the strength: "
    "it is limited to a millionth; fit each group separately, or set a prior by from_mean"
)
UNFINISHED = (
    f"the evidence did not converge to a maximum within {_STEPS} steps, or as far as rounding allows: the "
    "result may be far from it; drop categories or columns that hardly occur, or set a prior by from_mean"
)
SINGLES = (
    "every group is one observation, expected several in some groups: any strength has the same evidence, "
    "and 1 was chosen; observe more, or set a prior by from_mean"
)
