"""Columns tell their kind when their first value comes; dates and identifiers make poor categories."""

import pickle
import warnings
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from tamis import CategoricalNB, Mixture, NaiveBayes, load
from tests.estimators.faces import same

N = 40
LABELS = np.arange(N) % 2
DAYS = [date(2024, 1, 1) + timedelta(days=i) for i in range(N)]
INSTANTS = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=i) for i in range(N)]
IDS = [f"id-{i}" for i in range(N)]
NUMBERS = np.random.default_rng(0).normal(size=N)


def model_of(make: Any, **parameters: Any) -> Any:
    return make(**parameters) if make is NaiveBayes else make(1, random_state=0, **parameters)


def objects(*columns: Any) -> Any:
    found = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        found[:, j] = column
    return found


DATES = {
    "object": objects(NUMBERS, DAYS),
    "object of datetime64": objects(NUMBERS, list(np.array(DAYS, dtype="datetime64[D]"))),
    "written": objects(NUMBERS, [day.isoformat() for day in DAYS]),
    "written by hand": objects(NUMBERS, [day.strftime("%d.%m.%Y") for day in DAYS]),
    "pandas": pd.DataFrame({"x": NUMBERS, "when": pd.to_datetime(DAYS)}),
    "pandas with zone": pd.DataFrame({"x": NUMBERS, "when": pd.to_datetime(INSTANTS)}),
    "pandas objects": pd.DataFrame({"x": NUMBERS, "when": DAYS}),
    "pandas durations": pd.DataFrame({"x": NUMBERS, "when": pd.to_timedelta(np.arange(N), unit="h")}),
    "polars": pl.DataFrame({"x": NUMBERS, "when": DAYS}),
    "polars instants": pl.DataFrame({"x": NUMBERS, "when": INSTANTS}),
    "few distinct": pd.DataFrame({"x": NUMBERS, "when": [DAYS[i % 3] for i in range(N)]}),
    "some missing": pd.DataFrame({"x": NUMBERS, "when": [None if i % 2 else DAYS[i] for i in range(N)]}),
}


@pytest.mark.parametrize("make", [NaiveBayes, Mixture])
@pytest.mark.parametrize("rows", DATES.values(), ids=DATES.keys())
def test_dates_that_would_be_categories_are_reported(make: Any, rows: Any) -> None:
    name = "'when'" if hasattr(rows, "columns") else "1"
    with pytest.warns(UserWarning, match=f"^column {name} holds dates ") as caught:
        model_of(make).fit(rows, LABELS)
    assert len(caught) == 1
    said = str(caught[0].message)
    assert "turn the date into numbers" in said
    assert "drop the column" in said
    assert "\n" not in said
    assert caught[0].filename == __file__


@pytest.mark.parametrize("make", [NaiveBayes, Mixture])
@pytest.mark.parametrize(
    "rows",
    [
        objects(NUMBERS, IDS),
        pd.DataFrame({"x": NUMBERS, "id": IDS}),
        pd.DataFrame({"x": NUMBERS, "id": pd.array(IDS, dtype="string")}),
        pl.DataFrame({"x": NUMBERS, "id": IDS}),
    ],
    ids=["object", "pandas", "pandas string", "polars"],
)
def test_identifiers_that_would_be_categories_are_reported(make: Any, rows: Any) -> None:
    with pytest.warns(
        UserWarning, match="has 40 distinct values in 40 rows and is treated as a category"
    ) as caught:
        model_of(make).fit(rows, LABELS)
    assert len(caught) == 1
    assert "drop the column if it is an identifier" in str(caught[0].message)


def test_a_warning_comes_with_the_first_rows_alone() -> None:
    rows = pd.DataFrame({"x": NUMBERS, "id": IDS})
    with pytest.warns(UserWarning, match="column 'id'"):
        model = NaiveBayes().partial_fit(rows, LABELS)
    model.partial_fit(rows, LABELS).unlearn(rows, LABELS).infer(alpha=2.0).predict(rows)
    with pytest.warns(UserWarning, match="column 'id'"):
        NaiveBayes().cross_validate(rows, LABELS)


ORDINARY = {
    "words": objects(NUMBERS, [["red", "green", "blue"][i % 3] for i in range(N)]),
    "thirty of forty": objects(NUMBERS, [f"place {i % 30}" for i in range(N)]),
    "five rows": objects(NUMBERS[:5], IDS[:5]),
    "integers": objects(NUMBERS, range(N)),
    "an integer frame": pd.DataFrame({"id": np.arange(N), "x": NUMBERS}),
    "mostly missing": objects(NUMBERS, [IDS[i] if i < 20 else None for i in range(N)]),
    "flags": pd.DataFrame({"x": NUMBERS, "flag": LABELS == 1}),
    "version numbers": objects(NUMBERS, [f"1.{i % 4}" for i in range(N)]),
}


@pytest.mark.parametrize("make", [NaiveBayes, Mixture])
@pytest.mark.parametrize("rows", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_columns_are_taken_without_a_word(make: Any, rows: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model_of(make).fit(rows, LABELS[: len(rows)])


def test_a_family_that_was_asked_for_is_no_mistake() -> None:
    rows = pd.DataFrame({"x": NUMBERS, "id": IDS, "when": DAYS})
    asked = {"id": "categorical", "when": "categorical"}
    NaiveBayes(asked).fit(rows, LABELS)
    Mixture(1, families=asked, random_state=0).fit(rows)
    CategoricalNB().fit(rows[["id", "when"]], LABELS)


WORDS = [["red", "green", None][i % 3] for i in range(N)]
FLAGS = [bool(i % 2) for i in range(N)]
COUNTS = [int(value) for value in np.random.default_rng(1).poisson(2.0, N)]
LATER = {"words": WORDS, "flags": FLAGS, "numbers": list(NUMBERS + 5.0), "counts": COUNTS}


def table(kind: str, late: Any) -> Any:
    """A number, the column that comes late, a word, and a flag."""
    columns = {"x": list(NUMBERS), "late": late, "word": WORDS[::-1], "flag": FLAGS[::-1]}
    if kind == "object":
        return objects(*columns.values())
    return (pd if kind == "pandas" else pl).DataFrame(columns)


def blank(kind: str) -> Any:
    return table(kind, [np.nan if kind == "pandas" else None] * N)


@pytest.mark.parametrize("kind", ["object", "pandas", "polars"])
@pytest.mark.parametrize("integers", ["gaussian", "poisson", "categorical"])
@pytest.mark.parametrize("late", LATER.values(), ids=LATER.keys())
def test_a_column_without_values_has_no_kind_until_one_comes(kind: str, integers: str, late: Any) -> None:
    first, then = blank(kind), table(kind, late)
    model = NaiveBayes(integers=integers).partial_fit(first, LABELS).partial_fit(first, LABELS)
    model.partial_fit(then, LABELS).partial_fit(first, LABELS).partial_fit(then, LABELS)
    other = NaiveBayes(integers=integers).partial_fit(then, LABELS).partial_fit(then, LABELS)
    for _ in range(3):
        other.partial_fit(first, LABELS)
    assert model.families_ == other.families_
    assert same(model, other, then)
    model.unlearn(then, LABELS).unlearn(then, LABELS)  # the kind stays known
    assert np.isfinite(model.predict_joint_log_proba(then)).all()


@pytest.mark.parametrize("late", LATER.values(), ids=LATER.keys())
def test_models_are_merged_whichever_knows_the_kind(late: Any, tmp_path: Path) -> None:
    first, then = blank("object"), table("object", late)
    weights = np.random.default_rng(3).random(N) + 0.1  # whose sums are no floats

    def empty() -> Any:
        return NaiveBayes().partial_fit(first, LABELS, sample_weight=weights)

    def full() -> Any:
        return NaiveBayes().partial_fit(then, LABELS)

    expected = full().partial_fit(first, LABELS, sample_weight=weights)
    assert same(empty().merge(full()), expected, then)
    assert same(full().merge(empty()), expected, then)
    assert same(empty().merge(empty()).merge(full(), empty()), full().merge(empty(), empty(), empty()), then)
    empty().save(tmp_path / "model.tamis")
    for back in (load(tmp_path / "model.tamis"), pickle.loads(pickle.dumps(empty()))):
        assert same(back.partial_fit(then, LABELS), expected, then)
    assert same(load(tmp_path / "model.tamis").merge(full()), expected, then)


def test_a_value_in_a_column_without_a_kind_says_nothing_when_asked_about() -> None:
    rows = objects([None] * N, NUMBERS + LABELS)
    model = NaiveBayes().fit(rows, LABELS)
    asked = rows.copy()
    asked[:, 0] = "red"
    np.testing.assert_array_equal(model.predict_proba(asked), model.predict_proba(rows))
    model.partial_fit([["red", 1.0]], [0])
    assert model.families_ == {0: "categorical", 1: "gaussian"}
    with pytest.raises(TypeError, match="column 1 holds 'blue'"):
        model.partial_fit([["red", "blue"]], [0])


def test_all_columns_may_be_without_a_kind() -> None:
    model = NaiveBayes().partial_fit([[None, None], [None, None]], ["a", "b"])
    model.partial_fit([["red", None]], ["a"]).partial_fit([[None, True]], ["b"])
    assert model.families_ == {0: "categorical", 1: "bernoulli"}
    whole = [[None, None], [None, None], ["red", None], [None, True]]
    assert same(model, NaiveBayes().fit(whole, ["a", "b", "a", "b"]), whole)


def test_one_row_at_a_time_decides_the_kind_too() -> None:
    model = NaiveBayes().partial_fit([[1.0, None], [2.0, None]], [0, 1])
    model.partial_fit(np.array([[1.5, np.nan]]), [0]).partial_fit([[1.5, "red"]], [1])
    assert model.families_ == {0: "gaussian", 1: "categorical"}
    whole = [[1.0, None], [2.0, None], [1.5, None], [1.5, "red"]]
    assert same(model, NaiveBayes().fit(whole, [0, 1, 0, 1]), whole)


def test_an_array_of_dates_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        TypeError, match=r"is of type datetime64.*: turn dates into numbers, such as days since a start"
    ):
        NaiveBayes().fit(np.array(DAYS, dtype="datetime64[D]")[:, None], LABELS)


def test_an_array_of_floats_says_that_it_holds_numbers() -> None:
    model = NaiveBayes().fit(np.array([[np.nan, 1.0], [np.nan, 2.0]]), [0, 1])
    with pytest.raises(TypeError, match="column 0 holds 'red'"):
        model.partial_fit([["red", 1.0]], [0])


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("late", [["red", "green"], [True, False]], ids=["words", "flags"])
def test_a_mixture_gives_a_column_without_values_its_kind_when_one_comes(covariance: Any, late: Any) -> None:
    """Later rows have words in it; a row of nothing but its word is then told by the word."""
    rng = np.random.default_rng(0)
    side = np.repeat([0, 1], 30)
    x, y = 8.0 * side + rng.normal(size=60), rng.normal(size=60)
    model = Mixture(2, covariance=covariance, random_state=0)
    model.fit(pd.DataFrame({"x": x, "y": y, "late": [None] * 60}))
    before = model.means_[:, :2]
    model.partial_fit(pd.DataFrame({"x": x, "y": y, "late": [late[k] for k in side]}))
    assert_allclose(model.means_, before, atol=0.5)
    far = model.predict(pd.DataFrame({"x": [0.0, 8.0], "y": [0.0, 0.0], "late": late}))
    only = pd.DataFrame({"x": [np.nan, np.nan], "y": [np.nan, np.nan], "late": late})
    assert model.predict(only).tolist() == far.tolist()
    assert sorted(far.tolist()) == [0, 1]
