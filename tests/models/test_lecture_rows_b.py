"""Rows B1–B7 of the lectures: estimating a parameter by counting, believing, and checking."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import optimize, stats

from tamis import validate
from tamis.arrays import Array
from tamis.conjugate import Beta, Gamma, NegativeBinomial
from tamis.families.bernoulli import Bernoulli
from tamis.models.generative import Generative, LabelledRows, PoissonColumns
from tamis.stats import Labels, Tally
from tamis.tables import Table

COIN = Tally.observe([1] * 55 + [0] * 45)
HEADS, TAILS = Tally.observe([1]), Tally.observe([0])


def test_b1_the_maximum_likelihood_of_55_heads_and_45_tails_is_055() -> None:
    assert Bernoulli(0.5).fit(COIN).probability == 0.55


def test_b1_the_negative_log_likelihood_is_the_cross_entropy() -> None:
    seen = Bernoulli(0.55)
    for probability in (0.3, 0.55, 0.9):
        model = Bernoulli(probability)
        negative = -(55 * model.log_density(1) + 45 * model.log_density(0)) / 100
        assert_allclose(negative, seen.entropy() + seen.kl(model), rtol=1e-14)
        assert negative >= seen.entropy() - 1e-15  # least at the maximum-likelihood estimate


def test_b2_heads_and_heads_again_move_beta_2_2_to_beta_4_2() -> None:
    belief = Beta(2, 2)
    for a, mean in [(3, 3 / 5), (4, 4 / 6)]:
        belief = belief.update(HEADS)
        assert (float(belief.a), float(belief.b), float(belief.mean)) == (a, 2, mean)


def test_b3_a_mean_of_03_worth_ten_observations_is_beta_3_7() -> None:
    belief = Beta.from_mean(0.3, strength=10)
    assert (float(belief.a), float(belief.b)) == (3, 7)


@pytest.mark.parametrize(("mean", "strength"), [(0.3, 10), (0.9, 0.5), (0.5, 1000)])
def test_b4_the_posterior_mean_is_a_convex_combination(mean: float, strength: float) -> None:
    w = strength / (100 + strength)
    posterior = Beta.from_mean(mean, strength).update(COIN)
    assert_allclose(posterior.mean, w * mean + (1 - w) * 0.55, rtol=1e-14)


def test_b5_the_most_probable_value_after_updating_is_the_counts_less_one() -> None:
    posterior = Beta(3, 7).update(COIN)
    assert float(posterior.mode) == (3 + 55 - 1) / (10 + 100 - 2)
    grid = np.linspace(0.001, 0.999, 999)
    assert abs(grid[posterior.log_density(grid).argmax()] - posterior.mode) <= 0.001
    assert Beta(1, 1).update(COIN).mode == 0.55  # a flat prior leaves the maximum-likelihood estimate


def test_b6_laplace_predicts_heads_with_n1_plus_1_over_n_plus_2() -> None:
    assert_allclose(Beta(1, 1).update(COIN).predictive().density(1), 56 / 102, rtol=1e-13)


def test_b6_after_three_white_swans_a_black_one_has_one_chance_in_five_and_never_none() -> None:
    belief, maximum_likelihood = Beta(1, 1), Tally.observe([0, 0, 0]).mean[0]
    for white, chance in enumerate([1 / 2, 1 / 3, 1 / 4, 1 / 5]):
        assert_allclose(belief.predictive().density(1), chance, rtol=1e-13)
        assert belief.b == 1 + white
        belief = belief.update(TAILS)
    assert maximum_likelihood == 0
    assert Beta(1, 1).update(Tally.of(1e9, [0.0])).predictive().density(1) > 0


def simulated_coins(groups: int, tosses: int) -> tuple[Tally, Array]:
    """Groups of tosses of coins that come from Beta(3, 7), and the share of heads in each."""
    rng = np.random.default_rng(11)
    heads = rng.binomial(tosses, rng.beta(3, 7, groups))
    return Tally.of(float(tosses), heads[:, None]), heads / tosses


def moment_matched(shares: Array) -> Beta:
    """The Beta whose mean and variance are those of the shares."""
    mean, variance = shares.mean(), shares.var()
    return Beta.from_mean(mean, mean * (1 - mean) / variance - 1)


def test_b7_hyper_parameters_by_evidence_are_where_scipys_likelihood_is_largest() -> None:
    groups, shares = simulated_coins(300, 25)
    fitted = Beta.fit(groups)

    def loss(at: Array) -> float:
        return -float(stats.betabinom.logpmf(np.rint(25 * shares), 25, *np.exp(at)).sum())

    best = optimize.minimize(loss, np.log([1.0, 1.0]), method="Nelder-Mead", options={"xatol": 1e-7})
    assert_allclose(np.log([float(fitted.a), float(fitted.b)]), best.x, atol=1e-4)
    rng = np.random.default_rng(15)
    counts = rng.negative_binomial(2, 1 / 3, 300).astype(np.float64)
    prior = Gamma.fit(Tally.of(1.0, counts[:, None])).predictive()
    assert isinstance(prior, NegativeBinomial)

    def loss_of_counts(at: Array) -> float:
        shape, rate = np.exp(at)
        return -float(stats.nbinom.logpmf(counts, shape, rate / (1 + rate)).sum())

    best = optimize.minimize(loss_of_counts, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-7})
    assert_allclose(np.log([float(prior.shape), float(prior.rate)]), best.x, atol=1e-4)


def test_b7_hyper_parameters_by_evidence_recover_the_truth_within_three_standard_errors() -> None:
    groups, _ = simulated_coins(1000, 25)
    fitted = Beta.fit(groups)

    def evidence(log_a: float, log_b: float) -> float:
        return float(Beta(np.exp(log_a), np.exp(log_b)).log_evidence(groups).sum())

    at, h = np.log([float(fitted.a), float(fitted.b)]), 1e-3
    step = h * np.eye(2)
    information = np.array(
        [
            [-sum(s * t * evidence(*(at + s * i + t * j)) for s in (1, -1) for t in (1, -1)) for j in step]
            for i in step
        ]
    ) / (4 * h * h)
    error = np.sqrt(np.diag(np.linalg.inv(information)))
    assert (error < 0.08).all()  # a standard error of at most 8%
    assert (np.abs(at - np.log([3, 7])) < 3 * error).all()


def test_b7_evidence_beats_moment_matching_in_evidence_and_in_error() -> None:
    groups, shares = simulated_coins(1000, 25)
    fitted, matched = Beta.fit(groups), moment_matched(shares)
    gain = (fitted.log_evidence(groups) - matched.log_evidence(groups)).sum()
    assert gain > 10.0  # moments of shares take the noise of 25 tosses for a spread of coins
    assert abs(float(fitted.strength) - 10) < abs(float(matched.strength) - 10)


def test_b7_shrinking_towards_the_fitted_prior_has_a_smaller_error_than_each_group_alone() -> None:
    rng = np.random.default_rng(12)
    truth = rng.beta(3, 7, 500)
    heads = rng.binomial(10, truth)
    groups = Tally.of(10.0, heads[:, None])
    shrunk = Beta.fit(groups).update(groups).mean
    assert np.square(shrunk - truth).mean() < 0.7 * np.square(heads / 10 - truth).mean()


def dispersion(counts: Array) -> Array:
    """Variance over mean (...,): one for Poisson counts."""
    return np.asarray(counts.var(axis=-1) / np.maximum(counts.mean(axis=-1), 1e-12))


def check(observed: Array, replicated: Array) -> float:
    """The share of replicated data sets (r, n) that are at least as dispersed as the observed one."""
    return float((dispersion(replicated) >= dispersion(observed)).mean())


def poisson_check(counts: Array, rng: np.random.Generator, draws: int = 1000) -> validate.Check:
    """The dispersion of counts, checked under a single Poisson rate."""
    model = Generative({"x": PoissonColumns()})
    labels = np.zeros(len(counts), dtype=np.int64)
    statistic = model.observe(LabelledRows(model.encode(Table.of(counts[:, None])), Labels.of(labels)))

    def measure(_group: NDArray[np.int64], columns: Mapping[str, list[NDArray[Any]]]) -> float:
        return float(dispersion(columns["x"][0]))

    return validate.check(model, statistic, measure, float(dispersion(counts)), rng, draws)


def test_b7_a_posterior_predictive_check_is_the_test_of_dispersion() -> None:
    """n · variance / mean of n Poisson counts is about χ² of n − 1 degrees: its tails are the p-values."""
    rng = np.random.default_rng(13)
    found, expected = [], []
    for rate in (3.0, 4.0, 5.0, 6.0, 8.0, 10.0):
        counts = rng.poisson(rate, 200).astype(np.float64)
        tail = stats.chi2(199).sf(200 * dispersion(counts))
        expected.append(2 * min(tail, 1 - tail))
        found.append(poisson_check(counts, rng).p_value)
    assert_allclose(found, expected, atol=0.08)
    assert max(expected) - min(expected) > 0.5  # p-values of one size would compare nothing
    assert min(expected) > 0.01


def test_b7_a_posterior_predictive_check_fails_on_overdispersed_counts_under_a_poisson() -> None:
    rng = np.random.default_rng(14)
    counts = rng.negative_binomial(2, 1 / 3, 200).astype(np.float64)  # mean 4, variance 12
    found = poisson_check(counts, rng)
    assert found.observed == pytest.approx(counts.var() / counts.mean())
    assert found.p_value == pytest.approx(2 / 1001)  # the data are further out than every draw
    assert_allclose(found.replicated.mean(), 199 / 200, atol=0.02)


def test_b7_a_posterior_predictive_check_fails_on_underdispersed_counts_under_a_poisson() -> None:
    rng = np.random.default_rng(16)
    counts = rng.binomial(5, 0.8, 200).astype(np.float64)  # mean 4, variance 0.8
    assert poisson_check(counts, rng).p_value == pytest.approx(2 / 1001)


def test_b7_the_same_counts_pass_under_a_rate_for_each_group_with_a_fitted_prior() -> None:
    rng = np.random.default_rng(14)
    counts = rng.negative_binomial(2, 1 / 3, 200).astype(np.float64)
    fitted = Gamma.fit(Tally.of(1.0, counts[:, None]))
    assert 0.05 < check(counts, fitted.predictive().sample(rng, (2000, 200))) < 0.95
    predictive = fitted.predictive()
    assert isinstance(predictive, NegativeBinomial)
    known = stats.nbinom(predictive.shape, predictive.rate / (1 + predictive.rate))
    assert_allclose(
        fitted.log_evidence(Tally.of(1.0, counts[:, None]), _log_base(counts)), known.logpmf(counts)
    )


def _log_base(counts: Array) -> Array:
    return np.asarray(stats.poisson(1).logpmf(counts) + 1.0)  # −log x!
