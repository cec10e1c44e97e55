"""Tapes as those of experiment 0015, with other weights of features.

A feature that s spam and h other messages have weighs log P(spam | feature) / P(ham | feature) - log Ns / Nh. The
probability is the posterior mean under a Beta prior of k messages that is centred on the share of spam. k is
fitted to the store for each view: it is the k by which each message's label is best predicted by each of its
features, given the other messages that have it.
"""

import hashlib
import pickle
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import tape
from streams import Stream

from tamis_mail.features.arrays import expand_ranges
from tamis_mail.verdict import arrays

GRID = 2.0 ** np.arange(-5, 5)  # of k
DEFAULT = 2.0  # before the first fit


def weigh(view, s, h, spams, hams):
    share = spams / (spams + hams)
    return np.log((s + view.prior * share) / (h + view.prior * (1 - share))) - np.log(spams / hams)


def find_priors(kinds: np.ndarray, counts: np.ndarray, totals: np.ndarray) -> list[float]:
    groups, firsts = arrays.group_counts(kinds, counts)
    repeats = np.bincount(groups)
    kinds, counts = kinds[firsts], counts[firsts]
    found = []
    share = totals[1] / totals.sum()
    for kind in range(len(tape.RULE.views)):
        chosen = (kinds == kind) & (counts.sum(axis=1) > 1)
        if not chosen.any():
            found.append(DEFAULT)
            continue
        h, s = counts[chosen].T.astype(float)
        losses = []
        for k in GRID:
            p = (np.maximum(s - 1, 0) + k * share) / (s + h - 1 + k)
            q = (np.maximum(h - 1, 0) + k * (1 - share)) / (s + h - 1 + k)
            losses.append(-(repeats[chosen] * (s * np.log(p) + h * np.log(q))).sum())
        found.append(float(GRID[np.argmin(losses)]))
    return found


class Reader(tape.Reader):
    """The reader of experiment 0015 with these weights."""

    def __init__(self, corpus, fixed: float | None) -> None:
        super().__init__(corpus)
        self.fixed = fixed
        self.set_priors([fixed or DEFAULT] * len(RULE.views))
        self.history = []

    def set_priors(self, priors) -> None:
        views = (replace(view, prior=k) for view, k in zip(RULE.views, priors, strict=True))
        self.rule = replace(RULE, views=tuple(views))

    def leave_one_out(self, chosen, counts, totals):
        if self.fixed is None:
            starts = self.features.starts
            places, _ = expand_ranges(starts[chosen], starts[chosen + 1])
            is_used = np.zeros(len(counts), bool)
            is_used[self.features.places[places]] = True
            used = np.flatnonzero(is_used)
            priors = find_priors(self.features.kinds[used], counts[used], totals)
            self.set_priors(priors)
            self.history.append((len(chosen), priors))
        with patch.object(tape, "RULE", self.rule), patch.object(arrays, "weigh", weigh):
            return super().leave_one_out(chosen, counts, totals)

    def score(self, messages):
        with patch.object(tape, "RULE", self.rule), patch.object(arrays, "weigh", weigh):
            return super().score(messages)


RULE = tape.RULE


def read_tape(stream: Stream, cache: Path, weights: str) -> tape.Tape:
    """Record a stream, or take the tape from the cache. `weights`: "before", "evidence" or a k for all views."""
    if weights == "before":
        return tape.read_tape(stream, cache)
    mark = hashlib.sha256(f"{stream.group}|{stream.name}".encode()).hexdigest()[:20]
    path = cache / "tapes" / f"{mark}-{weights}.pickle"
    if not path.exists():
        reader = Reader(stream.corpus, None if weights == "evidence" else float(weights))
        with patch.object(tape, "Reader", lambda corpus: reader):
            recorded = tape.record(stream)
        path.write_bytes(pickle.dumps((recorded, reader.history)))
    return pickle.loads(path.read_bytes())[0]
