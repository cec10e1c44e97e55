"""One pass over a stream: the scores of each judged message, and each fit's held-out scores of all messages.

They are computed by the functions of the filter. They depend neither on scales nor on the layer, so that they
are kept in a cache, and each rule needs only its own fits.
"""

import hashlib
import pickle
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from streams import Corpus, Stream

from tamis_mail.features.arrays import expand_ranges
from tamis_mail.labels import HAM, SPAM, Label
from tamis_mail.sieve.weights import find_scheduled_size
from tamis_mail.verdict import RULES, arrays, fitting
from tamis_mail.verdict.arrays import score_and_find_presences
from tamis_mail.verdict.judging import shrinkage
from tamis_mail.verdict.rule import sides

RULE = RULES[2]
SCALES = np.array([view.scale for view in RULE.views])


@dataclass(frozen=True)
class Fit:
    """All messages that are known at one moment, in the order of their digests, each by all others."""

    judged: int  # messages that were judged before
    messages: np.ndarray
    held_out: fitting.HeldOut


@dataclass(frozen=True)
class Fold:
    """Messages of a fit by the counts of those of other folds."""

    train: np.ndarray  # places among the messages of the fit
    held: np.ndarray
    of_train: fitting.HeldOut  # each by all others of these
    of_held: fitting.HeldOut


@dataclass(frozen=True)
class Tape:
    scores: np.ndarray  # (judged, views): without centres
    presences: np.ndarray
    factors: np.ndarray  # (judged,): of the intercept
    fits: list[Fit]


def make_labels(totals: np.ndarray) -> list[Label]:
    return [
        Label(i, name, int(n), int(n), 0, 0)
        for i, (name, n) in enumerate(zip((HAM, SPAM), totals, strict=True))
    ]


class Reader:
    """Counts of what was learned so far."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus, self.features = corpus, corpus.features(2)
        self.counts = np.zeros((len(self.features.keys), 2), np.int64)
        self.totals = np.zeros(2, np.int64)
        self.messages: list[int] = []
        self.seen: set[int] = set()
        self.fitted_at = 0

    def learn(self, message: int) -> None:
        rank, label = int(self.corpus.ranks[message]), int(self.corpus.labels[message])
        if rank not in self.seen:
            self.seen.add(rank)
            self.counts[self.features.of(message), label] += 1
            self.totals[label] += 1
            self.messages.append(message)

    def leave_one_out(self, chosen: np.ndarray, counts: np.ndarray, totals: np.ndarray) -> fitting.HeldOut:
        features = self.features
        training = fitting.Training.from_messages(
            features.places,
            features.starts,
            self.corpus.labels,
            np.ones(len(self.corpus), np.int64),
            chosen,
            len(features.keys),
        )
        used = training.distinct
        return fitting.leave_one_out(
            training, features.keys[used], counts[used], make_labels(totals), RULE, 1
        )

    def find_fit(self, judged: int) -> Fit | None:
        n = len(self.messages)
        if self.totals.min() < fitting.MIN_FITTED_MESSAGES or find_scheduled_size(n) == find_scheduled_size(
            self.fitted_at
        ):
            return None
        self.fitted_at = n
        chosen = np.array(self.messages)[np.argsort(self.corpus.ranks[self.messages])]
        return Fit(judged, chosen, self.leave_one_out(chosen, self.counts, self.totals))

    def score(self, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        starts, ends = self.features.starts[messages], self.features.starts[messages + 1]
        places, _ = expand_ranges(starts, ends)
        keys, rows = np.unique(self.features.places[places], return_inverse=True)
        spam, rest = sides(make_labels(self.totals), SPAM, [HAM], 1, 0.0)
        bounds = np.cumsum([0, *(ends - starts)])
        found = score_and_find_presences(
            rows, (bounds[:-1], bounds[1:]), self.features.kinds[keys], self.counts[keys], RULE, spam, rest
        )
        return *found, np.full(len(messages), shrinkage(spam.messages[0], rest.messages[0], RULE))


def split_folds(corpus: Corpus, messages: np.ndarray, number: int) -> list[Fold]:
    """Folds by digest; both the counts and the scores of a fold are without it."""
    reader, folds = Reader(corpus), []
    for fold in range(number):
        is_held = corpus.folds[messages] % number == fold
        train, held = np.flatnonzero(~is_held), np.flatnonzero(is_held)
        reader.counts[:] = 0
        labels = corpus.labels[messages]
        for label in (0, 1):
            places, _ = expand_ranges(
                *(reader.features.starts[messages[train[labels[train] == label]] + i] for i in (0, 1))
            )
            reader.counts[:, label] = np.bincount(
                reader.features.places[places], minlength=len(reader.counts)
            )
        reader.totals = np.bincount(labels[train], minlength=2)
        if reader.totals.min() < 2 or not len(held):
            continue
        scores, presences, factors = reader.score(messages[held])
        folds.append(
            Fold(
                train,
                held,
                reader.leave_one_out(messages[train], reader.counts, reader.totals),
                fitting.HeldOut(np.column_stack([scores, factors]), presences),
            )
        )
    return folds


def record(stream: Stream) -> Tape:
    reader, found = Reader(stream.corpus), []
    for message in stream.order[: stream.known].tolist():
        reader.learn(message)
    fits = [reader.find_fit(0)]
    if stream.learns:
        for number, message in enumerate(stream.order[stream.known :].tolist(), 1):
            found.append(reader.score(np.array([message])))
            reader.learn(message)
            fits.append(reader.find_fit(number))
    else:
        found.append(reader.score(stream.order[stream.known :]))
    return Tape(*map(np.concatenate, zip(*found, strict=True)), [fit for fit in fits if fit is not None])


RELUCTANCES = np.array([view.reluctance for view in RULE.views])
TYPICAL = np.array([400.0, 90.0, 150.0, 200.0, 22.0])  # features of a message of mail, by view


def change_means(
    scores: np.ndarray,
    presences: np.ndarray,
    factors: np.ndarray,
    sizes: np.ndarray,
    growth: float,
    unseen: float,
    reluctances: tuple[float, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and presences by other means of the views; `sizes` are the features of each message and view.

    A mean over n features says that twice as many features say no more, a sum that they say twice as much.
    With a growth g, they say 2ᵍ times as much. A message of the typical size keeps its scores.
    """
    whole = sizes + RELUCTANCES
    known = presences * whole / np.maximum(factors, 1e-300)[:, np.newaxis]
    chosen = np.array(reluctances) if reluctances else RELUCTANCES
    change = whole / (known + unseen * (sizes - known) + chosen)
    change *= (TYPICAL + chosen) / (TYPICAL + RELUCTANCES) * (whole / (TYPICAL + RELUCTANCES)) ** growth
    return scores * change, presences * change


# Other shapes of a feature's weight w, for a second score of each view; n messages have the feature.
SHAPES = {
    "strong": lambda w, n: np.sign(w) * np.maximum(np.abs(w) - 1.5, 0),
    "frequent": lambda w, n: w * n / (n + 3),
    "limited": lambda w, n: np.tanh(w),
    "for spam": lambda w, n: np.maximum(w, 0),
}


def read_tape(stream: Stream, cache: Path, shape: str = "") -> Tape:
    mark = hashlib.sha256(f"{stream.group}|{stream.name}".encode()).hexdigest()[:20]
    path = cache / "tapes" / f"{mark}{shape}.pickle"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with patch.object(arrays, "weigh", make_weigh(shape) if shape else arrays.weigh):
            path.write_bytes(pickle.dumps(record(stream)))
    return pickle.loads(path.read_bytes())


def make_weigh(shape: str):
    weigh = arrays.weigh
    return lambda view, s, h, spams, hams: SHAPES[shape](weigh(view, s, h, spams, hams), s + h)
