"""What a recommender was told → entries of known ids; what it learned → attributes and a file."""

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array
from tamis.estimators import factor_reading, factor_times
from tamis.estimators.base import Face
from tamis.estimators.factor_state import (
    Course,
    Entries,
    FactorState,
    FoldedUser,
    as_saved,
)
from tamis.inputs import to_label_array
from tamis.models.factors.alternating import Alternating
from tamis.models.factors.clock import Clock
from tamis.models.factors.implicit import Implicit
from tamis.models.factors.learned import Chain, Learned
from tamis.stats import Keys

_DUPLICATES = ("refuse", "mean", "last", "sum")


class FactorFace(Face[FactorState]):
    """Reading, attributes and file of a recommender; the file holds its ratings, too."""

    feedback: Any
    half_life: float | timedelta | None
    time_bins: int
    period: float | timedelta | None
    columns: Mapping[str, Any] | None
    duplicates: Any
    random_state: Any

    # ── reading ──

    def _of_its_kind(self) -> FactorState:
        """What was learned, if `feedback` still says what it was learned from."""
        state = self.state_
        if (self.feedback == "implicit") != state.implicit:
            kind = "implicit" if state.implicit else "explicit"
            raise ValueError(
                f"got feedback={self.feedback!r} for a model of {kind} feedback, expected {kind!r}: set it "
                "back, or fit anew"
            )
        return state

    def _entries(
        self, X: object, y: object, sample_weight: object
    ) -> tuple[Keys, Keys, Entries, bool | None]:
        """The ids among rows to learn, these rows, and whether their times are dates."""
        if self.duplicates not in _DUPLICATES:
            raise ValueError(f"got duplicates={self.duplicates!r}, expected one of {', '.join(_DUPLICATES)}")
        read = factor_reading.read(X, self.columns, ("rating",) if y is not None else ())
        rows = len(read)
        if not rows:
            raise ValueError("got 0 ratings, expected at least 1: was the data empty?")
        if y is not None and read.rating is not None:
            raise ValueError(
                "got ratings both in X and as y, expected one of them: pass pairs with y, or triples"
            )
        implicit = self.feedback == "implicit"
        rating = read.rating if y is None else y
        if rating is None and not implicit:
            raise ValueError(
                "got pairs without ratings, expected a third column or y; feedback='implicit' needs none"
            )
        value = np.ones(rows) if rating is None else factor_reading.ratings(rating, rows)
        weight = factor_reading.weights(read.weight, sample_weight, rows)
        time = None if read.time is None else factor_times.read(read.time, rows)
        users, user = self._ids(read.user, read.users, "user")
        items, item = self._ids(read.item, read.items, "item")
        entries = Entries(user, item, value, weight, None if time is None else time.values)
        if weight is not None and not weight.all():  # what weighs nothing was not told
            entries = entries.take(weight > 0.0)
            if read.users is None or read.items is None:
                users, user = _used(users, entries.user)
                items, item = _used(items, entries.item)
                entries = replace(entries, user=user, item=item)
        dates = None if time is None else time.dates
        return users, items, self._deeds(entries) if implicit else entries, dates

    @staticmethod
    def _ids(labels: Any, known: Keys | None, what: str) -> tuple[Keys, Any]:
        return (known, labels) if known is not None else factor_reading.keyed(labels, what)

    @staticmethod
    def _deeds(entries: Entries) -> Entries:
        """What was done, and how much; 0 is nothing."""
        value = entries.value
        if (value < 0.0).any():
            row = int(np.argmax(value < 0.0))
            raise ValueError(
                f"value {row} is {value[row]:g}, expected at least 0 with feedback='implicit', how often or "
                "how long: for likes and dislikes use feedback='explicit'"
            )
        if len(value) and not value.any():
            raise ValueError("got values that are all 0, expected something that was done")
        return entries if value.all() else entries.take(value > 0.0)

    def _when(self, state: FactorState, time: Any, rows: int) -> Array | None:
        """The times that are asked about, of the kind that was learned from."""
        if time is None:
            return None
        found = factor_times.read(time, rows)
        factor_times.refuse_other_kind(state.clock, found.dates)
        return found.values

    def _new(self, state: FactorState, entries: Entries) -> Entries:
        return self._deeds(entries) if state.implicit else entries

    @staticmethod
    def _refuse_known(keys: Keys, name: Hashable, what: str) -> None:
        factor_reading.refuse_no_id(name, what)
        if name in keys:
            raise ValueError(
                f"got {what} {factor_reading.plain(name)!r}, expected a new one: partial_fit adds ratings to "
                "known ones"
            )

    def _told(self, ratings: Any, keys: Keys, what: str) -> tuple[NDArray[np.int64], Array]:
        """The places and values of one user's or item's ratings; `what` is what the others are."""
        pairs: Iterable[Any]
        frame = arrays.frame(ratings) if arrays.is_frame(ratings) else None
        if frame is not None:
            pairs = factor_reading.pairs_of(frame, what, self.columns)
        elif hasattr(ratings, "items"):  # a mapping, or a series with an index
            pairs = ratings.items()
        elif isinstance(ratings, Set):
            if self.feedback != "implicit":
                raise TypeError(f"got a set of {what}s, expected ratings of them: a mapping, or pairs")
            pairs = [(one, 1.0) for one in ratings]
        else:
            pairs = ratings
        try:
            listed = [tuple(pair) for pair in pairs]
        except TypeError:
            listed = [()]
        if any(len(pair) != 2 for pair in listed):
            raise ValueError(
                f"got ratings that are no pairs, expected a mapping or pairs of ({what}, rating)"
            )
        places = factor_reading.found_in(keys, [pair[0] for pair in listed], what)
        if (places < 0).any():
            unknown = factor_reading.plain(listed[int(np.argmax(places < 0))][0])
            raise ValueError(f"got {what} {unknown!r}, expected one that is known: drop it, or add it first")
        values = factor_reading.ratings([pair[1] for pair in listed], len(listed)) if listed else np.zeros(0)
        return places, values

    # ── what was learned ──

    @property
    def users_(self) -> NDArray[Any]:
        """The ids of users, in the order of their rows."""
        return to_label_array(self._state_for("users_").users)

    @property
    def items_(self) -> NDArray[Any]:
        """The ids of items, in the order of their rows."""
        return to_label_array(self._state_for("items_").items)

    @property
    def user_factors_(self) -> Array:
        """(users, n_factors); of draws, the last."""
        return self._state_for("user_factors_").learned.factors(-1).users[:, :-1]

    @property
    def item_factors_(self) -> Array:
        """(items, n_factors); of draws, the last."""
        return self._state_for("item_factors_").learned.factors(-1).items[:, :-1]

    @property
    def user_offsets_(self) -> Array:
        """How far above the level each user rates (users,); of draws, the last."""
        return self._state_for("user_offsets_").learned.factors(-1).users[:, -1]

    @property
    def item_offsets_(self) -> Array:
        """How far above the level each item is rated (items,); of draws, the last."""
        return self._state_for("item_offsets_").learned.factors(-1).items[:, -1]

    @property
    def time_offsets_(self) -> Array:
        """How far above the level all items are rated in each bin of time (time_bins,)."""
        return self._state_for("time_offsets_").learned.bins.copy()

    @property
    def item_time_offsets_(self) -> Array:
        """How far above its own offset each item is rated in each bin of time (items, time_bins)."""
        return self._state_for("item_time_offsets_").learned.item_bins.copy()

    @property
    def level_(self) -> float:
        """The mean rating; 0 for implicit feedback."""
        return self._state_for("level_").learned.level

    @property
    def n_iter_(self) -> int:
        """Sweeps, or draws."""
        return self._state_for("n_iter_").course.sweeps

    @property
    def converged_(self) -> bool:
        """Whether sweeps ended by `tol` rather than after `max_iter` of them."""
        found = self._state_for("converged_").course.converged
        if found is None:
            raise AttributeError("draws are as many as n_draws says, and are not tested: no converged_")
        return found

    @property
    def train_rmse_(self) -> Array:
        """How wrong each sweep, or draw, was of the ratings that it was learned from (n_iter_,).

        Of implicit feedback, how far the preferences of what was seen are from 1.
        """
        return self._state_for("train_rmse_").course.train

    @property
    def validation_rmse_(self) -> Array:
        """How wrong each sweep was of the ratings held out; only with `validation`."""
        found = self._state_for("validation_rmse_").course.validation
        if found is None:
            raise AttributeError("nothing was held out, expected validation above 0: no validation_rmse_")
        return found

    @property
    def ridge_(self) -> float:
        """Of the factors: given, or found."""
        return float(self._state_for("ridge_").solver.ridge)

    @property
    def noise_std_(self) -> float:
        """The standard deviation of a rating about what is expected, by Gibbs."""
        learned = self._state_for("noise_std_").learned
        if learned.chain is None:
            raise AttributeError("least squares tells no noise, expected method='gibbs': no noise_std_")
        return float(np.sqrt(learned.noise.mean()))

    # ── the file ──

    def describe_state(self) -> dict[str, Any]:
        return as_saved(self.state_)

    def restore_state(self, state: dict[str, Any]) -> None:
        level, own, other, bins, item_bins = state["learned"]
        chain = None if state["chain"] is None else Chain(*state["chain"])
        clock = None if state["clock"] is None else Clock(*state["clock"])
        entries, users, items = Entries(*state["entries"]), state["users"], state["items"]
        learned = Learned(float(level), own, other, bins, item_bins, chain)
        if not isinstance(users, Keys) or not isinstance(items, Keys):
            raise TypeError("no ids")
        if (learned.users.shape[1], learned.items.shape[1]) != (len(users), len(items)):
            raise TypeError("its factors are of other users or items")
        low, high = state["range"]
        rank, ridge, more, implicit = state["solver"]
        kind: Any = Implicit if implicit else Alternating
        self._fitted = FactorState(
            users,
            items,
            entries,
            kind(int(rank), float(ridge), float(more)),
            learned,
            clock,
            float(low),
            float(high),
            bool(implicit),
            Course(*state["course"]),
        )


def _used(keys: Keys, place: NDArray[np.int64]) -> tuple[Keys, NDArray[np.int64]]:
    """The keys that have rows, and those rows' places among them."""
    used = np.bincount(place, minlength=len(keys)) > 0
    return keys.keep(used), (np.cumsum(used) - 1)[place]


def is_many(user: object) -> bool:
    """Whether this is a list, array or column of ids; anything else is one id."""
    if isinstance(user, np.ndarray):
        if user.ndim > 1:
            raise ValueError(f"got users of shape {user.shape}, expected one id, or a list of them: (n,)")
        return user.ndim == 1
    return isinstance(user, list | Keys) or hasattr(user, "to_list")


def listed(users: Any) -> list[Hashable | FoldedUser]:
    """Ids one by one."""
    if hasattr(users, "to_list"):
        return list(users.to_list())
    return list(users.tolist() if isinstance(users, np.ndarray) else users)
