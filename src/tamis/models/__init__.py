"""One file, one pair (observe, infer); a generative model is blocks of columns side by side."""

from tamis.models.block import Block, Codes, Contrast, Density, Shares
from tamis.models.category_columns import CategoryColumns
from tamis.models.complement_counts import ComplementCounts
from tamis.models.fisher import Projection, discriminant
from tamis.models.gaussian_columns import GaussianColumns
from tamis.models.gaussian_vectors import GaussianVectors
from tamis.models.generative import Encoded, Evidence, Generative, Posterior
from tamis.models.multinomial_counts import MultinomialCounts
from tamis.models.rate_columns import BernoulliColumns, PoissonColumns

__all__ = [
    "BernoulliColumns",
    "Block",
    "CategoryColumns",
    "Codes",
    "ComplementCounts",
    "Contrast",
    "Density",
    "Encoded",
    "Evidence",
    "GaussianColumns",
    "GaussianVectors",
    "Generative",
    "MultinomialCounts",
    "PoissonColumns",
    "Posterior",
    "Projection",
    "Shares",
    "discriminant",
]
