"""The trend of the fraction of spam over time, with an interval, by Bayesian linear regression of `tamis`.

The log-odds of spam on each day (half a message is added to either side, so that they are finite) are
regressed on a straight line and Gaussian basis functions of time. A day is weighted by its messages. The
precisions of coefficients and noise maximise the evidence, so that the interval is as wide as the days vary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from tamis import BayesianLinearRegression
from tamis.basis import GaussianBasis
from tamis.links import sigmoid
from tamis_mail.reporting.days import Day

Floats = NDArray[np.float64]

_LEAST_DAYS = 3
_CENTRES = 7  # basis functions at most
_WIDTH = 1.5  # width of a basis function, in units of the distance between two neighbours
_GRID = 80  # points of the curve
_SURE = 1.96  # standard deviations of a 95 % interval


@dataclass(frozen=True, slots=True)
class Trend:
    """The share of spam over time: the posterior median and a 95 % interval."""

    days: Floats  # (points,): days since 1970
    share: Floats
    low: Floats
    high: Floats
    rise: float  # posterior probability that the share is larger at the end than at the beginning


def fit_trend(days: Sequence[Day]) -> Trend | None:
    """Fit the trend of days in ascending order; None with fewer than three days."""
    days = [day for day in days if day.messages]
    if len(days) < _LEAST_DAYS:
        return None
    time = np.array([day.number for day in days], np.float64)[:, np.newaxis]
    spam = np.array([day.spam for day in days], np.float64)
    messages = np.array([day.messages for day in days], np.float64)
    log_odds = np.log(spam + 0.5) - np.log(messages - spam + 0.5)
    centres = np.linspace(time[0, 0], time[-1, 0], min(_CENTRES, len(days) - 1))
    basis = GaussianBasis(centres, width=_WIDTH * float(centres[1] - centres[0])).fit(time)

    def expand(days: Floats) -> Floats:
        """(days, 1 + centres): a line, without which a steady rise would bend back at its end, and bumps."""
        line = (2 * days - time[0] - time[-1]) / (time[-1] - time[0])
        return np.column_stack([line, basis.transform(days)])

    # The weights have mean 1: evidence counts rows of weight 2 twice, and each day is one observation.
    weights = messages / messages.mean()
    model = BayesianLinearRegression().fit(expand(time), log_odds, sample_weight=weights)
    grid = np.linspace(time[0, 0], time[-1, 0], _GRID)
    design = expand(grid[:, np.newaxis])
    middle = np.asarray(model.predict(design), np.float64)
    covariance = _predictive_covariance(model, design, expand(time), weights)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0))
    change = middle[-1] - middle[0]
    spread = float(np.sqrt(max(covariance[-1, -1] + covariance[0, 0] - 2 * covariance[0, -1], 0)))
    return Trend(
        grid,
        sigmoid(middle),
        sigmoid(middle - _SURE * deviation),
        sigmoid(middle + _SURE * deviation),
        _normal_probability(float(change), spread),
    )


def _predictive_covariance(
    model: BayesianLinearRegression, design: Floats, fitted: Floats, weights: Floats
) -> Floats:
    """(points, points): covariance of the curve, without noise.

    The intercept has a flat prior. It is the prediction at the weighted mean of the columns, which is
    independent of the coefficients, and has the variance of the noise over the total weight.
    """
    centred = design - np.average(fitted, axis=0, weights=weights)
    coefficients = np.asarray(model.coef_covariance_, np.float64)
    noise: float = float(model.noise_std_) ** 2 / float(weights.sum())
    result: Floats = centred @ coefficients @ centred.T + noise
    return result


def _normal_probability(difference: float, deviation: float) -> float:
    """P(difference > 0) for a normal variable; one half if it does not vary."""
    return 0.5 if deviation <= 0 else (1 + erf(difference / (deviation * sqrt(2)))) / 2
