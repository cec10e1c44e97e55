"""rows and a prior → the posterior's top, the Gaussian around it, and what is wrong if there is no top."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import threads
from tamis.arrays import Array
from tamis.linalg import dependent
from tamis.models.linear import priors
from tamis.models.linear.laplace import (
    Curvature,
    CurvedModel,
    Laplace,
    LinearRows,
    chosen_precision,
    log_evidence,
)
from tamis.models.linear.newton import (
    WHOLE,
    Outcome,
    Solver,
    Step,
    Watch,
    chosen,
    definite_curvature,
    minimise,
    polish,
    solved,
)
from tamis.models.linear.objective import GaussianPrior
from tamis.models.linear.responses import ClassResponse, Response
from tamis.models.linear.separation import made_definite, on_own_sides, separating

Kept = Literal["auto", "full", "diagonal", "none"]

_KEPT_WHOLE = 1000  # parameters up to which "auto" keeps the whole posterior
_ROUNDS = 50  # of choosing a prior's precision and going to the top again
_NEARBY = 1e-6  # decrement at which curvatures are as good as at the top: 1e-5 of them, for 16,000 rows
_MEASURABLE = 1e-5  # relative change of the information: half as much of standard errors
_SETTLED = 1e-3  # change of log α that ends them
_APART, _PARABOLAS, _NEAR_ENOUGH = 0.4, 20, 1e-3  # of log α: three points of a parabola, and when to stop
_FLAT_EVIDENCE = 1e-5  # of its logarithm: three points that differ by less are as good as each other
_CONSTANT = 1e-13  # of a column's squares: what its mean leaves of them, if it is constant
_LEAST_PRECISION = 1e-4  # of what one row tells of a coefficient: a prior of scores in the hundreds


@dataclass(frozen=True, slots=True)
class Plan:
    """How to go to the top, and what to keep of what is seen there."""

    solver: Solver = "auto"
    keep: Kept = "auto"
    tol: float = 1e-8
    max_iter: int = 100

    def keeps(self, size: int) -> Kept:
        """What is kept of a posterior over so many parameters."""
        if self.keep != "auto":
            return self.keep
        return "full" if size <= _KEPT_WHOLE else "diagonal"


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A posterior, and how it came about."""

    posterior: Laplace
    prior: GaussianPrior
    log_likelihood: float  # at the mean, but for what does not depend on the parameters
    slack: float  # distance from the top, at most, in standard deviations
    moved: Array  # (D,): how far the mean is from where the precision was taken
    iterations: int
    converged: bool
    separating: NDArray[np.int64] | None = None  # columns along which the classes do not overlap at all
    endless: bool = False  # whether evidence rises as the prior fades, for the classes lie apart
    settled: bool = True  # whether evidence has settled on a precision, if it was to choose one


class UnidentifiedError(ValueError):
    """Rows and prior leave some coefficients open."""

    def __init__(self, columns: NDArray[np.int64]) -> None:
        super().__init__(f"columns {columns.tolist()} are determined by the others")
        self.columns = columns


def gaussian_prior(
    alpha: object,
    prior: object,
    columns: int,
    outputs: int,
    intercept: bool,
    intercept_alpha: float,
    usual: float = 1.0,
) -> tuple[GaussianPrior, bool]:
    """What a caller says of coefficients → a prior on all parameters, and whether evidence is to choose α."""
    width = columns + intercept
    mean = np.zeros((outputs, width))
    if prior is not None:
        given = priors.coefficients(alpha, prior, columns, outputs, usual)
        mean[:, :columns] = given.mean
        matrix = np.zeros((width, width))
        matrix[:columns, :columns] = given.precision
        matrix[columns:, columns:] = intercept_alpha
        return GaussianPrior(
            mean.ravel(), np.asarray(np.kron(np.eye(outputs), matrix), dtype=np.float64)
        ), False
    strength = priors.evidence_or(alpha, "alpha", ("evidence",))
    free = isinstance(strength, str)
    known = np.ones(()) if free else strength
    if known.shape not in ((), (columns,)):
        raise ValueError(
            f"got alpha of shape {known.shape}, expected one number or one per column ({columns},)"
        )
    if not ((known >= 0) & (known < np.inf)).all():
        raise ValueError(f"got alpha={known.min():g}, expected finite numbers of at least 0")
    precision = np.full((outputs, width), float(intercept_alpha))
    precision[:, :columns] = known
    return GaussianPrior(mean.ravel(), precision.ravel()), free


def level_start(rows: LinearRows, response: ClassResponse, prior: GaussianPrior) -> Array:
    """Where to begin with classes: the prior's mean, its intercepts at the classes' shares."""
    start = prior.mean.copy()
    if not rows.design.intercept:
        return start
    counts = np.bincount(rows.targets.astype(np.intp), rows.weights, response.classes)
    cells = start.reshape(-1, rows.design.width)
    cells[:, -1] += response.class_contrasts.T @ np.log(np.maximum(counts, 1e-3 * counts.max()))
    return start


def with_unseen(prior: GaussianPrior, rows: LinearRows, response: ClassResponse) -> GaussianPrior:
    """The prior, and for classes without a row a weak one on their intercepts: as if half a row was seen.

    Without it a class that is yet to come would be as improbable as steps allow.
    """
    width = rows.design.width
    counts = np.bincount(rows.targets.astype(np.intp), rows.weights, response.classes)
    unseen = counts == 0.0
    ends = np.arange(width - 1, len(prior.mean), width)
    if not rows.design.intercept or not unseen.any() or prior.diagonal[ends].all():
        return prior
    levels = np.log(np.where(unseen, 0.5, counts))
    turn = response.class_contrasts.T
    mean, own = prior.mean.copy(), 0.5 * np.square(turn) @ unseen
    mean[ends] += turn @ levels
    precision = prior.precision.copy()
    if precision.ndim == 2:
        precision[ends, ends] += own
    else:
        precision[ends] += own
    return GaussianPrior(mean, precision)


def fit(
    rows: LinearRows,
    response: Response,
    prior: GaussianPrior,
    start: Array,
    plan: Plan,
    free: bool = False,
    watch: Watch | None = None,
) -> Fit:
    """Go to the top; with `free`, choose the precision of the coefficients on the way by their evidence.

    Where nothing has a prior, weights have no scale of their own: rows that weigh less than 1 in the mean
    are taken as if they did not, or `tol` would be reached at once.
    """
    unit = 1.0
    if rows.weights is not None and not prior.diagonal.any():
        mean = float(np.mean(rows.weights, where=rows.weights > 0)) if rows.weights.any() else 1.0
        unit = min(1.0, float(np.exp2(np.floor(np.log2(mean)))))
    with threads.one_blas_thread:
        if unit == 1.0:
            return _fit(rows, response, prior, start, plan, free, watch)
        scaled = replace(rows, weights=None if rows.weights is None else rows.weights / unit)
        found = _fit(scaled, response, prior, start, plan, free, watch)
    precision = found.posterior.precision
    return replace(
        found,
        posterior=Laplace(found.posterior.mean, None if precision is None else unit * precision),
        log_likelihood=unit * found.log_likelihood,
        slack=float(np.sqrt(unit)) * found.slack,
    )


def _fit(
    rows: LinearRows,
    response: Response,
    prior: GaussianPrior,
    start: Array,
    plan: Plan,
    free: bool,
    watch: Watch | None,
) -> Fit:
    kept = plan.keeps(len(start))
    whole = kept == "full" or (free and len(start) <= _KEPT_WHOLE)
    model = CurvedModel(response, prior, whole)
    _refuse_unidentified(model, rows)
    if kept == "none" and not free:
        outcome = _climb(model, rows, start, plan, watch)
        posterior = Laplace(outcome.last.parameters, None)
        return _judged(model, rows, outcome, posterior, posterior.mean, outcome.iterations)
    # where the whole curvature will be known, the last steps are left to it; but not without a prior, where
    # the way may have no end, and that is told by what curvature there is far out
    firm = not model.objective_of(rows).flat()[_coefficients(rows, len(start))].any()
    waits = whole and firm and chosen(model.objective_of(rows), plan.solver) != "newton"
    near = replace(plan, tol=max(plan.tol, _NEARBY)) if waits else plan
    outcome = _climb(model, rows, start, near, watch)
    iterations = outcome.iterations
    curvature = _curvature(model, rows, outcome.last)
    endless, settled = False, True
    if free:
        left = replace(near, max_iter=near.max_iter - iterations)
        model, outcome, curvature, more, endless, settled = _by_evidence(model, rows, curvature, left, watch)
        iterations += more
    if whole:
        precision = model.prior.added_to(curvature.information)
        most = max(0, plan.max_iter - iterations)
        outcome = polish(model.objective_of(rows), outcome.last, precision, plan.tol, most, watch)
        iterations += outcome.iterations
        posterior, taken_at = _at_the_mode(model, rows, outcome, curvature)
    else:
        posterior = Laplace(outcome.last.parameters, curvature.information + model.prior.diagonal)
        taken_at = curvature.at
    if kept == "none":
        posterior = Laplace(posterior.mean, None)
    return _judged(model, rows, outcome, posterior, taken_at, iterations, endless, settled)


def _at_the_mode(
    model: CurvedModel, rows: LinearRows, outcome: Outcome, curvature: Curvature
) -> tuple[Laplace, Array]:
    """The last step of Newton's, the precision at the coefficients that it leads to, and where it was taken.

    The curvature at hand, taken a little earlier, is kept where standard errors cannot tell the difference.
    Steps that were stopped early get no further one: it would not be counted, and might not descend.
    """
    objective, last = model.objective_of(rows), outcome.last
    if not outcome.converged:
        precision = model.prior.added_to(objective.curvature(last.parameters))
        return Laplace(last.parameters, precision), last.parameters
    loss, pull = model.prior.loss(last.parameters)
    here = replace(curvature, at=last.parameters, loss=last.value - loss, gradient=last.gradient - pull)
    posterior = model.infer(here)
    if not objective.response.is_canonical:  # a step by the expected information could lead away again
        step = solved(definite_curvature(objective, last.parameters), last.gradient)
        posterior = Laplace(last.parameters - step, posterior.precision)
    if objective.information_change(curvature.at, posterior.mean) <= _MEASURABLE:
        return posterior, curvature.at
    precision = model.prior.added_to(objective.curvature(posterior.mean))
    return Laplace(posterior.mean, precision), posterior.mean


def _by_evidence(
    model: CurvedModel,
    rows: LinearRows,
    curvature: Curvature,
    plan: Plan,
    watch: Watch | None,
) -> tuple[CurvedModel, Outcome, Curvature, int, bool, bool]:
    """The same with the precision of all coefficients that makes the rows most probable.

    MacKay's fixed point comes near, for it takes the curvature to stand still; a parabola through three
    precisions around it finds the top. Classes that lie apart may have no top: then the last but one is true.
    The last is whether a top was found before steps ran out.
    """
    alike, taken, endless = _coefficients(rows, len(curvature.at)), 0, False
    told = model.objective_of(rows).diagonal(model.prior.mean)[alike].mean() / rows.weight
    least = float(np.log(max(_LEAST_PRECISION * told, np.finfo(np.float64).tiny)))

    def at(log_precision: float, start: Array) -> tuple[float, CurvedModel, Outcome, Curvature]:
        nonlocal taken
        precision = model.prior.precision.copy()
        precision[alike] = np.exp(log_precision)
        there = replace(model, prior=GaussianPrior(model.prior.mean, precision))
        found = _climb(there, rows, start, replace(plan, max_iter=max(0, plan.max_iter - taken)), watch)
        taken += found.iterations
        seen = _curvature(there, rows, found.last)
        whole = there.prior.added_to(seen.information) if model.whole else seen.information + precision
        return log_evidence(-seen.loss, Laplace(seen.at, whole), there.prior), there, found, seen

    before = float(np.log(model.prior.precision[alike][0]))
    for _ in range(_ROUNDS):
        log_precision = max(least, float(np.log(chosen_precision(curvature, model.prior, alike))))
        best = at(log_precision, curvature.at)
        _, model, _, curvature = best
        endless = log_precision == least and on_own_sides(model.objective_of(rows), curvature.at)
        if endless or abs(log_precision - before) < _SETTLED or taken >= plan.max_iter:
            break
        before = log_precision
    step, settled = _APART, False
    for _ in range(_PARABOLAS):
        if endless or settled or taken >= plan.max_iter:
            break
        left, right = (at(log_precision + side * step, curvature.at)[0] for side in (-1.0, 1.0))
        bend = left - 2.0 * best[0] + right
        if taken >= plan.max_iter:  # these two may not be at their modes
            break
        settled = max(abs(left - best[0]), abs(right - best[0])) <= _FLAT_EVIDENCE
        move = 3.0 * step * np.sign(right - left)
        if bend < 0.0:
            move = np.clip(0.5 * step * (left - right) / bend, -3.0 * step, 3.0 * step)
        move = max(float(move), least - log_precision)
        there = at(log_precision + move, curvature.at)
        settled = settled or (bend < 0.0 and abs(move) < _NEAR_ENOUGH and log_precision > least)
        if there[0] < best[0]:
            step *= 0.25
            continue
        log_precision, best = log_precision + move, there
        endless = log_precision <= least + _SETTLED and on_own_sides(model.objective_of(rows), best[3].at)
        step = max(0.25 * step, abs(move))
    return best[1], best[2], best[3], taken, endless, settled or endless


def _climb(model: CurvedModel, rows: LinearRows, start: Array, plan: Plan, watch: Watch | None) -> Outcome:
    return minimise(model.objective_of(rows), start, plan.solver, plan.tol, plan.max_iter, watch)


def _curvature(model: CurvedModel, rows: LinearRows, last: Step) -> Curvature:
    return model.seen(rows, last.parameters, last.value, last.gradient)


def _coefficients(rows: LinearRows, size: int) -> NDArray[np.bool_]:
    """Which parameters are coefficients, not intercepts (D,)."""
    width = rows.design.width
    found = np.ones((size // width, width), dtype=np.bool_)
    found[:, rows.design.columns :] = False
    return found.ravel()


def _judged(
    model: CurvedModel,
    rows: LinearRows,
    outcome: Outcome,
    posterior: Laplace,
    taken_at: Array,
    iterations: int,
    endless: bool = False,
    settled: bool = True,
) -> Fit:
    loss = outcome.last.value - model.prior.loss(outcome.last.parameters)[0]
    objective = model.objective_of(rows)
    found = separating(objective, posterior.mean, posterior.precision)
    if found is not None and posterior.precision is not None:
        posterior = Laplace(posterior.mean, made_definite(objective, posterior.precision))
    return Fit(
        posterior,
        model.prior,
        -loss,
        float(np.sqrt(2.0 * max(outcome.last.decrement, 0.0))),
        posterior.mean - taken_at,
        iterations,
        outcome.converged and found is None and not endless and settled,
        found,
        endless,
        settled,
    )


def _refuse_unidentified(model: CurvedModel, rows: LinearRows) -> None:
    """Raise if some coefficients are neither told by the rows nor by the prior."""
    width = rows.design.width
    flat = model.objective_of(rows).flat().reshape(-1, width)[:, : rows.design.columns].any(axis=0)
    if not flat.any():
        return
    if width > WHOLE:  # too many for their products: what is empty, at least, and what cannot be
        empty = np.flatnonzero(flat & (rows.design.extent()[1][: rows.design.columns] == 0.0))
        if len(empty):
            raise UnidentifiedError(empty)
        count = len(rows.design) if rows.weights is None else int(np.count_nonzero(rows.weights))
        if count < flat.sum():
            raise ValueError(
                f"got {count} rows for {flat.sum()} coefficients without a prior, expected at least as many "
                "rows: set alpha above 0, or drop columns"
            )
        return
    gram = model.objective_of(rows).gram()
    own = model.prior.precision
    belief = np.diag(own[:width]) if own.ndim == 1 else own[:width, :width]
    if rows.design.intercept and gram[-1, -1] > 0 and not belief[-1, -1]:  # what is constant, it explains
        raw, sums = gram[:-1, :-1], gram[-1, :-1]
        gram, belief = raw - np.outer(sums, sums) / gram[-1, -1], belief[:-1, :-1]
        varies = np.diagonal(gram) > _CONSTANT * np.diagonal(raw)
        gram = gram * varies * varies[:, None]
    found = dependent(gram + belief)
    if len(found):
        raise UnidentifiedError(found)
