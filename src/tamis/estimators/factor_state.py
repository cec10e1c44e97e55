"""Ratings that were learned and what they came to; a verb that changes them gives a new state.

Every user's row is the answer to the items as they are: whoever changes an item solves its users again. That
is why a rating's share in a score can be told, and taken away.
"""

from collections.abc import Hashable
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array
from tamis.models.factors.clock import Clock
from tamis.models.factors.implicit import Implicit
from tamis.models.factors.learned import Learned, Solver, Stack, item_rows, user_rows
from tamis.models.factors.ratings import Places, Ratings
from tamis.stats import Keys

Duplicates = Literal["refuse", "mean", "last", "sum"]


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """n ratings as they were given."""

    user: Places  # (n,): places of the keys
    item: Places
    value: Array
    weight: Array | None = None
    time: Array | None = None

    def __len__(self) -> int:
        return len(self.value)

    def take(self, rows: Places | NDArray[np.bool_]) -> "Entries":
        """These alone."""
        weight, time = (None if each is None else each[rows] for each in (self.weight, self.time))
        return Entries(self.user[rows], self.item[rows], self.value[rows], weight, time)

    def moved(self, users: Places, items: Places) -> "Entries":
        """By the new places of users and items."""
        return replace(self, user=users[self.user], item=items[self.item])

    def joined(self, more: "Entries", newest: float) -> "Entries":
        """These and more; what has no weight weighs 1, what has no time is of the newest."""
        weight, time = None, None
        if self.weight is not None or more.weight is not None:
            weight = np.concatenate([_or_full(each.weight, len(each), 1.0) for each in (self, more)])
        if self.time is not None:
            time = np.concatenate([self.time, _or_full(more.time, len(more), newest)])
        both = (np.concatenate(pair) for pair in zip(_places(self), _places(more), strict=True))
        user, item = both
        return Entries(user, item, np.concatenate([self.value, more.value]), weight, time)

    def cells(self, items: int) -> Places:
        """A number for each pair (n,)."""
        return self.user * max(items, 1) + self.item

    def once(self, duplicates: Duplicates, users: Keys | None, items: Keys) -> "Entries":
        """Each pair once, by what is to be done with the others; the last is the newest, where times tell.

        Without users, all are of one who has no id.
        """
        order = None if self.time is None else np.argsort(self.time, kind="stable")
        order = arrays.argsort_codes(
            self.user, len(users or (0,)), arrays.argsort_codes(self.item, len(items), order)
        )
        cell = self.cells(len(items))[order]
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = cell[1:] != cell[:-1]
        if first.all():
            return self
        if duplicates == "refuse":
            row = int(order[int(np.argmin(first))])
            again = f"item {items[int(self.item[row])]!r} twice or more, expected each"
            whose = "got" if users is None else f"user {users[int(self.user[row])]!r} has"
            each = "once" if users is None else "pair once"
            raise ValueError(
                f"{whose} {again} {each}: drop some, or set duplicates to 'mean', 'last' or 'sum'"
            )
        last = order[np.append(np.flatnonzero(first)[1:] - 1, len(order) - 1)]
        kept = replace(self, value=self.value.copy())
        group = np.cumsum(first) - 1
        if duplicates == "sum":
            kept.value[last] = np.bincount(group, self.value[order])
        elif duplicates == "mean":
            weight = _or_full(self.weight, len(self), 1.0)[order]
            mass = np.bincount(group, weight)
            weight = np.where(mass[group] > 0.0, weight, 1.0)
            kept.value[last] = np.bincount(group, weight * self.value[order]) / np.bincount(group, weight)
        return kept.take(np.sort(last))


def _or_full(values: Array | None, n: int, other: float) -> Array:
    return np.full(n, other) if values is None else values


def _places(entries: Entries) -> tuple[Places, Places]:
    return entries.user, entries.item


@dataclass(frozen=True, slots=True)
class Course:
    """How the fit went."""

    sweeps: int
    train: Array  # (sweeps,): RMSE
    validation: Array | None = None
    converged: bool | None = None  # None for draws, of which there are as many as were asked for


@dataclass(frozen=True, eq=False)
class FactorState:
    """What a recommender holds."""

    users: Keys
    items: Keys
    entries: Entries
    solver: Solver
    learned: Learned
    clock: Clock | None
    low: float  # the range of ratings seen
    high: float
    implicit: bool
    course: Course = field(default_factory=lambda: Course(0, np.zeros(0)))

    is_empty: ClassVar[bool] = False

    @cached_property
    def ratings(self) -> Ratings:
        """The entries as they weigh now."""
        return self.weighed(self.entries, len(self.users))

    def weighed(self, entries: Entries, users: int) -> Ratings:
        """Entries with what they weigh for their age, in their bins of time."""
        return weighed(entries, self.clock, users, len(self.items))

    @cached_property
    def popularity(self) -> Array:
        """The share of users who did something with each item (items,)."""
        counts = np.bincount(self.entries.item, minlength=len(self.items))
        return counts / max(1, len(self.users))

    def rows_of(self, user: int) -> Places:
        """Which entries are a user's."""
        side = self.ratings.by_user
        return side.order[side.indptr[user] : side.indptr[user + 1]]

    def row_of(self, user: int, item: int) -> int:
        """Which entry the pair is; −1 if there is none."""
        rows = self.rows_of(user)
        found = rows[self.entries.item[rows] == item]
        return int(found[0]) if len(found) else -1

    def with_keys(self, users: Keys, items: Keys) -> "FactorState":
        """With room for these ids, too; their rows are zero."""
        all_users, own, _ = self.users.union(users)
        all_items, other, _ = self.items.union(items)
        learned = self.learned.widened(own, other, (len(all_users), len(all_items)))
        entries = self.entries.moved(own, other)
        return replace(self, users=all_users, items=all_items, learned=learned, entries=entries)

    def with_more(self, more: Entries, duplicates: Duplicates) -> "FactorState":
        """With more ratings, of known ids, and ages counted from the newest of all; nothing is solved yet."""
        if duplicates == "mean":
            known = np.isin(more.cells(len(self.items)), self.entries.cells(len(self.items)))
            if known.any():
                row = int(np.argmax(known))
                raise ValueError(
                    f"user {self.users[int(more.user[row])]!r} has item {self.items[int(more.item[row])]!r} "
                    "already, expected new pairs with duplicates='mean', whose counts are not kept: fit anew"
                )
        newest, clock = self.clock.newest if self.clock is not None else 0.0, self.clock
        if clock is not None and more.time is not None:
            clock = clock.until(float(more.time.max()))
        entries = self.entries.joined(more, newest).once(duplicates, self.users, self.items)
        low, high = min(self.low, more.value.min()), max(self.high, more.value.max())
        return replace(self, entries=entries, clock=clock, low=float(low), high=float(high))

    def aged_since(self, before: Clock | None) -> bool:
        """Whether old ratings weigh less than they did by that clock."""
        return self.clock is not None and self.clock.half_life is not None and self.clock != before

    def without(self, rows: Places) -> "FactorState":
        """Without these ratings, and in the range of those left; nothing is solved yet."""
        kept = np.ones(len(self.entries), dtype=np.bool_)
        kept[rows] = False
        after = replace(self, entries=self.entries.take(kept))
        left = after.ratings.weighty.value
        return replace(after, low=float(left.min()), high=float(left.max())) if len(left) else after

    def solved_users(self, rows: Places, rng: np.random.Generator) -> "FactorState":
        """With the rows of these users solved again."""
        rows = np.unique(rows)
        found = user_rows(self.learned, self.solver, self.ratings, rows, rng)
        return replace(self, learned=self.learned.with_users(rows, found))

    def solved_items(self, rows: Places, rng: np.random.Generator) -> "FactorState":
        """With the rows of these items solved again, and then those of all who rated them.

        Of implicit feedback, those of all users: everybody has a preference for everything.
        """
        rows = np.unique(rows)
        found = item_rows(self.learned, self.solver, self.ratings, rows, rng)
        after = replace(self, learned=self.learned.with_items(rows, found))
        raters = self.ratings.by_item.only(rows).others
        if self.implicit:
            raters = np.arange(len(self.users))
        return after.solved_users(raters, rng) if len(raters) else after


def weighed(entries: Entries, clock: Clock | None, users: int, items: int) -> Ratings:
    """Entries as ratings that weigh what their age leaves of them."""
    weight, place, bins = entries.weight, None, 0
    if clock is not None and entries.time is not None:
        bins, place = clock.bins, clock.places(entries.time)
        if clock.half_life is not None:
            weight = _or_full(weight, len(entries), 1.0) * clock.weights(entries.time)
    return Ratings(entries.user, entries.item, entries.value, users, items, weight, place, bins)


@dataclass(frozen=True, eq=False)
class FoldedUser:
    """Somebody who was not in the fit: `predict`, `recommend` and `explain` take it for a user's id."""

    rows: Stack  # (draws, k + 1)
    entries: Entries  # of user 0
    items: Keys  # the items that its places are of

    def __repr__(self) -> str:
        return f"FoldedUser({len(self.entries)} ratings)"


def as_saved(state: FactorState) -> dict[str, Any]:
    """A state of types that a file can hold."""
    entries, learned, clock, chain = state.entries, state.learned, state.clock, state.learned.chain
    solver = state.solver
    more = solver.confidence if isinstance(solver, Implicit) else solver.offset_ridge
    return {
        "users": state.users,
        "items": state.items,
        "entries": (entries.user, entries.item, entries.value, entries.weight, entries.time),
        "learned": (learned.level, learned.users, learned.items, learned.bins, learned.item_bins),
        "chain": None
        if chain is None
        else (
            chain.precision,
            chain.user_mean,
            chain.user_precision,
            chain.item_mean,
            chain.item_precision,
        ),
        "clock": None if clock is None else astuple(clock),
        "solver": (solver.rank, solver.ridge, more, state.implicit),
        "range": (state.low, state.high),
        "course": (
            state.course.sweeps,
            state.course.train,
            state.course.validation,
            state.course.converged,
        ),
    }


def place_of(keys: Keys, label: Hashable) -> int:
    """Where an id is, −1 if nowhere."""
    try:
        return int(keys.find([label])[0])
    except TypeError as problem:
        raise TypeError(
            f"got the id {label!r} ({problem}), expected a hashable one: a string, a number or a tuple"
        ) from None
