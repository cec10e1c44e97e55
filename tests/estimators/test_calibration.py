"""Probabilities as sure as they are right, and parameters chosen by evidence or by rows left out."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from tamis.arrays import Array
from tamis.estimators import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianDiscriminant,
    GaussianNB,
    MultinomialNB,
    NaiveBayes,
    PoissonNB,
    load,
)

GRID = (0.01, 0.1, 0.5, 1.0, 2.0, 8.0, 50.0)


def repeated(n: int = 400, seed: int = 0, times: int = 6) -> tuple[Array, NDArray[np.int64]]:
    """Each column several times: naive Bayes counts what it says as often."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    rows = rng.normal(size=(n, 2)) + np.array([[0.0, 0.0], [1.2, 0.0], [0.0, 1.2]])[labels]
    return np.tile(rows, times), labels


def documents(n: int = 60, words: int = 40, seed: int = 1) -> tuple[Array, NDArray[np.int64]]:
    """Counts of words, few documents and many words: smoothing matters."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    chances = rng.dirichlet(np.full(words, 0.3), 3)
    return np.stack([rng.multinomial(12, chances[k]) for k in labels]).astype(np.float64), labels


def log_loss(model: Any, rows: Array, labels: NDArray[np.int64]) -> float:
    return float(-model.predict_log_proba(rows)[np.arange(len(rows)), labels].mean())


def test_an_overconfident_model_becomes_as_sure_as_it_is_right() -> None:
    rows, labels = repeated()
    new, truth = repeated(4000, seed=9)
    model = GaussianNB().fit(rows, labels)
    before, named = log_loss(model, new, truth), model.predict(new)
    assert model.temperature_ == 1.0
    model.calibrate(rows, labels)
    assert model.temperature_ == pytest.approx(6.0, rel=0.25)  # every column is there six times
    assert log_loss(model, new, truth) < 0.7 * before
    assert_array_equal(model.predict(new), named)
    assert_allclose(model.predict_proba(new).sum(axis=1), 1.0)
    assert_array_equal(model.predict_proba(new).argmax(axis=1), named)
    sure = model.predict_proba(new).max(axis=1)
    assert sure.mean() == pytest.approx((named == truth).mean(), abs=0.03)


def overlapping(n: int = 45, words: int = 6, seed: int = 1) -> tuple[Array, NDArray[np.int64]]:
    """Counts of words that three classes use nearly alike, each column twice: no model is sure or right."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    chances = rng.dirichlet(np.full(words, 30.0), 3)
    rows = np.stack([rng.multinomial(12, chances[k]) for k in labels]).astype(np.float64)
    return np.tile(rows, 2) + rng.random((n, 2 * words)) * 1e-3, labels  # no column is constant in a class


def log_joint_without_each_row(make: Any, rows: Array, labels: NDArray[np.int64], weights: Any) -> Array:
    """(n, classes): each row under a model that was fitted to all others, one fit per row."""
    found = []
    for i in range(len(rows)):
        rest = np.arange(len(rows)) != i
        weighed = None if weights is None else weights[rest]
        model = make().fit(rows[rest], labels[rest], sample_weight=weighed)
        found.append(model.predict_joint_log_proba(rows[[i]])[0])
    return np.array(found)


def least_loss_temperature(joint: Array, labels: NDArray[np.int64], weights: Any) -> float:
    """By SciPy: the number by which log-joints are divided for the least weighted log-loss."""

    def loss(logarithm: float) -> float:
        logs = joint / np.exp(logarithm)
        own = np.logaddexp.reduce(logs, axis=1) - logs[np.arange(len(labels)), labels]
        return float(np.average(own, weights=weights))

    return float(
        np.exp(minimize_scalar(loss, bounds=(-7.0, 7.0), method="bounded", options={"xatol": 1e-9}).x)
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(
    "make",
    [
        GaussianDiscriminant,
        GaussianNB,
        NaiveBayes,
        MultinomialNB,
        PoissonNB,
        ComplementNB,
        BernoulliNB,
        CategoricalNB,
    ],
)
def test_the_temperature_is_the_best_for_rows_left_out(make: Any, weighted: bool) -> None:
    rows, labels = overlapping()
    if make is BernoulliNB:
        rows = (rows > 2.0).astype(np.float64)
    if make is CategoricalNB:
        rows = np.minimum(np.floor(rows), 4.0)
    # a first third that weighs little, so that the best temperature of rows that weigh the same is another
    weights = np.where(np.arange(len(rows)) < 15, 0.02, 3.0) if weighted else None
    model = make().fit(rows, labels, sample_weight=weights).calibrate(rows, labels, sample_weight=weights)
    left_out = log_joint_without_each_row(make, rows, labels, weights)
    best = least_loss_temperature(left_out, labels, weights)
    assert 0.02 < best < 500.0  # inside the range, where a loss has a minimum
    assert model.temperature_ == pytest.approx(best, rel=1e-5)
    # the two likely mistakes give other numbers, so that the line above tells them from the truth
    learned = model.predict_joint_log_proba(rows)
    assert model.temperature_ != pytest.approx(least_loss_temperature(learned, labels, weights), rel=0.01)
    if weighted:
        assert model.temperature_ != pytest.approx(least_loss_temperature(left_out, labels, None), rel=0.01)


def test_a_temperature_stays_until_the_next_fit_or_other_parameters(tmp_path: Path) -> None:
    rows, labels = repeated()
    model = GaussianNB().fit(rows[:300], labels[:300]).calibrate(rows[:300], labels[:300])
    value = model.temperature_
    model.save(tmp_path / "model.tamis")
    others = [load(tmp_path / "model.tamis"), copy.copy(model), copy.deepcopy(model)]
    others.append(pickle.loads(pickle.dumps(model)))
    for other in others:
        assert other.temperature_ == value
        assert_array_equal(other.predict_proba(rows), model.predict_proba(rows))
    model.partial_fit(rows[300:301], labels[300:301])  # one row waits, and the temperature with it
    assert model.temperature_ == value
    assert model.partial_fit(rows[301:], labels[301:]).temperature_ == value
    assert model.unlearn(rows[:10], labels[:10]).temperature_ == value
    assert model.decay(0.9).temperature_ == value
    assert model.merge(others[0]).temperature_ == value
    assert copy.copy(model).fit(rows, labels).temperature_ == 1.0
    assert model.infer(var_smoothing=1e-6).temperature_ == 1.0  # it was for other parameters


def test_calibration_learns_nothing_and_reads_only_what_was_learned() -> None:
    rows, labels = overlapping()
    model = MultinomialNB().fit(rows, labels)
    before = model.statistic_
    assert model.calibrate(rows, labels).statistic_ == before
    for names, match in (([0, 7], "class 7"), ([0, None], "a label is missing")):
        with pytest.raises(ValueError, match=match) as caught:
            model.calibrate(rows[:2], names)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="learned nothing yet"):
        MultinomialNB().calibrate(rows, labels)


@pytest.mark.parametrize("make", [MultinomialNB, BernoulliNB, PoissonNB, CategoricalNB])
def test_tuning_by_evidence_needs_no_rows_and_finds_the_most(make: Any) -> None:
    rows, labels = documents()
    rows = np.minimum(rows, 3.0)
    model = make().fit(rows, labels)
    model.tune(alpha=GRID)
    brute = {alpha: make(alpha=alpha).fit(rows, labels).log_evidence_ for alpha in GRID}
    assert model.alpha == max(brute, key=brute.__getitem__)
    assert list(model.tune_scores_) == list(GRID)
    assert_allclose(list(model.tune_scores_.values()), list(brute.values()), rtol=1e-12)
    fresh = make(alpha=model.alpha).fit(rows, labels)
    assert_array_equal(model.predict_joint_log_proba(rows), fresh.predict_joint_log_proba(rows))


@pytest.mark.parametrize("make", [MultinomialNB, BernoulliNB, PoissonNB, CategoricalNB, ComplementNB])
def test_tuning_by_rows_left_out_finds_the_least_loss(make: Any) -> None:
    rows, labels = documents(n=30)
    rows = np.minimum(rows, 3.0)
    model = make().fit(rows, labels).tune(rows, labels, by="leave-one-out", alpha=GRID)
    brute = {}
    for alpha in GRID:
        held = [
            make(alpha=alpha).fit(np.delete(rows, i, 0), np.delete(labels, i)).predict_log_proba(rows[[i]])[0]
            for i in range(30)
        ]
        brute[alpha] = -float(np.mean([logs[k] for logs, k in zip(held, labels, strict=True)]))
    assert model.alpha == min(brute, key=brute.__getitem__)
    assert_allclose(list(model.tune_scores_.values()), [-loss for loss in brute.values()], rtol=1e-8)


def test_tuning_chooses_a_covariance_too() -> None:
    rng = np.random.default_rng(2)
    labels = np.arange(200) % 2
    rows = rng.normal(size=(200, 2)) * np.where(labels == 1, 5.0, 1.0)[:, None]
    model = GaussianDiscriminant("tied").fit(rows, labels)
    assert model.tune(covariance=["tied", "full"]).covariance == "full"
    assert model.tune(rows, labels, by="leave-one-out", covariance=["tied", "full"]).covariance == "full"
    assert model.covariance_.shape == (2, 2, 2)


@pytest.mark.parametrize(
    ("grid", "error", "match"),
    [
        ({}, ValueError, "got 0 parameters to tune"),
        ({"alpha": [1.0], "fit_prior": [True]}, ValueError, "got 2 parameters to tune"),
        ({"alpha": []}, ValueError, "got no candidates"),
        ({"alpha": 1.0}, TypeError, "alpha=1.0, expected a list of values"),
        ({"alpha": "one"}, TypeError, "alpha='one', expected a list of values"),
        ({"alpha": [1.0, -1.0]}, ValueError, "alpha=-1"),
        ({"alpha": [[1.0, 2.0]]}, TypeError, r"alpha=\[1.0, 2.0\] to try"),
        ({"no_such": [1.0]}, ValueError, "no_such"),
        ({"alpha": [1.0], "by": "luck"}, ValueError, "by='luck', expected 'evidence' or 'leave-one-out'"),
        ({"alpha": [1.0], "by": "leave-one-out"}, ValueError, "got no rows to leave out, expected X and y"),
    ],
)
def test_grids_that_make_no_sense_are_refused(
    grid: dict[str, Any], error: type[Exception], match: str
) -> None:
    rows, labels = documents()
    model = MultinomialNB(alpha=0.3).fit(rows, labels)
    before = model.predict_joint_log_proba(rows)
    with pytest.raises(error, match=match) as caught:
        model.tune(**grid)
    assert "\n" not in str(caught.value)
    assert model.alpha == 0.3
    assert_array_equal(model.predict_joint_log_proba(rows), before)
