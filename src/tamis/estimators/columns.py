"""families="auto", one name, or a mapping → the block that each column belongs to."""

from collections.abc import Mapping
from typing import Any

from tamis.estimators.reading import Schema
from tamis.models import Block
from tamis.tables import Kind

FAMILIES = ("gaussian", "bernoulli", "categorical", "poisson", "multinomial")

_AUTOMATIC: dict[Kind, str] = {"bool": "bernoulli", "category": "categorical", "number": "gaussian"}


def family_of_each(schema: Schema, families: str | Mapping[Any, str], integers: str) -> list[str]:
    """The family of each column, as asked or as its type says."""
    chosen: Mapping[Any, str] = families if isinstance(families, Mapping) else {}
    default = families if isinstance(families, str) else "auto"
    for name, family in (*chosen.items(), ("families", default), ("integers", integers)):
        if family not in (*FAMILIES, "auto") or (name == "integers" and family == "auto"):
            raise ValueError(f"got {family!r} for {name!r}, expected one of {', '.join(FAMILIES)}")
    known = {schema.name(j) for j in range(schema.width)} | set(range(schema.width))
    if unknown := [name for name in chosen if name not in known]:
        raise ValueError(f"families names a column {unknown[0]!r}, which the data does not have")
    found = []
    for j in range(schema.width):
        # a number is a place only where no column has it for a name
        place = default if schema.names is not None and j in schema.names else chosen.get(j, default)
        family = chosen.get(schema.name(j), place)
        if family == "auto":
            kind = schema.kind(j)
            family = integers if kind == "integer" else _AUTOMATIC[kind]
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
