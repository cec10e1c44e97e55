"""The face of PCA: scikit-learn's names and signs, the algebra's verbs, and answers that are stated."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context, decomposition
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import tamis
from tamis.estimators import PCA, BayesianLinearRegression

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 5)) @ rng.normal(size=(5, 5)) + [1.0, -2.0, 3.0, 0.0, 5.0]
GAPS = np.where(rng.random(X.shape) < 0.15, np.nan, X)
NAMES = ["age", "height", "weight", "width", "depth"]
SHOWN = (
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "mean_",
    "noise_variance_",
)


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [
        PCA(),
        PCA(1, whiten=True),
        PCA(0.9),
        PCA("held-out"),
        PCA(missing="em"),
        PCA(1, solver="rows"),
        PCA(1, solver="randomized", random_state=0),
    ]
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("count", [None, 1, 3, 0.8, 0.999, "mle"])
def test_attributes_are_scikit_learns(count: Any) -> None:
    peer, model = decomposition.PCA(count, svd_solver="full").fit(X), PCA(count).fit(X)
    for name in SHOWN:
        assert_allclose(getattr(model, name), getattr(peer, name), rtol=1e-10, atol=1e-12)
    assert model.n_components_ == peer.n_components_
    assert model.n_samples_ == 80
    assert model.n_features_in_ == 5
    assert_allclose(model.transform(X), peer.transform(X), atol=1e-11)
    assert_allclose(model.inverse_transform(model.transform(X)), peer.inverse_transform(peer.transform(X)))
    assert_allclose(model.score_samples(X), peer.score_samples(X))
    assert_allclose(model.score(X), peer.score(X))
    assert_allclose(model.get_covariance(), peer.get_covariance(), atol=1e-12)
    assert_allclose(model.get_precision(), peer.get_precision(), rtol=1e-8, atol=1e-10)
    assert model.get_feature_names_out().tolist() == peer.get_feature_names_out().tolist()


def test_whitened_codes_are_scikit_learns() -> None:
    peer, model = decomposition.PCA(3, whiten=True).fit(X), PCA(3, whiten=True).fit(X)
    assert_allclose(model.transform(X), peer.transform(X), atol=1e-11)
    assert_allclose(model.fit_transform(X), peer.fit_transform(X), atol=1e-11)
    assert_allclose(model.inverse_transform(peer.transform(X)), peer.inverse_transform(peer.transform(X)))
    assert_allclose(model.get_covariance(), PCA(3).fit(X).get_covariance())


@pytest.mark.parametrize("solver", ["moments", "rows", "randomized"])
def test_a_large_mean_is_no_matter(solver: str) -> None:
    """scikit-learn's PCA says 45 and 0."""
    rows = np.random.default_rng(3).normal(size=(200, 2)) * [1.0, 2.0]
    near, far = PCA(2, solver=solver).fit(rows), PCA(2, solver=solver).fit(rows + 1e8)
    assert_allclose(
        far.explained_variance_, near.explained_variance_, rtol=1e-6
    )  # 1e8 + x is rounded to 1e-8
    assert_allclose(far.transform(rows + 1e8), near.transform(rows), atol=1e-7)
    single = (rows + 1e4).astype(np.float32)
    expected = np.linalg.svd(single.astype(float) - single.astype(float).mean(axis=0), compute_uv=False)
    assert_allclose(PCA(2, solver=solver).fit(single).singular_values_, expected, rtol=1e-10)


def test_forgetting_is_exact_to_the_bit_at_a_large_mean() -> None:
    rows = np.random.default_rng(4).normal(size=(2000, 3)) + 1e8
    model = PCA(exact=True).fit(rows).unlearn(rows[10:])
    alone = PCA(exact=True).fit(rows[:10])
    assert model.statistic_ == alone.statistic_
    assert_array_equal(model.components_, alone.components_)
    roughly = PCA().fit(rows).unlearn(rows[10:])
    assert_allclose(roughly.explained_variance_, alone.explained_variance_, rtol=1e-9)


def test_sparse_rows_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.models.components.model._DENSE_CELLS", 60)
    monkeypatch.setattr("tamis.models.components.wide._CELLS", 60)
    monkeypatch.setattr("tamis.models.components.held_out._CELLS", 60)
    rows = np.where(
        np.random.default_rng(5).random((50, 6)) < 0.7, 0.0, np.random.default_rng(6).normal(size=(50, 6))
    )
    for form in (sparse.csr_array(rows), sparse.csc_matrix(rows), sparse.coo_array(rows)):
        ours = PCA(2, exact=True).fit(form)
        assert ours.statistic_ == PCA(2, exact=True).fit(rows).statistic_
        assert_allclose(ours.transform(form), ours.transform(rows), atol=1e-13)
        assert_allclose(ours.score_samples(form), ours.score_samples(rows))
        held, told = ours.cross_validate(form, 4), ours.cross_validate(rows, 4)
        assert_allclose(held.log_densities, told.log_densities)
        for solver in ("rows", "randomized"):
            wide = PCA(2, solver=solver, random_state=0).fit(form)
            assert_allclose(wide.components_, ours.components_, atol=1e-6)
            assert_allclose(wide.noise_variance_, ours.noise_variance_, rtol=1e-6)
    assert PCA("held-out").fit(form).n_components_ == PCA("held-out").fit(rows).n_components_
    assert_allclose(PCA(2).fit(form).merge(PCA(2).fit(rows)).mean_, rows.mean(axis=0), atol=1e-15)


# ── the algebra ──


def test_learning_goes_on_after_a_first_row() -> None:
    model = PCA(2)
    for row in X:
        model.partial_fit(row[None])
    assert_allclose(model.components_, PCA(2).fit(X).components_, atol=1e-12)
    lone = PCA().partial_fit(X[:1])
    assert not hasattr(lone, "components_")
    with pytest.raises(ValueError, match="got n_samples=1 in weight, expected above 1: one sample"):
        lone.transform(X)


def test_decay_keeps_directions_and_counts_less() -> None:
    model = PCA(2).fit(X)
    before = model.explained_variance_ratio_
    assert model.decay(0.5).n_samples_ == 40
    assert_allclose(model.explained_variance_ratio_, before)
    assert_allclose(model.explained_variance_, np.linalg.svd(X - X.mean(0))[1][:2] ** 2 * 0.5 / 39)
    with pytest.raises(ValueError, match="got factor=2"):
        model.decay(2)


def test_infer_reads_no_data_again() -> None:
    model = PCA(1).fit(X).infer(n_components=3, whiten=True)
    assert_allclose(model.transform(X), PCA(3, whiten=True).fit(X).transform(X))
    with pytest.raises(ValueError, match="got n_components=9"):
        model.infer(n_components=9)
    assert model.n_components == 3
    assert PCA("held-out").fit(X).infer(n_components=2).n_components_ == 2
    with pytest.raises(ValueError, match="learned without folds"):
        model.infer(n_components="held-out")


def test_what_cannot_be_merged_is_refused() -> None:
    model = PCA(2).fit(X)
    with pytest.raises(ValueError, match="different columns"):
        model.merge(PCA(2).fit(X[:, :3]))
    with pytest.raises(TypeError, match="got a BayesianLinearRegression to merge"):
        model.merge(BayesianLinearRegression().fit(X, X[:, 0]))
    with pytest.raises(ValueError, match="one model learned with n_components='held-out'"):
        model.merge(PCA("held-out").fit(X))
    with pytest.raises(ValueError, match="more would be subtracted"):
        model.unlearn(np.concatenate([X, X]))
    with pytest.raises(ValueError, match="every row would be forgotten"):
        PCA(2, exact=True).fit(X).unlearn(X)
    assert model.n_samples_ == 80


@pytest.mark.parametrize("solver", ["rows", "randomized"])
def test_wide_forms_say_what_they_cannot_do(solver: str) -> None:
    wide = np.random.default_rng(7).normal(size=(20, 40))
    model = PCA(2, solver=solver, random_state=0).fit(wide)
    assert model.solver_ == solver
    assert_allclose(model.components_, PCA(2).fit(wide).components_, atol=1e-3)
    assert (model.error_bound_ > 0) == (solver == "randomized")
    for verb in (model.unlearn, model.merge, model.decay, model.infer):
        arguments = {"unlearn": (wide,), "merge": (model,), "decay": (0.5,), "infer": ()}[verb.__name__]
        with pytest.raises(ValueError, match=r"keeps no statistic to .*, expected solver='moments'"):
            verb(*arguments)
    with pytest.raises(AttributeError, match="has no partial_fit, because it keeps no statistic"):
        model.partial_fit(wide)
    assert not hasattr(model, "statistic_")
    assert hasattr(PCA, "partial_fit")


def test_the_solver_is_chosen_by_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.models.components.wide._FEW_COLUMNS", 30)
    wide = np.random.default_rng(8).normal(size=(40, 60))
    assert PCA(2).fit(wide[:, :30]).solver_ == "moments"
    assert PCA(2).fit(wide).solver_ == "randomized"
    assert PCA(2).fit(wide[:20]).solver_ == "rows"
    assert PCA(20).fit(wide).solver_ == "rows"
    assert PCA().fit(wide).solver_ == "rows"
    assert PCA().fit(wide.T).solver_ == "moments"
    assert PCA("held-out").fit(wide).solver_ == "rows"
    assert PCA("held-out").fit(wide.T).solver_ == "moments"
    assert PCA("held-out").partial_fit(wide).partial_fit(wide).solver_ == "moments"
    later = PCA().fit(wide)
    with pytest.raises(ValueError, match="solver='rows', which keeps no statistic to add to"):
        later.partial_fit(wide)
    monkeypatch.setattr("tamis.models.components.wide._MAX_COLUMNS", 50)
    with pytest.raises(ValueError, match="got 60 columns, whose products"):
        PCA().partial_fit(wide)


# ── how many ──


def test_the_number_held_out_is_the_same_in_any_shards() -> None:
    whole = PCA("held-out").fit(X)
    parts = PCA("held-out").partial_fit(X[50:]).partial_fit(X[:50])
    assert_allclose(whole.count_scores_, parts.count_scores_, rtol=1e-10)
    assert whole.n_components_ == int(np.argmax(whole.count_scores_)) + 1
    assert PCA("mle").fit(X).count_scores_.shape == (4,)
    assert not hasattr(PCA(2).fit(X), "count_scores_")
    for form in (wide := np.random.default_rng(8).normal(size=(30, 40)), sparse.csr_array(wide)):
        rows, sums = PCA("held-out", solver="rows").fit(form), PCA("held-out", solver="moments").fit(wide)
        assert rows.n_components_ == sums.n_components_
        assert_allclose(rows.count_scores_, sums.count_scores_, rtol=1e-7)
    low = np.random.default_rng(9).normal(size=(400, 3)) @ np.random.default_rng(10).normal(size=(3, 10))
    noisy = low + 0.1 * np.random.default_rng(11).normal(size=(400, 10))
    assert PCA("held-out").fit(noisy).n_components_ == 3
    with pytest.raises(ValueError, match="got rows of 1 fold"):
        PCA("held-out").fit(np.ones((10, 3)))


# ── gaps ──


def test_gaps_are_guessed() -> None:
    model = PCA(2, missing="em", tol=1e-10).fit(GAPS)
    told = model.log_likelihoods_
    assert len(told) == model.n_iter_ > 5
    assert np.diff(told).min() > -1e-9
    codes = model.transform(GAPS)
    assert np.isfinite(codes).all()
    full = ~np.isnan(GAPS).any(axis=1)
    assert_allclose(codes[full], (X[full] - model.mean_) @ model.components_.T, atol=1e-11)
    assert np.isfinite(model.score_samples(GAPS)).all()
    assert_allclose(model.transform(np.full((1, 5), np.nan)), 0.0, atol=1e-12)
    assert model.explain(GAPS, 0).values().shape == (80, 5)
    with pytest.raises(
        ValueError, match="hold values that EM imputed, expected a statistic of rows without gaps"
    ):
        model.log_likelihood()
    assert_allclose(model.log_likelihood(PCA().fit(X).statistic_), model.score_samples(X).sum())
    assert np.isfinite(model.cross_validate(X).errors).all()


def test_without_gaps_em_is_not_needed() -> None:
    for name in SHOWN:
        assert_allclose(getattr(PCA(2, missing="em").fit(X), name), getattr(PCA(2).fit(X), name), rtol=1e-14)
    assert PCA(2, missing="em").fit(X).n_iter_ == 1
    assert not hasattr(PCA(2).fit(X), "log_likelihoods_")


def test_gaps_where_none_are_taken_are_refused() -> None:
    row, column = np.argwhere(np.isnan(GAPS))[0]
    message = f"column {column} holds NaN in row {row}, expected finite numbers: .* set missing='em'"
    for refused in (PCA().fit, PCA(solver="rows").fit, PCA().fit(X).transform, PCA().partial_fit):
        with pytest.raises(ValueError, match=message):
            refused(GAPS)
    with pytest.raises(ValueError, match="imputed together, so pass all rows to fit"):
        PCA(missing="em").fit(X).partial_fit(GAPS)
    with pytest.raises(
        ValueError, match=r"got n_components=0\.5 for rows with gaps, expected a whole number"
    ):
        PCA(0.5, missing="em").fit(GAPS)
    with pytest.raises(ValueError, match="got rows with gaps and solver='rows'"):
        PCA(2, missing="em", solver="rows").fit(GAPS)
    with pytest.raises(ValueError, match="drop or fill those rows"):
        PCA(missing="em").cross_validate(GAPS)
    with pytest.raises(ValueError, match="column 'age' holds NaN in row 1"):
        PCA().fit(pd.DataFrame({"age": [1.0, np.nan], "height": [1.0, 2.0]}))


def test_em_that_is_cut_short_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(ConvergenceWarning, match="EM did not converge in 2 steps"):
        model = PCA(2, missing="em", max_iter=2, verbose=True).fit(GAPS)
    assert model.n_iter_ == 2
    assert "PCA: 2 of at most 2 steps" in capsys.readouterr().err


# ── other answers ──


def test_the_likelihood_is_in_the_sums() -> None:
    model = PCA(2).fit(X[:50], sample_weight=np.arange(50) % 3)
    told = model.score_samples(X[:50]) @ (np.arange(50) % 3)
    assert_allclose(model.log_likelihood(), told)
    assert_allclose(
        model.log_likelihood(PCA("held-out").fit(X[50:]).statistic_), model.score_samples(X[50:]).sum()
    )
    weights = np.arange(50) % 3
    assert_allclose(model.score(X[:50], sample_weight=weights), told / weights.sum())


def test_explanations_sum_to_what_they_explain() -> None:
    for model in (PCA(2).fit(X), PCA(2, whiten=True).fit(X)):
        for k in range(2):
            assert_allclose(model.explain(X, k).prediction, model.transform(X)[:, k], atol=1e-12)
        error = np.square(X - model.inverse_transform(model.transform(X))).sum(axis=1)
        assert_allclose(model.explain(X).prediction, error)
    frame = pd.DataFrame(X, columns=NAMES, index=np.arange(80) + 7)
    told = PCA(2).fit(frame).explain(frame)
    assert told.contributions.columns.tolist() == NAMES
    odd = frame.assign(width=frame["width"] + 1000.0)
    assert PCA(1).fit(frame).explain(odd).top(0, 1)[0][0] == "width"


def test_draws_look_like_the_rows() -> None:
    drawn = PCA(3).fit(pd.DataFrame(X, columns=NAMES)).sample(20_000, random_state=0)
    assert drawn.columns.tolist() == NAMES
    assert_allclose(drawn.cov(), PCA(3).fit(X).get_covariance(), atol=0.5)
    assert PCA(3).fit(pl.DataFrame(X, schema=NAMES)).sample(2).columns == NAMES
    assert_array_equal(PCA(2).fit(X).sample(3, random_state=1), PCA(2).fit(X).sample(3, random_state=1))


def test_leaving_one_out_is_fitting_again() -> None:
    held = PCA(2).cross_validate(X[:12], folds="leave-one-out")
    for row in range(12):
        model = PCA(2).fit(np.delete(X[:12], row, axis=0))
        assert_allclose(held.log_densities[row], model.score(X[row : row + 1]), rtol=1e-8)
    grouped = PCA(2).cross_validate(X, folds=4, groups=np.arange(80) // 10, random_state=0)
    assert len(set(zip(np.arange(80) // 10, grouped.fold.tolist(), strict=True))) == 8


def test_frames_keep_their_names() -> None:
    for frame in (pd.DataFrame(X, columns=NAMES), pl.DataFrame(X, schema=NAMES)):
        model = PCA(2).fit(frame)
        assert model.feature_names_in_.tolist() == NAMES
        assert_allclose(model.transform(frame[NAMES[::-1]]), PCA(2).fit(X).transform(X))
        codes = model.set_output(transform="pandas").transform(frame)
        assert codes.columns.tolist() == ["pca0", "pca1"]
    assert make_pipeline(PCA(2), BayesianLinearRegression()).fit(X, X[:, 0]).score(X, X[:, 0]) > 0


@pytest.mark.parametrize(
    "model",
    [
        PCA(2).fit(pd.DataFrame(X, columns=NAMES)),
        PCA("held-out", exact=True).fit(X),
        PCA(2, missing="em", whiten=True).fit(GAPS),
        PCA(2, solver="randomized", random_state=0).fit(X),
        PCA(0.9, solver="rows").fit(X),
    ],
    ids=["frame", "held-out", "gaps", "randomized", "rows"],
)
def test_a_file_holds_all_of_it(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "model.tamis")
    for back in (tamis.load(tmp_path / "model.tamis"), pickle.loads(pickle.dumps(model))):
        assert back.get_params() == model.get_params()
        assert_array_equal(back.transform(X), model.transform(X))
        for name in (*SHOWN, "n_samples_", "n_iter_", "solver_", "error_bound_"):
            assert_array_equal(getattr(back, name), getattr(model, name))
        if model.solver_ == "moments":
            assert back.statistic_ == model.statistic_
            assert_array_equal(back.partial_fit(X).mean_, clone_learned(model).partial_fit(X).mean_)


@pytest.mark.parametrize("count", [3, "held-out"])
def test_a_file_holds_what_was_inferred_not_what_was_set_since(count: Any, tmp_path: Path) -> None:
    model = PCA(count).fit(X)
    model.set_params(n_components=2).save(tmp_path / "model.tamis")
    back = tamis.load(tmp_path / "model.tamis")
    assert back.n_components == 2
    assert_array_equal(back.components_, model.components_)
    assert hasattr(back, "count_scores_") == hasattr(model, "count_scores_")
    assert back.partial_fit(X).n_components_ == 2
    far = np.resize(X, (16_000, 5)) + 1e9 * (np.arange(16_000) % 8)[:, None]
    PCA(2).fit(far).save(tmp_path / "far.tamis")
    with pytest.raises(ValueError, match="too little is left"):
        tamis.load(tmp_path / "far.tamis").unlearn(far[far[:, 0] > 5e8])
    PCA(2).partial_fit(X[:1]).save(tmp_path / "lone.tamis")  # of which nothing can be inferred
    assert tamis.load(tmp_path / "lone.tamis").partial_fit(X[1:]).n_components_ == 2


def test_what_a_copy_infers_is_its_own() -> None:
    model = PCA(1).partial_fit(X)
    other = copy.copy(model).set_params(n_components=3)
    assert other.n_components_ == 3
    assert model.n_components_ == 1


def clone_learned(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


def test_a_clone_has_learned_nothing() -> None:
    with pytest.raises(NotFittedError):
        clone(PCA(2).fit(X)).transform(X)
    with config_context(enable_metadata_routing=True):
        assert PCA().set_fit_request(sample_weight=True).set_partial_fit_request(sample_weight=True)
