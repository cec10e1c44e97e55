"""Alternating least squares: items' factors given the users' factors, then users' given the items'.

A rating is level + offset of the user + offset of the item + offsets of its time + the inner product of the
user's and the item's factors. If the rows of one side are fixed, each row of the other side is found by a
small ridge regression, in which the row's offset is the coefficient of a column of ones. The ridge of a row's
factors is proportional to w + 5, where w is the total weight of the row's ratings (without the 5 in Zhou et
al. 2008). The ridge λ of an offset is the same for all rows; it has the effect of λ further ratings in each
row that are predicted exactly without the offset.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, sqrt
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from tamis import threads
from tamis._kernels import factors as kernels
from tamis.arrays import Array, import_scipy_sparse
from tamis.linalg import orthonormalize
from tamis.models.factors.ratings import GroupedRatings, Indices, Ratings
from tamis.protocols import Iterative, iterate

_SUBSPACE_ITERATIONS = 2  # by which `start` approximates singular vectors
# Added to the weight of each row, so that rows of few ratings shrink more (experiments/0008).
_PSEUDO_WEIGHT = 5.0
_MIN_OFFSET_RIDGE = 1e-12  # with a ridge of 0, the offset of a row without ratings would be 0/0
_NO_BINS: Array = np.zeros(0)  # the offsets of bins of time, in a model without such bins

P = TypeVar("P")  # a posterior: a `Sweep`, or a `Draw` of Gibbs sampling


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Level, rows of users and items (the last column of each is the offset), and offsets of times."""

    level: float
    users: Array  # (users, k + 1)
    items: Array  # (items, k + 1)
    time_offsets: Array = field(default_factory=lambda: _NO_BINS)  # (bins,): shared by all items
    item_time_offsets: Array = field(default_factory=lambda: _NO_BINS[:, None])  # (items, bins)

    @property
    def rank(self) -> int:
        """The number k of factors in a row, without the offset."""
        return int(self.users.shape[1]) - 1


@dataclass(frozen=True, slots=True, eq=False)
class RatingsGiven(Generic[P]):
    """The statistic of one step: the ratings, together with the posterior under which they are observed.

    On paper the statistic is one Gram per row. The Grams are not stored: the kernel sums and solves each
    row's Gram directly from its ratings.
    """

    ratings: Ratings
    posterior: P

    def __add__(self, other: Self) -> Self:
        return replace(self, ratings=self.ratings + other.ratings)

    def __mul__(self, weight: float) -> Self:
        return replace(self, ratings=self.ratings * weight)


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """The factors after one step of alternating least squares, and how well they fit."""

    factors: Factors
    rmse: float = inf  # of the held-out ratings, or of all if none are held out; infinite before any sweep
    # With held-out ratings `rmse`, else the penalised squared error, which no sweep raises.
    objective: float = inf


class LevelAndTimeOffsets(Protocol):
    """The terms of a predicted rating that belong to no user's or item's row: level and offsets of times."""

    @property
    def level(self) -> float:
        """The weighted mean rating; 0 in a model without a level."""

    @property
    def time_offsets(self) -> Array:
        """The offset of each bin of time, shared by all items (bins,)."""

    @property
    def item_time_offsets(self) -> Array:
        """The further offset of each item in each bin of time (items, bins)."""


def predict_pairs(users: Array, items: Array, user: Indices, item: Indices) -> Array:
    """Both offsets plus the inner product of the factors of each pair (n,); an index of −1 adds nothing."""
    user_factors, item_factors = np.ascontiguousarray(users[:, :-1]), np.ascontiguousarray(items[:, :-1])
    products = kernels.dot_pairs(user_factors, item_factors, user, item)
    return products + _select_offsets(users, user) + _select_offsets(items, item)


def _select_offsets(rows: Array, indices: Indices) -> Array:
    return np.append(rows[:, -1], 0.0)[indices]  # the index −1 selects the zero at the end


def select_time_offsets(offsets: LevelAndTimeOffsets, item: Indices, time_bin: Indices | None) -> Array:
    """The offset of each pair's bin of time (n,): the one shared by all items plus the one of its item."""
    if time_bin is None or not len(offsets.time_offsets):
        return np.zeros(len(item))
    item_offsets = np.where(item >= 0, offsets.item_time_offsets[item, time_bin], 0.0)
    return np.asarray(offsets.time_offsets[time_bin] + item_offsets)


def compute_targets(ratings: Ratings, side: GroupedRatings, offsets: LevelAndTimeOffsets) -> Array:
    """The ratings in the order of `side`, minus level and offsets of times (n,): the targets of rows."""
    targets = side.values - offsets.level
    if ratings.time_bin is not None:
        targets -= select_time_offsets(
            offsets, ratings.item_index[side.rating_index], ratings.time_bin[side.rating_index]
        )
    return targets


def make_features(other: Array) -> Array:
    """The features of one side's regressions: the other side's rows, with ones for offsets (rows, k + 1)."""
    features = other.copy()
    features[:, -1] = 1.0
    return features


def sum_squared_residuals(ratings: Ratings, factors: Factors, targets: Array | None = None) -> float:
    """Σ w (rating − expected rating)²; `targets`, if known already, are the targets of the users' side."""
    side = ratings.by_user
    targets = compute_targets(ratings, side, factors) if targets is None else targets
    squares = kernels.row_squares(
        side.indptr, side.other_index, side.weights, targets, factors.users, factors.items
    )
    return float(squares.sum())


def compute_rmse(ratings: Ratings, factors: Factors) -> float:
    """The root of the weighted mean squared residual."""
    return sqrt(sum_squared_residuals(ratings, factors) / ratings.total_weight)


class SweepModel(ABC):
    """A model of ratings, explicit or implicit, whose steps are sweeps."""

    __slots__ = ()

    @abstractmethod
    def start(self, ratings: Ratings, rng: np.random.Generator) -> Factors:
        """Return factors from which sweeps start. The users' rows do not matter: they are solved first."""

    def observe(self, data: Ratings, given: Sweep | None = None) -> RatingsGiven[Sweep]:
        """The ratings, together with the factors; nothing is summed yet."""
        return RatingsGiven(data, require_factors(given))

    @abstractmethod
    def infer(self, statistic: RatingsGiven[Sweep]) -> Sweep:
        """Make one sweep, which solves the users last; return the factors, and how well they fit."""

    def objective(self, statistic: RatingsGiven[Sweep]) -> float:
        """The objective of the sweep that was given to `observe`."""
        return statistic.posterior.objective

    def solve_users(self, ratings: Ratings, factors: Factors, rows: Indices | None = None) -> Array:
        """The rows of all users, or of some, given the items (rows, k + 1)."""
        side = ratings.by_user if rows is None else ratings.by_user.select_rows(rows)
        return self._solve_rows(ratings, side, factors.items, factors)

    def solve_items(self, ratings: Ratings, factors: Factors, rows: Indices | None = None) -> Array:
        """The rows of all items, or of some, given the users (rows, k + 1)."""
        side = ratings.by_item if rows is None else ratings.by_item.select_rows(rows)
        return self._solve_rows(ratings, side, factors.users, factors)

    @abstractmethod
    def _solve_rows(self, ratings: Ratings, side: GroupedRatings, other: Array, factors: Factors) -> Array:
        """The rows of one side (rows, k + 1), given those of the other.

        `side` holds the ratings of the rows to solve, and `other` the rows of the other side. Of `factors`,
        only the level and the offsets of times are used.
        """


@dataclass(frozen=True, slots=True)
class Alternating(SweepModel):
    """Alternating least squares of explicit ratings: each sweep solves items, offsets of times and users.

    Users are solved last, so that each user's row is the exact solution given the items. With `held_out`
    ratings, sweeps are evaluated by the error of these ratings.
    """

    rank: int
    # The ridge of a row's factors, divided by the weight of the row's ratings plus five. Its unit is that of
    # the ratings, because the unit of a factor is the root of the ratings' unit.
    ridge: float = 0.1
    offset_ridge: float = 5.0  # the ridge of each offset; infinity: there are no level and no offsets
    held_out: Ratings | None = None  # ratings by whose error sweeps are evaluated

    def start(self, ratings: Ratings, rng: np.random.Generator) -> Factors:
        """Start with items in the directions of largest variance, found approximately, and offsets of zero.

        With random factors, a tiny ridge and 50 ratings per row, one fit in ten diverged: a few rows grew
        without bound (1000 users, 1000 items, 5 factors, no noise). With this start none of 14 fits diverged.
        """
        items = np.zeros((ratings.n_items, self.rank + 1))
        level = (
            float(np.average(ratings.values, weights=ratings.weights_or_none)) if self.has_offsets else 0.0
        )
        # The squared norm of an item's factors is on average about the standard deviation of the ratings.
        scale = np.sqrt(ratings.standard_deviation * ratings.n_items / self.rank)
        items[:, :-1] = scale * self._find_singular_vectors(ratings, level, rng)
        users = np.zeros((ratings.n_users, self.rank + 1))
        bins = ratings.n_time_bins
        return Factors(
            level,
            users,
            items,
            time_offsets=np.zeros(bins),
            item_time_offsets=np.zeros((ratings.n_items, bins)),
        )

    def _find_singular_vectors(self, ratings: Ratings, level: float, rng: np.random.Generator) -> Array:
        """The leading right singular vectors (items, k) of a matrix (users, items), by subspace iteration.

        The matrix has weight times rating without level and offsets, and 0 where there is no rating.
        """
        side, user = ratings.by_user, ratings.user_index[ratings.by_user.rating_index]
        residuals = side.values - level
        if self.has_offsets:
            for index, row_weights in (
                (side.other_index, ratings.by_item.row_weights),  # first the items' offsets
                (user, side.row_weights),  # then the users'
            ):
                total = np.bincount(index, side.weights * residuals, minlength=len(row_weights))
                residuals -= (total / (row_weights + self.positive_offset_ridge))[index]
        shape = ratings.n_users, ratings.n_items
        table = import_scipy_sparse().csr_array(
            (side.weights * residuals, side.other_index, side.indptr), shape=shape
        )
        directions: Array = rng.normal(size=(ratings.n_items, self.rank)) / np.sqrt(ratings.n_items)
        count = min(directions.shape)  # no more orthogonal directions than items; further ones stay random
        with threads.one_blas_thread:
            for _ in range(_SUBSPACE_ITERATIONS):
                directions[:, :count] = orthonormalize(table.T @ (table @ directions[:, :count]))
        return directions

    @property
    def has_offsets(self) -> bool:
        """Whether the model has a level and offsets."""
        return bool(np.isfinite(self.offset_ridge))

    @property
    def positive_offset_ridge(self) -> float:
        """The ridge of each offset, or a tiny number in place of 0."""
        return max(self.offset_ridge, _MIN_OFFSET_RIDGE)

    def infer(self, statistic: RatingsGiven[Sweep]) -> Sweep:
        """Make one sweep: items given users, offsets of times given both, users given items."""
        ratings, factors = statistic.ratings, statistic.posterior.factors
        factors = replace(factors, items=self.solve_items(ratings, factors))
        if ratings.n_time_bins:
            factors = self._fit_time_offsets(ratings, factors)
        factors = replace(factors, users=self.solve_users(ratings, factors))
        if self.held_out is None:
            return self.evaluate(ratings, factors)
        rmse = compute_rmse(self.held_out, factors)
        return Sweep(factors, rmse=rmse, objective=rmse)

    def evaluate(self, ratings: Ratings, factors: Factors) -> Sweep:
        """Compute the RMSE of the ratings, and the objective: weighted squared errors plus all penalties."""
        squares = objective = sum_squared_residuals(ratings, factors)
        for side, rows in ((ratings.by_user, factors.users), (ratings.by_item, factors.items)):
            ridges = self.compute_ridges(side)
            objective += float((ridges * np.square(rows[:, : ridges.shape[1]])).sum())
        if ratings.n_time_bins:
            offsets = np.square(factors.time_offsets).sum() + np.square(factors.item_time_offsets).sum()
            objective += self.offset_ridge * float(offsets)
        return Sweep(factors, rmse=sqrt(squares / ratings.total_weight), objective=objective)

    def make_features(self, other: Array) -> Array:
        """The features of one side's regressions (rows, k + 1), or without the ones (rows, k)."""
        return make_features(other) if self.has_offsets else np.ascontiguousarray(other[:, :-1])

    def compute_ridges(self, side: GroupedRatings) -> Array:
        """The ridge of each row's factors and offset (rows, k + 1), or (rows, k) if there are no offsets."""
        ridges = np.empty((len(side.row_weights), self.rank + self.has_offsets))
        ridges[:, : self.rank] = self.ridge * (side.row_weights + _PSEUDO_WEIGHT)[:, None]
        ridges[:, self.rank :] = self.positive_offset_ridge
        return ridges

    def _solve_rows(self, ratings: Ratings, side: GroupedRatings, other: Array, factors: Factors) -> Array:
        rows = kernels.solve_rows(
            side.indptr,
            side.other_index,
            side.weights,
            side.weights * compute_targets(ratings, side, factors),
            self.make_features(other),
            self.compute_ridges(side),
            other_offsets=np.ascontiguousarray(other[:, -1]),  # the kernel subtracts them from the targets
        )
        if np.isnan(rows).any():  # so the kernel marks a row whose equations are not positive definite
            raise ValueError(
                f"got ridge={self.ridge:g}, expected a larger one: the ratings of a row do not determine its "
                "factors; raise it"
            )
        return rows if self.has_offsets else np.column_stack([rows, np.zeros(len(rows))])

    def _fit_time_offsets(self, ratings: Ratings, factors: Factors) -> Factors:
        """Solve offsets of times given the other terms: first those shared by all items, then each item's."""
        assert ratings.time_bin is not None
        ridge = self.positive_offset_ridge
        predicted = predict_pairs(factors.users, factors.items, ratings.user_index, ratings.item_index)
        residuals = ratings.values - factors.level - predicted
        w, time_bin, bins = ratings.weights, ratings.time_bin, ratings.n_time_bins
        old_item_offsets = factors.item_time_offsets[ratings.item_index, time_bin]
        bin_weights = np.bincount(time_bin, w, minlength=bins)
        total = np.bincount(time_bin, w * (residuals - old_item_offsets), minlength=bins)
        offsets = total / (bin_weights + ridge)
        # A cell is a pair of item and bin.
        cell, size = ratings.item_index * bins + time_bin, factors.item_time_offsets.size
        cell_weights = np.bincount(cell, w, minlength=size)
        total = np.bincount(cell, w * (residuals - offsets[time_bin]), minlength=size)
        item_offsets = (total / (cell_weights + ridge)).reshape(factors.item_time_offsets.shape)
        return replace(factors, time_offsets=offsets, item_time_offsets=item_offsets)


def require_factors(given: P | None) -> P:
    """Return the posterior; raise if it is None."""
    if given is None:
        raise ValueError("got no factors, expected those of a start: ratings are observed given factors")
    return given


def run_sweeps(model: SweepModel, ratings: Ratings, start: Factors) -> Iterator[Sweep]:
    """Make sweeps from the items of `start`, and yield the result of each sweep, without end."""
    first = Sweep(replace(start, users=model.solve_users(ratings, start)))
    all_in_one_shard = (ratings,)
    return (step.posterior for step in iterate(model, all_in_one_shard, first))


# The type checker verifies by this assignment that Alternating has the methods of Iterative.
_: type[Iterative[Ratings, RatingsGiven[Sweep], Sweep]] = Alternating
