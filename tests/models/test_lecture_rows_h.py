"""Rows H1–H3 of the lectures: the posterior of a linear model, in one step or many, and what it predicts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tamis.arrays import Array
from tamis.estimators import BayesianLinearRegression

BETA = 4.0
MEAN = np.array([0.5, -1.0, 2.0])
ROOT = np.array([[1.0, 0.0, 0.0], [0.4, 0.7, 0.0], [-0.2, 0.1, 1.5]])
COVARIANCE = ROOT @ ROOT.T


def drawn(n: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    phi = np.column_stack([np.ones(n), x := rng.uniform(-1, 1, n), x**2])
    return phi, phi @ [0.3, -0.8, 1.1] + rng.normal(scale=BETA**-0.5, size=n)


def posterior(phi: Array, t: Array) -> tuple[Array, Array]:
    """m_N = S_N(S₀⁻¹m₀ + βΦᵀt), S_N⁻¹ = S₀⁻¹ + βΦᵀΦ."""
    precision = np.linalg.inv(COVARIANCE) + BETA * phi.T @ phi
    spread: Array = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return spread @ (np.linalg.solve(COVARIANCE, MEAN) + BETA * phi.T @ t), spread


def model() -> BayesianLinearRegression:
    return BayesianLinearRegression(beta=BETA, prior=(MEAN, COVARIANCE), fit_intercept=False)


@pytest.mark.parametrize("n", [1, 2, 50])
def test_h1_the_posterior_has_a_closed_form(n: int) -> None:
    phi, t = drawn(n)
    fitted = model().fit(phi, t)
    mean, spread = posterior(phi, t)
    assert_allclose(fitted.coef_, mean, rtol=1e-10)
    assert_allclose(fitted.coef_covariance_, spread, rtol=1e-9, atol=1e-12)


def test_h1_the_usual_prior_is_a_special_case() -> None:
    phi, t = drawn(50)
    usual = BayesianLinearRegression(alpha=2.0, beta=BETA, fit_intercept=False).fit(phi, t)
    full = BayesianLinearRegression(beta=BETA, prior=(np.zeros(3), np.eye(3) / 2), fit_intercept=False)
    assert_allclose(usual.coef_, full.fit(phi, t).coef_, rtol=1e-10)
    assert_allclose(usual.coef_, np.linalg.solve(2.0 / BETA * np.eye(3) + phi.T @ phi, phi.T @ t), rtol=1e-10)


def test_h1_alpha_and_beta_are_found_at_their_fixed_point() -> None:
    phi, t = drawn(200)
    fitted = BayesianLinearRegression(fit_intercept=False).fit(phi, t)
    assert fitted.alpha_ == pytest.approx(fitted.n_effective_ / (fitted.coef_ @ fitted.coef_), rel=1e-8)
    left = np.square(t - phi @ fitted.coef_).sum()
    assert fitted.beta_ == pytest.approx((200 - fitted.n_effective_) / left, rel=1e-8)


def test_h2_the_posterior_is_the_next_prior() -> None:
    phi, t = drawn(40)
    mean, covariance = MEAN, COVARIANCE
    for part in np.array_split(np.arange(40), 5):
        step = BayesianLinearRegression(beta=BETA, prior=(mean, covariance), fit_intercept=False)
        step.fit(phi[part], t[part])
        mean, covariance = step.coef_, step.coef_covariance_
    batch = model().fit(phi, t)
    assert_allclose(mean, batch.coef_, rtol=1e-9)
    assert_allclose(covariance, batch.coef_covariance_, rtol=1e-8, atol=1e-12)


def test_h2_the_evidence_is_a_chain() -> None:
    phi, t = drawn(40)
    first = model().fit(phi[:15], t[:15])
    prior = (first.coef_, first.coef_covariance_)
    second = BayesianLinearRegression(beta=BETA, prior=prior, fit_intercept=False).fit(phi[15:], t[15:])
    whole = model().fit(phi, t)
    assert whole.log_evidence_ == pytest.approx(first.log_evidence_ + second.log_evidence_, rel=1e-10)


def test_h3_predictions_are_as_wide_as_noise_and_doubt_together() -> None:
    phi, t = drawn(30)
    fitted = model().fit(phi, t)
    mean, spread = posterior(phi, t)
    new, _ = drawn(7, seed=1)
    found, std = fitted.predict(new, return_std=True)
    assert_allclose(found, new @ mean, rtol=1e-10)
    assert_allclose(np.square(std), 1 / BETA + np.einsum("ni,ij,nj->n", new, spread, new), rtol=1e-10)


def test_h3_doubt_goes_and_noise_stays() -> None:
    new, _ = drawn(7, seed=1)
    widths = [model().fit(*drawn(n)).predict(new, return_std=True)[1] for n in (5, 50, 50_000)]
    assert (widths[0] > widths[1]).all()
    assert (widths[1] > widths[2]).all()
    assert_allclose(widths[2], BETA**-0.5, rtol=1e-3)
