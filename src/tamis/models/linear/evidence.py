"""Normal equations → the prior's and the noise's precision that make the targets most probable.

Given the ratio ρ = α/β, the best β has a closed form, so one number is left to find, and the eigenvalues λ of
the Gram say all that is needed of it (MacKay 1992; Bishop 3.5):

    log p(y) = ½ Σ (log ρ − log(λ + ρ)) + n/2 log β − β/2 Q(ρ) + constant,   Q(ρ) = min_w |y − Φw|² + ρ|w|²

It is looked up on a grid of log ρ, and then the best cell is halved until its slope is zero: the evidence
cannot fall, nor the search end on a lesser hill.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tamis import linalg
from tamis.arrays import Array

Curve = Callable[[Array], Array]

# The squared noise is at least this share of the targets' variance: below, a Gram of 1e-12 cannot tell.
LEAST_NOISE = 1e-12
_STEP = 0.25  # of the grid, in log ρ
_DEEP, _HIGH = 80.0, 25.0  # log λ − log ρ: ρ is between 1e-35 and 7e10 of the largest eigenvalue
_LIMIT = 700.0  # of |log ρ|: beyond, ρ is no float
_HALVINGS = 60  # of a bracket half as wide as the grid: below the last bit of log ρ
_PLATEAU = 1e-11  # of the height: rounding; two rows on a line fit every ratio equally well
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The squares that one target leaves, seen along the eigenvectors of the features.

    Features are in units of the prior: its precision is α times the identity.
    """

    values: Array  # (r,): λ above zero
    shares: Array  # (r,): of the squares, what each direction can explain
    residual: float  # Q(0): what least squares leave
    count: float  # n, less one for each direction that has no prior

    def penalised(self, ratio: Array) -> Array:
        """Q(ρ) for ratios (...,): a sum of what is positive, so that nothing cancels."""
        r = ratio[..., None]
        return np.asarray(self.residual + (self.shares * (r / (self.values + r))).sum(axis=-1))

    def slope(self, ratio: Array) -> Array:
        """dQ / d log ρ."""
        r = ratio[..., None]
        whole = self.values + r
        return np.asarray((self.shares * (self.values / whole) * (r / whole)).sum(axis=-1))

    def effective(self, ratio: Array) -> Array:
        """γ = Σ λ / (λ + ρ): how many directions the data determine."""
        return np.asarray((self.values / (self.values + ratio[..., None])).sum(axis=-1))

    def volume(self, ratio: Array) -> Array:
        """½ Σ (log ρ − log(λ + ρ)), whose derivative by log ρ is γ / 2."""
        return np.asarray(-0.5 * np.log1p(self.values / ratio[..., None]).sum(axis=-1))


def spectra(gram: Array, cross: Array, squares: Array, count: float) -> list[Spectrum]:
    """Of each target, from φφᵀ (d, d), φz (q, d) and z² (q,)."""
    values, vectors = linalg.spectrum(gram)
    parts = np.square(cross @ vectors / np.sqrt(values))
    left = squares - parts.sum(axis=1)
    left = np.where(left > 0.01 * LEAST_NOISE * squares, left, 0.0)  # of a perfect fit, rounding is left
    return [
        Spectrum(values, part, float(rest), count) for part, rest in zip(parts, left.tolist(), strict=True)
    ]


def both(seen: Spectrum, least: float, shape: float = 0.0, scale: float = 0.0) -> tuple[float, float]:
    """α / β and β, where the evidence is largest; a belief in the noise of that shape and scale helps.

    The squared noise is at least `least`. Columns that never vary say nothing of α: it is β, then.
    """
    n = seen.count + 2.0 * shape
    floor = n * least

    def penalised(ratio: Array) -> Array:
        return np.maximum(seen.penalised(ratio) + 2.0 * scale, floor)

    def height(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        return np.asarray(seen.volume(ratio) - 0.5 * n * np.log(penalised(ratio)))

    def rise(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        q = penalised(ratio)
        slope = np.where(q > floor, seen.slope(ratio), 0.0)
        return np.asarray(0.5 * seen.effective(ratio) - 0.5 * n * slope / q)

    ratio = np.asarray(1.0)
    if len(seen.values):
        ratio = np.exp(_summit(height, rise, *_range(seen)))
    return float(ratio), float(n / penalised(ratio))


def prior_alone(seen: Spectrum, beta: float) -> float:
    """α / β where the noise is known."""

    def height(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        return np.asarray(seen.volume(ratio) - 0.5 * beta * seen.penalised(ratio))

    def rise(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        return np.asarray(0.5 * seen.effective(ratio) - 0.5 * beta * seen.slope(ratio))

    return float(np.exp(_summit(height, rise, *_range(seen)))) if len(seen.values) else 1.0


def noise_alone(seen: Spectrum, least: float, most: float) -> float:
    """β where the prior is known, in whose units α is 1; the squared noise is between `least` and `most`."""

    def height(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        return np.asarray(
            seen.volume(ratio) - 0.5 * seen.count * log_ratio - 0.5 * seen.penalised(ratio) / ratio
        )

    def rise(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        surprise = (seen.penalised(ratio) - seen.slope(ratio)) / ratio
        return np.asarray(0.5 * seen.effective(ratio) - 0.5 * seen.count + 0.5 * surprise)

    return float(np.exp(-_summit(height, rise, float(np.log(least)), float(np.log(most)))))


def _range(seen: Spectrum) -> tuple[float, float]:
    top = float(np.log(seen.values.max()))
    low, high = np.clip([top - _DEEP, top + _HIGH], -_LIMIT, _LIMIT).tolist()
    return low, high


def _summit(height: Curve, rise: Curve, low: float, high: float) -> Array:
    """Where the height is largest between both ends; of a plateau, at the far one, where least is claimed."""
    grid = np.linspace(low, high, max(3, int((high - low) / _STEP)))
    found = height(grid)
    top = float(found.max())
    best = int(np.flatnonzero(found >= top - _PLATEAU * max(1.0, abs(top)))[-1])
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(_HALVINGS):
        middle = 0.5 * (left + right)
        if rise(np.asarray(middle)) > 0:
            left = middle
        else:
            right = middle
        if right - left <= _EPS * max(1.0, abs(middle)):
            break
    return np.asarray(0.5 * (left + right))
