"""The recommender: what it takes, what it answers, and how it fits."""

import datetime
import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import tamis
from tamis import MatrixFactorization
from tests.estimators.tastes import ITEMS, USERS, made, timed, triples


@pytest.fixture(scope="module")
def fitted() -> MatrixFactorization:
    found: MatrixFactorization = made().fit(triples())
    return found


# ── what it takes ──


def test_all_kinds_of_input_say_the_same() -> None:
    rows = triples()
    expected = made().fit(rows)
    frame = pd.DataFrame(rows, columns=["user", "item", "rating"])
    pairs = [row[:2] for row in rows]
    wide = frame.rename(columns={"user": "who", "item": "what", "rating": "stars"})
    shuffled = wide[["stars", "what", "who"]]
    names = {"user": "who", "item": "what", "rating": "stars"}
    models = [
        made().fit(frame),
        made().fit(pl.from_pandas(frame)),
        made().fit(pa.Table.from_pandas(frame)),
        made().fit(frame[["rating", "item", "user"]]),  # by name
        made().fit(wide),  # by place
        made(columns=names).fit(shuffled),
        made().fit(np.array(rows, dtype=object)),
        made().fit(np.array(rows)),  # all strings
        made().fit(pairs, [row[2] for row in rows]),
        made().fit(frame[["user", "item"]], frame["rating"]),
        made().fit(np.array(pairs), np.array([row[2] for row in rows])),
    ]
    for other in models:
        assert other.users_.tolist() == expected.users_.tolist()
        np.testing.assert_allclose(other.predict(pairs), expected.predict(pairs), atol=1e-10)


def test_a_sparse_matrix_is_rows_of_users() -> None:
    rows = triples()
    place = [(int(u[1:]), int(i[1:]), r) for u, i, r in rows]
    user, item, value = (np.array(part) for part in zip(*place, strict=True))
    matrix = sparse.csr_array((value, (user, item)), shape=(USERS + 1, ITEMS + 2))
    for kind in (matrix, sparse.coo_matrix(matrix), matrix.tocsc()):
        model = made().fit(kind)
        assert model.users_.tolist() == list(range(USERS + 1))
        nobody = model.predict([(USERS, 0)])[0]
        assert nobody == pytest.approx(model.level_ + model.item_offsets_[0])
        assert model.predict([(0, ITEMS + 1)])[0] == pytest.approx(
            np.clip(model.level_ + model.user_offsets_[0], 1, 5)
        )
    by_triples = made().fit(np.array(place))
    assert by_triples.users_.dtype.kind == "i"


def test_ids_are_any_values() -> None:
    rows = [((1, "a"), 7, 4.0), ((2, "b"), 7, 2.0), ((1, "a"), "seven", 5.0), ((2, "b"), (0,), 1.0)]
    model = made(n_factors=1).fit(rows)
    assert set(model.users_) == {(1, "a"), (2, "b")}
    items, _ = model.recommend((1, "a"))
    assert items.tolist() == [(0,)]
    assert np.isfinite(model.predict([((1, "a"), 7), ((9,), "x")])).all()


def test_weights_count_ratings() -> None:
    rows = triples(share=0.3)
    frame = pd.DataFrame(rows, columns=["user", "item", "rating"])
    weight = np.random.default_rng(0).integers(1, 4, len(rows)).astype(float)
    one = made().fit(rows, sample_weight=weight)
    other = made().fit(frame.assign(weight=weight))
    np.testing.assert_array_equal(one.user_factors_, other.user_factors_)
    both = made().fit(frame.assign(weight=weight), sample_weight=np.full(len(rows), 2.0))
    np.testing.assert_allclose(both.user_factors_, made().fit(rows, sample_weight=2 * weight).user_factors_)
    assert np.abs(one.user_factors_ - made().fit(rows).user_factors_).max() > 1e-3


def test_old_ratings_weigh_less() -> None:
    rows = timed()
    weight = 2.0 ** (-(rows["time"].max() - rows["time"]) / 25.0)
    aged = made(half_life=25.0).fit(rows)
    expected = made().fit(rows[["user", "item", "rating"]], sample_weight=weight.to_numpy())
    np.testing.assert_allclose(aged.predict(rows), expected.predict(rows), atol=1e-10)
    days = rows.assign(time=pd.Timestamp("2020-01-01") + pd.to_timedelta(rows["time"], unit="D"))
    for frame in (days, pl.from_pandas(days), days.assign(time=days["time"].dt.tz_localize("UTC"))):
        np.testing.assert_allclose(
            made(half_life=25.0).fit(frame).predict(rows), aged.predict(rows), atol=1e-6
        )


def test_times_of_a_list_may_be_dates() -> None:
    day = datetime.date(2024, 1, 1)
    rows = [("a", "x", 1.0, day), ("a", "y", 5.0, day + datetime.timedelta(days=10)), ("b", "x", 2.0, day)]
    assert np.isfinite(made(n_factors=1, half_life=5.0).fit(rows).predict([("b", "y")])).all()


def test_taste_of_the_time_is_followed() -> None:
    rows = timed()
    late = rows["time"] > 50.0
    rows["rating"] = rows["rating"] + np.where(late, 1.0, -1.0)
    model = made(time_bins=2, clip=False).fit(rows)
    assert model.time_offsets_[1] - model.time_offsets_[0] == pytest.approx(2.0, abs=0.3)
    assert model.item_time_offsets_.shape == (len(model.items_), 2)
    then, now = model.predict([("u00", "i00")], time=10.0), model.predict([("u00", "i00")], time=[90.0])
    assert (now - then)[0] > 1.0
    assert model.predict([("u00", "i00")])[0] == now[0]
    assert model.score(rows) > made(clip=False).fit(rows).score(rows)
    early, _ = model.recommend("u00", 30, time=10.0)
    assert set(early) == set(model.recommend("u00", 30)[0])
    seasons = made(time_bins=2, period=100.0, clip=False).fit(rows)
    assert seasons.predict([("u00", "i00")], time=110.0)[0] == seasons.predict([("u00", "i00")], time=10.0)[0]


# ── answers ──


def test_it_predicts_better_than_offsets_alone() -> None:
    rows = triples(share=0.7)
    rng = np.random.default_rng(1)
    held = rng.random(len(rows)) < 0.2
    train = [row for row, out in zip(rows, held, strict=True) if not out]
    test = [row for row, out in zip(rows, held, strict=True) if out]
    flat = made(n_factors=1, ridge=1e6).fit(train).score(test)
    assert made(ridge=0.05).fit(train).score(test) > flat + 0.2


def test_what_is_unknown_gets_offsets_and_never_nan(fitted: MatrixFactorization) -> None:
    pairs = [("nobody", "i00"), ("u00", "nothing"), ("nobody", "nothing")]
    level, user, item = fitted.level_, fitted.user_offsets_[0], fitted.item_offsets_[0]
    expected = np.clip([level + item, level + user, level], 1, 5)
    np.testing.assert_allclose(fitted.predict(pairs), expected)
    items, scores = fitted.recommend("nobody", 3)
    best = np.argsort(-fitted.item_offsets_, kind="stable")[:3]
    assert items.tolist() == fitted.items_[best].tolist()
    np.testing.assert_allclose(scores, level + fitted.item_offsets_[best])


def test_predictions_stay_among_the_ratings() -> None:
    rows = triples()
    pairs = [row[:2] for row in rows]
    wild = made(ridge=1e-4, clip=False).fit(rows).predict(pairs)
    tame = made(ridge=1e-4).fit(rows).predict(pairs)
    assert wild.max() > 5.0
    np.testing.assert_array_equal(tame, np.clip(wild, 1.0, 5.0))


def test_recommendations_are_the_best_unseen(fitted: MatrixFactorization) -> None:
    seen = {item for user, item, _ in triples() if user == "u03"}
    items, scores = fitted.recommend("u03", 5)
    assert not seen & set(items)
    raw = fitted.set_params(clip=False).predict([("u03", item) for item in fitted.items_])
    fitted.set_params(clip=True)
    order = [i for i in np.argsort(-raw, kind="stable") if fitted.items_[i] not in seen][:5]
    assert items.tolist() == fitted.items_[order].tolist()
    np.testing.assert_allclose(scores, raw[order])
    everything, _ = fitted.recommend("u03", 1000, exclude_seen=False)
    assert sorted(everything) == fitted.items_.tolist()
    few, _ = fitted.recommend("u03", 10, among=["i01", "i02", "never seen"], exclude_seen=False)
    assert set(few) == {"i01", "i02"}


def test_many_users_at_once_are_each_by_himself(fitted: MatrixFactorization) -> None:
    who = ["u05", "nobody", "u07"]
    for many in (who, np.array(who), pd.Series(who), pl.Series(who)):
        items, scores = fitted.recommend(many, 4)
        for row, one in enumerate(who):
            single, score = fitted.recommend(one, 4)
            assert items[row].tolist() == single.tolist()
            np.testing.assert_allclose(scores[row], score, atol=1e-12)
    items, scores = fitted.recommend(who, 2 * ITEMS)
    assert items[0, -1] is None
    assert scores[0, -1] == -np.inf


def test_diversity_spreads_and_recency_prefers_the_new() -> None:
    rows = timed()
    model = made().fit(rows)
    place = {item: i for i, item in enumerate(model.items_)}

    def alike(items: Any) -> float:
        facing = model.item_factors_[[place[item] for item in items]]
        facing = facing / np.linalg.norm(facing, axis=1, keepdims=True)
        return float(((facing @ facing.T).sum() - len(facing)) / (len(facing) * (len(facing) - 1)))

    users = model.users_[:20].tolist()
    plain = np.mean([alike(model.recommend(user, 5)[0]) for user in users])
    varied = np.mean([alike(model.recommend(user, 5, diversity=0.6)[0]) for user in users])
    assert varied < plain - 0.1
    mean_time = rows.groupby("item")["time"].mean()
    late = np.mean([mean_time[model.recommend(user, 3, recency=50.0)[0]].mean() for user in users])
    assert late > np.mean([mean_time[model.recommend(user, 3)[0]].mean() for user in users]) + 5.0


def test_similar_items_have_the_nearest_factors(fitted: MatrixFactorization) -> None:
    items, cosines = fitted.similar_items("i04", 3)
    facing = fitted.item_factors_ / np.linalg.norm(fitted.item_factors_, axis=1, keepdims=True)
    every = facing @ facing[4]
    order = [i for i in np.argsort(-every) if i != 4][:3]
    assert items.tolist() == fitted.items_[order].tolist()
    np.testing.assert_allclose(cosines, every[order])


@pytest.mark.parametrize("more", [{}, {"offset_ridge": np.inf}, {"feedback": "implicit"}, {"time_bins": 3}])
def test_an_explanation_sums_to_the_score(more: dict[str, Any]) -> None:
    model = made(clip=False, **more).fit(timed())
    newcomer = model.fold_in_user({"i01": 5.0, "i02": 1.0, "i07": 4.0})
    for user in ("u00", "u11", "nobody", newcomer):
        for item in ("i03", "i20", "nothing"):
            told = model.explain(user, item)
            assert told.score == pytest.approx(model.predict([(user, item)])[0], abs=1e-10)
    told = model.explain("u00", "i03", 4)
    assert len(told.top) == 4
    assert set(told.items) == {item for user, item, _ in triples() if user == "u00"}
    assert (np.diff(np.abs(told.contributions)) <= 0.0).all()
    assert "level" in str(told)
    assert str(told).count("rated") == 4


def test_r_squared_is_scikit_learns(fitted: MatrixFactorization) -> None:
    from sklearn.metrics import r2_score  # noqa: PLC0415

    rows = triples(1)
    pairs, y = [row[:2] for row in rows], np.array([row[2] for row in rows])
    assert fitted.score(rows) == pytest.approx(r2_score(y, fitted.predict(pairs)))
    assert fitted.score(pairs, y) == fitted.score(rows)


# ── how it fits ──


def test_held_out_ratings_stop_the_sweeps() -> None:
    noise = np.random.default_rng(0).normal(size=len(triples()))
    rows = [(user, item, value + shake) for (user, item, value), shake in zip(triples(), noise, strict=True)]
    model = made(n_factors=10, ridge=0.01, max_iter=80, validation=0.2).fit(rows)
    path = model.validation_rmse_
    assert len(path) < 80
    assert model.n_iter_ == int(np.argmin(path)) + 1 == len(model.train_rmse_)
    assert (np.diff(made(tol=0.0).fit(triples()).train_rmse_) < 0.01).all()


def test_threads_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.threads.MIN_PARALLEL_WORK", 0)
    found = []
    for count in (1, 3):
        monkeypatch.setattr("tamis.threads._processors", lambda count=count: count)
        model = made(n_factors=8).fit(triples())
        found.append((model.user_factors_.tobytes(), model.recommend(model.users_)[0].tolist()))
    assert found[0] == found[1]


def test_more_factors_than_data_are_held_by_the_ridge() -> None:
    model = made(n_factors=50).fit([("a", "x", 1.0), ("a", "y", 5.0), ("b", "x", 2.0)])
    assert np.isfinite(model.predict([("b", "y")])).all()


def test_constant_ratings_are_predicted() -> None:
    rows = [(user, item, 4.0) for user, item, _ in triples()]
    for method in ("als", "gibbs"):
        model = made(method=method, n_draws=5, burn_in=2).fit(rows)
        np.testing.assert_allclose(model.predict([("u00", "i00"), ("nobody", "i01")]), 4.0)


def test_it_is_a_scikit_learn_estimator() -> None:
    model = made(ridge=0.3)
    assert clone(model).get_params() == model.get_params()
    rows = triples()
    pairs, y = np.array([row[:2] for row in rows]), np.array([row[2] for row in rows])
    search = GridSearchCV(made(), {"ridge": [0.05, 100.0]}, cv=3).fit(pairs, y)
    assert search.best_params_ == {"ridge": 0.05}
    seen = io.StringIO()
    with redirect_stderr(seen):
        made(verbose=1, max_iter=3, tol=0.0, ridge=0.1).fit(rows)
    assert "MatrixFactorization: 3 of at most 3 steps" in seen.getvalue()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"offset_ridge": np.inf},
        {"feedback": "implicit"},
        {"time_bins": 3, "half_life": 20.0},
        {"method": "gibbs"},
    ],
)
def test_a_file_holds_it_all(tmp_path: Path, more: dict[str, Any]) -> None:
    rows = timed()
    model = made(n_draws=6, burn_in=2, **more).fit(rows)
    model.save(tmp_path / "model.tamis")
    again = tamis.load(tmp_path / "model.tamis")
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.recommend("u00")[0].tolist() == model.recommend("u00")[0].tolist()
    assert again.users_.tolist() == model.users_.tolist()
    again.forget("u00", model.explain("u00", "i00").items[0] if not more.get("method") else rows["item"][0])
    again.add_user("new", {"i00": 4.0})
