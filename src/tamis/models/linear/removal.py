"""A posterior less some rows, by one step of Newton's from where it was: near, by a bound that is computed.

All rows that were removed since the model was fitted are taken at the same point, so that they add, and no
order of removals can be told from another. What one step leaves of the slope is bounded because the
curvature of a logistic loss changes by no more than the factor exp(|change of score|) (Bach 2010,
self-concordance); Guo et al. 2020 call such a step certified removal.
"""

from dataclasses import dataclass

import numpy as np

from tamis.arrays import Array
from tamis.linalg import Cholesky
from tamis.models.linear.laplace import Curvature, Laplace
from tamis.models.linear.responses import Response


@dataclass(frozen=True, slots=True, eq=False)
class Removal:
    """Where one step led, and how far from there the exact answer can be."""

    posterior: Laplace
    shift: float  # how far the step went, in standard deviations of the posterior that is left
    bound: float  # the slope left, at most, in the same measure: to first order, the distance still to go


def remove(
    posterior: Laplace,
    gone: Curvature,
    reach: float,
    extent: Array,
    slack: float,
    response: Response,
    drift: float = 0.0,
) -> Removal:
    """Take away rows whose curvature at the posterior's mean is `gone`.

    `reach` and `extent` bound all rows that were learned: their length, and each column. `slack` is how far
    the posterior's mean was from the top; `drift` bounds how much scores changed between where the precision
    was taken and the mean.
    """
    precision = _whole(posterior) - gone.information
    factor, definite = Cholesky.where_definite(precision)
    if not bool(definite):
        raise ValueError(
            "what is left would not determine the coefficients, expected rows that were learned and more: "
            "nothing was changed"
        )
    step = factor.solve(gone.gradient[:, None])[:, 0]
    shift = float(np.sqrt(step @ precision @ step))
    change = largest_change(step, reach, extent, response)
    # ‖∇(θ + δ)‖ ≤ ∫ (e^{drift + tR} − 1) dt ‖δ‖, both in the metric of the precision
    mean_growth = 1.0 + 0.5 * change * (1.0 + change) if change < 1e-4 else np.expm1(change) / change
    # what there was, in the metric of what is left, which is the smaller: the slope, and the rows removed
    before = float(np.linalg.norm(factor.whiten(factor.whiten(_whole(posterior)).T), 2))
    growth = np.exp(drift) * mean_growth - 1.0 + np.expm1(drift) * before
    bound = float(growth * shift + slack * np.sqrt(before))
    return Removal(Laplace(gone.at + step, precision), shift, bound)


def _whole(posterior: Laplace) -> Array:
    if posterior.precision is None or posterior.precision.ndim != 2:
        raise ValueError("removing rows needs the whole posterior, expected a model with posterior='full'")
    return posterior.precision


def largest_change(step: Array, reach: float, extent: Array, response: Response) -> float:
    """By how much any row's score can have changed; of several classes, their scores against each other."""
    differences = response.score_differences(step, len(extent))
    by_length = reach * np.linalg.norm(differences, axis=-1).max()
    return min(float(by_length), float((np.abs(differences) @ extent).max()))
