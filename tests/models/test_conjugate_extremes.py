"""Strengths of a trillion, pseudo-counts of 1e-10, means of 1e8: where the textbook's formulas cancel."""

from math import expm1, log, log1p, pi

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tamis.conjugate import (
    Beta,
    BetaBinomial,
    BetaGeometric,
    Dirichlet,
    Gamma,
    InverseGamma,
    Lomax,
    MultivariateT,
    NegativeBinomial,
    Normal,
    NormalInverseGamma,
    NormalInverseWishart,
    StudentT,
)
from tamis.stats import Moments, Tally

HUGE = 1e12
TINY = 1e-10


def test_one_more_toss_after_a_trillion() -> None:
    assert_allclose(Beta(HUGE, HUGE).log_evidence(Tally.of(1.0, [1.0])), log(0.5), rtol=1e-14)
    assert_allclose(Beta(HUGE, 3 * HUGE).log_evidence(Tally.of(2.0, [2.0])), 2 * log(0.25), rtol=1e-12)
    assert_allclose(Dirichlet([HUGE, HUGE, TINY]).predictive().density([1, 0, 0]), 0.5, rtol=1e-13)
    heads = sum(log((HUGE + i) / (2 * HUGE + i)) for i in range(1000))
    assert_allclose(Beta(HUGE, HUGE).log_evidence(Tally.of(1000.0, [1000.0])), heads, rtol=1e-13)


def test_evidence_of_a_trillion_tosses_keeps_differences_between_priors() -> None:
    tosses = Tally.of(2 * HUGE, [HUGE + 1e6])
    flat, tilted = Beta(1, 1).log_evidence(tosses), Beta(2, 1).log_evidence(tosses)
    # p = 0.5 + 2.5e-7 is all but known: the densities there differ by a factor 2p
    assert_allclose(tilted - flat, log1p(5e-7), atol=3e-4)  # a float near −1.4e12 has no more
    assert_allclose(flat, float(BetaBinomial(2 * HUGE, 1, 1).log_density(HUGE)) - _log_choose(), rtol=1e-15)


def _log_choose() -> float:
    """log C(2n, n + 1e6) for n = 1e12, by Stirling's formula with n = HUGE."""
    n, d = HUGE, 1e6
    entropy = -((n + d) * log1p(d / n) + (n - d) * log1p(-d / n))
    return 2 * n * log(2) + entropy - 0.5 * log(pi * n) - 0.5 * log1p(-((d / n) ** 2))


def test_a_uniform_belief_makes_every_count_of_a_trillion_equally_likely() -> None:
    counts = np.array([0.0, 1.0, 12345.0, HUGE / 3 // 1, HUGE])
    assert_allclose(BetaBinomial(HUGE, 1, 1).log_density(counts), -log(HUGE + 1), rtol=1e-12)


def test_pseudo_counts_next_to_nothing() -> None:
    rare = Beta(TINY, TINY)
    assert_allclose(rare.predictive().density(1), 0.5, rtol=1e-12)
    assert_allclose(rare.log_evidence(Tally.of(2.0, [1.0])), log(TINY / 2), rtol=1e-9)
    assert_allclose(Dirichlet([TINY, 1.0]).interval()[1], [0.0, 1.0], atol=1e-300)
    assert_allclose(Dirichlet(np.full(4, TINY)).sample(np.random.default_rng(0), 50).max(axis=-1), 1.0)
    assert_allclose(Gamma(TINY, TINY).log_evidence(Tally.of(3.0, [0.0])), TINY * log(TINY / 3), rtol=1e-6)
    swamped = Beta(TINY, HUGE).update(Tally.of(1.0, [0.0]))
    assert float(swamped.a) == TINY
    assert float(Beta.from_statistic(Beta(TINY, HUGE).as_statistic()).a) == TINY


def test_a_strong_belief_in_a_rate_predicts_as_a_poisson() -> None:
    k = np.arange(20.0)
    assert_allclose(Gamma(3e12, 1e12).predictive().log_density(k), stats.poisson(3).logpmf(k), rtol=1e-10)
    assert_allclose(Gamma(3e12, 1e12).predictive().cdf(k), stats.poisson(3).cdf(k), rtol=1e-10)
    # shape one is geometric: log p(k) = log(b / (1 + b)) − k log(1 + b)
    far = np.array([0.0, 1e6, 1e12])
    geometric = log(TINY) - log1p(TINY) - far * log1p(TINY)
    assert_allclose(NegativeBinomial(1, TINY).log_density(far), geometric, rtol=1e-13)
    assert_allclose(NegativeBinomial(1, TINY).cdf(1e10), -expm1(-(1e10 + 1) * log1p(TINY)), rtol=1e-9)


def test_a_strong_belief_in_a_mean_and_variance_predicts_as_a_normal() -> None:
    x = np.linspace(-8.0, 8.0, 33)
    for freedom in (1e9, 1e15, 1e300):
        t = StudentT(freedom, 1.0, 2.0)
        normal = stats.norm(1.0, 2.0)
        assert_allclose(t.log_density(x), normal.logpdf(x), rtol=1e-6)
        assert_allclose(t.cdf(x), normal.cdf(x), rtol=1e-6)
        assert_allclose(t.interval(), normal.interval(0.95), rtol=1e-8)
    assert_allclose(StudentT(1e15).log_density(x), stats.norm.logpdf(x), rtol=1e-12)
    rows = np.random.default_rng(0).normal(size=(8, 2))
    known = stats.multivariate_normal([1, 2], np.eye(2)).logpdf(rows).sum()
    strong = NormalInverseWishart([1, 2], HUGE, HUGE, np.eye(2) * HUGE)
    assert_allclose(strong.log_evidence(Moments.observe(rows, form="full")), known, rtol=1e-10)
    alone = NormalInverseGamma([1, 2], HUGE, HUGE / 2, HUGE / 2).log_evidence(Moments.observe(rows))
    assert_allclose(alone.sum(), known, rtol=1e-10)
    assert_allclose(MultivariateT(1e15, [1, 2], np.eye(2)).log_density(rows).sum(), known, rtol=1e-12)
    assert np.isfinite(StudentT(3.0).log_density(1e200))


def test_divergences_of_strong_beliefs_do_not_cancel() -> None:
    # far from the edges a Beta is all but normal: KL ≈ (difference of means)² / (2 variance)
    strong, near = Beta(HUGE, HUGE), Beta(HUGE + 1e6, HUGE - 1e6)
    assert_allclose(strong.kl(near), np.square(5e-7) / (2 * float(near.variance)), rtol=1e-5)
    assert float(strong.kl(strong)) == 0
    assert_allclose(Gamma(HUGE, HUGE).kl(Gamma(HUGE + 1e6, HUGE)), 0.5, rtol=1e-5)
    assert_allclose(Beta(HUGE, HUGE).kl(Beta(HUGE, HUGE + 1)), 0.0, atol=1e-10)
    one = NormalInverseWishart([0, 0], HUGE, HUGE, HUGE * np.eye(2))
    assert_allclose(one.kl(NormalInverseWishart([1e-6, 0], HUGE, HUGE, HUGE * np.eye(2))), 0.5, rtol=1e-9)
    assert_allclose(
        one.kl(NormalInverseWishart([0, 0], HUGE, HUGE, HUGE * np.eye(2) * (1 + 1e-6))), 0.5, rtol=1e-5
    )


def test_densities_of_strong_beliefs_do_not_cancel() -> None:
    p = 0.5 + np.linspace(-2e-6, 2e-6, 9)
    normal = stats.norm(0.5, np.sqrt(Beta(HUGE, HUGE).variance)).logpdf(p)
    assert_allclose(Beta(HUGE, HUGE).log_density(p), normal, rtol=1e-8)
    rate = 1 + np.linspace(-2e-6, 2e-6, 9)
    assert_allclose(Gamma(HUGE, HUGE).log_density(rate), stats.norm(1, 1e-6).logpdf(rate), rtol=1e-5)


def test_a_density_is_told_by_what_a_share_near_one_leaves() -> None:
    # Beta(1, b) at p is b (1 − p)^(b − 1), and Beta(2, b) is b (b + 1) p (1 − p)^(b − 1)
    assert_allclose(Beta(1, 1e17).log_density([0.0, 1e-17]), [log(1e17), log(1e17) - 1], rtol=1e-14)
    expected = log(HUGE) + log(HUGE + 1) + log(1e-17) - (HUGE - 1) * 1e-17
    assert_allclose(Beta(2, HUGE).log_density(1e-17), expected, rtol=1e-13)
    assert_allclose(Beta(1e17, 1).log_density(1.0), log(1e17), rtol=1e-14)
    assert_allclose(Dirichlet([1, 1e17]).log_density([1e-17, 1.0]), log(1e17) - 1, rtol=1e-14)


def test_shares_of_float32_are_shares() -> None:
    shares = np.array([0.1, 0.2, 0.7])
    rounded = Dirichlet([1, 2, 3]).log_density(shares.astype(np.float32))
    assert_allclose(rounded, Dirichlet([1, 2, 3]).log_density(shares), rtol=1e-6)
    assert Dirichlet([1, 2, 3]).log_density(shares + 1e-5) == -np.inf


def test_counts_of_infinite_means_are_infinite() -> None:
    assert np.isposinf(NegativeBinomial(1e10, 1e-305).sample(np.random.default_rng(0), 6)).all()


def test_a_missing_value_has_no_density() -> None:
    for univariate in (Normal(), StudentT(5), Lomax(3, 4), InverseGamma(3, 4), NegativeBinomial(3, 4)):
        assert np.isneginf(univariate.log_density([np.nan, np.inf, -np.inf])).all()


def test_counts_beyond_all_integers_can_be_drawn() -> None:
    rng = np.random.default_rng(0)
    drawn = Gamma(1, 1e-20).predictive().sample(rng, 2000)
    assert_allclose(np.median(drawn), 1e20 * log(2), rtol=0.2)
    with pytest.raises(ValueError, match=r"got 1e\+19 trials, expected below 2\*\*63 to draw"):
        BetaBinomial(1e19, 1, 1).sample(rng)


@pytest.mark.parametrize("mean", [1e4, 1e8])
def test_a_large_mean_changes_nothing(mean: float) -> None:
    rows = np.round(np.random.default_rng(1).normal(3.0, 2.0, 200) * 2**20) / 2**20
    here = NormalInverseGamma(0.0, 1.0, 2.0, 2.0)
    there = NormalInverseGamma(mean, 1.0, 2.0, 2.0)
    near, far = Moments.observe(rows), Moments.observe(mean + rows)
    assert_allclose(there.log_evidence(far), here.log_evidence(near), rtol=1e-14)
    assert_allclose(there.update(far).scale, here.update(near).scale, rtol=1e-14)
    matrix = NormalInverseWishart([mean, mean], 1.0, 4.0, np.eye(2))
    pairs = Moments.observe(mean + rows.reshape(-1, 2), form="full", exact=True)
    centred = Moments.observe(rows.reshape(-1, 2), form="full", exact=True)
    expected = NormalInverseWishart([0, 0], 1.0, 4.0, np.eye(2)).log_evidence(centred)
    assert_allclose(matrix.log_evidence(pairs), expected, rtol=1e-13)


def test_a_heavy_tail_of_waits_has_quantiles_beyond_all_integers_of_a_float() -> None:
    wait = BetaGeometric(0.5, 1.0)  # survival falls as k^−½
    for probability in (0.5, 0.999, 1 - 1e-12):
        k = float(wait.quantile(probability))
        assert wait.cdf(k) >= probability * (1 - 1e-13)
        assert wait.cdf(np.nextafter(k, 0.0) if k > 2**53 else k - 1) <= probability
