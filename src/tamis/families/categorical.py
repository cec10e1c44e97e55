"""Categorical: one of K. T(x) is one-hot, A(η) = log Σ e^η.

The minimal parametrisation omits the last category: A(η) = log(1 + Σ e^η).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tamis.arrays import Array, floats
from tamis.families import simplex
from tamis.families.conjugacy import ConjugateFamily
from tamis.families.counts import is_count
from tamis.families.family import TallyFamily, check_statistic, log_or_minus_infinity, set_fields
from tamis.families.normalizers import log_dirichlet_normalizer, log_dirichlet_ratio
from tamis.families.stirling import deviance
from tamis.stats import Tally


@dataclass(frozen=True, slots=True, eq=False)
class Categorical(TallyFamily, ConjugateFamily):
    """A category 0 … K−1, each of the given probability, which may be 0.

    Full: T(x) is one-hot, η = log p, one per category. `minimal=True`: the last category is the reference,
    T(x) leaves it out, and η = log(p / p of the last). See `tamis.families.simplex` for probabilities of 0.

    >>> die = Categorical([0.5, 0.25, 0.25]).fit(Categorical([0.5, 0.25, 0.25]).observe([0, 2, 2, 1, 2]))
    >>> die.probabilities.tolist(), die.log_density(3).tolist()
    ([0.2, 0.2, 0.6], -inf)
    >>> Categorical([0.5, 0.25, 0.25], minimal=True).natural.round(3).tolist()
    [0.693, 0.0]
    """

    probabilities: Array  # batch + (K,)
    minimal: bool

    def __init__(self, probabilities: ArrayLike, minimal: bool = False) -> None:
        set_fields(self, probabilities=simplex.check_probabilities(probabilities), minimal=minimal)

    @property
    def batch(self) -> tuple[int, ...]:
        return self.probabilities.shape[:-1]

    @property
    def categories(self) -> int:
        """The number K of categories."""
        return int(self.probabilities.shape[-1])

    @property
    def support(self) -> str:
        return f"a category from 0 to {self.categories - 1}"

    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        value = floats(x, "x")
        return np.asarray(is_count(value) & (value < self.categories))

    def sufficient(self, x: ArrayLike) -> Array:
        """One-hot (..., K), or (..., K−1); zeros where x is not a category."""
        terms = np.arange(self.categories - self.minimal)
        return np.asarray(floats(x, "x")[..., None] == terms, dtype=np.float64)

    def log_partition(self, natural: ArrayLike) -> Array:
        return simplex.log_partition(floats(natural, "natural"), self.minimal)

    @property
    def natural(self) -> Array:
        return simplex.natural(self.probabilities, self.minimal)

    @property
    def mean_parameters(self) -> Array:
        return simplex.drop_reference(self.probabilities, self.minimal)

    def with_natural(self, natural: ArrayLike) -> Self:
        return type(self)(simplex.softmax(floats(natural, "natural"), self.minimal), self.minimal)

    def with_mean(self, mean: ArrayLike) -> Self:
        return type(self)(simplex.add_reference(floats(mean, "mean"), 1.0, self.minimal), self.minimal)

    def log_prior_normalizer(self, weight: Array, total: Array) -> Array:
        return log_dirichlet_normalizer(self._all_counts(weight, total))

    def log_evidence(self, prior_weight: Array, prior_total: Array, weight: Array, total: Array) -> Array:
        return log_dirichlet_ratio(
            self._all_counts(prior_weight, prior_total), self._all_counts(weight, total)
        )

    def prior_mode(self, weight: Array, total: Array) -> Self:
        counts = self._all_counts(weight, total) - 1.0
        if (counts < 0).any():
            raise ValueError(
                "got a prior of less than one pseudo-observation of a category, expected at least one for a "
                "mode: raise alpha, or use estimate='mean'"
            )
        sum_of_counts = counts.sum(axis=-1, keepdims=True)
        uniform = np.where(sum_of_counts > 0, 0.0, 1.0)  # all probabilities are equal where all counts are 0
        return type(self)((counts + uniform) / (sum_of_counts + uniform * self.categories), self.minimal)

    def sample_prior(self, rng: np.random.Generator, weight: Array, total: Array) -> Self:
        gammas = rng.standard_gamma(self._all_counts(weight, total))
        return type(self)(gammas / gammas.sum(axis=-1, keepdims=True), self.minimal)

    def default_prior(self, strength: float, weight: Array, total: Array) -> tuple[Array, Array]:
        """A prior of `strength` pseudo-observations of each category."""
        return np.full(weight.shape, self.categories * float(strength)), np.full(total.shape, float(strength))

    def is_possible(self, weight: Array, total: Array) -> NDArray[np.bool_]:
        return np.asarray((total >= 0).all(axis=-1) & (total.sum(axis=-1) <= weight * (1.0 + 1e-9)))

    def _all_counts(self, weight: Array, total: Array) -> Array:
        """The counts of all categories (*batch, K); if minimal, that of the last one is appended."""
        return simplex.add_reference(total, weight, self.minimal)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        uniform = rng.random(shape)
        cumulative = np.cumsum(self.probabilities, axis=-1)
        cumulative /= cumulative[..., -1:]
        drawn = np.empty(uniform.shape)
        for member in np.ndindex(self.batch):
            drawn[..., *member] = np.searchsorted(cumulative[member], uniform[..., *member], side="right")
        return drawn

    def log_density(self, x: ArrayLike) -> Array:
        inside = self.supports(x)
        index = np.where(inside, floats(x, "x"), 0.0).astype(np.int64)
        shape = np.broadcast_shapes(index.shape, self.batch)
        logs = np.broadcast_to(log_or_minus_infinity(self.probabilities), (*shape, self.categories))
        log_p = np.take_along_axis(logs, np.broadcast_to(index, shape)[..., None], axis=-1)[..., 0]
        return np.where(inside, log_p, -np.inf)

    def entropy(self) -> Array:
        return np.asarray(special.entr(self.probabilities).sum(axis=-1))

    def _kl(self, other: Self) -> Array:
        return np.asarray(deviance(self.probabilities, other.probabilities).sum(axis=-1))

    def fit(self, statistic: Tally) -> Self:
        """The maximum-likelihood member, from `observe` or from `Tally.count`, which is faster."""
        weight, total = check_statistic(statistic, Tally).weight.value, statistic.total.value
        if statistic.terms is None:
            counts = simplex.add_reference(total, weight, self.minimal)
        else:
            categories = np.array(list(statistic.terms), dtype=object)
            inside = self.supports(categories)
            if not inside.all():
                raise ValueError(f"got counts of {categories[~inside][0]!r}, expected {self.support}")
            counts = np.zeros((*total.shape[:-1], self.categories))
            counts[..., categories.astype(np.int64)] = total
        return type(self)(counts / weight[..., None], self.minimal)
