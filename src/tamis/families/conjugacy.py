"""The conjugate prior of a family: as if ν pseudo-observations had been observed whose T(x) sum to τ.

p(η) ∝ exp(η·τ − νA(η)), so that observing adds the weight to ν and ΣT(x) to τ. A family defines the
normalizer, the mode and draws of this distribution in its usual parameters. Under it the expected mean
parameters are τ / ν (P. Diaconis and D. Ylvisaker, Conjugate priors for exponential families, 1979). (The
prior of `Gaussian`, a density of other parameters, expects the mean and variance of the pseudo-observations.)
Any such family of one column can be a column of naive Bayes or of a mixture: see
`tamis.models.generative.family_columns`.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tamis.arrays import Array, floats
from tamis.families.family import Family, TallyFamily
from tamis.families.normalizers import log_dirichlet_ratio, log_gamma_normalizer, log_gamma_ratio


class ConjugateFamily(Family):
    """A family of one column, and its conjugate prior.

    A prior is a weight ν (*batch,) and a total τ (*batch, k). The posterior is the prior's weight and total
    plus those of a statistic.

    >>> from tamis.families import Poisson
    >>> calls, weight, total = Poisson(1.0), np.array(2.0), np.array([6.0])  # 6 calls in 2 hours: Gamma(6, 2)
    >>> float(calls.prior_mean(weight, total).rate), float(calls.prior_mode(weight, total).rate)
    (3.0, 2.5)
    >>> calls.log_predictive(weight, total, np.array([0.0, 3.0])).round(3).tolist()
    [-2.433, -1.703]
    """

    fixed: ClassVar[tuple[str, ...]] = ()  # names of the parameters that are given and never inferred

    @abstractmethod
    def log_prior_normalizer(self, weight: Array, total: Array) -> Array:
        """log of the integral of exp(η·total − weight · A(η)) over all natural parameters η (*batch,).

        `Gaussian` integrates over its μ and σ² instead.
        """

    @abstractmethod
    def log_evidence(self, prior_weight: Array, prior_total: Array, weight: Array, total: Array) -> Array:
        """log p(data) with the parameters integrated out, without Σ log h(x) (*batch,).

        `weight` and `total` are the number of observations (*batch,) and ΣT(x) (*batch, k). On paper this is
        log_prior_normalizer(sums of both) − log_prior_normalizer(prior). That would be a small difference of
        large numbers, so subclasses call the functions `log_…_ratio`, which compute it without cancellation.
        """

    @abstractmethod
    def prior_mode(self, weight: Array, total: Array) -> Self:
        """The member whose usual parameters have the largest density under the prior."""

    @abstractmethod
    def sample_prior(self, rng: np.random.Generator, weight: Array, total: Array) -> Self:
        """Draw a member from the prior, for each entry of the batch."""

    def prior_mean(self, weight: Array, total: Array) -> Self:
        """The member that has the mean parameters expected under the prior: total / weight."""
        return self.with_mean(total / weight[..., None])

    def log_predictive(self, weight: Array, total: Array, x: Array) -> Array:
        """log p(x) with the parameters integrated out; −∞ outside the support."""
        inside = self.supports(x)
        value = np.where(inside, x, 1.0)  # where the result is −∞, any number serves
        evidence = self.log_evidence(weight, total, np.ones(value.shape), self.sufficient(value))
        return np.where(inside, self.log_base(value) + evidence, -np.inf)

    def default_prior(self, strength: float, weight: Array, total: Array) -> tuple[Array, Array]:
        """A prior's weight and total: `strength` pseudo-observations with the mean of all observations.

        `weight` and `total` are the sums over all classes. Half an event is added to the total of counts,
        so that a count above 0 is possible even if all were 0. Where the mean is not above 0, that of this
        member is used.
        """
        events = total + (0.5 if self.discrete else 0.0)
        mean = events / np.where(weight > 0, weight, 1.0)[..., None]
        mean = np.where(mean > 0, mean, self.mean_parameters)
        return np.full(weight.shape, float(strength)), strength * mean

    def is_possible(self, weight: Array, total: Array) -> NDArray[np.bool_]:
        """Whether observations can have this weight and total (*batch,); here T(x) ≥ 0 is assumed."""
        return np.asarray((weight >= 0) & (total >= 0).all(axis=-1))


class ScalarFamily(TallyFamily, ConjugateFamily):
    """A family with T(x) = x and one parameter to infer; other parameters may be fixed.

    `TallyFamily` sums T(x), and fits a member to the sums.
    """

    def sufficient(self, x: ArrayLike) -> Array:
        return floats(x, "x")[..., None]


class RateFamily(ScalarFamily):
    """A family whose parameter is its `rate`: the conjugate prior is a gamma."""

    rate: Array  # batch

    # The shape of the gamma minus the prior's number of events: 1 where η = −rate, because the prior is a
    # density of η, and 0 where η = log rate (`Poisson`).
    extra_events: ClassVar[float] = 1.0

    @property
    def batch(self) -> tuple[int, ...]:
        return self.rate.shape

    @abstractmethod
    def count_events(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """The events and the time (*batch,) that observations add to the prior's shape and rate."""

    def _gamma_pair(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """Shape and rate of the gamma prior with this weight and total."""
        events, time = self.count_events(weight, total)
        return events + self.extra_events, time

    def log_prior_normalizer(self, weight: Array, total: Array) -> Array:
        return log_gamma_normalizer(*self._gamma_pair(weight, total))

    def log_evidence(self, prior_weight: Array, prior_total: Array, weight: Array, total: Array) -> Array:
        return log_gamma_ratio(
            *self._gamma_pair(prior_weight, prior_total), *self.count_events(weight, total)
        )

    def prior_mode(self, weight: Array, total: Array) -> Self:
        """The mode of the prior: 0 where the shape is at most 1 (below 1, the density at 0 is infinite)."""
        shape, rate = self._gamma_pair(weight, total)
        return self._with_rate(np.maximum(shape - 1.0, 0.0) / rate)

    def sample_prior(self, rng: np.random.Generator, weight: Array, total: Array) -> Self:
        shape, rate = self._gamma_pair(weight, total)
        return self._with_rate(rng.standard_gamma(shape) / rate)

    def _with_rate(self, rate: Array) -> Self:
        member: Any = self  # a dataclass, as each subclass is
        return replace(member, rate=rate)  # type: ignore[no-any-return]


class ProbabilityFamily(ScalarFamily):
    """A family whose parameter is its `probability`: the conjugate prior is a beta."""

    probability: Array  # batch

    # The first parameter of the beta minus the prior's successes: 1 where η = log(1 − probability), because
    # the prior is a density of η, and 0 where η is the logit (`Bernoulli`).
    extra_successes: ClassVar[float] = 1.0

    @property
    def batch(self) -> tuple[int, ...]:
        return self.probability.shape

    @abstractmethod
    def count_outcomes(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """The successes and failures (*batch,) that observations add to the prior's two parameters."""

    def _beta_pair(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """The two parameters of the beta prior with this weight and total."""
        successes, failures = self.count_outcomes(weight, total)
        return successes + self.extra_successes, failures

    def log_prior_normalizer(self, weight: Array, total: Array) -> Array:
        return np.asarray(special.betaln(*self._beta_pair(weight, total)))

    def log_evidence(self, prior_weight: Array, prior_total: Array, weight: Array, total: Array) -> Array:
        outcomes = self.count_outcomes(weight, total)
        a, b, successes, failures = np.broadcast_arrays(
            *self._beta_pair(prior_weight, prior_total), *outcomes
        )
        return log_dirichlet_ratio(np.stack([a, b], axis=-1), np.stack([successes, failures], axis=-1))

    def prior_mode(self, weight: Array, total: Array) -> Self:
        """The mode of the prior: 0 or 1 if the density is largest there; ½ if it is uniform.

        Raise ValueError if it is infinite at both; `alpha` and `estimate` are parameters of `NaiveBayes`.
        """
        a, b = self._beta_pair(weight, total)
        if ((a < 1) & (b < 1)).any():
            raise ValueError(
                "got a prior of less than one pseudo-observation of each outcome, which has two modes, "
                "expected one: raise alpha, or use estimate='mean'"
            )
        successes, failures = np.maximum(a - 1.0, 0.0), np.maximum(b - 1.0, 0.0)
        trials = successes + failures
        mode_at_end = np.where(a == b, 0.5, np.where(a > b, 1.0, 0.0))  # if neither a nor b is above 1
        return self._with_probability(
            np.where(trials > 0, successes / np.where(trials > 0, trials, 1.0), mode_at_end)
        )

    def sample_prior(self, rng: np.random.Generator, weight: Array, total: Array) -> Self:
        return self._with_probability(rng.beta(*self._beta_pair(weight, total)))

    def _with_probability(self, probability: Array) -> Self:
        member: Any = self  # a dataclass, as each subclass is
        return replace(member, probability=probability)  # type: ignore[no-any-return]
