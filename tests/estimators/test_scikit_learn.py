"""Faces behave as scikit-learn expects of its own."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from tamis.estimators import GaussianNB
from tests.estimators.faces import FACES, PLAIN, Face, named, same

each_face = pytest.mark.parametrize("face", FACES, ids=named)
each_plain_face = pytest.mark.parametrize("face", PLAIN, ids=named)
COUNTING = {face.make for face in FACES if face.counting}


def expected_failures(model: Any) -> dict[str, str]:
    if type(model) not in COUNTING:
        return {}
    return {"check_decision_proba_consistency": "it fits negative counts, whatever positive_only says"}


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [face.make() for face in PLAIN], expected_failed_checks=expected_failures
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@each_face
def test_a_clone_has_the_parameters_and_has_learned_nothing(face: Face) -> None:
    model = face.fitted().set_params(max_iter=7)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.max_iter == 7
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)
    check_is_fitted(model)


@each_face
def test_parameters_set_are_parameters_got(face: Face) -> None:
    model = face.make()
    params = model.get_params()
    for name, value in params.items():
        model.set_params(**{name: value})
    assert model.get_params() == params
    with pytest.raises(ValueError, match="no_such"):
        model.set_params(no_such=1)


@each_face
def test_a_pickled_model_comes_back_the_same(face: Face) -> None:
    rows, labels = face.rows()
    model = face.make().fit(rows, labels)
    assert same(pickle.loads(pickle.dumps(model)), model, rows)


@each_face
def test_a_pickle_learns_on(face: Face) -> None:
    rows, labels = face.rows(60)
    back = pickle.loads(pickle.dumps(face.make().fit(rows[:30], labels[:30])))
    assert same(back.partial_fit(rows[30:], labels[30:]), face.make().fit(rows, labels), rows)


@each_face
def test_a_pipeline_answers_as_its_last_step(face: Face) -> None:
    rows, labels = face.rows()
    pipeline = make_pipeline(FunctionTransformer(), face.make()).fit(rows, labels)
    alone = face.make().fit(rows, labels)
    assert pipeline.predict(rows).tolist() == alone.predict(rows).tolist()
    assert_allclose(pipeline.predict_proba(rows), alone.predict_proba(rows))
    assert pipeline.score(rows, labels) == alone.score(rows, labels)


def smoothing_of(face: Face) -> str:
    """The parameter of the face that moves its answers most."""
    gaussian = {"GaussianNB": "var_smoothing", "NaiveBayes": "strength"}
    return gaussian.get(face.name, "alpha")


def log_loss_of_each_fold(model: Any, rows: Any, labels: Any, folds: int) -> list[float]:
    """The log-loss of each of scikit-learn's folds under the model fitted to the others, one by one."""
    found = []
    for train, test in StratifiedKFold(folds).split(rows, labels):
        fresh = clone(model).fit(rows[train], labels[train])
        own = fresh.predict_log_proba(rows[test])[np.arange(len(test)), labels[test]]
        found.append(-float(own.mean()))
    return found


@each_face
def test_grid_search_tries_each_value_on_each_fold_and_keeps_the_best(face: Face) -> None:
    rows, labels = face.rows(60)
    name, values = smoothing_of(face), [1e-3, 1.0, 30.0]
    search = GridSearchCV(face.make(), {name: values}, cv=3, scoring="neg_log_loss").fit(rows, labels)
    losses = [
        float(np.mean(log_loss_of_each_fold(face.make().set_params(**{name: value}), rows, labels, 3)))
        for value in values
    ]
    assert_allclose(search.cv_results_["mean_test_score"], -np.array(losses), rtol=1e-9)
    assert len({round(loss, 6) for loss in losses}) == len(values)  # the parameter reaches the model
    best = values[int(np.argmin(losses))]
    assert search.best_params_ == {name: best}
    assert same(search.best_estimator_, face.make().set_params(**{name: best}).fit(rows, labels), rows)


@each_face
def test_cross_val_score_is_the_score_of_each_fold_left_out(face: Face) -> None:
    rows, labels = face.rows(60)
    found = cross_val_score(face.make(), rows, labels, cv=4, scoring="neg_log_loss")
    assert_allclose(found, -np.array(log_loss_of_each_fold(face.make(), rows, labels, 4)), rtol=1e-9)
    assert (found < 0).all()


@each_plain_face
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_a_face_can_be_calibrated(face: Face, method: str) -> None:
    rows, labels = face.rows(90)
    calibrated = CalibratedClassifierCV(face.make(), method=method, cv=3).fit(rows, labels)
    assert_allclose(calibrated.predict_proba(rows).sum(axis=1), 1.0)


@each_plain_face
def test_weights_are_routed_to_every_fold(face: Face) -> None:
    rows, labels = face.rows(60)
    weights = np.random.default_rng(1).integers(1, 4, 60).astype(np.float64)
    with config_context(enable_metadata_routing=True):
        model = face.make().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        model.set_partial_fit_request(classes=False, sample_weight=True)
        found = cross_validate(
            model, rows, labels, cv=3, params={"sample_weight": weights}, return_estimator=True
        )
        kept = sum(one.class_count_.sum() for one in found["estimator"])
    assert kept == 2 * weights.sum()  # each row is in two of the three fits


@each_face
def test_a_notebook_shows_the_model(face: Face) -> None:
    for model in (face.make(), face.fitted()):
        assert type(model).__name__ in model._repr_html_()
        assert repr(model).startswith(type(model).__name__)


def takes_nan(face: Face) -> bool:
    """Whether the face learns rows with a missing value."""
    rows, labels = face.rows()
    rows[0, 0] = np.nan
    try:
        face.make().fit(rows, labels)
    except ValueError:
        return False
    return True


@each_face
def test_tags_say_what_the_model_takes(face: Face) -> None:
    tags = get_tags(face.make())
    assert tags.estimator_type == "classifier"
    assert tags.input_tags.allow_nan == takes_nan(face)
    assert tags.input_tags.sparse is (face.sparse or "NaiveBayes" in face.name)
    assert tags.input_tags.positive_only is face.counting
    assert tags.target_tags.required


@each_face
def test_hasattr_tells_whether_the_model_was_fitted(face: Face) -> None:
    attributes = ("classes_", "statistic_", "n_features_in_", "class_count_", "class_log_prior_", "n_iter_")
    assert not any(hasattr(face.make(), name) for name in attributes)
    assert all(hasattr(face.fitted(), name) for name in attributes)


def test_scikit_learns_progress_bar_follows_em(capsys: pytest.CaptureFixture[str]) -> None:
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(-2, 1, (40, 2)), rng.normal(2, 1, (40, 2))])
    labels = [0] * 3 + [None] * 37 + [1] * 3 + [None] * 37
    plain = GaussianNB().fit(rows, labels)
    watched = GaussianNB().set_callbacks(callback.ProgressBar()).fit(rows, labels)
    assert same(plain, watched, rows)
    assert "GaussianNB" in capsys.readouterr().out


def test_callbacks_are_told_of_every_step() -> None:
    pytest.importorskip("sklearn.callback")
    told: list[str] = []

    class Listener:
        def setup(self, estimator: Any, context: Any) -> None:
            told.append("setup")

        def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
            told.append("begin")

        def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> None:
            told.append("end")

        def teardown(self, estimator: Any, context: Any) -> None:
            told.append("teardown")

    rows, labels = [[0.0], [0.5], [0.2], [4.0], [4.5], [4.2]], [0, 0, None, 1, 1, None]
    model = GaussianNB().set_callbacks(Listener()).fit(rows, labels)
    assert told.count("begin") == told.count("end") >= model.n_iter_
