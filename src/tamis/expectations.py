"""A density and a function → the function's expectation, with its error: for what has no closed form.

Three ways, by what one can do with the density: draw from it (`monte_carlo`), draw from a neighbour of it
(`importance`), or only evaluate it up to a constant (`metropolis`). All take the generator they draw from.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tamis.arrays import Array, floats

Sampler = Callable[[np.random.Generator, int], Array]  # (generator, n) → draws (n, ...)
LogDensity = Callable[[Array], Array]  # draws (n, ...) → (n,), up to a constant
Function = Callable[[Array], Array]  # draws (n, ...) → (n, ...)


@dataclass(frozen=True, slots=True)
class Expectation:
    """An estimate and its standard error; `effective` independent draws would have had the same error."""

    value: Array
    error: Array
    effective: float

    def interval(self, errors: float = 2.0) -> tuple[Array, Array]:
        """The value plus and minus so many standard errors."""
        return self.value - errors * self.error, self.value + errors * self.error


def monte_carlo(function: Function, sampler: Sampler, draws: int, rng: np.random.Generator) -> Expectation:
    """E[f] by the mean over independent draws.

    >>> rng = np.random.default_rng(1)
    >>> half = monte_carlo(lambda x: x, lambda rng, n: rng.random(n), 10_000, rng)
    >>> bool(abs(half.value - 0.5) < 4 * half.error), round(float(half.error), 4)
    (True, 0.0029)
    """
    _refuse_few(draws)
    values = _evaluate(function, floats(sampler(rng, draws), "draws"), draws)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws)
    return Expectation(np.asarray(values.mean(axis=0)), np.asarray(error), float(draws))


def importance(
    function: Function,
    log_target: LogDensity,
    sampler: Sampler,
    log_proposal: LogDensity,
    draws: int,
    rng: np.random.Generator,
) -> Expectation:
    """E[f] under the target by weighing draws from a proposal; neither density need be normalised.

    The weights are normalised by their own sum. `effective` is (Σw)² / Σw², which lies near `draws` when the
    proposal is close to the target and near 1 when a single draw carries the answer.
    """
    _refuse_few(draws)
    sample = floats(sampler(rng, draws), "draws")
    log_weights = _log_densities(log_target, sample, draws) - _log_densities(log_proposal, sample, draws)
    if np.isnan(log_weights).any() or np.isposinf(log_weights).any():
        raise ValueError("a weight is infinite or NaN: expected a proposal that covers the target's support")
    top = log_weights.max()
    if np.isneginf(top):
        raise ValueError("the target has no mass at any draw: expected a proposal nearer to the target")
    weights = np.exp(log_weights - top)
    weights /= weights.sum()
    values = _evaluate(function, sample, draws)
    column = weights.reshape(-1, *(1,) * (values.ndim - 1))
    with np.errstate(invalid="ignore"):
        kept = np.where(column > 0, values, 0.0)  # f may be infinite where the target has no mass
    value = (column * kept).sum(axis=0)
    error = np.sqrt((np.square(column) * np.square(kept - value)).sum(axis=0))
    return Expectation(np.asarray(value), np.asarray(error), float(1.0 / np.square(weights).sum()))


@dataclass(frozen=True, slots=True)
class Chain:
    """Dependent draws (n, d) that tend to the target's distribution, and the share of proposals accepted."""

    draws: Array
    acceptance: float
    scale: Array  # the step's standard deviations (d,), as they were when adapting ended

    def expectation(self, function: Function) -> Expectation:
        """E[f] by the mean over the chain; its error allows for the dependence between draws.

        The error comes from the means of √n consecutive batches, which are nearly independent.
        """
        values = _evaluate(function, self.draws, len(self.draws))
        batches = int(np.sqrt(len(values)))
        length = len(values) // batches
        used = values[len(values) - batches * length :]
        means = used.reshape(batches, length, *values.shape[1:]).mean(axis=1)
        error = means.std(axis=0, ddof=1) / np.sqrt(batches)
        spread = values.var(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(error > 0, spread / np.square(error), float(len(values)))
        effective = float(min(np.min(each), len(values)))
        return Expectation(np.asarray(values.mean(axis=0)), np.asarray(error), effective)


def metropolis(
    log_density: Callable[[Array], float],
    start: ArrayLike,
    draws: int,
    rng: np.random.Generator,
    scale: ArrayLike = 1.0,
    warm_up: int | None = None,
) -> Chain:
    """Random-walk Metropolis: draws from a density known up to a constant, from a start where it is positive.

    During the warm-up (by default as many steps as draws) the steps' length is adapted to an acceptance of
    about a quarter, and their shape to the spread seen so far; then both are frozen and the chain is kept.

    >>> rng = np.random.default_rng(0)
    >>> chain = metropolis(lambda x: -0.5 * float(x @ x), [3.0], 4_000, rng)
    >>> mean = chain.expectation(lambda x: x[:, 0])
    >>> bool(abs(mean.value) < 4 * mean.error), 0.1 < chain.acceptance < 0.6
    (True, True)
    """
    _refuse_few(draws)
    here = np.atleast_1d(floats(start, "start")).astype(np.float64)
    steps = np.broadcast_to(floats(scale, "scale"), here.shape).astype(np.float64)
    level = float(log_density(here))
    if not np.isfinite(level):
        raise ValueError(f"the log-density at the start is {level}, expected a start where it is finite")
    if not (steps > 0).all():
        raise ValueError(f"got a step of {steps.min()}, expected above zero")
    warm = _Warmth(steps)
    for step in range(draws if warm_up is None else warm_up):
        here, level, accepted = _step(log_density, here, level, warm.scale, rng)
        warm.adapt(step, here, accepted)
    kept = np.empty((draws, here.size))
    moved = 0
    for i in range(draws):
        here, level, accepted = _step(log_density, here, level, warm.scale, rng)
        moved += accepted
        kept[i] = here
    return Chain(kept, moved / draws, warm.scale)


_WANTED = 0.3  # acceptance: 0.44 is best in one dimension and 0.234 in many (Roberts, Gelman and Gilks 1997)


class _Warmth:
    """What the warm-up learns: how long a step may be, and how wide each coordinate is."""

    def __init__(self, scale: Array) -> None:
        self._log_factor = 0.0
        self._mean = np.zeros_like(scale)
        self._spread = np.zeros_like(scale)
        self._start = scale
        self.scale = scale

    def adapt(self, step: int, here: Array, accepted: bool) -> None:
        gain = (step + 2.0) ** -0.6
        self._log_factor += gain * (float(accepted) - _WANTED)
        change = here - self._mean
        self._mean = self._mean + change / (step + 1)
        self._spread = self._spread + change * (here - self._mean)
        width = self._start
        if step >= 100:
            seen = np.sqrt(self._spread / step)
            width = np.where(seen > 0, seen, self._start)
        self.scale = np.exp(self._log_factor) * width


def _step(
    log_density: Callable[[Array], float], here: Array, level: float, scale: Array, rng: np.random.Generator
) -> tuple[Array, float, bool]:
    there = here + scale * rng.standard_normal(here.shape)
    proposed = float(log_density(there))
    if np.log(rng.random()) < proposed - level:  # NaN compares false: such a place is never entered
        return there, proposed, True
    return here, level, False


def _refuse_few(draws: int) -> None:
    if draws < 2:
        raise ValueError(f"got {draws} draws, expected at least 2: one draw has no standard error")


def _evaluate(function: Function, sample: Array, draws: int) -> Array:
    values = floats(function(sample), "the function's values")
    if values.shape[:1] != (draws,):
        raise ValueError(f"the function gave shape {values.shape} for {draws} draws, expected a row a draw")
    return values


def _log_densities(log_density: LogDensity, sample: Array, draws: int) -> Array:
    values = floats(log_density(sample), "the log-density")
    if values.shape != (draws,):
        raise ValueError(f"the log-density gave shape {values.shape} for {draws} draws, expected ({draws},)")
    return values
