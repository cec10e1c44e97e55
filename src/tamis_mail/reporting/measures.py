"""log-odds and what the messages are → how good that was: the numbers of a report."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.verdict.rule import Rule

__all__ = ["Bin", "Measures", "bins", "log_losses", "measure", "probabilities", "roc_area", "roc_curve"]

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]

_BINS = 10


@dataclass(frozen=True, slots=True)
class Measures:
    """How well messages were judged; counts are of messages."""

    messages: int
    spam: int
    right: int  # on the likelier side, whatever the thresholds; even odds are ham
    ham_called_spam: int  # by the verdict, and so by the thresholds
    spam_called_ham: int  # likewise
    unsure: int  # likewise
    roc_area: float  # the chance that a spam is thought likelier to be spam than a ham; NaN without both
    log_loss: float  # nats a message
    brier: float
    calibration_error: float  # mean of |said − came true| over the bins, each as much as it holds

    @property
    def accuracy(self) -> float:
        return self.right / self.messages if self.messages else float("nan")

    @property
    def misses(self) -> int:
        """Messages that are thought likelier to be what they are not; all reports mean this by the word."""
        return self.messages - self.right

    @property
    def ham(self) -> int:
        return self.messages - self.spam


@dataclass(frozen=True, slots=True)
class Bin:
    """Messages of which about the same was said."""

    low: float
    high: float
    messages: int
    spam: int
    said: float  # mean probability

    @property
    def came_true(self) -> float:
        return self.spam / self.messages


def measure(log_odds: Floats, is_spam: Marks, rule: Rule) -> Measures:
    """All of them."""
    p = probabilities(log_odds)
    calibration_bins = bins(p, is_spam)
    n = len(p)
    return Measures(
        n,
        int(is_spam.sum()),
        int(((log_odds > 0) == is_spam).sum()),
        int((p[~is_spam] >= rule.spam).sum()),
        int((p[is_spam] <= rule.ham).sum()),
        int(((p < rule.spam) & (p > rule.ham)).sum()),
        roc_area(log_odds, is_spam),
        float(log_losses(log_odds, is_spam).mean()) if n else float("nan"),
        float(np.square(p - is_spam).mean()) if n else float("nan"),
        sum(one.messages * abs(one.said - one.came_true) for one in calibration_bins) / n
        if n
        else float("nan"),
    )


def probabilities(log_odds: Floats) -> Floats:
    """Of spam; neither end overflows."""
    found: Floats = np.exp(-np.logaddexp(0, -log_odds))
    return found


def log_losses(log_odds: Floats, is_spam: Marks) -> Floats:
    """(messages,): minus the log of the probability that was given to what each is."""
    found: Floats = np.logaddexp(0, np.where(is_spam, -log_odds, log_odds))
    return found


def roc_area(log_odds: Floats, is_spam: Marks) -> float:
    """By ranks, ties counted half."""
    spams = int(is_spam.sum())
    hams = len(is_spam) - spams
    if not spams or not hams:
        return float("nan")
    _, inverse, counts = np.unique(log_odds, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[is_spam].sum() - spams * (spams + 1) / 2) / (spams * hams))


def roc_curve(log_odds: Floats, is_spam: Marks) -> list[tuple[float, float]]:
    """Shares of ham and of spam that score above a threshold, for every threshold, from none to all."""
    order = np.argsort(-log_odds, kind="stable")
    is_last = np.append(np.diff(log_odds[order]) != 0, True)  # a threshold cannot tell ties apart
    spam, ham = np.cumsum(is_spam[order])[is_last], np.cumsum(~is_spam[order])[is_last]
    rates = zip((ham / max(1, ham[-1])).tolist(), (spam / max(1, spam[-1])).tolist(), strict=True)
    return [(0.0, 0.0), *rates]


def bins(p: Floats, is_spam: Marks) -> list[Bin]:
    """Ten of equal width; those that hold nothing are left out."""
    numbers = np.minimum((p * _BINS).astype(np.intp), _BINS - 1)
    filled = []
    for number in range(_BINS):
        is_in_bin = numbers == number
        if is_in_bin.any():
            low, high = number / _BINS, (number + 1) / _BINS
            filled.append(
                Bin(
                    low,
                    high,
                    int(is_in_bin.sum()),
                    int((is_in_bin & is_spam).sum()),
                    float(p[is_in_bin].mean()),
                )
            )
    return filled
