"""Fit factors to ratings by sweeps or draws, and choose the ridge.

A sweep solves the rows of all items, then those of all users. `Alternating` does so for explicit ratings, and
its ridge can be searched; `Implicit` does so for implicit feedback (actions such as plays), with a fixed
ridge. The result of a sweep, a `Sweep`, has the root mean squared error (`rmse`) of the solver's `held_out`
ratings, or of the fitted ratings if the solver has none.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, inf

import numpy as np

from tamis.arrays import Array
from tamis.models.factors.alternating import Alternating, run_sweeps
from tamis.models.factors.gibbs import Draw, Gibbs
from tamis.models.factors.posterior import FactorPosterior, Solver
from tamis.models.factors.ratings import Ratings
from tamis.protocols import iterate

# DEFAULT_RIDGE and _RIDGES are for explicit ratings divided by their standard deviation. Times this deviation
# they are the ridge of a solver, which is in the unit of the ratings: a rating is a product of two factors,
# so that the penalty, ridge times squared factor, has the unit of squared errors only with such a ridge. The
# default is used with fewer ratings than _MIN_RATINGS, in the sweeps before draws, and (not multiplied) with
# implicit feedback.
DEFAULT_RIDGE = 0.15
_RIDGES = (0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.01, 0.004, 0.001)  # the candidates of the search
_TRIAL_SWEEPS = 8  # sweeps with each candidate
_HELD_OUT_FRACTION = 0.1  # the part of the ratings that is held out to compare ridges
_MIN_RATINGS = 200  # with fewer ratings, the ridge is not searched
_SWEEPS_BEFORE_DRAWS = 5  # the largest number of sweeps that find the factors with which draws start
_PATIENCE = 3  # sweeps stop after this number in succession that did not reduce the least error by `tol`

Report = Callable[[], None]  # called after each sweep or draw


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How factors are fitted."""

    solver: Solver  # an `Alternating` or an `Implicit`, with the number of factors and the ridge
    search_ridge: bool  # whether `choose_ridge` replaces the solver's ridge
    is_gibbs: bool  # whether factors are drawn by Gibbs sampling instead of fitted by sweeps
    max_iter: int  # the largest number of sweeps of one fit
    # Sweeps stop when the objective falls by less than this fraction of itself. With `validation`, they stop
    # when the error of the held-out ratings has not fallen by this fraction in `_PATIENCE` sweeps.
    tol: float
    # The fraction of the ratings that is held out to find the number of sweeps, in a fit of its own. It is 0
    # for draws and for implicit feedback.
    validation: float
    n_draws: int  # draws after the burn-in
    burn_in: int  # first draws, which are dropped because they depend on the start
    n_kept: int  # draws that the posterior holds, spread evenly over n_draws

    @property
    def max_steps(self) -> int:
        """The largest number of sweeps and draws of all fits together, with those that choose the ridge."""
        if self.is_gibbs:
            return min(self.max_iter, _SWEEPS_BEFORE_DRAWS) + self.burn_in + self.n_draws
        trials = len(_RIDGES) * min(self.max_iter, _TRIAL_SWEEPS) if self.search_ridge else 0
        return trials + self.max_iter * (2 if self.validation else 1)


@dataclass(frozen=True, slots=True)
class FitHistory:
    """The errors of the sweeps, or draws, of a fit."""

    sweeps: int  # the number of sweeps, or of draws with those of the burn-in
    train: Array  # (sweeps,): RMSE of the fitted ratings
    # (m,): RMSE of the held-out ratings after each of the m sweeps of the fit that left them out.
    validation: Array | None = None
    # Whether sweeps stopped by the criterion of `tol`, not because `max_iter` was reached; None for draws.
    converged: bool | None = None


def choose_ridge(options: FitOptions, ratings: Ratings, rng: np.random.Generator, report: Report) -> Solver:
    """Return the solver with the ridge that best predicts a tenth of the ratings from the others.

    With few ratings, or if factors are drawn, it is the default ridge times their standard deviation. If
    `search_ridge` is False or feedback is implicit, the solver is returned unchanged.
    """
    solver = options.solver
    if not options.search_ridge or not isinstance(solver, Alternating):
        return solver
    standard_deviation = ratings.standard_deviation
    if options.is_gibbs or len(ratings) < _MIN_RATINGS:
        return replace(solver, ridge=DEFAULT_RIDGE * standard_deviation)
    fitted, held_out = _hold_out(ratings, ceil(_HELD_OUT_FRACTION * len(ratings)), rng)
    start = solver.start(fitted, rng)
    errors: dict[float, float] = {}
    for ridge in _RIDGES:  # the error is assumed to have one minimum: stop at the first ridge that is worse
        trial = replace(solver, ridge=ridge * standard_deviation, held_out=held_out)
        held_out_errors = []
        for result in islice(run_sweeps(trial, fitted, start), min(options.max_iter, _TRIAL_SWEEPS)):
            held_out_errors.append(result.rmse)
            report()
        errors[trial.ridge] = min(held_out_errors)
        if errors[trial.ridge] > min(errors.values()):
            break
    return replace(solver, ridge=min(errors, key=errors.__getitem__))


def fit_factors(
    options: FitOptions, ratings: Ratings, rng: np.random.Generator, report: Report
) -> tuple[FactorPosterior, FitHistory]:
    """Fit by sweeps or by draws; `options.solver` already has the ridge that `choose_ridge` returned."""
    if options.is_gibbs:
        return _fit_by_draws(options, ratings, rng, report)
    if options.validation and isinstance(options.solver, Alternating):
        return _fit_with_early_stopping(options, options.solver, ratings, rng, report)
    return _fit_by_sweeps(options, ratings, rng, report)


def _hold_out(ratings: Ratings, count: int, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
    """Split off `count` ratings at random: return the others, and these."""
    is_held_out = np.zeros(len(ratings), dtype=np.bool_)
    is_held_out[rng.choice(len(ratings), count, replace=False)] = True
    return ratings.select(~is_held_out), ratings.select(is_held_out)


def _fit_by_sweeps(
    options: FitOptions, ratings: Ratings, rng: np.random.Generator, report: Report
) -> tuple[FactorPosterior, FitHistory]:
    """Sweep until the objective falls by less than `tol` times itself; with tol=0, sweep `max_iter` times."""
    start = options.solver.start(ratings, rng)
    errors: list[float] = []
    factors, converged, last_objective = start, False, inf
    for result in islice(run_sweeps(options.solver, ratings, start), options.max_iter):
        factors, objective = result.factors, result.objective
        errors.append(result.rmse)
        report()
        if last_objective - objective <= options.tol * abs(objective) and options.tol:
            converged = True
            break
        last_objective = objective
    history = FitHistory(len(errors), np.array(errors), converged=converged)
    return FactorPosterior.from_factors(factors), history


def _fit_with_early_stopping(
    options: FitOptions, solver: Alternating, ratings: Ratings, rng: np.random.Generator, report: Report
) -> tuple[FactorPosterior, FitHistory]:
    """Find the best number of sweeps by held-out ratings, and make as many sweeps with all ratings."""
    count = ceil(options.validation * len(ratings))
    if count >= len(ratings):
        raise ValueError(
            f"validation={options.validation:g} holds out all {len(ratings)} ratings, expected a fraction "
            "that leaves at least one to fit"
        )
    fitted, held_out = _hold_out(ratings, count, rng)
    trial = replace(solver, held_out=held_out)
    held_out_errors: list[float] = []
    best, sweeps_since_best, converged = inf, 0, False
    for result in islice(run_sweeps(trial, fitted, trial.start(fitted, rng)), options.max_iter):
        held_out_errors.append(result.rmse)
        report()
        sweeps_since_best = 0 if held_out_errors[-1] < best * (1.0 - options.tol) else sweeps_since_best + 1
        best = min(best, held_out_errors[-1])
        if sweeps_since_best >= _PATIENCE:
            converged = True
            break
    n_sweeps = int(np.argmin(held_out_errors)) + 1
    factors = start = solver.start(ratings, rng)
    errors = []
    for result in islice(run_sweeps(solver, ratings, start), n_sweeps):
        factors = result.factors
        errors.append(result.rmse)
        report()
    history = FitHistory(n_sweeps, np.array(errors), np.array(held_out_errors), converged)
    return FactorPosterior.from_factors(factors), history


def _fit_by_draws(
    options: FitOptions, ratings: Ratings, rng: np.random.Generator, report: Report
) -> tuple[FactorPosterior, FitHistory]:
    """Draw factors, starting from a few sweeps; the first draws are dropped.

    The priors of draws are made for ratings in units of their standard deviation (see `Gibbs`).
    """
    unit = ratings.standard_deviation
    ratings = replace(ratings, values=ratings.values / unit)
    solver = replace(options.solver, ridge=options.solver.ridge / unit)
    factors = start = solver.start(ratings, rng)
    for result in islice(run_sweeps(solver, ratings, start), min(options.max_iter, _SWEEPS_BEFORE_DRAWS)):
        factors = result.factors
        report()
    draws: list[Draw] = []
    errors: list[float] = []
    count = min(options.n_kept, options.n_draws)
    kept_draws = np.linspace(options.n_draws / count, options.n_draws, count).round().astype(np.int64)
    kept_steps = set((options.burn_in + kept_draws).tolist())
    model, all_in_one_shard = Gibbs(solver.rank, rng), (ratings,)
    steps = iterate(model, all_in_one_shard, model.start(ratings, factors))
    for step in islice(steps, options.burn_in + options.n_draws):
        errors.append(unit * step.posterior.rmse)
        report()
        if step.number in kept_steps:  # the number of the first step is 1
            draws.append(step.posterior)
    return FactorPosterior.from_draws(draws, unit), FitHistory(len(errors), np.array(errors))
