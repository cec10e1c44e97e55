"""The trend of the fraction of spam over time, with an interval, by Bayesian linear regression of `tamis`.

The log-odds of spam on each day (half a message is added to spam and to ham, so that they are finite) are
regressed on a straight line and Gaussian basis functions of time. A day is weighted by its messages. The
precisions of coefficients and noise maximise the log-evidence: the interval is wider if days vary more.
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

_MIN_DAYS = 3
_CENTRES = 7  # maximum number of basis functions
_WIDTH = 1.5  # width of a basis function, in units of the distance between two neighbours
_GRID = 80  # points of the curve
_DEVIATIONS = 1.96  # half the width of a 95 % interval, in standard deviations


@dataclass(frozen=True, slots=True)
class Trend:
    """The share of spam over time: the posterior median and a 95 % interval, each (points,)."""

    days: Floats  # days since 1970
    share: Floats
    low: Floats
    high: Floats
    rise: float  # posterior probability that the share is larger at the end than at the beginning


def fit_trend(days: Sequence[Day]) -> Trend | None:
    """Fit the trend of days in ascending order; None if fewer than three of them have messages."""
    days = [day for day in days if day.messages]
    if len(days) < _MIN_DAYS:
        return None
    time = np.array([day.number for day in days], np.float64)[:, np.newaxis]  # days since 1970
    spam = np.array([day.spam for day in days], np.float64)
    messages = np.array([day.messages for day in days], np.float64)
    log_odds = np.log(spam + 0.5) - np.log(messages - spam + 0.5)
    # Fewer basis functions than days; with three days there are two, whose distance gives the width.
    centres = np.linspace(time[0, 0], time[-1, 0], min(_CENTRES, len(days) - 1))
    basis = GaussianBasis(centres, width=_WIDTH * float(centres[1] - centres[0])).fit(time)

    def make_columns(days: Floats) -> Floats:
        """Return the columns of a line and of the basis functions, (days, 1 + centres).

        Without the line, the curve of a steady rise would bend back at its end.
        """
        line = (2 * days - time[0] - time[-1]) / (time[-1] - time[0])
        return np.column_stack([line, basis.transform(days)])

    # The weights have mean 1, because the evidence takes their sum for the number of observations, here days.
    weights = messages / messages.mean()
    model = BayesianLinearRegression().fit(make_columns(time), log_odds, sample_weight=weights)
    grid = np.linspace(time[0, 0], time[-1, 0], _GRID)
    curve_columns = make_columns(grid[:, np.newaxis])
    means = np.asarray(model.predict(curve_columns), np.float64)
    covariance = _compute_covariance(model, curve_columns, make_columns(time), weights)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0))
    change = means[-1] - means[0]
    change_deviation = float(np.sqrt(max(covariance[-1, -1] + covariance[0, 0] - 2 * covariance[0, -1], 0)))
    return Trend(
        grid,
        sigmoid(means),
        sigmoid(means - _DEVIATIONS * deviation),
        sigmoid(means + _DEVIATIONS * deviation),
        _compute_probability_of_positive(float(change), change_deviation),
    )


def _compute_covariance(
    model: BayesianLinearRegression, curve_columns: Floats, day_columns: Floats, weights: Floats
) -> Floats:
    """Return the posterior covariance of the curve's log-odds, without noise, (points, points).

    `curve_columns` are those of the points of the curve, `day_columns` those of the days that were fitted,
    which have the weights. The model's prediction at the weighted mean of the columns is independent of the
    coefficients, because the intercept has a flat prior; its variance is that of the noise over the total
    weight.
    """
    centred = curve_columns - np.average(day_columns, axis=0, weights=weights)
    coef_covariance = np.asarray(model.coef_covariance_, np.float64)  # not divided by the noise's variance
    mean_variance: float = float(model.noise_std_) ** 2 / float(weights.sum())
    result: Floats = centred @ coef_covariance @ centred.T + mean_variance
    return result


def _compute_probability_of_positive(mean: float, deviation: float) -> float:
    """Return P(x > 0) for a normal variable x with this mean and deviation; 0.5 if the deviation is 0."""
    return 0.5 if deviation <= 0 else (1 + erf(mean / (deviation * sqrt(2)))) / 2
