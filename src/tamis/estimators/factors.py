"""A recommender: factors of users and items, by alternating least squares (ALS) or by Gibbs sampling."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import KW_ONLY, astuple, dataclass
from datetime import timedelta
from math import isfinite
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tamis.arrays import Array
from tamis.engines import Batch, BatchShards
from tamis.estimators import rating_tables
from tamis.estimators.base import Face, with_sklearn_callbacks
from tamis.estimators.rating_shards import ReadRatings
from tamis.estimators.rating_tables import RatingTable
from tamis.estimators.reading import make_generator
from tamis.estimators.sharded import with_shards
from tamis.inputs import to_label_array
from tamis.models.factors import (
    DEFAULT_RIDGE,
    Alternating,
    Duplicates,
    Entries,
    FactorExplanation,
    FactorPosterior,
    FitHistory,
    FitOptions,
    FoldedUser,
    Hyperparameters,
    Implicit,
    Indices,
    Recommender,
    Solver,
    TimeScale,
    explain,
    find_id,
    find_ids,
    fit_recommender,
)
from tamis.models.factors.recommender import Query
from tamis.parameters import check_integer, check_nonnegative
from tamis.stats import Keys
from tamis.warning import warn

_DUPLICATES = ("refuse", "mean", "last", "sum")


@dataclass(eq=False, repr=False)
class MatrixFactorization(Face[Recommender]):
    """A recommender: a rating is level + offsets + the dot product of the factors of its user and its item.

    `X` is a frame with columns user, item, rating and optionally time and weight (`columns` can give them
    other names; a frame without these names has user, item and rating as its first three columns); rows of
    (user, item, rating) and optionally time and weight, in that order; pairs (n, 2), with the ratings in `y`;
    or a sparse matrix, whose rows are users, whose columns are items and whose stored values are ratings. Ids
    are any hashable values.

    Parameters
    ----------
    n_factors : int
        The number of factors; because of the ridge, it may be more than the ratings determine.
    feedback : "explicit" or "implicit"
        Ratings; or actions (plays, clicks, purchases), where pairs without an action count a little, too.
        Scores of implicit feedback are preferences, about 0 to 1.
    method : "als" or "gibbs"
        Alternating least squares, or Gibbs sampling from the posterior, which also gives standard deviations.
    ridge : float or "validated"
        The ridge (L2 penalty) of the factors; for explicit feedback, it is multiplied by the total weight of
        the ratings of a user or item, plus five. "validated" holds out a tenth of the ratings, tries up to
        nine ridges with up to eight sweeps each, and takes the one with the least error on the held-out
        ratings; below 200 ratings it is 0.15 of their standard deviation. Gibbs sampling estimates its own
        penalty, and starts with the same ridge; for implicit feedback, "validated" is 0.15. Ratings on a
        larger scale need a larger ridge.
    offset_ridge : float
        The ridge of the offsets of users, items and times. An offset is estimated as if there were this
        number of further ratings for which the best offset is 0. With infinity there is no level and no
        offset.
    confidence : float
        For implicit feedback: an action has the weight 1 + confidence · value, a pair without an action 1.
    max_iter : int
        The largest number of sweeps over all ratings, besides those that choose the ridge or, with
        `validation`, the number of sweeps. If a fit to explicit feedback has not converged by then, there is
        a ConvergenceWarning. The objective of implicit feedback falls for hundreds of sweeps; then there is
        no warning, and only `converged_` is False.
    validation : float
        The fraction of the ratings that is held out to find the best number of sweeps; the model is then
        fitted to all of them.
    tol : float
        Sweeps end when the relative decrease of the penalised error is smaller; with `validation`, when the
        error of the held-out ratings has not fallen by that much for three sweeps. With 0, and without
        `validation`, there are exactly `max_iter` sweeps, and no warning.
    n_draws, burn_in, n_kept : int
        For Gibbs sampling: the number of draws, of draws that are dropped before these, and of draws to keep,
        which are evenly spaced.
    half_life : float or timedelta, optional
        A rating that is older than the newest one by this time has half its weight; in the unit of the times,
        or in days if these are dates.
    time_bins : int
        The number of equal parts (bins) of the time between the oldest and the newest rating, or of the
        `period`; all items together, and each item, have an offset in each part.
    period : float or timedelta, optional
        Bins repeat after this time: 365.25 days for seasons.
    clip : bool
        Whether predicted ratings are limited to the range of those learned.
    columns : mapping from "user", "item", "rating", "time", "weight" to names of columns, optional
        Roles that it does not name keep their own names.
    duplicates : "refuse", "mean", "last" or "sum"
        What to do with several ratings of an item by a user: raise an error, or learn their mean, the last
        one (the newest, if there are times) or their sum. A mean or sum gets the time and weight of the last
        one; `partial_fit` raises an error if "mean" is to include a rating that was learned before.
    random_state : seed or generator of random numbers
    verbose : whether to draw a progress bar

    Examples
    --------
    >>> import tamis
    >>> likes = {
    ...     "ann": "Alien Blade Cube Dune",
    ...     "ben": "Alien Blade Dune",
    ...     "eva": "Emma Heidi",
    ...     "fay": "Emma",
    ... }
    >>> films = "Alien Blade Cube Dune Emma Heidi".split()
    >>> rows = [
    ...     (user, film, 5 if film in liked.split() else 1) for user, liked in likes.items() for film in films
    ... ]
    >>> rows = [row for row in rows if row[:2] not in (("ben", "Cube"), ("fay", "Heidi"), ("fay", "Dune"))]
    >>> model = tamis.MatrixFactorization(2, random_state=0).fit(rows)
    >>> model.predict([("ben", "Cube"), ("fay", "Dune"), ("nobody", "Emma")]).round(1).tolist()
    [4.1, 1.8, 3.0]
    >>> model.recommend("fay", 1)[0].tolist(), model.explain("fay", "Heidi", 1).top[0][0]
    (['Heidi'], 'Emma')
    """

    n_factors: int = 32
    _: KW_ONLY
    feedback: Literal["explicit", "implicit"] = "explicit"
    method: Literal["als", "gibbs"] = "als"
    ridge: float | Literal["validated"] = "validated"
    offset_ridge: float = 3.0
    confidence: float = 40.0
    max_iter: int = 30
    validation: float = 0.0
    tol: float = 1e-4
    n_draws: int = 100
    burn_in: int = 20
    n_kept: int = 50
    half_life: float | timedelta | None = None
    time_bins: int = 0
    period: float | timedelta | None = None
    clip: bool = True
    columns: Mapping[str, Any] | None = None
    duplicates: Duplicates = "refuse"
    random_state: Any = None
    verbose: int = 0

    # ── learning ──

    @with_sklearn_callbacks
    @with_shards
    def fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Learn from ratings; `y` holds them if X has only pairs."""
        self._read_options()  # raises errors of parameters before those of rows
        return self._fit_table(self._read_ratings(X, y, sample_weight), X, y)

    def learn_shards(self, shards: BatchShards[Batch], anew: bool) -> Self:
        """Learn from ratings in shards, which are read by the workers that have them and sent here."""
        self._read_options()
        self._check_duplicates()
        is_implicit = self.feedback == "implicit"
        table = shards.total(ReadRatings(self.columns, is_implicit)).join()
        table = rating_tables.drop_zero_values(table) if is_implicit else table
        if anew or self._get_state_or_none() is None:
            return self._fit_table(table)
        return self._add_table(self._check_feedback(), table)

    def _fit_table(self, table: RatingTable, X: object = None, y: object = None) -> Self:
        options = self._read_options()
        users, items = table.users, table.items
        entries = table.entries.merge_duplicates(self.duplicates, users, items)
        times = self._make_time_scale(entries.time, table.times_are_dates)
        rng = make_generator(self.random_state)
        with self._report_progress(options.max_steps, X, y) as report_step:
            recommender = fit_recommender(
                users, items, entries, times, options, rng, lambda: report_step(None)
            )
        self._warn_unless_converged(options, recommender.history)
        self.state_ = recommender
        return self

    @with_shards
    def partial_fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Learn more ratings, by known or new users of known or new items, and update the rows they affect.

        The rows of these users are estimated again, then those of these items, then those of all users of
        these items (for implicit feedback, of all users). The other rows and the level do not change. The
        result is near a new fit if there are few new ratings. With a `half_life`, newer ratings make all
        others older: then the rows of all users are estimated again. In a model with times, a rating without
        a time gets the newest time. Times must be dates if those of the fit were, and otherwise numbers.
        """
        if self._get_state_or_none() is None:
            return self.fit(X, y, sample_weight)  # type: ignore[no-any-return]
        recommender = self._check_feedback()
        return self._add_table(recommender, self._read_ratings(X, y, sample_weight))

    def _add_table(self, recommender: Recommender, table: RatingTable) -> Self:
        _refuse_mixed_times(recommender, table.times_are_dates)
        rng = make_generator(self.random_state)
        self.state_ = recommender.update(table.users, table.items, table.entries, self.duplicates, rng)
        return self

    def add_user(self, user: Hashable, ratings: Any) -> Self:
        """Add a user with ratings of known items, by one ridge regression on the items' factors.

        `ratings` is a mapping from items to ratings, a series by item, a frame or pairs of (item, rating); or
        for implicit feedback a set of items.
        """
        recommender = self._check_feedback()
        rating_tables.require_new_id(recommender.users, user, "user")
        item, value = self._read_ratings_of_one(recommender, ratings, "item")
        rng = make_generator(self.random_state)
        self.state_ = recommender.add_user(user, item, value, self.duplicates, rng)
        return self

    def add_item(self, item: Hashable, ratings: Any) -> Self:
        """Add an item with ratings by known users, by one ridge regression on the users' factors.

        The rows of these users are then estimated again, because they have one more rating; for implicit
        feedback, those of all users, because each has one more preference.
        """
        recommender = self._check_feedback()
        rating_tables.require_new_id(recommender.items, item, "item")
        user, value = self._read_ratings_of_one(recommender, ratings, "user")
        rng = make_generator(self.random_state)
        self.state_ = recommender.add_item(item, user, value, self.duplicates, rng)
        return self

    def fold_in_user(self, ratings: Any) -> FoldedUser:
        """Return a user with these ratings, without adding the user to the model.

        `predict`, `recommend` and `explain` accept it in place of an id. `ratings` is as in `add_user`.
        """
        recommender = self._check_feedback()
        item, value = self._read_ratings_of_one(recommender, ratings, "item")
        return recommender.fold_in(item, value, self.duplicates, make_generator(self.random_state))

    def forget(self, user: Hashable, item: Hashable, of_item: bool = False) -> Self:
        """Forget a rating, and estimate the row of the user again, and with `of_item` also that of the item.

        The effect of the rating on the level and on other rows remains; only a new fit is free of it.
        """
        return self.unlearn([(user, item)], of_items=of_item)

    def unlearn(self, X: object, y: object = None, of_items: bool = False) -> Self:
        """Forget many ratings, as `forget` does one; only the users and items in X are used."""
        recommender = self.state_
        pairs = rating_tables.read_columns(X, self.columns)
        user_ids, item_ids = rating_tables.to_labels(pairs.user), rating_tables.to_labels(pairs.item)
        users, items = (
            find_ids(recommender.users, user_ids, "user"),
            find_ids(recommender.items, item_ids, "item"),
        )
        entries = np.empty(len(pairs), dtype=np.int64)
        for i, (user, item) in enumerate(zip(users.tolist(), items.tolist(), strict=True)):
            entries[i] = recommender.find_entry(user, item) if user >= 0 and item >= 0 else -1
            if entries[i] < 0:
                user_id, item_id = (rating_tables.to_python(ids[i]) for ids in (user_ids, item_ids))
                raise ValueError(
                    f"got user {user_id!r} and item {item_id!r}, expected a rating that was learned: nothing "
                    "was changed"
                )
        if len(np.unique(entries)) == len(recommender.entries):
            raise ValueError("every rating would be forgotten, expected some to be left: nothing was changed")
        self.state_ = recommender.forget(entries, make_generator(self.random_state), of_items)
        return self

    # ── predictions ──

    def predict(self, pairs: object, time: object = None, return_std: bool = False) -> Any:
        """Return the expected rating of each pair (n,); with `return_std` also its standard deviation.

        The standard deviation includes the noise. An unknown user or item has factors and an offset of 0, so
        that the rating is the level plus the other offsets; for Gibbs sampling it has the mean of those of
        all users or items. For implicit feedback, an unknown user's preference is the fraction of users who
        have the item. Without `time`, pairs have the times of their own column or, if there is none, the time
        of the newest rating.
        """
        recommender = self.state_
        if return_std:
            _refuse_without_draws(recommender, "return_std")
        mean = self._clip(recommender, recommender.predict(self._locate(recommender, pairs, time)))
        if not return_std:
            return mean
        return mean, recommender.predict_std(self._locate(recommender, pairs, time, draw_unknown=True))

    def predict_interval(
        self, pairs: object, coverage: float = 0.9, time: object = None
    ) -> tuple[Array, Array]:
        """Return both ends, each (n,), of the interval that holds each rating with this probability.

        This needs method="gibbs".
        """
        recommender = self.state_
        _refuse_without_draws(recommender, "predict_interval")
        given: object = coverage
        if not isinstance(given, Real) or not 0.0 < float(given) < 1.0:
            raise ValueError(f"got coverage={given!r}, expected a probability between 0 and 1")
        query = self._locate(recommender, pairs, time, draw_unknown=True)
        low, high = query.posterior.predict_interval(
            query.user_index, query.item_index, query.time_bin, coverage
        )
        if not recommender.low < recommender.high:  # all ratings were equal: do not clip to a single value
            return low, high
        return self._clip(recommender, low), self._clip(recommender, high)

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return R² of the predicted ratings: 1 minus the unexplained fraction of the ratings' variance.

        If the ratings do not vary, it is 1 if all predictions are exact, and 0 otherwise.
        """
        recommender = self._check_feedback()
        if recommender.is_implicit:
            raise ValueError(
                "implicit feedback has no ratings to score, expected 'explicit': rank with recommend"
            )
        table = self._read_ratings(X, y, sample_weight)
        _refuse_mixed_times(recommender, table.times_are_dates)
        entries = table.entries
        users = [table.users[u] for u in entries.user_index.tolist()]
        items = [table.items[i] for i in entries.item_index.tolist()]
        predicted = self._clip(
            recommender, recommender.predict(recommender.locate(users, items, entries.time))
        )
        # `undecayed_weights` are not reduced by the age of the ratings.
        mean = np.average(entries.values, weights=entries.undecayed_weights)
        error, variance = (
            float(np.average(np.square(entries.values - centre), weights=entries.undecayed_weights))
            for centre in (predicted, mean)
        )
        return 1.0 - error / variance if variance > 0.0 else float(error == 0.0)

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
        """Return the best items for a user, best first, and their scores, which are not clipped.

        `user` is one id, or a list, array or column of ids; then both results have the shape (users, n), and
        end with None and −∞ if there are fewer than n items to recommend. An unknown user gets the items that
        a user without ratings is expected to rate highest; for implicit feedback, those that most users have.
        With `exclude_seen`, items that the user has rated are not recommended.

        `diversity`, from 0 to 1, avoids similar items: each next item has the largest (1 − diversity) · score
        − diversity · (its largest cosine with the items before it), among the best 10 · n, whose scores are
        scaled to 0 … 1. `recency` is added to the score of an item whose ratings are all as new as the newest
        rating, and less to that of an item with older ratings. `among` are the items to choose from; unknown
        ones are ignored.
        """
        recommender = self.state_
        count = check_integer("n", n, 1)
        given: object = diversity
        if not isinstance(given, Real) or not 0.0 <= float(given) <= 1.0:
            raise ValueError(f"got diversity={given!r}, expected a share from 0 to 1")
        times = self._read_times(recommender, time, 1)
        is_many = _is_many(user)
        users = _list_ids(user) if is_many else [user.item() if isinstance(user, np.ndarray) else user]
        bonus = recommender.compute_recency_bonus(check_nonnegative("recency", recency))
        candidates = _find_candidates(recommender, among)
        indices, scores = recommender.recommend(
            users, count, exclude_seen, float(diversity), bonus, candidates, times
        )
        if is_many:
            return _get_item_ids(recommender, indices), scores
        is_item = indices[0] >= 0
        return _get_item_ids(recommender, indices[0][is_item]), scores[0][is_item]

    def similar_items(self, item: Hashable, n: int = 10) -> tuple[NDArray[Any], Array]:
        """Return the items that the same users like, most similar first, and the cosines of their factors."""
        recommender = self.state_
        index = find_id(recommender.items, item)
        if index < 0:
            raise ValueError(f"got item {item!r}, expected one that is known: see items_")
        indices, cosines = recommender.find_similar_items(index, check_integer("n", n, 1))
        return _get_item_ids(recommender, indices), cosines

    def explain(self, user: Any, item: Hashable, n: int = 5, time: object = None) -> FactorExplanation:
        """Compute the contribution of each rating of the user to the score of an item.

        With the level and the offsets, they sum to the score. `top` of the result lists the n ratings that
        contribute most; the result can be printed.
        """
        recommender = self.state_
        if recommender.has_draws:
            raise ValueError(
                "got a model of several draws, which explain() cannot combine, expected method='als'"
            )
        times = self._read_times(recommender, time, 1)
        return explain(recommender, user, item, check_integer("n", n, 1), times)

    # ── reading ──

    def _check_feedback(self) -> Recommender:
        """Return the fitted recommender, if `feedback` is still the kind that it was learned from."""
        recommender = self.state_
        if (self.feedback == "implicit") != recommender.is_implicit:
            kind = "implicit" if recommender.is_implicit else "explicit"
            raise ValueError(
                f"got feedback={self.feedback!r} for a model of {kind} feedback, expected {kind!r}: set it "
                "back, or fit anew"
            )
        return recommender

    def _read_options(self) -> FitOptions:
        """Return the parameters of a fit; raise if one of them is not valid."""
        for name, allowed in (("feedback", ("explicit", "implicit")), ("method", ("als", "gibbs"))):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"got {name}={getattr(self, name)!r}, expected {' or '.join(map(repr, allowed))}"
                )
        is_implicit, is_gibbs = self.feedback == "implicit", self.method == "gibbs"
        n_factors = check_integer("n_factors", self.n_factors, 1)
        ridge, search_ridge = _read_ridge(self.ridge)
        given: object = self.offset_ridge
        if not isinstance(given, Real) or not float(given) >= 0.0:
            raise ValueError(f"got offset_ridge={given!r}, expected at least 0, or infinity for no offsets")
        offset_ridge = float(given)
        validation = check_nonnegative("validation", self.validation)
        if validation >= 1.0:
            raise ValueError(f"got validation={validation:g}, expected a share of the ratings below 1, or 0")
        if is_implicit and is_gibbs:
            raise ValueError("got method='gibbs' for implicit feedback, expected 'als': draws are of ratings")
        if validation and (is_implicit or is_gibbs):
            raise ValueError(
                f"got validation={validation:g}, expected 0 with implicit feedback or draws: it stops sweeps "
                "of ratings early; hold out rows of your own instead"
            )
        if is_implicit and self.time_bins:
            raise ValueError(
                f"got time_bins={self.time_bins} for implicit feedback, expected 0: it has no offsets"
            )
        if not isfinite(offset_ridge) and (is_gibbs or self.time_bins):
            raise ValueError("got offset_ridge=inf, expected a number: draws and time_bins need offsets")
        solver: Solver = (
            Implicit(n_factors, ridge, check_nonnegative("confidence", self.confidence))
            if is_implicit
            else Alternating(n_factors, ridge, offset_ridge)
        )
        return FitOptions(
            solver=solver,
            search_ridge=search_ridge and not is_implicit,
            is_gibbs=is_gibbs,
            max_iter=check_integer("max_iter", self.max_iter, 1),
            tol=check_nonnegative("tol", self.tol),
            validation=validation,
            n_draws=check_integer("n_draws", self.n_draws, 1),
            burn_in=check_integer("burn_in", self.burn_in, 0),
            n_kept=check_integer("n_kept", self.n_kept, 1),
        )

    def _make_time_scale(self, time: Array | None, are_dates: bool | None) -> TimeScale | None:
        """Return the scale of these times; raise if a parameter does not suit them."""
        bins: Any = self.time_bins
        if not isinstance(bins, int | np.integer) or bins < 0:
            raise ValueError(f"got time_bins={bins!r}, expected a whole number, 0 for none")
        half_life = rating_tables.read_duration("half_life", self.half_life)
        period = rating_tables.read_duration("period", self.period)
        if period is not None and not bins:
            raise ValueError(
                f"got period={self.period!r} without time_bins, expected the number of its parts: set "
                "time_bins, e.g. to 12"
            )
        if time is None:
            if bins or half_life is not None:
                raise ValueError(
                    "got half_life or time_bins, and ratings without times, expected a column of times: name "
                    "it time, or say which it is with columns={'time': …}"
                )
            return None
        scale = TimeScale(
            oldest=float(time.min()),
            newest=float(time.max()),
            half_life=half_life,
            bins=int(bins),
            period=period,
            dates=are_dates,
        )
        scale.refuse_wrong_unit(time)
        return scale

    def _read_ratings(self, X: object, y: object, sample_weight: object) -> RatingTable:
        self._check_duplicates()
        return rating_tables.read_ratings(X, y, sample_weight, self.columns, self.feedback == "implicit")

    def _check_duplicates(self) -> None:
        if self.duplicates not in _DUPLICATES:
            raise ValueError(f"got duplicates={self.duplicates!r}, expected one of {', '.join(_DUPLICATES)}")

    def _read_ratings_of_one(
        self, recommender: Recommender, ratings: Any, what: Literal["user", "item"]
    ) -> tuple[Indices, Array]:
        """Return indices and ratings: of items by one user, or of users for one item.

        `what`, "item" or "user", says what the indices are indices of.
        """
        keys = recommender.users if what == "user" else recommender.items
        return rating_tables.read_ratings_of_one(ratings, keys, what, self.columns, recommender.is_implicit)

    def _read_times(self, recommender: Recommender, time: Any, rows: int) -> Array | None:
        """Read times to predict for; raise if they are dates and those of the fit numbers, or the reverse."""
        if time is None:
            return None
        times = rating_tables.read_times(time, rows)
        _refuse_mixed_times(recommender, times.are_dates)
        return times.values

    def _locate(
        self, recommender: Recommender, pairs: object, time: object, draw_unknown: bool = False
    ) -> Query:
        """Find the indices of pairs of ids and the bins of their times.

        If `time` is None, pairs have the times of their own column, which are read only if there are bins.
        In a model of Gibbs draws, an unknown id gets the mean of all users or items, or with `draw_unknown` a
        random draw.
        """
        given = rating_tables.read_columns(pairs, self.columns)
        has_bins = recommender.times is not None and recommender.times.bins > 0
        times = self._read_times(recommender, given.time if time is None and has_bins else time, len(given))
        users, items = rating_tables.to_labels(given.user), rating_tables.to_labels(given.item)
        return recommender.locate(users, items, times, draw_unknown)

    def _clip(self, recommender: Recommender, ratings: Array) -> Array:
        return recommender.clip(ratings) if self.clip else ratings

    def _warn_unless_converged(self, options: FitOptions, history: FitHistory) -> None:
        """Warn if `max_iter` sweeps over explicit ratings were not enough.

        There is no warning with tol=0 and without `validation`, which ask for exactly `max_iter` sweeps, nor
        for implicit feedback, whose objective still falls by more than the usual `tol` after hundreds of
        sweeps (with 40 users, 30 items and two factors by 1e-3 in sweep 100, and by 3e-4 in sweep 200).
        """
        if history.converged is not False or isinstance(options.solver, Implicit):
            return
        if options.validation:
            warn(
                f"the error of the ratings held out still fell after max_iter={options.max_iter} sweeps: "
                "raise max_iter or tol",
                ConvergenceWarning,
            )
        elif options.tol:
            warn(
                f"ALS did not converge in max_iter={options.max_iter} sweeps: raise max_iter or tol, or set "
                "tol=0 for exactly max_iter sweeps",
                ConvergenceWarning,
            )

    # ── attributes ──

    @property
    def users_(self) -> NDArray[Any]:
        """The ids of users, in the order of their rows."""
        return to_label_array(self.state_.users)

    @property
    def items_(self) -> NDArray[Any]:
        """The ids of items, in the order of their rows."""
        return to_label_array(self.state_.items)

    @property
    def user_factors_(self) -> Array:
        """The factors of the users (users, n_factors); for Gibbs sampling, those of the last draw."""
        return self.state_.posterior.select_draw(-1).users[:, :-1]

    @property
    def item_factors_(self) -> Array:
        """The factors of the items (items, n_factors); for Gibbs sampling, those of the last draw."""
        return self.state_.posterior.select_draw(-1).items[:, :-1]

    @property
    def user_offsets_(self) -> Array:
        """How far above the level each user rates (users,); for Gibbs sampling, in the last draw."""
        return self.state_.posterior.select_draw(-1).users[:, -1]

    @property
    def item_offsets_(self) -> Array:
        """How far above the level each item is rated (items,); for Gibbs sampling, in the last draw."""
        return self.state_.posterior.select_draw(-1).items[:, -1]

    @property
    def time_offsets_(self) -> Array:
        """How far above the level all items are rated in each bin of time (time_bins,)."""
        return self.state_.posterior.time_offsets.copy()

    @property
    def item_time_offsets_(self) -> Array:
        """The further offset of each item in each bin, besides `time_offsets_` (items, time_bins)."""
        return self.state_.posterior.item_time_offsets.copy()

    @property
    def level_(self) -> float:
        """The weighted mean rating; 0 for implicit feedback, and with an infinite `offset_ridge`."""
        return self.state_.posterior.level

    @property
    def n_iter_(self) -> int:
        """The number of sweeps, or of draws with those of the burn-in."""
        return self.state_.history.sweeps

    @property
    def converged_(self) -> bool:
        """Whether sweeps ended by `tol` rather than after `max_iter` of them."""
        converged = self.state_.history.converged
        if converged is None:
            raise AttributeError("no converged_: Gibbs sampling makes n_draws draws, without a test")
        return converged

    @property
    def train_rmse_(self) -> Array:
        """The root mean squared error of each sweep, or draw, on the ratings that were learned (n_iter_,).

        For implicit feedback, it is the error of the preferences for pairs with an action, which should be 1.
        """
        return self.state_.history.train

    @property
    def validation_rmse_(self) -> Array:
        """The root mean squared error of each sweep on the held-out ratings (sweeps,); needs `validation`."""
        errors = self.state_.history.validation
        if errors is None:
            raise AttributeError("nothing was held out, expected validation above 0: no validation_rmse_")
        return errors

    @property
    def ridge_(self) -> float:
        """The ridge of the factors: as given, or as chosen with ridge="validated"."""
        return float(self.state_.solver.ridge)

    @property
    def noise_std_(self) -> float:
        """The standard deviation of a rating about its expectation; it needs method="gibbs"."""
        posterior = self.state_.posterior
        if posterior.hyperparameters is None:
            raise AttributeError("least squares estimates no noise, expected method='gibbs': no noise_std_")
        return float(np.sqrt(posterior.noise_variances.mean()))

    # ── the file ──

    def describe_state(self) -> dict[str, Any]:
        recommender = self.state_
        entries, posterior, solver, history = (
            recommender.entries,
            recommender.posterior,
            recommender.solver,
            recommender.history,
        )
        offsets, item_offsets = posterior.time_offsets, posterior.item_time_offsets
        ridge_or_confidence = solver.confidence if isinstance(solver, Implicit) else solver.offset_ridge
        draws = posterior.hyperparameters
        # Names in files: the "chain" has the priors of each Gibbs draw, the "clock" the parameters by which
        # times become bins and weights, and the "course" the history of the fit.
        return {
            "users": recommender.users,
            "items": recommender.items,
            "entries": (
                entries.user_index,
                entries.item_index,
                entries.values,
                entries.undecayed_weights,
                entries.time,
            ),
            "learned": (posterior.level, posterior.users, posterior.items, offsets, item_offsets),
            "chain": None
            if draws is None
            else (
                draws.precision,
                draws.user_mean,
                draws.user_precision,
                draws.item_mean,
                draws.item_precision,
            ),
            "clock": None if recommender.times is None else astuple(recommender.times),
            "solver": (solver.rank, solver.ridge, ridge_or_confidence, recommender.is_implicit),
            "range": (recommender.low, recommender.high),
            "course": (history.sweeps, history.train, history.validation, history.converged),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        level, user_rows, item_rows, offsets, item_offsets = state["learned"]
        draws = None if state["chain"] is None else Hyperparameters(*state["chain"])
        times = None if state["clock"] is None else TimeScale(*state["clock"])
        entries, users, items = Entries(*state["entries"]), state["users"], state["items"]
        posterior = FactorPosterior(float(level), user_rows, item_rows, offsets, item_offsets, draws)
        if not isinstance(users, Keys) or not isinstance(items, Keys):
            raise TypeError("no ids")
        if (posterior.users.shape[1], posterior.items.shape[1]) != (len(users), len(items)):
            raise TypeError("its factors are of other users or items")
        low, high = state["range"]
        rank, ridge, ridge_or_confidence, is_implicit = state["solver"]
        kind: Any = Implicit if is_implicit else Alternating
        solver = kind(int(rank), float(ridge), float(ridge_or_confidence))
        history = FitHistory(*state["course"])
        self.state_ = Recommender(
            users, items, entries, solver, posterior, times, float(low), float(high), history
        )


def _read_ridge(given: Any) -> tuple[float, bool]:
    """Return the ridge, and whether a better one is to be found by the error on held-out ratings."""
    if isinstance(given, str):
        if given != "validated":
            raise ValueError(f"got ridge={given!r}, expected a number above 0, or 'validated'")
        return DEFAULT_RIDGE, True
    ridge = check_nonnegative("ridge", given)
    if ridge == 0.0:
        raise ValueError(
            "got ridge=0, expected above 0, because few ratings do not determine all factors: set 1e-9"
        )
    return ridge, False


def _refuse_mixed_times(recommender: Recommender, are_dates: bool | None) -> None:
    """Raise if the times of the fit were dates and these are numbers, or the reverse."""
    rating_tables.refuse_mixed_times(
        None if recommender.times is None else recommender.times.dates, are_dates
    )


def _refuse_without_draws(recommender: Recommender, what: str) -> None:
    if not recommender.has_draws:
        raise ValueError(
            f"got {what} for a fit by least squares, which estimates no uncertainty, expected method='gibbs'"
        )


def _find_candidates(recommender: Recommender, among: Iterable[Hashable] | None) -> NDArray[np.bool_] | None:
    """Return whether each item is among these (items,)."""
    if among is None:
        return None
    if isinstance(among, str | bytes) or not isinstance(among, Iterable):
        raise TypeError(f"got among={among!r}, expected a list of items, such as [{among!r}]")
    indices = find_ids(recommender.items, among, "item")
    is_candidate = np.zeros(len(recommender.items), dtype=np.bool_)
    is_candidate[indices[indices >= 0]] = True
    return is_candidate


def _get_item_ids(recommender: Recommender, indices: Indices) -> NDArray[Any]:
    """Return the ids of the items with these indices; None for an index of −1."""
    labels = to_label_array(recommender.items)
    if (indices >= 0).all():
        return labels[indices]
    ids: NDArray[Any] = labels.astype(object)[indices]
    ids[indices < 0] = None
    return ids


def _is_many(user: object) -> bool:
    """Return whether `user` is a list, array or column of ids; any other value is one id."""
    if isinstance(user, np.ndarray):
        if user.ndim > 1:
            raise ValueError(f"got users of shape {user.shape}, expected one id, or a list of them: (n,)")
        return user.ndim == 1
    return isinstance(user, list | Keys) or hasattr(user, "to_list")


def _list_ids(users: Any) -> list[Hashable | FoldedUser]:
    if hasattr(users, "to_list"):
        return list(users.to_list())
    return list(users.tolist() if isinstance(users, np.ndarray) else users)
