"""Parameters of linear models: what was inferred with them stays; what cannot be is said in a line."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import tamis
from tamis.estimators import (
    BayesianLinearRegression,
    GeneralizedLinear,
    LinearExplanation,
    LogisticRegression,
)

rng = np.random.default_rng(0)
X = rng.normal([1.0, -2.0, 3.0], size=(50, 3))
Y = X @ [1.0, 2.0, 0.0] + 5.0 + 0.5 * rng.normal(size=50)
IDENTITY = (np.zeros(3), np.eye(3))


# ── what was inferred stays ──


def test_a_file_holds_the_model_as_it_was_inferred(tmp_path: Path) -> None:
    model = BayesianLinearRegression(alpha=1.0, beta=2.0).fit(X, Y)
    before = model.predict(X), model.intercept_std_
    model.set_params(alpha=1e6, fit_intercept=False)
    model.save(tmp_path / "m")
    for known in (model, tamis.load(tmp_path / "m")):
        assert_allclose(known.predict(X), before[0])
        assert_allclose(known.intercept_std_, before[1])
        assert known.alpha_ == 1.0
        assert known.get_params()["alpha"] == 1e6
    model.set_params(alpha="evidence")
    assert model.alpha_ == 1.0
    assert model.infer(alpha=3.0, fit_intercept=False).alpha_ == 3.0
    assert model.intercept_std_ == 0.0


def test_what_is_still_to_be_inferred_keeps_its_parameters(tmp_path: Path) -> None:
    model = BayesianLinearRegression(alpha=1.0, beta=2.0).partial_fit(X, Y)
    model.set_params(alpha=1e6)
    model.save(tmp_path / "m")
    whole = BayesianLinearRegression(alpha=1.0, beta=2.0).fit(X, Y)
    for known in (model, tamis.load(tmp_path / "m")):
        assert_allclose(known.coef_, whole.coef_)
    assert model.partial_fit(X, Y).alpha_ == 1e6  # more rows are learned with the parameters of now


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"alpha": -1.0}, "got alpha=-1, expected"),
        ({"alpha": [1.0, 2.0]}, r"got alpha of shape \(2,\), expected"),
        ({"beta": 0.0}, "got beta=0, expected"),
        ({"beta": "none"}, "got beta='none', expected"),
        ({"noise_shape": "a"}, "got noise_shape='a', expected a finite number of at least 0"),
        ({"noise_scale": None}, "got noise_scale=None, expected a finite number of at least 0"),
    ],
)
def test_parameters_are_checked_when_rows_come(params: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        BayesianLinearRegression(**params).partial_fit(X, Y)
    model = BayesianLinearRegression().fit(X, Y)
    coef = model.coef_
    model.set_params(**params)
    with pytest.raises(ValueError, match=said):
        model.partial_fit(X, Y)
    with pytest.raises(ValueError, match=said):
        model.decay(0.5)
    assert_array_equal(model.coef_, coef)


def test_too_few_rows_have_no_coefficients_yet() -> None:
    model = BayesianLinearRegression().partial_fit(X[:1], Y[:1])
    assert not hasattr(model, "coef_")
    with pytest.raises(
        AttributeError, match=r"no coef_: the rows leave 0 degrees of freedom .* or less weight"
    ):
        _ = model.coef_
    assert hasattr(model.partial_fit(X[1:], Y[1:]), "coef_")


# ── faces are alike ──


def test_faces_take_the_same_arguments() -> None:
    faces = (BayesianLinearRegression, GeneralizedLinear, LogisticRegression)
    for name, count in (("cross_validate", 7), ("coef_interval", 2)):
        first = list(inspect.signature(getattr(faces[0], name)).parameters.values())[:count]
        for face in faces[1:]:
            known = list(inspect.signature(getattr(face, name)).parameters.values())[:count]
            assert [(p.name, p.default) for p in known] == [(p.name, p.default) for p in first]


def test_effective_coefficients_count_the_intercept() -> None:
    for intercept in (True, False):
        one = BayesianLinearRegression(alpha=7.0, beta=1.0, fit_intercept=intercept).fit(X, Y)
        other = GeneralizedLinear(alpha=7.0, dispersion=1.0, fit_intercept=intercept).fit(X, Y)
        assert_allclose(one.n_effective_, other.n_effective_, rtol=1e-10)


def test_a_prior_takes_the_place_of_alpha() -> None:
    labels = Y.mean() < Y
    pairs: list[tuple[Any, Any, float]] = [
        (LogisticRegression, labels, 2.0),
        (GeneralizedLinear, Y, 1.0),
        (BayesianLinearRegression, Y, 1.0),
    ]
    for face, y, other in pairs:
        given = face(prior=IDENTITY).fit(X, y)
        assert_allclose(given.coef_, face(alpha="evidence", prior=IDENTITY).fit(X, y).coef_)
        with pytest.raises(ValueError, match="got both alpha and prior, expected one of them: leave alpha="):
            face(alpha=other, prior=IDENTITY).fit(X, y)
    assert_allclose(
        GeneralizedLinear(prior=IDENTITY).fit(X, Y).coef_, GeneralizedLinear(alpha=1.0).fit(X, Y).coef_
    )


# ── plain mistakes ──


@pytest.mark.parametrize("model", [BayesianLinearRegression(), GeneralizedLinear()])
def test_plain_mistakes_are_said_in_a_line(model: Any) -> None:
    model.fit(X, Y)
    for bad in ("a", None, np.nan):
        with pytest.raises(ValueError, match=r"got factor=.*, expected a number above 0 and at most 1"):
            model.decay(bad)
        with pytest.raises(ValueError, match=r"got n_samples=.*, expected a whole number of at least 1"):
            model.sample_coefficients(bad)
        with pytest.raises(ValueError, match=r"got a coverage of .*, expected between 0 and 1"):
            model.coef_interval(bad)
    with pytest.raises(ValueError, match=r"got y of shape \(50, 0\), expected one target per row or more"):
        model.fit(X, np.empty((50, 0)))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"X has no column 'b', .*: add it$"):
        model.fit(frame, Y).predict(frame[["a", "c"]])


def test_targets_to_explain_are_numbers() -> None:
    for bad in ("a", None, 1, 0.0):
        with pytest.raises(ValueError, match=r"got target=.*, expected 0 to 0"):
            BayesianLinearRegression().fit(X, Y).explain(X, bad)


@pytest.mark.parametrize("model", [BayesianLinearRegression(), GeneralizedLinear()])
def test_folds_of_another_length_are_refused(model: Any) -> None:
    weights = np.where(np.arange(50) == 49, 0.0, 1.0)
    for sample_weight in (None, weights):
        with pytest.raises(ValueError, match=r"got folds (of shape \(49,\)|with 49 entries) for 50 rows"):
            model.cross_validate(X, Y, np.arange(49) % 5, sample_weight=sample_weight)
        with pytest.raises(ValueError, match=r"got (groups of shape \(49,\)|49 groups) for 50 rows"):
            model.cross_validate(X, Y, 5, sample_weight=sample_weight, groups=np.arange(49))
        with pytest.raises(ValueError, match="got 1 fold, expected at least 2"):
            model.cross_validate(X, Y, np.zeros(50), sample_weight=sample_weight)


# ── numbers near the ends of floats, and large explanations ──


@pytest.mark.parametrize("unit", [1e148, 1e149, 1e-148])
@pytest.mark.parametrize("params", [{}, {"beta": "unknown"}, {"beta": 4.0}])
def test_columns_may_be_as_large_as_squares_allow(unit: float, params: Any) -> None:
    known = BayesianLinearRegression(**params).fit(X, Y).coef_
    assert_allclose(BayesianLinearRegression(**params).fit(X * unit, Y).coef_ * unit, known, rtol=1e-6)


@pytest.mark.parametrize(("columns", "targets"), [(1e-155, 1.0), (1.0, 1e-155), (1e-160, 1.0), (1.0, 1e-160)])
def test_what_is_too_small_to_square_is_refused(columns: float, targets: float) -> None:
    with pytest.raises(ValueError, match=r"has a mean square of .*, expected above 1e-300, .*: rescale it"):
        BayesianLinearRegression().fit(X * columns, Y * targets)


def test_the_top_of_a_sparse_row_fills_no_other() -> None:
    class Counted(sparse.csr_matrix):
        def toarray(self, *args: Any, **more: Any) -> Any:
            assert self.shape[0] == 1
            return super().toarray(*args, **more)

    terms = Counted(np.array([[0.0, 1.0], [3.0, -4.0]]))
    found = LinearExplanation(terms, np.zeros(2), ("a", "b"))
    assert found.top(1) == [("b", -4.0), ("a", 3.0)]
    assert found.top(-2) == [("b", 1.0)]
