"""Maximise the log-evidence over hyper-parameters, for a batch of independent problems at once.

The method is L-BFGS (limited-memory BFGS, a quasi-Newton method) within bounds. Each problem takes its own
steps and stops at its own optimum. The problems that have not stopped are evaluated together, so that a
thousand of them need hardly more calls of NumPy than one.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array

# Maps points (active, p), and the indices of their problems (active,), to values (active,) and gradients
# (active, p).
Objective = Callable[[Array, NDArray[np.int64]], tuple[Array, Array]]

# The largest strength of a fitted prior, in units of the weight of the heaviest group: the estimates of all
# groups equal the prior mean up to a millionth, as with infinite strength, and floats can represent it.
MOST_STRENGTH = 1e6
LEAST_STRENGTH = 1e-6  # the smallest strength of a fitted prior
# The prior mean of the probability of a category that no group has; for a rate, the number of events that is
# assumed if none occurred.
LEAST_MEAN = 1e-9

_MAX_STEPS = 500  # 10 to 40 steps are usual; an objective that hardly changes takes more
_MAX_SECANTS = 8  # the number of last steps from which L-BFGS approximates the Hessian
# The largest change of a coordinate in a step, and in the first step. Most coordinates are logarithms: 2 is a
# factor of 7.
_LONGEST_STEP, _LONGEST_FIRST_STEP = 2.0, 0.5
_MAX_HALVINGS = 40  # of a step in the line search
_SUFFICIENT_INCREASE = 1e-4  # the part of the increase that the gradient predicts which a step must reach
_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)  # times 1 + |value|: a smaller increase is ignored
_CONVERGED = 1e-13  # times 1 + |value|: a problem whose gradient is not larger has converged
_NOT_CONVERGED = 1e-6  # times 1 + |value|: a larger gradient at the end causes a warning
_MAX_IDLE_STEPS = 3  # consecutive steps without an increase beyond rounding, after which a problem stops


def maximize(objective: Objective, start: Array, lower: Array, upper: Array) -> Array:
    """The local maxima (problems, p) reached from `start` (problems, p), with lower ≤ point ≤ upper."""
    optimum = np.clip(start, lower, upper)
    active = np.arange(len(optimum))
    point, low, high = optimum, lower, upper
    value, gradient = objective(point, active)
    memory: list[_Secant] = []
    idle = np.zeros(len(optimum), dtype=np.int64)  # the number of last steps without an increase
    unfinished = np.zeros(len(optimum), dtype=np.bool_)
    for number in range(_MAX_STEPS + 1):
        at_bound = ((point <= low) & (gradient < 0)) | ((point >= high) & (gradient > 0))
        free = np.where(at_bound, 0.0, gradient)
        steepness = np.abs(free).max(axis=-1) / (1.0 + np.abs(value))
        # The mask selects the problems that go on; for those that stop, this point is the optimum.
        mask = (steepness > _CONVERGED) & (idle < _MAX_IDLE_STEPS)
        optimum[active], unfinished[active] = point, steepness > _NOT_CONVERGED
        if number == _MAX_STEPS or not mask.any():
            break
        active, point, low, high, idle = active[mask], point[mask], low[mask], high[mask], idle[mask]
        value, gradient, free, at_bound = value[mask], gradient[mask], free[mask], at_bound[mask]
        memory = [tuple(part[mask] for part in secant) for secant in memory]
        direction = np.where(at_bound, 0.0, _find_direction(free, memory))
        direction = np.where(_dot(direction, free) > 0, direction, free)
        longest = np.abs(direction).max(axis=-1, keepdims=True)
        direction = direction * np.minimum(1.0, (_LONGEST_STEP if memory else _LONGEST_FIRST_STEP) / longest)
        new_point, new_value, new_gradient = _line_search(
            objective, active, (point, value, gradient), free, direction, (low, high)
        )
        idle = np.where(new_value - value > _ROUNDING * (1.0 + np.abs(value)), 0, idle + 1)
        memory = [*memory[1 - _MAX_SECANTS :], _make_secant(new_point - point, gradient - new_gradient)]
        point, value, gradient = new_point, new_value, new_gradient
    warn_where(unfinished, UNFINISHED, depth=5)
    return optimum


_State = tuple[Array, Array, Array]  # point, value, gradient
_Secant = tuple[Array, ...]  # step, decrease of the gradient (change), product of both (curvature)


def _line_search(
    objective: Objective,
    active: NDArray[np.int64],
    state: _State,
    free: Array,
    direction: Array,
    bounds: tuple[Array, Array],
) -> _State:
    """Halve the step of each problem until its value increases enough; else the problem does not move.

    `free` is the gradient, with 0 for coordinates at a bound; `bounds` are the lower and upper bounds.
    """
    point, value, gradient = (part.copy() for part in state)
    searching = np.arange(len(active))
    for halving in range(_MAX_HALVINGS):
        start = state[0][searching]
        new_point = np.clip(
            start + 0.5**halving * direction[searching], bounds[0][searching], bounds[1][searching]
        )
        new_value, new_gradient = objective(new_point, active[searching])
        predicted = _dot(free[searching], new_point - start)[:, 0]
        required = _SUFFICIENT_INCREASE * predicted - _ROUNDING * (1.0 + np.abs(state[1][searching]))
        accept = (new_value - state[1][searching] >= required) & np.isfinite(new_gradient).all(axis=-1)
        accepted = searching[accept]
        point[accepted], value[accepted], gradient[accepted] = (
            new_point[accept],
            new_value[accept],
            new_gradient[accept],
        )
        searching = searching[~accept]
        if not len(searching):
            break
    return point, value, gradient


def _make_secant(step: Array, change: Array) -> _Secant:
    """The step of each problem and the decrease of its gradient; zeros where there is no decrease."""
    curvature = _dot(step, change)
    curved = curvature > 1e-12 * np.sqrt(_dot(step, step) * _dot(change, change))
    return np.where(curved, step, 0.0), np.where(curved, change, 0.0), np.where(curved, curvature, 0.0)


def _find_direction(gradient: Array, memory: list[_Secant]) -> Array:
    """Multiply the gradient by the inverse Hessian that the last steps imply (L-BFGS, two-loop recursion)."""
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


def warn_where(affected: NDArray[np.bool_], message: str, depth: int = 4) -> None:
    """Warn if any prior of a batch is affected; the warning shows the call of `fit`, `depth` calls up."""
    if affected.any():
        count = "" if affected.size == 1 else f" ({int(affected.sum())} of {affected.size} priors)"
        warnings.warn(f"{message}{count}", RuntimeWarning, stacklevel=depth)


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
    f"the evidence did not converge to a maximum within {_MAX_STEPS} steps, or as far as rounding allows: "
    "the result may be far from it; drop categories or columns that hardly occur, or set a prior by from_mean"
)
SINGLES = (
    "every group is one observation, expected several in some groups: any strength has the same evidence, "
    "and 1 was chosen; observe more, or set a prior by from_mean"
)
