"""Alternating least squares, draws, and what is made of them."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.models.factors import (
    Alternating,
    FactorPosterior,
    Factors,
    Gibbs,
    GroupedRatings,
    Implicit,
    Ratings,
    TimeScale,
    ranking,
    run_sweeps,
)
from tamis.protocols import iterate


def simulated(
    seed: int, users: int = 30, items: int = 20, share: float = 0.4, bins: int = 0, weighted: bool = False
) -> Ratings:
    rng = np.random.default_rng(seed)
    cells = np.flatnonzero(rng.random(users * items) < share)
    user, item = np.divmod(cells, items)
    own, other = rng.normal(size=(users, 2)), rng.normal(size=(items, 2))
    value = 3.0 + rng.normal(size=items)[item] + (own[user] * other[item]).sum(axis=1)
    value = value + 0.3 * rng.normal(size=len(cells))
    weight = rng.exponential(size=len(cells)) if weighted else None
    place = rng.integers(0, bins, len(cells)) if bins else None
    if place is not None:
        value = value + np.linspace(-1.0, 1.0, bins)[place]
    return Ratings(user, item, value, users, items, weight, place, bins)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rank=st.integers(1, 12),
    ridge=st.sampled_from([1e-6, 0.01, 0.3, 5.0]),
    offset_ridge=st.sampled_from([0.0, 1.0, 20.0, np.inf]),
    bins=st.sampled_from([0, 3]),
    weighted=st.booleans(),
)
def test_no_sweep_raises_the_objective(
    seed: int, rank: int, ridge: float, offset_ridge: float, bins: int, weighted: bool
) -> None:
    bins = bins if np.isfinite(offset_ridge) else 0
    ratings = simulated(seed, 12, 9, 0.5, bins, weighted)
    solver = Alternating(rank, ridge, offset_ridge)
    start = solver.start(ratings, np.random.default_rng(seed))
    path = [at.objective for at in islice(run_sweeps(solver, ratings, start), 8)]
    assert path[0] <= solver.evaluate(ratings, start).objective * (1.0 + 1e-9)
    assert (np.diff(path) <= 1e-9 * np.abs(path[:-1]) + 1e-10).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), confidence=st.sampled_from([0.0, 1.0, 40.0]))
def test_no_sweep_over_deeds_raises_the_objective(seed: int, confidence: float) -> None:
    ratings = simulated(seed, 12, 9, 0.3)
    ratings = replace(ratings, values=np.abs(ratings.values))
    solver = Implicit(3, 0.1, confidence)
    start = solver.start(ratings, np.random.default_rng(seed))
    path = [at.objective for at in islice(run_sweeps(solver, ratings, start), 8)]
    assert (np.diff(path) <= 1e-9 * np.abs(path[:-1])).all()


def test_deeds_are_least_squares_over_all_pairs() -> None:
    ratings = simulated(3, 8, 6, 0.4)
    ratings = replace(ratings, values=np.abs(ratings.values))
    solver = Implicit(2, 0.1, 5.0)
    at = next(run_sweeps(solver, ratings, solver.start(ratings, np.random.default_rng(0)))).factors
    sure, liked = np.ones((8, 6)), np.zeros((8, 6))
    sure[ratings.user_index, ratings.item_index] += 5.0 * ratings.values
    liked[ratings.user_index, ratings.item_index] = 1.0
    items = at.items[:, :-1]
    for user in range(8):
        gram = items.T @ (sure[user][:, None] * items) + 0.1 * np.eye(2)
        np.testing.assert_allclose(
            gram @ at.users[user, :-1], items.T @ (sure[user] * liked[user]), atol=1e-9
        )
    scores = at.users[:, :-1] @ items.T
    whole = (sure * np.square(liked - scores)).sum() + 0.1 * (
        np.square(at.users).sum() + np.square(items).sum()
    )
    assert solver.evaluate(ratings, at).objective == pytest.approx(whole, rel=1e-10)


def test_some_rows_are_solved_as_among_all() -> None:
    ratings = simulated(1, bins=2, weighted=True)
    solver = Alternating(3)
    at = next(run_sweeps(solver, ratings, solver.start(ratings, np.random.default_rng(0)))).factors
    some = np.array([7, 2, 19])
    np.testing.assert_allclose(
        solver.solve_users(ratings, at, some), solver.solve_users(ratings, at)[some], atol=1e-13
    )
    np.testing.assert_allclose(
        solver.solve_items(ratings, at, some), solver.solve_items(ratings, at)[some], atol=1e-13
    )
    np.testing.assert_array_equal(at.users, solver.solve_users(ratings, at))


@pytest.mark.parametrize("solver", [Alternating(3), Implicit(3)])
def test_sweeps_over_shards_are_those_over_all_ratings(solver: Alternating | Implicit) -> None:
    ratings = simulated(4, bins=3 if isinstance(solver, Alternating) else 0, weighted=True)
    ratings = replace(ratings, values=np.abs(ratings.values))
    first = np.arange(len(ratings)) % 3 == 0
    begin = next(run_sweeps(solver, ratings, solver.start(ratings, np.random.default_rng(0))))
    parts = [ratings.select(first), ratings.select(~first)]
    for step, one in islice(
        zip(iterate(solver, parts, begin), iterate(solver, [ratings], begin), strict=True), 3
    ):
        np.testing.assert_allclose(step.posterior.factors.users, one.posterior.factors.users, atol=1e-9)
        np.testing.assert_allclose(step.posterior.objective, one.posterior.objective, rtol=1e-12)
        assert step.objective == pytest.approx(one.objective, rel=1e-12)
    statistic = solver.observe(ratings, begin)
    nothing = statistic + statistic * 0.0
    np.testing.assert_allclose(
        solver.infer(nothing).factors.users, solver.infer(statistic).factors.users, atol=1e-9
    )


def test_draws_over_shards_are_those_over_all_ratings() -> None:
    ratings = simulated(4)
    first = np.arange(len(ratings)) % 3 == 0
    parts, rng = [ratings.select(first), ratings.select(~first)], np.random.default_rng
    start = Alternating(2).start(ratings, rng(0))
    one, other = Gibbs(2, rng(1)), Gibbs(2, rng(1))
    steps = (
        iterate(one, parts, one.start(ratings, start)),
        iterate(other, [ratings], other.start(ratings, start)),
    )
    for step, expected in islice(zip(*steps, strict=True), 3):
        np.testing.assert_allclose(step.posterior.factors.items, expected.posterior.factors.items, atol=1e-9)


def test_ratings_are_observed_given_factors() -> None:
    for model in (Alternating(2), Implicit(2), Gibbs(2, np.random.default_rng(0))):
        with pytest.raises(ValueError, match="got no factors, expected those of a start"):
            model.observe(simulated(0))


def test_a_side_holds_each_rows_entries() -> None:
    side = GroupedRatings.of(
        np.array([2, 0, 2]), np.array([5, 6, 7]), 4, np.arange(3.0), np.array([1.0, 2.0, 4.0])
    )
    assert (side.indptr.tolist(), side.other_index.tolist(), side.rating_index.tolist()) == (
        [0, 1, 1, 3, 3],
        [6, 5, 7],
        [1, 0, 2],
    )
    only = side.select_rows(np.array([2, 3, 0]))
    assert (only.indptr.tolist(), only.other_index.tolist()) == ([0, 2, 2, 3], [5, 7, 6])
    assert (side.values.tolist(), side.weights.tolist()) == ([1.0, 0.0, 2.0], [2.0, 1.0, 4.0])
    assert side.row_weights.tolist() == [2.0, 0.0, 5.0, 0.0]


def test_ratings_with_times_do_not_add_to_ratings_without() -> None:
    timed, untimed = simulated(0, bins=3), simulated(0)
    assert (timed + timed).time_bin is not None
    for left, right in ((timed, untimed), (untimed, timed)):
        with pytest.raises(ValueError, match="expected both with or both without"):
            left + right


def test_the_ridge_grows_with_the_ratings_and_begins_with_five() -> None:
    ratings = Ratings(np.array([0, 0, 2]), np.array([0, 1, 1]), np.ones(3), 3, 2, np.array([1.0, 0.5, 2.0]))
    found = Alternating(2, ridge=0.1, offset_ridge=3.0).compute_ridges(ratings.by_user)
    np.testing.assert_allclose(found[:, :2], [[0.65, 0.65], [0.5, 0.5], [0.7, 0.7]])
    assert (found[:, 2] == 3.0).all()


def test_offsets_of_time_are_found() -> None:
    ratings = simulated(2, 60, 40, 0.5, bins=4)
    solver = Alternating(2, 0.05, 1.0)
    at = list(islice(run_sweeps(solver, ratings, solver.start(ratings, np.random.default_rng(0))), 15))[
        -1
    ].factors
    seen = at.time_offsets - at.time_offsets.mean()
    np.testing.assert_allclose(seen, np.linspace(-1.0, 1.0, 4), atol=0.2)


def test_a_clock_tells_weight_bin_and_freshness() -> None:
    clock = TimeScale(0.0, 8.0, half_life=4.0, bins=4)
    time = np.array([-1.0, 0.0, 4.0, 8.0, 9.0])
    assert clock.compute_weights(time)[2:].tolist() == [0.5, 1.0, 1.0]
    assert np.asarray(clock.find_bins(time)).tolist() == [0, 0, 2, 3, 3]
    assert clock.compute_recency(time).tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    seasons = TimeScale(0.0, 100.0, bins=4, period=8.0)
    assert np.asarray(seasons.find_bins(np.array([0.0, 3.0, 8.5, 15.0, -1.0]))).tolist() == [0, 1, 0, 3, 3]
    assert TimeScale(5.0, 5.0).compute_recency(np.array([5.0])).tolist() == [1.0]
    assert TimeScale(0.0, 1.0).find_bins(time) is None


def test_what_is_unknown_adds_nothing() -> None:
    at = Factors(3.0, np.array([[1.0, 0.5]]), np.array([[2.0, 0.25]]))
    user, item = np.array([0, 0, -1, -1]), np.array([0, -1, 0, -1])
    assert FactorPosterior.from_factors(at).predict(user, item).tolist() == [5.75, 3.5, 3.25, 3.0]


def test_draws_have_the_noise_of_the_data() -> None:
    ratings = simulated(5, 80, 60, 0.5)
    solver = Alternating(2)
    start = list(islice(run_sweeps(solver, ratings, solver.start(ratings, np.random.default_rng(0))), 5))[
        -1
    ].factors
    model = Gibbs(2, np.random.default_rng(1))
    steps = list(islice(iterate(model, [ratings], model.start(ratings, start)), 60))[20:]
    noise = np.mean([step.posterior.precision**-0.5 for step in steps])
    assert noise == pytest.approx(0.3, abs=0.02)


def test_variety_is_bought_with_score() -> None:
    scores = np.array([[5.0, 4.9, 4.8, 3.0, -np.inf]])
    factors = np.array([[1.0, 0.0], [1.0, 0.01], [1.0, 0.02], [0.0, 1.0], [0.0, 1.0]])
    assert ranking.find_diverse_items(scores, factors, 3, 0.0).tolist() == [[0, 1, 2]]
    assert ranking.find_diverse_items(scores, factors, 2, 0.7).tolist() == [[0, 3]]
    assert ranking.find_diverse_items(scores, factors, 6, 0.5)[0, 4:].tolist() == [-1, -1]
    assert ranking.find_diverse_items(np.ones((1, 2)), np.zeros((2, 2)), 2, 1.0).tolist() == [[0, 1]]
    assert ranking.find_diverse_items(np.full((1, 2), -np.inf), np.zeros((2, 2)), 1, 0.5).tolist() == [[-1]]


def test_what_points_the_same_way_is_alike() -> None:
    places, cosines = ranking.find_similar_items(
        np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.0, 0.0]]), 0, 5
    )
    assert places.tolist() == [1, 2, 3]
    np.testing.assert_allclose(cosines, [2.0 / np.hypot(2.0, 0.1), 0.0, 0.0])


def test_a_ridge_too_small_is_said() -> None:
    ratings = Ratings(np.zeros(2, dtype=np.int64), np.arange(2), np.ones(2), 1, 2)
    with pytest.raises(ValueError, match="raise it"):
        Alternating(2, 0.0, np.inf).solve_users(
            ratings, Factors(0.0, np.zeros((1, 3)), np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
        )
