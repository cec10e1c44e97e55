"""The posterior of a linear model → predictions, functions drawn from it, intervals and tests."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from tamis.arrays import Array
from tamis.conjugate import Normal, StudentT, Univariate
from tamis.conjugate.distribution import tail_of

_TINY = float(np.finfo(np.float64).tiny)  # the smallest scale, since scales must be positive


@dataclass(frozen=True, slots=True, eq=False)
class NoisePosterior:
    """An inverse gamma distribution of the variance of each target's noise."""

    shape: Array  # (q,)
    scale: Array  # (q,)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LinearPosterior:
    """The distribution of w, level and noise in y = level + (x − centre)·w + noise, for each of q targets.

    Given the noise's precision β, w is N(mean, GGᵀ/β); the level has mean `level` and variance slack/β, and
    is independent of w. A variance "in units of the noise" is the variance divided by that of the noise, 1/β.
    (Bishop 2006, section 3.3)
    """

    centre: Array  # (d,)
    level: Array  # (q,): the mean of the level
    slack: float  # the variance of the level, in units of the noise
    mean: Array  # (q, d): of w
    root: Array  # (1 or q, d, d): G; one for all targets if they share it
    beta: Array  # (q,): noise precision; its posterior mean if unknown
    noise: NoisePosterior | None  # None if the noise is known, or was chosen by evidence
    alpha: Array | None  # prior precision: (q,) by evidence, else as given; None if a covariance was given
    effective: Array  # (q,): γ, the effective number of coefficients
    log_evidence: Array | None  # (q,); None if the prior is improper

    @property
    def covariance(self) -> Array:
        """The covariance of the coefficients (q, d, d); ±∞ or NaN for a t of at most 2 degrees of freedom."""
        covariance = self.root @ np.swapaxes(self.root, -1, -2)
        with np.errstate(invalid="ignore"):
            return np.asarray(covariance * (self._variance_ratio / self.beta)[:, None, None])

    @property
    def intercept(self) -> Array:
        """The prediction for x = 0, (q,)."""
        return np.asarray(self.level - self.mean @ self.centre)

    def marginals(self) -> Univariate:
        """Return the distribution of each coefficient, as a batch (d, q)."""
        return self._make_distribution(self.mean.T, self.variances.T)

    @property
    def variances(self) -> Array:
        """The diagonals of GGᵀ (q, d): the variances of the coefficients in units of the noise."""
        return np.asarray(np.broadcast_to(np.square(self.root).sum(axis=-1), self.mean.shape))

    def predict(self, x: Array) -> Array:
        """Return the mean of the targets (n, q) for rows (n, d)."""
        return np.asarray(self.level + (x - self.centre) @ self.mean.T)

    def leverage(self, x: Array) -> Array:
        """Return the leverages (n, q) of rows (n, d) of weight 1."""
        centred = x - self.centre
        squares = np.stack([np.square(centred @ root).sum(axis=1) for root in self.root], axis=1)
        return np.asarray(self.slack + squares * np.ones(len(self.level)))

    def distribution(self, x: Array, target: int | slice = slice(None)) -> Univariate:
        """Return the distribution of a new target for each row (n, d): normal, or t if the noise is unknown.

        Its batch axes are (n, q), or (n,) if `target` is an index.
        """
        return self._make_distribution(self.predict(x)[:, target], 1.0 + self.leverage(x)[:, target], target)

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Draw coefficients (n, q, d) and levels (n, q)."""
        q, d = self.mean.shape
        precision = np.broadcast_to(self.beta, (n, q))
        if self.noise is not None:
            precision = rng.gamma(self.noise.shape, 1.0 / self.noise.scale, size=(n, q))
        scale = 1.0 / np.sqrt(precision)
        z = rng.standard_normal((n, q, d))
        weights = self.mean + scale[..., None] * (self.root @ z[..., None])[..., 0]
        return weights, self.level + scale * np.sqrt(self.slack) * rng.standard_normal((n, q))

    @property
    def _variance_ratio(self) -> Array:
        """Variance over squared scale (q,): 1 for a normal; ν/(ν − 2) for a t, ∞ if ν ≤ 2."""
        if self.noise is None:
            return np.ones(len(self.beta))
        excess = 2.0 * self.noise.shape - 2.0
        return np.where(excess > 0, (excess + 2.0) / np.where(excess > 0, excess, 1.0), np.inf)

    def deviation(self, variance: Array) -> Array:
        """Convert a variance in units of the noise (..., q) to a standard deviation in the target's unit."""
        return np.asarray(np.sqrt(variance * self._variance_ratio / self.beta))

    def _make_distribution(
        self, location: Array, variance: Array, target: int | slice = slice(None)
    ) -> Univariate:
        """Make a normal or t distribution of this location and variance, which is in units of the noise.

        Both are (..., q), or (...) for one target.
        """
        scale = np.maximum(np.sqrt(variance / self.beta[target]), _TINY)
        if self.noise is None:
            return Normal(location, scale)
        return StudentT(2.0 * self.noise.shape[target], location, scale)


class CoefficientTests(NamedTuple):
    """A test of each coefficient against 0, and its interval; arrays have the shape of the coefficients."""

    statistics: Array  # z or t: coefficients divided by standard errors
    p_values: Array  # two-sided
    lower: Array  # the lower end of the interval
    upper: Array  # the upper end of the interval


def assess_coefficients(
    coefficients: Array, errors: Array, coverage: float, degrees: Array | None = None
) -> CoefficientTests:
    """Test coefficients (k, d) of k outputs with these standard errors (k, d).

    The test uses the normal distribution or, with `degrees` of freedom (k,), Student's t distribution.
    """
    tail = tail_of(coverage)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics = coefficients / errors
    if degrees is None:
        critical = np.full((len(coefficients), 1), -float(special.ndtri(tail)))
        p_values = 2.0 * special.ndtr(-np.abs(statistics))
    else:
        critical = np.asarray(special.stdtrit(degrees, 1.0 - tail))[:, None]
        p_values = 2.0 * special.stdtr(degrees[:, None], -np.abs(statistics))
    return CoefficientTests(
        statistics, p_values, coefficients - critical * errors, coefficients + critical * errors
    )
