"""Rows taken away by one step leave a slope no larger than was promised, in whatever order they go."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators import LogisticRegression
from tamis.models.linear.laplace import LaplaceModel
from tamis.models.linear.objective import GaussianPrior, LinearRows
from tamis.models.linear.responses import Bernoulli, Response
from tests.models.curved_rows import design_of

each_number = pytest.mark.parametrize("classes", [2, 3])
seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, classes: int, n: int = 60, d: int = 3) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * rng.uniform(0.2, 3.0, d)
    truth = rng.normal(size=(d, classes))
    noise = rng.gumbel(size=(n, classes))
    labels = (rows @ truth + noise).argmax(axis=1)
    labels[:classes] = np.arange(classes)
    return rows, labels


def slope_left(
    model: LogisticRegression, rows: Array, labels: NDArray[np.int64], intercept: bool = True
) -> float:
    """The slope of the objective of these rows, in the metric of its own curvature at the old point."""
    state: Any = model.state_.fit
    response: Response = state.response
    curved = LaplaceModel(response, GaussianPrior(state.prior.mean, state.prior.precision))
    assert not state.centre.any()
    objective = curved.objective_of(
        LinearRows(design_of(rows, intercept, centred=False), labels.astype(np.float64))
    )
    _, gradient = objective.value_and_gradient(state.posterior.mean)
    precision = state.prior.add_to(objective.information(state.original.mean))
    return float(np.sqrt(gradient @ np.linalg.solve(precision, gradient)))


@each_number
@given(seed=seeds, count=st.integers(1, 12), alpha=st.sampled_from([1e-2, 0.3, 1.0, 10.0]))
@settings(max_examples=12, deadline=None)
def test_the_slope_left_is_at_most_the_bound(classes: int, seed: int, count: int, alpha: float) -> None:
    rows, labels = drawn(seed, classes)
    gone = np.random.default_rng(seed + 1).permutation(np.arange(classes, 60))[:count]
    kept = np.setdiff1d(np.arange(60), gone)
    model = LogisticRegression(alpha=alpha).fit(rows, labels)
    model.unlearn_approximately(rows[gone], labels[gone])
    found = slope_left(model, rows[kept], labels[kept])
    assert found <= model.removal_bound_ + 1e-12


@pytest.mark.parametrize("count", [100, 1000])
def test_the_bound_is_nearly_reached_where_curvature_grows_as_fast_as_it_can(count: int) -> None:
    """Rare events, one column of ones: p(1 − p) grows like e^score, which is all that the bound allows."""
    rows, labels = np.ones((10_000, 1)), (np.arange(10_000) < 5).astype(np.int64)
    model = LogisticRegression(alpha=1e-6, fit_intercept=False).fit(rows, labels)
    model.unlearn_approximately(rows[-count:], labels[-count:])
    left = slope_left(model, rows[:-count], labels[:-count], intercept=False)
    assert 0.9 * model.removal_bound_ < left <= model.removal_bound_


@each_number
@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_the_slope_left_after_the_worst_rows_is_at_most_the_bound(classes: int, seed: int) -> None:
    rows, labels = drawn(seed, classes)
    rows[-1] *= 5.0  # one long row, on the wrong side
    model = LogisticRegression(alpha=0.3).fit(rows, labels)
    surest = int(model.predict(rows[-1:])[0])
    labels[-1] = (surest + 1) % classes
    model = LogisticRegression(alpha=0.3).fit(rows, labels)
    model.unlearn_approximately(rows[-1:], labels[-1:])
    assert slope_left(model, rows[:-1], labels[:-1]) <= model.removal_bound_ + 1e-12


@each_number
@given(seed=seeds, solver=st.sampled_from(["newton", "whitened", "diagonal"]))
@settings(max_examples=5, deadline=None)
def test_a_fit_that_ended_early_loosens_the_bound(classes: int, seed: int, solver: Any) -> None:
    rows, labels = drawn(seed, classes)
    model = LogisticRegression(solver=solver, tol=1e-2).fit(rows, labels)
    model.unlearn_approximately(rows[-2:], labels[-2:])
    assert slope_left(model, rows[:-2], labels[:-2]) <= model.removal_bound_ + 1e-12


@each_number
@given(seed=seeds, cuts=st.lists(st.integers(1, 9), max_size=4, unique=True))
@settings(max_examples=5, deadline=None)
def test_rows_may_go_in_any_order_and_any_parts(classes: int, seed: int, cuts: list[int]) -> None:
    rows, labels = drawn(seed, classes)
    at_once = LogisticRegression().fit(rows, labels)
    at_once.unlearn_approximately(rows[-10:], labels[-10:])
    order = np.random.default_rng(seed).permutation(np.arange(50, 60))
    by_parts = LogisticRegression().fit(rows, labels)
    for index in np.split(order, sorted(cuts)):
        by_parts.unlearn_approximately(rows[index], labels[index])
    assert_allclose(by_parts.coef_, at_once.coef_, rtol=1e-9, atol=1e-9)
    assert_allclose(by_parts.intercept_, at_once.intercept_, rtol=1e-9, atol=1e-9)
    assert_allclose(by_parts.coef_covariance_, at_once.coef_covariance_, rtol=1e-9, atol=1e-9)
    assert by_parts.removal_bound_ == pytest.approx(at_once.removal_bound_, rel=1e-6)


@each_number
@pytest.mark.parametrize("centre", [0.0, 1e6])
def test_what_is_left_is_nearer_to_the_refit_than_what_was(classes: int, centre: float) -> None:
    for seed in range(4):
        rows, labels = drawn(seed, classes, 120)
        rows += centre
        model = LogisticRegression().fit(rows, labels)
        before = model.predict_log_proba(rows)
        model.unlearn_approximately(rows[-6:], labels[-6:])
        refit = LogisticRegression().fit(rows[:-6], labels[:-6]).predict_log_proba(rows)
        left = np.abs(model.predict_log_proba(rows) - refit).max()
        assert left < 0.35 * np.abs(before - refit).max()


def test_weights_are_taken_away_too() -> None:
    rows, labels = drawn(0, 2, 200)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    model = LogisticRegression().fit(rows, labels, weight)
    model.unlearn_approximately(rows[:1], labels[:1], weight[:1])
    refit = LogisticRegression().fit(rows[1:], labels[1:], weight[1:])
    assert_allclose(model.coef_, refit.coef_, rtol=2e-3, atol=2e-3)
    assert_allclose(model.coef_std_, refit.coef_std_, rtol=2e-2)


def test_nothing_changes_where_too_little_would_be_left() -> None:
    rows, labels = drawn(0, 2)
    model = LogisticRegression().fit(rows, labels)
    before = model.coef_
    with pytest.raises(ValueError, match=r"nothing was changed"):
        model.unlearn_approximately(np.tile(rows, (3, 1)), np.tile(labels, 3))
    assert np.array_equal(model.coef_, before)
    assert not hasattr(model, "removal_bound_")


@each_number
def test_all_rows_are_too_many_to_take_away(classes: int) -> None:
    rows, labels = drawn(0, classes)
    model = LogisticRegression().fit(rows, labels)
    with pytest.raises(ValueError, match=r"weight 60 to take from 60, .*nothing was changed"):
        model.unlearn_approximately(rows, labels)
    model.unlearn_approximately(rows[:40], labels[:40])
    before = model.coef_
    with pytest.raises(ValueError, match=r"weight 20 to take from 20, .*nothing was changed"):
        model.unlearn_approximately(rows[40:], labels[40:])
    assert np.array_equal(model.coef_, before)


def test_evidence_is_of_rows_that_are_all_there() -> None:
    rows, labels = drawn(0, 2)
    model = LogisticRegression().fit(rows, labels).unlearn_approximately(rows[:2], labels[:2])
    with pytest.raises(AttributeError, match="is not available after rows were removed: call fit again"):
        _ = model.log_evidence_


def test_after_rows_that_came_later_no_bound_is_known() -> None:
    rows, labels = drawn(0, 2)
    model = LogisticRegression().fit(rows, labels).partial_fit(rows[:10], labels[:10])
    assert not hasattr(model, "removal_bound_")
    assert model.unlearn_approximately(rows[:1], labels[:1]).removal_bound_ == np.inf
    assert not hasattr(model.decay(0.9), "removal_bound_")


def test_a_diagonal_posterior_cannot_be_taken_from() -> None:
    rows, labels = drawn(0, 2)
    model = LogisticRegression(posterior="diagonal").fit(rows, labels)
    with pytest.raises(ValueError, match="posterior='full'"):
        model.unlearn_approximately(rows[:1], labels[:1])


def test_the_two_class_response_is_the_binary_one() -> None:
    rows, labels = drawn(0, 2)
    state: Any = LogisticRegression().fit(rows, labels).state_.fit
    assert isinstance(state.response, Bernoulli)


@each_number
def test_explanations_are_relative_to_the_mean_of_the_rows_that_are_left(classes: int) -> None:
    rows, labels = drawn(7, classes)
    model = LogisticRegression().fit(rows + 2.0, labels)
    model.unlearn_approximately(rows[50:] + 2.0, labels[50:])
    mean_row = rows[:50].mean(axis=0, keepdims=True) + 2.0
    at_mean = model.explain(mean_row, for_=1, against=0)
    assert_allclose(at_mean.contributions, 0.0, atol=1e-12)
    assert_allclose(at_mean.prior, at_mean.log_odds)
