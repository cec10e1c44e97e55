"""Numbers → ΣT(x) by class → a distribution of any family with a conjugate prior, for each column.

This block (columns with their family) is for every family that has no faster block. The blocks of Gaussian,
Bernoulli, Poisson and categorical columns are faster, and that of Gaussian columns is more precise where a
variance is much smaller than the squared mean. A test in `tamis.testing.family_columns` checks that their
results equal those of this block. A member is one distribution of a family.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.families.conjugacy import ConjugateFamily
from tamis.families.registry import (
    label_of,  # the name of a family with its fixed parameters, such as "gamma(shape=3)"
    name_of,  # its name alone
)
from tamis.models.generative.block import Block, ColumnDensity, Density, Responsibilities, can_sum_squares
from tamis.models.generative.counting import refuse_missing_prior
from tamis.stats import Keys, Labels, Moments, Tally, refuse_excess_subtraction
from tamis.tables import Table

_PLACEHOLDER = 1.0  # replaces a missing value in computations whose result is then dropped


@dataclass(frozen=True, kw_only=True)
class FamilyColumns(Block[Array, Tally]):
    """Columns of one family; each has its own member (distribution) in each class.

    `family` is any member of the family: it has the fixed parameters, such as the size of a negative
    binomial, and is the distribution of a class without rows or prior. By default, the prior is the family's
    own, of `alpha` pseudo-observations.

    >>> from tamis.families import Exponential
    >>> block = FamilyColumns(family=Exponential(1.0), estimate="mle")
    >>> statistic = block.observe(np.array([[2.0], [4.0], [np.nan], [9.0]]), Labels.of(["a", "a", "a", "b"]))
    >>> statistic.weight.value.tolist(), statistic.total.value.tolist()
    ([[2.0], [1.0]], [[[6.0]], [[9.0]]])
    >>> waits: Any = block.infer(statistic, Keys(("a", "b")))
    >>> (
    ...     [one.rate.round(3).tolist() for one in waits.members],
    ...     waits.scores(np.array([[3.0]])).round(3).tolist(),
    ... )
    ([[0.333], [0.111]], [[-2.099, -2.531]])
    """

    kind: ClassVar[str] = "family"

    family: ConjugateFamily
    alpha: float = 1.0  # the number of pseudo-observations of the default prior
    prior: Tally | None = None  # pseudo-observations, the same for all columns, or of each column

    @property
    def n_sufficient(self) -> int:
        """The number of components of T(x)."""
        return int(self.family.natural.shape[-1])

    def encode(self, table: Table, learn: bool = True) -> Array:
        values = self.values(table)
        if learn:
            unsupported = ~(np.isnan(values) | self.family.supports(values))
            if unsupported.any():
                row, j = np.argwhere(unsupported)[0].tolist()
                name = table.describe(self.column_indices(table)[j])
                raise ValueError(
                    f"{name} holds {values[row, j]:g} in row {row}, expected {self.family.support}: "
                    "correct that row, or choose another family"
                )
        return values

    def admits(self, values: Array) -> bool:
        # T(x) may contain x².
        return can_sum_squares(values) and bool(self.family.supports(values).all())

    def observe(
        self,
        rows: Array,
        by: Labels | Responsibilities,
        weights: Array | None = None,
        given: Density[Array] | None = None,
    ) -> Tally:
        missing = np.isnan(rows)
        terms = self.family.sufficient(np.where(missing, _PLACEHOLDER, rows))  # (n, d, k)
        n, d, k = terms.shape
        if isinstance(by, Responsibilities):
            terms[missing] = 0.0
            total = (by.values.T @ terms.reshape(n, d * k)).reshape(len(by.keys), d, k)
            return Tally.of(by.values.T @ (~missing).astype(np.float64), total, by.keys)
        terms[missing] = np.nan
        sums = Moments.observe(terms.reshape(n, d * k), weights, by, form="none", missing=True)
        return Tally(
            weight=sums.weight.reindex(lambda words: words.reshape(*words.shape[:-1], d, k)[..., 0]),
            total=sums.first.reindex(lambda words: words.reshape(*words.shape[:-1], d, k)),
            keys=sums.keys,
        )

    def infer(self, statistic: Tally, keys: Keys) -> Density[Array]:
        class_sums, pooled = statistic.over(keys), statistic.pooled()
        weight, total = class_sums.weight.value, class_sums.total.value
        prior_weight, prior_total = self._pseudo_observations(pooled)
        prior = np.broadcast_to(prior_weight, weight.shape), np.broadcast_to(prior_total, total.shape)
        if self.estimate != "mle":
            weight, total = weight + prior[0], total + prior[1]
        if self.estimate == "predictive":
            if not (prior_weight > 0).all():
                raise ValueError("estimate='predictive' needs a prior, got alpha=0: raise it, or use 'mean'")
            return Integrated(keys, self.family, weight, total, prior, class_sums)
        is_empty = ~(weight > 0)
        weight = np.where(is_empty, 1.0, weight)
        total = np.where(is_empty[..., None], self.family.mean_parameters, total)
        find_member = self.family.prior_mode if self.estimate == "map" else self.family.prior_mean
        members = tuple(
            self._make_member(find_member, weight[i], total[i], key) for i, key in enumerate(keys)
        )
        return Members(keys, self.family, members, prior, class_sums)

    def _pseudo_observations(self, pooled: Tally) -> tuple[Array, Array]:
        """The weight and the total of the prior, which broadcast to (K, d) and (K, d, k)."""
        if self.prior is not None:
            return self.prior.weight.value, self.prior.total.value
        return self.family.default_prior(self.alpha, pooled.weight.value, pooled.total.value)

    def _make_member(
        self, find_member: Callable[[Array, Array], ConjugateFamily], weight: Array, total: Array, key: object
    ) -> ConjugateFamily:
        """Estimate the members of all columns in a class; an error names the class."""
        try:
            return find_member(weight, total)
        except ValueError as problem:
            raise ValueError(
                f"a {name_of(self.family)} column of class {key!r} has no estimate={self.estimate!r} "
                f"({problem}): use estimate='mean', which has a prior"
            ) from None

    def count_parameters(self, density: Any) -> int:
        return int(density.class_sums.total.value.size)

    @property
    def type_of_draws(self) -> type[np.generic]:
        return np.int64 if self.family.discrete else np.float64

    def refuse_impossible(self, statistic: Tally) -> None:
        weight, total = statistic.weight.value, statistic.total.value
        excess = (weight == 0) & total.any(axis=-1)
        refuse_excess_subtraction(bool((excess | ~self.family.is_possible(weight, total)).any()))

    def sums_like(self, other: Block[Any, Any]) -> bool:
        return (
            super().sums_like(other)
            and isinstance(other, FamilyColumns)
            and label_of(other.family) == label_of(self.family)
        )


class FamilyDensity(ColumnDensity[Array]):
    """The log-density of each column in each class; the base of `Members` and `Integrated`."""

    family: ConjugateFamily
    prior: tuple[Array, Array]  # its weight (K, d) and total (K, d, k)
    class_sums: Tally  # of the observations: weight (K, d) and total (K, d, k)

    @abstractmethod
    def _log_densities(self, values: Array, k: int) -> Array:
        """log p of the values (n, d) in the class of index k."""

    def _log_terms(self, rows: Array, k: int) -> Array:
        missing = np.isnan(rows)
        return np.where(missing, 0.0, self._log_densities(np.where(missing, _PLACEHOLDER, rows), k))

    def log_evidence(self) -> float:
        """The log-evidence; without Σ log h(x) if h varies, because this sum is not in the statistic."""
        prior_weight, prior_total = self.prior
        refuse_missing_prior(bool((prior_weight > 0).all()))
        weight, total = self.class_sums.weight.value, self.class_sums.total.value
        evidence = self.family.log_evidence(prior_weight, prior_total, weight, total)
        # `log_base_constant` is log h(x) of a family whose h is constant, and 0 for others.
        return float((evidence + self.family.log_base_constant * weight).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Members(FamilyDensity):
    """Plug-in densities: one member (distribution) for each class and column."""

    keys: Keys
    family: ConjugateFamily
    members: tuple[ConjugateFamily, ...]  # K members, each of d columns
    prior: tuple[Array, Array]
    class_sums: Tally

    def _log_densities(self, values: Array, k: int) -> Array:
        return self.members[k].log_density(values)

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        rows = np.empty((len(group), self.class_sums.weight.shape[1]))
        for k in np.unique(group).tolist():
            rows[group == k] = self.members[k].sample(rng, int((group == k).sum()))
        return list(rows.T)


@dataclass(frozen=True, slots=True, eq=False)
class Integrated(FamilyDensity):
    """Predictive densities: the family with its parameters integrated out."""

    keys: Keys
    family: ConjugateFamily
    weight: Array  # (K, d): of the prior and the observations together
    total: Array  # (K, d, k): their sufficient statistics
    prior: tuple[Array, Array]
    class_sums: Tally

    def _log_densities(self, values: Array, k: int) -> Array:
        return self.family.log_predictive(self.weight[k], self.total[k], values)

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        return list(self.family.sample_prior(rng, self.weight[group], self.total[group]).sample(rng).T)
