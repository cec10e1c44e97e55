"""rows whose labels are missing, a first posterior → steps of EM, each a statistic and its posterior.

EM is `protocols.iterate` of a `Generative` model: a step observes the rows given the last posterior and
infers the next. `run` is the loop that decides when to stop, and `start` infers a first posterior.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tamis import _kernels
from tamis.arrays import Array
from tamis.models.generative.em_start import Initial, Method, kmeans_plus_plus, start
from tamis.models.generative.gaussian_densities import TiedNormal
from tamis.models.generative.model import Generative, LabelledRows, Posterior, log_likelihood_of_labels
from tamis.protocols import Step, iterate
from tamis.stats import Joint
from tamis.tables import runs

__all__ = [
    "History",
    "Initial",
    "Method",
    "Outcome",
    "best",
    "kmeans_plus_plus",
    "log_likelihood",
    "lower_bound",
    "run",
    "start",
    "steps",
]

_CELLS = 1 << 20  # of log p(x, class) in memory at a time


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
    """The last step of a run, and its history."""

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
    model: Generative, data: LabelledRows, start: Posterior, pool_squares: bool = False
) -> Iterator[Step[Joint, Posterior]]:
    """Steps of EM from a starting posterior, without end; for `pool_squares` see `Generative.prepare`."""
    return iterate(model, [model.prepare(data, pool_squares)], start)


def run(
    model: Generative,
    data: LabelledRows,
    start: Posterior,
    max_iter: int = 100,
    tol: float = 1e-3,
    watch: Callable[[Step[Joint, Posterior]], None] | None = None,
    previous: float | None = None,
) -> Outcome:
    """Make steps until the mean log-likelihood per row changes by less than `tol`, at most `max_iter`.

    `watch` is called with every step; squares are pooled in the steps, but not in the statistic at the end.
    A run that continues another compares its first log-likelihood with the last one of that run, `previous`.
    """
    if max_iter < 1:
        raise ValueError(f"got max_iter={max_iter}, expected at least 1")
    weight = _weight(model, data)
    log_likelihoods: list[float] = []
    converged, posteriors = False, [start]
    for step in islice(steps(model, data, start, pool_squares=True), max_iter):
        log_likelihoods.append(step.objective)
        posteriors = [posteriors[-1], step.posterior]
        if watch is not None:
            watch(step)
        # With a prior it is their product that never falls; the likelihood alone may, on its way.
        if previous is not None and abs(step.objective - previous) < tol * weight:
            converged = True
            break
        previous = step.objective
    before, _ = posteriors
    if len(model.blocks) == 1 and any(isinstance(part, TiedNormal) for part in before.densities.values()):
        step = next(steps(model, data, before))
    return Outcome(step.posterior, step.statistic, History(tuple(log_likelihoods), weight, converged))


def log_likelihood(data: LabelledRows, posterior: Posterior, unlabelled_weight: float = 1.0) -> float:
    """Σ w log p(x, y) of rows that have a label and Σ w log p(x) of the others, whose weights are scaled."""
    likelihood = log_likelihood_of_labels(data.select_labelled(), posterior)
    for part in _split_unlabelled(data, len(posterior.keys)):
        log_density = _kernels.log_sum_rows(posterior.log_joint(part.rows))
        likelihood += unlabelled_weight * float(part.weight() @ log_density)
    return likelihood


def lower_bound(
    data: LabelledRows, posterior: Posterior, given: Posterior, unlabelled_weight: float = 1.0
) -> float:
    """A(θ, θ₀) = Σ w Σ_k r_k (log p(x, k | θ) − log r_k), r_k = p(k | x, θ₀): the bound that EM maximises.

    At most the log-likelihood at θ (`posterior`), and equal to it at θ = θ₀ (`given`).
    """
    if posterior.keys != given.keys:
        raise ValueError(
            f"got posteriors of {posterior.keys!r} and {given.keys!r}, expected the same classes"
        )
    bound = log_likelihood_of_labels(data.select_labelled(), posterior)
    for part in _split_unlabelled(data, len(given.keys)):
        joint, before = posterior.log_joint(part.rows), given.log_joint(part.rows)
        log_r = before - _kernels.log_sum_rows(before)[:, None]
        r = np.exp(log_r)
        with np.errstate(invalid="ignore"):  # 0 log 0 = 0
            terms = np.where(r > 0, r * (joint - log_r), 0.0)
        bound += unlabelled_weight * float(part.weight() @ terms.sum(axis=1))
    return bound


def _split_unlabelled(data: LabelledRows, classes: int) -> Iterator[LabelledRows]:
    unknown = data.select_unlabelled()
    if unknown is not None:
        yield from map(unknown.take, runs(len(unknown.rows), classes, _CELLS))


def _weight(model: Generative, data: LabelledRows) -> float:
    """Of all rows."""
    factors = np.where(data.labels.group < 0, model.unlabelled_weight, 1.0)
    return float((factors * data.weight()).sum())


def best(
    model: Generative,
    data: LabelledRows,
    k: int,
    rng: np.random.Generator,
    tries: int = 1,
    max_iter: int = 100,
    tol: float = 1e-3,
    watch: Callable[[Step[Joint, Posterior]], None] | None = None,
    method: Method = "kmeans",
    initial: Initial | None = None,
) -> Outcome:
    """Run several times, each from a start of its own: the outcome with the largest last log-likelihood."""
    if tries < 1:
        raise ValueError(f"got tries={tries}, expected at least 1")
    outcomes = (
        run(model, data, start(model, data, k, rng, method, initial), max_iter, tol, watch)
        for _ in range(tries)
    )
    return max(outcomes, key=lambda outcome: outcome.log_likelihoods[-1])
