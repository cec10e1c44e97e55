"""Read a bounded sample of the messages whose features a store has as a corpus, with their dates.

A message is called remembered if the store has its features, as it normally does of each learned message.
The sample depends only on which messages are remembered: of spam and of other mail, it has the messages with
the smallest digests. A digest is a hash, so such a sample is as good as a random one, and it changes little
when a message is learned or forgotten.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.labels import SPAM
from tamis_mail.reporting.corpus import Corpus
from tamis_mail.store import Store

Indices = NDArray[np.intp]

_MIN_SHARE = 0.25  # of the sample for each class, or all of its messages if they are fewer


@dataclass(frozen=True, slots=True)
class RememberedMessages:
    """A sample of the learned messages whose features a store has."""

    corpus: Corpus  # in the order of digests
    dates: NDArray[np.float64]  # (messages,): seconds since 1970 by the message's own date; NaN if unknown
    total: int  # remembered messages with a label that was not guessed


def read_remembered(store: Store, limit: int) -> RememberedMessages:
    """Read the features of at most `limit` messages; guessed labels do not count."""
    with store.snapshot():
        spam_columns = [label.id for label in store.labels() if label.name == SPAM]
        total = 0

        def choose(columns: Indices) -> Indices:
            nonlocal total
            total = len(columns)
            return choose_sample(np.isin(columns, spam_columns), limit)

        messages = store.message_features(choose=choose)
        version = store.token_version()
    corpus = Corpus(
        messages.keys,
        messages.indices.astype(np.int32),
        messages.starts,
        is_spam=np.isin(messages.labels, spam_columns),
        positions=np.arange(len(messages)),  # all messages that were read are in the corpus
        digests=tuple(messages.digests),
        duplicates=0,
        disputed=0,  # a store has a message under one label only
        token_version=version,
    )
    return RememberedMessages(corpus, messages.dates, total)


def choose_sample(is_spam: NDArray[np.bool_], limit: int) -> Indices:
    """Choose at most `limit` messages, the first of either class, in proportion; return their indices.

    At least a quarter of them, rounded down, is of the rarer class, if it has enough messages.

    >>> choose_sample(np.array([False] * 90 + [True] * 10), 8).tolist()
    [0, 1, 2, 3, 4, 5, 90, 91]
    """
    spam, other = np.flatnonzero(is_spam), np.flatnonzero(~is_spam)
    if len(is_spam) <= limit:
        return np.arange(len(is_spam))
    minimum = int(limit * _MIN_SHARE)
    spams = round(limit * len(spam) / len(is_spam))
    spams = min(max(spams, min(len(spam), minimum)), limit - min(len(other), minimum))
    return np.sort(np.concatenate([spam[:spams], other[: limit - spams]]))
