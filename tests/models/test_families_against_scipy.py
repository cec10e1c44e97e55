"""Families against SciPy, sixty-digit arithmetic, textbook numbers, and the edges of their parameters."""

import math
from collections.abc import Callable
from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tamis.families import (
    Bernoulli,
    Categorical,
    Exponential,
    Family,
    Gamma,
    Gaussian,
    Geometric,
    Multinomial,
    MultivariateGaussian,
    NegativeBinomial,
    Poisson,
)
from tamis.stats import Moments, Tally

getcontext().prec = 60
TAU = Decimal("6.28318530717958647692528676655900576839433879875021164194989")
COUNTS = np.arange(-1.0, 12.0)
POINTS = np.linspace(-3.0, 7.0, 21)
COIN: Any = Bernoulli(0.3)
COUNT: Any = Poisson(3)
MOMENTS: Any = Moments.observe([1.0, 2.0])
COVARIANCE = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])


@pytest.mark.parametrize(
    ("member", "oracle", "x"),
    [
        (Bernoulli(0.3), stats.bernoulli(0.3).logpmf, COUNTS),
        (Poisson(3.7), stats.poisson(3.7).logpmf, COUNTS),
        (Poisson(40.0), stats.poisson(40.0).logpmf, 6.0 * COUNTS),
        (Geometric(0.2), stats.geom(0.2, loc=-1).logpmf, COUNTS),
        (Exponential(0.8), stats.expon(scale=1.25).logpdf, POINTS),
        (Gamma(2.5, 0.8), stats.gamma(2.5, scale=1.25).logpdf, POINTS),
        (Gamma(0.4, 3.0), stats.gamma(0.4, scale=1 / 3).logpdf, POINTS[POINTS != 0]),
        (NegativeBinomial(2.5, 0.3), stats.nbinom(2.5, 0.3).logpmf, COUNTS),
        (NegativeBinomial(40.0, 0.5), stats.nbinom(40.0, 0.5).logpmf, 6.0 * COUNTS),
        (Gaussian(1.0, 4.0), stats.norm(1.0, 2.0).logpdf, POINTS),
        (Categorical([0.2, 0.5, 0.3]), stats.rv_discrete(values=([0, 1, 2], [0.2, 0.5, 0.3])).logpmf, COUNTS),
    ],
)
def test_the_density_is_that_of_scipy(member: Family, oracle: Callable[[Any], Any], x: Any) -> None:
    np.testing.assert_allclose(member.log_density(x), oracle(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(member.density(x), np.exp(oracle(x)), rtol=1e-12)


@pytest.mark.parametrize("minimal", [False, True])
def test_the_density_of_counts_is_that_of_scipy(minimal: bool) -> None:
    x = np.array([[1, 2, 3], [6, 0, 0], [0, 0, 6], [1, 1, 1], [2, 5, -1]])
    member = Multinomial(6, [0.2, 0.5, 0.3], minimal)
    expected = stats.multinomial(6, [0.2, 0.5, 0.3]).logpmf(x)
    np.testing.assert_allclose(member.log_density(x), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_density_of_vectors_is_that_of_scipy(scale: float) -> None:
    mean, x = scale * np.array([1.0, -2.0, 0.5]), scale * np.random.default_rng(1).standard_normal((20, 3))
    variances = np.array([2.0, 1.0, 0.5]) * scale**2
    for member, covariance in (
        (MultivariateGaussian(mean, COVARIANCE * scale**2), COVARIANCE * scale**2),
        (MultivariateGaussian(mean, variances, "diagonal"), np.diag(variances)),
        (MultivariateGaussian(mean, scale**2, "spherical"), scale**2 * np.eye(3)),
    ):
        oracle = stats.multivariate_normal(mean, covariance, allow_singular=False)
        np.testing.assert_allclose(member.log_density(x), oracle.logpdf(x), rtol=1e-11)
        np.testing.assert_allclose(member.entropy(), oracle.entropy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("member", "oracle"),
    [
        (Bernoulli(0.3), stats.bernoulli(0.3)),
        (Poisson(3.7), stats.poisson(3.7)),
        (Geometric(0.2), stats.geom(0.2)),
        (Exponential(0.8), stats.expon(scale=1.25)),
        (Gamma(2.5, 0.8), stats.gamma(2.5, scale=1.25)),
        (NegativeBinomial(2.5, 0.3), stats.nbinom(2.5, 0.3)),
        (NegativeBinomial(0.4, 0.2), stats.nbinom(0.4, 0.2)),
        (Gaussian(1.0, 4.0), stats.norm(1.0, 2.0)),
        (Multinomial(6, [0.2, 0.5, 0.3]), stats.multinomial(6, [0.2, 0.5, 0.3])),
    ],
)
def test_the_entropy_is_that_of_scipy(member: Family, oracle: Any) -> None:
    np.testing.assert_allclose(member.entropy(), oracle.entropy(), rtol=1e-9)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Bernoulli(0.5).entropy(), np.log(2.0)),
        (Categorical(np.full(6, 1 / 6)).entropy(), np.log(6.0)),
        (
            Categorical([0.5, 0.25, 0.125, 0.125]).entropy(),
            1.75 * np.log(2.0),
        ),  # Cover and Thomas, the horse race
        (Geometric(0.5).entropy(), 2.0 * np.log(2.0)),  # Cover and Thomas, problem 2.1: two bits
        (Poisson(1.0).entropy(), 1.304842242256124),  # 1 + Σ log k! / (e k!)
        (Gaussian(0.0, 1.0).entropy(), 1.4189385332046727),
        (Gaussian(0.0, 1.0).kl(Gaussian(1.0, 4.0)), np.log(2.0) - 0.25),
        (Exponential(1.0).kl(Exponential(2.0)), 1.0 - np.log(2.0)),
        (Poisson(2.0).kl(Poisson(1.0)), 2.0 * np.log(2.0) - 1.0),
        (Bernoulli(0.5).kl(Bernoulli(0.25)), 0.5 * np.log(4.0 / 3.0)),  # Cover and Thomas, example 2.3.1
        (Poisson(4.0).density(0), np.exp(-4.0)),
        (NegativeBinomial(1, 0.5).entropy(), 2.0 * np.log(2.0)),  # of size 1 it is the geometric
        (Gamma(1, 2.0).entropy(), 1.0 - np.log(2.0)),  # of shape 1 it is the exponential
        (NegativeBinomial(3, 0.5).density(2), 6 / 32),  # Feller VI.8: the problem of points
        (
            Multinomial(12, np.full(6, 1 / 6)).density(np.full(6, 2.0)),
            7484400 / 6**12,
        ),  # Feller VI.9: 0.003438
    ],
)
def test_numbers_from_books(found: Any, expected: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def poisson_entropy(rate: float) -> Decimal:
    """λ − λ log λ + E[log x!], summed to sixty digits."""
    mean, log_factorial, total = Decimal(rate), Decimal(0), Decimal(0)
    mass = (-mean).exp()
    for x in range(1, int(rate + 30.0 * rate**0.5 + 60.0)):
        mass *= mean / x
        log_factorial += Decimal(x).ln()
        total += mass * log_factorial
    return mean - mean * mean.ln() + total


def log_factorial(x: int) -> Decimal:
    """log x! of a large x to some forty digits: Stirling's series."""
    n = Decimal(x)
    tail = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5) - 1 / (1680 * n**7)
    return n * n.ln() - n + (TAU * n).ln() / 2 + tail


@pytest.mark.parametrize("rate", [1e-8, 1e-3, 0.5, 15.0, 16.0, 100.0, 255.0, 256.0, 257.0, 600.0])
def test_the_entropy_of_a_poisson_is_right_to_twelve_digits(rate: float) -> None:
    np.testing.assert_allclose(Poisson(rate).entropy(), float(poisson_entropy(rate)), rtol=1e-12)


@pytest.mark.parametrize("rate", [1e4, 1e8, 1e12])
def test_the_entropy_of_a_large_poisson_follows_its_series(rate: float) -> None:
    series = 0.5 * np.log(2.0 * np.pi * math.e * rate) - 1 / (12 * rate) - 1 / (24 * rate**2)
    np.testing.assert_allclose(Poisson(rate).entropy(), series, rtol=0, atol=1e-12)


@pytest.mark.parametrize("trials", [1, 5, 300, 511, 512, 2000])
@pytest.mark.parametrize("p", [0.001, 0.3, 0.5, 0.999])
def test_the_entropy_of_counts_is_right_to_eleven_digits(trials: int, p: float) -> None:
    mass = stats.binom(trials, p).pmf(np.arange(trials + 1))
    surprise = -np.log(np.where(mass > 0, mass, 1.0))
    found = Multinomial(trials, [p, 1.0 - p]).entropy()
    np.testing.assert_allclose(found, (mass * surprise).sum(), rtol=1e-11)


@pytest.mark.parametrize("x", [10**8, 10**8 + 30_000, 10**8 - 10**6])
def test_the_density_of_a_large_poisson_keeps_its_digits(x: int) -> None:
    expected = Decimal(x) * Decimal(10**8).ln() - 10**8 - log_factorial(x)
    np.testing.assert_allclose(Poisson(1e8).log_density(x), float(expected), rtol=1e-14)


def test_the_density_of_many_trials_keeps_its_digits() -> None:
    n, x = 10**8, 25_003_000
    p = Decimal("0.25")
    ways = log_factorial(n) - log_factorial(x) - log_factorial(n - x)
    expected = ways + x * p.ln() + (n - x) * (1 - p).ln()
    np.testing.assert_allclose(
        Multinomial(n, [0.25, 0.75]).log_density([x, n - x]), float(expected), rtol=1e-13
    )


def test_a_gaussian_far_from_zero_keeps_its_digits() -> None:
    near, far = Gaussian(0.0, 1.0), Gaussian(1e8, 1.0)
    assert far.log_density(1e8 + 0.5) == near.log_density(0.5)
    assert far.kl(Gaussian(1e8 + 1.0, 1.0)) == 0.5
    rows = 1e8 + np.array([[0.0, 0.0], [1.0, 3.0], [2.0, 1.0], [5.0, 2.0]])
    for form, start in (("full", np.eye(2)), ("diagonal", np.ones(2)), ("spherical", 1.0)):
        member = MultivariateGaussian(np.zeros(2), start, form)  # type: ignore[arg-type]
        shifted, fitted = member.fit(member.observe(rows - 1e8)), member.fit(member.observe(rows))
        np.testing.assert_allclose(fitted.covariance, shifted.covariance, rtol=1e-14)
        np.testing.assert_allclose(fitted.log_density(rows), shifted.log_density(rows - 1e8), rtol=1e-13)


@pytest.mark.parametrize("size", [1e-300, 1e-8, 1.0, 1e8])
def test_parameters_of_any_size_come_back(size: float) -> None:
    members: list[Any] = [Poisson(size), Exponential(size)]
    if size < 1:
        rest = 1.0 - size
        members += [Bernoulli(size), Geometric(size), Categorical([size, rest]), Multinomial(3, [size, rest])]
        members += [Categorical([size, 0.5, 0.5], minimal=True)]
    for member in members:
        for found in (member.with_natural(member.natural), member.with_mean(member.mean_parameters)):
            np.testing.assert_allclose(found.mean_parameters, member.mean_parameters, rtol=1e-12, atol=0)
        assert member.kl(member) == 0
        assert np.isfinite(member.entropy()).all()


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize(
    ("make", "curvature"),  # of KL at parameter θ, times θ²
    [
        (Poisson, 3.0),
        (Exponential, 1.0),
        (Bernoulli, 0.03 / 0.97),
        (Geometric, 1.0 / 0.97),
        (lambda q: Multinomial(5, [q, 1.0 - q]), 5 * 0.03 / 0.97),
        (lambda q: Gaussian(0.0, q), 0.5),
        (lambda q: MultivariateGaussian([0.0, 1.0], q * np.array([[1.0, 0.5], [0.5, 1.0]])), 1.0),
    ],
)
def test_the_divergence_of_near_twins_keeps_its_digits(make: Any, curvature: float, step: float) -> None:
    start = 3.0 if make is Poisson else 0.03
    near = make(start * (1.0 + step))
    # The step that floats allow, and the terms of third order that the parabola leaves out.
    np.testing.assert_allclose(make(start).kl(near), 0.5 * curvature * step**2, rtol=2.0 * step + 2e-6)


def test_what_cannot_happen_has_log_density_minus_infinity() -> None:
    assert Categorical([0.0, 1.0]).density([0, 1, 2, -1, 0.5]).tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert Bernoulli([0.0, 1.0]).log_density([[1], [0]]).tolist() == [[-np.inf, 0.0], [0.0, -np.inf]]
    assert Poisson(0.0).log_density([0, 1]).tolist() == [0.0, -np.inf]
    assert Geometric(1.0).log_density([0, 1]).tolist() == [0.0, -np.inf]
    assert Multinomial(2, [0.5, 0.5, 0.0]).density([[2, 0, 0], [1, 0, 1]]).tolist() == pytest.approx(
        [0.25, 0.0]
    )
    assert Multinomial(0, [0.5, 0.5]).log_density([0, 0]) == 0.0
    assert Gaussian(0.0, 1.0).log_density([1e200, np.nan]).tolist() == [-np.inf, -np.inf]
    assert MultivariateGaussian([0.0, 0.0], np.eye(2)).log_density([np.inf, 0.0]) == -np.inf


def test_zero_probabilities_are_parameters_like_others() -> None:
    certain = [
        Bernoulli(0.0),
        Categorical([0.0, 1.0]),
        Multinomial(3, [0.0, 1.0]),
        Poisson(0.0),
        Geometric(1.0),
    ]
    for member in certain:
        assert member.entropy() == 0.0
        assert member.kl(member) == 0.0
        again = member.with_natural(member.natural)
        np.testing.assert_array_equal(again.mean_parameters, member.mean_parameters)
        drawn = member.sample(np.random.default_rng(0), 9)
        assert (member.log_density(drawn) == 0.0).all()
    assert Categorical([0.5, 0.5]).kl(Categorical([0.0, 1.0])) == np.inf
    assert Categorical([0.0, 1.0]).kl(Categorical([0.5, 0.5])) == np.log(2.0)
    assert Poisson(1.0).kl(Poisson(0.0)) == np.inf
    assert Geometric(0.5).kl(Geometric(1.0)) == np.inf


def test_a_reference_that_cannot_happen_shows_as_infinity() -> None:
    member = Categorical([0.0, 1.0, 0.0], minimal=True)
    assert member.natural.tolist() == [-np.inf, np.inf]
    assert member.with_natural(member.natural).probabilities.tolist() == [0.0, 1.0, 0.0]


def test_a_shift_of_all_natural_parameters_changes_no_probability() -> None:
    member = Categorical([0.2, 0.5, 0.3])
    np.testing.assert_allclose(member.with_natural(member.natural + 7.0).probabilities, [0.2, 0.5, 0.3])


def test_the_log_partition_is_infinite_where_no_density_is() -> None:
    assert Gaussian(0.0, 1.0).log_partition([1.0, 0.0]) == np.inf
    assert Exponential(1.0).log_partition([0.0]) == np.inf
    assert Geometric(0.5).log_partition([0.5]) == np.inf
    cloud = MultivariateGaussian([0.0, 0.0], np.eye(2))
    found = cloud.log_partition([cloud.natural.tolist(), [0, 0, 0.5, 0, 0, -0.5], [0, 0, -1, 2, 2, -1]])
    assert found.tolist() == [0.0, np.inf, np.inf]


@pytest.mark.parametrize("mean", [5e-324, 1e-20, 1e-3, 1.0, 1e3, 1e20])
def test_the_natural_parameter_of_any_mean_wait_keeps_its_digits(mean: float) -> None:
    expected = (Decimal(mean) / (1 + Decimal(mean))).ln()
    np.testing.assert_allclose(Geometric(0.5).natural_of([mean]), [float(expected)], rtol=1e-15)


def test_counts_too_large_for_an_integer_are_drawn() -> None:
    drawn = Poisson([1e20, 3.0]).sample(np.random.default_rng(0), 1000)
    np.testing.assert_allclose((drawn - [1e20, 3.0]).var(axis=0), [1e20, 3.0], rtol=0.2)


def test_a_size_is_any_whole_number() -> None:
    sizes: Any = (np.int32(2), np.int64(3))
    assert COUNT.sample(np.random.default_rng(0), sizes[1]).shape == (3,)
    assert COUNT.sample(np.random.default_rng(0), sizes).shape == (2, 3)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: COIN.kl(Geometric(0.3)),
            "of Bernoulli from Geometric, expected two members of one",
        ),
        (lambda: COUNT.kl(Exponential(3)), "of Poisson from Exponential, expected two members of one"),
        (lambda: COUNT.kl(3), "of Poisson from int"),
        (lambda: COUNT.sample(5), "got rng=5, expected a generator"),
        (lambda: Poisson(1).fit(MOMENTS), "got a Moments, expected a Tally"),
        (lambda: Categorical([0.5, 0.5]).fit(MOMENTS), "got a Moments, expected a Tally"),
        (lambda: Gaussian(0, 1).fit(Tally.observe([1.0, 2.0])), "got a Tally, expected a Moments"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused(act: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        act()


def test_counts_of_one_parametrisation_fit_the_other() -> None:
    x = [0, 2, 2, 0, 2, 0]
    for minimal in (False, True):
        member = Categorical([0.2, 0.3, 0.5], minimal)
        assert member.fit(member.observe(x)).probabilities.tolist() == [0.5, 0.0, 0.5]
        assert member.fit(Tally.count(x)).probabilities.tolist() == [0.5, 0.0, 0.5]
        throws = Multinomial(2, [0.2, 0.3, 0.5], minimal)
        assert throws.fit(throws.observe([[1, 0, 1], [0, 0, 2]])).probabilities.tolist() == [0.25, 0.0, 0.75]


def test_a_family_fits_each_label_and_each_member_of_a_batch() -> None:
    labels = ["a", "b", "a", "b"]
    assert Poisson(1).fit(Poisson(1).observe([1, 5, 3, 7], by=labels)).rate.tolist() == [2.0, 6.0]
    rows = np.arange(48.0).reshape(6, 2, 2, 2) ** 1.5
    member = MultivariateGaussian(np.zeros(2), np.eye(2))
    statistic = member.observe(rows, weights=[1, 1, 2, 1, 1, 1], by=list("abaaba"))
    assert statistic.first.shape == (2, 2, 2, 2)
    alone = member.observe(rows[[1, 4], 0, 1])
    np.testing.assert_allclose(statistic.at("b").mean[0, 1], alone.mean, rtol=1e-14)
    np.testing.assert_allclose(statistic.at("b").covariance[0, 1], alone.covariance, rtol=1e-12)
    assert Gaussian(0, 1).fit(Gaussian(0, 1).observe(rows)).batch == (2, 2, 2)


def test_a_column_of_points_meets_a_row_of_members() -> None:
    points = np.arange(4.0)[:, None]
    assert Poisson([1.0, 2.0, 3.0]).log_density(points).shape == (4, 3)
    assert Categorical(np.full((3, 4), 0.25)).log_density(points).shape == (4, 3)
    clouds = MultivariateGaussian(np.zeros((3, 2)), COVARIANCE[:2, :2])
    assert clouds.log_density(np.zeros((4, 1, 2))).shape == (4, 3)
    assert clouds.sample(np.random.default_rng(0), (5, 2)).shape == (5, 2, 3, 2)
    assert Multinomial([1, 2, 3], [0.5, 0.5]).log_density(np.ones((4, 1, 2))).shape == (4, 3)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: Bernoulli([0.5, 1.5]), "got a probability of 0.5 to 1.5, expected between 0 and 1"),
        (lambda: Categorical([0.5, 0.6]), "sum to 1.1, expected 1: divide them by their sum"),
        (lambda: Categorical([1.5, -0.5]), "got a probability of -0.5, expected at least 0"),
        (lambda: Categorical(0.5), r"shape \(\), expected one per category"),
        (lambda: Categorical([0.5, 0.5]).with_natural([np.nan, 0.0]), "NaN or all −∞"),
        (lambda: Multinomial(2.5, [0.5, 0.5]), "got 2.5 trials, expected a whole number"),
        (lambda: Multinomial(0, [0.5, 0.5]).with_mean([0, 0]), "got 0 trials, expected at least 1"),
        (lambda: Multinomial(2, [0.5, 0.5]).log_density([1, 1, 0]), r"shape \(3,\), expected 2 counts"),
        (lambda: Multinomial(2, [0.5, 0.5]).kl(Multinomial(3, [0.5, 0.5])), "got 2.0 and 3.0 trials"),
        (lambda: Multinomial(3, [0.5, 0.5]).observe([1, 2]), r"shape \(2,\), expected a row for each"),
        (lambda: Multinomial(1e19, [0.5, 0.5]).sample(np.random.default_rng(0)), "got 1e\\+19 trials"),
        (lambda: Categorical([0.2, 0.8]).kl(Categorical([1.0])), "of a category from 0 to 0, expected a"),
        (
            lambda: MultivariateGaussian([0, 0], np.eye(2)).kl(MultivariateGaussian([0], [[1]])),
            "another MultivariateGaussian of 1 finite numbers, expected 2",
        ),
        (lambda: Poisson(1).fit(Tally.observe([[1.0, 2.0], [3.0, 4.0]])), "a Tally of 2 terms, expected 1"),
        (lambda: Poisson(-1), "got a rate of -1.0, expected a finite number, not below zero"),
        (lambda: Exponential(0), "got a rate of 0.0, expected a finite number above zero"),
        (lambda: Exponential(1).fit(Exponential(1).observe([0.0, 0.0])), "times that are all 0 have no rate"),
        (lambda: Geometric(0), "expected above 0, and at most 1"),
        (lambda: Geometric(0.5).mean_of([0.1]), "got a natural parameter of 0.1, expected below zero"),
        (lambda: Gaussian(np.nan, 1), "got a mean of nan, expected a finite number"),
        (lambda: Gaussian(0, 0), "got a variance of 0.0, expected a finite number above zero"),
        (lambda: Gaussian(0, 1).with_natural([0.0, 0.5]), "got a natural parameter of 0.5 for x²"),
        (
            lambda: MultivariateGaussian([0, 0], np.ones(2)),
            r"\(2,\), \(2,\), expected \(..., d\), \(..., d, d\)",
        ),
        (lambda: MultivariateGaussian([0, 0], [[1, 2], [2, 1]]), "the covariance has eigenvalue -1"),
        (
            lambda: MultivariateGaussian([0, 0], [[1.0, 0.5], [0.0, 1.0]]),
            "0.5 above the diagonal and 0.0 below",
        ),
        (lambda: MultivariateGaussian([0], 1, "round"), "got form='round'"),  # type: ignore[arg-type]
        (lambda: MultivariateGaussian([0, 0], np.eye(2)).observe([1.0, 2.0]), "expected rows of 2 numbers"),
        (
            lambda: Bernoulli(0.5).observe([0, 1, 2]),
            r"x\[2\] is 2.0, expected 0 or 1: drop or correct that row",
        ),
        (lambda: Poisson(1).observe([[1, 2], [0, np.nan]]), r"x\[1, 1\] is nan, expected a count"),
        (lambda: Categorical([0.5, 0.5], minimal=True).observe([0, 2]), "expected a category from 0 to 1"),
        (lambda: Categorical([0.5, 0.5]).fit(Tally.count([0, 3])), "got counts of 3, expected a category"),
        (lambda: Bernoulli(0.5).fit(0 * Bernoulli(0.5).observe([1])), "got a statistic of weight 0.0"),
    ],
)
def test_a_message_says_what_was_given_and_what_was_expected(act: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        act()


def test_a_member_keeps_its_parameters_to_itself() -> None:
    rates = np.array([1.0, 2.0])
    member = Poisson(rates)
    rates[0] = 9.0
    assert member.rate.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        member.rate[0] = 9.0


@pytest.mark.parametrize(
    ("member", "other", "oracle", "others"),
    [
        (Gamma(2.5, 0.8), Gamma(2.5, 1.7), stats.gamma(2.5, scale=1.25), stats.gamma(2.5, scale=1 / 1.7)),
        (
            NegativeBinomial(2.5, 0.3),
            NegativeBinomial(2.5, 0.6),
            stats.nbinom(2.5, 0.3),
            stats.nbinom(2.5, 0.6),
        ),
    ],
)
def test_divergence_is_that_of_scipys_densities(member: Any, other: Any, oracle: Any, others: Any) -> None:
    if member.discrete:
        x = np.arange(400.0)
        expected = (oracle.pmf(x) * (oracle.logpmf(x) - others.logpmf(x))).sum()
    else:
        expected = oracle.expect(lambda x: oracle.logpdf(x) - others.logpdf(x), epsabs=1e-12)
    np.testing.assert_allclose(member.kl(other), expected, rtol=1e-9)


def test_the_entropy_of_large_counts_is_the_sum_over_them() -> None:
    for size, mean in ((0.3, 1e5), (2.5, 5e3), (1e5, 1e5)):
        member = NegativeBinomial(size).with_mean([mean])
        log_p = member.log_density(np.arange(mean + 60.0 * mean / min(size, 60.0) + 2e3))
        np.testing.assert_allclose(member.entropy(), -(np.exp(log_p) * log_p).sum(), rtol=1e-12)
    normal = 0.5 * np.log(2.0 * np.pi * math.e * (1e9 + 1e13))
    np.testing.assert_allclose(NegativeBinomial(1e5).with_mean([1e9]).entropy(), normal, atol=1e-5)


def test_fixed_parameters_are_one_number_above_zero() -> None:
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="expected a finite number above zero"):
            NegativeBinomial(size=wrong)
        with pytest.raises(ValueError, match="expected a finite number above zero"):
            Gamma(shape=wrong)
    many: Any = [1.0, 2.0]
    with pytest.raises(TypeError, match=r"got size=\[1.0, 2.0\], expected one number"):
        NegativeBinomial(size=many)
    with pytest.raises(ValueError, match="size 3"):
        NegativeBinomial(size=2).kl(NegativeBinomial(size=3))
    with pytest.raises(ValueError, match=r"got a mean of 0\.0, expected above zero"):
        Gamma(2).with_mean([0.0])
    assert float(NegativeBinomial(2).with_mean([0.0]).log_density(0)) == 0.0
