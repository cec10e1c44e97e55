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
from tamis.linalg import Cholesky, eigen
from tamis.linalg import whitening as whitened_directions
from tamis.models.linear.objective import Objective
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
_FLAT_BEND = 1e-8  # of the expected information: a Hessian that is no more negative is flat but for rounding
_FORCING, _PRODUCTS = 0.1, 200  # of the slope, what conjugate gradients may leave; and their number at most
_SADDLE = 1e-6  # of what a saddle's bend promises: where the slope promises less, it is no guide
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
    """Newton's steps, halved until they descend; without end."""
    at, (value, gradient) = start, objective.value_and_gradient(start)
    while True:
        ways = _ways_down(objective, at, gradient)
        way = next(ways)
        yield Step(at, value, gradient, way.promise)
        found = _descend(objective, at, value, way.direction, -2.0 * way.promise)
        while found is None:
            other = next(ways, None)
            if other is None:
                return
            found = _descend(objective, at, value, other.direction, -2.0 * other.promise)
        at, value, gradient = found


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """A direction of descent, and by how much the objective should fall along it."""

    direction: Array  # (D,)
    promise: float

    @classmethod
    def newton(cls, step: Array, gradient: Array) -> "_Way":
        """The step −step, if it is that of a quadratic model."""
        return cls(-step, 0.5 * float(gradient @ step))


def _ways_down(objective: Objective, at: Array, gradient: Array) -> Iterator[_Way]:
    """Directions of descent, the best first.

    By the Hessian where it is definite, else by the expected information (Fisher's scoring), which always is.
    Where the slope is zero and the Hessian is not definite, the point is a saddle: down its steepest bend.
    """
    if not objective.response.is_canonical:
        hessian = objective.prior.added_to(objective.curvature(at, observed=True))
        factor, definite = Cholesky.where_definite(hessian)
        if bool(definite):
            yield _Way.newton(factor.solve(gradient[:, None])[:, 0], gradient)
    expected = objective.prior.added_to(objective.curvature(at))
    scoring = _Way.newton(solved(expected, gradient), gradient)
    if not objective.response.is_canonical and not bool(definite):
        bend = _steepest_bend(hessian, expected, gradient)
        if bend is not None and scoring.promise < _SADDLE * bend.promise:
            yield bend
    yield scoring


def _steepest_bend(hessian: Array, metric: Array, gradient: Array) -> _Way | None:
    """The direction in which the Hessian is most negative, in units of a definite metric; None if nowhere."""
    factor, definite = Cholesky.where_definite(metric)
    if not bool(definite):
        return None
    values, vectors = eigen(factor.whiten(factor.whiten(hessian).T))
    if not values[0] < -_FLAT_BEND:
        return None
    direction = factor.inverse_factor().T @ vectors[:, 0]
    sign = -1.0 if float(gradient @ direction) > 0 else 1.0
    return _Way(sign * direction, -0.5 * float(values[0]))


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
    slack = _ROUNDING * objective.resolution(value)
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


def truncated_newton(objective: Objective, start: Array, whitening: Whitening) -> Iterator[Step]:
    """Newton's steps where the matrix is too large: each by conjugate gradients in whitened coordinates.

    Products with the information take two passes over the rows and no matrix (Steihaug 1983).
    """
    at, (value, gradient) = start, objective.value_and_gradient(start)
    while True:
        direction = whitening.step(_conjugate_gradients(objective.product(at), whitening, gradient))
        slope = float(gradient @ direction)
        yield Step(at, value, gradient, -0.5 * slope)
        found = _descend(objective, at, value, direction, slope)
        if found is None:
            return
        at, value, gradient = found


def _conjugate_gradients(product: Callable[[Array], Array], whitening: Whitening, gradient: Array) -> Array:
    """Newton's step in whitened coordinates, as exactly as it is worth while: more so near the mode."""
    residual = -whitening.gradient(gradient)
    step, direction = np.zeros_like(residual), residual.copy()
    square = first = float(residual @ residual)
    enough = min(_FORCING, first**0.5) ** 2 * first
    for _ in range(_PRODUCTS):
        if square <= enough:
            break
        image = whitening.gradient(product(whitening.step(direction)))
        share = square / float(direction @ image)
        step += share * direction
        residual -= share * image
        before, square = square, float(residual @ residual)
        direction = residual + (square / before) * direction
    return step


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
        return _until(objective, newton(objective, start), tol, max_iter, watch)
    with threads.one_blas_thread:  # rows have threads of their own; those that add two vectors only wait
        if solver == "diagonal":
            diagonal = objective.diagonal(start) + objective.prior.diagonal
            steps = quasi_newton(objective, start, Diagonal.of(diagonal))
            return _until(objective, steps, tol, max_iter, watch)
        near, whitening = _rehearsed(objective, start)
        # coordinates that were white at the start mislead L-BFGS where the rows have little information left
        own = truncated_newton if objective.size > WHOLE else quasi_newton
        steps = own(objective, near, whitening)
        first = next(steps)
        if not np.isfinite(first.value):  # what suits a sample is out of the range of some other row
            return _until(objective, newton(objective, start), tol, max_iter, watch)
        return _until(objective, chain([first], steps), tol, max_iter, watch)


def polish(
    objective: Objective, last: Step, precision: Array, tol: float, max_iter: int, watch: Watch | None = None
) -> Outcome:
    """Go on from a step with the whole curvature there: one step does as much as several without it.

    `precision` is the expected one; with a link that is not canonical, the Hessian is taken where it can be.
    """
    if not objective.response.is_canonical:
        precision = definite_curvature(objective, last.parameters)
    steps = quasi_newton(objective, last.parameters, Triangular.of(precision), (last.value, last.gradient))
    return _until(objective, steps, tol, max_iter, watch)


def definite_curvature(objective: Objective, at: Array) -> Array:
    """The Hessian with the prior's part (D, D) if it is definite, else the expected information with it."""
    if not objective.response.is_canonical:
        hessian = objective.prior.added_to(objective.curvature(at, observed=True))
        if bool(Cholesky.where_definite(hessian)[1]):
            return hessian
    return objective.prior.added_to(objective.curvature(at))


def chosen(objective: Objective, solver: Solver) -> Solver:
    """What "auto" stands for: by the numbers of rows and of parameters."""
    if solver != "auto":
        return solver
    if objective.design.width > WHOLE:
        return "diagonal"
    few = len(objective.design) <= 2 * _SAMPLE and objective.response.outputs == 1
    return "newton" if few else "whitened"


def _until(
    objective: Objective, steps: Iterator[Step], tol: float, max_iter: int, watch: Watch | None
) -> Outcome:
    last, taken = next(steps), 0

    def is_low(relative: float) -> bool:
        resolution = objective.resolution(last.value)
        return bool(last.decrement <= max(tol * min(1.0, resolution), relative * resolution))

    while not is_low(_UNSEEN) and taken < max_iter:
        step = next(steps, None)
        if step is None:  # no lower point can be told from this one
            return Outcome(last, taken, is_low(1e3 * _ROUNDING))
        last, taken = step, taken + 1
        if watch is not None:
            watch(last)
    return Outcome(last, taken, is_low(_ROUNDING))


def _rehearsed(objective: Objective, start: Array) -> tuple[Array, Whitening]:
    """The lowest point of a sample of the rows, and coordinates that are white there."""
    n = len(objective.design)
    enough = max(_SAMPLE, _PER_PARAMETER * objective.size)
    sample = objective.sample(enough) if n >= 2 * enough else objective
    first = _level(sample, start)
    steps = quasi_newton(sample, start, first)
    near = _until(sample, steps, _NEAR * objective.size, 100, None).last.parameters
    if objective.size > WHOLE:
        return near, first
    return near, Triangular.of(definite_curvature(sample, near))


def _level(objective: Objective, start: Array) -> Whitening:
    """White where all rows have the same score, as they have at the start; it takes one Gram."""
    design, response = objective.design, objective.response
    if response.outputs == 1 and (objective.offsets is not None or not design.intercept):
        return Triangular.of(objective.prior.added_to(objective.curvature(start)))
    gram = objective.gram()
    full = np.atleast_2d(objective.expand(start))
    outputs = response.level_information(full[:, -1] if design.intercept else np.zeros(len(full)))
    if response.outputs == 1:
        return Triangular.of(objective.prior.added_to(outputs.item() * gram))
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
