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
from tamis.estimators.curved_face import SeparationWarning

each_number = pytest.mark.parametrize("classes", [2, 3])
each_solver = pytest.mark.parametrize("solver", ["newton", "whitened", "diagonal"])


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
