"""Newton's method ends where the slope is zero, by every solver, from any shards, on rows of any scale."""

import warnings
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tamis import protocols, threads
from tamis.arrays import Array
from tamis.models.linear.fitting import FitOptions, UnidentifiedError, fit
from tamis.models.linear.laplace import Curvature, Laplace, LaplaceModel, choose_precision
from tamis.models.linear.newton import Solver, minimise, solve_semidefinite
from tamis.models.linear.objective import GaussianPrior, LinearRows
from tamis.models.linear.responses import Bernoulli, Response, Softmax
from tests.models.curved_rows import ALL, design_of, drawn, named, part, prior_of

each_response = pytest.mark.parametrize("response", ALL, ids=named)
each_class = pytest.mark.parametrize("response", [Bernoulli(), Softmax.of(3)], ids=named)
each_form = pytest.mark.parametrize("as_sparse", [False, True], ids=["dense", "sparse"])
SOLVERS: tuple[Solver, ...] = ("auto", "newton", "whitened", "diagonal")
seeds = st.integers(0, 2**32 - 1)


def top(model: LaplaceModel, rows: LinearRows, solver: Solver = "newton", most: int = 1000) -> Array:
    outcome = minimise(model.objective_of(rows), model.prior.mean, solver, 1e-20, most)
    return outcome.point.parameters


def left(model: LaplaceModel, rows: LinearRows, at: Array) -> float:
    """The slope that is left, in units of standard deviations."""
    objective = model.objective_of(rows)
    _, gradient = objective.value_and_gradient(at)
    return float(np.sqrt(gradient @ np.linalg.solve(model.prior.add_to(objective.information(at)), gradient)))


@each_response
@given(seed=seeds, cuts=st.lists(st.integers(1, 79), max_size=6, unique=True))
@settings(max_examples=6, deadline=None)
def test_newton_ends_at_a_zero_gradient_from_any_shards(
    response: Response, seed: int, cuts: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    rows = drawn(response, rng, 80, 2, as_sparse=bool(seed % 2), weighed=bool(seed % 3), moved=True)
    model = LaplaceModel(response, prior_of(response, 2, 1.0))
    shards = [part(rows, index) for index in np.split(rng.permutation(80), sorted(cuts))]
    start = Laplace(model.prior.mean, None)
    steps = islice(protocols.iterate(model, shards, start), 60)
    end = next(step.posterior for step in steps if left(model, rows, step.posterior.mean) < 1e-10)
    assert_allclose(end.mean, top(model, rows), rtol=1e-7, atol=1e-8)


@each_response
def test_one_shard_or_many_have_the_same_curvature(response: Response) -> None:
    rng = np.random.default_rng(0)
    rows = drawn(response, rng, 50, 2, weighed=True, moved=True)
    model = LaplaceModel(response, prior_of(response, 2, 1.0))
    whole = model.observe(rows)
    first, second = model.observe(part(rows, slice(0, 20))), model.observe(part(rows, slice(20, 50)))
    for found, expected in ((first + second, whole), (whole - second, first), (2.0 * first, first + first)):
        assert found.weight == pytest.approx(expected.weight)
        assert found.loss == pytest.approx(expected.loss)
        assert_allclose(found.gradient, expected.gradient, rtol=1e-10, atol=1e-10)
        assert_allclose(found.information, expected.information, rtol=1e-10, atol=1e-10)


def test_curvatures_of_two_points_do_not_add() -> None:
    rows = drawn(Bernoulli(), np.random.default_rng(0))
    model = LaplaceModel(Bernoulli(), prior_of(Bernoulli(), 3, 1.0))
    elsewhere = model.observe(rows, Laplace(np.ones(4), None))
    with pytest.raises(ValueError, match="two points"):
        model.observe(rows) + elsewhere


@each_response
@each_form
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_comes_to_the_same_point(response: Response, as_sparse: bool, solver: Solver) -> None:
    rows = drawn(response, np.random.default_rng(1), 200, as_sparse=as_sparse, weighed=True, moved=True)
    model = LaplaceModel(response, prior_of(response, 3, 0.5))
    found = top(model, rows, solver)
    assert left(model, rows, found) < 1e-6
    assert_allclose(found, top(model, rows), rtol=1e-5, atol=1e-6)


@each_class
def test_a_sample_of_the_rows_shows_the_way_to_the_point_of_all(response: Response) -> None:
    rows = drawn(response, np.random.default_rng(2), 40_000)  # enough to take each other row first
    model = LaplaceModel(response, prior_of(response, 3, 1.0))
    outcome = minimise(model.objective_of(rows), model.prior.mean, "whitened")
    assert outcome.converged
    assert outcome.iterations < 15
    assert_allclose(outcome.point.parameters, top(model, rows), rtol=1e-4, atol=1e-5)


@each_class
@pytest.mark.parametrize("solver", ["newton", "whitened", "diagonal"])
def test_no_bit_depends_on_the_number_of_threads(
    response: Response, solver: Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = drawn(response, np.random.default_rng(3), 40_000, 8)
    assert rows.design.cells > 1 << 18  # else there is but one lane
    model = LaplaceModel(response, prior_of(response, 8, 1.0))
    found = []
    for processors in (1, 3):
        monkeypatch.setattr(threads, "_processors", lambda count=processors: count)
        outcome = minimise(model.objective_of(rows), model.prior.mean, solver, max_iter=3)
        found.append(outcome.point.parameters)
    assert np.array_equal(found[0], found[1])


# ── rows of every scale ──


@each_class
@pytest.mark.parametrize("solver", SOLVERS)
def test_columns_of_very_different_scales_are_no_matter(response: Response, solver: Solver) -> None:
    rng = np.random.default_rng(4)
    rows = drawn(response, rng, 300, 4)
    scale = np.array([1e-3, 1.0, 1e3, 1e2])
    values = next(iter(rows.design.blocks(0, 300))).dense()[:, :4]
    scaled = LinearRows(design_of(values * scale), rows.targets)
    plain = LaplaceModel(response, prior_of(response, 4, 1.0))
    precision = plain.prior.precision.reshape(-1, 5) * np.append(scale**2, 1.0)
    other = LaplaceModel(response, GaussianPrior(plain.prior.mean, precision.ravel()))
    expected = top(plain, rows).reshape(-1, 5)
    found = top(other, scaled, solver).reshape(-1, 5) * np.append(scale, 1.0)
    assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@each_class
@pytest.mark.parametrize("solver", ["auto", "newton", "whitened"])
def test_columns_that_are_nearly_the_same_are_no_matter(response: Response, solver: Solver) -> None:
    rng = np.random.default_rng(5)
    rows = drawn(response, rng, 300, 2)
    values = next(iter(rows.design.blocks(0, 300))).dense()[:, :2]
    twins = np.column_stack([values, values[:, 0] + 1e-6 * rng.normal(size=300)])
    assert np.linalg.cond(twins) > 1e5
    ill = LinearRows(design_of(twins), rows.targets)
    model = LaplaceModel(response, prior_of(response, 3, 1e-6))
    assert left(model, ill, top(model, ill, solver)) < 1e-5


@each_class
@pytest.mark.parametrize("solver", SOLVERS)
def test_columns_far_from_zero_lose_no_digits(response: Response, solver: Solver) -> None:
    rng = np.random.default_rng(6)
    rows = drawn(response, rng, 300, 3)
    values = next(iter(rows.design.blocks(0, 300))).dense()[:, :3]
    far = LinearRows(design_of(values + 1e8), rows.targets)
    model = LaplaceModel(response, prior_of(response, 3, 1.0))
    expected, found = (top(model, each, solver).reshape(-1, 4)[:, :3] for each in (rows, far))
    assert_allclose(found, expected, rtol=1e-5, atol=1e-6)  # 1e8 has eight digits left for what varies


@each_class
@pytest.mark.parametrize("solver", SOLVERS)
def test_one_row_of_each_class_is_enough_with_a_prior(response: Response, solver: Solver) -> None:
    k = 3 if isinstance(response, Softmax) else 2
    rows = LinearRows(design_of(np.eye(k)), np.arange(k, dtype=np.float64))
    model = LaplaceModel(response, prior_of(response, k, 1.0))
    assert left(model, rows, top(model, rows, solver)) < 1e-6


@each_response
@each_form
@given(seed=seeds)
@settings(max_examples=3, deadline=None)
def test_a_weight_of_two_is_the_row_twice_and_of_zero_none(
    response: Response, as_sparse: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = drawn(response, rng, 60, 2, as_sparse=as_sparse, moved=True)
    counts = rng.integers(0, 3, 60)
    if isinstance(response, Softmax | Bernoulli):  # the intercept of a class without weight has no optimum
        group = rows.targets.astype(np.intp)
        assume(np.bincount(group, counts, group.max() + 1).all())
    model = LaplaceModel(response, prior_of(response, 2, 1.0))
    weighed = LinearRows(rows.design, rows.targets, counts.astype(np.float64), rows.offsets)
    repeated = part(rows, np.repeat(np.arange(60), counts))
    assert_allclose(top(model, weighed), top(model, repeated), rtol=1e-7, atol=1e-8)


# ── rows that do not say ──


def no_prior(response: Response, d: int) -> GaussianPrior:
    return prior_of(response, d, 0.0)


def fitted(rows: LinearRows, response: Response, **options: Any) -> Any:
    prior = no_prior(response, rows.design.columns)
    return fit(rows, response, prior, prior.mean, FitOptions(**options))


@each_class
@each_form
@pytest.mark.parametrize("kind", ["twin", "constant", "sum"])
def test_columns_that_others_determine_are_found(response: Response, as_sparse: bool, kind: str) -> None:
    rows = drawn(response, np.random.default_rng(7), 100)
    values = next(iter(rows.design.blocks(0, 100))).dense()[:, :3]
    more = {"twin": values[:, 1], "constant": np.full(100, 7.0), "sum": values[:, 0] - 2 * values[:, 1]}
    wide = LinearRows(design_of(np.column_stack([values, more[kind]]), True, as_sparse), rows.targets)
    with pytest.raises(UnidentifiedError) as caught:
        fitted(wide, response)
    found = set(caught.value.columns.tolist())
    assert found & {"twin": {1, 3}, "constant": {3}, "sum": {0, 1, 3}}[kind]
    assert not found & {2}


@each_class
@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_rows_that_determine_everything_are_taken(response: Response, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = drawn(response, rng, 150, 3, as_sparse=bool(seed % 2))
    found = fitted(rows, response)
    assert found.converged
    assert found.separating is None
    assert left(LaplaceModel(response, found.prior), rows, found.posterior.mean) < 1e-4


@each_class
def test_steps_end_at_the_limit_and_say_so(response: Response) -> None:
    rows = drawn(response, np.random.default_rng(8), 100)
    found = fitted(rows, response, max_iter=1, tol=0.0, solver="diagonal")
    assert found.iterations == 1
    assert not found.converged
    assert found.distance_from_mode > 0


def test_no_step_goes_where_rounding_made_the_curvature_negative() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = solve_semidefinite(np.diag([4.0, -1e-18]), np.array([2.0, 1.0]))
    assert_allclose(step, [0.5, 0.0])


@pytest.mark.parametrize("excess", [1e-3, 1e-5, 1e-7, -1e-3, -1e-5, -1e-7])
def test_a_precision_by_evidence_is_a_fixed_point_however_slowly_it_is_approached(excess: float) -> None:
    """Where pulls are as large as chance makes them, MacKay's steps change the precision by that share."""
    values = np.array([1.0, 2.0, 0.5])
    pulls = np.sqrt(values * (1.0 + excess))
    curvature = Curvature(np.zeros(3), 3.0, 0.0, -pulls, values)
    for start in (1.0, 50.0, 1e4):
        prior = GaussianPrior(np.zeros(3), np.full(3, start))
        found = choose_precision(curvature, prior, np.ones(3, dtype=np.bool_))
        slope = float((values / (values + found) - found * np.square(pulls / (values + found))).sum())
        if found == pytest.approx(1e12):
            assert slope >= 0  # evidence rises up to the bound
        else:
            size = float((values / (values + found)).sum())
            assert abs(slope) < 1e-8 * size
        if excess > 0:  # Σp² > Σv: there is a largest evidence
            assert found < 1e11
