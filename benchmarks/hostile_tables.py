"""Arrow tables of statistics that a stranger might send: valid ones, with changes and a check that fits."""

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.hostile_files import INTEGERS, parent_of, places_in, value_from
from tamis.stats import Gram, Moments, Tally

__all__ = ["Table", "forged_table", "mutated_table", "read_table", "tables"]


@dataclass
class Table:
    """A statistic as an Arrow table."""

    name: str
    kind: Any
    table: pa.Table


def tables() -> list[Table]:
    """A table of each kind of statistic."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(8, 3)) * 1e6, ["a", "b"] * 4
    found = [
        Tally.observe(rows),
        Tally.observe(rows, by=labels),
        Tally.count(["x", "y", "x", "z"] * 2, by=labels),
        Moments.observe(rows, by=labels),
        Moments.observe(rows, form="full", by=[1, 2] * 4),
        Moments.observe(rows[:, 0], form="none"),
        Gram.observe(rows, rows[:, 0]),
    ]
    return [Table(f"{n}-{type(one).__name__}", type(one), one.to_arrow()) for n, one in enumerate(found)]


def _taken_apart(one: Table) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a table, less its check, and its header."""
    rows = [row for row in one.table.to_pylist() if row["part"] != "check"]
    return rows, json.loads(one.table.schema.metadata[b"tamis"])


def forged_table(
    one: Table, rows: Mapping[int, Mapping[str, Any]] | None = None, header: Mapping[str, Any] | None = None
) -> pa.Table:
    """The table with these rows, by number, and words of its header changed, and a check that fits."""
    own, said = _taken_apart(one)
    for number, changes in (rows or {}).items():
        own[number].update(changes)
    return _put_together(own, {**said, **(header or {})}, one)


def mutated_table(rng: Random, one: Table, others: Sequence[Table]) -> pa.Table:
    """A table with some rows, columns or words of its header changed; mostly with a check that fits."""
    rows, header = _taken_apart(one)
    for _ in range(rng.choice([1, 1, 2, 3])):
        way = rng.randrange(9)
        row = rng.choice(rows) if rows else {}
        if way <= 2 and row:
            name = rng.choice(["cell", "exponent", "digits", "digits", "exponent"])
            row[name] = rng.choice(INTEGERS) * (32 if name == "exponent" and rng.random() < 0.7 else 1)
        elif way == 3 and row:
            row[rng.choice(["part", "label", "term"])] = rng.choice([None, "weight", "total", "first", "q"])
        elif way == 4 and rows:
            rows = [dict(each) for each in rows for _ in range(rng.choice([0, 1, 1, 2]))]
        elif way == 5:
            shapes = header["shapes"]
            if isinstance(shapes, dict) and shapes:
                shapes[rng.choice(list(shapes))] = [
                    rng.choice([0, 1, 3, 6, 30_000_000, 2**40, -1]) for _ in range(rng.randrange(4))
                ]
        elif way == 6:
            place = rng.choice(places_in(header))
            parent_of(header, place)[place[-1]] = rng.choice([value_from(rng), rng.choice(INTEGERS)])
        elif way == 7:
            theirs = json.loads(rng.choice(others).table.schema.metadata[b"tamis"])
            header[rng.choice(["shapes", "traits", "filed", "termed", "kind"])] = theirs["shapes"]
        elif way == 8:
            header["shapes"] = header["traits"] if rng.random() < 0.1 else header["shapes"]
    return _with_odd_columns(rng, _put_together(rows, header, one))


def _put_together(rows: list[dict[str, Any]], header: dict[str, Any], one: Table) -> pa.Table:
    raw = json.dumps(header).encode()
    fields = {name: [row[name] for row in rows] for name in one.table.column_names}
    arrays: dict[str, Any] = {}
    for name, values in fields.items():
        if name in ("cell", "digits", "exponent"):
            values = [min(max(int(value), -(2**63)), 2**63 - 1) for value in values]
            arrays[name] = pa.array(values, type=pa.int64())
        else:
            arrays[name] = pa.array(
                [None if value is None else str(value) for value in values], type=pa.string()
            )
    table = pa.table(arrays).replace_schema_metadata({b"tamis": raw})
    module = importlib.import_module("tamis.stats.arrow")
    try:  # the sum of a table that was made so
        parts = [*header["shapes"], "check"]
        check = getattr(module, "_decode")(table, parts).check(raw)  # noqa: B009 (as a forger would)
    except Exception:  # noqa: BLE001
        check = 1
    last: dict[str, Any] = {name: [None] for name in arrays} | {
        "part": ["check"],
        "cell": [0],
        "exponent": [0],
        "digits": [check],
    }
    return pa.concat_tables([table, pa.table(last, schema=table.schema)])


def _with_odd_columns(rng: Random, table: pa.Table) -> pa.Table:
    """Now and then, a column is missing, twice there, or of another type."""
    if rng.random() < 0.1:
        name = rng.choice(table.column_names)
        place = table.column_names.index(name)
        way = rng.randrange(4)
        if way == 0:
            table = table.drop_columns([name])
        elif way == 1:
            table = table.append_column(name, table[name])
        elif way == 2:
            table = table.set_column(place, name, table[name].combine_chunks().dictionary_encode())
        else:
            table = table.set_column(place, name, pa.array([[1, 2]] * len(table)))
    return table


def read_table(kind: Any, table: pa.Table) -> str:
    try:
        statistic = kind.from_arrow(table)
    except ValueError as refusal:
        if "\n" in str(refusal):
            raise AssertionError(f"not one line: {refusal}") from None
        return "refused"
    for use in (
        lambda: statistic + statistic,
        lambda: statistic * 0.5,
        lambda: [part.value for part in statistic.parts().values()],
        lambda: (statistic.mean, getattr(statistic, "scatter", None)),
        lambda: kind.from_arrow(statistic.to_arrow()) == statistic,
    ):
        try:
            use()
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001
            continue
    return "used"
