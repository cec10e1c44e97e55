"""Ratings in three forms: as they were read, ready to be fitted, and grouped by user or by item."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array
from tamis.stats import Keys

Indices = NDArray[np.int64]
# What becomes of several ratings of one user and item: see `Entries.merge_duplicates`.
Duplicates = Literal["refuse", "mean", "last", "sum"]


@dataclass(frozen=True, eq=False)
class GroupedRatings:
    """Ratings grouped by the rows of one side: by user, or by item.

    The ratings of row i have the positions from indptr[i] to indptr[i + 1] (exclusive).
    """

    indptr: Indices  # (rows + 1,)
    other_index: Indices  # (n,): the item of each rating, if the rows are users; else the user
    rating_index: Indices  # (n,): the index of each rating in the Ratings that were grouped
    values: Array  # (n,)
    weights: Array  # (n,)

    @classmethod
    def of(
        cls, row_index: Indices, other_index: Indices, n_rows: int, values: Array, weights: Array | None
    ) -> "GroupedRatings":
        """Group ratings by `row_index` (n,), the user or item of each. Without weights, each weight is 1."""
        order = arrays.argsort_codes(row_index, n_rows)
        counts = np.bincount(row_index, minlength=n_rows)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        weights = np.ones(len(order)) if weights is None else weights[order]
        return cls(indptr, other_index[order], order, values[order], weights)

    @property
    def counts(self) -> Indices:
        """The number of ratings of each row (rows,)."""
        return np.diff(self.indptr)

    @cached_property
    def row_weights(self) -> Array:
        """The total weight of each row's ratings (rows,)."""
        n_rows = len(self.indptr) - 1
        row_index = np.repeat(np.arange(n_rows), self.counts)
        return np.bincount(row_index, self.weights, minlength=n_rows).astype(np.float64)

    def select_rows(self, rows: Indices) -> "GroupedRatings":
        """Return the ratings of these rows, in the order of `rows`."""
        counts = self.counts[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        index = np.repeat(self.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        values, weights = self.values[index], self.weights[index]
        return GroupedRatings(indptr, self.other_index[index], self.rating_index[index], values, weights)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings ready to fit: weights are reduced by age, and times are replaced by their bins."""

    user_index: Indices  # (n,)
    item_index: Indices  # (n,)
    values: Array  # (n,)
    n_users: int
    n_items: int
    weights_or_none: Array | None = None  # (n,): None if all weights are 1
    time_bin: Indices | None = None  # (n,)
    n_time_bins: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def by_user(self) -> GroupedRatings:
        """The ratings grouped by user."""
        return GroupedRatings.of(
            self.user_index, self.item_index, self.n_users, self.values, self.weights_or_none
        )

    @cached_property
    def by_item(self) -> GroupedRatings:
        """The ratings grouped by item."""
        return GroupedRatings.of(
            self.item_index, self.user_index, self.n_items, self.values, self.weights_or_none
        )

    @cached_property
    def weights(self) -> Array:
        """The weight of each rating (n,)."""
        return _fill_missing(self.weights_or_none, len(self), 1.0)

    @cached_property
    def total_weight(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    @property
    def standard_deviation(self) -> float:
        """The weighted standard deviation of the ratings; 1 if all are equal or there is none."""
        if not len(self):
            return 1.0
        mean = np.average(self.values, weights=self.weights_or_none)
        deviation = float(np.sqrt(np.average(np.square(self.values - mean), weights=self.weights_or_none)))
        return deviation if deviation > 1e-12 * float(np.abs(self.values).max()) else 1.0

    def drop_weightless(self) -> "Ratings":
        """Return the ratings with a weight above 0."""
        weights = self.weights_or_none
        return self if weights is None or weights.all() else self.select(weights > 0.0)

    def select(self, chosen: Indices | NDArray[np.bool_]) -> "Ratings":
        """Return the chosen ratings; the numbers of users and items do not change."""
        return replace(
            self,
            user_index=self.user_index[chosen],
            item_index=self.item_index[chosen],
            values=self.values[chosen],
            weights_or_none=None if self.weights_or_none is None else self.weights_or_none[chosen],
            time_bin=None if self.time_bin is None else self.time_bin[chosen],
        )

    def __add__(self, other: "Ratings") -> "Ratings":
        """Return the ratings of both, which have the same users, items and bins of time."""
        if (self.time_bin is None) != (other.time_bin is None):
            raise ValueError("got ratings with times and ratings without, expected both with or both without")
        weights, time_bin = None, None
        if self.weights_or_none is not None or other.weights_or_none is not None:
            weights = np.concatenate([self.weights, other.weights])
        if self.time_bin is not None and other.time_bin is not None:
            time_bin = np.concatenate([self.time_bin, other.time_bin])
        return replace(
            self,
            user_index=np.concatenate([self.user_index, other.user_index]),
            item_index=np.concatenate([self.item_index, other.item_index]),
            values=np.concatenate([self.values, other.values]),
            weights_or_none=weights,
            time_bin=time_bin,
        )

    def __mul__(self, factor: float) -> "Ratings":
        """Return the ratings with all weights multiplied by `factor`."""
        return replace(self, weights_or_none=factor * self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Ratings before fitting: times are as they were read, and a pair of user and item may repeat."""

    user_index: Indices  # (n,): index of the user's key
    item_index: Indices  # (n,): index of the item's key
    values: Array  # (n,)
    undecayed_weights: Array | None = None  # (n,): before they are reduced by age; None if all are 1
    time: Array | None = None  # (n,)

    def __len__(self) -> int:
        return len(self.values)

    def select(self, chosen: Indices | NDArray[np.bool_]) -> "Entries":
        """Return the chosen ratings."""
        return Entries(
            self.user_index[chosen],
            self.item_index[chosen],
            self.values[chosen],
            None if self.undecayed_weights is None else self.undecayed_weights[chosen],
            None if self.time is None else self.time[chosen],
        )

    def reindex(self, users: Indices, items: Indices) -> "Entries":
        """Replace indices: `users` and `items` have the new index at the place of each old one."""
        return replace(self, user_index=users[self.user_index], item_index=items[self.item_index])

    def append(self, new: "Entries", newest: float) -> "Entries":
        """Append `new`. A missing weight becomes 1.

        If these ratings have times, a missing time in `new` becomes `newest`; otherwise those of `new` are
        dropped.
        """
        weights, time = None, None
        if self.undecayed_weights is not None or new.undecayed_weights is not None:
            parts = (_fill_missing(part.undecayed_weights, len(part), 1.0) for part in (self, new))
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
        """Return a number for each rating (n,), which is the same for the same pair of user and item."""
        return self.user_index * max(n_items, 1) + self.item_index

    def merge_duplicates(self, policy: Duplicates, users: Keys | None, items: Keys) -> "Entries":
        """Merge the ratings of each pair of user and item into one.

        The policy "last" takes the rating with the latest time or, without times, the last one of the input.
        "mean" takes the weighted mean of the values, and "sum" their sum without weights; both keep the
        weight and the time of the rating that "last" takes. "refuse" raises an error. If `users` is None, all
        ratings belong to one user, whom errors do not name.
        """
        order = None if self.time is None else np.argsort(self.time, kind="stable")
        # Sorted by user, then by item, then by time: each sort keeps the order before it among equal codes.
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
            weights = _fill_missing(self.undecayed_weights, len(self), 1.0)[order]
            total = np.bincount(pair_index, weights)
            weights = np.where(total[pair_index] > 0.0, weights, 1.0)
            sums = np.bincount(pair_index, weights * self.values[order])
            values[last_rows] = sums / np.bincount(pair_index, weights)
        return replace(self, values=values).select(np.sort(last_rows))


def _fill_missing(values: Array | None, n: int, default: float) -> Array:
    """Return the values; if they are None, n times the default."""
    return np.full(n, default) if values is None else values
