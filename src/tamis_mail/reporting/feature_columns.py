"""a corpus → a matrix for models of `tamis`: messages by the features that vary most among them.

A store has hundreds of thousands of features, most of them in one message only. A feature in the fraction p
of the messages has the variance p(1 - p). The features of largest variance are chosen. They are weighted
by the inverse document frequency log(1 / p), and the row of each message is divided by its norm; otherwise
features that nearly all messages have, and long messages, would dominate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features.arrays import expand_ranges, views
from tamis_mail.reporting.corpus import Corpus, Indices


@dataclass(frozen=True, slots=True)
class FeatureColumns:
    """Which message has which of the chosen features, weighted."""

    rows: NDArray[np.float64]  # (messages, features): each row has norm 1, or 0 without any of the features
    keys: NDArray[np.uint64]  # (features,), ascending


def choose_columns(
    corpus: Corpus, messages: Indices, limit: int, view_numbers: Sequence[int]
) -> FeatureColumns:
    """Choose at most `limit` features of these views that at least two of the messages have, but not all.

    Of features with equal variances, the smaller keys are chosen.
    """
    # Of each feature of these messages: its index in the corpus, and that of its message among `messages`.
    places, owners = expand_ranges(corpus.starts[messages], corpus.starts[messages + 1])
    ids = corpus.ids[places]
    counts = np.bincount(ids, minlength=len(corpus.keys))
    is_candidate = np.isin(views(corpus.keys, corpus.token_version), view_numbers)
    is_candidate &= (counts > 1) & (counts < len(messages))
    candidates = np.flatnonzero(is_candidate)
    share = counts[candidates] / max(1, len(messages))
    order = np.argsort(-share * (1 - share), kind="stable")
    chosen = np.sort(candidates[order[:limit]])
    column = np.full(len(corpus.keys), -1, np.intp)
    column[chosen] = np.arange(len(chosen))
    is_chosen = column[ids] >= 0
    rows = np.zeros((len(messages), len(chosen)))
    rows[owners[is_chosen], column[ids[is_chosen]]] = 1.0
    rows *= np.log(len(messages) / np.maximum(counts[chosen], 1))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return FeatureColumns(rows / np.where(norms > 0, norms, 1.0), corpus.keys[chosen])
