"""Ratings by named users of named items → factors → predicted ratings and recommendations.

A recommender is immutable: methods that change its ratings return a new one. If factors are fitted by least
squares, every user's row is the exact solution given the items; after a change of an item the rows of its
users are solved again. Therefore a rating's contribution to a score can be computed and removed.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tamis import threads
from tamis.arrays import Array
from tamis.models.factors import ranking
from tamis.models.factors.fitting import FitHistory, FitOptions, Report, choose_ridge, fit_factors
from tamis.models.factors.implicit import Implicit
from tamis.models.factors.posterior import FactorPosterior, SideName, Solver, Stack
from tamis.models.factors.ratings import Duplicates, Entries, Indices, Ratings
from tamis.models.factors.times import TimeScale, weigh_by_age
from tamis.stats import Keys
from tamis.tables import runs

_CELLS = 1 << 20  # pairs of user and item that are scored at a time


@dataclass(frozen=True, eq=False)
class FoldedUser:
    """A user whose row was solved without adding the user to the model (folding in).

    `predict`, `recommend` and `explain` accept it in place of an id.
    """

    rows: Stack  # (draws, k + 1): the user's factors and offset, in each draw if there are draws
    entries: Entries  # the user's ratings, with the index 0 for the user
    items: Keys  # the keys to which the entries' item_index refers

    def __repr__(self) -> str:
        return f"FoldedUser({len(self.entries)} ratings)"


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """Pairs of user and item as indices, and the rows to which the indices refer."""

    posterior: FactorPosterior
    user_index: Indices  # (n,): −1 if the user is unknown
    item_index: Indices  # (n,): −1 if the item is unknown
    time_bin: Indices | None  # (n,)


@dataclass(frozen=True, eq=False)
class Recommender:
    """Ratings, and the factors that were fitted to them."""

    users: Keys  # their ids
    items: Keys  # their ids
    entries: Entries  # the ratings, with indices into `users` and `items`
    solver: Solver
    posterior: FactorPosterior
    times: TimeScale | None  # None if time does not enter the model
    low: float  # the smallest rating
    high: float  # the largest rating
    history: FitHistory = field(default_factory=lambda: FitHistory(0, np.zeros(0)))

    is_empty: ClassVar[bool] = False  # the state of an estimator says by this whether it has learned nothing

    @property
    def is_implicit(self) -> bool:
        """Whether the ratings are actions."""
        return isinstance(self.solver, Implicit)

    @property
    def has_draws(self) -> bool:
        """Whether the factors are draws, which give standard deviations."""
        return self.posterior.hyperparameters is not None

    @cached_property
    def ratings(self) -> Ratings:
        """The entries, weighted by age."""
        return self.weigh(self.entries, len(self.users))

    def weigh(self, entries: Entries, n_users: int) -> Ratings:
        """Weight entries by age, and find their bins of time."""
        return weigh_by_age(entries, self.times, n_users, len(self.items))

    @cached_property
    def popularity(self) -> Array:
        """The fraction of all users who acted on each item (items,)."""
        counts = np.bincount(self.entries.item_index, minlength=len(self.items))
        return counts / max(1, len(self.users))

    def find_user_entries(self, user: int) -> Indices:
        """The indices of a user's entries."""
        side = self.ratings.by_user
        return side.rating_index[side.indptr[user] : side.indptr[user + 1]]

    def find_entry(self, user: int, item: int) -> int:
        """The index of the pair's entry; −1 if there is none."""
        rows = self.find_user_entries(user)
        matches = rows[self.entries.item_index[rows] == item]
        return int(matches[0]) if len(matches) else -1

    # ── changes ──

    def with_keys(self, users: Keys, items: Keys) -> "Recommender":
        """Add these ids. The rows of new ids are zero."""
        all_users, user_index, _ = self.users.union(users)
        all_items, item_index, _ = self.items.union(items)
        posterior = self.posterior.resize(user_index, item_index, (len(all_users), len(all_items)))
        entries = self.entries.reindex(user_index, item_index)
        return replace(self, users=all_users, items=all_items, posterior=posterior, entries=entries)

    def with_entries(self, new: Entries, duplicates: Duplicates) -> "Recommender":
        """Add ratings of known ids. Ages count from the newest rating of all. No row is solved yet."""
        if duplicates == "mean":
            n_items = len(self.items)
            is_known = np.isin(new.encode_pairs(n_items), self.entries.encode_pairs(n_items))
            if is_known.any():
                row = int(np.argmax(is_known))
                user, item = self.users[int(new.user_index[row])], self.items[int(new.item_index[row])]
                raise ValueError(
                    f"user {user!r} has item {item!r} already, "
                    "expected new pairs with duplicates='mean', because counts are not stored: fit again"
                )
        newest, times = self.times.newest if self.times is not None else 0.0, self.times
        if times is not None and new.time is not None:
            times = times.extend(float(new.time.max()))
        entries = self.entries.append(new, newest).merge_duplicates(duplicates, self.users, self.items)
        low, high = min(self.low, new.values.min()), max(self.high, new.values.max())
        return replace(self, entries=entries, times=times, low=float(low), high=float(high))

    def update(
        self, users: Keys, items: Keys, entries: Entries, duplicates: Duplicates, rng: np.random.Generator
    ) -> "Recommender":
        """Add ratings. `entries` has indices into `users` and `items`, whose ids may be known or new.

        The rows of the entries' users are solved, then those of their items, then those of the items' users.
        If newer ratings reduce the weights of all others, the rows of all users are solved.
        """
        extended = self.with_keys(users, items)
        user_index = extended.users.find(users)[entries.user_index]
        item_index = extended.items.find(items)[entries.item_index]
        new = replace(entries, user_index=user_index, item_index=item_index)
        extended = extended.with_entries(new, duplicates)
        if self.times is not None and extended.times is not None:
            extended.times.refuse_loss_of_weight(self.times, self.entries.time, extended.entries.time)
        times = extended.times
        weights_change = times is not None and times.half_life is not None and times != self.times
        changed_users = np.arange(len(extended.users)) if weights_change else user_index
        return extended.solve_users(changed_users, rng).solve_items(item_index, rng)

    def add_user(
        self, user: Hashable, item: Indices, value: Array, duplicates: Duplicates, rng: np.random.Generator
    ) -> "Recommender":
        """Add a user with ratings of known items, by one ridge regression on the items' factors."""
        extended = self.with_keys(Keys((user,)), Keys(()))
        index = extended.users.find([user])
        if len(item):
            extended = extended.with_entries(Entries(np.repeat(index, len(item)), item, value), duplicates)
        return extended.solve_users(index, rng)

    def add_item(
        self, item: Hashable, user: Indices, value: Array, duplicates: Duplicates, rng: np.random.Generator
    ) -> "Recommender":
        """Add an item and its ratings by known users, whose rows are solved again afterwards."""
        extended = self.with_keys(Keys(()), Keys((item,)))
        index = extended.items.find([item])
        if len(user):
            extended = extended.with_entries(Entries(user, np.repeat(index, len(user)), value), duplicates)
        return extended.solve_items(index, rng)

    def fold_in(
        self, item: Indices, value: Array, duplicates: Duplicates, rng: np.random.Generator
    ) -> FoldedUser:
        """Solve the row of a user with these ratings of known items, without adding the user."""
        time = None if self.times is None else np.full(len(item), self.times.newest)
        entries = Entries(np.zeros(len(item), dtype=np.int64), item, value, time=time)
        entries = entries.merge_duplicates(duplicates, users=None, items=self.items)
        user = np.zeros(1, dtype=np.int64)
        rows = self.posterior.solve_rows("users", self.solver, self.weigh(entries, 1), user, rng)
        return FoldedUser(rows[:, 0], entries, self.items)

    def forget(self, entries: Indices, rng: np.random.Generator, of_items: bool) -> "Recommender":
        """Remove these ratings, and solve the rows of their users and, with `of_items`, of their items."""
        users, items = self.entries.user_index[entries], self.entries.item_index[entries]
        is_kept = np.ones(len(self.entries), dtype=np.bool_)
        is_kept[entries] = False
        after = replace(self, entries=self.entries.select(is_kept))
        values = after.ratings.drop_weightless().values
        if len(values):
            after = replace(after, low=float(values.min()), high=float(values.max()))
        after = after.solve_users(users, rng)
        return after.solve_items(items, rng) if of_items else after

    def solve_users(self, indices: Indices, rng: np.random.Generator) -> "Recommender":
        """Solve the rows of these users again."""
        indices = np.unique(indices)
        rows = self._solve_rows("users", indices, rng)
        return replace(self, posterior=self.posterior.with_rows("users", indices, rows))

    def solve_items(self, indices: Indices, rng: np.random.Generator) -> "Recommender":
        """Solve the rows of these items again, and then those of all users who rated them.

        With implicit feedback the rows of all users are solved: every user has a preference for every item.
        """
        indices = np.unique(indices)
        rows = self._solve_rows("items", indices, rng)
        after = replace(self, posterior=self.posterior.with_rows("items", indices, rows))
        raters = self.ratings.by_item.select_rows(indices).other_index
        if self.is_implicit:
            raters = np.arange(len(self.users))
        return after.solve_users(raters, rng) if len(raters) else after

    def _solve_rows(self, side: SideName, indices: Indices, rng: np.random.Generator) -> Stack:
        return self.posterior.solve_rows(side, self.solver, self.ratings, indices, rng)

    # ── predicted ratings ──

    def locate(self, users: Any, items: Any, time: Array | None, draw_unknown: bool = False) -> Query:
        """Find the indices of pairs of ids. `users` may contain folded users.

        If the factors are draws, an unknown id has its side's mean row, or with `draw_unknown` a drawn row.
        """
        user, item = find_ids(self.users, users, "user"), find_ids(self.items, items, "item")
        posterior = self.posterior
        ids = [] if isinstance(users, np.ndarray) else users  # an array holds numbers, and no folded users
        folded = [
            (row, folded_user) for row, folded_user in enumerate(ids) if isinstance(folded_user, FoldedUser)
        ]
        if folded:
            distinct = {id(folded_user): folded_user for _, folded_user in folded if len(folded_user.entries)}
            index = {identity: posterior.users.shape[1] + i for i, identity in enumerate(distinct)}
            rows: list[Any] = [folded_user.rows[:, None] for folded_user in distinct.values()]
            posterior = replace(posterior, users=np.concatenate([posterior.users, *rows], axis=1))
            for row, folded_user in folded:
                user[row] = index.get(id(folded_user), -1)
        known = (user >= 0) & (user < len(self.users))  # a user without ratings counts as unknown
        user[known] = np.where(self.ratings.by_user.counts[user[known]] > 0, user[known], -1)
        rng = np.random.default_rng(0) if draw_unknown else None
        posterior, user = posterior.with_unknown_row(user, "users", rng)
        posterior, item = posterior.with_unknown_row(item, "items", rng)
        return Query(posterior, user, item, self.find_bins(time, len(user)))

    def find_bins(self, time: Array | None, n: int) -> Indices | None:
        """The bin of time of each pair. Without a time it is the bin of the newest rating."""
        if self.times is None or not self.times.bins:
            return None
        return self.times.find_bins(np.full(n, self.times.newest) if time is None else time)

    def predict(self, query: Query) -> Array:
        """The expected rating of each pair (n,), not clipped.

        An unknown id adds nothing or, if the factors are draws, the row that `locate` gave it. With implicit
        feedback, the preference of an unknown user is the popularity of the item.
        """
        ratings = query.posterior.predict(query.user_index, query.item_index, query.time_bin)
        if not self.is_implicit:
            return ratings
        popularity = np.where(query.item_index >= 0, self.popularity[query.item_index], 0.0)
        return np.where(query.user_index >= 0, ratings, popularity)

    def predict_std(self, query: Query) -> Array:
        """The standard deviation of each pair's rating (n,): its variance over the draws, plus the noise."""
        variance = query.posterior.predict_variance(query.user_index, query.item_index, query.time_bin)
        return np.sqrt(variance + float(self.posterior.noise_variances.mean()))

    def clip(self, ratings: Array) -> Array:
        """Clip ratings to the range of the learned ratings; return preferences unchanged."""
        return ratings if self.is_implicit else np.clip(ratings, self.low, self.high)

    # ── recommendations ──

    def recommend(
        self,
        users: Sequence[Any],
        count: int,
        exclude_seen: bool = True,
        diversity: float = 0.0,
        bonus: Array | None = None,
        is_candidate: NDArray[np.bool_] | None = None,
        time: Array | None = None,
    ) -> tuple[Indices, Array]:
        """Indices of items (users, count), best first, and their scores; −1 and −∞ where no item is left.

        `bonus` (items,) is added to the scores, and only items with `is_candidate` (items,) are recommended.
        """
        items = len(self.items)
        indices = np.full((len(users), count), -1, dtype=np.int64)
        scores = np.full((len(users), count), -np.inf)
        if not users:
            return indices, scores
        time_bin = self.find_bins(time, 1)
        item_factors = self.posterior.join_item_factors() if diversity else None
        rows = self._gather_users(users)

        def recommend_block(part: slice) -> None:
            factors, is_unknown = rows.factors[:, part], rows.is_unknown[part]
            item_scores = self.posterior.predict_all_items(
                factors, None if time_bin is None else int(time_bin[0])
            )
            if self.is_implicit:
                item_scores[is_unknown] = self.popularity
            if bonus is not None:
                item_scores += bonus
            if is_candidate is not None:
                item_scores[:, ~is_candidate] = -np.inf
            if exclude_seen:
                item_scores[rows.find_seen_cells(part)] = -np.inf
            best = (
                ranking.find_best_items(item_scores, count)
                if item_factors is None
                else ranking.find_diverse_items(item_scores, item_factors, count, diversity)
            )
            best_scores = np.take_along_axis(item_scores, np.maximum(best, 0), axis=1)
            indices[part], scores[part] = best, np.where(best >= 0, best_scores, -np.inf)

        with threads.one_blas_thread:
            for _ in threads.map_ahead(recommend_block, runs(len(users), items, _CELLS)):
                pass
        return indices, scores

    def find_similar_items(self, item: int, count: int) -> tuple[Indices, Array]:
        """Indices of the items most similar to an item, best first, and the cosines of their factors."""
        return ranking.find_similar_items(self.posterior.join_item_factors(), item, count)

    def compute_recency_bonus(self, recency: float) -> Array | None:
        """The addition to each item's score for recent ratings (items,)."""
        if not recency:
            return None
        if self.times is None or self.entries.time is None:
            raise ValueError(
                f"got recency={recency:g}, expected ratings with times: fit with a column of times"
            )
        item, items = self.entries.item_index, len(self.items)
        freshness = np.bincount(item, self.times.compute_recency(self.entries.time), minlength=items)
        return recency * freshness / np.maximum(1, np.bincount(item, minlength=items))

    def _gather_users(self, users: Sequence[Any]) -> "_UserRows":
        """Find the factors of these users and the items that each has seen."""
        unknown = self.posterior.make_unknown_row("users").astype(self.posterior.users.dtype)
        if any(isinstance(user, FoldedUser) for user in users):
            gathered = [self._gather_user(user) for user in users]
            is_unknown = np.array([pair is None for pair in gathered])
            nothing_seen = np.empty(0, dtype=np.int64)
            all_rows, seen = zip(*(pair or (unknown, nothing_seen) for pair in gathered), strict=True)
            rows: Any = np.stack(all_rows, axis=1)
            counts, items = np.array([len(each) for each in seen]), np.concatenate(seen)
        else:
            index = find_ids(self.users, users, "user")
            side = self.ratings.by_user
            counts = np.where(index >= 0, side.counts[index], 0)
            is_unknown = counts == 0
            rows = self.posterior.users[:, index]
            rows[:, is_unknown] = unknown[:, None]
            first = np.where(is_unknown, 0, side.indptr[index])
            ends = np.cumsum(counts)
            items = side.other_index[np.arange(ends[-1]) + np.repeat(first - (ends - counts), counts)]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return _UserRows(rows, is_unknown, indptr, items)

    def _gather_user(self, user: Any) -> tuple[Stack, Indices] | None:
        """The factors of a user (draws, k + 1) and the items that the user rated; None if there are none."""
        if isinstance(user, FoldedUser):
            if not len(user.entries):
                return None
            seen = self.items.find([user.items[int(index)] for index in user.entries.item_index])
            return user.rows, seen[seen >= 0]
        index = find_id(self.users, user)
        if index < 0 or not len(self.find_user_entries(index)):
            return None
        return self.posterior.users[:, index], self.entries.item_index[self.find_user_entries(index)]


@dataclass(frozen=True, slots=True, eq=False)
class _UserRows:
    """The factors of some users, and the items that they have seen."""

    factors: Stack  # (draws, users, k + 1)
    is_unknown: NDArray[np.bool_]  # (users,)
    indptr: Indices  # (users + 1,)
    items: Indices  # the seen items, user by user

    def find_seen_cells(self, part: slice) -> tuple[Indices, Indices]:
        """The indices of rows and of items of all pairs in which a user of `part` has seen the item."""
        ends = self.indptr[part.start : part.stop + 1]
        return np.repeat(np.arange(len(ends) - 1), np.diff(ends)), self.items[ends[0] : ends[-1]]


def fit_recommender(
    users: Keys,
    items: Keys,
    entries: Entries,
    times: TimeScale | None,
    options: FitOptions,
    rng: np.random.Generator,
    report: Report,
) -> Recommender:
    """Choose the ridge, if the options ask for it, and fit factors to the ratings."""
    ratings = weigh_by_age(entries, times, len(users), len(items)).drop_weightless()
    options = replace(options, solver=choose_ridge(options, ratings, rng, report))
    posterior, history = fit_factors(options, ratings, rng, report)
    low, high = float(ratings.values.min()), float(ratings.values.max())
    return Recommender(users, items, entries, options.solver, posterior, times, low, high, history)


def find_ids(keys: Keys, values: Any, what: str) -> Indices:
    """The index of each id among the keys, −1 for unknown ids; `what` is "user" or "item"."""
    try:
        return keys.find(values.tolist() if isinstance(values, np.ndarray) else values)
    except TypeError as problem:
        raise TypeError(
            f"got a {what} that cannot be an id ({problem}), expected strings, numbers or tuples"
        ) from None


def find_id(keys: Keys, value: Hashable) -> int:
    """The index of one id, −1 if it is unknown."""
    try:
        return int(keys.find([value])[0])
    except TypeError as problem:
        raise TypeError(
            f"got the id {value!r} ({problem}), expected a hashable one: a string, a number or a tuple"
        ) from None
