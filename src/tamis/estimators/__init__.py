"""The faces: probabilistic models behind scikit-learn's interface."""

from tamis.extras import explain_missing

try:
    from tamis.estimators.components import PCA
    from tamis.estimators.discriminant import FisherDiscriminant, GaussianDiscriminant
    from tamis.estimators.factors import MatrixFactorization
    from tamis.estimators.generalized_linear import GeneralizedLinear
    from tamis.estimators.linear import BayesianLinearRegression, CoefficientSummary, LinearExplanation
    from tamis.estimators.logistic import LogisticRegression
    from tamis.estimators.mixture import Mixture
    from tamis.estimators.naive_bayes import (
        BernoulliNB,
        CategoricalNB,
        ComplementNB,
        GaussianNB,
        MultinomialNB,
        NaiveBayes,
        PoissonNB,
    )
    from tamis.estimators.newton import SeparationWarning
    from tamis.estimators.saved import load, save
    from tamis.models.explanation import Explanation
    from tamis.models.factors import FactorExplanation, FoldedUser
except ModuleNotFoundError as error:
    raise explain_missing(error, __name__) from None

__all__ = [
    "PCA",
    "BayesianLinearRegression",
    "BernoulliNB",
    "CategoricalNB",
    "CoefficientSummary",
    "ComplementNB",
    "Explanation",
    "FactorExplanation",
    "FisherDiscriminant",
    "FoldedUser",
    "GaussianDiscriminant",
    "GaussianNB",
    "GeneralizedLinear",
    "LinearExplanation",
    "LogisticRegression",
    "MatrixFactorization",
    "Mixture",
    "MultinomialNB",
    "NaiveBayes",
    "PoissonNB",
    "SeparationWarning",
    "load",
    "save",
]
