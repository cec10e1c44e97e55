"""log-odds and true labels → the measures of a report: ROC area, log-loss, calibration and others."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.links import sigmoid
from tamis_mail.verdict.rule import Rule

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_N_BINS = 10


@dataclass(frozen=True, slots=True)
class Measures:
    """How well messages were judged; the integers are numbers of messages."""

    messages: int
    spam: int
    right: int  # messages whose more probable label is the true one; equal odds count as ham
    ham_called_spam: int  # by the thresholds of the rule, as the next two
    spam_called_ham: int
    unsure: int
    roc_area: float  # probability that a spam scores above a ham; NaN without both classes
    log_loss: float  # nats per message
    brier: float  # mean of (predicted probability − label)²
    calibration_error: float  # mean of |predicted − observed| over the bins, weighted by numbers of messages

    @property
    def accuracy(self) -> float:
        return self.right / self.messages if self.messages else float("nan")

    @property
    def misses(self) -> int:
        """Messages whose more probable label is wrong."""
        return self.messages - self.right

    @property
    def ham(self) -> int:
        return self.messages - self.spam


@dataclass(frozen=True, slots=True)
class Bin:
    """Messages with similar predicted probability (one calibration bin)."""

    low: float
    high: float
    messages: int
    spam: int
    predicted: float  # mean probability of spam

    @property
    def observed(self) -> float:
        """The share of spam."""
        return self.spam / self.messages


def measure(log_odds: Floats, is_spam: Booleans, rule: Rule) -> Measures:
    """Compute all measures from the log-odds of spam (messages,) and the true labels (messages,)."""
    p = sigmoid(log_odds)
    calibration_bins = bins(p, is_spam)
    n = len(p)
    error = sum(one.messages * abs(one.predicted - one.observed) for one in calibration_bins)
    return Measures(
        messages=n,
        spam=int(is_spam.sum()),
        right=int(((log_odds > 0) == is_spam).sum()),
        ham_called_spam=int((p[~is_spam] >= rule.spam).sum()),
        spam_called_ham=int((p[is_spam] <= rule.ham).sum()),
        unsure=int(((p < rule.spam) & (p > rule.ham)).sum()),
        roc_area=roc_area(log_odds, is_spam),
        log_loss=float(log_losses(log_odds, is_spam).mean()) if n else float("nan"),
        brier=float(np.square(p - is_spam).mean()) if n else float("nan"),
        calibration_error=error / n if n else float("nan"),
    )


def log_losses(log_odds: Floats, is_spam: Booleans) -> Floats:
    """Return minus the log-probability of the true label of each message, (messages,)."""
    losses: Floats = np.logaddexp(0, np.where(is_spam, -log_odds, log_odds))
    return losses


def roc_area(log_odds: Floats, is_spam: Booleans) -> float:
    """Compute the ROC area by ranks; ties count half."""
    spams = int(is_spam.sum())
    hams = len(is_spam) - spams
    if not spams or not hams:
        return float("nan")
    _, inverse, counts = np.unique(log_odds, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[is_spam].sum() - spams * (spams + 1) / 2) / (spams * hams))


def roc_curve(log_odds: Floats, is_spam: Booleans) -> list[tuple[float, float]]:
    """Return the false and the true positive rate for each threshold, in ascending order, from (0, 0).

    There must be at least one message; the rate of a class without messages is 0.
    """
    order = np.argsort(-log_odds, kind="stable")
    is_last = np.append(np.diff(log_odds[order]) != 0, True)  # a threshold cannot separate ties
    spam, ham = np.cumsum(is_spam[order])[is_last], np.cumsum(~is_spam[order])[is_last]
    rates = zip((ham / max(1, ham[-1])).tolist(), (spam / max(1, spam[-1])).tolist(), strict=True)
    return [(0.0, 0.0), *rates]


def bins(p: Floats, is_spam: Booleans) -> list[Bin]:
    """Return ten calibration bins of equal width, without empty ones."""
    numbers = np.minimum((p * _N_BINS).astype(np.intp), _N_BINS - 1)
    filled = []
    for number in range(_N_BINS):
        is_in_bin = numbers == number
        if is_in_bin.any():
            low, high = number / _N_BINS, (number + 1) / _N_BINS
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
