"""Rows and a response → where to begin, and how well a fit does: what generalised linear models need besides.

Losses are for a dispersion of 1, and the prior is in units of it: the dispersion φ changes neither the top
nor its shape, and is estimated afterwards. The posterior's covariance is φ times the inverse precision.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.models.linear.feasibility import find_interior
from tamis.models.linear.fitting import Fit
from tamis.models.linear.held_out import HeldOutNumbers
from tamis.models.linear.laplace import Laplace, LinearRows
from tamis.models.linear.newton import WHOLE, minimise
from tamis.models.linear.objective import GaussianPrior, Objective
from tamis.models.linear.responses import Gaussian, Response
from tamis.models.linear.unbounded import find_unbounded_columns

_ALIKE = 1e-12  # of the targets: what is left of them without their mean is rounding, they are all alike


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeldOutResponses(HeldOutNumbers):
    """What generalised linear models that had not seen the rows said of them."""

    deviances: Array  # (n,): of each row, for a dispersion of 1

    @property
    def mean_deviance(self) -> float:
        """The mean of `deviances`: the smaller, the better."""
        return self._mean(self.deviances)


# ── rows and scores → how well they agree ──


def scores_of(rows: LinearRows, parameters: Array) -> Array:
    """Scores of rows (n,), their offsets added."""
    scores = rows.design.scores(parameters)
    return scores if rows.offsets is None else scores + rows.offsets


def summed(values: Array, weights: Array | None) -> float:
    """Σ weight · value."""
    return float(values.sum() if weights is None else weights @ values)


# ── rows → a level, and a start ──


def begin(rows: LinearRows, response: Response, prior: GaussianPrior, near: Array | None = None) -> Array:
    """Parameters at which every score is in the link's range, and not far from where it should be.

    They are `near`, the parameters of a model of other rows, if these rows are in range there too.
    """
    objective = Objective(rows.design, rows.targets, response, prior, rows.weights, rows.offsets)
    if near is not None and np.isfinite(objective.value_and_gradient(near)[0]):
        return near
    start, design = prior.mean.copy(), rows.design
    base = rows.offsets
    if start.any():
        base = design.scores(start) + (0.0 if base is None else base)
    if design.intercept:
        found = response.intercept(rows.targets, rows.weights, base)
        if not np.isfinite(found):  # only a prior keeps it: half a row of each kind
            shrunk = rows.targets + (0.5 - rows.targets) / (len(rows.targets) + 1.0)
            found = response.intercept(shrunk, rows.weights, base)
        start[-1] += found
        return start
    mean = response.start_means(np.array([np.average(rows.targets, weights=rows.weights)]), 0.5)
    for means in (response.start_means(rows.targets, float(mean[0])), np.full(len(rows.targets), mean[0])):
        found_at = _least_squares(rows, response, prior, response.score(means))
        if np.isfinite(objective.value_and_gradient(found_at)[0]):
            return found_at
    if np.isfinite(objective.value_and_gradient(start)[0]):
        return start
    inside = find_interior(rows, float(response.score(mean)[0]))
    if inside is not None and np.isfinite(objective.value_and_gradient(inside)[0]):
        return inside
    raise ValueError(
        f"found no coefficients that keep all means in the range of link={response.link!r} without an "
        "intercept: set link='log', or fit_intercept=True"
    )


def _least_squares(rows: LinearRows, response: Response, prior: GaussianPrior, scores: Array) -> Array:
    """One step of iteratively reweighted least squares from these scores."""
    weights = response.information(scores) * (1.0 if rows.weights is None else rows.weights)
    wanted = scores if rows.offsets is None else scores - rows.offsets
    objective = Objective(rows.design, wanted, Gaussian(), prior, weights)
    whole = rows.design.width <= WHOLE
    return minimise(
        objective, prior.mean, "newton" if whole else "diagonal", max_iter=1 if whole else 30
    ).last.parameters


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """The same rows and prior with normal targets in a unit that suits them: losses are then near one.

    The unit is a power of two, so that no digit is lost. With the identity, parameters are in that unit;
    with the logarithm the offsets take it, and losses and precisions are in squares of it.
    """

    rows: LinearRows
    prior: GaussianPrior
    unit: float
    linear: bool

    @classmethod
    def of(cls, rows: LinearRows, response: Response, prior: GaussianPrior) -> "Scaled":
        linear = response.scores_have_unit
        unit = _unit(response, rows) if response.targets_have_unit else 1.0
        if unit == 1.0:
            return cls(rows, prior, unit, linear)
        offsets = rows.offsets
        if linear:
            offsets = None if offsets is None else offsets / unit
            prior = GaussianPrior(prior.mean / unit, prior.precision)
        else:
            offsets = (np.zeros(len(rows.targets)) if offsets is None else offsets) - np.log(unit)
            prior = GaussianPrior(prior.mean, prior.precision / unit**2)
        return cls(replace(rows, targets=rows.targets / unit, offsets=offsets), prior, unit, linear)

    def start(self, parameters: Array) -> Array:
        """A point in this unit."""
        return parameters / self.unit if self.linear else parameters

    def back(self, found: Fit, prior: GaussianPrior) -> Fit:
        """What was found, in the unit of the targets."""
        mean, precision = found.posterior.mean, found.posterior.precision
        if self.linear:
            return replace(found, posterior=Laplace(mean * self.unit, precision), prior=prior)
        precision = None if precision is None else precision * self.unit**2
        return replace(found, posterior=Laplace(mean, precision), prior=prior)


def _unit(response: Response, rows: LinearRows) -> float:
    means = response.mean(response.null_scores(rows.targets, rows.weights, rows.offsets))
    whole = float(np.sqrt(np.average(np.square(rows.targets), weights=rows.weights)))
    for values in (rows.targets - means, rows.targets):
        size = float(np.sqrt(np.average(np.square(values), weights=rows.weights)))
        if size > _ALIKE * whole and np.isfinite(size):
            return float(2.0 ** np.round(np.log2(size)))
    return 1.0


# ── a fit → its dispersion ──


def effective(posterior: Laplace, prior: GaussianPrior) -> float:
    """How many parameters the rows rather than the prior determine: all of them without a prior."""
    count = float(len(posterior.mean))
    if posterior.precision is None or not prior.diagonal.any():
        return count
    covariance = posterior.covariance()
    if covariance.ndim == 1:
        return count - float(covariance @ prior.diagonal)
    if prior.precision.ndim == 1:
        return count - float(np.diagonal(covariance) @ prior.precision)
    return count - float((covariance * prior.precision).sum())


def dispersion(
    by: str, response: Response, pearson: float, deviance: float, weight: float, freedom: float
) -> float:
    """φ from Pearson's squares and the deviance of rows of that weight; NaN if they are too few.

    "estimate" is Pearson's where the family has a dispersion, "pearson" always, "mle" the likeliest.
    """
    if by != "pearson" and not response.has_dispersion:
        return 1.0
    if by != "mle":
        return pearson / freedom if freedom > 0 else float("nan")
    return response.likeliest_dispersion(deviance / weight)


def lack(part: Laplace, prior: GaussianPrior, mean: Array) -> float:
    """By how much the deviance of a part's rows is larger at another mean, to second order.

    Exact for a normal response with the identity link.
    """
    if part.precision is None:
        return 0.0
    apart, pulled = mean - part.mean, part.mean - prior.mean
    if part.precision.ndim == 1:
        own = prior.diagonal
        return float(np.square(apart) @ (part.precision - own) - 2.0 * apart @ (own * pulled))
    belief = np.diag(prior.precision) if prior.precision.ndim == 1 else prior.precision
    return float(apart @ (part.precision - belief) @ apart - 2.0 * apart @ belief @ pulled)


def without_an_end(
    rows: LinearRows, response: Response, prior: GaussianPrior, posterior: Laplace, scores: Array
) -> NDArray[np.int64] | None:
    """Columns along which targets are never above 0: without a prior their coefficients grow for ever."""
    if response.vanishing_targets is None:
        return None
    objective = Objective(rows.design, rows.targets, response, prior, rows.weights, rows.offsets)
    if response.can_all_vanish(scores, rows.targets, rows.weights, rows.offsets) and objective.flat().all():
        return np.arange(rows.design.columns)
    if posterior.precision is None or posterior.is_diagonal:
        return None
    return find_unbounded_columns(objective, posterior.mean)
