"""Scores → the items to recommend: the best ones, or good ones that differ from each other."""

import numpy as np

from tamis._kernels import factors as kernels
from tamis.arrays import Array
from tamis.models.factors.ratings import Indices

_CANDIDATES = 10  # diverse items are selected among this number of best items per recommended item


def find_best_items(scores: Array, count: int) -> Indices:
    """Indices of the items with the largest scores in each row (n, count), best first.

    They are −1 where no further item has a score above −∞.
    """
    return kernels.top_rows(np.ascontiguousarray(scores), count)


def normalize_rows(factors: Array) -> Array:
    """Scale rows (n, k) to length one; a row of zeros stays zero, and has a cosine of 0 with all others."""
    length = np.linalg.norm(factors, axis=1, keepdims=True)
    return factors / np.where(length > 0.0, length, 1.0)


def find_diverse_items(scores: Array, factors: Array, count: int, diversity: float) -> Indices:
    """Indices of items with good scores and different factors in each row (n, count).

    By maximal marginal relevance, each next item has the largest (1 − diversity) · score − diversity ·
    (largest cosine with an item selected before) among the best of its row, whose scores are scaled to 0 … 1.
    """
    best_items = find_best_items(scores, min(scores.shape[1], _CANDIDATES * count))
    indices = np.full((len(scores), count), -1, dtype=np.int64)
    for row, padded in enumerate(best_items):
        candidates = padded[padded >= 0]
        if not len(candidates):
            continue
        value = scores[row, candidates]
        span = value.max() - value.min()
        relevance = (value - value.min()) / span if span > 0.0 else np.zeros(len(candidates))
        relevance = (1.0 - diversity) * relevance
        directions = normalize_rows(factors[candidates])
        similarity = np.full(len(candidates), -np.inf)
        for position in range(min(count, len(candidates))):
            marginal = relevance - diversity * similarity if position else relevance.copy()
            best = int(marginal.argmax())
            indices[row, position] = candidates[best]
            relevance[best] = -np.inf
            similarity = np.maximum(similarity, directions @ directions[best])
    return indices


def find_similar_items(factors: Array, item: int, count: int) -> tuple[Indices, Array]:
    """Indices (m,) of the items most similar to an item, best first, and their cosines with it (m,)."""
    directions = normalize_rows(factors)
    cosine = directions @ directions[item]
    cosine[item] = -np.inf
    indices = find_best_items(cosine[None], count)[0]
    indices = indices[indices >= 0]
    return indices, cosine[indices]
