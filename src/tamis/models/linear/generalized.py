"""Generalised linear models: the start of Newton's method, and the deviance and dispersion of a fit.

Losses are for a dispersion of 1, and the prior's covariance is in units of the dispersion φ, so that φ does
not change the mode and is estimated afterwards. The posterior's covariance is φ times the inverse precision.
If rows are learned in parts, Pearson's squares, deviances and numbers of rows of the parts are added, with a
second-order correction because the coefficients have changed since each part was fitted. (McCullagh and
Nelder, Generalized Linear Models, chapters 2 and 9, on deviance, dispersion and weighted least squares)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from tamis.arrays import Array
from tamis.models.linear.fitting import Fit, FitOptions
from tamis.models.linear.held_out import HeldOutNumbers
from tamis.models.linear.laplace import Laplace, log_evidence, recentre
from tamis.models.linear.newton import MAX_HESSIAN_SIZE, minimise
from tamis.models.linear.objective import GaussianPrior, LinearRows, Objective
from tamis.models.linear.responses import Gaussian, Response, leave_out_scores
from tamis.models.linear.unbounded import find_vanishing_columns
from tamis.models.linear.updates import FittedLinear, continue_fit, decay_fit, keep_fit, merge_fits

_MIN_RELATIVE_DEVIATION = 1e-12  # targets with a smaller relative deviation from their mean count as equal
_CELLS = 1 << 24  # the largest product of rows and columns for which a linear program is solved
_MIN_RELATIVE_SCORE = 1e-9  # a score below this fraction of the typical one may be an error of `linprog`


# ── options and start ──


def choose_options(options: FitOptions, response: Response, rows: LinearRows) -> FitOptions:
    """Choose the solver for "auto" where the response restricts it, and a smaller tolerance where needed."""
    # Other solvers start at the mode of a sample, where other rows may have scores out of the link's range.
    # And linear least squares need only one step of Newton's method.
    if options.solver == "auto" and response.start_needs_all_rows:
        options = replace(options, solver="newton" if rows.design.width <= MAX_HESSIAN_SIZE else "diagonal")
    if not response.is_canonical:  # then the decrement may use the expected information, and is less exact
        options = replace(options, tol=1e-4 * options.tol)
    return options


def find_start(
    rows: LinearRows, response: Response, prior: GaussianPrior, near: Array | None = None
) -> Array:
    """Find parameters at which every score is in the link's range, and not far from the optimum.

    `near` are the parameters of a model of other rows. If they keep the scores of these rows in range, they
    are returned.
    """
    objective = Objective.of(rows, response, prior)

    def is_in_range(parameters: Array) -> bool:
        value, _ = objective.value_and_gradient(parameters)
        return bool(np.isfinite(value))

    if near is not None and is_in_range(near):
        return near
    start, design = prior.mean.copy(), rows.design
    if design.intercept:
        base = rows.map(partial(_add_scores, start)) if start.any() else rows
        intercept = base.find_null_intercept(response)
        if not np.isfinite(intercept):  # all targets are 0, or all are 1: only a prior bounds the intercept
            intercept = base.map(partial(_shrink_targets, len(design))).find_null_intercept(response)
        start[-1] += intercept
        return start
    mean = response.start_means(np.array([rows.mean_target]), 0.5).item()
    for is_same in (False, True):
        reweighted = _fit_squares(rows.map(partial(_reweight, response, mean, is_same)), prior)
        if is_in_range(reweighted):
            return reweighted
    if is_in_range(start):
        return start
    interior = find_interior(rows, float(response.link_function(np.array(mean))))
    if interior is not None and is_in_range(interior):
        return interior
    raise ValueError(
        f"found no coefficients that keep all means in the range of link={response.link!r} without an "
        "intercept: set link='log', or fit_intercept=True"
    )


def _add_scores(parameters: Array, rows: LinearRows) -> LinearRows:
    """Return the rows with the scores at these parameters added to their offsets."""
    return replace(rows, offsets=rows.scores(parameters))


def _shrink_targets(count: int, rows: LinearRows) -> LinearRows:
    """Move targets a little towards ½, as if a row with target ½ were added to all `count` rows."""
    return replace(rows, targets=rows.targets + (0.5 - rows.targets) / (count + 1.0))


def _reweight(response: Response, mean: float, is_same: bool, rows: LinearRows) -> LinearRows:
    """Return the rows of the first step of iteratively reweighted least squares (IRLS).

    `mean` is inside the link's range, near that of all targets. If `is_same`, all rows start from it,
    otherwise each from a mean between it and the row's target.
    """
    means = np.full(len(rows.targets), mean) if is_same else response.start_means(rows.targets, mean)
    scores = response.link_function(means)
    weights = response.information(scores) * (1.0 if rows.weights is None else rows.weights)
    targets = scores if rows.offsets is None else scores - rows.offsets
    return LinearRows(rows.design, targets, weights, number=rows.number)  # the number of their shard


def _fit_squares(rows: LinearRows, prior: GaussianPrior) -> Array:
    """Return the parameters that fit the targets by least squares with this prior."""
    objective = Objective.of(rows, Gaussian(), prior)
    if rows.design.width <= MAX_HESSIAN_SIZE:
        return minimise(objective, prior.mean, "newton", max_iter=1).point.parameters
    return minimise(objective, prior.mean, "diagonal", max_iter=30).point.parameters


def find_interior(rows: LinearRows, typical_score: float) -> Array | None:
    """Find parameters that maximise the smallest score, up to `typical_score`, by linear programming.

    Return None if the smallest score cannot be positive, or if there are too many rows and columns.
    """
    design = rows.design
    n, width = len(design), design.width
    if n * width > _CELLS:
        return None
    rows = rows.take(np.arange(n))
    matrix = np.concatenate([block.dense() for block in rows.design.blocks(0, n)])
    scale = np.abs(matrix).max(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    offsets = np.zeros(n) if rows.offsets is None else rows.offsets
    program = linprog(  # maximise t ≤ 1 with x·w + offset ≥ t, for scores in units of `typical_score`
        np.append(np.zeros(width), -1.0),
        A_ub=np.column_stack([-matrix / scale, np.ones(n)]),
        b_ub=offsets / typical_score,
        bounds=[(None, None)] * width + [(None, 1.0)],
    )
    if program.x is None or not program.x[-1] > _MIN_RELATIVE_SCORE:
        return None
    return np.asarray(program.x[:width] * typical_score / scale)


@dataclass(frozen=True, slots=True, eq=False)
class ScaledRows:
    """The same rows and prior with targets divided by a unit, so that losses of rows are near one.

    The unit is a power of two, so the division is exact. It divides losses by its square. With an identity
    link, offsets and parameters are divided by the unit, too. With a log link, the logarithm of the unit is
    subtracted from offsets, and the prior's precision is divided by the square of the unit.
    """

    rows: LinearRows
    prior: GaussianPrior
    unit: float
    is_linear: bool  # whether the link is the identity

    @classmethod
    def of(cls, rows: LinearRows, response: Response, prior: GaussianPrior) -> "ScaledRows":
        """Choose the unit of the targets and rescale rows and prior."""
        is_linear = response.scores_have_unit
        unit = _choose_unit(response, rows) if response.targets_have_unit else 1.0
        if unit == 1.0:
            return cls(rows, prior, unit, is_linear)
        if is_linear:
            prior = GaussianPrior(prior.mean / unit, prior.precision)
        else:
            prior = GaussianPrior(prior.mean, prior.precision / unit**2)
        return cls(rows.map(partial(_change_unit, unit, is_linear)), prior, unit, is_linear)

    def scale_parameters(self, parameters: Array) -> Array:
        """Convert parameters for the given targets to parameters for the scaled ones."""
        return parameters / self.unit if self.is_linear else parameters

    def restore(self, fit: Fit, prior: GaussianPrior) -> Fit:
        """Convert a fit of the scaled rows to one of the given rows; `prior` is the given prior."""
        mean, precision = fit.posterior.mean, fit.posterior.precision
        if self.is_linear:
            return replace(fit, posterior=Laplace(mean * self.unit, precision), prior=prior)
        precision = None if precision is None else precision * self.unit**2
        return replace(fit, posterior=Laplace(mean, precision), prior=prior)


def _change_unit(unit: float, is_linear: bool, rows: LinearRows) -> LinearRows:
    """Divide targets by a unit: see `ScaledRows`."""
    offsets = rows.offsets
    if is_linear:
        offsets = None if offsets is None else offsets / unit
    else:
        offsets = (np.zeros(len(rows.targets)) if offsets is None else offsets) - np.log(unit)
    return replace(rows, targets=rows.targets / unit, offsets=offsets)


def _choose_unit(response: Response, rows: LinearRows) -> float:
    """Choose a power of two near the targets' standard deviation or, if that is 0, their root mean square."""
    squares = rows.total(partial(_sum_squares, response, rows.find_null_intercept(response)))
    about_null, about_zero = np.sqrt(squares / rows.weight).tolist()
    for size in (about_null, about_zero):
        if size > _MIN_RELATIVE_DEVIATION * about_zero and np.isfinite(size):
            return float(2.0 ** np.round(np.log2(size)))
    return 1.0


def _sum_squares(response: Response, null_intercept: float, rows: LinearRows) -> Array:
    """Return Σ weight · square of the targets about the null model's means, and about zero (2,)."""
    residuals = rows.targets - response.mean(rows.null_scores(null_intercept))
    return np.array([rows.sum(np.square(residuals)), rows.sum(np.square(rows.targets))])


# ── a fit → its dispersion ──


def effective_parameters(posterior: Laplace, prior: GaussianPrior) -> float:
    """Return the effective number of parameters, which the rows and not the prior determine.

    It is the number of all parameters if no precision is stored, or if there is no prior.
    """
    count = float(len(posterior.mean))
    if posterior.precision is None or not prior.diagonal.any():
        return count
    covariance = posterior.covariance()
    if covariance.ndim == 1:
        return count - float(covariance @ prior.diagonal)
    if prior.precision.ndim == 1:
        return count - float(np.diagonal(covariance) @ prior.precision)
    return count - float((covariance * prior.precision).sum())


def estimate_dispersion(
    method: str | float, response: Response, pearson: float, deviance: float, weight: float, freedom: float
) -> float:
    """Estimate φ from Pearson's squares and the deviance of rows.

    `freedom` is the residual degrees of freedom; if they are not above 0, Pearson's estimate is NaN. The
    method "pearson" is Pearson's estimate; "estimate" is the same if the family has a dispersion, otherwise
    1; "mle" maximises the likelihood, and is 1 for a family without a dispersion; a number is the dispersion
    itself.
    """
    if not isinstance(method, str):
        return method
    if method != "pearson" and not response.has_dispersion:
        return 1.0
    if method != "mle":
        return pearson / freedom if freedom > 0 else float("nan")
    return response.likeliest_dispersion(deviance / weight)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FittedGeneralized(FittedLinear):
    """A generalised linear model that was fitted; the posterior is for a dispersion of 1."""

    dispersion: float
    deviance: float
    pearson: float  # Σ weight (y − mean)²/variance, with the variance for a dispersion of 1
    freedom: float  # the residual degrees of freedom
    effective: float  # the effective number of parameters
    null_deviance: float  # NaN if the rows were learned in parts
    log_likelihood: float  # NaN if the rows were learned in parts

    def compute_explained_deviance(self, rows: LinearRows) -> float:
        """Return D², the fraction of the null model's deviance that the model explains.

        If the null model's deviance is 0, D² is 1 if the model's is 0, too, and 0 otherwise.
        """
        response, targets = self.response, rows.targets
        deviance = rows.sum(response.deviance_by_score(rows.scores(self.posterior.mean), targets))
        null = rows.sum(
            response.deviance_by_score(rows.null_scores(rows.find_null_intercept(response)), targets)
        )
        if null > 0:
            return 1.0 - deviance / null
        return 1.0 if deviance <= 0 else 0.0


def make_generalized_fit(
    rows: LinearRows, response: Response, fit: Fit, method: str | float, is_part: bool = False
) -> tuple[FittedGeneralized, NDArray[np.int64] | None]:
    """Add to a fit its dispersion, deviance and, unless the rows are only a part, log-likelihood.

    Also return the indices of the columns whose coefficients grow without bounds because means vanish, or
    None if there are none.
    """
    at = fit.posterior.mean
    null_intercept = np.nan if is_part else rows.find_null_intercept(response)
    deviance, pearson, null_deviance = rows.total(
        partial(_sum_deviances, response, at, null_intercept)
    ).tolist()
    effective = effective_parameters(fit.posterior, fit.prior)
    freedom = rows.weight - effective
    dispersion = estimate_dispersion(method, response, pearson, deviance, rows.weight, freedom)
    log_likelihood = evidence = np.nan
    if not is_part:
        # As in statsmodels, the log-likelihood of a normal response is that at the most likely dispersion.
        is_likeliest = response.uses_likeliest_dispersion and isinstance(method, str)
        reported = max(deviance, 0.0) / rows.weight if is_likeliest else dispersion
        likelihoods = rows.total(partial(_sum_log_likelihoods, response, at, (reported, dispersion)))
        log_likelihood, evidence = float(likelihoods[0]), _log_evidence(fit, likelihoods[1], dispersion)
    objective = Objective.of(rows, response, fit.prior)
    unbounded_columns = find_vanishing_columns(objective, at, fit.posterior.is_full)
    if unbounded_columns is not None:
        fit = replace(fit, converged=False)
    linear = keep_fit(rows, response, fit, log_likelihood, can_remove=False)
    state = FittedGeneralized(
        **{field.name: getattr(linear, field.name) for field in fields(linear)},
        dispersion=dispersion,
        deviance=deviance,
        pearson=pearson,
        freedom=freedom,
        effective=effective,
        null_deviance=null_deviance,
        log_likelihood=log_likelihood,
    )
    if not np.isnan(state.log_evidence):
        state = replace(state, log_evidence=evidence)
    return state, unbounded_columns


def _sum_deviances(response: Response, at: Array, null_intercept: float, rows: LinearRows) -> Array:
    """Return the deviance and Pearson's squares of rows at a point, and the null model's deviance (3,).

    The last one is NaN if `null_intercept` is, because it is not needed.
    """
    targets, scores = rows.targets, rows.scores(at)
    null_deviance = np.nan
    if not np.isnan(null_intercept):
        null_deviance = rows.sum(response.deviance_by_score(rows.null_scores(null_intercept), targets))
    deviance = rows.sum(response.deviance_by_score(scores, targets))
    return np.array([deviance, rows.sum(response.pearson_squares(scores, targets)), null_deviance])


def _sum_log_likelihoods(
    response: Response, at: Array, dispersions: tuple[float, ...], rows: LinearRows
) -> Array:
    """Return the log-likelihood of rows at a point for each dispersion."""
    scores = rows.scores(at)
    likelihoods = {
        dispersion: rows.sum(response.log_likelihood_by_score(scores, rows.targets, dispersion))
        for dispersion in set(dispersions)
    }
    return np.array([likelihoods[dispersion] for dispersion in dispersions])


def _log_evidence(fit: Fit, likelihood: float, dispersion: float) -> float:
    """Return the log-evidence for this dispersion; NaN without a dispersion, a precision or a prior."""
    precision = fit.posterior.precision
    if not dispersion > 0 or precision is None or not fit.prior.diagonal.any():
        return np.nan
    posterior = Laplace(fit.posterior.mean, precision / dispersion)
    return log_evidence(
        likelihood, posterior, GaussianPrior(fit.prior.mean, fit.prior.precision / dispersion)
    )


# ── rows that are learned in parts ──


def continue_generalized(
    before: FittedGeneralized, after: FittedGeneralized, method: str | float
) -> FittedGeneralized:
    """Return the model of all rows, where `after` was fitted with the posterior of `before` as prior."""
    change = _deviance_change(before.posterior, before.prior, after.posterior.mean)
    fit = replace(continue_fit(before, after), log_evidence=np.nan)
    count = before.freedom + before.effective + after.weight
    return _pool(fit, [before, after], change, count, method)


def merge_generalized(fits: Sequence[FittedGeneralized], method: str | float) -> FittedGeneralized:
    """Return the model of all rows, from models that were each fitted to a part of them."""
    first = fits[0]
    for fit in fits[1:]:
        if fit.response != first.response:
            raise ValueError(
                f"got a model of {fit.response.family} by {fit.response.link}, expected "
                f"{first.response.family} by {first.response.link}: merge models of one kind"
            )
        if fit.intercept != first.intercept:
            raise ValueError("got models with and without an intercept, expected all alike")
    merged = merge_fits(fits)
    change = 0.0
    for fit in fits:
        part = recentre(fit.posterior, first.centre - fit.centre, len(first.extent))
        change += _deviance_change(part, first.prior, merged.posterior.mean)
    return _pool(merged, fits, change, sum(fit.freedom + fit.effective for fit in fits), method)


def _deviance_change(part: Laplace, prior: GaussianPrior, mean: Array) -> float:
    """Return how much the deviance of a part's rows grows from its mean to `mean`, to second order.

    It is exact for a normal response with the identity link.
    """
    if part.precision is None:
        return 0.0
    move, from_prior = mean - part.mean, part.mean - prior.mean
    if part.precision.ndim == 1:
        diagonal = prior.diagonal
        return float(np.square(move) @ (part.precision - diagonal) - 2.0 * move @ (diagonal * from_prior))
    matrix = np.diag(prior.precision) if prior.precision.ndim == 1 else prior.precision
    return float(move @ (part.precision - matrix) @ move - 2.0 * move @ matrix @ from_prior)


def _pool(
    fit: FittedGeneralized,
    parts: Sequence[FittedGeneralized],
    change: float,
    count: float,
    method: str | float,
) -> FittedGeneralized:
    """Add the deviances and Pearson's squares of the parts, and estimate the dispersion of all rows.

    `change` is how much the parts' deviances grow because their coefficients become those of `fit`. `count`
    is the degrees of freedom of all rows before those of the coefficients are subtracted.
    """
    pearson = sum(part.pearson for part in parts) + change
    deviance = sum(part.deviance for part in parts) + change
    effective = effective_parameters(fit.posterior, fit.prior)
    freedom = count - effective
    return replace(
        fit,
        pearson=pearson,
        deviance=deviance,
        effective=effective,
        freedom=freedom,
        dispersion=estimate_dispersion(method, fit.response, pearson, deviance, fit.weight, freedom),
        null_deviance=np.nan,
        log_likelihood=np.nan,
    )


def decay_generalized(fit: FittedGeneralized, factor: float) -> FittedGeneralized:
    """Multiply the weights of all rows by `factor`; the dispersion does not change."""
    after = decay_fit(fit, factor)
    return replace(
        after,
        pearson=factor * fit.pearson,
        deviance=factor * fit.deviance,
        freedom=factor * fit.freedom,
        effective=effective_parameters(after.posterior, after.prior),
        null_deviance=np.nan,
        log_likelihood=np.nan,
    )


# ── rows that are left out ──


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeldOutResponses(HeldOutNumbers):
    """Predictions for rows by generalised linear models that were fitted without them."""

    deviances: Array  # (n,): of each row, for a dispersion of 1

    @property
    def mean_deviance(self) -> float:
        """The mean of `deviances`; of two models, the better one has the smaller mean."""
        return self._mean(self.deviances)


def score_rows(fit: FittedGeneralized, rows: LinearRows) -> tuple[Array, Array]:
    """Return the scores of rows (n,), and their variances (n,) for a dispersion of 1.

    The variances are 0 if no precision is stored.
    """
    scores = rows.scores(fit.posterior.mean)
    if fit.posterior.precision is None:
        return scores, np.zeros(len(scores))
    return scores, fit.posterior.score_variances(rows.design)


def leave_one_out(fit: FittedGeneralized, rows: LinearRows) -> HeldOutResponses:
    """Predict each row by the model of all other rows, approximated by one step of Newton's method."""
    scores, variances = score_rows(fit, rows)
    weights = np.ones(len(scores)) if rows.weights is None else rows.weights
    scores, variances = leave_out_scores(fit.response, scores, rows.targets, weights, variances)
    dispersions = np.full(len(scores), fit.dispersion)
    return _make_predictions(fit.response, rows, scores, variances, dispersions, np.arange(len(scores)))


def cross_validate(
    fit_rows: Callable[[NDArray[np.int64]], FittedGeneralized],
    response: Response,
    rows: LinearRows,
    fold: NDArray[np.int64],
) -> HeldOutResponses:
    """Predict the rows of each fold by a model of all other rows; `fit_rows` fits one to rows by index."""
    n = len(fold)
    scores, variances, dispersions = np.empty(n), np.empty(n), np.empty(n)
    for number in np.unique(fold).tolist():
        held_out = np.flatnonzero(fold == number)
        fit = fit_rows(np.flatnonzero(fold != number))
        scores[held_out], variances[held_out] = score_rows(fit, rows.take(held_out))
        dispersions[held_out] = fit.dispersion
    return _make_predictions(response, rows, scores, variances, dispersions, fold)


def _make_predictions(
    response: Response,
    rows: LinearRows,
    scores: Array,
    variances: Array,
    dispersions: Array,
    fold: NDArray[np.int64],
) -> HeldOutResponses:
    """Make the predictions of rows from their scores, the scores' variances and the dispersions, all (n,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        means = response.mean(scores)
        # The derivative of the mean by the score is √(information · variance), for every link.
        uncertainty = response.information(scores) * response.variance(means) * variances
        std = np.sqrt(dispersions * (response.variance(means) + uncertainty))
    log_densities = np.empty(len(scores))
    for value in np.unique(dispersions):
        has_value = (dispersions == value) | (np.isnan(dispersions) & np.isnan(value))
        log_densities[has_value] = response.log_likelihood_by_score(
            scores[has_value], rows.targets[has_value], float(value)
        )
    return HeldOutResponses(
        targets=rows.targets,
        predictions=means,
        std=std,
        log_densities=log_densities,
        fold=fold,
        weights=rows.weights,
        deviances=response.deviance_by_score(scores, rows.targets),
    )
