"""What a generalised linear model has learned, and what adds to it.

Pearson's squares, the deviance and the degrees of freedom add over parts, but for what each part lacks
because the coefficients have moved since; that is known to second order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.estimators.curved_state import CurvedState, continued, joined
from tamis.estimators.linear_warnings import SeparationWarning
from tamis.models.linear import generalized
from tamis.models.linear.fitting import Fit
from tamis.models.linear.laplace import Laplace, LinearRows, log_evidence, recentred
from tamis.models.linear.objective import GaussianPrior
from tamis.models.linear.responses import Response
from tamis.schema import Schema
from tamis.warning import warn


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GeneralizedState(CurvedState):
    """What a generalised linear model has learned; the posterior is for a dispersion of 1."""

    dispersion: float
    deviance: float
    pearson: float
    freedom: float  # degrees of freedom left
    effective: float  # parameters that the rows determine
    null_deviance: float  # NaN if the rows came in parts
    told: float  # log-likelihood; NaN if the rows came in parts

    def explained(self, scores: Array, rows: LinearRows) -> float:
        """The share of the deviance of an intercept alone that these scores explain."""
        own = self.response.deviances(scores, rows.targets)
        null = self.response.null_scores(rows.targets, rows.weights, rows.offsets)
        most = generalized.summed(self.response.deviances(null, rows.targets), rows.weights)
        left = generalized.summed(own, rows.weights)
        if most > 0:
            return 1.0 - left / most
        return 1.0 if left <= 0 else 0.0


def fitted_to(
    rows: LinearRows, response: Response, found: Fit, scatter: str | float, parts: bool
) -> dict[str, Any]:
    """What the state holds of the fit beyond the posterior, and scores; less where rows are only a part."""
    weights, targets = rows.weights, rows.targets
    scores = generalized.scores_of(rows, found.posterior.mean)
    deviance = generalized.summed(response.deviances(scores, targets), weights)
    pearson = generalized.summed(response.squared_residuals(scores, targets), weights)
    weight = float(len(targets)) if weights is None else float(weights.sum())
    effective = generalized.effective(found.posterior, found.prior)
    freedom = weight - effective
    dispersion = _dispersion(scatter, response, pearson, deviance, weight, freedom)
    shown: dict[str, Any] = {
        "dispersion": dispersion,
        "deviance": deviance,
        "pearson": pearson,
        "freedom": freedom,
        "effective": effective,
        "null_deviance": np.nan,
        "told": np.nan,
        "evidence": np.nan,
        "scores": scores,
    }
    if parts:
        return shown
    null = response.null_scores(targets, weights, rows.offsets)
    shown["null_deviance"] = generalized.summed(response.deviances(null, targets), weights)
    # Profiled: as statsmodels has it, at the likeliest dispersion
    is_profiled = response.is_profiled and isinstance(scatter, str)
    profiled = max(deviance, 0.0) / weight if is_profiled else dispersion
    likelihoods = response.log_likelihoods(scores, targets, profiled)
    shown["told"] = generalized.summed(likelihoods, weights)
    if dispersion > 0 and found.posterior.precision is not None:
        own = response.log_likelihoods(scores, targets, dispersion)
        posterior = Laplace(found.posterior.mean, found.posterior.precision / dispersion)
        prior = GaussianPrior(found.prior.mean, found.prior.precision / dispersion)
        if found.prior.diagonal.any():
            shown["evidence"] = log_evidence(generalized.summed(own, weights), posterior, prior)
    return shown


def _dispersion(
    scatter: str | float, response: Response, pearson: float, deviance: float, weight: float, freedom: float
) -> float:
    if not isinstance(scatter, str):
        return scatter
    return generalized.dispersion(scatter, response, pearson, deviance, weight, freedom)


def added(fitted: GeneralizedState, after: GeneralizedState, scatter: str | float) -> GeneralizedState:
    """What was learned with the posterior so far as the prior, as of one model."""
    moved = generalized.lack(fitted.posterior, fitted.prior, after.posterior.mean)
    whole = replace(continued(fitted, after), evidence=np.nan)
    return _pooled(whole, [fitted, after], moved, after.weight, fitted.freedom + fitted.effective, scatter)


def merged(states: Sequence[GeneralizedState], scatter: str | float) -> GeneralizedState:
    """What several models have learned, each from rows of its own."""
    first = states[0]
    for state in states[1:]:
        if state.response != first.response:
            raise ValueError(
                f"got a model of {state.response.family} by {state.response.link}, expected "
                f"{first.response.family} by {first.response.link}: merge models of one kind"
            )
        if state.intercept != first.intercept:
            raise ValueError("got models with and without an intercept, expected all alike")
    whole = joined(states)
    width, moved = len(first.extent), 0.0
    for state in states:
        part = recentred(state.posterior, first.centre - state.centre, width)
        moved += generalized.lack(part, first.prior, whole.posterior.mean)
    seen = sum(state.freedom + state.effective for state in states)
    return _pooled(whole, states, moved, 0.0, seen, scatter)


def _pooled(
    whole: GeneralizedState,
    parts: Sequence[GeneralizedState],
    moved: float,
    more: float,
    seen: float,
    scatter: str | float,
) -> GeneralizedState:
    pearson = sum(part.pearson for part in parts) + moved
    deviance = sum(part.deviance for part in parts) + moved
    effective = generalized.effective(whole.posterior, whole.prior)
    freedom = seen + more - effective
    return replace(
        whole,
        pearson=pearson,
        deviance=deviance,
        effective=effective,
        freedom=freedom,
        dispersion=_dispersion(scatter, whole.response, pearson, deviance, whole.weight, freedom),
        null_deviance=np.nan,
        told=np.nan,
    )


def decayed(before: GeneralizedState, after: GeneralizedState, factor: float) -> GeneralizedState:
    """All that was summed counts less; the dispersion is what it was."""
    return replace(
        after,
        pearson=factor * before.pearson,
        deviance=factor * before.deviance,
        freedom=factor * before.freedom,
        effective=generalized.effective(after.posterior, after.prior),
        null_deviance=np.nan,
        told=np.nan,
    )


def told_of_end(rows: LinearRows, response: Response, found: Fit, scores: Array, schema: Schema) -> Fit:
    """The fit; with a warning, and not converged, if targets of 0 or less leave it without an optimum."""
    columns = generalized.without_an_end(rows, response, found.prior, found.posterior, scores)
    if columns is None:
        return found
    named = ", ".join(repr(schema.name(int(j))) for j in columns[:5])
    said = f"column {named} says" if len(columns) == 1 else f"columns {named} say"
    warn(
        f"{response.vanishing_targets} wherever {said} so, so that without a prior "
        "coefficients grow for ever and those found mean nothing: "
        f"set alpha above 0{response.vanishing_advice}",
        SeparationWarning,
    )
    return replace(found, converged=False)


def told_of_scatter(state: GeneralizedState) -> GeneralizedState:
    """The state; with a warning if it leaves nothing to estimate a dispersion from."""
    if np.isnan(state.dispersion):
        warn(
            f"rows of weight {state.weight:g} determine {state.effective:g} coefficients and leave nothing "
            "for the dispersion, so that it and standard errors are NaN: learn more rows, or set dispersion",
            UserWarning,
        )
    return state
