"""The recommender: what ratings weigh, for their weights, their age, and for being held out."""

import copy
import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.estimators.tastes import made, timed, triples


def noise(n: int = 600, seed: int = 0) -> tuple[Any, Any]:
    """Ratings that are nothing but noise of standard deviation 1."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(60 * 50, n, replace=False)
    return np.column_stack([cells // 50, cells % 50]), rng.normal(size=n)


# ── held out ──


@pytest.mark.filterwarnings("ignore:the error of the ratings held out")
def test_noise_that_was_held_out_is_not_told() -> None:
    pairs, y = noise()
    model = made(n_factors=10, ridge=0.05, max_iter=10, validation=0.2).fit(pairs, y)
    assert model.validation_rmse_.min() >= 0.95 * y.std()


def test_what_is_held_out_weighs_something() -> None:
    pairs, y = noise()
    weight = np.zeros(len(y))
    weight[:20] = 1.0
    found = made(validation=0.1).fit(pairs, y, sample_weight=weight)
    assert np.isfinite(found.validation_rmse_).all()
    weight[1:] = 0.0
    with pytest.raises(ValueError, match="at least one to fit"):
        made(validation=0.1).fit(pairs, y, sample_weight=weight)


# ── weights ──


@pytest.mark.parametrize("more", [{}, {"method": "gibbs", "n_draws": 10}, {"feedback": "implicit"}])
def test_ratings_without_weight_were_not_told(more: dict[str, Any]) -> None:
    rows = triples()
    odd = [("u00", "nothing", 50.0), ("nobody", "i00", 99.0), *((f"u{i:02}", "odd", 40.0) for i in range(30))]
    weight = np.append(np.ones(len(rows)), np.zeros(len(odd)))
    found, expected = made(**more).fit([*rows, *odd], sample_weight=weight), made(**more).fit(rows)
    assert found.users_.tolist() == expected.users_.tolist()
    assert found.items_.tolist() == expected.items_.tolist()
    pairs = [("u00", "i00"), ("u01", "i05"), ("nobody", "i00")]
    np.testing.assert_allclose(found.predict(pairs), expected.predict(pairs), rtol=1e-9)
    assert found.ridge_ == pytest.approx(expected.ridge_)


def test_a_deed_that_faded_away_does_not_pull() -> None:
    rows = [(f"u{i}", f"i{j}", 1.0, 1e6) for i in range(8) for j in range(6) if (i + j) % 2]
    old = [("u0", "i0", 1.0, 0.0)]
    model = made(feedback="implicit", half_life=10.0).fit([*rows, *old])
    np.testing.assert_allclose(
        model.predict([("u0", "i0")]), made(feedback="implicit").fit(rows).predict([("u0", "i0")]), atol=1e-9
    )
    assert model.explain("u0", "i0").score == pytest.approx(float(model.predict([("u0", "i0")])[0]))


def test_ratings_that_weigh_little_tell_little_of_the_noise() -> None:
    pairs, y = noise(1200)
    weight = np.where(np.arange(len(y)) < 600, 1.0, 1e-4)
    model = made(n_factors=1, method="gibbs", n_draws=40).fit(pairs, y, sample_weight=weight)
    assert model.noise_std_ == pytest.approx(1.0, abs=0.1)


def test_the_spread_is_of_what_weighs() -> None:
    pairs, y = noise(150)
    weight = np.append(np.ones(100), np.full(50, 1e-9))
    y[100:] *= 1e3
    assert made().fit(pairs, y, sample_weight=weight).ridge_ == pytest.approx(0.15 * y[:100].std(), rel=0.01)


@pytest.mark.parametrize(("n_draws", "n_kept", "kept"), [(10, 6, 6), (10, 10, 10), (7, 1, 1), (3, 50, 3)])
def test_as_many_draws_are_kept_as_asked(n_draws: int, n_kept: int, kept: int) -> None:
    model = made(method="gibbs", n_draws=n_draws, burn_in=1, n_kept=n_kept).fit(triples())
    assert len(model.state_.posterior.users) == kept


# ── age ──


@pytest.mark.filterwarnings("ignore:the error of the ratings held out")
def test_times_in_seconds_are_told_from_days() -> None:
    rows = timed().assign(time=lambda found: 1.6e9 + 86_400.0 * found["time"])
    with pytest.raises(ValueError, match=r"are the times in seconds\?") as raised:
        made(half_life=180, validation=0.1).fit(rows)
    assert "\n" not in str(raised.value)
    made(half_life=180 * 86_400, validation=0.1).fit(rows)


def test_newer_ratings_make_the_others_older() -> None:
    rows = timed().sort_values("time")
    new = rows.tail(5).assign(time=130.0)
    model = made(half_life=20.0).fit(rows[:-5]).partial_fit(new)
    at, state = model.state_.posterior.select_draw(), model.state_
    age = 130.0 - state.entries.time
    np.testing.assert_allclose(state.ratings.weights, 0.5 ** (age / 20.0))
    np.testing.assert_allclose(at.users, state.solver.solve_users(state.ratings, at), atol=1e-9)


def test_bins_stay_where_they_were_learned() -> None:
    rows = timed().sort_values("time")
    model = made(time_bins=4).fit(rows[:-5])
    late = [("u00", "i00"), ("u01", "i01")]
    before = model.state_.times.find_bins(np.array([10.0, 60.0, 99.0])).tolist()
    model.partial_fit(rows.tail(5).assign(time=400.0))
    assert model.state_.times.find_bins(np.array([10.0, 60.0, 99.0])).tolist() == before
    assert model.state_.times.newest == 400.0
    np.testing.assert_array_equal(model.predict(late), model.predict(late, time=400.0))


def test_one_moment_of_any_kind_is_a_time() -> None:
    start = pd.Timestamp("2020-01-01")
    rows = timed().assign(time=lambda found: start + pd.to_timedelta(found["time"], unit="D"))
    model = made(time_bins=5, half_life=datetime.timedelta(days=50)).fit(rows)
    plain = made(time_bins=5, half_life=50.0).fit(rows)
    pairs = [("u00", "i00"), ("u01", "i01")]
    expected = plain.predict(pairs, time=[datetime.date(2020, 1, 30)] * 2)
    for time in (
        pd.Timestamp("2020-01-30"),
        pd.Timestamp("2020-01-30", tz="UTC"),
        datetime.datetime(2020, 1, 30, tzinfo=datetime.UTC),
        np.datetime64("2020-01-30"),
    ):
        np.testing.assert_allclose(model.predict(pairs, time=time), expected)
        assert model.recommend("u00", 1, time=time)[0].shape == (1,)
    for half_life in (np.timedelta64(50, "D"), pd.Timedelta(days=50)):
        np.testing.assert_allclose(
            made(time_bins=5, half_life=half_life).fit(rows).predict(pairs, time=time), expected
        )
    with pytest.raises(ValueError, match="time 0 is nan"):
        model.predict(pairs, time=pd.NaT)


# ── pairs that come again ──


def test_the_last_is_the_newest_where_times_tell() -> None:
    rows = [("a", "x", 1.0, 9.0), ("a", "x", 5.0, 3.0), ("a", "y", 2.0, 1.0), ("b", "x", 4.0, 2.0)]
    for model in (
        made(n_factors=1, duplicates="last").fit(rows),
        made(n_factors=1, duplicates="last").fit([rows[0], *rows[2:]]).partial_fit(rows[1:2]),
    ):
        told = model.explain("a", "x")
        assert dict(zip(told.items, told.ratings.tolist(), strict=True)) == {"x": 1.0, "y": 2.0}


def test_no_mean_is_made_of_what_is_known() -> None:
    rows = [("a", "x", 1.0), ("a", "y", 5.0), ("b", "x", 2.0)]
    model = made(n_factors=1, duplicates="mean").fit(rows)
    before = copy.deepcopy(model).predict([("a", "x")])
    with pytest.raises(ValueError, match="user 'a' has item 'x' already") as raised:
        model.partial_fit([("b", "y", 1.0), ("a", "x", 3.0)])
    assert "\n" not in str(raised.value)
    np.testing.assert_array_equal(model.predict([("a", "x")]), before)
    model.partial_fit([("b", "y", 1.0), ("b", "y", 3.0)])
    assert dict(zip(*_told(model, "b"), strict=True)) == {"x": 2.0, "y": 2.0}
    summed = made(n_factors=1, duplicates="sum").fit(rows).partial_fit([("a", "x", 3.0)])
    assert dict(zip(*_told(summed, "a"), strict=True)) == {"x": 4.0, "y": 5.0}


def _told(model: Any, user: str) -> tuple[tuple[Any, ...], list[float]]:
    found = model.explain(user, "x")
    return found.items, found.ratings.tolist()
