"""What a fitted generalised linear model answers, what the algebra adds, and rows left out."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]  # it has no types
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import PoissonRegressor

import tamis
from tamis.estimators import BayesianLinearRegression, GeneralizedLinear
from tamis.models.linear.responses import RESPONSES
from tests.estimators.generalized_cases import NAMES, N, drawn, each_pair, theirs

# ── answers ──


def test_exposures_are_offsets() -> None:
    x, y, offset = drawn("poisson", "log")
    one = GeneralizedLinear("poisson").fit(x, y, offset=offset)
    other = GeneralizedLinear("poisson").fit(x, y, exposure=np.exp(offset))
    assert_allclose(one.coef_, other.coef_, rtol=1e-10)
    assert_allclose(one.score(x, y, offset=offset), 1.0 - one.deviance_ / one.null_deviance_)
    assert_allclose(one.predict(x, offset=offset), one.predict(x, exposure=np.exp(offset)))


@each_pair
def test_explanations_sum_to_the_score(family: Any, link: Any) -> None:
    x, y, offset = drawn(family, link)
    for kind in (pd.DataFrame, pl.DataFrame):
        frame = kind(dict(zip(NAMES, x.T, strict=True)))
        model = GeneralizedLinear(family, link=link).fit(frame, y, offset=offset)
        found = model.explain(frame, offset=offset)
        assert isinstance(found.contributions, kind)
        assert_allclose(found.prediction, model.predict_linear(frame, offset=offset))
        assert found.top()[0][0] in NAMES
        assert_array_equal(model.feature_names_in_, NAMES)


def test_predictive_distributions_have_their_moments() -> None:
    x, y, _ = drawn("gaussian", "identity")
    known = theirs("gaussian", "identity", sm.add_constant(x), y).get_prediction(sm.add_constant(x[:5]))
    model = GeneralizedLinear().fit(x, y)
    said = model.predict_distribution(x[:5])
    assert_allclose(said.variance, known.se_mean**2 + model.dispersion_)
    x, y, _ = drawn("poisson", "log", n=40)
    counts = GeneralizedLinear("poisson").fit(x, y)
    found = counts.predict_distribution(x[:5])
    means = counts.sample_functions(x[:5], 200_000, random_state=0)
    assert_allclose(found.mean, means.mean(axis=0), rtol=0.02)
    assert_allclose(found.variance, means.mean(axis=0) + means.var(axis=0), rtol=0.05)
    with pytest.raises(ValueError, match="use mean_interval or sample_functions"):
        GeneralizedLinear("gamma").fit(x, y + 1.0).predict_distribution(x)


def test_draws_have_the_posteriors_covariance() -> None:
    x, y, _ = drawn("gamma", "log")
    model = GeneralizedLinear("gamma", link="log").fit(x, y)
    draws = model.sample_coefficients(100_000, random_state=0)
    assert_allclose(draws.mean(axis=0), model.coef_, atol=0.01)
    assert_allclose(np.cov(draws.T), model.coef_covariance_, atol=2e-5, rtol=0.05)
    assert model.sample_functions(x[:3], 4, random_state=0).shape == (4, 3)


def test_a_summary_fits_a_terminal() -> None:
    x, y, _ = drawn("poisson", "log")
    frame = pd.DataFrame(x, columns=["age", "height in cm", "weight"])
    text = str(GeneralizedLinear("poisson").fit(frame, y).summary())
    assert max(map(len, text.splitlines())) <= 72
    assert "poisson, link log: 250 rows" in text
    assert "(intercept)" in text


def test_a_bar_and_a_clone() -> None:
    x, y, _ = drawn("poisson", "log")
    model = GeneralizedLinear("poisson", verbose=1, dispersion=2.0).fit(x, y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(x)


# ── the algebra ──


@each_pair
def test_rows_in_parts_are_nearly_rows_at_once(family: Any, link: Any) -> None:
    x, y, offset = drawn(family, link, n=3000)
    whole = GeneralizedLinear(family, link=link, alpha=0.5).fit(x, y, offset=offset)
    parts = GeneralizedLinear(family, link=link, alpha=0.5)
    others = []
    for k in range(3):
        rows = slice(1000 * k, 1000 * (k + 1))
        parts.partial_fit(x[rows], y[rows], offset=offset[rows])
        others.append(
            GeneralizedLinear(family, link=link, alpha=0.5).fit(x[rows], y[rows], offset=offset[rows])
        )
    merged = others[0].merge(*others[1:])
    exact = (family, link) == ("gaussian", "identity")
    for found in (parts, merged):
        assert_allclose(found.n_observed_, 3000.0)
        apart = np.abs(found.coef_ - whole.coef_) / whole.coef_std_
        assert (apart < (1e-8 if exact else 0.3)).all()
        assert_allclose(found.coef_std_, whole.coef_std_, rtol=1e-8 if exact else 0.1)
        assert_allclose(found.dispersion_, whole.dispersion_, rtol=1e-9 if exact else 0.02)
        assert_allclose(found.deviance_, whole.deviance_, rtol=1e-9 if exact else 1e-3)
        assert_allclose(found.df_resid_, whole.df_resid_, rtol=1e-4)
        for name in ("null_deviance_", "log_likelihood_", "aic_", "bic_"):
            with pytest.raises(AttributeError, match="came in parts"):
                getattr(found, name)
        assert f"{family}, link {link}: 3000 rows" in str(found.summary())


def test_decay_widens_and_keeps_the_dispersion() -> None:
    x, y, _ = drawn("gaussian", "identity")
    model = GeneralizedLinear().fit(x, y)
    coefficients, errors, scatter = model.coef_, model.coef_std_, model.dispersion_
    model.decay(0.25)
    assert_allclose(model.coef_, coefficients, rtol=1e-10)
    assert_allclose(model.coef_std_, 2.0 * errors, rtol=1e-10)
    assert model.dispersion_ == scatter
    weighed = GeneralizedLinear().fit(np.vstack([x, x]), np.append(y, y), np.repeat([0.25, 1.0], N))
    assert_allclose(model.partial_fit(x, y).coef_, weighed.coef_, rtol=1e-9)


def test_models_of_another_kind_do_not_merge() -> None:
    x, y, _ = drawn("poisson", "log")
    model = GeneralizedLinear("poisson").fit(x, y)
    with pytest.raises(ValueError, match="got a model of gamma by log, expected poisson by log"):
        model.merge(GeneralizedLinear("gamma", link="log").fit(x, y + 1.0))
    with pytest.raises(TypeError, match="got a BayesianLinearRegression to merge"):
        model.merge(BayesianLinearRegression().fit(x, y))


@each_pair
def test_files_hold_everything(family: Any, link: Any, tmp_path: Path) -> None:
    x, y, offset = drawn(family, link)
    model = GeneralizedLinear(family, link=link).fit(pd.DataFrame(x, columns=NAMES), y, offset=offset)
    model.save(tmp_path / "model.tamis")
    for copy in (tamis.load(tmp_path / "model.tamis"), pickle.loads(pickle.dumps(model))):
        assert copy.summary() == model.summary()
        assert str(copy.summary()) == str(model.summary())
        assert_array_equal(copy.predict(x), model.predict(x))
        assert copy.get_params() == model.get_params()
        copy.partial_fit(x, y)


# ── rows left out ──


@each_pair
def test_folds_are_fits_without_them(family: Any, link: Any) -> None:
    x, y, offset = drawn(family, link)
    fold = np.arange(N) % 4
    weights = np.random.default_rng(3).uniform(0.5, 2, N)
    model = GeneralizedLinear(family, link=link)
    found = model.cross_validate(x, y, fold, sample_weight=weights, offset=offset)
    for k in range(4):
        rest, held = fold != k, fold == k
        known = clone(model).fit(x[rest], y[rest], weights[rest], offset[rest])
        assert_allclose(found.predictions[held], known.predict(x[held], offset=offset[held]), rtol=1e-5)
        kind = RESPONSES[family, link]()
        assert_allclose(
            found.log_densities[held],
            kind.log_likelihood(found.predictions[held], y[held].astype(float), known.dispersion_),
            rtol=1e-4,
        )
        part = found.by_fold()[k]
        assert_allclose(part.mean_deviance, np.average(found.deviances[held], weights=weights[held]))
    assert found.rmse > 0
    assert (found.std > 0).all()


def test_rows_left_out_one_by_one_are_nearly_fits_without_them() -> None:
    for family, link, close in (
        ("gaussian", "identity", 1e-9),
        ("poisson", "log", 2e-3),
        ("gamma", "log", 2e-2),
    ):
        x, y, _ = drawn(family, link, n=60)
        model = GeneralizedLinear(family, link=link)  # type: ignore[arg-type]
        near = model.cross_validate(x, y, "leave-one-out")
        exact = model.cross_validate(x, y, np.arange(60))
        assert_allclose(near.predictions, exact.predictions, rtol=30 * close)
        assert_allclose(near.mean_deviance, exact.mean_deviance, rtol=close)


def test_folds_keep_groups_and_leave_out_rows_without_weight() -> None:
    x, y, _ = drawn("poisson", "log")
    weights = np.ones(N)
    weights[:10] = 0.0
    groups = np.arange(N) // 5
    found = GeneralizedLinear("poisson").cross_validate(x, y, 5, sample_weight=weights, groups=groups)
    assert len(found.targets) == N - 10
    assert all(len(set(found.fold[groups[10:] == g])) == 1 for g in range(2, 50))


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky"])
def test_scikit_learns_solver_names_end_at_its_optimum(solver: Any) -> None:
    x, y, _ = drawn("poisson", "log")
    peer = PoissonRegressor(alpha=0.1, solver=solver, tol=1e-10, max_iter=1000).fit(x, y)
    ours = GeneralizedLinear("poisson", alpha=0.1 * len(y), solver=solver).fit(x, y)
    assert_allclose(ours.coef_, peer.coef_, atol=1e-6)
    assert_allclose(ours.intercept_, peer.intercept_, atol=1e-6)
