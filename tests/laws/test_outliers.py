"""Rows that are forgotten leave no digits behind, however large they were; where they must, it is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tamis
from tamis import (
    PCA,
    BayesianLinearRegression,
    FisherDiscriminant,
    GaussianDiscriminant,
    GaussianNB,
)
from tamis.arrays import Array
from tamis.stats import Gram, Moments, outliers, products

N, D = 30_000, 4  # more cells than are summed exactly in any case
Model = Callable[[], Any]
CLASSIFIERS: dict[str, Model] = {
    "tied": GaussianDiscriminant,
    "full": lambda: GaussianDiscriminant("full"),
    "most likely": lambda: GaussianDiscriminant("full", estimate="mle"),
    "Fisher": FisherDiscriminant,
    "naive": GaussianNB,
}
SPOILT = {"row": np.full(D, 1e9), "cell": np.array([0.3, -0.1, 2e8, 1.0])}
every_outlier = pytest.mark.parametrize("outlier", SPOILT.values(), ids=SPOILT)
every_classifier = pytest.mark.parametrize("make", CLASSIFIERS.values(), ids=CLASSIFIERS)


def rows_and_labels(seed: int = 0, n: int = N) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, D)) @ rng.normal(size=(D, D))
    score = x @ np.array([1.0, 2.0, 3.0, -1.0]) + rng.normal(size=n)
    return x, (score > 0).astype(np.int64), score


@every_outlier
@every_classifier
def test_an_outlier_among_many_rows_leaves_no_trace_in_a_classifier(make: Model, outlier: Array) -> None:
    x, y, _ = rows_and_labels()
    model = make().partial_fit(np.insert(x, 77, outlier, axis=0), np.insert(y, 77, 1))
    model.unlearn(outlier[None], [1])
    fresh = make().fit(x, y)
    expected = fresh.predict_joint_log_proba(x[:500])
    assert_allclose(model.predict_joint_log_proba(x[:500]), expected, rtol=1e-9, atol=1e-9)


@every_outlier
@pytest.mark.parametrize("target", [0.5, 1e9])
def test_an_outlier_among_many_rows_leaves_no_trace_in_a_regression(outlier: Array, target: float) -> None:
    x, _, z = rows_and_labels()
    model = BayesianLinearRegression().partial_fit(
        np.insert(x, 77, outlier, axis=0), np.insert(z, 77, target)
    )
    model.unlearn(outlier[None], [target])
    assert_allclose(model.coef_, BayesianLinearRegression().fit(x, z).coef_, rtol=1e-9)


@every_outlier
def test_an_outlier_among_many_rows_leaves_no_trace_in_components(outlier: Array) -> None:
    x, _, _ = rows_and_labels()
    model = PCA().fit(np.insert(x, 77, outlier, axis=0)).unlearn(outlier[None])
    assert_allclose(model.components_, PCA().fit(x).components_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["tied", "full", "Fisher", "naive"])
def test_folds_with_an_outlier_are_as_if_fitted_without_it(name: str) -> None:
    make = CLASSIFIERS[name]
    x, y, _ = rows_and_labels()
    x[::9999] = 1e9
    fold = np.arange(N) % 3  # 0 has all the outliers
    held = make().cross_validate(x, y, folds=fold)
    for number in range(3):
        rest, own = fold != number, np.flatnonzero((fold == number) & (np.abs(x[:, 0]) < 1e6))[:200]
        fresh = make().partial_fit(x[rest], y[rest])
        assert_allclose(held.log_joint[own], fresh.predict_joint_log_proba(x[own]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_clusters_far_apart_are_forgotten_without_a_trace_or_refused(share: float) -> None:
    x, y, z = rows_and_labels()
    far = np.arange(N) < share * N
    x[far] += 1e9
    for model, fresh, target in (
        (GaussianDiscriminant(), GaussianDiscriminant(), y),
        (BayesianLinearRegression(), BayesianLinearRegression(), z),
    ):
        model.partial_fit(x, target).unlearn(x[far], target[far])
        fresh.fit(x[~far], target[~far])
        assert_allclose(model.coef_, fresh.coef_, rtol=1e-6)


def scattered(seed: int = 0) -> tuple[Array, Array, Array]:
    """Rows of which no cluster is so large that the others were outliers."""
    x, y, z = rows_and_labels(seed)
    return x + 1e9 * np.random.default_rng(1).integers(0, 8, size=N)[:, None], y, z


@pytest.mark.parametrize("make", [GaussianDiscriminant, FisherDiscriminant], ids=lambda kind: kind.__name__)
def test_what_drowned_in_rounding_is_refused_in_one_line(make: Model, tmp_path: Path) -> None:
    x, y, _ = scattered()
    gone = np.abs(x[:, 0]) > 5e8
    model = make().partial_fit(x, y)
    before = model.statistic_
    with pytest.raises(
        ValueError, match=r"^too little would be left of column 0 .*exact=True; nothing was changed$"
    ):
        model.unlearn(x[gone], y[gone])
    assert model.statistic_ == before
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="too little would be left"):
        tamis.load(tmp_path / "model").unlearn(x[gone], y[gone])
    with pytest.raises(ValueError, match="too little would be left"):
        make().partial_fit(x[~gone][:10], y[~gone][:10]).merge(model).unlearn(x[gone], y[gone])
    exact = make().set_params(exact=True).partial_fit(x, y).unlearn(x[gone], y[gone])
    assert_allclose(exact.coef_, make().fit(x[~gone], y[~gone]).coef_, rtol=1e-6)


def test_a_regression_that_drowned_in_rounding_is_refused_by_the_name_of_its_column() -> None:
    pd = pytest.importorskip("pandas")
    x, _, z = scattered()
    x[:, 0] = rows_and_labels()[0][:, 0]
    gone = np.abs(x[:, 1]) > 5e8
    frame = pd.DataFrame(x, columns=list("abcd"))
    model = BayesianLinearRegression().partial_fit(frame, z)
    with pytest.raises(ValueError, match=r"too little would be left of column 'b' .*exact=True"):
        model.unlearn(frame[gone], z[gone])


def test_a_class_of_which_little_is_left_is_not_refused() -> None:
    x, y, _ = rows_and_labels()
    kept = np.flatnonzero(y == 1)[:2]
    gone = np.setdiff1d(np.flatnonzero(y == 1), kept)
    for form in ("tied", "full"):
        model = GaussianDiscriminant(form).fit(x, y).unlearn(x[gone], y[gone])
        rest = np.setdiff1d(np.arange(N), gone)
        fresh = GaussianDiscriminant(form).fit(x[rest], y[rest])
        expected = fresh.predict_joint_log_proba(x[:100])
        assert_allclose(model.predict_joint_log_proba(x[:100]), expected, rtol=1e-8)


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("groups", [1, 3])
def test_few_rows_are_outliers_and_all_that_are_far_out(weighed: bool, groups: int) -> None:
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(size=N), rng.random(N) < 0.001, rng.standard_cauchy(N), np.zeros(N)])
    far = rng.choice(N, 20, replace=False)
    x[far[:10], 0], x[far[10:], 1] = 1e7, 1e9
    weights = rng.random(N) + 0.1 if weighed else None
    found = Moments.observe(x, weights, rng.integers(0, groups, N), form="full")
    assert found.rounded is not None
    assert (found.rounded[:, [0, 1, 3]] < 100.0 * N).all()
    assert (found.rounded[:, 3] == 0).all()


def test_heavy_rows_are_outliers() -> None:
    x, _, z = rows_and_labels()
    weights = np.ones(N)
    weights[[5, 900]] = 1e18
    model = BayesianLinearRegression().partial_fit(x, z, sample_weight=weights)
    model.unlearn(x[[5, 900]], z[[5, 900]], sample_weight=weights[[5, 900]])
    rest = np.delete(np.arange(N), [5, 900])
    assert_allclose(model.coef_, BayesianLinearRegression().fit(x[rest], z[rest]).coef_, rtol=1e-9)


def test_ordinary_rows_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, z = rows_and_labels()
    x[:, 3] = y
    monkeypatch.setattr(outliers, "_find_in_column", None)
    for shift in (0.0, 1e8):
        assert Moments.observe(x + shift, by=y, form="full").rounded is not None
        assert Gram.observe(x + shift, z).rounded is not None
    assert x.size > products._MAX_EXACT_VALUES


def test_little_data_is_summed_exactly() -> None:
    x, y, z = rows_and_labels(n=1000)
    assert Moments.observe(x, by=y, form="full") == Moments.observe(x, by=y, form="full", exact=True)
    assert Gram.observe(x, z).rounded is None


@pytest.mark.parametrize("copies", [6, 8, 13, 20, 200])
@pytest.mark.parametrize(("cells", "value"), [(slice(None), 1e9), (slice(0, 1), 2e8)])
def test_an_outlier_in_a_column_that_is_constant_but_for_it_is_taken_away(
    copies: int, cells: slice, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_MAX_EXACT_VALUES", 0)
    rows = np.tile([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], (copies, 1))
    spoilt = rows.copy()
    spoilt[0, cells] = value
    left = Moments.observe(spoilt, form="full") - Moments.observe(spoilt[:1], form="full")
    fresh = Moments.observe(rows[1:], form="full")
    assert_allclose(left.first.value, fresh.first.value, atol=0)
    assert_allclose(left.scatter, fresh.scatter, atol=1e-12)
