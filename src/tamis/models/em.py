"""rows whose labels are missing, a first guess → steps of EM, each a statistic and the posterior it gives.

A step observes the rows given the last posterior and infers the next; `steps` has no end, and the caller's
loop decides. `run` is that loop for whoever has no wish of their own, and `start` a first guess.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels
from tamis.arrays import Array
from tamis.models.block import Codes, Shares
from tamis.models.gaussian_columns import GaussianColumns
from tamis.models.gaussian_densities import TiedNormal
from tamis.models.gaussian_vectors import GaussianVectors
from tamis.models.generative import Encoded, Evidence, Generative, Posterior
from tamis.protocols import total
from tamis.stats import Joint, Keys
from tamis.tables import Sparse, runs

_CELLS = 1 << 20  # of log p(x, class), or of features, in memory at a time
_SAMPLE = 2000  # rows among which centres are sought, or _EACH a centre
_EACH = 50
_LLOYD = 10  # rounds of k-means after k-means++: on 2,000 rows they cost less than one step on 100,000
_SOFT = 0.05  # of each row goes to all classes at the start: what is 0 once is 0 at every step
_WIDEST = 2000  # features of rows that are compared; of more columns, these many are drawn


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What one step of EM makes of the posterior before it."""

    number: int  # from 1
    statistic: Joint  # expected, given the posterior before
    posterior: Posterior
    log_likelihood: float  # of the rows under the posterior before, known labels with their rows


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Where a run ended, and how it came there."""

    posterior: Posterior
    statistic: Joint
    log_likelihoods: tuple[float, ...]  # of each step
    converged: bool

    @property
    def iterations(self) -> int:
        return len(self.log_likelihoods)


def steps(
    model: Generative, evidence: Evidence, start: Posterior, hard: bool = False, rough: bool = False
) -> Iterator[Step]:
    """Steps of EM from a starting posterior, without end.

    If `hard`, each row that has no label goes wholly to its most probable class, and the log-likelihood is
    that of the rows with these classes: k-means, if the classes are balls of one size and equally likely.
    With `rough`, a step of a tied covariance is several times as fast, and its statistic holds all squares,
    but not which class they are of: `infer` does not ask, but a caller who keeps the statistic might.
    """
    known, unknown = evidence.known(), evidence.unknown()
    labelled = [model.observe(known)] if len(known.rows) or unknown is None else []
    ready = None if unknown is None else model.prepare(unknown, start)
    posterior = start
    for number in count(1):
        likelihood = _of_known(known, posterior)
        parts = labelled
        if unknown is not None:
            guessed, more = model.guess(unknown, posterior, hard, ready, rough)
            parts, likelihood = [*labelled, guessed], likelihood + more
        statistic = total(parts)
        posterior = model.infer(statistic)
        yield Step(number, statistic, posterior, likelihood)


def run(
    model: Generative,
    evidence: Evidence,
    start: Posterior,
    max_iter: int = 100,
    tol: float = 1e-3,
    hard: bool = False,
    watch: Callable[[Step], None] | None = None,
) -> Outcome:
    """Steps until the mean log-likelihood of a row changes by less than `tol`, or there were `max_iter`.

    `watch` sees every step; steps are rough (see `steps`), the statistic at the end is not.
    """
    if max_iter < 1:
        raise ValueError(f"got max_iter={max_iter}, expected at least 1")
    least = tol * _weight(model, evidence)
    likelihoods: list[float] = []
    converged, before, last = False, start, None
    for step in islice(steps(model, evidence, start, hard, rough=True), max_iter):
        likelihoods.append(step.log_likelihood)
        if watch is not None:
            watch(step)
        before, last = start if last is None else last.posterior, step
        # With a prior it is their product that never falls; the likelihood alone may, on its way.
        if len(likelihoods) > 1 and abs(likelihoods[-1] - likelihoods[-2]) < least:
            converged = True
            break
    if last is None:
        raise AssertionError("islice gives at least one step of an endless loop")
    if len(model.blocks) == 1 and any(isinstance(part, TiedNormal) for part in before.densities.values()):
        last = next(steps(model, evidence, before, hard))
    return Outcome(last.posterior, last.statistic, tuple(likelihoods), converged)


def log_likelihood(evidence: Evidence, posterior: Posterior, weighed: float = 1.0) -> float:
    """Σ w log p(x, y) of rows that have a label and Σ w log p(x) of the others, these times `weighed`."""
    found = _of_known(evidence.known(), posterior)
    for part in _unlabelled(evidence, len(posterior.keys)):
        found += weighed * float(part.weight() @ _kernels.log_sum_rows(posterior.log_joint(part.rows)))
    return found


def lower_bound(evidence: Evidence, posterior: Posterior, given: Posterior, weighed: float = 1.0) -> float:
    """A(θ, θ₀) = Σ w Σ_k r_k (log p(x, k | θ) − log r_k), with r_k = p(k | x, θ₀): what a step of EM raises.

    At most the log-likelihood at θ (`posterior`), and equal to it at θ = θ₀ (`given`).
    """
    if posterior.keys != given.keys:
        raise ValueError(
            f"got posteriors of {posterior.keys!r} and {given.keys!r}, expected the same classes"
        )
    found = _of_known(evidence.known(), posterior)
    for part in _unlabelled(evidence, len(given.keys)):
        joint, before = posterior.log_joint(part.rows), given.log_joint(part.rows)
        log_share = before - _kernels.log_sum_rows(before)[:, None]
        share = np.exp(log_share)
        with np.errstate(invalid="ignore"):  # 0 log 0 = 0
            terms = np.where(share > 0, share * (joint - log_share), 0.0)
        found += weighed * float(part.weight() @ terms.sum(axis=1))
    return found


def _of_known(known: Evidence, posterior: Posterior) -> float:
    """Σ w log p(x, y)."""
    if not len(known.rows):
        return 0.0
    place = posterior.keys.find(known.filed.keys)[known.filed.group]
    joint = posterior.log_joint(known.rows)[np.arange(len(place)), place]
    return float(known.weight() @ joint)


def _unlabelled(evidence: Evidence, classes: int) -> Iterator[Evidence]:
    unknown = evidence.unknown()
    if unknown is not None:
        yield from map(unknown.take, runs(len(unknown.rows), classes, _CELLS))


def _weight(model: Generative, evidence: Evidence) -> float:
    own = np.where(evidence.filed.group < 0, model.weighed, 1.0)
    return float((own * evidence.weight()).sum())


def best(
    model: Generative,
    evidence: Evidence,
    k: int,
    rng: np.random.Generator,
    tries: int = 1,
    max_iter: int = 100,
    tol: float = 1e-3,
    hard: bool = False,
    watch: Callable[[Step], None] | None = None,
) -> Outcome:
    """Of several runs, each from a start of its own, the one that has come furthest."""
    if tries < 1:
        raise ValueError(f"got tries={tries}, expected at least 1")
    found = (
        run(model, evidence, start(model, evidence, k, rng), max_iter, tol, hard, watch) for _ in range(tries)
    )
    if tries == 1:
        return next(found)
    return max(found, key=lambda outcome: log_likelihood(evidence, outcome.posterior, model.weighed))


def start(model: Generative, evidence: Evidence, k: int, rng: np.random.Generator) -> Posterior:
    """A first guess at classes 0 … k − 1: each row to the nearest of k centres, but a little to the others.

    Where labels are known they say more than any guess: infer a start from the rows that have them.
    """
    if (evidence.filed.group >= 0).any():
        raise ValueError(
            "got rows with labels, expected none: start from model.infer(model.observe(evidence.known()))"
        )
    if not 1 <= k <= len(evidence.rows):
        raise ValueError(
            f"got k={k} classes for {len(evidence.rows)} rows, expected 1 or more, and no more than rows"
        )
    keys = Keys(tuple(range(k)))
    n = len(evidence.rows)
    sample = evidence.take(np.sort(rng.permutation(n)[: max(_SAMPLE, _EACH * k)]))
    features = _Features.of(model, sample.rows, rng)
    rows = features.of_rows(sample.rows)
    weights = sample.weight()
    centres = _lloyd(rows, kmeans_plus_plus(rows, k, rng, weights), weights)
    # The sample has all means and squares that numbers need, but not all words that texts may hold.
    numeric = all(isinstance(block, GaussianColumns | GaussianVectors) for block in model.blocks.values())
    chosen = sample if numeric else evidence
    parts = []
    for run_of_rows in runs(len(chosen.rows), max(rows.shape[1], k), _CELLS):
        part = chosen.take(run_of_rows)
        nearest = _distances(features.of_rows(part.rows), centres).argmin(axis=1)
        shares = np.eye(k)[nearest] * (1.0 - _SOFT) + _SOFT / k
        parts.append(model.gather(_filled(model, part.rows), Shares(keys, shares * part.weight()[:, None])))
    return model.infer(total(parts))


def _filled(model: Generative, rows: Encoded) -> Encoded:
    """What is missing among vectors, which have no one yet to guess it, is the mean of its column."""
    filled = dict(rows.blocks)
    for name, block in model.blocks.items():
        values = filled[name]
        if isinstance(block, GaussianVectors) and np.isnan(values).any():
            seen = np.maximum((~np.isnan(values)).sum(axis=0), 1)
            filled[name] = np.where(np.isnan(values), np.nansum(values, axis=0) / seen, values)
    return Encoded(filled, len(rows))


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """Numbers by which rows of any blocks are compared: in units of their spread, categories as flags."""

    columns: dict[str, NDArray[np.int64]]  # of each block, those that are used
    centre: dict[str, Array]
    scale: dict[str, Array]

    @classmethod
    def of(cls, model: Generative, rows: Encoded, rng: np.random.Generator) -> "_Features":
        columns, centre, scale = {}, {}, {}
        for name in model.blocks:
            width = _width(rows.blocks[name])
            columns[name] = np.sort(rng.permutation(width)[:_WIDEST])
            values = _numbers(rows.blocks[name], columns[name])
            seen = np.maximum((~np.isnan(values)).sum(axis=0), 1)
            centre[name] = np.nansum(values, axis=0) / seen
            spread = np.sqrt(np.nansum(np.square(values - centre[name]), axis=0) / seen)
            scale[name] = np.where(spread > 0, spread, 1.0)
        return cls(columns, centre, scale)

    def of_rows(self, rows: Encoded) -> Array:
        parts = [
            (_numbers(rows.blocks[name], columns) - self.centre[name]) / self.scale[name]
            for name, columns in self.columns.items()
        ]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(rows), 0))


def _width(rows: Any) -> int:
    if isinstance(rows, Codes):
        return sum(map(len, rows.keys))
    return rows.columns if isinstance(rows, Sparse) else int(rows.shape[1])


def _numbers(rows: Any, columns: NDArray[np.int64]) -> Array:
    """Some columns of a block as numbers (n, len(columns)), NaN where they are missing."""
    if isinstance(rows, Sparse):
        return np.asarray(rows.matrix()[:, columns].toarray(), dtype=np.float64)
    if not isinstance(rows, Codes):
        return np.asarray(rows[:, columns], dtype=np.float64)
    starts = np.cumsum([0, *map(len, rows.keys)])
    owner = np.searchsorted(starts, columns, side="right") - 1
    codes = rows.codes[:, owner]
    return np.where(codes < 0, np.nan, (codes == columns - starts[owner]).astype(np.float64))


def kmeans_plus_plus(rows: Array, k: int, rng: np.random.Generator, weights: Array | None = None) -> Array:
    """k of the rows (k, d) that are far from each other: each drawn by its squared distance to those before.

    Of 2 + log k draws the one is taken that leaves least. On a sample, if there are many rows. Distances are
    over the columns that are present; what a centre misses is the mean of its column.
    """
    if not 1 <= k <= len(rows):
        raise ValueError(
            f"got k={k} for {len(rows)} rows, expected 1 or more, and no more than there are rows"
        )
    most = max(_SAMPLE, _EACH * k)
    if len(rows) > most:
        chosen = rng.choice(len(rows), most, replace=False)
        rows, weights = rows[chosen], None if weights is None else weights[chosen]
    w = np.ones(len(rows)) if weights is None else weights
    seen = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
    filled = np.where(np.isnan(rows), np.nansum(rows, axis=0) / seen, rows)
    first = rng.choice(len(rows), p=w / w.sum())
    centres = [filled[first]]
    nearest = _distances(rows, filled[first][None])[:, 0]
    for _ in range(1, k):
        chance = np.cumsum(nearest * w)
        if chance[-1] > 0:
            drawn = np.searchsorted(chance, rng.random(2 + int(np.log(k))) * chance[-1], side="right")
        else:  # fewer distinct rows than centres
            drawn = rng.integers(len(rows), size=1)
        drawn = np.minimum(drawn, len(rows) - 1)
        left = np.minimum(_distances(rows, filled[drawn]), nearest[:, None])
        best = int((w @ left).argmin())
        nearest = left[:, best]
        centres.append(filled[drawn[best]])
    return np.stack(centres)


def _distances(rows: Array, centres: Array) -> Array:
    """Squared, (n, k), over the columns that are present and as if all were."""
    present = ~np.isnan(rows)
    if present.all():
        about = rows.mean(axis=0)
        x, c = rows - about, centres - about
        found = np.square(x).sum(axis=1)[:, None] - 2.0 * x @ c.T + np.square(c).sum(axis=1)
        return np.asarray(np.maximum(found, 0.0))
    x = np.where(present, rows, 0.0)
    found = np.square(x).sum(axis=1)[:, None] - 2.0 * x @ centres.T + present @ np.square(centres).T
    share = present.sum(axis=1) / max(1, rows.shape[1])
    return np.asarray(np.maximum(found, 0.0) / np.where(share > 0, share, 1.0)[:, None])


def _lloyd(rows: Array, centres: Array, weights: Array) -> Array:
    """A few rounds of k-means; a centre that no row is near stays where it is."""
    present = ~np.isnan(rows)
    filled = np.where(present, rows, 0.0)
    for _ in range(_LLOYD):
        shares = np.eye(len(centres))[_distances(rows, centres).argmin(axis=1)] * weights[:, None]
        weight = shares.T @ present
        centres = np.where(weight > 0, shares.T @ filled / np.where(weight > 0, weight, 1.0), centres)
    return centres
