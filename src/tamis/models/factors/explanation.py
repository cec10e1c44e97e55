"""A recommender, a user and an item → the contribution of each of the user's ratings to the score."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.linalg import Cholesky
from tamis.models.factors.alternating import Alternating, Factors, compute_targets, select_time_offsets
from tamis.models.factors.posterior import Solver
from tamis.models.factors.ratings import Entries, Ratings
from tamis.models.factors.recommender import FoldedUser, Recommender, find_id


@dataclass(frozen=True, slots=True, eq=False)
class FactorExplanation:
    """The parts of a score, which is the sum of `contributions`, `level`, `item_offset` and `time_offset`.

    Given the items, the user's factors and offset solve a ridge regression. The solution is a sum of one
    vector per rating of the user. The contribution of a rating is the inner product of its vector and the
    features of the item: the item's factors, followed by a 1, by which the user's offset is multiplied. With
    implicit feedback, level and offsets are 0, except for a user without ratings: then `item_offset` is the
    item's popularity, which is the whole score. Contributions are ordered by absolute value, the largest
    first.
    """

    user: Any
    item: Any
    level: float
    item_offset: float
    time_offset: float
    items: tuple[Any, ...]  # the m items that the user rated
    ratings: Array  # (m,)
    contributions: Array  # (m,)
    shown: int = 5  # the number of ratings in `top` and in the printed text

    @property
    def score(self) -> float:
        """The expected rating, not clipped; with implicit feedback the preference."""
        return self.level + self.item_offset + self.time_offset + float(self.contributions.sum())

    @property
    def top(self) -> list[tuple[Any, float, float]]:
        """(item, rating, contribution) of the ratings that contribute most, by absolute value."""
        indices = range(min(self.shown, len(self.items)))
        return [(self.items[i], float(self.ratings[i]), float(self.contributions[i])) for i in indices]

    def __str__(self) -> str:
        lines = [f"{self.score:+.3f}  {self.item!r} for {self.user!r}", f"{self.level:+.3f}  level"]
        lines.append(f"{self.item_offset:+.3f}  {self.item!r} in general")
        if self.time_offset:
            lines.append(f"{self.time_offset:+.3f}  the time")
        lines += [f"{part:+.3f}  {item!r} rated {rating:g}" for item, rating, part in self.top]
        rest = float(self.contributions[self.shown :].sum())
        if len(self.items) > self.shown:
            lines.append(f"{rest:+.3f}  {len(self.items) - self.shown} more ratings")
        return "\n".join(lines)


def explain(
    recommender: Recommender, user: Any, item: Hashable, shown: int, time: Array | None
) -> FactorExplanation:
    """Explain the score of an item for a user as a sum over the user's ratings.

    `user` is an id or a `FoldedUser`. `time` (1,) is the time of the prediction; None means that of the
    newest rating. If the factors are draws of Gibbs sampling, the score by the first draw is explained.
    """
    factors, index = recommender.posterior.select_draw(), find_id(recommender.items, item)
    item = recommender.items[index] if index >= 0 else item
    time_bin = recommender.find_bins(time, 1)
    time_offset = float(select_time_offsets(factors, np.array([index]), time_bin)[0])
    item_offset = float(factors.items[index, -1]) if index >= 0 else 0.0
    user_id = user
    if not isinstance(user, FoldedUser) and (row := find_id(recommender.users, user)) >= 0:
        user_id = recommender.users[row]  # the id as it was learned, such as 1 if `user` is 1.0
    entries = _find_ratings(recommender, user)
    names: tuple[Any, ...] = ()
    values = contributions = np.zeros(0)
    if entries is not None:
        ratings = recommender.weigh(entries, n_users=1)
        contributions = _compute_contributions(recommender.solver, ratings, factors, index)
        order = np.argsort(-np.abs(contributions), kind="stable")
        names = tuple(recommender.items[int(i)] for i in ratings.by_user.other_index[order])
        values, contributions = ratings.by_user.values[order], contributions[order]
    elif recommender.is_implicit and index >= 0:
        item_offset = float(recommender.popularity[index])
    return FactorExplanation(
        user_id,
        item,
        level=factors.level,
        item_offset=item_offset,
        time_offset=time_offset,
        items=names,
        ratings=values,
        contributions=contributions,
        shown=shown,
    )


def _find_ratings(recommender: Recommender, user: Any) -> Entries | None:
    """A user's ratings, with the index 0 for the user; None if the user has no ratings."""
    if isinstance(user, FoldedUser):
        items = recommender.items.find([user.items[int(i)] for i in user.entries.item_index])
        entries = replace(user.entries, item_index=items)
    else:
        row = find_id(recommender.users, user)
        if row < 0:
            return None
        entries = recommender.entries.select(recommender.find_user_entries(row))
        entries = replace(entries, user_index=np.zeros(len(entries), dtype=np.int64))
    return entries if len(entries) else None


def _compute_contributions(solver: Solver, ratings: Ratings, factors: Factors, item_index: int) -> Array:
    """The contributions (m,) of a user's ratings to the score of an item; its index is −1 if it is unknown.

    The user's row is x = A⁻¹ Σ pull · v, a sum over the user's ratings, where v are the features of the rated
    item. With the features f of the scored item, a rating contributes pull · vᵀA⁻¹f to the score fᵀx.

    For ratings, A = Σ w v vᵀ plus the ridge, w is the weight of a rating, and its pull is w times its target:
    the rating minus the level and the offsets of its time and item. For actions (implicit feedback), w is
    c − 1 and the pull is c, the confidence of the action; to A the sum of v vᵀ over all items is added, so
    that a pair with an action has the weight c in A, and every other pair the weight 1.
    """
    side = ratings.by_user
    if isinstance(solver, Alternating):  # explicit ratings
        features = solver.make_features(factors.items)
        w = side.weights
        pulls = w * (compute_targets(ratings, side, factors) - factors.items[side.other_index, -1])
        added = np.diag(solver.compute_ridges(side)[0])
        unknown_features = np.zeros(features.shape[1])
        unknown_features[solver.rank :] = 1.0  # by which the user's offset is multiplied
    else:  # actions
        features = np.ascontiguousarray(factors.items[:, :-1])
        w, pulls = solver.compute_confidence(side), solver.compute_pulls(side)
        added = solver.ridge * np.eye(solver.rank) + features.T @ features
        unknown_features = np.zeros(solver.rank)
    v = features[side.other_index]
    matrix = (v * w[:, None]).T @ v + added  # A
    f = features[item_index] if item_index >= 0 else unknown_features
    return np.asarray(pulls * (v @ Cholesky.of(matrix, "a user's Gram").solve(f)))
