"""Moments of all folds but one → components → densities and reconstruction errors of that fold's rows."""

from dataclasses import dataclass

import numpy as np

from tamis.arrays import Array
from tamis.models.components.model import Indices, PrincipalComponents, observe_table
from tamis.tables import Table

_CELLS = 1 << 22  # array elements (32 MB) of sparse rows that are made dense at a time
_MAX_FOLDS = 64  # up to this number of folds, the moments of all of them are in memory at once


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Scores of n rows, each under a model that was fitted without the fold of this row; arrays are (n,)."""

    log_densities: Array  # log p(x) of probabilistic PCA
    errors: Array  # ‖x − reconstruction‖²
    spread: Array  # ‖x − mean‖²: the error of a model without components
    counts: Indices  # the number of components of the model
    fold: Indices  # the number of the row's fold, which the model did not learn
    weights: Array | None = None  # the row's weight in the means; None: all are equal

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
    """Score the rows (n, d) of each fold by a model of all other folds; `fold` (n,) has the fold of each row.

    Densities are NaN where the Gaussian of a model has no variance in some direction.
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
    # By fold, or of all rows together.
    moments = observe_table(table, model.exact, weights, fold if has_few_folds else None, cells=_CELLS)
    densities, errors, spread = np.empty(table.rows), np.empty(table.rows), np.empty(table.rows)
    counts = np.empty(table.rows, dtype=np.int64)
    for number in folds:
        fold_rows = np.flatnonzero(fold == number)
        # The sum of the other folds' moments equals all moments minus this fold's, bit for bit.
        if moments.keys is not None:
            components = model.infer_parts([moments.at(key) for key in moments.keys if key != number])
        else:
            components = model.infer(
                moments - observe_table(table, model.exact, weights, rows=fold_rows, cells=_CELLS)
            )
        for rows, x in table.dense_runs(_CELLS, fold_rows):
            squared_codes, errors[rows] = components.compute_squares(x)
            densities[rows] = np.nan
            if not components.is_degenerate:
                densities[rows] = components.log_densities_from_squares(squared_codes, errors[rows])
            spread[rows] = squared_codes.sum(axis=1) + errors[rows]  # by Pythagoras' theorem
        counts[fold_rows] = components.count
    return HeldOutRows(
        log_densities=densities, errors=errors, spread=spread, counts=counts, fold=fold, weights=weights
    )
