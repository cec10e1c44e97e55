"""Labels of nullable, masked and Arrow-backed columns keep their kind; targets are spoken of as targets."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tamis import BayesianLinearRegression, GaussianNB, GeneralizedLinear, LogisticRegression

ROWS = np.array([[0.0, 1.0], [3.0, 5.0], [0.1, 0.7], [3.1, 5.2]])
LARGE = 2**60  # a float holds neither this plus one nor much near it


def one_column(values: Any, library: Any) -> Any:
    return library.DataFrame({"label": values})


COMPLETE: list[Any] = [
    pd.Series([1, 2, 1, 2], dtype="Int64"),
    pd.Series([1, 2, 1, 2], dtype="int64[pyarrow]"),
    pd.array([1, 2, 1, 2], dtype="Int64"),
    pd.Index([1, 2, 1, 2], dtype="Int64"),
    pl.Series([1, 2, 1, 2]),
]
WITH_GAPS: list[Any] = [
    pd.Series([1, 2, None, 2], dtype="Int64"),
    pd.Series([1, 2, None, 2], dtype="int64[pyarrow]"),
    pd.Series([1, 2, None, 2], dtype="category"),
    pd.array([1, 2, None, 2], dtype="Int64"),
    pd.Index(pd.array([1, 2, None, 2], dtype="Int64")),
    pl.Series([1, 2, None, 2]),
    [1, 2, pd.NA, 2],
    np.array([1, 2, pd.NA, 2], dtype=object),
    np.ma.array([1, 2, 9, 2], mask=[False, False, True, False]),
]
OTHERS: list[tuple[Any, list[Any]]] = [
    (pd.Series([True, False, None, False], dtype="boolean"), [False, True]),
    (pd.array([True, False, None, False], dtype="boolean"), [False, True]),
    (pl.Series([True, False, None, False]), [False, True]),
    (pd.Series(["a", "b", None, "b"], dtype="string"), ["a", "b"]),
    (pd.Series(["a", "b", None, "b"], dtype="string[pyarrow]"), ["a", "b"]),
    (pd.array(["a", "b", None, "b"], dtype="string"), ["a", "b"]),
    (pd.Categorical(["a", "b", None, "b"]), ["a", "b"]),
    (pl.Series(["a", "b", None, "b"], dtype=pl.Categorical), ["a", "b"]),
]


@pytest.mark.parametrize("labels", COMPLETE, ids=lambda labels: f"{type(labels).__name__}")
@pytest.mark.parametrize("make", [GaussianNB, LogisticRegression])
def test_whole_numbers_stay_whole(make: Any, labels: Any) -> None:
    model = make().fit(ROWS, labels)
    assert model.classes_.dtype == np.int64
    assert model.classes_.tolist() == [1, 2]
    assert model.predict(ROWS).dtype == np.int64


@pytest.mark.parametrize("labels", WITH_GAPS, ids=lambda labels: f"{type(labels).__name__}")
def test_whole_numbers_stay_whole_where_some_are_missing(labels: Any) -> None:
    model = GaussianNB().fit(ROWS, labels)
    assert model.classes_.dtype == np.int64
    assert model.classes_.tolist() == [1, 2]
    assert model.class_count_.sum() == pytest.approx(4.0)  # the third row was shared
    with pytest.raises(ValueError, match="label 2 is missing"):
        GaussianNB().partial_fit(ROWS, labels)


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_frame_of_one_column_is_its_column(library: Any) -> None:
    values = pd.array([LARGE, LARGE + 1, None, LARGE], dtype="Int64") if library is pd else None
    frame = one_column(values if library is pd else [LARGE, LARGE + 1, None, LARGE], library)
    model = GaussianNB(var_smoothing=0.1).fit(ROWS, frame)
    assert model.classes_.tolist() == [LARGE, LARGE + 1]
    assert model.classes_.dtype == np.int64


@pytest.mark.parametrize(("labels", "classes"), OTHERS)
def test_flags_and_words_are_what_they_were(labels: Any, classes: list[Any]) -> None:
    model = GaussianNB(var_smoothing=0.1).fit(ROWS, labels)
    assert model.classes_.tolist() == classes
    assert model.classes_.dtype.kind in "bU"


@pytest.mark.parametrize("make", [BayesianLinearRegression, GeneralizedLinear])
@pytest.mark.parametrize(
    ("target", "words"),
    [
        (["a", "b", "c", "d"], "y is of type <U1, expected real numbers"),
        (pd.Series(["1", "2", "x", "y"]), "y holds '1' in row 0, expected numbers"),
        (pl.DataFrame({"price": ["a", "b", "c", "d"]}), "y"),
        (np.array([1, 2, 3, 4], dtype="datetime64[D]"), "y is of type datetime64"),
        (np.array([1, 2, "x", 4], dtype=object), "y holds 'x' in row 2, expected numbers"),
    ],
)
def test_a_target_that_is_no_number_is_reported_as_the_target(make: Any, target: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        make().fit(ROWS, target)
    said = str(caught.value)
    assert said.startswith(words)
    assert "column" not in said
    assert "or use a classifier" in said or "turn dates into numbers" in said
    assert "\n" not in said


def test_of_several_targets_the_wrong_one_is_named() -> None:
    frame = pd.DataFrame({"price": [1.0, 2.0, 3.0, 4.0], "kind": ["a", "b", "c", "d"]})
    with pytest.raises(TypeError, match=r"^y, in column 'kind', holds 'a' in row 0, expected numbers"):
        BayesianLinearRegression().fit(ROWS, frame)
