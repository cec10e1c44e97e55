"""Groups (user, item, rating) triples by user and by item; each group is contiguous."""

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
class GroupedRatings:
    """Ratings grouped by user, or by item.

    Group i occupies positions indptr[i] to indptr[i + 1] (exclusive).
    """

    indptr: Indices  # (groups + 1,)
    other_index: Indices  # (n,): the item of each rating, if the groups are users; else the user
    triple_index: Indices  # (n,): the position of each rating before grouping
    values: Array  # (n,)
    weights: Array  # (n,)

    @classmethod
    def of(
        cls, group_index: Indices, other_index: Indices, n_groups: int, values: Array, weights: Array | None
    ) -> "GroupedRatings":
        """Group ratings by `group_index` (n,). A missing weight is 1."""
        order = arrays.argsort_codes(group_index, n_groups)
        counts = np.bincount(group_index, minlength=n_groups)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        weights = np.ones(len(order)) if weights is None else weights[order]
        return cls(indptr, other_index[order], order, values[order], weights)

    @property
    def counts(self) -> Indices:
        """The number of ratings of each group."""
        return np.diff(self.indptr)

    @cached_property
    def group_weights(self) -> Array:
        """The total weight of each group (groups,)."""
        n_groups = len(self.indptr) - 1
        group_index = np.repeat(np.arange(n_groups), self.counts)
        return np.bincount(group_index, self.weights, minlength=n_groups).astype(np.float64)

    def select_groups(self, groups: Indices) -> "GroupedRatings":
        """Return the ratings of these groups, in the order of `groups`."""
        counts = self.counts[groups]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        index = np.repeat(self.indptr[groups] - indptr[:-1], counts) + np.arange(indptr[-1])
        values, weights = self.values[index], self.weights[index]
        return GroupedRatings(indptr, self.other_index[index], self.triple_index[index], values, weights)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings ready to fit: times are binned."""

    user_index: Indices  # (n,)
    item_index: Indices  # (n,)
    values: Array  # (n,)
    n_users: int
    n_items: int
    given_weights: Array | None = None  # (n,)
    time_bin: Indices | None = None  # (n,)
    n_time_bins: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def by_user(self) -> GroupedRatings:
        """The ratings grouped by user."""
        return GroupedRatings.of(
            self.user_index, self.item_index, self.n_users, self.values, self.given_weights
        )

    @cached_property
    def by_item(self) -> GroupedRatings:
        """The ratings grouped by item."""
        return GroupedRatings.of(
            self.item_index, self.user_index, self.n_items, self.values, self.given_weights
        )

    @cached_property
    def weights(self) -> Array:
        """The given weights (n,), or 1 for each rating if none were given."""
        return _fill_missing(self.given_weights, len(self), 1.0)

    @cached_property
    def total_weight(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    @property
    def scale(self) -> float:
        """The weighted standard deviation of the ratings; 1 if all ratings are equal."""
        if not len(self):
            return 1.0
        mean = np.average(self.values, weights=self.given_weights)
        deviation = float(np.sqrt(np.average(np.square(self.values - mean), weights=self.given_weights)))
        return deviation if deviation > 1e-12 * float(np.abs(self.values).max()) else 1.0

    def drop_weightless(self) -> "Ratings":
        """Return the ratings with a weight above 0."""
        weights = self.given_weights
        return self if weights is None or weights.all() else self.select(weights > 0.0)

    def select(self, chosen: Indices | NDArray[np.bool_]) -> "Ratings":
        """Return the chosen ratings; the numbers of users and items do not change."""
        return replace(
            self,
            user_index=self.user_index[chosen],
            item_index=self.item_index[chosen],
            values=self.values[chosen],
            given_weights=None if self.given_weights is None else self.given_weights[chosen],
            time_bin=None if self.time_bin is None else self.time_bin[chosen],
        )

    def __add__(self, other: "Ratings") -> "Ratings":
        """Return the ratings of both, which have the same users, items and bins of time."""
        if (self.time_bin is None) != (other.time_bin is None):
            raise ValueError("got ratings with times and ratings without, expected both with or both without")
        weights, time_bin = None, None
        if self.given_weights is not None or other.given_weights is not None:
            weights = np.concatenate([self.weights, other.weights])
        if self.time_bin is not None and other.time_bin is not None:
            time_bin = np.concatenate([self.time_bin, other.time_bin])
        return replace(
            self,
            user_index=np.concatenate([self.user_index, other.user_index]),
            item_index=np.concatenate([self.item_index, other.item_index]),
            values=np.concatenate([self.values, other.values]),
            given_weights=weights,
            time_bin=time_bin,
        )

    def __mul__(self, factor: float) -> "Ratings":
        """Return the ratings with all weights multiplied by `factor`."""
        return replace(self, given_weights=factor * self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Ratings before fitting: times are raw and pairs may repeat."""

    user_index: Indices  # (n,): index of the user's key
    item_index: Indices  # (n,): index of the item's key
    values: Array  # (n,)
    given_weights: Array | None = None  # (n,)
    time: Array | None = None  # (n,)

    def __len__(self) -> int:
        return len(self.values)

    def select(self, chosen: Indices | NDArray[np.bool_]) -> "Entries":
        """Return the chosen ratings."""
        return Entries(
            self.user_index[chosen],
            self.item_index[chosen],
            self.values[chosen],
            None if self.given_weights is None else self.given_weights[chosen],
            None if self.time is None else self.time[chosen],
        )

    def reindex(self, users: Indices, items: Indices) -> "Entries":
        """Replace each index of a user by users[index], and each index of an item by items[index]."""
        return replace(self, user_index=users[self.user_index], item_index=items[self.item_index])

    def append(self, new: "Entries", newest: float) -> "Entries":
        """Append `new`. A missing weight becomes 1, and a missing time becomes `newest`."""
        weights, time = None, None
        if self.given_weights is not None or new.given_weights is not None:
            parts = (_fill_missing(part.given_weights, len(part), 1.0) for part in (self, new))
            weights = np.concatenate([*parts])
        if self.time is not None:
            time = np.concatenate([self.time, _fill_missing(new.time, len(new), newest)])
        return Entries(
            np.concatenate([self.user_index, new.user_index]),
            np.concatenate([self.item_index, new.item_index]),
            np.concatenate([self.values, new.values]),
            weights,
            time,
        )

    def encode_pairs(self, n_items: int) -> Indices:
        """Return a number for each rating's pair of user and item (n,)."""
        return self.user_index * max(n_items, 1) + self.item_index

    def merge_duplicates(self, policy: Duplicates, users: Keys | None, items: Keys) -> "Entries":
        """Keep one rating per pair of user and item.

        'Last' means the latest time if there are times, else the last in the input. Under every policy the
        weight and the time are those of the last rating. If `users` is None, all ratings belong to one user
        and errors do not name it.
        """
        order = None if self.time is None else np.argsort(self.time, kind="stable")
        order = arrays.argsort_codes(
            self.user_index, len(users or (0,)), arrays.argsort_codes(self.item_index, len(items), order)
        )
        pairs = self.encode_pairs(len(items))[order]
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = pairs[1:] != pairs[:-1]
        if is_first.all():
            return self
        if policy == "refuse":
            duplicate = int(order[int(np.argmin(is_first))])
            item = items[int(self.item_index[duplicate])]
            advice = "drop some, or set duplicates to 'mean', 'last' or 'sum'"
            if users is None:
                raise ValueError(f"got item {item!r} twice or more, expected each once: {advice}")
            user = users[int(self.user_index[duplicate])]
            raise ValueError(
                f"user {user!r} has item {item!r} twice or more, expected each pair once: {advice}"
            )
        last_rows = order[np.append(np.flatnonzero(is_first)[1:] - 1, len(order) - 1)]
        values = self.values.copy()
        pair_index = np.cumsum(is_first) - 1
        if policy == "sum":
            values[last_rows] = np.bincount(pair_index, self.values[order])
        elif policy == "mean":
            weights = _fill_missing(self.given_weights, len(self), 1.0)[order]
            total = np.bincount(pair_index, weights)
            weights = np.where(total[pair_index] > 0.0, weights, 1.0)
            sums = np.bincount(pair_index, weights * self.values[order])
            values[last_rows] = sums / np.bincount(pair_index, weights)
        return replace(self, values=values).select(np.sort(last_rows))


def _fill_missing(values: Array | None, n: int, default: float) -> Array:
    return np.full(n, default) if values is None else values
