"""Compute the figures (charts) of the page Learning from a store and its log, as values for JSON.

Each figure is computed from a bounded sample of the remembered messages, those whose features the store has.
The sample depends only on the set of these messages.

Models that need SciPy and scikit-learn are imported by the figures that use them: importing them takes
seconds, during which the server would not answer yet.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tamis.links import sigmoid
from tamis_mail import features, tokens
from tamis_mail.catalog import CatalogError, read_message
from tamis_mail.features import VIEWS_OF
from tamis_mail.message import canonical, parse
from tamis_mail.reporting.days import drop_implausible, join_days, list_days, mask_implausible
from tamis_mail.reporting.estimates import list_estimates
from tamis_mail.reporting.measures import bins, roc_curve
from tamis_mail.reporting.remembered import RememberedMessages, read_remembered
from tamis_mail.reporting.study import judge_folds, study_folds
from tamis_mail.reporting.tuning import offer_thresholds
from tamis_mail.reporting.wording import VIEW_TITLES
from tamis_mail.store.log import EventLog
from tamis_mail.surfaces.web.pages import show_invisible
from tamis_mail.surfaces.web.threads import Connections
from tamis_mail.verdict.rule import Rule, Weights

Progress = Callable[[float], None]  # is called with the fraction that is done, from 0 to 1
Values = dict[str, Any]

_STUDY_MESSAGES = 1000  # maximum for cross-validation, which then takes about 2 seconds of one core
_MAP_MESSAGES = 1500  # maximum for the map, a scatter plot of messages
_CAMPAIGN_MESSAGES = 1000  # maximum of spam in which campaigns are searched
_FOLDS = 5  # of cross-validation
_MIN_MESSAGES = 6  # of either class, so that each fold has both
_ROC_POINTS = 200  # maximum number of points of the ROC curve
_FEW_DAYS = 7  # if there are fewer days with verdicts, the dates of messages may show more
_CAMPAIGNS = 12  # maximum number of campaigns that are shown
_EXAMPLES = 5  # messages of a campaign that are shown
_READ_EXAMPLES = 2  # messages of a campaign that are read, to name its words


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: the title of its job, and its function."""

    title: str
    compute: Callable[[Connections, Progress], Values]
    depends_on_verdicts: bool = False  # on those of log and catalog, instead of the store


def _compute_study(connections: Connections, progress: Progress) -> Values:
    """Compute learning curve, ROC curve and calibration by cross-validation of the remembered messages.

    If there are too few of them, return only `shortage`, a sentence that says so.
    """
    store = connections.sieve.store
    remembered = read_remembered(store, _STUDY_MESSAGES)
    shortage = _describe_shortage(remembered)
    if shortage:
        return {"shortage": shortage}
    corpus = remembered.corpus
    # `read_prior` returns the rule without weights that were fitted to the store's own messages.
    study = study_folds(corpus, _FOLDS, rule=Rule.read_prior(store), progress=progress)
    is_spam = corpus.is_spam[study.judged]
    rates = roc_curve(study.log_odds, is_spam)
    step = max(1, math.ceil(len(rates) / _ROC_POINTS))
    measures = study.measures
    return {
        "sample": _describe_sample(remembered),
        "measures": _replace_nan({**asdict(measures), "ham": measures.ham, "accuracy": measures.accuracy}),
        "curve": [_replace_nan(asdict(point)) for point in study.curve],
        "roc": [*rates[:-1:step], rates[-1]],
        "bins": [{**asdict(one), "observed": one.observed} for one in bins(sigmoid(study.log_odds), is_spam)],
        "threshold": study.rule.spam,
    }


def _compute_weights(connections: Connections, _: Progress) -> Values:
    """Read the weights of the views, fitted or of the default rule, with their standard deviations."""
    store = connections.sieve.store
    fitted = Weights.of(store)
    return {
        "messages": None if fitted is None else fitted.messages,
        "estimates": [
            {**asdict(estimate), "title": VIEW_TITLES[estimate.name]} for estimate in list_estimates(store)
        ],
    }


def _compute_trend(connections: Connections, _: Progress) -> Values:
    """Fit the share of spam over time: by day of the verdict, or by date of the message if these are more.

    The messages of an imported mailbox are judged within a day, but their dates cover years.
    """
    from tamis_mail.reporting.drift import compare_halves  # noqa: PLC0415 (loads SciPy)
    from tamis_mail.reporting.trend import fit_trend  # noqa: PLC0415 (loads SciPy)

    by, days = "verdict", list_days(EventLog.of(connections.sieve.store.path_name).count_days())
    if len(days) < _FEW_DAYS:
        dated = list_days(drop_implausible(connections.catalog.count_days(), time.time()))
        if len(dated) > len(days):
            by, days = "date", dated
    days, width = join_days(days)
    trend = fit_trend(days)
    return {
        "by": by,
        "days": [asdict(day) for day in days],
        "width": width,
        "trend": None
        if trend is None
        else {
            "points": np.stack([trend.days, trend.share, trend.low, trend.high], axis=1).tolist(),
            "rise": trend.rise,  # the probability that the share is larger at the end than at the beginning
        },
        "changes": {name: asdict(change) for name, change in compare_halves(days).items()},
    }


def _compute_drift(connections: Connections, progress: Progress) -> Values:
    """Judge the mail of each period by the mail before it."""
    from tamis_mail.reporting.drift import judge_periods  # noqa: PLC0415 (loads SciPy)

    store = connections.sieve.store
    remembered = read_remembered(store, _STUDY_MESSAGES)
    dates = mask_implausible(remembered.dates, time.time())
    periods = judge_periods(remembered.corpus, dates, Rule.read_prior(store), progress)
    return {
        "sample": _describe_sample(remembered),
        "dated": int(np.isfinite(dates).sum()),  # number of messages with a plausible date
        "views": list(VIEWS_OF[remembered.corpus.token_version]),
        "titles": VIEW_TITLES,
        "periods": [
            {
                "first": period.first,
                "last": period.last,
                "messages": period.measures.messages,
                "spam": period.measures.spam,
                "accuracy": period.measures.accuracy,
                "unsure": period.measures.unsure,
                "unknown": period.unknown,  # by view: share of the features that no earlier message has
            }
            for period in periods
        ],
    }


def _compute_campaigns(connections: Connections, progress: Progress) -> Values:
    """Find the campaigns among the remembered spam, with their words and example messages."""
    from tamis_mail.reporting.campaigns import find_campaigns  # noqa: PLC0415 (loads SciPy)

    store = connections.sieve.store
    remembered = read_remembered(store, 2 * _CAMPAIGN_MESSAGES)
    corpus, dates = remembered.corpus, mask_implausible(remembered.dates, time.time())
    campaigns = find_campaigns(corpus, _CAMPAIGN_MESSAGES, progress)[:_CAMPAIGNS]
    examples = [
        [corpus.digests[number] for number in campaign.members[:_EXAMPLES].tolist()] for campaign in campaigns
    ]
    headings = _find_headings(connections, [digest for digests in examples for digest in digests])
    values = []
    for campaign, digests in zip(campaigns, examples, strict=True):
        known_dates = dates[campaign.members][np.isfinite(dates[campaign.members])]
        values.append(
            {
                "messages": len(campaign.members),
                "cohesion": campaign.cohesion,
                "first": float(known_dates.min()) if len(known_dates) else None,
                "last": float(known_dates.max()) if len(known_dates) else None,
                "words": _name_words(connections, digests, campaign.keys.tolist()),
                "examples": [_name_message(digest, headings) for digest in digests],
            }
        )
    return {
        "searched": min(int(corpus.is_spam.sum()), _CAMPAIGN_MESSAGES),
        "sample": _describe_sample(remembered),
        "campaigns": values,
    }


def _compute_map(connections: Connections, _: Progress) -> Values:
    """Place the remembered messages in a plane; `shares` are the parts of the variance along its axes."""
    from tamis_mail.reporting.mailbox_map import compute_map  # noqa: PLC0415 (loads SciPy)

    store = connections.sieve.store
    remembered = read_remembered(store, _MAP_MESSAGES)
    corpus = remembered.corpus
    mailbox_map = compute_map(corpus)
    if mailbox_map is None:
        return {"sample": _describe_sample(remembered), "points": [], "shares": [0.0, 0.0]}
    headings = _find_headings(connections, corpus.digests)
    positions = np.round(mailbox_map.positions, 4).tolist()
    return {
        "sample": _describe_sample(remembered),
        "shares": list(mailbox_map.shares),
        "points": [
            {"x": x, "y": y, "spam": bool(is_spam), **_name_message(digest, headings)}
            for (x, y), is_spam, digest in zip(positions, corpus.is_spam, corpus.digests, strict=True)
        ],
    }


def compute_thresholds(connections: Connections, lost: float, passed: float, progress: Progress) -> Values:
    """Suggest thresholds, given the fractions of ham that may be called spam and of spam called ham.

    The remembered messages are judged by cross-validation, and each part tests the choice of the others.
    """
    store = connections.sieve.store
    remembered = read_remembered(store, _STUDY_MESSAGES)
    shortage = _describe_shortage(remembered)
    if shortage:
        return {"shortage": shortage}
    judged = judge_folds(remembered.corpus, _FOLDS, seed=0, rule=Rule.read_prior(store), progress=progress)
    tests = [test for _, test in judged.parts]
    offers = offer_thresholds(
        judged.log_odds, remembered.corpus.is_spam, tests, Rule.of(store), lost=lost, passed=passed
    )
    return {
        "sample": _describe_sample(remembered),
        **{
            # Safe: with messages that did not choose it, it makes no more errors than the present one.
            name: {**asdict(offer), "is_safe": offer.is_safe}
            for name, offer in zip(("spam", "ham"), offers, strict=True)
        },
    }


def _describe_sample(remembered: RememberedMessages) -> Values:
    spams = int(remembered.corpus.is_spam.sum())
    return {
        "messages": len(remembered.corpus),
        "spam": spams,
        "ham": len(remembered.corpus) - spams,
        "total": remembered.total,
    }


def _describe_shortage(remembered: RememberedMessages) -> str:
    """Return a sentence that says what is missing for cross-validation; empty if there is enough mail."""
    spams = int(remembered.corpus.is_spam.sum())
    others = len(remembered.corpus) - spams
    if min(spams, others) >= _MIN_MESSAGES:
        return ""
    return (
        f"This needs at least {_MIN_MESSAGES} learned messages of spam and of wanted mail; there are {spams} "
        f"of spam and {others} of wanted mail."
    )


def _find_headings(connections: Connections, digests: Sequence[bytes]) -> dict[bytes, tuple[str, str]]:
    """Return sender and subject of those messages that are in the log or in the catalog."""
    headings = EventLog.of(connections.sieve.store.path_name).find_headings(digests)
    for digest in digests:
        if digest not in headings and (row := connections.catalog.find(digest)) is not None:
            headings[digest] = (row.sender, row.subject)
    return headings


def _name_words(connections: Connections, digests: Sequence[bytes], keys: Sequence[int]) -> list[str]:
    """Return the names of those features that one of the messages has; a store has only their numbers."""
    version = connections.sieve.store.token_version()
    names: dict[int, str] = {}
    for digest in digests[:_READ_EXAMPLES]:
        with suppress(CatalogError):
            raw = read_message(connections.catalog, digest)
            names |= features.name_features(tokens.read(parse(canonical(raw)), version))
    return [show_invisible(names[key]) for key in keys if key in names]


def _name_message(digest: bytes, headings: dict[bytes, tuple[str, str]]) -> Values:
    sender, subject = headings.get(digest, ("", ""))
    return {"digest": digest.hex(), "sender": show_invisible(sender), "subject": show_invisible(subject)}


def _replace_nan(values: Values) -> Values:
    """Replace NaN and infinity, which JSON does not have, by None."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


FIGURES = {
    "study": Figure("Judging learned messages by the others", _compute_study),
    "weights": Figure("Reading the weights", _compute_weights),
    "trend": Figure("Fitting the trend of verdicts", _compute_trend, depends_on_verdicts=True),
    "drift": Figure("Judging each period by earlier mail", _compute_drift),
    "campaigns": Figure("Searching campaigns", _compute_campaigns),
    "map": Figure("Drawing the map", _compute_map),
}
