"""numbers → diagonal Moments by class → a Gaussian, or its Student t, for each column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis import _kernels
from tamis.arrays import Array
from tamis.conjugate import NormalInverseGamma
from tamis.conjugate.student_t import StudentT
from tamis.models.generative.block import Block, Contrast, Density, Responsibilities, refuse_strength
from tamis.models.generative.gaussian_expectation import Gaussian, Natural, PreparedRows, sum_columns
from tamis.stats import Keys, Labels, Moments
from tamis.tables import Table

_LEAST = 1e-300  # a variance that no rounding makes zero, and whose inverse is finite
_SQUARABLE = 1e100  # below, sums of squares are far from the range's end
_LOG_TAU = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, kw_only=True)
class GaussianColumns(Block[Array, Moments]):
    """Each column a Gaussian of its own in each class.

    `smoothing` times the largest variance of any column is added to every variance, as scikit-learn does.
    The prior, unless one is given, has the mean and variance of all classes together, worth `strength`
    observations. (The variance within classes was tried: experiments/0002.)
    """

    kind: ClassVar[str] = "gaussian"

    smoothing: float = 0.0
    strength: float = 1.0
    prior: NormalInverseGamma | None = None

    def __post_init__(self) -> None:
        Block.__post_init__(self)
        refuse_strength(self.strength)

    def encode(self, table: Table, learn: bool = True) -> Array:
        return self.values(table)

    def admits(self, values: Array) -> bool:
        return bool(np.abs(values).max() < _SQUARABLE)  # not so if any is NaN

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

    def prepare(self, rows: Array, weights: Array | None) -> PreparedRows | None:
        return PreparedRows.of(rows, weights)

    def infer(self, statistic: Moments, keys: Keys) -> "Density[Array]":
        pooled = statistic.pooled()
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = pooled.variance
        belief = self._prior(pooled, spread)
        flat = ~(spread > _LEAST) & (self.prior is None)
        seen = statistic.over(keys)
        if self.estimate == "predictive":
            after = _updated(belief, seen, flat)
            return Student(keys, after.predictive(), belief, seen)
        if self.estimate == "mle":
            with np.errstate(invalid="ignore", divide="ignore"):
                mean, variance = seen.mean, seen.variance
            nothing = ~(seen.weight.value > 0)
            mean, variance = np.where(nothing, 0.0, mean), np.where(nothing, 1.0, variance)
            variance = variance + self.smoothing * _largest(spread)
        else:
            after = _updated(belief, seen, flat)
            mean, variance = after.mode if self.estimate == "map" else after.mean
            variance = np.where(np.isfinite(variance), variance, after.scale / after.shape)
        return Normal.of(keys, mean, np.maximum(variance, _LEAST), belief, seen)

    def _prior(self, pooled: Moments, spread: Array) -> NormalInverseGamma:
        if self.prior is not None:
            return self.prior
        mean = np.where(pooled.weight.value > 0, pooled.mean, 0.0)
        return NormalInverseGamma.from_mean(mean, self.strength, known_spread(spread))

    def refuse_impossible(self, statistic: Moments) -> None:
        statistic.refuse_impossible()


def known_spread(spread: Array) -> Array:
    """Variances of all rows together, 1 in columns that never varied: of these nothing is known, and no other
    column's unit may stand in."""
    return np.where(spread > _LEAST, spread, 1.0)


def _updated(belief: NormalInverseGamma, seen: Moments, flat: NDArray[np.bool_]) -> NormalInverseGamma:
    """(K, d); the belief itself where nothing was seen, and in columns that never varied.

    All classes then think the same of such a column; else the class of most rows would be surest of it.
    """
    before = [
        np.broadcast_to(part, seen.first.shape)
        for part in (belief.location, belief.strength, belief.shape, belief.scale)
    ]
    after = NormalInverseGamma(*before).update(seen.drop_keys())
    if not flat.any():
        return after
    parts = zip(before, (after.location, after.strength, after.shape, after.scale), strict=True)
    return NormalInverseGamma(*(np.where(flat, ours, theirs) for ours, theirs in parts))


def _largest(spread: Array) -> float:
    """The largest variance of any column, all classes together; 0 if nothing was seen."""
    return float(np.nanmax(spread, initial=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Normal(Gaussian):
    """A Gaussian per column and class."""

    keys: Keys
    mean: Array  # (K, d)
    variance: Array  # (K, d)
    belief: NormalInverseGamma
    seen: Moments
    _precision: Array  # (K, d): 1 / variance
    _log_scale: Array  # (K, d): log of the density at the mean
    _nothing: Array  # (K,): zeros

    @classmethod
    def of(
        cls, keys: Keys, mean: Array, variance: Array, belief: NormalInverseGamma, seen: Moments
    ) -> "Normal":
        """With what every score needs worked out."""
        log_scale = -0.5 * (np.log(variance) + _LOG_TAU)
        return cls(keys, mean, variance, belief, seen, 1.0 / variance, log_scale, np.zeros(len(keys)))

    def scores(self, rows: Array) -> Array:
        return _kernels.gaussian_scores(rows, self.mean, self._precision, self._log_scale, self._nothing)

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
        return _log_evidence(self.belief, self.seen)


@dataclass(frozen=True, slots=True, eq=False)
class Student(Density[Array]):
    """The Gaussian with its mean and variance integrated out."""

    keys: Keys
    members: StudentT  # (K, d)
    belief: NormalInverseGamma
    seen: Moments

    @property
    def mean(self) -> Array:
        """(K, d)."""
        return self.members.mean

    @property
    def covariance(self) -> Array:
        """The variances (K, d)."""
        return self.members.variance

    def scores(self, rows: Array) -> Array:
        found = np.empty((len(rows), len(self.keys)))
        for k in range(len(self.keys)):
            found[:, k] = self._terms(rows, k).sum(axis=1)
        return found

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
        return _log_evidence(self.belief, self.seen)


def _log_evidence(belief: NormalInverseGamma, seen: Moments) -> float:
    return float(belief.log_evidence(seen.drop_keys()).sum())
