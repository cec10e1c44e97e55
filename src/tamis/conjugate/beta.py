"""Beta: prior of a probability; conjugate to the Bernoulli and to the geometric family."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tamis.arrays import Array, floats
from tamis.conjugate import simplex
from tamis.conjugate.beta_binomial import BetaBinomial
from tamis.conjugate.beta_geometric import BetaGeometric
from tamis.conjugate.distribution import broadcast_parameters, tail_of
from tamis.conjugate.prior import (
    Interval,
    Prior,
    combine_keys,
    read_single_term,
    refuse_impossible,
    refuse_other_keys,
    refuse_unless_named,
)
from tamis.families.family import Size, check_generator, check_positive, set_fields
from tamis.families.normalizers import log_dirichlet_ratio
from tamis.stats import Exact, Keys, Tally

Likelihood = Literal["bernoulli", "geometric"]


@dataclass(frozen=True, slots=True, eq=False)
class Beta(Prior):
    """Beta(a, b): as if a successes and b failures had been observed.

    For the geometric family, an observation is the number of failures before a success: as if `a` such
    numbers had been observed, whose sum is `b`.

    >>> coin = Beta(2, 2)
    >>> after = coin.update(Tally.observe([1, 1]))
    >>> (float(after.a), float(after.b)), round(float(after.mean), 4)
    ((4.0, 2.0), 0.6667)
    >>> swans = Beta(1, 1).update(Tally.observe([0, 0, 0]))  # three swans, none black; is the next one?
    >>> round(float(swans.predictive().density(1)), 3)
    0.2
    """

    a: Array  # batch
    b: Array  # batch
    likelihood: Likelihood
    keys: Keys | None  # labels of the slices of the first batch axis, from a statistic by label

    def __init__(
        self,
        a: ArrayLike,
        b: ArrayLike,
        likelihood: Likelihood = "bernoulli",
        *,
        keys: Keys | None = None,
    ) -> None:
        first, second = broadcast_parameters(
            a=check_positive(a, "pseudo-count a"), b=check_positive(b, "pseudo-count b")
        )
        refuse_unless_named(keys, first.shape[0] if first.ndim else None, "keys")
        if likelihood not in ("bernoulli", "geometric"):
            raise ValueError(f"got likelihood={likelihood!r}, expected 'bernoulli' or 'geometric'")
        set_fields(self, a=first, b=second, likelihood=likelihood, keys=keys)

    @classmethod
    def from_mean(cls, mean: ArrayLike, strength: ArrayLike, likelihood: Likelihood = "bernoulli") -> Self:
        """The prior with this mean, equivalent to `strength` = a + b trials.

        For the geometric family, too, a trial is a success or a failure, not a waiting time.

        >>> prior = Beta.from_mean(0.3, strength=10)
        >>> float(prior.a), float(prior.b)
        (3.0, 7.0)
        """
        value, count = floats(mean, "mean"), check_positive(strength, "strength")
        if not ((value > 0) & (value < 1)).all():
            raise ValueError(f"got a mean of {value.min()} to {value.max()}, expected between 0 and 1")
        value, count = broadcast_parameters(mean=value, strength=count)
        return cls(value * count, (1.0 - value) * count, likelihood)

    @classmethod
    def from_statistic(cls, statistic: Tally, likelihood: Likelihood = "bernoulli") -> Self:
        """The posterior of a prior of strength 0, after this statistic."""
        a, b = _read_outcomes(statistic, likelihood)
        return cls(a.value, b.value, likelihood, keys=statistic.keys)

    def as_statistic(self) -> Tally:
        """The pseudo-observations as a statistic, which can be added to an observed one.

        >>> prior, tosses = Beta(2, 2), Tally.observe([1, 1])
        >>> float(Beta.from_statistic(prior.as_statistic() + tosses).mean) == float(prior.update(tosses).mean)
        True
        """
        a, b = Exact.of(self.a), Exact.of(self.b)
        weight, total = (a + b, a) if self.likelihood == "bernoulli" else (a, b)
        return Tally(weight=weight, total=total.reindex(lambda words: words[..., None]), keys=self.keys)

    @classmethod
    def fit(cls, groups: Tally, likelihood: Likelihood = "bernoulli") -> Self:
        """Empirical Bayes: the prior under which the groups, all together, have the largest evidence.

        See `Prior.fit`. Where the evidence has no maximum, these limits hold: if all groups are single
        trials, the strength is 1; otherwise, if each group has only one kind of outcome, the strength is
        1e-6. An outcome that never occurs has a mean of 1e-9.
        """
        a, b = _read_outcomes(groups, likelihood)
        concentration = simplex.fit(np.stack([a.value, b.value], axis=-1))
        return cls(concentration[..., 0], concentration[..., 1], likelihood)

    @property
    def strength(self) -> Array:
        """The number of pseudo-observations, a + b: successes and failures."""
        return self.a + self.b

    @property
    def mean(self) -> Array:
        return np.asarray(self.a / self.strength)

    @property
    def mode(self) -> Array:
        """(a − 1) / (a + b − 2) if a and b exceed 1; otherwise 0 or 1, whichever has the larger density.

        NaN if both 0 and 1 are modes (a, b < 1) or the density is uniform (a = b = 1).
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            inner = (self.a - 1.0) / ((self.a - 1.0) + (self.b - 1.0))
        end = np.where(self.a > self.b, 1.0, 0.0)
        has_inner_mode = (self.a > 1) & (self.b > 1)
        has_one_end = (self.a > 1) | (self.b > 1) | ((self.a == 1) != (self.b == 1))
        return np.where(has_inner_mode, inner, np.where(has_one_end, end, np.nan))

    @property
    def variance(self) -> Array:
        return np.asarray(self.mean * (self.b / self.strength) / (self.strength + 1.0))

    def update(self, statistic: Tally, /) -> Self:
        successes, failures = _read_outcomes(statistic, self.likelihood)
        keys = combine_keys(self.keys, self.batch, statistic, statistic.weight.shape)
        a, b = self.a + successes.value, self.b + failures.value
        return type(self)(a, b, self.likelihood, keys=keys)

    def log_normalizer(self) -> Array:
        return np.asarray(special.betaln(self.a, self.b))

    def _log_evidence(self, statistic: Tally) -> Array:
        successes, failures = _read_outcomes(statistic, self.likelihood)
        refuse_other_keys(self.keys, self.batch, statistic, statistic.weight.shape)
        return log_dirichlet_ratio(self._pair, np.stack([successes.value, failures.value], axis=-1))

    def log_density(self, parameters: ArrayLike) -> Array:
        p = floats(parameters, "probability")
        return simplex.log_density(self._pair, np.stack([p, 1.0 - p], axis=-1))

    def interval(self, coverage: float = 0.95) -> Interval:
        tail = tail_of(coverage)
        return (
            np.asarray(special.betaincinv(self.a, self.b, tail)),
            np.asarray(special.betainccinv(self.a, self.b, tail)),
        )

    def predictive(self, trials: ArrayLike = 1) -> BetaBinomial | BetaGeometric:
        """Bernoulli: the distribution of successes in the next `trials`.

        Geometric: the distribution of failures before the next success.
        """
        if self.likelihood == "bernoulli":
            return BetaBinomial(trials, self.a, self.b)
        if np.any(np.asarray(trials) != 1):
            raise ValueError(
                f"got trials={trials!r} with likelihood='geometric', expected 1: only one waiting time is "
                "predicted"
            )
        return BetaGeometric(self.a, self.b)

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        return np.asarray(check_generator(rng).beta(self.a, self.b, size=self._shape(size)))

    def kl(self, other: Self) -> Array:
        return simplex.kl(self._pair, other._pair)

    @property
    def _pair(self) -> Array:
        return np.stack([self.a, self.b], axis=-1)


def _read_outcomes(statistic: Tally, likelihood: Likelihood) -> tuple[Exact, Exact]:
    """The numbers of successes and failures (*batch,); raise if no data can have them."""
    weight, total = read_single_term(statistic, "a Beta")
    refuse_impossible(total.value < 0, total, weight, "none below zero")
    if likelihood == "geometric":
        return weight, total
    failures = weight - total
    refuse_impossible(failures.value < 0, total, weight, "at most the weight: observe zeros and ones")
    return total, failures
