"""a corpus → scales of the views that fit it: Bayesian logistic regression on what each view says.

Each message is judged by all the others (`Corpus.left_out`), so a view's score is what it would have said of
a new message. The prior is a Gaussian about the default scales, with deviations in proportion to them: a
little mail changes little. Scales are not negative: no view is evidence for its own opposite.

    minimise  Σ log(1 + exp(∓ z·w)) + Σ ((w - w₀) / (width · w₀))² / 2,   w ≥ 0

The sum is convex, Newton's steps find its one minimum, and the curvature there is Laplace's posterior.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis.decide import threshold
from tamis_mail.reporting.corpus import Corpus
from tamis_mail.reporting.measures import Measures, log_losses, measure, probabilities
from tamis_mail.reporting.study import shuffle_stratified
from tamis_mail.verdict.arrays import log_odds
from tamis_mail.verdict.rule import RULE, Rule

__all__ = ["Fit", "Tuning", "fit", "tune", "with_thresholds"]

Floats = NDArray[np.float64]

_WIDTH = 0.5  # of the prior, against the default scale: a scale is thought to be right within a factor of two
_FOLDS = 10
_STEPS = 100  # Newton needs ten
_STILL = 1e-10
_LEAST = 20  # messages of either kind, below which nothing is told
_LOST = 0.001  # share of ham that may be called spam, by the threshold that is offered
_PASSED = 0.01  # share of spam that may be called ham
_CAUTION = 1.5  # log-odds that are always asked for (0.82, 0.18): tomorrow's mail is not quite today's


@dataclass(frozen=True, slots=True)
class Fit:
    """The posterior of the scales, by Laplace."""

    scales: Floats  # (views,)
    deviations: Floats  # (views,); 0 where a scale is held at 0


@dataclass(frozen=True, slots=True)
class Tuning:
    """A rule for a mailbox, and whether it is better than the one before."""

    before: Rule
    after: Rule
    fit: Fit
    was: Measures  # by the rule before, each message by the others
    would_be: Measures  # by scales that were fitted without its fold
    gain: float  # mean log-loss that is saved
    chance: float  # standard error of the gain
    offered: tuple[
        float | None, float | None
    ]  # thresholds of spam and ham; None if there is too little to tell

    @property
    def is_better(self) -> bool:
        """By more than chance alone would often do."""
        return self.gain > self.chance


def tune(corpus: Corpus, before: Rule = RULE, seed: int = 0) -> Tuning:
    """Fit the scales to a corpus, and check by folds whether that helps."""
    spams = int(corpus.is_spam.sum())
    if min(spams, len(corpus) - spams) < _LEAST:
        raise ValueError(
            f"got {spams:,} spam and {len(corpus) - spams:,} ham (each message once), expected at least "
            f"{_LEAST} of each to tune by: name more mail"
        )
    scores = corpus.leave_one_out(before)
    centre = np.array([view.scale for view in RULE.views])
    posterior = fit(scores, corpus.is_spam, centre)
    held_out = np.empty(len(corpus))
    for part in np.array_split(shuffle_stratified(corpus.is_spam, seed), _FOLDS):
        rest = np.ones(len(corpus), np.bool_)
        rest[part] = False
        held_out[part] = scores[part] @ fit(scores[rest], corpus.is_spam[rest], centre).scales
    after = before.with_scales([float(f"{scale:.4g}") for scale in posterior.scales])
    was = log_odds(scores, before)
    gains = log_losses(was, corpus.is_spam) - log_losses(held_out, corpus.is_spam)
    high = threshold(held_out, ~corpus.is_spam, _LOST)
    low = -threshold(-held_out, corpus.is_spam, _PASSED)
    return Tuning(
        before,
        after,
        posterior,
        measure(was, corpus.is_spam, before),
        measure(held_out, corpus.is_spam, after),
        float(gains.mean()),
        float(gains.std(ddof=1) / np.sqrt(len(gains))),
        (_round_probability(max(high, _CAUTION)), _round_probability(min(low, -_CAUTION))),
    )


def with_thresholds(rule: Rule, offered: tuple[float | None, float | None]) -> Rule:
    """The rule with the thresholds that could be told."""
    spam, ham = offered
    return replace(rule, spam=rule.spam if spam is None else spam, ham=rule.ham if ham is None else ham)


def _round_probability(log_odds: float) -> float | None:
    """As a probability with as many digits as it takes; None for what no message reaches."""
    if not np.isfinite(log_odds):
        return None
    p = float(probabilities(np.array(log_odds)))
    return 1 - float(f"{1 - p:.2g}") if p > 0.5 else float(f"{p:.2g}")


def fit(scores: Floats, is_spam: NDArray[np.bool_], centre: Floats, width: float = _WIDTH) -> Fit:
    """The scales of the greatest posterior density."""
    precision = 1 / np.square(width * centre)
    signs = np.where(is_spam, 1.0, -1.0)

    def loss(w: Floats) -> float:
        difference = w - centre
        return float(
            np.logaddexp(0, -signs * (scores @ w)).sum() + (precision * difference * difference).sum() / 2
        )

    w = centre.copy()
    hessian = np.diag(precision)
    for _ in range(_STEPS):
        p = probabilities(scores @ w)
        gradient = scores.T @ (p - is_spam) + precision * (w - centre)
        hessian = scores.T @ (scores * (p * (1 - p))[:, None]) + np.diag(precision)
        free = (w > 0) | (gradient < 0)
        if np.abs(gradient[free]).max(initial=0) < _STILL * max(1, len(scores)):
            break
        step = np.zeros_like(w)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        size, current = 1.0, loss(w)
        while size > 1e-8 and loss(np.maximum(w - size * step, 0)) > current:
            size /= 2
        next_weights = np.maximum(w - size * step, 0)
        if np.abs(next_weights - w).max() < _STILL:
            break
        w = next_weights
    free = w > 0
    deviations = np.zeros_like(w)
    deviations[free] = np.sqrt(np.diag(np.linalg.inv(hessian[np.ix_(free, free)])))
    return Fit(w, deviations)
