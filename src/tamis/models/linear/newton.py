"""An objective → its lowest point, step by step: Newton's, or by slopes alone in whitened coordinates.

Newton's method takes the whole curvature at each step. Where rows are many, most of that work is wasted: the
curvature of a sample of the rows, taken near the end, tells the shape well enough for a quasi-Newton method
(L-BFGS) to need a handful of slopes of all rows. Both stop by the same measure, the decrement ½ gᵀM⁻¹g: by
how much the log-posterior is still expected to rise, and half the square of the distance left, in standard
deviations.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np

from tamis._kernels import threads
from tamis.arrays import Array
from tamis.linalg import Cholesky
from tamis.linalg import whitening as whitened_directions
from tamis.models.linear.objective import Objective
from tamis.models.linear.softmax import Softmax
from tamis.models.linear.whitening import Diagonal, Kronecker, Triangular, Whitening

Solver = Literal["auto", "newton", "whitened", "diagonal"]
Watch = Callable[[Any], None]

_MEMORY = 12  # steps that L-BFGS remembers
_ARMIJO = 1e-4  # share of the promised descent that a step must keep
_BEYOND = 0.9  # of the slope there was: as much, uphill, is left of it at most
_HALVINGS = 40
_ROUNDING = 1e-14  # of the objective: below that, it cannot tell two points apart
_UNSEEN = 1e-18  # of the objective: a decrement that further steps would not lessen
_SAMPLE = 8192  # rows whose curvature stands for that of all …
_PER_PARAMETER = 8  # … or so many for each parameter, if that is more
WHOLE = 3000  # parameters up to which curvatures are kept whole
_FLAT = 1e-13  # of the curvature, in units of the parameters' own: rounding
_NEAR = 0.05  # decrement for each parameter at which a sample has told all it knows


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Where a step has led."""

    parameters: Array  # (D,)
    value: float
    gradient: Array  # (D,)
    decrement: float  # by how much the value may still fall, as far as is known here

    @property
    def log_likelihood(self) -> float:
        """What goes up: the log-posterior, but for constants."""
        return -self.value


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The last step, and how it was reached."""

    last: Step
    iterations: int  # over all rows
    converged: bool


def newton(objective: Objective, start: Array) -> Iterator[Step]:
    """Newton's steps with the whole curvature, halved until they descend; without end."""
    at, (value, gradient) = start, objective.value_and_gradient(start)
    while True:
        matrix = objective.prior.added_to(objective.curvature(at))
        direction = -solved(matrix, gradient)
        slope = float(gradient @ direction)
        yield Step(at, value, gradient, -0.5 * slope)
        found = _descend(objective, at, value, direction, slope)
        if found is None:
            return
        at, value, gradient = found


def solved(matrix: Array, gradient: Array) -> Array:
    """Newton's step, but for its sign."""
    factor, definite = Cholesky.where_definite(matrix)
    if bool(definite):
        return factor.solve(gradient[:, None])[:, 0]
    # Flat in some direction, but for rounding: no step goes there.
    directions = whitened_directions(matrix, "curvature", _FLAT)
    return np.asarray(directions @ (directions.T @ gradient))


def _descend(
    objective: Objective, at: Array, value: float, direction: Array, slope: float
) -> tuple[Array, float, Array] | None:
    """The point a step away, or nearer, where the objective is lower; None where there is none."""
    share = 1.0
    slack = _ROUNDING * max(1.0, abs(value))
    for _ in range(_HALVINGS):
        there = at + share * direction
        lower, gradient = objective.value_and_gradient(there)
        promised = value + _ARMIJO * share * slope
        if lower <= promised - slack:
            return there, lower, gradient
        # where rounding hides the descent, slopes tell a step that went too far (Hager and Zhang 2005)
        if lower <= promised + slack and float(gradient @ direction) <= -_BEYOND * slope:
            return there, lower, gradient
        share *= 0.5 if np.isfinite(lower) else 0.25
    return None


def quasi_newton(
    objective: Objective, start: Array, whitening: Whitening, seen: tuple[float, Array] | None = None
) -> Iterator[Step]:
    """L-BFGS in whitened coordinates, without end; `seen` is the objective at the start, if that is known."""
    at, (value, gradient) = start, objective.value_and_gradient(start) if seen is None else seen
    white = whitening.gradient(gradient)
    history: deque[tuple[Array, Array, float]] = deque(maxlen=_MEMORY)
    while True:
        yield Step(at, value, gradient, 0.5 * float(white @ white))
        direction = -_two_loops(white, history)
        slope = float(white @ direction)
        found = _descend(objective, at, value, whitening.step(direction), slope)
        if found is None and history:  # what was remembered misleads: forget it, and go straight down
            history.clear()
            continue
        if found is None:
            return
        there, value, gradient = found
        before, white = white, whitening.gradient(gradient)
        moved, turned = _in_white(whitening, there - at, direction), white - before
        bend = float(moved @ turned)
        if bend > 1e-12 * float(turned @ turned):
            history.append((moved, turned, 1.0 / bend))
        at = there


def _in_white(whitening: Whitening, moved: Array, direction: Array) -> Array:
    """A step that was taken, in whitened coordinates: it is a share of the direction."""
    whole = whitening.step(direction)
    reach = float(whole @ whole)
    return direction * (float(moved @ whole) / reach) if reach > 0 else direction


def _two_loops(gradient: Array, history: deque[tuple[Array, Array, float]]) -> Array:
    """The inverse curvature that the history tells of, times the gradient (Nocedal)."""
    found = gradient.copy()
    shares = []
    for moved, turned, scale in reversed(history):
        share = scale * float(moved @ found)
        found -= share * turned
        shares.append(share)
    if history:
        moved, turned, scale = history[-1]
        found /= scale * float(turned @ turned)
    for (moved, turned, scale), share in zip(history, reversed(shares), strict=True):
        found += (share - scale * float(turned @ found)) * moved
    return found


def minimise(
    objective: Objective,
    start: Array,
    solver: Solver = "auto",
    tol: float = 1e-8,
    max_iter: int = 100,
    watch: Watch | None = None,
) -> Outcome:
    """Go down until less than `tol` is expected to be left."""
    solver = chosen(objective, solver)
    if solver == "newton":
        return _until(newton(objective, start), tol, max_iter, watch)
    with threads.one_blas_thread:  # rows have threads of their own; those that add two vectors only wait
        if solver == "diagonal":
            diagonal = objective.diagonal(start) + objective.prior.diagonal
            return _until(quasi_newton(objective, start, Diagonal.of(diagonal)), tol, max_iter, watch)
        near, whitening = _rehearsed(objective, start)
        steps = quasi_newton(objective, near, whitening)
        first = next(steps)
        if not np.isfinite(first.value):  # what suits a sample is out of the range of some other row
            return _until(newton(objective, start), tol, max_iter, watch)
        return _until(chain([first], steps), tol, max_iter, watch)


def polish(
    objective: Objective, last: Step, precision: Array, tol: float, max_iter: int, watch: Watch | None = None
) -> Outcome:
    """Go on from a step with the whole curvature there: one step does as much as several without it."""
    steps = quasi_newton(objective, last.parameters, Triangular.of(precision), (last.value, last.gradient))
    return _until(steps, tol, max_iter, watch)


def chosen(objective: Objective, solver: Solver) -> Solver:
    """What "auto" stands for: by the numbers of rows and of parameters."""
    if solver != "auto":
        return solver
    if objective.size > WHOLE and not isinstance(objective.response, Softmax):
        return "diagonal"
    if objective.design.width > WHOLE:
        return "diagonal"
    few = len(objective.design) <= 2 * _SAMPLE and not isinstance(objective.response, Softmax)
    return "newton" if few else "whitened"


def _until(steps: Iterator[Step], tol: float, max_iter: int, watch: Watch | None) -> Outcome:
    last, taken = next(steps), 0
    while last.decrement > max(tol, _UNSEEN * max(1.0, abs(last.value))) and taken < max_iter:
        step = next(steps, None)
        if step is None:  # no lower point can be told from this one
            return Outcome(last, taken, bool(last.decrement <= _ROUNDING * max(1.0, abs(last.value)) * 1e3))
        last, taken = step, taken + 1
        if watch is not None:
            watch(last)
    return Outcome(last, taken, bool(last.decrement <= max(tol, _ROUNDING * max(1.0, abs(last.value)))))


def _rehearsed(objective: Objective, start: Array) -> tuple[Array, Whitening]:
    """The lowest point of a sample of the rows, and coordinates that are white there."""
    n = len(objective.design)
    enough = max(_SAMPLE, _PER_PARAMETER * objective.size)
    sample = objective.sample(enough) if n >= 2 * enough else objective
    first = _level(sample, start)
    steps = quasi_newton(sample, start, first)
    near = _until(steps, _NEAR * objective.size, 100, None).last.parameters
    if objective.size > WHOLE:
        return near, first
    return near, Triangular.of(sample.prior.added_to(sample.curvature(near)))


def _level(objective: Objective, start: Array) -> Whitening:
    """White where all rows have the same score, as they have at the start; it takes one Gram."""
    design, response = objective.design, objective.response
    if not isinstance(response, Softmax) and (objective.offsets is not None or not design.intercept):
        return Triangular.of(objective.prior.added_to(objective.curvature(start)))
    gram = objective.gram()
    full = objective.lifted(start)
    level = full[..., -1:] if design.intercept else np.zeros_like(full[..., :1])
    if not isinstance(response, Softmax):
        share = float(response.information(level).item())
        return Triangular.of(objective.prior.added_to(share * gram))
    p = response.probabilities(level.T)[0]
    contrasts = response.contrasts
    outputs = contrasts.T @ (np.diag(p) - np.outer(p, p)) @ contrasts
    spread, definite = Cholesky.where_definite(outputs)
    if not bool(definite):  # some class is next to impossible
        return Diagonal.of(objective.diagonal(start) + objective.prior.diagonal)
    # a prior precision of a column is shared by all contrasts: put where the mean contrast has it
    width = design.width
    columns = gram.copy()
    own = objective.prior.diagonal.reshape(-1, width).mean(axis=0)
    columns[np.diag_indices(width)] += own / (np.trace(outputs) / len(outputs)) + 1e-12 * np.diagonal(columns)
    factor, definite = Cholesky.where_definite(columns)
    if not bool(definite):
        return Diagonal.of(objective.diagonal(start) + objective.prior.diagonal)
    return Kronecker(spread.lower, factor.lower)
