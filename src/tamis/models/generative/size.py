"""posterior → how many numbers are free in it: what Schwarz's and Akaike's criteria charge for."""

from typing import Any

from tamis.models.generative.block import Block, Density
from tamis.models.generative.category_columns import CategoryColumns
from tamis.models.generative.family_columns import FamilyColumns
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.gaussian_vectors import GaussianVectors
from tamis.models.generative.model import Generative, Posterior
from tamis.models.generative.multinomial_counts import MultinomialCounts
from tamis.models.generative.rate_columns import RateColumns


def parameters(model: Generative, posterior: Posterior) -> int:
    """Of all blocks in all classes, and of the classes' probabilities."""
    k = len(posterior.keys)
    blocks = (_count_in_block(block, posterior.densities[name], k) for name, block in model.blocks.items())
    return k - 1 + sum(blocks)


def _count_in_block(block: Block[Any, Any], density: Density[Any], k: int) -> int:
    found: Any = density
    if isinstance(block, GaussianVectors):
        d = int(found.mean.shape[1])
        pairs = d * (d + 1) // 2
        return k * d + {"full": k * pairs, "tied": pairs, "diag": k * d, "spherical": k}[block.covariance]
    if isinstance(block, CategoryColumns):
        return k * int(sum(max(0, size - 1) for size in found.sizes.tolist()))
    if isinstance(block, GaussianColumns):
        return 2 * int(found.class_sums.first.value.size)
    if isinstance(block, FamilyColumns):
        return int(found.class_sums.total.value.size)
    if isinstance(block, RateColumns):
        return int(found.class_sums.first.value.size)
    if isinstance(block, MultinomialCounts):
        return k * (int(found.alpha.shape[0]) - 1)
    raise TypeError(f"got a block of {type(block).__name__}, expected one whose parameters can be counted")
