"""Rows and a prior → the posterior's mode and the Gaussian approximation there (Laplace).

If there may be no mode, coefficients that nothing determines raise `UnidentifiedError`, and coefficients that
grow without bounds are reported in `Fit`.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis import threads
from tamis.arrays import Array
from tamis.linalg import find_dependent
from tamis.models.linear import priors
from tamis.models.linear.laplace import Curvature, Laplace, LaplaceModel, choose_precision, log_evidence
from tamis.models.linear.newton import (
    MAX_HESSIAN_SIZE,
    Minimum,
    Solver,
    StepReport,
    choose_solver,
    compute_semidefinite_hessian,
    minimise,
    polish,
    solve_semidefinite,
    starts_newton_at_sample_mode,
)
from tamis.models.linear.objective import GaussianPrior, LinearRows, Objective, bound_score_change
from tamis.models.linear.responses import Response
from tamis.models.linear.unbounded import find_separating_columns, has_all_rows_correct, make_definite

PosteriorForm = Literal["auto", "full", "diagonal", "none"]

_MAX_STORED_SIZE = 1000  # number of parameters up to which "auto" stores the posterior's full precision
# The largest number of rounds of MacKay's fixed-point iteration. A round chooses the prior's precision and
# finds the mode again.
_MAX_ROUNDS = 50
# Where the decrement is below this, the Hessian differs from that at the mode by a fraction of less than 1e-5
# (as measured with 16,000 rows). A search may stop there if `polish` continues it.
_ROUGH_TOL = 1e-6
_MIN_INFORMATION_CHANGE = 1e-5  # a smaller relative change is ignored; standard errors change by half of it
_MIN_LOG_CHANGE = 1e-3  # a round that changes log α by less is the last
# A parabola through three points, at first _SPACING apart in log α, is maximised at most _MAX_PARABOLAS
# times, until the maximum is less than _MIN_MOVE from the middle point. The middle point moves to the
# maximum, but at most by _MAX_MOVE spacings. The next spacing is the length of this move, but at least
# _CONTRACTION times the last spacing. If the move lowered the evidence, it is undone, and the next spacing is
# _CONTRACTION times the last.
_SPACING, _MAX_PARABOLAS, _MIN_MOVE, _MAX_MOVE, _CONTRACTION = 0.4, 20, 1e-3, 3.0, 0.25
_FLAT_EVIDENCE = 1e-5  # if the three log-evidences differ by less, the search ends
# A column counts as constant if its sum of squares about the mean is below this fraction of that about zero.
_CONSTANT = 1e-13
# The least α, as a fraction of a coefficient's information per row. With so small an α, scores of separable
# classes reach hundreds.
_MIN_RELATIVE_PRECISION = 1e-4


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How to find the mode, and the form in which the posterior is stored."""

    solver: Solver = "auto"
    form: PosteriorForm = "auto"
    tol: float = 1e-8  # the decrement below which Newton's method stops
    max_iter: int = 100  # accepted points of Newton's method, in total over all values of α that are tried

    def choose_form(self, size: int) -> PosteriorForm:
        """Choose the form in which a posterior of `size` parameters is stored."""
        if self.form != "auto":
            return self.form
        return "full" if size <= _MAX_STORED_SIZE else "diagonal"


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A posterior, the prior with the α that was used, and how the fit went."""

    posterior: Laplace
    prior: GaussianPrior
    # At the last point that Newton's method accepted, up to terms that do not depend on the parameters. The
    # mean is this point, or one more step from it.
    log_likelihood: float
    distance_from_mode: float  # an upper bound, in standard deviations
    displacement: Array  # (D,): the mean minus the point at which the precision was computed
    iterations: int
    converged: bool
    # If classes are separable, the columns whose coefficients grow without bounds; an empty array if these
    # are all columns together. None if classes overlap, or if there are no classes.
    separating: NDArray[np.int64] | None = None
    # Whether separable classes let the evidence rise as α → 0, until α is at its lower limit.
    is_evidence_unbounded: bool = False
    is_alpha_converged: bool = True  # False if a search for the α of largest evidence did not converge


class UnidentifiedError(ValueError):
    """Neither rows nor prior determine some coefficients: those of `columns`."""

    def __init__(self, columns: NDArray[np.int64]) -> None:
        super().__init__(f"columns {columns.tolist()} are determined by the others")
        self.columns = columns


def make_prior(
    alpha: object,
    prior: object,
    columns: int,
    outputs: int,
    intercept: bool,
    intercept_alpha: float,
    default: float = 1.0,
) -> tuple[GaussianPrior, bool]:
    """Make a prior on all parameters from a caller's settings; also return whether the evidence chooses α.

    `alpha` is the precision of the coefficients, or "evidence". `prior` is a pair of their mean and their
    covariance, or None; if it is given, `alpha` must be "evidence" or `default`, the number that `alpha` is
    where the caller sets none. `intercept_alpha` is the prior precision of the intercepts.
    """
    width = columns + intercept
    mean = np.zeros((outputs, width))
    if prior is not None:
        coefficient_prior = priors.make_coefficient_prior(alpha, prior, columns, outputs, default)
        mean[:, :columns] = coefficient_prior.mean
        matrix = np.zeros((width, width))
        matrix[:columns, :columns] = coefficient_prior.precision
        matrix[columns:, columns:] = intercept_alpha
        precisions = np.asarray(np.kron(np.eye(outputs), matrix), dtype=np.float64)
        return GaussianPrior(mean.ravel(), precisions), False
    given_precision = priors.read_alpha(alpha, columns)
    precision = np.full((outputs, width), float(intercept_alpha))
    # If the evidence chooses α, the search for it starts at 1.
    precision[:, :columns] = 1.0 if given_precision is None else given_precision
    return GaussianPrior(mean.ravel(), precision.ravel()), given_precision is None


def fit(
    rows: LinearRows,
    response: Response,
    prior: GaussianPrior,
    start: Array,
    options: FitOptions,
    by_evidence: bool = False,
    report_step: StepReport | None = None,
) -> Fit:
    """Find the mode; if `by_evidence`, also choose the precision of the coefficients by the evidence.

    `report_step` is called with each point that Newton's method accepts after its first.
    Without any prior, the scale of the weights does not change the mode. Weights whose mean is below 1 are
    then scaled to a mean of 1 to 2, because tiny losses would be below `tol` before the first step.
    """
    unit = 1.0
    if not prior.diagonal.any():
        unit = min(1.0, float(np.exp2(np.floor(np.log2(rows.mean_weight)))))
    with threads.one_blas_thread:  # rows are read in threads, for whose cores those of BLAS would compete
        if unit == 1.0:
            return _fit(rows, response, prior, start, options, by_evidence, report_step)
        result = _fit(rows.divide_weights(unit), response, prior, start, options, by_evidence, report_step)
    precision = result.posterior.precision
    return replace(
        result,
        posterior=Laplace(result.posterior.mean, None if precision is None else unit * precision),
        log_likelihood=unit * result.log_likelihood,
        distance_from_mode=float(np.sqrt(unit)) * result.distance_from_mode,
    )


def _fit(
    rows: LinearRows,
    response: Response,
    prior: GaussianPrior,
    start: Array,
    options: FitOptions,
    by_evidence: bool,
    report_step: StepReport | None,
) -> Fit:
    """Do the work of `fit`, without a change of the weights."""
    form = options.choose_form(len(start))
    is_full = form == "full" or (by_evidence and len(start) <= _MAX_STORED_SIZE)
    model = LaplaceModel(response, prior, is_full)
    _refuse_unidentified(model, rows)
    if form == "none" and not by_evidence:
        minimum = _minimise(model, rows, start, options, report_step)
        posterior = Laplace(minimum.point.parameters, precision=None)
        return _make_fit(model, rows, minimum, posterior, posterior.mean, minimum.iterations)
    # A search without Hessians may stop early, because `polish` makes the last steps by the full Hessian
    # that the posterior needs. Newton's method, also if it starts at the mode of a sample, has Hessians of
    # its own. Without a prior no search stops early: there may be no mode, which is detected only far from
    # the start, where the information vanishes.
    objective = model.objective_of(rows)
    has_prior = objective.has_prior_on_all_coefficients()
    leaves_last_steps = (
        is_full
        and has_prior
        and choose_solver(objective, options.solver) != "newton"
        and not starts_newton_at_sample_mode(objective, options.solver)
    )
    rough_options = replace(options, tol=max(options.tol, _ROUGH_TOL)) if leaves_last_steps else options
    minimum = _minimise(model, rows, start, rough_options, report_step)
    iterations = minimum.iterations
    curvature = model.observe_at(rows, minimum.point)
    is_unbounded, is_alpha_converged = False, True
    if by_evidence:
        remaining_options = replace(rough_options, max_iter=rough_options.max_iter - iterations)
        choice = _choose_by_evidence(model, rows, curvature, remaining_options, report_step)
        model, minimum, curvature = choice.model, choice.minimum, choice.curvature
        is_unbounded, is_alpha_converged = choice.is_unbounded, choice.is_alpha_converged
        iterations += choice.iterations
    if is_full:
        remaining = max(0, options.max_iter - iterations)
        precision = model.precision(curvature)
        minimum = polish(
            model.objective_of(rows), minimum.point, precision, options.tol, remaining, report_step
        )
        iterations += minimum.iterations
        posterior, origin = _fit_gaussian(model, rows, minimum, curvature)
    else:
        posterior, origin = Laplace(minimum.point.parameters, model.precision(curvature)), curvature.at
    if form == "none":
        posterior = Laplace(posterior.mean, precision=None)
    return _make_fit(model, rows, minimum, posterior, origin, iterations, is_unbounded, is_alpha_converged)


def _fit_gaussian(
    model: LaplaceModel, rows: LinearRows, minimum: Minimum, curvature: Curvature
) -> tuple[Laplace, Array]:
    """Make Newton's last step; return the Gaussian and the point at which its precision was computed.

    `curvature` is that of an earlier point, `curvature.at`. Its information is reused if standard errors
    would hardly change. A search that `max_iter` stopped makes no further step, which might not descend.
    """
    objective, point = model.objective_of(rows), minimum.point
    if not minimum.converged:
        precision = model.prior.add_to(objective.information(point.parameters))
        return Laplace(point.parameters, precision), point.parameters
    loss, gradient = model.row_loss(point)
    posterior = model.infer(replace(curvature, at=point.parameters, loss=loss, gradient=gradient))
    if not objective.response.is_canonical:
        # A step by the expected information could lead away from the mode.
        step = solve_semidefinite(compute_semidefinite_hessian(objective, point.parameters), point.gradient)
        posterior = Laplace(point.parameters - step, posterior.precision)
    if _bound_information_change(objective, curvature.at, posterior.mean) <= _MIN_INFORMATION_CHANGE:
        return posterior, curvature.at
    precision = model.prior.add_to(objective.information(posterior.mean))
    return Laplace(posterior.mean, precision), posterior.mean


def _bound_information_change(objective: Objective, before: Array, after: Array) -> float:
    """Return an upper bound on the relative change of a row's information between two points.

    Rows in shards are not read if their largest norm proves that the change is negligible.
    """
    if objective.rows.prefers_few_passes and objective.response.has_classes:
        # The information of a row changes by at most the factor exp(|change of score|).
        reach, extent = objective.design.find_reach_and_extent()
        with np.errstate(over="ignore"):
            bound = float(np.expm1(bound_score_change(after - before, reach, extent, objective.response)))
        if bound <= _MIN_INFORMATION_CHANGE:
            return bound
    return objective.bound_information_change(before, after)


class _Candidate(NamedTuple):
    """The mode for one prior precision of the coefficients, and the log-evidence of that precision."""

    log_evidence: float
    model: LaplaceModel
    minimum: Minimum
    curvature: Curvature


class _EvidenceChoice(NamedTuple):
    """The mode for the precision that maximises the evidence."""

    model: LaplaceModel
    minimum: Minimum
    curvature: Curvature
    iterations: int
    is_unbounded: bool  # whether the evidence rises as α → 0, because the classes are separable
    is_alpha_converged: bool  # whether a maximum was found within `max_iter`, or there is none


def _choose_by_evidence(
    model: LaplaceModel,
    rows: LinearRows,
    curvature: Curvature,
    options: FitOptions,
    report_step: StepReport | None,
) -> _EvidenceChoice:
    """Find the precision α of all coefficients with the largest evidence, and the mode for it.

    MacKay's (1992) fixed point, which treats the information as constant, is a first approximation. Then the
    maximum of a parabola through the log-evidences at three values of log α, or a step uphill if it has none,
    is tried repeatedly. If classes are separable, the evidence may have no maximum.
    """
    objective = model.objective_of(rows)
    coefficients, iterations, is_unbounded = objective.mask_coefficients(), 0, False
    information = objective.information_diagonal(model.prior.mean)[coefficients]
    row_information = information.mean() / rows.weight  # of a coefficient, in one row
    least = float(np.log(max(_MIN_RELATIVE_PRECISION * row_information, np.finfo(np.float64).tiny)))

    def try_precision(log_precision: float, start: Array) -> _Candidate:
        nonlocal iterations
        precision = model.prior.precision.copy()
        precision[coefficients] = np.exp(log_precision)
        trial = replace(model, prior=GaussianPrior(model.prior.mean, precision))
        remaining_options = replace(options, max_iter=max(0, options.max_iter - iterations))
        minimum = _minimise(trial, rows, start, remaining_options, report_step)
        iterations += minimum.iterations
        at_mode = trial.observe_at(rows, minimum.point)
        posterior = Laplace(at_mode.at, trial.precision(at_mode))
        return _Candidate(log_evidence(-at_mode.loss, posterior, trial.prior), trial, minimum, at_mode)

    last = float(np.log(model.prior.precision[coefficients][0]))
    for _ in range(_MAX_ROUNDS):
        log_precision = max(least, float(np.log(choose_precision(curvature, model.prior, coefficients))))
        best = try_precision(log_precision, curvature.at)
        model, curvature = best.model, best.curvature
        is_unbounded = log_precision == least and has_all_rows_correct(model.objective_of(rows), curvature.at)
        if is_unbounded or abs(log_precision - last) < _MIN_LOG_CHANGE or iterations >= options.max_iter:
            break
        last = log_precision
    spacing, is_alpha_converged = _SPACING, False
    for _ in range(_MAX_PARABOLAS):
        if is_unbounded or is_alpha_converged or iterations >= options.max_iter:
            break
        left, right = (
            try_precision(log_precision + side * spacing, curvature.at).log_evidence for side in (-1.0, 1.0)
        )
        if iterations >= options.max_iter:  # these two fits may not have converged
            break
        middle = best.log_evidence
        second_difference = left - 2.0 * middle + right
        has_maximum = second_difference < 0.0
        is_alpha_converged = max(abs(left - middle), abs(right - middle)) <= _FLAT_EVIDENCE
        longest = _MAX_MOVE * spacing
        move = longest * np.sign(right - left)
        if has_maximum:
            move = np.clip(0.5 * spacing * (left - right) / second_difference, -longest, longest)
        move = max(float(move), least - log_precision)
        candidate = try_precision(log_precision + move, curvature.at)
        is_alpha_converged = is_alpha_converged or (
            has_maximum and abs(move) < _MIN_MOVE and log_precision > least
        )
        if candidate.log_evidence < middle:
            spacing *= _CONTRACTION
            continue
        log_precision, best = log_precision + move, candidate
        is_unbounded = log_precision <= least + _MIN_LOG_CHANGE and has_all_rows_correct(
            model.objective_of(rows), best.curvature.at
        )
        spacing = max(_CONTRACTION * spacing, abs(move))
    return _EvidenceChoice(
        best.model, best.minimum, best.curvature, iterations, is_unbounded, is_alpha_converged or is_unbounded
    )


def _minimise(
    model: LaplaceModel, rows: LinearRows, start: Array, options: FitOptions, report_step: StepReport | None
) -> Minimum:
    objective = model.objective_of(rows)
    return minimise(objective, start, options.solver, options.tol, options.max_iter, report_step)


def _make_fit(
    model: LaplaceModel,
    rows: LinearRows,
    minimum: Minimum,
    posterior: Laplace,
    origin: Array,
    iterations: int,
    is_unbounded: bool = False,
    is_alpha_converged: bool = True,
) -> Fit:
    """Make the result, after a check whether a mode exists.

    `origin` is the point at which the precision was computed.
    """
    objective = model.objective_of(rows)
    separating = find_separating_columns(objective, posterior.mean, posterior.precision)
    if separating is not None and posterior.precision is not None:
        # Where scores are large, rows have hardly any information, and the precision may be singular.
        posterior = Laplace(posterior.mean, make_definite(objective, posterior.precision))
    loss, _ = model.row_loss(minimum.point)  # without the prior's part
    return Fit(
        posterior=posterior,
        prior=model.prior,
        log_likelihood=-loss,
        distance_from_mode=float(np.sqrt(2.0 * max(minimum.point.decrement, 0.0))),
        displacement=posterior.mean - origin,
        iterations=iterations,
        converged=minimum.converged and separating is None and not is_unbounded and is_alpha_converged,
        separating=separating,
        is_evidence_unbounded=is_unbounded,
        is_alpha_converged=is_alpha_converged,
    )


def _refuse_unidentified(model: LaplaceModel, rows: LinearRows) -> None:
    """Raise if neither rows nor prior determine some coefficients: UnidentifiedError if it is known which."""
    width, columns = rows.design.width, rows.design.columns
    objective = model.objective_of(rows)
    has_flat_prior = objective.mask_flat_priors().reshape(-1, width)[:, :columns].any(axis=0)
    if not has_flat_prior.any():
        return
    if width > MAX_HESSIAN_SIZE:
        # A Gram matrix would be too large: only empty columns and too few rows are detected.
        _, extent = rows.design.find_reach_and_extent()
        empty = np.flatnonzero(has_flat_prior & (extent[:columns] == 0.0))
        if len(empty):
            raise UnidentifiedError(empty)
        count, coefficients = rows.count_weighted_rows(), has_flat_prior.sum()
        if count < coefficients:
            raise ValueError(
                f"got {count} rows for {coefficients} coefficients without a prior, expected at least as "
                "many rows: set alpha above 0, or drop columns"
            )
        return
    gram = objective.gram()
    # The prior of the first output's parameters: which coefficients have one does not depend on the output.
    precision = model.prior.precision
    prior = np.diag(precision[:width]) if precision.ndim == 1 else precision[:width, :width]
    if rows.design.intercept and gram[-1, -1] > 0 and not prior[-1, -1]:
        # A constant column depends on the intercept: centre the Gram matrix, and set such columns to zero.
        about_zero, sums = gram[:-1, :-1], gram[-1, :-1]
        gram, prior = about_zero - np.outer(sums, sums) / gram[-1, -1], prior[:-1, :-1]
        varies = np.diagonal(gram) > _CONSTANT * np.diagonal(about_zero)
        gram = gram * varies * varies[:, None]
    unidentified = find_dependent(gram + prior)
    if len(unidentified):
        raise UnidentifiedError(unidentified)
