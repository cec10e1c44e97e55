"""Responses: slopes are derivatives, information is their spread, likelihoods are SciPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from tamis.arrays import Array
from tamis.models.linear.generalized import estimate_dispersion
from tamis.models.linear.responses import RESPONSES, Family, Link, Response, make_response, match_gamma

each = pytest.mark.parametrize("pair", list(RESPONSES), ids="-".join)
Pair = tuple[Family, Link]


def scores_of(kind: Response, score: float) -> float:
    return abs(score) + 0.3 if kind.link == "inverse" else score


def target_of(kind: Response, share: float) -> float:
    return {
        "bernoulli": float(share > 0.5),
        "poisson": float(int(9 * share)),
        "gaussian": 6 * share - 3,
        "gamma": 5 * share + 0.05,
    }[kind.family]


def law(kind: Response, mean: Any, scatter: float) -> Any:
    """SciPy's distribution of the target."""
    if kind.family == "bernoulli":
        return stats.bernoulli(mean)
    if kind.family == "poisson":
        return stats.poisson(mean)
    if kind.family == "gaussian":
        return stats.norm(mean, np.sqrt(scatter))
    return stats.gamma(1 / scatter, scale=np.asarray(mean) * scatter)


@each
@given(score=st.floats(-2, 2), share=st.floats(0, 1))
def test_slopes_are_derivatives_of_losses(pair: Pair, score: float, share: float) -> None:
    kind = make_response(*pair)
    at, y, step = scores_of(kind, score), np.array([target_of(kind, share)] * 3), 1e-5
    losses, slopes = kind.loss(np.array([at - step, at, at + step]), y)
    assert_allclose(slopes[1], (losses[2] - losses[0]) / (2 * step), rtol=1e-6, atol=1e-6)


@each
@pytest.mark.parametrize("score", [-0.7, 0.2, 1.1])
def test_information_is_the_expected_curvature_and_the_spread_of_slopes(pair: Pair, score: float) -> None:
    kind = make_response(*pair)
    at = scores_of(kind, score)
    mean = float(kind.mean(np.array(at)))

    def curvature(y: float) -> float:
        slopes = kind.loss(np.array([at - 1e-5, at + 1e-5]), np.full(2, y))[1]
        return float((slopes[1] - slopes[0]) / 2e-5)

    def square(y: float) -> float:
        return float(kind.loss(np.array([at]), np.array([y]))[1][0]) ** 2

    information = float(kind.information(np.array(at)))
    assert_allclose(information, _expected(kind, mean, curvature), rtol=1e-6)
    assert_allclose(information, _expected(kind, mean, square), rtol=1e-6)


@each
@given(score=st.floats(-2, 2), share=st.floats(0, 1))
def test_observed_information_is_the_derivative_of_slopes(pair: Pair, score: float, share: float) -> None:
    kind = make_response(*pair)
    at, y, step = scores_of(kind, score), np.array([target_of(kind, share)] * 2), 1e-5
    slopes = kind.loss(np.array([at - step, at + step]), y)[1]
    found = kind.second_derivative(np.array([at]), y[:1])
    assert_allclose(found, [(slopes[1] - slopes[0]) / (2 * step)], rtol=1e-6, atol=1e-6)
    if kind.is_canonical:
        assert_allclose(found, kind.information(np.array([at])), rtol=1e-14)


def _expected(kind: Response, mean: float, value: Callable[[float], float]) -> float:
    known = law(kind, mean, 1.0)
    if kind.family in ("bernoulli", "poisson"):
        return sum(float(known.pmf(y)) * value(float(y)) for y in range(80))
    low, high = float(known.ppf(1e-16)), float(known.ppf(1 - 1e-15))
    return float(integrate.quad(lambda y: float(known.pdf(y)) * value(y), low, high, limit=200)[0])


@each
def test_link_and_mean_undo_each_other(pair: Pair) -> None:
    kind = make_response(*pair)
    scores = np.array([scores_of(kind, score) for score in (-1.5, 0.0, 0.4, 2.0)])
    assert_allclose(kind.link_function(kind.mean(scores)), scores, atol=1e-14)


@each
@pytest.mark.parametrize("scatter", [0.3, 1.0, 2.5])
def test_likelihoods_are_scipys(pair: Pair, scatter: float) -> None:
    kind = make_response(*pair)
    scatter = scatter if kind.has_dispersion else 1.0
    scores = np.array([scores_of(kind, score) for score in np.linspace(-2, 2, 7)])
    y = np.array([target_of(kind, share) for share in np.linspace(0, 1, 7)])
    known = law(kind, kind.mean(scores), scatter)
    expected = known.logpdf(y) if kind.has_dispersion else known.logpmf(y)
    assert_allclose(kind.log_likelihood_by_score(scores, y, scatter), expected, rtol=1e-12, atol=1e-13)


@each
def test_deviances_compare_with_a_perfect_fit(pair: Pair) -> None:
    kind = make_response(*pair)
    scores = np.array([scores_of(kind, score) for score in np.linspace(-2, 2, 7)])
    y = np.array([target_of(kind, share) for share in np.linspace(0.2, 1, 7)])
    mean = kind.mean(scores)
    perfect = np.zeros(7) if kind.family == "bernoulli" else kind.log_likelihood(y, y, 1.0)
    lost = 2.0 * (perfect - kind.log_likelihood(mean, y, 1.0))
    assert_allclose(kind.deviance_by_score(scores, y), lost, rtol=1e-10, atol=1e-12)
    assert_allclose(kind.pearson_squares(scores, y), (y - mean) ** 2 / kind.variance(mean), rtol=1e-10)


def test_nothing_is_lost_of_large_counts_and_near_certainties() -> None:
    poisson, bernoulli = make_response("poisson"), make_response("bernoulli")
    y = np.array([1e9 + 1e3])
    assert_allclose(poisson.deviance(np.array([1e9]), y), 1e-3, rtol=1e-6)  # (y − m)²/m, to first order
    assert_allclose(
        poisson.log_likelihood(np.array([1e9]), y, 1.0), stats.norm(1e9, 1e9**0.5).logpdf(y), rtol=1e-6
    )
    assert_allclose(bernoulli.deviance_by_score(np.array([60.0]), np.zeros(1)), 120.0)
    assert_allclose(bernoulli.pearson_squares(np.array([60.0]), np.zeros(1)), np.exp(60.0))


@each
@given(seed=st.integers(0, 1000), apart=st.sampled_from([0.0, 1.0, 5.0]))
def test_the_level_has_no_slope_left(pair: Pair, seed: int, apart: float) -> None:
    kind, rng = make_response(*pair), np.random.default_rng(seed)
    y = np.array([target_of(kind, share) for share in rng.random(30)])
    y = y + 3.01 if pair == ("gaussian", "log") else y
    y[:2] = target_of(kind, 0.1), target_of(kind, 0.9)
    if pair == ("gaussian", "log"):
        y = np.abs(y)
    weights, offsets = rng.uniform(0.1, 3, 30), apart * rng.normal(size=30)
    found = kind.intercept(y, weights, offsets)
    slopes = weights * kind.loss(found + offsets, y)[1]
    assert abs(slopes.sum()) < 1e-9 * np.abs(slopes).sum()
    at_once = kind.intercept(y, weights)
    assert_allclose(kind.intercept(y, weights, np.zeros(30)), at_once, rtol=1e-10, atol=1e-12)


def test_the_likeliest_dispersion_is_scipys() -> None:
    kind = make_response("gamma", "log")
    y = np.random.default_rng(0).gamma(3.0, 2.0, size=400)
    shape, _, scale = stats.gamma.fit(y, floc=0)
    mean = float(shape * scale)
    total = float(kind.deviance_by_score(np.full(400, np.log(mean)), y).sum())
    assert_allclose(1.0 / estimate_dispersion("mle", kind, 0.0, total, 400.0, 399.0), shape, rtol=1e-5)


def test_strange_families_and_links_are_named() -> None:
    with pytest.raises(ValueError, match="family='binomial', expected one of 'bernoulli'"):
        make_response("binomial")
    with pytest.raises(ValueError, match="link='identity' for 'poisson', expected 'log'"):
        make_response("poisson", "identity")


def test_scores_out_of_range_have_an_infinite_loss() -> None:
    kind, y = make_response("gamma"), np.array([1.0, 2.0])
    scores: Array = np.array([-1.0, 0.0])
    assert np.isinf(kind.loss(scores, y)[0]).all()
    assert np.isinf(kind.mean(scores)).all()
    assert np.isinf(kind.deviance_by_score(scores, y)).all()


def test_a_gamma_has_the_mean_and_variance_of_the_logarithm() -> None:
    variances = 10.0 ** np.linspace(-12, 200, 4000)
    shapes, rates = match_gamma(np.full(4000, 0.25), variances)
    assert_allclose(special.polygamma(1, shapes), variances, rtol=1e-13)
    logarithms = special.digamma(shapes[variances < 1e4]) - np.log(rates[variances < 1e4])
    assert_allclose(logarithms, 0.25, rtol=1e-12)
    none, least = match_gamma(np.zeros(1), np.zeros(1)), match_gamma(np.zeros(1), np.full(1, 1e-12))
    assert_allclose(none, least, rtol=0)
