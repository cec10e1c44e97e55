"""The recommender: draws and their spread; new users and items without a fit, and forgetting."""

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special

from tamis import MatrixFactorization
from tamis.models.factors.posterior import find_mixture_quantile
from tests.estimators.tastes import ITEMS, USERS, made, triples


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


# ── draws ──


def test_draws_predict_with_their_spread(drawn: MatrixFactorization) -> None:
    rows = triples()
    pairs = [row[:2] for row in rows]
    mean, std = drawn.predict(pairs, return_std=True)
    np.testing.assert_array_equal(mean, drawn.predict(pairs))
    assert (std >= drawn.noise_std_).all()
    wrong = np.array([row[2] for row in rows]) - mean
    assert 0.5 < np.mean(np.abs(wrong) < std) < 0.95
    unsure = drawn.predict([("nobody", "i00"), ("u00", "nothing")], return_std=True)[1]
    assert (unsure > np.median(std)).all()
    assert drawn.user_factors_.shape == (USERS, 3)
    assert len(drawn.train_rmse_) == drawn.n_iter_ == 50


@pytest.mark.parametrize("spread", [0.0, 0.1, 3.0, 50.0])
@pytest.mark.parametrize("tail", [1e-6, 0.05, 0.5, 0.95, 1.0 - 1e-6])
def test_a_quantile_of_a_mixture_has_that_much_below_it(spread: float, tail: float) -> None:
    rng = np.random.default_rng(0)
    draws, scale = spread * rng.normal(size=(30, 200)), rng.uniform(0.2, 1.5, (30, 1))
    found = find_mixture_quantile(draws, scale, tail)
    below = special.ndtr((found - draws) / scale).mean(axis=0)
    np.testing.assert_allclose(below, tail, rtol=1e-6, atol=1e-12)


def test_one_value_is_no_range_to_clip_to() -> None:
    model = MatrixFactorization(2, method="gibbs", random_state=0).fit(
        [("a", 1, 5), ("b", 1, 5), ("a", 2, 5)]
    )
    (low,), (high,) = model.predict_interval([("z", "z")])
    assert low < 5.0 < high


def test_intervals_cover_what_was_held_out() -> None:
    rows = triples(3, 0.8)
    held = np.random.default_rng(0).random(len(rows)) < 0.25
    train = [row for row, out in zip(rows, held, strict=True) if not out]
    test = [row for row, out in zip(rows, held, strict=True) if out]
    model = made(method="gibbs", n_draws=60, burn_in=20, clip=False).fit(train)
    y = np.array([row[2] for row in test])
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval([row[:2] for row in test], coverage)
        assert np.mean((low <= y) & (y <= high)) == pytest.approx(coverage, abs=0.12)


def test_draws_do_not_depend_on_the_unit(drawn: MatrixFactorization) -> None:
    small = [(user, item, 0.001 * value) for user, item, value in triples()]
    model = made(method="gibbs", n_draws=40, burn_in=10, n_kept=20).fit(small)
    pairs = [row[:2] for row in triples()]
    np.testing.assert_allclose(1000.0 * model.predict(pairs), drawn.predict(pairs), rtol=1e-4)
    assert 1000.0 * model.noise_std_ == pytest.approx(drawn.noise_std_, rel=1e-4)
    folded = [
        each.fold_in_user({"i00": value, "i01": value}) for each, value in ((model, 0.005), (drawn, 5.0))
    ]
    one, other = (each.predict([(who, "i02")]) for each, who in zip((model, drawn), folded, strict=True))
    np.testing.assert_allclose(1000.0 * one, other, rtol=1e-3)


def test_draws_recommend_and_fold_in(drawn: MatrixFactorization) -> None:
    items, scores = drawn.recommend("u00", 5)
    raw = copy.deepcopy(drawn).set_params(clip=False).predict([("u00", item) for item in items])
    np.testing.assert_allclose(scores, raw, atol=1e-4)
    own = {item: value for user, item, value in triples() if user == "u02"}
    folded = drawn.fold_in_user(own)
    pairs = [(folded, item) for item in drawn.items_]
    known = drawn.predict([("u02", item) for item in drawn.items_])
    assert np.abs(drawn.predict(pairs) - known).mean() < 0.3
    assert np.isfinite(drawn.predict([("nobody", "nothing")])).all()


# ── learning later, and forgetting ──


def test_a_new_user_needs_no_fit(model: MatrixFactorization) -> None:
    own = {item: value for user, item, value in triples() if user == "u09"}
    folded = model.fold_in_user(own)
    pairs = [("u09", item) for item in model.items_]
    np.testing.assert_allclose(
        model.predict([(folded, item) for item in model.items_]), model.predict(pairs), atol=1e-10
    )
    assert model.recommend(folded, 4)[0].tolist() == model.recommend("u09", 4)[0].tolist()
    before = model.predict(pairs)
    model.add_user("a twin", list(own.items()))
    np.testing.assert_allclose(model.predict([("a twin", item) for item in model.items_]), before, atol=1e-10)
    np.testing.assert_allclose(model.predict(pairs), before, atol=1e-12)
    assert "a twin" in model.users_
    assert model.recommend("a twin", 4)[0].tolist() == model.recommend("u09", 4)[0].tolist()
    model.add_user("silent", {})
    np.testing.assert_allclose(model.predict([("silent", "i00")]), model.predict([("nobody", "i00")]))


def test_a_new_item_needs_no_fit(model: MatrixFactorization) -> None:
    raters = {user: value for user, item, value in triples() if item == "i06"}
    model.add_item("a double", raters)
    place = {item: i for i, item in enumerate(model.items_)}
    one, other = (model.item_factors_[place[item]] for item in ("i06", "a double"))
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert cosine > 0.95
    assert "a double" not in model.recommend(next(iter(raters)), 100)[0]
    told = model.explain(next(iter(raters)), "i00")
    assert "a double" in told.items
    assert told.score == pytest.approx(
        model.set_params(clip=False).predict([(next(iter(raters)), "i00")])[0], abs=1e-10
    )


def test_what_was_forgotten_never_was(model: MatrixFactorization) -> None:
    rows = triples()
    own = {item: value for user, item, value in rows if user == "u01"}
    gone = next(iter(own))
    rest = model.fold_in_user({item: value for item, value in own.items() if item != gone})
    others = model.predict([("u02", item) for item in model.items_])
    model.forget("u01", gone)
    pairs = [("u01", item) for item in model.items_]
    np.testing.assert_allclose(
        model.predict(pairs), model.predict([(rest, item) for item in model.items_]), atol=1e-12
    )
    np.testing.assert_array_equal(model.predict([("u02", item) for item in model.items_]), others)
    assert gone in model.recommend("u01", 100)[0]
    assert gone not in model.explain("u01", "i00").items


def test_an_item_forgets_too_if_asked(model: MatrixFactorization) -> None:
    raters = {user: value for user, item, value in triples() if item == "i08"}
    gone = next(iter(raters))
    place = model.items_.tolist().index("i08")
    before = model.item_factors_[place]
    twin = copy.deepcopy(model)
    twin.forget(gone, "i08")
    np.testing.assert_array_equal(twin.item_factors_[place], before)
    model.forget(gone, "i08", of_item=True)
    assert np.abs(model.item_factors_[place] - before).max() > 1e-6
    told = model.explain(list(raters)[1], "i08")
    assert told.score == pytest.approx(
        model.set_params(clip=False).predict([(list(raters)[1], "i08")])[0], abs=1e-10
    )


def test_many_are_forgotten_at_once(model: MatrixFactorization) -> None:
    rows = triples()[::7]
    one = copy.deepcopy(model).unlearn(rows)
    for user, item, _ in rows:
        model.forget(user, item)
    pairs = [row[:2] for row in triples()]
    np.testing.assert_allclose(one.predict(pairs), model.predict(pairs), atol=1e-12)


def test_what_was_learned_and_forgotten_leaves_the_rows_as_they_were(model: MatrixFactorization) -> None:
    known = {row[:2] for row in triples()}
    new = next(("u00", f"i{i:02}") for i in range(ITEMS) if ("u00", f"i{i:02}") not in known)
    pairs = [("u00", item) for item in model.items_]
    before = model.predict(pairs)
    model.partial_fit([(*new, 5.0)])
    assert np.abs(model.predict(pairs) - before).max() > 1e-6
    model.forget(*new, of_item=True)
    np.testing.assert_allclose(model.predict(pairs), before, atol=0.05)


def test_more_ratings_touch_only_their_rows() -> None:
    rows = triples()
    model = made().fit(rows[:-40])
    model.partial_fit(rows[-40:])
    model.partial_fit([("newcomer", "novelty", 5.0), ("newcomer", "i00", 4.0), ("u00", "novelty", 1.0)])
    assert {"newcomer"} <= set(model.users_)
    assert {"novelty"} <= set(model.items_)
    assert model.score(rows) > 0.5
    assert model.explain("newcomer", "i05").score == pytest.approx(
        model.set_params(clip=False).predict([("newcomer", "i05")])[0], abs=1e-10
    )
    fresh = made().partial_fit(rows)
    np.testing.assert_array_equal(fresh.user_factors_, made().fit(rows).user_factors_)


def test_deeds_are_learned() -> None:
    liked = [row[:2] for row in triples() if row[2] >= 4]
    model = made(feedback="implicit").fit(liked)
    assert model.level_ == 0.0
    assert not model.item_offsets_.any()
    assert np.mean(model.predict(liked)) > 0.7
    folded = model.fold_in_user({item for user, item in liked if user == "u00"})
    np.testing.assert_allclose(
        model.predict([(folded, item) for item in model.items_]),
        model.predict([("u00", item) for item in model.items_]),
        atol=1e-9,
    )
    counts = pd.Series([item for _, item in liked]).value_counts()
    assert model.recommend("nobody", 1)[1][0] == pytest.approx(counts.max() / len(model.users_))
    assert model.predict([("nobody", counts.index[0])])[0] == pytest.approx(counts.max() / len(model.users_))
    twice = made(feedback="implicit", duplicates="sum").fit([*liked, *liked])
    doubled = made(feedback="implicit").fit([(*pair, 2.0) for pair in liked])
    np.testing.assert_allclose(twice.predict(liked), doubled.predict(liked), atol=1e-8)
    model.forget(*liked[0])
    assert liked[0][1] in model.recommend(liked[0][0], 100)[0]


@pytest.mark.parametrize("seed", range(12))
def test_small_and_odd_data_have_finite_answers_that_are_explained(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users, items = rng.integers(1, 6, 2).tolist()
    cells = [(u, i) for u in range(users) for i in range(items)]
    cells = [cell for cell in cells if rng.random() < 0.6] or cells[:1]
    rows = [(*cell, float(rng.integers(1, 6)), float(rng.uniform(0.0, 9.0))) for cell in cells]
    kinds: list[dict[str, Any]] = [{}, {"half_life": 2.0}, {"time_bins": 2}, {"feedback": "implicit"}]
    more = [*kinds, {"offset_ridge": np.inf}][seed % 5]
    model = made(n_factors=int(rng.integers(1, 8)), clip=False, **more).fit(rows)
    model.add_user("z", {rows[0][1]: 3.0}).add_item("w", {rows[0][0]: 4.0})
    model.partial_fit([("q", "w", 2.0), ("q", "r", 5.0)])
    model.forget("z", rows[0][1]).unlearn([("q", "w")], of_items=True)
    pairs = [(u, i) for u in ("q", "z", *range(users), "?") for i in ("w", "r", *range(items), "?")]
    found = model.predict(pairs)
    assert np.isfinite(found).all()
    told = [model.explain(user, item).score for user, item in pairs]
    np.testing.assert_allclose(told, found, atol=1e-9)
    assert np.isfinite(model.recommend("q", 2, diversity=0.5)[1]).all()


def test_the_range_is_of_what_is_left() -> None:
    model = made().fit([*triples(), ("u00", "novelty", 50.0), ("u01", "novelty", 1.0)])
    model.forget("u00", "novelty")
    assert (model.state_.low, model.state_.high) == (1.0, 5.0)


@pytest.mark.parametrize("more", [{}, {"method": "gibbs", "n_draws": 10}, {"feedback": "implicit"}])
def test_who_has_no_ratings_is_as_good_as_unknown(more: dict[str, Any]) -> None:
    model = made(clip=False, **more).fit([*triples(), ("idle", "i00", 5.0)]).forget("idle", "i00")
    items = model.items_[:5].tolist()
    expected = model.predict([("nobody", item) for item in items])
    for user in ("idle", model.fold_in_user([])):
        np.testing.assert_array_equal(model.predict([(user, item) for item in items]), expected)
        for item, value in zip(items, expected, strict=True):
            assert model.recommend(user, 1, among=[item])[1][0] == pytest.approx(value, abs=1e-5)
            if "method" not in more:
                assert model.explain(user, item).score == pytest.approx(value)


def test_nobody_gets_nothing_and_one_may_come_as_an_array(model: MatrixFactorization) -> None:
    empty: list[Any] = [[], np.array([]), pd.Series([], dtype=object)]
    for nobody in empty:
        items, scores = model.recommend(nobody, 4)
        assert items.shape == scores.shape == (0, 4)
    np.testing.assert_array_equal(model.recommend(np.array("u00"), 3)[0], model.recommend("u00", 3)[0])
