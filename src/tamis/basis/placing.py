"""parameters and the ranges of columns → where functions lie, and how wide they are."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from tamis import arrays
from tamis.arrays import Array

Placed = Literal["evenly", "quantiles"]

_NOISE = 64 * np.finfo(np.float64).eps  # a range below so many roundings of its ends is that of a constant
_DIGITS = range(3, 18)  # 17 tell any two numbers apart


@dataclass(frozen=True, eq=False)
class Range:
    """The least and the largest value of each column; `+` is the union, and nothing can be taken away."""

    low: Array  # (d,)
    high: Array  # (d,)

    @classmethod
    def of(cls, values: Array) -> "Range":
        """Of rows (n, d)."""
        return cls(values.min(axis=0), values.max(axis=0))

    def __add__(self, other: "Range") -> "Range":
        return Range(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def widened(self) -> "Range":
        """The same, but that a constant column has a range of one about it, or of 2⁻³⁰ of it if that is more.

        >>> found = Range.of(np.array([[3.0, 0.0], [3.0, 2.0]])).widened()
        >>> found.low.tolist(), found.high.tolist()
        ([2.5, 0.0], [3.5, 2.0])
        """
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        constant = self.high - self.low <= _NOISE * size
        half = np.where(constant, np.maximum(0.5, size * 2.0**-31), 0.0)
        return Range(self.low - half, self.high + half)

    def refuse_endless(self, name: Callable[[int], str]) -> None:
        """Raise for a range that float64 does not hold."""
        with np.errstate(over="ignore"):
            endless = ~np.isfinite(2.0 * (self.high - self.low))
        if endless.any():
            j = int(np.argmax(endless))
            raise ValueError(
                f"{name(j)} goes from {self.low[j]:g} to {self.high[j]:g}, expected a range that float64 "
                "holds: rescale it"
            )


def places(
    what: str, given: object, placed: Placed, values: Array, span: Range, least: int = 1
) -> list[Array]:
    """Where a column's functions lie, for each column (k,): so many, or those given by hand.

    Places that fall together, as quantiles of a column with ties do, are one place.

    >>> rows = np.array([[0.0], [1.0], [1.0], [4.0]])
    >>> [places("centres", 3, how, rows, Range.of(rows))[0].tolist() for how in ("evenly", "quantiles")]
    [[0.0, 2.0, 4.0], [0.0, 1.0, 4.0]]
    """
    if not isinstance(given, Integral):
        return _by_hand(what, given, len(span.low), least)
    count = whole(what, given, least)
    one_of("placed", placed, ("evenly", "quantiles"))
    wide = span.widened()
    levels = np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])
    found = []
    for j, (low, high) in enumerate(zip(wide.low, wide.high, strict=True)):
        chosen = np.unique(np.quantile(values[:, j], levels)) if placed == "quantiles" else None
        if chosen is None or len(chosen) < least:
            chosen = np.unique(low + levels * (high - low))
        found.append(chosen)
    return found


def _by_hand(what: str, given: Any, columns: int, least: int) -> list[Array]:
    chosen = finite(what, given)
    if chosen.ndim not in (1, 2) or (chosen.ndim == 2 and chosen.shape[1] != columns):
        raise ValueError(
            f"got {what} of shape {chosen.shape}, expected a whole number, or the places themselves: (k,) "
            f"for every column, or (k, {columns}) with a column for each"
        )
    if len(chosen) < least:
        raise ValueError(f"got {len(chosen)} {what}, expected at least {least}")
    found = [chosen.copy() if chosen.ndim == 1 else chosen[:, j].copy() for j in range(columns)]
    if any(len(np.unique(each)) < len(each) for each in found):
        raise ValueError(f"got {what} with a place twice, expected each once: drop one of them")
    return found


def widths(given: object, centres: list[Array], span: Range) -> list[Array]:
    """The width of each function, for each column (k,): by hand, or from the spacing of the centres."""
    wide = span.widened()
    if given is None:
        return [_spacing(each, float(size)) for each, size in zip(centres, wide.high - wide.low, strict=True)]
    chosen = positive("width", given)
    return [spread("width", chosen, (len(each), len(centres)))[:, j].copy() for j, each in enumerate(centres)]


def _spacing(centres: Array, size: float) -> Array:
    """How far each centre is from its neighbours, on average; one alone is as wide as the range."""
    if len(centres) == 1:
        return np.array([size])
    order = np.argsort(centres)
    gaps = np.diff(centres[order])
    found = np.empty(len(centres))
    found[order] = 0.5 * (np.r_[gaps[0], gaps] + np.r_[gaps, gaps[-1]])
    return found


def spread(what: str, given: Array, shape: tuple[int, int]) -> Array:
    """What was given, for every function and column."""
    try:
        return np.broadcast_to(given, shape)
    except ValueError:
        raise ValueError(
            f"got {what} of shape {given.shape}, expected a number, one per column ({shape[1]},), one per "
            f"centre ({shape[0]}, 1), or both {shape}"
        ) from None


def finite(what: str, given: Any) -> Array:
    """Numbers that were given by hand."""
    read = arrays.to_numpy(given)
    if read.dtype.kind not in "iuf":
        raise TypeError(f"got {what}={given!r}, expected numbers")
    found = arrays.floats(read, what)
    if not np.isfinite(found).all():
        raise ValueError(f"got {what}={given!r}, expected finite numbers")
    return found


def positive(what: str, given: Any) -> Array:
    """Numbers above 0 that were given by hand."""
    found = finite(what, given)
    if not (found > 0).all():
        raise ValueError(f"got {what}={given!r}, expected numbers above 0")
    return found


def whole(what: str, given: object, least: int) -> int:
    """A whole number of at least so much."""
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) < least:
        kind = ValueError if isinstance(given, Real) else TypeError
        raise kind(f"got {what}={given!r}, expected a whole number of at least {least}")
    return int(given)


def one_of(what: str, given: object, known: tuple[object, ...]) -> None:
    """Raise for a word that is not known."""
    if not any(given is each or (isinstance(given, str) and given == each) for each in known):
        raise ValueError(f"got {what}={given!r}, expected one of {', '.join(map(repr, known))}")


def written(numbers: Array) -> list[str]:
    """Numbers in as few digits as tell them apart, but at least three.

    >>> written(np.array([0.0, 1 / 3, 1e8])), written(1e8 + np.array([0.25, 0.5]))
    (['0', '0.333', '1e+08'], ['100000000.2', '100000000.5'])
    """
    found: list[str] = []
    for digits in _DIGITS:
        found = [f"{number:.{digits}g}" for number in (numbers + 0.0).tolist()]
        if len(set(found)) == len(found):
            break
    return found
