"""Functions that the normal–inverse-gamma and the normal–inverse-Wishart prior share.

In one dimension, a normal–inverse-gamma prior is a normal–inverse-Wishart prior with freedom 2 · shape and
twice the scale, so that `fit` serves both.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tamis.arrays import Array, floats
from tamis.conjugate.ascent import MOST_STRENGTH, UNDERDISPERSED, maximize, warn_where
from tamis.conjugate.prior import Prior, combine_keys, refuse_unless_grouped, refuse_unless_instance
from tamis.families.family import freeze_parameter
from tamis.families.stirling import digamma_rise, log_rising
from tamis.linalg import Cholesky, symmetrize
from tamis.stats import Exact, Keys, Moments

_LOG_PI = float(np.log(np.pi))
_MIN_RELATIVE_VARIANCE = 1e-12  # the smallest variance of a fitted prior, relative to that within groups
_SMALL_NORM = 0.01  # for matrices of smaller norm, eight terms of the logarithm's series are exact in float64


class MeanVariance(NamedTuple):
    """The two parameters of a normal distribution, or one end of an interval for each of them."""

    mean: Array  # (...)
    variance: Array  # (...)


class MeanCovariance(NamedTuple):
    """The two parameters of a multivariate normal distribution."""

    mean: Array  # (..., d)
    covariance: Array  # (..., d, d)


class MomentsAboutPrior(NamedTuple):
    """Moments about the location of a prior, without NaN where there is no weight."""

    weight: Array  # (...)
    shift: Array  # (..., d): mean − location, 0 where there is no weight
    scatter: Array  # (..., d, d)
    shift_weight: Array  # (...): strength · weight / (strength + weight), the factor of the squared shift

    @property
    def growth(self) -> Array:
        """The increase of the scale by an update (..., d, d)."""
        squares = self.shift[..., :, None] * self.shift[..., None, :]
        return np.asarray(self.scatter + self.shift_weight[..., None, None] * squares)


def refuse_unless_form(statistic: object, form: str, prior: str) -> None:
    """Raise unless the statistic is Moments of this form; `prior` names the prior in the message."""
    refuse_unless_instance(statistic, Moments, prior)
    if (given := getattr(statistic, "form", None)) != form:
        raise ValueError(f"got {given} Moments, expected {form} ones: observe with form='{form}'")


def check_location(data: ArrayLike) -> Array:
    """Return the locations; raise unless they are finite."""
    value = floats(data, "location")
    if not np.isfinite(value).all():
        raise ValueError(f"got a location of {value[~np.isfinite(value)][0]}, expected finite numbers")
    return value


def check_location_and_scale(location: ArrayLike, scale: ArrayLike) -> tuple[Array, Array, Array]:
    """Return locations (..., d), scale matrices (..., d, d) and the lower factors of the matrices.

    Raise unless the locations are finite and the matrices are symmetric and positive definite.
    """
    centre, matrix = freeze_parameter(check_location(location), "location"), floats(scale, "scale")
    if centre.ndim == 0 or matrix.shape[-2:] != (centre.shape[-1],) * 2:
        raise ValueError(
            f"got a location of shape {centre.shape} and a scale of shape {matrix.shape}, "
            "expected (..., d) and (..., d, d)"
        )
    matrix = freeze_parameter(symmetrize(matrix, "scale matrix"), "scale matrix")
    return centre, matrix, Cholesky.of(matrix, "scale matrix").lower


def combine_keys_of_moments(prior: Prior, keys: Keys | None, statistic: Moments) -> Keys | None:
    """The keys of a posterior: those of the prior, or of the statistic if the prior has none.

    A prior without keys may have more batch axes than the statistic: (4, 3), for example, if the statistic
    has three labels. The labels then name an axis that is not the first, and are dropped.
    """
    shape = statistic.weight.shape
    if keys is None and len(shape) < len(prior.batch):
        return None
    return combine_keys(keys, prior.batch, statistic, shape)


def scale_matrix(factor: Array, scale: Array) -> Array:
    """factor · scale (..., d, d); where the factor is ∞, the diagonal is ∞ and the rest is NaN.

    Then the expectation of a square is infinite, and that of a product is undefined, ∞ − ∞.
    """
    with np.errstate(invalid="ignore"):
        matrix = factor[..., None, None] * scale
    is_defined = np.isfinite(factor)[..., None, None] | np.eye(scale.shape[-1], dtype=np.bool_)
    return np.where(is_defined, matrix, np.nan)


def shift_of(weight: Exact, first: Exact, location: Array) -> Array:
    """The mean minus the location, 0 where the weight is 0; only the exact difference is rounded.

    The last axis of the weight is that of the columns; its length is 1 if they share one weight.
    """
    if first.shape == weight.shape and location.shape == first.shape[-location.ndim :]:
        rest = (first - weight.times(location)).value
    else:
        ones = np.ones(np.broadcast_shapes(first.shape, location.shape))
        rest = (first.times(ones) - weight.times(ones * location)).value
    total = weight.value
    return np.where(total != 0, rest / np.where(total != 0, total, 1.0), 0.0)


def centre_moments(strength: Array, weight: Array, shift: Array, scatter: Array) -> MomentsAboutPrior:
    """The moments about the location of a prior of this strength; `shift` is mean − location."""
    return MomentsAboutPrior(weight, shift, scatter, strength * weight / (strength + weight))


def log_multigamma_rise(freedom: Array, weight: Array, d: int) -> Array:
    """log Γ_d((freedom + weight) / 2) − log Γ_d(freedom / 2)."""
    halves = 0.5 * (freedom[..., None] - np.arange(d))
    return np.asarray(log_rising(halves, 0.5 * weight[..., None]).sum(axis=-1))


def log_determinant_rise(factor: Cholesky, matrix: Array, growth: Array) -> Array:
    """log |M + G| − log |M|, for a matrix M, its Cholesky factor and an increase G, which may be small."""
    ratio = factor.solve(np.broadcast_to(growth, np.broadcast_shapes(growth.shape, matrix.shape)))
    size = np.sqrt(np.square(ratio).sum(axis=(-2, -1)))
    if (size < _SMALL_NORM).all():
        return np.asarray(log_determinant_excess(ratio) + np.trace(ratio, axis1=-2, axis2=-1))
    grown = Cholesky.of(matrix + growth, "scale matrix").log_determinant() - factor.log_determinant()
    near = log_determinant_excess(ratio * np.where(size < _SMALL_NORM, 1.0, 0.0)[..., None, None])
    return np.where(size < _SMALL_NORM, near + np.trace(ratio, axis1=-2, axis2=-1), grown)


def log_determinant_excess(ratio: Array) -> Array:
    """log |I + R| − tr R for a matrix R of small norm with real eigenvalues, by a series."""
    power, total = ratio, np.zeros(ratio.shape[:-2])
    for k in range(2, 9):
        power = power @ ratio
        total = total - (-1.0) ** k * np.trace(power, axis1=-2, axis2=-1) / k
    return total


def scale_rise(factor: Cholesky, scale: Array, data: MomentsAboutPrior) -> Array:
    """log |S + G| − log |S| for the scale S and its increase G by an update (`MomentsAboutPrior.growth`).

    The scatter is added first, and then the shift, by the matrix determinant lemma. If the data are far from
    the location, S + G is nearly of rank one, and its determinant would be inaccurate.
    """
    with_scatter = Cholesky.of(scale + data.scatter, "scale matrix with the scatter")
    leverage = data.shift_weight * with_scatter.quadratic(data.shift)
    return np.asarray(log_determinant_rise(factor, scale, data.scatter) + np.log1p(leverage))


def log_evidence(
    strength: Array, freedom: Array, scale: Array, factor: Cholesky, data: MomentsAboutPrior
) -> Array:
    """log p(data), including the factor (2π)^(−n d/2) of the normal density."""
    d, n = scale.shape[-1], data.weight
    return np.asarray(
        log_multigamma_rise(freedom, n, d)
        - 0.5 * (freedom + n) * scale_rise(factor, scale, data)
        - 0.5 * n * (factor.log_determinant() + d * _LOG_PI)
        - 0.5 * d * np.log1p(n / strength)
    )


def fit(weight: Array, mean: Array, scatter: Array) -> tuple[Array, Array, Array, Array]:
    """The location, strength, freedom and scale of largest evidence, for the moments of groups.

    `weight` is (groups, *cells), `mean` (groups, *cells, d) and `scatter` (groups, *cells, d, d); each cell
    has its own prior. If all values of a group are equal, the evidence is unbounded as the scale shrinks to
    zero; the result is the local maximum near the moments of the groups, with at least 1e-12 of their
    variance.
    """
    refuse_unless_grouped(weight)
    cells, d = weight.shape[1:], mean.shape[-1]
    n = weight.reshape(len(weight), -1)
    centres = np.where(n[..., None] > 0, mean.reshape(*n.shape, d), 0.0)
    scatters = scatter.reshape(*n.shape, d, d)
    centre, factor, unit = _choose_units(n, centres, scatters)
    means = factor.whiten(centres - centre)
    factors = Cholesky(factor.lower[:, None])
    scatters = factors.whiten(np.swapaxes(factors.whiten(scatters), -1, -2))
    start, lower, upper = _choose_start_and_bounds(unit, n.max(axis=0))

    def objective(point: Array, active: NDArray[np.int64]) -> tuple[Array, Array]:
        # `active` has the indices of the points' cells, those that `maximize` has not finished.
        return _evidence_and_gradient(
            point, unit[active], n[:, active], means[:, active], scatters[:, active]
        )

    optimum = maximize(objective, start, lower, upper)
    warn_where((optimum[:, d] >= upper[:, d]) | (optimum[:, d + 1] >= upper[:, d + 1]), UNDERDISPERSED)
    location, strength, freedom, root = _unpack_parameters(optimum, unit)
    lower_factor = factor.lower @ root
    scale = freedom[:, None, None] * (lower_factor @ np.swapaxes(lower_factor, -1, -2))
    point = centre + factor.colour(location)
    return (
        point.reshape(*cells, d),
        strength.reshape(cells),
        freedom.reshape(cells),
        scale.reshape(*cells, d, d),
    )


def _choose_units(n: Array, centres: Array, scatters: Array) -> tuple[Array, Cholesky, Array]:
    """Choose an origin and units of the data, so that the bounds and the start suit data of any scale.

    They are the pooled mean (cells, d), the Cholesky factor of the covariance within groups (cells, d, d),
    and the standard deviations (cells, d) of all rows after whitening by that factor.
    """
    total = n.sum(axis=0)
    centre = (n[..., None] * centres).sum(axis=0) / total[:, None]
    centred = centres - centre
    between = (n[..., None, None] * centred[..., :, None] * centred[..., None, :]).sum(axis=0)
    pooled = (scatters.sum(axis=0) + between) / total[:, None, None]
    Cholesky.of(pooled, "covariance of all groups together")
    freedom = np.maximum(n - 1.0, 0.0).sum(axis=0)[:, None, None]
    within = np.where(freedom > 0, scatters.sum(axis=0) / np.maximum(freedom, 1e-300), 0.5 * pooled)
    factor = Cholesky.of(within + 1e-12 * pooled, "covariance within groups")
    factors = Cholesky(factor.lower[:, None])
    whitened = factors.whiten(np.swapaxes(factors.whiten(pooled), -1, -2))
    return centre, factor, np.sqrt(np.diagonal(whitened, axis1=-2, axis2=-1))


def _choose_start_and_bounds(unit: Array, heaviest: Array) -> tuple[Array, Array, Array]:
    """The start of `maximize`, by the method of moments, and the lower and upper bounds, each (cells, p).

    The p coordinates are the location divided by `unit`, log strength, log(freedom − d + 1) and the Cholesky
    factor of scale / freedom, with the logarithms of its diagonal.
    """
    cells, d = unit.shape
    start = np.zeros((cells, d + 2 + d * (d + 1) // 2))
    between = np.maximum(np.square(unit) - 1.0, 1e-2).mean(axis=-1)
    start[:, d] = np.log(np.minimum(1.0 / between, 10.0 * heaviest))
    start[:, d + 1] = np.log(6.0)
    lower, upper = np.full_like(start, -50.0), np.full_like(start, 50.0)
    lower[:, d + 1] = np.log(1e-3)
    upper[:, d : d + 2] = np.log(MOST_STRENGTH * np.maximum(heaviest, 1.0))[:, None]
    on_diagonal = np.flatnonzero(np.equal(*np.tril_indices(d))) + d + 2
    lower[:, on_diagonal], upper[:, on_diagonal] = (
        0.5 * np.log(_MIN_RELATIVE_VARIANCE),
        -0.5 * np.log(_MIN_RELATIVE_VARIANCE),
    )
    return start, lower, upper


def _unpack_parameters(point: Array, unit: Array) -> tuple[Array, Array, Array, Array]:
    """Location, strength, freedom, and the Cholesky factor of scale / freedom, from points (cells, p)."""
    d = unit.shape[-1]
    root = np.zeros((len(point), d, d))
    rows, columns = np.tril_indices(d)
    root[:, rows, columns] = point[:, d + 2 :]
    diagonal = np.arange(d)
    root[:, diagonal, diagonal] = np.exp(root[:, diagonal, diagonal])
    return unit * point[:, :d], np.exp(point[:, d]), d - 1.0 + np.exp(point[:, d + 1]), root


def _evidence_and_gradient(
    point: Array, unit: Array, n: Array, means: Array, scatters: Array
) -> tuple[Array, Array]:
    """The log-evidence (cells,) and its gradient (cells, p), summed over groups.

    `n` (groups, cells), `means` (groups, cells, d) and `scatters` (groups, cells, d, d) are the weights,
    means and scatters of the groups in the units of `_choose_units`. For `point` see
    `_choose_start_and_bounds`.
    """
    d = means.shape[-1]
    location, strength, freedom, root = _unpack_parameters(point, unit)
    shape = root @ np.swapaxes(root, -1, -2)
    scale = freedom[:, None, None] * shape
    factor = Cholesky(np.sqrt(freedom)[:, None, None] * root)
    data = centre_moments(strength, n, np.where(n[..., None] > 0, means - location, 0.0), scatters)
    value = log_evidence(strength, freedom, scale, factor, data).sum(axis=0)
    # The inverse of scale + scatter + shift_weight · shift shiftᵀ, by the Sherman–Morrison formula, because
    # the matrix may be nearly of rank one.
    inverse = Cholesky.of(scale + scatters, "scale matrix with the scatter").inverse()
    product = (inverse @ data.shift[..., None])[..., 0]
    leverage = 1.0 + data.shift_weight * (product * data.shift).sum(axis=-1)
    weighted = ((freedom + n) / leverage)[..., None] * product
    correction = (
        (data.shift_weight / leverage)[..., None, None] * product[..., :, None] * product[..., None, :]
    )
    precision = (freedom + n)[..., None, None] * (inverse - correction)
    by_location = unit * (weighted * (strength * n / (strength + n))[..., None]).sum(axis=0)
    square = (weighted * data.shift).sum(axis=-1)
    fraction = n / (strength + n)
    by_strength = 0.5 * (d * fraction - strength * np.square(fraction) * square).sum(axis=0)
    by_scale = 0.5 * (freedom[:, None, None] * factor.inverse() - precision).sum(axis=0)
    halves = 0.5 * (freedom[..., None] - np.arange(d))
    rise = digamma_rise(halves, 0.5 * n[..., None]).sum(axis=-1)
    rise = 0.5 * (rise - scale_rise(factor, scale, data))
    by_freedom = rise.sum(axis=0) + (by_scale * shape).sum(axis=(-2, -1))
    by_root = 2.0 * freedom[:, None, None] * (by_scale @ root)
    diagonal = np.arange(d)
    by_root[:, diagonal, diagonal] *= root[:, diagonal, diagonal]
    rows, columns = np.tril_indices(d)
    gradient = np.column_stack(
        [by_location, by_strength, by_freedom * (freedom - d + 1.0), by_root[:, rows, columns]]
    )
    return value, gradient


def log_multigamma(half: Array, d: int) -> Array:
    """log Γ_d(half), the multivariate gamma function, for each element; SciPy's takes a single number."""
    constant = 0.25 * d * (d - 1) * _LOG_PI
    return np.asarray(constant + special.gammaln(half[..., None] - 0.5 * np.arange(d)).sum(axis=-1))
