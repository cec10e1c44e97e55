"""The recommender: what it refuses, in one line."""

import copy
import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from tamis import MatrixFactorization
from tamis.arrays import Array
from tests.estimators.tastes import made, timed, triples


@pytest.fixture(scope="module")
def fitted() -> MatrixFactorization:
    found: MatrixFactorization = made().fit(triples())
    return found


@pytest.fixture(scope="module")
def drawn() -> MatrixFactorization:
    found: MatrixFactorization = made(method="gibbs", n_draws=40, burn_in=10, n_kept=20).fit(triples())
    return found


@pytest.fixture
def model(fitted: MatrixFactorization) -> MatrixFactorization:
    return copy.deepcopy(fitted)


Bad = list[tuple[Any, ...]]
DAY = datetime.date(2024, 1, 1)
FEW: Bad = [("a", "x", 1.0), ("a", "y", 5.0), ("b", "x", 2.0)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "0 ratings"),
        (np.zeros((0, 3)), "0 ratings"),
        (pd.DataFrame({"user": [], "item": [], "rating": []}), "0 ratings"),
        ([*FEW, ("a", "x", 3.0)], "user 'a' has item 'x' twice"),
        ([*FEW, ("b", "y", float("nan"))], "rating 3 is nan"),
        ([*FEW, ("b", "y", "good")], r"ratings of type str \('good' in row 3\).*astype\(float\)"),
        ([("a", "x", "4")], r"ratings of type str .*astype\(float\)"),
        (np.array([("a", "x", "good")]), r"ratings of type str \('good' in row 0\).*astype\(float\)"),
        (
            pd.DataFrame({"user": ["a"], "item": ["x"], "rating": ["4"]}),
            r"ratings of type str \('4' in row 0\).*astype\(float\)",
        ),
        ([("a", "x", 4.0, "2024-01-01")], "times of type str .*pandas.to_datetime"),
        (np.array([("a", "x", "4", "2024-01-01")]), "times of type str .*pandas.to_datetime"),
        ([("a", "x", 4.0, DAY), ("a", "y", 4.0, 17.0)], "time 1 is 17.0 and time 0 datetime.date"),
        ([("a", "x", 4.0, 17.0), ("a", "y", 4.0, DAY)], "time 1 is datetime.date"),
        ([*FEW, (None, "y", 2.0)], "user of row 3 is missing"),
        ([*FEW, ("c", None, 2.0)], "item of row 3 is missing"),
        ([*FEW, (["c"], "y", 2.0)], "cannot be an id"),
        ([*FEW, ("b", "y", None)], "rating 3 is nan"),
        ([*FEW, ("b", "y", 1e200)], r"rating 3 is 1e\+200"),
        ([("a", "x"), ("b", "y")], "without ratings"),
        ([("a",)], "expected pairs"),
        (b"abc", "expected a frame"),
        (np.zeros(4), "expected"),
        (pd.DataFrame({"user": ["a"]}), "set columns"),
        (pd.DataFrame({"user": ["a"], "item": ["x"]}), "without ratings"),
        (pd.Series([1.0]), "one column"),
    ],
)
def test_bad_rows_are_refused(rows: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said) as raised:
        made().fit(rows)
    assert "\n" not in str(raised.value)


def test_text_is_the_path_of_a_file() -> None:
    with pytest.raises(FileNotFoundError, match=r"got abc, where there is no file to read, expected a path"):
        made().fit("abc")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"n_factors": 0}, "n_factors"),
        ({"n_factors": 1.5}, "n_factors"),
        ({"ridge": 0}, "got ridge=0, expected above 0"),
        ({"ridge": -1}, "ridge"),
        ({"offset_ridge": -1}, "offset_ridge"),
        ({"feedback": "stars"}, "feedback"),
        ({"method": "sgd"}, "method"),
        ({"method": "gibbs", "feedback": "implicit"}, "draws are of ratings"),
        ({"method": "gibbs", "validation": 0.1}, "hold out rows"),
        ({"method": "gibbs", "offset_ridge": np.inf}, "need offsets"),
        ({"validation": 1.0}, "below 1"),
        ({"validation": 0.9}, "at least one to fit"),
        ({"max_iter": 0}, "max_iter"),
        ({"half_life": 5.0}, "column of times"),
        ({"time_bins": 3}, "column of times"),
        ({"time_bins": -1}, "time_bins"),
        ({"half_life": -5.0}, "half_life"),
        ({"half_life": "180 days"}, "half_life='180 days'.*datetime.timedelta"),
        ({"period": 7.0}, "period=7.0 without time_bins"),
        ({"duplicates": "first"}, "duplicates"),
        ({"feedback": "implicit", "time_bins": 2}, "no offsets"),
    ],
)
def test_bad_parameters_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        made(**more).fit(FEW)
    assert "\n" not in str(raised.value)


def test_more_that_is_refused(model: MatrixFactorization, drawn: MatrixFactorization) -> None:
    for said, wrong in [
        ("both in X and as y", lambda: made().fit(FEW, [1.0, 2.0, 3.0])),
        ("expected one per pair", lambda: made().fit([("a", "x")], [1.0, 2.0])),
        ("at least 0", lambda: made().fit(FEW, sample_weight=[1.0, -1.0, 1.0])),
        ("all zero", lambda: made().fit(FEW, sample_weight=np.zeros(3))),
        ("no column 'who'", lambda: made(columns={"user": "who", "item": "item"}).fit(timed())),
        ("columns for 'stars'", lambda: made(columns={"stars": "x"}).fit(timed())),
        ("has no 'item'", lambda: made(columns={"user": "user"}).fit(timed()[["user", "rating"]])),
        ("expected a mapping", lambda: made(columns="user").fit(timed())),
        ("expected a mapping", lambda: made(columns="user").fit(FEW)),
        ("at least 0: with feedback", lambda: made(feedback="implicit").fit([("a", "x", -1.0)])),
        ("all 0", lambda: made(feedback="implicit").fit([("a", "x", 0.0)])),
        ("expected method='gibbs'", lambda: model.predict([("u00", "i00")], return_std=True)),
        ("expected method='gibbs'", lambda: model.predict_interval([("u00", "i00")])),
        ("coverage", lambda: drawn.predict_interval([("u00", "i00")], 1.5)),
        ("coverage='a'", lambda: drawn.predict_interval([("u00", "i00")], "a")),  # type: ignore[arg-type]
        ("expected method='als'", lambda: drawn.explain("u00", "i00")),
        ("got item 'nothing'", lambda: model.similar_items("nothing")),
        ("n=0", lambda: model.recommend("u00", 0)),
        ("diversity", lambda: model.recommend("u00", diversity=2.0)),
        ("diversity='a'", lambda: model.recommend("u00", diversity="a")),  # type: ignore[arg-type]
        ("offset_ridge='a'", lambda: made(offset_ridge="a").fit(FEW)),
        ("offset_ridge=None", lambda: made(offset_ridge=None).fit(FEW)),
        ("with times", lambda: model.recommend("u00", recency=1.0)),
        ("expected a new one", lambda: model.add_user("u00", {"i00": 1.0})),
        ("expected a new one", lambda: model.add_item("i00", {"u00": 1.0})),
        ("got item 'nothing'", lambda: model.add_user("x", {"nothing": 1.0})),
        ("got user 'nobody'", lambda: model.add_item("x", {"nobody": 1.0})),
        ("not pairs", lambda: model.fold_in_user([("i00", 1.0, 2.0)])),
        ("a set of items", lambda: model.fold_in_user({"i00"})),
        ("^got item 'i00' twice", lambda: model.fold_in_user([("i00", 1.0), ("i00", 2.0)])),
        ("user 'x' has item 'i00' twice", lambda: model.add_user("x", [("i00", 1.0), ("i00", 2.0)])),
        ("user 1 and item 2,", lambda: model.forget(np.int64(1), np.int64(2))),
        ("user 1 and item 2,", lambda: model.unlearn(np.array([[1, 2]]))),
        ("got item 7,", lambda: model.fold_in_user([(np.int64(7), 1.0)])),
        ("twice", lambda: model.partial_fit(triples()[:1])),
        ("nothing was changed", lambda: model.forget("nobody", "i00")),
        ("nothing was changed", lambda: model.unlearn(triples())),
        ("one pair is", lambda: model.predict(("u00", "i00"))),
        (r"shape \(1, 1\)", lambda: model.recommend(np.array([["u00"]]))),
        ("among='i01'", lambda: model.recommend("u00", among="i01")),
        ("missing, expected an id", lambda: model.add_user(None, {"i00": 1.0})),
        ("missing, expected an id", lambda: model.add_item(float("nan"), {"u00": 1.0})),
        ("expected an id", lambda: model.add_user(["x"], {"i00": 1.0})),  # type: ignore[arg-type]
        ("rating 0 is nan", lambda: model.add_user("x", {"i00": None})),
        ("not pairs", lambda: model.add_user("x", None)),
        ("not pairs", lambda: model.add_user("x", [1])),
        ("got the id", lambda: model.similar_items(["i00"])),  # type: ignore[arg-type]
        ("got the id", lambda: model.explain("u00", ["i00"])),  # type: ignore[arg-type]
    ]:
        with pytest.raises((ValueError, TypeError), match=said) as raised:
            wrong()  # type: ignore[no-untyped-call]
        assert "\n" not in str(raised.value)
    assert "x" not in model.users_
    with pytest.raises(NotFittedError, match="fit first"):
        made().predict([("a", "x")])
    with pytest.raises(AttributeError, match="held out"):
        _ = model.validation_rmse_
    with pytest.raises(AttributeError, match="gibbs"):
        _ = model.noise_std_


def test_duplicates_are_made_one_as_asked() -> None:
    rows = [*FEW, ("a", "x", 3.0)]
    pairs = [("a", "x"), ("b", "y")]
    for rule, value in (("mean", 2.0), ("last", 3.0), ("sum", 4.0)):
        once = [("a", "x", value), *FEW[1:]]
        found: Array = made(duplicates=rule).fit(rows).predict(pairs)
        np.testing.assert_allclose(found, made().fit(once).predict(pairs), atol=1e-9)
    model = made(duplicates="last").fit(FEW).partial_fit([("a", "x", 5.0)])
    assert model.explain("a", "x").ratings.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("role", ["rating", "time", "weight"])
def test_a_column_that_is_named_and_not_there_is_refused(role: str) -> None:
    named = {"user": "user", "item": "item", "rating": "rating"}
    model = made(columns=named).fit(timed())
    model.set_params(columns={**named, role: "misspelt"})
    for verb in (model.fit, model.partial_fit, model.score):
        with pytest.raises(ValueError, match="no column 'misspelt'") as raised:
            verb(timed())
        assert "\n" not in str(raised.value)
    pairs = timed()[["user", "item"]]
    assert len(model.predict(pairs)) == len(pairs)
    model.set_params(columns=named)
    assert model.fit(pairs, timed()["rating"]).score(pairs, timed()["rating"]) > 0.0


@pytest.mark.parametrize(("was", "now"), [("explicit", "implicit"), ("implicit", "explicit")])
def test_a_model_stays_of_one_kind_until_it_is_fitted_again(was: str, now: str) -> None:
    model = made(feedback=was).fit(triples())
    pairs = [("u00", "i00"), ("nobody", "i01")]
    before = model.predict(pairs)
    model.set_params(feedback=now)
    for verb in (
        lambda: model.partial_fit([("u00", "novelty", 1.0)]),
        lambda: model.add_user("x", {"i00": 1.0}),
        lambda: model.add_item("x", {"u00": 1.0}),
        lambda: model.fold_in_user({"i00": 1.0}),
        lambda: model.score(triples()),
    ):
        with pytest.raises(ValueError, match=f"for a model of {was} feedback") as raised:
            verb()  # type: ignore[no-untyped-call]
        assert "\n" not in str(raised.value)
    np.testing.assert_array_equal(model.predict(pairs), before)
    made(feedback=now).fit(triples())


def test_deeds_beyond_rounding_are_refused() -> None:
    rows = [("a", "x", 1e16), ("a", "y", 1e16), ("b", "x", 1e16), ("b", "z", 1.0), ("c", "y", 3.0)]
    with pytest.raises(ValueError, match="give log1p of values") as raised:
        made(feedback="implicit", n_factors=8).fit(rows)
    assert "\n" not in str(raised.value)
    logged = [(user, item, np.log1p(value)) for user, item, value in rows]
    assert np.isfinite(made(feedback="implicit", n_factors=8).fit(logged).predict([("a", "z")])).all()


def test_large_whole_numbers_stay_apart() -> None:
    ids = np.array([1e20, 2e20, 3e20, 1e300])
    model = made(n_factors=1).fit(np.column_stack([ids, [1.0, 2.0, 1.0, 2.0]]), [1.0, 2.0, 3.0, 4.0])
    assert model.users_.tolist() == ids.tolist()
    assert model.items_.tolist() == [1, 2]
