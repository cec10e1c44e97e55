"""The trend is Bayesian linear regression on Gaussian basis functions, and its band says what is known."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import BayesianRidge

from tamis import BayesianLinearRegression
from tamis.basis import GaussianBasis
from tamis_mail.reporting.days import Day
from tamis_mail.reporting.trend import fit_trend


def draw_days(shares: np.ndarray, messages: int, seed: int = 0) -> list[Day]:
    rng = np.random.default_rng(seed)
    return [
        Day(20_000 + number, messages, int(rng.binomial(messages, share)), 0)
        for number, share in enumerate(shares)
    ]


def test_curve_and_band_are_those_of_scikit_learn() -> None:
    days = draw_days(expit(np.sin(np.arange(60) / 10)), 200)
    trend = fit_trend(days)
    assert trend is not None
    time = np.array([day.number for day in days], float)
    centres = np.linspace(time[0], time[-1], 7)
    width = 1.5 * (centres[1] - centres[0])

    def expand(at: np.ndarray) -> np.ndarray:
        line = (2 * at - time[0] - time[-1]) / (time[-1] - time[0])
        return np.column_stack([line, np.exp(-((at[:, np.newaxis] - centres) ** 2) / (2 * width**2))])

    log_odds = np.array([np.log((day.spam + 0.5) / (day.messages - day.spam + 0.5)) for day in days])
    reference = BayesianRidge(max_iter=10_000, tol=1e-12, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0).fit(
        expand(time), log_odds
    )
    mean, deviation = reference.predict(expand(trend.days), return_std=True)
    np.testing.assert_allclose(trend.share, expit(mean), atol=2e-3)
    # scikit-learn's deviation is of a prediction with noise and without the intercept's own variance.
    noise = 1 / reference.alpha_
    spread = np.sqrt(deviation**2 - noise + noise / len(days))
    np.testing.assert_allclose(trend.high, expit(mean + 1.96 * spread), atol=3e-3)
    np.testing.assert_allclose(trend.low, expit(mean - 1.96 * spread), atol=3e-3)


def test_the_band_is_the_uncertainty_of_the_curve_without_noise() -> None:
    rng = np.random.default_rng(2)
    days = [
        Day(5 * number, n, int(rng.binomial(n, 0.4)), 0)
        for number, n in enumerate(rng.integers(3, 60, 12).tolist())
    ]
    trend = fit_trend(days)
    assert trend is not None
    time = np.array([[day.number] for day in days], float)
    basis = GaussianBasis(np.linspace(0, 55, 7), width=1.5 * 55 / 6).fit(time)
    weights = np.array([day.messages for day in days]) / np.mean([day.messages for day in days])
    log_odds = [np.log((day.spam + 0.5) / (day.messages - day.spam + 0.5)) for day in days]

    def expand(at: np.ndarray) -> np.ndarray:
        return np.column_stack([at / 27.5 - 1, basis.transform(at)])

    model = BayesianLinearRegression().fit(expand(time), log_odds, sample_weight=weights)
    mean, deviation = model.predict(expand(trend.days[:, np.newaxis]), return_std=True)
    spread = np.sqrt(deviation**2 - model.noise_std_**2)
    np.testing.assert_allclose(trend.low, expit(mean - 1.96 * spread), rtol=1e-9)
    np.testing.assert_allclose(trend.high, expit(mean + 1.96 * spread), rtol=1e-9)


def test_a_rise_is_seen_and_a_constant_share_is_not_one() -> None:
    rising = fit_trend(draw_days(np.linspace(0.1, 0.6, 40), 50))
    constant = fit_trend(draw_days(np.full(40, 0.3), 50))
    assert rising is not None
    assert constant is not None
    assert rising.rise > 0.999
    assert 0.02 < constant.rise < 0.98


@pytest.mark.parametrize("seed", range(5))
def test_the_band_has_the_true_share(seed: int) -> None:
    share = np.full(50, 0.25)
    trend = fit_trend(draw_days(share, 30, seed))
    assert trend is not None
    is_inside = (trend.low <= 0.25 + 0.03) & (trend.high >= 0.25 - 0.03)
    assert is_inside.mean() > 0.8


def test_few_days_have_no_trend() -> None:
    assert fit_trend([]) is None
    assert fit_trend(draw_days(np.full(2, 0.5), 10)) is None


def test_days_without_spam_or_without_other_mail_are_finite() -> None:
    trend = fit_trend([Day(1, 5, 0, 0), Day(2, 5, 5, 0), Day(3, 7, 0, 0), Day(9, 1, 1, 0)])
    assert trend is not None
    assert np.isfinite(trend.share).all()
    assert ((trend.low >= 0) & (trend.low <= trend.share) & (trend.share <= trend.high)).all()
