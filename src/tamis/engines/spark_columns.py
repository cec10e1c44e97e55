"""Columns of a Spark data frame → batches.

A column of vectors, each of which holds all numbers of a row, becomes a matrix. Such vectors are arrays, or
of a type of `pyspark.ml`, Spark's package for machine learning. Other columns become an Arrow table. Spark
makes Arrow batches row by row, and adds up the sizes of all columns after each row; with 20 columns of
numbers, that takes half of the time. So columns of one type are sent to Python as one column of arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.engines.batches import Batch
from tamis.engines.opening import Request
from tamis.extras import import_package

_VECTOR_TYPES = ("vector", "array")  # types of columns with several numbers per row; pyspark.ml has vectors
_PACKED_TYPES = ("tinyint", "smallint", "int", "bigint", "float", "double")  # types that are sent in arrays
_NUMBER_TYPES = ("boolean", *_PACKED_TYPES, "decimal")
_MIN_ARRAY_COLUMNS = 4  # fewer columns of one type are sent alone, because an array has a cost of its own
_DENSE = 1  # the field "type" of a dense vector of `pyspark.ml`; that of a sparse one is 0


@dataclass(frozen=True, slots=True)
class Packing:
    """Which columns are sent alone, and which in arrays; the arrays are the last columns of a frame."""

    alone: tuple[str, ...]
    arrays: tuple[tuple[str, ...], ...]  # the columns of each array, which have the same type

    @classmethod
    def of(cls, types: dict[str, str]) -> "Packing":
        """Choose how columns are sent; `types` has the type of each by its name."""
        by_type: dict[str, list[str]] = {}
        for name, type_ in types.items():
            if type_ in _PACKED_TYPES:
                by_type.setdefault(type_, []).append(name)
        arrays = tuple(tuple(names) for names in by_type.values() if len(names) >= _MIN_ARRAY_COLUMNS)
        packed = {name for names in arrays for name in names}
        return cls(tuple(name for name in types if name not in packed), arrays)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in the order in which `unpack` returns them."""
        return (*self.alone, *(name for names in self.arrays for name in names))

    def write(self, expressions: dict[str, str]) -> list[str]:
        """Return the SELECT list of the query; `expressions` has the SQL of each column by its name.

        The columns get new names, because `mapInArrow`, by which Spark sends rows to Python, reads the name
        a.b as field b of a structure a.
        """
        arrays = (f"array({', '.join(expressions[name] for name in names)})" for names in self.arrays)
        written = (*(expressions[name] for name in self.alone), *arrays)
        return [f"{expression} AS c{number}" for number, expression in enumerate(written)]

    def unpack(self, batch: Any) -> Any:
        """Convert an Arrow batch that this query returned to one that has each column alone again."""
        pa = import_package("pyarrow", "a Spark data frame")
        columns = [batch.column(k) for k in range(len(self.alone))]
        for number, names in enumerate(self.arrays, len(self.alone)):
            columns += _split_lists(batch.column(number), len(names))
        return pa.record_batch(columns, names=list(self.names))


def _split_lists(lists: Any, width: int) -> list[Any]:
    """Convert an array of lists of `width` numbers to `width` arrays."""
    pa = import_package("pyarrow", "a Spark data frame")
    values = lists.flatten()
    type_, missing = values.type, None
    if values.null_count:
        missing = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, width)
        values = values.fill_null(0)
    # The rows of a batch fit in the processor's cache, so that this transposed copy is fast.
    columns = np.ascontiguousarray(values.to_numpy().reshape(-1, width).T)
    masks: Sequence[Any] = [None] * width if missing is None else list(missing.T)
    return [pa.array(column, type_, mask=mask) for column, mask in zip(columns, masks, strict=True)]


@dataclass(frozen=True, slots=True)
class ReadRows:
    """A function that converts an Arrow table to a batch."""

    columns: tuple[str, ...]  # the columns to learn from
    roles: dict[str, str]  # the column of each argument of `fit` besides the rows
    is_vector: bool  # whether there is one column to learn from, and it holds vectors
    is_numeric: bool = False  # whether all columns to learn from are of types of numbers or flags
    packing: Packing = Packing((), ())  # how the columns are sent

    def __call__(self, table: Any) -> Batch:
        if self.is_vector:
            rows = read_vectors(table.column(self.columns[0]), self.columns[0])
        else:
            rows = table.select(list(self.columns))
        return Batch.from_roles(
            rows, {role: table.column(name).to_numpy() for role, name in self.roles.items()}
        )


def read_head(frame: Any, read: ReadRows, rows: int) -> Batch:
    """Return the first rows of a frame, as many as `rows`.

    If `is_numeric`, the types of the columns are known without a row. Then no rows are returned, because to
    read them takes a job of Spark.
    """
    pa = import_package("pyarrow", "a Spark data frame")
    if read.is_numeric:
        return read(pa.table({name: pa.array([], pa.float64()) for name in read.packing.names}))
    table = frame.limit(rows).toArrow()
    batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    return read(pa.Table.from_batches(map(read.packing.unpack, batches)))


def read_types(frame: Any) -> dict[str, str]:
    """Return the type of each column by its name, such as "double", "array" or "vector"."""
    return {field.name: field.dataType.simpleString().partition("<")[0] for field in frame.schema.fields}


def is_vector_type(type_: str) -> bool:
    """Return whether a column of this type holds several numbers in each row."""
    return type_ in _VECTOR_TYPES


def select_columns(frame: Any, request: Request) -> tuple[Any, ReadRows]:
    """Return a frame of the columns that are needed, and how to read its rows."""
    types = read_types(frame)
    roles = request.named_roles
    columns = request.choose_columns(list(frame.columns))
    vectors = [name for name in columns if is_vector_type(types[name])]
    if vectors and len(columns) > 1:
        other = next(name for name in columns if name != vectors[0])
        raise ValueError(
            f"got the column of vectors {vectors[0]!r} beside {other!r}, expected it alone: name it in "
            "columns=, or join all by VectorAssembler"
        )
    expressions, sent = {}, {}
    for name in dict.fromkeys((*columns, *roles.values())):
        is_decimal = types[name].startswith("decimal")  # decimals become floats: faces read no decimals
        sent[name] = "double" if is_decimal else types[name]
        expressions[name] = f"CAST({quote(name)} AS double)" if is_decimal else quote(name)
    packing = Packing.of(sent)
    is_numeric = all(types[name].partition("(")[0] in _NUMBER_TYPES for name in columns)
    read = ReadRows(tuple(columns), dict(roles), bool(vectors), is_numeric, packing)
    return frame.selectExpr(*packing.write(expressions)), read


def quote(name: str) -> str:
    """Quote the name of a column for a query of Spark."""
    return "`" + name.replace("`", "``") + "`"


def read_vectors(column: Any, name: str) -> Any:
    """Convert arrays, or vectors of `pyspark.ml`, to a matrix (n, d), which is sparse if a vector is."""
    pa = import_package("pyarrow", "a column of vectors")
    if column.null_count:
        raise ValueError(
            f"column {name!r} has rows without a vector, expected one in every row: drop these rows"
        )
    chunk = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type):
        return _read_dense(chunk, name)
    is_dense = chunk.field("type").to_numpy(zero_copy_only=False) == _DENSE
    values, sizes = chunk.field("values"), chunk.field("size")
    if is_dense.all():
        return _read_dense(values, name)
    lengths = np.diff(values.offsets.to_numpy())
    widths = np.where(is_dense, lengths, sizes.fill_null(0).to_numpy(zero_copy_only=False))
    width = _find_width(widths, name)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    indices = (np.arange(int(lengths.sum())) - starts).astype(np.int32)  # of dense vectors: 0, 1, 2, …
    indices[np.repeat(~is_dense, lengths)] = chunk.field("indices").flatten().to_numpy()
    numbers = values.flatten().to_numpy(zero_copy_only=False)
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    sparse = import_package("scipy.sparse", "a column of sparse vectors")
    return sparse.csr_matrix((numbers, indices, pointers), shape=(len(chunk), width))


def _read_dense(lists: Any, name: str) -> NDArray[np.float64]:
    """Convert lists of one length to a matrix."""
    width = _find_width(np.diff(lists.offsets.to_numpy()), name)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64).reshape(-1, width) if width else np.empty((len(lists), 0))


def _find_width(widths: NDArray[Any], name: str) -> int:
    """Return the length that all vectors have; raise if they differ, and return 0 if there are none."""
    if not len(widths):
        return 0
    other = next((int(width) for width in np.unique(widths) if width != widths[0]), None)
    if other is not None:
        raise ValueError(
            f"column {name!r} has vectors of {widths[0]} and of {other} numbers, expected one length: "
            "give every row the same columns"
        )
    return int(widths[0])
