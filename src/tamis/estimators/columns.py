"""families="auto", one name, or a mapping → the block that each column belongs to."""

from collections.abc import Mapping
from typing import Any

from tamis.arrays import one_line
from tamis.models.generative import Block
from tamis.schema import ColumnKind, Schema
from tamis.warning import warn

FAMILIES = ("gaussian", "bernoulli", "categorical", "poisson", "multinomial")

_AUTOMATIC: dict[ColumnKind, str] = {
    "bool": "bernoulli",
    "category": "categorical",
    "number": "gaussian",
    "unknown": "gaussian",  # until the first value comes
}


def family_of_each(schema: Schema, families: str | Mapping[Any, str], integers: str) -> list[str]:
    """The family of each column, as asked or as its type says."""
    chosen: Mapping[Any, str] = families if isinstance(families, Mapping) else {}
    default = "auto" if isinstance(families, Mapping) else families
    asked: list[tuple[Any, object]] = [*chosen.items(), ("families", default), ("integers", integers)]
    for name, family in asked:
        known = isinstance(family, str) and family in (*FAMILIES, "auto")
        if not known or (name == "integers" and family == "auto"):
            where = f" in families={one_line(families)}" if name in chosen else ""
            raise ValueError(
                f"got {one_line(family)} for {name!r}{where}, expected one of {', '.join(FAMILIES)}"
            )
    columns = {schema.name(j) for j in range(schema.width)} | set(range(schema.width))
    if unknown := [name for name in chosen if name not in columns]:
        raise ValueError(f"families names a column {unknown[0]!r}, which the data does not have")
    remarks = dict(schema.remarks)
    found = []
    for j in range(schema.width):
        # a number is a place only where no column has it for a name
        place = default if schema.names is not None and j in schema.names else chosen.get(j, default)
        family = chosen.get(schema.name(j), place)
        if family == "auto":
            kind = schema.kind(j)
            family = integers if kind == "integer" else _AUTOMATIC[kind]
            if j in remarks:
                warn(remarks[j], UserWarning)
        found.append(family)
    return found


def column_families(
    schema: Schema,
    families: str | Mapping[Any, str],
    integers: str,
    prototypes: Mapping[str, Block[Any, Any]],
) -> dict[str, Block[Any, Any]]:
    """A block for each family that some column has."""
    columns: dict[str, list[int]] = {}
    for place, family in enumerate(family_of_each(schema, families, integers)):
        columns.setdefault(family, []).append(place)
    if len(columns) == 1 and "categorical" not in columns:
        (family,) = columns
        return {family: prototypes[family]}  # all columns, whatever their number: sparse rows stay so
    return {family: prototypes[family].of(tuple(places)) for family, places in columns.items()}
