"""Rows D1–D5 of the lectures: linear models of classes and of numbers, by one method."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, optimize, special
from sklearn import linear_model

from tamis import logit, sigmoid
from tamis.arrays import Array
from tamis.estimators import BayesianLinearRegression, LogisticRegression
from tamis.models.linear.laplace import LaplaceModel
from tamis.models.linear.newton import Newton, Search, descend, minimise
from tamis.models.linear.objective import GaussianPrior
from tamis.models.linear.responses import (
    CANONICAL,
    Bernoulli,
    Response,
    Softmax,
    average_log_odds,
    average_softmax,
    make_response,
)
from tests.models.curved_rows import drawn, near, prior_of

SCORES = np.array([-700.0, -3.0, -1e-9, 0.0, 0.5, 2.0, 700.0])


# ── D1: sigmoid, logit, softmax ──


def test_d1_the_sigmoid_of_minus_a_is_one_less_that_of_a() -> None:
    assert_allclose(sigmoid(-SCORES), 1.0 - sigmoid(SCORES), atol=1e-16)
    assert_allclose(Bernoulli().mean(SCORES), sigmoid(SCORES), rtol=1e-14)
    assert sigmoid(0.0) == 0.5


def test_d1_the_logit_undoes_the_sigmoid() -> None:
    shares = np.array([1e-300, 1e-12, 0.1, 0.5, 0.9])
    assert_allclose(sigmoid(logit(shares)), shares, rtol=1e-12)
    assert_allclose(logit(shares), np.log(shares / (1.0 - shares)), atol=1e-12)
    assert_allclose(Bernoulli().link_function(shares), logit(shares), rtol=1e-14)


def test_d1_sigmoid_and_logit_are_those_of_scipy_at_every_size() -> None:
    small = 10.0 ** -np.arange(0.5, 300.0, 7.0)
    shares = np.concatenate([small, 0.5 - small, 0.5 + small[3:], 1.0 - small])
    with np.errstate(divide="ignore"):
        assert_allclose(logit(shares), special.logit(shares), rtol=4e-15)
    scores = np.concatenate([-1.0 / small, -small, [0.0], small, 1.0 / small, [-np.inf, np.inf, np.nan]])
    assert_allclose(sigmoid(scores), special.expit(scores), rtol=4e-15)


def test_d1_ends_are_infinite_log_odds_and_no_number_outside_is_a_probability() -> None:
    assert logit([0.0, 1.0]).tolist() == [-np.inf, np.inf]
    assert sigmoid([-np.inf, np.inf]).tolist() == [0.0, 1.0]
    assert logit(np.full((2, 3), 0.5)).shape == (2, 3)
    for wrong in (-1e-9, 1.5, np.inf):
        with pytest.raises(ValueError, match=f"got a probability of {wrong}, expected a number from 0 to 1"):
            logit([0.5, wrong])


def test_d1_the_slope_of_the_sigmoid_is_itself_times_what_is_missing_to_one() -> None:
    mean = Bernoulli().mean(SCORES)
    assert_allclose(Bernoulli().information(SCORES), mean * (1.0 - mean), atol=1e-16)
    step = 1e-6
    inner = SCORES[1:-1]
    slope = (Bernoulli().mean(inner + step) - Bernoulli().mean(inner - step)) / (2 * step)
    assert_allclose(Bernoulli().information(inner), slope, rtol=1e-8)


def test_d1_softmax_of_two_is_the_sigmoid_of_their_difference() -> None:
    scores = np.column_stack([np.zeros(7), SCORES])
    assert_allclose(Softmax.of(2).probabilities(scores)[:, 1], special.expit(SCORES), rtol=1e-12, atol=1e-300)


def test_d1_softmax_does_not_see_what_is_added_to_all() -> None:
    scores = np.random.default_rng(0).normal(size=(9, 4))
    soft = Softmax.of(4)
    found = soft.probabilities(scores)
    assert_allclose(soft.probabilities(scores + 1e3), found, rtol=1e-12)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-15)
    losses, slopes = soft.loss(scores, np.zeros(9))
    assert_allclose(losses, -np.log(found[:, 0]), rtol=1e-12)
    assert_allclose(slopes, found - np.eye(4)[0], rtol=1e-12)


# ── D2: logistic regression ──


def rows_of_two() -> tuple[Array, Array, LaplaceModel, Array]:
    """Φ with its ones (n, 4), t (n,), a model without a prior, and a point."""
    rng = np.random.default_rng(1)
    rows = drawn(Bernoulli(), rng, 80)
    phi = next(iter(rows.design.blocks(0, 80))).dense()
    return phi, rows.targets, LaplaceModel(Bernoulli(), prior_of(Bernoulli(), 3, 0.0)), rng.normal(size=4)


def test_d2_the_gradient_is_the_sum_of_errors_times_features() -> None:
    rows = drawn(Bernoulli(), np.random.default_rng(1), 80)
    phi, t, model, w = rows_of_two()
    y = special.expit(phi @ w)
    _, gradient = model.objective_of(rows).value_and_gradient(w)
    assert_allclose(gradient, sum((y[i] - t[i]) * phi[i] for i in range(80)), rtol=1e-12)


def irls(phi: Array, t: Array, w: Array, alpha: float = 0.0) -> Array:
    """One step: w = (α + ΦᵀRΦ)⁻¹ ΦᵀRz with R = y(1 − y) and z = Φw − R⁻¹(y − t)."""
    y = special.expit(phi @ w)
    r = y * (1.0 - y)
    z = phi @ w - (y - t) / r
    return np.asarray(np.linalg.solve(alpha * np.eye(len(w)) + phi.T @ (r[:, None] * phi), phi.T @ (r * z)))


def test_d2_the_steps_that_are_taken_are_weighted_least_squares_problems() -> None:
    rows = drawn(Bernoulli(), np.random.default_rng(1), 80)
    phi, t, model, w = rows_of_two()
    searches = descend(Newton(Bernoulli(), model.prior), rows, Search(0.1 * w))
    taken = [next(searches).accepted.parameters for _ in range(4)]
    assert_allclose(taken[0], 0.1 * w)
    for before, after in itertools.pairwise(taken):
        assert_allclose(after, irls(phi, t, before), rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_d2_a_fit_is_where_iterated_weighted_least_squares_ends(alpha: float) -> None:
    rng = np.random.default_rng(2)
    phi = rng.normal(size=(120, 3))
    t = (rng.random(120) < special.expit(phi @ [1.0, -2.0, 0.5])).astype(np.float64)
    w = np.zeros(3)
    for _ in range(30):
        w = irls(phi, t, w, alpha)
    model = LogisticRegression(alpha=alpha, fit_intercept=False, tol=1e-12).fit(phi, t)
    assert_allclose(model.coef_[0], w, rtol=1e-6)
    assert_allclose(phi.T @ (special.expit(phi @ model.coef_[0]) - t), -alpha * model.coef_[0], atol=1e-5)
    theirs = linear_model.LogisticRegression(C=1.0 / alpha, fit_intercept=False, tol=1e-10, max_iter=1000)
    assert_allclose(model.coef_, theirs.fit(phi, t).coef_, rtol=1e-4)


def test_d2_data_that_a_plane_separates_does_not_explode() -> None:
    rows = np.linspace(-1.0, 1.0, 20)[:, None]
    t = rows[:, 0] > 0
    model = LogisticRegression(alpha=1e-4).fit(rows, t)
    assert model.converged_
    assert 0 < model.coef_.item() < 1e3
    assert np.isfinite(model.predict_log_proba(1e6 * rows)).all()
    slope = optimize.brentq(lambda w: 1e-4 * w - rows[:, 0] @ (t - special.expit(w * rows[:, 0])), 0.0, 1e3)
    lone = LogisticRegression(alpha=1e-4, fit_intercept=False, tol=1e-12).fit(rows, t)
    assert lone.coef_.item() == pytest.approx(slope, rel=1e-4)


# ── D3: least squares ──


@pytest.mark.parametrize("intercept", [True, False])
def test_d3_least_squares(intercept: bool) -> None:
    rng = np.random.default_rng(2)
    phi, t = rng.normal(size=(50, 3)), rng.normal(size=50)
    full = np.column_stack([phi, np.ones(50)]) if intercept else phi
    expected = np.linalg.lstsq(full, t)[0]
    model = BayesianLinearRegression(alpha=0.0, beta=2.0, fit_intercept=intercept).fit(phi, t)
    assert_allclose(model.coef_, expected[:3], rtol=1e-10)
    rows = drawn(make_response("gaussian"), rng, 50, intercept=intercept)
    values = next(iter(rows.design.blocks(0, 50))).dense()
    curved = LaplaceModel(make_response("gaussian"), prior_of(make_response("gaussian"), 3, 0.0, intercept))
    found = minimise(curved.objective_of(rows), curved.prior.mean, "newton")
    assert found.iterations == 1  # a parabola's lowest point is a step away
    assert_allclose(found.point.parameters, np.linalg.lstsq(values, rows.targets)[0], rtol=1e-10)


def test_d3_weighted_least_squares() -> None:
    rng = np.random.default_rng(3)
    phi, t, weight = rng.normal(size=(50, 3)), rng.normal(size=50), rng.uniform(0.1, 3.0, 50)
    root = np.sqrt(weight)
    expected = np.linalg.lstsq(root[:, None] * np.column_stack([phi, np.ones(50)]), root * t)[0]
    model = BayesianLinearRegression(alpha=0.0, beta=2.0).fit(phi, t, weight)
    assert_allclose(np.append(model.coef_, model.intercept_), expected, rtol=1e-9)
    rows = drawn(make_response("gaussian"), rng, 50, weighed=True)
    assert rows.weights is not None
    root, values = np.sqrt(rows.weights), next(iter(rows.design.blocks(0, 50))).dense()
    curved = LaplaceModel(make_response("gaussian"), prior_of(make_response("gaussian"), 3, 0.0))
    found = minimise(curved.objective_of(rows), curved.prior.mean, "newton").point.parameters
    assert_allclose(found, np.linalg.lstsq(root[:, None] * values, root * rows.targets)[0], rtol=1e-10)


# ── D4: Laplace's approximation ──


def test_d4_the_posterior_is_a_gaussian_at_the_top_with_the_curvature_there() -> None:
    rng = np.random.default_rng(4)
    phi = rng.normal(size=(40, 2))
    t = rng.random(40) < special.expit(phi @ [1.0, -2.0])
    model = LogisticRegression(alpha=0.5, fit_intercept=False).fit(phi, t)
    w = model.coef_[0]
    y = special.expit(phi @ w)
    assert_allclose(0.5 * w, phi.T @ (t - y), rtol=1e-6)
    precision = 0.5 * np.eye(2) + phi.T @ ((y * (1.0 - y))[:, None] * phi)
    assert_allclose(model.coef_covariance_, np.linalg.inv(precision), rtol=1e-6)


@pytest.mark.parametrize(
    ("mean", "variance", "expected"), [(0.0, 5.0, 0.5), (2.0, 0.0, 0.880797), (2.0, 4.0, 0.776845)]
)
def test_d4_the_predictive_shrinks_the_log_odds(mean: float, variance: float, expected: float) -> None:
    kappa = 1.0 / np.sqrt(1.0 + np.pi * variance / 8.0)
    found = special.expit(average_log_odds(np.array([mean]), np.array([variance])))[0]
    assert found == pytest.approx(special.expit(kappa * mean), rel=1e-14)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("mean", [-3.0, 0.5, 2.0])
@pytest.mark.parametrize("variance", [0.1, 1.0, 9.0])
def test_d4_the_predictive_is_near_the_integral(mean: float, variance: float) -> None:
    def integrand(a: float) -> float:
        return float(special.expit(a) * np.exp(-0.5 * (a - mean) ** 2 / variance))

    reach = 12.0 * np.sqrt(variance)
    whole = integrate.quad(integrand, mean - reach, mean + reach)[0] / np.sqrt(2.0 * np.pi * variance)
    assert special.expit(average_log_odds(np.array([mean]), np.array([variance])))[0] == pytest.approx(
        whole, abs=0.02
    )


def test_d4_the_faces_predictive_is_the_formula() -> None:
    rng = np.random.default_rng(5)
    phi = rng.normal(size=(40, 2))
    t = rng.random(40) < special.expit(phi @ [1.0, -2.0])
    model = LogisticRegression(predictive="probit", fit_intercept=False).fit(phi, t)
    variance = np.einsum("ni,ij,nj->n", phi, model.coef_covariance_, phi)
    mean = phi @ model.coef_[0]
    expected = special.expit(mean / np.sqrt(1.0 + np.pi * variance / 8.0))
    assert_allclose(model.predict_proba(phi)[:, 1], expected, rtol=1e-10)


def test_d4_the_predictive_of_softmax_is_that_of_two_classes_for_two() -> None:
    rng = np.random.default_rng(6)
    scores = rng.normal(size=(20, 2)) * 3.0
    roots = rng.normal(size=(20, 2, 2))
    covariances = roots @ roots.transpose(0, 2, 1)
    variances = covariances[:, 0, 0] + covariances[:, 1, 1] - 2.0 * covariances[:, 0, 1]
    found = average_softmax(scores, covariances)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14)
    expected = special.expit(average_log_odds(scores[:, 1] - scores[:, 0], variances))
    assert_allclose(found[:, 1], expected, rtol=1e-12)


# ── D5: generalised linear models ──


@pytest.mark.parametrize("family", CANONICAL)
def test_d5_a_canonical_link_leaves_no_feature_with_an_error_to_explain(family: str) -> None:
    kind: Response = make_response(family)
    rows = drawn(kind, np.random.default_rng(7), 200, weighed=True, moved=True)
    curved = LaplaceModel(kind, prior_of(kind, 3, 0.0))
    w = minimise(curved.objective_of(rows), curved.prior.mean, "newton", 1e-20).point.parameters
    phi = next(iter(rows.design.blocks(0, 200))).dense()
    assert rows.offsets is not None
    assert rows.weights is not None
    mean = kind.mean(phi @ w + rows.offsets)
    assert_allclose(phi.T @ (rows.weights * (rows.targets - mean)), 0.0, atol=1e-7)


@pytest.mark.parametrize("family", CANONICAL)
def test_d5_of_a_canonical_link_the_information_is_the_variance(family: str) -> None:
    kind = make_response(family)
    scores = np.array([0.3, 1.0, 2.5])
    assert_allclose(kind.information(scores), kind.variance(kind.mean(scores)), rtol=1e-12)
    assert_allclose(kind.link_function(kind.mean(scores)), scores, rtol=1e-12)


@pytest.mark.parametrize("family", CANONICAL)
def test_d5_with_a_prior_the_score_equation_balances_it(family: str) -> None:
    kind = make_response(family)
    rng = np.random.default_rng(8)
    rows = drawn(kind, rng, 100)
    belief = GaussianPrior(near(kind, rng, 3), np.full(4, 2.0))
    curved = replace(LaplaceModel(kind, belief))
    w = minimise(curved.objective_of(rows), belief.mean, "newton", 1e-20).point.parameters
    phi = next(iter(rows.design.blocks(0, 100))).dense()
    sign = -1.0 if family == "gamma" else 1.0  # its score falls as its mean rises
    errors = sign * (rows.targets - kind.mean(phi @ w))
    assert_allclose(phi.T @ errors, 2.0 * (w - belief.mean), atol=1e-7)
