"""Beliefs in a mean and a covariance: what normal–inverse-gamma and normal–inverse-Wishart have in common.

The first is the second in one dimension, with freedom 2 · shape and scale 2 · scale; fitted as such.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis.arrays import Array
from tamis.conjugate.ascent import MOST_STRENGTH, UNDERDISPERSED, climb, warn_where
from tamis.conjugate.prior import refuse_unless_grouped
from tamis.conjugate.stirling import digamma_rise, log_rising
from tamis.linalg import Cholesky
from tamis.stats import Exact

_LOG_PI = float(np.log(np.pi))
_SMALL = 0.01  # size of a matrix up to which eight terms of the logarithm's series are all that a float holds


class MeanVariance(NamedTuple):
    """A normal distribution's two parameters, or one end of an interval for each."""

    mean: Array  # (...)
    variance: Array  # (...)


class MeanCovariance(NamedTuple):
    """A multivariate normal distribution's two parameters."""

    mean: Array  # (..., d)
    covariance: Array  # (..., d, d)


class Gathered(NamedTuple):
    """What Moments come to in the eyes of a belief: about its location, and without NaN for no weight."""

    weight: Array  # (...)
    shift: Array  # (..., d): mean − location, 0 where there is no weight
    growth: Array  # (..., d, d): what the scale grows by


def shift_of(weight: Exact, first: Exact, location: Array) -> Array:
    """The mean less the location, subtracted before anything is rounded; 0 where there is no weight.

    The weight has an axis for the columns, of length one if they share it.
    """
    wide = np.ones(np.broadcast_shapes(first.shape, location.shape))
    rest = (first.times(wide) - weight.times(wide * location)).value
    total = weight.value
    return np.where(total != 0, rest / np.where(total != 0, total, 1.0), 0.0)


def gathered(strength: Array, weight: Array, shift: Array, scatter: Array) -> Gathered:
    """A large mean does not cancel here: it met the location before anything is squared."""
    pull = strength * weight / (strength + weight)
    growth = scatter + pull[..., None, None] * shift[..., :, None] * shift[..., None, :]
    return Gathered(weight, shift, growth)


def log_multigamma_rise(freedom: Array, weight: Array, d: int) -> Array:
    """log Γ_d((freedom + weight) / 2) − log Γ_d(freedom / 2)."""
    halves = 0.5 * (freedom[..., None] - np.arange(d))
    return np.asarray(log_rising(halves, 0.5 * weight[..., None]).sum(axis=-1))


def log_determinant_rise(factor: Cholesky, matrix: Array, growth: Array) -> Array:
    """log |M + G| − log |M|, for a matrix and its factor: accurate also where G is small beside M."""
    ratio = factor.solve(np.broadcast_to(growth, np.broadcast_shapes(growth.shape, matrix.shape)))
    size = np.sqrt(np.square(ratio).sum(axis=(-2, -1)))
    if (size < _SMALL).all():
        return np.asarray(log_determinant_excess(ratio) + np.trace(ratio, axis1=-2, axis2=-1))
    grown = Cholesky.of(matrix + growth, "scale matrix").log_determinant() - factor.log_determinant()
    near = log_determinant_excess(ratio * np.where(size < _SMALL, 1.0, 0.0)[..., None, None])
    return np.where(size < _SMALL, near + np.trace(ratio, axis1=-2, axis2=-1), grown)


def log_determinant_excess(ratio: Array) -> Array:
    """log |I + R| − tr R for a small R, which may be any matrix similar to a symmetric one."""
    power, total = ratio, np.zeros(ratio.shape[:-2])
    for k in range(2, 9):
        power = power @ ratio
        total = total - (-1.0) ** k * np.trace(power, axis1=-2, axis2=-1) / k
    return total


def log_evidence(strength: Array, freedom: Array, scale: Array, factor: Cholesky, data: Gathered) -> Array:
    """log p(data), the (2π)^(−n d/2) of the normal density included."""
    d, n = scale.shape[-1], data.weight
    return np.asarray(
        log_multigamma_rise(freedom, n, d)
        - 0.5 * (freedom + n) * log_determinant_rise(factor, scale, data.growth)
        - 0.5 * n * (factor.log_determinant() + d * _LOG_PI)
        - 0.5 * d * np.log1p(n / strength)
    )


def fit(weight: Array, mean: Array, scatter: Array) -> tuple[Array, Array, Array, Array]:
    """Location, strength, freedom and scale of largest evidence for groups (groups, *cells[, d[, d]]).

    Where a group's values are all the same, the evidence grows without end as the scale shrinks around them;
    what is found is the top of the hill on which moments start, with at least a millionth of their variance.
    """
    refuse_unless_grouped(weight)
    cells, d = weight.shape[1:], mean.shape[-1]
    n = weight.reshape(len(weight), -1)
    centres = np.where(n[..., None] > 0, mean.reshape(*n.shape, d), 0.0)
    spread = scatter.reshape(*n.shape, d, d)
    centre, factor = _pooled(n, centres, spread)
    # Data in units of the pooled covariance, about the pooled mean: one box and one start do for all scales.
    z = factor.whiten(centres - centre)
    rows = Cholesky(factor.lower[:, None])
    w = rows.whiten(np.swapaxes(rows.whiten(spread), -1, -2))
    heaviest = n.max(axis=0)
    start, lower, upper = _box(n, z, w, heaviest)

    def height(place: Array, live: NDArray[np.int64]) -> tuple[Array, Array]:
        return _evidence_and_slope(place, n[:, live], z[:, live], w[:, live])

    top = climb(height, start, lower, upper)
    warn_where((top[:, d] >= upper[:, d]) | (top[:, d + 1] >= upper[:, d + 1]), UNDERDISPERSED)
    location, strength, freedom, root = _parameters(top, d)
    lower_factor = factor.lower @ root
    scale = freedom[:, None, None] * (lower_factor @ np.swapaxes(lower_factor, -1, -2))
    place = centre + factor.colour(location)
    return (
        place.reshape(*cells, d),
        strength.reshape(cells),
        freedom.reshape(cells),
        scale.reshape(*cells, d, d),
    )


def _pooled(n: Array, centres: Array, spread: Array) -> tuple[Array, Cholesky]:
    """The mean and covariance of all groups together (cells, …)."""
    total = n.sum(axis=0)
    if not (total > 0).all():
        raise ValueError("got a column without weight in any group, expected data in at least one: drop it")
    centre = (n[..., None] * centres).sum(axis=0) / total[:, None]
    about = centres - centre
    between = (n[..., None, None] * about[..., :, None] * about[..., None, :]).sum(axis=0)
    covariance = (spread.sum(axis=0) + between) / total[:, None, None]
    return centre, Cholesky.of(covariance, "covariance of all groups together")


def _box(n: Array, z: Array, w: Array, heaviest: Array) -> tuple[Array, Array, Array]:
    """Moments to start from, and bounds: location, log strength, log(freedom − d + 1), root of the scale."""
    cells, d = z.shape[1], z.shape[2]
    roots = d * (d + 1) // 2
    room = np.maximum(n - 1.0, 0.0).sum(axis=0)
    within = np.trace(w.sum(axis=0), axis1=-2, axis2=-1) / (d * np.maximum(room, 1e-300))
    within = np.where(room > 0, within, 0.5).clip(1e-4, 1.0)
    start = np.zeros((cells, d + 2 + roots))
    start[:, d] = np.log((within / np.maximum(1.0 - within, 1e-2)).clip(1e-3, 10.0 * heaviest))
    start[:, d + 1] = np.log(6.0)
    on_diagonal = np.flatnonzero(np.equal(*np.tril_indices(d))) + d + 2
    start[:, on_diagonal] = 0.5 * np.log(within)[:, None]
    lower, upper = np.full_like(start, -50.0), np.full_like(start, 50.0)
    lower[:, d + 1] = np.log(1e-3)
    upper[:, d : d + 2] = np.log(MOST_STRENGTH * np.maximum(heaviest, 1.0))[:, None]
    lower[:, on_diagonal] = start[:, on_diagonal] - 0.5 * np.log(1e6)
    upper[:, on_diagonal] = start[:, on_diagonal] + 0.5 * np.log(1e6)
    return start, lower, upper


def _parameters(place: Array, d: int) -> tuple[Array, Array, Array, Array]:
    """Location, strength, freedom, and the lower root of scale / freedom."""
    root = np.zeros((len(place), d, d))
    rows, columns = np.tril_indices(d)
    root[:, rows, columns] = place[:, d + 2 :]
    diagonal = np.arange(d)
    root[:, diagonal, diagonal] = np.exp(root[:, diagonal, diagonal])
    return place[:, :d], np.exp(place[:, d]), d - 1.0 + np.exp(place[:, d + 1]), root


def _evidence_and_slope(place: Array, n: Array, z: Array, w: Array) -> tuple[Array, Array]:
    """Summed over groups: (cells,) and (cells, p)."""
    d = z.shape[-1]
    location, strength, freedom, root = _parameters(place, d)
    unit = root @ np.swapaxes(root, -1, -2)
    scale = freedom[:, None, None] * unit
    factor = Cholesky(np.sqrt(freedom)[:, None, None] * root)
    data = gathered(strength, n, np.where(n[..., None] > 0, z - location, 0.0), w)
    value = log_evidence(strength, freedom, scale, factor, data).sum(axis=0)
    after = Cholesky.of(scale + data.growth, "scale matrix")
    precision = (freedom + n)[..., None, None] * after.inverse()  # (groups, cells, d, d)
    pulled = (precision @ data.shift[..., None])[..., 0]
    by_location = (pulled * (strength * n / (strength + n))[..., None]).sum(axis=0)
    square = (pulled * data.shift).sum(axis=-1)
    share = n / (strength + n)
    by_strength = 0.5 * (d * share - strength * np.square(share) * square).sum(axis=0)
    by_scale = 0.5 * (freedom[:, None, None] * factor.inverse() - precision).sum(axis=0)
    halves = 0.5 * (freedom[..., None] - np.arange(d))
    rise = digamma_rise(halves, 0.5 * n[..., None]).sum(axis=-1)
    rise = 0.5 * (rise - log_determinant_rise(factor, scale, data.growth))
    by_freedom = rise.sum(axis=0) + (by_scale * unit).sum(axis=(-2, -1))
    by_root = 2.0 * freedom[:, None, None] * (by_scale @ root)
    diagonal = np.arange(d)
    by_root[:, diagonal, diagonal] *= root[:, diagonal, diagonal]
    rows, columns = np.tril_indices(d)
    slope = np.column_stack(
        [by_location, by_strength, by_freedom * (freedom - d + 1.0), by_root[:, rows, columns]]
    )
    return value, slope


def log_multigamma(half: Array, d: int) -> Array:
    """log Γ_d(half), elementwise (SciPy's takes one dimension for all)."""
    constant = 0.25 * d * (d - 1) * _LOG_PI
    return np.asarray(constant + special.gammaln(half[..., None] - 0.5 * np.arange(d)).sum(axis=-1))
