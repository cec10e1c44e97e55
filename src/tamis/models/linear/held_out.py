"""Gram − part → infer → score: regressions told apart by what they say of rows they have not seen.

By folds, each part's sums are taken from the whole and the rest is inferred from. One row is left out by the
hat matrix: of a linear model, the residual of a row it has not seen is r/(1 − h), with h the row's leverage.
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
_OWN = 1e-12  # of 1 − h: a row that leaves less is alone in what it says


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutNumbers:
    """What models that had not seen the rows said of them: (n,), or (n, q) of several targets."""

    targets: Array
    predictions: Array
    std: Array  # of the predictive distribution
    log_densities: Array  # log p(target | row)
    fold: Indices  # (n,): the part that was left out
    weights: Array | None = None  # (n,)

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return float(np.sqrt(self._mean(np.square(self.targets - self.predictions))))

    @property
    def mean_log_density(self) -> float:
        """The mean of `log_densities`: the larger, the better, and the scale for comparing models."""
        return self._mean(self.log_densities)

    @property
    def r2(self) -> float:
        """The share of the targets' variance that was predicted, mean over targets; NaN if there is none."""
        centre = np.average(self.targets, axis=0, weights=self.weights)
        wrong = np.average(np.square(self.targets - self.predictions), axis=0, weights=self.weights)
        spread = np.average(np.square(self.targets - centre), axis=0, weights=self.weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.mean(np.where(spread > 0, 1.0 - wrong / spread, np.nan)))

    def by_fold(self) -> list[Self]:
        """The rows of each fold by themselves, in the order of the folds."""
        return [self._only(self.fold == one) for one in np.unique(self.fold).tolist()]

    def _only(self, rows: NDArray[np.bool_]) -> Self:
        found: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: part[rows] for name, part in found.items() if part is not None})

    def _mean(self, values: Array) -> float:
        return float(np.mean(np.average(values, axis=0, weights=self.weights)))


def cross_validate(
    model: BayesianLinear, x: Array, y: Array, fold: ArrayLike, weights: Array | None = None
) -> HeldOutNumbers:
    """Score each fold of rows (n, d) and targets (n,) or (n, q) by the model of all others, from one pass.

    What is chosen by evidence is chosen anew for each.
    """
    part_of = np.asarray(fold, dtype=np.int64)
    if part_of.shape != (len(x),):
        raise ValueError(f"got {part_of.size} folds for {len(x)} rows, expected one per row")
    parts = Gram.observe(x, y, weights, by=part_of, exact=model.exact)
    folds = np.unique(part_of).tolist()
    if len(folds) < 2:
        raise ValueError("got 1 fold, expected at least 2: the model learns from the others")
    whole = parts.pooled()
    z = y.reshape(len(x), -1)
    answers = _Answers.empty(z.shape)
    for one in folds:
        rows = np.flatnonzero(part_of == one)
        weighs = parts.keys is not None and one in parts.keys
        posterior = model.infer(whole - parts.at(one) if weighs else whole)
        answers.put(rows, posterior.distribution(x[rows]), z[rows])
    return answers.held_out(y, part_of, weights)


def leave_one_out(
    model: BayesianLinear, x: Array, y: Array, weights: Array | None = None, statistic: Gram | None = None
) -> HeldOutNumbers:
    """Score each row by the model of all others; α and β are those of all rows, where evidence chose them.

    The statistic is that of the rows, or of these and more; it is observed if it is not given.
    """
    whole = model.observe(Paired(x, y, weights)) if statistic is None else statistic
    posterior = model.infer(whole)
    z = y.reshape(len(x), -1)
    own = np.ones((len(x), 1)) if weights is None else weights[:, None]
    leverage = posterior.leverage(x)  # (n, q)
    rest = 1.0 - own * leverage
    if (rest <= _OWN).any():
        row = int(rest.min(axis=1).argmin())
        raise ValueError(
            f"row {row} alone determines a coefficient or the level, expected rows that others stand in for: "
            "give a prior, or more rows"
        )
    residual = (z - posterior.predict(x)) / rest
    answers = _Answers.empty(z.shape)
    found = _without_one(posterior, z - residual, leverage / rest, own, np.square(residual) * rest)
    answers.put(np.arange(len(x)), found, z)
    return answers.held_out(y, np.arange(len(x)), weights)


def _without_one(
    posterior: LinearPosterior, location: Array, leverage: Array, own: Array, fit: Array
) -> Univariate:
    """What is predicted for each row (n, q) without it; `fit` is what it adds to the squares, per weight."""
    if posterior.noise is None:
        return Normal(location, np.sqrt((1.0 + leverage) / posterior.beta))
    shape = posterior.noise.shape - 0.5 * own
    if not (shape > 0).all():
        raise ValueError(
            "got too few rows to leave one out and still know the noise, expected more rows: learn some, or "
            "give a noise_shape above 0"
        )
    scale = np.maximum(posterior.noise.scale - 0.5 * own * fit, 1e-15 * posterior.noise.scale)
    return StudentT(2.0 * shape, location, np.sqrt((1.0 + leverage) * scale / shape))


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """Tables (n, q) that fill fold by fold."""

    predictions: Array
    std: Array
    log_densities: Array

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "_Answers":
        return cls(np.empty(shape), np.empty(shape), np.empty(shape))

    def put(self, rows: Indices, said: Univariate, targets: Array) -> None:
        assert isinstance(said, Normal | StudentT)
        variance = said.variance
        self.predictions[rows] = said.location
        self.std[rows] = np.sqrt(np.where(np.isnan(variance), np.inf, variance))
        self.log_densities[rows] = said.log_density(targets)

    def held_out(self, y: Array, fold: Indices, weights: Array | None) -> HeldOutNumbers:
        mean, std, told = (part.reshape(y.shape) for part in (self.predictions, self.std, self.log_densities))
        return HeldOutNumbers(y, mean, std, told, fold, weights)
