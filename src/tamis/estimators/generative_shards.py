"""Batches in shards → encoded rows in shards, for generative models that pass over the data several times.

A shard is a part of the data, and a `Batch` is one shard with its labels and weights, not encoded yet.
`BatchShards` are all shards, in this process or on other machines; `shards.total(f)` calls f with each shard,
in the process that has it, and adds what f returns. `survey_rows` finds, in one pass, the columns and their
kinds in all shards together. `encode_rows` encodes the rows of a shard. `gather_rows` copies the rows with
given numbers from all shards to this process.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array, import_scipy_sparse
from tamis.engines import Batch, BatchShards
from tamis.estimators.reading import drop_weightless, read_labels
from tamis.estimators.sharded import has_rows, refuse_drift
from tamis.inputs import read_first_table, read_next_table, read_weights
from tamis.models.generative import Generative, LabelledRows
from tamis.schema import Schema
from tamis.stats import Keys, Labels
from tamis.tables import Kind, Sparse, Table, widen_kinds


@dataclass(frozen=True, slots=True, eq=False)
class TableRows:
    """Rows with a weight above 0, of one shard or gathered from several."""

    number: int  # the number of the shard, or of the first one
    table: Table
    labels: Labels
    weights: Array | None

    def take(self, indices: NDArray[np.int64]) -> "TableRows":
        """Copy the rows with these indices."""
        weights = None if self.weights is None else self.weights[indices]
        return TableRows(self.number, self.table.take(indices), self.labels.take(indices), weights)


@dataclass(frozen=True, slots=True, eq=False)
class RowReader:
    """A function that returns the rows of a batch with a weight above 0; None if there are none."""

    caller: str  # the name of the model's class, for error messages
    sparse: bool  # whether rows may be sparse
    takes_missing: bool  # whether values may be missing
    absent: object = None  # the value of a column that a row, if it is a dict, does not name
    missing_label: object = None  # a label that counts as missing, besides None and NaN
    # If it is not None, `batch.y` is not read: every label is missing, and these are the labels' keys.
    labels: Keys | None = None
    schema: Schema | None = None  # the columns that rows must have; None to take those of the batch

    def __call__(self, batch: Batch) -> TableRows | None:
        if not has_rows(batch):
            return None
        return self.read(batch)[0]

    def read(self, batch: Batch) -> tuple[TableRows, Schema]:
        """Read a batch that has rows with a weight above 0; return these rows and their columns."""
        if self.schema is None:
            table, schema = read_first_table(batch.X, self.sparse, self.absent)
        else:
            schema = self.schema
            table = read_next_table(
                batch.X, schema, self.caller, self.sparse, self.takes_missing, self.absent
            )
        if self.labels is None:
            labels = read_labels(batch.y, table.rows, self.missing_label)
        else:
            labels = Labels(self.labels, np.full(table.rows, -1))
        weights = read_weights(batch.sample_weight, table.rows)
        labels, weights, table = drop_weightless(labels, weights, table)
        if self.labels is not None:
            labels = Labels(self.labels, labels.group)  # `drop_weightless` drops keys that no row has
        return TableRows(batch.number, table, labels, weights), schema


@dataclass(frozen=True, slots=True, eq=False)
class RowSurvey:
    """The columns and row counts of some shards; the surveys of two sets of shards can be added."""

    number: int  # the number of the first of these shards
    schema: Schema
    row_counts: dict[int, int]  # from the number of a shard to the number of its rows with a weight above 0

    def __add__(self, other: "RowSurvey") -> "RowSurvey":
        first, second = (self, other) if self.number < other.number else (other, self)
        refuse_drift(second.schema, first.schema)
        schema = first.schema.widen_kinds(second.schema)
        return RowSurvey(first.number, schema, self.row_counts | other.row_counts)

    def __mul__(self, weight: float) -> "RowSurvey":
        return self  # a statistic must have a product, but numbers of rows are not multiplied

    @property
    def n_rows(self) -> int:
        """The number of rows with a weight above 0 in all shards."""
        return sum(self.row_counts.values())


def survey_rows(shards: BatchShards[Batch], reader: RowReader) -> RowSurvey:
    """Find the columns, which all shards share, and how many rows each shard has."""
    return shards.total(partial(_survey_shard, reader))


def _survey_shard(reader: RowReader, batch: Batch) -> RowSurvey | None:
    if not has_rows(batch):
        return None
    rows, schema = reader.read(batch)
    return RowSurvey(batch.number, schema, {batch.number: rows.table.rows})


def encode_rows(model: Generative, rows: TableRows) -> LabelledRows:
    """Encode rows as the blocks of a model store them."""
    return LabelledRows(model.encode(rows.table), rows.labels, rows.weights)


# ── a sample of rows ──


@dataclass(frozen=True, slots=True, eq=False)
class _Gathered:
    """Some rows of each shard, by the number of the shard."""

    parts: dict[int, TableRows]

    def __add__(self, other: "_Gathered") -> "_Gathered":
        return _Gathered(self.parts | other.parts)

    def __mul__(self, weight: float) -> "_Gathered":
        return self  # a statistic must have a product, but rows are not multiplied


def gather_rows(
    shards: BatchShards[TableRows], survey: RowSurvey, row_numbers: NDArray[np.int64]
) -> TableRows:
    """Copy the rows of these numbers from all shards.

    `row_numbers` are ascending. A row's number is its index among the rows with a weight above 0 of all
    shards, in the order of shard numbers.
    """
    numbers = sorted(survey.row_counts)
    ends = np.cumsum([survey.row_counts[number] for number in numbers])
    starts = {number: int(end) - survey.row_counts[number] for number, end in zip(numbers, ends, strict=True)}
    gathered = shards.total(partial(_gather_from_shard, row_numbers, starts))
    return _join([gathered.parts[number] for number in sorted(gathered.parts)])


def _gather_from_shard(
    row_numbers: NDArray[np.int64], starts: dict[int, int], rows: TableRows
) -> _Gathered | None:
    start = starts[rows.number]
    low, high = np.searchsorted(row_numbers, (start, start + rows.table.rows))
    return None if low == high else _Gathered({rows.number: rows.take(row_numbers[low:high] - start)})


def _join(parts: list[TableRows]) -> TableRows:
    """Concatenate the rows of several shards, whose labels have the same keys."""
    tables = [part.table for part in parts]
    first = parts[0]
    labels = Labels(first.labels.keys, np.concatenate([part.labels.group for part in parts]))
    part_weights = [part.weights for part in parts if part.weights is not None]
    weights = np.concatenate(part_weights) if len(part_weights) == len(parts) else None
    return TableRows(first.number, join_tables(tables), labels, weights)


def join_tables(tables: list[Table]) -> Table:
    """Concatenate the rows of tables with the same columns."""
    first, rows = tables[0], sum(table.rows for table in tables)
    if all(isinstance(table.data, np.ndarray) and table.kinds == first.kinds for table in tables):
        data = np.concatenate([np.asarray(table.data) for table in tables])
        return Table(data, rows, first.kinds, first.names)
    if isinstance(first.data, Sparse):
        matrices = [table.data.matrix() for table in tables if isinstance(table.data, Sparse)]
        stacked = import_scipy_sparse().vstack(matrices, format="csr")
        return Table(Table.of(stacked).data, rows, first.kinds, first.names)
    columns: list[NDArray[Any]] = []
    kinds: list[Kind] = []
    for j in range(first.width):
        values = [_get_column(table, j) for table in tables]
        kind = widen_kinds(*(table.kind(j) for table in tables))
        columns.append(
            np.concatenate([each.astype(object) if kind == "category" else each for each in values])
        )
        kinds.append(kind)
    return Table(tuple(columns), rows, tuple(kinds), first.names)


def _get_column(table: Table, column: int) -> NDArray[Any]:
    data: Any = table.data
    return np.asarray(data[:, column] if isinstance(data, np.ndarray) else data[column])
