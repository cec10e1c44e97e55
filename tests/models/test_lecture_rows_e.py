"""Rows E1–E3 of the lectures: the exponential family h(x) g(η) exp(η·u(x)), its mean, its conjugate prior."""

from typing import Any

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy import special, stats

from tamis.conjugate import Beta
from tamis.families import (
    Bernoulli,
    Categorical,
    Exponential,
    Gaussian,
    Geometric,
    Multinomial,
    MultivariateGaussian,
    Poisson,
)
from tamis.stats import Tally

P = np.array([0.2, 0.5, 0.3])

MEMBERS: tuple[Any, ...] = (
    Bernoulli(0.3),
    Categorical(P),
    Categorical(P, minimal=True),
    Multinomial(5, P),
    Multinomial(5, P, minimal=True),
    Poisson(2.5),
    Exponential(0.4),
    Geometric(0.35),
    Gaussian(1.5, 0.8),
    MultivariateGaussian([1.0, -1.0], [[1.0, 0.4], [0.4, 2.0]]),
)
every_member = pytest.mark.parametrize("member", MEMBERS, ids=lambda member: type(member).__name__)


def test_e1_a_bernoulli_has_h_one_g_the_sigmoid_of_minus_eta_and_u_the_bit() -> None:
    mu, x = 0.3, np.array([0.0, 1.0])
    eta = np.log(mu / (1.0 - mu))
    coin = Bernoulli(mu)
    assert coin.natural.tolist() == pytest.approx([eta])
    assert coin.mean_of([eta]).tolist() == pytest.approx([1.0 / (1.0 + np.exp(-eta))])
    np.testing.assert_allclose(special.expit(-eta) * np.exp(eta * x), coin.density(x))
    np.testing.assert_allclose(mu**x * (1.0 - mu) ** (1.0 - x), coin.density(x))


def test_e1_a_multinomial_with_all_parameters_has_eta_log_mu_and_g_one() -> None:
    one_of_three = Categorical(P)
    np.testing.assert_allclose(one_of_three.natural, np.log(P))
    np.testing.assert_allclose(one_of_three.log_partition(np.log(P)), 0.0, atol=1e-15)
    for k in range(3):
        assert one_of_three.sufficient(k).tolist() == np.eye(3)[k].tolist()
        np.testing.assert_allclose(np.exp(np.log(P) @ one_of_three.sufficient(k)), one_of_three.density(k))


def test_e1_a_multinomial_without_the_last_parameter_has_softmax_means() -> None:
    one_of_three = Categorical(P, minimal=True)
    eta = np.log(P[:2] / (1.0 - P[:2].sum()))
    np.testing.assert_allclose(one_of_three.natural, eta)
    np.testing.assert_allclose(one_of_three.mean_of(eta), np.exp(eta) / (1.0 + np.exp(eta).sum()))
    g = 1.0 / (1.0 + np.exp(eta).sum())
    for k in range(3):
        np.testing.assert_allclose(g * np.exp(eta @ one_of_three.sufficient(k)), one_of_three.density(k))


@pytest.mark.parametrize("minimal", [False, True])
def test_e1_counts_have_the_multinomial_coefficient_for_h(minimal: bool) -> None:
    x = np.array([1, 3, 1])
    counts = Multinomial(5, P, minimal)
    eta = np.log(P[:2] / P[2]) if minimal else np.log(P)
    g = P[2] ** 5 if minimal else 1.0
    np.testing.assert_allclose(np.exp(counts.log_base(x)), 20.0)
    np.testing.assert_allclose(20.0 * g * np.exp(eta @ x[: len(eta)]), counts.density(x))


def test_e1_a_gaussian_has_eta_of_two_parts_and_u_the_number_and_its_square() -> None:
    mu, variance = 1.5, 0.8
    normal = Gaussian(mu, variance)
    first, second = mu / variance, -0.5 / variance
    np.testing.assert_allclose(normal.natural, [first, second])
    h = (2.0 * np.pi) ** -0.5
    g = np.sqrt(-2.0 * second) * np.exp(first**2 / (4.0 * second))
    x = np.linspace(-2.0, 4.0, 7)
    np.testing.assert_allclose(h * g * np.exp(first * x + second * x**2), normal.density(x))
    np.testing.assert_allclose(np.exp(normal.log_base(x)), h)
    np.testing.assert_allclose(np.exp(-normal.log_partition([first, second])), g)


@every_member
def test_e2_minus_the_gradient_of_log_g_is_the_expected_statistic(member: Any) -> None:
    def log_g(eta: Any) -> Any:
        return -member.log_partition(eta)

    step = 1e-5
    eta = member.natural
    gradient = [
        (log_g(eta + step * axis) - log_g(eta - step * axis)) / (2.0 * step) for axis in np.eye(len(eta))
    ]
    np.testing.assert_allclose(-np.array(gradient), member.mean_parameters, rtol=1e-6, atol=1e-8)
    drawn = member.sufficient(member.sample(np.random.default_rng(7), 40_000))
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - member.mean_parameters) < 5.0 * error + 1e-12).all()


@every_member
def test_e2_maximum_likelihood_is_the_mean_of_the_statistic(member: Any) -> None:
    x = member.sample(np.random.default_rng(11), 200)
    fitted = member.fit(member.observe(x))
    np.testing.assert_allclose(fitted.mean_parameters, member.sufficient(x).mean(axis=0), rtol=1e-10)
    best = fitted.log_density(x).sum()
    for step in 0.02 * np.random.default_rng(3).standard_normal((20, *fitted.natural.shape)):
        assert fitted.with_natural(fitted.natural * (1.0 + step)).log_density(x).sum() <= best + 1e-9


def integral(log_density: Any, low: float, high: float) -> float:
    """∫ exp(log_density) by Gauss and Legendre."""
    at, weights = leggauss(200)
    x = 0.5 * (high - low) * (at + 1.0) + low
    return float(0.5 * (high - low) * (weights * np.exp(log_density(x))).sum())


STRENGTH, VALUE = 5.0, 0.4  # ν pseudo-observations of value χ


@pytest.mark.parametrize(
    ("member", "natural_of", "jacobian", "classical", "low", "high"),
    [
        # θ ↦ η, |dη/dθ|, and the prior of the books in θ
        (
            Bernoulli(0.5),
            special.logit,
            lambda p: 1.0 / (p * (1.0 - p)),
            stats.beta(STRENGTH * VALUE, STRENGTH * (1.0 - VALUE)),
            0.0,
            1.0,
        ),
        (
            Poisson(1.0),
            np.log,
            lambda rate: 1.0 / rate,
            stats.gamma(STRENGTH * VALUE, scale=1 / STRENGTH),
            0.0,
            12.0,
        ),
        (
            Exponential(1.0),
            np.negative,
            np.ones_like,
            stats.gamma(STRENGTH + 1.0, scale=1.0 / (STRENGTH * VALUE)),
            0.0,
            60.0,
        ),
        (
            Geometric(0.5),
            lambda p: np.log1p(-p),
            lambda p: 1.0 / (1.0 - p),
            stats.beta(STRENGTH + 1.0, STRENGTH * VALUE),
            0.0,
            1.0,
        ),
    ],
    ids=["Bernoulli", "Poisson", "Exponential", "Geometric"],
)
def test_e3_the_conjugate_prior_is_that_of_pseudo_observations(
    member: Any, natural_of: Any, jacobian: Any, classical: Any, low: float, high: float
) -> None:
    def log_prior(theta: Any) -> Any:  # g(η)^ν exp(ν η·χ), as a density in θ
        eta = natural_of(theta)
        return STRENGTH * (eta * VALUE - member.log_partition(eta[..., None])) + np.log(jacobian(theta))

    whole = integral(log_prior, low, high)
    theta = np.linspace(low, min(high, 3.0), 9)[1:-1]
    np.testing.assert_allclose(np.exp(log_prior(theta)) / whole, classical.pdf(theta), rtol=1e-6)


def test_e3_a_prior_is_a_statistic_that_nobody_observed() -> None:
    coin = Bernoulli(0.5)
    flips = [1, 0, 1, 1, 0, 1, 1]
    prior, seen = Tally.of(STRENGTH, [STRENGTH * VALUE]), coin.observe(flips)
    posterior = prior + seen
    assert posterior.weight.value == STRENGTH + len(flips)
    np.testing.assert_allclose(posterior.mean, [(STRENGTH * VALUE + 5.0) / (STRENGTH + 7.0)])
    assert posterior - seen == prior

    belief = Beta(STRENGTH * VALUE, STRENGTH * (1.0 - VALUE)).update(seen)
    np.testing.assert_allclose(belief.mean, posterior.mean[0])
    p = np.linspace(0.05, 0.95, 7)
    eta = special.logit(p)
    weight, total = posterior.weight.value, posterior.total.value[0]
    log_posterior = total * eta - weight * coin.log_partition(eta[:, None]) - np.log(p * (1.0 - p))
    constant = belief.log_density(p) - log_posterior
    np.testing.assert_allclose(constant, constant[0], rtol=1e-12)


@every_member
def test_e3_the_posterior_mean_weighs_prior_value_and_data_by_their_numbers(member: Any) -> None:
    x = member.sample(np.random.default_rng(5), 30)
    chi = member.mean_parameters
    seen = Tally.observe(member.sufficient(x))
    together = (Tally.of(10.0, 10.0 * chi) + seen).mean
    np.testing.assert_allclose(together, (10.0 * chi + 30.0 * seen.mean) / 40.0, rtol=1e-12)
    np.testing.assert_allclose(member.with_mean(together).mean_parameters, together, rtol=1e-10)
