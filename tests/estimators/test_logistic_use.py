"""Logistic regression in use: frames, labels, streams, explanations, files and folds."""

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import tamis
from tamis import LogisticRegression
from tamis.arrays import Array

each_number = pytest.mark.parametrize("classes", [2, 3])
each_library = pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
NAMES = np.array(["no", "yes", "maybe"])


def drawn(classes: int = 2, n: int = 120, d: int = 3, seed: int = 0) -> tuple[Array, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) + [0.0, 1.0, -2.0][:d]
    truth = rng.normal(size=(d, classes))
    return rows, NAMES[(rows @ truth + rng.gumbel(size=(n, classes))).argmax(axis=1)]


def near(one: LogisticRegression, other: LogisticRegression, tolerance: float) -> None:
    assert one.classes_.tolist() == other.classes_.tolist()
    assert_allclose(one.coef_, other.coef_, rtol=tolerance, atol=tolerance)
    assert_allclose(one.intercept_, other.intercept_, rtol=tolerance, atol=tolerance)


# ── frames and labels ──


@each_library
@each_number
def test_frames_are_their_numbers_with_names(library: Any, classes: int) -> None:
    rows, labels = drawn(classes)
    frame = library.DataFrame({name: rows[:, j] for j, name in enumerate("abc")})
    model = LogisticRegression().fit(frame, labels)
    near(model, LogisticRegression().fit(rows, labels), 1e-12)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(model.predict(frame[["c", "a", "b"]]), model.predict(frame))
    with pytest.raises(ValueError, match="no column 'b'"):
        model.predict(frame[["a", "c"]])


@pytest.mark.parametrize(
    ("first", "second"), [("ham", "spam"), (False, True), (-1, 7), (0.0, 1.0), ("Zoë", "zebra")]
)
def test_labels_of_any_kind_keep_their_kind(first: Any, second: Any) -> None:
    rows, labels = drawn()
    model = LogisticRegression().fit(rows, [second if label == "yes" else first for label in labels])
    assert model.classes_.tolist() == [first, second]
    assert set(model.predict(rows).tolist()) == {first, second}
    assert_allclose(model.coef_, LogisticRegression().fit(rows, labels == "yes").coef_, rtol=1e-12)


@each_number
def test_the_order_of_rows_does_not_name_the_classes(classes: int) -> None:
    rows, labels = drawn(classes)
    order = np.random.default_rng(1).permutation(len(rows))
    model, other = (
        LogisticRegression().fit(rows, labels),
        LogisticRegression().fit(rows[order], labels[order]),
    )
    near(model, other, 1e-8)
    assert model.classes_.tolist() == sorted(model.classes_.tolist())


@pytest.mark.parametrize("label", [None, np.nan])
def test_a_missing_label_is_named(label: Any) -> None:
    rows, _ = drawn(n=3)
    with pytest.raises(ValueError, match="label 1 is missing"):
        LogisticRegression().fit(rows, [1.0, label, 0.0])


def test_what_cannot_be_is_refused() -> None:
    rows, labels = drawn()
    for wrong, words in (
        ({"alpha": -1.0}, "alpha=-1"),
        ({"alpha": "best"}, "alpha='best'"),
        ({"alpha": [1.0, 2.0]}, "shape"),
        ({"solver": "sgd"}, "solver='sgd'"),
        ({"posterior": "half"}, "posterior='half'"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"class_weight": "even"}, "class_weight='even'"),
        ({"tol": -1.0}, "tol"),
        ({"intercept_alpha": -2.0}, "intercept_alpha"),
        ({"alpha": 2.0, "prior": (np.zeros(3), np.eye(3))}, "both alpha and prior"),
    ):
        parameters: dict[str, Any] = dict(wrong)
        with pytest.raises(ValueError, match=words) as caught:
            LogisticRegression(**parameters).fit(rows, labels)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="predictive='mean'"):
        LogisticRegression(predictive="mean").fit(rows, labels).predict_proba(rows)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected two"):
        LogisticRegression("evidence", prior=(np.zeros(3), np.eye(3))).fit(*drawn(3))
    with pytest.raises(ValueError, match="at least 2 classes"):
        LogisticRegression().fit(rows, np.ones(len(rows)))
    with pytest.raises(NotFittedError):
        LogisticRegression().predict(rows)


@each_number
def test_weights_of_classes_and_averages_are_checked_when_fitting(classes: int) -> None:
    rows, labels = drawn(classes)
    for wrong, words in (
        ({"class_weight": [1.0, 2.0]}, "expected 'balanced' or a mapping"),
        ({"class_weight": {"yes": -1.0}}, "-1.0 for 'yes'"),
        ({"class_weight": {"yes": np.nan}}, "nan for 'yes'"),
        ({"class_weight": {"yes": "much"}}, "'much' for 'yes'"),
        ({"class_weight": {"yse": 2.0}}, "'yse', expected labels among"),
        ({"predictive": "mean"}, "predictive='mean'"),
        ({"n_draws": 0}, "n_draws=0"),
        ({"n_draws": 2.5}, "n_draws=2.5"),
    ):
        parameters: dict[str, Any] = dict(wrong)
        for verb in ("fit", "partial_fit"):
            with pytest.raises(ValueError, match=words) as caught:
                getattr(LogisticRegression(**parameters), verb)(rows, labels)
            assert "\n" not in str(caught.value)
    folds = np.where(labels == "yes", 0, 1 + np.arange(len(labels)) % 2)  # a fold without a weighed class
    LogisticRegression(class_weight={"yes": 2.0, "no": 1.0}).cross_validate(*drawn(3), folds=folds)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_numbers_too_large_to_be_squared_are_refused(form: Any) -> None:
    rows, labels = drawn()
    rows[:, 1] *= 1e160
    with pytest.raises(ValueError, match=r"column 1 holds .*can be squared.*rescale the column"):
        LogisticRegression().fit(form(rows), labels)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_numbers_that_are_none_are_refused(wrong: float, form: Any) -> None:
    rows, labels = drawn()
    rows[4, 1] = wrong
    with pytest.raises(ValueError, match=r"NaN|infinity|inf"):
        LogisticRegression().fit(form(rows), labels)


# ── streams ──


@each_number
def test_parts_learned_one_after_the_other_come_near_the_whole(classes: int) -> None:
    rows, labels = drawn(classes, 3000)
    whole = LogisticRegression().fit(rows, labels)
    parts = LogisticRegression()
    for index in np.array_split(np.arange(3000), 5):
        parts.partial_fit(rows[index], labels[index], classes=NAMES[:classes])
    near(parts, whole, 0.05)
    assert_allclose(parts.coef_std_, whole.coef_std_, rtol=0.05)
    assert np.isfinite(parts.log_evidence_)


def test_a_first_part_of_one_class_is_fine_if_the_other_is_named() -> None:
    rows, labels = drawn(n=400)
    order = np.argsort(labels, kind="stable")
    parts = LogisticRegression()
    parts.partial_fit(rows[order[:50]], labels[order[:50]], classes=["no", "yes"])
    parts.partial_fit(rows[order[50:]], labels[order[50:]])
    assert np.mean(parts.predict(rows) == labels) > 0.7


def test_a_class_that_was_not_named_is_refused() -> None:
    rows, labels = drawn(3)
    two = labels != "maybe"
    model = LogisticRegression().partial_fit(rows[two], labels[two])
    before = model.coef_
    for verb in (model.partial_fit, model.unlearn_approximately):
        with pytest.raises(ValueError, match=r"class 'maybe'.*classes="):
            verb(rows, labels)
    assert np.array_equal(model.coef_, before)


@each_number
def test_models_of_parts_merge_to_nearly_the_whole(classes: int) -> None:
    rows, labels = drawn(classes, 3000)
    whole = LogisticRegression().fit(rows, labels)
    first, *others = [
        LogisticRegression().fit(rows[index], labels[index]) for index in np.array_split(np.arange(3000), 3)
    ]
    near(first.merge(*others), whole, 0.05)
    assert_allclose(first.coef_std_, whole.coef_std_, rtol=0.1)


def test_explanations_of_a_merged_model_are_relative_to_the_mean_of_all_rows() -> None:
    rows, labels = drawn(2, 300)
    rows[:100] += 1.0
    first, second = LogisticRegression(), LogisticRegression()
    first.fit(rows[:100], labels[:100]).merge(second.fit(rows[100:], labels[100:]))
    at_mean = first.explain(rows.mean(axis=0, keepdims=True))
    assert_allclose(at_mean.contributions, 0.0, atol=1e-12)


def test_models_of_other_things_do_not_merge() -> None:
    rows, labels = drawn()
    model = LogisticRegression().fit(rows, labels)
    with pytest.raises(ValueError, match="classes"):
        model.merge(LogisticRegression().fit(*drawn(3)))
    with pytest.raises(ValueError, match="priors"):
        model.merge(LogisticRegression(alpha=2.0).fit(rows, labels))
    with pytest.raises(ValueError, match="columns"):
        model.merge(LogisticRegression().fit(rows[:, :2], labels))
    with pytest.raises(TypeError, match="GaussianNB"):
        model.merge(tamis.GaussianNB().fit(rows, labels))


@each_number
def test_decay_widens_the_posterior_and_leaves_the_prior(classes: int) -> None:
    rows, labels = drawn(classes)
    model = LogisticRegression().fit(rows, labels)
    before, middle = model.coef_std_, model.coef_
    model.decay(0.5)
    assert (model.coef_std_ > before).all()
    assert np.linalg.norm(model.coef_) < np.linalg.norm(middle)
    assert (model.decay(1e-6).coef_std_ < 1.0 + 1e-9).all()  # never wider than N(0, 1)
    with pytest.raises(ValueError, match="factor=2"):
        model.decay(2.0)


def test_shares_of_all_rows_are_not_taken_from_a_part() -> None:
    rows, labels = drawn()
    model = LogisticRegression(class_weight="balanced").fit(rows, labels)
    before = model.coef_
    for verb in (model.partial_fit, model.unlearn_approximately, clone(model).partial_fit):
        with pytest.raises(ValueError, match=r"class_weight='balanced'.*mapping"):
            verb(rows[:5], labels[:5])
    assert np.array_equal(model.coef_, before)


def test_a_mapping_weighs_what_is_taken_away_as_it_was_learned() -> None:
    rows, labels = drawn(n=400)
    share = {"no": 0.5, "yes": 2.0}
    model = LogisticRegression(class_weight=share).fit(rows, labels)
    model.unlearn_approximately(rows[:4], labels[:4])
    refit = LogisticRegression(class_weight=share).fit(rows[4:], labels[4:])
    assert np.abs((model.coef_ - refit.coef_) / refit.coef_std_).max() < 0.01


# ── explanations ──


@each_number
@pytest.mark.parametrize("form", ["dense", "sparse", "pandas", "polars"])
def test_what_columns_say_sums_to_the_log_odds(classes: int, form: str) -> None:
    rows, labels = drawn(classes)
    named = {name: rows[:, j] for j, name in enumerate("abc")}
    forms = {
        "dense": rows,
        "sparse": sparse.csr_array(rows),
        "pandas": pd.DataFrame(named),
        "polars": pl.DataFrame(named),
    }
    model = LogisticRegression().fit(forms[form], labels)
    log = model.predict_log_proba(forms[form])
    found = model.explain(forms[form], for_="yes", against="no")
    one, other = (model.classes_.tolist().index(name) for name in ("yes", "no"))
    assert_allclose(found.log_odds, log[:, one] - log[:, other], rtol=1e-9, atol=1e-9)
    free = model.explain(forms[form])
    order = np.sort(log, axis=1)
    expected = log[:, 1] - log[:, 0] if classes == 2 else order[:, -1] - order[:, -2]
    assert_allclose(free.log_odds, expected, rtol=1e-9, atol=1e-9)
    if form in ("pandas", "polars"):
        assert list(found.names) == ["a", "b", "c"]
        assert list(found.contributions.columns) == ["a", "b", "c"]
    if form == "sparse":
        assert sparse.issparse(found.contributions)


# ── files ──


@each_number
@pytest.mark.parametrize("kept", ["full", "diagonal", "none"])
@pytest.mark.parametrize("removed", [False, True])
def test_a_model_comes_back_from_a_file_and_from_a_pickle(
    classes: int, kept: Any, removed: bool, tmp_path: Path
) -> None:
    rows, labels = drawn(classes)
    model = LogisticRegression(posterior=kept).fit(rows, labels)
    if removed and kept == "full":
        model.unlearn_approximately(rows[:3], labels[:3])
    model.save(tmp_path / "model.tamis")
    for back in (tamis.load(tmp_path / "model.tamis"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(back.predict_log_proba(rows), model.predict_log_proba(rows))
        assert back.classes_.tolist() == model.classes_.tolist()
        if kept != "full":
            continue
        assert np.array_equal(back.coef_covariance_, model.coef_covariance_)
        assert hasattr(back, "removal_bound_") == removed
        assert not removed or back.removal_bound_ == model.removal_bound_
        again = (
            clone(model)
            .fit(rows, labels)
            .unlearn_approximately(rows[: 5 if removed else 2], labels[: 5 if removed else 2])
        )
        start = 3 if removed else 0
        stop = 5 if removed else 2
        back.unlearn_approximately(rows[start:stop], labels[start:stop])
        assert_allclose(back.coef_, again.coef_, rtol=1e-9, atol=1e-9)
        assert back.removal_bound_ == pytest.approx(again.removal_bound_, rel=1e-6)


# ── folds ──


@each_number
@pytest.mark.parametrize("way", ["plugin", "probit"])
def test_folds_are_refits(classes: int, way: Any) -> None:
    rows, labels = drawn(classes, 90)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 90)
    fold = np.arange(90) % 4
    model = LogisticRegression(predictive=way, tol=1e-18)
    held = model.cross_validate(rows, labels, folds=fold, sample_weight=weight)
    for number in range(4):
        rest = fold != number
        refit = clone(model).fit(rows[rest], labels[rest], weight[rest])
        near = 1e-8 if way == "plugin" else 1e-3  # the curvature is taken near the top, from either side
        assert_allclose(held.log_joint[~rest], refit.predict_log_proba(rows[~rest]), rtol=near, atol=near)


@each_number
def test_one_row_left_out_is_near_a_refit(classes: int) -> None:
    rows, labels = drawn(classes, 40)
    held = LogisticRegression().cross_validate(rows, labels, folds="leave-one-out")
    whole = LogisticRegression().fit(rows, labels).predict_log_proba(rows)
    expected = np.concatenate(
        [
            LogisticRegression()
            .fit(np.delete(rows, i, axis=0), np.delete(labels, i))
            .predict_log_proba(rows[[i]])
            for i in range(40)
        ]
    )
    assert np.abs(held.log_joint - expected).max() < 0.25 * np.abs(whole - expected).max()


@each_number
@pytest.mark.parametrize("kept", ["diagonal", "none"])
def test_one_row_left_out_needs_the_whole_posterior(classes: int, kept: Any) -> None:
    with pytest.raises(ValueError, match=r"needs the full posterior.*posterior='full' or a number of folds"):
        LogisticRegression(posterior=kept).cross_validate(*drawn(classes), folds="leave-one-out")


def test_averages_over_many_classes_take_few_rows_at_a_time() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(4000, 3)), np.arange(4000) % 40
    model = LogisticRegression(predictive="probit").fit(rows, labels)
    tracemalloc.start()
    found = model.predict_proba(rows)
    model.cross_validate(rows, labels, folds="leave-one-out")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 4000 * 40 * 40  # one matrix a row
    assert_allclose(found[:50], model.predict_proba(rows[:50]), rtol=1e-9)


# ── bars and callbacks ──


def test_a_bar_says_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    LogisticRegression(verbose=1).fit(*drawn())
    said = capsys.readouterr().err
    assert said.startswith("LogisticRegression: ")
    assert "of at most 100 steps, objective -" in said


def test_callbacks_are_called() -> None:
    callback = pytest.importorskip("sklearn.callback")
    bar = callback.ProgressBar()
    model = LogisticRegression()
    if not hasattr(model, "set_callbacks"):
        pytest.skip("this scikit-learn has no callbacks")
    model.set_callbacks(bar)
    model.fit(*drawn())
    assert model.converged_
