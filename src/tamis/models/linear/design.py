"""Rows → scores, and derivatives → gradients: the only products with data that a linear model needs.

A design is the matrix of features of all rows. Its rows are split into lanes, whose number does not depend on
the number of threads. The sums of a lane are added block by block, and the sums of the lanes in their order,
so that no result depends on the number of threads.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis import arrays, threads
from tamis.arrays import Array
from tamis.tables import Sparse

R = TypeVar("R")

_LANES = 8
_CELLS_PER_COLUMN = 16  # stored values per lane and column, above which sparse rows are split into all lanes
_CELLS = 1 << 17  # numbers in a dense block: 1 MB, which stays in a core's cache between two products
_MAX_ONE_LANE = 1 << 18  # up to this number of stored values, one lane is faster than several
# A column whose values all deviate from their mean by less than this part of the mean counts as constant.
_MIN_RELATIVE_DEVIATION = 1e-14
# If a mean has more standard deviations than this, means are subtracted, because products would lose digits.
_MAX_MEAN_RATIO = 100.0
_DEVIATION_ROWS = 4096  # at least so many of many rows are read for these standard deviations


@dataclass(frozen=True, slots=True, eq=False)
class Design(ABC):
    """n rows of p columns, minus a centre, with a last column of ones if there is an intercept.

    A subclass says how rows are stored. Its `blocks` may choose the sizes of blocks.
    """

    centre: Array  # (p,)
    intercept: bool

    @abstractmethod
    def __len__(self) -> int:
        """Return the number n of rows."""

    @property
    def columns(self) -> int:
        """The number p of columns."""
        return len(self.centre)

    @property
    def width(self) -> int:
        """The number of columns, including the column of ones."""
        return self.columns + self.intercept

    @property
    @abstractmethod
    def cells(self) -> int:
        """The number of stored values of all rows, by which the work of a pass is estimated."""

    @property
    def is_sparse(self) -> bool:
        """Whether zeros are not stored; then no centre is subtracted."""
        return False

    @property
    def lanes(self) -> int:
        """The number of lanes into which many rows are split."""
        return _LANES

    @abstractmethod
    def column_means(self, weights: Array | None) -> Array:
        """Return the weighted mean of each column (p,); zeros for sparse rows, which are not centred."""

    @abstractmethod
    def take(self, rows: NDArray[np.int64] | slice) -> "Design":
        """Return the design of these rows, with the same centre."""

    @abstractmethod
    def blocks(self, start: int, stop: int) -> "Iterator[RowBlock]":
        """Yield the rows from start to stop (exclusive) in blocks, in their order."""

    def map_lanes(self, work: Callable[["Iterator[RowBlock]"], R]) -> list[R]:
        """Call a function with the blocks of each lane; return the results in the order of lanes."""
        n = len(self)
        if self.cells <= _MAX_ONE_LANE:
            with threads.one_blas_thread:
                return [work(self.blocks(0, n))]
        lanes = min(self.lanes, n)  # no lane is empty
        cuts = [n * lane // lanes for lane in range(lanes + 1)]

        def run(first: int, last: int) -> list[R]:
            return [work(self.blocks(cuts[lane], cuts[lane + 1])) for lane in range(first, last)]

        with threads.one_blas_thread:
            # Lanes are divided among threads as if they were rows; with less work there would be one thread.
            chunks = threads.map_row_chunks(lanes, max(self.cells, threads.MIN_PARALLEL_WORK), run)
        return [result for chunk in chunks for result in chunk]

    def map_blocks(self, work: Callable[["RowBlock"], R]) -> list[R]:
        """Call a function with each block of rows; return the results in the order of the rows."""
        lanes = self.map_lanes(lambda blocks: [work(block) for block in blocks])
        return [result for lane in lanes for result in lane]

    def find_reach_and_extent(self) -> tuple[float, Array]:
        """Return the largest norm of a row, and the largest magnitude in each column (width,)."""
        reaches, extents = zip(*self.map_blocks(lambda block: block.find_reach_and_extent()), strict=True)
        return max(reaches), np.maximum.reduce(extents)

    def scores(self, coefficients: Array) -> Array:
        """Return the inner products of rows and coefficients: (n,), or (n, outputs) for (outputs, width)."""
        return np.concatenate(self.map_blocks(lambda block: block.scores(coefficients)))


class RowBlock(ABC):
    """Some consecutive rows of a design; dense ones are few enough for the processor's cache."""

    def __init__(self, rows: slice, values: Any, intercept: bool) -> None:
        self.rows = rows  # their indices in the design
        self.values = values  # (n, p): an array, or a sparse array of SciPy; without the column of ones
        self.intercept = intercept  # whether there is a column of ones, after the others

    def scores(self, coefficients: Array) -> Array:
        """Return inner products of the n rows with coefficients, as `Design.scores` does."""
        if not self.intercept:
            return self.multiply(coefficients.T)
        scores = self.multiply(coefficients[..., :-1].T)
        scores += coefficients[..., -1]
        return scores

    def score_variances(self, variances: Array) -> Array:
        """Return Σ_j v_j x_j² of each row (n,): its score's variance if v are the coefficients' variances."""
        inner = self.square() @ variances[: self.values.shape[1]]
        return np.asarray(inner + variances[-1] if self.intercept else inner)

    @property
    def width(self) -> int:
        """The number of columns, including the column of ones."""
        return int(self.values.shape[1]) + self.intercept

    @abstractmethod
    def multiply(self, columns: Array) -> Array:
        """Return the product of `values` and an array (p,) or (p, outputs)."""

    @abstractmethod
    def square(self) -> Any:
        """Return the squares of `values`, which stay sparse if these are."""

    @abstractmethod
    def gradient(self, derivatives: Array) -> Array:
        """Return Σ derivative · row: (width,) for derivatives (n,), and (outputs, width) for (n, outputs)."""

    @abstractmethod
    def gram(self, weights: Array) -> Array:
        """Return Σ weight · row rowᵀ (width, width), for weights of the rows (n,), which may be negative."""

    @abstractmethod
    def column_squares(self, weights: Array) -> Array:
        """Return Σ weight · x² of each column (width,): the diagonal of `gram`."""

    @abstractmethod
    def find_reach_and_extent(self) -> tuple[float, Array]:
        """Return the largest norm of a row, and the largest magnitude in each column (width,)."""

    @abstractmethod
    def dense(self, rows: slice = slice(None)) -> Array:
        """Return all rows (n, width), or some, as a dense array; it includes the column of ones."""

    def _with_ones(self, values: Array, ones: Any) -> Array:
        """Append what belongs to the column of ones, if there is one, to results of the other columns."""
        if not self.intercept:
            return values
        return np.concatenate([values, np.asarray(ones)[..., None]], axis=-1)


def is_far(mean: Array, std: Array) -> bool:
    """Return whether some column is so far from zero that its mean must be subtracted."""
    return bool((np.abs(mean) > _MAX_MEAN_RATIO * std).any())


@dataclass(frozen=True, slots=True, eq=False)
class DenseDesign(Design):
    """Dense rows, minus the means of all columns if some mean is far from zero."""

    values: Array  # (n, p)

    @classmethod
    def of(cls, values: Array, intercept: bool, centred: bool = True) -> "DenseDesign":
        """Make a design; if `centred`, and there is an intercept to compensate, means may be subtracted."""
        centre = np.zeros(values.shape[1])
        if intercept and centred and len(values):
            some_rows = values[:: max(1, len(values) // _DEVIATION_ROWS)]
            mean, std = values.mean(axis=0), some_rows.std(axis=0)
            if is_far(mean, std):
                centre = mean
                values = values - centre
                values[:, np.abs(values).max(axis=0) <= _MIN_RELATIVE_DEVIATION * np.abs(centre)] = 0.0
        return cls(centre, intercept, np.ascontiguousarray(values))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def cells(self) -> int:
        return self.values.size

    def column_means(self, weights: Array | None) -> Array:
        return np.asarray(self.centre + np.average(self.values, axis=0, weights=weights))

    def take(self, rows: NDArray[np.int64] | slice) -> "DenseDesign":
        return DenseDesign(self.centre, self.intercept, np.ascontiguousarray(self.values[rows]))

    def blocks(self, start: int, stop: int) -> Iterator[RowBlock]:
        step = max(64, _CELLS // max(1, self.columns))
        for begin in range(start, stop, step):
            rows = slice(begin, min(begin + step, stop))
            yield DenseRowBlock(rows, self.values[rows], self.intercept)


class DenseRowBlock(RowBlock):
    """Rows of a `DenseDesign`."""

    def multiply(self, columns: Array) -> Array:
        return np.asarray(self.values @ columns)

    def square(self) -> Array:
        squares: Array = np.square(self.values)
        return squares

    def gradient(self, derivatives: Array) -> Array:
        return self._with_ones(derivatives.T @ self.values, derivatives.sum(axis=0))

    def gram(self, weights: Array) -> Array:
        rows = self.dense()
        if (weights >= 0).all():  # BLAS computes YᵀY with half the work
            rows = rows * np.sqrt(weights)[:, None]
            return np.asarray(rows.T @ rows)
        return np.asarray((rows * weights[:, None]).T @ rows)

    def column_squares(self, weights: Array) -> Array:
        return self._with_ones(weights @ self.square(), weights.sum())

    def find_reach_and_extent(self) -> tuple[float, Array]:
        squared_norms = np.einsum("ij,ij->i", self.values, self.values)
        magnitudes = np.maximum(self.values.max(axis=0), -self.values.min(axis=0))
        return float(np.sqrt(squared_norms.max() + self.intercept)), self._with_ones(magnitudes, 1.0)

    def dense(self, rows: slice = slice(None)) -> Array:
        values: Array = self.values[rows]
        if not self.intercept:
            return values
        rows_with_ones = np.empty((len(values), self.width))
        rows_with_ones[:, :-1] = values
        rows_with_ones[:, -1] = 1.0
        return rows_with_ones


@dataclass(frozen=True, slots=True, eq=False)
class SparseDesign(Design):
    """Sparse rows, made dense only for a full Gram matrix."""

    values: Sparse
    cache: "dict[tuple[int, int], SparseRowBlock]" = field(default_factory=dict)  # blocks by start and stop

    @classmethod
    def of(cls, values: Sparse, intercept: bool) -> "SparseDesign":
        return cls(np.zeros(values.columns), intercept, values)

    @property
    def is_sparse(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.values)

    @property
    def cells(self) -> int:
        return len(self.values.values)

    def column_means(self, weights: Array | None) -> Array:
        return np.zeros(self.columns)

    def take(self, rows: NDArray[np.int64] | slice) -> "SparseDesign":
        return SparseDesign(self.centre, self.intercept, self.values.take(rows))

    @property
    def lanes(self) -> int:
        """The number of lanes: only 2 if the gradient that each lane computes is large beside its rows."""
        return _LANES if self.cells > _CELLS_PER_COLUMN * _LANES * self.columns else 2

    def blocks(self, start: int, stop: int) -> Iterator[RowBlock]:
        block = self.cache.get((start, stop))
        if block is None:
            block = self.cache[start, stop] = self._make_block(start, stop)
        yield block

    def _make_block(self, start: int, stop: int) -> "SparseRowBlock":
        sparse = self.values
        indptr = sparse.indptr[start : stop + 1]
        entries = slice(int(indptr[0]), int(indptr[-1]))
        matrix = arrays.import_scipy_sparse().csr_array(
            (
                sparse.values[entries],
                sparse.indices[entries],
                (indptr - indptr[0]).astype(sparse.indices.dtype, copy=False),
            ),
            shape=(stop - start, sparse.columns),
        )
        return SparseRowBlock(slice(start, stop), matrix, self.intercept)


class SparseRowBlock(RowBlock):
    """Rows of a `SparseDesign`. SciPy releases the interpreter's lock while it multiplies them."""

    def multiply(self, columns: Array) -> Array:
        return np.asarray(self.values @ np.ascontiguousarray(columns))

    def square(self) -> Any:
        return self.values.power(2)

    def gradient(self, derivatives: Array) -> Array:
        return self._with_ones((self.values.T @ derivatives).T, derivatives.sum(axis=0))

    def gram(self, weights: Array) -> Array:
        scaled = self.values.multiply(weights[:, None]).tocsr()
        inner = (self.values.T @ scaled).toarray()
        if not self.intercept:
            return np.asarray(inner)
        sums = self.values.T @ weights
        return np.block([[inner, sums[:, None]], [sums[None], np.full((1, 1), weights.sum())]])

    def column_squares(self, weights: Array) -> Array:
        return self._with_ones(self.square().T @ weights, weights.sum())

    def find_reach_and_extent(self) -> tuple[float, Array]:
        squared_norms = self.square().sum(axis=1)
        magnitudes = abs(self.values).max(axis=0).toarray().ravel()
        return float(np.sqrt(squared_norms.max() + self.intercept)), self._with_ones(magnitudes, 1.0)

    def dense(self, rows: slice = slice(None)) -> Array:
        values: Array = self.values[rows].toarray()
        return np.hstack([values, np.ones((len(values), 1))]) if self.intercept else np.asarray(values)
