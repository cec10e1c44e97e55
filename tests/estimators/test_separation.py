"""Rows that do not determine coefficients: which columns, which classes, and what helps is said."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from tamis import LogisticRegression
from tamis.arrays import Array
from tamis.estimators.newton import SeparationWarning

each_number = pytest.mark.parametrize("classes", [2, 3])
SOLVERS: list[Any] = ["newton", "whitened", "diagonal"]
each_solver = pytest.mark.parametrize("solver", SOLVERS)


def drawn(classes: int = 2, n: int = 120, d: int = 3) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    truth = rng.normal(size=(d, classes))
    return rows, (rows @ truth + rng.gumbel(size=(n, classes))).argmax(axis=1)


def test_ending_early_is_said() -> None:
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 steps.*raise max_iter"):
        model = LogisticRegression(alpha=1e-3, max_iter=1, tol=0.0).fit(*drawn())
    assert not model.converged_
    assert model.n_iter_ == 1


@each_number
@pytest.mark.parametrize("form", ["pandas", "sparse"])
def test_columns_that_others_determine_are_named(classes: int, form: str) -> None:
    rows, labels = drawn(classes)
    for extra in (rows[:, 0], np.full(len(rows), 3.0)):
        wide = np.column_stack([rows, extra])
        frame: Any = pd.DataFrame(wide, columns=["a", "b", "c", "extra"])
        given_: Any = sparse.csr_array(wide) if form == "sparse" else frame
        with pytest.raises(ValueError, match=r"determined by the others.*set alpha above 0") as caught:
            LogisticRegression(alpha=0.0).fit(given_, labels)
        assert ("'a'" in str(caught.value) or "'extra'" in str(caught.value)) or form == "sparse"
        assert LogisticRegression(alpha=1.0).fit(given_, labels).converged_


def apart(classes: int, quasi: bool, n: int = 60) -> tuple[Array, NDArray[np.int64]]:
    """Classes that lie apart along the first column; `quasi` puts rows of all on the border between them."""
    rng = np.random.default_rng(2)
    labels = np.arange(n) % classes
    rows = np.column_stack([3.0 * labels + rng.uniform(-1.0, 1.0, n), rng.normal(size=n)])
    if not quasi:
        return rows, labels
    flag = (labels == 1).astype(np.float64)
    flag[:12] = 0.0  # flagged rows are all of class 1; the others of any
    return np.column_stack([flag, rng.normal(size=n)]), labels


@each_number
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_prior_that_rounding_loses_is_as_good_as_none(classes: int, form: Any) -> None:
    rows, labels = drawn(classes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weak = LogisticRegression(alpha=1e-30).fit(form(rows), labels)
        none = LogisticRegression(alpha=0.0).fit(form(rows), labels)
    assert np.allclose(weak.coef_, none.coef_, rtol=1e-9)
    assert np.allclose(weak.coef_std_, none.coef_std_, rtol=1e-9)
    twins = form(np.column_stack([rows, rows[:, 0]]))
    message = r"columns 3 are determined.*alpha=1e-30 does not determine.*set a larger alpha"
    with pytest.raises(ValueError, match=message):
        LogisticRegression(alpha=1e-30).fit(twins, labels)
    lain, sides = apart(classes, quasi=False)
    with pytest.warns(SeparationWarning, match=r"a prior as weak as alpha=1e-30.*set a larger alpha"):
        model = LogisticRegression(alpha=1e-30).fit(form(lain), sides)
    assert not model.converged_


@each_number
@each_solver
@pytest.mark.parametrize("quasi", [False, True], ids=["complete", "quasi"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_classes_that_lie_apart_are_told_without_a_prior(
    classes: int, solver: Any, quasi: bool, form: Any
) -> None:
    rows, labels = apart(classes, quasi)
    with pytest.warns(SeparationWarning, match="set alpha above 0") as caught:
        model = LogisticRegression(alpha=0.0, solver=solver).fit(form(rows), labels)
    assert not model.converged_
    assert np.isfinite(model.coef_).all()
    if quasi:
        assert "columns 0" in str(caught[0].message)
    for alpha in (1e-4, 0.1, 1.0):
        assert LogisticRegression(alpha=alpha, solver=solver).fit(form(rows), labels).converged_


@each_number
@each_solver
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_classes_that_overlap_are_never_said_to_lie_apart(classes: int, solver: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(80, 2)) * rng.uniform(0.1, 10.0, 2)
    scores = 3.0 * rows[:, :1] / np.abs(rows[:, 0]).max() * np.arange(classes)
    labels = (scores + rng.gumbel(size=(80, classes))).argmax(axis=1)
    # some rows a second time, with another label: no plane has them on two sides
    rows, labels = np.concatenate([rows, rows[:20]]), np.concatenate([labels, (labels[:20] + 1) % classes])
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeparationWarning)
        LogisticRegression(alpha=0.0, solver=solver).fit(rows, labels)


@each_number
@pytest.mark.parametrize("kept", ["full", "diagonal", "none"])
@pytest.mark.parametrize("quasi", [False, True], ids=["complete", "quasi"])
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e6])
def test_classes_lie_apart_whatever_rows_weigh(classes: int, kept: Any, quasi: bool, scale: float) -> None:
    rows, labels = apart(classes, quasi)
    for light in (1.0, 1e-6, 1e-12):
        weight = np.full(len(rows), scale)
        weight[30] *= light
        with pytest.warns(SeparationWarning, match="set alpha above 0"):
            model = LogisticRegression(alpha=0.0, posterior=kept).fit(rows, labels, weight)
        assert not model.converged_


@pytest.mark.parametrize("kept", ["diagonal", "none"])
def test_classes_apart_across_columns_are_told_without_a_whole_posterior(kept: Any) -> None:
    rows, labels = apart(2, quasi=True)
    turned = rows @ np.array([[1.0, 1.0], [-1.0, 1.0]])  # no column by itself tells them apart
    with pytest.warns(SeparationWarning, match="do not overlap along columns 0, 1"):
        LogisticRegression(alpha=0.0, posterior=kept).fit(turned, labels)


@each_number
@pytest.mark.parametrize("kept", ["full", "diagonal", "none"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_one_row_however_light_holds_classes_together(classes: int, kept: Any, seed: int) -> None:
    rows, labels = apart(classes, quasi=False)
    rng = np.random.default_rng(seed)
    # of every class, one row right among another's: no plane has them on their own sides
    others = np.array([rows[labels == (k + 1) % classes].mean(axis=0) for k in range(classes)])
    rows = np.concatenate([rows, rows[:20], others])
    labels = np.concatenate([labels, (labels[:20] + rng.integers(0, 2)) % classes, np.arange(classes)])
    weight = rng.uniform(0.5, 2.0, len(rows))
    weight[-classes:] = 10.0 ** -rng.uniform(0.0, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeparationWarning)
        LogisticRegression(alpha=0.0, posterior=kept).fit(rows, labels, weight)


@each_number
def test_light_weights_without_a_prior_change_no_coefficient(classes: int) -> None:
    rows, labels = drawn(classes)
    one, other = (
        LogisticRegression(alpha=0.0).fit(rows, labels, w) for w in (np.ones(120), np.full(120, 1e-12))
    )
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-4)
    np.testing.assert_allclose(other.coef_std_, 1e6 * one.coef_std_, rtol=1e-4)


@each_number
def test_evidence_of_classes_that_lie_apart_has_no_end_and_says_so(classes: int) -> None:
    with pytest.warns(SeparationWarning, match="evidence has no maximum.*set alpha"):
        model = LogisticRegression(alpha="evidence").fit(*apart(classes, quasi=False))
    assert not model.converged_
    assert model.alpha_ > 1e-6
    assert model.n_iter_ <= 100


def test_steps_of_evidence_count() -> None:
    with pytest.warns(ConvergenceWarning):
        model = LogisticRegression(alpha="evidence", max_iter=5).fit(*drawn())
    assert model.n_iter_ <= 5


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("kept", ["full", "diagonal"])
@pytest.mark.filterwarnings("ignore::tamis.SeparationWarning")
def test_classes_that_lie_apart_leave_a_wide_posterior(classes: int, kept: Any) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        labels = np.arange(60) % classes
        rows = 3.0 * rng.normal(size=(classes, 2))[labels] + 0.3 * rng.normal(size=(60, 2))
        model = LogisticRegression(alpha=0.0, posterior=kept, predictive="probit").fit(rows, labels)
        assert (model.coef_std_ > 0.0).all()
        assert np.isfinite(model.predict_proba(rows)).all()


def test_many_columns_without_a_prior_need_rows_and_numbers() -> None:
    rng = np.random.default_rng(0)
    rows: Any = sparse.random_array((200, 3500), density=0.1, rng=rng, format="csr")
    labels = rng.integers(0, 2, 200)
    with pytest.raises(ValueError, match=r"200 rows for 3500 coefficients without a prior.*set alpha"):
        LogisticRegression(alpha=0.0).fit(rows, labels)
    rows = sparse.hstack([rows, sparse.csr_array((200, 2))], format="csr")
    with pytest.raises(ValueError, match="columns 3500, 3501 are determined"):
        LogisticRegression(alpha=0.0).fit(rows, labels)


def test_columns_far_from_zero_are_not_said_to_repeat_each_other() -> None:
    rows, labels = drawn()
    with pytest.raises(ValueError, match="centre them, or set intercept_alpha to 0"):
        LogisticRegression(alpha=0.0, intercept_alpha=1.0).fit(rows + 1e8, labels)
    assert LogisticRegression(alpha=0.0).fit(rows + 1e8, labels).converged_


def test_warnings_point_at_the_caller() -> None:
    with pytest.warns(SeparationWarning) as caught:
        LogisticRegression(alpha=0.0).fit(*apart(2, quasi=False))
    with pytest.warns(ConvergenceWarning) as early:
        LogisticRegression(max_iter=1, tol=0.0).fit(*drawn()).cross_validate(*drawn(), folds=2)
    assert {each.filename for each in (*caught, *early)} == {__file__}


def test_a_tolerance_of_nothing_ends_at_rounding() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for classes in (2, 3):
            for solver in SOLVERS[:2]:
                assert LogisticRegression(tol=0.0, solver=solver).fit(*drawn(classes)).converged_
