"""Rows and a trial point → loss and gradient at this point → the next trial point: Newton's method.

A `Search` holds the last accepted point, a direction and the length of the step under trial. `observe`
evaluates the rows at the trial point; `infer` accepts it and chooses the next direction, or shortens the
step. `protocols.iterate` of the two is one pass over the rows per step, and the caller's loop decides when to
stop. (Nocedal and Wright, Numerical Optimization, chapters 3 and 7)

`Newton` computes the full Hessian at each accepted point, which is slow for many rows. For these a
quasi-Newton method (L-BFGS) uses the Hessian of a sample of the rows near the mode, and needs only a few
gradients of all rows.

Every solver here stops when the decrement ½ gᵀM⁻¹g is small, where g is the gradient and M the solver's
approximation of the Hessian. The decrement estimates how much the log-posterior can still rise. It is also an
estimate of half the squared distance to the mode, in standard deviations of the posterior.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from tamis import protocols, threads
from tamis.arrays import Array
from tamis.linalg import Cholesky, eigen, find_whitening
from tamis.models.linear.objective import SAMPLE, GaussianPrior, LinearRows, Objective, choose_sample
from tamis.models.linear.responses import Response

Solver = Literal["auto", "newton", "whitened", "diagonal"]
StepReport = Callable[["Point"], None]  # called with each accepted point after the first
# What rows are evaluated for: the loss with its gradient, the Hessian, or Fisher's expected information.
Derivative = Literal["gradient", "hessian", "information"]

# The number of parameters, or of columns, up to which Hessians are computed as full matrices.
MAX_HESSIAN_SIZE = 3000
_MEMORY = 12  # steps that L-BFGS remembers
_ARMIJO = 1e-4  # the fraction of the linear decrease that a step must achieve (Armijo's condition)
# Where rounding hides the descent, a step is accepted only if the objective rises at its end at most this
# fraction as steeply as it falls at its start.
_MAX_END_SLOPE = 0.9
_MAX_REJECTIONS = 40  # after so many rejected steps along one direction, another direction is tried
_ROUNDING = 1e-14  # a smaller relative difference of two values of the objective is a rounding error
_NEGLIGIBLE = 1e-18  # a decrement below this fraction of the objective cannot be reduced by further steps
# Up to this number of parameters, a Hessian costs less than a further pass over rows in shards.
_FEW_PARAMETERS = 128
_SINGULAR = 1e-13  # a smaller eigenvalue of the Hessian, scaled to a unit diagonal, is a rounding error
_INDEFINITE = 1e-8  # a negative curvature below this fraction of the expected information is a rounding error
_MAX_RESIDUAL = 0.1  # the largest relative residual at which conjugate gradients may stop
# Maximum number of iterations of conjugate gradients, each a product with the information.
_MAX_PRODUCTS = 200
# At a saddle point the decrement is below this fraction of the descent along negative curvature.
_SADDLE = 1e-6
_SAMPLE_DECREMENT = 0.05  # decrement per parameter below which more steps would fit the sample's noise
_MIN_CURVATURE = 1e-12  # L-BFGS ignores a step s with s · y below this fraction of |y|², y as in `Memory`


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Parameters at which the objective was evaluated."""

    parameters: Array  # (D,)
    value: float
    gradient: Array  # (D,)
    decrement: float = np.nan  # an estimate of how much the value can fall; NaN until a direction is chosen
    information: Array | None = None  # (D, D): of the rows, if it was evaluated with the value

    @property
    def log_posterior(self) -> float:
        """The log-posterior, up to constants."""
        return -self.value


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """A direction of descent, and the expected decrease of the objective along it."""

    vector: Array  # (D,)
    descent: float

    @classmethod
    def newton(cls, step: Array, gradient: Array) -> "Direction":
        """Make the direction −step, where `step` solves M · step = gradient for some M near the Hessian."""
        return cls(-step, 0.5 * float(gradient @ step))

    @property
    def slope(self) -> float:
        """The slope by which the line search judges a step: minus twice the descent.

        Along −M⁻¹g it is the derivative of the objective at the start of the step. Along a direction of
        negative curvature, where this derivative may be zero, it is the curvature.
        """
        return -2.0 * self.descent


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The history of L-BFGS, in whitened coordinates, in which the Hessian is nearly the identity."""

    gradient: Array  # (D,): at the accepted point
    direction: Array  # (D,): of the step under trial
    # Of each of the last steps: the step s, the change y of the gradient, and 1 / (s · y).
    history: tuple[tuple[Array, Array, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The last accepted point, the step under trial from there, and what is to be observed next."""

    at: Array  # (D,): the point at which rows are evaluated next
    request: Derivative = "gradient"  # what is evaluated next
    point: Point | None = None  # None before the first evaluation
    iterations: int = 0  # points accepted after the first
    directions: tuple[Direction, ...] = ()  # the direction under trial, then those to try if it fails
    length: float = 1.0  # of the step under trial, as a multiple of the direction
    rejections: int = 0  # steps along this direction that were rejected
    indefinite: Array | None = None  # (D, D): the Hessian at the point, if it is not positive definite
    has_information: bool = False  # whether the expected information at the point has been used
    memory: Memory | None = None
    is_stuck: bool = False  # whether no lower point can be found

    @property
    def accepted(self) -> Point:
        """The last accepted point."""
        if self.point is None:
            raise ValueError("no point was evaluated yet, expected one: call observe and infer first")
        return self.point

    def try_directions(
        self,
        *directions: Direction,
        decrement: float | None = None,
        has_information: bool = False,
        memory: Memory | None = None,
    ) -> "Search":
        """Try a full step along the first direction; keep the others for when no step along it descends.

        If the point has no decrement yet, it gets `decrement`, or the descent of the first direction.
        """
        point = self.accepted
        if np.isnan(point.decrement):
            decrement = directions[0].descent if decrement is None else decrement
            decrement = np.inf if np.isnan(decrement) else decrement
            point = replace(point, decrement=decrement)
        at = point.parameters + directions[0].vector
        return Search(
            at,
            request="gradient",
            point=point,
            iterations=self.iterations,
            directions=directions,
            indefinite=self.indefinite,
            has_information=has_information or self.has_information,
            memory=memory,
        )

    def accept(self, point: Point, request: Derivative = "gradient") -> "Search":
        """Continue the search from this point."""
        iterations = self.iterations + (self.point is not None)
        return Search(point.parameters, request=request, point=point, iterations=iterations)

    def shorten(self, factor: float) -> "Search":
        """Try a shorter step along the same direction."""
        length = self.length * factor
        at = self.accepted.parameters + length * self.directions[0].vector
        return replace(self, at=at, length=length, rejections=self.rejections + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Loss and gradient of rows, or a matrix, at the point that a search requests.

    The evaluations of two parts of the rows can be added. They are sums of floats, not `Exact`, because an
    evaluation is used for one step and never stored.
    """

    given: Search
    loss: float
    gradient: Array  # (D,), or (0,) if it was not requested
    matrix: Array  # (D, D), or (0, 0) if it was not requested

    def __add__(self, other: "Evaluation") -> "Evaluation":
        if not np.array_equal(self.given.at, other.given.at):
            raise ValueError("got evaluations at two points, expected both given the same search")
        loss = self.loss + other.loss
        return Evaluation(self.given, loss, self.gradient + other.gradient, self.matrix + other.matrix)

    def __mul__(self, weight: float) -> "Evaluation":
        return Evaluation(self.given, self.loss * weight, self.gradient * weight, self.matrix * weight)

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True, eq=False)
class LineSearch(ABC):
    """Backtracking: steps are shortened until the objective falls; a subclass chooses their directions."""

    response: Response
    prior: GaussianPrior

    def observe(self, data: LinearRows, given: Search | None = None, /) -> Evaluation:
        """Evaluate the rows at the trial point, without the prior."""
        search = Search(self.prior.mean) if given is None else given
        objective = Objective.of(data, self.response, self.prior)
        if search.request == "gradient":
            return Evaluation(
                search, *objective.row_loss(search.at), self.observe_matrix(objective, search.at)
            )
        matrix = objective.information(search.at, observed=search.request == "hessian")
        return Evaluation(search, 0.0, np.empty(0), matrix)

    def objective(self, statistic: Evaluation, /) -> float:
        """Return the negative log-posterior, up to constants, at the trial point."""
        search = statistic.given
        if search.request != "gradient":
            return search.accepted.value
        prior_loss, _ = self.prior.loss(search.at)
        return statistic.loss + prior_loss

    def infer(self, statistic: Evaluation, /) -> Search:
        """Accept the trial point and choose a direction there, or try another point."""
        search = statistic.given
        if search.request != "gradient":
            return self.use_matrix(search, self.prior.add_to(statistic.matrix))
        prior_loss, prior_gradient = self.prior.loss(search.at)
        value = statistic.loss + prior_loss
        matrix = statistic.matrix if statistic.matrix.size else None
        value = value if np.isfinite(value) else np.inf
        trial = Point(search.at, value, statistic.gradient + prior_gradient, information=matrix)
        if search.point is None or self._is_sufficient_decrease(search, trial):
            chosen = self.choose_direction(search, trial)
            if matrix is None:
                return chosen
            return self.use_matrix(chosen, self.prior.add_to(matrix))
        if search.rejections + 1 < _MAX_REJECTIONS:
            return search.shorten(0.5 if np.isfinite(trial.value) else 0.25)
        return self.change_direction(search)

    def _is_sufficient_decrease(self, search: Search, trial: Point) -> bool:
        """Return whether the trial point is low enough to be accepted (Armijo's condition)."""
        value, direction = search.accepted.value, search.directions[0]
        # `loss_scale` is |value|, but at least 1 (1e-16 for normal targets).
        rounding = _ROUNDING * self.response.loss_scale(value)
        limit = value + _ARMIJO * search.length * direction.slope
        if trial.value <= limit - rounding:
            return True
        # Where rounding hides the descent, the slope shows whether a step is too long (Hager and Zhang 2005).
        slope = float(trial.gradient @ direction.vector)
        return trial.value <= limit + rounding and slope <= -_MAX_END_SLOPE * direction.slope

    def observe_matrix(self, objective: Objective, at: Array) -> Array:
        """Return the matrix that is evaluated together with the gradient (D, D); (0, 0) if there is none."""
        return np.empty((0, 0))

    @abstractmethod
    def choose_direction(self, search: Search, point: Point) -> Search:
        """Accept the evaluated point, and return what to evaluate next.

        A subclass returns `search.accept(point).try_directions(…)` with directions of descent, or
        `search.accept(point, request)` to have a matrix evaluated there, which `use_matrix` then gets.
        """

    def use_matrix(self, search: Search, matrix: Array) -> Search:
        """Choose a direction by the requested matrix (D, D), to which the prior's precision is added.

        Only a subclass that requests matrices needs to define it.
        """
        raise NotImplementedError

    def change_direction(self, search: Search) -> Search:
        """Choose another direction, after no step along the present one has descended; or set `is_stuck`."""
        return replace(search, is_stuck=True)


@dataclass(frozen=True, slots=True, eq=False)
class Newton(LineSearch):
    """Directions by the Hessian if it is positive definite, otherwise by the expected information.

    The expected information has no negative eigenvalue. If the gradient is nearly zero and the Hessian has a
    negative eigenvalue, the point is a saddle, and the direction is that of the most negative curvature.
    """

    # Whether the expected information is evaluated at every trial point, together with the gradient.
    with_information: bool = False

    def observe_matrix(self, objective: Objective, at: Array) -> Array:
        return objective.information(at) if self.with_information else np.empty((0, 0))

    def choose_direction(self, search: Search, point: Point) -> Search:
        return search.accept(point, "information" if self.response.is_canonical else "hessian")

    def use_matrix(self, search: Search, matrix: Array) -> Search:
        gradient = search.accepted.gradient
        if search.request == "hessian":
            factor, definite = Cholesky.factorise_definite(matrix)
            if bool(definite):
                step = factor.solve(gradient[:, None])[:, 0]
                return search.try_directions(Direction.newton(step, gradient))
            return replace(search, request="information", indefinite=matrix)
        by_information = Direction.newton(solve_semidefinite(matrix, gradient), gradient)
        if search.indefinite is not None:
            curved = _find_negative_curvature(search.indefinite, matrix, gradient)
            if curved is not None and by_information.descent < _SADDLE * curved.descent:
                return search.try_directions(curved, by_information, has_information=True)
        return search.try_directions(by_information, has_information=True)

    def change_direction(self, search: Search) -> Search:
        if len(search.directions) > 1:
            return search.try_directions(*search.directions[1:])
        if search.has_information:
            return replace(search, is_stuck=True)
        return replace(search, at=search.accepted.parameters, request="information")


def _find_negative_curvature(hessian: Array, metric: Array, gradient: Array) -> Direction | None:
    """Find the direction of the most negative curvature relative to a positive definite metric; or None."""
    factor, definite = Cholesky.factorise_definite(metric)
    if not bool(definite):
        return None
    values, vectors = eigen(factor.whiten(factor.whiten(hessian).T))
    if not values[0] < -_INDEFINITE:
        return None
    vector = factor.inverse_factor().T @ vectors[:, 0]
    sign = -1.0 if float(gradient @ vector) > 0 else 1.0
    return Direction(sign * vector, -0.5 * float(values[0]))


def solve_semidefinite(matrix: Array, gradient: Array) -> Array:
    """Solve matrix · step = gradient, for a matrix that may be singular up to rounding."""
    factor, definite = Cholesky.factorise_definite(matrix)
    if bool(definite):
        return factor.solve(gradient[:, None])[:, 0]
    # `directions` times its transpose is a pseudo-inverse of the matrix: no step is made along directions
    # whose curvature is only rounding.
    directions = find_whitening(matrix, what="curvature", tolerance=_SINGULAR)
    return np.asarray(directions @ (directions.T @ gradient))


# ── quasi-Newton directions, in coordinates in which the Hessian is nearly the identity ──


class Whitening(Protocol):
    """Coordinates in which the Hessian is nearly the identity: M = L Lᵀ, for some M near the Hessian."""

    def whiten_gradient(self, gradient: Array) -> Array:
        """Return L⁻¹ g: a gradient in the new coordinates (D,)."""
        ...

    def unwhiten_step(self, step: Array) -> Array:
        """Return L⁻ᵀ v: a step v in the new coordinates, converted to the old ones (D,)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Triangular:
    """Whitening by the Cholesky factor of a full matrix."""

    lower: Array  # (D, D)

    @classmethod
    def of(cls, matrix: Array) -> "Triangular | Diagonal":
        """Factorise the matrix; if it is not positive definite in floats, use its diagonal."""
        factor, definite = Cholesky.factorise_definite(matrix)
        return cls(factor.lower) if bool(definite) else Diagonal.of(np.diagonal(matrix))

    def whiten_gradient(self, gradient: Array) -> Array:
        return np.asarray(solve_triangular(self.lower, gradient, lower=True, check_finite=False))

    def unwhiten_step(self, step: Array) -> Array:
        return np.asarray(solve_triangular(self.lower, step, lower=True, trans="T", check_finite=False))


@dataclass(frozen=True, slots=True, eq=False)
class Kronecker:
    """Whitening by a Kronecker product A ⊗ B; the fields are the lower Cholesky factors of A and of B."""

    outputs: Array  # (m, m): of A
    columns: Array  # (width, width): of B

    def whiten_gradient(self, gradient: Array) -> Array:
        by_output = gradient.reshape(len(self.outputs), -1)
        half = solve_triangular(self.outputs, by_output, lower=True, check_finite=False)
        return np.asarray(solve_triangular(self.columns, half.T, lower=True, check_finite=False).T.ravel())

    def unwhiten_step(self, step: Array) -> Array:
        by_output = step.reshape(len(self.outputs), -1)
        half = solve_triangular(self.outputs, by_output, lower=True, trans="T", check_finite=False)
        both = solve_triangular(self.columns, half.T, lower=True, trans="T", check_finite=False)
        return np.asarray(both.T.ravel())


@dataclass(frozen=True, slots=True, eq=False)
class Diagonal:
    """Whitening by the diagonal alone."""

    scale: Array  # (D,): √ of the Hessian's diagonal

    @classmethod
    def of(cls, diagonal: Array) -> "Diagonal":
        """Make the scales from a diagonal; zeros, and values far below the largest, are raised."""
        least = 1e-12 * max(float(diagonal.max(initial=0.0)), 1e-300)
        return cls(np.sqrt(np.maximum(diagonal, least)))

    def whiten_gradient(self, gradient: Array) -> Array:
        return np.asarray(gradient / self.scale)

    def unwhiten_step(self, step: Array) -> Array:
        return np.asarray(step / self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class QuasiNewton(LineSearch):
    """L-BFGS in whitened coordinates (Liu and Nocedal 1989)."""

    whitening: Whitening

    def resume(self, point: Point) -> Search:
        """Start a search at a point that was evaluated already."""
        start = Search(point.parameters, point=replace(point, decrement=np.nan))
        return self._try_history(start, self.whitening.whiten_gradient(point.gradient), ())

    def choose_direction(self, search: Search, point: Point) -> Search:
        gradient, memory = self.whitening.whiten_gradient(point.gradient), search.memory
        if memory is None:
            return self._try_history(search.accept(point), gradient, ())
        history, step, change = memory.history, search.length * memory.direction, gradient - memory.gradient
        product = float(step @ change)
        if product > _MIN_CURVATURE * float(change @ change):
            history = (*history, (step, change, 1.0 / product))[-_MEMORY:]
        return self._try_history(search.accept(point), gradient, history)

    def change_direction(self, search: Search) -> Search:
        if search.memory is None or not search.memory.history:
            return replace(search, is_stuck=True)
        # The history led to a direction without descent: clear it.
        return self._try_history(search, search.memory.gradient, ())

    def _try_history(
        self, search: Search, gradient: Array, history: tuple[tuple[Array, Array, float], ...]
    ) -> Search:
        """Try the direction by a history of steps, which is in whitened coordinates, as is the gradient."""
        vector = -_multiply_inverse(gradient, history)
        direction = Direction(self.whitening.unwhiten_step(vector), -0.5 * float(gradient @ vector))
        decrement, memory = 0.5 * float(gradient @ gradient), Memory(gradient, vector, history)
        return search.try_directions(direction, decrement=decrement, memory=memory)


def _multiply_inverse(gradient: Array, history: tuple[tuple[Array, Array, float], ...]) -> Array:
    """Multiply the gradient by the inverse Hessian that the history approximates (Nocedal 1980)."""
    product = gradient.copy()
    factors = []
    for step, change, scale in reversed(history):
        factor = scale * float(step @ product)
        product -= factor * change
        factors.append(factor)
    if history:
        _, change, scale = history[-1]
        product /= scale * float(change @ change)
    for (step, change, scale), factor in zip(history, reversed(factors), strict=True):
        product += (factor - scale * float(change @ product)) * step
    return product


@dataclass(frozen=True, slots=True, eq=False)
class TruncatedNewton(LineSearch):
    """Newton's directions without a matrix, by conjugate gradients in whitened coordinates (Steihaug 1983).

    They are for models with too many parameters for a matrix. Given a point, `product` returns a function
    that multiplies a vector by the sum of the information there and the prior's precision. Each call of the
    function reads all rows, in `infer`: see docs/decisions/0008-linear-models-in-few-passes.md.
    """

    whitening: Whitening
    product: Callable[[Array], Callable[[Array], Array]]

    def choose_direction(self, search: Search, point: Point) -> Search:
        product = self.product(point.parameters)
        vector = self.whitening.unwhiten_step(self._solve(product, point.gradient))
        return search.accept(point).try_directions(Direction(vector, -0.5 * float(point.gradient @ vector)))

    def _solve(self, product: Callable[[Array], Array], gradient: Array) -> Array:
        """Solve for Newton's step in whitened coordinates; the smaller the gradient, the more exactly."""
        residual = -self.whitening.whiten_gradient(gradient)
        step, direction = np.zeros_like(residual), residual.copy()
        square = first_square = float(residual @ residual)
        tolerance = min(_MAX_RESIDUAL, first_square**0.5) ** 2 * first_square
        for _ in range(_MAX_PRODUCTS):
            if square <= tolerance:
                break
            hessian_direction = self.whitening.whiten_gradient(
                product(self.whitening.unwhiten_step(direction))
            )
            length = square / float(direction @ hessian_direction)
            step += length * direction
            residual -= length * hessian_direction
            last_square, square = square, float(residual @ residual)
            direction = residual + (square / last_square) * direction
        return step


# ── the loop, and when to stop ──


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """The result of a minimisation: the last accepted point."""

    point: Point
    iterations: int  # accepted points after the first, of the objective of all rows
    converged: bool


def descend(model: LineSearch, rows: LinearRows, start: Search) -> Iterator[Search]:
    """Run `protocols.iterate`; yield the search at each accepted point, until no lower one can be found."""
    last = start
    if start.point is not None:
        yield start
    for step in protocols.iterate(model, rows.shards, start):
        search = step.posterior
        if search.is_stuck:
            return
        if search.point is not last.point and not np.isnan(search.accepted.decrement):
            last = search
            yield search


def _run_until_converged(
    model: LineSearch, searches: Iterator[Search], tol: float, max_iter: int, report_step: StepReport | None
) -> Minimum:
    """Advance `searches` until the decrement is at most `tol`, after `max_iter` points, or until they end.

    The tolerance is relative to the objective where that is below 1, and no decrement has to be below the
    objective's rounding errors.
    """

    def is_converged(point: Point, relative: float) -> bool:
        scale = model.response.loss_scale(point.value)
        return bool(point.decrement <= max(tol * min(1.0, scale), relative * scale))

    search = next(searches)
    while not is_converged(search.accepted, _NEGLIGIBLE) and search.iterations < max_iter:
        after = next(searches, None)
        if after is None:
            return Minimum(search.accepted, search.iterations, is_converged(search.accepted, 1e3 * _ROUNDING))
        search = after
        if report_step is not None:
            report_step(search.accepted)
    return Minimum(search.accepted, search.iterations, is_converged(search.accepted, _ROUNDING))


def minimise(
    objective: Objective,
    start: Array,
    solver: Solver = "auto",
    tol: float = 1e-8,
    max_iter: int = 100,
    report_step: StepReport | None = None,
) -> Minimum:
    """Minimise the objective with a solver, from parameters `start` (D,).

    It stops when the decrement is at most about `tol`, or after `max_iter` accepted points.
    """
    response, prior, rows = objective.response, objective.prior, objective.rows
    starts_at_sample_mode = starts_newton_at_sample_mode(objective, solver)
    solver = choose_solver(objective, solver)
    newton: LineSearch = Newton(
        response,
        prior,
        with_information=starts_at_sample_mode or (solver == "newton" and _is_pass_slow(objective)),
    )
    if solver == "newton":
        return _run_until_converged(newton, descend(newton, rows, Search(start)), tol, max_iter, report_step)
    with threads.one_blas_thread:  # lanes of rows use all cores, for which BLAS threads would compete
        if solver == "diagonal":
            sample_mode, whitening = start, _whiten_diagonal(objective, start)
        else:
            sample_mode, whitening = _minimise_sample(objective, start)
        if starts_at_sample_mode:
            searches = descend(newton, rows, Search(sample_mode))
            return _run_until_converged(newton, searches, tol, max_iter, report_step)
        model: LineSearch = QuasiNewton(response, prior, whitening)
        if solver == "whitened" and objective.size > MAX_HESSIAN_SIZE:
            # The whitening was computed at the start. Near the mode the information may be much smaller, and
            # L-BFGS is then slow.
            model = TruncatedNewton(response, prior, whitening, objective.information_product)
        first = next(descend(model, rows, Search(sample_mode)))
        if not np.isfinite(first.accepted.value):  # the mode of a sample may be out of range for other rows
            return _run_until_converged(
                newton, descend(newton, rows, Search(start)), tol, max_iter, report_step
            )
        return _run_until_converged(model, descend(model, rows, first), tol, max_iter, report_step)


def polish(
    objective: Objective,
    point: Point,
    precision: Array,
    tol: float,
    max_iter: int,
    report_step: StepReport | None = None,
) -> Minimum:
    """Continue from `point` with L-BFGS, whitened by a full matrix computed there.

    One such step usually replaces several of `minimise`. The matrix is `precision`, the expected information
    plus the prior's precision. With a link that is not canonical it is the Hessian, if that is positive
    definite.
    """
    if not objective.response.is_canonical:
        precision = compute_semidefinite_hessian(objective, point.parameters)
    model = QuasiNewton(objective.response, objective.prior, Triangular.of(precision))
    return _run_until_converged(
        model, descend(model, objective.rows, model.resume(point)), tol, max_iter, report_step
    )


def compute_semidefinite_hessian(objective: Objective, at: Array) -> Array:
    """Return the Hessian of the objective (D, D), or its expectation if that is not positive definite."""
    if not objective.response.is_canonical:
        hessian = objective.prior.add_to(objective.information(at, observed=True))
        if bool(Cholesky.factorise_definite(hessian)[1]):
            return hessian
    return objective.prior.add_to(objective.information(at))


def choose_solver(objective: Objective, solver: Solver) -> Solver:
    """Return the solver; "auto" is replaced by a choice by the numbers of rows, columns and outputs."""
    if solver != "auto":
        return solver
    if objective.design.width > MAX_HESSIAN_SIZE:
        return "diagonal"
    # SAMPLE is the least number of rows of a sample: its Hessian would cost at least half as much.
    is_small = len(objective.design) <= 2 * SAMPLE and objective.response.outputs == 1
    return "newton" if is_small else "whitened"


def starts_newton_at_sample_mode(objective: Objective, solver: Solver) -> bool:
    """Return whether Newton's method starts at the mode of a sample, with a Hessian at each point.

    It then needs three or four passes over all rows, each of which computes value, gradient and Hessian. This
    is for rows in shards; for rows in memory, more gradients and fewer Hessians are faster. It is not done
    without a prior: the mode of a sample may then be far from that of all rows, where the Hessian vanishes.
    """
    is_whitened = solver == "auto" and choose_solver(objective, solver) == "whitened"
    return (
        is_whitened
        and _is_pass_slow(objective)
        and objective.has_prior_on_all_coefficients()
        and choose_sample(len(objective.design), objective.size) is not None
    )


def _is_pass_slow(objective: Objective) -> bool:
    """Return whether the Hessian is to be computed in each pass, because a further pass would cost more.

    The Hessian must be finite at every trial point, as it is for classes.
    """
    is_small = objective.size <= _FEW_PARAMETERS
    return objective.rows.prefers_few_passes and is_small and objective.response.has_classes


def _minimise_sample(objective: Objective, start: Array) -> tuple[Array, Whitening]:
    """Minimise the objective of a sample of the rows; return the minimum and the whitening there."""
    sample = objective.sample() or objective
    whitening = _whiten_at_equal_scores(sample, start)
    model = QuasiNewton(sample.response, sample.prior, whitening)
    searches = descend(model, sample.rows, Search(start))
    sample_mode = _run_until_converged(
        model, searches, _SAMPLE_DECREMENT * objective.size, max_iter=100, report_step=None
    ).point.parameters
    if objective.size > MAX_HESSIAN_SIZE:
        return sample_mode, whitening
    return sample_mode, Triangular.of(compute_semidefinite_hessian(sample, sample_mode))


def _whiten_diagonal(objective: Objective, at: Array) -> Whitening:
    """Return the whitening by the diagonal of the information at a point, and of the prior's precision."""
    return Diagonal.of(objective.information_diagonal(at) + objective.prior.diagonal)


def _whiten_at_equal_scores(objective: Objective, start: Array) -> Whitening:
    """Return the whitening by the information where all coefficients are zero but the intercepts of `start`.

    There all rows have the same scores, the intercepts, so that the information follows from the Gram matrix
    and the information of one row. If there is a single output, and offsets or no intercept, the information
    at `start` is used instead. If a matrix is not positive definite in floats, a diagonal one is used.
    """
    design, response = objective.design, objective.response
    if response.outputs == 1 and (objective.offsets is not None or not design.intercept):
        return Triangular.of(objective.prior.add_to(objective.information(start)))
    gram = objective.gram()
    coefficients = np.atleast_2d(objective.expand(start))
    scores = coefficients[:, -1] if design.intercept else np.zeros(len(coefficients))
    row_information = response.row_information(scores)
    if response.outputs == 1:
        return Triangular.of(objective.prior.add_to(row_information.item() * gram))
    output_factor, definite = Cholesky.factorise_definite(row_information)
    if not bool(definite):  # the probability of some class is almost zero
        return _whiten_diagonal(objective, start)
    # The matrix is a Kronecker product A ⊗ B, where A is the information of one row and B the Gram matrix,
    # plus the prior's precision, which has no such form: B gets it, divided by the mean diagonal of A.
    width = design.width
    columns = gram.copy()
    prior_diagonal = objective.prior.diagonal.reshape(-1, width).mean(axis=0)
    mean_information = np.trace(row_information) / len(row_information)
    columns[np.diag_indices(width)] += prior_diagonal / mean_information + 1e-12 * np.diagonal(columns)
    factor, definite = Cholesky.factorise_definite(columns)
    if not bool(definite):
        return _whiten_diagonal(objective, start)
    return Kronecker(output_factor.lower, factor.lower)
