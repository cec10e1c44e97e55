"""scikit-learn's parameters of logistic regression: the same coefficients, or one line that refuses them."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from tamis import LogisticRegression

SOLVERS = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")


def drawn(classes: int = 2, n: int = 120, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal([1.0, -2.0, 0.5], size=(n, 3))
    scores = X @ rng.normal(size=(3, classes)) + rng.gumbel(size=(n, classes))
    y = scores.argmax(axis=1)
    y[:classes] = np.arange(classes)
    return X, np.array(["ham", "spam", "unsure"])[y]


def near(ours: Any, theirs: Any, atol: float) -> None:
    assert_allclose(ours.coef_, theirs.coef_, atol=atol)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=atol)


# ── the same coefficients ──


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("classes", "solver"), [(2, solver) for solver in SOLVERS] + [(3, s) for s in SOLVERS if s != "liblinear"]
)
def test_every_solver_name_ends_at_scikit_learns_optimum(
    solver: str, fit_intercept: bool, classes: int
) -> None:
    X, y = drawn(classes)
    given: dict[str, Any] = {"C": 0.3, "solver": solver, "fit_intercept": fit_intercept, "max_iter": 5000}
    theirs = linear_model.LogisticRegression(tol=1e-10, random_state=0, **given).fit(X, y)
    near(LogisticRegression(**given).fit(X, y), theirs, 2e-5)


@pytest.mark.parametrize("scaling", [0.5, 1.0, 20.0])
def test_liblinear_puts_the_prior_on_the_intercept_too(scaling: float) -> None:
    X, y = drawn()
    given: dict[str, Any] = {"C": 0.05, "solver": "liblinear", "intercept_scaling": scaling}
    theirs = linear_model.LogisticRegression(tol=1e-12, max_iter=10_000, **given).fit(X, y)
    near(LogisticRegression(**given).fit(X, y), theirs, 2e-5)
    assert abs(float(LogisticRegression(C=0.05).fit(X, y).intercept_[0] - theirs.intercept_[0])) > 1e-4


@given(st.floats(1e-3, 1e3), st.integers(2, 3), st.sampled_from([None, "balanced", {"ham": 2.5}]))
def test_any_strength_and_class_weights_give_scikit_learns_coefficients(
    C: float, classes: int, class_weight: Any
) -> None:
    X, y = drawn(classes)
    theirs = linear_model.LogisticRegression(
        C=C, solver="newton-cholesky", tol=1e-10, class_weight=class_weight
    ).fit(X, y)
    ours = LogisticRegression(C=C, class_weight=class_weight).fit(X, y)
    near(ours, theirs, 1e-5 * (1.0 + float(np.abs(theirs.coef_).max())))
    assert ours.alpha_ == 1.0 / C


@pytest.mark.parametrize(
    "none",
    [
        {"penalty": None},
        {"C": np.inf},
        {"alpha": 0.0},
        {"penalty": None, "C": 1.0},
        {"penalty": None, "alpha": 0.0},
    ],
)
def test_no_penalty_has_several_names(none: dict[str, Any]) -> None:
    X, y = drawn()
    theirs = linear_model.LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10).fit(X, y)
    near(LogisticRegression(**none).fit(X, y), theirs, 1e-6)


def test_everything_that_scikit_learn_takes_by_default_is_taken() -> None:
    X, y = drawn(3)
    theirs = linear_model.LogisticRegression()
    names = theirs.get_params()
    ours = LogisticRegression(**names).fit(X, y)
    near(ours, LogisticRegression(tol=1e-12).fit(X, y), 1e-4)
    assert set(names) <= set(ours.get_params())
    older: dict[str, Any] = {
        "penalty": "l2",
        "dual": False,
        "multi_class": "auto",
        "l1_ratio": None,
        "n_jobs": -1,
    }
    near(LogisticRegression(**older).fit(X, y), LogisticRegression().fit(X, y), 1e-12)
    near(LogisticRegression(penalty="elasticnet").fit(X, y), LogisticRegression().fit(X, y), 1e-12)


def test_steps_are_counted_in_an_array_as_scikit_learn_has_them() -> None:
    for classes in (2, 3):
        X, y = drawn(classes)
        theirs, ours = (
            linear_model.LogisticRegression().fit(X, y).n_iter_,
            LogisticRegression().fit(X, y).n_iter_,
        )
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        assert ours[0] >= 1


def test_a_search_over_strengths_works_and_finds_what_one_over_alpha_does() -> None:
    X, y = drawn(3)
    strengths = [0.001, 0.1, 10.0]
    by_c = GridSearchCV(LogisticRegression(), {"C": strengths}, cv=3).fit(X, y)
    by_alpha = GridSearchCV(LogisticRegression(), {"alpha": [1.0 / c for c in strengths]}, cv=3).fit(X, y)
    assert_allclose(by_c.cv_results_["mean_test_score"], by_alpha.cv_results_["mean_test_score"])
    model = LogisticRegression(C=0.25, solver="lbfgs", penalty="l2")
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(C=4.0).fit(X, y).alpha_ == 0.25


def test_a_warm_start_begins_where_the_last_fit_ended() -> None:
    for fit_intercept in (True, False):
        for classes in (2, 3):
            X, y = drawn(classes)
            far = X + 1e4  # another centre
            model = LogisticRegression(warm_start=True, fit_intercept=fit_intercept, solver="newton").fit(
                X, y
            )
            coefficients, steps = model.coef_, model.n_iter_[0]
            assert_allclose(model.fit(X, y).coef_, coefficients, rtol=1e-6)
            assert model.n_iter_[0] < steps
            if fit_intercept:
                assert_allclose(model.fit(far, y).coef_, coefficients, rtol=1e-5, atol=1e-7)
            model.fit(X[:, :2], y)  # other columns begin anew
            assert model.coef_.shape[1] == 2
            model.fit(*drawn(5 - classes))  # and so do other classes
            assert len(model.classes_) == 5 - classes


@pytest.mark.parametrize("classes", [2, 3])
def test_a_step_and_another_from_there_are_two_steps(classes: int) -> None:
    """No step is taken beyond those that max_iter allows and n_iter_ counts."""
    X, y = drawn(classes)
    model = LogisticRegression(solver="newton", max_iter=1, warm_start=True)
    both = LogisticRegression(solver="newton", max_iter=2)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y).fit(X, y)
    with pytest.warns(ConvergenceWarning):
        both.fit(X, y)
    assert_allclose(model.coef_, both.coef_, rtol=1e-9)
    assert_allclose(model.coef_std_, both.coef_std_, rtol=1e-9)


# ── one line ──


@pytest.mark.parametrize(
    ("classes", "given", "said"),
    [
        (2, {"penalty": "l1", "solver": "saga"}, "got penalty='l1', expected 'l2' or None: use scikit"),
        (2, {"penalty": "elasticnet", "l1_ratio": 0.5}, "got l1_ratio=0.5, expected 0: use scikit-learn's"),
        (2, {"penalty": "elasticnet", "l1_ratio": None}, "got penalty='elasticnet', expected 'l2' or None"),
        (2, {"l1_ratio": 1.0}, "got l1_ratio=1.0, expected 0"),
        (2, {"l1_ratio": 2.0}, "got l1_ratio=2.0, expected 0"),
        (2, {"penalty": "l3"}, "got penalty='l3', expected 'l2' or None"),
        (2, {"C": 0.0}, "got C=0.0, expected a number above 0"),
        (2, {"C": np.nan}, "got C=nan, expected a number above 0"),
        (2, {"C": "1"}, "got C='1', expected a number above 0"),
        (2, {"C": 0.25, "alpha": 1.0}, "got alpha=1.0 and C=0.25, expected one of them: alpha is 1/C, 4"),
        (2, {"C": 1.0, "alpha": "evidence"}, "got alpha='evidence' and C=1.0, expected one of them"),
        (2, {"C": 1.0, "alpha": [1.0, 1.0, 1.0]}, "and C=1.0, expected one of them"),
        (2, {"C": 0.5, "prior": (np.zeros(3), np.eye(3))}, "both alpha and prior"),
        (2, {"penalty": None, "alpha": 2.0}, "got penalty=None and alpha=2.0, expected one of them"),
        (2, {"alpha": "l2"}, "got alpha='l2', expected a number or 'evidence': pass penalty='l2'"),
        (2, {"solver": "liblinear", "intercept_scaling": 0}, "got intercept_scaling=0, expected a finite"),
        (2, {"solver": "liblinear", "alpha": "evidence"}, "got solver='liblinear' and alpha='evidence'"),
        (3, {"solver": "liblinear"}, "got solver='liblinear' for 3 classes, expected two: use OneVsRest"),
        (3, {"multi_class": "ovr"}, "got multi_class='ovr' for 3 classes, expected two: use OneVsRest"),
        (2, {"multi_class": "multinomial"}, "got multi_class='multinomial' for 2 classes, expected 'auto'"),
        (2, {"multi_class": "any"}, "got multi_class='any', expected 'auto'"),
        (2, {"dual": True, "solver": "lbfgs"}, "got dual=True and solver='lbfgs', expected dual=False"),
        (2, {"solver": "sgd"}, "got solver='sgd', expected one of 'auto', 'newton'"),
    ],
)  # fmt: skip
def test_what_would_give_other_coefficients_is_refused_in_one_line(
    classes: int, given: dict[str, Any], said: str
) -> None:
    X, y = drawn(classes)
    for verb in ("fit", "partial_fit"):
        model = LogisticRegression(**given)
        with pytest.raises(ValueError, match=re.escape(said)) as caught:
            getattr(model, verb)(X, y)
        assert "\n" not in str(caught.value)
        assert not model.__sklearn_is_fitted__()


def test_a_strength_without_a_penalty_is_said_to_have_no_meaning() -> None:
    X, y = drawn()
    with pytest.warns(UserWarning, match=r"C=0.5 is ignored with penalty=None"):
        LogisticRegression(penalty=None, C=0.5).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LogisticRegression(alpha=2.0, C=0.5).fit(X, y)  # they agree
        LogisticRegression(dual=True, solver="liblinear").fit(X, y)
