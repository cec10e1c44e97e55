"""Counts, dense or sparse → exact sums by label, and linear scores.

The blocks of counts, flags and categories share these functions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tamis import _kernels
from tamis.arrays import Array, one_line
from tamis.models.generative.block import Estimate
from tamis.stats import Exact, Labels, Tally, refuse_excess_subtraction
from tamis.tables import Sparse, Table

Rows = Array | Sparse

_INFINITY_BITS = np.array(np.inf).view(np.uint64)  # the bits of ∞ as an integer
MAX_COUNT = 2.0**52  # counts below this number are learned without the checks of `encode`


class NoEvidenceError(ValueError, AttributeError):
    """The parameters cannot be integrated out. As an AttributeError, it lets `hasattr` return False."""


def refuse_missing_prior(has_prior: bool) -> None:
    """Raise NoEvidenceError unless there is a prior."""
    if not has_prior:
        raise NoEvidenceError("there is no evidence without a prior: got alpha=0, expected above 0")


def choose_pseudo_counts(estimate: Estimate, alpha: Any) -> Any:
    """The pseudo-counts that an estimate adds to counts, of a prior with the pseudo-counts `alpha`."""
    if estimate == "mle":
        return 0.0 * alpha
    return alpha - 1.0 if estimate == "map" else alpha


def are_counts(values: Array) -> bool:
    """Whether all values are finite and at least 0; also False if there is a −0.

    The bits of all other floats, read as unsigned integers, are at least those of ∞.
    """
    return not values.size or bool(values.view(np.uint64).max() < _INFINITY_BITS)


def check_pseudo_counts(alpha: ArrayLike | float, columns: int) -> Array:
    """Return one pseudo-count per column; raise unless they are finite and at least 0."""
    if isinstance(alpha, float) and 0.0 <= alpha < np.inf:  # this takes a fifth of the time of the code below
        return np.full(columns, alpha)
    values = np.asarray(alpha, dtype=np.float64)
    if values.shape not in ((), (columns,)) or not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(
            f"got alpha={one_line(alpha)}, of shape {values.shape}, expected one number of at least 0, or "
            f"one for each of the {columns} columns"
        )
    return np.broadcast_to(values, (columns,))


def sum_counts(rows: Rows, labels: Labels, weights: Array | None) -> Tally:
    """Σ w (K,) and Σ w x (K, d) by label, exactly; labels whose rows have no weight are left out."""
    if not isinstance(rows, Sparse):
        return Tally.observe(rows, weights, labels)
    return Tally(
        weight=sum_weights(labels, weights), total=sum_sparse(rows, labels, weights), keys=labels.keys
    ).drop_zeros()


def sum_sparse(rows: Sparse, labels: Labels, weights: Array | None) -> Exact:
    """Σ w x by label (K, d), exactly."""
    words, low = _kernels.deposit_sparse(
        rows.indptr,
        rows.indices,
        rows.values,
        np.zeros(0) if weights is None else weights,
        labels.group,
        len(labels.keys),
        rows.columns,
    )
    return Exact(words.reshape(len(words), len(labels.keys), rows.columns), low)


def sum_weights(labels: Labels, weights: Array | None) -> Exact:
    """Σ w by label (K,), exactly."""
    if weights is None:
        return Exact.from_integers(np.bincount(labels.group, minlength=len(labels.keys)).astype(np.int64))
    return Tally.observe(np.zeros((len(labels), 0)), weights, labels).weight


def refuse_negative_counts(values: Array, table: Table, columns: Sequence[int]) -> None:
    """Raise for the first count below zero, naming its row and column if the rows are dense.

    `values` are (n, d), or the stored values (m,) of sparse rows.
    """
    index = np.argwhere(values < 0)[0].tolist()
    position = "" if len(index) == 1 else f" in row {index[0]} of {table.describe(columns[index[1]])}"
    raise ValueError(
        f"Negative values in data: got {values[tuple(index)]:g}{position}, expected counts of at least 0"
    )


def refuse_negative_sums(statistic: Tally) -> None:
    """Raise if a weight or a count is below zero, or if there is a count without a weight."""
    weight, total = statistic.weight, statistic.total  # to convert many totals to floats would take long
    is_empty = weight.value == 0
    refuse_excess_subtraction(
        bool(
            weight.negative.any()
            or total.negative.any()
            or (is_empty.any() and total.words[:, is_empty].any())
        )
    )


def score_linearly(rows: Rows, table: Array, has_zeros: bool = True) -> Array:
    """The product of rows (n, d) and tableᵀ (d, K), with 0 · −∞ = 0.

    `has_zeros` says whether the table may hold log 0 = −∞.
    """
    matrix: Any = rows.matrix() if isinstance(rows, Sparse) else rows
    if not has_zeros:
        return np.asarray(matrix @ table.T)
    impossible = np.isneginf(table)
    if not impossible.any():
        return np.asarray(matrix @ table.T)
    scores = np.asarray(matrix @ np.where(impossible, 0.0, table).T)
    impossible_counts = np.asarray((matrix != 0).astype(np.float64) @ impossible.T.astype(np.float64))
    return np.where(impossible_counts > 0, -np.inf, scores)


def multiply_columns(rows: Rows, factors: Array) -> Any:
    """Multiply each column by its factor (d,), with 0 · ∞ = 0; the result is sparse if the rows are."""
    if isinstance(rows, Sparse):
        sparse = rows.matrix()
        sparse.data = _multiply_nonzero(rows.values, factors[rows.indices])
        return sparse
    return _multiply_nonzero(rows, np.broadcast_to(factors, rows.shape))


def _multiply_nonzero(x: Array, factors: Array) -> Array:
    return np.asarray(np.multiply(x, factors, out=np.zeros(x.shape), where=x != 0))


def sum_by_responsibilities(rows: Rows, responsibilities: Array) -> Array:
    """Σ r x of each class (K, d): responsibilitiesᵀ (K, n) · rows (n, d)."""
    if isinstance(rows, Sparse):
        return np.ascontiguousarray((rows.matrix().T @ responsibilities).T)
    return np.asarray(responsibilities.T @ rows)
