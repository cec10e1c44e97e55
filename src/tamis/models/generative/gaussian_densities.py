"""Means and covariances by class → log p(vector | class), with missing values integrated out.

A row that lacks some columns is scored by the marginal distribution of the others. Rows are grouped by their
pattern (which columns are present), because each pattern needs its own Cholesky factors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.conjugate import MultivariateT, NormalInverseGamma, normals
from tamis.conjugate.normal_inverse_gamma import compute_scale_increase
from tamis.conjugate.student_t import log_one_plus_square, log_t_normalizer
from tamis.families.normalizers import log_gamma_ratio
from tamis.linalg import Cholesky
from tamis.models.generative.block import Contrast, Density, Responsibilities
from tamis.models.generative.gaussian_columns import Normal
from tamis.models.generative.gaussian_expectation import Gaussian, Natural, sum_products
from tamis.stats import Keys, Moments
from tamis.tables import runs

_LOG_2PI = float(np.log(2.0 * np.pi))
_MAX_ROWS = 4096  # rows whose whitened copy is in memory at a time
_FEW_ROWS = 16  # up to this number, rows are scored by matrices that are cached between calls
# If the squared distance of a mean from the centre is larger, scores that are computed by one matrix product
# for all classes are wrong in the tenth digit.
_MAX_SQUARED_DISTANCE = 1e6


class Pattern(NamedTuple):
    """Rows in which the same columns are present."""

    rows: NDArray[np.int64] | slice  # indices of the rows
    columns: NDArray[np.int64]  # indices of the columns that are present
    is_complete: bool  # whether all columns are present


def group_by_pattern(rows: Array) -> Iterator[Pattern]:
    """Group the rows by which of their columns are present."""
    present = ~np.isnan(rows)
    all_columns = np.arange(rows.shape[1])
    if present.all():
        yield Pattern(slice(None), all_columns, is_complete=True)
        return
    _, first, group = np.unique(np.packbits(present, axis=1), axis=0, return_index=True, return_inverse=True)
    for g, row in enumerate(first.tolist()):
        columns = all_columns[present[row]]
        yield Pattern(np.flatnonzero(group.reshape(-1) == g), columns, len(columns) == len(all_columns))


class _Marginal(NamedTuple):
    """Squared Mahalanobis distances of some rows from the mean of one class, over the columns present."""

    rows: NDArray[np.int64] | slice  # indices of the rows
    k: int  # the index of the class
    d: int  # the number of columns that are present
    square: Array  # (rows,): (x − mean)ᵀM⁻¹(x − mean), M being the covariance or scale of these columns
    log_determinant: float


def _measure_marginals(rows: Array, mean: Array, matrix: Array, factor: Cholesky) -> Iterator[_Marginal]:
    """Yield the distances of the rows of each pattern from the mean of each class."""
    for index, columns, complete in group_by_pattern(rows):
        x = rows if complete and isinstance(index, slice) else rows[index][:, columns]
        for k in range(len(mean)):
            class_factor = Cholesky(factor.lower[k]) if complete else marginal_factor(matrix[k], columns)
            square = compute_squared_distances(class_factor, x, mean[k, columns])
            yield _Marginal(index, k, len(columns), square, float(class_factor.log_determinant()))


def compute_squared_distances(factor: Cholesky, rows: Array, centre: Array) -> Array:
    """(x − c)ᵀM⁻¹(x − c) of each row (n,), M being the matrix with this factor; 0 if there are no columns."""
    distances = np.zeros(len(rows))
    if not len(centre):
        return distances
    for run in runs(len(rows), 1, _MAX_ROWS):
        z = factor.whiten(rows[run] - centre)
        distances[run] = np.einsum("ij,ij->i", z, z)
    return distances


def marginal_factor(matrix: Array, columns: NDArray[np.int64]) -> Cholesky:
    """The Cholesky factor of the covariance of some columns."""
    return Cholesky.of(matrix[np.ix_(columns, columns)], "covariance of the columns that are present")


@dataclass(frozen=True, eq=False)
class _MatrixNormal(Gaussian):
    """A Gaussian per class with covariance matrices and their Cholesky factors."""

    keys: Keys
    mean: Array  # (K, d)
    covariance: Array  # (K, d, d), or (d, d) if the classes share it
    factor: Cholesky  # of the covariance
    compute_evidence: Callable[[], float]  # computes the log-evidence

    def log_evidence(self) -> float:
        return self.compute_evidence()

    def with_parameters(self, means: Array | None, covariances: Array | None) -> Self:
        density = self if means is None else replace(self, mean=means)
        if covariances is None:
            return density
        factor = Cholesky.of(covariances, "inverse of precisions_init")
        return replace(density, covariance=covariances, factor=factor)


class FullNormal(_MatrixNormal):
    """A Gaussian with a covariance of its own in each class."""

    def scores(self, rows: Array) -> Array:
        if len(rows) <= _FEW_ROWS and isfinite(rows.sum()):
            inverse, constant = self._scoring_terms
            z = (inverse @ (rows[:, None] - self.mean)[..., None])[..., 0]  # (n, K, d)
            return np.asarray(constant - 0.5 * np.einsum("nkd,nkd->nk", z, z))
        scores = np.empty((len(rows), len(self.keys)))
        for part in _measure_marginals(rows, self.mean, self.covariance, self.factor):
            scores[part.rows, part.k] = -0.5 * (part.square + part.log_determinant + part.d * _LOG_2PI)
        return scores

    @cached_property
    def _scoring_terms(self) -> tuple[Array, Array]:
        """L⁻¹ (K, d, d) and log of the density at the mean (K,), to score few rows at a time."""
        d = self.mean.shape[1]
        return self.factor.inverse_factor(), -0.5 * (self.factor.log_determinant() + d * _LOG_2PI)

    def natural(self, origin: Array) -> Natural:
        return _natural_parameters("full", self.mean - origin, self.covariance, self.factor)

    def contrasts(self, rows: Array, for_: int, against: int) -> Contrast:
        raise ValueError(
            "explain needs covariance='tied', 'diag' or 'spherical': with one covariance per class the "
            "log-odds are not a sum over columns"
        )

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        noise = rng.standard_normal((len(group), self.mean.shape[1]))
        rows = self.mean[group]
        for k in np.unique(group).tolist():
            in_class = group == k
            rows[in_class] += noise[in_class] @ self.factor.lower[k].T
        return list(rows.T)

    def covariance_of(self, k: int) -> Array:
        """The covariance (d, d) of one class."""
        return np.asarray(self.covariance[k])


class TiedNormal(_MatrixNormal):
    """Gaussians of one covariance: the boundary between two classes is a hyperplane."""

    @property
    def coefficients(self) -> Array:
        """Σ⁻¹μ (K, d): rows · coefficientsᵀ + intercepts are scores, up to a term that all classes share."""
        return np.ascontiguousarray(self.factor.solve(self.mean.T).T)

    @property
    def intercepts(self) -> Array:
        """−½ μᵀΣ⁻¹μ (K,), about zero and not about a centre: for large means less precise than `scores`."""
        return np.asarray(-0.5 * self.factor.quadratic(self.mean))

    def scores(self, rows: Array) -> Array:
        if len(rows) <= _FEW_ROWS and isfinite(rows.sum()):
            centre, inverse, m, constant = self._scoring_terms
            differences = ((rows - centre) @ inverse.T)[:, None] - m  # (n, K, d)
            return np.asarray(constant - 0.5 * np.einsum("nkd,nkd->nk", differences, differences))
        scores = np.zeros((len(rows), len(self.keys)))
        for index, columns, complete in group_by_pattern(rows):
            if not len(columns):
                continue
            x = rows if complete and isinstance(index, slice) else rows[index][:, columns]
            factor = self.factor if complete else marginal_factor(self.covariance, columns)
            scores[index] = self._score_complete(x, self.mean[:, columns], factor)
        return scores

    @cached_property
    def _scoring_terms(self) -> tuple[Array, Array, Array, float]:
        """A centre (d,), L⁻¹ (d, d), means whitened about it (K, d), and log of the density at a mean."""
        d = self.mean.shape[1]
        centre = self.mean.mean(axis=0)
        constant = -0.5 * (float(self.factor.log_determinant()) + d * _LOG_2PI)
        return centre, self.factor.inverse_factor(), self.factor.whiten(self.mean - centre), constant

    def _score_complete(self, rows: Array, mean: Array, factor: Cholesky) -> Array:
        """log p of rows without missing values (n, K): −½|z − m|² and a constant.

        z and m are the rows and the means, whitened about the same centre. One matrix product serves all
        classes, unless a mean is far from the centre.
        """
        centre = mean.mean(axis=0)
        m = factor.whiten(mean - centre)
        lengths = np.einsum("ij,ij->i", m, m)
        is_far = bool((lengths > _MAX_SQUARED_DISTANCE).any())
        scores = np.empty((len(rows), len(mean)))
        for run in runs(len(rows), 1, _MAX_ROWS):
            z = factor.whiten(rows[run] - centre)
            block = scores[run]
            if is_far:
                for k in range(len(mean)):
                    block[:, k] = -0.5 * np.square(z - m[k]).sum(axis=1)
            else:
                np.matmul(z, m.T, out=block)
                block -= 0.5 * (np.einsum("ij,ij->i", z, z)[:, None] + lengths)
        scores -= 0.5 * (factor.log_determinant() + mean.shape[1] * _LOG_2PI)
        return scores

    def natural(self, origin: Array) -> Natural:
        return _natural_parameters("tied", self.mean - origin, self.covariance, self.factor)

    def contrasts(self, rows: Array, for_: int, against: int) -> Contrast:
        """w_j (x_j − midpoint_j) with w = Σ⁻¹(μ − μ′), of the columns that are present."""
        terms = np.zeros(rows.shape)
        for index, columns, complete in group_by_pattern(rows):
            factor = self.factor if complete else marginal_factor(self.covariance, columns)
            one, other = self.mean[for_, columns], self.mean[against, columns]
            w = factor.solve((one - other)[:, None])[:, 0]
            x = rows[index][:, columns]
            part = np.zeros((len(x), rows.shape[1]))
            part[:, columns] = 0.5 * w * ((x - one) + (x - other))
            terms[index] = part
        return Contrast(terms, np.zeros(len(rows)))

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        noise = rng.standard_normal((len(group), self.mean.shape[1]))
        return list((self.mean[group] + noise @ self.factor.lower.T).T)

    def covariance_of(self, k: int) -> Array:
        """The covariance (d, d), the same for every class."""
        return self.covariance


def _natural_parameters(
    form: Literal["full", "tied"], centred: Array, covariance: Array, factor: Cholesky
) -> Natural:
    """Natural parameters from means minus an origin (K, d) and covariances (K, d, d), or (d, d) if tied."""
    precision = factor.inverse()
    linear = (precision @ centred[..., None])[..., 0]
    square = (linear * centred).sum(axis=1)
    constant = -0.5 * (square + factor.log_determinant() + centred.shape[1] * _LOG_2PI)
    # `cancelling` sums |precision_ij| s_i s_j, s being the root mean square of x − origin in a class.
    typical = np.sqrt(np.square(centred) + np.diagonal(covariance, axis1=-2, axis2=-1))[..., None]
    cancelling = np.swapaxes(typical, 1, 2) @ np.abs(precision) @ typical
    return Natural(form, constant, linear, -0.5 * precision, cancelling=cancelling[:, 0, 0])


@dataclass(frozen=True, slots=True, eq=False)
class DiagonalNormal(Normal):
    """A Gaussian whose columns are independent, as `GaussianColumns` makes them."""

    @property
    def covariance(self) -> Array:
        """The diagonals (K, d)."""
        return self.variance


@dataclass(frozen=True, slots=True, eq=False)
class SphericalNormal(Normal):
    """A Gaussian whose columns are independent and share one variance."""

    @property
    def covariance(self) -> Array:
        """The one variance of each class (K,)."""
        return self.variance[:, 0]

    def log_evidence(self) -> float:
        return spherical_evidence(self.prior, self.class_sums)


def compute_spherical_increases(prior: NormalInverseGamma, class_sums: Moments) -> tuple[Array, Array]:
    """The increase of the shape (K,) and the scale (K,) by an update, if all columns share one variance."""
    weight = class_sums.weight.value
    shift = normals.shift_of(class_sums.weight, class_sums.first, prior.location)
    increase = compute_scale_increase(prior.strength, weight, shift, class_sums.scatter)
    return 0.5 * weight.sum(axis=1), increase.sum(axis=1)


def spherical_evidence(prior: NormalInverseGamma, class_sums: Moments) -> float:
    """The log-evidence of all classes, if all columns of a class share one variance."""
    weight = class_sums.weight.value
    shape, scale = compute_spherical_increases(prior, class_sums)
    # The log-normalizer of the posterior's inverse gamma distribution minus that of the prior's.
    ratio = log_gamma_ratio(prior.shape[0], prior.scale[0], shape, scale)
    means = np.log1p(weight / prior.strength).sum(axis=1)
    return float((ratio - 0.5 * means - shape * _LOG_2PI).sum())


@dataclass(frozen=True, slots=True, eq=False)
class VectorStudent(Density[Array]):
    """The Gaussian with its mean and covariance integrated out."""

    keys: Keys
    members: MultivariateT  # (K,)
    compute_evidence: Callable[[], float]  # computes the log-evidence

    @property
    def mean(self) -> Array:
        """The mean of each class (K, d)."""
        return self.members.mean

    @property
    def covariance(self) -> Array:
        """The covariance of each class (K, d, d)."""
        return self.members.covariance

    def scores(self, rows: Array) -> Array:
        members = self.members
        scores = np.empty((len(rows), len(self.keys)))
        for part in _measure_marginals(rows, members.location, members.scale, members.factor):
            freedom = members.freedom[part.k]
            scores[part.rows, part.k] = (
                log_t_normalizer(freedom, part.d)
                - 0.5 * part.log_determinant
                - 0.5 * (freedom + part.d) * log_one_plus_square(np.sqrt(part.square / freedom))
            )
        return scores

    def contrasts(self, rows: Array, for_: int, against: int) -> Contrast:
        raise ValueError(
            "explain needs estimate='mle', 'map' or 'mean': the log-odds of multivariate t distributions "
            "are not a sum over columns"
        )

    def draw(self, rng: np.random.Generator, group: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        members = self.members
        rows = np.empty((len(group), members.location.shape[1]))
        for k in np.unique(group).tolist():
            in_class = group == k
            member = MultivariateT(members.freedom[k], members.location[k], members.scale[k])
            rows[in_class] = member.sample(rng, int(in_class.sum()))
        return list(rows.T)

    def log_evidence(self) -> float:
        return self.compute_evidence()


def refuse_collapse(density: Any) -> None:
    """Raise if a variance of a class is zero up to rounding: without a prior its density is unbounded.

    Matrices are not checked, because `infer` has raised an error if they are singular.
    """
    if not isinstance(density, DiagonalNormal | SphericalNormal):
        return
    has_no_variance = density.variance <= np.square(1e-14 * density.mean) + 1e-300
    if has_no_variance.any():
        raise ValueError(
            f"component {int(has_no_variance.any(axis=1).argmax())} has collapsed on rows that do not vary, "
            "expected variances above zero: set reg_covar or estimate='map', or ask for fewer components"
        )


def precisions_of(density: Any) -> Array:
    """The inverse of a density's `covariance`, in its shape."""
    if isinstance(density, FullNormal | TiedNormal):
        return density.factor.inverse()
    if isinstance(density, VectorStudent):
        return density.members.factor.inverse() * _scale_over_covariance(density)
    return np.asarray(1.0 / density.covariance)


def precision_factors_of(density: Any) -> Array:
    """Upper triangular U with U Uᵀ = precision; without matrices, the square roots of the precisions."""
    if isinstance(density, FullNormal | TiedNormal):
        return np.swapaxes(density.factor.inverse_factor(), -1, -2)
    if isinstance(density, VectorStudent):
        factor = density.members.factor.inverse_factor() * np.sqrt(_scale_over_covariance(density))
        return np.swapaxes(factor, -1, -2)
    return np.asarray(1.0 / np.sqrt(density.covariance))


def _scale_over_covariance(density: VectorStudent) -> Array:
    """The ratio of scale to covariance (K, 1, 1); 0 where the covariance is infinite."""
    freedom = np.broadcast_to(density.members.freedom, (len(density.keys),))
    return np.asarray(np.maximum(freedom - 2.0, 0.0) / freedom)[:, None, None]


def sum_incomplete_vectors(
    rows: Array, responsibilities: Responsibilities, given: Density[Array] | None
) -> Moments:
    """The expected full Moments of rows with missing values, under the given Gaussians."""
    if not isinstance(given, FullNormal | TiedNormal):
        raise ValueError(
            "some values are missing, expected a Gaussian to impute them by, made by estimate='mle', 'map' "
            "or 'mean': drop or fill those rows, or use covariance='diag'"
        )
    class_index = given.keys.find(responsibilities.keys)
    centre = given.mean[class_index]
    classes, d = centre.shape
    first, second = np.zeros((classes, d)), np.zeros((classes, d, d))
    for index, columns, _ in group_by_pattern(rows):
        x, r = rows[index], responsibilities.values[index]
        for i, k in enumerate(class_index.tolist()):
            centred, conditional = _impute(x, columns, centre[i], given.covariance_of(k))
            first[i] += r[:, i] @ centred
            second[i] += sum_products(centred, r[:, i]) + r[:, i].sum() * conditional
    weight = responsibilities.values.sum(axis=0)
    return Moments.about(centre, weight, first, second, "full", responsibilities.keys)


def _impute(rows: Array, columns: NDArray[np.int64], mean: Array, covariance: Array) -> tuple[Array, Array]:
    """E[x | the columns present] − mean (n, d), and the conditional covariance of the others (d, d)."""
    d = rows.shape[1]
    missing = np.setdiff1d(np.arange(d), columns)
    cross = covariance[np.ix_(columns, missing)]
    slope = marginal_factor(covariance, columns).solve(cross)
    centred, conditional = np.zeros(rows.shape), np.zeros((d, d))
    centred[:, columns] = rows[:, columns] - mean[columns]
    centred[:, missing] = centred[:, columns] @ slope
    conditional[np.ix_(missing, missing)] = covariance[np.ix_(missing, missing)] - cross.T @ slope
    return centred, conditional
