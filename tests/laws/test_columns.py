"""Large frames, whose columns lie apart in memory: what is learned from them is what their rows say."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tamis
from tamis.arrays import Array
from tamis.stats import Keys, Labels, Moments
from tamis.tables import Columns, Table

N, D = 20_000, 4
NAMES = [f"x{j}" for j in range(D)]


@pytest.fixture(name="x")
def make_rows() -> Array:
    return np.random.default_rng(0).normal(1e3, 1.0, size=(N, D))


@pytest.fixture(name="labels")
def make_labels() -> Labels:
    return Labels.of(np.random.default_rng(1).integers(0, 3, size=N))


def split(x: Array) -> list[Array]:
    return [np.ascontiguousarray(column) for column in x.T]


def make_frames(x: Array) -> list[Any]:
    columns: dict[str, Any] = dict(zip(NAMES, split(x), strict=True))
    return [pa.table(columns), pl.DataFrame(columns), pd.DataFrame(columns)]


def test_moments_of_columns_are_those_of_rows(x: Array, labels: Labels) -> None:
    assert Moments.observe_columns(split(x)) == Moments.observe(x)
    assert Moments.observe_columns(split(x), labels) == Moments.observe(x, by=labels)
    full = Moments.observe_unweighted(split(x))
    assert full is not None
    expected = Moments.observe(x, form="full")
    assert full == expected
    np.testing.assert_array_equal(full.rounded, expected.rounded)


def test_labels_without_rows_have_no_moments(x: Array, labels: Labels) -> None:
    more = Labels(Keys((0, 1, 2, 3)), labels.group)
    moments = Moments.observe_columns(split(x), more)
    assert moments == Moments.observe(x, by=labels)
    assert moments is not None
    assert moments.keys == labels.keys


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_values_that_need_a_check_are_left_to_rows(x: Array, value: float) -> None:
    x[17, 2] = value
    assert Moments.observe_columns(split(x)) is None
    assert Moments.observe_unweighted(split(x)) is None


def test_rows_that_would_be_summed_exactly_are_left_to_rows(x: Array) -> None:
    assert Moments.observe_unweighted(split(x[:16_000])) is None
    x[17, 2] = 1e9
    assert Moments.observe_unweighted(split(x)) is None
    assert Moments.observe_columns(split(x)) == Moments.observe(x)


def test_few_rows_and_many_labels_are_left_to_rows(x: Array) -> None:
    assert Moments.observe_columns(split(x[:200])) is None
    assert Moments.observe_columns(split(x), Labels.of(np.arange(N) % 65)) is None
    assert Moments.observe_columns(split(x), Labels.of(np.arange(N - 1) % 3)) is None


def test_a_large_frame_keeps_its_columns_and_is_stacked_once(x: Array) -> None:
    for frame in make_frames(x):
        table = Table.of(frame)
        assert isinstance(table.data, Columns)
        assert table.shape == (N, D)
        assert table.names == tuple(NAMES)
        np.testing.assert_array_equal(table.numbers(), x)
        assert table.numbers() is table.numbers()
        np.testing.assert_array_equal(table.numbers([2, 0]), x[:, [2, 0]])
        some = table.take(np.arange(9, 0, -1))
        np.testing.assert_array_equal(some.numbers(), x[9:0:-1])
        np.testing.assert_array_equal(table.select([3, 1]).numbers(), x[:, [3, 1]])
        assert [column.tolist() for column in table.list_separate_columns([1]) or []] == [x[:, 1].tolist()]


def test_columns_of_small_frames_and_of_rows_are_stacked_at_once(x: Array) -> None:
    assert Table.of(x).list_separate_columns() is None
    assert Table.of(make_frames(x[:10])[0]).list_separate_columns() is None
    strided = pd.DataFrame(x, columns=NAMES)
    np.testing.assert_array_equal(Table.of(strided).numbers(), x)


@pytest.mark.parametrize("kind", ["gaps", "chunks", "integers", "float32"])
def test_arrow_columns_that_cannot_be_read_in_place_are_converted(x: Array, kind: str) -> None:
    columns: dict[str, Any] = dict(zip(NAMES, split(x), strict=True))
    expected = x.copy()
    if kind == "gaps":
        expected[5, 1] = np.nan
        table = pa.table({**columns, "x1": pa.array(x[:, 1], mask=np.arange(N) == 5)})
    elif kind == "chunks":
        table = pa.concat_tables([pa.table(columns).slice(0, 7), pa.table(columns).slice(7)])
    elif kind == "integers":
        expected[:, 1] = np.round(x[:, 1])
        columns["x1"] = expected[:, 1].astype(np.int64)
        table = pa.table(columns)
    else:
        expected[:, 1] = x[:, 1].astype(np.float32)
        columns["x1"] = x[:, 1].astype(np.float32)
        table = pa.table(columns)
    np.testing.assert_array_equal(Table.of(table).numbers(), expected)


def test_a_slice_of_an_arrow_table_begins_where_it_should(x: Array) -> None:
    twice: dict[str, Any] = dict(zip(NAMES, split(np.vstack([x, x])), strict=True))
    table = pa.table(twice).slice(N // 2, N)
    np.testing.assert_array_equal(Table.of(table).numbers(), np.vstack([x[N // 2 :], x[: N // 2]]))


def test_naive_bayes_learns_the_same_from_a_large_frame(x: Array, labels: Labels) -> None:
    expected = tamis.GaussianNB().fit(x, labels.group).statistic_
    for frame in make_frames(x):
        once = tamis.GaussianNB().partial_fit(frame, labels.group)
        assert once.statistic_ == expected
        assert once.partial_fit(frame, labels.group).unlearn(frame, labels.group).statistic_ == expected
    weights = np.random.default_rng(2).exponential(size=N)
    weighted = tamis.GaussianNB().partial_fit(make_frames(x)[0], labels.group, sample_weight=weights)
    assert weighted.statistic_ == tamis.GaussianNB().fit(x, labels.group, weights).statistic_


def test_gaps_of_a_large_frame_are_left_out_and_infinity_is_refused(x: Array, labels: Labels) -> None:
    x[3, 1] = np.nan
    frame = make_frames(x)[0]
    model = tamis.GaussianNB().partial_fit(frame, labels.group)
    assert model.statistic_ == tamis.GaussianNB().fit(x, labels.group).statistic_
    x[4, 2] = np.inf
    with pytest.raises(ValueError, match="column 'x2' holds inf in row 4, expected finite numbers or NaN"):
        tamis.GaussianNB().partial_fit(make_frames(x)[0], labels.group)


@pytest.mark.parametrize("outlier", [None, 1e9])
def test_components_of_a_large_frame_are_those_of_its_rows(x: Array, outlier: float | None) -> None:
    if outlier is not None:
        x[7, 1] = outlier
    expected = tamis.PCA(2).fit(x)
    for frame in make_frames(x):
        model = tamis.PCA(2).fit(frame)
        assert model.statistic_ == expected.statistic_
        np.testing.assert_array_equal(model.components_, expected.components_)


def test_components_of_a_large_frame_with_gaps_name_the_column(x: Array) -> None:
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="column 'x1' holds NaN in row 3"):
        tamis.PCA(2).fit(make_frames(x)[0])
