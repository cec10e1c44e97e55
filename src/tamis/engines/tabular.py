"""Convert Arrow tables to batches: the columns to learn from, labels and weights, with types checked.

A shard is a part of the data that is read at a time, such as some row groups of a Parquet file or a record
batch, and not always a file.
"""

from dataclasses import dataclass
from typing import Any

from tamis.engines.batches import Batch
from tamis.engines.opening import Request  # the arguments of `fit`
from tamis.extras import import_package

_NO_VALUES = "no values"  # describes the type of a column of nulls, which is compatible with any type
ROWS_PER_BATCH = 1 << 16  # rows that are read at a time from a file or database


def import_arrow(module: str = "pyarrow") -> Any:
    """Import a module of pyarrow; if it is missing, the error says how to install it."""
    needed_for = "reading files in shards"  # in the error message
    return import_package(module, needed_for)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The columns of a table that are read: which to learn from, and which are labels or weights."""

    columns: tuple[str, ...]  # the columns to learn from
    roles: dict[str, str]  # from arguments of `fit`, such as y, to names of columns
    types: dict[str, Any]  # from the names of all these columns to their Arrow types in the first shard

    @classmethod
    def of(cls, schema: Any, request: Request) -> "Layout":
        """Choose the columns of a table with this Arrow schema, as the arguments of `fit` say."""
        columns = request.choose_columns(list(schema.names))
        if not columns:
            raise ValueError("got a table without columns to learn from, expected one besides the label")
        roles = dict(request.named_roles)  # raises TypeError if a label or weight is not a column's name
        return cls(
            tuple(columns), roles, {name: schema.field(name).type for name in (*columns, *roles.values())}
        )

    @property
    def names(self) -> list[str]:
        """The names of all columns that are read, each once."""
        return list(self.types)

    def refuse_drift(self, schema: Any) -> None:
        """Raise if a shard lacks a column of the first shard, or has it in an incompatible type.

        Types that `describe_type` describes alike are compatible, and so is a column of nulls with any type.
        """
        for name, arrow_type in self.types.items():
            index = schema.get_field_index(name)
            if index < 0:
                raise ValueError(
                    f"there is no column {name!r}, which the first shard has: write all shards alike"
                )
            if schema.field(index).type.equals(arrow_type):
                continue
            given, expected = describe_type(schema.field(index).type), describe_type(arrow_type)
            if given != expected and _NO_VALUES not in (given, expected):
                raise ValueError(
                    f"column {name!r} holds {given}, expected {expected} as in the first shard: write all "
                    "shards alike"
                )

    def make_batch(self, table: Any, number: int) -> Batch:
        """Make the batch of shard `number` from an Arrow table or record batch."""
        arrow = import_arrow()
        if isinstance(table, arrow.RecordBatch):
            table = arrow.Table.from_batches([table])
        self.refuse_drift(table.schema)
        rows = table.select(list(self.columns))
        role_values = {role: _to_values(table.column(name)) for role, name in self.roles.items()}
        return Batch.from_roles(rows, role_values, number)


def describe_type(arrow_type: Any) -> str:
    """Describe an Arrow type in words, without its size: whole numbers of 8 and of 64 bits are the same."""
    types = import_arrow().types
    if types.is_dictionary(arrow_type):  # categories: codes, and a dictionary of the values that they mean
        arrow_type = arrow_type.value_type
    tests = {
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "whole numbers": (types.is_integer,),
        "numbers with fractions": (types.is_floating,),
        _NO_VALUES: (types.is_null,),
    }
    names = (name for name, checks in tests.items() if any(check(arrow_type) for check in checks))
    return next(names, str(arrow_type))


def _to_values(column: Any) -> Any:
    """Convert a column to an array (n,), decoding categories; nulls become NaN, NaT or None."""
    arrow = import_arrow()
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    # The array of one chunk can share its memory, but pyarrow documents that of a chunked column as a copy.
    return column.chunk(0).to_numpy(zero_copy_only=False) if column.num_chunks == 1 else column.to_numpy()
