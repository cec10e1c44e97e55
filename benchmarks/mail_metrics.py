"""scores and labels → figures: how a filter ranks mail, calls it, and what its probabilities are worth."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from tamis_mail.labels import HAM, SPAM

__all__ = ["Area", "Figures", "area", "calibration_error", "figures", "log_loss", "missed", "roc_area"]

Numbers = NDArray[np.float64]
Truth = NDArray[np.bool_]  # whether each is spam

LOSSES = (0.001, 0.005, 0.01)  # shares of ham that may be lost
SURE = 1e-6  # a probability nearer to 0 or 1 counts as this near: some filters claim 0 and 1 themselves


@dataclass(frozen=True, slots=True)
class Area:
    """1 - the area under the ROC curve, in per cent, with its 95 % interval (DeLong, on log-odds)."""

    above: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.above:.3f} ({self.low:.3f}–{self.high:.3f})"


@dataclass(frozen=True, slots=True)
class Figures:
    """What there is to say of a filter after a stream; shares in per cent."""

    area: Area
    missed: tuple[float, ...]  # spam at or below the threshold that loses as much ham as LOSSES say
    ham_as_spam: float
    ham_unsure: float
    spam_not_spam: float
    spam_as_ham: float
    brier: float
    errors: tuple[float, float]  # expected calibration error, 10 and 15 bins
    log_loss: float


def roc_area(scores: Numbers, spam: Truth) -> float:
    """That a spam message has the higher score than a ham message; half if they have the same."""
    spams = int(spam.sum())
    hams = len(spam) - spams
    return float((rankdata(scores)[spam].sum() - spams * (spams + 1) / 2) / (spams * hams))


def area(scores: Numbers, spam: Truth) -> Area:
    """The area above the curve, and how well it is known (DeLong and others 1988, by ranks)."""
    ours, others = scores[spam], scores[~spam]
    ranks = rankdata(scores)
    of_spam = (ranks[spam] - rankdata(ours)) / len(others)  # share of ham below each spam
    of_ham = 1 - (ranks[~spam] - rankdata(others)) / len(ours)
    inside = float(of_spam.mean())
    variance = float(of_spam.var(ddof=1)) / len(ours) + float(of_ham.var(ddof=1)) / len(others)
    above = 1 - inside
    if not 0 < above < 1:
        return Area(100 * above, 100 * above, 100 * above)
    centre, spread = log(above / inside), 1.96 * variance**0.5 / (above * inside)
    low, high = (1 / (1 + exp(-(centre + sign * spread))) for sign in (-1, 1))
    return Area(100 * above, 100 * low, 100 * high)


def missed(scores: Numbers, spam: Truth, loss: float) -> float:
    """Per cent of spam at or below the threshold that loses no more than this share of the ham."""
    ham = np.sort(scores[~spam])[::-1]
    return float(100 * np.mean(scores[spam] <= ham[int(loss * len(ham))]))


def calibration_error(probabilities: Numbers, spam: Truth, bins: int) -> float:
    """Mean distance of what was claimed from what was so, over bins of equal width."""
    bin_of = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    claimed = np.bincount(bin_of, probabilities, bins)
    was = np.bincount(bin_of, spam, bins)
    return float(np.abs(claimed - was).sum() / len(spam))


def log_loss(probabilities: Numbers, spam: Truth) -> float:
    """Mean surprise, in nats."""
    bounded = np.clip(probabilities, SURE, 1 - SURE)
    return float(-np.mean(np.log(np.where(spam, bounded, 1 - bounded))))


def figures(scores: Numbers, probabilities: Numbers, verdicts: Sequence[str], spam: Truth) -> Figures:
    """All figures of a stream."""
    called = np.array(verdicts)
    return Figures(
        area=area(scores, spam),
        missed=tuple(missed(scores, spam, loss) for loss in LOSSES),
        ham_as_spam=_percent(called[~spam] == SPAM),
        ham_unsure=_percent((called[~spam] != SPAM) & (called[~spam] != HAM)),
        spam_not_spam=_percent(called[spam] != SPAM),
        spam_as_ham=_percent(called[spam] == HAM),
        brier=float(np.mean((probabilities - spam) ** 2)),
        errors=(calibration_error(probabilities, spam, 10), calibration_error(probabilities, spam, 15)),
        log_loss=log_loss(probabilities, spam),
    )


def _percent(which: Truth) -> float:
    return float(100 * which.mean())
