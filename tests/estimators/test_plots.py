"""What the pictures show: bars that sum to the log-odds, lines where the decision changes, honest bands."""

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from tamis.arrays import Array
from tamis.estimators import (
    BernoulliNB,
    CategoricalNB,
    GaussianDiscriminant,
    GaussianNB,
    Mixture,
    MultinomialNB,
    NaiveBayes,
)
from tamis.plots import BoundaryDisplay, CalibrationDisplay, ExplanationDisplay, canvas

mpl.use("Agg")
plt: Any = importlib.import_module("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def figures() -> Iterator[None]:
    yield
    plt.close("all")


def blobs(seed: int = 0, n: int = 60) -> tuple[Array, list[str]]:
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.normal(0.0, 1.0, (n, 2)), rng.normal(3.0, 1.5, (n, 2))])
    return rows, ["a"] * n + ["b"] * n


def frame() -> tuple[pd.DataFrame, list[str]]:
    rng = np.random.default_rng(1)
    labels = ["ham", "spam"] * 30
    columns = {
        "length": rng.normal([3.0, 5.0] * 30),
        "weekend": rng.random(60) < 0.3,
        "a very long name of a column that nobody would want to read whole": ["x", "y", "x", "x"] * 15,
    }
    return pd.DataFrame(columns), labels


def test_the_bars_sum_to_the_log_odds() -> None:
    table, labels = frame()
    model = NaiveBayes().fit(table, labels)
    for row in range(5):
        display = ExplanationDisplay.from_estimator(model, table, row=row, count=2)
        odds = model.decision_function(table)[row]
        assert display.values.sum() == pytest.approx(odds)
        assert display.log_odds == pytest.approx(odds)
        assert display.probability == pytest.approx(model.predict_proba(table)[row, 1])
        assert len(display.labels) == 4
        assert display.labels[2] == "1 other column"
        assert display.labels[-1] == "prior"
        assert len(display.ax_.patches) == len(display.values) + 1


def test_bars_for_one_class_go_right_and_are_named_by_column_and_value() -> None:
    table, labels = frame()
    model = NaiveBayes().fit(table, labels)
    table.loc[1, "length"] = 6.5
    display = ExplanationDisplay.from_estimator(model, table, row=1)
    assert display.labels[0] == "length = 6.5"
    assert display.ax_.patches[0].get_width() > 0
    assert display.ax_.get_title(loc="left").startswith("spam against ham: probability 0.999")
    assert display.figure_ is display.ax_.figure
    assert max(map(len, display.labels)) < 50


def test_an_explanation_draws_itself_on_given_axes() -> None:
    table, labels = frame()
    explanation = NaiveBayes().fit(table, labels).explain(table)
    _, ax = plt.subplots()
    display = explanation.plot(row=3, count=1, ax=ax, color="black")
    assert display.ax_ is ax
    assert ax.patches[0].get_facecolor() == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("make", [MultinomialNB, BernoulliNB])
def test_sparse_rows_are_explained(make: Any) -> None:
    rng = np.random.default_rng(2)
    rows = csr_array(rng.poisson(0.2, (40, 50)).astype(np.float64))
    model = make().fit(rows, [0, 1] * 20)
    display = ExplanationDisplay.from_estimator(model, rows, row=7, count=3)
    assert display.values.sum() == pytest.approx(model.decision_function(rows)[7])


def test_what_is_impossible_is_drawn_and_marked() -> None:
    model = CategoricalNB(alpha=0.0, force_alpha=True).fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 1, 1])
    display = ExplanationDisplay.from_estimator(model, [[0, 1]])
    assert np.isneginf(display.log_odds)
    assert "−∞" in [text.get_text() for text in display.ax_.texts]
    assert np.isfinite(display.ax_.get_xlim()).all()


@pytest.mark.parametrize(
    ("log_odds", "said"),
    [(0.0, "0.500"), (-8.0, "0.0003"), (20.0, "1 − 2e-09"), (-20.0, "2e-09"), (1e4, "1"), (-1e4, "0")],
)
def test_the_title_says_how_near_a_probability_is_to_one(log_odds: float, said: str) -> None:
    display = ExplanationDisplay(("prior",), np.array([log_odds]), log_odds, "b", "a").plot()
    assert display.ax_.get_title(loc="left").endswith(f"probability {said}")


@pytest.mark.parametrize(("row", "count", "said"), [(9, 1, "got row=9"), (0, 0, "got count=0")])
def test_a_row_that_is_not_there_is_refused(row: int, count: int, said: str) -> None:
    model = GaussianNB().fit(*blobs())
    with pytest.raises(ValueError, match=said):
        ExplanationDisplay.from_explanation(model.explain([[0.0, 0.0]]), row, count)


def test_the_line_is_where_two_classes_are_even() -> None:
    rows, labels = blobs()
    model = GaussianDiscriminant(covariance="tied").fit(rows, labels)
    display = BoundaryDisplay.from_estimator(model, rows, labels, grid=60)
    (line,) = [path for path in display.ax_.collections if hasattr(path, "levels")]
    corners = np.concatenate([path.vertices for path in line.get_paths()])
    assert len(corners) > 10
    assert np.abs(model.decision_function(corners)).max() < 1e-6
    assert display.ax_.get_legend_handles_labels()[1] == ["a", "b"]


@pytest.mark.parametrize("covariance", ["tied", "full", "diag", "spherical"])
def test_ellipses_are_where_the_distance_is_one_and_two(covariance: Any) -> None:
    rows, labels = blobs()
    model = GaussianDiscriminant(covariance=covariance).fit(rows, labels)
    display = BoundaryDisplay.from_estimator(model, rows, grid=10)
    assert display.covariances is not None
    rings = [line for line in display.ax_.lines if len(line.get_xdata()) > 2]
    assert len(rings) == 4
    for ring, k, wide in zip(rings, (0, 0, 1, 1), (1.0, 2.0, 1.0, 2.0), strict=True):
        away = np.stack(ring.get_data(), axis=1) - model.means_[k]
        distance = np.einsum("ni,ij,nj->n", away, np.linalg.inv(display.covariances[k]), away)
        assert distance == pytest.approx(wide**2)


def test_variances_of_two_classes_are_not_taken_for_a_matrix() -> None:
    model = GaussianNB().fit(*blobs())
    display = BoundaryDisplay.from_estimator(model, blobs()[0], grid=10)
    assert display.covariances is not None
    assert np.array_equal(display.covariances[1], np.diag(model.var_[1]))


def test_rows_without_a_label_are_grey() -> None:
    rows, labels = blobs()
    partly: list[str | None] = [label if i % 10 == 0 else None for i, label in enumerate(labels)]
    display = BoundaryDisplay.from_estimator(GaussianNB().fit(rows, partly), rows, partly, grid=10)
    assert display.ax_.get_legend_handles_labels()[1] == ["no label", "a", "b"]


def test_mixtures_other_models_and_frames_are_drawn_too() -> None:
    rows, labels = blobs()
    table = pd.DataFrame(rows, columns=["height", "width"])
    mixture = Mixture(3, random_state=0).fit(rows)
    assert BoundaryDisplay.from_estimator(mixture, table, grid=10).ax_.get_xlabel() == "height"
    logistic = LogisticRegression().fit(rows, labels)
    assert BoundaryDisplay.from_estimator(logistic, rows, labels, grid=10).means is None


def test_a_plane_has_two_columns() -> None:
    model = GaussianNB().fit([[1.0, 2.0, 3.0], [2.0, 1.0, 0.0]], [0, 1])
    with pytest.raises(ValueError, match="got rows of 3 columns, expected 2"):
        BoundaryDisplay.from_estimator(model, [[1.0, 2.0, 3.0]])


def test_what_is_calibrated_lies_in_its_bands_and_what_is_too_sure_does_not() -> None:
    rng = np.random.default_rng(3)
    given = rng.random(4000)
    came = rng.random(4000) < given
    honest = CalibrationDisplay.from_predictions(came, given)
    assert ((honest.low <= honest.given) & (honest.given <= honest.high)).sum() >= 8
    sure = CalibrationDisplay.from_predictions(came, np.where(given > 0.5, 1.0, 0.0))
    assert ((sure.given < sure.low) | (sure.given > sure.high)).all()
    assert honest.count.sum() == 4000


def test_held_out_rows_and_fresh_rows_are_drawn() -> None:
    rows, labels = blobs()
    held_out = GaussianNB().cross_validate(rows, labels, folds=3)
    assert CalibrationDisplay.from_held_out(held_out, bins=5).count.sum() == len(rows)
    three = [*labels[:-20], *["c"] * 20]
    model = GaussianNB().fit(rows, three)
    assert CalibrationDisplay.from_estimator(model, rows, three).given.min() > 1 / 3
    both = GaussianNB().fit(rows, labels)
    assert CalibrationDisplay.from_estimator(both, rows, labels).share[-1] > 0.8


@pytest.mark.parametrize(
    ("flags", "given", "bins", "said"),
    [
        ([True], [0.5, 0.5], 5, "one of each per row"),
        ([True], [1.5], 5, "above 1"),
        ([True], [0.5], 0, "got bins=0"),
    ],
)
def test_what_is_no_probability_is_refused(
    flags: list[bool], given: list[float], bins: int, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        CalibrationDisplay.from_predictions(flags, given, bins)


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install tamis\[plots\]"):
        canvas.make_axes()
