"""Dirichlet: prior of the probabilities of categories; conjugate to the categorical and the multinomial."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array
from tamis.conjugate import simplex
from tamis.conjugate.dirichlet_multinomial import (
    DirichletMultinomial,
    check_concentration,
    draw_probabilities,
)
from tamis.conjugate.distribution import broadcast_parameters, tail_of
from tamis.conjugate.prior import (
    Interval,
    Prior,
    combine_keys,
    refuse_impossible,
    refuse_negative_weight,
    refuse_unless_instance,
    refuse_unless_named,
)
from tamis.families.family import Size, check_positive, check_vectors, freeze_parameter, set_fields
from tamis.families.normalizers import log_dirichlet_normalizer, log_dirichlet_ratio, sum_of_others
from tamis.stats import Exact, Keys, Tally

_TOLERANCE = 1e-6  # totals may sum to less than the weight by this fraction of it, as with float32 numbers


@dataclass(frozen=True, slots=True, eq=False)
class Dirichlet(Prior):
    """Dirichlet(α): as if α_k observations of each category k had been observed.

    It is updated by a Tally with a total for each category: one of `Tally.count`, or of `Tally.observe` with
    one-hot rows or rows of counts, such as documents. An error is raised if the totals sum to less than the
    weight: then a category is missing, such as the last one, which `Categorical(…, minimal=True)` omits.

    >>> weather = Dirichlet([1, 1]).update(Tally.count(["sun", "rain", "sun"]))  # sorted: rain, sun
    >>> weather.mean.tolist(), round(float(weather.predictive().density([0, 1])), 9)
    ([0.4, 0.6], 0.6)
    """

    concentration: Array  # batch + (K,)
    keys: Keys | None  # labels of the slices of the first batch axis, from a statistic by label
    terms: Keys | None  # names of the categories, from a statistic that has them

    def __init__(
        self, concentration: ArrayLike, *, keys: Keys | None = None, terms: Keys | None = None
    ) -> None:
        alpha = check_concentration(concentration)
        refuse_unless_named(keys, alpha.shape[0] if alpha.ndim > 1 else None, "keys")
        refuse_unless_named(terms, alpha.shape[-1], "terms")
        set_fields(self, concentration=freeze_parameter(alpha, "concentration"), keys=keys, terms=terms)

    @classmethod
    def from_mean(cls, mean: ArrayLike, strength: ArrayLike) -> Self:
        """The prior with these mean probabilities (..., K), equivalent to `strength` pseudo-observations.

        >>> Dirichlet.from_mean([0.5, 0.25, 0.25], strength=8).concentration.tolist()
        [4.0, 2.0, 2.0]
        """
        probabilities, count = check_positive(mean, "mean"), check_positive(strength, "strength")
        if not np.allclose(probabilities.sum(axis=-1), 1.0, rtol=0.0, atol=1e-6):
            raise ValueError(f"got mean probabilities that sum to {probabilities.sum(axis=-1)}, expected 1")
        probabilities, count = broadcast_parameters(mean=probabilities, strength=count[..., None])
        return cls(probabilities * count)

    @classmethod
    def from_statistic(cls, statistic: Tally) -> Self:
        """The posterior of a prior of strength 0, after this statistic."""
        return cls(_read_counts(statistic), keys=statistic.keys, terms=statistic.terms)

    def as_statistic(self, terms: Sequence[Hashable] | None = None) -> Tally:
        """The pseudo-observations as a statistic, which can be added to an observed one.

        With `terms`, or if the prior has terms, the categories have names, and counts of some of them can be
        added.

        >>> prior = Dirichlet([1, 1, 1]).as_statistic(["sun", "rain", "snow"])
        >>> Dirichlet.from_statistic(prior + Tally.count(["sun", "rain"])).concentration.tolist()
        [2.0, 1.0, 2.0]
        """
        total = Exact.of(self.concentration)
        if terms is None:
            return Tally(weight=total.sum(axis=-1), total=total, keys=self.keys, terms=self.terms)
        keys, index = Keys.of(list(terms))
        if len(keys) != self.concentration.shape[-1] or len(terms) != len(keys):
            raise ValueError(
                f"got {len(terms)} terms, {len(keys)} of them distinct, "
                f"expected one for each of {self.concentration.shape[-1]} categories"
            )
        if self.terms is not None and keys != self.terms:
            raise ValueError(f"got terms {keys!r}, expected the terms of this prior, or None: {self.terms!r}")
        by_term = total if self.terms is not None else total.place(index, len(keys), axis=-1)
        return Tally(weight=total.sum(axis=-1), total=by_term, keys=self.keys, terms=keys)

    @classmethod
    def fit(cls, groups: Tally) -> Self:
        """Empirical Bayes: the prior under which the groups, all together, have the largest evidence.

        See `Prior.fit`. If each group has only one category, the strength is a millionth; if all groups are
        single observations, they do not determine it, and it is 1; a category in no group has a mean of 1e-9.
        """
        return cls(simplex.fit(_read_counts(groups)), terms=groups.terms)

    @property
    def batch(self) -> tuple[int, ...]:
        return self.concentration.shape[:-1]

    @property
    def strength(self) -> Array:
        """The number of pseudo-observations (*batch,)."""
        return np.asarray(self.concentration.sum(axis=-1))

    @property
    def mean(self) -> Array:
        return np.asarray(self.concentration / self.strength[..., None])

    @property
    def mode(self) -> Array:
        """The probabilities of largest density (*batch, K); NaN if there is more than one mode.

        Categories with a concentration of 1 or less have probability 0 in the mode; below 1 the density is
        infinite there. If no concentration is above 1, and exactly one is 1, its category has probability 1.
        """
        if self.concentration.shape[-1] == 1:
            return np.ones_like(self.concentration)
        above = np.maximum(self.concentration - 1.0, 0.0)
        total = above.sum(axis=-1, keepdims=True)
        ones = np.where(self.concentration == 1, 1.0, 0.0)
        edge = np.where(ones.sum(axis=-1, keepdims=True) == 1, ones, np.nan)
        return np.where(total > 0, above / np.where(total > 0, total, 1.0), edge)

    @property
    def variance(self) -> Array:
        """The variance of each probability (*batch, K)."""
        strength = self.strength[..., None]
        return np.asarray(self.mean * (sum_of_others(self.concentration) / strength) / (strength + 1.0))

    def update(self, statistic: Tally, /) -> Self:
        counts, keys = self._match_terms(statistic)
        terms = statistic.terms if self.terms is None else self.terms
        return type(self)(self.concentration + counts, keys=keys, terms=terms)

    def _match_terms(self, statistic: Tally) -> tuple[Array, Keys | None]:
        """The counts of the prior's categories, and the labels after the update."""
        counts, k = _read_counts(statistic), self.concentration.shape[-1]
        if counts.shape[-1] != k:
            names = "" if statistic.terms is None else f", {statistic.terms!r}"
            raise ValueError(
                f"got a Tally of {counts.shape[-1]} terms{names}, expected {k}, one for each concentration: "
                "name them and add, as in Dirichlet.from_statistic(prior.as_statistic(categories) + tally)"
            )
        if self.terms is not None and statistic.terms is not None and self.terms != statistic.terms:
            raise ValueError(
                f"got a Tally of {statistic.terms!r} for a prior about {self.terms!r}, expected the same: "
                "add the statistics first, then update once"
            )
        return counts, combine_keys(self.keys, self.batch, statistic, statistic.weight.shape)

    def log_normalizer(self) -> Array:
        return log_dirichlet_normalizer(self.concentration)

    def _log_evidence(self, statistic: Tally) -> Array:
        return log_dirichlet_ratio(self.concentration, self._match_terms(statistic)[0])

    def log_density(self, parameters: ArrayLike) -> Array:
        """The log-density at probabilities (..., K)."""
        probabilities = check_vectors(parameters, self.concentration.shape[-1], "probabilities")
        return simplex.log_density(self.concentration, probabilities)

    def interval(self, coverage: float = 0.95) -> Interval:
        """The equal-tailed interval of each probability's marginal distribution (*batch, K)."""
        tail, other = tail_of(coverage), sum_of_others(self.concentration)
        if self.concentration.shape[-1] == 1:
            return np.ones_like(other), np.ones_like(other)
        return (
            np.asarray(special.betaincinv(self.concentration, other, tail)),
            np.asarray(special.betainccinv(self.concentration, other, tail)),
        )

    def predictive(self, trials: ArrayLike = 1) -> DirichletMultinomial:
        """The distribution of the counts of categories among the next `trials`."""
        return DirichletMultinomial(trials, self.concentration)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        return draw_probabilities(self.concentration, rng, size)

    def kl(self, other: Self) -> Array:
        return simplex.kl(self.concentration, other.concentration)


def _read_counts(statistic: Tally) -> Array:
    """The count of each category (*batch, K); raise if no data can have these counts."""
    refuse_unless_instance(statistic, Tally, "a Dirichlet")
    weight, total = statistic.weight, statistic.total
    refuse_negative_weight(statistic, weight)
    refuse_impossible(
        total.value < 0, total, weight.reindex(lambda words: words[..., None]), "none below zero"
    )
    pooled = total.sum(axis=-1)
    incomplete = (weight - pooled).value > _TOLERANCE * weight.value
    refuse_impossible(
        incomplete,
        pooled,
        weight,
        "totals that sum to the weight: a category is missing; use Tally.count or one-hot rows",
    )
    return total.value
