"""Ratings, given the items' factors → a Gram for each user → the users' factors; and the other way round.

A rating is level + offset of the user + offset of the item + offsets of its time + the product of their
factors. With one side held, each row of the other is a small ridge regression: its offset is the coefficient
of a column of ones. The ridge of factors grows with a row's ratings (Zhou et al. 2008) and begins with a few
more, that of offsets does not grow: it is worth so many ratings.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from tamis._kernels import factors as kernels
from tamis._kernels import threads
from tamis.arrays import Array, scipy_sparse
from tamis.linalg import orthonormal
from tamis.models.factors.ratings import Places, Ratings, Side

_ROUNDS = 2
_MORE = 5.0  # ratings whose ridge every row has besides its own: a single one is no taste (experiments/0008)
_NO_BINS: Array = np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """What is known of users and items; the last column of each is its offset."""

    level: float
    users: Array  # (users, k + 1)
    items: Array  # (items, k + 1)
    bins: Array = field(default_factory=lambda: _NO_BINS)  # (bins,): offsets of all items by time
    item_bins: Array = field(default_factory=lambda: _NO_BINS[:, None])  # (items, bins)

    @property
    def rank(self) -> int:
        """k."""
        return int(self.users.shape[1]) - 1


def products(users: Array, items: Array, user: Places, item: Places) -> Array:
    """Offsets and the product of factors of each pair (n,); nothing of a place of −1."""
    own, other = np.ascontiguousarray(users[:, :-1]), np.ascontiguousarray(items[:, :-1])
    found = kernels.dot_pairs(own, other, user, item)
    return found + _offsets(users, user) + _offsets(items, item)


class Timed(Protocol):
    """What is known of ratings besides users and items."""

    @property
    def level(self) -> float:
        """The mean rating."""

    @property
    def bins(self) -> Array:
        """Offsets of all items by time (bins,)."""

    @property
    def item_bins(self) -> Array:
        """Offsets of each item by time (items, bins)."""


def targets(ratings: Ratings, side: Side, at: Timed) -> Array:
    """What users and items have to say of each of a side's entries (n,): all but the level and the time."""
    found = side.values - at.level
    if ratings.bin is not None:
        found -= drift(at.bins, at.item_bins, ratings.item[side.order], ratings.bin[side.order])
    return found


def features(other: Array) -> Array:
    """What a row of one side is a regression on (rows, k + 1): the other's factors, and a one."""
    found = other.copy()
    found[:, -1] = 1.0
    return found


def squares(ratings: Ratings, at: Factors) -> float:
    """The sum of the squares of what is wrong with the ratings, by weight."""
    side = ratings.by_user
    wanted = targets(ratings, side, at)
    return float(
        kernels.row_squares(side.indptr, side.others, side.weights, wanted, at.users, at.items).sum()
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """How good some factors are."""

    squares: float  # of what is wrong with the ratings, by weight
    objective: float  # what no sweep raises


def _offsets(rows: Array, places: Places) -> Array:
    return np.append(rows[:, -1], 0.0)[places]  # −1 is the last


def drift(bins: Array, item_bins: Array, item: Places, time: Places | None) -> Array:
    """Offsets of the time of each pair (n,): of all items then, and of the one item then."""
    if time is None or not len(bins):
        return np.zeros(len(item))
    return bins[time] + np.where(item >= 0, item_bins[item, time], 0.0)


@dataclass(frozen=True, slots=True)
class Alternating:
    """Alternating least squares."""

    rank: int
    ridge: float = 0.1  # of factors, for each rating and a few more
    offset_ridge: float = 5.0  # of offsets, in ratings; without bounds: no level, no offsets

    def start(self, ratings: Ratings, rng: np.random.Generator) -> Factors:
        """Items by the directions in which ratings vary most, found roughly; offsets of zero.

        From random factors, next to no ridge and 50 ratings a row, one start in ten went astray: a few rows
        grew without bounds (1000 × 1000, rank 5, no noise). From here none of 14 did.
        """
        items = np.zeros((ratings.items, self.rank + 1))
        level = float(np.average(ratings.value, weights=ratings.weight)) if self.has_offsets else 0.0
        scale = np.sqrt(ratings.spread * ratings.items / self.rank)
        items[:, :-1] = scale * self._directions(ratings, level, rng)
        bins, item_bins = np.zeros(ratings.bins), np.zeros((ratings.items, ratings.bins))
        return Factors(level, np.zeros((ratings.users, self.rank + 1)), items, bins, item_bins)

    def _directions(self, ratings: Ratings, level: float, rng: np.random.Generator) -> Array:
        """The widest directions of the items' columns (items, k), by a few rounds of subspace iteration."""
        side, user = ratings.by_user, ratings.user[ratings.by_user.order]
        rest = side.values - level
        if self.has_offsets:
            for place, mass in ((side.others, ratings.by_item.mass), (user, side.mass)):
                total = np.bincount(place, side.weights * rest, minlength=len(mass))
                rest -= (total / (mass + max(self.offset_ridge, 1e-12)))[place]
        shape = ratings.users, ratings.items
        table = scipy_sparse().csr_array((side.weights * rest, side.others, side.indptr), shape=shape)
        found: Array = rng.normal(size=(ratings.items, self.rank)) / np.sqrt(ratings.items)
        held = min(found.shape)  # more directions than items there are not: those stay random
        with threads.one_blas_thread:
            for _ in range(_ROUNDS):
                found[:, :held] = orthonormal(table.T @ (table @ found[:, :held]))
        return found

    @property
    def has_offsets(self) -> bool:
        """Whether there are a level and offsets."""
        return bool(np.isfinite(self.offset_ridge))

    def sweeps(self, ratings: Ratings, start: Factors) -> Iterator[Factors]:
        """Both sides in turn, without end; users last, so that each is the answer to the items there are."""
        at = replace(start, users=self.users(ratings, start))
        while True:
            at = replace(at, items=self.items(ratings, at))
            if ratings.bins:
                at = self._timed(ratings, at)
            at = replace(at, users=self.users(ratings, at))
            yield at

    def users(self, ratings: Ratings, at: Factors, rows: Places | None = None) -> Array:
        """The rows of users, of all or of some, given the items (rows, k + 1)."""
        side = ratings.by_user if rows is None else ratings.by_user.only(rows)
        return self._side(side, at.items, targets(ratings, side, at))

    def items(self, ratings: Ratings, at: Factors, rows: Places | None = None) -> Array:
        """The rows of items, of all or of some, given the users (rows, k + 1)."""
        side = ratings.by_item if rows is None else ratings.by_item.only(rows)
        return self._side(side, at.users, targets(ratings, side, at))

    def features(self, other: Array) -> Array:
        """What a row of one side is a regression on (rows, k + 1), or (rows, k) without offsets."""
        return features(other) if self.has_offsets else np.ascontiguousarray(other[:, :-1])

    def ridges(self, side: Side) -> Array:
        """What holds each row's factors and offset next to zero (rows, k + 1)."""
        found = np.empty((len(side.mass), self.rank + self.has_offsets))
        found[:, : self.rank] = self.ridge * (side.mass + _MORE)[:, None]
        found[:, self.rank :] = max(self.offset_ridge, 1e-12)
        return found

    def _side(self, side: Side, other: Array, wanted: Array) -> Array:
        found = kernels.solve_rows(
            side.indptr,
            side.others,
            side.weights,
            side.weights * wanted,
            self.features(other),
            self.ridges(side),
            shift=np.ascontiguousarray(other[:, -1]),
        )
        if np.isnan(found).any():
            raise ValueError(
                f"got ridge={self.ridge:g}, expected more: it does not hold the factors of a row whose "
                "ratings say too little of them; raise it"
            )
        return found if self.has_offsets else np.column_stack([found, np.zeros(len(found))])

    def _timed(self, ratings: Ratings, at: Factors) -> Factors:
        """Offsets of times given all else: those of all items, then those of each."""
        assert ratings.bin is not None
        ridge = max(self.offset_ridge, 1e-12)
        rest = ratings.value - at.level - products(at.users, at.items, ratings.user, ratings.item)
        w = ratings.weights
        own = at.item_bins[ratings.item, ratings.bin]
        mass = np.bincount(ratings.bin, w, minlength=ratings.bins)
        bins = np.bincount(ratings.bin, w * (rest - own), minlength=ratings.bins) / (mass + ridge)
        cell, shape = ratings.item * ratings.bins + ratings.bin, at.item_bins.shape
        mass = np.bincount(cell, w, minlength=at.item_bins.size)
        pull = np.bincount(cell, w * (rest - bins[ratings.bin]), minlength=at.item_bins.size)
        return replace(at, bins=bins, item_bins=(pull / (mass + ridge)).reshape(shape))

    def judged(self, ratings: Ratings, at: Factors) -> Judged:
        """The squares of what is wrong; with all ridges, they are the objective."""
        wrong = total = squares(ratings, at)
        for side, rows in ((ratings.by_user, at.users), (ratings.by_item, at.items)):
            ridge = self.ridges(side)
            total += float((ridge * np.square(rows[:, : ridge.shape[1]])).sum())
        if ratings.bins:
            total += self.offset_ridge * float(np.square(at.bins).sum() + np.square(at.item_bins).sum())
        return Judged(wrong, total)
