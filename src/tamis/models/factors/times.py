"""Times of ratings → weights by age, bins of time, and how recent the ratings are."""

from dataclasses import dataclass, replace

import numpy as np

from tamis.arrays import Array
from tamis.models.factors.ratings import Entries, Indices, Ratings

# A half-life in a wrong unit is detected by a mean weight of the ratings below _MIN_MEAN_WEIGHT, or by a
# total weight below 2 of more than _FEW_RATINGS ratings; a period, by more than _MAX_PERIODS in the span of
# the times.
_MIN_MEAN_WEIGHT, _FEW_RATINGS = 1e-3, 10
_MAX_PERIODS = 10_000


@dataclass(frozen=True, slots=True)
class TimeScale:
    """The span of time of the learned ratings, and how time enters the model."""

    oldest: float
    newest: float
    half_life: float | None = None  # the age at which a rating has half of its weight
    bins: int = 0  # the number of bins of time
    period: float | None = None  # each period is divided into the bins; if None, the span is
    # The end of the span that is divided into bins, if newer ratings were added later.
    end: float | None = None
    dates: bool | None = None  # whether times are dates, in days since 1970; None in files of older versions

    def extend(self, newest: float) -> "TimeScale":
        """The scale after newer ratings: ages count from the newest rating, and bins do not change."""
        if newest <= self.newest:
            return self
        return replace(self, newest=newest, end=self.newest if self.end is None else self.end)

    def compute_weights(self, time: Array) -> Array:
        """The factor of each rating's weight by its age (n,); 1 for the newest."""
        if self.half_life is None:
            return np.ones(len(time))
        return np.exp2(-np.maximum(self.newest - time, 0.0) / self.half_life)

    def find_bins(self, time: Array) -> Indices | None:
        """The bin of each time (n,); times outside the span are in the first or the last bin."""
        if not self.bins:
            return None
        end = self.newest if self.end is None else self.end
        fraction = (
            _compute_fraction(time, self.oldest, end)
            if self.period is None
            else np.mod(time, self.period) / self.period
        )
        return np.clip((fraction * self.bins).astype(np.int64), 0, self.bins - 1)

    def compute_recency(self, time: Array) -> Array:
        """How recent each time is (n,): 0 for the oldest, 1 for the newest, linear between them.

        If all times are equal, it is 1.
        """
        return _compute_fraction(time, self.oldest, self.newest)

    def refuse_wrong_unit(self, time: Array) -> None:
        """Raise if the half-life or the period is probably in a wrong unit, such as days for seconds."""
        self._refuse_many_periods()
        self._refuse_little_weight(float(self.compute_weights(time).sum()), len(time))

    def refuse_loss_of_weight(self, before: "TimeScale", known: Array | None, time: Array | None) -> None:
        """Raise if newer ratings leave almost no weight to the known ones: the unit is probably wrong.

        `known` (m,) holds the times of the known ratings, `time` (n,) those of known and new ones. A small
        step of the newest time is never refused, so that ratings can be added again and again.
        """
        if self == before:
            return
        self._refuse_many_periods()
        if self.half_life is None or known is None or time is None:
            return
        if np.exp2((before.newest - self.newest) / self.half_life) >= _MIN_MEAN_WEIGHT:
            return
        weight, total = (float(self.compute_weights(each).sum()) for each in (known, time))
        if weight < _MIN_MEAN_WEIGHT:
            raise self._make_little_weight_error(weight, len(known))
        self._refuse_little_weight(total, len(time))

    def _refuse_many_periods(self) -> None:
        if self.period is not None and self.newest - self.oldest > _MAX_PERIODS * self.period:
            raise ValueError(
                f"got period={self.period:g} for times from {self.oldest:g} to {self.newest:g}, expected at "
                f"most {_MAX_PERIODS:,} periods between them: are the times in seconds?"
            )

    def _refuse_little_weight(self, weight: float, rows: int) -> None:
        if weight < _MIN_MEAN_WEIGHT * rows or (rows > _FEW_RATINGS and weight < 2.0):
            raise self._make_little_weight_error(weight, rows)

    def _make_little_weight_error(self, weight: float, rows: int) -> ValueError:
        return ValueError(
            f"got half_life={self.half_life:g}, which leaves {rows} ratings the weight of {weight:.3g}, "
            f"expected a longer one for times from {self.oldest:g} to {self.newest:g}: are the times in "
            "seconds?"
        )


def _compute_fraction(time: Array, start: float, end: float) -> Array:
    span = end - start
    return np.clip((time - start) / span, 0.0, 1.0) if span > 0.0 else np.ones(len(time))


def weigh_by_age(entries: Entries, scale: TimeScale | None, n_users: int, n_items: int) -> Ratings:
    """Weight entries by age, and find their bins of time."""
    weights, time_bin, n_bins = entries.undecayed_weights, None, 0
    if scale is not None and entries.time is not None:
        n_bins, time_bin = scale.bins, scale.find_bins(entries.time)
        if scale.half_life is not None:
            decay = scale.compute_weights(entries.time)
            weights = decay if weights is None else weights * decay
    return Ratings(
        entries.user_index, entries.item_index, entries.values, n_users, n_items, weights, time_bin, n_bins
    )
