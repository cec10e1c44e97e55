"""Check that the parts of a statistic are consistent: that their shapes, names and types agree.

Compiled kernels read as much memory as the shapes say, so statistics from files and Arrow tables are checked
before kernels get them.
"""

from collections.abc import Callable
from itertools import zip_longest
from math import prod
from typing import Any

import numpy as np

from tamis.stats.exact import MAX_POWER, Exact
from tamis.stats.gram import Gram
from tamis.stats.joint import Joint
from tamis.stats.keys import Keys
from tamis.stats.moments import Moments
from tamis.stats.tally import Tally

# The largest number of numbers (8 MB) to which the parameters of a prior or of a family's member may be
# broadcast together; if one parameter is larger, its size is the limit.
_MAX_NUMBERS = 1 << 20


def refuse_inconsistent(cls: type, parameters: dict[str, Any]) -> None:
    """Raise ValueError if `cls(**parameters)` would be inconsistent.

    `cls` is a statistic, a prior or a family. The constructors of the last two check their parameters; here,
    only the memory that broadcasting them takes is checked. The message says only what was found; the caller
    adds what was expected.
    """
    for name in ("keys", "terms"):
        if not isinstance(parameters.get(name), Keys | None):
            raise ValueError(f"a {cls.__name__} whose {name} are not of the type Keys")
    shapes = [value.shape for value in parameters.values() if isinstance(value, np.ndarray)]
    cells = prod(map(max, zip_longest(*map(reversed, shapes), fillvalue=1)))  # broadcast to one shape
    limit = max([_MAX_NUMBERS, *map(prod, shapes)])
    if cls not in CONSISTENCY_CHECKS and cells > limit:
        raise ValueError(
            f"a {cls.__name__} whose parameters broadcast to {cells:,} numbers (the limit is {limit:,})"
        )
    if cls in CONSISTENCY_CHECKS and not CONSISTENCY_CHECKS[cls](**parameters):
        raise ValueError(f"a {cls.__name__} whose parts have shapes or types that do not agree")


def _is_consistent_exact(words: Any, low: Any) -> bool:
    """Return whether each digit is in the range of settled words, so that no kernel overflows.

    See `_kernels.reference`; words with leading or trailing zeros, which are not settled, are accepted.
    """
    if not isinstance(words, np.ndarray) or words.dtype != np.int64 or not words.ndim or not len(words):
        return False
    digits, last = words[:-1], words[-1]
    return (
        isinstance(low, int | np.integer)
        and -MAX_POWER <= int(low) <= int(low) + len(words) <= MAX_POWER
        and digits.min(initial=0) >= 0
        and digits.max(initial=0) < 1 << 32
        and last.min(initial=0) >= -(1 << 31)
        and last.max(initial=0) < 1 << 31
    )


def _is_consistent_tally(keys: Keys | None, weight: Any, total: Any, terms: Keys | None) -> bool:
    are_exact = isinstance(weight, Exact) and isinstance(total, Exact) and len(total.shape) > 0
    return (
        are_exact
        and total.shape[:-1] == weight.shape
        and _length_matches(keys, weight)
        and _length_matches(terms, total, -1)
    )


def _is_consistent_moments(
    keys: Any, weight: Any, first: Any, second: Any, form: Any, rounded: Any = None
) -> bool:
    if not isinstance(weight, Exact) or not isinstance(first, Exact) or not isinstance(second, Exact | None):
        return False
    batch = squares = first.shape
    if form == "full" and first.shape:
        *rest, d = first.shape
        batch, squares = tuple(rest), (*rest, d * (d + 1) // 2)
    form_agrees = form in ("full", "diagonal", "none") and (second is None or second.shape == squares)
    return (
        form_agrees
        and weight.shape == batch
        and _length_matches(keys, weight)
        and _is_consistent_rounded(rounded, first)
    )


def _is_consistent_gram(
    keys: Any, weight: Any, first: Any, products: Any, width: Any, targets: Any, rounded: Any = None
) -> bool:
    if not all(isinstance(part, Exact) for part in (weight, first, products)):
        return False
    order, batch = width + targets, weight.shape
    shapes_agree = first.shape == (*batch, order) and products.shape == (*batch, order * (order + 1) // 2)
    are_sizes = type(order) is int and min(width, targets) >= 0
    return (
        are_sizes
        and shapes_agree
        and _length_matches(keys, weight)
        and _is_consistent_rounded(rounded, first)
    )


def _is_consistent_rounded(rounded: Any, first: Exact) -> bool:
    """Return whether this is None, or a sum of squares for each sum in `first`."""
    return rounded is None or (
        isinstance(rounded, np.ndarray)
        and rounded.dtype == np.float64
        and rounded.shape == first.shape
        and bool(np.isfinite(rounded).all())
        and rounded.min(initial=0.0) >= 0.0
    )


def _is_consistent_joint(parts: Any) -> bool:
    has_names = type(parts) is dict and all(type(name) is str for name in parts)
    return has_names and all(type(part) in (Tally, Moments, Gram) for part in parts.values())


def _length_matches(names: Keys | None, part: Exact, axis: int = 0) -> bool:
    """Return whether the length of the axis is the number of names; True without names."""
    return names is None or (len(part.shape) > 0 and part.shape[axis] == len(names))


# For each class, a function that returns whether an instance can have these parameters.
CONSISTENCY_CHECKS: dict[type, Callable[..., bool]] = {
    Keys: lambda values: type(values) is tuple and len(set(values)) == len(values),
    Exact: _is_consistent_exact,
    Tally: _is_consistent_tally,
    Moments: _is_consistent_moments,
    Gram: _is_consistent_gram,
    Joint: _is_consistent_joint,
}
