"""Normal equations → the precisions of prior and noise that maximise the evidence (empirical Bayes).

Given the ratio ρ = α/β, the best β has a closed form, so that one unknown remains, and the evidence depends
on the Gram matrix only through its eigenvalues λ (MacKay 1992; Bishop 2006, section 3.5):

    log p(y) = ½ Σ (log ρ − log(λ + ρ)) + n/2 log β − β/2 Q(ρ) + constant,   Q(ρ) = min_w |y − Φw|² + ρ|w|²

It is evaluated on a grid of log ρ, and the zero of its derivative next to the best point of the grid is found
by bisection, so that the search does not end at a local maximum below that point.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tamis import linalg
from tamis.arrays import Array

Curve = Callable[[Array], Array]  # values of log ρ → the log-evidence or its derivative at each

# The noise variance is at least this fraction of the targets' variance: less is lost in the rounding of the
# sums in a `Gram`.
LEAST_NOISE = 1e-12
_STEP = 0.25  # approximate distance of two points of the grid, in log ρ
# The grid begins at log λ − _BELOW and ends at log λ + _ABOVE, λ being the largest eigenvalue.
_BELOW, _ABOVE = 80.0, 25.0
_LIMIT = 700.0  # the largest |log ρ|: beyond, ρ overflows
_HALVINGS = 60  # steps of bisection, which reduce the bracket below the last bit of log ρ
_PLATEAU = 1e-11  # smaller relative differences of log-evidences are rounding errors
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The eigenvalues of the Gram matrix, and one target's sums of squares along its eigenvectors.

    Features are scaled so that the prior's precision is α times the identity.
    """

    values: Array  # (r,): λ above zero
    squares: Array  # (r,): the sum of squares of the target that each eigenvector explains
    residual: float  # Q(0): the residual sum of squares of least squares
    count: float  # total weight, minus one for each coefficient, or intercept, with a flat prior

    def loss(self, ratio: Array) -> Array:
        """Return Q(ρ) for ratios (...), as a sum of positive terms, which do not cancel."""
        rho = ratio[..., None]
        return np.asarray(self.residual + (self.squares * (rho / (self.values + rho))).sum(axis=-1))

    def derivative(self, ratio: Array) -> Array:
        """Return dQ / d log ρ for ratios (...)."""
        rho = ratio[..., None]
        total = self.values + rho
        return np.asarray((self.squares * (self.values / total) * (rho / total)).sum(axis=-1))

    def effective(self, ratio: Array) -> Array:
        """Return γ = Σ λ / (λ + ρ): the effective number of coefficients, which the data determine."""
        return np.asarray((self.values / (self.values + ratio[..., None])).sum(axis=-1))

    def volume(self, ratio: Array) -> Array:
        """Return ½ Σ (log ρ − log(λ + ρ)): the log-volume of the posterior minus that of the prior.

        Its derivative by log ρ is γ / 2.
        """
        return np.asarray(-0.5 * np.log1p(self.values / ratio[..., None]).sum(axis=-1))


def find_spectra(gram: Array, cross: Array, squares: Array, count: float) -> list[Spectrum]:
    """Return the spectrum of each target, from Σφφᵀ (d, d), Σzφ (q, d) and Σz² (q,).

    `count` is that of `Spectrum`.
    """
    values, vectors = linalg.spectrum(gram)
    parts = np.square(cross @ vectors / np.sqrt(values))
    residuals = squares - parts.sum(axis=1)
    residuals = np.where(residuals > 0.01 * LEAST_NOISE * squares, residuals, 0.0)  # drop rounding errors
    return [
        Spectrum(values, part, float(residual), count)
        for part, residual in zip(parts, residuals.tolist(), strict=True)
    ]


def choose_ratio_and_noise(
    spectrum: Spectrum, least: float, shape: float = 0.0, scale: float = 0.0
) -> tuple[float, float]:
    """Choose α / β and β by the evidence; the noise variance has an inverse gamma prior of shape and scale.

    The noise variance is at least `least`. If the Gram matrix is zero, nothing determines α, and α = β.
    """
    n = spectrum.count + 2.0 * shape
    floor = n * least

    def loss(ratio: Array) -> Array:
        return np.maximum(spectrum.loss(ratio) + 2.0 * scale, floor)

    def log_evidence(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        return np.asarray(spectrum.volume(ratio) - 0.5 * n * np.log(loss(ratio)))

    def derivative(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        q = loss(ratio)
        change = np.where(q > floor, spectrum.derivative(ratio), 0.0)
        return np.asarray(0.5 * spectrum.effective(ratio) - 0.5 * n * change / q)

    ratio = np.asarray(1.0)
    if len(spectrum.values):
        ratio = np.exp(_maximise(log_evidence, derivative, *_find_range(spectrum)))
    return float(ratio), float(n / loss(ratio))


def choose_ratio(spectrum: Spectrum, beta: float) -> float:
    """Choose α / β by the evidence for a known β; 1 if the Gram matrix is zero."""

    def log_evidence(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        return np.asarray(spectrum.volume(ratio) - 0.5 * beta * spectrum.loss(ratio))

    def derivative(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        return np.asarray(0.5 * spectrum.effective(ratio) - 0.5 * beta * spectrum.derivative(ratio))

    if not len(spectrum.values):
        return 1.0
    return float(np.exp(_maximise(log_evidence, derivative, *_find_range(spectrum))))


def choose_noise(spectrum: Spectrum, least: float, most: float) -> float:
    """Choose β by the evidence for a known prior, scaled so that α is 1; 1/β is from `least` to `most`.

    As α is 1, the ratio ρ is 1/β.
    """

    def log_evidence(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        return np.asarray(
            spectrum.volume(ratio) - 0.5 * spectrum.count * log_ratio - 0.5 * spectrum.loss(ratio) / ratio
        )

    def derivative(log_ratio: Array) -> Array:
        ratio = np.exp(log_ratio)
        squares = (spectrum.loss(ratio) - spectrum.derivative(ratio)) / ratio
        return np.asarray(0.5 * spectrum.effective(ratio) - 0.5 * spectrum.count + 0.5 * squares)

    return float(np.exp(-_maximise(log_evidence, derivative, float(np.log(least)), float(np.log(most)))))


def _find_range(spectrum: Spectrum) -> tuple[float, float]:
    """Return the ends of the grid of log ρ."""
    largest = float(np.log(spectrum.values.max()))
    low, high = np.clip([largest - _BELOW, largest + _ABOVE], -_LIMIT, _LIMIT).tolist()
    return low, high


def _maximise(function: Curve, derivative: Curve, low: float, high: float) -> Array:
    """Return the point from low to high where the function is largest; of equal ones, the last.

    The last one is the largest ρ, which is the strongest prior.
    """
    grid = np.linspace(low, high, max(3, int((high - low) / _STEP)))
    values = function(grid)
    largest = float(values.max())
    best = int(np.flatnonzero(values >= largest - _PLATEAU * max(1.0, abs(largest)))[-1])
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(_HALVINGS):
        middle = 0.5 * (left + right)
        if derivative(np.asarray(middle)) > 0:
            left = middle
        else:
            right = middle
        if right - left <= _EPS * max(1.0, abs(middle)):
            break
    return np.asarray(0.5 * (left + right))
