"""The protocols of all models: data → statistic → posterior.

A model has two methods. `observe` sums data to a statistic, and is the only code that reads data; it knows no
prior. `infer` turns a statistic into a posterior, and is the only code that knows a prior; it sees no data.
Statistics can be added, scaled and, where the arithmetic allows, subtracted. All models of this package are
instances of these protocols. A shard is a part of the data that is observed separately.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from itertools import count
from operator import add
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from tamis.arrays import Array

X_contra = TypeVar("X_contra", contravariant=True)  # data
X_co = TypeVar("X_co", covariant=True)
S = TypeVar("S", bound="Statistic")  # statistic
S_contra = TypeVar("S_contra", contravariant=True)
P = TypeVar("P")  # posterior


class Statistic(Protocol):
    """A sum over rows: a + (b + c) = (a + b) + c, a + b = b + a, a + 0 * b = a, (v * w) * a = v * (w * a).

    The last equation holds up to rounding, the others exactly for all statistics of `tamis.stats`.
    """

    def __add__(self, other: Self, /) -> Self: ...
    def __mul__(self, weight: float, /) -> Self: ...


class Reversible(Statistic, Protocol):
    """A statistic that can be subtracted: (a + b) - b = a."""

    def __sub__(self, other: Self, /) -> Self: ...


class Model(Protocol[X_contra, S, P]):
    """A pair of methods. For rows x followed by rows y, observe(x ++ y) = observe(x) + observe(y).

    This holds, up to rounding of products, if all three calls are given the same posterior, or all none.
    """

    def observe(self, data: X_contra, given: P | None = None, /) -> S: ...
    def infer(self, statistic: S, /) -> P: ...


class Iterative(Model[X_contra, S, P], Protocol):
    """A model whose `observe` needs a posterior, so that it is fitted in steps (`iterate`)."""

    def objective(self, statistic: S, /) -> float:
        """Return the value that the steps improve, at the posterior that `observe` was given."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Step(Generic[S, P]):
    """One step of an iteration."""

    number: int  # from 1
    statistic: S  # observed given the posterior before this step
    posterior: P  # inferred from that statistic
    objective: float  # of the posterior before this step


class Conjugate(Protocol[S_contra]):
    """A conjugate prior: update(a).update(b) = update(a + b)."""

    def update(self, statistic: S_contra, /) -> Self: ...

    def log_normalizer(self) -> Array:
        """Return log Z of the normalizing constant Z.

        The log-evidence of a statistic is the posterior's log Z minus the prior's.
        """
        ...


class Classifier(Protocol[X_contra]):
    """All predictions of a classifier are derived from one method."""

    def log_joint(self, x: X_contra, /) -> Array:
        """Return log p(x, class), (n, classes)."""
        ...


@runtime_checkable
class Shards(Protocol[X_co]):
    """Data in parts that an engine (`tamis.engines`) holds, in this process or on other machines.

    The functions below that take shards also take an iterable of parts.
    """

    def total(self, observe: Callable[[X_co], S], /) -> S:
        """Observe each shard once, where it is stored, and return the sum of the statistics."""
        ...


def total(statistics: Iterable[S]) -> S:
    """Add one or more statistics. A sum of none is refused, because the shape of its zero is unknown.

    >>> total([1, 2, 3])
    6
    """
    parts = iter(statistics)
    first = next(parts, None)
    if first is None:
        raise ValueError("got no statistics, expected at least one: was the data empty?")
    return reduce(add, parts, first)


def fit(model: Model[Any, S, P], shards: Iterable[Any] | Shards[Any]) -> P:
    """Observe every shard, add the statistics, and infer the posterior."""
    return model.infer(observe_shards(model, shards))


def iterate(
    model: Iterative[Any, S, P], shards: Iterable[Any] | Shards[Any], start: P
) -> Iterator[Step[S, P]]:
    """Repeat without end: observe every shard given the posterior, add, and infer the next posterior.

    EM, Newton's method, alternating least squares and Gibbs sampling are this loop with different models. The
    caller decides when to stop. Each step iterates over `shards` again, so it must not be an iterator.
    """
    posterior = start
    for number in count(1):
        statistic = observe_shards(model, shards, posterior)
        objective = model.objective(statistic)
        posterior = model.infer(statistic)
        yield Step(number, statistic, posterior, objective)


def observe_shards(model: Model[Any, S, P], shards: Iterable[Any] | Shards[Any], given: P | None = None) -> S:
    """Observe every shard, given a posterior or none, and add the statistics.

    If `shards` belongs to an engine, its `total` does this where the data is.
    """
    observe = partial(_observe, model, given)
    return shards.total(observe) if isinstance(shards, Shards) else total(map(observe, shards))


# A function of the module, not a lambda, so that engines can send it to other processes.
def _observe(model: Model[Any, S, P], given: P | None, data: Any) -> S:
    return model.observe(data, given)
