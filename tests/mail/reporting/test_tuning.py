"""The scales of the greatest posterior: a zero gradient, and little mail changes little."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from tamis_mail.mailbox import RawMessage
from tamis_mail.reporting.corpus import read
from tamis_mail.reporting.tuning import fit, tune, with_thresholds
from tamis_mail.sample import messages
from tamis_mail.verdict import RULE

CENTRE = np.array([2.0, 0.8, 4.0, 1.5])


def drawn(n: int, scales: list[float], seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    return z, rng.uniform(size=n) < 1 / (1 + np.exp(-z @ scales))


def test_it_is_the_minimum_that_scipy_finds() -> None:
    z, y = drawn(300, [1.0, 0.5, 0.0, 2.0])
    signs = np.where(y, 1, -1)

    def loss(w: NDArray[np.float64]) -> float:
        return float(
            np.logaddexp(0, -signs * (z @ w)).sum() + (((w - CENTRE) / (0.5 * CENTRE)) ** 2).sum() / 2
        )

    expected = minimize(loss, CENTRE, bounds=[(0, None)] * 4, method="L-BFGS-B", options={"ftol": 1e-15})
    np.testing.assert_allclose(fit(z, y, CENTRE).scales, expected.x, atol=2e-4)


def test_a_wide_prior_is_plain_logistic_regression() -> None:
    z, y = drawn(4000, [1.0, 0.5, 2.0, 1.5])
    plain = LogisticRegression(C=1e12, fit_intercept=False, tol=1e-10, max_iter=1000).fit(z, y)
    found = fit(z, y, CENTRE, width=1e4)
    np.testing.assert_allclose(found.scales, plain.coef_[0], rtol=1e-4)
    assert np.all(np.abs(found.scales - [1.0, 0.5, 2.0, 1.5]) < 4 * found.deviations)


def test_no_scale_is_negative() -> None:
    z, y = drawn(2000, [2.0, -3.0, 4.0, 1.5])
    found = fit(z, y, CENTRE)
    assert found.scales[1] == found.deviations[1] == 0
    assert np.all(found.scales[[0, 2, 3]] > 0)


def test_no_mail_changes_nothing_and_little_mail_little() -> None:
    np.testing.assert_allclose(fit(np.empty((0, 4)), np.empty(0, np.bool_), CENTRE).scales, CENTRE)
    z, y = drawn(10, [0.0, 0.0, 0.0, 0.0])
    assert np.abs(fit(0.1 * z, y, CENTRE).scales / CENTRE - 1).max() < 0.2


def test_separable_mail_keeps_scales_finite() -> None:
    z = np.vstack([np.ones((50, 4)), -np.ones((50, 4))]) * 100
    found = fit(z, np.arange(100) < 50, CENTRE)
    assert np.isfinite(found.scales).all()
    assert np.all(found.scales < 3 * CENTRE)


def test_a_rule_that_is_off_is_mended_and_a_good_one_kept() -> None:
    corpus = read((RawMessage(one.raw, "", 0), one.label == "spam") for one in list(messages())[:250])
    off = RULE.with_scales([view.scale * 0.1 for view in RULE.views])
    mended = tune(corpus, off)
    assert mended.is_better
    assert mended.would_be.log_loss < 0.5 * mended.was.log_loss
    again = tune(corpus, mended.after)
    assert not again.is_better
    assert again.after.views == mended.after.views


def test_thresholds_are_those_that_could_be_told() -> None:
    assert with_thresholds(RULE, (None, None)) == RULE
    assert (with_thresholds(RULE, (0.99, None)).spam, with_thresholds(RULE, (0.99, None)).ham) == (
        0.99,
        RULE.ham,
    )


def test_too_little_mail_is_told_in_one_line() -> None:
    corpus = read((RawMessage(one.raw, "", 0), one.label == "spam") for one in list(messages())[:30])
    with pytest.raises(ValueError, match="expected at least 20 of each to tune by"):
        tune(corpus)
