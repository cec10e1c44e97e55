"""Bayesian linear regression against SciPy, scikit-learn and statsmodels, and where numbers are extreme."""

import warnings
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]  # it has no types
from numpy.testing import assert_allclose
from scipy import optimize, stats
from sklearn.linear_model import BayesianRidge

from tamis.arrays import Array
from tamis.linalg import find_dependent, spectrum
from tamis.models.linear import BayesianLinear, LinearPosterior, Paired
from tamis.stats import Gram

rng = np.random.default_rng(0)
X = rng.normal([1.0, -2.0, 0.0, 3.0], size=(30, 4))
Y = X @ [1.0, 2.0, 0.0, -1.0] + 5.0 + 0.5 * rng.normal(size=30)


def inferred(x: Any = X, y: Any = Y, weights: Any = None, **params: Any) -> LinearPosterior:
    model = BayesianLinear(**params)
    return model.infer(model.observe(Paired(x, y, weights)))


def log_evidence(x: Any = X, y: Any = Y, **params: Any) -> float:
    found = inferred(x, y, **params).log_evidence
    assert found is not None
    return float(found[0])


def flat_level(n: int, covariance: Array, y: Array) -> float:
    """log ∫ N(y | level, covariance) d level: a flat prior of density 1, integrated by hand."""
    inverse = np.linalg.inv(covariance)
    a, b, c = inverse.sum(), inverse.sum(axis=0) @ y, y @ inverse @ y
    log_determinant = float(np.linalg.slogdet(covariance)[1])
    volume = n * np.log(2 * np.pi) + log_determinant - np.log(2 * np.pi / a)
    return float(-0.5 * (volume + c - b * b / a))


def test_the_evidence_is_the_density_of_the_targets() -> None:
    expected = stats.multivariate_normal(np.zeros(30), np.eye(30) / 3 + X @ X.T / 2).logpdf(Y)
    assert log_evidence(alpha=2.0, beta=3.0, intercept=False) == pytest.approx(expected, rel=1e-12)


def test_the_evidence_with_a_full_prior_is_the_density_of_the_targets() -> None:
    root, mean = rng.normal(size=(4, 4)), rng.normal(size=4)
    spread = root @ root.T + 0.1 * np.eye(4)
    expected = stats.multivariate_normal(X @ mean, np.eye(30) / 3 + X @ spread @ X.T).logpdf(Y)
    assert log_evidence(prior=(mean, spread), beta=3.0, intercept=False) == pytest.approx(expected, rel=1e-11)
    each = stats.multivariate_normal(X @ mean, np.eye(30) / 3 + X @ np.diag([1, 2, 3, 4]) @ X.T).logpdf(Y)
    found = log_evidence(prior=(mean, [1, 2, 3, 4]), beta=3.0, intercept=False)
    assert found == pytest.approx(each, rel=1e-11)


def test_the_evidence_of_unknown_noise_is_a_density_of_student() -> None:
    shape = 1.5 * (np.eye(30) + X @ X.T / 2)
    expected = stats.multivariate_t(np.zeros(30), shape, df=4).logpdf(Y)
    found = log_evidence(alpha=2.0, beta="unknown", noise_shape=2, noise_scale=3, intercept=False)
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_evidence_with_an_intercept_integrates_it_out() -> None:
    expected = flat_level(30, np.eye(30) / 3 + X @ X.T / 2, Y)
    assert log_evidence(alpha=2.0, beta=3.0) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("free", "params"),
    [
        (("alpha", "beta"), {}),
        (("alpha",), {"beta": 3.0}),
        (("beta",), {"alpha": 0.3}),
        (("beta",), {"alpha": [0.1, 1.0, 2.0, 30.0]}),
        (("alpha",), {"beta": "unknown", "noise_shape": 2.0, "noise_scale": 0.3}),
    ],
)
def test_what_evidence_chooses_no_search_betters(
    free: tuple[str, ...], params: dict[str, Any], intercept: bool
) -> None:
    best = inferred(**params, intercept=intercept)
    assert best.log_evidence is not None

    def short(logs: Any) -> float:
        chosen = dict(zip(free, np.exp(logs).tolist(), strict=True))
        return -log_evidence(**{**params, **chosen}, intercept=intercept)

    found = optimize.minimize(short, np.zeros(len(free)), method="Nelder-Mead", tol=1e-12)
    assert -found.fun <= best.log_evidence[0] + 1e-9
    values = {"alpha": best.alpha, "beta": best.beta}
    for name, log in zip(free, found.x, strict=True):
        chosen = values[name]
        assert chosen is not None
        assert chosen[0] == pytest.approx(np.exp(log), rel=1e-4)


def test_beta_by_evidence_works_beside_flat_columns() -> None:
    """Columns with a flat prior take their part first, as an intercept does."""
    ones = np.column_stack([X, np.ones(30)])
    flat = inferred(ones, alpha=[0.3] * 4 + [0.0], intercept=False)
    with_level = inferred(X, alpha=0.3)
    assert_allclose(flat.beta, with_level.beta, rtol=1e-8)
    assert_allclose(flat.mean[:, :4], with_level.mean, rtol=1e-8)


def test_it_is_scikit_learns_without_its_hyper_priors() -> None:
    params = {"alpha_1": 0, "alpha_2": 0, "lambda_1": 0, "lambda_2": 0}
    theirs = BayesianRidge(**params, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, Y)
    ours = inferred(intercept=False)
    assert ours.alpha is not None
    assert_allclose(ours.mean[0], theirs.coef_, rtol=1e-6)
    assert_allclose([ours.beta[0], ours.alpha[0]], [theirs.alpha_, theirs.lambda_], rtol=1e-6)
    assert_allclose(ours.covariance[0], theirs.sigma_, rtol=1e-5, atol=1e-12)
    std = theirs.predict(X, return_std=True)[1]
    assert_allclose(ours.deviation(1.0 + ours.leverage(X))[:, 0], std, rtol=1e-5)


@pytest.mark.parametrize("weights", [None, rng.random(30) + 0.2])
def test_without_a_prior_it_is_least_squares(weights: Array | None) -> None:
    theirs = sm.WLS(Y, sm.add_constant(X), weights=1.0 if weights is None else weights).fit()
    ours = inferred(alpha=0.0, weights=weights)
    assert_allclose(np.r_[ours.intercept, ours.mean[0]], theirs.params, rtol=1e-6)
    if weights is None:  # to statsmodels a weight says how precise a row is, not how many there are
        deviation = ours.deviation(ours.variances.T)[:, 0]
        assert_allclose(deviation, theirs.bse[1:], rtol=1e-5)
        student = inferred(alpha=0.0, beta="unknown").marginals().interval(0.95)
        assert_allclose(np.column_stack([end[:, 0] for end in student]), theirs.conf_int()[1:], rtol=1e-5)


def test_several_targets_are_as_many_regressions() -> None:
    both = np.column_stack([Y, X @ [0.0, 1.0, 1.0, 0.0] + rng.normal(size=30)])
    for params in ({}, {"beta": "unknown"}, {"alpha": 1.0}, {"alpha": 1.0, "beta": 2.0}):
        together = inferred(X, both, **params)
        for k in range(2):
            alone = inferred(X, both[:, k], **params)
            assert_allclose(together.mean[k], alone.mean[0], rtol=1e-9)
            assert_allclose(together.covariance[k], alone.covariance[0], rtol=1e-9)
            assert_allclose(together.beta[k], alone.beta[0], rtol=1e-9)


def test_draws_have_the_moments_of_the_posterior() -> None:
    for params in ({"alpha": 1.0, "beta": 2.0}, {"alpha": 1.0, "beta": "unknown"}):
        posterior = inferred(**params)
        weights, levels = posterior.draw(np.random.default_rng(1), 40_000)
        assert_allclose(weights.mean(axis=0), posterior.mean, atol=0.02)
        assert_allclose(np.cov(weights[:, 0].T), posterior.covariance[0], rtol=0.05, atol=0.001)
        assert_allclose(levels.std(), posterior.deviation(np.array([posterior.slack])), rtol=0.03)


# ── extremes ──


def test_a_gram_is_read_out_about_the_mean_without_loss() -> None:
    far = X + 1e8
    gram = Gram.observe(far, Y + 1e8)
    joint = np.column_stack([far, Y + 1e8])
    apart = (joint - 1e8) - (joint - 1e8).mean(axis=0)
    assert_allclose(gram.scatter, apart.T @ apart, rtol=1e-10, atol=1e-10)
    assert_allclose(gram.mean, joint.mean(axis=0), rtol=1e-15)
    assert not Gram.observe(far[:1], Y[:1]).scatter.any()
    narrow = Gram.observe(far.astype(np.float32), Y.astype(np.float32))
    wide = narrow.observe(far.astype(np.float32).astype(float), Y.astype(np.float32).astype(float))
    assert narrow == wide


def test_a_large_mean_does_no_harm() -> None:
    x = 1e8 + np.round(X * 64) / 64
    near, far = inferred(x - 1e8), inferred(x, Y)
    assert_allclose(far.mean, near.mean, rtol=1e-9)
    assert_allclose(far.covariance, near.covariance, rtol=1e-9)
    assert_allclose(far.predict(x), near.predict(x - 1e8), rtol=1e-9)


def test_columns_of_very_different_scales_do_no_harm() -> None:
    scales = np.array([1e-6, 1.0, 1e3, 1e6])
    plain, scaled = inferred(alpha=0.0, beta="unknown"), inferred(X * scales, alpha=0.0, beta="unknown")
    assert_allclose(scaled.mean * scales, plain.mean, rtol=1e-9)
    prior = (np.zeros(4), 1.0 / scales**2)
    noise = inferred(X * scales, prior=prior, beta="evidence").beta
    assert_allclose(noise, inferred(prior=(np.zeros(4), np.ones(4))).beta, rtol=1e-9)


def test_small_eigenvalues_survive_large_ones() -> None:
    rows = rng.normal(size=(200, 4)) * [1e-7, 1.0, 1e3, 1e6]
    values, vectors = spectrum(rows.T @ rows)
    assert_allclose(np.sort(values), np.sort(np.linalg.svd(rows)[1] ** 2), rtol=1e-9)
    assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-14)


def test_signal_in_a_tiny_column_is_found_beside_a_huge_one() -> None:
    x = np.column_stack([1e-6 * rng.normal(size=100), 1e6 * rng.normal(size=100)])
    y = 1e6 * x[:, 0] + 0.1 * rng.normal(size=100)
    posterior = inferred(x, y, alpha="evidence")
    assert_allclose(posterior.mean[0, 0], 1e6, rtol=0.1)
    assert_allclose(1 / np.sqrt(posterior.beta), 0.1, rtol=0.2)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
@pytest.mark.parametrize("params", [{}, {"beta": "unknown"}])
def test_the_units_of_measurement_do_not_matter(scale: float, params: dict[str, Any]) -> None:
    plain = inferred(**params)
    assert_allclose(inferred(X * scale, Y * scale, **params).mean, plain.mean, rtol=1e-8)
    assert_allclose(inferred(X * scale, Y, **params).mean * scale, plain.mean, rtol=1e-8)


def test_two_rows_do_not_make_a_certainty() -> None:
    """The evidence of one slope and one residual is the same for every ratio: the least is claimed."""
    posterior = inferred([[1.0], [2.0]], [1.0, 2.0])
    assert posterior.deviation(1.0 + posterior.leverage(np.array([[1.5]])))[0, 0] > 0.5


@pytest.mark.parametrize("params", [{}, {"beta": "unknown"}, {"alpha": 1e-9, "beta": 1.0}])
def test_repeated_columns_share_their_coefficient(params: dict[str, Any]) -> None:
    posterior = inferred(np.column_stack([X, X[:, 0]]), **params)
    assert_allclose(posterior.mean[0, 0], posterior.mean[0, 4], rtol=1e-8)
    assert np.isfinite(posterior.covariance).all()


@pytest.mark.parametrize("params", [{}, {"beta": "unknown"}, {"alpha": 1.0}, {"alpha": 1.0, "beta": 1.0}])
def test_more_columns_than_rows_work(params: dict[str, Any]) -> None:
    wide = rng.normal(size=(10, 40))
    posterior = inferred(wide, wide[:, 0], **params)
    assert np.isfinite(posterior.predict(wide)).all()
    assert (posterior.effective <= 10.0).all()


def test_one_row_teaches_what_it_can() -> None:
    posterior = inferred(X[:1], Y[:1], alpha=1.0, beta=2.0)
    assert_allclose(posterior.predict(X[:1])[0], Y[:1])
    assert_allclose(posterior.covariance[0], np.eye(4))
    inferred(X[:1], Y[:1], alpha=1.0, beta="unknown", noise_shape=1.0, noise_scale=1.0)
    with pytest.raises(ValueError, match="0 degrees of freedom for the noise"):
        inferred(X[:1], Y[:1])


@pytest.mark.parametrize("beta", ["evidence", "unknown", 2.0])
@pytest.mark.parametrize("alpha", ["evidence", 1.0])
@pytest.mark.parametrize(
    "y", [np.zeros(30), np.full(30, 0.1), np.full(30, 1e8), X @ [1.0, 2.0, 3.0, 4.0], 1e-9 * Y]
)
def test_a_degenerate_optimum_is_bounded(alpha: Any, beta: Any, y: Array) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = inferred(X, y, alpha=alpha, beta=beta)
    for found in (posterior.mean, posterior.covariance, posterior.beta, posterior.predict(X)):
        assert np.isfinite(found).all()
    if beta != 2.0 and alpha == "evidence":
        assert_allclose(posterior.predict(X)[:, 0], y, atol=2.0 * np.abs(1e-9 * Y).max(), rtol=1e-6)


def test_columns_that_say_nothing_have_coefficients_of_nothing() -> None:
    """α is large and bounded; the level alone is left."""
    x = np.random.default_rng(3).normal(size=(200, 3))
    y = np.random.default_rng(4).normal(size=200)
    orthogonal = y - sm.OLS(y, sm.add_constant(x)).fit().fittedvalues
    nothing = inferred(x, orthogonal)
    assert nothing.alpha is not None
    assert np.abs(nothing.mean).max() < 1e-9
    assert 1e6 < nothing.alpha[0] < np.inf


def test_columns_that_never_vary_say_nothing() -> None:
    x = np.column_stack([X, np.full(30, 0.1)])
    posterior = inferred(x)
    assert_allclose(posterior.mean[0, :4], inferred().mean[0], rtol=1e-9)
    assert posterior.mean[0, 4] == 0.0
    only = inferred(x[:, 4:])
    assert_allclose(only.predict(x[:, 4:])[:, 0], Y.mean())


def test_the_columns_that_others_determine_are_named() -> None:
    twice = np.column_stack([X, X[:, 0] + X[:, 1], np.full(30, 7.0)])
    with pytest.raises(ValueError, match="the others and the intercept determine columns 4, 5, expected"):
        inferred(twice, alpha=0.0)
    with pytest.raises(ValueError, match=r"determine column 'sum', expected .*: drop it"):
        inferred(twice[:, :5], alpha=0.0, names=("a", "b", "c", "d", "sum"))
    inferred(twice, alpha=[0.0, 0.0, 0.0, 0.0, 1.0, 1.0])  # where there is a prior, they may be
    gram = twice.T @ twice
    assert find_dependent(gram).tolist() == [4]
    assert find_dependent(gram[:4, :4]).tolist() == []


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": -1.0}, "got alpha=-1, expected finite numbers of at least 0"),
        ({"alpha": "much"}, "got alpha='much', expected a number, an array of them, or 'evidence'"),
        ({"alpha": [1.0, 2.0]}, r"got alpha of shape \(2,\), expected one number or one per column \(4,\)"),
        ({"beta": 0.0}, "got beta=0, expected finite numbers above 0"),
        (
            {"beta": "none"},
            "got beta='none', expected a number, an array of them, or 'unknown' or",
        ),
        ({"beta": [1.0, 2.0]}, r"got beta of shape \(2,\)"),
        ({"alpha": 1.0, "prior": (0.0, np.eye(4))}, "got both alpha and prior"),
        ({"prior": 3.0}, "got prior=3.0, expected a mean and a covariance"),
        ({"prior": (np.zeros(3), np.eye(4))}, r"got a prior mean of shape \(3,\)"),
        ({"prior": (np.zeros(4), np.eye(3))}, r"got a prior covariance of shape \(3, 3\)"),
        ({"prior": (np.zeros(4), -np.eye(4))}, "the prior covariance has eigenvalue -1"),
        ({"prior": (np.zeros(4), np.zeros(4))}, "got a prior variance of 0"),
        ({"noise_shape": -1.0}, "got noise_shape=-1.0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        inferred(**params)
    assert "\n" not in str(caught.value)
