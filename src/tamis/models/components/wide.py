"""rows of many columns → components without the d × d statistic: by products of rows, or of random vectors.

What is cheaper here is paid for: no statistic is kept, so nothing can be added or taken away later.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.linalg import eigen, orthonormal, singular
from tamis.models.components.choice import held_out_counts
from tamis.models.components.model import Components, Count, checked_freedom, chosen, signed, whole
from tamis.stats import Moments
from tamis.tables import Table, runs

Indices = NDArray[np.int64]
_CELLS = 1 << 22  # dense at a time: 32 MB
_MORE = 10  # directions beyond those asked for, as Halko, Martinsson and Tropp advise
_POWERS = 4  # that bring the bound within a third of what it bounds
_PROBES = 10  # random vectors that look for what is left: they miss it once in 10¹⁰


@dataclass(frozen=True, slots=True, eq=False)
class Centred:
    """√w (x − mean) of rows that are dense or sparse, as an operator; only a block is dense at a time."""

    table: Table
    mean: Array  # (d,)
    roots: Array | None  # (n,): √w
    weight: float

    @classmethod
    def of(cls, table: Table, weights: Array | None = None) -> "Centred":
        """The mean is rounded once, from exact sums; numbers that are not finite are refused."""
        total = None
        for rows, x in table.blocks(_CELLS):
            own = None if weights is None else weights[rows]
            part = Moments.observe(x, own, form="none")
            total = part if total is None else total + part
        assert total is not None
        weight = float(total.weight.value[0])
        return cls(table, total.mean, None if weights is None else np.sqrt(weights), weight)

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.rows, self.table.width

    def gram(self) -> tuple[Array, float]:
        """A Aᵀ (n, n), by blocks of columns; and its trace."""
        n, d = self.shape
        found = np.zeros((n, n))
        for columns in runs(d, n, _CELLS):
            block = self._columns(columns)
            found += block @ block.T
        return found, float(np.trace(found))

    def times(self, right: Array) -> Array:
        """A R (n, k)."""
        shift = self.mean @ right
        if self.table.sparse is not None:  # what is sparse has a mean near zero: nothing cancels
            found = np.asarray(self.table.sparse.matrix() @ right - shift)
        else:
            found = np.empty((self.table.rows, right.shape[1]))
            for rows in runs(*self.shape, _CELLS):
                found[rows] = (self.table.numbers()[rows] - self.mean) @ right
        return found if self.roots is None else found * self.roots[:, None]

    def transposed_times(self, left: Array) -> Array:
        """Aᵀ L (d, k)."""
        own = left if self.roots is None else left * self.roots[:, None]
        if self.table.sparse is not None:
            return np.asarray(self.table.sparse.matrix().T @ own - self.mean[:, None] * own.sum(axis=0))
        found = np.zeros((self.shape[1], left.shape[1]))
        for rows in runs(*self.shape, _CELLS):
            found += (self.table.numbers()[rows] - self.mean).T @ own[rows]
        return found

    def squares(self) -> float:
        """‖A‖² of Frobenius."""
        found = 0.0
        for rows in runs(*self.shape, _CELLS):
            block = self.table.numbers()[rows] if self.table.sparse is None else self.table.sparse.dense(rows)
            about = block - self.mean
            each = np.einsum("ij,ij->i", about, about)
            found += float(each.sum() if self.roots is None else np.square(self.roots[rows]) @ each)
        return found

    def _columns(self, columns: slice) -> Array:
        if self.table.sparse is not None:
            block: Any = self.table.sparse.matrix()[:, columns].toarray()
        else:
            block = self.table.numbers()[:, columns]
        about = block - self.mean[columns]
        return np.asarray(about if self.roots is None else about * self.roots[:, None])


def from_rows(
    table: Table, count: Count = None, weights: Array | None = None, fold: Indices | None = None
) -> Components:
    """By the n × n products of rows with each other: for fewer rows than columns.

    The products find the space, and a decomposition within it the directions, so that those of little
    variance are as good as those of a singular value decomposition. `fold` is that of each row (n,), for
    "held-out".
    """
    if count == "mle":
        raise ValueError(
            "got n_components='mle' with solver='rows', expected solver='moments': Minka's evidence asks for "
            "more rows than columns"
        )
    centred = Centred.of(table, weights)
    n, d = centred.shape
    freedom = checked_freedom(centred.weight)
    gram, total = centred.gram()
    values, vectors = eigen(gram)
    order = np.argsort(values)[::-1][: min(n, d)]
    variances = np.maximum(values[order], 0.0) / freedom
    rank = int((variances > 1e-13 * variances.max(initial=0.0)).sum())
    tried = None
    if count == "held-out" and fold is not None:
        span = singular(centred.transposed_times(vectors[:, order[: max(rank, 1)]]).T)[1]
        codes = replace(centred, roots=None).times(span.T)
        sums = Moments.observe(codes, weights, fold, form="full")
        tried = held_out_counts([sums.at(key) for key in sums.keys or ()], d)
    wanted = count if tried is None else tried.best
    by_share = isinstance(wanted, float) and whole(wanted) is None
    k, _ = chosen(wanted, variances, centred.weight, rank, d)
    if by_share:
        k, _ = chosen(None, variances, centred.weight, rank, d)
    kept = centred.transposed_times(vectors[:, order[:k]]).T
    roots, directions = singular(kept)
    if by_share:  # of the variances that all components are reported with, so that a share is met to the bit
        every = _of(centred, roots, directions, total, freedom)
        k, _ = chosen(wanted, every.variances, centred.weight, rank, d, every.total)
    found = _of(centred, roots[:k], directions[:k], total, freedom)
    return found if tried is None else replace(found, scores=tried.log_densities)


def randomized(
    table: Table,
    count: Count,
    weights: Array | None,
    rng: np.random.Generator,
    sweeps: int = 7,
) -> Components:
    """By the range of products with random vectors, made sharper by `sweeps` there and back.

    (Halko, Martinsson and Tropp 2011.)

    `error` bounds the largest singular value s of what the directions leave of the centred rows B, with
    probability 1 − 10⁻¹⁰: s⁹ is at most 10 √(2/π) times the longest of ten vectors (BᵀB)⁴Bᵀω, for ω random
    and normal (their lemma 4.1). The best that any K directions could leave is the singular value K + 1.
    """
    k = whole(count)
    if k is None:
        raise ValueError(
            f"got n_components={count!r} with solver='randomized', expected a whole number: or choose "
            "solver='moments'"
        )
    centred = Centred.of(table, weights)
    n, d = centred.shape
    freedom = checked_freedom(centred.weight)
    chosen(k, np.zeros(min(n, d)), centred.weight, min(n, d), d)
    width = min(k + _MORE, n, d)
    space = orthonormal(centred.times(rng.normal(size=(d, width))))
    for _ in range(sweeps):
        space = orthonormal(centred.times(orthonormal(centred.transposed_times(space))))
    # the last decomposition is of the codes, so that the variances are theirs, however rough the space is
    across = orthonormal(centred.transposed_times(space))
    roots, turns = singular(centred.times(across))
    found = _of(centred, roots[:k], turns[:k] @ across.T, centred.squares(), freedom)
    return replace(found, error=_largest_left(centred, found.directions, rng))


def _largest_left(centred: Centred, directions: Array, rng: np.random.Generator) -> float:
    """A bound on the spectral norm of A (1 − VVᵀ), by powers of it that drown what is not the largest."""
    left, log_norm = rng.normal(size=(centred.shape[0], _PROBES)), 0.0
    for power in range(_POWERS + 1):
        if power:
            left = centred.times(left)
        left = centred.transposed_times(left)
        left -= directions.T @ (directions @ left)
        longest = float(np.sqrt(np.square(left).sum(axis=0).max()))
        if longest == 0.0:
            return 0.0
        left /= longest
        log_norm += float(np.log(longest))
    log_norm += float(np.log(10.0 * np.sqrt(2.0 / np.pi)))
    return float(np.exp(log_norm / (2 * _POWERS + 1)))


def _of(centred: Centred, roots: Array, directions: Array, total: float, freedom: float) -> Components:
    d, k = centred.shape[1], len(roots)
    squares = np.where(roots > 1e-13 * roots.max(initial=0.0), np.square(roots), 0.0)
    left = max(total - float(squares.sum()), 0.0)
    left = 0.0 if left <= 1e-13 * total else left  # rounding
    return Components(
        centred.mean,
        signed(directions),
        squares / freedom,
        left / freedom / (d - k) if k < d else 0.0,
        total / freedom,
        centred.weight,
        freedom,
    )
