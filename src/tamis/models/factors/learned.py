"""Factors, or draws of them → what each pair is expected to be, and how sure that is.

One set of factors and many draws are one thing: a stack. What is expected is the mean over the stack.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import threads
from tamis.arrays import Array
from tamis.models.factors.alternating import Alternating, Factors, drift, products, targets
from tamis.models.factors.gibbs import Belief, Draw, drawn_rows
from tamis.models.factors.implicit import Implicit
from tamis.models.factors.ratings import Places, Ratings

Stack = NDArray[np.float64] | NDArray[np.float32]  # one set of factors is float64, draws are float32


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """What each draw believed, besides the factors."""

    precision: Array  # (draws,): of the noise
    user_mean: Array  # (draws, k + 1)
    user_precision: Array  # (draws, k + 1, k + 1)
    item_mean: Array
    item_precision: Array

    @classmethod
    def of(cls, draws: list[Draw], own: Array, other: Array) -> "Chain":
        """Rows of users and of items are to be multiplied by these (k + 1,)."""
        return cls(
            np.array([draw.precision for draw in draws]) / np.square(own[-1]),
            own * np.array([draw.users.mean for draw in draws]),
            np.array([draw.users.precision for draw in draws]) / np.multiply.outer(own, own),
            other * np.array([draw.items.mean for draw in draws]),
            np.array([draw.items.precision for draw in draws]) / np.multiply.outer(other, other),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """All that is known of users and items."""

    level: float
    users: Stack  # (draws, users, k + 1)
    items: Stack  # (draws, items, k + 1)
    bins: Array  # (bins,)
    item_bins: Array  # (items, bins)
    chain: Chain | None = None

    @classmethod
    def of(cls, at: Factors) -> "Learned":
        """One set of factors."""
        return cls(at.level, at.users[None], at.items[None], at.bins, at.item_bins)

    @classmethod
    def drawn(cls, draws: list[Draw], unit: float = 1.0) -> "Learned":
        """A stack of draws, in half the room; ratings were in that unit."""
        at = draws[0].factors
        own, other = np.full(at.rank + 1, unit), np.append(np.ones(at.rank), unit)
        users = np.array([own * draw.factors.users for draw in draws], dtype=np.float32)
        items = np.array([other * draw.factors.items for draw in draws], dtype=np.float32)
        chain = Chain.of(draws, own, other)
        return cls(unit * at.level, users, items, unit * at.bins, unit * at.item_bins, chain)

    def factors(self, draw: int = 0) -> Factors:
        """One of the stack."""
        users, items = self.users[draw].astype(np.float64), self.items[draw].astype(np.float64)
        return Factors(self.level, users, items, self.bins, self.item_bins)

    def each(self, user: Places, item: Places, time: Places | None) -> Iterator[Array]:
        """What each of the stack expects of the pairs, (n,) at a time."""
        fixed = self.level + drift(self.bins, self.item_bins, item, time)
        for users, items in zip(self.users, self.items, strict=True):
            yield fixed + products(users.astype(np.float64), items.astype(np.float64), user, item)

    def predict(self, user: Places, item: Places, time: Places | None = None) -> Array:
        """The expected rating of each pair (n,)."""
        return np.asarray(sum(self.each(user, item, time)) / len(self.users))

    def spread(self, user: Places, item: Places, time: Places | None = None) -> tuple[Array, Array]:
        """Mean and variance over the stack (n,), noise not counted."""
        count, mean, square = 0, np.zeros(len(user)), np.zeros(len(user))
        for found in self.each(user, item, time):
            count += 1
            step = found - mean
            mean = mean + step / count
            square = square + step * (found - mean)
        return mean, square / max(count, 1)

    @property
    def noise(self) -> Array:
        """The variance of a rating's noise in each draw (draws,)."""
        assert self.chain is not None
        return 1.0 / self.chain.precision

    def table(self, rows: Stack, time: int | None = None) -> Array:
        """What these rows of users (draws, q, k + 1) are expected to rate all items (q, items)."""
        count = len(self.users)
        found = np.zeros((rows.shape[1], self.items.shape[1]))
        with threads.one_blas_thread:
            for own, items in zip(rows, self.items, strict=True):
                found += own[:, :-1] @ items[:, :-1].T + own[:, -1:] + items[:, -1]
        found /= count
        found += self.level
        if time is not None and len(self.bins):
            found += self.bins[time] + self.item_bins[:, time]
        return found

    def wide_items(self) -> Array:
        """Factors by which items are alike (items, draws · k): draws side by side, offsets left out."""
        items = self.items.shape[1]
        return np.asarray(self.items[:, :, :-1].transpose(1, 0, 2).reshape(items, -1), dtype=np.float64)

    def widened(self, users: Places, items: Places, size: tuple[int, int]) -> "Learned":
        """With room for more users and items: those there are go to these places, the others are zero."""
        own = np.zeros((len(self.users), size[0], self.users.shape[2]), dtype=self.users.dtype)
        other = np.zeros((len(self.items), size[1], self.items.shape[2]), dtype=self.items.dtype)
        item_bins = np.zeros((size[1], len(self.bins)))
        own[:, users], other[:, items], item_bins[items] = self.users, self.items, self.item_bins
        return replace(self, users=own, items=other, item_bins=item_bins)

    def with_users(self, rows: Places, found: Stack) -> "Learned":
        """With these rows of users instead."""
        users = self.users.copy()
        users[:, rows] = found
        return replace(self, users=users)

    def with_items(self, rows: Places, found: Stack) -> "Learned":
        """With these rows of items instead."""
        items = self.items.copy()
        items[:, rows] = found
        return replace(self, items=items)


Solver = Alternating | Implicit


def user_rows(
    learned: Learned, solver: Solver, ratings: Ratings, rows: Places, rng: np.random.Generator
) -> Stack:
    """The rows of some users given the items (draws, rows, k + 1); of draws, drawn anew."""
    return _rows(learned, solver, ratings, rows, rng, of_users=True)


def item_rows(
    learned: Learned, solver: Solver, ratings: Ratings, rows: Places, rng: np.random.Generator
) -> Stack:
    """The rows of some items given the users (draws, rows, k + 1); of draws, drawn anew."""
    return _rows(learned, solver, ratings, rows, rng, of_users=False)


def _rows(
    learned: Learned,
    solver: Solver,
    ratings: Ratings,
    rows: Places,
    rng: np.random.Generator,
    of_users: bool,
) -> Stack:
    chain = learned.chain
    if chain is None:
        solve = solver.users if of_users else solver.items
        return solve(ratings, learned.factors(), rows)[None]
    side = (ratings.by_user if of_users else ratings.by_item).only(rows)
    wanted = targets(ratings, side, learned)
    means, precisions = (
        (chain.user_mean, chain.user_precision) if of_users else (chain.item_mean, chain.item_precision)
    )
    found = []
    for draw, others in enumerate(learned.items if of_users else learned.users):
        belief = Belief(means[draw], precisions[draw])
        other, noise = others.astype(np.float64), float(chain.precision[draw])
        found.append(drawn_rows(side, wanted, other, noise, belief, rng))
    return np.array(found, dtype=np.float32)
