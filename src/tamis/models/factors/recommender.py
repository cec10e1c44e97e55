"""Ratings by named users of named items → factors → predicted ratings and recommendations.

A recommender is a value: a verb that changes its ratings makes a new one. Every user's row is the exact
answer to the items as they are, so a change of an item solves its users again. That is why a rating's
contribution to a score can be told, and taken away.
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

_CELLS = 1 << 20  # of users × items scored at a time


@dataclass(frozen=True, eq=False)
class FoldedUser:
    """A user who was not in the fit: `predict`, `recommend` and `explain` take it for a user's id."""

    rows: Stack  # (draws, k + 1)
    entries: Entries  # of user 0
    items: Keys  # the items that the entries' indices are of

    def __repr__(self) -> str:
        return f"FoldedUser({len(self.entries)} ratings)"


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """Pairs by index, and the rows of the users and items that they name."""

    posterior: FactorPosterior
    user: Indices  # (n,): −1 is unknown
    item: Indices
    time_bin: Indices | None


@dataclass(frozen=True, eq=False)
class Recommender:
    """Ratings, and the factors that were fitted to them."""

    users: Keys
    items: Keys
    entries: Entries
    solver: Solver
    posterior: FactorPosterior
    times: TimeScale | None
    low: float  # the range of the ratings
    high: float
    history: FitHistory = field(default_factory=lambda: FitHistory(0, np.zeros(0)))

    is_empty: ClassVar[bool] = False

    @property
    def is_implicit(self) -> bool:
        """Whether the ratings are actions."""
        return isinstance(self.solver, Implicit)

    @property
    def has_draws(self) -> bool:
        """Whether the factors are draws, which know their uncertainty."""
        return self.posterior.hyperparameters is not None

    @cached_property
    def ratings(self) -> Ratings:
        """The entries with the weight that age leaves of them."""
        return self.weigh(self.entries, len(self.users))

    def weigh(self, entries: Entries, users: int) -> Ratings:
        """Entries as ratings with the weight that age leaves of them, in their bins of time."""
        return weigh_by_age(entries, self.times, users, len(self.items))

    @cached_property
    def popularity(self) -> Array:
        """The part of all users who acted on each item (items,)."""
        counts = np.bincount(self.entries.item, minlength=len(self.items))
        return counts / max(1, len(self.users))

    def find_user_entries(self, user: int) -> Indices:
        """The indices of a user's entries."""
        side = self.ratings.by_user
        return side.order[side.indptr[user] : side.indptr[user + 1]]

    def find_entry(self, user: int, item: int) -> int:
        """The index of the pair's entry; −1 if there is none."""
        rows = self.find_user_entries(user)
        matches = rows[self.entries.item[rows] == item]
        return int(matches[0]) if len(matches) else -1

    # ── changes ──

    def with_keys(self, users: Keys, items: Keys) -> "Recommender":
        """With these ids, too; the rows of new ones are zero."""
        all_users, own, _ = self.users.union(users)
        all_items, other, _ = self.items.union(items)
        posterior = self.posterior.resize(own, other, (len(all_users), len(all_items)))
        entries = self.entries.reindex(own, other)
        return replace(self, users=all_users, items=all_items, posterior=posterior, entries=entries)

    def with_entries(self, new: Entries, duplicates: Duplicates) -> "Recommender":
        """With new ratings of known ids, and ages counted from the newest of all; no row is solved yet."""
        if duplicates == "mean":
            items = len(self.items)
            is_known = np.isin(new.number_pairs(items), self.entries.number_pairs(items))
            if is_known.any():
                row = int(np.argmax(is_known))
                raise ValueError(
                    f"user {self.users[int(new.user[row])]!r} has item {self.items[int(new.item[row])]!r} "
                    "already, expected new pairs with duplicates='mean', whose counts are not kept: fit anew"
                )
        newest, times = self.times.newest if self.times is not None else 0.0, self.times
        if times is not None and new.time is not None:
            times = times.extend(float(new.time.max()))
        entries = self.entries.append(new, newest).merge_duplicates(duplicates, self.users, self.items)
        low, high = min(self.low, new.value.min()), max(self.high, new.value.max())
        return replace(self, entries=entries, times=times, low=float(low), high=float(high))

    def update(
        self, users: Keys, items: Keys, entries: Entries, duplicates: Duplicates, rng: np.random.Generator
    ) -> "Recommender":
        """With more ratings, by indices of these ids, known or new; only the rows they touch are solved.

        Those users' rows are solved, then those items', then the users of these items again. Where newer
        ratings make all others older, all users' rows are solved.
        """
        wider = self.with_keys(users, items)
        own, other = wider.users.find(users)[entries.user], wider.items.find(items)[entries.item]
        wider = wider.with_entries(replace(entries, user=own, item=other), duplicates)
        if self.times is not None and wider.times is not None:
            wider.times.refuse_jump(self.times, self.entries.time, wider.entries.time)
        ages = wider.times is not None and wider.times.half_life is not None and wider.times != self.times
        touched = np.arange(len(wider.users)) if ages else own
        return wider.solve_users(touched, rng).solve_items(other, rng)

    def add_user(
        self, user: Hashable, item: Indices, value: Array, duplicates: Duplicates, rng: np.random.Generator
    ) -> "Recommender":
        """With a new user and his ratings of known items: one ridge regression on their factors."""
        wider = self.with_keys(Keys((user,)), Keys(()))
        index = wider.users.find([user])
        if len(item):
            wider = wider.with_entries(Entries(np.repeat(index, len(item)), item, value), duplicates)
        return wider.solve_users(index, rng)

    def add_item(
        self, item: Hashable, user: Indices, value: Array, duplicates: Duplicates, rng: np.random.Generator
    ) -> "Recommender":
        """With a new item and its ratings by known users, whose rows are solved again afterwards."""
        wider = self.with_keys(Keys(()), Keys((item,)))
        index = wider.items.find([item])
        if len(user):
            wider = wider.with_entries(Entries(user, np.repeat(index, len(user)), value), duplicates)
        return wider.solve_items(index, rng)

    def fold_in(
        self, item: Indices, value: Array, duplicates: Duplicates, rng: np.random.Generator
    ) -> FoldedUser:
        """The row of a user with these ratings of known items, who is not added."""
        time = None if self.times is None else np.full(len(item), self.times.newest)
        entries = Entries(np.zeros(len(item), dtype=np.int64), item, value, None, time)
        entries = entries.merge_duplicates(duplicates, None, self.items)
        one = np.zeros(1, dtype=np.int64)
        rows = self.posterior.solve_rows("users", self.solver, self.weigh(entries, 1), one, rng)
        return FoldedUser(rows[:, 0], entries, self.items)

    def forget(self, entries: Indices, rng: np.random.Generator, of_items: bool) -> "Recommender":
        """Without these ratings: their users' rows are solved without them, and maybe their items' rows."""
        users, items = self.entries.user[entries], self.entries.item[entries]
        is_kept = np.ones(len(self.entries), dtype=np.bool_)
        is_kept[entries] = False
        after = replace(self, entries=self.entries.select(is_kept))
        left = after.ratings.drop_weightless().value
        if len(left):
            after = replace(after, low=float(left.min()), high=float(left.max()))
        after = after.solve_users(users, rng)
        return after.solve_items(items, rng) if of_items else after

    def solve_users(self, indices: Indices, rng: np.random.Generator) -> "Recommender":
        """With the rows of these users solved again."""
        indices = np.unique(indices)
        rows = self._solve_rows("users", indices, rng)
        return replace(self, posterior=self.posterior.with_users(indices, rows))

    def solve_items(self, indices: Indices, rng: np.random.Generator) -> "Recommender":
        """With the rows of these items solved again, and then those of all users who rated them.

        Of implicit feedback, those of all users: everybody has a preference for everything.
        """
        indices = np.unique(indices)
        rows = self._solve_rows("items", indices, rng)
        after = replace(self, posterior=self.posterior.with_items(indices, rows))
        raters = self.ratings.by_item.select_rows(indices).others
        if self.is_implicit:
            raters = np.arange(len(self.users))
        return after.solve_users(raters, rng) if len(raters) else after

    def _solve_rows(self, side: SideName, indices: Indices, rng: np.random.Generator) -> Stack:
        return self.posterior.solve_rows(side, self.solver, self.ratings, indices, rng)

    # ── predicted ratings ──

    def locate(self, users: Any, items: Any, time: Array | None, draw_unknown: bool = False) -> Query:
        """Pairs of ids by index; among the users may be folded ones.

        In draws, an unknown id has the mean row of its side, or with `draw_unknown` a row drawn for it.
        """
        user, item = find_ids(self.users, users, "user"), find_ids(self.items, items, "item")
        posterior = self.posterior
        ids = [] if isinstance(users, np.ndarray) else users  # arrays hold numbers
        folded = [(row, one) for row, one in enumerate(ids) if isinstance(one, FoldedUser)]
        if folded:
            distinct = {id(one): one for _, one in folded if len(one.entries)}
            index = {name: posterior.users.shape[1] + i for i, name in enumerate(distinct)}
            rows: list[Any] = [one.rows[:, None] for one in distinct.values()]
            posterior = replace(posterior, users=np.concatenate([posterior.users, *rows], axis=1))
            for row, one in folded:
                user[row] = index.get(id(one), -1)
        known = (user >= 0) & (user < len(self.users))  # a user without ratings counts as unknown
        user[known] = np.where(self.ratings.by_user.counts[user[known]] > 0, user[known], -1)
        rng = np.random.default_rng(0) if draw_unknown else None
        posterior, user = posterior.with_unknown_row(user, "users", rng)
        posterior, item = posterior.with_unknown_row(item, "items", rng)
        return Query(posterior, user, item, self.find_bins(time, len(user)))

    def find_bins(self, time: Array | None, n: int) -> Indices | None:
        """The bin of time of each pair; without a time it is that of the newest rating."""
        if self.times is None or not self.times.bins:
            return None
        return self.times.find_bins(np.full(n, self.times.newest) if time is None else time)

    def predict(self, query: Query) -> Array:
        """The expected rating of each pair (n,), not clipped; unknown ids add nothing to it."""
        ratings = query.posterior.predict(query.user, query.item, query.time_bin)
        if not self.is_implicit:
            return ratings
        popularity = np.where(query.item >= 0, self.popularity[query.item], 0.0)
        return np.where(query.user >= 0, ratings, popularity)

    def predict_std(self, query: Query) -> Array:
        """The standard deviation of each pair's rating with noise (n,), by draws."""
        variance = query.posterior.predict_variance(query.user, query.item, query.time_bin)
        return np.sqrt(variance + float(self.posterior.noise_variances.mean()))

    def clip(self, ratings: Array) -> Array:
        """Ratings within the range of those learned; preferences as they are."""
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
        """Indices of items (users, count), best first, and scores; −1 and −∞ where no item is left."""
        items = len(self.items)
        indices = np.full((len(users), count), -1, dtype=np.int64)
        scores = np.full((len(users), count), -np.inf)
        if not users:
            return indices, scores
        time_bin = self.find_bins(time, 1)
        likeness = self.posterior.join_item_factors() if diversity else None
        rows = self._gather_users(users)

        def recommend_block(part: slice) -> None:
            factors, is_unknown = rows.factors[:, part], rows.is_unknown[part]
            table = self.posterior.predict_all_items(factors, None if time_bin is None else int(time_bin[0]))
            if self.is_implicit:
                table[is_unknown] = self.popularity
            if bonus is not None:
                table += bonus
            if is_candidate is not None:
                table[:, ~is_candidate] = -np.inf
            if exclude_seen:
                table[rows.find_seen_cells(part)] = -np.inf
            best = (
                ranking.find_best(table, count)
                if likeness is None
                else ranking.find_diverse(table, likeness, count, diversity)
            )
            best_scores = np.take_along_axis(table, np.maximum(best, 0), axis=1)
            indices[part], scores[part] = best, np.where(best >= 0, best_scores, -np.inf)

        with threads.one_blas_thread:
            for _ in threads.map_ahead(recommend_block, runs(len(users), items, _CELLS)):
                pass
        return indices, scores

    def find_similar_items(self, item: int, count: int) -> tuple[Indices, Array]:
        """The items that the same users like, most similar first, and the cosines of their factors."""
        return ranking.find_similar(self.posterior.join_item_factors(), item, count)

    def compute_recency_bonus(self, recency: float) -> Array | None:
        """The addition to each item's score for recent ratings (items,)."""
        if not recency:
            return None
        if self.times is None or self.entries.time is None:
            raise ValueError(
                f"got recency={recency:g}, expected ratings with times: fit with a column of times"
            )
        item, items = self.entries.item, len(self.items)
        freshness = np.bincount(item, self.times.compute_freshness(self.entries.time), minlength=items)
        return recency * freshness / np.maximum(1, np.bincount(item, minlength=items))

    def _gather_users(self, users: Sequence[Any]) -> "_UserRows":
        """Ids are found all at once; folded users one by one."""
        unknown = self.posterior.make_unknown_row("users").astype(self.posterior.users.dtype)
        if any(isinstance(user, FoldedUser) for user in users):
            known = [self._gather_user(user) for user in users]
            rows: Any = np.stack([unknown if one is None else one[0] for one in known], axis=1)
            seen = [np.empty(0, dtype=np.int64) if one is None else one[1] for one in known]
            counts = np.array([len(each) for each in seen])
            is_unknown, items = np.array([one is None for one in known]), np.concatenate(seen)
        else:
            index = find_ids(self.users, users, "user")
            side = self.ratings.by_user
            counts = np.where(index >= 0, side.counts[index], 0)
            is_unknown = counts == 0
            rows = self.posterior.users[:, index]
            rows[:, is_unknown] = unknown[:, None]
            first = np.where(is_unknown, 0, side.indptr[index])
            ends = np.cumsum(counts)
            items = side.others[np.arange(ends[-1]) + np.repeat(first - (ends - counts), counts)]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return _UserRows(rows, is_unknown, indptr, items)

    def _gather_user(self, user: Any) -> tuple[Stack, Indices] | None:
        """The factors of a user (draws, k + 1) and the items that he rated; None if he is unknown."""
        if isinstance(user, FoldedUser):
            if not len(user.entries):
                return None
            seen = self.items.find([user.items[int(index)] for index in user.entries.item])
            return user.rows, seen[seen >= 0]
        index = find_id(self.users, user)
        if index < 0 or not len(self.find_user_entries(index)):
            return None
        return self.posterior.users[:, index], self.entries.item[self.find_user_entries(index)]


@dataclass(frozen=True, slots=True, eq=False)
class _UserRows:
    """The factors of some users, and the items that they have seen."""

    factors: Stack  # (draws, users, k + 1)
    is_unknown: NDArray[np.bool_]  # (users,)
    indptr: Indices  # (users + 1,)
    items: Indices  # seen by each

    def find_seen_cells(self, part: slice) -> tuple[Indices, Indices]:
        """Cells (row, item) of the items that were seen."""
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
    low, high = float(ratings.value.min()), float(ratings.value.max())
    return Recommender(users, items, entries, options.solver, posterior, times, low, high, history)


def find_ids(keys: Keys, values: Any, what: str) -> Indices:
    """The index of each id among the keys, −1 for unknown ones; `what` is whose ids these are."""
    try:
        return keys.find(values.tolist() if isinstance(values, np.ndarray) else values)
    except TypeError as problem:
        raise TypeError(
            f"got a {what} that is no id ({problem}), expected strings, numbers or tuples"
        ) from None


def find_id(keys: Keys, value: Hashable) -> int:
    """The index of one id, −1 if it is unknown."""
    try:
        return int(keys.find([value])[0])
    except TypeError as problem:
        raise TypeError(
            f"got the id {value!r} ({problem}), expected a hashable one: a string, a number or a tuple"
        ) from None
