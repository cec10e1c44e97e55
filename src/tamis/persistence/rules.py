"""Rules for the content of files of models: one per field, and a function that checks a value by its rule.

A file may come from an untrusted source, so a value is checked by its rule before a model uses it. A rule
states the type of a value, its range, and the sizes of its axes. A size is a number or a name: the first
value with the name defines the length of that axis, and all later ones must agree. (A name that first occurs
in an item of a `SequenceOf` is known only within that item.) The size "bytes" is the length of the file,
which bounds how much memory a number in the file can make a model allocate.

    DictOf({"users": KeysOf("users"), "factors": Numbers("f8", "users", "rank")})

is the rule of a dict with one entry per user in "users" and one row per user in "factors", an array of
float64 ("f8") with any number of columns.

`tamis.estimators.saved` declares the rules of every model that can be saved. `tamis_mail.schema` does the
same for stores of the mail filter. They share no code: its rules are about columns in SQLite and settings in
text, and it must not import NumPy, while nearly all rules here are about NumPy arrays.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tamis.stats import Keys, Sums

Sizes = dict[str, int]
Size = int | str
Bound = float | str | None  # a number, the name of a size, or None for no bound

# Array elements (32 MB) that a model may allocate besides one per byte of its file (`estimators.saved`).
SPARE_ELEMENTS = 1 << 22


class Rule(Protocol):
    """A condition on a value."""

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        """Raise a ValueError if the value violates the rule.

        `place` names the value in messages, such as "model.factors". `sizes` has the sizes that are known by
        name; those that the value defines are added to it.
        """


def check(rule: Rule, value: Any, place: str, file_bytes: int) -> Sizes:
    """Return the sizes of the value; raise a ValueError if it violates the rule.

    `place` names the value in messages. `file_bytes` is the length of the file.

    >>> check(Numbers("f8", "rows", 2), np.zeros((3, 2)), "mean", 1000)
    {'bytes': 1000, 'rows': 3}
    >>> check(Numbers("f8", "rows", 2), np.zeros((3, 4)), "mean", 1000)
    Traceback (most recent call last):
    ...
    ValueError: mean is of shape (3, 4), expected (rows, 2)
    """
    sizes: Sizes = {"bytes": file_bytes}
    rule.check(value, place, sizes)
    return sizes


class Numbers:
    """An array of one of some types and of this shape, whose values are in a range.

    `dtypes` are types as NumPy abbreviates them, such as "f8", or "f8 f4". If `finite`, floats must be
    finite. All values must be at least `least`, and less than `below`.
    """

    def __init__(
        self, dtypes: str, *shape: Size, finite: bool = True, least: Bound = None, below: Bound = None
    ) -> None:
        self.dtypes, self.shape, self.finite, self.least, self.below = dtypes, shape, finite, least, below

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if type(value) is not np.ndarray or value.dtype.str[1:] not in self.dtypes.split():
            given = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else _describe(value)
            raise ValueError(f"{place} is {given}, expected an array of {self.dtypes}")
        _match_shape(value.shape, self.shape, place, sizes)
        if not value.size:
            return
        if self.finite and value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"{place} holds NaN or infinity, expected finite numbers")
        if self.least is not None and not value.min() >= (least := _resolve(self.least, sizes)):
            raise ValueError(f"{place} holds {value.min()}, expected at least {least}")
        if self.below is not None and not value.max() < (below := _resolve(self.below, sizes)):
            raise ValueError(f"{place} holds {value.max()}, expected below {below}")


@dataclass(frozen=True)
class Real:
    """A float or an integer in a range; `nan` and `infinite` are whether it may be NaN or infinite."""

    least: Bound = None
    most: Bound = None
    nan: bool = False
    infinite: bool = False

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if type(value) not in (int, float):
            raise ValueError(f"{place} is {_describe(value)}, expected a number")
        if value != value:
            if not self.nan:
                raise ValueError(f"{place} is NaN, expected a number")
            return
        try:
            is_infinite = abs(float(value)) == float("inf")
        except OverflowError:
            is_infinite = True
        if is_infinite and not self.infinite:
            raise ValueError(f"{place} is not finite, expected a finite number")
        _check_range(value, self.least, self.most, place, sizes)


@dataclass(frozen=True)
class Integer:
    """An integer in a range, by default from 0 to 2**62; with `name`, it is also the size of that name."""

    least: Bound = 0
    most: Bound = None
    name: str = ""

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if type(value) is not int:
            raise ValueError(f"{place} is {_describe(value)}, expected a whole number")
        _check_range(value, self.least, 2**62 if self.most is None else self.most, place, sizes)
        if self.name:
            _match_shape((value,), (self.name,), place, sizes)


@dataclass(frozen=True)
class Flag:
    """True or false; with `name`, the size of that name is 1 or 0, for use in conditions of `DictOf`."""

    name: str = ""

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if type(value) is not bool:
            raise ValueError(f"{place} is {_describe(value)}, expected true or false")
        if self.name:
            _match_shape((int(value),), (self.name,), place, sizes)


@dataclass(frozen=True)
class Text:
    """A string; if `among` is given, one of these strings."""

    among: tuple[str, ...] = ()

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if type(value) is not str or (self.among and value not in self.among):
            expected = f"one of {', '.join(self.among)}" if self.among else "a string"
            raise ValueError(f"{place} is {_describe(value)}, expected {expected}")


@dataclass(frozen=True)
class KeysOf:
    """A `Keys` (labels of an axis) of this size."""

    size: Size

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if type(value) is not Keys:
            raise ValueError(f"{place} is {_describe(value)}, expected keys")
        _match_shape((len(value),), (self.size,), place, sizes)


@dataclass(frozen=True)
class Statistic:
    """A statistic of this type, with sums of these shapes, whose fields in `traits` have the values there."""

    statistic_type: type[Sums]
    shapes: Mapping[str, tuple[Size, ...]]
    labelled: bool | None = None  # whether labels name the first axis; None: either
    traits: Mapping[str, Any] = field(default_factory=dict)

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if type(value) is not self.statistic_type:
            raise ValueError(f"{place} is {_describe(value)}, expected {self.statistic_type.__name__}")
        if self.labelled is not None and (value.keys is not None) != self.labelled:
            grouped, expected = (
                ("not grouped", "one group per label") if self.labelled else ("grouped", "one sum")
            )
            raise ValueError(f"{place} is {grouped} by label, expected {expected}")
        for name, expected in self.traits.items():
            if getattr(value, name) != expected:
                raise ValueError(f"{place}.{name} is {getattr(value, name)!r}, expected {expected!r}")
        sums = value.parts()  # by name
        if sums.keys() != self.shapes.keys():
            raise ValueError(f"{place} has sums {', '.join(sums)}, expected {', '.join(self.shapes)}")
        for name, array in sums.items():
            _match_shape(array.shape, self.shapes[name], f"{place}.{name}", sizes)


@dataclass(frozen=True)
class Anything:
    """Any value; the model checks it."""

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        """Accept the value."""


class Either:
    """A value that satisfies one of several rules.

    The first rule that it satisfies defines sizes; if it satisfies none, the error is that of the last rule.
    """

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        for rule in self.rules[:-1]:
            trial = dict(sizes)
            try:
                rule.check(value, place, trial)
            except ValueError:
                continue
            sizes.update(trial)
            return
        self.rules[-1].check(value, place, sizes)


@dataclass(frozen=True)
class Nullable:
    """None, or a value that satisfies the rule."""

    rule: Rule

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if value is not None:
            self.rule.check(value, place, sizes)


@dataclass(frozen=True)
class SequenceOf:
    """A tuple, or a list, of this size, whose items satisfy one rule."""

    sequence_type: type[list[Any]] | type[tuple[Any, ...]]
    rule: Rule
    size: Size

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if type(value) is not self.sequence_type:
            raise ValueError(f"{place} is {_describe(value)}, expected a {self.sequence_type.__name__}")
        _match_shape((len(value),), (self.size,), place, sizes)
        for number, item in enumerate(value):
            self.rule.check(item, f"{place}[{number}]", dict(sizes))


@dataclass(frozen=True)
class TupleOf:
    """A tuple of values, each with its own rule and a name for messages."""

    rules: Mapping[str, Rule]
    optional: int = 0  # how many values at the end may be missing

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        most = len(self.rules)
        if type(value) is not tuple or not most - self.optional <= len(value) <= most:
            raise ValueError(f"{place} is {_describe(value)}, expected a tuple of {', '.join(self.rules)}")
        for (name, rule), item in zip(self.rules.items(), value, strict=False):
            rule.check(item, f"{place}.{name}", sizes)


@dataclass(frozen=True)
class DictOf:
    """A dict with these names and no others; those in `optional` may be missing.

    `conditions` maps the description of a condition, for error messages, to a function that returns whether
    the sizes satisfy it.
    """

    rules: Mapping[str, Rule]
    optional: tuple[str, ...] = ()
    conditions: Mapping[str, Callable[[Mapping[str, int]], bool]] = field(default_factory=dict)

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        if type(value) is not dict:
            raise ValueError(f"{place} is {_describe(value)}, expected a dict")
        if missing := [name for name in self.rules if name not in value and name not in self.optional]:
            raise ValueError(f"{place} has no {missing[0]!r}")
        if unknown := [name for name in value if name not in self.rules]:
            raise ValueError(f"{place} has {str(unknown[0])[:40]!r}, expected {', '.join(self.rules)}")
        for name, rule in self.rules.items():
            if name in value:
                rule.check(value[name], f"{place}.{name}", sizes)
        for condition, is_met in self.conditions.items():
            if not is_met(sizes):
                raise ValueError(f"{place} has sizes that do not fit together, expected {condition}")


@dataclass(frozen=True)
class Also:
    """A value that satisfies a rule, and of which `find_fault` finds no fault, given the sizes.

    `find_fault` returns None, or a description of a fault such as "has two classes of one name", which
    follows the name of the value in the message.
    """

    rule: Rule
    find_fault: Callable[[Any, Mapping[str, int]], str | None]

    def check(self, value: Any, place: str, sizes: Sizes) -> None:
        self.rule.check(value, place, sizes)
        if fault := self.find_fault(value, sizes):
            raise ValueError(f"{place} {fault}")


def _match_shape(shape: tuple[int, ...], expected: tuple[Size, ...], place: str, sizes: Sizes) -> None:
    """Store the sizes whose names are new; raise if the shape differs from known or given sizes."""
    known = [sizes.get(size) if isinstance(size, str) else size for size in expected]  # None: a new name
    if len(shape) != len(known) or any(
        size not in (None, length) for length, size in zip(shape, known, strict=True)
    ):
        names = ", ".join(
            f"{size}={sizes[size]}" if isinstance(size, str) and size in sizes else str(size)
            for size in expected
        )
        raise ValueError(f"{place} is of shape {shape}, expected ({names})")
    for length, size in zip(shape, expected, strict=True):
        if isinstance(size, str) and sizes.setdefault(size, length) != length:  # named twice in one shape
            raise ValueError(f"{place} is of shape {shape}, expected all axes {size!r} of one length")


def _check_range(value: float, least: Bound, most: Bound, place: str, sizes: Sizes) -> None:
    """Raise unless the value is from `least` to `most`."""
    low, high = (None if bound is None else _resolve(bound, sizes) for bound in (least, most))
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        shown = value if abs(value) < 2**64 else "far too large"
        bounds = (f"at least {low}" if low is not None else "", f"at most {high}" if high is not None else "")
        raise ValueError(f"{place} is {shown}, expected {' and '.join(filter(None, bounds))}")


def _resolve(bound: float | str, sizes: Sizes) -> float:
    """Return the bound as a number: if it is the name of a size, this size."""
    return sizes[bound] if isinstance(bound, str) else bound


def _describe(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, str):
        return repr(value[:40])
    return f"a {type(value).__name__}"
