"""Detect changes of the mail over time, in two ways.

`compare_halves` compares the rates of verdicts in two halves of some days. The rate of each half has a Beta
posterior (`tamis.Beta`) with a uniform prior.

`judge_periods` divides learned messages, in the order of their own dates, into periods of equal size. Each
period but the first is judged by a filter that learned all earlier ones (prequential evaluation). A change of
the mail shows as more mistakes, and as features that no earlier message has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis.conjugate import Beta
from tamis_mail.features import VIEWS_OF
from tamis_mail.features.arrays import views
from tamis_mail.reporting.corpus import Corpus, Indices
from tamis_mail.reporting.days import Day
from tamis_mail.reporting.measures import Measures, measure
from tamis_mail.verdict.rule import Rule

_QUANTILES = 4000  # points of the numerical integral for the probability that the rate has risen
_DEVIATIONS = 1.96  # half the width of a 95 % interval, in standard deviations
_MIN_MESSAGES = 10  # minimum number of messages in a period
_PERIODS = 8  # maximum number of periods


@dataclass(frozen=True, slots=True)
class RateChange:
    """The rate of a verdict in an earlier and in a later period."""

    earlier: tuple[int, int]  # messages with this verdict, and all messages
    later: tuple[int, int]
    difference: float  # posterior mean of the later rate minus the earlier one
    low: float  # 95 % interval of the difference, by a normal approximation
    high: float
    rise: float  # posterior probability that the later rate is larger


@dataclass(frozen=True, slots=True)
class Period:
    """Messages of successive dates, judged by a filter that learned all earlier ones."""

    first: float  # date of its first message, in seconds since 1970
    last: float
    measures: Measures
    unknown: dict[str, float]  # by view: the mean share of a message's features that no earlier message has


def compare_halves(days: Sequence[Day]) -> dict[str, RateChange]:
    """Compare the verdicts of the first half of the messages with those of the second, by whole days.

    The result is empty if fewer than two days have messages.
    """
    days = [day for day in days if day.messages]
    if len(days) < 2:
        return {}
    totals = np.cumsum([day.messages for day in days])
    split = int(np.argmin(np.abs(totals[:-1] - totals[-1] / 2))) + 1
    earlier, later = days[:split], days[split:]

    def compare(count: Callable[[Day], int]) -> RateChange:
        return compare_rates(
            (sum(map(count, earlier)), sum(day.messages for day in earlier)),
            (sum(map(count, later)), sum(day.messages for day in later)),
        )

    return {"spam": compare(lambda day: day.spam), "unsure": compare(lambda day: day.unsure)}


def compare_rates(earlier: tuple[int, int], later: tuple[int, int]) -> RateChange:
    """Compare two rates, each given by the numbers of messages with the verdict and of all messages.

    >>> round(compare_rates((10, 100), (30, 100)).rise, 3)
    1.0
    """
    # The uniform prior of a rate is Beta(1, 1).
    before, after = (Beta(1 + times, 1 + messages - times) for times, messages in (earlier, later))
    difference = float(after.mean - before.mean)
    half_width = _DEVIATIONS * sqrt(float(after.variance + before.variance))
    midpoints = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    quantiles = special.betaincinv(float(after.a), float(after.b), midpoints)
    rise = float(special.betainc(float(before.a), float(before.b), quantiles).mean())
    return RateChange(
        earlier,
        later,
        difference,
        max(-1.0, difference - half_width),
        min(1.0, difference + half_width),
        rise,
    )


def judge_periods(
    corpus: Corpus, dates: NDArray[np.float64], rule: Rule, progress: Callable[[float], None] = lambda _: None
) -> list[Period]:
    """Judge each period but the first by all earlier mail; messages without a date are left out.

    The result is empty if fewer than 2 × _MIN_MESSAGES messages have a date.
    """
    order = np.flatnonzero(np.isfinite(dates))
    order = order[np.argsort(dates[order], kind="stable")]
    n_periods = min(_PERIODS, len(order) // _MIN_MESSAGES)
    if n_periods < 2:
        return []
    parts = np.array_split(order, n_periods)
    statistic = corpus.count(parts[0])
    periods: list[Period] = []
    start = len(parts[0])
    for part in parts[1:]:
        progress(len(periods) / (n_periods - 1))
        log_odds = corpus.log_odds(part, corpus.train(order[:start], rule, statistic))
        periods.append(
            Period(
                float(dates[part[0]]),
                float(dates[part[-1]]),
                measure(log_odds, corpus.is_spam[part], rule),
                _measure_unknown(corpus, part, statistic.total.value.sum(axis=0) > 0),
            )
        )
        statistic += corpus.count(part)
        start += len(part)
    return periods


def _measure_unknown(corpus: Corpus, messages: Indices, is_known: NDArray[np.bool_]) -> dict[str, float]:
    """Return for each view the mean share of features that are not known.

    The mean is over the messages that have features of the view; it is 0 if there are none.
    """
    names = VIEWS_OF[corpus.token_version]
    view_numbers = views(corpus.keys, corpus.token_version)  # of each feature: an index into `names`
    shares = np.full((len(messages), len(names)), np.nan)
    for row, message in enumerate(messages.tolist()):
        ids = corpus.features_of(message)[1]
        n_features = np.bincount(view_numbers[ids], minlength=len(names))
        n_unknown = np.bincount(view_numbers[ids], ~is_known[ids], len(names))
        has_some = n_features > 0
        shares[row, has_some] = n_unknown[has_some] / n_features[has_some]
    has_share = np.isfinite(shares)
    sums = np.where(has_share, shares, 0.0).sum(axis=0)
    means = sums / np.maximum(has_share.sum(axis=0), 1)
    return dict(zip(names, means.tolist(), strict=True))
