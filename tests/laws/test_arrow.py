"""Arrow: a table of digits holds a statistic, and adding up digits, wherever that is done, is `+`."""

import datetime
import io
import json
import subprocess
import sys
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.stats import Gram, Moments, Sums, Tally

rng = np.random.default_rng(11)
x = rng.normal(1e6, 1.0, size=(60, 2))
NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 1)  # noqa: DTZ001
LABELS: dict[str, list[Any]] = {
    "strings": ["ham", "spam", "é"],
    "integers": [-3, 0, 2**62],
    "bools": [False, True, True],
    "floats": [-0.5, 0.25, 1e300],
    "bytes": [b"a", b"\xff", b""],
    "dates": [NOON.date(), datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)],
    "datetimes": [NOON, NOON.replace(hour=1), NOON.replace(microsecond=0)],
    "zoned datetimes": [
        NOON.replace(tzinfo=datetime.UTC),
        NOON.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        NOON.replace(tzinfo=datetime.UTC, hour=0),
    ],
}
STATISTICS: dict[str, tuple[Sums, Sums]] = {
    "diagonal": (Moments.observe(x[:30]), Moments.observe(-x[30:])),
    "full": (Moments.observe(x[:30], form="full"), Moments.observe(-x[30:], form="full")),
    "first": (Moments.observe(x[:30], form="none"), Moments.observe(-x[30:], form="none")),
    "one-dimensional": (Moments.observe(x[:30, 0]), Moments.observe(-x[30:, 0])),
    "Gram": (Gram.observe(x[:30], x[:30, 0]), Gram.observe(-x[30:], x[30:, 0])),
    "Tally": (Tally.observe(x[:30]), Tally.observe(x[30:])),
    "batched Tally": (Tally.observe(x[:30].reshape(5, 3, 2, 2)), Tally.observe(x[30:].reshape(5, 3, 2, 2))),
    "counts": (Tally.count(["a", "b"] * 15), Tally.count(["b", "c"] * 15)),
    "counts by label": (
        Tally.count([1, 2, 3] * 10, by=["a", "b"] * 15),
        Tally.count([3, 4, 5] * 10, 0.1 * np.arange(30), by=["b", "c"] * 15),
    ),
} | {
    f"by {name}": (
        Moments.observe(x[:30], by=labels[:2] * 15),
        Moments.observe(-x[30:], by=labels[1:] * 15),
    )
    for name, labels in LABELS.items()
}
every_pair = pytest.mark.parametrize("pair", STATISTICS.values(), ids=STATISTICS.keys())
PLACES = ["part", "label", "term", "cell", "exponent"]


@every_pair
def test_a_table_holds_its_statistic(pair: tuple[Sums, Sums]) -> None:
    for a in (*pair, pair[0] - pair[1], pair[0] - pair[0], 1e-3 * pair[0]):
        table = a.to_arrow()
        assert table.column_names == [*PLACES, "digits"]
        assert type(a).from_arrow(table) == a


@every_pair
def test_concatenating_is_adding(pair: tuple[Sums, Sums]) -> None:
    a, b = pair
    both = pa.concat_tables([a.to_arrow(), b.to_arrow()])
    assert type(a).from_arrow(both) == a + b
    assert type(a).from_arrow(both.take(rng.permutation(len(both)))) == a + b
    many = pa.concat_tables([a.to_arrow()] * 5 + [(-1 * b).to_arrow()] * 3)
    assert type(a).from_arrow(many) == 5 * a - 3 * b


@every_pair
def test_summing_digits_by_place_is_adding(pair: tuple[Sums, Sums]) -> None:
    a, b = pair
    both = pa.concat_tables([a.to_arrow(), b.to_arrow()])
    summed = both.group_by(PLACES).aggregate([("digits", "sum")]).rename_columns([*PLACES, "digits"])
    assert len(summed) <= len(both)
    assert type(a).from_arrow(summed.replace_schema_metadata(both.schema.metadata)) == a + b


@every_pair
def test_sql_can_merge(pair: tuple[Sums, Sums]) -> None:
    a, b = pair
    context = pl.SQLContext(a=pl.from_arrow(a.to_arrow()), b=pl.from_arrow(b.to_arrow()))
    query = f"""
        SELECT {", ".join(PLACES)}, SUM(digits) AS digits
        FROM (SELECT * FROM a UNION ALL SELECT * FROM b) AS both GROUP BY {", ".join(PLACES)}
    """
    merged = (
        context.execute(query, eager=True).to_arrow().replace_schema_metadata(a.to_arrow().schema.metadata)
    )
    assert type(a).from_arrow(merged) == a + b


@every_pair
def test_it_travels_as_parquet_and_as_bytes(pair: tuple[Sums, Sums]) -> None:
    a, _ = pair
    table = a.to_arrow()
    file = io.BytesIO()
    pq.write_table(table, file)
    assert type(a).from_arrow(pq.read_table(file)) == a
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    assert type(a).from_arrow(pa.ipc.open_stream(stream.getvalue())) == a
    assert type(a).from_arrow(table.combine_chunks().to_batches()[0]) == a


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8))
def test_any_sum_travels(values: list[float]) -> None:
    tally = Tally.observe(np.array(values, dtype=np.float64)[:, None])
    assert Tally.from_arrow(tally.to_arrow()) == tally


def test_digits_of_zero_are_left_out() -> None:
    assert Tally.observe([[2.0**64, 0.0]]).to_arrow().drop(["label", "term"]).to_pylist()[:-1] == [
        {"part": "weight", "cell": 0, "exponent": 0, "digits": 1},
        {"part": "total", "cell": 0, "exponent": 64, "digits": 1},
    ]
    nothing = Tally.observe(np.zeros((0, 2))).to_arrow()
    assert len(nothing) == 0


def test_a_statistic_that_lost_all_its_labels_can_be_added_to() -> None:
    a = Moments.observe(x, by=["a", "b"] * 30)
    nothing = (a - a).to_arrow()
    assert Moments.from_arrow(nothing) == a - a
    both = pa.concat_tables([nothing, a.to_arrow()], promote_options="default")
    assert Moments.from_arrow(both) == a


TABLE = Moments.observe(x).to_arrow()


def changed(column: str, values: Any) -> Any:
    return TABLE.set_column(TABLE.column_names.index(column), column, pa.array(values))


def described(**changes: Any) -> Any:
    header = json.loads(TABLE.schema.metadata[b"tamis"])
    return TABLE.replace_schema_metadata({"tamis": json.dumps({**header, **changes})})


REFUSED: dict[str, tuple[Any, str]] = {
    "rows lost": (TABLE.slice(0, len(TABLE) - 2), "got a table with other rows than were written"),
    "the check lost": (TABLE.slice(0, len(TABLE) - 1), "got a table with other rows than were written"),
    "a row twice": (
        pa.concat_tables([TABLE, TABLE.slice(3, 1)]),
        "got a table with other rows than were written",
    ),
    "a digit changed": (
        changed("digits", [1, *TABLE["digits"].to_pylist()[1:]]),
        "got a table with other rows than were written",
    ),
    "another form": (
        pa.concat_tables([TABLE, Moments.observe(x, form="none").to_arrow()]),
        "got a table with other rows than were written, or rows of a statistic with other metadata",
    ),
    "another shape": (
        described(shapes={"weight": [9], "first": [2], "second": [2]}),
        "got a table with other rows",
    ),
    "another part": (changed("part", ["third"] * len(TABLE)), "got a table with a part 'third'"),
    "a column lost": (TABLE.drop(["cell"]), "got a table with no column 'cell'"),
    "a column of another type": (
        changed("digits", ["a"] * len(TABLE)),
        "got a table with a column 'digits' of type string",
    ),
    "a null": (changed("cell", [None] * len(TABLE)), "got a table with a null in column 'cell'"),
    "another exponent": (
        changed("exponent", [7] * len(TABLE)),
        "got a table with an exponent that is no multiple of 32",
    ),
    "no metadata": (
        TABLE.replace_schema_metadata(None),
        "got a table without the metadata that to_arrow() wrote",
    ),
    "other metadata": (
        TABLE.replace_schema_metadata({"tamis": "?"}),
        "got a table with metadata that cannot be read",
    ),
    "a newer format": (
        described(format=2),
        "got a table of format 2, expected 1: read it with a newer tamis",
    ),
    "another kind": (
        Tally.observe(x).to_arrow(),
        "got a table of Tally, expected one of Moments: read it by Tally.from_arrow",
    ),
}


@pytest.mark.parametrize(("table", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_table_that_is_not_as_it_was_made_is_refused(table: pa.Table, message: str) -> None:
    with pytest.raises(ValueError, match=r"^got a table") as raised:
        Moments.from_arrow(table)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("table", [5, "table", None, {"digits": 1}])
def test_what_is_no_table_is_refused(table: object) -> None:
    with pytest.raises(TypeError, match=r"^got a \w+, expected a table made by to_arrow\(\)$"):
        Moments.from_arrow(table)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ["a", 1],
            "got labels of type int, str, expected all of one type among bool, int, float, str, bytes",
        ),
        ([1, 0.5], "got labels of type float, int, expected all of one type"),
        ([("a",), ("b",)], "got labels of type tuple, expected all of one type"),
        ([2**70, 1], "got labels that an Arrow column of int64 cannot hold"),
        ([NOON, NOON.replace(tzinfo=datetime.UTC)], "got labels that an Arrow column of timestamp"),
    ],
)
def test_labels_that_a_column_cannot_hold_are_refused(labels: list[Any], message: str) -> None:
    statistic = Moments.observe(x, by=labels * 30)
    with pytest.raises(TypeError) as raised:
        statistic.to_arrow()
    assert str(raised.value).startswith(message)
    with pytest.raises(TypeError, match=r"^got terms "):
        Tally.count(labels).to_arrow()


def test_without_pyarrow_one_line_says_what_to_install() -> None:
    script = """
import sys
sys.modules["pyarrow"] = None
from tamis.stats import Tally
Tally.observe([1.0]).to_arrow()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: statistics go to and from Arrow by pyarrow: install tamis[arrow]"
    )
    assert "During handling" not in done.stderr
