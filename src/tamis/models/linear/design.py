"""Rows → scores, and slopes → gradients: the only products with data that a linear model needs.

Rows are cut into lanes, the same however many threads there are; a lane adds up its blocks in order, and
lanes are added in order, so that no sum depends on who computed it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis._kernels import threads
from tamis.arrays import Array
from tamis.tables import Sparse

R = TypeVar("R")

_LANES = 8
_SPARE = 16  # cells of a sparse lane, for each of its gradient's
_CELLS = 1 << 17  # of a dense block: 1 MB, which stays in a core's cache from one product to the next
_SMALL = 1 << 18  # cells up to which one lane is faster than handing out several
_CONSTANT = 1e-14  # of a mean: columns that stray from it no further do not vary
_FAR = 100.0  # means beyond so many standard deviations are taken off: products would lose their digits


@dataclass(frozen=True, slots=True, eq=False)
class Design(ABC):
    """n rows of p columns, less a centre, with a column of ones behind them if there is an intercept."""

    centre: Array  # (p,)
    intercept: bool

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def columns(self) -> int:
        """p."""
        return len(self.centre)

    @property
    def width(self) -> int:
        """Columns, with that of ones."""
        return self.columns + self.intercept

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many numbers the rows hold."""

    @property
    def lanes(self) -> int:
        """Into how many lanes rows are cut, if they are many."""
        return _LANES

    @abstractmethod
    def take(self, rows: NDArray[np.int64] | slice) -> "Design":
        """These rows."""

    @abstractmethod
    def blocks(self, start: int, stop: int) -> "Iterator[Block]":
        """Rows from start to stop, a block at a time."""

    def in_lanes(self, work: Callable[["Iterator[Block]"], R]) -> list[R]:
        """What the work gives for each lane of blocks, in their order."""
        n = len(self)
        if self.cells <= _SMALL:
            with threads.one_blas_thread:
                return [work(self.blocks(0, n))]
        cuts = [n * lane // self.lanes for lane in range(self.lanes + 1)]

        def run(first: int, last: int) -> list[R]:
            return [work(self.blocks(cuts[k], cuts[k + 1])) for k in range(first, last)]

        with threads.one_blas_thread:
            found = threads.in_row_chunks(self.lanes, max(self.cells, threads.ENOUGH), run)
        return [each for lane in found for each in lane]

    def extent(self) -> tuple[float, Array]:
        """The longest row, and the largest number in each column, but for signs (width,)."""
        parts = self.in_lanes(lambda blocks: [block.extent() for block in blocks])
        found = [each for part in parts for each in part]
        return max(length for length, _ in found), np.maximum.reduce([sizes for _, sizes in found])

    def scores(self, weights: Array) -> Array:
        """Xw, (n, outputs) for weights (outputs, width); (n,) for weights (width,)."""
        parts = self.in_lanes(lambda blocks: [block.scores(weights) for block in blocks])
        return np.concatenate([block for part in parts for block in part])


class Block(ABC):
    """Some rows, in the cache."""

    rows: slice
    intercept: bool

    @abstractmethod
    def scores(self, weights: Array) -> Array:
        """(k,) for weights (width,), (k, outputs) for (outputs, width)."""

    @abstractmethod
    def squared_scores(self, variances: Array) -> Array:
        """Σ_j v_j x_j² of each row (k,), for variances (width,)."""

    @abstractmethod
    def gradient(self, slopes: Array) -> Array:
        """Σ slope · row: (width,) for slopes (k,), (outputs, width) for (k, outputs)."""

    @abstractmethod
    def gram(self, curvature: Array) -> Array:
        """Σ curvature · row rowᵀ (width, width)."""

    @abstractmethod
    def squares(self, curvature: Array) -> Array:
        """Its diagonal (width,)."""

    @abstractmethod
    def extent(self) -> tuple[float, Array]:
        """The length of the longest row, and the largest number in each column, but for signs (width,)."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Columns, with that of ones."""

    @abstractmethod
    def dense(self, rows: slice = slice(None)) -> Array:
        """The rows with their ones (k, width), or these of them."""

    def _with_ones(self, found: Array, ones: Any) -> Array:
        if not self.intercept:
            return found
        return np.concatenate([found, np.asarray(ones)[..., None]], axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class DenseDesign(Design):
    """Rows as they lie in memory, or less their mean where that is far from zero."""

    values: Array  # (n, p)

    @classmethod
    def of(cls, values: Array, intercept: bool, centred: bool = True) -> "DenseDesign":
        """`centred` allows a centre to be taken off, which an intercept without a prior makes up for."""
        centre = np.zeros(values.shape[1])
        if intercept and centred and len(values):
            mean, spread = values.mean(axis=0), values[:: max(1, len(values) // 4096)].std(axis=0)
            if (np.abs(mean) > _FAR * spread).any():
                centre = mean
                values = values - centre
                values[:, np.abs(values).max(axis=0) <= _CONSTANT * np.abs(centre)] = 0.0
        return cls(centre, intercept, np.ascontiguousarray(values))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def cells(self) -> int:
        return self.values.size

    def take(self, rows: NDArray[np.int64] | slice) -> "DenseDesign":
        return DenseDesign(self.centre, self.intercept, np.ascontiguousarray(self.values[rows]))

    def blocks(self, start: int, stop: int) -> Iterator[Block]:
        step = max(64, _CELLS // max(1, self.columns))
        for begin in range(start, stop, step):
            rows = slice(begin, min(begin + step, stop))
            yield DenseBlock(rows, self.values[rows], self.intercept)


class DenseBlock(Block):
    """See `Block`."""

    __slots__ = ("intercept", "rows", "values")

    def __init__(self, rows: slice, values: Array, intercept: bool) -> None:
        self.rows, self.values, self.intercept = rows, values, intercept

    def scores(self, weights: Array) -> Array:
        if not self.intercept:
            return np.asarray(self.values @ weights.T)
        found: Array = self.values @ weights[..., :-1].T
        found += weights[..., -1]
        return found

    def squared_scores(self, variances: Array) -> Array:
        found = np.square(self.values) @ variances[: self.values.shape[1]]
        return np.asarray(found + variances[-1] if self.intercept else found)

    def gradient(self, slopes: Array) -> Array:
        return self._with_ones(slopes.T @ self.values, slopes.sum(axis=0))

    def gram(self, curvature: Array) -> Array:
        rows = self.dense()
        if (curvature >= 0).all():  # the same matrix twice is half the work
            rows = rows * np.sqrt(curvature)[:, None]
            return np.asarray(rows.T @ rows)
        return np.asarray((rows * curvature[:, None]).T @ rows)

    def squares(self, curvature: Array) -> Array:
        return self._with_ones(curvature @ np.square(self.values), curvature.sum())

    def extent(self) -> tuple[float, Array]:
        lengths = np.einsum("ij,ij->i", self.values, self.values)
        sizes = np.maximum(self.values.max(axis=0), -self.values.min(axis=0))
        return float(np.sqrt(lengths.max() + self.intercept)), self._with_ones(sizes, 1.0)

    @property
    def width(self) -> int:
        return int(self.values.shape[1]) + self.intercept

    def dense(self, rows: slice = slice(None)) -> Array:
        values = self.values[rows]
        if not self.intercept:
            return values
        found = np.empty((len(values), self.width))
        found[:, :-1] = values
        found[:, -1] = 1.0
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SparseDesign(Design):
    """Rows of few numbers, never filled up with zeros but where a whole Gram is asked for."""

    values: Sparse
    made: "dict[tuple[int, int], SparseBlock]" = field(default_factory=dict)  # blocks, as they are asked for

    @classmethod
    def of(cls, values: Sparse, intercept: bool) -> "SparseDesign":
        return cls(np.zeros(values.columns), intercept, values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def cells(self) -> int:
        return len(self.values.values)

    def take(self, rows: NDArray[np.int64] | slice) -> "SparseDesign":
        return SparseDesign(self.centre, self.intercept, self.values.take(rows))

    @property
    def lanes(self) -> int:
        """Each has a gradient of its own, which should be less than its rows."""
        return _LANES if self.cells > _SPARE * _LANES * self.columns else 2

    def blocks(self, start: int, stop: int) -> Iterator[Block]:
        found = self.made.get((start, stop))
        if found is None:
            found = self.made[start, stop] = self._block(start, stop)
        yield found

    def _block(self, start: int, stop: int) -> "SparseBlock":
        sparse = self.values
        indptr = sparse.indptr[start : stop + 1]
        entries = slice(int(indptr[0]), int(indptr[-1]))
        matrix = arrays.scipy_sparse().csr_array(
            (
                sparse.values[entries],
                sparse.indices[entries],
                (indptr - indptr[0]).astype(sparse.indices.dtype, copy=False),
            ),
            shape=(stop - start, sparse.columns),
        )
        return SparseBlock(slice(start, stop), matrix, self.intercept)


class SparseBlock(Block):
    """See `Block`; SciPy multiplies without the interpreter's lock."""

    __slots__ = ("intercept", "matrix", "rows")

    def __init__(self, rows: slice, matrix: Any, intercept: bool) -> None:
        self.rows, self.matrix, self.intercept = rows, matrix, intercept

    def scores(self, weights: Array) -> Array:
        if not self.intercept:
            return np.asarray(self.matrix @ np.ascontiguousarray(weights.T))
        found: Array = self.matrix @ np.ascontiguousarray(weights[..., :-1].T)
        found += weights[..., -1]
        return found

    def squared_scores(self, variances: Array) -> Array:
        found = self.matrix.power(2) @ variances[: self.matrix.shape[1]]
        return np.asarray(found + variances[-1] if self.intercept else found)

    def gradient(self, slopes: Array) -> Array:
        return self._with_ones((self.matrix.T @ slopes).T, slopes.sum(axis=0))

    def gram(self, curvature: Array) -> Array:
        weighed = self.matrix.multiply(curvature[:, None]).tocsr()
        inner = (self.matrix.T @ weighed).toarray()
        if not self.intercept:
            return np.asarray(inner)
        sums = self.matrix.T @ curvature
        return np.block([[inner, sums[:, None]], [sums[None], np.full((1, 1), curvature.sum())]])

    def squares(self, curvature: Array) -> Array:
        return self._with_ones(self.matrix.power(2).T @ curvature, curvature.sum())

    def extent(self) -> tuple[float, Array]:
        lengths = self.matrix.power(2).sum(axis=1)
        sizes = abs(self.matrix).max(axis=0).toarray().ravel()
        return float(np.sqrt(lengths.max() + self.intercept)), self._with_ones(sizes, 1.0)

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1]) + self.intercept

    def dense(self, rows: slice = slice(None)) -> Array:
        found = self.matrix[rows].toarray()
        return np.hstack([found, np.ones((len(found), 1))]) if self.intercept else np.asarray(found)
