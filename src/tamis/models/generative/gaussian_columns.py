"""numbers → diagonal Moments by class → a Gaussian, or its Student t, for each column."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels
from tamis.arrays import Array
from tamis.conjugate import NormalInverseGamma
from tamis.conjugate.normal_inverse_gamma import mean_variance, update_parameters
from tamis.conjugate.student_t import StudentT
from tamis.models.generative.block import Block, Contrast, Density, Responsibilities, refuse_strength
from tamis.models.generative.gaussian_expectation import Gaussian, Natural, PreparedRows, sum_columns
from tamis.stats import Keys, Labels, Moments
from tamis.tables import Table

_LEAST = 1e-300  # a variance that no rounding makes zero, and whose inverse is finite
_SQUARABLE = 1e100
_LOG_TAU = float(np.log(2.0 * np.pi))


def can_square(values: Array) -> bool:
    """Whether sums of squares of these values are far from the largest float; not if any value is NaN."""
    return bool(np.abs(values).max() < _SQUARABLE)


@dataclass(frozen=True, kw_only=True)
class GaussianColumns(Block[Array, Moments]):
    """Each column has a Gaussian of its own in each class.

    `smoothing` times the largest variance of any column is added to every variance, as scikit-learn does.
    The prior, unless one is given, has the mean and variance of all classes together, worth `strength`
    observations. (The variance within classes was tried: experiments/0002.)
    """

    kind: ClassVar[str] = "gaussian"
    needs_all_rows: ClassVar[bool] = False

    smoothing: float = 0.0
    strength: float = 1.0
    prior: NormalInverseGamma | None = None

    def __post_init__(self) -> None:
        Block.__post_init__(self)
        refuse_strength(self.strength)

    def encode(self, table: Table, learn: bool = True) -> Array:
        return self.values(table)

    def admits(self, values: Array) -> bool:
        return can_square(values)

    def observe(
        self,
        rows: Array,
        by: Labels | Responsibilities,
        weights: Array | None = None,
        given: Density[Array] | None = None,
    ) -> Moments:
        """By label, exactly; by responsibilities, by BLAS about the mean of each class, good to rounding."""
        if isinstance(by, Responsibilities):
            return sum_columns(rows, by)
        return Moments.observe(rows, weights, by, missing=True)

    def add_row(self, statistic: Moments, row: Array, label: Hashable, weight: float) -> Moments | None:
        return statistic.add_row(row[0], label, weight)

    def prepare(self, rows: Array, weights: Array | None) -> PreparedRows | None:
        return PreparedRows.of(rows, weights)

    def infer(self, statistic: Moments, keys: Keys) -> "Density[Array]":
        class_sums = statistic.over(keys)
        # each (K + 1, d), the last of all classes together
        weight, mean, scatter, shift = class_sums.describe_with_pooled()
        nothing = ~(weight > 0)
        some_lack = bool(nothing.any())
        variance = scatter / np.where(nothing, 1.0, weight) if some_lack else scatter / weight
        if some_lack:
            mean, variance = np.where(nothing, 0.0, mean), np.where(nothing, np.nan, variance)
        pooled_mean, pooled_variance = mean[-1], variance[-1]
        prior = partial(self._prior, pooled_mean, pooled_variance)
        if self.estimate == "mle":
            own = np.where(nothing[:-1], 1.0, variance[:-1]) if some_lack else variance[:-1]
            own = own + self.smoothing * _largest(pooled_variance)
            return Normal.of(keys, mean[:-1], np.maximum(own, _LEAST), prior, class_sums)
        constant = ~(pooled_variance > _LEAST) & (self.prior is None)
        if self.prior is None and self.strength > 0 and not constant.any() and self.estimate != "predictive":
            # As below, but without objects of prior and posterior, whose checks take most of the time.
            half = 0.5 * self.strength
            known = pooled_mean, self.strength, 1.0 + half, half * pooled_variance
            centre, _, shape, scale = update_parameters(known, weight[:-1], shift[:-1], scatter[:-1])
            width = scale / (shape + 1.5) if self.estimate == "map" else mean_variance(shape, scale)
            if np.isfinite(width).all() and np.isfinite(centre).all():
                return Normal.of(keys, centre, np.maximum(width, _LEAST), prior, class_sums)
        posterior = _update(prior(), class_sums, constant)
        if self.estimate == "predictive":
            return Student(keys, posterior.predictive(), prior(), class_sums)
        centre, width = posterior.mode if self.estimate == "map" else posterior.mean
        width = np.where(np.isfinite(width), width, posterior.scale / posterior.shape)
        return Normal.of(keys, centre, np.maximum(width, _LEAST), prior, class_sums)

    def _prior(self, pooled_mean: Array, pooled_variance: Array) -> NormalInverseGamma:
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
    """Variances of all rows together, with 1 in columns that never varied: no other column's unit fits."""
    return np.where(pooled_variance > _LEAST, pooled_variance, 1.0)


def _update(
    prior: NormalInverseGamma, class_sums: Moments, constant: NDArray[np.bool_]
) -> NormalInverseGamma:
    """The posterior (K, d); the prior itself where nothing was observed, and in columns that never varied.

    All classes then agree on such a column; else the class with most rows would have the narrowest density.
    """
    posterior = prior.update(class_sums.drop_keys())
    if not constant.any():
        return posterior
    parts = zip(
        (prior.location, prior.strength, prior.shape, prior.scale),
        (posterior.location, posterior.strength, posterior.shape, posterior.scale),
        strict=True,
    )
    return NormalInverseGamma(*(np.where(constant, ours, theirs) for ours, theirs in parts))


def _largest(pooled_variance: Array) -> float:
    """The largest variance of any column, all classes together; 0 if nothing was observed."""
    return float(np.nanmax(pooled_variance, initial=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Normal(Gaussian):
    """A Gaussian per column and class."""

    keys: Keys
    mean: Array  # (K, d)
    variance: Array  # (K, d)
    _prior: NormalInverseGamma | Callable[[], NormalInverseGamma]  # which is made when it is asked for
    class_sums: Moments
    _precision: Array  # (K, d): 1 / variance
    _log_scale: Array  # (K, d): log of the density at the mean
    _nothing: Array  # (K,): zeros

    @classmethod
    def of(
        cls,
        keys: Keys,
        mean: Array,
        variance: Array,
        prior: NormalInverseGamma | Callable[[], NormalInverseGamma],
        class_sums: Moments,
    ) -> Self:
        """Compute the terms that every score needs."""
        log_scale = -0.5 * (np.log(variance) + _LOG_TAU)
        return cls(keys, mean, variance, prior, class_sums, 1.0 / variance, log_scale, np.zeros(len(keys)))

    @property
    def prior(self) -> NormalInverseGamma:
        """The prior of each column's mean and variance."""
        return self._prior if isinstance(self._prior, NormalInverseGamma) else self._prior()

    def scores(self, rows: Array) -> Array:
        return _kernels.gaussian_scores(rows, self.mean, self._precision, self._log_scale, self._nothing)

    def with_parameters(self, means: Array | None, covariances: Array | None) -> Self:
        """Covariances are the variances of each class and column (K, d), or one of each class (K,)."""
        mean, variance = self.mean if means is None else means, self.variance
        if covariances is not None:
            own = covariances if covariances.ndim == 2 else covariances[:, None]
            variance = np.broadcast_to(own, variance.shape)
        return self.of(self.keys, mean, variance, self._prior, self.class_sums)

    def natural(self, origin: Array) -> Natural:
        about = self.mean - origin
        linear = self._precision * about
        constant = -0.5 * (linear * about + np.log(self.variance) + _LOG_TAU).sum(axis=1)
        cancelling = (self._precision * (np.square(about) + self.variance)).sum(axis=1)
        return Natural("diagonal", constant, linear, -0.5 * self._precision, cancelling)

    def contrasts(self, rows: Array, for_: int, against: int) -> Contrast:
        terms = [
            self._log_scale[k] - 0.5 * self._precision[k] * np.square(rows - self.mean[k])
            for k in (for_, against)
        ]
        return Contrast(np.where(np.isnan(rows), 0.0, terms[0] - terms[1]), np.zeros(len(rows)))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        noise = rng.standard_normal((len(group), self.mean.shape[1]))
        return list((self.mean[group] + np.sqrt(self.variance[group]) * noise).T)

    def log_evidence(self) -> float:
        return _log_evidence(self.prior, self.class_sums)


@dataclass(frozen=True, slots=True, eq=False)
class Student(Density[Array]):
    """The Gaussian with its mean and variance integrated out."""

    keys: Keys
    members: StudentT  # (K, d)
    prior: NormalInverseGamma
    class_sums: Moments

    @property
    def mean(self) -> Array:
        """(K, d)."""
        return self.members.mean

    @property
    def covariance(self) -> Array:
        """The variances (K, d)."""
        return self.members.variance

    def scores(self, rows: Array) -> Array:
        scores = np.empty((len(rows), len(self.keys)))
        for k in range(len(self.keys)):
            scores[:, k] = self._terms(rows, k).sum(axis=1)
        return scores

    def contrasts(self, rows: Array, for_: int, against: int) -> Contrast:
        return Contrast(self._terms(rows, for_) - self._terms(rows, against), np.zeros(len(rows)))

    def _terms(self, rows: Array, k: int) -> Array:
        members = self.members
        one = StudentT(members.freedom[k], members.location[k], members.scale[k])
        missing = np.isnan(rows)
        return np.where(missing, 0.0, one.log_density(np.where(missing, 0.0, rows)))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        members = self.members
        each = StudentT(members.freedom[group], members.location[group], members.scale[group])
        return list(each.sample(rng).T)

    def log_evidence(self) -> float:
        return _log_evidence(self.prior, self.class_sums)


def _log_evidence(prior: NormalInverseGamma, class_sums: Moments) -> float:
    return float(prior.log_evidence(class_sums.drop_keys()).sum())
