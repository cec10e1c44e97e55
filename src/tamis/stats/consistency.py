"""Checks that the parts of a statistic are consistent: that their shapes, names and types agree.

A kernel reads memory by these shapes, so statistics from files and Arrow tables are checked first.
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

_CELLS = 1 << 20  # the largest size (8 MB) to which a prior's parameters may be broadcast


def refuse_inconsistent(kind: type, parameters: dict[str, Any]) -> None:
    """Raise if no value of this kind has these parameters. Priors check their own numbers."""
    for name in ("keys", "terms"):
        if not isinstance(parameters.get(name), Keys | None):
            raise ValueError(f"a {kind.__name__} whose {name} are no Keys")
    shapes = [given.shape for given in parameters.values() if isinstance(given, np.ndarray)]
    cells = prod(map(max, zip_longest(*shapes, fillvalue=1)))  # of all parameters, broadcast to one shape
    if kind not in CONSISTENCY_CHECKS and cells > max([_CELLS, *map(prod, shapes)]):
        raise ValueError(f"a {kind.__name__} whose parameters do not fit each other")
    if kind in CONSISTENCY_CHECKS and not CONSISTENCY_CHECKS[kind](**parameters):
        raise ValueError(f"a {kind.__name__} whose parts do not fit each other")


def _are_settled(words: Any, low: Any) -> bool:
    """Return whether these words are in canonical form (see `_kernels.reference`), so no kernel overflows."""
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
    sums = isinstance(weight, Exact) and isinstance(total, Exact) and len(total.shape) > 0
    return (
        sums
        and total.shape[:-1] == weight.shape
        and _has_names(keys, weight)
        and _has_names(terms, total, -1)
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
    known = form in ("full", "diagonal", "none") and (second is None or second.shape == squares)
    return (
        known
        and weight.shape == batch
        and _has_names(keys, weight)
        and _is_consistent_rounded(rounded, first)
    )


def _is_consistent_gram(
    keys: Any, weight: Any, first: Any, products: Any, width: Any, targets: Any, rounded: Any = None
) -> bool:
    if not all(isinstance(part, Exact) for part in (weight, first, products)):
        return False
    side, batch = width + targets, weight.shape
    fit = first.shape == (*batch, side) and products.shape == (*batch, side * (side + 1) // 2)
    fit = type(side) is int and min(width, targets) >= 0 and fit and _has_names(keys, weight)
    return fit and _is_consistent_rounded(rounded, first)


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
    named = type(parts) is dict and all(type(name) is str for name in parts)
    return named and all(type(part) in (Tally, Moments, Gram) for part in parts.values())


def _has_names(names: Keys | None, part: Exact, axis: int = 0) -> bool:
    """Return whether the axis has as many entries as there are names; True without names."""
    return names is None or (len(part.shape) > 0 and part.shape[axis] == len(names))


# For each kind, a function that returns whether a value of the kind can have these parameters.
CONSISTENCY_CHECKS: dict[type, Callable[..., bool]] = {
    Keys: lambda values: type(values) is tuple and len(set(values)) == len(values),
    Exact: _are_settled,
    Tally: _is_consistent_tally,
    Moments: _is_consistent_moments,
    Gram: _is_consistent_gram,
    Joint: _is_consistent_joint,
}
