"""Triples of user, item and rating → rows of users and rows of items, each with its entries side by side."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array, argsort_codes

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Side:
    """The entries of each row of one side: those of row i are at indptr[i] to indptr[i + 1]."""

    indptr: Places  # (rows + 1,)
    others: Places  # (n,): the row of the other side
    order: Places  # (n,): of which triple
    values: Array  # (n,)
    weights: Array  # (n,)

    @classmethod
    def of(cls, own: Places, others: Places, rows: int, values: Array, weights: Array | None) -> "Side":
        order = argsort_codes(own, rows)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=rows))]).astype(np.int64)
        weights = np.ones(len(order)) if weights is None else weights[order]
        return cls(indptr, others[order], order, values[order], weights)

    @property
    def counts(self) -> Places:
        """Entries of each row."""
        return np.diff(self.indptr)

    def only(self, rows: Places) -> "Side":
        """The entries of these rows alone, in their order."""
        counts = self.counts[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        entries = np.repeat(self.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        values, weights = self.values[entries], self.weights[entries]
        return Side(indptr, self.others[entries], self.order[entries], values, weights)

    @cached_property
    def mass(self) -> Array:
        """The weight of each row (rows,)."""
        rows = len(self.indptr) - 1
        row = np.repeat(np.arange(rows), self.counts)
        return np.bincount(row, self.weights, minlength=rows).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Ratings:
    """n ratings, by places of users and items."""

    user: Places  # (n,)
    item: Places  # (n,)
    value: Array  # (n,)
    users: int
    items: int
    weight: Array | None = None  # (n,)
    bin: Places | None = None  # (n,): of time
    bins: int = 0

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
    def mass(self) -> float:
        """What all ratings weigh."""
        return float(self.weights.sum())

    @property
    def spread(self) -> float:
        """The standard deviation of the ratings, by weight; 1 where they are all the same."""
        if not len(self):
            return 1.0
        mean = np.average(self.value, weights=self.weight)
        found = float(np.sqrt(np.average(np.square(self.value - mean), weights=self.weight)))
        return found if found > 1e-12 * float(np.abs(self.value).max()) else 1.0

    @property
    def weighty(self) -> "Ratings":
        """Those that weigh anything."""
        return self if self.weight is None or self.weight.all() else self.take(self.weight > 0.0)

    def take(self, rows: Places | NDArray[np.bool_]) -> "Ratings":
        """These ratings, of the same users and items."""
        weight = None if self.weight is None else self.weight[rows]
        time = None if self.bin is None else self.bin[rows]
        return replace(
            self, user=self.user[rows], item=self.item[rows], value=self.value[rows], weight=weight, bin=time
        )
