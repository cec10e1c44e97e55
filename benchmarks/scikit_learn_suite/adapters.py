"""Our faces under scikit-learn's names, so that its tests can import them.

Classes with the same name and parameters stand here as they are. A class whose name or parameters differ gets
a thin subclass that translates the parameters and nothing else: what a user would write when migrating.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn._loss import HalfBinomialLoss  # noqa: PLC2701 (the tests ask their estimators for it)

import tamis
from tamis import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, LogisticRegression, MultinomialNB

__all__ = [
    "PCA",
    "BernoulliNB",
    "BinomialRegressor",
    "CategoricalNB",
    "ComplementNB",
    "GammaRegressor",
    "GaussianMixture",
    "GaussianNB",
    "IncrementalPCA",
    "LinearDiscriminantAnalysis",
    "LogisticRegression",
    "MultinomialNB",
    "PoissonRegressor",
    "QuadraticDiscriminantAnalysis",
    "TweedieRegressor",
]


class PCA(tamis.PCA):
    """`svd_solver` and its details are scikit-learn's names for how, not for what."""

    def __init__(
        self,
        n_components=None,
        *,
        copy=True,
        whiten=False,
        svd_solver="auto",
        tol=0.0,
        iterated_power="auto",
        n_oversamples=10,
        power_iteration_normalizer="auto",
        random_state=None,
    ) -> None:
        solver = "randomized" if svd_solver == "randomized" else "auto"
        super().__init__(n_components, whiten=whiten, solver=solver, random_state=random_state)
        self.copy = copy
        self.svd_solver = svd_solver
        self.iterated_power = iterated_power
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer


class IncrementalPCA(tamis.PCA):
    """Ours is incremental by `partial_fit`, whatever the size of a batch."""

    def __init__(self, n_components=None, *, whiten=False, copy=True, batch_size=None) -> None:
        super().__init__(n_components, whiten=whiten)
        self.copy = copy
        self.batch_size = batch_size


class LinearDiscriminantAnalysis(tamis.FisherDiscriminant):
    """Solvers are scikit-learn's names for how, not for what."""

    def __init__(
        self,
        solver="svd",
        shrinkage=None,
        priors=None,
        n_components=None,
        store_covariance=False,
        tol=1e-4,
        covariance_estimator=None,
    ) -> None:
        super().__init__(n_components, shrinkage=shrinkage, priors=priors)
        self.solver = solver
        self.store_covariance = store_covariance
        self.tol = tol
        self.covariance_estimator = covariance_estimator


class QuadraticDiscriminantAnalysis(tamis.GaussianDiscriminant):
    """A full covariance per class, by maximum likelihood."""

    def __init__(
        self,
        *,
        solver="svd",
        shrinkage=None,
        priors=None,
        reg_param=0.0,
        store_covariance=False,
        tol=1e-4,
        covariance_estimator=None,
    ) -> None:
        super().__init__("full", estimate="mle", shrinkage=shrinkage, priors=priors)
        self.solver = solver
        self.reg_param = reg_param
        self.store_covariance = store_covariance
        self.tol = tol
        self.covariance_estimator = covariance_estimator


class GaussianMixture(tamis.Mixture):
    """`covariance_type` is `covariance`, and the estimate is of maximum likelihood."""

    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        tol=1e-3,
        reg_covar=1e-6,
        max_iter=100,
        n_init=1,
        init_params="kmeans",
        weights_init=None,
        means_init=None,
        precisions_init=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        verbose_interval=10,
    ) -> None:
        super().__init__(
            n_components,
            covariance=covariance_type,
            families="gaussian",
            estimate="mle",
            tol=tol,
            reg_covar=reg_covar,
            max_iter=max_iter,
            n_init=n_init,
            init_params=init_params,
            weights_init=weights_init,
            means_init=means_init,
            precisions_init=precisions_init,
            random_state=random_state,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.covariance_type = covariance_type
        self.verbose_interval = verbose_interval

    def _n_parameters(self) -> Any:  # private there, public here
        return self.n_parameters_


class _Regressor(tamis.GeneralizedLinear):
    """scikit-learn's α belongs to the mean of the losses, ours to their sum."""

    family: Any = "poisson"
    link: Any = "log"
    prior = None
    intercept_alpha = 0.0
    dispersion = "estimate"
    posterior = "auto"

    def __init__(
        self,
        *,
        alpha=1.0,
        fit_intercept=True,
        solver="lbfgs",
        max_iter=100,
        tol=1e-4,
        warm_start=False,
        verbose=0,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose

    def choose_link(self) -> Any:
        return self.link

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        if sample_weight is not None and np.ndim(sample_weight) == 0:
            sample_weight = np.full(len(y), float(sample_weight))
        total = len(y) if sample_weight is None else float(np.sum(sample_weight))
        given, chosen = dict(self.__dict__), self.choose_link()
        try:
            self.alpha, self.link = given["alpha"] * total, chosen
            return super().fit(X, y, sample_weight)
        finally:
            self.alpha = given["alpha"]
            if "link" in given:
                self.link = given["link"]
            else:
                del self.link


class PoissonRegressor(_Regressor):
    def _get_loss(self, xp: Any = None, device: Any = None) -> Any:
        return linear_model.PoissonRegressor()._get_loss()


class GammaRegressor(_Regressor):
    family = "gamma"

    def _get_loss(self, xp: Any = None, device: Any = None) -> Any:
        return linear_model.GammaRegressor()._get_loss()


class BinomialRegressor(_Regressor):
    family = "bernoulli"
    link = "logit"

    def _get_loss(self, xp: Any = None, device: Any = None) -> Any:
        return HalfBinomialLoss()


class TweedieRegressor(_Regressor):
    """Powers 0, 1 and 2 are families of ours; `fit` refuses others by name."""

    def __init__(
        self,
        *,
        power=0.0,
        alpha=1.0,
        fit_intercept=True,
        link="auto",
        solver="lbfgs",
        max_iter=100,
        tol=1e-4,
        warm_start=False,
        verbose=0,
    ) -> None:
        super().__init__(
            alpha=alpha,
            fit_intercept=fit_intercept,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.power = power
        self.link = link

    @property
    def family(self) -> Any:  # type: ignore[override]
        known = {0: "gaussian", 1: "poisson", 2: "gamma"}
        return known.get(self.power, f"tweedie of power {self.power}")

    def choose_link(self) -> Any:
        return ("identity" if self.power <= 0 else "log") if self.link == "auto" else self.link

    def _get_loss(self, xp: Any = None, device: Any = None) -> Any:
        return linear_model.TweedieRegressor(power=self.power, link=self.link)._get_loss()
