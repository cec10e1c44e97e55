"""Fits factors to ratings by sweeps or draws, and chooses the ridge.

A solver computes one sweep: `Alternating` for explicit ratings, whose ridge can be searched, or `Implicit`
for actions such as plays, whose ridge is given. With `held_out` ratings given to a solver, `rmse` of its
posteriors is the error of those ratings; without, it is the error of the ratings that are fitted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, inf

import numpy as np

from tamis.arrays import Array
from tamis.models.factors.alternating import Alternating, sweep
from tamis.models.factors.gibbs import Draw, Gibbs
from tamis.models.factors.posterior import FactorPosterior, Solver
from tamis.models.factors.ratings import Ratings
from tamis.protocols import iterate

# The ridge where too few ratings are there to search one, for ratings in units of their standard deviation.
DEFAULT_RIDGE = 0.15
_RIDGES = (0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.01, 0.004, 0.001)  # to try, in the same units
_TRIAL_SWEEPS = 8  # of each ridge
_HELD_OUT = 0.1  # the part of the ratings by which ridges are compared
_FEW = 200  # ratings below which no ridge is searched
_SWEEPS_BEFORE_DRAWS = 5
_PATIENCE = 3  # stop after so many sweeps in a row that do not reduce the error of the ratings held out

Report = Callable[[], None]  # called after each step


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How factors are fitted."""

    solver: Solver
    search_ridge: bool
    is_gibbs: bool
    max_iter: int
    tol: float
    validation: float  # the part of the ratings that is held out to find the number of sweeps
    n_draws: int
    burn_in: int
    n_kept: int

    @property
    def max_steps(self) -> int:
        """The number of sweeps and draws, at most."""
        if self.is_gibbs:
            return min(self.max_iter, _SWEEPS_BEFORE_DRAWS) + self.burn_in + self.n_draws
        trials = len(_RIDGES) * min(self.max_iter, _TRIAL_SWEEPS) if self.search_ridge else 0
        return trials + self.max_iter * (2 if self.validation else 1)


@dataclass(frozen=True, slots=True)
class FitHistory:
    """The errors of the sweeps, or draws, of a fit."""

    sweeps: int  # or draws, those of the burn-in included
    train: Array  # (sweeps,): RMSE of the ratings that are fitted
    validation: Array | None = None  # RMSE of the ratings held out, by sweep of the search for their number
    # Whether sweeps ended before `max_iter`, by the objective or by the ratings held out; None for draws.
    converged: bool | None = None


def choose_ridge(options: FitOptions, ratings: Ratings, rng: np.random.Generator, report: Report) -> Solver:
    """Return the solver with the ridge that best predicts a tenth of the ratings from the others.

    A solver whose ridge is given is returned as it is.
    """
    solver = options.solver
    if not options.search_ridge or not isinstance(solver, Alternating):
        return solver
    scale = ratings.standard_deviation
    if len(ratings) < _FEW:
        return replace(solver, ridge=DEFAULT_RIDGE * scale)
    seen, held_out = _split(ratings, ceil(_HELD_OUT * len(ratings)), rng)
    start = solver.start(seen, rng)
    errors: dict[float, float] = {}
    for ridge in _RIDGES:  # stop at the first that is worse: the error is assumed to have one minimum
        trial = replace(solver, ridge=ridge * scale, held_out=held_out)
        held_out_errors = []
        for posterior in islice(sweep(trial, seen, start), min(options.max_iter, _TRIAL_SWEEPS)):
            held_out_errors.append(posterior.rmse)
            report()
        errors[trial.ridge] = min(held_out_errors)
        if errors[trial.ridge] > min(errors.values()):
            break
    return replace(solver, ridge=min(errors, key=errors.__getitem__))


def fit_factors(
    options: FitOptions, ratings: Ratings, rng: np.random.Generator, report: Report
) -> tuple[FactorPosterior, FitHistory]:
    """Sweep, or draw, as the options say, with the ridge of `options.solver`: `choose_ridge` comes first."""
    if options.is_gibbs:
        return _draw(options, ratings, rng, report)
    if options.validation and isinstance(options.solver, Alternating):
        return _sweep_with_early_stopping(options, options.solver, ratings, rng, report)
    return _sweep_until_converged(options, ratings, rng, report)


def _split(ratings: Ratings, count: int, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
    """Split off `count` ratings at random: return the others, and these."""
    is_held_out = np.zeros(len(ratings), dtype=np.bool_)
    is_held_out[rng.choice(len(ratings), count, replace=False)] = True
    return ratings.select(~is_held_out), ratings.select(is_held_out)


def _sweep_until_converged(
    options: FitOptions, ratings: Ratings, rng: np.random.Generator, report: Report
) -> tuple[FactorPosterior, FitHistory]:
    """Sweep until the objective falls by less than `tol` times itself; with tol=0, sweep `max_iter` times."""
    start = options.solver.start(ratings, rng)
    errors: list[float] = []
    factors, converged, before = start, False, inf
    for posterior in islice(sweep(options.solver, ratings, start), options.max_iter):
        factors, objective = posterior.factors, posterior.objective
        errors.append(posterior.rmse)
        report()
        if before - objective <= options.tol * abs(objective) and options.tol:
            converged = True
            break
        before = objective
    history = FitHistory(len(errors), np.array(errors), converged=converged)
    return FactorPosterior.from_factors(factors), history


def _sweep_with_early_stopping(
    options: FitOptions, solver: Alternating, ratings: Ratings, rng: np.random.Generator, report: Report
) -> tuple[FactorPosterior, FitHistory]:
    """Find the best number of sweeps by ratings held out, and make as many sweeps with all ratings."""
    count = ceil(options.validation * len(ratings))
    if count >= len(ratings):
        raise ValueError(
            f"validation={options.validation:g} holds out all {len(ratings)} ratings, expected a share that "
            "leaves at least one to fit"
        )
    seen, held_out = _split(ratings, count, rng)
    trial = replace(solver, held_out=held_out)
    held_out_errors: list[float] = []
    best, since, converged = inf, 0, False
    for posterior in islice(sweep(trial, seen, trial.start(seen, rng)), options.max_iter):
        held_out_errors.append(posterior.rmse)
        report()
        since = 0 if held_out_errors[-1] < best * (1.0 - options.tol) else since + 1
        best = min(best, held_out_errors[-1])
        if since >= _PATIENCE:
            converged = True
            break
    number = int(np.argmin(held_out_errors)) + 1
    factors = start = solver.start(ratings, rng)
    errors = []
    for posterior in islice(sweep(solver, ratings, start), number):
        factors = posterior.factors
        errors.append(posterior.rmse)
        report()
    history = FitHistory(number, np.array(errors), np.array(held_out_errors), converged)
    return FactorPosterior.from_factors(factors), history


def _draw(
    options: FitOptions, ratings: Ratings, rng: np.random.Generator, report: Report
) -> tuple[FactorPosterior, FitHistory]:
    """Draw factors, starting from a few sweeps; the first draws are dropped."""
    unit = ratings.standard_deviation
    ratings = replace(ratings, values=ratings.values / unit)
    factors = start = options.solver.start(ratings, rng)
    for posterior in islice(
        sweep(options.solver, ratings, start), min(options.max_iter, _SWEEPS_BEFORE_DRAWS)
    ):
        factors = posterior.factors
        report()
    kept: list[Draw] = []
    errors: list[float] = []
    count = min(options.n_kept, options.n_draws)
    draws_kept = np.linspace(options.n_draws / count, options.n_draws, count).round().astype(np.int64)
    chosen = set((options.burn_in + draws_kept).tolist())
    model = Gibbs(options.solver.rank, rng)
    steps = iterate(model, (ratings,), model.start(ratings, factors))
    for step in islice(steps, options.burn_in + options.n_draws):
        errors.append(unit * step.posterior.rmse)
        report()
        if step.number in chosen:
            kept.append(step.posterior)
    return FactorPosterior.from_draws(kept, unit), FitHistory(len(errors), np.array(errors))
