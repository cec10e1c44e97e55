"""Rows and a response → where to begin, and how well a fit does: what generalised linear models need besides.

Losses are for a dispersion of 1, and the prior is in units of it: the dispersion φ changes neither the top
nor its shape, and is estimated afterwards. The posterior's covariance is φ times the inverse precision.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from tamis.arrays import Array
from tamis.families.stirling import slope as digamma_less_log
from tamis.models.linear.feasibility import find_interior
from tamis.models.linear.fitting import Fit
from tamis.models.linear.held_out import HeldOutNumbers
from tamis.models.linear.laplace import Laplace, LinearRows
from tamis.models.linear.newton import WHOLE, minimise
from tamis.models.linear.objective import GaussianPrior, Objective
from tamis.models.linear.responses import Bernoulli, Gaussian, Response
from tamis.models.linear.unbounded import find_unbounded_columns

_TRIGAMMA = 8  # Newton's steps to where the trigamma function has a value: five are enough
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


def deviances(response: Response, scores: Array, targets: Array) -> Array:
    """Twice what each row loses to a perfect fit, dispersion 1."""
    if isinstance(response, Bernoulli):  # a probability of nearly one has no digits left to tell how nearly
        saturated = special.xlogy(targets, targets) + special.xlog1py(1.0 - targets, -targets)
        return np.asarray(2.0 * (response.loss(scores, targets)[0] + saturated))
    with np.errstate(over="ignore"):
        return response.deviance(response.mean(scores), targets)


def log_likelihoods(response: Response, scores: Array, targets: Array, dispersion: float) -> Array:
    """log p(y) of each row; NaN where the dispersion is not known, ∞ where there is none."""
    if isinstance(response, Bernoulli):
        return -response.loss(scores, targets)[0]
    if not dispersion > 0:
        return np.full(len(scores), np.inf if dispersion == 0 else np.nan)
    with np.errstate(over="ignore"):
        return response.log_likelihood(response.mean(scores), targets, dispersion)


def squared_residuals(response: Response, scores: Array, targets: Array) -> Array:
    """Pearson's (y − mean)²/variance of each row, dispersion 1: the squared slope over the information."""
    if response.family == "gaussian":
        return deviances(response, scores, targets)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        slopes, information = response.loss(scores, targets)[1], response.information(scores)
        return np.where(slopes == 0, 0.0, np.square(slopes) / information)


def summed(values: Array, weights: Array | None) -> float:
    """Σ weight · value."""
    return float(values.sum() if weights is None else weights @ values)


# ── rows → a level, and a start ──


def level(
    response: Response, targets: Array, weights: Array | None = None, offsets: Array | None = None
) -> float:
    """The intercept of greatest likelihood, were it the only parameter; −∞ or ∞ where there is none.

    >>> from tamis.models.linear.responses import response
    >>> round(float(np.exp(level(response("poisson"), np.array([3.0, 5.0]), offsets=np.log([1.0, 3.0])))), 6)
    2.0
    """
    w = np.ones(len(targets)) if weights is None else weights
    total, heard = float(w.sum()), float(w @ targets)
    with np.errstate(divide="ignore"):
        if offsets is None:
            return float(
                response.score(np.array(max(heard, 0.0) if response.link == "log" else heard) / total)
            )
        if response.link == "identity":
            return float(w @ (targets - offsets)) / total
        if response.link == "log":
            return _log_level(response, targets, w, offsets)
        least, most = float(offsets.min()), float(offsets.max())
        flat = float(response.score(np.array(heard / total)))
        if not np.isfinite(flat):
            return flat
        pad = 1e-9 * (1.0 + abs(flat) + most - least)
        low, high = flat - most - pad, flat - least + pad
        if (
            response.link == "inverse"
        ):  # scores are above zero: at half a step from there, one row is too much
            low = max(low, 0.5 * float(w[np.argmin(offsets)]) / heard - least)
        return _root(lambda at: float(w @ response.loss(offsets + at, targets)[1]), low, high)


def _log_level(response: Response, targets: Array, w: Array, offsets: Array) -> float:
    if response.family == "gamma":
        shift = float(-offsets.min())
        return float(np.log(w @ (targets * np.exp(-offsets - shift)) / w.sum())) + shift
    shift = float(offsets.max())
    shares = np.exp(offsets - shift)
    if response.family == "gaussian":
        return float(np.log(max(float(w @ (targets * shares)), 0.0) / float(w @ np.square(shares)))) - shift
    return float(np.log(w @ targets) - np.log(w @ shares)) - shift


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(rising, low, high, xtol=1e-13 * (1.0 + abs(low) + abs(high)), rtol=1e-14))


def null_scores(
    response: Response, targets: Array, weights: Array | None = None, offsets: Array | None = None
) -> Array:
    """Scores of the model of an intercept alone (n,)."""
    found = level(response, targets, weights, offsets)
    return np.full(len(targets), found) if offsets is None else found + offsets


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
        found = level(response, rows.targets, rows.weights, base)
        if not np.isfinite(found):  # only a prior keeps it: half a row of each kind
            shrunk = rows.targets + (0.5 - rows.targets) / (len(rows.targets) + 1.0)
            found = level(response, shrunk, rows.weights, base)
        start[-1] += found
        return start
    mean = _between(response, np.array([np.average(rows.targets, weights=rows.weights)]), 0.5)
    for means in (_between(response, rows.targets, float(mean[0])), np.full(len(rows.targets), mean[0])):
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


def _between(response: Response, targets: Array, mean: float) -> Array:
    """Means half way from the targets to their mean, inside the range of the link."""
    if response.link == "identity":
        return targets
    means = 0.5 * (targets + mean)
    return np.asarray(np.maximum(means, 0.05 * abs(mean)) if response.family == "gaussian" else means)


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
        linear = response.link == "identity"
        unit = _unit(response, rows) if response.family == "gaussian" else 1.0
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
    means = response.mean(null_scores(response, rows.targets, rows.weights, rows.offsets))
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
    if by != "pearson" and not response.dispersed:
        return 1.0
    if by != "mle":
        return pearson / freedom if freedom > 0 else float("nan")
    mean = deviance / weight
    if response.family == "gaussian" or not mean > 0:
        return max(mean, 0.0)
    # log ν − ψ(ν) = mean/2 with ν = 1/φ, which lies between 1/mean and 2/mean
    low, high = np.log(0.5 / mean), np.log(4.0 / mean)
    return float(np.exp(-_root(lambda at: mean + 2.0 * float(digamma_less_log(np.exp(at))), low, high)))


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
    if response.link != "log" or response.family == "gamma":
        return None
    objective = Objective(rows.design, rows.targets, response, prior, rows.weights, rows.offsets)
    none = response.family == "poisson" and not rows.targets.any()
    if none and objective.flat().all() and _all_vanish(rows, scores):
        return np.arange(rows.design.columns)
    if posterior.precision is None or posterior.is_diagonal:
        return None
    return find_unbounded_columns(objective, posterior.mean)


def _all_vanish(rows: LinearRows, scores: Array) -> bool:
    """Whether some coefficients bring all means as near to zero as one likes.

    If none do, the row of zeros is a mean of the rows with some shares λ, and Σ a exp(x·w) is at least
    min a Σ λ exp(x·w) ≥ min a (Jensen), a being weights times exponentials of offsets.
    """
    logs = scores if rows.weights is None else scores + np.log(rows.weights)
    own = np.zeros(len(scores)) if rows.offsets is None else rows.offsets
    own = own if rows.weights is None else own + np.log(rows.weights)
    return bool(special.logsumexp(logs) < own.min())


# ── what is believed of a score → what is believed of its exponential ──


def gamma_of(scores: Array, variances: Array) -> tuple[Array, Array]:
    """Shape and rate of the gamma distribution whose logarithm has these means and variances.

    >>> shape, rate = gamma_of(np.array([0.0]), special.polygamma(1, np.array([2.5])))
    >>> shape.round(9).tolist(), np.log(rate).round(9).tolist() == special.digamma(shape).round(9).tolist()
    ([2.5], True)
    """
    wanted = np.maximum(variances, 1e-12)
    shape = 0.5 + 1.0 / wanted  # below ψ₁⁻¹ never, and Newton's steps on 1/ψ₁ only come nearer (Minka 2000)
    for _ in range(_TRIGAMMA):
        at = special.polygamma(1, shape)
        shape = shape + at * (1.0 - at / wanted) / special.polygamma(2, shape)
    return shape, np.exp(special.digamma(shape) - scores)
