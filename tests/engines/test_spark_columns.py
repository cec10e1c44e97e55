"""Columns of vectors, as Spark sends them in Arrow, are matrices; this needs no Spark."""

import sys
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tamis.engines.spark_columns import Packing, ReadRows, read_vectors

VECTOR = pa.struct(
    [
        ("type", pa.int8()),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
)


def make_dense(*values: float) -> dict[str, Any]:
    return {"type": 1, "size": None, "indices": None, "values": list(values)}


def make_sparse(size: int, **cells: float) -> dict[str, Any]:
    return {
        "type": 0,
        "size": size,
        "indices": [int(name[1:]) for name in cells],
        "values": list(cells.values()),
    }


def make_column(*rows: Any, kind: Any = VECTOR) -> Any:
    half = len(rows) // 2
    return pa.chunked_array([pa.array(rows[:half], kind), pa.array(rows[half:], kind)])


def test_dense_vectors_and_arrays_are_a_matrix() -> None:
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    np.testing.assert_array_equal(read_vectors(make_column(*(make_dense(*row) for row in rows)), "x"), rows)
    np.testing.assert_array_equal(read_vectors(make_column(*rows, kind=pa.list_(pa.float64())), "x"), rows)


def test_a_missing_number_of_an_array_is_nan() -> None:
    column = make_column([1.0, None], [3.0, 4.0], kind=pa.list_(pa.float64()))
    np.testing.assert_array_equal(read_vectors(column, "x"), [[1.0, np.nan], [3.0, 4.0]])


def test_sparse_vectors_are_a_sparse_matrix_among_dense_ones_too() -> None:
    column = make_column(
        make_sparse(4, x1=2.0), make_dense(1.0, 0.0, 3.0, 4.0), make_sparse(4), make_sparse(4, x0=5.0, x3=6.0)
    )
    matrix = read_vectors(column, "x")
    expected = [[0.0, 2.0, 0.0, 0.0], [1.0, 0.0, 3.0, 4.0], [0.0] * 4, [5.0, 0.0, 0.0, 6.0]]
    np.testing.assert_array_equal(matrix.toarray(), expected)


@pytest.mark.parametrize(
    "rows",
    [
        (make_dense(1.0), make_dense(1.0, 2.0)),
        (make_sparse(3, x1=1.0), make_sparse(2, x1=1.0)),
        (make_dense(1.0), make_dense()),
    ],
    ids=["dense", "sparse", "empty"],
)
def test_vectors_of_other_lengths_are_refused(rows: tuple[Any, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"^column 'x' has vectors of \d and of \d numbers, expected one length"
    ):
        read_vectors(make_column(*rows), "x")


def test_a_row_without_a_vector_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^column 'x' has rows without a vector, expected one in every row"):
        read_vectors(make_column(make_dense(1.0), None), "x")


def test_a_slice_of_a_column_has_the_rows_of_the_slice() -> None:
    column = make_column(
        make_sparse(2, x1=1.0), make_dense(1.0, 2.0), make_dense(3.0, 4.0), make_sparse(2, x0=7.0)
    )
    np.testing.assert_array_equal(
        read_vectors(column.slice(1, 3), "x").toarray(), [[1.0, 2.0], [3.0, 4.0], [7.0, 0.0]]
    )
    np.testing.assert_array_equal(read_vectors(column.slice(1, 2), "x"), [[1.0, 2.0], [3.0, 4.0]])


def test_labels_and_weights_are_beside_the_rows() -> None:
    table = pa.table({"a": [1.0, 2.0], "label": ["x", "y"], "w": [0.5, 1.0], "rate": [3.0, 4.0]})
    batch = ReadRows(("a",), {"y": "label", "sample_weight": "w", "offset": "rate"}, False)(table)
    assert batch.X.column_names == ["a"]
    assert (batch.y.tolist(), batch.sample_weight.tolist()) == (["x", "y"], [0.5, 1.0])
    assert batch.others["offset"].tolist() == [3.0, 4.0]


NUMBERS: dict[str, list[float | None]] = {
    "a": [0.0, -0.0, 1e-310],
    "b": [None, np.nan, 1.0],
    "c": [None, None, None],
    "d": [np.inf, -np.inf, 1e8],
}
COLUMNS: dict[str, Any] = {
    "word": pa.array(["x", None, "y"]),
    **{name: pa.array(values, pa.float64()) for name, values in NUMBERS.items()},
    **{f"n{k}": pa.array([2**62 + k, None, -k], pa.int64()) for k in range(4)},
    "flag": pa.array([True, False, None]),
    **{f"i{k}": pa.array([k, 1, 2], pa.int32()) for k in range(3)},
}
KINDS = {
    name: {"string": "string", "double": "double", "int64": "bigint", "bool": "boolean", "int32": "int"}[
        str(column.type)
    ]
    for name, column in COLUMNS.items()
}


def pack(packing: Packing) -> Any:
    """What Spark returns for the query that the packing writes."""
    arrays = [
        pa.array(list(zip(*(COLUMNS[name].to_pylist() for name in names), strict=True)), kind)
        for names, kind in zip(packing.arrays, (pa.list_(pa.float64()), pa.list_(pa.int64())), strict=True)
    ]
    columns = [*(COLUMNS[name] for name in packing.alone), *arrays]
    return pa.record_batch(columns, names=[str(k) for k in range(len(columns))])


def test_four_columns_of_one_type_travel_as_arrays_and_come_back_as_they_were() -> None:
    packing = Packing.of(KINDS)
    assert packing.arrays == (tuple(NUMBERS), ("n0", "n1", "n2", "n3"))
    assert packing.alone == ("word", "flag", "i0", "i1", "i2")
    batch = pack(packing)
    for start, rows in ((0, 3), (1, 2), (2, 1), (3, 0)):
        unpacked = packing.unpack(batch.slice(start, rows))
        assert unpacked.schema.names == list(packing.names)
        for name, column in COLUMNS.items():
            own, expected = unpacked.column(packing.names.index(name)), column.slice(start, rows)
            assert own.type == expected.type
            # as text, in which NaN, a missing value and the sign of zero differ
            assert repr(own.to_pylist()) == repr(expected.to_pylist())


def test_a_query_has_names_of_its_own() -> None:
    packing = Packing.of(dict.fromkeys(("x.y", "x`y", "c0", "c1"), "double") | {"word": "string"})
    assert packing.write({name: f"<{name}>" for name in packing.names}) == [
        "<word> AS c0",
        "array(<x.y>, <x`y>, <c0>, <c1>) AS c1",
    ]
    alone = Packing.of({"x.y": "double"})
    assert alone.write({"x.y": "<x.y>"}) == ["<x.y> AS c0"]
    assert alone.unpack(pa.record_batch([pa.array([1.0])], names=["c0"])).schema.names == ["x.y"]


def test_a_stage_without_spark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "tamis.engines.spark_ml", raising=False)
    with pytest.raises(ImportError) as raised:
        import_module("tamis.engines.spark_ml")
    assert str(raised.value) == (
        'tamis.engines.spark_ml needs PySpark, which is not installed: pip install "tamis[spark]"'
    )
