"""Exponential families, one a file: h, T, A and ∇A, and what follows from them."""

from tamis.extras import explain_missing

try:
    from tamis.families.bernoulli import Bernoulli
    from tamis.families.categorical import Categorical
    from tamis.families.exponential import Exponential
    from tamis.families.family import Family
    from tamis.families.gaussian import Gaussian
    from tamis.families.geometric import Geometric
    from tamis.families.multinomial import Multinomial
    from tamis.families.multivariate_gaussian import MultivariateGaussian
    from tamis.families.poisson import Poisson
except ModuleNotFoundError as error:
    raise explain_missing(error, __name__) from None

__all__ = [
    "Bernoulli",
    "Categorical",
    "Exponential",
    "Family",
    "Gaussian",
    "Geometric",
    "Multinomial",
    "MultivariateGaussian",
    "Poisson",
]
