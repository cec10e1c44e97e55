"""Batches in shards (parts of the data) → rows of a linear model in shards.

One pass over the shards finds the columns, the classes and the columns' means (`TableSurvey`). Then the
process that has a shard converts it to rows of the design matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.engines import Batch
from tamis.estimators.reading import read_labels
from tamis.estimators.sharded import has_rows, refuse_drift
from tamis.inputs import read_first_table, read_next_table, read_weights
from tamis.models.linear.design import is_far
from tamis.schema import Schema
from tamis.stats import Labels, Moments, Tally
from tamis.tables import Sparse, Table


@dataclass(frozen=True, slots=True, eq=False)
class TableSurvey:
    """The columns, their sums and the classes of some shards; two surveys can be added."""

    number: int  # the number of the first of these shards
    schema: Schema
    moments: Moments | None  # the moments of the columns; None if they are sparse
    classes: Tally | None  # the weight of each class, if there are classes
    row_counts: dict[int, int]  # the number of rows of each shard, by its number

    @classmethod
    def of(cls, shard: "ShardTable") -> "TableSurvey":
        """Return the survey of one shard."""
        moments = None if isinstance(shard.values, Sparse) else Moments.observe(shard.values)
        classes = None if shard.labels is None else Tally.count(shard.labels, shard.weights)
        return cls(shard.number, shard.schema, moments, classes, {shard.number: len(shard.values)})

    def __add__(self, other: "TableSurvey") -> "TableSurvey":
        first, second = (self, other) if self.number < other.number else (other, self)
        refuse_drift(second.schema, first.schema)
        moments = None if self.moments is None or other.moments is None else self.moments + other.moments
        classes = None if self.classes is None or other.classes is None else self.classes + other.classes
        return TableSurvey(first.number, first.schema, moments, classes, self.row_counts | other.row_counts)

    def __mul__(self, weight: float) -> "TableSurvey":
        return self  # a statistic must have a product, but numbers of rows are not multiplied

    def choose_centre(self) -> Array:
        """Return the columns' means if one is far from zero; otherwise, and for sparse columns, zeros."""
        if self.moments is None:
            return np.zeros(self.schema.width)
        mean, std = np.asarray(self.moments.mean), np.sqrt(np.asarray(self.moments.variance))
        return mean if is_far(mean, std) else np.zeros(len(mean))


@dataclass(frozen=True, slots=True, eq=False)
class ShardTable:
    """The rows of one shard, read and checked, before the classes and the means of all shards are known."""

    number: int  # the number of the shard
    schema: Schema
    values: Array | Sparse  # (n, d)
    labels: Labels | None  # their keys are the classes of this shard; None for models without classes
    weights: Array | None  # (n,)


@dataclass(frozen=True, slots=True, eq=False)
class ReadShard:
    """A function that reads a batch; it returns None if no row has a weight above 0."""

    read_values: Callable[[Table], Array | Sparse]  # checks and returns the numbers of a table
    sparse: bool  # whether rows may be sparse
    has_classes: bool  # whether targets are classes

    def __call__(self, batch: Batch) -> ShardTable | None:
        if not has_rows(batch):
            return None
        table, schema = read_first_table(batch.X, self.sparse)
        values = self.read_values(table)
        labels = read_all_labels(batch.y, table.rows) if self.has_classes else None
        weights = read_weights(batch.sample_weight, table.rows) if self.has_classes else None
        return ShardTable(batch.number, schema, values, labels, weights)


def read_all_labels(y: Any, rows: int) -> Labels:
    """Read labels; raise if one of them is missing."""
    labels = read_labels(y, rows)
    if (labels.group < 0).any():
        row = int(np.argmax(labels.group < 0))
        raise ValueError(f"label {row} is missing, expected one per row: y holds NaN or None, drop that row")
    return labels


def read_shard_table(batch: Batch, schema: Schema, caller: str, sparse: bool) -> Table:
    """Read the rows of a batch, which must have the columns of the first shard."""
    return read_next_table(batch.X, schema, caller, sparse, takes_missing=False)
