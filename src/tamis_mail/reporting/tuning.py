"""Fit the scales of the views (kinds of evidence), the intercept and the thresholds to a corpus.

The scales and the intercept are fitted as those of a store are (`verdict.fitting.fit_scales`): each message
is scored by all others, as a new message would be, and the prior is Gaussian around the default. They become
the rule of a store, which is the prior of later fits to the store's own messages. Rules for tokens of version
1 have no intercept, and a store of such tokens uses the scales as they are.

Thresholds are chosen with messages that were judged by the other folds. A threshold is safe to suggest only
if it does no harm to messages that were not used to choose it (`Offer.is_safe`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis.decide import threshold
from tamis.links import sigmoid
from tamis_mail.reporting.corpus import Corpus, Indices
from tamis_mail.reporting.measures import Measures, log_losses, measure
from tamis_mail.reporting.study import judge_folds, shuffle_stratified
from tamis_mail.sieve.weights import can_fit_tokens
from tamis_mail.verdict.fitting import ScaleFit, fit_scales
from tamis_mail.verdict.rule import RULES, Rule

Floats = NDArray[np.float64]

_FOLDS = 10
_MIN_MESSAGES = 20  # of either class
LOST = 0.001  # tolerated fraction of ham above the suggested threshold of spam
PASSED = 0.01  # tolerated fraction of spam below the suggested threshold of ham
_MIN_LOG_ODDS = 1.5  # minimum log-odds of a threshold (0.82, 0.18), because future mail differs


@dataclass(frozen=True, slots=True)
class Offer:
    """A suggested threshold, and its effect on messages that were not used to choose it.

    For the threshold of spam, a message beyond it is called spam: ham beyond it is wrong, and spam that is
    not beyond it is missed. For the threshold of ham, it is the other way round.
    """

    now: float  # the present threshold
    suggested: float | None  # None with too little mail
    wrong: tuple[int, int]  # messages, by the present threshold and by the suggested ones
    missed: tuple[int, int]  # messages, by the present threshold and by the suggested ones
    tolerated: int  # number of wrong messages that is accepted even if there are fewer now

    @property
    def is_safe(self) -> bool:
        """Whether it misses no more messages, and has no more wrong ones than now, or than is tolerated."""
        return (
            self.suggested is not None
            and self.missed[1] <= self.missed[0]
            and self.wrong[1] <= max(self.wrong[0], self.tolerated)
        )


@dataclass(frozen=True, slots=True)
class Tuning:
    """A rule for a mailbox, and its comparison with the previous one."""

    before: Rule
    after: Rule
    fit: ScaleFit
    measures_before: Measures  # by the previous rule, leave-one-out
    measures_after: Measures  # by scales and an intercept that were fitted without the message's fold
    gain: float  # decrease of the mean log-loss
    standard_error: float  # standard error of the gain
    offers: tuple[Offer, Offer]  # thresholds of spam and of ham

    @property
    def is_better(self) -> bool:
        """Whether the gain exceeds its standard error."""
        return self.gain > self.standard_error

    @property
    def safe_thresholds(self) -> tuple[float | None, float | None]:
        """The suggested thresholds of spam and ham; None for one that might do harm."""
        spam, ham = (offer.suggested if offer.is_safe else None for offer in self.offers)
        return spam, ham


def tune(corpus: Corpus, before: Rule | None = None, seed: int = 0, *, prior: Rule | None = None) -> Tuning:
    """Fit the scales and the intercept to a corpus, and check by folds whether that helps.

    `before` has the present weights of a store (the default rule, if not given), `prior` those before they
    were fitted to its messages (if not given, `before`).
    """
    default = RULES[corpus.token_version]
    before = before or default
    spams = int(corpus.is_spam.sum())
    if min(spams, len(corpus) - spams) < _MIN_MESSAGES:
        raise ValueError(
            f"got {spams:,} spam and {len(corpus) - spams:,} ham (each message once), expected at least "
            f"{_MIN_MESSAGES} of each to tune by: name more mail"
        )
    left_out = corpus.leave_one_out(before)  # the scores of each message by the counts of all others
    is_fitted = can_fit_tokens(corpus.token_version)
    if not is_fitted:
        left_out.scores[:, -1] = 0.0  # so that the intercept stays zero
    default_scales = np.array([view.scale for view in default.views])

    def fit(rows: NDArray[np.bool_]) -> tuple[Floats, ScaleFit]:
        """Return the centres, and the posterior of the scales, fitted to some of the messages."""
        weights = rows.astype(np.float64)
        centres = (
            left_out.find_centres(corpus.is_spam, weights) if is_fitted else np.zeros(len(default.views))
        )
        designs = left_out.subtract(centres)[rows]
        return centres, fit_scales(designs, corpus.is_spam[rows], weights[rows], default_scales)

    centres, posterior = fit(np.ones(len(corpus), np.bool_))
    held_out = np.empty(len(corpus))
    for part in np.array_split(shuffle_stratified(corpus.is_spam, seed), _FOLDS):
        rest = np.ones(len(corpus), np.bool_)
        rest[part] = False
        part_centres, part_fit = fit(rest)
        designs = left_out.subtract(part_centres)[part]
        held_out[part] = designs @ np.append(part_fit.scales, part_fit.intercept)
    scales = [float(f"{scale:.4g}") for scale in posterior.scales]
    after = before.with_scales(scales).with_centres([float(f"{centre:.4g}") for centre in centres])
    after = replace(after, intercept=float(f"{posterior.intercept:.4g}"))
    present_centres = np.array([view.centre for view in before.views])
    present_scales = np.array([*(view.scale for view in before.views), before.intercept])
    present_log_odds = left_out.subtract(present_centres) @ present_scales
    gains = log_losses(present_log_odds, corpus.is_spam) - log_losses(held_out, corpus.is_spam)
    gain, standard_error = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))
    judged = judge_folds(corpus, _FOLDS, seed, after if gain > standard_error else prior or before)
    tests = [test for _, test in judged.parts]
    return Tuning(
        before,
        after,
        posterior,
        measure(present_log_odds, corpus.is_spam, before),
        measure(held_out, corpus.is_spam, after),
        gain,
        standard_error,
        offer_thresholds(judged.log_odds, corpus.is_spam, tests, before),
    )


def offer_thresholds(
    log_odds: Floats,
    is_spam: NDArray[np.bool_],
    parts: Sequence[Indices],
    rule: Rule,
    *,
    lost: float = LOST,
    passed: float = PASSED,
) -> tuple[Offer, Offer]:
    """Suggest thresholds of spam and of ham, and test on each part those that the other parts suggest.

    `lost` is the share of ham that may be judged as spam, `passed` that of spam that may be judged as ham.
    """
    p = sigmoid(log_odds)
    return (
        _make_offer(log_odds, ~is_spam, parts, rule.spam, p >= rule.spam, lost),
        _make_offer(-log_odds, is_spam, parts, rule.ham, p <= rule.ham, passed, sign=-1),
    )


def _make_offer(
    scores: Floats,
    negative: NDArray[np.bool_],
    parts: Sequence[Indices],
    now: float,
    is_beyond_now: NDArray[np.bool_],
    rate: float,
    sign: int = 1,
) -> Offer:
    """Suggest one threshold: messages whose scores are above it are called spam, or ham if `sign` is -1.

    The scores are log-odds of that label, and `negative` marks messages of the other one, of which at most
    the part `rate` may be beyond the threshold. `now` is the present threshold, and `is_beyond_now` marks the
    messages that are beyond it.
    """

    def suggest(rows: NDArray[np.bool_]) -> float | None:
        return _round_probability(sign * max(threshold(scores[rows], negative[rows], rate), _MIN_LOG_ODDS))

    suggested = suggest(np.ones(len(scores), np.bool_))
    p = sign * sigmoid(sign * scores)
    is_beyond = is_beyond_now.copy()
    for part in parts:
        rest = np.ones(len(scores), np.bool_)
        rest[part] = False
        choice = suggest(rest)
        if choice is None:
            suggested = None
        else:
            is_beyond[part] = p[part] >= sign * choice
    return Offer(
        now,
        suggested,
        (int((is_beyond_now & negative).sum()), int((is_beyond & negative).sum())),
        (int((~is_beyond_now & ~negative).sum()), int((~is_beyond & ~negative).sum())),
        int(rate * negative.sum()),
    )


def with_thresholds(rule: Rule, offered: tuple[float | None, float | None]) -> Rule:
    """Return the rule with the suggested thresholds that are known."""
    spam, ham = offered
    return replace(rule, spam=rule.spam if spam is None else spam, ham=rule.ham if ham is None else ham)


def _round_probability(log_odds: float) -> float | None:
    """Convert log-odds to a probability p; None if they are infinite.

    The smaller of p and 1 − p is rounded to two significant digits.
    """
    if not np.isfinite(log_odds):
        return None
    p = float(sigmoid(log_odds))
    return 1 - float(f"{1 - p:.2g}") if p > 0.5 else float(f"{p:.2g}")
