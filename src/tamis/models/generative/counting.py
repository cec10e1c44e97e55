"""What blocks that count have in common: exact sums of sparse rows, and what no counts can be."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tamis import _kernels
from tamis.arrays import Array, one_line
from tamis.models.generative.linear_scores import Rows
from tamis.stats import Exact, Labels, Tally, refuse_too_much
from tamis.tables import Sparse, Table

_INFINITE = np.array(np.inf).view(np.uint64)
LARGEST = 2.0**52  # a count above has no fraction left to be exact about


class NoEvidenceError(ValueError, AttributeError):
    """The parameters cannot be integrated out; `hasattr` takes it for an attribute that is not there."""


def are_counts(values: Array) -> bool:
    """Whether all are finite and at least 0, by one look at their bits: a sign, ∞ and NaN make them large."""
    return not values.size or bool(values.view(np.uint64).max() < _INFINITE)


def pseudo_counts(alpha: ArrayLike, columns: int) -> Array:
    """One for each column, finite and at least 0."""
    given = np.asarray(alpha, dtype=np.float64)
    if given.shape not in ((), (columns,)) or not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError(
            f"got alpha={one_line(alpha)}, of shape {given.shape}, expected one number of at least 0, or one "
            f"for each of the {columns} columns"
        )
    return np.broadcast_to(given, (columns,))


def tallied(rows: Rows, labels: Labels, weights: Array | None) -> Tally:
    """Σ w x by label, exactly: weight (K,), total (K, d)."""
    if not isinstance(rows, Sparse):
        return Tally.observe(rows, weights, labels)
    return Tally(
        weight=filed_weight(labels, weights), total=sparse_total(rows, labels, weights), keys=labels.keys
    )._pruned()


def sparse_total(rows: Sparse, labels: Labels, weights: Array | None) -> Exact:
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


def filed_weight(labels: Labels, weights: Array | None) -> Exact:
    """Σ w by label (K,), exactly."""
    return (
        Tally.observe(np.zeros((len(labels), 0)), weights, labels).weight
        if weights is not None
        else (Exact.of_integers(np.bincount(labels.group, minlength=len(labels.keys)).astype(np.int64)))
    )


def refuse_negative_counts(values: Array, table: Table, columns: Sequence[int]) -> None:
    """Raise for the first count below zero, naming its place if the rows are dense."""
    wrong = np.argwhere(values < 0)[0].tolist()
    place = "" if len(wrong) == 1 else f" in row {wrong[0]} of {table.name(columns[wrong[1]])}"
    raise ValueError(
        f"Negative values in data: got {values[tuple(wrong)]:g}{place}, expected counts of at least 0"
    )


def refuse_negative(statistic: Tally) -> None:
    """Raise if a weight or a count is below zero, or there is a count and no weight."""
    weight, total = statistic.weight, statistic.total  # as they are: the totals may be many
    nothing = weight.value == 0
    refuse_too_much(
        bool(
            weight.negative.any() or total.negative.any() or (nothing.any() and total.words[:, nothing].any())
        )
    )
