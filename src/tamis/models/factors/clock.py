"""When ratings were made → what they still weigh, in what part of time they lie, and how fresh they are."""

from dataclasses import dataclass, replace

import numpy as np

from tamis.arrays import Array
from tamis.models.factors.ratings import Places


@dataclass(frozen=True, slots=True)
class Clock:
    """The span of time that was learned from."""

    oldest: float
    newest: float
    half_life: float | None = None  # a rating of that age weighs half
    bins: int = 0
    period: float | None = None  # bins are parts of it, over and over; without one, parts of the span
    end: float | None = None  # of the span that bins are parts of, where newer ratings came later
    dates: bool | None = None  # whether times are days since 1970, made of dates; older files do not say

    def until(self, newest: float) -> "Clock":
        """With ratings as new as that: ages are counted from there, and bins stay as they were learned."""
        if newest <= self.newest:
            return self
        return replace(self, newest=newest, end=self.newest if self.end is None else self.end)

    def weights(self, time: Array) -> Array:
        """What a rating weighs for its age (n,); 1 from the newest on."""
        if self.half_life is None:
            return np.ones(len(time))
        return np.exp2(-np.maximum(self.newest - time, 0.0) / self.half_life)

    def places(self, time: Array) -> Places | None:
        """The bin of each time (n,); before the first is the first, and after the last the last."""
        if not self.bins:
            return None
        end = self.newest if self.end is None else self.end
        share = (
            _share(time, self.oldest, end) if self.period is None else np.mod(time, self.period) / self.period
        )
        return np.clip((share * self.bins).astype(np.int64), 0, self.bins - 1)

    def freshness(self, time: Array) -> Array:
        """0 for the oldest, 1 for the newest (n,)."""
        return _share(time, self.oldest, self.newest)


def _share(time: Array, start: float, end: float) -> Array:
    span = end - start
    return np.clip((time - start) / span, 0.0, 1.0) if span > 0.0 else np.ones(len(time))
