"""Numbers → diagonal Moments by class → a Gaussian or, with its parameters integrated out, a t per column."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels
from tamis.arrays import Array
from tamis.conjugate import NormalInverseGamma
from tamis.conjugate.normal_inverse_gamma import compute_expected_variance, update_parameters
from tamis.conjugate.student_t import StudentT
from tamis.models.generative.block import (
    Block,
    ColumnDensity,
    Contrast,
    Density,
    Responsibilities,
    can_sum_squares,
    refuse_strength,
)
from tamis.models.generative.gaussian_expectation import Gaussian, Natural, PreparedGaussianRows, sum_columns
from tamis.stats import Keys, Labels, Moments
from tamis.tables import Table

_MIN_VARIANCE = 1e-300  # of a density: its inverse is finite; columns of smaller variance count as constant
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, kw_only=True)
class GaussianColumns(Block[Array, Moments]):
    """Each column has a Gaussian of its own in each class.

    `smoothing` times the largest variance of any column is added to every variance, as scikit-learn does.
    The default prior has the mean and variance of all classes together, as `strength` pseudo-observations
    (experiments/0002 compares it with the variance within classes).
    """

    kind: ClassVar[str] = "gaussian"
    needs_all_rows: ClassVar[bool] = False  # EM may start from a sample of the rows

    smoothing: float = 0.0
    strength: float = 1.0
    prior: NormalInverseGamma | None = None

    def __post_init__(self) -> None:
        Block.__post_init__(self)
        refuse_strength(self.strength)

    def encode(self, table: Table, learn: bool = True) -> Array:
        return self.values(table)  # also with `learn`: a Gaussian has no values to refuse but infinite ones

    def admits(self, values: Array) -> bool:
        return can_sum_squares(values)

    def observe(
        self,
        rows: Array,
        by: Labels | Responsibilities,
        weights: Array | None = None,
        given: Density[Array] | None = None,
    ) -> Moments:
        """Sum the rows of each class, exactly if labels are given.

        With responsibilities, BLAS computes the sums, about the mean of each class and up to rounding.
        """
        if isinstance(by, Responsibilities):
            return sum_columns(rows, by)
        return Moments.observe(rows, weights, by, missing=True)

    def observe_table(self, table: Table, labels: Labels, weights: Array | None = None) -> Moments:
        # Columns that are separate arrays, as in a data frame, are summed without a copy to one array (n, d).
        # Either step returns None where that is not possible.
        columns = table.list_separate_columns(self.columns) if weights is None else None
        moments = None if columns is None else Moments.observe_columns(columns, labels)
        return super().observe_table(table, labels, weights) if moments is None else moments

    def add_row(self, statistic: Moments, row: Array, label: Hashable, weight: float) -> Moments:
        return statistic.add_row(row[0], label, weight)

    def prepare(self, rows: Array, weights: Array | None) -> PreparedGaussianRows | None:
        return PreparedGaussianRows.of(rows, weights)

    def infer(self, statistic: Moments, keys: Keys) -> "Density[Array]":
        class_sums = statistic.over(keys)  # with zeros for classes without rows
        # These are arrays (K + 1, d), whose last row is that of all classes together; the shift is the mean
        # minus that of all classes.
        weight, mean, scatter, shift = class_sums.describe_with_pooled()
        is_empty = ~(weight > 0)
        has_empty = bool(is_empty.any())
        variance = scatter / np.where(is_empty, 1.0, weight) if has_empty else scatter / weight
        if has_empty:
            mean, variance = np.where(is_empty, 0.0, mean), np.where(is_empty, np.nan, variance)
        pooled_mean, pooled_variance = mean[-1], variance[-1]
        prior = partial(self._make_prior, pooled_mean, pooled_variance)
        if self.estimate == "mle":
            class_variance = np.where(is_empty[:-1], 1.0, variance[:-1]) if has_empty else variance[:-1]
            class_variance = class_variance + self.smoothing * _find_largest_variance(pooled_variance)
            return Normal.of(keys, mean[:-1], np.maximum(class_variance, _MIN_VARIANCE), prior, class_sums)
        constant = ~(pooled_variance > _MIN_VARIANCE) & (self.prior is None)
        if self.prior is None and self.strength > 0 and not constant.any() and self.estimate != "predictive":
            # The same formulas as below take a fraction of the time without objects for prior and posterior.
            half = 0.5 * self.strength
            prior_parameters = pooled_mean, self.strength, 1.0 + half, half * pooled_variance
            location, _, shape, scale = update_parameters(
                prior_parameters, weight[:-1], shift[:-1], scatter[:-1]
            )
            variance = (
                scale / (shape + 1.5) if self.estimate == "map" else compute_expected_variance(shape, scale)
            )
            if np.isfinite(variance).all() and np.isfinite(location).all():
                return Normal.of(keys, location, np.maximum(variance, _MIN_VARIANCE), prior, class_sums)
        posterior = keep_prior_of_constant_columns(prior(), prior().update(class_sums.drop_keys()), constant)
        if self.estimate == "predictive":
            return Student(keys, posterior.predictive(), prior(), class_sums)
        location, variance = posterior.mode if self.estimate == "map" else posterior.mean
        # With a shape of 1 or less the expected variance is infinite; 1 / E[1 / variance] replaces it.
        variance = np.where(np.isfinite(variance), variance, posterior.scale / posterior.shape)
        return Normal.of(keys, location, np.maximum(variance, _MIN_VARIANCE), prior, class_sums)

    def _make_prior(self, pooled_mean: Array, pooled_variance: Array) -> NormalInverseGamma:
        if self.prior is not None:
            return self.prior
        return NormalInverseGamma.from_mean(
            pooled_mean, self.strength, replace_zero_variances(pooled_variance)
        )

    def count_parameters(self, density: Any) -> int:
        return 2 * int(density.class_sums.first.value.size)

    def refuse_impossible(self, statistic: Moments) -> None:
        statistic.refuse_impossible()


def replace_zero_variances(pooled_variance: Array) -> Array:
    """Return variances of all rows together, with 1 for constant columns and for columns without values.

    The variances of other columns are not used instead, because they have other units.
    """
    return np.where(pooled_variance > _MIN_VARIANCE, pooled_variance, 1.0)


def keep_prior_of_constant_columns(
    prior: NormalInverseGamma, posterior: NormalInverseGamma, constant: NDArray[np.bool_]
) -> NormalInverseGamma:
    """The posterior (K, d), replaced by the prior in constant columns.

    Then a constant column has the same density in all classes; its posterior would be narrowest in the class
    with the most rows.
    """
    if not constant.any():
        return posterior
    parts = zip(prior.parameters, posterior.parameters, strict=True)
    return NormalInverseGamma(*(np.where(constant, before, after) for before, after in parts))


def _find_largest_variance(pooled_variance: Array) -> float:
    """The largest variance of any column, all classes together; 0 if nothing was observed."""
    return float(np.nanmax(pooled_variance, initial=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Normal(Gaussian):
    """A Gaussian per column and class, with fixed parameters; `Student` has them integrated out."""

    keys: Keys
    mean: Array  # (K, d)
    variance: Array  # (K, d)
    _prior: NormalInverseGamma | Callable[[], NormalInverseGamma]  # the prior, or a function that computes it
    class_sums: Moments
    _precision: Array  # (K, d): 1 / variance
    _log_peak: Array  # (K, d): log of the density at the mean
    _zero_offsets: Array  # (K,): zeros; the kernel adds a number to the scores of each class

    @classmethod
    def of(
        cls,
        keys: Keys,
        mean: Array,
        variance: Array,
        prior: NormalInverseGamma | Callable[[], NormalInverseGamma],
        class_sums: Moments,
    ) -> Self:
        """Make the density, with the terms that every score needs."""
        log_peak = -0.5 * (np.log(variance) + _LOG_2PI)
        return cls(keys, mean, variance, prior, class_sums, 1.0 / variance, log_peak, np.zeros(len(keys)))

    @property
    def prior(self) -> NormalInverseGamma:
        """The prior of each column's mean and variance."""
        return self._prior if isinstance(self._prior, NormalInverseGamma) else self._prior()

    def scores(self, rows: Array) -> Array:
        return _kernels.gaussian_scores(rows, self.mean, self._precision, self._log_peak, self._zero_offsets)

    def with_parameters(self, means: Array | None, covariances: Array | None) -> Self:
        """Replace means and variances; `covariances` are variances (K, d), or one variance per class (K,)."""
        mean, variance = self.mean if means is None else means, self.variance
        if covariances is not None:
            given_variances = covariances if covariances.ndim == 2 else covariances[:, None]
            variance = np.broadcast_to(given_variances, variance.shape)
        return self.of(self.keys, mean, variance, self._prior, self.class_sums)

    def natural(self, origin: Array) -> Natural:
        centred = self.mean - origin
        linear = self._precision * centred
        constant = -0.5 * (linear * centred + np.log(self.variance) + _LOG_2PI).sum(axis=1)
        # The expectation of Σ (x − origin)² / variance, the quadratic terms that the others nearly cancel.
        cancelling = (self._precision * (np.square(centred) + self.variance)).sum(axis=1)
        return Natural("diagonal", constant, linear, -0.5 * self._precision, cancelling=cancelling)

    def contrasts(self, rows: Array, for_: int, against: int) -> Contrast:
        terms = [
            self._log_peak[k] - 0.5 * self._precision[k] * np.square(rows - self.mean[k])
            for k in (for_, against)
        ]
        return Contrast(np.where(np.isnan(rows), 0.0, terms[0] - terms[1]), np.zeros(len(rows)))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        noise = rng.standard_normal((len(group), self.mean.shape[1]))
        return list((self.mean[group] + np.sqrt(self.variance[group]) * noise).T)

    def log_evidence(self) -> float:
        return _log_evidence(self.prior, self.class_sums)


@dataclass(frozen=True, slots=True, eq=False)
class Student(ColumnDensity[Array]):
    """The Gaussian with its mean and variance integrated out."""

    keys: Keys
    members: StudentT  # (K, d)
    prior: NormalInverseGamma
    class_sums: Moments

    @property
    def mean(self) -> Array:
        """The mean of each class (K, d)."""
        return self.members.mean

    @property
    def covariance(self) -> Array:
        """The variances (K, d)."""
        return self.members.variance

    def _log_terms(self, rows: Array, k: int) -> Array:
        members = self.members
        of_class = StudentT(members.freedom[k], members.location[k], members.scale[k])
        missing = np.isnan(rows)
        return np.where(missing, 0.0, of_class.log_density(np.where(missing, 0.0, rows)))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        members = self.members
        of_rows = StudentT(members.freedom[group], members.location[group], members.scale[group])
        return list(of_rows.sample(rng).T)

    def log_evidence(self) -> float:
        return _log_evidence(self.prior, self.class_sums)


def _log_evidence(prior: NormalInverseGamma, class_sums: Moments) -> float:
    return float(prior.log_evidence(class_sums.drop_keys()).sum())
