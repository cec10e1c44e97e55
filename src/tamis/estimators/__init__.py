"""The faces: estimators with scikit-learn's interface, which hold parameters and call the models of tamis.

A face is imported when its name is first used. Only the modules that it needs are imported with it:
scikit-learn's pipelines, for example, are imported to save a model, but not to fit one.
"""

from typing import TYPE_CHECKING

from tamis.extras import import_package, make_getattr

import_package("sklearn", __name__)  # without scikit-learn, the error says what to install

if TYPE_CHECKING:
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
    from tamis.estimators.sharded import fit
    from tamis.models.explanation import Explanation
    from tamis.models.factors import FactorExplanation, FoldedUser

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
    "fit",
    "load",
    "save",
]

_MODULES = {  # the module of each name
    "BayesianLinearRegression": "tamis.estimators.linear",
    "BernoulliNB": "tamis.estimators.naive_bayes",
    "CategoricalNB": "tamis.estimators.naive_bayes",
    "CoefficientSummary": "tamis.estimators.linear",
    "ComplementNB": "tamis.estimators.naive_bayes",
    "Explanation": "tamis.models.explanation",
    "FactorExplanation": "tamis.models.factors",
    "FisherDiscriminant": "tamis.estimators.discriminant",
    "FoldedUser": "tamis.models.factors",
    "GaussianDiscriminant": "tamis.estimators.discriminant",
    "GaussianNB": "tamis.estimators.naive_bayes",
    "GeneralizedLinear": "tamis.estimators.generalized_linear",
    "LinearExplanation": "tamis.estimators.linear",
    "LogisticRegression": "tamis.estimators.logistic",
    "MatrixFactorization": "tamis.estimators.factors",
    "Mixture": "tamis.estimators.mixture",
    "MultinomialNB": "tamis.estimators.naive_bayes",
    "NaiveBayes": "tamis.estimators.naive_bayes",
    "PCA": "tamis.estimators.components",
    "PoissonNB": "tamis.estimators.naive_bayes",
    "SeparationWarning": "tamis.estimators.newton",
    "fit": "tamis.estimators.sharded",
    "load": "tamis.estimators.saved",
    "save": "tamis.estimators.saved",
}

# Type checkers do not see this; otherwise they would accept any misspelt name.
if not TYPE_CHECKING:
    __getattr__ = make_getattr(globals(), _MODULES, "tamis")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
