"""Naive Bayes, Gaussian discriminants and mixtures.

Each is a distribution of classes, and blocks of columns whose distribution depends on the class.
"""

from tamis.models.generative.block import Block, Codes, Contrast, Density, Responsibilities
from tamis.models.generative.category_columns import CategoryColumns
from tamis.models.generative.fisher import Projection, discriminant
from tamis.models.generative.gaussian_columns import GaussianColumns
from tamis.models.generative.gaussian_vectors import GaussianVectors
from tamis.models.generative.model import Encoded, Generative, LabelledRows, Posterior
from tamis.models.generative.multinomial_counts import ComplementCounts, MultinomialCounts
from tamis.models.generative.rate_columns import BernoulliColumns, PoissonColumns

__all__ = [
    "BernoulliColumns",
    "Block",
    "CategoryColumns",
    "Codes",
    "ComplementCounts",
    "Contrast",
    "Density",
    "Encoded",
    "GaussianColumns",
    "GaussianVectors",
    "Generative",
    "LabelledRows",
    "MultinomialCounts",
    "PoissonColumns",
    "Posterior",
    "Projection",
    "Responsibilities",
    "discriminant",
]
