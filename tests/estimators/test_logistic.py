"""Logistic regression against scikit-learn, statsmodels and integrals: coefficients, errors, evidence."""

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]  # it has no types
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import integrate, sparse, special
from sklearn import linear_model
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis import LogisticRegression
from tamis.arrays import Array

each_number = pytest.mark.parametrize("classes", [2, 4])
SOLVERS = ("auto", "newton", "whitened", "diagonal")


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [LogisticRegression(), LogisticRegression(predictive="probit")]
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


def drawn(classes: int, n: int = 200, d: int = 4, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    truth = rng.normal(size=(d, classes))
    return rows, (rows @ truth + rng.gumbel(size=(n, classes))).argmax(axis=1)


def theirs(classes: int, alpha: float = 1.0, **more: Any) -> Any:
    solver = "newton-cholesky" if classes == 2 else "newton-cg"
    c = 1.0 / alpha if alpha else np.inf
    return linear_model.LogisticRegression(C=c, solver=solver, tol=1e-12, max_iter=1000, **more)


def alike(ours: LogisticRegression, other: Any, tolerance: float = 1e-6) -> None:
    """Coefficients of the same model; scikit-learn's of many classes sum to zero if there is a penalty."""
    assert_allclose(ours.coef_, other.coef_, rtol=tolerance, atol=tolerance)
    if len(ours.intercept_) == 1:
        assert_allclose(ours.intercept_, other.intercept_, rtol=tolerance, atol=tolerance)
    else:  # nothing pulls the intercepts' sum anywhere
        apart = other.intercept_ - other.intercept_.mean()
        assert_allclose(ours.intercept_, apart, rtol=tolerance, atol=tolerance)


# ── scikit-learn ──


@each_number
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("alpha", [0.01, 1.0, 30.0])
def test_coefficients_are_scikit_learns(classes: int, solver: Any, alpha: float) -> None:
    rows, labels = drawn(classes)
    model = LogisticRegression(alpha=alpha, solver=solver, tol=1e-18).fit(rows, labels)
    other = theirs(classes, alpha).fit(rows, labels)
    alike(model, other)
    assert_allclose(model.predict_proba(rows), other.predict_proba(rows), rtol=1e-5, atol=1e-7)
    assert np.array_equal(model.predict(rows), other.predict(rows))


@each_number
def test_without_an_intercept_coefficients_are_scikit_learns(classes: int) -> None:
    rows, labels = drawn(classes)
    model = LogisticRegression(fit_intercept=False).fit(rows, labels)
    alike(model, theirs(classes, fit_intercept=False).fit(rows, labels))
    assert not model.intercept_.any()
    assert not model.intercept_std_.any()


@each_number
@pytest.mark.parametrize("balanced", [False, True])
def test_weights_are_scikit_learns(classes: int, balanced: bool) -> None:
    rows, labels = drawn(classes)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(rows))
    own = None if balanced else weight
    share: Any = "balanced" if balanced else {0: 3.0, 1: 0.5}
    model = LogisticRegression(class_weight=share).fit(rows, labels, own)
    alike(model, theirs(classes, class_weight=share).fit(rows, labels, own))


def test_balanced_classes_of_weighted_rows_are_scikit_learns() -> None:
    rows, labels = drawn(2)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(rows))
    model = LogisticRegression(class_weight="balanced").fit(rows, labels, weight)
    alike(model, theirs(2, class_weight="balanced").fit(rows, labels, weight))


@each_number
def test_a_precision_for_each_column_is_a_scale_for_each(classes: int) -> None:
    rows, labels = drawn(classes)
    alpha = np.array([0.1, 1.0, 5.0, 40.0])
    model = LogisticRegression(alpha=alpha).fit(rows, labels)
    other = theirs(classes).fit(rows / np.sqrt(alpha), labels)
    assert_allclose(model.coef_, other.coef_ / np.sqrt(alpha), rtol=1e-6, atol=1e-6)
    assert model.alpha_.tolist() == alpha.tolist()


def test_a_prior_with_a_mean_and_a_covariance_is_a_change_of_columns() -> None:
    rows, labels = drawn(2)
    root = np.random.default_rng(2).normal(size=(4, 4)) + 2.0 * np.eye(4)
    covariance = root @ root.T
    model = LogisticRegression(alpha="evidence", prior=(np.zeros(4), covariance)).fit(rows, labels)
    other = theirs(2).fit(rows @ root, labels)
    assert_allclose(model.coef_[0], root @ other.coef_[0], rtol=1e-6, atol=1e-6)
    firm = LogisticRegression(alpha="evidence", prior=(np.arange(4.0), np.full(4, 1e-9))).fit(rows, labels)
    assert_allclose(firm.coef_[0], np.arange(4.0), atol=1e-5)


@each_number
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_sparse_rows_are_the_dense_ones(classes: int, solver: Any, form: Any) -> None:
    rows, labels = drawn(classes)
    rows[rows < 0.3] = 0.0
    dense = LogisticRegression(solver=solver).fit(rows, labels)
    thin = LogisticRegression(solver=solver).fit(form(rows), labels)
    assert_allclose(thin.coef_, dense.coef_, rtol=1e-5, atol=1e-5)
    assert_allclose(thin.coef_std_, dense.coef_std_, rtol=1e-4)
    assert_allclose(thin.predict_proba(form(rows)), dense.predict_proba(rows), rtol=1e-4, atol=1e-6)
    assert_allclose(thin.predict_proba(form(rows)), thin.predict_proba(rows), rtol=1e-10)


@each_number
def test_float32_rows_are_the_same_rows(classes: int) -> None:
    rows, labels = drawn(classes)
    narrow = rows.astype(np.float32)
    found = LogisticRegression().fit(narrow, labels)
    assert_allclose(found.coef_, LogisticRegression().fit(narrow.astype(float), labels).coef_, rtol=1e-12)


@each_number
def test_columns_far_from_zero_lose_no_digits(classes: int) -> None:
    rows, labels = drawn(classes)
    near, far = (LogisticRegression().fit(rows + shift, labels) for shift in (0.0, 1e8))
    assert_allclose(far.coef_, near.coef_, rtol=1e-6, atol=1e-6)
    assert_allclose(far.coef_std_, near.coef_std_, rtol=1e-6)
    assert_allclose(far.predict_proba(rows + 1e8), near.predict_proba(rows), atol=1e-6)


# ── statsmodels ──


def test_standard_errors_of_two_classes_are_statsmodels() -> None:
    rows, labels = drawn(2)
    model = LogisticRegression(alpha=0.0).fit(rows, labels)
    other = sm.Logit(labels, sm.add_constant(rows)).fit(disp=0, tol=1e-12)
    assert_allclose(model.coef_[0], other.params[1:], rtol=1e-5, atol=1e-7)
    assert_allclose(model.coef_std_[0], other.bse[1:], rtol=1e-5)
    assert_allclose(model.intercept_std_, other.bse[:1], rtol=1e-5)
    assert_allclose(model.coef_covariance_, other.cov_params()[1:, 1:], rtol=1e-4, atol=1e-7)
    low, high = model.coef_interval()
    assert_allclose(np.column_stack([low[0], high[0]]), other.conf_int()[1:], rtol=1e-4, atol=1e-6)


def test_standard_errors_of_many_classes_are_statsmodels() -> None:
    rows, labels = drawn(3, 400, 2)
    model = LogisticRegression(alpha=0.0).fit(rows, labels)
    other = sm.MNLogit(labels, sm.add_constant(rows)).fit(disp=0, method="newton", tol=1e-12)
    params, errors = np.asarray(other.params), np.asarray(other.bse)
    covariance = model.coef_covariance_.reshape(3, 2, 3, 2)
    for k in (1, 2):  # theirs are against the first class
        assert_allclose(model.coef_[k] - model.coef_[0], params[1:, k - 1], rtol=1e-5, atol=1e-6)
        for j in range(2):
            own = covariance[:, j, :, j]
            variance = own[k, k] + own[0, 0] - 2.0 * own[k, 0]
            assert np.sqrt(variance) == pytest.approx(errors[1 + j, k - 1], rel=1e-5)


# ── evidence ──


@pytest.mark.parametrize("n", [6, 30, 200])
def test_the_evidence_of_one_coefficient_is_near_its_integral(n: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=n)
    y = (rng.random(n) < special.expit(1.5 * x)).astype(np.int64)
    y[:2] = 0, 1
    model = LogisticRegression(alpha=0.8, fit_intercept=False).fit(x[:, None], y)
    middle = model.coef_.item()

    def joint(w: float) -> float:
        likelihood = special.log_expit(np.where(y == 1, w * x, -w * x)).sum()
        return float(likelihood - 0.4 * w * w + 0.5 * np.log(0.8 / (2.0 * np.pi)))

    whole, _ = integrate.quad(lambda w: np.exp(joint(w) - joint(middle)), middle - 15.0, middle + 15.0)
    assert model.log_evidence_ == pytest.approx(np.log(whole) + joint(middle), abs=0.05)


@each_number
@pytest.mark.parametrize("intercept", [True, False])
def test_evidence_chooses_the_alpha_at_its_peak(classes: int, intercept: bool) -> None:
    rows, labels = drawn(classes, 150)
    chosen = LogisticRegression(alpha="evidence", fit_intercept=intercept).fit(rows, labels)
    best = float(chosen.alpha_)
    factors = np.exp(np.linspace(-1.0, 1.0, 11))
    grid = [
        LogisticRegression(alpha=best * factor, fit_intercept=intercept).fit(rows, labels).log_evidence_
        for factor in factors
    ]
    assert chosen.log_evidence_ > max(grid) - 1e-3
    assert factors[int(np.argmax(grid))] == pytest.approx(1.0)
    fixed = LogisticRegression(alpha=best, fit_intercept=intercept).fit(rows, labels)
    assert_allclose(chosen.coef_, fixed.coef_, rtol=1e-4, atol=1e-5)


def test_evidence_of_noise_is_a_firm_prior() -> None:
    rng = np.random.default_rng(4)
    rows, labels = rng.normal(size=(500, 5)), rng.integers(0, 2, 500)
    noise = LogisticRegression(alpha="evidence").fit(rows, labels).alpha_
    told = LogisticRegression(alpha="evidence").fit(rows, rows[:, 0] + rng.logistic(size=500) > 0).alpha_
    assert noise > 10.0 * told


@pytest.mark.parametrize("alpha", [0.0, [0.0, 1.0, 1.0, 1.0]])
def test_there_is_no_evidence_without_a_prior(alpha: Any) -> None:
    model = LogisticRegression(alpha=alpha).fit(*drawn(2))
    with pytest.raises(AttributeError, match="alpha above 0"):
        _ = model.log_evidence_


# ── averages over the posterior ──


@each_number
@pytest.mark.parametrize("way", ["plugin", "probit", "monte-carlo"])
@pytest.mark.parametrize("kept", ["full", "diagonal"])
def test_log_probabilities_are_the_logarithms(classes: int, way: Any, kept: Any) -> None:
    rows, labels = drawn(classes, 60)
    model = LogisticRegression(predictive=way, posterior=kept, random_state=0).fit(rows, labels)
    chances = model.predict_proba(rows)
    assert_allclose(model.predict_log_proba(rows), np.log(chances), rtol=1e-12, atol=1e-14)
    assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    if classes > 2 or way == "plugin":
        assert np.array_equal(model.predict(rows), model.classes_[chances.argmax(axis=1)])


@each_number
@pytest.mark.parametrize("kept", ["full", "diagonal"])
def test_many_draws_approach_the_closed_form(classes: int, kept: Any) -> None:
    rows, labels = drawn(classes, 80)
    model = LogisticRegression(posterior=kept, n_draws=4000, random_state=0).fit(rows, labels)
    found = {
        way: model.set_params(predictive=way).predict_proba(2.0 * rows)
        for way in ("plugin", "probit", "monte-carlo")
    }
    apart = np.abs(found["probit"] - found["monte-carlo"]).max()
    assert apart < (0.02 if classes == 2 else 0.05)
    assert apart < np.abs(found["plugin"] - found["monte-carlo"]).max()


def test_probabilities_far_away_are_finite_and_less_sure_when_averaged() -> None:
    rows, labels = drawn(2)
    model = LogisticRegression().fit(rows, labels)
    far = 1e4 * rows
    sure = model.predict_log_proba(far)
    averaged = model.set_params(predictive="probit").predict_proba(far)
    assert np.isfinite(sure).all()
    assert averaged.max() < 1.0


def test_no_posterior_no_average() -> None:
    rows, labels = drawn(2)
    model = LogisticRegression(posterior="none", predictive="probit").fit(rows, labels)
    with pytest.raises(ValueError, match="needs a posterior"):
        model.predict_proba(rows)
    with pytest.raises(AttributeError, match="needs a posterior"):
        _ = model.coef_std_
    assert_allclose(model.coef_, LogisticRegression().fit(rows, labels).coef_, rtol=1e-4, atol=1e-5)
