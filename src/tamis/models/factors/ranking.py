"""Scores → what to show: the best, or the best that are not all alike."""

import numpy as np

from tamis._kernels import factors as kernels
from tamis.arrays import Array
from tamis.models.factors.ratings import Places

_POOL = 10  # candidates for each that is shown, among which variety is looked for


def best(scores: Array, count: int) -> Places:
    """Places of the largest scores of each row (n, count), −1 where there are too few above −∞."""
    return kernels.top_rows(np.ascontiguousarray(scores), count)


def directions(factors: Array) -> Array:
    """Rows of length one (n, k); what has no factors stays zero and is like nothing."""
    length = np.linalg.norm(factors, axis=1, keepdims=True)
    return factors / np.where(length > 0.0, length, 1.0)


def varied(scores: Array, factors: Array, count: int, diversity: float) -> Places:
    """Places of good scores of each row (n, count) that differ: maximal marginal relevance.

    Each next one has the largest (1 − diversity) · score − diversity · (its largest cosine with those
    before), among the best of each row; their scores are brought to 0 … 1.
    """
    pool = best(scores, min(scores.shape[1], _POOL * count))
    found = np.full((len(scores), count), -1, dtype=np.int64)
    for row, candidates in enumerate(pool):
        own = candidates[candidates >= 0]
        if not len(own):
            continue
        value = scores[row, own]
        span = value.max() - value.min()
        worth = (1.0 - diversity) * ((value - value.min()) / span if span > 0.0 else np.zeros(len(own)))
        facing = directions(factors[own])
        like = np.full(len(own), -np.inf)
        for place in range(min(count, len(own))):
            now = worth - diversity * like if place else worth.copy()
            chosen = int(now.argmax())
            found[row, place] = own[chosen]
            worth[chosen] = -np.inf
            like = np.maximum(like, facing @ facing[chosen])
    return found


def alike(factors: Array, item: int, count: int) -> tuple[Places, Array]:
    """The items of nearest direction, most alike first, and their cosines."""
    facing = directions(factors)
    cosine = facing @ facing[item]
    cosine[item] = -np.inf
    places = best(cosine[None], count)[0]
    places = places[places >= 0]
    return places, cosine[places]
