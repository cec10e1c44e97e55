"""The objective of rows in shards (parts of the data): its sums are computed for each shard, and added.

Newton's method, its line search, the evidence and Laplace's approximation are the same as for rows in memory
(`fitting`): they get all sums from an `Objective`, whose subclass here computes them shard by shard.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.models.linear.design import DenseDesign, Design, RowBlock, SparseDesign
from tamis.models.linear.objective import GaussianPrior, LinearRows, Objective, choose_sample
from tamis.models.linear.responses import NullModelSizes, Response, RowSums
from tamis.protocols import Statistic
from tamis.tables import Sparse

S = TypeVar("S", bound=Statistic)

_NOT_IN_MEMORY = "got rows in shards, expected rows in memory: read them first"


class RowShards(Protocol):
    """Shards of rows, in this process or on workers: see `tamis.engines`."""

    def total(self, observe: Callable[[LinearRows], S | None], /) -> S:
        """Observe every shard and add the results."""

    def map(self, change: Callable[[LinearRows], LinearRows], /) -> "RowShards":
        """Apply a function to every shard."""


# ── sizes of all rows ──


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """The weighted sum, the least and the largest of some numbers. Ranges of two shards can be added."""

    sum: float
    least: float
    largest: float

    @classmethod
    def of(cls, values: Array, weights: Array) -> "Range":
        """Compute them for the numbers of one shard."""
        return cls(float(weights @ values), float(values.min()), float(values.max()))

    def __add__(self, other: "Range") -> "Range":
        return Range(self.sum + other.sum, min(self.least, other.least), max(self.largest, other.largest))

    def __mul__(self, weight: float) -> "Range":
        return replace(self, sum=self.sum * weight)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Counts, sums and extremes of rows in shards. Surveys of two shards can be added."""

    row_counts: dict[int, int]  # of each shard, by its number
    weight: float
    with_weight: int  # the number of rows with a weight above 0
    lightest: float  # the smallest weight above 0
    has_weights: bool
    sums: Array  # (p,): Σ weight · x, about the centre
    reach: float  # the largest norm of a row
    extent: Array  # (width,): the largest magnitude in each column
    targets: Range
    offsets: Range | None = None  # None if the rows have no offsets
    is_sparse: bool = False
    classes: Array = field(default_factory=lambda: np.empty(0))  # (K,): the weight of each class, if counted

    @classmethod
    def of(cls, rows: LinearRows, classes: int = 0) -> "Survey":
        """Survey one shard. `classes` is the number of classes if targets are indices of classes, else 0."""
        weights = np.ones(len(rows.design)) if rows.weights is None else rows.weights
        positive = weights[weights > 0]
        means = rows.design.column_means(weights) - rows.design.centre if len(positive) else 0.0
        reach, extent = rows.design.find_reach_and_extent()
        return cls(
            row_counts={rows.number: len(rows.design)},
            weight=float(weights.sum()),
            with_weight=len(positive),
            lightest=float(positive.min(initial=np.inf)),
            has_weights=rows.weights is not None,
            sums=np.zeros(rows.design.columns) + means * weights.sum(),
            reach=reach,
            extent=extent,
            targets=Range.of(rows.targets, weights),
            offsets=None if rows.offsets is None else Range.of(rows.offsets, weights),
            is_sparse=rows.design.is_sparse,
            classes=rows.count_classes(classes) if classes else np.empty(0),
        )

    def __add__(self, other: "Survey") -> "Survey":
        return Survey(
            row_counts=self.row_counts | other.row_counts,
            weight=self.weight + other.weight,
            with_weight=self.with_weight + other.with_weight,
            lightest=min(self.lightest, other.lightest),
            has_weights=self.has_weights or other.has_weights,
            sums=self.sums + other.sums,
            reach=max(self.reach, other.reach),
            extent=np.maximum(self.extent, other.extent),
            targets=self.targets + other.targets,
            offsets=None if self.offsets is None or other.offsets is None else self.offsets + other.offsets,
            is_sparse=self.is_sparse or other.is_sparse,
            classes=self.classes + other.classes,
        )

    def __mul__(self, weight: float) -> "Survey":
        return replace(
            self,
            weight=self.weight * weight,
            lightest=self.lightest * weight,
            sums=self.sums * weight,
            targets=self.targets * weight,
            offsets=None if self.offsets is None else self.offsets * weight,
            classes=self.classes * weight,
        )

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(self.row_counts.values())


@dataclass(frozen=True, slots=True, eq=False)
class ShardedDesign(Design):
    """The design of rows in shards; only its survey is in this process."""

    survey: Survey

    def __len__(self) -> int:
        return self.survey.rows

    @property
    def is_sparse(self) -> bool:
        return self.survey.is_sparse

    @property
    def cells(self) -> int:
        return len(self) * self.columns

    def column_means(self, weights: Array | None) -> Array:
        return np.asarray(self.centre + self.survey.sums / self.survey.weight)

    def find_reach_and_extent(self) -> tuple[float, Array]:
        return self.survey.reach, self.survey.extent

    def take(self, rows: NDArray[np.int64] | slice) -> Design:
        raise TypeError(_NOT_IN_MEMORY)

    def blocks(self, start: int, stop: int) -> Iterator[RowBlock]:
        raise TypeError(_NOT_IN_MEMORY)


@dataclass(frozen=True, slots=True, eq=False)
class ShardedRows(LinearRows):
    """Rows in shards."""

    row_shards: RowShards = field(kw_only=True)
    survey: Survey = field(kw_only=True)
    sample: "_Sample | None" = None  # rows that were brought to this process in the pass of the survey

    @classmethod
    def of(
        cls,
        shards: RowShards,
        centre: Array,
        intercept: bool,
        classes: int = 0,
        row_counts: dict[int, int] | None = None,
        size: int = 0,
    ) -> "ShardedRows":
        """Survey all shards in one pass; the centre was already subtracted from their rows.

        If targets are indices of classes, `classes` is the number of classes. If `row_counts`, the number of
        rows of each shard by the number of the shard, is known, the pass also brings a sample of rows to this
        process, by which Newton's method for a model of `size` parameters starts.
        """
        indices = None if row_counts is None else choose_sample(sum(row_counts.values()), size)
        gather = None
        if row_counts is not None and indices is not None:
            gather = partial(_gather, indices, _find_starts(row_counts))
        first_pass = shards.total(partial(_survey_shard, classes, gather))
        survey = first_pass.survey
        sample = None if indices is None else _Sample(indices, first_pass.gathered)
        design = ShardedDesign(centre, intercept, survey)
        return cls(design, np.empty(0), row_shards=shards, survey=survey, sample=sample)

    @property
    def shards(self) -> Any:
        return self.row_shards

    @property
    def prefers_few_passes(self) -> bool:
        return True

    def total(self, observe: Callable[[LinearRows], S]) -> S:
        return self.row_shards.total(observe)

    def map(self, change: Callable[[LinearRows], LinearRows]) -> "ShardedRows":
        return ShardedRows.of(self.row_shards.map(change), self.design.centre, self.design.intercept)

    def find_null_intercept(self, response: Response) -> float:
        survey, offsets = self.survey, self.survey.offsets
        with np.errstate(divide="ignore"):
            if offsets is None:
                return float(response.link_function(np.array(survey.targets.sum / survey.weight)))
            sizes = NullModelSizes(
                survey.targets.sum, survey.weight, survey.lightest, offsets.least, offsets.largest
            )
            return response.find_null_intercept(
                sizes, lambda function: self.row_shards.total(partial(_sum_rows, function))
            )

    @property
    def mean_target(self) -> float:
        return float(self.survey.targets.sum / self.survey.weight)

    @property
    def target_range(self) -> tuple[float, float]:
        return self.survey.targets.least, self.survey.targets.largest

    def make_objective(self, response: Response, prior: GaussianPrior) -> Objective:
        return ShardedObjective(self.design, self.targets, response, prior, sharded=self)

    @property
    def weight(self) -> float:
        return self.survey.weight

    @property
    def mean_weight(self) -> float:
        return self.survey.weight / self.survey.with_weight if self.survey.has_weights else 1.0

    def divide_weights(self, unit: float) -> "ShardedRows":
        if not self.survey.has_weights:
            return self
        return self.map(partial(LinearRows.divide_weights, unit=unit))

    def count_weighted_rows(self) -> int:
        return self.survey.with_weight

    def find_least_relative_weight(self) -> float:
        return self.survey.lightest / self.survey.weight

    def count_classes(self, classes: int) -> Array:
        if len(self.survey.classes) == classes:
            return self.survey.classes
        return self.row_shards.total(partial(LinearRows.count_classes, classes=classes))

    def take(self, rows: NDArray[np.int64]) -> LinearRows:
        """Bring the rows at these ascending indices to this process."""
        if self.sample is not None and np.array_equal(self.sample.indices, rows):
            return self.sample.rows.join()
        return self.row_shards.total(partial(_gather, rows, _find_starts(self.survey.row_counts))).join()


def _find_starts(row_counts: dict[int, int]) -> dict[int, int]:
    """Return the index of each shard's first row among the rows of all shards, by the shard's number."""
    numbers = sorted(row_counts)
    starts = np.cumsum([0, *(row_counts[number] for number in numbers)])[:-1]
    return dict(zip(numbers, starts.tolist(), strict=True))


def _sum_rows(function: RowSums, rows: LinearRows) -> Array:
    """Call a function with targets, weights and offsets of rows; it returns sums of these."""
    weights = np.ones(len(rows.targets)) if rows.weights is None else rows.weights
    offsets = np.zeros(len(rows.targets)) if rows.offsets is None else rows.offsets
    with np.errstate(divide="ignore"):
        return function(rows.targets, weights, offsets)


@dataclass(frozen=True, slots=True, eq=False)
class _Gathered:
    """Some rows of each shard, by its number."""

    parts: dict[int, LinearRows]

    def __add__(self, other: "_Gathered") -> "_Gathered":
        return _Gathered(self.parts | other.parts)

    def __mul__(self, weight: float) -> "_Gathered":
        raise TypeError("rows are not scaled")

    def join(self) -> LinearRows:
        """Concatenate the rows in the order of the shards."""
        return join_rows([self.parts[number] for number in sorted(self.parts)])


def _gather(indices: NDArray[np.int64], starts: dict[int, int], rows: LinearRows) -> _Gathered | None:
    """Select those rows of a shard that have these ascending indices among the rows of all shards.

    `starts` has the index of the first row of each shard, by the shard's number. Return None if no row of
    the shard is selected.
    """
    start = starts[rows.number]
    low, high = np.searchsorted(indices, (start, start + len(rows.design)))
    return None if low == high else _Gathered({rows.number: rows.take(indices[low:high] - start)})


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Rows that were brought to this process."""

    indices: NDArray[np.int64]  # ascending indices of rows among the rows of all shards
    rows: _Gathered


@dataclass(frozen=True, slots=True, eq=False)
class _FirstPass:
    """The survey of the rows of shards, and some of the rows."""

    survey: Survey
    gathered: _Gathered

    def __add__(self, other: "_FirstPass") -> "_FirstPass":
        return _FirstPass(self.survey + other.survey, self.gathered + other.gathered)

    def __mul__(self, weight: float) -> "_FirstPass":
        raise TypeError("rows are not scaled")


def _survey_shard(
    classes: int, gather: Callable[[LinearRows], _Gathered | None] | None, rows: LinearRows
) -> _FirstPass:
    """Return the survey of a shard's rows, and those of them that `gather` selects."""
    gathered = None if gather is None else gather(rows)
    return _FirstPass(Survey.of(rows, classes), _Gathered({}) if gathered is None else gathered)


def join_rows(parts: list[LinearRows]) -> LinearRows:
    """Concatenate the rows of all parts; they have weights, or offsets, if all parts have."""
    first = parts[0]
    design: Design
    if isinstance(first.design, SparseDesign):
        values = [part.design.values for part in parts if isinstance(part.design, SparseDesign)]
        lengths = np.concatenate([np.diff(each.indptr) for each in values])
        sparse = Sparse(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.concatenate([each.indices for each in values]),
            np.concatenate([each.values for each in values]),
            values[0].columns,
        )
        design = SparseDesign.of(sparse, first.design.intercept)
    else:
        dense = [part.design.values for part in parts if isinstance(part.design, DenseDesign)]
        design = DenseDesign(first.design.centre, first.design.intercept, np.concatenate(dense))
    return LinearRows(
        design,
        np.concatenate([part.targets for part in parts]),
        _join([part.weights for part in parts]),
        _join([part.offsets for part in parts]),
    )


def _join(parts: list[Array | None]) -> Array | None:
    """Concatenate arrays; return None if one is None."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


# ── the objective ──


def _evaluate(
    response: Response, prior: GaussianPrior, name: str, arguments: tuple[Any, ...], rows: LinearRows
) -> Any:
    """Call the method of this name of the objective of a shard's rows alone."""
    return getattr(Objective.of(rows, response, prior), name)(*arguments)


def _evaluate_loss(response: Response, prior: GaussianPrior, parameters: Array, rows: LinearRows) -> Array:
    """Return the gradient of the loss of a shard's rows, followed by the loss (D + 1,)."""
    loss, gradient = Objective.of(rows, response, prior).row_loss(parameters)
    return np.append(gradient, loss)


@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """The least and the largest of some numbers; the sum of two bounds encloses both."""

    least: float
    largest: float

    def __add__(self, other: "_Bounds") -> "_Bounds":
        return _Bounds(min(self.least, other.least), max(self.largest, other.largest))

    def __mul__(self, weight: float) -> "_Bounds":
        return self


def _evaluate_bounds(
    response: Response, prior: GaussianPrior, name: str, arguments: tuple[Any, ...], rows: LinearRows
) -> _Bounds:
    """Return as bounds what `_evaluate` returns: a number, or a pair (least, largest)."""
    value = _evaluate(response, prior, name, arguments, rows)
    return _Bounds(*value) if isinstance(value, tuple) else _Bounds(value, value)


@dataclass(frozen=True, slots=True, eq=False)
class ShardedObjective(Objective):
    """The negative log-posterior of rows in shards."""

    sharded: ShardedRows = field(kw_only=True)

    @property
    def rows(self) -> LinearRows:
        return self.sharded

    def _sum(self, name: str, *arguments: Any) -> Array:
        """Call a method of the objective of each shard, and add the results."""
        sums: Array = self.sharded.total(partial(_evaluate, self.response, self.prior, name, arguments))
        return sums

    def _bound(self, name: str, *arguments: Any) -> "_Bounds":
        """Call a method of the objective of each shard; return the bounds of the results."""
        return self.sharded.total(partial(_evaluate_bounds, self.response, self.prior, name, arguments))

    def row_loss(self, parameters: Array) -> tuple[float, Array]:
        with np.errstate(invalid="ignore"):
            sums = self.sharded.total(partial(_evaluate_loss, self.response, self.prior, parameters))
        return float(sums[-1]) if np.isfinite(sums[-1]) else np.inf, sums[:-1]

    def information(self, parameters: Array, observed: bool = False) -> Array:
        return self._sum("information", parameters, observed)

    def information_diagonal(self, parameters: Array) -> Array:
        return self._sum("information_diagonal", parameters)

    def gram(self) -> Array:
        return self._sum("gram")

    def column_squares(self) -> Array:
        return self._sum("column_squares")

    def bound_information_change(self, before: Array, after: Array) -> float:
        return self._bound("bound_information_change", before, after).largest

    def find_margin_range(self, direction: Array) -> tuple[float, float]:
        bounds = self._bound("find_margin_range", direction)
        return bounds.least, bounds.largest

    def find_least_information(self, parameters: Array) -> float:
        return self._bound("find_least_information", parameters).least

    def scores(self, parameters: Array) -> Array:
        raise TypeError(_NOT_IN_MEMORY)

    def information_product(self, parameters: Array) -> Callable[[Array], Array]:
        raise ValueError(
            f"got {self.size} parameters and solver='whitened' for rows in shards, expected solver='auto'"
        )
