"""Columns of a Spark data frame → batches: plain columns are a table of Arrow, vectors are a matrix.

Spark makes batches of Arrow row by row, and after each row adds up the sizes of all columns, which takes half
of the time that 20 columns of numbers take. So columns of one type travel as one column of arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.engines.batches import Batch
from tamis.engines.opening import Request
from tamis.extras import import_package

_VECTORS = ("vector", "array")  # of `pyspark.ml`, and Spark's own: several numbers in one column
_PACKED = ("tinyint", "smallint", "int", "bigint", "float", "double")  # types that travel in arrays
_FEWEST = 4  # columns of one type that do: an array has a cost of its own
_NUMBERS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True, slots=True)
class Packing:
    """Which columns travel alone, and which in arrays; the arrays are the last columns of a frame."""

    alone: tuple[str, ...]
    arrays: tuple[tuple[str, ...], ...]  # the columns of each, which are of one type

    @classmethod
    def of(cls, kinds: dict[str, str]) -> "Packing":
        """Choose how columns of these types travel."""
        by_kind: dict[str, list[str]] = {}
        for name, kind in kinds.items():
            if kind in _PACKED:
                by_kind.setdefault(kind, []).append(name)
        arrays = tuple(tuple(names) for names in by_kind.values() if len(names) >= _FEWEST)
        packed = {name for names in arrays for name in names}
        return cls(tuple(name for name in kinds if name not in packed), arrays)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, as `unpack` returns them."""
        return (*self.alone, *(name for names in self.arrays for name in names))

    def write(self, expressions: dict[str, str]) -> list[str]:
        """What a query selects, from the expression of each column.

        The query has names of its own: `mapInArrow` takes a point in a name for a field of a structure.
        """
        arrays = (f"array({', '.join(expressions[name] for name in names)})" for names in self.arrays)
        written = (*(expressions[name] for name in self.alone), *arrays)
        return [f"{expression} AS c{number}" for number, expression in enumerate(written)]

    def unpack(self, batch: Any) -> Any:
        """A batch of Arrow that such a query returns → one with the columns themselves."""
        pa = import_package("pyarrow", "a Spark data frame")
        columns = [batch.column(k) for k in range(len(self.alone))]
        for number, names in enumerate(self.arrays, len(self.alone)):
            columns += _split_lists(batch.column(number), len(names))
        return pa.record_batch(columns, names=list(self.names))


def _split_lists(lists: Any, width: int) -> list[Any]:
    """An array of lists of so many numbers → an array for each place in the lists."""
    pa = import_package("pyarrow", "a Spark data frame")
    values = lists.flatten()
    kind, missing = values.type, None
    if values.null_count:
        missing = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, width)
        values = values.fill_null(0)
    # copied by rows of a batch, which fit in the processor's cache
    columns = np.ascontiguousarray(values.to_numpy().reshape(-1, width).T)
    masks: Sequence[Any] = [None] * width if missing is None else list(missing.T)
    return [pa.array(column, kind, mask=mask) for column, mask in zip(columns, masks, strict=True)]


@dataclass(frozen=True, slots=True)
class ReadRows:
    """A table of Arrow → a batch."""

    columns: tuple[str, ...]
    roles: dict[str, str]  # the column of each argument of `fit` besides the rows
    is_vector: bool  # whether the only column holds vectors
    is_typed: bool = False  # whether the types of the columns say all that the first rows would say of them
    packing: Packing = Packing((), ())  # how the columns travel

    def __call__(self, table: Any) -> Batch:
        if self.is_vector:
            rows = read_vectors(table.column(self.columns[0]), self.columns[0])
        else:
            rows = table.select(list(self.columns))
        given = {role: _read_values(table.column(name)) for role, name in self.roles.items()}
        return Batch(rows, given.pop("y", None), given.pop("sample_weight", None), given)


def read_head(frame: Any, read: ReadRows, rows: int) -> Batch:
    """The first rows of a frame; none if the types of its columns say all, since reading takes a job."""
    pa = import_package("pyarrow", "a Spark data frame")
    if read.is_typed:
        return read(pa.table({name: pa.array([], pa.float64()) for name in read.packing.names}))
    table = frame.limit(rows).toArrow()
    batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    return read(pa.Table.from_batches(map(read.packing.unpack, batches)))


def name_kinds(frame: Any) -> dict[str, str]:
    """The type of each column, such as "double", "array" or "vector"."""
    return {field.name: field.dataType.simpleString().partition("<")[0] for field in frame.schema.fields}


def is_vector_kind(kind: str) -> bool:
    """Whether a column of this type holds several numbers in each row."""
    return kind in _VECTORS


def choose_rows(frame: Any, request: Request) -> tuple[Any, ReadRows]:
    """The columns of a frame that are needed, and how to read them."""
    kinds = name_kinds(frame)
    roles = request.named_roles
    columns = request.choose_columns(list(frame.columns))
    vectors = [name for name in columns if is_vector_kind(kinds[name])]
    if vectors and len(columns) > 1:
        other = next(name for name in columns if name != vectors[0])
        raise ValueError(
            f"got the column of vectors {vectors[0]!r} beside {other!r}, expected it alone: name it in "
            "columns=, or join all by VectorAssembler"
        )
    expressions, sent = {}, {}
    for name in dict.fromkeys((*columns, *roles.values())):
        is_decimal = kinds[name].startswith("decimal")  # faces read no decimals
        sent[name] = "double" if is_decimal else kinds[name]
        expressions[name] = f"CAST({_quote(name)} AS double)" if is_decimal else _quote(name)
    packing = Packing.of(sent)
    is_typed = all(kinds[name].partition("(")[0] in _NUMBERS for name in columns)
    read = ReadRows(tuple(columns), dict(roles), bool(vectors), is_typed, packing)
    return frame.selectExpr(*packing.write(expressions)), read


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _read_values(column: Any) -> NDArray[Any]:
    """Labels or numbers, one per row."""
    values: NDArray[Any] = column.to_numpy()
    return values


def read_vectors(column: Any, name: str) -> Any:
    """A column of arrays, or of vectors of `pyspark.ml` → a matrix (n, d), which is sparse if a vector is."""
    pa = import_package("pyarrow", "a column of vectors")
    if column.null_count:
        raise ValueError(
            f"column {name!r} has rows without a vector, expected one in every row: drop these rows"
        )
    chunk = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type):
        return _read_dense(chunk, name)
    kinds, sizes = chunk.field("type").to_numpy(zero_copy_only=False), chunk.field("size")
    values = chunk.field("values")
    if (kinds == 1).all():
        return _read_dense(values, name)
    lengths = np.diff(values.offsets.to_numpy())
    widths = np.where(kinds == 1, lengths, sizes.fill_null(0).to_numpy(zero_copy_only=False))
    width = _find_width(widths, name)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = (np.arange(int(lengths.sum())) - starts).astype(np.int32)  # of dense vectors: 0, 1, 2, …
    places[np.repeat(kinds != 1, lengths)] = chunk.field("indices").flatten().to_numpy()
    numbers = values.flatten().to_numpy(zero_copy_only=False)
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    sparse = import_package("scipy.sparse", "a column of sparse vectors")
    return sparse.csr_matrix((numbers, places, pointers), shape=(len(chunk), width))


def _read_dense(lists: Any, name: str) -> NDArray[np.float64]:
    width = _find_width(np.diff(lists.offsets.to_numpy()), name)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64).reshape(-1, width) if width else np.empty((len(lists), 0))


def _find_width(widths: NDArray[Any], name: str) -> int:
    if not len(widths):
        return 0
    other = next((int(width) for width in np.unique(widths) if width != widths[0]), None)
    if other is not None:
        raise ValueError(
            f"column {name!r} has vectors of {widths[0]} and of {other} numbers, expected one length: "
            "give every row the same columns"
        )
    return int(widths[0])
