"""log-odds and labels → figures of a group of streams, with intervals by resampling."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from streams import Stream

FIGURES = (
    "1-ROCA %",
    "missed at 0.1 % ham loss",
    "ham called spam %",
    "spam not called spam %",
    "unsure %",
    "calibration error",
    "log-loss",
)
_RESAMPLES = 200


@dataclass(frozen=True)
class Answers:
    """What a rule said of the judged messages of one stream."""

    stream: Stream
    log_odds: np.ndarray
    spam: float  # minimum probability of spam
    ham: float  # maximum probability of ham

    def measure(self, chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
        """(7,): the figures of all judged messages, or of some."""
        log_odds, y = self.log_odds[chosen], self.stream.labels[chosen]
        of_spam, of_ham = log_odds[y == 1], np.sort(log_odds[y == 0])[::-1]
        area = (rankdata(log_odds)[y == 1].sum() - len(of_spam) * (len(of_spam) + 1) / 2) / (
            len(of_spam) * len(of_ham)
        )
        missed = np.mean(of_spam <= of_ham[int(0.001 * len(of_ham))])
        p = 1 / (1 + np.exp(-np.clip(log_odds, -500, 500)))
        bins = np.minimum((10 * p).astype(int), 9)
        error = np.abs(np.bincount(bins, p, 10) - np.bincount(bins, y, 10)).sum() / len(y)
        is_called = p >= self.spam
        loss = np.logaddexp(0, np.clip((1 - 2 * y) * log_odds, -50, 50)).mean()
        shares = (
            1 - area,
            missed,
            is_called[y == 0].mean(),
            np.mean(~is_called[y == 1]),
            np.mean((p > self.ham) & ~is_called),
        )
        return np.array([*(100 * share for share in shares), error, loss])


def resample(streams: Sequence[Stream], seed: int) -> list[tuple[int, np.ndarray]]:
    """Draw streams of a group and messages of each class; all orders of the same messages share the draw."""
    rng = np.random.default_rng(seed)
    drawn: dict[bytes, np.ndarray] = {}
    chosen = []
    for which in rng.integers(len(streams), size=len(streams)).tolist():
        stream = streams[which]
        judged = stream.order[stream.known :]
        order = np.argsort(judged, kind="stable")
        mark = judged[order].tobytes()
        if mark not in drawn:
            y = stream.corpus.labels[judged[order]]
            drawn[mark] = np.concatenate(
                [rng.choice(np.flatnonzero(y == kind), np.sum(y == kind)) for kind in (0, 1)]
            )
        chosen.append((which, order[drawn[mark]]))
    return chosen


def measure_group(answers: Sequence[Answers]) -> np.ndarray:
    """(7,): the mean of the figures over the streams of a group."""
    return np.mean([one.measure() for one in answers], axis=0)


def resample_group(answers: Sequence[Answers]) -> np.ndarray:
    """(resamples, 7): the figures of resampled groups; rules of one group have the same resamples."""
    streams = [one.stream for one in answers]
    return np.array(
        [
            np.mean([answers[which].measure(chosen) for which, chosen in resample(streams, seed)], axis=0)
            for seed in range(_RESAMPLES)
        ]
    )
