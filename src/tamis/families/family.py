"""The base class of exponential families: p(x | η) = h(x) exp(η·T(x) − A(η)).

A family's file defines h, T, A, ∇A and its inverse, and how to draw a sample; this file derives the rest.
An object is one member of the family, or a batch of them: its parameters may be arrays, and x is broadcast
against them. Where the derived formula would lose digits by cancellation (a Gaussian with a large mean) or
yield 0 · ∞ (a probability of 0), the family's file overrides it; tests check that both agree.

In `np.where(inside, x, 1.0)`, the number replaces an x outside the support only to avoid NumPy's warnings:
the result there is replaced, too.
"""

import operator
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array, floats
from tamis.stats import Sums, Tally

Size = int | tuple[int, ...]  # the number of draws, or the shape of an array of draws


class Batched:
    """A dataclass whose fields are the parameters of one distribution, or arrays for a batch of them."""

    @property
    def batch(self) -> tuple[int, ...]:
        """The shape of the batch: the shape of the first parameter, unless a subclass overrides this."""
        first_field, *_ = fields(self)  # type: ignore[arg-type]  # each subclass is a dataclass
        parameter: Array = getattr(self, first_field.name)
        return parameter.shape


class Family(Batched, ABC):
    """One member of an exponential family, or a batch."""

    event_axes: ClassVar[int] = 0  # axes of one observation: 0 for a number, 1 for a vector
    discrete: ClassVar[bool] = True  # whether p(x) is a probability; otherwise it is a density
    log_base_constant: ClassVar[float] = 0.0  # log h(x) of a family whose h does not depend on x

    @property
    @abstractmethod
    def support(self) -> str:
        """A description of the values that x may have, for error messages."""

    @abstractmethod
    def supports(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Whether the family can produce x (..., *event), a mask (...); False for NaN and infinity."""

    @abstractmethod
    def sufficient(self, x: ArrayLike) -> Array:
        """T(x) of observations (..., *event): (..., k)."""

    def log_base(self, x: ArrayLike) -> Array:
        """log h(x), the term that does not depend on the parameters; −∞ outside the support."""
        return np.where(self.supports(x), self.log_base_constant, -np.inf)

    @abstractmethod
    def log_partition(self, natural: ArrayLike) -> Array:
        """A(η) for η (..., k); ∞ where the density would have no finite integral."""

    def mean_of(self, natural: ArrayLike) -> Array:
        """∇A(η) = E[T]: natural → mean parameters, (..., k) → (..., k)."""
        return self.with_natural(natural).mean_parameters

    def natural_of(self, mean: ArrayLike) -> Array:
        """The inverse of `mean_of`."""
        return self.with_mean(mean).natural

    @property
    @abstractmethod
    def natural(self) -> Array:
        """η of this member (*batch, k)."""

    @property
    @abstractmethod
    def mean_parameters(self) -> Array:
        """E[T] of this member (*batch, k)."""

    @abstractmethod
    def with_natural(self, natural: ArrayLike) -> Self:
        """The member of the same family that has these natural parameters."""

    @abstractmethod
    def with_mean(self, mean: ArrayLike) -> Self:
        """The member of the same family that has these mean parameters."""

    def sample(self, rng: np.random.Generator, size: Size = ()) -> Array:
        """Independent draws: (*size, *batch, *event)."""
        return self._draw(check_generator(rng), (*to_shape(size), *self.batch))

    @abstractmethod
    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draw an array (*shape, *event); the shape ends with the batch's shape."""

    def mean_log_base(self) -> Array:
        """E[log h(x)] (*batch,), here of a family whose h does not depend on x."""
        return np.full(self.batch, self.log_base_constant)

    def log_density(self, x: ArrayLike) -> Array:
        """log p(x), of a mass or a density, broadcast over the batch; −∞ outside the support."""
        natural = self.natural
        return np.asarray(
            self.log_base(x) + (natural * self.sufficient(x)).sum(axis=-1) - self.log_partition(natural)
        )

    def density(self, x: ArrayLike) -> Array:
        """p(x)."""
        return np.asarray(np.exp(self.log_density(x)))

    def entropy(self) -> Array:
        """−E[log p(x)] in nats (*batch,)."""
        inner = (self.natural * self.mean_parameters).sum(axis=-1)
        return np.asarray(self.log_partition(self.natural) - inner - self.mean_log_base())

    def kl(self, other: Self) -> Array:
        """KL(self ‖ other) in nats, for another member of the same family with the same support."""
        name, other_name = type(self).__name__, type(other).__name__
        if type(other) is not type(self):
            raise TypeError(
                f"got the divergence of {name} from {other_name}, expected two members of one family"
            )
        if other.support != self.support:
            raise ValueError(f"got another {name} of {other.support}, expected {self.support}")
        return self._kl(other)

    def _kl(self, other: Self) -> Array:
        return bregman_divergence(self, other)

    @abstractmethod
    def observe(self, x: object, weights: object = None, by: object = None) -> Sums:
        """Sum over the first axis of x (n, *batch, *event), by label if labels are given."""

    @abstractmethod
    def fit(self, statistic: Any) -> Self:
        """The maximum-likelihood member: the one whose E[T] is the observed mean of T.

        It can be called on any member, as in `Gaussian(0, 1).fit(statistic)`: the result has the form of
        this member (categories, trials, and whether T(x) leaves out the last category, `minimal`), whose
        other parameters are ignored.
        """


def bregman_divergence(member: Family, other: Family) -> Array:
    """KL(member ‖ other) of two members of one family: the Bregman divergence of A."""
    step = other.natural - member.natural
    return np.asarray(
        other.log_partition(other.natural)
        - member.log_partition(member.natural)
        - (step * member.mean_parameters).sum(axis=-1)
    )


class TallyFamily(Family):
    """A family whose statistic is a `Tally`: the weight, and ΣT(x), which `sufficient` defines."""

    def observe(self, x: object, weights: object = None, by: object = None) -> Tally:
        values = floats(np.asarray(x), "x")
        if values.ndim <= self.event_axes:
            raise ValueError(
                f"got x of shape {values.shape}, expected a row for each observation of {self.support}"
            )
        inside = self.supports(values)
        if not inside.all():
            index = tuple(np.argwhere(~inside)[0].tolist())
            name = f"x[{', '.join(map(str, index))}]"
            raise ValueError(f"{name} is {values[index]}, expected {self.support}: drop or correct that row")
        return Tally.observe(self.sufficient(values), weights, by)

    def fit(self, statistic: Tally) -> Self:
        mean = check_statistic(statistic, Tally).mean
        if mean.shape[-1] != self.natural.shape[-1]:
            raise ValueError(
                f"got a Tally of {mean.shape[-1]} terms, expected {self.natural.shape[-1]} for a "
                f"{type(self).__name__}: use its observe"
            )
        return self.with_mean(mean)


def set_fields(instance: object, **fields: object) -> None:
    """Set fields of a frozen dataclass, in its `__init__`."""
    for name, value in fields.items():
        object.__setattr__(instance, name, value)


def freeze_parameter(data: ArrayLike, what: str) -> Array:
    """Copy a parameter to a read-only array of float64; `what` names it in messages."""
    value = np.array(floats(np.asarray(data), what))
    value.setflags(write=False)
    return value


def check_positive(value: ArrayLike, what: str) -> Array:
    """Return the numbers as an array; raise unless they are finite and above zero."""
    array = floats(value, what)
    if not ((array > 0) & np.isfinite(array)).all():
        refused = array[~((array > 0) & np.isfinite(array))].flat[0]
        raise ValueError(f"got a {what} of {refused}, expected a finite number above zero")
    return array


def check_positive_number(value: object, what: str) -> float:
    """Return one number as a float; raise unless it is finite and above zero."""
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "iuf":
        raise TypeError(f"got {what}={value!r}, expected one number above zero")
    return float(check_positive(array, what))


def log_or_minus_infinity(x: Array) -> Array:
    """log x; −∞ at 0, without NumPy's warning."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(x))


def check_vectors(x: ArrayLike, d: int, what: str) -> Array:
    """Return vectors (..., d); raise for another shape, which NumPy might broadcast silently."""
    values = floats(x, what)
    if values.ndim == 0 or values.shape[-1] != d:
        raise ValueError(f"got {what} of shape {values.shape}, expected {d} numbers: (..., {d})")
    return values


def check_statistic(statistic: Any, kind: type[Sums]) -> Any:
    """Return the statistic; raise unless it is of the type `kind` and all its weights are above zero."""
    if not isinstance(statistic, kind):
        raise TypeError(
            f"got a {type(statistic).__name__}, expected a {kind.__name__}: use the family's observe first"
        )
    weight = statistic.parts()["weight"].value
    if not (weight > 0).all():
        raise ValueError(
            f"got a statistic of weight {weight.min()}, expected above zero: observe rows, or use a prior"
        )
    return statistic


def to_shape(size: Size) -> tuple[int, ...]:
    """Convert the number of draws, or the shape of an array of draws, to a shape."""
    lengths: Any = size if isinstance(size, tuple | list) else (size,)
    try:
        shape = tuple(map(operator.index, lengths))
    except TypeError:
        raise TypeError(f"got size={size!r}, expected a whole number or a tuple of them") from None
    if any(length < 0 for length in shape):
        raise ValueError(f"got size={size!r}, expected no number below zero")
    return shape


def check_generator(rng: object) -> np.random.Generator:
    """Return the generator; for anything else raise an error that says how to make one."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"got rng={rng!r}, expected a generator first, then the size: sample(np.random.default_rng(), 5)"
        )
    return rng
