"""The only place that factorises a matrix. Every function takes leading batch axes."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from tamis.arrays import Array


@dataclass(frozen=True, slots=True)
class Cholesky:
    """A symmetric positive definite matrix, kept as its lower triangular factor (..., d, d)."""

    lower: Array

    @classmethod
    def of(cls, matrix: Array, what: str = "matrix") -> "Cholesky":
        """Factorise; `what` names the matrix when it is not positive definite.

        >>> Cholesky.of(np.array([[4.0, 2.0], [2.0, 3.0]])).lower.round(3).tolist()
        [[2.0, 0.0], [1.0, 1.414]]
        """
        if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
            raise ValueError(f"got a {what} of shape {matrix.shape}, expected square matrices (..., d, d)")
        try:
            return cls(np.asarray(np.linalg.cholesky(matrix), dtype=np.float64))
        except np.linalg.LinAlgError:
            least = float(np.linalg.eigvalsh(matrix).min())
            raise ValueError(
                f"the {what} has eigenvalue {least:.3g}, expected all above zero: "
                "give more rows, drop columns that repeat each other, or set a prior"
            ) from None

    def log_determinant(self) -> Array:
        """Of the matrix, not of its factor (...,)."""
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

    def inverse(self) -> Array:
        """M⁻¹ (..., d, d)."""
        identity = np.broadcast_to(np.eye(self.lower.shape[-1]), self.lower.shape)
        return self.solve(identity)
