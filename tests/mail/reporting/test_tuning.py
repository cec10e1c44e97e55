"""The scales of the greatest posterior: a zero gradient, and little mail changes little."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from tamis_mail.mailbox import RawMessage
from tamis_mail.reporting.corpus import read
from tamis_mail.reporting.tuning import Offer, offer_thresholds, tune, with_thresholds
from tamis_mail.sample import messages
from tamis_mail.verdict import RULE, RULES, fitting
from tamis_mail.verdict.fitting import INTERCEPT_WIDTH, ScaleFit, fit_scales

Floats = NDArray[np.float64]

CENTRE = np.array([2.0, 0.8, 4.0, 1.5])


def drawn(n: int, scales: list[float], seed: int = 0) -> tuple[Floats, NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    return z, rng.uniform(size=n) < 1 / (1 + np.exp(-z @ scales))


def fit(z: Floats, y: NDArray[np.bool_]) -> ScaleFit:
    """Fit the scales of four views and an intercept, whose column is one."""
    return fit_scales(np.column_stack([z, np.ones(len(z))]), y, np.ones(len(z)), CENTRE)


def test_it_is_the_minimum_that_scipy_finds() -> None:
    z, y = drawn(300, [1.0, 0.5, 0.0, 2.0])
    signs, centre, widths = np.where(y, 1, -1), np.append(CENTRE, 0), np.append(0.5 * CENTRE, INTERCEPT_WIDTH)

    def loss(w: Floats) -> float:
        return float(
            np.logaddexp(0, -signs * (z @ w[:-1] + w[-1])).sum() + (((w - centre) / widths) ** 2).sum() / 2
        )

    bounds = [*[(0, None)] * 4, (None, None)]
    expected = minimize(loss, centre, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15})
    found = fit(z, y)
    np.testing.assert_allclose(np.append(found.scales, found.intercept), expected.x, atol=2e-4)


def test_a_wide_prior_is_plain_logistic_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = drawn(4000, [1.0, 0.5, 2.0, 1.5])
    plain = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(z, y)
    monkeypatch.setattr(fitting, "SCALE_WIDTH", 1e4)
    monkeypatch.setattr(fitting, "INTERCEPT_WIDTH", 1e4)
    found = fit(z, y)
    np.testing.assert_allclose(found.scales, plain.coef_[0], rtol=1e-4)
    assert found.intercept == pytest.approx(float(plain.intercept_[0]), abs=1e-4)
    assert np.all(np.abs(found.scales - [1.0, 0.5, 2.0, 1.5]) < 4 * found.deviations[:-1])


def test_no_scale_is_negative() -> None:
    z, y = drawn(2000, [2.0, -3.0, 4.0, 1.5])
    found = fit(z, y)
    assert found.scales[1] == found.deviations[1] == 0
    assert np.all(found.scales[[0, 2, 3]] > 0)


def test_a_scale_that_was_tuned_to_zero_may_grow_again() -> None:
    z, y = drawn(2000, [2.0, 1.5, 4.0, 1.5])
    designs = np.column_stack([z, np.ones(len(z))])
    tuned = CENTRE * [1, 0, 1, 1]
    found = fit_scales(designs, y, np.ones(len(z)), tuned, 0.0, 0.5 * CENTRE)
    assert found.scales[1] > 1
    assert np.isfinite(found.deviations).all()


def test_no_mail_changes_nothing_and_little_mail_little() -> None:
    nothing = fit(np.empty((0, 4)), np.empty(0, np.bool_))
    np.testing.assert_allclose(nothing.scales, CENTRE)
    assert nothing.intercept == 0
    z, y = drawn(10, [0.0, 0.0, 0.0, 0.0])
    assert np.abs(fit(0.1 * z, y).scales / CENTRE - 1).max() < 0.2


def test_separable_mail_keeps_scales_finite() -> None:
    z = np.vstack([np.ones((50, 4)), -np.ones((50, 4))]) * 100
    found = fit(z, np.arange(100) < 50)
    assert np.isfinite(found.scales).all()
    assert np.all(found.scales < 3 * CENTRE)


def test_a_rule_that_is_off_is_mended_and_a_good_one_kept() -> None:
    corpus = read((RawMessage(one.raw, "", 0), one.label == "spam") for one in list(messages())[:250])
    off = RULE.with_scales([view.scale * 0.1 for view in RULE.views])
    mended = tune(corpus, off)
    assert mended.is_better
    assert mended.measures_after.log_loss < 0.5 * mended.measures_before.log_loss
    again = tune(corpus, mended.after)
    assert not again.is_better
    assert again.after.views == mended.after.views


def test_thresholds_are_those_that_could_be_told() -> None:
    assert with_thresholds(RULE, (None, None)) == RULE
    assert (with_thresholds(RULE, (0.99, None)).spam, with_thresholds(RULE, (0.99, None)).ham) == (
        0.99,
        RULE.ham,
    )


def test_older_tokens_have_no_intercept() -> None:
    sample = [(RawMessage(one.raw, "", 0), one.label == "spam") for one in list(messages())[:120]]
    older = tune(read(sample, token_version=1), RULES[1].with_scales([1.0, 1.0, 1.0, 1.0]))
    assert older.fit.intercept == older.after.intercept == 0
    assert tune(read(sample)).fit.intercept != 0


def judged(ham: list[float], spam: list[float], seed: int = 0) -> tuple[Floats, NDArray[np.bool_]]:
    order = np.random.default_rng(seed).permutation(len(ham) + len(spam))
    return np.array([*ham, *spam])[order], (np.arange(len(order)) >= len(ham))[order]


def test_a_threshold_that_finds_more_spam_and_loses_no_ham_is_offered() -> None:
    rng = np.random.default_rng(1)
    log_odds, is_spam = judged(rng.normal(-6, 1, 4000).tolist(), rng.normal(3, 1, 1000).tolist())
    spam, ham = offer_thresholds(log_odds, is_spam, np.array_split(np.arange(5000), 10), RULE)
    assert (spam.is_safe, ham.is_safe) == (True, True)
    assert spam.suggested is not None
    assert spam.suggested < RULE.spam
    assert spam.missed[1] < spam.missed[0]
    assert spam.wrong == (0, 0)


def test_a_threshold_that_misses_spam_or_loses_ham_is_not_used() -> None:
    rng = np.random.default_rng(2)
    # Ten in a thousand ham messages lie between the present threshold (3.5) and 8, with half of the spam.
    ham_scores = [*rng.normal(-6, 1, 3960).tolist(), *rng.uniform(4, 8, 40).tolist()]
    log_odds, is_spam = judged(ham_scores, rng.normal(6, 1, 1000).tolist())
    spam, _ = offer_thresholds(log_odds, is_spam, np.array_split(np.arange(5000), 10), RULE)
    assert spam.suggested is not None
    assert spam.suggested > RULE.spam
    assert spam.missed[1] > spam.missed[0]
    assert not spam.is_safe


@pytest.mark.parametrize(
    ("offer", "is_safe"),
    [
        (Offer(0.97, 0.9, (0, 2), (9, 5), 2), True),
        (Offer(0.97, 0.9, (0, 3), (9, 5), 2), False),
        (Offer(0.97, 0.9, (3, 3), (9, 9), 2), True),
        (Offer(0.97, 0.99, (3, 0), (9, 10), 2), False),
        (Offer(0.97, None, (0, 0), (9, 9), 2), False),
    ],
)
def test_an_offer_is_safe_if_nothing_gets_worse(offer: Offer, is_safe: bool) -> None:
    assert offer.is_safe is is_safe


def test_the_test_of_a_threshold_is_on_mail_that_did_not_choose_it() -> None:
    """Each part is judged by the threshold that the other parts suggest, not by that of all mail."""
    rng = np.random.default_rng(3)
    log_odds, is_spam = judged(rng.normal(0, 2, 1800).tolist(), rng.normal(5, 2, 300).tolist())
    parts = np.array_split(np.arange(2100), 3)
    spam, _ = offer_thresholds(log_odds, is_spam, parts, RULE)
    naive = 0
    for part in parts:
        rest = np.setdiff1d(np.arange(2100), part)
        alone, _ = offer_thresholds(log_odds[rest], is_spam[rest], [], RULE)
        assert alone.suggested is not None
        p = 1 / (1 + np.exp(-log_odds[part]))
        naive += int(((p >= alone.suggested) & ~is_spam[part]).sum())
    assert spam.wrong[1] == naive


def test_too_little_mail_is_told_in_one_line() -> None:
    corpus = read((RawMessage(one.raw, "", 0), one.label == "spam") for one in list(messages())[:30])
    with pytest.raises(ValueError, match="expected at least 20 of each to tune by"):
        tune(corpus)


@pytest.mark.parametrize("lost", [0.01, 0.05, 0.2])
def test_a_threshold_keeps_the_wanted_share_of_ham_below_it(lost: float) -> None:
    rng = np.random.default_rng(3)
    is_spam = rng.uniform(size=4000) < 0.5
    log_odds = np.where(is_spam, 4.0, 0.0) + rng.normal(scale=2.0, size=4000)
    parts = np.array_split(rng.permutation(4000), 5)
    spam, _ = offer_thresholds(log_odds, is_spam, parts, RULE, lost=lost)
    assert spam.suggested is not None
    share = float((1 / (1 + np.exp(-log_odds[~is_spam])) >= spam.suggested).mean())
    assert share <= lost
    assert share > lost / 2 or spam.suggested < 0.83  # thresholds are never lower than by caution
