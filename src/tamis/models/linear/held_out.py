"""The Gram of all rows minus that of a fold → a posterior → predictions for the rows of the fold.

A single row is left out by a closed form: its residual r becomes r/(1 − h) without the row, where h is the
row's leverage, its element on the diagonal of the hat matrix (Cook and Weisberg 1982).
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.arrays import Array
from tamis.conjugate import Normal, StudentT, Univariate
from tamis.models.linear.posterior import LinearPosterior
from tamis.models.linear.regression import BayesianLinear, Paired
from tamis.stats import Gram

Indices = NDArray[np.int64]
_MIN_REMAINDER = 1e-12  # if 1 − h is smaller, the row alone determines its prediction
_MIN_RELATIVE_SCALE = (
    1e-15  # a scale of the noise below this fraction of that with the row is a rounding error
)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutNumbers:
    """Predictions for rows by models that were fitted without them: (n,), or (n, q) of several targets."""

    targets: Array
    predictions: Array
    std: Array  # of the predictive distribution; ∞ if it has no variance
    log_densities: Array  # log p(target | row)
    fold: Indices  # (n,): the fold of each row, without which its model was fitted
    weights: Array | None = None  # (n,)

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return float(np.sqrt(self._mean(np.square(self.targets - self.predictions))))

    @property
    def mean_log_density(self) -> float:
        """The mean of `log_densities`; of two models, the better one has the larger mean."""
        return self._mean(self.log_densities)

    @property
    def r2(self) -> float:
        """The coefficient of determination R², as a mean over targets; NaN if some target does not vary."""
        centre = np.average(self.targets, axis=0, weights=self.weights)
        errors = np.average(np.square(self.targets - self.predictions), axis=0, weights=self.weights)
        variance = np.average(np.square(self.targets - centre), axis=0, weights=self.weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.mean(np.where(variance > 0, 1.0 - errors / variance, np.nan)))

    def by_fold(self) -> list[Self]:
        """Return the predictions of each fold, in the order of the folds."""
        return [self._take(self.fold == number) for number in np.unique(self.fold).tolist()]

    def _take(self, rows: NDArray[np.bool_]) -> Self:
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: part[rows] for name, part in parts.items() if part is not None})

    def _mean(self, values: Array) -> float:
        if self.weights is not None:  # rows of weight 0 may have infinite values
            values = np.where(self.weights > 0, values.T, 0.0).T
        return float(np.mean(np.average(values, axis=0, weights=self.weights)))


def cross_validate(
    model: BayesianLinear, x: Array, y: Array, fold: ArrayLike, weights: Array | None = None
) -> HeldOutNumbers:
    """Predict the rows of each fold by the model of all other rows, from one pass over all rows.

    x is (n, d), y is (n,) or (n, q), and `fold` (n,) is the fold of each row. If the evidence chooses α and
    β, it chooses them for each fold.
    """
    folds_of_rows = np.asarray(fold, dtype=np.int64)
    if folds_of_rows.shape != (len(x),):
        raise ValueError(f"got {folds_of_rows.size} folds for {len(x)} rows, expected one per row")
    parts = Gram.observe(x, y, weights, by=folds_of_rows, exact=model.exact)
    folds = np.unique(folds_of_rows).tolist()
    if len(folds) < 2:
        raise ValueError("got 1 fold, expected at least 2: the model learns from the others")
    total = parts.pooled()
    z = y.reshape(len(x), -1)
    predictions = _Predictions.empty(z.shape)
    for number in folds:
        rows = np.flatnonzero(folds_of_rows == number)
        has_weight = parts.keys is not None and number in parts.keys
        posterior = model.infer(total - parts.at(number) if has_weight else total)
        predictions.put(rows, posterior.distribution(x[rows]), z[rows])
    return predictions.finish(y, folds_of_rows, weights)


def leave_one_out(
    model: BayesianLinear, x: Array, y: Array, weights: Array | None = None, statistic: Gram | None = None
) -> HeldOutNumbers:
    """Predict each row by the model of all other rows.

    If the evidence chooses α and β, it chooses them once, for all rows. `statistic` is that of these rows,
    and perhaps of more; if it is None, the rows are observed.
    """
    total = model.observe(Paired(x, y, weights)) if statistic is None else statistic
    posterior = model.infer(total)
    z = y.reshape(len(x), -1)
    row_weights = np.ones((len(x), 1)) if weights is None else weights[:, None]
    leverage = posterior.leverage(x)  # (n, q)
    remaining = 1.0 - row_weights * leverage
    if (remaining <= _MIN_REMAINDER).any():
        row = int(remaining.min(axis=1).argmin())
        raise ValueError(
            f"row {row} alone determines a coefficient or the level, expected other rows that determine it, "
            "too: give a prior, or more rows"
        )
    residual = (z - posterior.predict(x)) / remaining
    predictions = _Predictions.empty(z.shape)
    squares = np.square(residual) * remaining
    distribution = _leave_out(posterior, z - residual, leverage / remaining, row_weights, squares)
    predictions.put(np.arange(len(x)), distribution, z)
    return predictions.finish(y, np.arange(len(x)), weights)


def _leave_out(
    posterior: LinearPosterior, location: Array, leverage: Array, row_weights: Array, squares: Array
) -> Univariate:
    """Return the predictive distribution of each row (n, q) without it.

    `location` and `leverage` are by the model without the row. `squares` is how much the residual sum of
    squares falls if the row is left out, divided by its weight.
    """
    if posterior.noise is None:
        return Normal(location, np.sqrt((1.0 + leverage) / posterior.beta))
    shape = posterior.noise.shape - 0.5 * row_weights
    if not (shape > 0).all():
        raise ValueError(
            "got too few rows to leave one out and still know the noise, expected more rows: learn some, or "
            "give a noise_shape above 0"
        )
    least = _MIN_RELATIVE_SCALE * posterior.noise.scale
    scale = np.maximum(posterior.noise.scale - 0.5 * row_weights * squares, least)
    return StudentT(2.0 * shape, location, np.sqrt((1.0 + leverage) * scale / shape))


@dataclass(frozen=True, slots=True, eq=False)
class _Predictions:
    """Arrays (n, q) that are filled fold by fold."""

    predictions: Array
    std: Array
    log_densities: Array

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "_Predictions":
        return cls(np.empty(shape), np.empty(shape), np.empty(shape))

    def put(self, rows: Indices, distribution: Univariate, targets: Array) -> None:
        """Fill in the predictive distribution of these rows, a batch (rows, q)."""
        assert isinstance(distribution, Normal | StudentT)
        variance = distribution.variance
        self.predictions[rows] = distribution.location
        self.std[rows] = np.sqrt(np.where(np.isnan(variance), np.inf, variance))
        self.log_densities[rows] = distribution.log_density(targets)

    def finish(self, y: Array, fold: Indices, weights: Array | None) -> HeldOutNumbers:
        """Return the predictions in the shape of the targets y."""
        mean, std, log_densities = (
            part.reshape(y.shape) for part in (self.predictions, self.std, self.log_densities)
        )
        return HeldOutNumbers(y, mean, std, log_densities, fold, weights)
