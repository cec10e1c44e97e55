"""Conjugate priors, and their predictive distributions.

A prior is equivalent to a statistic of pseudo-observations: `prior.update(statistic)` adds the observed
statistic and returns the posterior, which is the prior for further observations.
"""

from tamis.extras import explain_missing

try:
    from tamis.conjugate.beta import Beta
    from tamis.conjugate.beta_binomial import BetaBinomial
    from tamis.conjugate.beta_geometric import BetaGeometric
    from tamis.conjugate.dirichlet import Dirichlet
    from tamis.conjugate.dirichlet_multinomial import DirichletMultinomial
    from tamis.conjugate.distribution import Counting, Distribution, Univariate
    from tamis.conjugate.gamma import Gamma
    from tamis.conjugate.inverse_gamma import InverseGamma
    from tamis.conjugate.lomax import Lomax
    from tamis.conjugate.multivariate_t import MultivariateT
    from tamis.conjugate.negative_binomial import NegativeBinomial
    from tamis.conjugate.normal import Normal
    from tamis.conjugate.normal_inverse_gamma import NormalInverseGamma
    from tamis.conjugate.normal_inverse_wishart import NormalInverseWishart
    from tamis.conjugate.normals import MeanCovariance, MeanVariance
    from tamis.conjugate.prior import Prior
    from tamis.conjugate.student_t import StudentT
except ModuleNotFoundError as error:
    raise explain_missing(error, __name__) from None

__all__ = [
    "Beta",
    "BetaBinomial",
    "BetaGeometric",
    "Counting",
    "Dirichlet",
    "DirichletMultinomial",
    "Distribution",
    "Gamma",
    "InverseGamma",
    "Lomax",
    "MeanCovariance",
    "MeanVariance",
    "MultivariateT",
    "NegativeBinomial",
    "Normal",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "Prior",
    "StudentT",
    "Univariate",
]
