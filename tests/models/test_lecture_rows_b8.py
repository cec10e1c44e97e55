"""Row B8: expectations under a posterior, with their errors."""

import numpy as np
import pytest
from scipy import stats

from tamis.conjugate import Beta
from tamis.expectations import importance, metropolis, monte_carlo
from tamis.stats import Tally

POSTERIOR = Beta(2, 2).update(Tally.observe([1] * 7 + [0] * 3))  # Beta(9, 5)


def test_monte_carlo_gives_the_posterior_mean_within_its_error_bars() -> None:
    estimate = monte_carlo(
        lambda p: p, lambda rng, n: POSTERIOR.sample(rng, n), 20_000, np.random.default_rng(0)
    )
    assert abs(estimate.value - 9 / 14) < 4 * estimate.error
    assert estimate.error == pytest.approx(float(np.sqrt(POSTERIOR.variance / 20_000)), rel=0.05)


def test_error_bars_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    truth = np.exp(0.5)
    hits = 0
    for _ in range(400):
        estimate = monte_carlo(lambda z: np.exp(z), lambda rng, n: rng.standard_normal(n), 2_000, rng)
        hits += bool(abs(estimate.value - truth) < 1.96 * estimate.error)
    # 95 % of 400 is 380 with a standard deviation of 4.4; the lognormal's tail costs a little
    assert 360 <= hits <= 400


def test_importance_weights_turn_draws_from_the_prior_into_posterior_expectations() -> None:
    prior = Beta(2, 2)
    estimate = importance(
        lambda p: np.stack([p, p**2], axis=-1),
        lambda p: 7 * np.log(p) + 3 * np.log1p(-p) + prior.log_density(p),
        lambda rng, n: prior.sample(rng, n),
        prior.log_density,
        20_000,
        np.random.default_rng(2),
    )
    mean = 9 / 14
    truth = np.array([mean, POSTERIOR.variance + mean**2])
    assert (np.abs(estimate.value - truth) < 4 * estimate.error).all()
    assert 2_000 < estimate.effective < 20_000


def test_a_proposal_far_from_the_target_says_so_by_its_effective_sample_size() -> None:
    def run(centre: float) -> float:
        return importance(
            lambda x: x,
            lambda x: stats.norm.logpdf(x),
            lambda rng, n: rng.normal(centre, 1.0, n),
            lambda x: stats.norm.logpdf(x, centre, 1.0),
            5_000,
            np.random.default_rng(3),
        ).effective

    assert run(0.0) == pytest.approx(5_000)
    assert run(4.0) < 100


def test_metropolis_samples_what_is_not_conjugate() -> None:
    # a logistic posterior under a normal prior, checked by quadrature
    x, y = np.array([-1.0, 0.5, 1.0, 2.0]), np.array([0.0, 0.0, 1.0, 1.0])

    def log_density(w: np.ndarray) -> float:
        score = np.multiply.outer(w, x)
        return float((score * y - np.logaddexp(0, score)).sum() - 0.5 * np.square(w).sum())

    grid = np.linspace(-8, 8, 4001)
    density = np.exp([log_density(np.array([w])) for w in grid])
    truth = (grid * density).sum() / density.sum()
    chain = metropolis(log_density, [0.0], 20_000, np.random.default_rng(4))
    estimate = chain.expectation(lambda w: w[:, 0])
    assert abs(estimate.value - truth) < 4 * estimate.error
    assert 0.15 < chain.acceptance < 0.6
    assert estimate.effective < 20_000


def test_metropolis_adapts_to_coordinates_of_very_different_width() -> None:
    widths = np.array([1e-3, 1.0, 1e4])
    chain = metropolis(
        lambda x: float(-0.5 * np.square(x / widths).sum()), np.zeros(3), 20_000, np.random.default_rng(5)
    )
    spread = chain.draws.std(axis=0)
    np.testing.assert_allclose(spread, widths, rtol=0.25)
    assert 0.1 < chain.acceptance < 0.6


def test_a_chain_reports_a_larger_error_than_independent_draws_would_have() -> None:
    chain = metropolis(lambda x: float(-0.5 * x @ x), [0.0], 10_000, np.random.default_rng(6), warm_up=2_000)
    estimate = chain.expectation(lambda x: x[:, 0])
    assert estimate.error > 1.5 / np.sqrt(10_000)


def test_the_same_generator_gives_the_same_chain() -> None:
    first, second = (
        metropolis(lambda x: float(-0.5 * x @ x), [0.0], 100, np.random.default_rng(7)).draws for _ in "ab"
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: monte_carlo(lambda x: x, lambda rng, n: rng.random(n), 1, rng), "at least 2"),
        (lambda rng: monte_carlo(lambda x: x.mean(), lambda rng, n: rng.random(n), 9, rng), "a row a draw"),
        (lambda rng: metropolis(lambda x: float("-inf"), [0.0], 9, rng), "finite"),
        (lambda rng: metropolis(lambda x: 0.0, [0.0], 9, rng, scale=0.0), "above zero"),
        (
            lambda rng: importance(
                lambda x: x, lambda x: 0 * x, lambda rng, n: rng.random(n), lambda x: 0 * x - np.inf, 9, rng
            ),
            "covers the target",
        ),
        (
            lambda rng: importance(
                lambda x: x, lambda x: 0 * x - np.inf, lambda rng, n: rng.random(n), lambda x: 0 * x, 9, rng
            ),
            "no mass",
        ),
    ],
)
def test_what_cannot_be_estimated_is_refused_in_one_line(call, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message) as refusal:
        call(np.random.default_rng(0))
    assert "\n" not in str(refusal.value)
