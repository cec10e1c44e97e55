"""Moments − part → components → score: what models say of rows they have not seen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.models.components.model import PrincipalComponents
from tamis.stats import Moments

_MANY = 64  # folds up to which the moments of all are held at once


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """What models that had not seen the rows said of them (n,)."""

    log_densities: Array  # log p(x) of probabilistic PCA
    errors: Array  # ‖x − reconstruction‖²
    spread: Array  # ‖x − mean‖²: the error of no components at all
    counts: NDArray[np.int64]  # how many directions the model had
    fold: NDArray[np.int64]  # the part that was left out
    weights: Array | None = None

    @property
    def mean_log_density(self) -> float:
        """The mean of `log_densities`: the larger, the better, and the scale for comparing models."""
        return float(np.average(self.log_densities, weights=self.weights))

    @property
    def mean_error(self) -> float:
        """The mean squared distance of a row from its reconstruction."""
        return float(np.average(self.errors, weights=self.weights))

    @property
    def explained(self) -> float:
        """The share of the squares about the mean that was reconstructed; 0 if there are none."""
        spread = float(np.average(self.spread, weights=self.weights))
        return 1.0 - self.mean_error / spread if spread > 0 else 0.0


def cross_validate(
    model: PrincipalComponents, x: Array, fold: NDArray[np.int64], weights: Array | None = None
) -> HeldOutRows:
    """Score each fold of rows (n, d) by the model of all others, whose moments are those of all less its own.

    Densities are NaN where a model has none: nothing varies in what it leaves over.
    """
    folds = np.unique(fold).tolist()
    if len(folds) < 2:
        raise ValueError(f"got {len(folds)} folds, expected at least 2: the model learns from the others")
    few = len(folds) <= _MANY
    if model.count == "held-out" and not few:
        raise ValueError(f"got {len(folds)} folds with n_components='held-out', expected at most {_MANY}")
    parts = Moments.observe(x, weights, fold if few else None, form="full", exact=model.exact)
    told, errors, spread = np.empty(len(x)), np.empty(len(x)), np.empty(len(x))
    counts = np.empty(len(x), dtype=np.int64)
    for one in folds:
        rows = np.flatnonzero(fold == one)
        own = x[rows]
        if parts.keys is not None:  # the sum of the others is all less this one, to the bit
            found = model.infer_parts([parts.at(key) for key in parts.keys if key != one])
        else:
            weighed = None if weights is None else weights[rows]
            found = model.infer(parts - model.observe(own, weights=weighed))
        along, errors[rows] = found.squares(own)
        told[rows] = np.nan if found.is_flat else found.log_densities_of(along, errors[rows])
        spread[rows] = along.sum(axis=1) + errors[rows]
        counts[rows] = found.count
    return HeldOutRows(told, errors, spread, counts, fold, weights)
