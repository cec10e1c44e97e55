"""Update a fitted linear model: with more rows, with other models, or without some of its rows.

These updates are not exact: a posterior is approximated by the Gaussian at its mode. Rows are removed by one
Newton step from the fitted parameters, and the distance to the exact solution is bounded. All rows removed
since the fit are evaluated at the same point, so that their sums can be added in any order. The gradient
after the step is bounded because the information of a logistic loss changes at most by the factor exp(|change
of score|) (self-concordance, Bach 2010). Guo et al. (2020) call such a step certified removal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tamis.arrays import Array
from tamis.linalg import Cholesky
from tamis.models.linear.design import Design
from tamis.models.linear.fitting import Fit
from tamis.models.linear.laplace import Curvature, Laplace, LaplaceModel, combine, log_evidence, recentre
from tamis.models.linear.objective import GaussianPrior, LinearRows, bound_score_change
from tamis.models.linear.responses import Response

F = TypeVar("F", bound="FittedLinear")

_MIN_REMAINDER = 1e-12  # a remaining weight below this fraction of the learned weight is a rounding error
# After posteriors are combined or weights change, these fields are unknown, and rows cannot be removed.
_UNKNOWN: dict[str, Any] = {
    "log_evidence": np.nan,
    "distance_from_mode": np.inf,
    "original": None,
    "removed": None,
    "bound": np.nan,
    "shift": np.nan,
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FittedLinear:
    """A linear model fitted by Newton's method, with what later updates need to know of its rows."""

    response: Response
    centre: Array  # (d,): subtracted from the columns
    mean: Array  # (d,): of the columns of all rows; zeros for sparse rows
    intercept: bool
    prior: GaussianPrior  # before any row was seen
    posterior: Laplace
    # NaN if the prior is improper, if no precision is stored, and after models were merged, weights were
    # multiplied or rows were removed.
    log_evidence: float
    weight: float  # of all rows
    iterations: int
    converged: bool
    reach: float  # the largest norm of a row
    extent: Array  # (width,): the largest magnitude in each column
    distance_from_mode: float  # an upper bound on that of the mean, in standard deviations; ∞ if unknown
    drift: float  # the largest change of a score from the point where the precision was computed to the mean
    original: Laplace | None = None  # the posterior before any row was removed
    removed: Curvature | None = None  # of the removed rows, at the mean of `original`
    # One step removes all rows that were removed since the fit. `bound` is a bound on its error, and `shift`
    # is its length, both in standard deviations; NaN if no row was removed.
    bound: float = np.nan
    shift: float = np.nan

    @property
    def parameters_by_output(self) -> Array:
        """The parameters of each output (outputs, width), for columns minus the centre."""
        return self.expand(self.posterior.mean)

    def expand(self, parameters: Array) -> Array:
        """Convert parameters (..., D) to those of each output (..., outputs, width)."""
        width = len(self.centre) + self.intercept
        return np.asarray(self.response.expansion @ parameters.reshape(*parameters.shape[:-1], -1, width))

    @property
    def coefficients(self) -> tuple[Array, Array]:
        """The coefficients (outputs, d), and the intercepts (outputs,) for columns that are not centred."""
        by_output, d = self.parameters_by_output, len(self.centre)
        intercepts = by_output[:, d] if self.intercept else np.zeros(len(by_output))
        return by_output[:, :d], intercepts - by_output[:, :d] @ self.centre

    def covariance(self) -> tuple[Array, Array]:
        """Return the covariance of the coefficients, and the variances of the intercepts (outputs,).

        The covariance is (outputs · d, outputs · d) or, if only a diagonal precision is stored, the variances
        (outputs · d,).
        """
        d, covariance, expansion = len(self.centre), self.posterior.covariance(), self.response.expansion
        (k, m), width = expansion.shape, d + self.intercept
        if covariance.ndim == 1:
            variances = np.square(expansion) @ covariance.reshape(m, width)
            intercepts = variances[:, d] if self.intercept else 0.0
            return variances[:, :d].ravel(), variances[:, :d] @ np.square(self.centre) + intercepts
        by_vector = covariance.reshape(m, width, m, width)  # of the m vectors that the parameters are
        by_output = np.einsum("ka,aibj,lb->kilj", expansion, by_vector, expansion, optimize=True)
        at_zero = np.concatenate([-self.centre, np.ones(1)])[:width]  # the row x = 0, minus the centre
        intercepts = np.einsum("i,kikj,j->k", at_zero, by_output, at_zero)
        return np.ascontiguousarray(by_output[:, :d, :, :d]).reshape(k * d, k * d), intercepts


def keep_fit(
    rows: LinearRows, response: Response, fit: Fit, log_likelihood: float, can_remove: bool
) -> FittedLinear:
    """Store what later updates need of a fit.

    With `can_remove`, and if the full posterior is stored, it includes the sizes of rows that bound the error
    of a later removal.
    """
    reach, extent, drift = np.inf, np.full(rows.design.width, np.inf), 0.0
    if can_remove and fit.posterior.is_full:
        reach, extent = rows.design.find_reach_and_extent()
        drift = bound_score_change(fit.displacement, reach, extent, response)
    return FittedLinear(
        response=response,
        centre=rows.design.centre,
        mean=rows.design.column_means(rows.weights),
        intercept=rows.design.intercept,
        prior=fit.prior,
        posterior=fit.posterior,
        log_evidence=_log_evidence(log_likelihood, fit, rows.design),
        weight=rows.weight,
        iterations=fit.iterations,
        converged=fit.converged,
        reach=reach,
        extent=extent,
        distance_from_mode=fit.distance_from_mode,
        drift=drift,
    )


def _log_evidence(log_likelihood: float, fit: Fit, design: Design) -> float:
    """Return the log-evidence; NaN if no precision is stored, or if a coefficient has a flat prior."""
    precisions = fit.prior.diagonal.reshape(-1, design.width)[:, : design.columns]
    if fit.posterior.precision is None or not precisions.all():
        return float("nan")
    return log_evidence(log_likelihood, fit.posterior, fit.prior)


def continue_fit(before: F, after: F) -> F:
    """Return the model of all rows, where `after` was fitted with the posterior of `before` as its prior."""
    weight = before.weight + after.weight
    return replace(
        after,
        prior=before.prior,
        log_evidence=before.log_evidence + after.log_evidence,
        mean=before.mean + (after.weight / weight) * (after.mean - before.mean),
        weight=weight,
        reach=max(before.reach, after.reach),
        extent=np.maximum(before.extent, after.extent),
        distance_from_mode=np.inf,  # earlier rows are approximated by a Gaussian: removing one has no bound
    )


def merge_fits(fits: Sequence[F]) -> F:
    """Merge models that were fitted to different rows; their common prior counts once."""
    first = fits[0]
    for other in fits[1:]:
        if not (
            np.array_equal(first.prior.mean, other.prior.mean)
            and np.array_equal(first.prior.precision, other.prior.precision)
        ):
            raise ValueError("the models have different priors, expected the same: fit them alike")
    parts = [recentre(fit.posterior, first.centre - fit.centre, len(first.extent)) for fit in fits]
    weight = sum(fit.weight for fit in fits)
    return replace(
        first,
        posterior=combine(parts, [1.0] * len(parts), first.prior),
        mean=first.mean + sum((fit.weight / weight) * (fit.mean - first.mean) for fit in fits),
        weight=weight,
        reach=max(fit.reach for fit in fits),
        extent=np.maximum.reduce([fit.extent for fit in fits]),
        **_UNKNOWN,
    )


def decay_fit(fit: F, factor: float) -> F:
    """Multiply the weights of all learned rows by `factor`."""
    return replace(
        fit,
        posterior=combine([fit.posterior], [factor], fit.prior),
        weight=fit.weight * factor,
        **_UNKNOWN,
    )


def remove_rows(fit: F, rows: LinearRows) -> F:
    """Remove rows by one step of Newton's method from the fitted parameters; see `remove`."""
    if fit.weight - rows.weight <= _MIN_REMAINDER * fit.weight:
        raise ValueError(
            f"got rows of weight {rows.weight:g} to take from {fit.weight:g}, expected fewer than were "
            "learned: nothing was changed"
        )
    original = fit.posterior if fit.original is None else fit.original
    model = LaplaceModel(fit.response, GaussianPrior(original.mean, np.zeros_like(original.mean)))
    removed = model.observe(rows, original)
    removed = removed if fit.removed is None else fit.removed + removed
    removal = remove(
        original, removed, fit.reach, fit.extent, fit.distance_from_mode, fit.response, fit.drift
    )
    weight, mean = fit.weight - rows.weight, fit.mean
    if rows.weight > 0 and mean.any() and not rows.design.is_sparse:
        mean = mean + (rows.weight / weight) * (mean - rows.design.column_means(rows.weights))
    return replace(
        fit,
        mean=mean,
        posterior=removal.posterior,
        log_evidence=np.nan,
        weight=weight,
        original=original,
        removed=removed,
        bound=removal.bound,
        shift=removal.shift,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Removal:
    """The posterior after one Newton step, and a bound on its distance from the exact solution."""

    posterior: Laplace
    shift: float  # the length of the step, in standard deviations of the new posterior
    # An upper bound on the norm of the remaining gradient in the metric of the new precision. To first order
    # it is the distance from the exact solution, in standard deviations.
    bound: float


def remove(
    posterior: Laplace,
    removed: Curvature,
    reach: float,
    extent: Array,
    distance_from_mode: float,
    response: Response,
    drift: float = 0.0,
) -> Removal:
    """Remove rows whose curvature at the posterior's mean is `removed`.

    The norms of all learned rows are at most `reach`, and the magnitudes in their columns at most `extent`.
    `distance_from_mode` is an upper bound on that of the posterior's mean, in standard deviations. `drift` is
    an upper bound on the change of scores from the point where the precision was computed to the mean.
    """
    if posterior.precision is None or not posterior.is_full:
        raise ValueError("removing rows needs the full posterior, expected a model with posterior='full'")
    precision = posterior.precision - removed.information
    factor, definite = Cholesky.factorise_definite(precision)
    if not bool(definite):
        raise ValueError(
            "what is left would not determine the coefficients, expected rows that were learned and more: "
            "nothing was changed"
        )
    step = factor.solve(removed.gradient[:, None])[:, 0]
    shift = float(np.sqrt(step @ precision @ step))
    change = bound_score_change(step, reach, extent, response)
    # The step is δ, and R = `change`. The remaining gradient ‖∇(θ + δ)‖ is at most ‖δ‖ times the integral of
    # e^{drift + tR} − 1 for t from 0 to 1, both norms in the metric of the precision after the removal.
    # `mean_exponential` is the integral of e^{tR} or, for a small R, a number that is slightly larger.
    mean_exponential = 1.0 + 0.5 * change * (1.0 + change) if change < 1e-4 else np.expm1(change) / change
    # The largest eigenvalue of the precision before the removal, in the metric of that after it.
    ratio = float(np.linalg.norm(factor.whiten(factor.whiten(posterior.precision).T), 2))
    # The last term: the precision was computed at another point than the information of the removed rows.
    growth = np.exp(drift) * mean_exponential - 1.0 + np.expm1(drift) * ratio
    bound = float(growth * shift + distance_from_mode * np.sqrt(ratio))
    return Removal(Laplace(removed.at + step, precision), shift, bound)
