"""Triples of user, item and rating → rows of users and rows of items, each with its ratings side by side."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array
from tamis.stats import Keys

Indices = NDArray[np.int64]
Duplicates = Literal["refuse", "mean", "last", "sum"]


@dataclass(frozen=True, eq=False)
class Side:
    """The ratings of each row of one side: those of row i are at indptr[i] to indptr[i + 1]."""

    indptr: Indices  # (rows + 1,)
    others: Indices  # (n,): the row of the other side
    order: Indices  # (n,): the triple that each rating comes from
    values: Array  # (n,)
    weights: Array  # (n,)

    @classmethod
    def of(cls, own: Indices, others: Indices, rows: int, values: Array, weights: Array | None) -> "Side":
        order = arrays.argsort_codes(own, rows)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=rows))]).astype(np.int64)
        weights = np.ones(len(order)) if weights is None else weights[order]
        return cls(indptr, others[order], order, values[order], weights)

    @property
    def counts(self) -> Indices:
        """The number of ratings of each row."""
        return np.diff(self.indptr)

    @cached_property
    def row_weights(self) -> Array:
        """The total weight of each row (rows,)."""
        rows = len(self.indptr) - 1
        row = np.repeat(np.arange(rows), self.counts)
        return np.bincount(row, self.weights, minlength=rows).astype(np.float64)

    def select_rows(self, rows: Indices) -> "Side":
        """The ratings of these rows alone, in the order of `rows`."""
        counts = self.counts[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        entries = np.repeat(self.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        values, weights = self.values[entries], self.weights[entries]
        return Side(indptr, self.others[entries], self.order[entries], values, weights)


@dataclass(frozen=True, eq=False)
class Ratings:
    """n ratings, by indices of users and items."""

    user: Indices  # (n,)
    item: Indices  # (n,)
    value: Array  # (n,)
    users: int
    items: int
    weight: Array | None = None  # (n,)
    time_bin: Indices | None = None  # (n,)
    time_bins: int = 0

    def __len__(self) -> int:
        return len(self.value)

    @cached_property
    def by_user(self) -> Side:
        """Each user's ratings."""
        return Side.of(self.user, self.item, self.users, self.value, self.weight)

    @cached_property
    def by_item(self) -> Side:
        """Each item's ratings."""
        return Side.of(self.item, self.user, self.items, self.value, self.weight)

    @cached_property
    def weights(self) -> Array:
        """(n,), 1 where none were given."""
        return np.ones(len(self)) if self.weight is None else self.weight

    @cached_property
    def total_weight(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    @property
    def scale(self) -> float:
        """The weighted standard deviation of the ratings; 1 where they are all the same."""
        if not len(self):
            return 1.0
        mean = np.average(self.value, weights=self.weight)
        deviation = float(np.sqrt(np.average(np.square(self.value - mean), weights=self.weight)))
        return deviation if deviation > 1e-12 * float(np.abs(self.value).max()) else 1.0

    def drop_weightless(self) -> "Ratings":
        """The ratings with a weight above 0."""
        return self if self.weight is None or self.weight.all() else self.select(self.weight > 0.0)

    def select(self, rows: Indices | NDArray[np.bool_]) -> "Ratings":
        """These ratings, of the same users and items."""
        weight = None if self.weight is None else self.weight[rows]
        time_bin = None if self.time_bin is None else self.time_bin[rows]
        user, item, value = self.user[rows], self.item[rows], self.value[rows]
        return replace(self, user=user, item=item, value=value, weight=weight, time_bin=time_bin)

    def __add__(self, other: "Ratings") -> "Ratings":
        """The ratings of both, of the same users, items and bins of time."""
        weight, time_bin = None, None
        if self.weight is not None or other.weight is not None:
            weight = np.concatenate([self.weights, other.weights])
        if self.time_bin is not None and other.time_bin is not None:
            time_bin = np.concatenate([self.time_bin, other.time_bin])
        user, item = np.concatenate([self.user, other.user]), np.concatenate([self.item, other.item])
        value = np.concatenate([self.value, other.value])
        return replace(self, user=user, item=item, value=value, weight=weight, time_bin=time_bin)

    def __mul__(self, weight: float) -> "Ratings":
        """The ratings with all weights scaled."""
        return replace(self, weight=weight * self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """n ratings as they were given."""

    user: Indices  # (n,): indices of the keys
    item: Indices
    value: Array
    weight: Array | None = None
    time: Array | None = None

    def __len__(self) -> int:
        return len(self.value)

    def select(self, rows: Indices | NDArray[np.bool_]) -> "Entries":
        """These rows alone."""
        weight, time = (None if each is None else each[rows] for each in (self.weight, self.time))
        return Entries(self.user[rows], self.item[rows], self.value[rows], weight, time)

    def reindex(self, users: Indices, items: Indices) -> "Entries":
        """The same ratings, by the new indices of users and items."""
        return replace(self, user=users[self.user], item=items[self.item])

    def append(self, new: "Entries", newest: float) -> "Entries":
        """These and new ones; without a weight, a new one weighs 1, and without a time it is the newest."""
        weight, time = None, None
        if self.weight is not None or new.weight is not None:
            weight = np.concatenate([_fill_missing(each.weight, len(each), 1.0) for each in (self, new)])
        if self.time is not None:
            time = np.concatenate([self.time, _fill_missing(new.time, len(new), newest)])
        user, item = np.concatenate([self.user, new.user]), np.concatenate([self.item, new.item])
        return Entries(user, item, np.concatenate([self.value, new.value]), weight, time)

    def number_pairs(self, items: int) -> Indices:
        """A number for each pair of user and item (n,)."""
        return self.user * max(items, 1) + self.item

    def merge_duplicates(self, policy: Duplicates, users: Keys | None, items: Keys) -> "Entries":
        """Each pair once, by the policy; the last rating of a pair is the newest, where there are times.

        Without `users` all ratings are of one user, whom errors do not name.
        """
        order = None if self.time is None else np.argsort(self.time, kind="stable")
        order = arrays.argsort_codes(
            self.user, len(users or (0,)), arrays.argsort_codes(self.item, len(items), order)
        )
        pair = self.number_pairs(len(items))[order]
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = pair[1:] != pair[:-1]
        if is_first.all():
            return self
        if policy == "refuse":
            row = int(order[int(np.argmin(is_first))])
            again = f"item {items[int(self.item[row])]!r} twice or more, expected each"
            whose = "got" if users is None else f"user {users[int(self.user[row])]!r} has"
            each = "once" if users is None else "pair once"
            raise ValueError(
                f"{whose} {again} {each}: drop some, or set duplicates to 'mean', 'last' or 'sum'"
            )
        last = order[np.append(np.flatnonzero(is_first)[1:] - 1, len(order) - 1)]
        merged = replace(self, value=self.value.copy())
        group = np.cumsum(is_first) - 1
        if policy == "sum":
            merged.value[last] = np.bincount(group, self.value[order])
        elif policy == "mean":
            weight = _fill_missing(self.weight, len(self), 1.0)[order]
            total = np.bincount(group, weight)
            weight = np.where(total[group] > 0.0, weight, 1.0)
            merged.value[last] = np.bincount(group, weight * self.value[order]) / np.bincount(group, weight)
        return merged.select(np.sort(last))


def _fill_missing(values: Array | None, n: int, default: float) -> Array:
    return np.full(n, default) if values is None else values
