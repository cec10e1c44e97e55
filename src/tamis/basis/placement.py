"""parameters and the ranges of columns → the positions (places) of basis functions, and their widths."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from tamis import arrays
from tamis.arrays import Array

Placement = Literal["evenly", "quantiles"]

# A column counts as constant if the length of its range is at most this fraction of its largest magnitude:
# rounding errors can be as large.
_ROUNDING = 64 * np.finfo(np.float64).eps
_DIGITS = range(3, 18)  # the numbers of digits that names may have; 17 distinguish any two floats


@dataclass(frozen=True, eq=False)
class Range:
    """The least and the largest value of each column.

    The sum of two ranges is the smallest range that contains both. Ranges cannot be subtracted, so rows
    cannot be forgotten.
    """

    low: Array  # (d,)
    high: Array  # (d,)

    @classmethod
    def of(cls, values: Array) -> "Range":
        """Return the range of each column of rows (n, d)."""
        return cls(values.min(axis=0), values.max(axis=0))

    def __add__(self, other: "Range") -> "Range":
        return Range(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def widen_constants(self) -> "Range":
        """Return the same ranges, but a constant column gets a range around its value.

        Its length is 1, or 2⁻³⁰ times the magnitude of the value if that is more, so that it has many floats.

        >>> ranges = Range.of(np.array([[3.0, 0.0], [3.0, 2.0]])).widen_constants()
        >>> ranges.low.tolist(), ranges.high.tolist()
        ([2.5, 0.0], [3.5, 2.0])
        """
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        is_constant = self.high - self.low <= _ROUNDING * size
        half_length = np.where(is_constant, np.maximum(0.5, size * 2.0**-31), 0.0)
        return Range(self.low - half_length, self.high + half_length)

    def refuse_overflow(self, describe: Callable[[int], str]) -> None:
        """Raise if twice the length of a range overflows float64; `describe` names a column for messages."""
        with np.errstate(over="ignore"):
            overflows = ~np.isfinite(2.0 * (self.high - self.low))
        if overflows.any():
            j = int(np.argmax(overflows))
            raise ValueError(
                f"{describe(j)} goes from {self.low[j]:g} to {self.high[j]:g}, expected a range that float64 "
                "holds: rescale it"
            )


def place_functions(
    what: str, given: object, placed: Placement, values: Array, ranges: Range, least: int = 1
) -> list[Array]:
    """Return, for each column, the places of its functions (k,).

    `given` is an array of places, or their number; then so many places are chosen, as `placed` says: spaced
    evenly over the range of the column, or at quantiles of the column in the rows `values` (n, d). Equal
    places, such as quantiles of a column with ties, become one place; if fewer than `least` quantiles are
    left, the places are spaced evenly instead. `what` is the parameter's name in error messages.

    >>> rows = np.array([[0.0], [1.0], [1.0], [4.0]])
    >>> [
    ...     place_functions("centres", 3, how, rows, Range.of(rows))[0].tolist()
    ...     for how in ("evenly", "quantiles")
    ... ]
    [[0.0, 2.0, 4.0], [0.0, 1.0, 4.0]]
    """
    if not isinstance(given, Integral):
        return _read_places(what, given, len(ranges.low), least)
    count = check_integer(what, given, least)
    check_choice("placed", placed, ("evenly", "quantiles"))
    ranges = ranges.widen_constants()
    levels = np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])  # a single place in the middle
    columns = []
    for j, (low, high) in enumerate(zip(ranges.low, ranges.high, strict=True)):
        places = np.unique(np.quantile(values[:, j], levels)) if placed == "quantiles" else None
        if places is None or len(places) < least:
            places = np.unique(low + levels * (high - low))
        columns.append(places)
    return columns


def _read_places(what: str, given: Any, columns: int, least: int) -> list[Array]:
    """Return the given places by column; raise if their shape or number is wrong, or if two are equal."""
    places = check_finite(what, given)
    if places.ndim not in (1, 2) or (places.ndim == 2 and places.shape[1] != columns):
        raise ValueError(
            f"got {what} of shape {places.shape}, expected a whole number, or the places themselves: (k,) "
            f"for all columns alike, or (k, {columns}) with one column of places per column"
        )
    if len(places) < least:
        raise ValueError(f"got {len(places)} {what}, expected at least {least}")
    by_column = [places.copy() if places.ndim == 1 else places[:, j].copy() for j in range(columns)]
    if any(len(np.unique(column)) < len(column) for column in by_column):
        raise ValueError(f"got {what} with two equal places, expected distinct ones: drop one of them")
    return by_column


def choose_widths(given: object, centres: list[Array], ranges: Range) -> list[Array]:
    """Return, for each column, the widths of its functions (k,): as given, or the spacing of the centres."""
    ranges = ranges.widen_constants()
    if given is None:
        return [
            _compute_spacing(places, float(length))
            for places, length in zip(centres, ranges.high - ranges.low, strict=True)
        ]
    width = check_positive("width", given)
    return [
        broadcast("width", width, (len(places), len(centres)))[:, j].copy()
        for j, places in enumerate(centres)
    ]


def _compute_spacing(centres: Array, length: float) -> Array:
    """Return each centre's mean distance to its neighbours; for a single centre, the length of the range."""
    if len(centres) == 1:
        return np.array([length])
    order = np.argsort(centres)
    gaps = np.diff(centres[order])
    spacing = np.empty(len(centres))
    spacing[order] = 0.5 * (np.r_[gaps[0], gaps] + np.r_[gaps, gaps[-1]])
    return spacing


def broadcast(what: str, given: Array, shape: tuple[int, int]) -> Array:
    """Broadcast a parameter to the shape (functions, columns)."""
    try:
        return np.broadcast_to(given, shape)
    except ValueError:
        raise ValueError(
            f"got {what} of shape {given.shape}, expected a number, one per column ({shape[1]},), one per "
            f"centre ({shape[0]}, 1), or both {shape}"
        ) from None


def check_finite(what: str, given: Any) -> Array:
    """Return a parameter as an array; raise unless all numbers are finite."""
    values = arrays.to_numpy(given)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"got {what}={given!r}, expected numbers")
    numbers = arrays.floats(values, what)
    if not np.isfinite(numbers).all():
        raise ValueError(f"got {what}={given!r}, expected finite numbers")
    return numbers


def check_positive(what: str, given: Any) -> Array:
    """Return a parameter as an array; raise unless all numbers are above 0."""
    numbers = check_finite(what, given)
    if not (numbers > 0).all():
        raise ValueError(f"got {what}={given!r}, expected numbers above 0")
    return numbers


def check_integer(what: str, given: object, least: int) -> int:
    """Return a parameter as an int; raise unless it is a whole number of at least `least`."""
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) < least:
        error_type = ValueError if isinstance(given, Real) else TypeError
        raise error_type(f"got {what}={given!r}, expected a whole number of at least {least}")
    return int(given)


def check_choice(what: str, given: object, known: tuple[object, ...]) -> None:
    """Raise for a value that is not one of the known ones."""
    # `given in known` would compare an array with each value, and fail.
    if not any(given is value or (isinstance(given, str) and given == value) for value in known):
        raise ValueError(f"got {what}={given!r}, expected one of {', '.join(map(repr, known))}")


def format_numbers(numbers: Array) -> list[str]:
    """Format numbers with as few digits as distinguish them, but with at least three.

    >>> format_numbers(np.array([0.0, 1 / 3, 1e8])), format_numbers(1e8 + np.array([0.25, 0.5]))
    (['0', '0.333', '1e+08'], ['100000000.2', '100000000.5'])
    """
    texts: list[str] = []
    for digits in _DIGITS:
        texts = [f"{number:.{digits}g}" for number in (numbers + 0.0).tolist()]  # + 0.0: not "-0"
        if len(set(texts)) == len(texts):
            break
    return texts
