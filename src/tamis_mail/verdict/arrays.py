"""the counts of many messages' features → their judgements, in NumPy: the same as `judging`, to rounding."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tamis_mail.bag import HEADERS, VIEWS
from tamis_mail.bag.arrays import views
from tamis_mail.labels import SPAM, Label
from tamis_mail.verdict.judging import concluded, others, refuse_negative, trust
from tamis_mail.verdict.rule import Rule, Side, View, questions, sides
from tamis_mail.verdict.verdict import Judgement

__all__ = ["judge_many", "log_odds", "scores", "side_counts", "weigh"]


def judge_many(
    keys: NDArray[np.uint64],
    where: NDArray[np.intp],
    starts: NDArray[np.intp],
    counts: NDArray[np.int64],
    labels: Sequence[Label],
    rule: Rule,
    unit: int,
) -> list[Judgement]:
    """Judge messages; message i has keys[starts[i] : starts[i + 1]], key j the counts of row where[j]."""
    known = others(labels)
    kinds = views(keys)
    distinct = np.zeros(len(counts), np.intp)
    distinct[where] = kinds
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))

    def against(name: str, rest: Sequence[str]) -> NDArray[np.float64]:
        one, other = sides(labels, name, rest, unit, rule.guessed)
        return log_odds(
            scores(kinds, where, owners, len(starts) - 1, distinct, counts, rule, one, other), rule
        )

    odds_of = {name: against(name, rest) for name, rest in questions(known)}
    spam = odds_of.pop(SPAM)
    return [
        concluded(float(odds), known, {name: float(found[number]) for name, found in odds_of.items()}, rule)
        for number, odds in enumerate(spam)
    ]


def log_odds(found: NDArray[np.float64], rule: Rule) -> NDArray[np.float64]:
    """(messages,): the scores of the views, each times its scale."""
    total: NDArray[np.float64] = found @ np.array([view.scale for view in rule.views])
    return total


def scores(
    kinds: NDArray[np.intp],
    where: NDArray[np.intp],
    owners: NDArray[np.intp],
    messages: int,
    distinct: NDArray[np.intp],
    counts: NDArray[np.int64],
    rule: Rule,
    spam: Side,
    rest: Side,
) -> NDArray[np.float64]:
    """(messages, views): what each view says, before its scale."""
    weights = np.zeros(len(counts))
    s, h = side_counts(counts, spam), side_counts(counts, rest)
    refuse_negative(float(min(s.min(initial=0), h.min(initial=0))))
    seen = s + h > 0
    trusts = [trust(a, b, rule) for a, b in zip(spam.messages, rest.messages, strict=True)]
    for kind, view in enumerate(rule.views):
        if trusts[kind]:
            chosen = np.flatnonzero((distinct == kind) & seen)
            weights[chosen] = weigh(view, s[chosen], h[chosen], spam.messages[kind], rest.messages[kind])
    place = owners * len(VIEWS) + kinds
    sums = np.bincount(place, weights[where], messages * len(VIEWS)).reshape(messages, len(VIEWS))
    sizes = np.bincount(place, minlength=messages * len(VIEWS)).reshape(messages, len(VIEWS))
    familiar = np.bincount(owners, (seen & (distinct <= HEADERS))[where], messages)
    acquainted = familiar / (familiar + rule.acquaintance)
    reluctance, tilt, doubt = np.array([(view.reluctance, view.tilt, view.doubt) for view in rule.views]).T
    lean = (sizes * tilt + reluctance * doubt) * acquainted[:, np.newaxis]
    found: NDArray[np.float64] = (sums + lean) / (sizes + reluctance) * trusts
    return found


def side_counts(counts: NDArray[np.int64], side: Side) -> NDArray[np.float64]:
    """`Side.count` of each row."""
    total = np.zeros(len(counts))
    for column, worth in side.columns:
        total += worth * counts[:, column]
    return total


def weigh(
    view: View,
    s: NDArray[np.float64],
    h: NDArray[np.float64],
    spams: float | NDArray[np.float64],
    hams: float | NDArray[np.float64],
) -> NDArray[np.float64]:
    """`View.weigh` of many features, all of them seen."""
    rate = (s + h) / (spams + hams) if view.pooled else np.float64(0.5)
    worth = view.prior if view.pooled else 2 * view.prior
    found: NDArray[np.float64] = np.log((s + worth * rate) / (spams + worth)) - np.log(
        (h + worth * rate) / (hams + worth)
    )
    return found
