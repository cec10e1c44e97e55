"""Find campaigns in learned spam: groups of messages with the same words, by a mixture model of `tamis`.

The words of each message are projected on their first principal components, and a mixture of spherical
Gaussians is fitted by EM, with as many components as have the least BIC (Bayesian information criterion). A
component is a campaign if its messages are close to each other: the mean cosine of its messages' words is at
least _COHESION.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis import PCA, Mixture
from tamis_mail.features import WORDS
from tamis_mail.reporting.corpus import Corpus, Indices
from tamis_mail.reporting.feature_columns import FeatureColumns, choose_columns

_COLUMNS = 1000  # maximum number of words
_DIMENSIONS = 20  # principal components; on the sample mailbox, 5 and 10 find fewer of its kinds of spam
_SIZES = (2, 3, 4, 6, 8, 12, 16, 24)  # numbers of components that are compared
_COHESION = 0.2  # minimum cohesion of a campaign; messages of unrelated spam have a mean cosine of about 0.03
_MIN_SPAM = 8  # messages of spam in which campaigns are searched
_MIN_MEMBERS = 3  # messages of a campaign
_TYPICAL_WORDS = 12  # maximum number of words that describe a campaign


@dataclass(frozen=True, slots=True)
class Campaign:
    """Messages of one component."""

    members: Indices  # indices in the corpus, the most typical first
    cohesion: float  # mean cosine of the words of two of its messages
    keys: NDArray[np.uint64]  # words that are more frequent in it than in other spam, the most typical first


def find_campaigns(
    corpus: Corpus, limit: int, progress: Callable[[float], None] = lambda _: None
) -> list[Campaign]:
    """Find campaigns among the first `limit` messages of spam, the largest first."""
    spam = np.flatnonzero(corpus.is_spam)[:limit]
    columns = choose_columns(corpus, spam, _COLUMNS, (WORDS,))
    is_filled = columns.rows.any(axis=1)  # whether a message has at least one of the words
    spam, columns = spam[is_filled], FeatureColumns(columns.rows[is_filled], columns.keys)
    if len(spam) < _MIN_SPAM or columns.rows.shape[1] < 2:
        return []
    components = _assign_components(columns.rows, progress)
    campaigns = []
    for component in np.unique(components):
        members = np.flatnonzero(components == component)
        campaign = _describe_campaign(columns, spam, members)
        if len(members) >= _MIN_MEMBERS and campaign.cohesion >= _COHESION:
            campaigns.append(campaign)
    return sorted(campaigns, key=lambda one: (-len(one.members), -one.cohesion))


def _assign_components(rows: NDArray[np.float64], progress: Callable[[float], None]) -> NDArray[np.intp]:
    """Return the most probable component of each message, (messages,), in the mixture with the least BIC."""
    dimensions = min(_DIMENSIONS, rows.shape[0] - 1, rows.shape[1])
    points = PCA(dimensions, solver="randomized", random_state=0).fit_transform(rows)
    best_components, least_criterion = np.zeros(len(rows), np.intp), np.inf
    sizes = [size for size in _SIZES if size * _MIN_MEMBERS <= len(rows)]
    for number, size in enumerate(sizes):
        progress(number / len(sizes))
        model = Mixture(size, covariance="spherical", n_init=2, max_iter=200, random_state=0).fit(points)
        criterion = float(model.bic(points))
        if criterion < least_criterion:
            best_components, least_criterion = np.asarray(model.predict(points), np.intp), criterion
    return best_components


def _describe_campaign(columns: FeatureColumns, spam: Indices, members: Indices) -> Campaign:
    """Describe a component; `members` are indices of `spam`, whose messages are the rows of `columns`."""
    member_rows = columns.rows[members]
    total = member_rows.sum(axis=0)
    n = len(members)
    # Rows have length 1, so |Σ row|² is the sum of the cosines of all pairs, each row with itself included.
    cohesion = float((total @ total - n) / (n * (n - 1))) if n > 1 else 0.0
    centre = total / n
    rest = (columns.rows.sum(axis=0) - total) / max(1, len(columns.rows) - n)
    order = np.argsort(-(member_rows @ centre), kind="stable")
    typical = np.argsort(rest - centre, kind="stable")[:_TYPICAL_WORDS]
    return Campaign(spam[members[order]], cohesion, columns.keys[typical[centre[typical] > rest[typical]]])
