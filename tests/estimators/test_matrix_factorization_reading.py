"""The recommender: which column is which, which times go together, and who comes as a series or a frame."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tamis
from tamis import MatrixFactorization
from tests.estimators.tastes import made, timed, triples

DAY = datetime.date(2020, 1, 30)


def dated() -> pd.DataFrame:
    start = pd.Timestamp("2020-01-01")
    return timed().assign(time=lambda found: start + pd.to_timedelta(found["time"], unit="D"))


# ── columns ──


@pytest.mark.parametrize(
    ("names", "odd"),
    [
        (["u", "i", "timestamp", "rating"], "rating"),
        (["rating", "user_id", "item_id"], "rating"),
        (["item", "who", "stars"], "item"),
        (["u", "i", "time"], "time"),
        (["u", "i", "r", "weight"], "weight"),
        (["Rating", "u", "i"], "Rating"),
    ],
)
def test_a_role_at_another_place_is_refused(names: list[str], odd: str) -> None:
    frame = pd.DataFrame([[1, 2, 3, 4][: len(names)]], columns=names)
    for given in (frame, pl.from_pandas(frame)):
        with pytest.raises(ValueError, match=f"'{odd}' is not at its place.*columns=") as raised:
            made().fit(given)
        assert str(names) in str(raised.value)
        assert "\n" not in str(raised.value)


def test_columns_without_the_names_of_roles_are_read_by_place() -> None:
    rows = timed()
    expected = made(half_life=20.0).fit(rows).predict(rows)
    for names in (["user_id", "item_id", "rating", "time"], ["user", "film", "stars", "time"]):
        other = rows.set_axis(names, axis=1)
        np.testing.assert_array_equal(made(half_life=20.0).fit(other).predict(other), expected)
    plain = made().fit(rows.drop(columns="time").set_axis([0, 1, 2], axis=1))
    np.testing.assert_array_equal(plain.user_factors_, made().fit(rows).user_factors_)


def test_what_columns_does_not_name_has_the_name_of_its_role() -> None:
    rows = timed()
    expected = made(half_life=20.0).fit(rows).user_factors_
    for changed, columns in (
        ({"time": "timestamp"}, {"time": "timestamp"}),
        ({"user": "who"}, {"user": "who"}),
        ({"time": "rating", "rating": "time"}, {"time": "rating", "rating": "time"}),
    ):
        model = made(half_life=20.0, columns=columns).fit(rows.rename(columns=changed))
        np.testing.assert_array_equal(model.user_factors_, expected)
    with pytest.raises(ValueError, match="without ratings"):  # a column has one role
        made(columns={"time": "rating"}).fit(rows.drop(columns="time"))


def test_no_pairs_have_no_ratings() -> None:
    nothing: list[Any] = [[], np.array([]), np.zeros((0, 2)), timed()[:0]]
    model = made(method="gibbs", n_draws=6, burn_in=2, time_bins=2).fit(timed())
    for pairs in nothing:
        assert model.predict(pairs).shape == model.predict(pairs, time=3.0).shape == (0,)
        assert [each.shape for each in model.predict(pairs, return_std=True)] == [(0,), (0,)]
        assert [end.shape for end in model.predict_interval(pairs)] == [(0,), (0,)]
        before = model.user_factors_
        np.testing.assert_array_equal(model.unlearn(pairs).user_factors_, before)
        with pytest.raises(ValueError, match="got 0 ratings"):
            model.partial_fit(pairs)


# ── times ──


def test_times_are_of_one_kind(tmp_path: Path) -> None:
    dates, numbers = (made(half_life=50.0, time_bins=2).fit(rows) for rows in (dated(), timed()))
    dates.save(tmp_path / "model.tamis")
    again = tamis.load(tmp_path / "model.tamis")
    for model, other, said in (
        (dates, 1.378e9, "times that are numbers, expected dates"),
        (again, 1.378e9, "times that are numbers, expected dates"),
        (dates, 18_291, "times that are numbers, expected dates"),
        (numbers, DAY, "times that are dates, expected numbers"),
        (numbers, np.datetime64("2020-01-30"), "times that are dates, expected numbers"),
        (numbers, pd.Timestamp("2020-01-30", tz="UTC"), "times that are dates, expected numbers"),
    ):
        before = model.predict([("u00", "i00")])
        for verb in _verbs(model, other):
            with pytest.raises(ValueError, match=said) as raised:
                verb()
            assert "\n" not in str(raised.value)
        np.testing.assert_array_equal(model.predict([("u00", "i00")]), before)
    for model, own in ((dates, DAY), (again, DAY), (numbers, 30.0)):
        for verb in _verbs(model, own):
            verb()
    numbers.fit(dated()).predict([("u00", "i00")], time=DAY)  # a new fit may be of another


def _verbs(model: MatrixFactorization, time: Any) -> list[Any]:
    return [
        lambda: model.predict([("u00", "i00")], time=time),
        lambda: model.predict([("u00", "i00", 3.0, time)]),
        lambda: model.recommend("u00", time=time),
        lambda: model.explain("u00", "i00", time=time),
        lambda: model.score([("u00", "i00", 3.0, time), ("u01", "i00", 4.0, time)]),
        lambda: model.partial_fit([("new", "i00", 3.0, time)]),
    ]


def test_a_score_of_dates_is_that_of_their_days() -> None:
    scores = [made(time_bins=2).fit(rows).score(rows) for rows in (timed(), dated())]
    assert scores[0] == pytest.approx(scores[1], abs=1e-9)


def test_a_file_of_before_takes_both_kinds() -> None:
    model = made(half_life=50.0, time_bins=2).fit(dated())
    saved = model.describe_state()
    old = {**saved, "clock": saved["clock"][:6]}
    model.restore_state(old)
    for time in (DAY, 18_291.0):
        assert model.predict([("u00", "i00")], time=time).shape == (1,)


def test_one_absurd_time_does_not_fade_all_others() -> None:
    rows = timed()
    for more in (1, 20):
        model = made(half_life=20.0).fit(rows)
        before = model.predict(rows)
        late = [(f"new{i}", "i00", 3.0, 1.378e9) for i in range(more)]
        with pytest.raises(ValueError, match=r"the weight of 0,.*are the times in seconds\?") as raised:
            model.partial_fit(late)
        assert "\n" not in str(raised.value)
        np.testing.assert_array_equal(model.predict(rows), before)
    few = made(n_factors=1, half_life=5.0).fit([("a", "x", 1.0, 1.0), ("b", "x", 4.0, 2.0)])
    with pytest.raises(ValueError, match="in seconds"):
        few.partial_fit([("a", "y", 3.0, 1e9)])
    made().fit(rows).partial_fit([("new", "i00", 3.0, 1.378e9)])  # nothing fades


def test_a_stream_may_outlive_its_half_life() -> None:
    model = made(n_factors=1, half_life=1.0).fit([("a", "x", 1.0, 0.0), ("b", "x", 4.0, 0.0)])
    for day in range(5, 100, 5):
        model.partial_fit([(f"u{day}", "x", 3.0, float(day))])
    assert model.state_.times.newest == 95.0


def test_periods_of_days_are_told_from_times_in_seconds() -> None:
    rows = timed().assign(time=lambda found: 1.6e9 + 86_400.0 * found["time"])
    with pytest.raises(ValueError, match=r"period=7 .*are the times in seconds\?") as raised:
        made(time_bins=7, period=7.0).fit(rows)
    assert "\n" not in str(raised.value)
    made(time_bins=7, period=7 * 86_400.0).fit(rows)
    model = made(time_bins=7, period=datetime.timedelta(days=7)).fit(timed())
    with pytest.raises(ValueError, match="in seconds"):
        model.partial_fit([("new", "i00", 3.0, 1.378e9)])


def test_a_rating_without_a_time_is_of_the_newest() -> None:
    model = made(half_life=20.0).fit(timed()).partial_fit([("new", "i00", 3.0)])
    assert model.state_.entries.time[-1] == timed()["time"].max()


@pytest.mark.parametrize("time", ["2020-01-30", ["2020-01-30"], np.array(["2020-01-30"]), pd.Series(["x"])])
def test_times_that_are_text_are_to_be_parsed(time: Any) -> None:
    model = made(time_bins=2).fit(dated())
    with pytest.raises(TypeError, match=r"times of type str.*pandas\.to_datetime") as raised:
        model.predict([("u00", "i00")], time=time)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series, pd.DataFrame])
def test_ratings_that_are_text_are_to_be_converted(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"ratings of type str \('4' in row 0\).*astype\(float\)") as raised:
        made().fit([("a", "x"), ("b", "x")], kind(["4", "5"]))
    assert "\n" not in str(raised.value)


# ── one user's ratings ──


def test_ratings_of_one_user_may_be_a_series_or_a_frame() -> None:
    model = made().fit(triples())
    told = {"i00": 5.0, "i01": 1.0, "i02": 2.0}
    expected = model.fold_in_user(told).rows
    frame = pd.DataFrame({"item": list(told), "rating": list(told.values())})
    for given in (
        pd.Series(told),
        frame,
        frame[["rating", "item"]],
        frame.assign(user="somebody"),
        pl.from_pandas(frame),
        frame.set_axis(["film", "stars"], axis=1),
    ):
        np.testing.assert_array_equal(model.fold_in_user(given).rows, expected)
    model.set_params(columns={"item": "film", "rating": "stars"})
    other = frame.set_axis(["film", "stars"], axis=1)[["stars", "film"]]
    np.testing.assert_array_equal(model.fold_in_user(other).rows, expected)
    assert "new" in model.add_user("new", other).users_
    assert "new" in model.add_item("new", pd.Series({"u00": 4.0, "new": 2.0})).items_
    model.set_params(columns=None)
    for wrong in (frame.set_axis(["rating", "film"], axis=1), frame[["item"]], other.assign(more=1)):
        with pytest.raises(ValueError, match="got the columns") as raised:
            model.fold_in_user(wrong)
        assert "\n" not in str(raised.value)
