"""Rates are compared by Beta posteriors, and each period is judged by earlier mail alone."""

import numpy as np
import pytest
from scipy import integrate, stats

from tamis_mail.features import VIEWS_OF
from tamis_mail.mailbox import RawMessage
from tamis_mail.reporting.corpus import Corpus, read
from tamis_mail.reporting.days import Day
from tamis_mail.reporting.drift import compare_halves, compare_rates, judge_periods
from tamis_mail.reporting.measures import measure
from tamis_mail.sample import messages
from tamis_mail.tokens import VERSION
from tamis_mail.verdict import RULE


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    first = [one for _, one in zip(range(90), messages(2026), strict=False)]
    mail = [(RawMessage(one.raw, "", number), one.label == "spam") for number, one in enumerate(first)]
    return read(mail, processes=1)


@pytest.mark.parametrize(("earlier", "later"), [((3, 40), (9, 50)), ((0, 5), (0, 900)), ((20, 20), (1, 3))])
def test_the_probability_of_a_rise_is_the_integral(earlier: tuple[int, int], later: tuple[int, int]) -> None:
    before, after = (stats.beta(1 + times, 1 + n - times) for times, n in (earlier, later))
    expected, _ = integrate.quad(lambda p: after.pdf(p) * before.cdf(p), 0, 1, points=[0.01, 0.5], limit=200)
    change = compare_rates(earlier, later)
    assert change.rise == pytest.approx(expected, abs=1e-4)
    assert change.difference == pytest.approx(after.mean() - before.mean())


def test_halves_have_about_as_many_messages() -> None:
    days = [Day(1, 10, 1, 0), Day(2, 10, 1, 5), Day(3, 10, 9, 0), Day(9, 12, 9, 0)]
    changes = compare_halves(days)
    assert (changes["spam"].earlier, changes["spam"].later) == ((2, 20), (18, 22))
    assert changes["spam"].rise > 0.99
    assert (changes["unsure"].earlier, changes["unsure"].later) == ((5, 20), (0, 22))
    assert compare_halves(days[:1]) == {}


def test_a_period_is_judged_by_a_filter_that_learned_the_earlier_ones(corpus: Corpus) -> None:
    dates = np.random.default_rng(0).permutation(len(corpus)).astype(float)
    order = np.argsort(dates)
    periods = judge_periods(corpus, dates, RULE)
    parts = np.array_split(order, 8)
    assert len(periods) == 7
    for number, period in enumerate(periods, 1):
        learned = np.concatenate(parts[:number])
        log_odds = corpus.log_odds(parts[number], corpus.train(learned, RULE))
        assert period.measures == measure(log_odds, corpus.is_spam[parts[number]], RULE)
        assert period.first == dates[parts[number]].min()


def test_unknown_features_are_those_that_no_earlier_message_has(corpus: Corpus) -> None:
    dates = np.arange(len(corpus), dtype=float)
    period = judge_periods(corpus, dates, RULE)[0]
    parts = np.array_split(np.arange(len(corpus)), 8)
    known = {key for row in parts[0] for key in corpus.features_of(row)[0].tolist()}
    mask = 7  # the lowest three bits are the view
    for view, name in enumerate(VIEWS_OF[VERSION]):
        shares = []
        for row in parts[1]:
            own = [key for key in corpus.features_of(row)[0].tolist() if key & mask == view]
            if own:
                shares.append(sum(key not in known for key in own) / len(own))
        assert period.unknown[name] == pytest.approx(np.mean(shares))


def test_messages_without_a_date_are_left_out(corpus: Corpus) -> None:
    dates = np.full(len(corpus), np.nan)
    assert judge_periods(corpus, dates, RULE) == []
    dates[:30] = np.arange(30)
    assert sum(period.measures.messages for period in judge_periods(corpus, dates, RULE)) == 20
