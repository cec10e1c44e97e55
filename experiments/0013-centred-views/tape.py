"""One pass over a stream: what every rule needs to know of each judged message, and of each fit.

The sums of weights do not depend on scales, centres or shrinkage. So a stream is read once, the sums are kept
in a cache, and each rule is then a matter of seconds.
"""

import hashlib
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from streams import Features, Stream

from tamis_mail.verdict import RULES, fitting

RULE = RULES[2]
VIEWS = len(RULE.views)
POOLED = np.array([view.pooled for view in RULE.views])
WORTH = np.array([view.prior if view.pooled else 2 * view.prior for view in RULE.views])
SUMS = ("weights", "weights of features seen often", "weights by another prior", "features", "known features")
STEPS = {"a quarter": 4, "a tenth": 10}  # by which share more a size of the schedule is


@dataclass(frozen=True)
class Fit:
    """The messages that are fitted at one moment, each by the counts of all others."""

    judged: int  # messages that were judged before
    is_due: dict[str, bool]  # by schedule
    messages: np.ndarray
    sums: np.ndarray  # (messages, SUMS, views)
    totals: np.ndarray  # (messages, 2): spam and ham, without the message itself
    spams: float
    hams: float


@dataclass(frozen=True)
class Tape:
    """The sums of each judged message, the messages known at the time, and the fits."""

    sums: np.ndarray  # (judged, SUMS, views)
    totals: np.ndarray  # (judged, 2)
    fits: list[Fit]


def scheduled_size(messages: int, step: int) -> int:
    size, following = 0, 12
    while following <= messages:
        size, following = following, following + max(following // step, 1)
    return size


class Reader:
    """Counts of what was learned so far."""

    def __init__(self, stream: Stream) -> None:
        self.corpus = stream.corpus
        self.features: Features = self.corpus.features(2)
        self.counts = np.zeros((2, len(self.features.keys)))
        self.totals = np.zeros(2)
        self.messages: list[int] = []
        self.seen: set[int] = set()
        self.fitted_at = dict.fromkeys(STEPS, 0)

    def learn(self, message: int) -> None:
        rank, label = int(self.corpus.ranks[message]), self.corpus.labels[message]
        if rank not in self.seen:
            self.seen.add(rank)
            self.counts[label][self.features.of(message)] += 1
            self.totals[label] += 1
            self.messages.append(message)

    def find_fit(self, judged: int) -> Fit | None:
        """The fit that a schedule asks for now, if any."""
        n = len(self.messages)
        due = {
            name: scheduled_size(n, step) != scheduled_size(self.fitted_at[name], step)
            for name, step in STEPS.items()
        }
        if self.totals.min() < fitting.MIN_FITTED_MESSAGES or not any(due.values()):
            return None
        self.fitted_at |= {name: n for name, is_due in due.items() if is_due}
        by_digest = np.array(self.messages)[np.argsort(self.corpus.ranks[self.messages])]
        chosen = by_digest[fitting.training_sample(self.corpus.labels[by_digest] == 1)]
        sums, totals = self.sum_views(chosen, is_counted=True)
        return Fit(judged, due, chosen, sums, totals, self.totals[1], self.totals[0])

    def sum_views(self, messages: np.ndarray, *, is_counted: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(messages, SUMS, views) and (messages, 2); messages that are counted are subtracted."""
        n = len(messages)
        places = np.concatenate([self.features.of(message) for message in messages])
        row = np.repeat(np.arange(n), self.features.starts[messages + 1] - self.features.starts[messages])
        kind = self.features.kinds[places]
        h, s = self.counts[:, places]
        hams, spams = np.repeat(self.totals[:, np.newaxis], n, axis=1)
        if is_counted:
            own = self.corpus.labels[messages].astype(float)
            h, s = h - (1 - own)[row], s - own[row]
            hams, spams = hams - (1 - own), spams - own
        known = s + h > 0
        both = known & (hams[row] > 0) & (spams[row] > 0)
        worth = WORTH[kind]
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(POOLED[kind], (s + h) / (spams + hams)[row], 0.5)
            w = np.log((s + worth * rate) / (spams[row] + worth)) - np.log(
                (h + worth * rate) / (hams[row] + worth)
            )
            other = np.log((s + 0.1) / (spams[row] + 0.2)) - np.log((h + 0.1) / (hams[row] + 0.2))
        w, other = np.where(both, w, 0.0), np.where(both, other, 0.0)
        columns = (w, w * (s + h) / (s + h + 1), other, np.ones(len(w)), known.astype(float))
        cell = row * VIEWS + kind
        sums = [np.bincount(cell, column, n * VIEWS).reshape(n, VIEWS) for column in columns]
        return np.stack(sums, axis=1), np.column_stack([spams, hams])


def record(stream: Stream) -> Tape:
    reader, sums, totals, fits = Reader(stream), [], [], []
    for message in stream.order[: stream.known].tolist():
        reader.learn(message)
    fits.append(reader.find_fit(0))
    for message in stream.order[stream.known :].tolist():
        (of_message,), (known,) = reader.sum_views(np.array([message]))
        sums.append(of_message)
        totals.append(known)
        if stream.learns:
            reader.learn(message)
            fits.append(reader.find_fit(len(sums)))
    return Tape(np.array(sums), np.array(totals), [fit for fit in fits if fit is not None])


def read_tape(stream: Stream, cache: Path) -> Tape:
    """Record a stream, or take the tape from the cache."""
    mark = hashlib.sha256(f"{stream.group}|{stream.name}".encode()).hexdigest()[:20]
    path = cache / "tapes" / f"{mark}.pickle"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(record(stream)))
    return pickle.loads(path.read_bytes())
