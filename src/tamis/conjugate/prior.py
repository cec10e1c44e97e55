"""The base class of conjugate priors: distributions of parameters that a statistic updates.

A prior is equivalent to ν pseudo-observations of mean χ. `update` adds an observed statistic to them. A
prior's file defines `update`, `log_normalizer` and the moments; this file derives the log-evidence, a
difference of two normalizers. Where that would lose digits (one toss of a coin after a billion
pseudo-observations), the prior's own file computes it in another way; tests check that both agree.

An object may be a batch of priors: its parameters are arrays, and a statistic with the same batch axes, or
axes that broadcast with them, updates each. The parameters, a probability or a mean and a variance together,
are one value: `mean`, `mode` and `sample` return it, and `log_density` takes it. A posterior keeps the labels
of its statistic as `keys`; a statistic with other labels, or one that no data could have, raises an error.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats
from tamis.conjugate.distribution import Distribution, shape_of
from tamis.families.family import Size
from tamis.stats import Exact, Keys, Sums, Tally

Interval = tuple[Array, Array]
Shape = tuple[int, ...]


class Prior(ABC):
    """A distribution of parameters, or a batch of them. A posterior is one, too."""

    @property
    @abstractmethod
    def batch(self) -> tuple[int, ...]:
        """The shape of the batch."""

    @property
    @abstractmethod
    def mean(self) -> Any:
        """The expected parameters."""

    @property
    @abstractmethod
    def mode(self) -> Any:
        """The most probable parameters."""

    @abstractmethod
    def update(self, statistic: Any, /) -> Self:
        """The posterior after the statistic was observed."""

    @abstractmethod
    def predictive(self) -> Distribution:
        """The distribution of a new observation, with the parameters integrated out."""

    @abstractmethod
    def log_normalizer(self) -> Array:
        """log ∫ exp(η·νχ − νA(η)): the log-evidence of a statistic is the difference of two of these."""

    def log_evidence(self, statistic: Any, log_base: ArrayLike = 0.0) -> Array:
        """log p(data) with the parameters integrated out (*batch,).

        `log_base` is Σ log h(x) of the data, which depends on no parameter and is not in a statistic. It is
        0 for bits, categories, waiting times and real numbers (a Gaussian's constant is included here).
        For Poisson counts it is −Σ log x!, which is `Poisson(1).log_base(x).sum()`; for counts x
        over exposures t it is Σ(x log t − log x!). It is the same for every prior: to compare two, leave
        it out.
        """
        return np.asarray(self._log_evidence(statistic) + floats(log_base, "log_base"))

    def _log_evidence(self, statistic: Any) -> Array:
        return np.asarray(self.update(statistic).log_normalizer() - self.log_normalizer())

    @classmethod
    @abstractmethod
    def fit(cls, groups: Any) -> Self:
        """Empirical Bayes: the prior under which the groups, all together, have the largest evidence.

        The groups are the first batch axis of the statistic, grouped by label or not; further axes are fitted
        each by itself. Groups without weight are ignored. If the groups differ less than by chance, or if
        there is a single group, the evidence grows with the strength without end: the strength is then held
        at a million times the weight of the heaviest group, with a warning.
        """

    @abstractmethod
    def interval(self, coverage: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends of the credible interval that leaves equal tails on both sides."""

    @abstractmethod
    def log_density(self, parameters: Any) -> Array:
        """log of the density at the parameters."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: Size = ()) -> Any:
        """Independent draws of the parameters (*size, *batch, …)."""

    @abstractmethod
    def kl(self, other: Self) -> Array:
        """KL(self ‖ other) in nats (*batch,)."""

    def _shape(self, size: Size) -> tuple[int, ...]:
        return shape_of(size, self.batch)


def refuse_unless(statistic: object, kind: type[Sums], prior: str) -> None:
    """Raise if a prior is given something else than the statistic it is conjugate to."""
    if not isinstance(statistic, kind):
        raise TypeError(
            f"got a {type(statistic).__name__}, expected a {kind.__name__} for {prior}: "
            "observe the data first"
        )


def combine_keys(keys: Keys | None, batch: Shape, statistic: Sums, seen: Shape) -> Keys | None:
    """The keys of a posterior: those of the prior, or of the statistic if the prior has none.

    `batch` and `seen` are the batch shapes of the prior and of the statistic; see `refuse_other_keys`.
    """
    refuse_other_keys(keys, batch, statistic, seen)
    return statistic.keys if keys is None else keys


def refuse_other_keys(keys: Keys | None, batch: Shape, statistic: Sums, seen: Shape) -> None:
    """Raise if a statistic has other keys than the prior, or a batch that does not broadcast with it.

    A new key would need the prior from before the first update, which is not kept. Keys name the first axis,
    and must after the update: no axis may come before it, and it may not grow.
    """
    if keys is not None and statistic.keys is not None and keys != statistic.keys:
        raise ValueError(
            f"got a statistic by {statistic.keys!r} for a prior by {keys!r}, expected the same labels: "
            "add the statistics first, then update once"
        )
    try:
        whole = np.broadcast_shapes(batch, seen)
    except ValueError:
        raise ValueError(
            f"got a statistic of batch {seen} for a prior of batch {batch}, expected shapes that broadcast"
        ) from None
    for named, shape in ((keys, batch), (statistic.keys, seen)):
        if named is not None and (len(shape) < len(whole) or whole[0] != len(named)):
            raise ValueError(
                f"got labels {named!r} for the first axis of {shape}, expected it to be that of {whole}, "
                "the batch after the update: name it, or give the other side as many axes"
            )


def refuse_unless_named(names: Keys | None, length: int | None, what: str) -> None:
    """Raise if an axis of this length (None: there is no such axis) has another number of names."""
    if names is not None and len(names) != length:
        axis = "no such axis" if length is None else f"an axis of {length}"
        raise ValueError(f"got {len(names)} {what} for {axis}, expected one each")


def refuse_where(bad: NDArray[np.bool_], total: Exact, weight: Exact, expected: str) -> None:
    """Raise if any total is `bad`, which means impossible for its weight; the message names the first.

    `expected` says which totals are possible, such as "none below zero". The sums are exact, so that rounding
    does not make a total bad.
    """
    if bad.any():
        wide = np.broadcast_to(weight.value, bad.shape)[bad].flat[0]
        raise ValueError(
            f"got a total of {total.value[bad].flat[0]} for a weight of {wide}, expected {expected}"
        )


def refuse_negative(statistic: Sums, weight: Exact) -> None:
    """Raise if a weight is negative."""
    if (weight.value < 0).any():
        raise ValueError(
            f"got a {type(statistic).__name__} of weight {weight.value.min()}, expected none below zero: "
            "forget by subtracting statistics, then update once"
        )


def read_single_term(statistic: Tally, prior: str) -> tuple[Exact, Exact]:
    """The weight and the total (*batch,) of a Tally whose T(x) is a single number; raise if it has more."""
    refuse_unless(statistic, Tally, prior)
    terms = statistic.total.shape[-1]
    if terms != 1:
        raise ValueError(
            f"got a Tally of {terms} terms, expected one for {prior}: "
            "observe numbers, (n,) or (n, columns, 1), or use Dirichlet for categories"
        )
    refuse_negative(statistic, statistic.weight)
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
