"""The base class of statistics: named exact sums, optionally by label, with `+`, `-` and `*` by a number.

A statistic is a frozen dataclass whose fields of type `Exact` are its sums; their first axes are the batch
axes. If it has `keys`, they name the first batch axis, and `+` and `-` take the union of both operands' keys.
A label whose sums are all zero is dropped, so a statistic does not show which labels it had before their rows
were subtracted.
"""

import importlib
from dataclasses import dataclass, field, fields
from functools import cache
from math import isfinite
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import Floats
from tamis.stats.exact import Exact
from tamis.stats.keys import Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Exact sums that add, subtract and scale together."""

    __array_ufunc__: ClassVar[None] = None  # so that a NumPy number times a statistic calls __rmul__

    keys: Keys | None = None  # names of the first batch axis
    # batch + (d,): Σ w (x − c)² of all rows whose products were ever rounded, to which the rounding errors
    # are proportional; None if there were no such rows. Both `+` and `-` add it, because subtracting rows
    # does not subtract their rounding errors. Comparisons ignore it. Saved files contain it under this name.
    rounded: Floats | None = field(default=None, compare=False, repr=False)

    def __add__(self, other: Self) -> Self:
        return self._combine(other, 1) if type(other) is type(self) else NotImplemented

    def __radd__(self, other: object) -> Self:
        if isinstance(other, int) and other == 0:  # so that sum(parts) works
            return self
        return NotImplemented

    def __sub__(self, other: Self) -> Self:
        return self._combine(other, -1) if type(other) is type(self) else NotImplemented

    def __mul__(self, weight: float) -> Self:
        argument: object = weight  # a caller without type checks may pass anything
        if not isinstance(argument, Real):
            return NotImplemented
        factor = float(argument)
        if not isfinite(factor):
            raise ValueError(f"got {factor} as a weight, expected a finite number")
        if factor == 1.0:
            return self
        rounded = None if self.rounded is None else abs(factor) * self.rounded
        parts = {name: part.times(factor) for name, part in self.parts().items()}
        return self.with_fields(rounded=rounded).with_sums(parts)

    def __rmul__(self, weight: float) -> Self:
        return self * weight

    def parts(self) -> dict[str, Exact]:
        """Return the sums by name, without those that are None."""
        return {name: part for name in self.field_names.sums if (part := getattr(self, name)) is not None}

    def at(self, key: object) -> Self:
        """Return the statistic of one label, no longer grouped."""
        if self.keys is None:
            raise ValueError(f"this {type(self).__name__} is not grouped by label: observe with by=labels")
        if key not in self.keys:
            raise KeyError(f"{key!r} was never observed; the labels are {self.keys!r}")
        row = self.keys.values.index(key)
        rows = {name: part.reindex(lambda words: words[:, row]) for name, part in self.parts().items()}
        rounded = None if self.rounded is None else self.rounded[row]
        return self.with_fields(keys=None, rounded=rounded, **rows).drop_zeros()

    def over(self, keys: Keys) -> Self:
        """Extend the statistic to these keys, which must include its own; the sums of new keys are zero."""
        if self.keys is None:
            raise ValueError(f"this {type(self).__name__} is not grouped by label: observe with by=labels")
        if self.keys == keys:
            return self
        index = keys.find(self.keys)
        if (index < 0).any():
            missing = self.keys[int(np.argmin(index))]
            raise KeyError(f"{missing!r} is a label of this {type(self).__name__}, but not among {keys!r}")
        return self._extend(keys, index)

    def drop_keys(self) -> Self:
        """Return the same sums without the names of their first axis."""
        return self.with_fields(keys=None)

    def pooled(self) -> Self:
        """Return the sum over all labels."""
        if self.keys is None:
            raise ValueError(f"this {type(self).__name__} is not grouped by label: it is pooled already")
        sums = {name: part.sum(axis=0) for name, part in self.parts().items()}
        rounded = None if self.rounded is None else self.rounded.sum(axis=0)
        return self.with_fields(keys=None, rounded=rounded, **sums).drop_zeros()

    def to_arrow(self) -> Any:
        """Convert to an Arrow table of digits: see `tamis.stats.arrow`. Concatenating tables adds them."""
        return _import_arrow().to_arrow(self)

    @classmethod
    def from_arrow(cls, table: Any) -> Self:
        """Read a statistic from a table that `to_arrow` made, or the sum from several, concatenated."""
        statistic: Self = _import_arrow().from_arrow(cls, table)
        return statistic

    def _combine(self, other: Self, sign: int) -> Self:
        """Return self + sign * other over the union of both keys; raise if their shapes or traits differ."""
        left, places = self._align(other)
        is_alike = True
        combined = {}
        for name in self.field_names.traits:
            is_alike &= getattr(left, name) == getattr(other, name)
        for name in self.field_names.sums:
            ours, theirs = getattr(left, name), getattr(other, name)
            if ours is None or theirs is None:
                is_alike &= ours is theirs
            elif name not in places and ours.shape == theirs.shape:
                combined[name] = ours.combine(theirs, sign)
            elif name in places and ours.shape == places[name].shape:
                combined[name] = ours.combine_at(theirs, places[name].positions, sign)
            else:
                is_alike = False
        if not is_alike:
            raise ValueError(
                f"cannot combine {self.describe()} with {other.describe()}: "
                "expected the same columns, form and batch axes"
            )
        rounded = left.rounded
        if other.rounded is not None:
            aligned = other if left.keys is None or left.keys == other.keys else other.over(left.keys)
            if rounded is None or aligned.rounded is None:
                rounded = aligned.rounded
            else:
                rounded = rounded + aligned.rounded
        return left.with_fields(rounded=rounded).with_sums(combined)

    def _align(self, other: Self) -> "tuple[Self, dict[str, Place]]":
        """Return this statistic over the union of both keys, and where to add the sums of `other`, by name.

        A sum without a `Place` has the same keys in both, and is added entry by entry.
        """
        if (self.keys is None) != (other.keys is None):
            raise ValueError(
                f"cannot combine {self.describe()} with {other.describe()}: "
                "expected both grouped by label, or neither"
            )
        if self.keys is None or other.keys is None or self.keys == other.keys:
            return self, {}
        keys, ours, theirs = self.keys.union(other.keys)
        left = self if keys is self.keys else self._extend(keys, ours)
        return left, {
            name: Place((theirs,), (len(keys), *part.shape[1:])) for name, part in other.parts().items()
        }

    def _extend(self, keys: Keys, index: NDArray[np.int64]) -> Self:
        """Extend the statistic to keys that have its own at `index`; the sums of the others are zero."""
        parts = {name: part.place(index, len(keys), axis=0) for name, part in self.parts().items()}
        rounded = None
        if self.rounded is not None:
            rounded = np.zeros((len(keys), *self.rounded.shape[1:]))
            rounded[index] = self.rounded
        return self.with_fields(keys=keys, rounded=rounded, **parts)

    def drop_zeros(self) -> Self:
        """Drop labels whose sums are all zero, as every `observe` does."""
        return self if self.keys is None else self.with_sums(self.parts())

    def with_sums(self, parts: dict[str, Exact]) -> Self:
        """Replace the sums, and drop the labels whose sums are all zero."""
        if self.keys is None:
            return self.with_fields(**parts)
        nonzero = np.zeros(len(self.keys), dtype=np.bool_)
        for part in parts.values():  # the first is the weight, which is rarely zero: then the loop ends here
            nonzero |= part.find_nonzero(axis=0)
            if nonzero.all():
                return self.with_fields(**parts)
        parts = {name: part.reindex(lambda words: words[:, nonzero]) for name, part in parts.items()}
        rounded = None if self.rounded is None else self.rounded[nonzero]
        return self.with_fields(keys=self.keys.keep(nonzero), rounded=rounded, **parts)

    def with_fields(self, **changes: Any) -> Self:
        """Copy with some fields changed: `dataclasses.replace` without its checks, three times as fast."""
        copy = object.__new__(type(self))
        for name in self.field_names.all:
            object.__setattr__(copy, name, changes[name] if name in changes else getattr(self, name))
        return copy

    @property
    def field_names(self) -> "FieldNames":
        return _list_fields(type(self))  # type: ignore[arg-type]  # mypy asks the class for its __hash__

    def describe(self) -> str:
        """Describe the class, the shapes of the sums, the traits and the keys, for error messages."""
        shapes = [f"{name} {part.shape}" for name, part in self.parts().items()]
        traits = [f"{name} {getattr(self, name)!r}" for name in self.field_names.traits]
        labels = "" if self.keys is None else f" by {self.keys!r}"
        return f"{type(self).__name__}({', '.join(shapes + traits)}{labels})"


class Place(NamedTuple):
    """Where the entries of a sum are in a larger sum."""

    positions: tuple[NDArray[np.int64], ...]  # indices along the first axes of the larger sum
    shape: tuple[int, ...]  # of the larger sum


class FieldNames(NamedTuple):
    """The names of a statistic's fields."""

    all: tuple[str, ...]
    sums: tuple[str, ...]
    traits: tuple[str, ...]  # neither sums nor names of an axis: equal in statistics that can be combined


@cache
def _list_fields(kind: Any) -> FieldNames:
    types = {field.name: field.type for field in fields(kind)}
    sums = tuple(name for name, kind in types.items() if kind in (Exact, Exact | None))
    axes = tuple(name for name, kind in types.items() if kind in (Keys, Keys | None))
    others = (*sums, *axes, "rounded")
    return FieldNames(tuple(types), sums, tuple(name for name in types if name not in others))


def _import_arrow() -> Any:
    return importlib.import_module("tamis.stats.arrow")


def refuse_excess_subtraction(is_impossible: bool) -> None:
    """Raise if more was subtracted than was added, so that no data has the remaining sums."""
    if is_impossible:
        raise ValueError(
            "more would be subtracted than was learned, expected rows that were learned, with their weights: "
            "nothing was changed"
        )
