"""Rows H1–H3 of the lectures: the posterior of a linear model, in one step or many, and what it predicts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats

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


def evidence(phi: Array, t: Array, log_alpha: float, log_beta: float) -> float:
    """log p(t | α, β): the targets are Gaussian with covariance 1/β + ΦΦᵀ/α."""
    covariance = np.exp(-log_beta) * np.eye(len(t)) + np.exp(-log_alpha) * phi @ phi.T
    return float(stats.multivariate_normal(cov=covariance).logpdf(t))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_h1_alpha_and_beta_are_where_the_evidence_is_largest(seed: int) -> None:
    """The search knows nothing of the fixed point, nor the evidence of the posterior."""
    phi, t = drawn(60, seed)
    fitted = BayesianLinearRegression(fit_intercept=False).fit(phi, t)

    def loss(at: Array) -> float:
        return -evidence(phi, t, float(at[0]), float(at[1]))

    best = optimize.minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
    assert best.success
    assert_allclose(np.log([fitted.alpha_, fitted.beta_]), best.x, atol=1e-4)
    assert fitted.log_evidence_ == pytest.approx(-best.fun, abs=1e-7)


def test_h1_alpha_and_beta_are_at_their_fixed_point() -> None:
    """γ = Σ λ / (λ + α) of βΦᵀΦ's eigenvalues, m_N and what it leaves: from α and β alone."""
    phi, t = drawn(200)
    fitted = BayesianLinearRegression(fit_intercept=False).fit(phi, t)
    alpha, beta = float(fitted.alpha_), float(fitted.beta_)
    gram = beta * phi.T @ phi
    mean = np.linalg.solve(alpha * np.eye(3) + gram, beta * phi.T @ t)
    values = np.linalg.eigvalsh(gram)
    effective = (values / (values + alpha)).sum()
    assert_allclose(fitted.coef_, mean, rtol=1e-10)
    assert fitted.n_effective_ == pytest.approx(effective, rel=1e-9)
    assert alpha == pytest.approx(effective / (mean @ mean), rel=1e-7)
    assert beta == pytest.approx((200 - effective) / np.square(t - phi @ mean).sum(), rel=1e-7)


def test_h1_worked_numbers() -> None:
    """By hand: prior N(0, I/2), β = 2, points (x, t) = (0, 1) and (1, 3), Φ = (1, x)."""
    fitted = BayesianLinearRegression(alpha=2.0, beta=2.0, fit_intercept=False).fit([[1, 0], [1, 1]], [1, 3])
    # S_N⁻¹ = 2I + 2[[2, 1], [1, 1]] = [[6, 2], [2, 4]], its determinant 20; βΦᵀt = (8, 6)
    assert_allclose(fitted.coef_covariance_, np.array([[4, -2], [-2, 6]]) / 20, rtol=1e-12)
    assert_allclose(fitted.coef_, [1.0, 1.0], rtol=1e-12)


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
