"""Arrow tables → batches: the columns to learn from, labels and weights, of types that all shards share."""

from dataclasses import dataclass
from typing import Any

from tamis.engines.batches import Batch
from tamis.engines.opening import Request
from tamis.extras import import_package

_NOTHING = "no values"  # of a column of nulls, which any shard may have
ROWS = 1 << 16  # in a batch that is read from a stream of rows


def import_arrow(module: str = "pyarrow") -> Any:
    """A module of pyarrow; the error says how to install it."""
    return import_package(module, "reading files in shards")


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The columns of a table that are read, and what each is for."""

    columns: tuple[str, ...]  # to learn from
    roles: dict[str, str]  # y, sample_weight, … → the name of its column
    types: dict[str, Any]  # the type of each of these columns, in the first shard

    @classmethod
    def of(cls, schema: Any, request: Request) -> "Layout":
        """The layout that a caller asks for, of a table of this Arrow schema."""
        columns = request.choose_columns(list(schema.names))
        if not columns:
            raise ValueError("got a table without columns to learn from, expected one besides the label")
        roles = dict(request.named_roles)
        return cls(
            tuple(columns), roles, {name: schema.field(name).type for name in (*columns, *roles.values())}
        )

    @property
    def names(self) -> list[str]:
        """All columns that are read, each once."""
        return list(self.types)

    def refuse_drift(self, schema: Any) -> None:
        """Raise if a shard of this Arrow schema lacks a column, or holds values of another kind there."""
        for name, kind in self.types.items():
            place = schema.get_field_index(name)
            if place < 0:
                raise ValueError(
                    f"there is no column {name!r}, which the first shard has: write all shards alike"
                )
            given, expected = describe_type(schema.field(place).type), describe_type(kind)
            if given != expected and _NOTHING not in (given, expected):
                raise ValueError(
                    f"column {name!r} holds {given}, expected {expected} as in the first shard: write all "
                    "shards alike"
                )

    def make_batch(self, table: Any, number: int) -> Batch:
        """The batch of a table, or of a record batch, that has the columns."""
        arrow = import_arrow()
        if isinstance(table, arrow.RecordBatch):
            table = arrow.Table.from_batches([table])
        self.refuse_drift(table.schema)
        values = {role: _to_values(table.column(name)) for role, name in self.roles.items()}
        y, weight = values.pop("y", None), values.pop("sample_weight", None)
        return Batch(table.select(list(self.columns)), y, weight, values, number)


def describe_type(kind: Any) -> str:
    """The values of a column of this Arrow type, whatever their width; of others, the name of the type."""
    types = import_arrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = {
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "whole numbers": (types.is_integer,),
        "numbers with fractions": (types.is_floating,),
        _NOTHING: (types.is_null,),
    }
    return next((name for name, checks in tests.items() if any(check(kind) for check in checks)), str(kind))


def _to_values(column: Any) -> Any:
    """One value per row, as an array; of dictionaries, the values."""
    arrow = import_arrow()
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.to_numpy()
