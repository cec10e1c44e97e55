"""Observing: one row, no rows, missing values, odd weights, and every container data come in."""

from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tamis.arrays import Matrix
from tamis.protocols import total
from tamis.stats import Exact, Gram, Moments, Tally

rng = np.random.default_rng(10)
x = rng.normal(100.0, 1.0, size=(50, 3))
FORMS: tuple[Literal["full", "diagonal", "none"], ...] = ("full", "diagonal", "none")
every_form = pytest.mark.parametrize("form", FORMS)


@every_form
def test_one_row_has_its_own_mean_and_no_variance(form: Literal["full", "diagonal", "none"]) -> None:
    one = Moments.observe(x[:1], form=form)
    assert one.mean.tolist() == x[0].tolist()
    if form != "none":
        assert one.variance.tolist() == [0.0, 0.0, 0.0]


@every_form
@pytest.mark.parametrize("filed", [False, True])
def test_no_rows_are_the_zero_of_addition(form: Literal["full", "diagonal", "none"], filed: bool) -> None:
    some = Moments.observe(x, form=form, by=["a", "b"] * 25 if filed else None)
    none = Moments.observe(x[:0], form=form, by=[] if filed else None)
    assert some + none == none + some == some
    assert some - some == none
    if not filed:
        assert np.isnan(none.mean).all()


def test_no_rows_of_anything_else_are_zero_too() -> None:
    assert Gram.observe(x[:0], x[:0, 0]) + Gram.observe(x, x[:, 0]) == Gram.observe(x, x[:, 0])
    assert Tally.observe(x[:0]) + Tally.observe(x) == Tally.observe(x)
    assert Tally.count([]) + Tally.count(["a"]) == Tally.count(["a"])
    assert Tally.count([], by=[]) + Tally.count(["a"], by=["b"]) == Tally.count(["a"], by=["b"])


@every_form
def test_no_columns_are_no_trouble(form: Literal["full", "diagonal", "none"]) -> None:
    empty = Moments.observe(np.empty((4, 0)), form=form)
    assert empty.mean.shape == (0,)
    assert empty + empty == 2 * empty


def test_one_dimension_has_no_column_axis() -> None:
    values = x[:, 0]
    for data in (values, values.tolist(), pd.Series(values), pl.Series(values), pa.chunked_array([values])):
        moments = Moments.observe(data)
        assert moments.mean.shape == ()
        assert moments.mean == Moments.observe(values[:, None]).mean[0]
    assert Moments.observe(values, by=["a", "b"] * 25).mean.shape == (2,)


@pytest.mark.parametrize(
    "wrap",
    [
        np.ndarray.tolist,
        np.asfortranarray,
        lambda a: a.astype(">f8"),
        lambda a: np.broadcast_to(a, a.shape),
        lambda a: np.vstack([a, a])[: len(a)],
        lambda a: np.frombuffer(b"x" + a.tobytes(), dtype=np.float64, offset=1).reshape(a.shape),
        np.matrix,
        np.ma.array,
        Matrix,
        pd.DataFrame,
        lambda a: pd.DataFrame(a).convert_dtypes(),
        lambda a: pl.DataFrame(a, schema=["a", "b", "c"]),
        lambda a: pa.table({name: a[:, j] for j, name in enumerate("abc")}),
        lambda a: a.astype(object),
    ],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_data_may_come_in_anything(wrap: Any) -> None:
    data = wrap(x)
    assert Moments.observe(data, form="full", exact=True) == Moments.observe(x, form="full", exact=True)
    assert Moments.observe(data) == Moments.observe(x)
    assert Tally.observe(data) == Tally.observe(x)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.uint64, np.bool_, np.float16, np.float32])
def test_numbers_of_every_type_are_summed_as_they_are(dtype: Any) -> None:
    data = (x[:, :2] > 100).astype(dtype)
    assert Moments.observe(data) == Moments.observe(data.astype(np.float64))


def test_integers_up_to_2_to_the_53_are_exact() -> None:
    widest = np.array([[2**53], [-(2**53)], [2**53]])
    assert Moments.observe(widest).first.value.tolist() == [2.0**53]


MISSING = [
    lambda: np.array([[1.0, np.nan], [3.0, 4.0], [np.nan, 8.0]]),
    lambda: pd.DataFrame({"a": [1.0, 3.0, None], "b": [None, 4.0, 8.0]}),
    lambda: pd.DataFrame({"a": [1, 3, None], "b": [None, 4, 8]}, dtype="Int64"),
    lambda: pl.DataFrame({"a": [1, 3, None], "b": [None, 4.0, 8.0]}),
    lambda: pa.table({"a": [1, 3, None], "b": [None, 4.0, 8.0]}),
    lambda: np.ma.masked_invalid([[1.0, np.nan], [3.0, 4.0], [np.nan, 8.0]]),
    lambda: [[1.0, None], [3.0, 4.0], [None, 8.0]],
]


@pytest.mark.parametrize("make", MISSING)
def test_a_missing_value_is_left_out_of_its_own_column_only(make: Any) -> None:
    moments = Moments.observe(make(), missing=True)
    assert moments.weight.value.tolist() == [2.0, 2.0]
    assert moments.mean.tolist() == [2.0, 6.0]
    assert moments.variance.tolist() == [1.0, 4.0]
    weighed = Moments.observe(make(), weights=[1.0, 2.0, 3.0], missing=True)
    assert weighed.weight.value.tolist() == [3.0, 5.0]
    assert weighed.first.value.tolist() == [7.0, 32.0]
    rows = [[1.0, np.nan]], [[3.0, 4.0]], [[np.nan, 8.0]]
    assert moments == total(Moments.observe(row, missing=True) for row in rows)


def test_a_column_that_is_missing_altogether_has_no_mean() -> None:
    moments = Moments.observe([[1.0, np.nan], [2.0, np.nan]], missing=True)
    assert moments.weight.value.tolist() == [2.0, 0.0]
    assert moments.mean[0] == 1.5
    assert np.isnan(moments.mean[1])
    assert np.isnan(moments.variance[1])


def test_a_row_of_weight_zero_was_not_there() -> None:
    weights = np.where(np.arange(50) < 20, 0.0, 1.5)
    for form in FORMS:
        assert Moments.observe(x, weights, form=form, exact=True) == Moments.observe(
            x[20:], weights[20:], form=form, exact=True
        )
    assert Gram.observe(x, x[:, 0], 0 * weights) == 0 * Gram.observe(x, x[:, 0])


@every_form
def test_a_negative_weight_takes_back(form: Literal["full", "diagonal", "none"]) -> None:
    sign = np.where(np.arange(100) < 50, 1.0, -1.0)
    nothing = Moments.observe(np.vstack([x, x]), sign, form=form, exact=True)
    assert nothing == 0 * nothing
    less = Moments.observe(x, -np.ones(50), form=form, exact=True)
    assert Moments.observe(x, form=form, exact=True) + less == nothing


def test_a_tally_may_have_batch_axes() -> None:
    values = rng.normal(size=(20, 2, 3, 4))
    tally = Tally.observe(values, by=["a", "b"] * 10)
    assert (tally.weight.shape, tally.total.shape) == ((2, 2, 3), (2, 2, 3, 4))
    np.testing.assert_allclose(tally.at("b").total.value, values[1::2].sum(axis=0), rtol=1e-13)
    assert Tally.observe(values[:0]).total == Exact.zeros((2, 3, 4))
