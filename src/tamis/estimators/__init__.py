"""The faces: probabilistic models behind scikit-learn's interface."""

from tamis.estimators.discrete import BernoulliNB, CategoricalNB, ComplementNB, MultinomialNB, PoissonNB
from tamis.estimators.discriminant import FisherDiscriminant, GaussianDiscriminant
from tamis.estimators.explanation import Explanation
from tamis.estimators.mixture import Mixture
from tamis.estimators.naive_bayes import GaussianNB, NaiveBayes
from tamis.estimators.persistence import load, save

__all__ = [
    "BernoulliNB",
    "CategoricalNB",
    "ComplementNB",
    "Explanation",
    "FisherDiscriminant",
    "GaussianDiscriminant",
    "GaussianNB",
    "Mixture",
    "MultinomialNB",
    "NaiveBayes",
    "PoissonNB",
    "load",
    "save",
]
