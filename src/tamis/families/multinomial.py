"""Multinomial: counts in n trials. T(x) = x, h(x) = n!/Πx!, A(η) = n log Σ e^η; minimal: n log(1 + Σ e^η)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tamis.arrays import Array, floats
from tamis.families import simplex
from tamis.families.counts import is_count, log_poisson, mean_log_poisson
from tamis.families.family import TallyFamily, check_statistic, freeze_parameter, set_fields
from tamis.families.stirling import deviance
from tamis.stats import Tally

_MOST_TRIALS = 2.0**63 - 1024.0  # to draw from: the largest float64 that int64 can represent


@dataclass(frozen=True, slots=True, eq=False)
class Multinomial(TallyFamily):
    """Counts of K categories in a given number of trials; a probability may be 0.

    The counts are distributed as independent Poisson counts given their sum; density and entropy use this.
    Full: T(x) = x, η = log p. `minimal=True`: the last category is the reference, T(x) leaves it out,
    and η = log(p / p of the last). See `tamis.families.simplex` for probabilities of 0.

    >>> throws = Multinomial(3, [0.5, 0.25, 0.25])
    >>> throws.fit(throws.observe([[1, 1, 1], [2, 0, 1]])).probabilities.round(4).tolist()
    [0.5, 0.1667, 0.3333]
    >>> throws.density([1, 1, 1]).round(4).tolist(), throws.density([1, 1, 2]).tolist()
    (0.1875, 0.0)
    """

    event_axes: ClassVar[int] = 1

    trials: Array  # batch
    probabilities: Array  # batch + (K,)
    minimal: bool

    def __init__(self, trials: ArrayLike, probabilities: ArrayLike, minimal: bool = False) -> None:
        n, p = freeze_parameter(trials, "trials"), simplex.check_probabilities(probabilities)
        if not is_count(n).all():
            raise ValueError(f"got {n[~is_count(n)][0]} trials, expected a whole number, not below zero")
        batch = np.broadcast_shapes(n.shape, p.shape[:-1])
        set_fields(
            self,
            trials=np.broadcast_to(n, batch),
            probabilities=np.broadcast_to(p, (*batch, p.shape[-1])),
            minimal=minimal,
        )

    @property
    def categories(self) -> int:
        """The number K of categories."""
        return int(self.probabilities.shape[-1])

    @property
    def support(self) -> str:
        return f"{self.categories} counts that sum to the number of trials"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        counts = self._check_counts(x)
        inside = np.asarray(is_count(counts).all(axis=-1))
        total = np.where(inside[..., None], counts, 0.0).sum(axis=-1)
        return np.asarray(inside & (total == self.trials))

    def sufficient(self, x: ArrayLike) -> Array:
        return simplex.drop_reference(self._check_counts(x), self.minimal)

    def log_base(self, x: ArrayLike) -> Array:
        """The log multinomial coefficient."""
        inside = self.supports(x)
        counts = np.where(inside[..., None], self._check_counts(x), 0.0)
        coefficient = special.gammaln(self.trials + 1.0) - special.gammaln(counts + 1.0).sum(axis=-1)
        return np.where(inside, coefficient, -np.inf)

    def log_partition(self, natural: ArrayLike) -> Array:
        return np.asarray(self.trials * simplex.log_partition(floats(natural, "natural"), self.minimal))

    @property
    def natural(self) -> Array:
        return simplex.natural(self.probabilities, self.minimal)

    @property
    def mean_parameters(self) -> Array:
        return simplex.drop_reference(self._expected_counts, self.minimal)

    def with_natural(self, natural: ArrayLike) -> Self:
        return type(self)(
            self.trials, simplex.softmax(floats(natural, "natural"), self.minimal), self.minimal
        )

    def with_mean(self, mean: ArrayLike) -> Self:
        return self._with_counts(
            simplex.add_reference(floats(mean, "mean"), self.trials, self.minimal), self.trials
        )

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if (self.trials > _MOST_TRIALS).any():
            raise ValueError(f"got {self.trials.max()} trials, expected at most 2**63 − 1024 to draw from")
        return rng.multinomial(self.trials.astype(np.int64), self.probabilities, shape).astype(np.float64)

    def mean_log_base(self) -> Array:
        """E[log h(x)], computed from the entropy, in which large terms do not cancel."""
        inner = special.xlogy(self._expected_counts, self.probabilities).sum(axis=-1)
        return np.asarray(-inner - self.entropy())

    def log_density(self, x: ArrayLike) -> Array:
        inside, n = self.supports(x), self.trials
        counts = np.where(inside[..., None], self._check_counts(x), 0.0)
        log_p = log_poisson(counts, self._expected_counts).sum(axis=-1) - log_poisson(n, n)
        return np.where(inside, log_p, -np.inf)

    def entropy(self) -> Array:
        n, p = self.trials, self.probabilities
        expected_logs = mean_log_poisson(self._expected_counts, p, np.broadcast_to(n[..., None], p.shape))
        return np.asarray(log_poisson(n, n) - expected_logs.sum(axis=-1))

    def _kl(self, other: Self) -> Array:
        if not (self.trials == other.trials).all():
            raise ValueError(
                f"got {self.trials.tolist()} and {other.trials.tolist()} trials, expected the same number: "
                "counts of one cannot come from the other"
            )
        return np.asarray(
            deviance(self._expected_counts, other.trials[..., None] * other.probabilities).sum(axis=-1)
        )

    def fit(self, statistic: Tally) -> Self:
        trials = check_statistic(statistic, Tally).weight.value * self.trials
        return self._with_counts(simplex.add_reference(statistic.total.value, trials, self.minimal), trials)

    @property
    def _expected_counts(self) -> Array:
        return np.asarray(self.trials[..., None] * self.probabilities)

    def _with_counts(self, counts: Array, total: Array) -> Self:
        """The member whose probabilities are counts (..., K) over their totals (...)."""
        if not (self.trials > 0).all():
            raise ValueError(
                "got 0 trials, expected at least 1: the probabilities cannot be estimated from none"
            )
        return type(self)(self.trials, counts / total[..., None], self.minimal)

    def _check_counts(self, x: ArrayLike) -> Array:
        """Return the counts (..., K); raise for another shape."""
        counts = floats(x, "x")
        if counts.ndim == 0 or counts.shape[-1] != self.categories:
            raise ValueError(f"got x of shape {counts.shape}, expected {self.categories} counts: (..., K)")
        return counts
