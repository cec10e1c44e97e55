"""Ratings → sweeps, or draws, until enough: the loops that `fit` watches."""

from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, isfinite, sqrt
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tamis.estimators.factor_state import Course
from tamis.models.factors.alternating import Alternating, Factors, squares
from tamis.models.factors.gibbs import Draw, Gibbs
from tamis.models.factors.implicit import Implicit
from tamis.models.factors.learned import Learned, Solver
from tamis.models.factors.ratings import Ratings
from tamis.parameters import check_nonnegative
from tamis.progress import Watch
from tamis.warning import warn

_USUAL = 0.15  # ridge where none is looked for, of ratings in units of their spread
_RIDGES = (0.8, 0.4, 0.2, 0.1, 0.05, 0.025, 0.01, 0.004, 0.001)  # to try, in units of the ratings' spread
_TRY, _SHARE, _ENOUGH = 8, 0.1, 200  # sweeps of each, the share held out, and ratings below which none is
_WARM = 5  # sweeps before the first draw
_PATIENCE = 3  # sweeps that may go by without a better answer for what was held out


@dataclass(frozen=True, slots=True)
class _Step:
    """What a bar is told."""

    log_likelihood: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of a fit, checked."""

    solver: Solver
    chooses: bool  # whether the ridge is still to be found
    is_gibbs: bool
    max_iter: int
    tol: float
    validation: float
    n_draws: int
    burn_in: int
    n_kept: int

    @property
    def steps(self) -> int:
        """At most."""
        if self.is_gibbs:
            return min(self.max_iter, _WARM) + self.burn_in + self.n_draws
        tries = len(_RIDGES) * min(self.max_iter, _TRY) if self.chooses else 0
        return tries + self.max_iter * (2 if self.validation else 1)


def planned(face: Any) -> Plan:
    """The face's parameters, or one line about the first that will not do."""
    for name, allowed in (("feedback", ("explicit", "implicit")), ("method", ("als", "gibbs"))):
        if getattr(face, name) not in allowed:
            raise ValueError(
                f"got {name}={getattr(face, name)!r}, expected {' or '.join(map(repr, allowed))}"
            )
    implicit, is_gibbs = face.feedback == "implicit", face.method == "gibbs"
    rank = whole("n_factors", face.n_factors, 1)
    ridge, chooses = _ridge(face.ridge)
    offset_ridge = float(face.offset_ridge)
    if not offset_ridge >= 0.0:
        raise ValueError(f"got offset_ridge={offset_ridge}, expected at least 0, or infinity for no offsets")
    validation = check_nonnegative("validation", face.validation)
    if validation >= 1.0:
        raise ValueError(f"got validation={validation:g}, expected a share of the ratings below 1, or 0")
    if implicit and is_gibbs:
        raise ValueError("got method='gibbs' for implicit feedback, expected 'als': draws are of ratings")
    if validation and (implicit or is_gibbs):
        raise ValueError(
            f"got validation={validation:g}, expected 0 with implicit feedback or draws: it stops sweeps of "
            "ratings early; hold out rows of your own instead"
        )
    if implicit and face.time_bins:
        raise ValueError(
            f"got time_bins={face.time_bins} for implicit feedback, expected 0: it has no offsets"
        )
    if not isfinite(offset_ridge) and (is_gibbs or face.time_bins):
        raise ValueError("got offset_ridge=inf, expected a number: draws and time_bins need offsets")
    solver: Solver = (
        Implicit(rank, ridge, check_nonnegative("confidence", face.confidence))
        if implicit
        else Alternating(rank, ridge, offset_ridge)
    )
    return Plan(
        solver,
        chooses and not implicit and not is_gibbs,
        is_gibbs,
        whole("max_iter", face.max_iter, 1),
        check_nonnegative("tol", face.tol),
        validation,
        whole("n_draws", face.n_draws, 1),
        whole("burn_in", face.burn_in, 0),
        whole("n_kept", face.n_kept, 1),
    )


def _ridge(given: Any) -> tuple[float, bool]:
    """A ridge, and whether it is to be found by what it does to ratings held out."""
    if isinstance(given, str):
        if given != "validated":
            raise ValueError(f"got ridge={given!r}, expected a number above 0, or 'validated'")
        return _USUAL, True
    ridge = check_nonnegative("ridge", given)
    if ridge == 0.0:
        raise ValueError(
            "got ridge=0, expected more, or rows of few ratings have no answer: 1e-9 is next to none"
        )
    return ridge, False


def whole(name: str, value: Any, least: int) -> int:
    """A parameter as a whole number."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"got {name}={value!r}, expected a whole number of at least {least}")
    return int(value)


def with_ridge(plan: Plan, ratings: Ratings, rng: np.random.Generator, watch: Watch) -> Plan:
    """The plan with the ridge under which a tenth of the ratings is best told by the rest, in few sweeps."""
    if not plan.chooses or not isinstance(plan.solver, Alternating):
        return plan
    spread = ratings.spread
    if len(ratings) < _ENOUGH:
        return replace(plan, solver=replace(plan.solver, ridge=_USUAL * spread))
    seen, unseen = _parted(ratings, ceil(_SHARE * len(ratings)), rng)
    start = plan.solver.start(seen, rng)
    wrong: dict[float, float] = {}
    for ridge in _RIDGES:  # from the strictest on, until it gets worse: the others would, too
        solver = replace(plan.solver, ridge=ridge * spread)
        path = []
        for at in islice(solver.sweeps(seen, start), min(plan.max_iter, _TRY)):
            path.append(rmse(unseen, at))
            watch(_Step())
        wrong[ridge * spread] = min(path)
        if path and min(path) > min(wrong.values()):
            break
    return replace(plan, solver=replace(plan.solver, ridge=min(wrong, key=wrong.__getitem__)))


def learn(plan: Plan, ratings: Ratings, rng: np.random.Generator, watch: Watch) -> tuple[Learned, Course]:
    """Sweep, or draw."""
    if plan.is_gibbs:
        return _draw(plan, ratings, rng, watch)
    if not plan.validation:
        at, course = _sweep(plan, ratings, plan.solver.start(ratings, rng), watch)
        return Learned.of(at), course
    count = ceil(plan.validation * len(ratings))
    if count >= len(ratings):
        raise ValueError(
            f"got validation={plan.validation:g} of {len(ratings)} ratings, expected some to learn"
        )
    seen, unseen = _parted(ratings, count, rng)
    path, converged = _held_out(plan, seen, unseen, plan.solver.start(seen, rng), watch)
    sweeps = int(np.argmin(path)) + 1
    train = []
    at = start = plan.solver.start(ratings, rng)
    for at in islice(plan.solver.sweeps(ratings, start), sweeps):
        train.append(rmse(ratings, at))
        watch(_Step())
    return Learned.of(at), Course(sweeps, np.array(train), np.array(path), converged)


def warn_unless_converged(plan: Plan, course: Course) -> None:
    """Warn where `max_iter` sweeps of ratings were not enough.

    tol=0 asks for exactly so many. So does implicit feedback: its objective falls by more than the usual
    `tol` after hundreds of sweeps (40 users, 30 items, two factors: 1e-3 a sweep at 100, 3e-4 at 200).
    """
    if course.converged is not False or isinstance(plan.solver, Implicit):
        return
    if plan.validation:
        warn(
            f"the error of the ratings held out still fell after max_iter={plan.max_iter} sweeps: raise "
            "max_iter or tol",
            ConvergenceWarning,
        )
    elif plan.tol:
        warn(
            f"ALS did not converge in max_iter={plan.max_iter} sweeps: raise max_iter or tol, or set tol=0 "
            "to make as many without a test",
            ConvergenceWarning,
        )


def _parted(ratings: Ratings, count: int, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
    """The ratings but so many, and those."""
    held = np.zeros(len(ratings), dtype=np.bool_)
    held[rng.choice(len(ratings), count, replace=False)] = True
    return ratings.take(~held), ratings.take(held)


def rmse(ratings: Ratings, at: Factors) -> float:
    """Root mean square of what is wrong with the ratings."""
    return sqrt(squares(ratings, at) / ratings.mass)


def _sweep(plan: Plan, ratings: Ratings, start: Factors, watch: Watch) -> tuple[Factors, Course]:
    """Until the objective falls by less than a share of `tol`; with tol=0, `max_iter` sweeps."""
    train: list[float] = []
    converged = False
    at, before = start, np.inf
    for at in islice(plan.solver.sweeps(ratings, start), plan.max_iter):
        judged = plan.solver.judged(ratings, at)
        train.append(sqrt(judged.squares / ratings.mass))
        watch(_Step())
        now = judged.objective
        if before - now <= plan.tol * abs(now) and plan.tol:
            converged = True
            break
        before = now
    return at, Course(len(train), np.array(train), converged=converged)


def _held_out(
    plan: Plan, ratings: Ratings, held: Ratings, start: Factors, watch: Watch
) -> tuple[list[float], bool]:
    """How wrong each sweep is of what it has not seen, until that gets no better; and whether it did."""
    path: list[float] = []
    least, since = np.inf, 0
    for at in islice(plan.solver.sweeps(ratings, start), plan.max_iter):
        path.append(rmse(held, at))
        watch(_Step())
        since = 0 if path[-1] < least * (1.0 - plan.tol) else since + 1
        least = min(least, path[-1])
        if since >= _PATIENCE:
            return path, True
    return path, False


def _draw(plan: Plan, ratings: Ratings, rng: np.random.Generator, watch: Watch) -> tuple[Learned, Course]:
    """From a few sweeps on, which are nearer than chance; the first draws are let go."""
    unit = ratings.spread
    ratings = replace(ratings, value=ratings.value / unit)
    at = start = plan.solver.start(ratings, rng)
    for swept in islice(plan.solver.sweeps(ratings, start), min(plan.max_iter, _WARM)):
        at = swept
        watch(_Step())
    kept: list[Draw] = []
    train: list[float] = []
    count = min(plan.n_kept, plan.n_draws)
    chosen = set(np.linspace(plan.n_draws / count, plan.n_draws, count).round().astype(np.int64).tolist())
    draws = Gibbs(plan.solver.rank).draws(ratings, at, rng)
    for number, draw in enumerate(islice(draws, plan.burn_in + plan.n_draws)):
        train.append(unit * draw.rmse)
        watch(_Step())
        if number - plan.burn_in + 1 in chosen:
            kept.append(draw)
    return Learned.drawn(kept, unit), Course(len(train), np.array(train))
