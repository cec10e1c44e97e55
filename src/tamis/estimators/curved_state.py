"""What a linear model by Newton's method has learned, and what adds to it or takes from it.

None of this is exact: a posterior is taken for the Gaussian at its top.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tamis.arrays import Array
from tamis.estimators.linear_face import LinearState
from tamis.models.linear.laplace import Curvature, CurvedModel, Laplace, LinearRows, combined, recentred
from tamis.models.linear.objective import GaussianPrior
from tamis.models.linear.removal import remove
from tamis.models.linear.responses import Response

S = TypeVar("S", bound="CurvedState")

_LEAST = 1e-12  # of the weight learned: what is left below that is rounding


@dataclass(frozen=True, slots=True, eq=False)
class CurvedState(LinearState):
    """What a linear model by Newton's method has learned."""

    response: Response
    centre: Array  # (d,): what columns are taken about
    mean: Array  # (d,): of the columns; zeros for sparse rows
    intercept: bool
    prior: GaussianPrior  # as it was before any row was seen
    posterior: Laplace
    evidence: float  # log p(rows); NaN where the prior is improper or no posterior is kept
    weight: float
    iterations: int
    converged: bool
    reach: float  # no row is longer …
    extent: Array  # … and no number in a column larger (width,)
    slack: float  # how far the mean may be from the top, in standard deviations; ∞ if that is unknown
    drift: float  # by how much scores differ, at most, between where the precision was taken and the mean
    before: Laplace | None = None  # the posterior from which rows were removed since
    gone: Curvature | None = None  # these rows, as seen from its mean
    bound: float = np.nan
    shift: float = np.nan

    @property
    def outputs(self) -> Array:
        """Parameters of each output (outputs, width), about the centre."""
        return self.lifted(self.posterior.mean)

    def lifted(self, parameters: Array) -> Array:
        """Parameters (..., D) as those of each output (..., outputs, width)."""
        width = len(self.centre) + self.intercept
        cells = parameters.reshape(*parameters.shape[:-1], -1, width)
        return np.asarray(self.response.contrasts @ cells)

    def about_zero(self, cells: Array) -> tuple[Array, Array]:
        """Coefficients (..., outputs, d) and intercepts (..., outputs) of rows as they are."""
        d = len(self.centre)
        coefficients = cells[..., :d]
        ends = cells[..., d] if self.intercept else np.zeros(cells.shape[:-1])
        return coefficients, ends - coefficients @ self.centre


def continued(fitted: S, after: S) -> S:
    """What was learned with the posterior so far as the prior, as of one model."""
    weight = fitted.weight + after.weight
    return replace(
        after,
        prior=fitted.prior,
        evidence=fitted.evidence + after.evidence,
        mean=fitted.mean + (after.weight / weight) * (after.mean - fitted.mean),
        weight=weight,
        reach=max(fitted.reach, after.reach),
        extent=np.maximum(fitted.extent, after.extent),
        slack=np.inf,  # the rows before are but a Gaussian now: nothing bounds what removing one leaves
    )


def joined(states: Sequence[S]) -> S:
    """What several models have learned, each from rows of its own: their common prior counts once."""
    first = states[0]
    for other in states[1:]:
        _refuse_other_priors(first, other)
    parts = [recentred(state.posterior, first.centre - state.centre, len(first.extent)) for state in states]
    return replace(
        first,
        posterior=combined(parts, [1.0] * len(parts), first.prior),
        evidence=np.nan,
        weight=sum(state.weight for state in states),
        reach=max(state.reach for state in states),
        extent=np.maximum.reduce([state.extent for state in states]),
        slack=np.inf,
        before=None,
        gone=None,
        bound=np.nan,
        shift=np.nan,
    )


def _refuse_other_priors(one: CurvedState, other: CurvedState) -> None:
    if not (
        np.array_equal(one.prior.mean, other.prior.mean)
        and np.array_equal(one.prior.precision, other.prior.precision)
    ):
        raise ValueError("the models have other priors, expected the same: fit them alike")


def without(state: S, rows: LinearRows) -> S:
    """Less these rows, by one step of Newton's from where the model was fitted."""
    if state.weight - rows.weight <= _LEAST * state.weight:
        raise ValueError(
            f"got rows of weight {rows.weight:g} to take from {state.weight:g}, expected fewer than were "
            "learned: nothing was changed"
        )
    before = state.posterior if state.before is None else state.before
    model = CurvedModel(state.response, GaussianPrior(before.mean, np.zeros_like(before.mean)))
    gone = model.observe(rows, before)
    gone = gone if state.gone is None else state.gone + gone
    removal = remove(before, gone, state.reach, state.extent, state.slack, state.response, state.drift)
    return replace(
        state,
        posterior=removal.posterior,
        evidence=np.nan,
        weight=state.weight - rows.weight,
        before=before,
        gone=gone,
        bound=removal.bound,
        shift=removal.shift,
    )
