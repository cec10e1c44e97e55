"""Rows C1–C5 of the lectures: Gaussian generative classifiers, with numbers."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB as Theirs

from tamis.arrays import Array
from tamis.estimators import FisherDiscriminant, GaussianDiscriminant, GaussianNB

# six rows whose means and covariances are seen without a computer
ROWS = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [4.0, 4.0], [5.0, 6.0], [6.0, 5.0]])
NAMES = np.array(["C2", "C2", "C2", "C1", "C1", "C1"])
SHARED = np.array([[2.0, 1.0], [1.0, 2.0]]) / 3.0


def clouds(n: int = 300, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.3).astype(np.int64)
    turn = np.array([[[1.0, 0.0], [0.8, 0.5]], [[2.0, 0.0], [-0.5, 1.0]]])
    rows = (turn[labels] @ rng.normal(size=(n, 2, 1)))[..., 0] + 1.5 * labels[:, None]
    return rows, labels


def test_c1_shares_means_and_covariances_are_the_most_likely() -> None:
    model = GaussianDiscriminant("full", estimate="mle").fit(ROWS, NAMES)
    assert model.classes_.tolist() == ["C1", "C2"]
    assert_allclose(np.exp(model.class_log_prior_), [0.5, 0.5])
    assert_allclose(model.means_, [[5.0, 5.0], [1.0, 1.0]])
    assert_allclose(model.covariance_, [SHARED, SHARED])
    tied = GaussianDiscriminant("tied", estimate="mle").fit(ROWS, NAMES)
    assert_allclose(tied.covariance_, SHARED)

    rows, labels = clouds()
    model = GaussianDiscriminant("full", estimate="mle").fit(rows, labels)
    assert_allclose(np.exp(model.class_log_prior_), np.bincount(labels) / 300)
    assert_allclose(model.means_, [rows[labels == k].mean(axis=0) for k in (0, 1)])
    own = [np.cov(rows[labels == k].T, bias=True) for k in (0, 1)]
    assert_allclose(model.covariance_, own)
    tied = GaussianDiscriminant("tied", estimate="mle").fit(rows, labels)
    assert_allclose(tied.covariance_, np.tensordot(np.bincount(labels) / 300, own, axes=1))


def test_c1_no_other_parameters_are_more_likely() -> None:
    rows, labels = clouds()
    model = GaussianDiscriminant("full", estimate="mle").fit(rows, labels)
    best = model.predict_joint_log_proba(rows)[np.arange(300), labels].sum()
    rng = np.random.default_rng(1)
    for _ in range(20):
        weights = 1.0 + 0.1 * rng.standard_normal(300)  # the most likely for rows that weigh otherwise
        other = GaussianDiscriminant("full", estimate="mle").fit(rows, labels, sample_weight=weights)
        assert other.predict_joint_log_proba(rows)[np.arange(300), labels].sum() < best


@pytest.mark.parametrize("priors", [None, {"C1": 0.9, "C2": 0.1}])
def test_c2_with_one_covariance_the_posterior_is_a_sigmoid_of_a_line(priors: Any) -> None:
    model = GaussianDiscriminant("tied", estimate="mle", priors=priors).fit(ROWS, NAMES)
    m1, m2 = np.array([5.0, 5.0]), np.array([1.0, 1.0])
    inverse = np.array([[2.0, -1.0], [-1.0, 2.0]])  # of SHARED
    p1, p2 = (0.9, 0.1) if priors else (0.5, 0.5)
    w = inverse @ (m1 - m2)
    w0 = -0.5 * m1 @ inverse @ m1 + 0.5 * m2 @ inverse @ m2 + np.log(p1 / p2)
    assert_allclose(w, [4.0, 4.0])
    assert w0 == pytest.approx(-24.0 + np.log(p1 / p2))
    x = np.array([[3.0, 3.0], [2.0, 4.5], [3.1, 3.0], [0.0, 0.0]])
    assert_allclose(model.predict_proba(x)[:, 0], 1.0 / (1.0 + np.exp(-(x @ w + w0))), rtol=1e-12)
    # coef_ speaks for the second class of classes_, which is C2 here
    assert_allclose(model.coef_, [-w], rtol=1e-12)
    assert_allclose(model.intercept_, [-w0], rtol=1e-12)


def test_c2_the_same_of_a_fitted_model_of_many_columns() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, 500)
    rows = rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6)) + labels[:, None]
    model = GaussianDiscriminant("tied", estimate="mle").fit(rows, labels)
    inverse = np.linalg.inv(model.covariance_)
    m2, m1 = model.means_
    p2, p1 = np.exp(model.class_log_prior_)
    w = inverse @ (m1 - m2)
    w0 = -0.5 * m1 @ inverse @ m1 + 0.5 * m2 @ inverse @ m2 + np.log(p1 / p2)
    assert_allclose(model.predict_proba(rows)[:, 1], 1.0 / (1.0 + np.exp(-(rows @ w + w0))), rtol=1e-8)


def test_c3_with_own_covariances_the_boundary_is_quadratic() -> None:
    # N(0, 1) against N(0, 4), equally likely: x² (1 − 1/4) / 2 = log 2, a boundary of two points
    side = np.sqrt(8.0 / 3.0 * np.log(2.0))
    model = GaussianDiscriminant("full", estimate="mle").fit([[-1.0], [1.0], [-2.0], [2.0]], [0, 0, 1, 1])
    assert_allclose(model.covariance_.ravel(), [1.0, 4.0])
    assert_allclose(model.decision_function([[-side], [side]]), 0.0, atol=1e-12)
    assert_allclose(model.predict_proba([[-side], [side]]), 0.5)
    assert model.predict([[0.0], [side - 1e-6], [side + 1e-6], [-side - 1e-6]]).tolist() == [0, 0, 1, 1]


def test_c3_log_odds_are_a_polynomial_of_the_second_degree() -> None:
    rows, labels = clouds()
    own = GaussianDiscriminant("full", estimate="mle").fit(rows, labels)
    tied = GaussianDiscriminant("tied", estimate="mle").fit(rows, labels)
    line = np.array([0.3, -2.0]) + np.linspace(-5.0, 5.0, 9)[:, None] * np.array([1.0, 0.7])
    quadratic, linear = own.decision_function(line), tied.decision_function(line)
    assert_allclose(np.diff(quadratic, 3), 0.0, atol=1e-10 * np.abs(quadratic).max())
    assert (np.abs(np.diff(quadratic, 2)) > 1e-3).all()
    assert_allclose(np.diff(linear, 2), 0.0, atol=1e-10 * np.abs(linear).max())
    inverses = np.linalg.inv(own.covariance_)
    direction = np.array([1.0, 0.7]) * 10.0 / 8.0
    curvature = direction @ (inverses[0] - inverses[1]) @ direction
    assert_allclose(np.diff(quadratic, 2), curvature, rtol=1e-8)


def test_c4_without_correlations_it_is_the_naive_case() -> None:
    rows, labels = clouds()
    diagonal = GaussianDiscriminant("diag", estimate="mle").fit(rows, labels)
    theirs = Theirs(var_smoothing=0.0).fit(rows, labels)
    ours = GaussianNB(var_smoothing=0.0).fit(rows, labels)
    assert_allclose(diagonal.covariance_, theirs.var_, rtol=1e-12)
    for other in (theirs, ours):
        assert_allclose(diagonal.predict_log_proba(rows), other.predict_log_proba(rows), rtol=1e-9, atol=1e-9)
    alone = [
        GaussianDiscriminant("full", estimate="mle")
        .fit(rows[:, [j]], labels)
        .predict_joint_log_proba(rows[:, [j]])
        for j in (0, 1)
    ]
    product = alone[0] + alone[1] - diagonal.class_log_prior_  # p(x₁|c) p(x₂|c) p(c)
    assert_allclose(diagonal.predict_joint_log_proba(rows), product, rtol=1e-10, atol=1e-10)


def test_c5_fishers_direction_has_the_largest_criterion() -> None:
    model = FisherDiscriminant().fit(ROWS, NAMES)

    def criterion(w: Array) -> float:
        one, two = ROWS[NAMES == "C1"] @ w, ROWS[NAMES == "C2"] @ w
        scatter = np.square(one - one.mean()).sum() + np.square(two - two.mean()).sum()
        return float((two.mean() - one.mean()) ** 2 / scatter)

    # along (1, 1): means 2 and 10, scatters 6 and 6
    assert criterion(np.array([1.0, 1.0])) == pytest.approx(64.0 / 12.0)
    assert model.criterion() == pytest.approx(64.0 / 12.0, rel=1e-12)
    assert_allclose(model.scalings_[:, 0] / model.scalings_[0, 0], [1.0, 1.0], rtol=1e-12)
    for angle in np.linspace(0.0, np.pi, 181):
        w = np.array([np.cos(angle), np.sin(angle)])
        assert model.criterion(w) == pytest.approx(criterion(w), rel=1e-9, abs=1e-12)
        assert criterion(w) <= model.criterion() * (1.0 + 1e-12)


def test_c5_the_direction_is_the_inverse_scatter_times_the_difference_of_means() -> None:
    rows, labels = clouds()
    model = FisherDiscriminant().fit(rows, labels)
    within = sum(np.cov(rows[labels == k].T, bias=True) * (labels == k).sum() for k in (0, 1))
    w = np.linalg.solve(within, rows[labels == 1].mean(axis=0) - rows[labels == 0].mean(axis=0))
    found = model.scalings_[:, 0]
    assert_allclose(found / np.linalg.norm(found), np.sign(found @ w) * w / np.linalg.norm(w), rtol=1e-9)
    linear = GaussianDiscriminant("tied", estimate="mle").fit(rows, labels).coef_[0]
    assert_allclose(np.cross(np.append(found, 0.0), np.append(linear, 0.0)), 0.0, atol=1e-9)
