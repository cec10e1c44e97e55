"""Rows of many columns → components without d × d sums: from products of rows, or with random vectors.

These solvers store no sums over rows, so that rows cannot be added or removed later.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.linalg import eigen, orthonormalize, singular
from tamis.models.components.choice import score_held_out
from tamis.models.components.model import (
    Components,
    Count,
    Indices,
    check_freedom,
    choose_count,
    fix_signs,
    to_integer,
)
from tamis.stats import Moments
from tamis.tables import Table, runs

SOLVERS = ("auto", "moments", "rows", "randomized")
_FEW_COLUMNS = 2000  # up to this number, the d × d sums of products take little memory
_MAX_COLUMNS = 20_000  # the d × d sums of products of more columns take several gigabytes
_CELLS = 1 << 22  # array elements (32 MB) of sparse rows that are made dense at a time
_OVERSAMPLING = 10  # directions in addition to those requested, as Halko, Martinsson and Tropp advise
# Power iterations of the bound on the error, which with these exceeds the true value by at most a third.
_BOUND_ITERATIONS = 4
_BOUND_VECTORS = 10  # random vectors of the bound, which is wrong with probability 10⁻¹⁰


@dataclass(frozen=True, slots=True, eq=False)
class CentredRows:
    """Products with the matrix A of rows √w (x − mean), which is never stored as a whole."""

    table: Table
    mean: Array  # (d,)
    root_weights: Array | None  # (n,): √w; None if all weights are 1
    weight: float  # the sum of the weights

    @classmethod
    def of(cls, table: Table, weights: Array | None = None) -> "CentredRows":
        """Compute the mean from exact sums, rounded once; raise if a number is not finite."""
        total = None
        for rows, x in table.dense_runs(_CELLS):
            part = Moments.observe(x, None if weights is None else weights[rows], form="none")
            total = part if total is None else total + part
        assert total is not None
        weight = float(total.weight.value[0])
        return cls(table, total.mean, None if weights is None else np.sqrt(weights), weight)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.table.rows, self.table.width

    def compute_gram(self) -> tuple[Array, float]:
        """A Aᵀ (n, n), computed by blocks of columns, and its trace."""
        n, d = self.shape
        gram = np.zeros((n, n))
        for columns in runs(d, n, _CELLS):
            block = self._centre_columns(columns)
            gram += block @ block.T
        return gram, float(np.trace(gram))

    def multiply(self, right: Array) -> Array:
        """The product A · right (n, k), for `right` (d, k)."""
        shift = self.mean @ right
        if self.table.sparse is not None:  # sparse columns have a mean near zero, so that no digits cancel
            product = np.asarray(self.table.sparse.matrix() @ right - shift)
        else:
            product = np.empty((self.table.rows, right.shape[1]))
            for rows in runs(*self.shape, _CELLS):
                product[rows] = (self.table.numbers()[rows] - self.mean) @ right
        return product if self.root_weights is None else product * self.root_weights[:, None]

    def multiply_transposed(self, left: Array) -> Array:
        """The product Aᵀ · left (d, k), for `left` (n, k)."""
        scaled = left if self.root_weights is None else left * self.root_weights[:, None]
        if self.table.sparse is not None:
            return np.asarray(self.table.sparse.matrix().T @ scaled - self.mean[:, None] * scaled.sum(axis=0))
        product = np.zeros((self.shape[1], left.shape[1]))
        for rows in runs(*self.shape, _CELLS):
            product += (self.table.numbers()[rows] - self.mean).T @ scaled[rows]
        return product

    def sum_squares(self) -> float:
        """The squared Frobenius norm ‖A‖²."""
        total = 0.0
        for rows in runs(*self.shape, _CELLS):
            block = self.table.numbers()[rows] if self.table.sparse is None else self.table.sparse.dense(rows)
            centred = block - self.mean
            squares = np.einsum("ij,ij->i", centred, centred)
            total += float(
                squares.sum() if self.root_weights is None else np.square(self.root_weights[rows]) @ squares
            )
        return total

    def _centre_columns(self, columns: slice) -> Array:
        if self.table.sparse is not None:
            block: Any = self.table.sparse.matrix()[:, columns].toarray()
        else:
            block = self.table.numbers()[:, columns]
        centred = block - self.mean[columns]
        return np.asarray(centred if self.root_weights is None else centred * self.root_weights[:, None])


def choose_solver(name: str, rows: int, columns: int, count: Any) -> str:
    """Return the solver; "auto" is replaced by a choice by the numbers of rows, columns and components.

    "moments" sums d × d products, to which later rows can be added; the others need all rows at once.
    """
    refuse_unknown_solver(name)
    number = to_integer(count)
    if name != "auto":
        solver = name
    elif columns <= _FEW_COLUMNS or count == "mle":
        solver = "moments"
    elif min(rows, columns) > _FEW_COLUMNS and number is not None and number <= min(rows, columns) // 10:
        solver = "randomized"
    else:
        solver = "rows" if rows < columns else "moments"
    if solver == "moments" and columns > _MAX_COLUMNS:
        raise ValueError(
            f"got {columns} columns, whose products do not fit into memory, expected at most "
            f"{_MAX_COLUMNS}: use solver='rows' or 'randomized', and fit all rows at once"
        )
    return solver


def refuse_unknown_solver(name: object) -> None:
    """Raise if there is no such solver."""
    if name not in SOLVERS:
        raise ValueError(f"got solver={name!r}, expected one of {', '.join(SOLVERS)}")


def decompose_rows(
    table: Table, count: Count = None, weights: Array | None = None, fold: Indices | None = None
) -> Components:
    """The components, from the n × n products of rows with each other: for fewer rows than columns.

    The products determine the space that the directions span; a singular value decomposition within it
    determines the directions, so that those of little variance are accurate, too. `fold` (n,) is the fold of
    each row, for the count "held-out".
    """
    if count == "mle":
        raise ValueError(
            "got n_components='mle' with solver='rows', expected solver='moments': Minka's evidence needs "
            "at least as many rows as columns"
        )
    centred = CentredRows.of(table, weights)
    n, d = centred.shape
    freedom = check_freedom(centred.weight)
    gram, total = centred.compute_gram()
    values, vectors = eigen(gram)
    order = np.argsort(values)[::-1][: min(n, d)]
    variances = np.maximum(values[order], 0.0) / freedom
    rank = int((variances > 1e-13 * variances.max(initial=0.0)).sum())
    scores = None
    if count == "held-out" and fold is not None:
        _, span = singular(centred.multiply_transposed(vectors[:, order[: max(rank, 1)]]).T)
        codes = replace(centred, root_weights=None).multiply(span.T)
        sums = Moments.observe(codes, weights, fold, form="full")
        scores = score_held_out([sums.at(key) for key in sums.keys or ()], d)
    count = count if scores is None else scores.best
    k, _ = choose_count(count, variances, centred.weight, rank, d)  # raises if the count is invalid
    is_fraction = isinstance(count, float)
    if is_fraction:  # compute all directions first
        k, _ = choose_count(None, variances, centred.weight, rank, d)
    singular_values, directions = singular(centred.multiply_transposed(vectors[:, order[:k]]).T)
    if is_fraction:
        # The number is chosen by the variances that are reported, so that their ratios select the same one.
        all_components = _make_components(centred, singular_values, directions, total, freedom)
        k, _ = choose_count(count, all_components.variances, centred.weight, rank, d, all_components.total)
    components = _make_components(centred, singular_values[:k], directions[:k], total, freedom)
    return components if scores is None else replace(components, scores=scores.log_densities)


def decompose_randomized(
    table: Table,
    count: Count,
    weights: Array | None,
    rng: np.random.Generator,
    iterations: int = 7,
) -> Components:
    """The components, by a randomized singular value decomposition (Halko, Martinsson and Tropp 2011).

    It starts from the range of products with random vectors, refined by power iterations. The result's
    `error` bounds the largest singular value s of the residuals B of the centred rows with probability 1 −
    10⁻¹⁰: s⁹ is at most 10 √(2/π) times the longest of ten vectors (BᵀB)⁴Bᵀω, for ω random and normal (lemma
    4.1 of that paper). No K directions make s smaller than the (K + 1)-th singular value of the centred rows.
    """
    k = to_integer(count)
    if k is None:
        raise ValueError(
            f"got n_components={count!r} with solver='randomized', expected a whole number: or choose "
            "solver='moments'"
        )
    centred = CentredRows.of(table, weights)
    n, d = centred.shape
    freedom = check_freedom(centred.weight)
    choose_count(k, np.zeros(min(n, d)), centred.weight, min(n, d), d)
    width = min(k + _OVERSAMPLING, n, d)
    space = orthonormalize(centred.multiply(rng.normal(size=(d, width))))
    for _ in range(iterations):
        space = orthonormalize(centred.multiply(orthonormalize(centred.multiply_transposed(space))))
    # The last decomposition is of the rows' coordinates, so the variances are exact even in a rough subspace.
    span = orthonormalize(centred.multiply_transposed(space))
    singular_values, rotation = singular(centred.multiply(span))
    directions = rotation[:k] @ span.T
    components = _make_components(centred, singular_values[:k], directions, centred.sum_squares(), freedom)
    return replace(components, error=_bound_residual(centred, components.directions, rng))


def _bound_residual(centred: CentredRows, directions: Array, rng: np.random.Generator) -> float:
    """Bound the largest singular value of the residuals, as `decompose_randomized` says."""
    vectors, log_norm = rng.normal(size=(centred.shape[0], _BOUND_VECTORS)), 0.0
    for power in range(_BOUND_ITERATIONS + 1):
        if power:
            vectors = centred.multiply(vectors)
        vectors = centred.multiply_transposed(vectors)
        vectors -= directions.T @ (directions @ vectors)
        longest = float(np.sqrt(np.square(vectors).sum(axis=0).max()))
        if longest == 0.0:
            return 0.0
        vectors /= longest
        log_norm += float(np.log(longest))
    log_norm += float(np.log(10.0 * np.sqrt(2.0 / np.pi)))
    return float(np.exp(log_norm / (2 * _BOUND_ITERATIONS + 1)))


def _make_components(
    centred: CentredRows, singular_values: Array, directions: Array, total: float, freedom: float
) -> Components:
    """Make the components of centred rows with these singular values; `total` is their sum of squares."""
    d, k = centred.shape[1], len(singular_values)
    squares = np.where(
        singular_values > 1e-13 * singular_values.max(initial=0.0), np.square(singular_values), 0.0
    )
    rest = max(total - float(squares.sum()), 0.0)
    rest = 0.0 if rest <= 1e-13 * total else rest  # smaller values are rounding errors
    return Components(
        centred.mean,
        fix_signs(directions),
        squares / freedom,
        rest / freedom / (d - k) if k < d else 0.0,
        total / freedom,
        centred.weight,
        freedom,
    )
