"""Probabilistic models by sufficient statistics: data → observe → statistic → (+) → infer → posterior.

The module of a name is imported when the name is first used (PEP 562), so `import tamis` alone loads neither
SciPy nor scikit-learn; tests/architecture/test_imports_are_lazy.py checks this.
"""

from importlib import import_module

from tamis.extras import import_package  # faster than `import_module`; errors say what to install

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis import (
        basis,
        conjugate,
        decide,
        engines,
        estimators,
        expectations,
        families,
        models,
        plots,
        stats,
        testing,
        text,
        validate,
    )
    from tamis.conjugate import Beta, Dirichlet, Gamma, NormalInverseGamma, NormalInverseWishart
    from tamis.estimators import (
        PCA,
        BayesianLinearRegression,
        BernoulliNB,
        CategoricalNB,
        ComplementNB,
        FisherDiscriminant,
        GaussianDiscriminant,
        GaussianNB,
        GeneralizedLinear,
        LogisticRegression,
        MatrixFactorization,
        Mixture,
        MultinomialNB,
        NaiveBayes,
        PoissonNB,
        SeparationWarning,
        fit,
        load,
        save,
    )
    from tamis.links import logit, sigmoid
    from tamis.versions import show_versions

    __version__: str

__all__ = [
    "PCA",
    "BayesianLinearRegression",
    "BernoulliNB",
    "Beta",
    "CategoricalNB",
    "ComplementNB",
    "Dirichlet",
    "FisherDiscriminant",
    "Gamma",
    "GaussianDiscriminant",
    "GaussianNB",
    "GeneralizedLinear",
    "LogisticRegression",
    "MatrixFactorization",
    "Mixture",
    "MultinomialNB",
    "NaiveBayes",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "PoissonNB",
    "SeparationWarning",
    "__version__",
    "basis",
    "conjugate",
    "decide",
    "engines",
    "estimators",
    "expectations",
    "families",
    "fit",
    "load",
    "logit",
    "models",
    "plots",
    "save",
    "show_versions",
    "sigmoid",
    "stats",
    "testing",
    "text",
    "validate",
]

_MODULES = {  # the module that has each name
    "BayesianLinearRegression": "estimators",
    "BernoulliNB": "estimators",
    "Beta": "conjugate",
    "CategoricalNB": "estimators",
    "ComplementNB": "estimators",
    "Dirichlet": "conjugate",
    "FisherDiscriminant": "estimators",
    "Gamma": "conjugate",
    "GaussianDiscriminant": "estimators",
    "GaussianNB": "estimators",
    "GeneralizedLinear": "estimators",
    "LogisticRegression": "estimators",
    "MatrixFactorization": "estimators",
    "Mixture": "estimators",
    "MultinomialNB": "estimators",
    "NaiveBayes": "estimators",
    "NormalInverseGamma": "conjugate",
    "NormalInverseWishart": "conjugate",
    "PCA": "estimators",
    "PoissonNB": "estimators",
    "SeparationWarning": "estimators",
    "fit": "estimators",
    "load": "estimators",
    "logit": "links",
    "save": "estimators",
    "show_versions": "versions",
    "sigmoid": "links",
}
_SUBMODULES = {name for name in __all__ if name not in _MODULES and name != "__version__"}


# Hidden from type checkers, which would otherwise accept any misspelt name as an attribute.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _SUBMODULES:
            return import_package(f"tamis.{name}", f"tamis.{name}")
        if name in _MODULES:
            value = getattr(import_package(f"tamis.{_MODULES[name]}", f"tamis.{name}"), name)
        elif name == "__version__":
            value = import_module("importlib.metadata").version("tamis")
        else:
            raise AttributeError(f"module 'tamis' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
