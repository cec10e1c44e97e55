"""A map of the mailbox: the first two principal components of the features of learned messages."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis import PCA
from tamis_mail.reporting.corpus import Corpus
from tamis_mail.reporting.feature_columns import choose_columns
from tamis_mail.verdict.rule import LAYER_VIEWS

_COLUMNS = 600  # maximum number of features; with 1200, the map of the sample mailbox looks the same
_MIN_MESSAGES = 3


@dataclass(frozen=True, slots=True)
class MailboxMap:
    """The position of each message on the two axes."""

    positions: NDArray[np.float64]  # (messages, 2)
    shares: tuple[float, float]  # the part of the variance that each axis explains


def compute_map(corpus: Corpus) -> MailboxMap | None:
    """Place messages with similar headers, words and relations near each other.

    Return None if there are fewer than three messages, or fewer than two features to compare them by.
    """
    columns = choose_columns(corpus, np.arange(len(corpus)), _COLUMNS, LAYER_VIEWS)
    if len(corpus) < _MIN_MESSAGES or columns.rows.shape[1] < 2:
        return None
    # The solver "moments" would keep exact sums of products, which the map does not need: they take seconds.
    model = PCA(2, solver="randomized", random_state=0)
    positions = model.fit_transform(columns.rows)
    first, second = model.explained_variance_ratio_.tolist()
    return MailboxMap(positions, (first, second))
