"""Find the learned messages that are most similar to a message, by their features.

The similarity of two messages is the cosine of their sets of features, each feature weighted by its inverse
document frequency, log((1 + n) / (1 + n_with_feature)): a feature that most messages share says little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis_mail.features import GRAMS, view_mask
from tamis_mail.store.bundle_arrays import MessageFeatures

SAMPLE = 4000  # maximum of learned messages that are compared: 3 million features, a tenth of a second
_MIN_SIMILARITY = 0.05  # messages that are less similar share only frequent words


@dataclass(frozen=True, slots=True)
class SimilarMessage:
    """A learned message, its similarity from 0 to 1, and the keys of the shared features with most weight."""

    digest: bytes
    label: int  # the column of its label in the store
    similarity: float
    shared: list[int]


def choose_sample(labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """Choose the learned messages that are compared: all, or evenly spaced ones; return their indices.

    `labels` (messages,) has one entry per learned message, in the order of digests.
    """
    n_messages = len(labels)
    if n_messages <= SAMPLE:
        return np.arange(n_messages)
    return np.linspace(0, n_messages - 1, SAMPLE).astype(np.intp)


def find_similar(
    messages: MessageFeatures,
    features: Sequence[int],
    token_version: int,
    *,
    own_digest: bytes = b"",
    limit: int = 5,
    n_shared: int = 6,
) -> list[SimilarMessage]:
    """Return at most `limit` messages that are most similar to one with these features, except itself.

    Each has at most `n_shared` shared features. A similarity below _MIN_SIMILARITY does not count. N-grams of
    bytes are left out: most of them come from the route of a message, not from its content.
    """
    if not len(messages):
        return []
    own_keys = np.array(sorted(features), np.uint64)  # of the message with which others are compared
    # The mask selects the bits of a key that hold its view.
    own_keys = own_keys[(own_keys & np.uint64(view_mask(token_version))) != GRAMS]
    is_counted = (messages.keys & np.uint64(view_mask(token_version))) != GRAMS
    document_counts = np.bincount(messages.indices, minlength=len(messages.keys))
    weights = np.log((1 + len(messages)) / (1 + document_counts)) * is_counted
    is_shared = np.isin(messages.keys, own_keys, assume_unique=True)
    n_unknown = len(own_keys) - int((is_shared & is_counted).sum())
    own_squared_norm = float((weights[is_shared] ** 2).sum() + n_unknown * np.log(1 + len(messages)) ** 2)
    squares = weights[messages.indices] ** 2
    sizes = np.diff(messages.starts)
    owners = np.repeat(np.arange(len(messages)), sizes)  # the index of the message of each feature
    squared_norms = np.bincount(owners, squares, len(messages))
    products = np.bincount(owners, squares * is_shared[messages.indices], len(messages))
    similarities = products / np.sqrt(np.maximum(squared_norms * own_squared_norm, 1e-300))
    similar: list[SimilarMessage] = []
    for place in np.argsort(-similarities, kind="stable"):
        if len(similar) == limit or similarities[place] < _MIN_SIMILARITY:
            break
        if messages.digests[place] == own_digest:
            continue
        indices = messages.indices[messages.starts[place] : messages.starts[place + 1]]
        indices = indices[is_shared[indices] & is_counted[indices]]
        strongest = indices[np.argsort(-weights[indices], kind="stable")[:n_shared]]
        similar.append(
            SimilarMessage(
                messages.digests[place],
                int(messages.labels[place]),
                float(min(1.0, similarities[place])),
                [int(key) for key in messages.keys[strongest]],
            )
        )
    return similar
