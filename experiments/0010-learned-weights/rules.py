"""The rules that are compared: counts → log-odds, by fixed weights or by the fits of `tamis_mail`."""

from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from streams import Stream

from tamis_mail.features import HEADERS, RELATIONS
from tamis_mail.sieve import weights as schedule
from tamis_mail.sieve.weights import find_scheduled_size
from tamis_mail.verdict import RULES, fitting
from tamis_mail.verdict.rule import Rule

YEAR = 365.25 * 86400


@dataclass(frozen=True)
class Variant:
    """One rule."""

    name: str
    tokens: int = 2
    is_fitted: bool = True  # scales and intercept are fitted to leave-one-out scores
    has_layer: bool = False  # coefficients of single features are fitted
    has_relations: bool = False  # the fifth view
    cut: float = 0.0  # features with a smaller weight count only a quarter in the mean, with weight 0
    half_life: float = 0.0  # years after which a message weighs half, by its date; 0: all weigh the same
    oldest: float = 0.05  # … and at least so much
    scale_width: float = fitting.SCALE_WIDTH
    intercept_width: float = fitting.INTERCEPT_WIDTH
    first_fit: int = schedule.FIRST_FIT

    @property
    def rule(self) -> Rule:
        rule = RULES[self.tokens]
        return rule if self.has_relations or self.tokens == 1 else replace(rule, views=rule.views[:RELATIONS])


FIXED = Variant("fixed", tokens=1, is_fitted=False)
SHIPPED = Variant("shipped: learned + relations + layer", has_layer=True, has_relations=True)
VARIANTS = (
    FIXED,
    Variant("tokens 2, not fitted", is_fitted=False, has_relations=True),
    Variant("learned"),
    Variant("learned + layer", has_layer=True),
    Variant("learned + relations", has_relations=True),
    SHIPPED,
    replace(SHIPPED, name="shipped + cut", cut=1.0),
    replace(SHIPPED, name="shipped + age", half_life=2.0),
)
PRIORS = (
    replace(SHIPPED, name="shipped, narrow priors 0.3 / 2", scale_width=0.3, intercept_width=2.0),
    replace(SHIPPED, name="shipped, first fit at 8", first_fit=8),
)


class Memory:
    """Counts and remembered messages, and what was fitted to them."""

    def __init__(self, stream: Stream, variant: Variant) -> None:
        self.variant, self.rule, self.corpus = variant, variant.rule, stream.corpus
        features = self.corpus.features(variant.tokens)
        self.features = (
            features if variant.has_relations or variant.tokens == 1 else features.without(RELATIONS)
        )
        self.counts = np.zeros((2, len(features.keys)))
        self.totals = np.zeros(2)
        self.messages: list[int] = []
        self.seen: set[int] = set()
        self.weight_of = weigh_by_age(self.corpus.dates, variant)
        self.coefficients = np.array([*(view.scale for view in self.rule.views), self.rule.intercept])
        self.layer: np.ndarray | None = None
        self.fitted_at = 0

    def learn(self, message: int) -> None:
        """Count a message, unless an equal one is known."""
        rank = int(self.corpus.ranks[message])
        if rank in self.seen:
            return
        self.seen.add(rank)
        label, weight = self.corpus.labels[message], self.weight_of[message]
        self.counts[label, self.features.of(message)] += weight
        self.totals[label] += weight
        self.messages.append(message)

    def fit_if_due(self) -> None:
        """Fit on the schedule of `tamis_mail.sieve.weights`."""
        if not self.variant.is_fitted:
            return
        labels = self.corpus.labels[self.messages]
        if len(labels) and min(labels.sum(), len(labels) - labels.sum()) >= fitting.MIN_FITTED_MESSAGES:
            with patch.object(schedule, "FIRST_FIT", self.variant.first_fit):
                is_due = find_scheduled_size(len(labels)) != find_scheduled_size(self.fitted_at)
            if is_due:
                self.fit()

    def fit(self) -> None:
        """Fit scales and intercept, and then the layer, to a sample of the messages."""
        self.fitted_at = len(self.messages)
        by_rank = np.array(self.messages)[np.argsort(self.corpus.ranks[self.messages])]
        chosen = by_rank[fitting.training_sample(self.corpus.labels[by_rank] == 1)]
        is_spam = self.corpus.labels[chosen] == 1
        shares = [np.sum(self.corpus.labels[by_rank] == kind) / np.sum(is_spam == kind) for kind in (0, 1)]
        weights = self.weight_of[chosen]
        designs = self.designs(chosen, weights)
        weights = weights * np.array(shares)[is_spam.astype(int)]  # of a class of which few were chosen
        scales = np.array([view.scale for view in self.rule.views])
        widths = {"SCALE_WIDTH": self.variant.scale_width, "INTERCEPT_WIDTH": self.variant.intercept_width}
        with patch.multiple(fitting, **widths):
            fit = fitting.fit_scales(designs, is_spam, weights, scales, self.rule.intercept)
        self.coefficients = np.append(fit.scales, fit.intercept)
        if self.variant.has_layer:
            features = self.features
            training = fitting.Training.from_messages(
                features.places,
                features.starts,
                self.corpus.labels,
                np.ones(len(self.corpus), np.int64),
                chosen,
                len(features.keys),
            )
            keys, layer = fitting.fit_coefficients(
                training,
                features.keys[training.distinct],
                is_spam,
                weights,
                designs @ self.coefficients,
                self.variant.tokens,
            )
            smaller = float(min(weights[is_spam].sum(), weights[~is_spam].sum()))
            layer *= smaller / (smaller + fitting.COEFFICIENT_PATIENCE)
            self.layer = np.zeros(len(features.keys))
            self.layer[np.searchsorted(features.keys, keys)] = layer

    def designs(self, messages: np.ndarray, own: np.ndarray | None = None) -> np.ndarray:
        """(n, views + 1): the scores of the views and the factor of the intercept, by all others if `own`."""
        rule, n, n_views = self.rule, len(messages), len(self.rule.views)
        places = np.concatenate([self.features.of(message) for message in messages])
        row = np.repeat(np.arange(n), self.features.starts[messages + 1] - self.features.starts[messages])
        kind = self.features.kinds[places]
        h, s = self.counts[:, places]
        hams, spams = np.repeat(self.totals[:, np.newaxis], n, axis=1)
        if own is not None:
            of_spam = own * self.corpus.labels[messages]
            h, s = h - (own - of_spam)[row], s - of_spam[row]
            hams, spams = hams - (own - of_spam), spams - of_spam
        prior, pooled, reluctance, tilt, doubt = np.array(
            [(view.prior, view.pooled, view.reluctance, view.tilt, view.doubt) for view in rule.views]
        ).T
        is_seen = s + h > 1e-9
        worth = np.where(pooled > 0, prior, 2 * prior)[kind]
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(pooled[kind] > 0, (s + h) / (spams + hams)[row], 0.5)
            w = np.log((s + worth * rate) / (spams[row] + worth)) - np.log(
                (h + worth * rate) / (hams[row] + worth)
            )
        w = np.where(is_seen & np.isfinite(w), w, 0.0)
        is_cut = is_seen & (np.abs(w) < self.variant.cut)
        cell = row * n_views + kind
        sums = np.bincount(cell, np.where(is_cut, 0.0, w), n * n_views).reshape(n, n_views)
        counted = np.bincount(cell, np.where(is_cut, 0.25, 1.0), n * n_views).reshape(n, n_views)
        familiar = np.bincount(row, is_seen & (kind <= HEADERS), n)
        familiarity = familiar / (familiar + rule.acquaintance)
        sums += (counted * tilt + reluctance * doubt) * familiarity[:, np.newaxis]
        least = np.maximum(np.minimum(spams, hams), 0.0)
        shrinkage = least / (least + rule.patience)
        return np.column_stack([sums / (counted + reluctance), np.ones(n)]) * shrinkage[:, np.newaxis]

    def judge(self, message: int) -> float:
        """The log-odds of spam."""
        log_odds = float((self.designs(np.array([message])) @ self.coefficients)[0])
        if self.layer is not None:
            places = self.features.of(message)
            kinds = self.features.kinds[places]
            log_odds += float((self.layer[places] / np.sqrt(np.bincount(kinds)[kinds])).sum())
        return log_odds


def weigh_by_age(dates: np.ndarray, variant: Variant) -> np.ndarray:
    """The weight of each message by its date, against the time at which most of the mail had come."""
    is_known = np.isfinite(dates)
    if not variant.half_life or not is_known.any():
        return np.ones(len(dates))
    now = np.quantile(dates[is_known], 0.99)
    years = np.maximum(now - np.where(is_known, dates, now), 0) / YEAR
    return np.maximum(0.5 ** (years / variant.half_life), variant.oldest)


def run(stream: Stream, variant: Variant) -> np.ndarray:
    """The log-odds of each judged message."""
    memory = Memory(stream, variant)
    for message in stream.order[: stream.known].tolist():
        memory.learn(message)
    memory.fit_if_due()
    log_odds = []
    for message in stream.order[stream.known :].tolist():
        log_odds.append(memory.judge(message))
        if stream.learns:
            memory.learn(message)
            memory.fit_if_due()
    return np.array(log_odds)
