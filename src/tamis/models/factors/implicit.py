"""Deeds, given the items' factors → a Gram for each user → the users' factors (Hu, Koren, Volinsky 2008).

Everybody has a preference for everything: 1 where something was done, 0 elsewhere. What was done often or
long is sure, c = 1 + confidence · value; all else counts 1. The part of the Gram that is the same for
everybody, YᵀY, is made once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tamis._kernels import factors as kernels
from tamis._kernels import threads
from tamis.arrays import Array
from tamis.models.factors.alternating import Factors, Judged, products
from tamis.models.factors.ratings import Places, Ratings, Side


@dataclass(frozen=True, slots=True)
class Implicit:
    """Alternating least squares over all pairs, seen and not; no level and no offsets."""

    rank: int
    ridge: float = 0.1
    confidence: float = 40.0

    def start(self, ratings: Ratings, rng: np.random.Generator) -> Factors:
        """Small random factors of items."""
        items = np.zeros((ratings.items, self.rank + 1))
        items[:, :-1] = rng.normal(scale=0.1 / np.sqrt(self.rank), size=(ratings.items, self.rank))
        users, timeless = np.zeros((ratings.users, self.rank + 1)), np.zeros((ratings.items, 0))
        return Factors(0.0, users, items, np.zeros(0), timeless)

    def sweeps(self, ratings: Ratings, start: Factors) -> Iterator[Factors]:
        """Both sides in turn, without end; users last."""
        at = replace(start, users=self.users(ratings, start))
        while True:
            at = replace(at, items=self.items(ratings, at))
            at = replace(at, users=self.users(ratings, at))
            yield at

    def users(self, ratings: Ratings, at: Factors, rows: Places | None = None) -> Array:
        """The rows of users, of all or of some, given the items (rows, k + 1)."""
        side = ratings.by_user if rows is None else ratings.by_user.only(rows)
        return self._side(side, at.items)

    def items(self, ratings: Ratings, at: Factors, rows: Places | None = None) -> Array:
        """The rows of items, of all or of some, given the users (rows, k + 1)."""
        side = ratings.by_item if rows is None else ratings.by_item.only(rows)
        return self._side(side, at.users)

    def sure(self, side: Side) -> Array:
        """c − 1 of each deed (n,)."""
        return self.confidence * side.weights * side.values

    def pulls(self, side: Side) -> Array:
        """c times the preference of each deed (n,): one that weighs nothing is as good as not done."""
        return np.where(side.weights > 0.0, 1.0 + self.sure(side), 0.0)

    def _side(self, side: Side, other: Array) -> Array:
        features = np.ascontiguousarray(other[:, :-1])
        more, pulls = self.sure(side), self.pulls(side)
        ridge = np.full((len(side.counts), self.rank), self.ridge)
        with threads.one_blas_thread:
            base = features.T @ features
        found = kernels.solve_rows(side.indptr, side.others, more, pulls, features, ridge, base)
        if not np.isfinite(found).all():
            raise ValueError(
                f"got deeds as sure as {more.max():.0e} with ridge={self.ridge:g}, expected less: rows are "
                "lost to rounding; lower confidence, raise ridge, or give log1p of values"
            )
        return np.column_stack([found, np.zeros(len(found))])

    def judged(self, ratings: Ratings, at: Factors) -> Judged:
        """How far preferences for what was done are from 1; and over all pairs, with the ridges."""
        side, users, items = ratings.by_user, at.users[:, :-1], at.items[:, :-1]
        wrong = 1.0 - products(at.users, at.items, ratings.user[side.order], side.others)
        with threads.one_blas_thread:
            everywhere = float(((users.T @ users) * (items.T @ items)).sum())
        done = side.weights > 0.0
        seen = float((self.pulls(side) * np.square(wrong) - done * np.square(1.0 - wrong)).sum())
        total = everywhere + seen + self.ridge * float(np.square(users).sum() + np.square(items).sum())
        return Judged(float((side.weights * np.square(wrong)).sum()), total)
