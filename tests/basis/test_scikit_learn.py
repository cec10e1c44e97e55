"""The bases are scikit-learn's transformers: its checks, frames, names, pipelines, files, and refusals."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import tamis
from tamis.basis import FourierBasis, GaussianBasis, PolynomialBasis, SigmoidBasis, SplineBasis

EVERY = [PolynomialBasis(), GaussianBasis(), SigmoidBasis(), SplineBasis(), FourierBasis()]
QUANTILES = [  # scikit-learn's checks learn in parts, which these refuse
    GaussianBasis(4, placed="quantiles", include_bias=True),
    SigmoidBasis(4, placed="quantiles"),
    SplineBasis(4, 2, placed="quantiles", extrapolation="periodic"),
]
OTHERS = [
    PolynomialBasis(3, interactions=True, scale=None, include_bias=True),
    SigmoidBasis([0.0, 1.0], width=0.5),
    SplineBasis(4, 2, extrapolation="linear", include_bias=True),
    SplineBasis(4, 2, extrapolation="periodic"),
    FourierBasis(2, period=7.0, include_bias=True),
]
each = pytest.mark.parametrize("basis", EVERY, ids=lambda basis: type(basis).__name__)
each_kind = pytest.mark.parametrize("basis", [*EVERY, *OTHERS, *QUANTILES], ids=str)

ROWS = np.random.default_rng(0).normal(size=(20, 2))


@parametrize_with_checks([*EVERY, *OTHERS])  # type: ignore[untyped-decorator]  # scikit-learn has no types
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


# ── rows of all kinds ──


@each_kind
def test_one_row_and_constant_columns_have_functions_too(basis: Any) -> None:
    for X in (
        [[3.0, 1e8]],
        np.full((5, 2), -7.5),
        [[0.0, 0.0]],
        [[1e17, 1e300]] if basis in EVERY else [[1, 2]],
    ):
        found = clone(basis).fit(X).transform(X)
        assert np.isfinite(found).all()
        names = clone(basis).fit(X).get_feature_names_out()
        assert len(set(names)) == len(names) == found.shape[1]


@each_kind
def test_integers_flags_and_frames_are_rows_of_numbers(basis: Any) -> None:
    whole = np.random.default_rng(1).integers(-4, 5, (15, 2))
    expected = clone(basis).fit_transform(whole.astype(np.float64))
    columns = {"a": whole[:, 0], "b": whole[:, 1].astype(np.float32)}
    for X in (whole, whole.tolist(), pd.DataFrame(columns), pl.DataFrame(columns)):
        assert_array_equal(clone(basis).fit_transform(X), expected)
    if getattr(basis, "extrapolation", None) != "periodic":  # of two values there are two quantiles
        assert_array_equal(
            clone(basis).fit_transform(whole > 0), clone(basis).fit_transform((whole > 0).astype(np.float64))
        )
    single = clone(basis).fit_transform(whole.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, expected, rtol=1e-6)


@each
def test_names_are_kept_and_checked(basis: Any) -> None:
    frame = pd.DataFrame(ROWS, columns=["age", "income"])
    basis = clone(basis).fit(frame)
    assert all("age" in name or "income" in name for name in basis.get_feature_names_out())
    assert_array_equal(basis.transform(frame[["income", "age"]]), basis.transform(frame))
    turned = clone(basis).fit(frame).partial_fit(frame[["income", "age"]])
    assert_array_equal(turned.transform(frame), basis.transform(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        basis.partial_fit(frame.rename(columns={"age": "height"}))
    with pytest.raises(ValueError, match="feature names should match"):
        basis.transform(frame[["age"]].rename(columns=str))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@each_kind
def test_the_answer_can_be_a_frame(basis: Any, library: Any) -> None:
    frame = pd.DataFrame(ROWS, columns=["age", "income"])
    made = clone(basis).set_output(transform=library)
    found = made.fit_transform(frame)
    assert list(found.columns) == made.get_feature_names_out().tolist()
    assert_array_equal(found.to_numpy(), clone(basis).fit_transform(frame))


@each_kind
def test_columns_are_expanded_each_by_itself_side_by_side(basis: Any) -> None:
    if getattr(basis, "interactions", False):
        pytest.skip("columns are multiplied with each other")
    found = pd.DataFrame(
        clone(basis).fit_transform(ROWS), columns=clone(basis).fit(ROWS).get_feature_names_out()
    )
    wider = 2.0 * ROWS
    both = clone(basis).fit(ROWS).transform(wider)
    for j in (0, 1):
        alone = clone(basis).fit(ROWS[:, [j]])
        names = alone.get_feature_names_out([f"x{j}"]).tolist()
        assert_array_equal(found[names].to_numpy(), alone.transform(ROWS[:, [j]]))
        places = [found.columns.get_loc(name) for name in names]
        assert_array_equal(both[:, places], alone.transform(wider[:, [j]]))


def test_names_can_be_read() -> None:
    X = [[0.0, 10.0], [1.0, 30.0]]
    for basis, expected in (
        (PolynomialBasis(2, include_bias=True), ["1", "x0", "x0^2", "x1", "x1^2"]),
        (GaussianBasis(2), ["x0 near 0", "x0 near 1", "x1 near 10", "x1 near 30"]),
        (GaussianBasis(np.array([[0, 10], [0, 1 / 3]])), ["near (0, 10)", "near (0, 0.333)"]),
        (SigmoidBasis([0.5]), ["x0 above 0.5", "x1 above 0.5"]),
        (SplineBasis(2, 1), ["x0 spline 0", "x1 spline 0"]),
        (FourierBasis(1), ["x0 sin 1", "x0 cos 1", "x1 sin 1", "x1 cos 1"]),
    ):
        assert basis.fit(X).get_feature_names_out().tolist() == expected


# ── learning ──


@each
def test_ranges_of_parts_are_the_range_of_the_whole(basis: Any) -> None:
    stream = clone(basis)
    for part in np.array_split(ROWS, 4):
        stream.partial_fit(part)
    assert_array_equal(stream.transform(ROWS), clone(basis).fit_transform(ROWS))
    assert_array_equal(stream.fit(ROWS[:5]).transform(ROWS), clone(basis).fit(ROWS[:5]).transform(ROWS))


@pytest.mark.parametrize("kind", [GaussianBasis, SigmoidBasis, SplineBasis])
def test_quantiles_come_from_one_fit(kind: Any) -> None:
    with pytest.raises(ValueError, match="placed='quantiles', expected all rows at once"):
        kind(placed="quantiles").partial_fit(ROWS)


@each
def test_a_refused_fit_changes_nothing(basis: Any) -> None:
    basis = clone(basis).fit(ROWS)
    before = basis.transform(ROWS)
    for broken in (np.array([[np.nan, 1.0]]), [[1.0, "a"]], np.zeros((0, 2)), [[-1e308, 0.0], [1e308, 0.0]]):
        for learn in (basis.fit, basis.partial_fit):
            with pytest.raises((ValueError, TypeError)):
                learn(broken)
    assert_array_equal(basis.transform(ROWS), before)


# ── pipelines and files ──


def test_a_search_finds_the_degree() -> None:
    x = np.linspace(-2, 2, 60)[:, None]
    y = (x**3 - x).ravel() + 0.01 * np.random.default_rng(0).normal(size=60)
    search = GridSearchCV(
        make_pipeline(PolynomialBasis(), Ridge(1e-6)), {"polynomialbasis__degree": [1, 2, 3]}, cv=5
    )
    assert search.fit(x[::-1], y[::-1]).best_params_ == {"polynomialbasis__degree": 3}


@each_kind
def test_a_basis_read_from_a_file_or_a_pickle_is_the_same(basis: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=["age", "income"])
    basis = clone(basis).fit(frame)
    tamis.save(basis, tmp_path / "basis.tamis")
    for found in (tamis.load(tmp_path / "basis.tamis"), pickle.loads(pickle.dumps(basis))):
        assert_array_equal(found.transform(frame), basis.transform(frame))
        assert found.get_feature_names_out().tolist() == basis.get_feature_names_out().tolist()
        assert str(found) == str(basis)
        if getattr(basis, "placed", None) != "quantiles":
            more = frame * 2.0
            assert_array_equal(found.partial_fit(more).transform(more), clone(basis).fit_transform(more))


def test_a_radial_basis_is_saved_with_its_centres(tmp_path: Path) -> None:
    basis = GaussianBasis(ROWS[:3], width=[0.5, 2.0]).fit(ROWS)
    tamis.save(basis, tmp_path / "basis.tamis")
    assert_array_equal(tamis.load(tmp_path / "basis.tamis").transform(ROWS), basis.transform(ROWS))


@each_kind
def test_a_regression_is_saved_with_its_basis(basis: Any, tmp_path: Path) -> None:
    y = np.sin(ROWS[:, 0])
    model = make_pipeline(clone(basis), tamis.BayesianLinearRegression(alpha=1.0, beta=25.0)).fit(ROWS, y)
    tamis.save(model, tmp_path / "model.tamis")
    found = tamis.load(tmp_path / "model.tamis")
    for before, after in zip(
        model.predict(ROWS, return_std=True), found.predict(ROWS, return_std=True), strict=True
    ):
        assert_array_equal(before, after)


def test_a_pipeline_is_saved_with_its_basis(tmp_path: Path) -> None:
    y = np.sign(ROWS[:, 0])
    model = make_pipeline(SplineBasis(3, 1), GaussianBasis(3), tamis.GaussianNB()).fit(ROWS, y)
    tamis.save(model, tmp_path / "model.tamis")
    found = tamis.load(tmp_path / "model.tamis")
    assert_array_equal(found.predict_proba(ROWS), model.predict_proba(ROWS))


# ── refusals ──


@each
def test_what_is_missing_is_refused_with_its_column(basis: Any) -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0], "income": [1.0, np.nan, 3.0]})
    with pytest.raises(ValueError, match="got nan in row 1 of column 'income', expected finite numbers"):
        clone(basis).fit(frame)
    fitted = clone(basis).fit(frame[["age"]])
    with pytest.raises(ValueError, match="got inf in row 0 of column 'age'"):
        fitted.transform(pd.DataFrame({"age": [np.inf]}))
    with pytest.raises(TypeError, match="column 'age' holds 'old' in row 0"):
        clone(basis).fit(pd.DataFrame({"age": ["old"]}))
    with pytest.raises(TypeError, match="Sparse data was passed"):
        clone(basis).fit(sparse.csr_array(ROWS))
    with pytest.raises(ValueError, match="column 1 goes from -1e\\+308 to 1e\\+308, expected a range"):
        clone(basis).fit([[0.0, -1e308], [0.0, 1e308]])
    with pytest.raises(NotFittedError, match="expected a call to fit first"):
        clone(basis).transform(ROWS)


@pytest.mark.parametrize(
    ("basis", "said"),
    [
        (PolynomialBasis(0), "got degree=0, expected a whole number of at least 1"),
        (PolynomialBasis(scale="unit"), "got scale='unit', expected 'range', \\(centre, half-width"),  # type: ignore[arg-type]
        (PolynomialBasis(scale=(0.0, 0.0)), "and no width of 0"),
        (PolynomialBasis(scale=([1.0, 2.0, 3.0], 1.0)), "each a number or one per column"),
        (GaussianBasis(0), "got centres=0, expected a whole number of at least 1"),
        (GaussianBasis([]), "got 0 centres, expected at least 1"),
        (GaussianBasis([1.0, 1.0]), "got centres with two equal places"),
        (GaussianBasis([1.0, np.nan]), "expected finite numbers"),
        (GaussianBasis(np.zeros((2, 3))), "got centres of shape \\(2, 3\\), expected"),
        (GaussianBasis(np.zeros((2, 2))), "got centres with two equal places"),
        (GaussianBasis(np.zeros((2, 2, 2))), "got centres of shape \\(2, 2, 2\\)"),
        (GaussianBasis(width=0.0), "got width=0.0, expected numbers above 0"),
        (
            GaussianBasis(width=[1.0, 2.0, 3.0]),
            "got width of shape \\(3,\\), expected a number, one per column",
        ),
        (GaussianBasis(placed="randomly"), "got placed='randomly'"),  # type: ignore[arg-type]
        (SigmoidBasis([[1.0], [1.0, 2.0]]), "rows of different lengths, expected equal lengths"),
        (SplineBasis(1), "got knots=1, expected a whole number of at least 2"),
        (SplineBasis([1.0, 0.0]), "expected ascending numbers"),
        (SplineBasis(3, -1), "got degree=-1"),
        (SplineBasis(3, 3, extrapolation="periodic"), "got 3 knots for periodic splines of degree 3"),
        (SplineBasis(2, 0), "got 2 knots and degree=0, which make only a constant function"),
        (SplineBasis(extrapolation="zero"), "got extrapolation='zero'"),  # type: ignore[arg-type]
        (FourierBasis(0), "got order=0"),
        (FourierBasis(period=-1), "got period=-1, expected numbers above 0"),
        (FourierBasis(period=[1.0, 2.0, 3.0]), "got period of shape \\(3,\\)"),
    ],
    ids=str,
)
def test_parameters_that_mean_nothing_are_refused_in_one_line(basis: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refusal:
        basis.fit(ROWS)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("basis", "said"),
    [
        (PolynomialBasis("2"), "got degree='2', expected a whole number of at least 1"),
        (GaussianBasis("many"), "got centres='many', expected numbers"),
        (GaussianBasis(True), "got centres=True, expected numbers"),
        (SigmoidBasis(width="wide"), "got width='wide', expected numbers"),
        (SplineBasis(None), "got knots=None, expected numbers"),
    ],
    ids=str,
)
def test_parameters_of_another_type_are_refused_in_one_line(basis: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        basis.fit(ROWS)
