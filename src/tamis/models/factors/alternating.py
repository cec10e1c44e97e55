"""Ratings, given the items' factors → a Gram for each user → the users' factors; and the other way round.

A rating is level + offset of the user + offset of the item + the product of their factors. With one side
held, each row of the other is a small ridge regression: its offset is the coefficient of a column of ones.
The ridge of factors grows with a row's ratings (Zhou et al. 2008), that of offsets does not: it is worth so
many ratings.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tamis._kernels import factors as kernels
from tamis.arrays import Array
from tamis.models.factors.ratings import Places, Ratings, Side

_CELLS = 1 << 20  # of factors gathered at a time


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """What is known of users and items; the last column of each is its offset."""

    level: float
    users: Array  # (users, k + 1)
    items: Array  # (items, k + 1)

    @property
    def rank(self) -> int:
        """k."""
        return int(self.users.shape[1]) - 1

    def predict(self, user: Places, item: Places) -> Array:
        """The expected rating of each pair (n,); a place of −1 is somebody or something unknown."""
        found = np.full(len(user), self.level)
        step = max(1, _CELLS // self.users.shape[1])
        for start in range(0, len(user), step):
            part = slice(start, start + step)
            u, i = user[part], item[part]
            own, other = self.users[u] * (u >= 0)[:, None], self.items[i] * (i >= 0)[:, None]
            found[part] += np.einsum("nk,nk->n", own[:, :-1], other[:, :-1]) + own[:, -1] + other[:, -1]
        return found


@dataclass(frozen=True, slots=True)
class Alternating:
    """Alternating least squares."""

    rank: int
    ridge: float = 0.1  # of factors, for each rating
    offset_ridge: float = 5.0  # of offsets, in ratings

    def start(self, ratings: Ratings, rng: np.random.Generator) -> Factors:
        """Small random factors of items, offsets of zero."""
        items = np.zeros((ratings.items, self.rank + 1))
        spread = float(np.std(ratings.value)) if len(ratings) else 1.0
        items[:, :-1] = rng.normal(
            scale=np.sqrt(max(spread, 1e-3) / self.rank), size=(ratings.items, self.rank)
        )
        level = float(np.average(ratings.value, weights=ratings.weight))
        return Factors(level, np.zeros((ratings.users, self.rank + 1)), items)

    def sweeps(self, ratings: Ratings, start: Factors) -> Iterator[Factors]:
        """Both sides in turn, without end."""
        at = start
        while True:
            at = replace(at, users=self.side(ratings, ratings.by_user, at.items, at.level))
            at = replace(at, items=self.side(ratings, ratings.by_item, at.users, at.level))
            yield at

    def side(self, ratings: Ratings, side: Side, other: Array, level: float) -> Array:
        """The rows of one side, given the other (rows, k + 1)."""
        weights = ratings.weights[side.order]
        pulls = weights * (ratings.value[side.order] - level - other[side.others, -1])
        features = other.copy()
        features[:, -1] = 1.0
        counts = np.bincount(
            np.repeat(np.arange(len(side.counts)), side.counts), weights, minlength=len(side.counts)
        )
        ridge = np.empty((len(counts), self.rank + 1))
        ridge[:, :-1] = self.ridge * np.maximum(counts, 1.0)[:, None]
        ridge[:, -1] = max(self.offset_ridge, 1e-12)
        return kernels.solve_rows(side.indptr, side.others, weights, pulls, features, ridge)
