"""A regression → what it says of rows it never saw, of its coefficients; and how many draws to take."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array
from tamis.estimators import answers
from tamis.estimators.coefficient_summary import CoefficientSummary, summarize
from tamis.models.linear import (
    BayesianLinear,
    HeldOutNumbers,
    LinearPosterior,
    cross_validate,
    leave_one_out,
)
from tamis.schema import Schema


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
    n, kept = len(rows), None if weights is None or weights.all() else np.flatnonzero(weights)
    fold = fold_of_kept(folds, groups, n, kept, random_state)
    if weights is not None and kept is not None:
        rows, targets, weights = rows[kept], targets[kept], weights[kept]
    if fold is None:
        return leave_one_out(model, rows, targets, weights)
    return cross_validate(model, rows, targets, fold, weights)


def fold_of_kept(
    folds: int | str | ArrayLike, groups: Any, rows: int, kept: NDArray[np.int64] | None, random_state: Any
) -> NDArray[np.int64] | None:
    """The fold of each row that is kept among all that were passed; None to leave out one at a time."""
    if kept is not None:
        folds = folds if np.ndim(folds) == 0 else _each(folds, rows, "folds")[kept]
        groups = None if groups is None else _each(groups, rows, "groups")[kept]
    fold = answers.fold_of_each(folds, rows if kept is None else len(kept), None, groups, random_state)
    if fold is not None and len(np.unique(fold)) < 2:
        raise ValueError("got 1 fold, expected at least 2: the model learns from the others")
    return fold


def _each(given: Any, rows: int, name: str) -> NDArray[Any]:
    found = np.asarray(given)
    if found.shape != (rows,):
        raise ValueError(f"got {name} of shape {found.shape} for {rows} rows, expected one per row")
    return found


def number(n_samples: object) -> int:
    """How many draws, checked."""
    found = float(n_samples) if isinstance(n_samples, Real) else np.nan
    if not 1.0 <= found < np.inf or not found.is_integer():
        raise ValueError(f"got n_samples={n_samples!r}, expected a whole number of at least 1")
    return int(found)


def summarize_posterior(
    posterior: LinearPosterior, schema: Schema, intercept: bool, weight: float, coverage: float
) -> CoefficientSummary:
    """A table of the coefficients; by Student's t if the noise is unknown, with the scale as its error."""
    several = len(posterior.level) > 1
    errors = np.sqrt(posterior.variances / posterior.beta[:, None])
    level = posterior.leverage(np.zeros((1, len(posterior.centre))))[0]
    ends = (posterior.intercept, np.sqrt(level / posterior.beta)) if intercept else None
    outputs = ("target", range(len(posterior.level))) if several else None
    degrees = None if posterior.noise is None else 2.0 * posterior.noise.shape
    headline = f"linear regression: {weight:g} rows"
    if several:
        headline += f", {len(posterior.level)} targets"
    else:
        headline += f"\nstandard deviation of the noise {1.0 / np.sqrt(posterior.beta[0]):.4g}"
        if posterior.log_evidence is not None:
            headline += f", log-evidence {posterior.log_evidence[0]:.6g}"
    return summarize(headline, schema, posterior.mean, errors, ends, coverage, outputs, degrees)
