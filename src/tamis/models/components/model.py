"""Rows → full Moments → the directions of largest variance (PCA), and the Gaussian of probabilistic PCA.

The Gaussian has the variance λ along each selected direction, and along all others the mean of their
variances. The coordinates of a row along the directions are called its code; scikit-learn's `PCA.transform`
returns them. Moments are sums of columns and of their products.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import threads
from tamis.arrays import Array, Matrix
from tamis.linalg import complete_basis, find_leading, spectrum
from tamis.models.components.choice import score_by_evidence, score_held_out
from tamis.protocols import Model
from tamis.stats import Moments
from tamis.tables import Table, runs

Indices = NDArray[np.int64]
Count = int | float | str | None  # what `PrincipalComponents.count` may be
FOLDS = 5  # the folds of the cross-validation that chooses the count "held-out"
_LOG_2PI = float(np.log(2.0 * np.pi))
# Up to this ratio of squared mean to total variance, the mean can be subtracted after the product: only two
# bits are lost.
_MAX_MEAN_RATIO = 16.0
_MIN_DIFFERENCE = 1e-4  # a difference of two sums below this part of them has lost too many digits
_MANY_COLUMNS = 300  # with more, a tenth of the directions, or fewer, takes half the time of all of them
_CELLS = 1 << 18  # array elements (2 MB) of the rows that are centred at a time
# Array elements (64 MB) of the sparse rows that are made dense at a time: 5,000 rows of 1,600 columns.
_DENSE_CELLS = 1 << 23
# After rows were forgotten, the squares of a column are refused as mostly rounding errors if two conditions
# hold: they are below _MIN_REMAINDER times the squares that were rounded, so that fewer than six digits are
# left; and the rounded squares are above _MAX_ROUNDED times the largest remaining squares of any column, so
# that rounding errors exceed 1e-10 of the largest variance.
_MIN_REMAINDER, _MAX_ROUNDED = 1e-10, 1e5


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """K directions of largest variance, largest first, and the mean variance of all others."""

    mean: Array  # (d,)
    directions: Array  # (K, d), orthonormal: the entry of largest size is positive
    variances: Array  # (K,)
    noise: float  # mean variance of the other d − K directions; 0 if there are none
    total: float  # the sum of all d variances
    weight: float  # of the rows
    freedom: float  # the degrees of freedom: the divisor of sums of squares
    scores: Array | None = None  # of models with 1, 2, … directions, if K was chosen by these scores
    # Of a randomized decomposition: a bound on the largest singular value of the residuals. 0 for any other.
    error: float = 0.0

    @property
    def count(self) -> int:
        """The number of directions."""
        return len(self.variances)

    @property
    def ratios(self) -> Array:
        """Each variance divided by the total (K,): `explained_variance_ratio_`; 0 if nothing varies."""
        return self.variances / self.total if self.total > 0 else np.zeros(self.count)

    @property
    def scale(self) -> Array:
        """Standard deviations (K,), for whitening; 1 where the variance is 0 up to rounding."""
        negligible = 1e-13 * float(self.variances.max(initial=0.0))
        return np.where(self.variances > negligible, np.sqrt(self.variances), 1.0)

    def codes(self, x: Array) -> Array:
        """The coordinates of rows (n, d) along the directions, about the mean (n, K)."""
        if float(self.mean @ self.mean) <= _MAX_MEAN_RATIO * self.total:
            return np.asarray(x @ self.directions.T - self.directions @ self.mean)
        codes = np.empty((len(x), self.count))
        for rows in runs(len(x), len(self.mean), _CELLS):
            np.matmul(x[rows] - self.mean, self.directions.T, out=codes[rows])
        return codes

    def reconstruct(self, codes: Array) -> Array:
        """Reconstruct rows (n, d) from their codes (n, K)."""
        return np.asarray(codes @ self.directions + self.mean)

    def residuals(self, x: Array) -> Array:
        """Rows (n, d) minus their reconstructions."""
        centred = x - self.mean
        return np.asarray(centred - (centred @ self.directions.T) @ self.directions)

    def log_densities(self, x: Array) -> Array:
        """log p(x) of rows (n, d) under the Gaussian (n,)."""
        self.refuse_degenerate()
        return self.log_densities_from_squares(*self.compute_squares(x))

    def log_densities_from_squares(self, squared_codes: Array, squared_errors: Array) -> Array:
        """log p(x) of rows (n,), from the two arrays that `compute_squares` returns."""
        distances = squared_codes @ (1.0 / self.variances)
        if self.count < len(self.mean):
            distances += squared_errors / self.noise
        return np.asarray(-0.5 * (distances + self._log_scale()))

    def compute_squares(self, x: Array) -> tuple[Array, Array]:
        """The squared codes (n, K) of rows (n, d), and their squared errors ‖x − reconstruction‖² (n,)."""
        squared_codes, squared_errors = np.empty((len(x), self.count)), np.empty(len(x))
        for rows in runs(len(x), len(self.mean), _CELLS):
            residuals = x[rows] - self.mean
            codes = residuals @ self.directions.T
            residuals -= codes @ self.directions
            squared_errors[rows] = np.einsum("ij,ij->i", residuals, residuals)
            np.square(codes, out=squared_codes[rows])
        return squared_codes, squared_errors

    def log_likelihood(self, statistic: Moments) -> float:
        """Σ w log p(x) of the rows that were summed in a statistic, from its sums alone."""
        self.refuse_degenerate()
        weight = float(statistic.weight.value)
        shift = statistic.mean - self.mean
        scatter = statistic.scatter + weight * shift[:, None] * shift
        squared_codes = np.einsum("kd,kd->k", self.directions @ scatter, self.directions)
        distances = float(squared_codes @ (1.0 / self.variances))
        if self.count < len(self.mean):
            total = float(np.trace(scatter))
            squared_errors = total - float(squared_codes.sum())
            if squared_errors < _MIN_DIFFERENCE * total:  # the difference is mostly rounding errors
                values, vectors = spectrum(scatter)
                residuals = vectors - self.directions.T @ (self.directions @ vectors)
                squared_errors = float(np.square(residuals).sum(axis=0) @ values)
            distances += squared_errors / self.noise
        return -0.5 * (weight * self._log_scale() + distances)

    def covariance(self) -> Array:
        """The covariance of the Gaussian (d, d)."""
        covariance = self._compose(np.maximum(self.variances - self.noise, 0.0), self.noise)
        return 0.5 * (covariance + covariance.T)

    def precision(self) -> Array:
        """The inverse of the covariance (d, d)."""
        self.refuse_degenerate()
        rest = 1.0 / self.noise if self.count < len(self.mean) else 0.0
        return self._compose(1.0 / self.variances - rest, rest)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw rows (n, d) from the Gaussian."""
        scale = np.sqrt(np.maximum(self.variances - self.noise, 0.0))
        rows = self.reconstruct(rng.normal(size=(n, self.count)) * scale)
        return np.asarray(rows + np.sqrt(self.noise) * rng.normal(size=rows.shape))

    @property
    def is_degenerate(self) -> bool:
        """Whether the Gaussian has no variance in some direction, and so no density."""
        return not (self.variances > 0).all() or (self.count < len(self.mean) and not self.noise > 0)

    def refuse_degenerate(self) -> None:
        """Raise if the Gaussian has no density."""
        d = len(self.mean)
        if self.is_degenerate:
            rank = int((self.variances > 0).sum())
            fewer = f"choose fewer than {rank} components, or " if rank > 1 else ""
            raise ValueError(
                f"the rows vary in {rank} directions of {d}, and so have no density with n_components="
                f"{self.count}, expected some variance left over: {fewer}drop columns that repeat others or "
                "do not vary"
            )

    def _log_scale(self) -> float:
        """log |2π covariance|: the term of −2 log p that all rows share."""
        d = len(self.mean)
        rest = (d - self.count) * float(np.log(self.noise)) if self.count < d else 0.0
        return d * _LOG_2PI + float(np.log(self.variances).sum()) + rest

    def _compose(self, eigenvalues: Array, diagonal: float) -> Array:
        """The matrix directionsᵀ diag(eigenvalues) directions + diagonal · identity (d, d)."""
        matrix = (self.directions.T * eigenvalues) @ self.directions
        matrix[np.diag_indices(len(matrix))] += diagonal
        return np.asarray(matrix)


@dataclass(frozen=True, slots=True)
class PrincipalComponents:
    """Principal components with their pair `observe` and `infer`.

    `count` is the number of directions: a whole number, None (all), a fraction of the variance that they
    explain, "mle" (by Minka's evidence), or "held-out" (the number with the largest density of held-out
    folds, which needs a statistic by fold).
    """

    count: Count = None
    exact: bool = False  # whether products are summed without rounding

    def observe(
        self,
        data: object,
        given: Components | None = None,
        weights: Array | None = None,
        fold: Indices | None = None,
    ) -> Moments:
        """Sum the rows and their products, by fold if `fold` (n,) is given; `given` is ignored."""
        return observe_table(Table.of(data), self.exact, weights, fold)

    def infer(self, statistic: Moments) -> Components:
        """Infer the components; sums of squares are divided by the weight − 1, as for a sample's variance.

        A statistic by fold is summed over folds, unless `count` is "held-out".
        """
        if self.count != "held-out":
            return decompose(statistic if statistic.keys is None else statistic.pooled(), self.count)
        if statistic.keys is None:
            raise ValueError(
                "got n_components='held-out' for rows that were learned without folds, expected it when they "
                "are learned: set it and fit again, or give a whole number"
            )
        return self.infer_parts([statistic.at(key) for key in statistic.keys])

    def infer_parts(self, parts: Sequence[Moments]) -> Components:
        """Infer from the moments of each fold; with "held-out", each fold is held out in turn."""
        total = sum(parts[1:], start=parts[0])
        if self.count != "held-out":
            return decompose(total, self.count)
        scores = score_held_out(parts)
        return replace(decompose(total, scores.best), scores=scores.log_densities)


# The type checker verifies by this assignment that PrincipalComponents has the methods of Model.
_: type[Model[object, Moments, Components]] = PrincipalComponents


def observe_table(
    table: Table,
    exact: bool = False,
    weights: Array | None = None,
    fold: Indices | None = None,
    rows: Indices | slice = slice(None),
    cells: int | None = None,
) -> Moments:
    """Sum the moments of some rows, by fold if `fold` (n,) is given.

    Sparse rows are made dense in blocks of at most `cells` array elements.
    """
    total: Moments | None = None
    if weights is None and fold is None and not exact and isinstance(rows, slice) and rows == slice(None):
        # Columns that are separate arrays, as in a data frame, are summed without a copy to a matrix. Either
        # step returns None where that is not possible.
        columns = table.list_separate_columns()
        total = None if columns is None else Moments.observe_unweighted(columns)
        if total is not None:
            return total
    for block, x in table.dense_runs(_DENSE_CELLS if cells is None else cells, rows):
        block_weights = None if weights is None else weights[block]
        block_fold = None if fold is None else fold[block]
        part = Moments.observe(Matrix(x, table.names), block_weights, block_fold, form="full", exact=exact)
        total = part if total is None else total + part
    assert total is not None
    return total


def dense_blocks(table: Table) -> Iterator[Array]:
    """Yield dense rows: all at once, or block by block if the table is sparse."""
    return (x for _, x in table.dense_runs(_DENSE_CELLS))


def fold_by_content(table: Table) -> Indices:
    """Assign each row to a fold (n,) by a hash of its values.

    So a row that is forgotten is in the fold in which it was learned, and equal rows are held out together.
    The hash is the sum of the bits of the numbers, each times an odd number of its column, mixed by a
    function of the generator of random numbers splitmix64.
    """
    return np.concatenate([_hash_rows(Matrix(x).values) for x in dense_blocks(table)])


def _hash_rows(x: Array) -> Indices:
    odd = _mix(np.arange(1, x.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    sums = np.empty(len(x), dtype=np.uint64)
    for rows in runs(len(x), x.shape[1], 1 << 16):
        bits = (x[rows] + 0.0).view(np.uint64)  # the sum turns −0 into 0, which is equal to it
        sums[rows] = (bits ^ (bits >> np.uint64(32))) @ odd
    return (_mix(sums) % np.uint64(FOLDS)).astype(np.int64)


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The mixing function of splitmix64."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def refuse_lost_precision(after: Moments, table: Table) -> None:
    """Raise if forgotten rows were never learned, or if rounding errors exceed what remains.

    `after` is the statistic without the rows of the table.
    """
    after.refuse_impossible()
    if after.rounded is None or not float(after.weight.value.sum()) > 0:
        return
    pooled = after if after.keys is None else after.pooled()
    rest, rounded = pooled.spread, np.asarray(pooled.rounded)  # the spread is Σ(x − mean)² of each column
    is_lost = (rest < _MIN_REMAINDER * rounded) & (rounded > _MAX_ROUNDED * rest.max())
    if is_lost.any():
        raise ValueError(
            f"too little is left of {table.describe(int(is_lost.argmax()))} after rounding, expected at "
            "least 1e-10 of the squares learned: fit with exact=True; nothing was changed"
        )


def decompose(
    statistic: Moments, count: Count = None, freedom: float | None = None, floor: float = 0.0
) -> Components:
    """Decompose the scatter matrix of rows, divided by `freedom`, into components.

    `freedom` is the weight − 1 by default. No variance is below `floor`. Variances below 1e-13 of the largest
    count as rounding errors and become 0, unless they are so small because of their columns' units (see
    `linalg.spectrum`).
    """
    weight, d = float(statistic.weight.value), statistic.first.shape[-1]
    freedom = check_freedom(weight) if freedom is None else freedom
    refuse_few_rows(count, weight, d)
    scatter, number = statistic.scatter, to_integer(count) or 0
    with threads.limit_blas(d):
        needs_few = d > _MANY_COLUMNS and 1 <= number <= min(d // 10, weight)
        leading = find_leading(scatter, number) if needs_few else None
        values, vectors = spectrum(scatter) if leading is None else leading
    order = np.argsort(values)[::-1]
    rest = 0.0 if leading is None else (float(np.trace(scatter)) - float(values.sum())) / (d - number)
    variances = np.full(d, rest / freedom)  # those that were not computed have the mean of these
    variances[: len(order)] = values[order] / freedom
    total = max(float(np.trace(scatter)) / freedom, 0.0)
    k, scores = choose_count(count, variances, weight, len(order), total=total)
    directions = vectors[:, order[:k]]
    if directions.shape[1] < k:  # directions without variance are arbitrary
        others = complete_basis(directions) if directions.shape[1] else np.eye(d)
        directions = np.concatenate([directions, others[:, : k - directions.shape[1]]], axis=1)
    return Components(
        statistic.mean,
        fix_signs(directions.T),
        np.maximum(variances[:k], floor),
        max(float(variances[k:].mean()), floor) if k < d else 0.0,
        total,
        weight,
        freedom,
        scores,
    )


def check_freedom(weight: float) -> float:
    """Return the degrees of freedom, which are the weight minus one; raise unless they are above 0."""
    if not weight > 1.0:
        raise ValueError(
            f"got n_samples={weight:g} in weight, expected above 1: one sample has no variance, learn more"
        )
    return weight - 1.0


def refuse_few_rows(count: Count, weight: float, columns: int) -> None:
    """Raise if `count` is "mle" and there are fewer rows than columns: the evidence is undefined then."""
    if isinstance(count, str) and count == "mle" and weight < columns:
        raise ValueError(
            f"got n_components='mle' for {weight:g} rows of {columns} columns, expected at least as many "
            "rows as columns: give a whole number"
        )


def fix_signs(directions: Array) -> Array:
    """Choose the signs of directions (K, d) as scikit-learn does: the entry of largest size is positive."""
    largest = np.abs(directions).argmax(axis=1)
    signs = np.where(directions[np.arange(len(directions)), largest] < 0, -1.0, 1.0)
    return np.ascontiguousarray(directions * signs[:, None])


def choose_count(
    count: Count,
    variances: Array,
    weight: float,
    rank: int,
    columns: int | None = None,
    total: float | None = None,
) -> tuple[int, Array | None]:
    """The number of directions that `count` selects, and the scores of all numbers if it is chosen by scores.

    `variances` (r,) are those of all directions, largest first. `columns` is the number of columns if it is
    not r, and `total` the total variance if it is not their sum. Ratios are summed as in
    `explained_variance_ratio_`, so that a fraction computed from these selects the same number again.
    """
    d = len(variances)
    largest = min(d, max(int(np.ceil(weight)), rank))
    given: Any = count  # a caller may give something else than `Count`
    if given is None:
        return largest, None
    if isinstance(given, str) and given == "mle":
        scores = score_by_evidence(variances, weight)
        return (int(np.argmax(scores)) + 1 if len(scores) else 1), scores
    if (number := to_integer(given)) is not None:
        if not 1 <= number <= largest:
            rows = f"{weight:g} rows of {d if columns is None else columns} columns"
            remedy = "give fewer" if number > largest else "give at least 1, or None for all"
            raise ValueError(f"got n_components={number} for {rows}, expected 1 to {largest}: {remedy}")
        return number, None
    if isinstance(given, Real) and 0.0 < float(given) < 1.0:
        total = float(variances.sum()) if total is None else total
        if not total > 0:
            return 1, None
        ratios = np.cumsum(variances / total)
        return min(int(np.searchsorted(ratios, float(given), side="right")) + 1, largest), None
    raise ValueError(
        f"got n_components={given!r}, expected None, a whole number from 1 to {largest}, a share of the "
        "variance between 0 and 1, 'mle' or 'held-out'"
    )


def to_integer(count: object) -> int | None:
    """The count as an int if it is a whole number, otherwise None."""
    return int(count) if isinstance(count, int | np.integer) and not isinstance(count, bool) else None
