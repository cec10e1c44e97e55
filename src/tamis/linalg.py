"""Factorisations of matrices: no other module factorises one. Every function takes leading batch axes."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack, qr, solve_triangular, svd

from tamis.arrays import Array

_ASYMMETRY = 1e-8  # relative to √(Mᵢᵢ Mⱼⱼ): smaller asymmetries are rounding, and averaged away
_FLAT = 1e-13  # a sum of squares below this part of the largest, or of a column's own, is rounding
_GRADED = 1e8  # ratio of the largest to the least variance above which `eigh` would lose the small ones
_LEFT = 1e-4  # a difference below this part of the trace has fewer than ten digits
_MORE_ROWS = "give more rows, drop columns that repeat each other, or set a prior"


def symmetric(matrix: Array, what: str = "matrix") -> Array:
    """Return the matrix with equal triangles; raise if they differ by more than rounding."""
    _refuse_unless_square(matrix, what)
    other = np.swapaxes(matrix, -1, -2)
    scale = np.sqrt(np.abs(np.diagonal(matrix, axis1=-2, axis2=-1)))
    with np.errstate(invalid="ignore"):  # ∞ − ∞: refused by the factorisation
        apart = np.abs(matrix - other) > _ASYMMETRY * scale[..., :, None] * scale[..., None, :]
    if apart.any():
        where = tuple(np.argwhere(apart)[0].tolist())
        raise ValueError(
            f"got a {what} with {matrix[where]} above the diagonal and {other[where]} below, "
            "expected a symmetric matrix"
        )
    with np.errstate(invalid="ignore"):
        return np.asarray(0.5 * (matrix + other))


@dataclass(frozen=True, slots=True)
class Cholesky:
    """A symmetric positive definite matrix, kept as its lower triangular factor (..., d, d)."""

    lower: Array

    @classmethod
    def of(cls, matrix: Array, what: str = "matrix", remedy: str = _MORE_ROWS) -> "Cholesky":
        """Factorise; `what` names the matrix when it is not positive definite, `remedy` says what to do.

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
        """Factors, and which matrices (...,) have one; the identity stands in for the others.

        >>> Cholesky.factorise_definite(np.array([[[4.0]], [[-4.0]]]))[1].tolist()
        [True, False]
        """
        lower = np.broadcast_to(np.eye(matrix.shape[-1]), matrix.shape).copy()
        definite = np.asarray(np.isfinite(matrix).all(axis=(-2, -1)))
        if definite.all():
            with suppress(np.linalg.LinAlgError):
                return cls(np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)), definite
        for place in map(tuple, np.argwhere(definite)):
            try:
                lower[place] = np.linalg.cholesky(matrix[place])
            except np.linalg.LinAlgError:
                definite[place] = False
        return cls(lower), definite

    def log_determinant(self) -> Array:
        """The log-determinant of the matrix, not of its factor (...,)."""
        diagonal: Array = np.diagonal(self.lower, axis1=-2, axis2=-1)
        return np.asarray(2.0 * np.log(diagonal).sum(axis=-1))

    def whiten(self, x: Array) -> Array:
        """L⁻¹x for vectors x (..., d): uncorrelated, of unit variance if the matrix is their covariance."""
        if self.lower.ndim == 2:  # one factor, many vectors: columns of a single triangular system
            columns = solve_triangular(
                self.lower, x.reshape(-1, x.shape[-1]).T, lower=True, check_finite=False
            )
            return np.ascontiguousarray(columns.T).reshape(x.shape)
        return np.asarray(np.linalg.solve(self.lower, x[..., None])[..., 0])

    def quadratic(self, x: Array) -> Array:
        """xᵀ M⁻¹ x for vectors x (..., d)."""
        return np.asarray(np.square(self.whiten(x)).sum(axis=-1))

    def colour(self, z: Array) -> Array:
        """Lz: gives independent standard normal vectors z (..., d) the covariance M."""
        return np.asarray((self.lower @ z[..., None])[..., 0])

    def solve(self, b: Array) -> Array:
        """M⁻¹B for matrices B (..., d, k)."""
        half = np.linalg.solve(self.lower, b)
        return np.asarray(np.linalg.solve(np.swapaxes(self.lower, -1, -2), half))

    def inverse_factor(self) -> Array:
        """L⁻¹ (..., d, d), to whiten few vectors at a time and often."""
        identity = np.broadcast_to(np.eye(self.lower.shape[-1]), self.lower.shape)
        return np.asarray(np.linalg.solve(self.lower, identity))

    def inverse(self) -> Array:
        """M⁻¹ (..., d, d)."""
        identity = np.broadcast_to(np.eye(self.lower.shape[-1]), self.lower.shape)
        return self.solve(identity)


def eigen(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues (d,), least first, and eigenvectors (d, d) in columns, of a symmetric matrix."""
    values, vectors = eigh(matrix, check_finite=False)
    return np.asarray(values), np.asarray(vectors)


def whitening(matrix: Array, what: str, flat: float = 1e-8) -> Array:
    """Directions (d, rank) of unit variance for a covariance (d, d) that may be singular.

    In units of the columns' own spread, variances below `flat` of the largest are taken for rounding, and
    their directions left out.
    """
    spread = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    scale = np.where(spread > 0, spread, 1.0)
    values, vectors = eigen(matrix / (scale[:, None] * scale))
    kept = values > flat * max(float(values[-1]), 0.0)
    if not kept.any():
        raise ValueError(f"the {what} is zero, expected some variance in some column: {_MORE_ROWS}")
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None])


def find_dependent(gram: Array, flat: float = _FLAT) -> NDArray[np.int64]:
    """Columns that the others determine, in ascending order, for their Gram matrix or scatter (d, d).

    A column is returned if the columns before it explain all but the part `flat` of its variance. Without
    these columns, the matrix is positive definite.

    >>> find_dependent(np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])).tolist()
    [1]
    """
    scaled, live, _ = _scale_columns(gram)
    _, order, rank, _ = lapack.dpstrf(scaled, tol=flat)
    kept = np.asarray(order[:rank], dtype=np.int64) - 1
    if rank < len(scaled):  # the pivots choose by size: to name the later of two twins, go in order
        in_order = _find_independent(scaled, flat)
        kept = in_order if len(in_order) <= rank else kept
    return np.setdiff1d(np.arange(len(gram)), np.flatnonzero(live)[kept])


def _find_independent(scaled: Array, flat: float) -> NDArray[np.int64]:
    """The columns that those before them do not determine: their pivots in Cholesky are above `flat`."""
    lower, kept = np.zeros_like(scaled), list[int]()
    for j in range(len(scaled)):
        r = len(kept)
        row = solve_triangular(lower[:r, :r], scaled[kept, j], lower=True, check_finite=False)
        pivot = scaled[j, j] - row @ row
        if pivot > flat:
            lower[r, :r], lower[r, r] = row, np.sqrt(pivot)
            kept.append(j)
    return np.asarray(kept, dtype=np.int64)


def spectrum(gram: Array) -> tuple[Array, Array]:
    """Eigenvalues (r,) above rounding, and their vectors (d, r), of a Gram matrix or scatter (d, d).

    Where the columns' scales lie far apart, small eigenvalues would drown in the rounding of large ones:
    there a pivoted Cholesky factor is decomposed by Jacobi rotations (LAPACK's gejsv), which keep them.
    """
    scaled, live, scale = _scale_columns(gram)
    if not live.any():
        return np.empty(0), np.empty((len(gram), 0))
    if not _is_graded(scale):
        values, vectors = eigen(gram)
        kept = values > _FLAT * max(float(values[-1]), 0.0)
        return values[kept], vectors[:, kept]
    factor, order, rank, _ = lapack.dpstrf(scaled, tol=_FLAT, lower=1)
    tall = np.empty((len(scaled), rank))
    tall[np.asarray(order, dtype=np.int64) - 1] = np.tril(factor)[:, :rank]
    roots, left, _, size, _, _ = lapack.dgejsv(scale[:, None] * tall, joba=2)
    vectors = np.zeros((len(gram), rank))
    vectors[live] = left[:, :rank]
    return np.square(roots * (size[0] / size[1])), vectors


def find_leading(gram: Array, k: int) -> tuple[Array, Array] | None:
    """The k largest eigenvalues (k,) of a `spectrum`, least first, and their vectors (d, k).

    None if all eigenvalues must be computed instead: the columns' scales lie far apart, or the sum of the
    other eigenvalues would be lost in the rounding of the trace.
    """
    variances = np.diagonal(gram)
    live = variances[variances > 0]
    if not len(live) or _is_graded(np.sqrt(live)):
        return None
    values, vectors = eigh(gram, subset_by_index=(len(gram) - k, len(gram) - 1), check_finite=False)
    total = float(variances.sum())
    return (values, vectors) if total - float(values.sum()) > _LEFT * total else None


def complete_basis(vectors: Array) -> Array:
    """Orthonormal vectors (d, d − r) that make these (d, r) a basis."""
    basis, _ = np.linalg.qr(vectors, mode="complete")
    return np.asarray(basis[:, vectors.shape[1] :])


def singular(matrix: Array) -> tuple[Array, Array]:
    """Singular values (r,), largest first, and right singular vectors (r, d) in rows, of (n, d)."""
    _, values, right = svd(matrix, full_matrices=False, check_finite=False)
    return np.asarray(values), np.asarray(right)


def orthonormalize(matrix: Array) -> Array:
    """Orthonormal columns (d, k) that span those of a matrix (d, k) of k ≤ d."""
    return np.asarray(qr(matrix, mode="economic", check_finite=False)[0])


def _is_graded(scale: Array) -> bool:
    """Whether the scales of columns lie so far apart that `eigh` would lose the small ones."""
    return bool(scale.max() > np.sqrt(_GRADED) * scale.min())


def _scale_columns(gram: Array) -> tuple[Array, NDArray[np.bool_], Array]:
    """The matrix of the columns that vary, with a diagonal of ones; which these are; and their scales."""
    spread = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    live = spread > 0
    scale = spread[live]
    return gram[np.ix_(live, live)] / (scale[:, None] * scale), live, scale


def _refuse_unless_square(matrix: Array, what: str) -> None:
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"got a {what} of shape {matrix.shape}, expected square matrices (..., d, d)")
