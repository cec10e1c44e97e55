"""Rows left out → what generalised linear models of the others say of them; and a fit as a table of text.

As with logistic models, each fold begins where the model of all rows ended, and one row alone is taken away
by one step of Newton's.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from sklearn.base import clone

from tamis.arrays import Array
from tamis.estimators import answers
from tamis.estimators.generalized_rows import Observed
from tamis.models.linear import generalized
from tamis.models.linear.generalized import HeldOutResponses
from tamis.models.linear.laplace import LinearRows

_NAME = 14  # characters of a name in a table


def held_out(
    face: Any, observed: Observed, folds: int | str | ArrayLike, groups: Any, random_state: Any
) -> HeldOutResponses:
    """See `GeneralizedLinear.cross_validate`."""
    n, kept = observed.table.rows, observed.kept
    if kept is not None:
        folds = folds if np.ndim(folds) == 0 else np.asarray(folds)[kept]
        groups = None if groups is None else np.asarray(groups)[kept]
    fold = answers.fold_of_each(folds, n, None, groups, random_state)
    whole = clone(face)
    whole._fitted = whole._from_nothing(observed, None, None)
    if fold is None:
        scores, variances = _without_each(whole, observed)
        return _told(whole, observed, scores, variances, np.full(n, whole.dispersion_), np.arange(n))
    scores, variances, scatter = np.empty(n), np.empty(n), np.empty(n)
    for number in np.unique(fold).tolist():
        held, rest = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        if not len(rest):
            raise ValueError("got 1 fold, expected at least 2: the model learns from the others")
        model = clone(face)
        model._fitted = model._from_nothing(observed.take(rest), None, None, near=whole._fitted)
        part = observed.take(held)
        scores[held], variances[held] = _answers(model, model._linear_rows(part, model._fitted))
        scatter[held] = model.dispersion_
    return _told(whole, observed, scores, variances, scatter, fold)


def _answers(model: Any, rows: LinearRows) -> tuple[Array, Array]:
    """Scores of rows, and their variances for a dispersion of 1; zeros where no posterior is kept."""
    state = model._fitted
    scores = rows.design.scores(state.posterior.mean)
    scores = scores if rows.offsets is None else scores + rows.offsets
    if state.posterior.precision is None:
        return scores, np.zeros(len(scores))
    return scores, state.posterior.score_variances(rows.design)


def _without_each(whole: Any, observed: Observed) -> tuple[Array, Array]:
    state = whole._fitted
    if state.posterior.precision is None:
        raise ValueError(
            "leaving one row out needs the posterior, got posterior='none': set it to 'full', or folds to a "
            "number"
        )
    rows = whole._linear_rows(observed, state)
    scores, variances = _answers(whole, rows)
    own = np.ones(len(scores)) if rows.weights is None else rows.weights
    slopes = state.response.loss(scores, rows.targets)[1]
    left = np.maximum(1.0 - own * state.response.information(scores) * variances, 1e-12)
    return scores + own * slopes * variances / left, variances / left


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
        said[rows] = generalized.log_likelihoods(response, scores[rows], observed.targets[rows], float(each))
    return HeldOutResponses(
        targets=observed.targets,
        predictions=means,
        std=std,
        log_densities=said,
        fold=fold,
        weights=observed.weights,
        deviances=generalized.deviances(response, scores, observed.targets),
    )


def summary(model: Any, coverage: float) -> str:
    """See `GeneralizedLinear.summary`."""
    state = model._checked()
    low, high = model.coef_interval(coverage)
    lines = [(state.schema.name(j), model.coef_[j], model.coef_std_[j]) for j in range(len(low))]
    ends = list(zip(low.tolist(), high.tolist(), strict=True))
    if state.intercept:
        reach = 0.5 * float((high - low)[0] / model.coef_std_[0]) if model.coef_std_[0] > 0 else 0.0
        level, std = model.intercept_, model.intercept_std_
        lines.insert(0, ("(intercept)", level, std))
        ends.insert(0, (level - reach * std, level + reach * std))
    share = f"{100 * coverage:g} %"
    head = f"{'':{_NAME}}{'coef':>10}{'std err':>10}{'z':>8}{'p':>7}{share + ' from':>12}{'to':>11}"
    found = [_headline(model), "", head]
    for (name, value, std), (begin, end) in zip(lines, ends, strict=True):
        z = value / std if std != 0 else np.inf * np.sign(value) if value else np.nan
        p = 2.0 * float(special.ndtr(-abs(z)))
        said = str(name) if len(str(name)) < _NAME else f"{str(name)[: _NAME - 2]}…"
        found.append(
            f"{said:{_NAME}}{value:>10.4g}{std:>10.3g}{z:>8.2f}{p:>7.3f}{begin:>12.4g}{end:>11.4g}".rstrip()
        )
    return "\n".join(found)


def _headline(model: Any) -> str:
    state = model._fitted
    first = f"{state.response.family}, link {state.response.link}: {state.weight:g} rows"
    second = f"dispersion {state.dispersion:.4g}, deviance {state.deviance:.6g}"
    if np.isnan(state.null_deviance):
        return f"{first}\n{second}"
    third = f"log-likelihood {state.told:.6g}, AIC {model.aic_:.6g}, BIC {model.bic_:.6g}"
    return f"{first}\n{second} (null {state.null_deviance:.6g})\n{third}"
