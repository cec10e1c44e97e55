"""A curvature → coordinates in which it is the identity, where one step goes far in all directions."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular

from tamis.arrays import Array
from tamis.linalg import Cholesky


class Whitening(Protocol):
    """M = L Lᵀ, for some M near the curvature."""

    def gradient(self, gradient: Array) -> Array:
        """L⁻¹ g: the slope in the new coordinates (D,)."""
        ...

    def step(self, step: Array) -> Array:
        """L⁻ᵀ v: a step in the new coordinates, in the old ones (D,)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Triangular:
    """By the factor of the whole matrix."""

    lower: Array  # (D, D)

    @classmethod
    def of(cls, matrix: Array) -> "Triangular | Diagonal":
        """Of a matrix that may be singular but for rounding: then each parameter by itself."""
        factor, definite = Cholesky.where_definite(matrix)
        return cls(factor.lower) if bool(definite) else Diagonal.of(np.diagonal(matrix))

    def gradient(self, gradient: Array) -> Array:
        return np.asarray(solve_triangular(self.lower, gradient, lower=True, check_finite=False))

    def step(self, step: Array) -> Array:
        return np.asarray(solve_triangular(self.lower, step, lower=True, trans="T", check_finite=False))


@dataclass(frozen=True, slots=True, eq=False)
class Kronecker:
    """By the factors of two matrices A ⊗ B: of outputs, and of columns."""

    outputs: Array  # (m, m)
    columns: Array  # (width, width)

    def gradient(self, gradient: Array) -> Array:
        cells = gradient.reshape(len(self.outputs), -1)
        half = solve_triangular(self.outputs, cells, lower=True, check_finite=False)
        return np.asarray(solve_triangular(self.columns, half.T, lower=True, check_finite=False).T.ravel())

    def step(self, step: Array) -> Array:
        cells = step.reshape(len(self.outputs), -1)
        half = solve_triangular(self.outputs, cells, lower=True, trans="T", check_finite=False)
        whole = solve_triangular(self.columns, half.T, lower=True, trans="T", check_finite=False)
        return np.asarray(whole.T.ravel())


@dataclass(frozen=True, slots=True, eq=False)
class Diagonal:
    """Each parameter by itself."""

    scale: Array  # (D,): √ of the curvature

    @classmethod
    def of(cls, diagonal: Array) -> "Diagonal":
        least = 1e-12 * max(float(diagonal.max(initial=0.0)), 1e-300)
        return cls(np.sqrt(np.maximum(diagonal, least)))

    def gradient(self, gradient: Array) -> Array:
        return np.asarray(gradient / self.scale)

    def step(self, step: Array) -> Array:
        return np.asarray(step / self.scale)
