"""Rows and questions that no PCA can answer, or whose answer is not plain: each has a stated one."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

from tamis.arrays import Array
from tamis.estimators import PCA

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 5)) @ rng.normal(size=(5, 5)) + [1.0, -2.0, 3.0, 0.0, 5.0]


def test_what_does_not_vary_has_no_components_of_any_size() -> None:
    model = PCA(whiten=True).fit(np.full((6, 3), 4.0))
    assert_array_equal(model.explained_variance_, np.zeros(3))
    assert_array_equal(model.explained_variance_ratio_, np.zeros(3))
    assert_allclose(model.components_ @ model.components_.T, np.eye(3))
    assert_array_equal(model.transform(np.full((2, 3), 4.0)), np.zeros((2, 3)))
    assert PCA(0.9).fit(np.full((6, 3), 4.0)).n_components_ == 1
    for asked in (model.score_samples, lambda rows: model.get_precision()):
        with pytest.raises(
            ValueError, match=r"vary in 0 directions of 3, and so have no density .* left over: drop columns"
        ):
            asked(np.full((2, 3), 4.0))
    constant = PCA(2).fit(np.column_stack([X[:, :2], np.full(80, 7.0)]))
    assert constant.noise_variance_ == 0.0
    assert_array_equal(constant.components_[:, 2], np.zeros(2))


@pytest.mark.parametrize(
    ("params", "rows", "message"),
    [
        ({"n_components": 6}, X, "got n_components=6 for 80 rows of 5 columns, expected 1 to 5"),
        ({"n_components": 4}, X[:3], "got n_components=4 for 3 rows of 5 columns, expected 1 to 3"),
        ({"n_components": "some"}, X, "got n_components='some', expected None"),
        (
            {"n_components": 9, "solver": "rows"},
            np.eye(8, 20),
            "got n_components=9 for 8 rows of 20 columns, expected 1 to 8: give fewer",
        ),
        (
            {"n_components": 9, "solver": "randomized"},
            np.eye(8, 20),
            "got n_components=9 for 8 rows of 20 columns, expected 1 to 8: give fewer",
        ),
        (
            {"missing": "em"},
            sparse.csr_array([[np.nan, 1.0], [1.0, 0.0]]),
            "got rows with gaps that are sparse, expected dense rows .*: drop or fill those rows$",
        ),
        (
            {"n_components": "held-out", "solver": "randomized"},
            X,
            "got n_components='held-out' with solver='randomized', expected a whole number",
        ),
        ({"n_components": "mle"}, X[:3], "got n_components='mle' for 3 rows of 5 columns, expected at least"),
        ({}, X[:1], "got n_samples=1 in weight, expected above 1"),
        ({"solver": "rows"}, X[:1], "got n_samples=1 in weight, expected above 1"),
        ({}, np.array([[1.0, np.inf], [0.0, 1.0]]), "column 1 holds inf in row 0, expected finite"),
        ({"missing": "em"}, np.array([[1.0, np.inf], [0.0, np.nan]]), "column 1 holds inf in row 0"),
        ({"solver": "rows"}, np.array([[1.0, np.inf], [0.0, 1.0]]), "column 1 holds inf in row 0"),
        ({}, np.array([[1e200], [1.0]]), "expected magnitudes that can be squared"),
        ({"solver": "fast"}, X, "got solver='fast', expected one of auto, moments"),
        ({"missing": "drop"}, X, "got missing='drop', expected 'refuse' or 'em'"),
        ({"max_iter": 0}, X, "got max_iter=0, expected a whole number"),
        ({"tol": -1.0}, X, "got tol=-1"),
    ],
)
def test_bad_input_is_refused_in_a_line(params: dict[str, Any], rows: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        PCA(**params).fit(rows)
    assert "\n" not in str(caught.value)


def test_bad_questions_are_refused_in_a_line() -> None:
    model = PCA(2).fit(X)
    with pytest.raises(ValueError, match="got projections of 3 columns, expected 2"):
        model.inverse_transform(np.ones((2, 3)))
    for wrong in (2, -1, True, "a", 0.5):
        asked: Any = wrong
        with pytest.raises(ValueError, match=f"got component={wrong!r}, expected 0 to 1"):
            model.explain(X, asked)
    with pytest.raises(ValueError, match="got solver='xx', expected one of auto, moments"):
        model.infer(solver="xx")
    assert model.solver == "auto"
    with pytest.raises(ValueError, match="got n_samples=0"):
        model.sample(0)
    with pytest.raises(ValueError, match="column 0 holds inf"):
        model.transform([[np.inf, 1, 1, 1, 1]])
    with pytest.raises(NotFittedError):
        PCA().transform(X)
    with pytest.raises(NotFittedError):
        PCA().components_  # noqa: B018


# ── rows too far out to be forgotten ──


def far_out(size: float) -> tuple[Array, Array]:
    """Rows, and the same after one that is so far out."""
    rows = np.random.default_rng(1).normal(size=(500, 6))
    return rows, np.concatenate([size * np.resize([-0.7, 1.0], (1, 6)), rows])


@pytest.mark.parametrize("count", [3, "held-out"])
@pytest.mark.parametrize("size", [1e8, 1e9, 1e140])
def test_a_row_far_out_among_others_is_forgotten(size: float, count: Any) -> None:
    rows, spoilt = far_out(size)
    model = PCA(count).fit(spoilt).unlearn(spoilt[:1])
    assert model.statistic_ == PCA(count).fit(rows).statistic_


def many_clusters(size: float) -> tuple[Array, Array]:
    """The rows of one cluster, and those of seven more that are so far apart: none is an outlier."""
    rng = np.random.default_rng(1)
    rows, at = rng.normal(size=(12_000, 6)), rng.integers(0, 8, 12_000)
    return rows[at == 0], np.concatenate([(rows + size * at[:, None])[at > 0], rows[at == 0]])


@pytest.mark.parametrize("count", [3, "held-out"])
@pytest.mark.parametrize("size", [1e8, 1e9, 1e140])
def test_what_drowned_in_rounding_is_not_answered(size: float, count: Any) -> None:
    rows, spoilt = many_clusters(size)
    gone, total = spoilt[: -len(rows)], len(spoilt)
    for model in (
        PCA(count).fit(spoilt),
        PCA(count).partial_fit(spoilt).decay(0.999),
        PCA(count).fit(rows).merge(PCA(count).fit(spoilt)),
        pickle.loads(pickle.dumps(PCA(count).fit(spoilt))),
    ):
        before = model.explained_variance_
        weights = np.full(len(gone), 0.999 if model.n_samples_ < total else 1.0)
        with pytest.raises(ValueError, match="too little is left of column 0 after rounding") as caught:
            model.unlearn(gone, sample_weight=weights)
        assert "fit with exact=True" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert_array_equal(model.explained_variance_, before)
    exact = PCA(count, exact=True).fit(spoilt).unlearn(gone)
    assert exact.statistic_ == PCA(count, exact=True).fit(rows).statistic_


def test_rows_far_out_that_came_alone_are_forgotten() -> None:
    rows, spoilt = far_out(1e140)
    model = PCA(3).fit(rows)
    before = model.statistic_
    assert model.partial_fit(spoilt[:1]).unlearn(spoilt[:1]).statistic_ == before


def test_a_column_that_only_the_forgotten_varied_in_is_flat_again() -> None:
    """Its squares are rounded, and may be below 0: that is no sign of rows that were never learned."""
    for seed in range(20):
        rows = np.random.default_rng(seed).normal(size=(200, 4))
        rows[1:, 3] = 0.0
        model = PCA().fit(rows).unlearn(rows[:1])
        assert_allclose(model.explained_variance_, PCA().fit(rows[1:]).explained_variance_, atol=1e-13)
    with pytest.raises(ValueError, match="more would be subtracted than was learned"):
        model.unlearn(rows[:1])
