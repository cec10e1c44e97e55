"""Moments − part → components → score: what models say of rows they have not seen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array, Matrix
from tamis.models.components.model import PrincipalComponents
from tamis.stats import Moments
from tamis.tables import Table

Indices = NDArray[np.int64]
_CELLS = 1 << 22  # of sparse rows that are dense at a time: 32 MB
_MANY = 64  # folds up to which the moments of all are held at once


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """What models that had not seen the rows said of them (n,)."""

    log_densities: Array  # log p(x) of probabilistic PCA
    errors: Array  # ‖x − reconstruction‖²
    spread: Array  # ‖x − mean‖²: the error of no components at all
    counts: Indices  # how many directions the model had
    fold: Indices  # the part that was left out
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
    model: PrincipalComponents, data: object, fold: Indices, weights: Array | None = None
) -> HeldOutRows:
    """Score each fold of rows (n, d) by the model of all others, whose moments are those of all less its own.

    Densities are NaN where a model has none: nothing varies in what it leaves over.
    """
    table = Table.of(data)
    folds = np.unique(fold).tolist()
    if len(folds) < 2:
        raise ValueError(f"got {len(folds)} folds, expected at least 2: the model learns from the others")
    few = len(folds) <= _MANY
    if model.count == "held-out" and not few:
        raise ValueError(f"got {len(folds)} folds with n_components='held-out', expected at most {_MANY}")
    parts = _observed(model, table, slice(None), fold if few else None, weights)
    told, errors, spread = np.empty(table.rows), np.empty(table.rows), np.empty(table.rows)
    counts = np.empty(table.rows, dtype=np.int64)
    for one in folds:
        own = np.flatnonzero(fold == one)
        if parts.keys is not None:  # the sum of the others is all less this one, to the bit
            found = model.infer_parts([parts.at(key) for key in parts.keys if key != one])
        else:
            found = model.infer(parts - _observed(model, table, own, None, weights))
        for rows, x in table.blocks(_CELLS, own):
            along, errors[rows] = found.squares(x)
            told[rows] = np.nan if found.is_flat else found.log_densities_of(along, errors[rows])
            spread[rows] = along.sum(axis=1) + errors[rows]
        counts[own] = found.count
    return HeldOutRows(told, errors, spread, counts, fold, weights)


def _observed(
    model: PrincipalComponents,
    table: Table,
    rows: Indices | slice,
    fold: Indices | None,
    weights: Array | None,
) -> Moments:
    """The moments of these rows, by fold if folds are given; of sparse ones, a block at a time."""
    total: Moments | None = None
    for block, x in table.blocks(_CELLS, rows):
        by, own = None if fold is None else fold[block], None if weights is None else weights[block]
        part = Moments.observe(Matrix(x, table.names), own, by, form="full", exact=model.exact)
        total = part if total is None else total + part
    assert total is not None
    return total
