"""What a caller says of classes and of averages → weights and numbers, or one line that says what is not."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.stats import Filed, Keys

PREDICTIVES = ("plugin", "probit", "monte-carlo")


def refuse_averages(predictive: Any, n_draws: Any) -> None:
    """Raise if probabilities cannot be averaged that way, or by so many draws."""
    if predictive not in PREDICTIVES:
        raise ValueError(
            f"got predictive={predictive!r}, expected one of {', '.join(map(repr, PREDICTIVES))}"
        )
    if not isinstance(n_draws, int | np.integer) or isinstance(n_draws, bool) or n_draws < 1:
        raise ValueError(f"got n_draws={n_draws!r}, expected a whole number of at least 1")


def refuse_class_weight(given: Any, keys: Keys) -> None:
    """Raise unless it is "balanced", or maps some of the classes to weights."""
    if given is None or (isinstance(given, str) and given == "balanced"):
        return
    if not isinstance(given, Mapping):
        raise ValueError(f"got class_weight={given!r}, expected 'balanced' or a mapping from labels")
    for label, weight in given.items():
        if label not in keys:
            raise ValueError(f"got class_weight for {label!r}, expected labels among {keys!r}")
        try:
            sound = 0.0 <= float(weight) < np.inf
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise ValueError(
                f"got class_weight={weight!r} for {label!r}, expected a finite number of at least 0"
            )


def class_weights(given: Mapping[Any, float] | str, filed: Filed, weighed: Array | None) -> Array:
    """The weight of a row of each class (K,)."""
    if isinstance(given, Mapping):
        return np.array([float(given.get(key, 1.0)) for key in filed.keys])
    counts = np.bincount(filed.group, weighed, len(filed.keys))  # a row of weight 2 is that row twice
    return np.asarray(counts.sum() / (len(filed.keys) * np.where(counts > 0, counts, 1.0)))
