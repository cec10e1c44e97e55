"""Rows left out → what logistic models of the others say of them.

Newton's method has no subtraction. But the model of all rows is near that of all but a few, so that each
fold takes few steps from there; and all but one row are so near that one step will do.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from tamis import validate
from tamis.arrays import Array
from tamis.estimators import answers
from tamis.inputs import read_first_table, read_weights
from tamis.models.linear.laplace import LinearRows
from tamis.stats import Labels
from tamis.tables import Table, runs

_CELLS = 1 << 21  # of covariances of scores, in memory at a time


def held_out(
    face: Any,
    X: object,
    y: object,
    folds: int | str | ArrayLike,
    sample_weight: object,
    groups: Any,
    random_state: Any,
) -> validate.HeldOut:
    """See `LogisticRegression.cross_validate`."""
    table, _ = read_first_table(X, face._sparse)
    filed = face._labels(y, table.rows)
    weighed = read_weights(sample_weight, table.rows)
    fold = answers.fold_of_each(folds, table.rows, filed.group, groups, random_state)
    whole = clone(face).fit(X, y, sample_weight)
    if fold is None:
        joint = _without_each(whole, table, filed, weighed)
        return validate.HeldOut(filed.keys, joint, filed.group, np.arange(table.rows), weighed)
    joint = np.full((table.rows, len(filed.keys)), -np.inf)
    for number in np.unique(fold).tolist():
        held, rest = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        model = _refitted(whole, table, filed, weighed, rest)
        joint[np.ix_(held, filed.keys.find(model.state_.keys))] = model.predict_log_proba(table.take(held))
    return validate.HeldOut(filed.keys, joint, filed.group, fold, weighed)


def _refitted(whole: Any, table: Table, filed: Labels, weighed: Array | None, rows: NDArray[np.int64]) -> Any:
    """A model of these rows, which begins where that of all rows ended if it has all their classes."""
    group = filed.group[rows]
    present = np.bincount(group, minlength=len(filed.keys)) > 0
    own = Labels(filed.keys.keep(present), (np.cumsum(present) - 1)[group])
    model = clone(whole)
    state = whole.state_
    start = state if present.all() else None
    model._fitted = model._from_nothing(
        table.take(rows), state.schema, own, None if weighed is None else weighed[rows], None, None, start
    )
    return model


def _without_each(whole: Any, table: Table, filed: Labels, weighed: Array | None) -> Array:
    """log p(class | x) of each row by the model of all others, by one step of Newton's (n, K)."""
    state = whole.state_
    if state.posterior.precision is None or state.posterior.is_diagonal:
        raise ValueError(
            f"got posterior={whole.posterior!r}: leave-one-out needs the whole posterior, expected "
            "posterior='full' or a number of folds"
        )
    rows: LinearRows = whole._rows_of(table, filed, weighed, state)
    scores = rows.design.scores(state.outputs)
    weight = np.ones(len(scores)) if rows.weights is None else rows.weights
    response = state.response
    if response.outputs == 1:
        variances = state.posterior.score_variances(rows.design)
        return response.log_probabilities(response.leave_out(scores, rows.targets, weight, variances))
    covariance, left_out = state.posterior.covariance(), np.empty_like(scores)
    for part in runs(len(scores), max(rows.design.width, 6 * response.classes**2), _CELLS):
        own = state.posterior.score_covariances(rows.design.take(part), response, covariance)
        left_out[part] = response.leave_out(scores[part], rows.targets[part], weight[part], own)
    return response.log_probabilities(left_out)
