"""The base class of conjugate priors: distributions of parameters that a statistic updates.

A prior is equivalent to ν pseudo-observations whose T(x) have the mean χ. `update` adds an observed statistic
to them. A prior's file defines `update`, `log_normalizer` and the moments; this file derives the
log-evidence, a difference of two normalizers. Where that would lose digits (one toss of a coin after a
billion pseudo-observations), the prior's file overrides it; tests check that both agree.

An object may be a batch of priors: its parameters are arrays, and a statistic with the same batch axes, or
axes that broadcast with them, updates each. The quantity that has the prior, such as a probability, or a mean
with a variance, is one value: `mean`, `mode` and `sample` return it, and `log_density` takes it. A posterior
keeps the labels of its statistic as `keys`. A statistic with other labels, or one that no data can have,
raises an error. Only the normal priors accept a negative weight: their `update(-1.0 * statistic)` removes the
rows of the statistic.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats
from tamis.conjugate.distribution import Distribution, shape_of
from tamis.families.family import Batched, Size
from tamis.stats import Exact, Keys, Sums, Tally

Interval = tuple[Array, Array]  # lower and upper ends
Shape = tuple[int, ...]


class Prior(Batched, ABC):
    """A distribution of parameters, or a batch of distributions. A posterior is a Prior, too."""

    @property
    @abstractmethod
    def mean(self) -> Any:
        """The expected parameters, in the form in which `sample` returns a draw."""

    @property
    @abstractmethod
    def mode(self) -> Any:
        """The parameters of largest density; NaN where there is not exactly one mode."""

    @abstractmethod
    def update(self, statistic: Any, /) -> Self:
        """The posterior after the statistic was observed."""

    @abstractmethod
    def predictive(self) -> Distribution:
        """The distribution of a new observation, with the parameters integrated out."""

    @abstractmethod
    def log_normalizer(self) -> Array:
        """log ∫ exp(η·νχ − νA(η)) dη (*batch,). An `update` increases it by the log-evidence."""

    def log_evidence(self, statistic: Any, log_base: ArrayLike = 0.0) -> Array:
        """log p(data) with the parameters integrated out (*batch,).

        `log_base` is Σ log h(x) of the data, which depends on no parameter and is not in a statistic. It is 0
        for bits, categories, waiting times and real numbers (the constant of a Gaussian is included here).
        For Poisson counts it is −Σ log x!, which is `Poisson(1).log_base(x).sum()`; for counts x over
        exposures t it is Σ(x log t − log x!). It is the same for all priors, so that a comparison of priors
        can omit it.
        """
        return np.asarray(self._log_evidence(statistic) + floats(log_base, "log_base"))

    def _log_evidence(self, statistic: Any) -> Array:
        return np.asarray(self.update(statistic).log_normalizer() - self.log_normalizer())

    @classmethod
    @abstractmethod
    def fit(cls, groups: Any) -> Self:
        """Empirical Bayes: the prior under which the groups, all together, have the largest evidence.

        The groups are the slices of the first batch axis of the statistic, with labels or without. Each entry
        of further batch axes gets a prior of its own. Groups without weight are ignored. If the groups differ
        less than by chance, or if there is only one, the evidence increases with the strength without bound;
        then a warning is issued, and the strength is a million times the weight of the heaviest group.
        """

    @abstractmethod
    def interval(self, coverage: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends of the interval of each parameter that leaves equal tails on both sides.

        Each end has the form of `mean`, with variances in place of a covariance.
        """

    @abstractmethod
    def log_density(self, parameters: Any) -> Array:
        """The log-density at the parameters."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: Size = ()) -> Any:
        """Independent draws of the parameters (*size, *batch, …): an array, or a tuple of arrays."""

    @abstractmethod
    def kl(self, other: Self) -> Array:
        """KL(self ‖ other) in nats (*batch,)."""

    def _shape(self, size: Size) -> tuple[int, ...]:
        return shape_of(size, self.batch)


def refuse_unless_instance(statistic: object, kind: type[Sums], prior: str) -> None:
    """Raise unless the statistic is an instance of `kind`; `prior` names the prior in the message."""
    if not isinstance(statistic, kind):
        raise TypeError(
            f"got a {type(statistic).__name__}, expected a {kind.__name__} for {prior}: "
            "observe the data first"
        )


def combine_keys(keys: Keys | None, batch: Shape, statistic: Sums, observed: Shape) -> Keys | None:
    """The keys of a posterior: those of the prior, or of the statistic if the prior has none.

    `batch` and `observed` are the batch shapes of the prior and of the statistic. Keys that do not agree are
    refused: see `refuse_other_keys`.
    """
    refuse_other_keys(keys, batch, statistic, observed)
    return statistic.keys if keys is None else keys


def refuse_other_keys(keys: Keys | None, batch: Shape, statistic: Sums, observed: Shape) -> None:
    """Raise if a statistic has other keys than the prior, or a batch that does not broadcast with it.

    `batch` and `observed` are the batch shapes of the prior and of the statistic. The slice of a new key
    would start from the prior before the first update, which is not stored. Keys name the first axis also
    after the update, so broadcasting must not add an axis before it or lengthen it.
    """
    if keys is not None and statistic.keys is not None and keys != statistic.keys:
        raise ValueError(
            f"got a statistic by {statistic.keys!r} for a prior by {keys!r}, expected the same labels: "
            "add the statistics first, then update once"
        )
    try:
        combined = np.broadcast_shapes(batch, observed)
    except ValueError:
        raise ValueError(
            f"got a statistic of shape {observed} for a prior of shape {batch}, expected shapes that "
            "broadcast"
        ) from None
    for labels, shape in ((keys, batch), (statistic.keys, observed)):
        if labels is not None and (len(shape) < len(combined) or combined[0] != len(labels)):
            raise ValueError(
                f"got labels {labels!r} for the first axis of {shape}, expected labels for the first axis of "
                f"{combined}, the batch after the update: use labels on both sides, or equal batch axes"
            )


def refuse_unless_named(names: Keys | None, length: int | None, what: str) -> None:
    """Raise unless there is one name per slice of an axis; its length is None if there is no such axis."""
    if names is not None and len(names) != length:
        axis = "a prior without a batch axis" if length is None else f"an axis of length {length}"
        expected = "None" if length is None else "one for each of its slices"
        raise ValueError(f"got {len(names)} {what} for {axis}, expected {expected}")


def refuse_impossible(is_impossible: NDArray[np.bool_], total: Exact, weight: Exact, expected: str) -> None:
    """Raise if any total is impossible for its weight; the message names the first.

    `expected` says which totals are possible, such as "none below zero".
    """
    if is_impossible.any():
        first_total = total.value[is_impossible].flat[0]
        its_weight = np.broadcast_to(weight.value, is_impossible.shape)[is_impossible].flat[0]
        raise ValueError(f"got a total of {first_total} for a weight of {its_weight}, expected {expected}")


def refuse_negative_weight(statistic: Sums, weight: Exact) -> None:
    """Raise if a weight is negative."""
    if (weight.value < 0).any():
        raise ValueError(
            f"got a {type(statistic).__name__} of weight {weight.value.min()}, expected none below zero: "
            "forget by subtracting statistics, then update once"
        )


def read_single_term(statistic: Tally, prior: str) -> tuple[Exact, Exact]:
    """The weight and the total (*batch,) of a Tally whose T(x) is a single number; raise if it has more."""
    refuse_unless_instance(statistic, Tally, prior)
    terms = statistic.total.shape[-1]
    if terms != 1:
        raise ValueError(
            f"got a Tally of {terms} terms, expected one for {prior}: "
            "observe numbers, (n,) or (n, columns, 1), or use Dirichlet for categories"
        )
    refuse_negative_weight(statistic, statistic.weight)
    return statistic.weight, statistic.total.reindex(lambda words: words[..., 0])


def refuse_unless_grouped(weight: Array) -> None:
    """Raise if a statistic has no axis of groups, or a column has no weight in any of them."""
    if weight.ndim == 0:
        raise ValueError(
            "got a statistic without a batch axis, expected one group per row: observe with by=labels"
        )
    empty = ~(weight > 0).any(axis=0)
    if empty.any():
        where = "" if empty.ndim == 0 else f" in column {', '.join(map(str, np.argwhere(empty)[0]))}"
        raise ValueError(f"got {len(weight)} groups without weight{where}, expected data in at least one")
