"""Nothing that iterates stops short in silence: it converges, or warns in one line and says what to do."""

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from tamis import decide
from tamis.arrays import Array
from tamis.estimators import (
    PCA,
    FisherDiscriminant,
    GaussianDiscriminant,
    GaussianNB,
    LogisticRegression,
    MatrixFactorization,
    Mixture,
    load,
)
from tests.estimators.faces import FACES, Face, mixed, named, numbers

CLASSIFIERS = [
    *(face for face in FACES if face.draw is not mixed and face.name != "ComplementNB"),
    Face("GaussianDiscriminant-tied", GaussianDiscriminant, numbers),
    Face("GaussianDiscriminant-full", lambda: GaussianDiscriminant("full"), numbers),
    Face("FisherDiscriminant", FisherDiscriminant, numbers),
]


def overlapping(n: int = 200, seed: int = 0) -> Array:
    """Two components that EM tells apart slowly."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0.0, 1.0, (n // 2, 2)), rng.normal(1.5, 1.0, (n // 2, 2))])


def one_line(caught: Any, *words: str) -> bool:
    """Whether there is one warning, of one line with these words, that points at this file."""
    (found,) = [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    message = str(found.message)
    return "\n" not in message and all(word in message for word in words) and found.filename == __file__


# Mixtures


def test_a_mixture_that_stops_early_says_so() -> None:
    rows = overlapping()
    with pytest.warns(ConvergenceWarning) as caught:
        model = Mixture(2, max_iter=3, tol=1e-9, random_state=0).fit(rows)
    assert one_line(caught, "EM did not converge in max_iter=3 iterations", "raise max_iter or tol")
    assert (model.converged_, model.n_iter_, len(model.lower_bounds_)) == (False, 3, 3)
    done = Mixture(2, max_iter=5000, tol=1e-9, random_state=0).fit(rows)  # and no warning, or this raised
    assert done.converged_
    assert done.n_iter_ > 3
    assert abs(done.lower_bounds_[-1] - done.lower_bounds_[-2]) < 1e-9
    assert done.lower_bound_ == pytest.approx(done.score(rows), abs=1e-7)
    assert_allclose(done.lower_bounds_ * len(rows), done.log_likelihoods_, rtol=1e-12)


def test_a_mixture_that_stops_early_in_a_fold_says_so() -> None:
    with pytest.warns(ConvergenceWarning, match="EM did not converge in max_iter=2 iterations"):
        Mixture(2, max_iter=2, tol=1e-9, random_state=0).cross_validate(overlapping(), folds=2)


def test_a_warning_made_an_error_leaves_the_model_as_it_was() -> None:
    rows = overlapping()
    fresh, old = Mixture(2, max_iter=2, tol=1e-9), Mixture(2, random_state=0).fit(rows)
    before = old.statistic_
    for model in (fresh, old.set_params(max_iter=2, tol=1e-9)):
        with pytest.raises(ConvergenceWarning):  # as everywhere in these tests
            model.fit(rows)
    assert old.statistic_ == before
    assert not hasattr(fresh, "converged_")


# Classifiers, some of whose labels are missing


@pytest.mark.parametrize("face", CLASSIFIERS, ids=named)
def test_a_classifier_whose_labels_are_missing_says_whether_em_converged(face: Face, tmp_path: Any) -> None:
    rows, labels = face.rows(120, classes=2)
    known = labels.astype(object)
    known[10:] = None
    with pytest.raises(NotFittedError):
        _ = face.make().converged_
    with pytest.warns(ConvergenceWarning) as caught:
        model = face.make().set_params(max_iter=2, tol=0.0).fit(rows, known)
    assert one_line(caught, "EM did not converge in max_iter=2 iterations", "raise max_iter or tol")
    assert (model.converged_, model.n_iter_, len(model.lower_bounds_)) == (False, 2, 2)
    done = face.make().set_params(max_iter=10_000, tol=1e-7).fit(rows, known)
    assert done.converged_
    assert 2 <= done.n_iter_ == len(done.lower_bounds_) < 10_000
    assert done.lower_bound_ == done.lower_bounds_[-1]
    done.save(tmp_path / "model.tamis")
    back = load(tmp_path / "model.tamis")
    assert (back.converged_, back.n_iter_, back.lower_bound_) == (True, done.n_iter_, done.lower_bound_)
    clear = face.make().set_params(max_iter=1).fit(rows, labels)  # nothing to iterate, and so no warning
    assert (clear.converged_, clear.n_iter_) == (True, 1)
    assert not hasattr(clear, "lower_bound_")


def test_the_bound_of_a_classifier_is_the_likelihood_of_rows_and_known_labels() -> None:
    rows = overlapping(120)
    truth = np.repeat([0, 1], 60)
    known = np.where(np.arange(120) % 6 == 0, truth, -1)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 120)
    model = GaussianNB(missing_label=-1, tol=1e-12, max_iter=10_000, unlabelled_weight=0.5)
    model.fit(rows, known, sample_weight=weights)
    joint = model.predict_joint_log_proba(rows)
    each = np.where(known >= 0, joint[np.arange(120), truth], decide.log_evidence(joint))
    own = np.where(known >= 0, 1.0, 0.5) * weights
    assert model.lower_bound_ == pytest.approx(np.average(each, weights=own), abs=1e-8)


# Everything else that iterates


def test_components_of_rows_with_gaps_say_whether_em_converged() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 4))
    rows[::3, 1] = np.nan
    with pytest.warns(ConvergenceWarning) as caught:
        PCA(2, missing="em", max_iter=2).fit(rows)
    assert one_line(caught, "EM did not converge in 2 steps", "raise max_iter, or tol")
    PCA(2, missing="em", tol=1e-3).fit(rows)


def ratings(feedback: str = "explicit") -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    cell = rng.choice(1200, 500, replace=False)
    user, item = cell // 30, cell % 30
    value = (left[user] * right[item]).sum(axis=1) + 0.3 * rng.normal(size=500)
    return np.column_stack([user, item]), value if feedback == "explicit" else np.abs(value)


def test_a_recommender_says_whether_sweeps_converged(tmp_path: Any) -> None:
    pairs, values = ratings()
    made: dict[str, Any] = {"n_factors": 2, "ridge": 0.1, "random_state": 0}
    with pytest.warns(ConvergenceWarning) as caught:
        model = MatrixFactorization(max_iter=3, tol=1e-8, **made).fit(pairs, values)
    assert one_line(caught, "ALS did not converge in max_iter=3 sweeps", "raise max_iter or tol")
    assert (model.converged_, model.n_iter_) == (False, 3)
    done = MatrixFactorization(max_iter=5000, tol=1e-8, **made).fit(pairs, values)
    assert done.converged_
    done.save(tmp_path / "model.tamis")
    assert load(tmp_path / "model.tamis").converged_
    as_many = MatrixFactorization(max_iter=3, tol=0.0, **made).fit(pairs, values)  # as was asked for
    assert (as_many.converged_, as_many.n_iter_) == (False, 3)


def test_a_recommender_says_whether_what_was_held_out_got_worse() -> None:
    pairs, values = ratings()
    made: dict[str, Any] = {"n_factors": 2, "ridge": 0.1, "random_state": 0, "validation": 0.2}
    with pytest.warns(ConvergenceWarning) as caught:
        model = MatrixFactorization(max_iter=2, **made).fit(pairs, values)
    assert one_line(caught, "still fell after max_iter=2 sweeps", "raise max_iter or tol")
    assert not model.converged_
    assert MatrixFactorization(max_iter=500, **made).fit(pairs, values).converged_


def test_sweeps_of_implicit_feedback_say_whether_they_converged_and_do_not_warn() -> None:
    pairs, values = ratings("implicit")
    made: dict[str, Any] = {"n_factors": 2, "feedback": "implicit", "ridge": 0.1, "random_state": 0}
    few = MatrixFactorization(max_iter=3, **made).fit(pairs, values)
    assert (few.converged_, few.n_iter_) == (False, 3)
    assert MatrixFactorization(max_iter=5000, tol=1e-2, **made).fit(pairs, values).converged_


def test_draws_are_as_many_as_asked_for_and_have_no_test_of_convergence() -> None:
    pairs, values = ratings()
    model = MatrixFactorization(2, method="gibbs", n_draws=5, burn_in=2, random_state=0).fit(pairs, values)
    assert model.n_iter_ == 7
    assert not hasattr(model, "converged_")


# Temperatures


def test_calibration_by_rows_that_are_all_told_right_says_so() -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(0.0, 1.0, (30, 2)), rng.normal(40.0, 1.0, (30, 2))])
    labels = np.repeat(["ham", "spam"], 30)
    model = GaussianNB().fit(rows, labels)
    with pytest.warns(ConvergenceWarning) as caught:
        model.calibrate(rows, labels)
    assert one_line(
        caught, "left-out row is predicted correctly", "set to its bound 9.5e-07", "more rows", "infer()"
    )
    assert model.temperature_ == pytest.approx(2.0**-20)
    assert model.infer().temperature_ == 1.0


def test_calibration_by_rows_that_are_told_by_chance_says_so() -> None:
    """Each row left out is told by its twin, which has the other label."""
    rows = np.repeat(np.array([[0.0], [10.0], [20.0], [30.0]]), 2, axis=0)
    labels = np.tile(["ham", "spam"], 4)
    model = GaussianNB().fit(rows, labels)
    with pytest.warns(ConvergenceWarning) as caught:
        model.calibrate(rows, labels)
    assert one_line(caught, "no better than by chance", "set to its bound 1e+06", "more rows", "infer()")


# A precision by evidence


def test_evidence_that_has_not_settled_on_a_precision_says_so() -> None:
    """With whatever number of steps: it warns, or alpha is that of as many steps as one likes."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 4))
    y = (rng.random(60) < 1.0 / (1.0 + np.exp(-x @ [2.0, -1.0, 0.0, 0.0]))).astype(int)
    settled = LogisticRegression("evidence", max_iter=1000).fit(x, y)
    assert settled.converged_
    quiet = 0
    for most in range(1, 40):
        model = LogisticRegression("evidence", max_iter=most)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(x, y)
        assert model.converged_ == (not caught), most
        if model.converged_:
            quiet += 1
            assert model.alpha_ == pytest.approx(settled.alpha_, rel=1e-2), most
        else:
            assert one_line(caught, "max_iter"), most
    assert 0 < quiet < 39


def test_evidence_settles_on_the_precision_of_largest_evidence() -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(8, 60)), int(rng.integers(1, 6))
        x = rng.normal(size=(n, d)) * np.exp(rng.normal(size=d))
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-x @ rng.normal(size=d)))).astype(int)
        y[:2] = 0, 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = LogisticRegression("evidence", max_iter=1000).fit(x, y)
        if caught:
            assert not model.converged_, seed
            continue
        for factor in (0.9, 1.1):
            other = LogisticRegression(factor * model.alpha_, max_iter=1000).fit(x, y)
            assert other.log_evidence_ <= model.log_evidence_ + 1e-5, seed
