"""Priors and predictive distributions against SciPy, and against numbers that textbooks print."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tamis.arrays import Array
from tamis.conjugate import (
    Beta,
    BetaBinomial,
    BetaGeometric,
    Dirichlet,
    DirichletMultinomial,
    Gamma,
    InverseGamma,
    Lomax,
    MultivariateT,
    NegativeBinomial,
    NormalInverseGamma,
    NormalInverseWishart,
    StudentT,
    Univariate,
)
from tamis.stats import Moments, Tally

RTOL = 1e-11
PROBABILITIES = np.array([1e-6, 0.025, 0.3, 0.5, 0.8, 0.975, 1 - 1e-9])
COUNTS = np.arange(0.0, 40.0)
NUMBERS = np.linspace(-3.0, 12.0, 31)
SCALE = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 0.7]])

PAIRS = [
    pytest.param(BetaBinomial(40, 3.3, 0.7), stats.betabinom(40, 3.3, 0.7), COUNTS, id="beta-binomial"),
    pytest.param(
        BetaBinomial(40, 300.0, 7e3), stats.betabinom(40, 300.0, 7e3), COUNTS, id="strong beta-binomial"
    ),
    pytest.param(NegativeBinomial(2.5, 0.3), stats.nbinom(2.5, 0.3 / 1.3), COUNTS, id="negative binomial"),
    pytest.param(
        NegativeBinomial(0.1, 4.0), stats.nbinom(0.1, 4.0 / 5.0), COUNTS, id="sparse negative binomial"
    ),
    pytest.param(Lomax(2.5, 3.0), stats.lomax(2.5, scale=3.0), NUMBERS, id="Lomax"),
    pytest.param(StudentT(3.5, 1.0, 2.0), stats.t(3.5, 1.0, 2.0), NUMBERS, id="Student t"),
    pytest.param(InverseGamma(3.5, 2.0), stats.invgamma(3.5, scale=2.0), NUMBERS, id="inverse gamma"),
]


@pytest.mark.parametrize(("ours", "theirs", "x"), PAIRS)
def test_univariate_predictive_distributions_are_those_of_scipy(
    ours: Univariate, theirs: Any, x: Array
) -> None:
    discrete = hasattr(theirs, "pmf")
    density = theirs.logpmf if discrete else theirs.logpdf
    assert_allclose(ours.log_density(x), density(x), rtol=RTOL, atol=1e-12)
    assert_allclose(ours.cdf(x), theirs.cdf(x), rtol=1e-9, atol=1e-13)
    assert_allclose(ours.quantile(PROBABILITIES), theirs.ppf(PROBABILITIES), rtol=1e-8)
    assert_allclose(ours.mean, theirs.mean(), rtol=RTOL)
    assert_allclose(ours.variance, theirs.var(), rtol=1e-9)


@pytest.mark.parametrize(
    "ours",
    [*(pair.values[0] for pair in PAIRS), BetaGeometric(1.5, 2.5)],
    ids=lambda ours: type(ours).__name__,
)
def test_draws_have_the_distribution_they_are_drawn_from(ours: Any) -> None:
    draws = ours.sample(np.random.default_rng(5), 20_000)
    for probability in (0.1, 0.5, 0.9):
        end = ours.quantile(probability)
        share = float((draws <= end).mean())
        assert share == pytest.approx(float(ours.cdf(end)), abs=0.015)


@pytest.mark.parametrize(
    "counts", [BetaBinomial(40, 3.3, 0.7), NegativeBinomial(2.5, 0.3), BetaGeometric(1.5, 2.5)], ids=repr
)
def test_a_quantile_is_the_first_count_whose_cdf_reaches_it(counts: Univariate) -> None:
    k = np.arange(30.0)
    reached = counts.cdf(k)
    assert_allclose(counts.quantile(reached), k)
    assert_allclose(counts.quantile(np.nextafter(reached, 0.0)), k)
    assert_allclose(counts.quantile(reached * (1.0 + 1e-12)), k + 1)
    assert counts.quantile(0.0) == 0


def test_a_count_above_all_others_is_reached_only_where_there_is_one() -> None:
    assert BetaBinomial(40, 3.3, 0.7).quantile(1.0) == 40
    assert np.isinf(NegativeBinomial(2.5, 0.3).quantile(1.0))
    assert np.isinf(BetaGeometric(1e-3, 1.0).quantile(0.9))  # 2e300 or so: its square has no float
    assert BetaBinomial([3, 5], 2.0, [[1.0], [4.0]]).quantile(0.5).tolist() == [[2.0, 4.0], [1.0, 1.0]]


@pytest.mark.parametrize("trials", [9, 99, 333, 1999])
def test_a_quantile_at_an_exact_step_is_that_step(trials: int) -> None:
    k = np.arange(trials + 1.0)
    assert_allclose(BetaBinomial(trials, 1, 1).quantile((k + 1.0) / (trials + 1.0)), k)


def test_mass_lies_on_the_support_only() -> None:
    assert BetaBinomial(4, 1, 1).log_density([-1, 0.5, 5]).tolist() == [-np.inf] * 3
    assert NegativeBinomial(4, 1).log_density([-1, 0.5]).tolist() == [-np.inf] * 2
    assert BetaGeometric(4, 1).cdf([-1, -0.5, np.inf]).tolist() == [0.0, 0.0, 1.0]
    assert (
        DirichletMultinomial(2, [1, 1]).log_density([[1.0, 0.0], [1.5, 0.5], [3.0, -1.0]]).tolist()
        == [-np.inf] * 3
    )
    assert Lomax(1, 1).cdf(-1.0) == 0
    assert InverseGamma(1, 1).log_density([-1.0, 0.0]).tolist() == [-np.inf] * 2


def test_waiting_times_are_a_mixture_of_geometric_ones() -> None:
    wait, k = BetaGeometric(3.5, 2.0), np.arange(30.0)
    p = stats.beta(3.5, 2.0).ppf((np.arange(200_000) + 0.5) / 200_000)
    mixture = np.array([np.mean(stats.geom.pmf(x + 1, p)) for x in k])
    assert_allclose(wait.density(k), mixture, rtol=1e-4)
    assert_allclose(np.cumsum(wait.density(k)), wait.cdf(k), rtol=1e-12)
    many = np.arange(400_000.0)
    assert_allclose((many * wait.density(many)).sum(), wait.mean, rtol=1e-4)
    square = (np.square(many - wait.mean) * wait.density(many)).sum()
    assert_allclose(square, wait.variance, rtol=0.02)  # the tail beyond the sum is that heavy


def test_multivariate_predictive_distributions_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 3))
    ours = MultivariateT(5, [1, 2, 3], SCALE)
    assert_allclose(ours.log_density(x), stats.multivariate_t([1, 2, 3], SCALE, 5).logpdf(x), rtol=RTOL)
    assert_allclose(ours.covariance, SCALE * 5 / 3, rtol=RTOL)
    assert_allclose(ours.marginals().cdf(x)[:, 1], stats.t(5, 2, 1).cdf(x[:, 1]), rtol=1e-9)
    alpha = np.array([0.4, 2.0, 3.0])
    counts = np.array([[1.0, 2, 3], [0, 0, 6], [6, 0, 0]])
    theirs = stats.dirichlet_multinomial(alpha, np.array(6))
    words = DirichletMultinomial(6, alpha)
    assert_allclose(words.log_density(counts), theirs.logpmf(counts.astype(int)), rtol=RTOL)
    assert_allclose(words.mean, theirs.mean(), rtol=RTOL)
    assert_allclose(words.covariance, theirs.cov(), rtol=RTOL)
    assert_allclose(words.marginals().variance, np.diag(theirs.cov()), rtol=RTOL)
    draws = words.sample(rng, 50_000)
    assert_allclose(np.cov(draws.T), theirs.cov(), atol=0.05)


def test_beliefs_are_those_of_scipy() -> None:
    p = np.linspace(0.01, 0.99, 9)
    for a, b in [(0.4, 2.0), (3.0, 7.0), (500.0, 20.0)]:
        assert_allclose(Beta(a, b).log_density(p), stats.beta(a, b).logpdf(p), rtol=1e-10)
        assert_allclose(Beta(a, b).interval(0.9), stats.beta(a, b).interval(0.9), rtol=1e-9)
        assert_allclose(Beta(a, b).variance, stats.beta(a, b).var(), rtol=RTOL)
        assert_allclose(Gamma(a, b).log_density(p), stats.gamma(a, scale=1 / b).logpdf(p), rtol=1e-10)
        assert_allclose(Gamma(a, b).interval(0.9), stats.gamma(a, scale=1 / b).interval(0.9), rtol=1e-9)
        assert_allclose(Gamma(a, b).variance, stats.gamma(a, scale=1 / b).var(), rtol=RTOL)
    alpha = np.array([0.4, 2.0, 3.0])
    shares = stats.dirichlet(alpha).rvs(5, random_state=1)
    theirs = [stats.dirichlet(alpha).logpdf(row) for row in shares]
    assert_allclose(Dirichlet(alpha).log_density(shares), theirs, rtol=RTOL)
    assert_allclose(Dirichlet(alpha).variance, stats.dirichlet(alpha).var(), rtol=RTOL)
    lower, upper = Dirichlet(alpha).interval(0.9)
    assert_allclose((lower[1], upper[1]), stats.beta(2.0, 3.4).interval(0.9), rtol=1e-9)


def test_normal_beliefs_are_those_of_scipy() -> None:
    belief = NormalInverseGamma(1.0, 0.7, 2.25, 1.5)
    mean, variance = belief.sample(np.random.default_rng(1), 6)
    theirs = stats.invgamma(2.25, scale=1.5).logpdf(variance) + stats.norm(
        1.0, np.sqrt(variance / 0.7)
    ).logpdf(mean)
    assert_allclose(belief.log_density((mean, variance)), theirs, rtol=RTOL)
    matrix = NormalInverseWishart([1, 2, 3], 0.7, 4.5, SCALE)
    means, covariances = matrix.sample(np.random.default_rng(1), 6)
    expected = [
        stats.invwishart(4.5, SCALE).logpdf(c) + stats.multivariate_normal([1, 2, 3], c / 0.7).logpdf(m)
        for m, c in zip(means, covariances, strict=True)
    ]
    assert_allclose(matrix.log_density((means, covariances)), expected, rtol=1e-9)
    many = NormalInverseWishart([1, 2, 3], 0.7, 12.0, SCALE).sample(np.random.default_rng(2), 40_000)
    assert_allclose(many.covariance.mean(axis=0), stats.invwishart(12, SCALE).mean(), atol=0.01)
    assert_allclose(many.mean.mean(axis=0), [1, 2, 3], atol=0.02)


def test_in_one_dimension_the_wishart_is_the_gamma() -> None:
    rows = np.random.default_rng(0).normal(3.0, 2.0, 20)
    gamma, other = NormalInverseGamma(1.0, 0.7, 2.25, 1.0), NormalInverseGamma(0.0, 2.0, 3.0, 4.0)
    wishart = NormalInverseWishart([1.0], 0.7, 4.5, [[2.0]])
    thin, full = Moments.observe(rows), Moments.observe(rows[:, None], form="full")
    assert_allclose(gamma.log_evidence(thin), wishart.log_evidence(full), rtol=RTOL)
    assert_allclose(gamma.log_normalizer(), wishart.log_normalizer(), rtol=RTOL)
    assert_allclose(gamma.kl(other), wishart.kl(NormalInverseWishart([0.0], 2.0, 6.0, [[8.0]])), rtol=RTOL)
    assert_allclose(gamma.update(thin).interval()[1], np.ravel(wishart.update(full).interval()[1]), rtol=1e-9)


def test_a_belief_from_a_mean_has_that_mean_and_averages_it_with_the_data() -> None:
    rows = np.random.default_rng(0).normal(3.0, 2.0, (20, 3))
    data = Moments.observe(rows, form="full")
    prior = NormalInverseWishart.from_mean([1, 2, 3], 5.0, SCALE, covariance_strength=7.0)
    assert_allclose(prior.mean.mean, [1, 2, 3])
    assert_allclose(prior.mean.covariance, SCALE, rtol=RTOL)
    assert_allclose(
        prior.update(data).mean.mean, (5 * prior.mean.mean + 20 * rows.mean(axis=0)) / 25, rtol=RTOL
    )
    shift = rows.mean(axis=0) - [1, 2, 3]
    total = 7.0 * SCALE + data.scatter + 5 * 20 / 25 * np.outer(shift, shift)
    assert_allclose(prior.update(data).mean.covariance, total / 27.0, rtol=RTOL)
    waits = Gamma.from_mean(0.5, 4.0, "exponential")
    assert (float(waits.shape), float(waits.rate), float(waits.strength)) == (4.0, 8.0, 4.0)
    assert Dirichlet.from_mean([[0.5, 0.5], [0.2, 0.8]], [2.0, 10.0]).concentration.tolist() == [
        [1, 1],
        [2, 8],
    ]


def test_a_belief_that_has_no_mean_or_mode_says_so() -> None:
    assert np.isnan(Beta([1.0, 0.5], [1.0, 0.7]).mode).all()
    assert Beta([0.5, 1.0], [1.0, 0.5]).mode.tolist() == [0.0, 1.0]
    assert Beta([3.0, 1.0, 3.0], [0.5, 3.0, 2.0]).mode.tolist() == [1.0, 0.0, 2 / 3]
    assert np.isnan(Dirichlet([[0.5, 0.5, 0.7], [0.5, 1.0, 1.0]]).mode).all()
    assert Dirichlet([0.5, 1.0]).mode.tolist() == [0.0, 1.0]
    assert Dirichlet([0.5]).mode.tolist() == [1.0]
    assert Dirichlet([3.0, 2.0, 0.5]).mode.tolist() == [2 / 3, 1 / 3, 0.0]
    assert Gamma([0.5, 3.0], 2.0).mode.tolist() == [0.0, 1.0]
    loose = NormalInverseGamma(5.0, 1.0, [0.4, 0.8, 2.0], 1.0)
    assert np.isnan(loose.mean.mean).tolist() == [True, False, False]
    assert loose.mean.variance.tolist() == [np.inf, np.inf, 1.0]
    heavy = NormalInverseWishart([0.0, 0.0], 1.0, 3.0, np.eye(2)).mean.covariance
    assert np.isinf(np.diagonal(heavy)).all()
    assert np.isnan(heavy[0, 1])
    assert StudentT([0.5, 1.5, 4.0]).variance[1:].tolist() == [np.inf, 2.0]
    assert np.isnan(StudentT(0.5).mean)
    assert BetaGeometric([1.0, 3.0], 2.0).mean.tolist() == [np.inf, 1.0]


def test_placenta_previa_births_of_gelman_et_al() -> None:
    """Bayesian Data Analysis, 2.4: 437 girls of 980; mean 0.446, sd 0.016, 95% from 0.415 to 0.477."""
    girls = Beta(1, 1).update(Tally.of(980.0, [437.0]))
    assert_allclose((girls.mean, np.sqrt(girls.variance)), (0.446, 0.016), atol=5e-4)
    assert_allclose(girls.interval(), (0.415, 0.477), atol=5e-4)


def test_asthma_deaths_of_gelman_et_al() -> None:
    """2.6: Gamma(3, 5), 3 deaths in 2 hundred thousand: Gamma(6, 7), 0.86; ten such years: Gamma(33, 25)."""
    asthma = Gamma(3, 5)
    year = asthma.update(Tally.of(2.0, [3.0]))
    assert (float(year.shape), float(year.rate), round(float(year.mean), 2)) == (6.0, 7.0, 0.86)
    decade = asthma.update(Tally.of(20.0, [30.0]))
    assert (float(decade.shape), float(decade.rate), float(decade.mean)) == (33.0, 25.0, 1.32)


def test_the_rat_tumours_of_gelman_et_al() -> None:
    """5.1: Beta(1.4, 8.6) from 70 earlier experiments, then 4 of 14: mean 0.223, sd 0.083."""
    rats = Beta(1.4, 8.6).update(Tally.of(14.0, [4.0]))
    assert_allclose((rats.mean, np.sqrt(rats.variance)), (0.223, 0.083), atol=2e-3)


def test_an_exposure_scales_the_predictive_count() -> None:
    belief, exposure, x = Gamma(6, 7), 2.5, np.arange(12.0)
    one = belief.predictive(exposure)
    assert_allclose(one.density(x), stats.nbinom(6, 7 / 9.5).pmf(x), rtol=RTOL)
    base = x * np.log(exposure) - np.array([float(np.log(np.arange(1, k + 1)).sum()) for k in range(12)])
    chain = belief.log_evidence(Tally.of(np.full(12, exposure), x[:, None]), base)
    assert_allclose(one.log_density(x), chain, rtol=1e-10)


def test_what_was_seen_can_be_taken_back_from_a_posterior() -> None:
    rows = np.random.default_rng(3).normal(2.0, 1.0, (9, 2))
    prior = NormalInverseWishart([0.0, 0.0], 1.0, 4.0, np.eye(2))
    data = Moments.observe(rows, form="full")
    back = prior.update(data).update(-1.0 * data)
    assert_allclose(back.scale, prior.scale, atol=1e-12)
    assert_allclose(back.location, prior.location, atol=1e-12)
    assert_allclose(prior.update(data).log_evidence(-1.0 * data), -prior.log_evidence(data), rtol=1e-10)


def test_a_statistic_of_another_shape_is_refused_in_words() -> None:
    rows = np.ones((2, 2))
    with pytest.raises(ValueError, match=r"got a Tally of 2 terms, expected one for a Beta"):
        Beta(1, 1).update(Tally.count([True, False]))
    with pytest.raises(ValueError, match=r"got a Tally of 2 terms, Keys\('a', 'b'\), expected 3"):
        Dirichlet([1, 1, 1]).update(Tally.count(["a", "b"]))
    with pytest.raises(ValueError, match=r"got 2 terms, 1 of them distinct, expected one for each of 2"):
        Dirichlet([1, 1]).as_statistic(["a", "a"])
    with pytest.raises(ValueError, match=r"got diagonal Moments, expected full ones"):
        NormalInverseWishart([0, 0], 1, 3, np.eye(2)).update(Moments.observe(rows))
    with pytest.raises(ValueError, match=r"got full Moments, expected diagonal ones"):
        NormalInverseGamma(0, 1, 1, 1).update(Moments.observe(rows, form="full"))
    with pytest.raises(ValueError, match=r"got a freedom of 1.0, expected above d − 1 = 1"):
        NormalInverseWishart([0, 0], 1, 1, np.eye(2))
    with pytest.raises(ValueError, match=r"got a shape of -1.0, expected a finite number above zero"):
        Gamma(-1, 1)
    with pytest.raises(ValueError, match=r"got mean probabilities that sum to 0.9, expected 1"):
        Dirichlet.from_mean([0.4, 0.5], 2)
    with pytest.raises(ValueError, match=r"got 1.5 trials, expected a whole number"):
        Beta(1, 1).predictive(1.5)
