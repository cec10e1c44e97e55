"""Σ_j x_j · table_j for dense and sparse rows, where a table may hold −∞: impossible, unless x_j is zero."""

from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.tables import Sparse

Rows = Array | Sparse


def scores(rows: Rows, table: Array, certain: bool = True) -> Array:
    """rows (n, d) · tableᵀ (K, d) → (n, K); 0 · −∞ is 0. Not `certain` says that there is no −∞."""
    matrix: Any = rows.matrix() if isinstance(rows, Sparse) else rows
    if not certain:
        return np.asarray(matrix @ table.T)
    impossible = np.isneginf(table)
    if not impossible.any():
        return np.asarray(matrix @ table.T)
    found = np.asarray(matrix @ np.where(impossible, 0.0, table).T)
    met = np.asarray((matrix != 0).astype(np.float64) @ impossible.T.astype(np.float64))
    return np.where(met > 0, -np.inf, found)


def products(rows: Rows, factors: Array) -> Any:
    """x_j · factor_j, entry by entry (n, d), sparse if the rows are; 0 · ∞ is 0."""
    if isinstance(rows, Sparse):
        sparse = rows.matrix()
        sparse.data = _times(rows.values, factors[rows.indices])
        return sparse
    return _times(rows, np.broadcast_to(factors, rows.shape))


def _times(x: Array, factors: Array) -> Array:
    return np.asarray(np.multiply(x, factors, out=np.zeros(x.shape), where=x != 0))


def total(rows: Rows, shares: Array) -> Array:
    """sharesᵀ (K, n) · rows (n, d) → (K, d)."""
    if isinstance(rows, Sparse):
        return np.ascontiguousarray((rows.matrix().T @ shares).T)
    return np.asarray(shares.T @ rows)
