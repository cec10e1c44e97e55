"""Fit random data by every family and link, and count the fits that do not end at an optimum.

    PYTHONPATH=src python experiments/0009-glm-convergence/sweep.py --fits 10000 --pairs gamma-log gaussian-log

Half of the fits ("plain") are drawn as the tests draw them: 12 to 80 rows of three columns. The other half ("hard") has
2 to 60 rows of one to five columns, in one of three cases log-normal noise of 1.2 on the rate, in one of four
columns of very different scales, and coefficients of up to three. Intercept, prior, offsets and weights come and go in both.

Whether an optimum exists is decided without the library, by linear programs over the directions in which the likelihood
never falls (`has_optimum`). Each fit is then counted once:

converged     an optimum exists, and the gradient at the coefficients is zero
unconverged   an optimum exists, and the library warns that it stopped early, or the gradient is not zero (`is_stationary`)
false alarm   an optimum exists, and the library warns of separation or refuses
named         no optimum exists, and the library says so: SeparationWarning or ValueError
silent        no optimum exists, and the library does not say so
"""

import argparse
import multiprocessing
import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, minimize
from sklearn.exceptions import ConvergenceWarning

from tamis import GeneralizedLinear, SeparationWarning
from tamis.models.linear.responses import RESPONSES, Response

PAIRS = {f"{family}-{link}": kind for (family, link), kind in RESPONSES.items()}
CHUNK = 125  # seeds that one process takes at a time
OUTCOMES = ("converged", "unconverged", "false alarm", "named", "silent")


@dataclass(frozen=True)
class Case:
    """One set of rows, and how it is fitted."""

    x: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)
    weights: np.ndarray | None
    offsets: np.ndarray | None
    alpha: float
    intercept: bool

    @property
    def rows(self) -> np.ndarray:
        """The rows with a column of ones, if there is an intercept (n, width)."""
        return np.column_stack([self.x, np.ones(len(self.x))]) if self.intercept else self.x

    @property
    def precision(self) -> np.ndarray:
        found = np.full(self.rows.shape[1], self.alpha)
        if self.intercept:
            found[-1] = 0.0
        return found


def draw(kind: Response, seed: int, hard: bool) -> Case:
    """Draw a case; the same seed gives the same case."""
    rng = np.random.default_rng([seed, hard])
    n = int(rng.integers(2, 61) if hard else rng.integers(12, 81))
    d = int(rng.integers(1, 6)) if hard else 3
    x, offsets = rng.normal(size=(n, d)), 0.3 * rng.normal(size=n)
    truth = rng.uniform(-3, 3, d) * rng.random() if hard else np.array([0.4, 0.2, 0.1])
    if kind.link == "inverse":
        x, offsets, truth = np.abs(x), np.abs(offsets), np.abs(truth)
        if hard and rng.random() < 0.3:  # some means may be forced out of the range of the link
            x = x * rng.choice([1.0, -1.0], size=(n, d), p=[0.9, 0.1])
    scores = x @ truth + (1.0 if kind.link == "inverse" else 0.2) + offsets
    scores = np.maximum(scores, 0.05) if kind.link == "inverse" else scores
    mean = kind.mean(scores)
    if hard and rng.random() < 1 / 3 and kind.family != "bernoulli":
        mean = mean * np.exp(1.2 * rng.normal(size=n))
    if kind.family == "gaussian":
        y = mean + 0.5 * rng.normal(size=n)
        y = np.abs(y) if kind.link == "log" and not (hard and rng.random() < 0.3) else y
    elif kind.family == "poisson":
        y = rng.poisson(np.minimum(mean, 1e9)).astype(float)
    elif kind.family == "bernoulli":
        y = (rng.random(n) < mean).astype(float)
    else:
        y = np.maximum(rng.gamma(3.0, mean / 3.0), 1e-12)
    if hard and rng.random() < 0.25:
        x = x * 10.0 ** rng.uniform(-3, 3, d)
    alpha = float(rng.choice([0.0, 0.0, 0.01, 0.5, 20.0]))
    weights = rng.uniform(0.5, 2, n) if rng.random() < 0.5 else None
    return Case(x, y, weights, offsets if rng.random() < 0.5 else None, alpha, bool(rng.random() < 0.5))


# ── does an optimum exist? ──


def recedes(rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether some direction moves scores, each between its `low` and `high` (0, 1 or −1), and some at all."""
    if not rows.shape[1]:
        return False
    scale = np.abs(rows).max(axis=0)
    rows = rows / np.where(scale > 0, scale, 1.0)
    sign = np.where(low < 0, -1.0, np.where(high > 0, 1.0, 0.0))
    found = linprog(
        -(sign @ rows), A_ub=np.vstack([rows, -rows]), b_ub=np.concatenate([high, -low]), bounds=(-1e6, 1e6)
    )
    return bool(found.status == 0 and -found.fun > 1e-6)


def has_optimum(kind: Response, case: Case, near: np.ndarray | None = None) -> bool:
    """Whether the posterior has a mode; `near` is where a fit has ended, if it has."""
    rows, y = case.rows, case.y
    free = rows[:, case.precision == 0.0]
    if free.shape[1] and np.linalg.matrix_rank(free / np.abs(free).max(axis=0)) < free.shape[1]:
        return False
    zeros, ones = np.zeros(len(y)), np.ones(len(y))
    if kind.family == "bernoulli":
        return not recedes(free, np.where(y == 1, zeros, -ones), np.where(y == 1, ones, zeros))
    if kind.family == "poisson":
        return not recedes(free, np.where(y == 0, -ones, zeros), zeros)
    if kind.link == "inverse":  # a point at which all scores are above zero
        offsets = zeros if case.offsets is None else case.offsets
        scale = np.abs(rows).max(axis=0)
        inside = linprog(
            np.append(np.zeros(rows.shape[1]), -1.0),
            A_ub=np.column_stack([-rows / scale, ones]),
            b_ub=offsets,
            bounds=[(None, None)] * rows.shape[1] + [(None, 1.0)],
        )
        return bool(inside.status == 0 and -inside.fun > 1e-7)
    if kind.family == "gaussian" and kind.link == "log" and (y <= 0).any():
        if recedes(free, np.where(y <= 0, -ones, zeros), zeros):  # downhill for ever, from every point
            return False
        return gaussian_log_has_optimum(kind, case, near)
    return True


def objective(kind: Response, case: Case, at: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Loss, gradient and Hessian, written without the library's solver."""
    offsets = 0.0 if case.offsets is None else case.offsets
    weights = np.ones(len(case.y)) if case.weights is None else case.weights
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.exp(np.minimum(case.rows @ at + offsets, 300.0))
        value = 0.5 * weights @ np.square(mean - case.y) + 0.5 * case.precision @ np.square(at)
        slopes = weights * (mean - case.y) * mean
        bends = weights * (2.0 * mean - case.y) * mean
    gradient = slopes @ case.rows + case.precision * at
    return value, gradient, (case.rows.T * bends) @ case.rows + np.diag(case.precision)


def gaussian_log_has_optimum(kind: Response, case: Case, near: np.ndarray | None) -> bool:
    """Whether a fit has an optimum where it ended, or, without one, whether a search from several starts finds any.

    The objective is not convex, so that no linear program decides, and a fit answers for where it has ended. From there
    Newton's method goes on in extended precision. Where means of targets of 0 or less fall for ever, their scores move by
    ½ to 1 each step (the slope of a row is (m − y) m, its bend (2m − y) m, m → 0); at an optimum steps shrink to nothing.
    """
    if near is not None:
        return converges(case, near)
    rng = np.random.default_rng(0)
    rows = case.rows
    level = np.log(max(float(np.mean(np.abs(case.y))), 1e-3))
    goal, *_ = np.linalg.lstsq(rows, np.full(len(rows), level), rcond=None)
    sizes = np.sqrt(np.square(rows).mean(axis=0))
    best = (np.inf, goal)
    for number in range(6):
        start = goal + (0.0 if number == 0 else 0.5) * rng.normal(size=len(goal)) / sizes
        found = minimize(
            lambda at: objective(kind, case, at * 1.0)[:2],
            start,
            jac=True,
            method="BFGS",
            options={"maxiter": 500, "gtol": 1e-10},
        )
        best = min(best, (float(found.fun), found.x), key=lambda each: each[0])
    return converges(case, best[1])


def converges(case: Case, near: np.ndarray) -> bool:
    """Whether Newton's steps from there, in extended precision, become next to nothing, at a definite Hessian."""
    wide = np.longdouble
    rows, y = case.rows.astype(wide), case.y.astype(wide)
    offsets = np.zeros(len(y), wide) if case.offsets is None else case.offsets.astype(wide)
    weights = np.ones(len(y), wide) if case.weights is None else case.weights.astype(wide)
    at, precision = near.astype(wide), case.precision.astype(wide)
    for _ in range(20):
        mean = np.exp(rows @ at + offsets)
        gradient = (weights * (mean - y) * mean) @ rows + precision * at
        hessian = (rows.T * (weights * (2 * mean - y) * mean)) @ rows + np.diag(precision)
        step = solve_definite(hessian, gradient)
        if step is None:
            return False
        length = float(np.abs(rows @ step).max())
        if length < 1e-9:
            return True
        at = at - step / max(1.0, length)
    return False


def solve_definite(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray | None:
    """Solve by Cholesky's factor, in the precision of the matrix and in the scale of its diagonal; None if indefinite."""
    diagonal = np.diagonal(matrix)
    if not (diagonal > 0).all():
        return None
    scale = 1 / np.sqrt(diagonal)
    left, right = matrix * np.outer(scale, scale), vector * scale
    size = len(right)
    lower = np.zeros_like(left)
    for j in range(size):
        pivot = left[j, j] - lower[j, :j] @ lower[j, :j]
        if not pivot > 1e-18:
            return None
        lower[j, j] = np.sqrt(pivot)
        lower[j + 1 :, j] = (left[j + 1 :, j] - lower[j + 1 :, :j] @ lower[j, :j]) / lower[j, j]
    half = np.zeros_like(right)
    for j in range(size):
        half[j] = (right[j] - lower[j, :j] @ half[:j]) / lower[j, j]
    found = np.zeros_like(right)
    for j in reversed(range(size)):
        found[j] = (half[j] - lower[j + 1 :, j] @ found[j + 1 :]) / lower[j, j]
    return found * scale


# ── what does the library do? ──


def outcome(kind: Response, case: Case) -> tuple[str, int]:
    """The name of what happened (see above), and the number of steps."""
    model = GeneralizedLinear(
        kind.family, link=kind.link, alpha=case.alpha, fit_intercept=case.intercept, dispersion=1.0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(case.x, case.y, case.weights, offset=case.offsets)
        except ValueError:
            return ("false alarm" if has_optimum(kind, case) else "named"), 0
    kinds = {each.category for each in caught}
    near = np.append(model.coef_, model.intercept_) if case.intercept else model.coef_
    if SeparationWarning in kinds:
        return ("false alarm" if has_optimum(kind, case, near) else "named"), model.n_iter_
    if not has_optimum(kind, case, near):
        return "silent", model.n_iter_
    stopped = ConvergenceWarning in kinds or not model.converged_ or not is_stationary(kind, case, model)
    return ("unconverged" if stopped else "converged"), model.n_iter_


def is_stationary(kind: Response, case: Case, model: GeneralizedLinear) -> bool:
    """Whether the Newton step that is left is next to nothing.

    It moves no score by more than 1e-6 of the largest (or of 1), or the coefficients by no more than 1e-4 standard errors.
    """
    rows, y = case.rows, case.y
    weights = np.ones(len(y)) if case.weights is None else case.weights
    scores = model.predict_linear(case.x, offset=case.offsets)
    at = np.append(model.coef_, model.intercept_) if case.intercept else model.coef_
    slopes, bends = derivatives(kind, scores, y)
    gradient = (weights * slopes) @ rows + case.precision * at
    hessian = (rows.T * (weights * bends)) @ rows + np.diag(case.precision)
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diagonal(hessian)), 1e-300))
    values, vectors = np.linalg.eigh(hessian * np.outer(scale, scale))
    if values[0] < -1e-10:  # a saddle
        return False
    known = values > 1e-13 * values[-1]
    step = scale * (vectors[:, known] @ ((vectors[:, known].T @ (scale * gradient)) / values[known]))
    if np.abs(rows @ step).max() <= 1e-6 * max(1.0, np.abs(scores).max()):
        return True
    dispersion = 1.0 if kind.family in ("bernoulli", "poisson") else model.deviance_ / len(y)
    return bool(gradient @ step <= 1e-8 * dispersion)


def derivatives(kind: Response, scores: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivative of each row's loss by its score."""
    if kind.family == "bernoulli":
        p = 1.0 / (1.0 + np.exp(-scores))
        return p - y, p * (1.0 - p)
    if kind.link == "inverse":
        return y - 1.0 / scores, 1.0 / np.square(scores)
    if kind.link == "identity":
        return scores - y, np.ones_like(scores)
    mean = np.exp(scores)
    if kind.family == "poisson":
        return mean - y, mean
    if kind.family == "gamma":
        return 1.0 - y / mean, y / mean
    return (mean - y) * mean, (2.0 * mean - y) * mean


def count(chunk: tuple[str, bool, range]) -> tuple[str, bool, Counter[str], list[str], int]:
    """Count the outcomes of some seeds; also name the failing ones, and the most steps of those that converged."""
    name, hard, seeds = chunk
    kind = PAIRS[name]()
    counts: Counter[str] = Counter()
    bad, most = [], 0
    for seed in seeds:
        what, steps = outcome(kind, draw(kind, seed, hard))
        counts[what] += 1
        if what not in ("converged", "named"):
            bad.append(f"{what}: seed {seed}")
        most = max(most, steps) if what == "converged" else most
    return name, hard, counts, bad, most


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fits", type=int, default=10_000, help="of each pair")
    parser.add_argument("--pairs", nargs="+", choices=sorted(PAIRS), default=list(PAIRS))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, default=5, help="failing cases to name")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    print("| response | draws | fits | " + " | ".join(OUTCOMES) + " | most steps |")
    print("|---" * (len(OUTCOMES) + 4) + "|", flush=True)
    seeds = range(given.first, given.first + given.fits // 2)
    chunks = [
        (name, hard, seeds[start : start + CHUNK])
        for name in given.pairs
        for hard in (False, True)
        for start in range(0, len(seeds), CHUNK)
    ]
    counts: dict[tuple[str, bool], Counter[str]] = {}
    failures: dict[tuple[str, bool], list[str]] = {}
    most: dict[tuple[str, bool], int] = {}
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        for name, hard, counted, bad, steps in pool.imap_unordered(count, chunks):
            half = name, hard
            counts.setdefault(half, Counter()).update(counted)
            failures.setdefault(half, []).extend(bad)
            most[half] = max(most.get(half, 0), steps)
            if counts[half].total() < len(seeds):
                continue
            cells = [str(counts[half][each]) for each in OUTCOMES]
            draws = "hard" if hard else "plain"
            print(f"| {name} | {draws} | {len(seeds)} | {' | '.join(cells)} | {most[half]} |", flush=True)
            for each in failures[half][: given.show]:
                print(f"    {name} {draws} {each}", flush=True)


if __name__ == "__main__":
    main()
