"""a corpus → scales of the views that fit it: Bayesian logistic regression on the scores of the views.

Each message is scored by all others (`Corpus.leave_one_out`), as a new message would be. The prior is
Gaussian with its mean at the default scales and standard deviations in proportion to them, so that little
mail changes little. Scales are not negative.

    minimise  Σ log(1 + exp(∓ z·w)) + Σ ((w - w₀) / (width · w₀))² / 2,   w ≥ 0

The objective is convex; Newton's method finds its minimum, and the Hessian there gives the Laplace posterior.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis.decide import threshold
from tamis_mail.reporting.corpus import Corpus
from tamis_mail.reporting.measures import Measures, log_losses, measure, probabilities
from tamis_mail.reporting.study import shuffle_stratified
from tamis_mail.verdict.arrays import log_odds
from tamis_mail.verdict.rule import RULES, Rule

__all__ = ["Fit", "Tuning", "fit", "tune", "with_thresholds"]

Floats = NDArray[np.float64]

_WIDTH = 0.5  # standard deviation of the prior, relative to the default scale
_FOLDS = 10
_STEPS = 100  # maximum Newton iterations; ten suffice
_STILL = 1e-10
_LEAST = 20  # minimum messages of either class
_LOST = 0.001  # share of ham above the suggested threshold of spam
_PASSED = 0.01  # share of spam below the suggested threshold of ham
_CAUTION = 1.5  # minimum log-odds of a threshold (0.82, 0.18), because future mail differs


@dataclass(frozen=True, slots=True)
class Fit:
    """The Laplace posterior of the scales."""

    scales: Floats  # (views,)
    deviations: Floats  # (views,); 0 where a scale is held at 0


@dataclass(frozen=True, slots=True)
class Tuning:
    """A rule for a mailbox, and its comparison with the previous one."""

    before: Rule
    after: Rule
    fit: Fit
    was: Measures  # by the previous rule, leave-one-out
    would_be: Measures  # by scales that were fitted without the message's fold
    gain: float  # decrease of the mean log-loss
    chance: float  # standard error of the gain
    offered: tuple[
        float | None, float | None
    ]  # suggested thresholds of spam and ham; None with too little mail

    @property
    def is_better(self) -> bool:
        """Whether the gain exceeds its standard error."""
        return self.gain > self.chance


def tune(corpus: Corpus, before: Rule | None = None, seed: int = 0) -> Tuning:
    """Fit the scales to a corpus, and check by folds whether that helps."""
    default = RULES[corpus.token_version]
    before = before or default
    spams = int(corpus.is_spam.sum())
    if min(spams, len(corpus) - spams) < _LEAST:
        raise ValueError(
            f"got {spams:,} spam and {len(corpus) - spams:,} ham (each message once), expected at least "
            f"{_LEAST} of each to tune by: name more mail"
        )
    scores = corpus.leave_one_out(before)
    centre = np.array([view.scale for view in default.views])
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
    """Return the rule with the suggested thresholds that are known."""
    spam, ham = offered
    return replace(rule, spam=rule.spam if spam is None else spam, ham=rule.ham if ham is None else ham)


def _round_probability(log_odds: float) -> float | None:
    """Convert log-odds to a probability of two significant digits; None if they are infinite."""
    if not np.isfinite(log_odds):
        return None
    p = float(probabilities(np.array(log_odds)))
    return 1 - float(f"{1 - p:.2g}") if p > 0.5 else float(f"{p:.2g}")


def fit(scores: Floats, is_spam: NDArray[np.bool_], centre: Floats, width: float = _WIDTH) -> Fit:
    """Find the posterior mode of the scales."""
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
