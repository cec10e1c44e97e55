"""A recommender's state and pairs of ids → ratings, lists, and where they come from."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tamis._kernels import threads
from tamis.arrays import Array
from tamis.estimators.factor_reading import found_in
from tamis.estimators.factor_state import FactorState, FoldedUser, place_of
from tamis.inputs import to_label_array
from tamis.linalg import Cholesky
from tamis.models.factors import ranking
from tamis.models.factors.alternating import Alternating, drift, targets
from tamis.models.factors.learned import Learned, Stack
from tamis.models.factors.ratings import Places
from tamis.tables import runs

_CELLS = 1 << 20  # of users × items scored at a time
_STEPS, _NEAR = 100, 1e-9  # towards a quantile, at most, and the share of the span that is near enough


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Pairs by place, and all that is known of those that they name."""

    learned: Learned
    user: Places  # (n,): −1 is unknown
    item: Places
    time: Places | None


def asked(state: FactorState, users: Any, items: Any, time: Array | None, drawn: bool = False) -> Asked:
    """Pairs of ids, among whose users there may be folded ones.

    Of draws, unknown ids have the mean row of their side, or with `drawn` one that is drawn for each.
    """
    user, item = found_in(state.users, users, "user"), found_in(state.items, items, "item")
    learned = state.learned
    listed = [] if isinstance(users, np.ndarray) else users  # arrays hold numbers
    folded = [(row, one) for row, one in enumerate(listed) if isinstance(one, FoldedUser)]
    if folded:
        apart = {id(one): one for _, one in folded if len(one.entries)}
        place = {name: learned.users.shape[1] + i for i, name in enumerate(apart)}
        rows: list[Any] = [one.rows[:, None] for one in apart.values()]
        learned = replace(learned, users=np.concatenate([learned.users, *rows], axis=1))
        for row, one in folded:
            user[row] = place.get(id(one), -1)
    known = (user >= 0) & (user < len(state.users))
    user[known] = np.where(state.ratings.by_user.counts[user[known]] > 0, user[known], -1)  # idle: unknown
    if learned.chain is not None:
        rng = np.random.default_rng(0) if drawn else None
        learned, user = _with_nobody(learned, user, "users", rng)
        learned, item = _with_nobody(learned, item, "items", rng)
    return Asked(learned, user, item, bins_of(state, time, len(user)))


def _with_nobody(
    learned: Learned, place: Places, side: Literal["users", "items"], rng: np.random.Generator | None
) -> tuple[Learned, Places]:
    """With a row more for what is unknown, which −1 then stands for no longer."""
    assert learned.chain is not None
    if (place >= 0).all():
        return learned, place
    row = unknown_row(learned, side)
    if rng is not None:
        chain = learned.chain
        precision = chain.user_precision if side == "users" else chain.item_precision
        roots = Cholesky.of(precision, "precision of the factors").inverse_factor()
        row = row + np.einsum("dk,dkj->dj", rng.standard_normal(row.shape), roots)
    stack: Any = learned.users if side == "users" else learned.items
    wider = np.concatenate([stack, row[:, None].astype(stack.dtype)], axis=1)
    if side == "users":
        return replace(learned, users=wider), np.where(place >= 0, place, stack.shape[1])
    timeless = np.concatenate([learned.item_bins, np.zeros((1, len(learned.bins)))])
    return replace(learned, items=wider, item_bins=timeless), np.where(place >= 0, place, stack.shape[1])


def unknown_row(learned: Learned, side: Literal["users", "items"]) -> Array:
    """What is expected of somebody or something unknown (draws, k + 1)."""
    if learned.chain is None:
        return np.zeros((1, learned.users.shape[2]))
    return learned.chain.user_mean if side == "users" else learned.chain.item_mean


def bins_of(state: FactorState, time: Array | None, n: int) -> Places | None:
    """The bin of each pair; without a time it is that of the newest rating."""
    if state.clock is None or not state.clock.bins:
        return None
    return state.clock.places(np.full(n, state.clock.newest) if time is None else time)


def expected(state: FactorState, pairs: Asked) -> Array:
    """The expected rating of each pair (n,), not clipped; of unknown ids what is left without them."""
    found = pairs.learned.predict(pairs.user, pairs.item, pairs.time)
    if state.implicit:
        popular = np.where(pairs.item >= 0, state.popularity[pairs.item], 0.0)
        return np.where(pairs.user >= 0, found, popular)
    return found


def interval(learned: Learned, pairs: Asked, coverage: float) -> tuple[Array, Array]:
    """Ends of the middle of each pair's predictive distribution: a Gaussian for each draw, mixed evenly."""
    draws = np.stack(list(learned.each(pairs.user, pairs.item, pairs.time)))
    scale = np.sqrt(learned.noise)[:, None]
    low, high = (1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0
    return _quantile(draws, scale, low), _quantile(draws, scale, high)


def _quantile(draws: Array, scale: Array, tail: float) -> Array:
    """Where each column's mixture of Gaussians reaches `tail` (n,): by Newton's steps.

    A step that leaves the span, or is not half of the one before, halves the span instead.
    """
    wide = 9.0 * float(scale.max())
    low, high = draws.min(axis=0) - wide, draws.max(axis=0) + wide
    spread = np.sqrt(np.square(scale).mean() + draws.var(axis=0))
    at: Array = draws.mean(axis=0) + float(special.ndtri(tail)) * spread
    moved, near = high - low, _NEAR * wide
    for _ in range(_STEPS):
        z = (at - draws) / scale
        missing = tail - special.ndtr(z).mean(axis=0)
        low, high = np.where(missing > 0.0, at, low), np.where(missing > 0.0, high, at)
        density = (np.exp(-0.5 * z * z) / scale).mean(axis=0) / np.sqrt(2.0 * np.pi)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            step = at + missing / density
        good = (low <= step) & (step <= high) & (np.abs(step - at) <= np.maximum(0.5 * moved, near))
        following = np.where(good, step, 0.5 * (low + high))
        at, moved = following, np.abs(following - at)
        if (moved <= near).all():
            break
    return at


def taste(state: FactorState, user: Any) -> tuple[Stack, Places] | None:
    """The factors of a user (draws, k + 1) and the items he had; None if nothing is known of him."""
    if isinstance(user, FoldedUser):
        if not len(user.entries):
            return None
        seen = [user.items[int(place)] for place in user.entries.item]
        places = state.items.find(seen)
        return user.rows, places[places >= 0]
    place = place_of(state.users, user)
    if place < 0 or not len(state.rows_of(place)):
        return None
    return state.learned.users[:, place], state.entries.item[state.rows_of(place)]


def recommended(
    state: FactorState,
    users: list[Any],
    count: int,
    exclude_seen: bool,
    diversity: float,
    bonus: Array | None,
    allowed: NDArray[np.bool_] | None,
    time: Array | None,
) -> tuple[Places, Array]:
    """Places of what to recommend (users, count), best first, and scores; −1 and −∞ where none is left."""
    items = len(state.items)
    places = np.full((len(users), count), -1, dtype=np.int64)
    scores = np.full((len(users), count), -np.inf)
    if not users:
        return places, scores
    at = bins_of(state, time, 1)
    likeness = state.learned.wide_items() if diversity else None
    tastes = _tastes(state, users)

    def block(part: slice) -> None:
        rows, nobody = tastes.rows(part)
        table = state.learned.table(rows, None if at is None else int(at[0]))
        if state.implicit:
            table[nobody] = state.popularity
        if bonus is not None:
            table += bonus
        if allowed is not None:
            table[:, ~allowed] = -np.inf
        if exclude_seen:
            table[tastes.seen(part)] = -np.inf
        best = (
            ranking.best(table, count)
            if likeness is None
            else ranking.varied(table, likeness, count, diversity)
        )
        found = np.take_along_axis(table, np.maximum(best, 0), axis=1)
        places[part], scores[part] = best, np.where(best >= 0, found, -np.inf)

    with threads.one_blas_thread:
        for _ in threads.ahead(block, runs(len(users), items, _CELLS)):
            pass
    return places, scores


@dataclass(frozen=True, slots=True, eq=False)
class _Tastes:
    """The factors of some users, and what they have seen."""

    factors: Stack  # (draws, users, k + 1)
    nobody: NDArray[np.bool_]  # (users,): of whom nothing is known
    indptr: Places  # (users + 1,)
    items: Places  # seen by each

    def rows(self, part: slice) -> tuple[Stack, NDArray[np.bool_]]:
        return self.factors[:, part], self.nobody[part]

    def seen(self, part: slice) -> tuple[Places, Places]:
        """Cells (row, item) that are no news."""
        ends = self.indptr[part.start : part.stop + 1]
        return np.repeat(np.arange(len(ends) - 1), np.diff(ends)), self.items[ends[0] : ends[-1]]


def _tastes(state: FactorState, users: list[Any]) -> _Tastes:
    """Of ids at once; of those that were folded in, one by one."""
    nobody = unknown_row(state.learned, "users").astype(state.learned.users.dtype)
    if any(isinstance(user, FoldedUser) for user in users):
        known = [taste(state, user) for user in users]
        rows: Any = np.stack([nobody if one is None else one[0] for one in known], axis=1)
        had = [np.empty(0, dtype=np.int64) if one is None else one[1] for one in known]
        counts = np.array([len(each) for each in had])
        missing, items = np.array([one is None for one in known]), np.concatenate(had)
    else:
        place = found_in(state.users, users, "user")
        side = state.ratings.by_user
        counts = np.where(place >= 0, side.counts[place], 0)
        missing = counts == 0
        rows = state.learned.users[:, place]
        rows[:, missing] = nobody[:, None]
        first = np.where(missing, 0, side.indptr[place])
        ends = np.cumsum(counts)
        items = side.others[np.arange(ends[-1]) + np.repeat(first - (ends - counts), counts)]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return _Tastes(rows, missing, indptr, items)


def named(state: FactorState, places: Places) -> NDArray[Any]:
    """The items' ids; None for a place of −1."""
    names = to_label_array(state.items)
    if (places >= 0).all():
        return names[places]
    found: NDArray[Any] = names.astype(object)[places]
    found[places < 0] = None
    return found


def bonus(state: FactorState, recency: float) -> Array | None:
    """What each item gains for being rated of late (items,)."""
    if not recency:
        return None
    if state.clock is None or state.entries.time is None:
        raise ValueError(f"got recency={recency:g}, expected ratings with times: fit with a column of times")
    item, items = state.entries.item, len(state.items)
    fresh = np.bincount(item, state.clock.freshness(state.entries.time), minlength=items)
    return recency * fresh / np.maximum(1, np.bincount(item, minlength=items))


def allowed(state: FactorState, among: Iterable[Hashable] | None) -> NDArray[np.bool_] | None:
    """Which items are among these (items,)."""
    if among is None:
        return None
    if isinstance(among, str | bytes) or not isinstance(among, Iterable):
        raise TypeError(f"got among={among!r}, expected a list of items: [{among!r}] is one")
    places = found_in(state.items, among, "item")
    found = np.zeros(len(state.items), dtype=np.bool_)
    found[places[places >= 0]] = True
    return found


@dataclass(frozen=True, slots=True, eq=False)
class FactorExplanation:
    """What a score is made of: `contributions`, `level`, `item_offset` and `time_offset` sum to it.

    A contribution is the share that one of the user's own ratings has in his factors and his offset, times
    what the item makes of those. Strongest first.
    """

    user: Any
    item: Any
    level: float
    item_offset: float
    time_offset: float
    items: tuple[Any, ...]  # m: what the user rated
    ratings: Array  # (m,)
    contributions: Array  # (m,)
    shown: int = 5

    @property
    def score(self) -> float:
        """The expected rating, not clipped."""
        return self.level + self.item_offset + self.time_offset + float(self.contributions.sum())

    @property
    def top(self) -> list[tuple[Any, float, float]]:
        """(item, rating, contribution) of those that weigh most."""
        rows = range(min(self.shown, len(self.items)))
        return [(self.items[i], float(self.ratings[i]), float(self.contributions[i])) for i in rows]

    def __str__(self) -> str:
        lines = [f"{self.score:+.3f}  {self.item!r} for {self.user!r}", f"{self.level:+.3f}  level"]
        lines.append(f"{self.item_offset:+.3f}  {self.item!r} in general")
        if self.time_offset:
            lines.append(f"{self.time_offset:+.3f}  the time")
        lines += [f"{share:+.3f}  {item!r} rated {rating:g}" for item, rating, share in self.top]
        left = float(self.contributions[self.shown :].sum())
        if len(self.items) > self.shown:
            lines.append(f"{left:+.3f}  {len(self.items) - self.shown} more ratings")
        return "\n".join(lines)


def explained(
    state: FactorState, user: Any, item: Hashable, shown: int, time: Array | None
) -> FactorExplanation:
    """Through x = A⁻¹ Σ pull v: the share of a rating in the score fᵀx is pull · vᵀA⁻¹f."""
    at, place = state.learned.factors(), place_of(state.items, item)
    item = state.items[place] if place >= 0 else item
    bins = bins_of(state, time, 1)
    timed = float(drift(at.bins, at.item_bins, np.array([place]), bins)[0])
    offset = float(at.items[place, -1]) if place >= 0 else 0.0
    row = 0 if isinstance(user, FoldedUser) else place_of(state.users, user)
    user = state.users[row] if not isinstance(user, FoldedUser) and row >= 0 else user
    if row < 0 or not len(user.entries if isinstance(user, FoldedUser) else state.rows_of(row)):
        if state.implicit and place >= 0:
            offset = float(state.popularity[place])
        return FactorExplanation(user, item, at.level, offset, timed, (), np.zeros(0), np.zeros(0), shown)
    if isinstance(user, FoldedUser):
        named = [user.items[int(i)] for i in user.entries.item]
        entries = replace(user.entries, item=state.items.find(named))
    else:
        entries = state.entries.take(state.rows_of(row))
        entries = replace(entries, user=np.zeros(len(entries), dtype=np.int64))
    solver, ratings = state.solver, state.weighed(entries, 1)
    side = ratings.by_user
    if isinstance(solver, Alternating):
        features = solver.features(at.items)
        w = side.weights
        pulls = w * (targets(ratings, side, at) - at.items[side.others, -1])
        known = np.diag(solver.ridges(side)[0])
        unknown = np.zeros(features.shape[1])
        unknown[solver.rank :] = 1.0
    else:
        features = np.ascontiguousarray(at.items[:, :-1])
        w, pulls = solver.sure(side), solver.pulls(side)
        known = solver.ridge * np.eye(solver.rank) + features.T @ features
        unknown = np.zeros(solver.rank)
    v = features[side.others]
    matrix = (v * w[:, None]).T @ v + known
    facing = features[place] if place >= 0 else unknown
    shares = pulls * (v @ Cholesky.of(matrix, "a user's Gram").solve(facing))
    ranked = np.argsort(-np.abs(shares), kind="stable")
    names = tuple(state.items[int(i)] for i in side.others[ranked])
    values = side.values[ranked]
    return FactorExplanation(user, item, at.level, offset, timed, names, values, shares[ranked], shown)
