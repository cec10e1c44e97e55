"""A recommender: latent factors of users and items, by alternating least squares or by Gibbs sampling."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.estimators import factor_answers, factor_reading, factor_times
from tamis.estimators.base import with_callbacks
from tamis.estimators.factor_answers import Asked, FactorExplanation
from tamis.estimators.factor_face import FactorFace, is_many, listed
from tamis.estimators.factor_learning import learn, planned, warn_unless_converged, whole, with_ridge
from tamis.estimators.factor_state import (
    Duplicates,
    Entries,
    FactorState,
    FoldedUser,
    place_of,
    weighed,
)
from tamis.estimators.reading import make_generator
from tamis.models.factors import ranking
from tamis.models.factors.learned import user_rows
from tamis.parameters import check_nonnegative
from tamis.stats import Keys


class MatrixFactorization(FactorFace):
    """Ratings as level + offsets + a product of factors of user and item; what they leave open is predicted.

    `X` is a frame with columns user, item, rating and maybe time and weight (or `columns` says which these
    are; else the first three are user, item and rating); rows of (user, item, rating) and maybe time and
    weight, in that order; pairs (n, 2) with `y`; or a sparse matrix, rows users, columns items, what is
    stored ratings. Ids are any hashable values, known by value.

    Parameters
    ----------
    n_factors : int
        May be more than the data bears: the ridge holds what they leave open.
    feedback : "explicit" or "implicit"
        Ratings; or deeds (plays, clicks, purchases), where what was not done counts too, a little. Scores of
        implicit feedback are preferences, about 0 to 1.
    method : "als" or "gibbs"
        Least squares, or draws from the posterior, which also know how sure they are.
    ridge : float or "validated"
        Of the factors; with ratings, for each unit of weight that a row has. "validated" tries up to nine,
        eight sweeps each, on a tenth of the ratings, held out, and takes the best; below 200 ratings it is
        0.15 of their spread.
        Draws, which find their own, begin with that, too; implicit feedback has 0.15. Ratings on a larger
        scale need a larger ridge.
    offset_ridge : float
        Of the offsets, of times too: so many ratings of the level are added. Infinity: no level, no offsets.
    confidence : float
        Of implicit feedback: a deed counts 1 + confidence · value, its absence 1.
    max_iter : int
        Sweeps at most. If those of ratings end there and not by `tol`, a ConvergenceWarning says so; the
        objective of implicit feedback falls for hundreds of sweeps, and `converged_` alone tells.
    validation : float
        Share of the ratings held out to find how many sweeps are best; as many are then made with all.
    tol : float
        Sweeps end when the penalised error falls by a smaller share; with `validation`, when the error of
        what was held out has not fallen by that share for three sweeps. With 0, and without `validation`,
        there are exactly `max_iter` sweeps, and no warning.
    n_draws, burn_in, n_kept : int
        Of Gibbs: draws, how many more go before them, and how many to keep, evenly spaced.
    half_life : float or timedelta, optional
        A rating of that age, counted from the newest, weighs half. In units of time; dates are days.
    time_bins : int
        Offsets of all items, and of each, in so many equal parts of the time, or of the `period`.
    period : float or timedelta, optional
        Parts of time come again: 365.25 days for seasons.
    clip : bool
        Whether predicted ratings stay in the range of those seen.
    columns : mapping from "user", "item", "rating", "time", "weight" to names of columns, optional
        Roles that it does not name keep their own names.
    duplicates : "refuse", "mean", "last" or "sum"
        What to do with a pair that comes more than once; the last is the newest, where there are times. Mean
        or sum has the last one's time and weight; `partial_fit` refuses the mean with a pair it knows.
    random_state, verbose

    Examples
    --------
    >>> import tamis
    >>> tastes = {
    ...     "ann": "Alien Blade Cube Dune",
    ...     "ben": "Alien Blade Dune",
    ...     "eva": "Emma Heidi",
    ...     "fay": "Emma",
    ... }
    >>> films = "Alien Blade Cube Dune Emma Heidi".split()
    >>> rows = [
    ...     (who, film, 5 if film in liked.split() else 1) for who, liked in tastes.items() for film in films
    ... ]
    >>> rows = [row for row in rows if row[:2] not in (("ben", "Cube"), ("fay", "Heidi"), ("fay", "Dune"))]
    >>> model = tamis.MatrixFactorization(2, random_state=0).fit(rows)
    >>> model.predict([("ben", "Cube"), ("fay", "Dune"), ("nobody", "Emma")]).round(1).tolist()
    [4.1, 1.8, 3.0]
    >>> model.recommend("fay", 1)[0].tolist(), model.explain("fay", "Heidi", 1).top[0][0]
    (['Heidi'], 'Emma')
    """

    def __init__(
        self,
        n_factors: int = 32,
        *,
        feedback: Literal["explicit", "implicit"] = "explicit",
        method: Literal["als", "gibbs"] = "als",
        ridge: float | Literal["validated"] = "validated",
        offset_ridge: float = 3.0,
        confidence: float = 40.0,
        max_iter: int = 30,
        validation: float = 0.0,
        tol: float = 1e-4,
        n_draws: int = 100,
        burn_in: int = 20,
        n_kept: int = 50,
        half_life: float | timedelta | None = None,
        time_bins: int = 0,
        period: float | timedelta | None = None,
        clip: bool = True,
        columns: Mapping[str, Any] | None = None,
        duplicates: Duplicates = "refuse",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.feedback = feedback
        self.method = method
        self.ridge = ridge
        self.offset_ridge = offset_ridge
        self.confidence = confidence
        self.max_iter = max_iter
        self.validation = validation
        self.tol = tol
        self.n_draws = n_draws
        self.burn_in = burn_in
        self.n_kept = n_kept
        self.half_life = half_life
        self.time_bins = time_bins
        self.period = period
        self.clip = clip
        self.columns = columns
        self.duplicates = duplicates
        self.random_state = random_state
        self.verbose = verbose

    # ── learning ──

    @with_callbacks
    def fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Learn from ratings; `y` holds them if X is pairs."""
        plan = planned(self)
        users, items, entries, dates = self._entries(X, y, sample_weight)
        entries = entries.once(self.duplicates, users, items)
        clock = factor_times.clock_of(self, entries.time, dates)
        ratings = weighed(entries, clock, len(users), len(items)).weighty
        rng = make_generator(self.random_state)
        with self._report_progress(plan.steps, X, y) as watch:
            plan = with_ridge(plan, ratings, rng, watch)
            learned, course = learn(plan, ratings, rng, watch)
        warn_unless_converged(plan, course)
        low, high = float(ratings.value.min()), float(ratings.value.max())
        implicit = self.feedback == "implicit"
        self._fitted = FactorState(
            users, items, entries, plan.solver, learned, clock, low, high, implicit, course
        )
        return self

    def partial_fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Learn more ratings, by known or new users of known or new items, by the rows they touch alone.

        Those users' rows are solved, then those items', then the users of these items again; all else stays
        as it was, the level too. Near a new fit as long as there is little new. With a `half_life`, newer
        ratings make all others older: then all users' rows are solved. A rating without a time, in a model
        with times, is taken to be of the newest. Times are what they were in the fit: dates, or numbers.
        """
        if "_fitted" not in self.__dict__:
            return self.fit(X, y, sample_weight)  # type: ignore[no-any-return]
        before = self._of_its_kind()
        users, items, entries, dates = self._entries(X, y, sample_weight)
        factor_times.refuse_other_kind(before.clock, dates)
        state, rng = before.with_keys(users, items), make_generator(self.random_state)
        own, other = state.users.find(users)[entries.user], state.items.find(items)[entries.item]
        state = state.with_more(replace(entries, user=own, item=other), self.duplicates)
        factor_times.refuse_leap(before, state)
        touched = np.arange(len(state.users)) if state.aged_since(before.clock) else own
        self._fitted = state.solved_users(touched, rng).solved_items(other, rng)
        return self

    def add_user(self, user: Hashable, ratings: Any) -> Self:
        """Add somebody with his ratings of known items, by one ridge regression on their factors.

        `ratings` is a mapping from items, a series by item, a frame or pairs of (item, rating), or of
        implicit feedback a set of items.
        """
        state = self._of_its_kind()
        self._refuse_known(state.users, user, "user")
        state = state.with_keys(Keys((user,)), Keys(()))
        item, value = self._told(ratings, state.items, "item")
        own = np.full(len(item), place_of(state.users, user))
        if len(item):
            state = state.with_more(self._new(state, Entries(own, item, value)), self.duplicates)
        rng = make_generator(self.random_state)
        self._fitted = state.solved_users(np.array([place_of(state.users, user)]), rng)
        return self

    def add_item(self, item: Hashable, ratings: Any) -> Self:
        """Add something with its ratings by known users, by one ridge regression on their factors.

        The rows of its users are then solved again, for they have a rating more; of implicit feedback, those
        of all users, who have a preference more.
        """
        state = self._of_its_kind()
        self._refuse_known(state.items, item, "item")
        state = state.with_keys(Keys(()), Keys((item,)))
        user, value = self._told(ratings, state.users, "user")
        other = np.full(len(user), place_of(state.items, item))
        if len(user):
            state = state.with_more(self._new(state, Entries(user, other, value)), self.duplicates)
        rng = make_generator(self.random_state)
        self._fitted = state.solved_items(np.array([place_of(state.items, item)]), rng)
        return self

    def fold_in_user(self, ratings: Any) -> FoldedUser:
        """Somebody with these ratings, not added: `predict`, `recommend` and `explain` take him for an id.

        `ratings` as in `add_user`.
        """
        state = self._of_its_kind()
        item, value = self._told(ratings, state.items, "item")
        time = None if state.clock is None else np.full(len(item), state.clock.newest)
        entries = Entries(np.zeros(len(item), dtype=np.int64), item, value, None, time)
        entries = self._new(state, entries).once(self.duplicates, None, state.items)
        rng = make_generator(self.random_state)
        rows = user_rows(
            state.learned, state.solver, state.weighed(entries, 1), np.zeros(1, dtype=np.int64), rng
        )
        return FoldedUser(rows[:, 0], entries, state.items)

    def forget(self, user: Hashable, item: Hashable, of_item: bool = False) -> Self:
        """Forget a rating: the user's row is as if solved without it; with `of_item`, so is the item's.

        What it did to other rows through them, in the sweeps of the fit, stays, and so does its part in the
        level; only a new fit is free of it.
        """
        return self.unlearn([(user, item)], of_items=of_item)

    def unlearn(self, X: object, y: object = None, of_items: bool = False) -> Self:
        """Forget many ratings, as `forget` does one; only users and items of X are looked at."""
        state = self.state_
        read = factor_reading.read(X, self.columns)
        own, other = factor_reading.labels(read.user), factor_reading.labels(read.item)
        users = factor_reading.found_in(state.users, own, "user")
        items = factor_reading.found_in(state.items, other, "item")
        rows = np.empty(len(read), dtype=np.int64)
        for i, (user, item) in enumerate(zip(users.tolist(), items.tolist(), strict=True)):
            rows[i] = state.row_of(user, item) if user >= 0 and item >= 0 else -1
            if rows[i] < 0:
                raise ValueError(
                    f"got user {factor_reading.plain(own[i])!r} and item {factor_reading.plain(other[i])!r}, "
                    "expected a rating that was learned: nothing was changed"
                )
        if len(np.unique(rows)) == len(state.entries):
            raise ValueError("every rating would be forgotten, expected some to be left: nothing was changed")
        rng = make_generator(self.random_state)
        state = state.without(rows).solved_users(users, rng)
        self._fitted = state.solved_items(items, rng) if of_items else state
        return self

    # ── answers ──

    def predict(self, pairs: object, time: object = None, return_std: bool = False) -> Any:
        """The expected rating of each pair (n,); with `return_std` also its standard deviation with noise.

        An unknown user is expected to rate as the item's offset says, an unknown item as the user's; of
        implicit feedback, an unknown user's preference is the share of users who have the item. Without a
        time it is that of the newest rating.
        """
        state = self.state_
        if return_std:
            self._refuse_without_draws(state, "return_std")
        found = self._asked(state, pairs, time)
        mean = self._clipped(state, factor_answers.expected(state, found))
        if not return_std:
            return mean
        drawn = self._asked(state, pairs, time, drawn=True)
        spread = drawn.learned.spread(drawn.user, drawn.item, drawn.time)[1]
        return mean, np.sqrt(spread + float(state.learned.noise.mean()))

    def predict_interval(
        self, pairs: object, coverage: float = 0.9, time: object = None
    ) -> tuple[Array, Array]:
        """Where each rating will lie with that probability, by Gibbs: lower and upper ends, each (n,)."""
        state = self.state_
        self._refuse_without_draws(state, "predict_interval")
        given: object = coverage
        if not isinstance(given, Real) or not 0.0 < float(given) < 1.0:
            raise ValueError(f"got coverage={given!r}, expected a probability between 0 and 1")
        drawn = self._asked(state, pairs, time, drawn=True)
        low, high = factor_answers.interval(drawn.learned, drawn, coverage)
        if not state.low < state.high:  # one value is no range
            return low, high
        return self._clipped(state, low), self._clipped(state, high)

    def _refuse_without_draws(self, state: FactorState, what: str) -> None:
        if state.learned.chain is None:
            raise ValueError(
                f"got {what} of least squares, which knows no spread, expected method='gibbs': fit so"
            )

    def _clipped(self, state: FactorState, values: Array) -> Array:
        return np.clip(values, state.low, state.high) if self.clip and not state.implicit else values

    def _asked(self, state: FactorState, pairs: object, time: object, drawn: bool = False) -> Asked:
        read = factor_reading.read(pairs, self.columns)
        binned = state.clock is not None and state.clock.bins > 0
        times = self._when(state, read.time if time is None and binned else time, len(read))
        users, items = factor_reading.labels(read.user), factor_reading.labels(read.item)
        return factor_answers.asked(state, users, items, times, drawn)

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """R² of the predicted ratings: 1 less the share of their variance that is not predicted."""
        state = self._of_its_kind()
        if state.implicit:
            raise ValueError(
                "implicit feedback has no ratings to score, expected 'explicit': rank with recommend"
            )
        users, items, entries, dates = self._entries(X, y, sample_weight)
        factor_times.refuse_other_kind(state.clock, dates)
        own, other = [users[u] for u in entries.user.tolist()], [items[i] for i in entries.item.tolist()]
        pairs = factor_answers.asked(state, own, other, entries.time)
        wrong = np.square(entries.value - self._clipped(state, factor_answers.expected(state, pairs)))
        around = np.square(entries.value - np.average(entries.value, weights=entries.weight))
        left, all_of_it = (float(np.average(each, weights=entries.weight)) for each in (wrong, around))
        return 1.0 - left / all_of_it if all_of_it > 0.0 else float(left == 0.0)

    def recommend(
        self,
        user: Any,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        diversity: float = 0.0,
        recency: float = 0.0,
        among: Iterable[Hashable] | None = None,
        time: object = None,
    ) -> tuple[NDArray[Any], Array]:
        """The best items for a user, best first, and their scores, which are not clipped.

        A list, array or column of users has an answer (users, n), filled up with None and −∞ where too few
        items are left; anything else is one id. Who is unknown gets what is popular.

        `diversity`, from 0 to 1, keeps apart what is alike: each next item has the largest (1 − diversity) ·
        score − diversity · (its largest cosine with those before), among the best 10 · n, whose scores are
        brought to 0 … 1. `recency` is what an item gains, in ratings, if all its ratings are as new as the
        newest, and in proportion if some are. `among` are the items to choose
        from, of which those never seen are left out.
        """
        state = self.state_
        count = whole("n", n, 1)
        if not 0.0 <= diversity <= 1.0:
            raise ValueError(f"got diversity={diversity}, expected a share from 0 to 1")
        times = self._when(state, time, 1)
        many = is_many(user)
        users = listed(user) if many else [user.item() if isinstance(user, np.ndarray) else user]
        bonus = factor_answers.bonus(state, check_nonnegative("recency", recency))
        allowed = factor_answers.allowed(state, among)
        places, scores = factor_answers.recommended(
            state, users, count, exclude_seen, float(diversity), bonus, allowed, times
        )
        if many:
            return factor_answers.named(state, places), scores
        kept = places[0] >= 0
        return factor_answers.named(state, places[0][kept]), scores[0][kept]

    def similar_items(self, item: Hashable, n: int = 10) -> tuple[NDArray[Any], Array]:
        """The items that are liked by the same people, most alike first, and the cosines of their factors."""
        state = self.state_
        place = place_of(state.items, item)
        if place < 0:
            raise ValueError(f"got item {item!r}, expected one that is known: see items_")
        places, cosines = ranking.alike(state.learned.wide_items(), place, whole("n", n, 1))
        return factor_answers.named(state, places), cosines

    def explain(self, user: Any, item: Hashable, n: int = 5, time: object = None) -> FactorExplanation:
        """Which of the user's ratings lead to this score: their shares, level and offsets sum to it.

        `top` of the answer lists the n that weigh most; `print` it to read it.
        """
        state = self.state_
        if state.learned.chain is not None:
            raise ValueError(
                "got a model of draws, each with reasons of its own, expected method='als' to explain"
            )
        times = self._when(state, time, 1)
        return factor_answers.explained(state, user, item, whole("n", n, 1), times)
