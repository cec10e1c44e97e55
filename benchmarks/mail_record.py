"""answers of filters to a stream of mail → figures with 95 % intervals, for `benchmarks.scoreboard`."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from benchmarks.mail_answer import Answer
from benchmarks.mail_metrics import LOSSES, SURE, Numbers, Truth, figures

__all__ = ["WANTED", "describe_filter", "describe_versions"]

# What is wanted of tamis, by stream: corpus and order.
WANTED: dict[str, dict[str, float]] = {
    "spamassassin, random": {
        "1-ROCA %": 0.027,
        "missed at 0.1 %": 4.0,
        "ham called spam %": 0.1,
        "spam not called spam %": 6.0,
    },
    "modern-mail, random": {
        "1-ROCA %": 1.6,
        "missed at 0.1 %": 25.0,
        "ham called spam %": 0.5,
        "spam not called spam %": 30.0,
        "calibration error": 0.04,
    },
}
BINS = 10  # of the calibration plot and error
_Z = 1.96
_VERSION = {
    "bogofilter": ["bogofilter", "-V"],
    "spamprobe": ["spamprobe", "version"],
    "spamassassin": ["spamassassin", "--version"],
    "rspamd": ["rspamd", "--version"],
}


def describe_filter(name: str, answers: Sequence[Answer], spam: Truth, seconds: float) -> dict[str, Any]:
    """All figures of a filter after a stream, with the bins of its calibration."""
    probabilities = np.array([answer.probability for answer in answers])
    scores = np.array([answer.score for answer in answers])
    found = figures(scores, probabilities, [answer.verdict for answer in answers], spam)
    spams = int(spam.sum())
    hams = len(spam) - spams
    bounded = np.clip(probabilities, SURE, 1 - SURE)
    surprise = -np.log(np.where(spam, bounded, 1 - bounded))
    shares = {
        **{
            f"missed at {100 * loss:g} %": (share, spams)
            for loss, share in zip(LOSSES, found.missed, strict=True)
        },
        "ham called spam %": (found.ham_as_spam, hams),
        "ham unsure %": (found.ham_unsure, hams),
        "spam not called spam %": (found.spam_not_spam, spams),
        "spam called ham %": (found.spam_as_ham, spams),
    }
    return {
        "filter": name,
        "figures": {
            "1-ROCA %": [found.area.above, found.area.low, found.area.high],
            **{measure: share_interval(share, count) for measure, (share, count) in shares.items()},
            "Brier": _mean_interval((probabilities - spam) ** 2),
            "log-loss": _mean_interval(surprise),
            "calibration error": [found.errors[0]],
        },
        "calibration": _calibration(probabilities, spam),
        "failed": sum(answer.failed for answer in answers),
        "seconds": seconds,
    }


def share_interval(percent: float, count: int) -> list[float]:
    """A share in per cent with Wilson's interval."""
    share = percent / 100
    centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2)) / (1 + _Z**2 / count)
    return [percent, 100 * max(0.0, centre - half), 100 * min(1.0, centre + half)]


def _mean_interval(values: Numbers) -> list[float]:
    mean = float(values.mean())
    half = _Z * float(values.std(ddof=1)) / sqrt(len(values))
    return [mean, max(0.0, mean - half), mean + half]


def _calibration(probabilities: Numbers, spam: Truth) -> list[list[float]]:
    bin_of = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    rows = []
    for number in range(BINS):
        inside = bin_of == number
        if count := int(inside.sum()):
            rows.append([count, float(probabilities[inside].mean()), float(spam[inside].mean())])
    return rows


def describe_versions(names: Sequence[str]) -> Mapping[str, str]:
    """The versions of programs, as they state them."""
    versions = {}
    for name in names:
        if name in _VERSION:
            done = subprocess.run(_VERSION[name], capture_output=True, text=True, check=False)
            if number := re.search(r"\d+(?:\.\d+)+\w*", done.stdout + done.stderr):
                versions[name] = number[0]
    return versions
