"""When ratings were made → what they still weigh, in what part of time they lie, and how fresh they are."""

from dataclasses import dataclass

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

    def weights(self, time: Array) -> Array:
        """What a rating weighs for its age (n,); 1 from the newest on."""
        if self.half_life is None:
            return np.ones(len(time))
        return np.exp2(-np.maximum(self.newest - time, 0.0) / self.half_life)

    def places(self, time: Array) -> Places | None:
        """The bin of each time (n,); before the first is the first, and after the last the last."""
        if not self.bins:
            return None
        share = self.freshness(time) if self.period is None else np.mod(time, self.period) / self.period
        return np.clip((share * self.bins).astype(np.int64), 0, self.bins - 1)

    def freshness(self, time: Array) -> Array:
        """0 for the oldest, 1 for the newest (n,)."""
        span = self.newest - self.oldest
        return np.clip((time - self.oldest) / span, 0.0, 1.0) if span > 0.0 else np.ones(len(time))
