"""Factorise matrices. `Cholesky` and `symmetrize` take leading batch axes (...), other functions one matrix.

Functions with an argument `gram` take XᵀX of d columns, about zero or about their mean.
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack, qr, solve_triangular, svd

from tamis.arrays import Array

_ASYMMETRY = 1e-8  # relative to √(Mᵢᵢ Mⱼⱼ): smaller differences are rounding errors, and averaged
_ROUNDING = 1e-13  # a smaller fraction of a sum of squares is a rounding error
_GRADED = 1e8  # if variances differ by a larger factor, `eigh` computes the small eigenvalues inaccurately
_SMALL_REST = 1e-4  # the trace minus some eigenvalues has ten correct digits if a larger fraction is left
_MORE_ROWS = "give more rows, drop columns that repeat each other, or set a prior"


def symmetrize(matrix: Array, what: str = "matrix") -> Array:
    """Average a matrix and its transpose; raise if they differ by more than rounding errors.

    `what` is what the error calls the matrix.
    """
    _refuse_unless_square(matrix, what)
    other = np.swapaxes(matrix, -1, -2)
    scale = np.sqrt(np.abs(np.diagonal(matrix, axis1=-2, axis2=-1)))
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is NaN, which the factorisation refuses
        differs = np.abs(matrix - other) > _ASYMMETRY * scale[..., :, None] * scale[..., None, :]
    if differs.any():
        index = tuple(np.argwhere(differs)[0].tolist())
        raise ValueError(
            f"got a {what} with {matrix[index]} above the diagonal and {other[index]} below, "
            "expected a symmetric matrix"
        )
    with np.errstate(invalid="ignore"):
        return np.asarray(0.5 * (matrix + other))


@dataclass(frozen=True, slots=True)
class Cholesky:
    """A symmetric positive definite matrix M = LLᵀ, stored as its lower triangular factor L (..., d, d)."""

    lower: Array

    @classmethod
    def of(cls, matrix: Array, what: str = "matrix", remedy: str = _MORE_ROWS) -> "Cholesky":
        """Factorise M. If M is not positive definite, the error calls it `what` and advises `remedy`.

        >>> Cholesky.of(np.array([[4.0, 2.0], [2.0, 3.0]])).lower.round(3).tolist()
        [[2.0, 0.0], [1.0, 1.414]]
        """
        _refuse_unless_square(matrix, what)
        if not np.isfinite(matrix).all():
            raise ValueError(f"the {what} holds {matrix[~np.isfinite(matrix)][0]}, expected finite numbers")
        try:
            return cls(np.asarray(np.linalg.cholesky(matrix), dtype=np.float64))
        except np.linalg.LinAlgError:
            least = float(np.linalg.eigvalsh(matrix).min())
            raise ValueError(
                f"the {what} has eigenvalue {least:.3g}, expected all above zero: {remedy}"
            ) from None

    @classmethod
    def factorise_definite(cls, matrix: Array) -> tuple["Cholesky", NDArray[np.bool_]]:
        """Factorise, and return which matrices are positive definite (...,); L of the others is the identity.

        >>> Cholesky.factorise_definite(np.array([[[4.0]], [[-4.0]]]))[1].tolist()
        [True, False]
        """
        lower = np.broadcast_to(np.eye(matrix.shape[-1]), matrix.shape).copy()
        definite = np.asarray(np.isfinite(matrix).all(axis=(-2, -1)))
        if definite.all():
            with suppress(np.linalg.LinAlgError):
                return cls(np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)), definite
        for index in map(tuple, np.argwhere(definite)):
            try:
                lower[index] = np.linalg.cholesky(matrix[index])
            except np.linalg.LinAlgError:
                definite[index] = False
        return cls(lower), definite

    def log_determinant(self) -> Array:
        """Return the log-determinant of the matrix, not of its factor (...,)."""
        diagonal: Array = np.diagonal(self.lower, axis1=-2, axis2=-1)
        return np.asarray(2.0 * np.log(diagonal).sum(axis=-1))

    def whiten(self, x: Array) -> Array:
        """Return L⁻¹x for vectors x (..., d); if M is the covariance of x, its covariance is the identity."""
        if self.lower.ndim == 2:  # one factor, many vectors: columns of a single triangular system
            columns = solve_triangular(
                self.lower, x.reshape(-1, x.shape[-1]).T, lower=True, check_finite=False
            )
            return np.ascontiguousarray(columns.T).reshape(x.shape)
        return np.asarray(np.linalg.solve(self.lower, x[..., None])[..., 0])

    def quadratic(self, x: Array) -> Array:
        """Return xᵀ M⁻¹ x for vectors x (..., d)."""
        return np.asarray(np.square(self.whiten(x)).sum(axis=-1))

    def colour(self, z: Array) -> Array:
        """Return Lz for vectors z (..., d): covariance M if z is standard normal. It inverts `whiten`."""
        return np.asarray((self.lower @ z[..., None])[..., 0])

    def solve(self, b: Array) -> Array:
        """Return M⁻¹B for matrices B (..., d, k)."""
        half = np.linalg.solve(self.lower, b)
        return np.asarray(np.linalg.solve(np.swapaxes(self.lower, -1, -2), half))

    def inverse_factor(self) -> Array:
        """Return L⁻¹ (..., d, d); multiplying by it is faster than many calls of `whiten` for few vectors."""
        identity = np.broadcast_to(np.eye(self.lower.shape[-1]), self.lower.shape)
        return np.asarray(np.linalg.solve(self.lower, identity))

    def inverse(self) -> Array:
        """Return M⁻¹ (..., d, d)."""
        identity = np.broadcast_to(np.eye(self.lower.shape[-1]), self.lower.shape)
        return self.solve(identity)


def eigen(matrix: Array) -> tuple[Array, Array]:
    """Return the eigenvalues (d,), ascending, and eigenvectors (d, d) in columns, of a symmetric matrix."""
    values, vectors = eigh(matrix, check_finite=False)
    return np.asarray(values), np.asarray(vectors)


def find_whitening(matrix: Array, what: str, tolerance: float = 1e-8) -> Array:
    """Return directions (d, rank) of unit variance for a covariance (d, d) that may be singular.

    Columns are first scaled to unit variance. Principal directions whose variance is then at most `tolerance`
    times the largest are treated as rounding errors, and left out. `what` names the matrix in errors.
    """
    std = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    scale = np.where(std > 0, std, 1.0)
    values, vectors = eigen(matrix / (scale[:, None] * scale))
    nonzero = values > tolerance * max(float(values[-1]), 0.0)
    if not nonzero.any():
        raise ValueError(f"the {what} is zero, expected a column that varies: {_MORE_ROWS}")
    return np.asarray(vectors[:, nonzero] / np.sqrt(values[nonzero]) / scale[:, None])


def find_dependent(gram: Array, tolerance: float = _ROUNDING) -> NDArray[np.int64]:
    """Find the columns that are linear combinations of earlier ones, by their Gram matrix (d, d).

    A column is one if regression on the columns before it leaves at most the fraction `tolerance` of its sum
    of squares. Their indices are returned in ascending order; without them, the matrix is positive definite.

    >>> find_dependent(np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])).tolist()
    [1]
    """
    scaled, varies, _ = _scale_columns(gram)
    _, order, rank, _ = lapack.dpstrf(scaled, tol=tolerance)  # a Cholesky factorisation with pivoting
    independent = np.asarray(order[:rank], dtype=np.int64) - 1
    if rank < len(scaled):  # pivoting may have kept the later one of two equal columns
        in_order = _find_independent(scaled, tolerance)
        independent = in_order if len(in_order) <= rank else independent
    return np.setdiff1d(np.arange(len(gram)), np.flatnonzero(varies)[independent])


def _find_independent(scaled: Array, tolerance: float) -> NDArray[np.int64]:
    """Find the columns that do not depend on earlier ones: their Cholesky pivots exceed `tolerance`."""
    lower, independent = np.zeros_like(scaled), list[int]()
    for j in range(len(scaled)):
        rank = len(independent)
        row = solve_triangular(lower[:rank, :rank], scaled[independent, j], lower=True, check_finite=False)
        pivot = scaled[j, j] - row @ row
        if pivot > tolerance:
            lower[rank, :rank], lower[rank, rank] = row, np.sqrt(pivot)
            independent.append(j)
    return np.asarray(independent, dtype=np.int64)


def spectrum(gram: Array) -> tuple[Array, Array]:
    """Return eigenvalues (r,) above rounding errors, in any order, and eigenvectors (d, r) of a Gram matrix.

    If the scales of the columns differ greatly, `eigh` computes small eigenvalues inaccurately. Then the
    pivoted Cholesky factor is decomposed by Jacobi rotations (LAPACK's gejsv), which are accurate (Drmač and
    Veselić 2008).
    """
    scaled, varies, scale = _scale_columns(gram)
    if not varies.any():
        return np.empty(0), np.empty((len(gram), 0))
    if not _is_graded(scale):
        values, vectors = eigen(gram)
        nonzero = values > _ROUNDING * max(float(values[-1]), 0.0)
        return values[nonzero], vectors[:, nonzero]
    factor, order, rank, _ = lapack.dpstrf(scaled, tol=_ROUNDING, lower=1)
    tall = np.empty((len(scaled), rank))
    tall[np.asarray(order, dtype=np.int64) - 1] = np.tril(factor)[:, :rank]
    # joba=2, LAPACK's 'F', is for rows of different scales.
    singular_values, left, _, sizes, _, _ = lapack.dgejsv(scale[:, None] * tall, joba=2)
    vectors = np.zeros((len(gram), rank))
    vectors[varies] = left[:, :rank]
    return np.square(singular_values * (sizes[0] / sizes[1])), vectors  # LAPACK may have scaled the values


def find_leading(gram: Array, k: int) -> tuple[Array, Array] | None:
    """Return the k largest eigenvalues (k,), ascending, and their eigenvectors (d, k), of a Gram matrix.

    None if `spectrum` must be used instead: the scales of the columns differ greatly, no column varies, or
    the sum of the other eigenvalues cannot be computed accurately as the trace minus these.
    """
    variances = np.diagonal(gram)
    varies = variances[variances > 0]
    if not len(varies) or _is_graded(np.sqrt(varies)):
        return None
    values, vectors = eigh(gram, subset_by_index=(len(gram) - k, len(gram) - 1), check_finite=False)
    total = float(variances.sum())
    return (values, vectors) if total - float(values.sum()) > _SMALL_REST * total else None


def complete_basis(vectors: Array) -> Array:
    """Return orthonormal vectors (d, d − r) that complete orthonormal vectors (d, r) to a basis."""
    basis, _ = np.linalg.qr(vectors, mode="complete")
    return np.asarray(basis[:, vectors.shape[1] :])


def singular(matrix: Array) -> tuple[Array, Array]:
    """Return singular values (r,), descending, and right singular vectors (r, d) in rows, of (n, d)."""
    _, values, right = svd(matrix, full_matrices=False, check_finite=False)
    return np.asarray(values), np.asarray(right)


def orthonormalize(matrix: Array) -> Array:
    """Return orthonormal columns (d, k) that span the columns of a matrix (d, k), k ≤ d."""
    return np.asarray(qr(matrix, mode="economic", check_finite=False)[0])


def _is_graded(scale: Array) -> bool:
    """Return whether the scales of the columns differ so much that `eigh` is inaccurate."""
    return bool(scale.max() > np.sqrt(_GRADED) * scale.min())


def _scale_columns(gram: Array) -> tuple[Array, NDArray[np.bool_], Array]:
    """Scale a Gram matrix to a unit diagonal, without the columns whose diagonal is 0.

    Return the matrix (r, r), a mask of the r columns that remain (d,), and their scales (r,).
    """
    roots = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    varies = roots > 0
    scale = roots[varies]
    return gram[np.ix_(varies, varies)] / (scale[:, None] * scale), varies, scale


def _refuse_unless_square(matrix: Array, what: str) -> None:
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"got a {what} of shape {matrix.shape}, expected square matrices (..., d, d)")
