"""Covariances → covariances shrunk toward a simple target, so that few rows do not make them singular.

Shrinkage by a number is toward a multiple of the identity. Ledoit and Wolf's coefficients are chosen from the
rows, class by class; they shrink toward a multiple of the variances, as in scikit-learn's discriminants.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from tamis.arrays import Array, one_line
from tamis.stats import Keys, Labels, Moments
from tamis.tables import runs

_CELLS = 1 << 20  # array elements of standardised rows in memory at a time
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class LedoitWolf:
    """Coefficients of shrinkage, chosen from the standardised rows of each class."""

    keys: Keys
    by_class: Array  # (K,), from 0 to 1
    later: float  # of a class that had no rows when these were chosen: the weighted mean of `by_class`
    overall: float  # for all rows together, about one mean

    @classmethod
    def choose(cls, rows: Array, labels: Labels, weights: Array | None, statistic: Moments) -> "LedoitWolf":
        """Choose the coefficients from rows (n, d) and their statistic, in two passes over the rows.

        >>> rows = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [4.0, 5.0], [5.0, 4.0], [7.0, 9.0]])
        >>> labels = Labels.of(["a", "a", "a", "b", "b", "b"])
        >>> chosen = LedoitWolf.choose(rows, labels, None, Moments.observe(rows, by=labels, form="full"))
        >>> chosen.by_class.round(3).tolist(), round(chosen.overall, 3)
        ([1.0, 0.444], 0.389)
        """
        keys, pooled = statistic.keys, statistic.pooled()
        assert keys is not None  # a block observes by label
        weight, group = statistic.weight.value, keys.find(labels.keys)[labels.group]
        row_weights = np.ones(len(rows)) if weights is None else weights
        by_class = np.array(
            [
                _choose_coefficient(rows[group == k], row_weights[group == k], mean, scatter)
                for k, (mean, scatter) in enumerate(zip(statistic.mean, statistic.scatter, strict=True))
            ]
        )
        overall = _choose_coefficient(rows, row_weights, pooled.mean, pooled.scatter)
        return cls(keys, by_class, float(weight @ by_class / weight.sum()), overall)

    def coefficients(self, keys: Keys) -> Array:
        """The coefficient of each of these classes (K,)."""
        known = dict(zip(self.keys, self.by_class.tolist(), strict=True))
        return np.array([known.get(key, self.later) for key in keys])

    def shrink_classes(self, statistic: Moments) -> Array:
        """Shrink the scatter of each class (K, d, d)."""
        assert statistic.keys is not None
        coefficients = self.coefficients(statistic.keys)
        return _shrink_scatter(statistic.scatter, coefficients, statistic.mean, statistic.weight.value)

    def shrink_all(self, scatter: Array, pooled: Moments) -> Array:
        """Shrink a scatter about the mean of all rows together (d, d)."""
        return _shrink_scatter(scatter, np.asarray(self.overall), pooled.mean, pooled.weight.value)


Shrinkage = float | str | LedoitWolf | None


def refuse_shrinkage(shrinkage: Shrinkage) -> None:
    """Raise unless it is a number from 0 to 1, "auto", coefficients chosen from rows, or None."""
    if shrinkage is None or isinstance(shrinkage, LedoitWolf) or is_automatic(shrinkage):
        return
    given: Any = shrinkage
    if not isinstance(given, Real) or not 0.0 <= float(given) <= 1.0:
        raise ValueError(f"got shrinkage={one_line(given)}, expected a number from 0 to 1, or 'auto'")


def is_automatic(shrinkage: object) -> bool:
    """Whether shrinkage is to be chosen from the rows."""
    return isinstance(shrinkage, str) and shrinkage == "auto"


def shrink(covariance: Array, shrinkage: Shrinkage) -> Array:
    """Shrink covariances Σ (..., d, d) toward the identity: (1 − s) Σ + s tr(Σ)/d I."""
    refuse_shrinkage(shrinkage)
    if not shrinkage:
        return covariance
    if isinstance(shrinkage, str | LedoitWolf):
        raise ValueError("got shrinkage='auto' without rows to choose it from, expected a number from 0 to 1")
    s, d = float(shrinkage), covariance.shape[-1]
    mean_variance = np.trace(covariance, axis1=-2, axis2=-1)[..., None, None] / d
    return np.asarray((1.0 - s) * covariance + s * mean_variance * np.eye(d))


def _is_constant(variance: Array, mean: Array, weight: Array) -> Array:
    """Whether columns (..., d) vary by no more than rounding, by scikit-learn's rule."""
    n = weight[..., None]
    with np.errstate(invalid="ignore"):
        return np.asarray(~(variance > n * _EPSILON * variance + np.square(n * mean * _EPSILON)))


def _shrink_scatter(scatter: Array, coefficient: Array, mean: Array, weight: Array) -> Array:
    """(1 − s) S + s μ diag(S) of scatters S (..., d, d), where μ is the fraction of columns that vary.

    The variance of a constant column is 1 in diag(S).
    """
    squares, n = np.diagonal(scatter, axis1=-2, axis2=-1), weight[..., None]
    constant = _is_constant(squares / np.where(n > 0, n, 1.0), mean, weight)
    varying_fraction = 1.0 - constant.mean(axis=-1, keepdims=True)  # μ
    target = varying_fraction * np.where(constant, n, squares)  # (..., d)
    s = coefficient[..., None, None]
    return np.asarray((1.0 - s) * scatter + s * (target[..., None, :] * np.eye(scatter.shape[-1])))


def _choose_coefficient(rows: Array, weights: Array, mean: Array, scatter: Array) -> float:
    """Ledoit and Wolf's coefficient of standardised rows; a row of weight 2 counts as two rows.

    For standardised rows z, their correlations R and μ = tr R / d, it is the mean of ‖zzᵀ − R‖², divided by
    n ‖R − μI‖², and at most 1.
    """
    n, d = float(weights.sum()), len(mean)
    if d < 2 or not n > 0:
        return 0.0
    variance = np.diagonal(scatter) / n
    constant = _is_constant(variance, mean, np.asarray(n))
    scale = np.where(constant, 1.0, np.sqrt(variance))
    correlations = scatter / n / scale / scale[:, None]
    difference = correlations - np.eye(d) * (np.trace(correlations) / d)
    denominator = float(np.square(difference).sum())
    fourth = 0.0  # Σ w ‖z‖⁴
    for run in runs(len(rows), d, _CELLS):
        lengths = np.square((rows[run] - mean) / scale).sum(axis=1)
        fourth += float(weights[run] @ np.square(lengths))
    numerator = min(max(fourth / n - float(np.square(correlations).sum()), 0.0) / n, denominator)
    return 0.0 if numerator == 0.0 else numerator / denominator
