"""Refusals: one line that says what was given, what was expected and what to do, and names the place."""

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from tamis.stats import Exact, Gram, Moments, Sums, Tally

good = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
statistic = Moments.observe(good)


def refusal(
    action: Callable[..., object], *given: object, kind: type[Exception] = ValueError, **named: object
) -> str:
    """The one line that the action raises; nothing else may have changed."""
    before = Moments.observe(good)
    with pytest.raises(kind) as raised:
        action(*given, **named)
    assert statistic == before
    message = str(raised.value)
    assert "\n" not in message
    assert raised.value.__cause__ is None
    return message


def spoiled(value: float) -> np.ndarray:
    data = good.copy()
    data[2, 1] = value
    return data


def frames(data: np.ndarray) -> list[Any]:
    columns: dict[str, Any] = {"height": data[:, 0], "weight": data[:, 1]}
    return [pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)]


OBSERVERS: list[Callable[[Any], Sums]] = [
    lambda data: Moments.observe(data),
    lambda data: Moments.observe(data, form="full"),
    lambda data: Moments.observe(data, form="full", exact=True),
    lambda data: Moments.observe(data, form="none"),
    lambda data: Moments.observe(data, weights=[1.0, 2.0, 3.0], by=["a", "b", "a"]),
    lambda data: Tally.observe(data),
    lambda data: Gram.observe(data, [1.0, 2.0, 3.0]),
]
every_observer = pytest.mark.parametrize("observe", OBSERVERS)


@every_observer
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_with_its_place(observe: Callable[[Any], Sums], value: float) -> None:
    data = spoiled(value)
    expected = (
        f"holds {value} in row 2, expected finite numbers: "
        "drop or fill those rows, or use a model that takes NaN"
    )
    assert refusal(lambda: observe(data)) == f"column 1 {expected}"
    for frame in frames(data):
        assert refusal(observe, frame) == f"column 'weight' {expected}"


def test_what_is_not_finite_among_the_targets_is_named_too() -> None:
    message = refusal(lambda: Gram.observe(good, [1.0, np.nan, 2.0]))
    assert message.startswith("column 'target 0' holds nan in row 1, expected finite numbers")
    frame = pd.DataFrame({"price": [1.0, np.nan, 2.0]})
    assert refusal(lambda: Gram.observe(good, frame)).startswith("column 'price' holds nan in row 1")


def test_infinity_is_not_a_missing_value() -> None:
    assert refusal(lambda: Moments.observe(spoiled(np.inf), missing=True)).startswith(
        "column 1 holds inf in row 2"
    )


def test_missing_values_have_no_full_form() -> None:
    message = refusal(lambda: Moments.observe(good, form="full", missing=True))
    assert message == "got missing=True for the full form, expected form='diagonal', or rows without NaN"


TOO_WIDE = (
    "expected integers up to 2**53, which float64 holds exactly: rescale them, or treat them as categories"
)


@pytest.mark.parametrize("wide", [2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**70])
def test_integers_that_float64_cannot_hold_are_refused(wide: int) -> None:
    assert refusal(Moments.observe, [[1, 2], [3, wide]]) == f"column 1 holds {wide} in row 1, {TOO_WIDE}"
    assert refusal(Moments.observe, good[:2], weights=[1, wide]) == f"weight 1 is {wide}, {TOO_WIDE}"


@pytest.mark.parametrize("null", [[], [None]])
def test_integers_that_float64_cannot_hold_are_refused_by_the_name_of_their_column(null: list[None]) -> None:
    column = [1, 2**53 + 1, *null]
    tables: list[Any] = [
        pd.DataFrame({"id": pd.array(column, dtype="Int64")}),
        pl.DataFrame({"id": column}),
        pa.table({"id": column}),
    ]
    for table in tables:
        message = refusal(Moments.observe, table, missing=True)
        assert message == f"column 'id' holds {2**53 + 1} in row 1, {TOO_WIDE}"


@every_observer
def test_words_are_not_numbers(observe: Callable[[Any], Sums]) -> None:
    cure = "encode it, or use a categorical family"
    words = [["1", "x"], ["2", "y"], ["3", "z"]]
    assert refusal(observe, words, kind=TypeError) == f"data is of type <U1, expected real numbers: {cure}"
    objects = np.array([[1, 2], [3, "x"], [5, 6]], dtype=object)
    assert (
        refusal(observe, objects, kind=TypeError) == f"column 1 holds 'x' in row 1, expected numbers: {cure}"
    )
    frame: dict[str, Any] = {"height": [1.0, 2.0, 3.0], "colour": ["red", "green", "blue"]}
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        message = refusal(observe, make(frame), kind=TypeError)
        assert message.startswith("column 'colour' ")
        assert message.endswith(cure)


@pytest.mark.parametrize(
    "data",
    [
        [datetime.date(2026, 1, 1)],
        [b"1.5"],
        pl.DataFrame({"a": [[1.0], [2.0]]}),
    ],
)
def test_other_things_are_not_numbers_either(data: Any) -> None:
    assert refusal(lambda: Moments.observe(data), kind=TypeError).endswith(
        "encode it, or use a categorical family"
    )


def test_dates_are_not_numbers_either() -> None:
    dates = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")
    said = refusal(lambda: Moments.observe(dates), kind=TypeError)
    assert said.endswith("turn dates into numbers, such as days since a start")


def test_complex_numbers_are_refused() -> None:
    assert "expected real numbers" in refusal(lambda: Moments.observe(np.array([1 + 2j])), kind=ValueError)


SPARSE = (
    "got a sparse csr_array, expected a dense array: "
    "call .toarray() if it fits in memory, or use a model that takes sparse input"
)


@pytest.mark.parametrize(
    ("data", "kind", "expected"),
    [
        (5.0, ValueError, "got an array of 0 dimensions, expected rows and columns: reshape it to (n, d)"),
        (
            np.ones((2, 2, 2)),
            ValueError,
            "got an array of 3 dimensions, expected rows and columns: reshape it to (n, d)",
        ),
        ([[1.0, 2.0], [3.0]], ValueError, "got a list of rows of different lengths, expected equal lengths"),
        (scipy.sparse.csr_array(good), TypeError, SPARSE),
        (
            pl.LazyFrame({"a": [1.0]}),
            TypeError,
            "got a lazy LazyFrame, expected rows in memory: call .collect() first",
        ),
    ],
)
def test_data_of_another_shape_are_refused(data: Any, kind: type[Exception], expected: str) -> None:
    assert refusal(lambda: Moments.observe(data), kind=kind) == expected


@pytest.mark.parametrize(
    ("weights", "kind", "expected"),
    [
        ([1.0, 2.0], ValueError, "got weights of shape (2,), expected one per row: (3,)"),
        ([[1.0], [2.0], [3.0]], ValueError, "got weights of shape (3, 1), expected one per row: (3,)"),
        (2.0, ValueError, "got weights of shape (), expected one per row: (3,)"),
        (
            [1.0, np.nan, 1.0],
            ValueError,
            "weight 1 is nan, expected a finite number: drop or correct that row",
        ),
        (
            [1.0, 2.0, -np.inf],
            ValueError,
            "weight 2 is -inf, expected a finite number: drop or correct that row",
        ),
        ([1.0, None, 1.0], ValueError, "weight 1 is nan, expected a finite number: drop or correct that row"),
        (
            ["1", "2", "3"],
            TypeError,
            "weights is of type <U1, expected real numbers: encode it, or use a categorical family",
        ),
    ],
)
def test_weights_are_one_finite_number_a_row(weights: Any, kind: type[Exception], expected: str) -> None:
    for observe in (Moments.observe, Tally.observe):
        assert refusal(observe, good, weights, kind=kind) == expected
    assert refusal(lambda: Gram.observe(good, good[:, 0], weights), kind=kind) == expected
    assert refusal(lambda: Tally.count(["a", "b", "c"], weights), kind=kind) == expected


@pytest.mark.parametrize(
    ("labels", "kind", "expected"),
    [
        (["a", "b"], ValueError, "got 2 labels for 3 rows, expected one per row"),
        (["a", None, "b"], ValueError, "label 1 is None, expected a value: drop the row, or label it"),
        ([1.0, 2.0, np.nan], ValueError, "label 2 is nan, expected a value: drop the row, or label it"),
        (
            np.array([1.0, np.nan, 2.0]),
            ValueError,
            "label 1 is nan, expected a value: drop the row, or label it",
        ),
        (
            pd.Series([1, pd.NA, 2]),
            ValueError,
            "label 1 is <NA>, expected a value: drop the row, or label it",
        ),
        (
            pl.Series(["a", None, "b"]),
            ValueError,
            "label 1 is None, expected a value: drop the row, or label it",
        ),
        (
            np.array(["2026", "NaT", "2025"], dtype="datetime64[D]"),
            ValueError,
            "label 1 is None, expected a value: drop the row, or label it",
        ),
        (
            [["a"], ["b"], ["c"]],
            TypeError,
            "label 0 is ['a']: an argument must be a string, a number or another hashable value",
        ),
        (good, ValueError, "got labels of shape (3, 2), expected one label per row: pass one column"),
        (
            pd.DataFrame(good),
            TypeError,
            "got labels of type DataFrame, expected one label per row, in their order",
        ),
        ("abc", TypeError, "got labels of type str, expected one label per row, in their order"),
        ({1, 2, 3}, TypeError, "got labels of type set, expected one label per row, in their order"),
        (7, TypeError, "got labels of type int, expected one label per row, in their order"),
    ],
)
def test_labels_are_one_value_a_row(labels: Any, kind: type[Exception], expected: str) -> None:
    for observe in (Moments.observe, Tally.observe):
        assert refusal(observe, good, by=labels, kind=kind) == expected
    assert refusal(lambda: Gram.observe(good, good[:, 0], by=labels), kind=kind) == expected


def test_squares_that_leave_the_range_of_floats_are_refused() -> None:
    expected = "holds 1e+200, expected magnitudes that can be squared (below about 1e150): rescale the column"
    data = spoiled(-1e200)
    for observe in OBSERVERS[:3]:
        assert refusal(observe, data) == f"column 1 {expected}"
        for frame in frames(data):
            message = refusal(observe, frame)
            assert message == f"column 'weight' {expected}"
    message = refusal(lambda: Moments.observe(spoiled(1e140), weights=[1.0, 1.0, 1e30]))
    assert message.startswith("column 1 holds 1e+140, expected magnitudes that can be squared and weighted")


def test_weights_whose_squares_leave_the_range_of_floats_are_refused() -> None:
    rows, weights = np.linspace(0.1, 0.9, 40)[:, None], np.full(40, 1e298)
    expected = "got a weight of 1e+298, expected below about 1e150: divide the weights by a constant"
    assert refusal(Moments.observe, rows, weights) == expected
    assert refusal(Gram.observe, rows, rows, weights) == expected
    assert np.isfinite(Moments.observe(rows, weights=np.full(40, 1e140)).variance).all()


def test_counts_and_rows_must_match() -> None:
    assert (
        refusal(lambda: Tally.count(["a", "b"], by=["x"]))
        == "got 1 labels for 2 values, expected one per value"
    )
    message = refusal(lambda: Gram.observe(good, [1.0]))
    assert message == "got 3 rows of features and 1 of targets, expected the same number of each"
    message = refusal(lambda: Moments.observe(good, form="round"))  # type: ignore[arg-type]
    assert message == "got form='round', expected 'full', 'diagonal' or 'none'"


UNLIKE: list[tuple[Sums, Sums]] = [
    (statistic, Moments.observe(good[:, :1])),
    (statistic, Moments.observe(good, form="none")),
    (Moments.observe(good, form="none"), statistic),
    (Moments.observe(good, form="full"), statistic),
    (Moments.observe(good[:, 0]), Moments.observe(good[:, :1])),
    (Gram.observe(good, good[:, 0]), Gram.observe(good[:, :1], good)),
    (Tally.observe(good), Tally.observe(good[:, :1])),
]


@pytest.mark.parametrize(("left", "right"), UNLIKE)
def test_statistics_of_other_shapes_do_not_combine(left: Sums, right: Sums) -> None:
    for action in (lambda: left + right, lambda: left - right, lambda: right + left):
        message = refusal(action)
        assert message.startswith(f"cannot combine {type(left).__name__}(")
        assert message.endswith("expected the same columns, form and batch axes")


def test_statistics_filed_by_label_combine_with_their_like_only() -> None:
    filed = Moments.observe(good, by=["a", "b", "a"])
    for action in (lambda: filed + statistic, lambda: statistic - filed):
        assert refusal(action).endswith("expected both grouped by label, or neither")
    named, numbered = Tally.count(["a", "b"]), Tally.observe([[1.0, 1.0]])
    assert (
        refusal(lambda: named + numbered)
        == "cannot combine a Tally of named terms with one of numbered terms"
    )


@pytest.mark.parametrize("other", [Tally.observe(good), 1, 1.5, None, "a"])
def test_other_kinds_do_not_combine(other: Any) -> None:
    for action in (lambda: statistic + other, lambda: other + statistic, lambda: statistic - other):
        assert "unsupported operand" in refusal(action, kind=TypeError) or isinstance(other, str)


def test_an_exact_number_is_finite() -> None:
    assert refusal(lambda: Exact.of([1.0, np.inf])) == "got inf, expected finite numbers"
    assert refusal(lambda: Exact.of([1.0]) + Exact.of(1.0)) == "cannot combine sums of shape (1,) and ()"
