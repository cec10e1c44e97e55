"""Row B8: expectations under a posterior, with their errors."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tamis.arrays import Array
from tamis.conjugate import Beta, NormalInverseGamma
from tamis.expectations import Expectation, importance, metropolis, monte_carlo
from tamis.stats import Moments, Tally

POSTERIOR = Beta(2, 2).update(Tally.observe([1] * 7 + [0] * 3))  # Beta(9, 5)


def coverage(estimates: list[Expectation], truth: float) -> float:
    """How often 95 % error bars hold the truth."""
    ends = [estimate.interval(0.95) for estimate in estimates]
    return float(np.mean([low <= truth <= high for low, high in ends]))


def test_monte_carlo_gives_the_posterior_mean_within_its_error_bars() -> None:
    estimate = monte_carlo(lambda p: p, POSTERIOR.sample, 20_000, rng=np.random.default_rng(0))
    assert abs(estimate.value - 9 / 14) < 4 * estimate.error
    assert estimate.error == pytest.approx(float(np.sqrt(POSTERIOR.variance / 20_000)), rel=0.05)


def test_monte_carlo_takes_what_any_prior_draws() -> None:
    belief = NormalInverseGamma.from_mean(0.0, 1.0, 1.0).update(Moments.observe([1.0, 2.0, 4.0]))
    estimate = monte_carlo(lambda drawn: drawn.mean, belief.sample, rng=np.random.default_rng(0))
    assert abs(estimate.value - belief.mean.mean) < 4 * estimate.error


def test_error_bars_of_independent_draws_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    runs = [monte_carlo(np.exp, lambda rng, n: rng.standard_normal(n), 2_000, rng=rng) for _ in range(400)]
    # 0.95 with a standard deviation of 0.011; the lognormal's tail costs a little
    assert 0.90 <= coverage(runs, float(np.exp(0.5))) <= 0.99


def test_importance_weights_turn_draws_from_the_prior_into_posterior_expectations() -> None:
    prior = Beta(2, 2)

    def log_posterior(p: Array) -> Array:
        return np.asarray(7 * np.log(p) + 3 * np.log1p(-p) + prior.log_density(p))

    def run(rng: np.random.Generator) -> Expectation:
        return importance(lambda p: p, log_posterior, prior.sample, prior.log_density, 2_000, rng=rng)

    rng = np.random.default_rng(2)
    runs = [run(rng) for _ in range(300)]
    assert 0.90 <= coverage(runs, 9 / 14) <= 0.99  # 0.95 with a standard deviation of 0.013
    assert all(200 < one.effective < 2_000 for one in runs)


def test_a_proposal_far_from_the_target_says_so() -> None:
    def run(centre: float) -> float:
        return importance(
            lambda x: x,
            stats.norm.logpdf,
            lambda rng, n: rng.normal(centre, 1.0, n),
            lambda x: stats.norm.logpdf(x, centre, 1.0),
            5_000,
            rng=np.random.default_rng(3),
        ).effective

    assert run(0.0) == pytest.approx(5_000)
    with pytest.warns(RuntimeWarning, match="a proposal nearer to the target"):
        assert run(10.0) < 5


def test_metropolis_samples_what_is_not_conjugate() -> None:
    # a logistic posterior under a normal prior, checked by quadrature
    x, y = np.array([-1.0, 0.5, 1.0, 2.0]), np.array([0.0, 0.0, 1.0, 1.0])

    def log_density(w: Array) -> Array:
        score = np.multiply.outer(w, x)
        return np.asarray((score * y - np.logaddexp(0, score)).sum(axis=-1) - 0.5 * np.square(w))

    grid = np.linspace(-8, 8, 4001)
    density = np.exp(log_density(grid))
    truth = float((grid * density).sum() / density.sum())
    rng = np.random.default_rng(4)
    chain = metropolis(log_density, 0.0, 20_000, rng=rng)
    estimate = chain.expectation(lambda w: w)
    assert abs(estimate.value - truth) < 4 * estimate.error
    assert 0.2 < chain.acceptance < 0.5
    assert estimate.effective < 20_000 / 2


def test_metropolis_takes_the_densities_of_this_library() -> None:
    for start in (0.5, [0.5]):
        chain = metropolis(POSTERIOR.log_density, start, 5_000, rng=np.random.default_rng(5))
        estimate = chain.expectation(lambda p: p)
        assert (np.abs(estimate.value - 9 / 14) < 4 * estimate.error).all()
        assert chain.draws.shape == (5_000, *np.shape(start))


def test_error_bars_of_a_chain_cover_as_often_as_they_say_even_on_a_narrow_ridge() -> None:
    precision = np.linalg.inv(np.array([[1.0, 0.99], [0.99, 1.0]]))
    rng = np.random.default_rng(6)
    runs = [
        metropolis(lambda x: -0.5 * x @ precision @ x, np.zeros(2), 1_000, rng=rng).expectation(
            lambda x: x[:, 0]
        )
        for _ in range(100)
    ]
    assert 0.85 <= coverage(runs, 0.0) <= 1.0  # 0.95 with a standard deviation of 0.022


def test_metropolis_adapts_to_coordinates_of_very_different_width() -> None:
    widths = np.array([1e-3, 1.0, 1e4])
    chain = metropolis(
        lambda x: -0.5 * np.square(x / widths).sum(), np.zeros(3), 20_000, rng=np.random.default_rng(7)
    )
    np.testing.assert_allclose(chain.draws.std(axis=0), widths, rtol=0.25)
    assert 0.2 < chain.acceptance < 0.5


def test_a_chain_that_never_moved_knows_nothing() -> None:
    def needle(x: Array) -> float:
        return 0.0 if abs(x[0]) < 1e-9 else -np.inf

    chain = metropolis(needle, [0.0], 1_000, rng=np.random.default_rng(8), warm_up=0)
    estimate = chain.expectation(lambda x: x[:, 0])
    assert (chain.acceptance, float(estimate.error), estimate.effective) == (0.0, np.inf, 1.0)


def test_a_constant_has_no_error() -> None:
    chain = metropolis(lambda x: -0.5 * x * x, 0.0, 1_000, rng=np.random.default_rng(9))
    assert float(chain.expectation(lambda x: np.ones(len(x))).error) == 0.0


def test_the_same_generator_gives_the_same_chain() -> None:
    first, second = (
        metropolis(lambda x: -0.5 * x * x, 0.0, 100, rng=np.random.default_rng(7)).draws for _ in "ab"
    )
    np.testing.assert_array_equal(first, second)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: monte_carlo(lambda x: x, lambda rng, n: rng.random(n), 1, rng=RNG), "at least 2"),
        (lambda: monte_carlo(np.mean, lambda rng, n: rng.random(n), 9, rng=RNG), "one row per draw"),
        (lambda: metropolis(lambda x: -np.inf, 0.0, 20, rng=RNG), "finite"),
        (lambda: metropolis(lambda x: 0.0, 0.0, 20, rng=RNG, scale=0.0), "above zero"),
        (lambda: metropolis(lambda x: 0.0, 0.0, 3, rng=RNG), "at least 10"),
        (lambda: metropolis(lambda x: 0.0, np.zeros((2, 2)), 20, rng=RNG), "a number or a vector"),
        (lambda: metropolis(lambda x: x, np.zeros(3), 20, rng=RNG), "expected one number"),
        (
            lambda: importance(
                lambda x: x,
                lambda x: 0 * x,
                lambda rng, n: rng.random(n),
                lambda x: 0 * x - np.inf,
                9,
                rng=RNG,
            ),
            "covers the target",
        ),
        (
            lambda: importance(
                lambda x: x,
                lambda x: 0 * x - np.inf,
                lambda rng, n: rng.random(n),
                lambda x: 0 * x,
                9,
                rng=RNG,
            ),
            "density is zero at all draws",
        ),
        (lambda: Expectation(np.zeros(1), np.ones(1), 9.0).interval(95), "between 0 and 1"),
    ],
)
def test_what_cannot_be_estimated_is_refused_in_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal, warnings.catch_warnings():
        call()
    assert "\n" not in str(refusal.value)
