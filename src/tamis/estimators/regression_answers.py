"""Rows that a regression never saw → what it says of them; and how many draws were asked for."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tamis import validate
from tamis.arrays import Array
from tamis.estimators import answers
from tamis.models.linear import BayesianLinear, HeldOutNumbers, cross_validate, leave_one_out
from tamis.stats import Keys


def held_out(
    model: BayesianLinear,
    rows: Array,
    targets: Array,
    weights: Array | None,
    folds: int | str | ArrayLike,
    groups: object,
    random_state: Any,
) -> HeldOutNumbers:
    """Cross-validation by what `folds` says; rows of no weight are left out."""
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        rows, targets, weights = rows[kept], targets[kept], weights[kept]
        folds = folds if np.ndim(folds) == 0 else np.asarray(folds)[kept]
        groups = None if groups is None else np.asarray(groups)[kept]
    if isinstance(folds, str):
        if folds != "leave-one-out":
            raise ValueError(f"got folds={folds!r}, expected a number, folds of rows, or 'leave-one-out'")
        return leave_one_out(model, rows, targets, weights)
    if np.ndim(folds) == 0:
        if np.asarray(folds).dtype.kind not in "iu":
            raise TypeError(
                f"got folds={folds!r}, expected a whole number, the fold of each row, or 'leave-one-out'"
            )
        rng = None if random_state is None else answers.generator(random_state)
        fold = validate.split(len(rows), int(np.asarray(folds)), rng, groups=groups)
    else:
        _, fold = Keys.of(np.asarray(folds))
    return cross_validate(model, rows, targets, fold, weights)


def number(n_samples: int) -> int:
    """How many draws, checked."""
    if int(n_samples) != n_samples or n_samples < 1:
        raise ValueError(f"got n_samples={n_samples}, expected a whole number of at least 1")
    return int(n_samples)
