"""Dirichlet: belief about probabilities of categories; conjugate to the categorical and the multinomial."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array, floats
from tamis.conjugate import simplex
from tamis.conjugate.dirichlet_multinomial import DirichletMultinomial, draw_shares
from tamis.conjugate.distribution import positive, tail_of
from tamis.conjugate.prior import Interval, Prior
from tamis.families.family import Size
from tamis.stats import Exact, Keys, Tally


@dataclass(frozen=True, slots=True, eq=False)
class Dirichlet(Prior):
    """Dirichlet(α): as if α_k observations of each category k had been seen.

    >>> weather = Dirichlet([1, 1]).update(Tally.count(["sun", "rain", "sun"]))  # rain, sun: in natural order
    >>> weather.mean.tolist(), round(float(weather.predictive().density([0, 1])), 9)
    ([0.4, 0.6], 0.6)
    """

    concentration: Array  # batch + (K,)

    def __init__(self, concentration: ArrayLike) -> None:
        alpha = positive(concentration, "concentration")
        if alpha.ndim == 0 or alpha.shape[-1] < 1:
            raise ValueError(f"got a concentration of shape {alpha.shape}, expected one number a category")
        object.__setattr__(self, "concentration", alpha)

    @classmethod
    def from_mean(cls, mean: ArrayLike, strength: ArrayLike) -> Self:
        """From a belief: these mean probabilities (..., K), worth `strength` observations.

        >>> Dirichlet.from_mean([0.5, 0.25, 0.25], strength=8).concentration.tolist()
        [4.0, 2.0, 2.0]
        """
        share, worth = positive(mean, "mean"), positive(strength, "strength")
        if not np.allclose(share.sum(axis=-1), 1.0, rtol=0.0, atol=1e-6):
            raise ValueError(f"got mean probabilities that sum to {share.sum(axis=-1)}, expected 1")
        return cls(share * worth[..., None])

    @classmethod
    def from_statistic(cls, statistic: Tally) -> Self:
        """The belief of one who saw this and believed nothing before."""
        return cls(statistic.total.value)

    def as_statistic(self, terms: Sequence[Hashable] | None = None) -> Tally:
        """The pseudo-observations: a prior is a statistic that nobody observed.

        With `terms`, the categories are known by name, and counts of some of them can be added.

        >>> prior = Dirichlet([1, 1, 1]).as_statistic(["sun", "rain", "snow"])
        >>> Dirichlet.from_statistic(prior + Tally.count(["sun", "rain"])).concentration.tolist()
        [2.0, 1.0, 2.0]
        """
        total = Exact.of(self.concentration)
        if terms is None:
            return Tally(weight=total.sum(axis=-1), total=total)
        keys, index = Keys.of(list(terms))
        if len(keys) != self.concentration.shape[-1] or len(terms) != len(keys):
            raise ValueError(
                f"got {len(terms)} terms, {len(keys)} of them distinct, "
                f"expected one for each of {self.concentration.shape[-1]} categories"
            )
        return Tally(weight=total.sum(axis=-1), total=total.spread(index, len(keys), axis=-1), terms=keys)

    @classmethod
    def fit(cls, groups: Tally) -> Self:
        """Empirical Bayes: the prior under which the groups, all together, have the largest evidence.

        See `Prior.fit`. Groups of which each has one category only hold the strength at a millionth; groups
        of one observation say nothing of it, and 1 is taken; a category in no group gets a
        billionth of the mean.
        """
        return cls(simplex.fit(groups.total.value))

    @property
    def batch(self) -> tuple[int, ...]:
        return self.concentration.shape[:-1]

    @property
    def strength(self) -> Array:
        """How many observations the belief is worth (*batch,)."""
        return np.asarray(self.concentration.sum(axis=-1))

    @property
    def mean(self) -> Array:
        return np.asarray(self.concentration / self.strength[..., None])

    @property
    def mode(self) -> Array:
        """The most probable probabilities (*batch, K); NaN where no concentration is above 1.

        Categories with a concentration of 1 or less have 0 in it: below 1 the density is infinite there, and
        this is where its peak goes as the edge is approached.
        """
        above = np.maximum(self.concentration - 1.0, 0.0)
        total = above.sum(axis=-1, keepdims=True)
        return np.where(total > 0, above / np.where(total > 0, total, 1.0), np.nan)

    @property
    def variance(self) -> Array:
        """Of each probability (*batch, K)."""
        strength = self.strength[..., None]
        return np.asarray(self.mean * (simplex.rest(self.concentration) / strength) / (strength + 1.0))

    def update(self, statistic: Tally, /) -> Self:
        return type(self)(self.concentration + self._counts(statistic))

    def _counts(self, statistic: Tally) -> Array:
        k, terms = self.concentration.shape[-1], statistic.total.shape[-1]
        if terms != k:
            names = "" if statistic.terms is None else f", {statistic.terms!r}"
            raise ValueError(
                f"got a Tally of {terms} terms{names}, expected {k}, one for each concentration: name them "
                "and add, as in Dirichlet.from_statistic(prior.as_statistic(categories) + tally)"
            )
        return statistic.total.value

    def log_normalizer(self) -> Array:
        return simplex.log_normalizer(self.concentration)

    def _log_evidence(self, statistic: Tally) -> Array:
        return simplex.log_ratio(self.concentration, self._counts(statistic))

    def log_density(self, parameters: ArrayLike) -> Array:
        """log of the belief's density at probabilities (..., K)."""
        return simplex.log_density(self.concentration, floats(parameters, "probabilities"))

    def interval(self, coverage: float = 0.95) -> Interval:
        """For each probability by itself (*batch, K), the interval that leaves equal tails on both sides."""
        tail, other = tail_of(coverage), simplex.rest(self.concentration)
        if self.concentration.shape[-1] == 1:
            return np.ones_like(other), np.ones_like(other)
        return (
            np.asarray(special.betaincinv(self.concentration, other, tail)),
            np.asarray(special.betainccinv(self.concentration, other, tail)),
        )

    def predictive(self, trials: ArrayLike = 1) -> DirichletMultinomial:
        """Counts of the categories among the next `trials`."""
        return DirichletMultinomial(trials, self.concentration)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        return draw_shares(self.concentration, rng, size)

    def kl(self, other: Self) -> Array:
        return simplex.kl(self.concentration, other.concentration)
