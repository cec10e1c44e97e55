"""shrinkage="auto": Ledoit and Wolf's coefficients, chosen by `fit`, with scikit-learn as the oracle."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

import tamis
from tamis.arrays import Array

SEEDS = range(40)


def draw(seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Rows of a few correlated Gaussians in units of their own; sometimes fewer of them than columns."""
    rng = np.random.default_rng(seed)
    classes, d = int(rng.integers(2, 5)), int(rng.integers(1, 12))
    n = int(rng.integers(3 * classes, 60))
    labels = np.concatenate([np.repeat(np.arange(classes), 3), rng.integers(0, classes, n - 3 * classes)])
    turn = np.eye(d) + 0.5 * rng.normal(size=(classes, d, d))
    rows = (turn[labels] @ rng.normal(size=(n, d, 1)))[..., 0] + rng.normal(size=(classes, d))[labels]
    rows = rows * np.exp(rng.normal(0.0, 2.0, d)) + rng.normal(0.0, 5.0, d)
    return rows, labels


def discriminant(covariance: Any, **options: Any) -> tamis.GaussianDiscriminant:
    return tamis.GaussianDiscriminant(covariance, estimate="mle", shrinkage="auto", **options)


def centred(model: Any) -> tuple[Array, Array]:
    """The linear form of a model up to what all classes have in common."""
    return model.coef_ - model.coef_.mean(axis=0), model.intercept_ - model.intercept_.mean()


@pytest.mark.parametrize("solver", ["lsqr", "eigen"])
@pytest.mark.parametrize("seed", SEEDS)
def test_tied_covariance_and_coefficients_are_those_of_scikit_learn(seed: int, solver: str) -> None:
    rows, labels = draw(seed)
    theirs = LinearDiscriminantAnalysis(solver=solver, shrinkage="auto").fit(rows, labels)
    for ours in (
        discriminant("tied").fit(rows, labels),
        tamis.FisherDiscriminant(shrinkage="auto").fit(rows, labels),
    ):
        assert_allclose(ours.covariance_, theirs.covariance_, rtol=1e-8, atol=1e-8 * theirs.covariance_.max())
        if len(theirs.classes_) == 2:
            assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-8 * np.abs(theirs.coef_).max())
        else:
            for one, other in zip(centred(ours), centred(theirs), strict=True):
                assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())
        assert_allclose(ours.predict_proba(rows), theirs.predict_proba(rows), rtol=1e-8, atol=1e-8)
        assert_array_equal(ours.predict(rows), theirs.predict(rows))


@pytest.mark.parametrize("seed", SEEDS)
def test_full_covariances_and_answers_are_those_of_scikit_learn(seed: int) -> None:
    rows, labels = draw(seed)
    theirs = QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto", store_covariance=True, tol=1e-12)
    theirs.fit(rows, labels)
    ours = discriminant("full").fit(rows, labels)
    scale = np.abs(theirs.covariance_).max()
    assert_allclose(ours.covariance_, theirs.covariance_, rtol=1e-8, atol=1e-10 * scale)
    assert_allclose(ours.predict_log_proba(rows), theirs.predict_log_proba(rows), rtol=1e-7, atol=1e-7)
    assert_array_equal(ours.predict(rows), theirs.predict(rows))
    coefficients = [ledoit_wolf(StandardScaler().fit_transform(rows[labels == k]))[1] for k in ours.classes_]
    assert_allclose(ours.shrinkage_, coefficients, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_directions_of_fisher_are_those_of_scikit_learn(seed: int) -> None:
    rows, labels = draw(seed)
    theirs = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(rows, labels)
    ours = tamis.FisherDiscriminant(shrinkage="auto").fit(rows, labels)
    count = ours.scalings_.shape[1]
    directions = theirs.scalings_[:, :count]
    signs = np.sign((directions * ours.scalings_).sum(axis=0))
    assert_allclose(ours.scalings_, directions * signs, rtol=1e-5, atol=1e-7 * np.abs(directions).max())
    assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_[:count], rtol=1e-7, atol=1e-9
    )


def test_a_column_that_does_not_vary_in_a_class_is_treated_as_in_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    rows, labels = rng.normal(size=(60, 4)) * [1.0, 2.0, 3.0, 1.0], np.arange(60) % 3
    rows[labels == 1, 0] = 0.1
    theirs = QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto", store_covariance=True, tol=1e-12)
    theirs.fit(rows, labels)
    assert_allclose(
        discriminant("full").fit(rows, labels).covariance_, theirs.covariance_, rtol=1e-8, atol=1e-12
    )


def test_it_is_right_far_from_zero() -> None:
    rng = np.random.default_rng(0)
    rows, labels = np.round(rng.normal(size=(80, 4)) * 1024) / 1024, rng.integers(0, 2, 80)
    for covariance in ("tied", "full"):
        near, far = (discriminant(covariance).fit(rows + shift, labels) for shift in (0.0, 2.0**30))
        assert_allclose(far.shrinkage_, near.shrinkage_, rtol=1e-12)
        assert_allclose(far.covariance_, near.covariance_, rtol=1e-12)


@pytest.mark.parametrize("covariance", ["tied", "full"])
def test_a_row_of_weight_two_is_that_row_twice(covariance: str) -> None:
    rows, labels = draw(7)
    weights = np.random.default_rng(7).integers(0, 4, len(rows))
    weights[:12] = 1
    times = np.repeat(np.arange(len(rows)), weights)
    weighed = discriminant(covariance).fit(rows, labels, sample_weight=weights)
    repeated = discriminant(covariance).fit(rows[times], labels[times])
    assert_allclose(weighed.shrinkage_, repeated.shrinkage_, rtol=1e-10)
    assert_allclose(weighed.covariance_, repeated.covariance_, rtol=1e-10)


@pytest.mark.parametrize(
    "face", [discriminant("tied"), discriminant("full"), tamis.FisherDiscriminant(shrinkage="auto")]
)
def test_what_fit_chose_is_kept_by_the_algebra_and_in_files(face: Any, tmp_path: Path) -> None:
    rows, labels = draw(11)
    model = clone(face).fit(rows, labels)
    chosen, before = model.shrinkage_, model.predict_proba(rows)
    assert ((chosen >= 0) & (chosen <= 1)).all()
    assert (chosen > 0).any()
    more = model.partial_fit(rows[:9] + 0.5, labels[:9])
    assert_array_equal(more.shrinkage_, chosen)
    assert not np.allclose(more.predict_proba(rows), before)
    more.unlearn(rows[:9] + 0.5, labels[:9])
    assert_allclose(more.predict_proba(rows), before, rtol=1e-9)
    more.save(tmp_path / "model")
    for copied in (tamis.load(tmp_path / "model"), pickle.loads(pickle.dumps(more))):
        assert_array_equal(copied.shrinkage_, chosen)
        assert_allclose(copied.predict_proba(rows), before, rtol=1e-9)
    more.merge(clone(face).fit(rows + 1.0, labels)).decay(0.5)
    assert_array_equal(more.shrinkage_, chosen)
    assert not np.allclose(more.fit(rows[::2], labels[::2]).shrinkage_, chosen)
    assert_array_equal(more.shrinkage_, clone(face).fit(rows[::2], labels[::2]).shrinkage_)


def test_a_class_that_comes_later_gets_the_mean_of_the_others() -> None:
    rows, labels = draw(11)
    model = discriminant("full").fit(rows, labels)
    chosen, counts = model.shrinkage_, model.class_count_
    model.partial_fit(rows[:20] + 3.0, np.full(20, 99))
    assert_allclose(model.shrinkage_, [*chosen, chosen @ counts / counts.sum()])
    assert np.isfinite(model.predict_log_proba(rows)).all()


def test_the_rows_without_a_label_have_no_say_in_the_choice() -> None:
    rows, labels = draw(11)
    named: list[Any] = [None if i % 4 == 3 else int(k) for i, k in enumerate(labels)]
    known = [i for i, k in enumerate(named) if k is not None]
    model = discriminant("tied").fit(rows, named)
    assert_array_equal(model.shrinkage_, discriminant("tied").fit(rows[known], labels[known]).shrinkage_)


def test_where_no_rows_choose_it_the_refusal_says_what_to_do() -> None:
    rows, labels = draw(11)
    for face in (discriminant("tied"), tamis.FisherDiscriminant(shrinkage="auto")):
        with pytest.raises(
            ValueError, match=r"^got partial_fit before fit .* call fit with the first batch, or [^\n]*$"
        ):
            face.partial_fit(rows, labels)
        assert not hasattr(face, "classes_")
        with pytest.raises(
            ValueError, match=r"^got shrinkage='auto' in cross_validate, [^\n]*cross_val_predict$"
        ):
            face.fit(rows, labels).cross_validate(rows, labels)
        assert len(cross_val_predict(clone(face), rows, labels, cv=2)) == len(rows)
    model = tamis.GaussianDiscriminant(estimate="mle", shrinkage=0.5).fit(rows, labels)
    with pytest.raises(ValueError, match=r"^got shrinkage='auto', which fit chooses from rows, [^\n]*$"):
        model.infer(shrinkage="auto")
    assert model.shrinkage == 0.5
    assert_array_equal(model.shrinkage_, np.full(len(model.classes_), 0.5))
    with pytest.raises(ValueError, match="expected estimate='mle'"):
        tamis.GaussianDiscriminant(shrinkage="auto").fit(rows, labels)


def test_a_number_may_follow_what_was_chosen_without_reading_rows_again() -> None:
    rows, labels = draw(11)
    model = discriminant("tied").fit(rows, labels).infer(shrinkage=0.2)
    fresh = tamis.GaussianDiscriminant(estimate="mle", shrinkage=0.2).fit(rows, labels)
    assert_allclose(model.predict_proba(rows), fresh.predict_proba(rows), rtol=1e-12)
