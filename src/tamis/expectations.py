"""Estimate the expectation of a function under a density by sampling, with its standard error.

`monte_carlo` draws from the density, `importance` draws from a similar one, and `metropolis` needs only the
density up to a constant factor. All take a random generator. A draw may be a number, a vector, or the result
of a prior's `sample`: only the caller's function uses its content.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, floats
from tamis.conjugate.distribution import tail_of
from tamis.extras import explain_missing
from tamis.linalg import Cholesky

try:
    from scipy import special
except ModuleNotFoundError as error:
    raise explain_missing(error, __name__) from None

Sampler = Callable[[np.random.Generator, int], Any]  # (generator, n) → n draws
LogDensity = Callable[[Any], ArrayLike]  # n draws → (n,), up to an additive constant
Function = Callable[[Any], ArrayLike]  # n draws → (n, ...)


@dataclass(frozen=True, slots=True)
class Expectation:
    """An estimate and its standard error.

    `effective` is the effective sample size. For independent draws it is their number. For a chain it is the
    number of independent draws with the same error, at most the chain's length; if the function has several
    values, it is the least of theirs. For weighted draws it is (Σw)² / Σw².
    """

    value: Array
    error: Array
    effective: float

    def interval(self, coverage: float = 0.95) -> tuple[Array, Array]:
        """Return an interval that contains the expectation with about this probability.

        By the central limit theorem, the probability is exact as the number of draws goes to infinity.
        """
        half_width = -special.ndtri(tail_of(coverage)) * self.error  # ndtri: quantiles of N(0, 1)
        return self.value - half_width, self.value + half_width


def monte_carlo(
    function: Function, sampler: Sampler, draws: int = 10_000, *, rng: np.random.Generator
) -> Expectation:
    """Estimate E[f] by the mean over independent draws.

    >>> from tamis.conjugate import Beta
    >>> odds = monte_carlo(lambda p: p / (1 - p), Beta(9, 5).sample, rng=np.random.default_rng(1))
    >>> bool(abs(odds.value - 9 / 4) < 4 * odds.error), odds.effective
    (True, 10000.0)
    """
    _refuse_few(draws, 2)
    values = _evaluate(function, sampler(rng, draws), draws)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws)
    return Expectation(np.asarray(values.mean(axis=0)), np.asarray(error), float(draws))


_LEAST_EFFECTIVE = 30.0  # with a smaller effective sample size, the error is not reliable


def importance(
    function: Function,
    log_target: LogDensity,
    sampler: Sampler,
    log_proposal: LogDensity,
    draws: int = 10_000,
    *,
    rng: np.random.Generator,
) -> Expectation:
    """Estimate E[f] under the target by weighting draws from a proposal; the densities need no normalising.

    The weights are divided by their sum. `effective` is near `draws` if the proposal is similar to the
    target, and near 1 if a single draw has nearly all weight; then the error is not reliable, and a warning
    says so.
    """
    _refuse_few(draws, 2)
    sample = sampler(rng, draws)
    log_weights = _evaluate_log_densities(log_target, sample, draws) - _evaluate_log_densities(
        log_proposal, sample, draws
    )
    if np.isnan(log_weights).any() or np.isposinf(log_weights).any():
        raise ValueError("a weight is infinite or NaN: expected a proposal that covers the target's support")
    largest = log_weights.max()
    if np.isneginf(largest):
        raise ValueError(
            "the target's density is zero at all draws: expected a proposal nearer to the target"
        )
    weights = np.exp(log_weights - largest)
    weights /= weights.sum()
    values = _evaluate(function, sample, draws)
    effective = float(1.0 / np.square(weights).sum())
    weights = weights.reshape(-1, *(1,) * (values.ndim - 1))
    values = np.where(weights > 0, values, 0.0)  # f may be infinite where the target's density is zero
    value = (weights * values).sum(axis=0)
    error = np.sqrt((np.square(weights) * np.square(values - value)).sum(axis=0))
    if effective < _LEAST_EFFECTIVE:
        warnings.warn(
            f"the effective sample size is {effective:.1f} of {draws} draws, expected at least "
            f"{_LEAST_EFFECTIVE:.0f}: the error is not reliable; use a proposal nearer to the target",
            RuntimeWarning,
            stacklevel=2,
        )
    return Expectation(np.asarray(value), np.asarray(error), effective)


@dataclass(frozen=True, slots=True)
class Chain:
    """Dependent draws whose distribution converges to the target's."""

    draws: Array  # (n,) from a start that is a number, (n, d) from a vector
    acceptance: float  # the fraction of proposals that were accepted

    def expectation(self, function: Function) -> Expectation:
        """Estimate E[f] by the mean over the chain; the error accounts for the draws' autocorrelation.

        The error is infinite, and the effective sample size 1, if all draws are equal.
        """
        n = len(self.draws)
        values = _evaluate(function, self.draws, n)
        mean = np.asarray(values.mean(axis=0))
        if not np.ptp(self.draws, axis=0).any():
            return Expectation(mean, np.full(mean.shape, np.inf), 1.0)
        columns = values.reshape(n, -1)
        pairs = [_estimate_variance_of_mean(columns[:, j]) for j in range(columns.shape[1])]
        variance = np.array([pair[0] for pair in pairs]).reshape(mean.shape)
        return Expectation(mean, np.asarray(np.sqrt(variance)), min(pair[1] for pair in pairs))


def metropolis(
    log_density: Callable[[Any], ArrayLike],
    start: ArrayLike,
    draws: int = 10_000,
    *,
    rng: np.random.Generator,
    scale: ArrayLike = 1.0,
    warm_up: int | None = None,
) -> Chain:
    """Draw from a density that is known up to a constant factor, by random-walk Metropolis.

    `start` is a number or a vector at which the density is positive; `log_density` takes such a number or
    vector. `scale` is the standard deviation of the first proposals, one number or one per coordinate. During
    the warm-up of `warm_up` steps (by default `draws`), the length of the proposed steps is adapted so that
    about 0.3 of the proposals are accepted, and their covariance to the covariance of the chain so far. Then
    both are fixed, and the draws are recorded.

    >>> chain = metropolis(lambda x: -0.5 * x @ x, [3.0, -1.0], rng=np.random.default_rng(0))
    >>> mean = chain.expectation(lambda x: x)
    >>> bool((abs(mean.value) < 4 * mean.error).all()), 0.2 < chain.acceptance < 0.45
    (True, True)
    """
    _refuse_few(draws, 10)
    point = floats(start, "start")
    if point.ndim > 1:
        raise ValueError(f"got a start of shape {point.shape}, expected a number or a vector: flatten it")
    scales = floats(scale, "scale")
    if not (scales > 0).all():
        raise ValueError(f"got a scale of {scales.min()}, expected above zero")

    def evaluate(x: Array) -> float:
        density = floats(log_density(x.reshape(point.shape)), "the log-density")
        if density.size != 1:
            raise ValueError(f"the log-density gave shape {density.shape} for one point, expected one number")
        return float(density.reshape(()))

    walk = _RandomWalk(evaluate, point.reshape(-1), np.broadcast_to(scales, point.shape).reshape(-1))
    for step in range(draws if warm_up is None else warm_up):
        walk.adapt(step, walk.move(rng))
    chain = np.empty((draws, point.size))
    accepted = 0
    for i in range(draws):
        accepted += walk.move(rng)
        chain[i] = walk.point
    return Chain(chain.reshape(draws, *point.shape), accepted / draws)


# The fraction of proposals to accept: 0.44 is best in one dimension, 0.234 in many (Roberts et al. 1997).
_TARGET_ACCEPTANCE = 0.3
_STEPS_PER_UPDATE = 100  # steps of the warm-up from one update of the proposals' covariance to the next


class _RandomWalk:
    """Random-walk Metropolis: the chain's current point, and the adaptive distribution of its proposals."""

    def __init__(self, log_density: Callable[[Array], float], start: Array, scale: Array) -> None:
        self.point = start
        self._log_density = log_density
        self._log_density_at_point = log_density(start)
        if not np.isfinite(self._log_density_at_point):
            raise ValueError(
                f"the log-density at the start is {self._log_density_at_point}, "
                "expected a start where it is finite"
            )
        self._factor = np.diag(scale)  # a step is exp(_log_length) · _factor · (standard normal vector)
        self._log_length = 0.0
        self._mean = np.zeros_like(start)
        self._scatter = np.zeros((start.size, start.size))

    def move(self, rng: np.random.Generator) -> bool:
        """Propose a point, and return whether it was accepted."""
        proposal = self.point + np.exp(self._log_length) * (
            self._factor @ rng.standard_normal(self.point.size)
        )
        proposed = self._log_density(proposal)
        if np.log(rng.random()) < proposed - self._log_density_at_point:  # a density of NaN is rejected
            self.point, self._log_density_at_point = proposal, proposed
            return True
        return False

    def adapt(self, step: int, accepted: bool) -> None:
        """Adapt the length of proposed steps, and their covariance, after step number `step`, from 0.

        The length follows the fraction of accepted proposals, and the covariance follows the chain's.
        """
        # Stochastic approximation (Robbins and Monro) with a learning rate that decreases like step^−0.6.
        self._log_length += (step + 2.0) ** -0.6 * (float(accepted) - _TARGET_ACCEPTANCE)
        change = self.point - self._mean
        self._mean = self._mean + change / (step + 1)
        self._scatter += np.outer(change, self.point - self._mean)
        if (step + 1) % _STEPS_PER_UPDATE == 0:
            covariance = self._scatter / step
            ridge = 1e-6 * np.diag(np.diag(covariance))
            if (np.diag(covariance) > 0).all():
                self._factor = Cholesky.of(covariance + ridge, "covariance of the chain").lower


def _estimate_variance_of_mean(values: Array) -> tuple[float, float]:
    """Return the variance of the mean of dependent draws (n,), and the effective sample size.

    The method is Geyer's (1992) initial monotone sequence: the true sums of two successive autocovariances
    are positive and decrease. So their estimates are added up to the first that is not positive, and each is
    reduced to the least estimate before it.
    """
    n = len(values)
    centred = values - values.mean()
    variance = float(centred @ centred) / n
    if variance == 0.0:
        return 0.0, float(n)
    spectrum = np.fft.rfft(centred, 2 * n)
    covariances = np.fft.irfft(spectrum * spectrum.conj())[:n] / n
    pairs = covariances[: n - n % 2].reshape(-1, 2).sum(axis=1)
    summands = pairs[: np.argmax(pairs <= 0)] if (pairs <= 0).any() else pairs
    total = 2.0 * float(np.minimum.accumulate(summands).sum()) - variance
    variance_of_mean = max(total, variance / n) / n
    return variance_of_mean, min(variance / variance_of_mean, float(n))


def _refuse_few(draws: int, least: int) -> None:
    if draws < least:
        raise ValueError(f"got {draws} draws, expected at least {least}: fewer have no standard error")


def _evaluate(function: Function, sample: Any, draws: int) -> Array:
    values = floats(function(sample), "the function's value")
    if values.shape[:1] != (draws,):
        raise ValueError(
            f"the function gave shape {values.shape} for {draws} draws, expected one row per draw"
        )
    return values


def _evaluate_log_densities(log_density: LogDensity, sample: Any, draws: int) -> Array:
    values = floats(log_density(sample), "the log-density")
    if values.shape != (draws,):
        raise ValueError(f"the log-density gave shape {values.shape} for {draws} draws, expected ({draws},)")
    return values
