"""Fits end at an optimum in few steps, whatever the link, and standard errors are taken there."""

import warnings
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]  # it has no types
from numpy.testing import assert_allclose
from scipy.special import log_softmax
from sklearn.datasets import make_classification

from tamis import GeneralizedLinear, LogisticRegression
from tamis.arrays import Array
from tamis.models.linear.responses import RESPONSES
from tests.estimators.generalized_cases import drawn, each_pair, theirs


def slope_left(model: Any, x: Array, y: Array, alpha: float) -> float:
    """The largest entry of the gradient, next to the sizes of its terms."""
    kind = RESPONSES[model.family, model.link]
    slopes = kind().loss(model.predict_linear(x), y)[1]
    gradient, sizes = slopes @ x + alpha * model.coef_, np.abs(slopes) @ np.abs(x) + alpha
    return float(np.abs(gradient / sizes).max())


def test_the_log_link_needs_few_steps_where_the_expected_information_misleads() -> None:
    x, y, offset = drawn("gamma", "log", 18, 5757)  # 1,443 steps of Fisher's scoring
    weights = np.random.default_rng(5757).uniform(0.5, 2, 18)
    model = GeneralizedLinear("gamma", link="log", fit_intercept=False).fit(x, y, weights, offset=offset)
    assert model.converged_
    assert model.n_iter_ <= 8


@pytest.mark.parametrize("family", ["gamma", "gaussian"])
@pytest.mark.parametrize("solver", ["auto", "whitened"])
def test_heavy_tails_converge_in_few_steps(family: Any, solver: Any) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(int(rng.integers(6, 40)), 3))
        y = np.exp(x @ [0.4, 0.2, 0.1] + 1.2 * rng.normal(size=len(x)))
        alpha = float(rng.choice([0.0, 0.5]))
        model = GeneralizedLinear(family, link="log", alpha=alpha, fit_intercept=False, solver=solver)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(x, y)
        assert model.n_iter_ <= 30, seed
        assert slope_left(model, x, y, alpha) < 1e-6, seed


def test_a_fit_that_begins_on_a_saddle_leaves_it() -> None:
    x, y = np.array([[-1.0], [1.0]]), np.array([3.0, 3.0])  # without a slope at 0, which is a maximum
    model = GeneralizedLinear("gaussian", link="log", fit_intercept=False, dispersion=1.0).fit(x, y)
    assert_allclose(np.abs(model.coef_), np.log((3 + np.sqrt(5)) / 2), rtol=1e-6)  # y = e^w + e^-w


def test_a_nearly_perfect_fit_is_fitted_to_its_own_residuals() -> None:
    """Residuals of 1 beside targets of 1e7: the tolerance is of what is left, not of the targets."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    mean = np.exp(9.0 + x @ [2.0, -1.0])
    y = mean + rng.normal(size=30)
    model = GeneralizedLinear("gaussian", link="log").fit(x, y)
    rows = np.column_stack([x, np.ones(30)])
    fitted = model.predict(x)
    moments = (rows.T * np.square(fitted)) @ rows
    step = np.linalg.solve(moments, rows.T @ ((fitted - y) * fitted))
    assert np.abs(rows @ step * fitted).max() < 1e-3  # no mean would move by a thousandth of the noise


def test_means_inside_the_range_are_found_where_there_are_any() -> None:
    """Without an intercept, scores of the inverse link must all be above zero: a linear program knows."""
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        inside = rng.uniform(0.1, 3.0, 4)
        x = np.abs(rng.normal(size=(30, 4))) * rng.choice([1.0, -1.0], (30, 4), p=[0.8, 0.2])
        x = x[x @ inside > 0]
        y = rng.gamma(0.5, 2.0, len(x)) + 1e-3
        model = GeneralizedLinear("gamma", alpha=0.01, fit_intercept=False, dispersion=1.0).fit(x, y)
        assert model.converged_
        found += bool((model.predict_linear(x) > 0).all())
    assert found == 60
    with pytest.raises(ValueError, match="no coefficients that keep all means in the range"):
        GeneralizedLinear("gamma", fit_intercept=False).fit([[1.0], [-1.0], [2.0]], [1.0, 2.0, 3.0])


# ── standard errors at the coefficients that are reported ──


@each_pair
def test_standard_errors_of_random_fits_are_statsmodels(family: Any, link: Any) -> None:
    """50 fits of each of six responses; the information is the expected one, as statsmodels' default is."""
    compared = 0
    for seed in range(50):
        x, y, offset = drawn(family, link, 25 + seed, 1000 + seed)
        y = np.abs(y) if link == "log" else y
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = GeneralizedLinear(family, link=link).fit(x, y, offset=offset)
        columns = sm.add_constant(x)
        known = theirs(family, link, columns, y, offset=offset)
        errors = np.append(model.intercept_std_, model.coef_std_)
        information = RESPONSES[family, link]().information(model.predict_linear(x, offset=offset))
        own = model.dispersion_ * np.linalg.inv((columns.T * information) @ columns)
        assert_allclose(errors, np.sqrt(np.diagonal(own)), rtol=1e-5, err_msg=str(seed))
        if known.converged and np.allclose(known.params[1:], model.coef_, rtol=1e-6, atol=1e-7):
            compared += 1
            assert_allclose(errors, known.bse, rtol=1e-5, err_msg=str(seed))
    assert compared >= 45  # their scoring does not converge everywhere


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("solver", ["auto", "newton", "whitened", "diagonal"])
def test_standard_errors_of_classifiers_are_of_a_numerical_hessian(classes: int, solver: Any) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(40, 3))
        y = (x @ rng.normal(size=(3, classes)) + rng.gumbel(size=(40, classes))).argmax(axis=1)
        y[:classes] = np.arange(classes)
        model = LogisticRegression(alpha=0.7, intercept_alpha=0.2, solver=solver).fit(x, y)
        assert_allclose(
            model.coef_std_, _numerical_errors(model, x, y, classes), rtol=1e-5, err_msg=str(seed)
        )


def _numerical_errors(model: Any, x: Array, y: Array, classes: int) -> Array:
    """Standard errors from second differences of the log-posterior, in parameters of all but one class."""
    rows = np.column_stack([x, np.ones(len(x))])
    at = np.column_stack([model.coef_, model.intercept_])
    if classes == 2:
        basis = np.array([[0.0], [1.0]])
    else:  # all classes' parameters sum to zero
        basis = np.linalg.qr(np.column_stack([np.ones(classes), np.eye(classes)[:, 1:]]))[0][:, 1:]
    at = np.linalg.lstsq(basis, np.vstack([np.zeros(4), at]) if classes == 2 else at, rcond=None)[0]
    precision = np.array([0.7, 0.7, 0.7, 0.2])

    def gradient(parameters: Array) -> Array:
        cells = parameters.reshape(at.shape)
        p = np.exp(log_softmax(rows @ (basis @ cells).T, axis=1))
        p[np.arange(len(y)), y] -= 1.0
        return np.asarray((basis.T @ (p.T @ rows) + precision * cells).ravel())

    step, size = 1e-5, at.size
    hessian = np.array(
        [
            (gradient(at.ravel() + step * unit) - gradient(at.ravel() - step * unit)) / (2 * step)
            for unit in np.eye(size)
        ]
    )
    covariance = np.linalg.inv(0.5 * (hessian + hessian.T)).reshape(*at.shape, *at.shape)
    own = np.einsum("ka,aibi,kb->ki", basis, covariance, basis)[:, :3]
    return np.asarray(np.sqrt(own[1:] if classes == 2 else own))


# ── more parameters than a matrix is made of ──


@pytest.mark.parametrize("alpha", [1.0, 1e-2])
def test_softmax_of_many_columns_converges(alpha: float) -> None:
    """Coordinates that were white at the start are far from white where classes nearly lie apart."""
    x, y = make_classification(600, 1100, n_informative=40, n_classes=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticRegression(alpha=alpha).fit(x, y)
    assert model.converged_
    p = model.predict_proba(x)
    p[np.arange(len(y)), y] -= 1.0
    gradient = p.T @ x + alpha * model.coef_
    assert np.abs(gradient).max() < 1e-3 * alpha
    assert np.abs(p.sum(axis=0)).max() < 1e-3 * alpha
