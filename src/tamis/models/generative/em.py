"""rows whose labels are missing, a first guess → steps of EM, each a statistic and the posterior it gives.

A step observes the rows given the last posterior and infers the next; `steps` has no end, and the caller's
loop decides. `run` is that loop for whoever has no wish of their own, and `start` a first guess.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from tamis import _kernels
from tamis.arrays import Array
from tamis.models.generative.em_start import Initial, Method, kmeans_plus_plus, start
from tamis.models.generative.gaussian_densities import TiedNormal
from tamis.models.generative.model import Generative, LabelledRows, Posterior
from tamis.protocols import total
from tamis.stats import Joint
from tamis.tables import runs

__all__ = [
    "History",
    "Initial",
    "Method",
    "Outcome",
    "Step",
    "best",
    "kmeans_plus_plus",
    "log_likelihood",
    "lower_bound",
    "run",
    "start",
    "steps",
]

_CELLS = 1 << 20  # of log p(x, class) in memory at a time


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What one step of EM makes of the posterior before it."""

    number: int  # from 1
    statistic: Joint  # expected, given the posterior before
    posterior: Posterior
    log_likelihood: float  # of the rows under the posterior before, known labels with their rows


@dataclass(frozen=True, slots=True)
class History:
    """How a run of EM went."""

    log_likelihoods: tuple[float, ...]  # of all rows, under the posterior before each step
    weight: float  # of all rows
    converged: bool

    @property
    def iterations(self) -> int:
        """Steps that were made."""
        return len(self.log_likelihoods)

    @property
    def lower_bounds(self) -> Array:
        """The mean log-likelihood per row before each step (iterations,)."""
        return np.array(self.log_likelihoods) / (self.weight if self.weight > 0 else 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Where a run ended, and how it came there."""

    posterior: Posterior
    statistic: Joint
    history: History

    @property
    def log_likelihoods(self) -> tuple[float, ...]:
        """Of each step."""
        return self.history.log_likelihoods

    @property
    def converged(self) -> bool:
        """Whether the last step changed the log-likelihood by less than the tolerance."""
        return self.history.converged

    @property
    def iterations(self) -> int:
        """Steps that were made."""
        return self.history.iterations


def steps(
    model: Generative, evidence: LabelledRows, start: Posterior, hard: bool = False, rough: bool = False
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
    evidence: LabelledRows,
    start: Posterior,
    max_iter: int = 100,
    tol: float = 1e-3,
    hard: bool = False,
    watch: Callable[[Step], None] | None = None,
    before_start: float | None = None,
) -> Outcome:
    """Steps until the mean log-likelihood of a row changes by less than `tol`, or there were `max_iter`.

    `watch` sees every step; steps are rough (see `steps`), the statistic at the end is not. A run that
    continues another compares its first log-likelihood with the last one of that run, `before_start`.
    """
    if max_iter < 1:
        raise ValueError(f"got max_iter={max_iter}, expected at least 1")
    weight = _weight(model, evidence)
    least, previous = tol * weight, before_start
    likelihoods: list[float] = []
    converged, before, last = False, start, None
    for step in islice(steps(model, evidence, start, hard, rough=True), max_iter):
        likelihoods.append(step.log_likelihood)
        if watch is not None:
            watch(step)
        before, last = start if last is None else last.posterior, step
        # With a prior it is their product that never falls; the likelihood alone may, on its way.
        if previous is not None and abs(step.log_likelihood - previous) < least:
            converged = True
            break
        previous = step.log_likelihood
    if last is None:
        raise AssertionError("islice gives at least one step of an endless loop")
    if len(model.blocks) == 1 and any(isinstance(part, TiedNormal) for part in before.densities.values()):
        last = next(steps(model, evidence, before, hard))
    return Outcome(last.posterior, last.statistic, History(tuple(likelihoods), weight, converged))


def log_likelihood(evidence: LabelledRows, posterior: Posterior, weighed: float = 1.0) -> float:
    """Σ w log p(x, y) of rows that have a label and Σ w log p(x) of the others, these times `weighed`."""
    found = _of_known(evidence.known(), posterior)
    for part in _unlabelled(evidence, len(posterior.keys)):
        found += weighed * float(part.weight() @ _kernels.log_sum_rows(posterior.log_joint(part.rows)))
    return found


def lower_bound(
    evidence: LabelledRows, posterior: Posterior, given: Posterior, weighed: float = 1.0
) -> float:
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


def _of_known(known: LabelledRows, posterior: Posterior) -> float:
    """Σ w log p(x, y)."""
    if not len(known.rows):
        return 0.0
    place = posterior.keys.find(known.labels.keys)[known.labels.group]
    joint = posterior.log_joint(known.rows)[np.arange(len(place)), place]
    return float(known.weight() @ joint)


def _unlabelled(evidence: LabelledRows, classes: int) -> Iterator[LabelledRows]:
    unknown = evidence.unknown()
    if unknown is not None:
        yield from map(unknown.take, runs(len(unknown.rows), classes, _CELLS))


def _weight(model: Generative, evidence: LabelledRows) -> float:
    own = np.where(evidence.labels.group < 0, model.weighed, 1.0)
    return float((own * evidence.weight()).sum())


def best(
    model: Generative,
    evidence: LabelledRows,
    k: int,
    rng: np.random.Generator,
    tries: int = 1,
    max_iter: int = 100,
    tol: float = 1e-3,
    hard: bool = False,
    watch: Callable[[Step], None] | None = None,
    method: Method = "kmeans",
    initial: Initial | None = None,
) -> Outcome:
    """Of several runs, each from a start of its own, the one with the largest last log-likelihood.

    With `hard`, that is the one of rows and their classes together, as in k-means.
    """
    if tries < 1:
        raise ValueError(f"got tries={tries}, expected at least 1")
    outcomes = (
        run(model, evidence, start(model, evidence, k, rng, method, initial), max_iter, tol, hard, watch)
        for _ in range(tries)
    )
    return max(outcomes, key=lambda outcome: outcome.log_likelihoods[-1])
