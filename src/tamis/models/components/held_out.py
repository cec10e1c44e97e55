"""Moments without one fold → components → the density and the reconstruction error of this fold's rows."""

from dataclasses import dataclass

import numpy as np

from tamis.arrays import Array
from tamis.models.components.model import Indices, PrincipalComponents, observe_table
from tamis.tables import Table

_CELLS = 1 << 22  # array elements (32 MB) of sparse rows that are made dense at a time
_MAX_FOLDS = 64  # up to this number of folds, the moments of all of them are in memory at once


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Scores of rows (n,), each under a model that was fitted without the fold of this row."""

    log_densities: Array  # log p(x) of probabilistic PCA
    errors: Array  # ‖x − reconstruction‖²
    spread: Array  # ‖x − mean‖²: the error of a model without components
    counts: Indices  # the number of components of the model
    fold: Indices  # the fold of the row, which the model did not learn
    weights: Array | None = None  # of the rows, by which means are weighted

    @property
    def mean_log_density(self) -> float:
        """The mean of `log_densities`; of two models, the better one has the larger mean."""
        return float(np.average(self.log_densities, weights=self.weights))

    @property
    def mean_error(self) -> float:
        """The mean squared distance of a row from its reconstruction."""
        return float(np.average(self.errors, weights=self.weights))

    @property
    def explained(self) -> float:
        """The fraction of the variance that the components reconstruct; 0 if the rows do not vary."""
        spread = float(np.average(self.spread, weights=self.weights))
        return 1.0 - self.mean_error / spread if spread > 0 else 0.0


def cross_validate(
    model: PrincipalComponents, data: object, fold: Indices, weights: Array | None = None
) -> HeldOutRows:
    """Score each fold of rows (n, d) by the model of all other folds, whose moments are all minus the fold's.

    Densities are NaN where a model has a direction without variance.
    """
    table = Table.of(data)
    folds = np.unique(fold).tolist()
    if len(folds) < 2:
        raise ValueError(f"got {len(folds)} folds, expected at least 2: the model learns from the others")
    has_few_folds = len(folds) <= _MAX_FOLDS
    if model.count == "held-out" and not has_few_folds:
        raise ValueError(
            f"got {len(folds)} folds with n_components='held-out', expected at most {_MAX_FOLDS}"
        )
    parts = observe_table(table, model.exact, weights, fold if has_few_folds else None, cells=_CELLS)
    densities, errors, spread = np.empty(table.rows), np.empty(table.rows), np.empty(table.rows)
    counts = np.empty(table.rows, dtype=np.int64)
    for number in folds:
        fold_rows = np.flatnonzero(fold == number)
        # The sum of the other folds' moments equals all moments minus this fold's, bit for bit.
        if parts.keys is not None:
            components = model.infer_parts([parts.at(key) for key in parts.keys if key != number])
        else:
            components = model.infer(
                parts - observe_table(table, model.exact, weights, rows=fold_rows, cells=_CELLS)
            )
        for rows, x in table.dense_runs(_CELLS, fold_rows):
            squared_codes, errors[rows] = components.compute_squares(x)
            densities[rows] = np.nan
            if not components.is_degenerate:
                densities[rows] = components.log_densities_from_squares(squared_codes, errors[rows])
            spread[rows] = squared_codes.sum(axis=1) + errors[rows]
        counts[fold_rows] = components.count
    return HeldOutRows(densities, errors, spread, counts, fold, weights)
