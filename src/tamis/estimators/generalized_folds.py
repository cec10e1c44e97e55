"""Rows left out → what generalised linear models of the others say of them.

As with logistic models, each fold begins where the model of all rows ended, and one row alone is taken away
by one step of Newton's.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tamis.arrays import Array
from tamis.estimators.generalized_rows import Observed
from tamis.models.linear import generalized
from tamis.models.linear.generalized import HeldOutResponses
from tamis.models.linear.laplace import LinearRows
from tamis.models.linear.responses import leave_out_scores


def held_out(face: Any, observed: Observed, fold: NDArray[np.int64] | None) -> HeldOutResponses:
    """See `GeneralizedLinear.cross_validate`; without folds, one row at a time is left out."""
    n = observed.table.rows
    whole = clone(face)
    whole._fitted = whole._from_nothing(observed, None, None)
    if fold is None:
        scores, variances = _without_each(whole, observed)
        return _told(whole, observed, scores, variances, np.full(n, whole.dispersion_), np.arange(n))
    scores, variances, scatter = np.empty(n), np.empty(n), np.empty(n)
    for number in np.unique(fold).tolist():
        held, rest = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        model = clone(face)
        model._fitted = model._from_nothing(observed.take(rest), None, None, near=whole._fitted)
        part = observed.take(held)
        scores[held], variances[held] = _answers(model, model._linear_rows(part, model._fitted))
        scatter[held] = model.dispersion_
    return _told(whole, observed, scores, variances, scatter, fold)


def _answers(model: Any, rows: LinearRows) -> tuple[Array, Array]:
    """Scores of rows, and their variances for a dispersion of 1; zeros where no posterior is kept."""
    state = model._fitted
    scores = generalized.scores_of(rows, state.posterior.mean)
    if state.posterior.precision is None:
        return scores, np.zeros(len(scores))
    return scores, state.posterior.score_variances(rows.design)


def _without_each(whole: Any, observed: Observed) -> tuple[Array, Array]:
    state = whole._fitted
    if state.posterior.precision is None or state.posterior.is_diagonal:
        raise ValueError(
            f"leaving one row out needs the whole posterior, got posterior={whole.posterior!r} of "
            f"{len(state.posterior.mean)} parameters: set it to 'full', or folds to a number"
        )
    rows = whole._linear_rows(observed, state)
    scores, variances = _answers(whole, rows)
    own = np.ones(len(scores)) if rows.weights is None else rows.weights
    return leave_out_scores(state.response, scores, rows.targets, own, variances)


def _told(
    model: Any, observed: Observed, scores: Array, variances: Array, scatter: Array, fold: Any
) -> HeldOutResponses:
    response = model._fitted.response
    with np.errstate(over="ignore", invalid="ignore"):
        means = response.mean(scores)
        # d mean / d score is √(information · variance), for every link
        spread = response.information(scores) * response.variance(means) * variances
        std = np.sqrt(scatter * (response.variance(means) + spread))
    said = np.empty(len(scores))
    for each in np.unique(scatter):
        rows = (scatter == each) | (np.isnan(scatter) & np.isnan(each))
        said[rows] = response.log_likelihoods(scores[rows], observed.targets[rows], float(each))
    return HeldOutResponses(
        targets=observed.targets,
        predictions=means,
        std=std,
        log_densities=said,
        fold=fold,
        weights=observed.weights,
        deviances=response.deviances(scores, observed.targets),
    )
