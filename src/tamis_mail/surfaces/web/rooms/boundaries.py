"""Points with classes → Moments per class → a Gaussian per class, and the boundaries between classes."""

from itertools import combinations
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from tamis import GaussianDiscriminant
from tamis.arrays import Array
from tamis.conjugate import NormalInverseWishart
from tamis.models.generative.gaussian_vectors import Covariance
from tamis_mail.surfaces.web.rooms.fields import FieldError, Fields
from tamis_mail.surfaces.web.rooms.shapes import trace_ellipse, trace_zeros
from tamis_mail.surfaces.web.rooms.wording import pluralize

MAX_POINTS = 300
CLASSES = ("A", "B", "C")
# The forms of covariance that a request may choose: one for all classes; one for each; for each class only
# variances; one variance for each class.
COVARIANCES: dict[str, Covariance] = {
    "tied": "tied",
    "full": "full",
    "diag": "diag",
    "spherical": "spherical",
}
RANGE = (-100.0, 100.0)  # of a point's coordinates; the plane shows 0 to 10
_CELLS = 60  # along each side of the plane
_EDGES = np.linspace(0.0, 10.0, _CELLS + 1)
_CENTRES = np.linspace(5.0 / _CELLS, 10.0 - 5.0 / _CELLS, _CELLS)
_FOLDS = 10  # of cross-validation; with fewer points, each is a fold
# The prior of each class: its mean is the middle of the plane, and has the weight of a hundredth of a point.
# With it, a class of one point of the plane has a standard deviation of about half a unit.
_PRIOR = NormalInverseWishart(np.array([5.0, 5.0]), 0.01, 4.0, 0.5 * np.eye(2))
assert set(COVARIANCES.values()) == set(get_args(Covariance))


def make_example() -> dict[str, object]:
    """Return the first request of the page: two classes of different shapes."""
    rng = np.random.default_rng(4)
    first = rng.multivariate_normal([3.4, 4.0], [[1.6, 1.1], [1.1, 1.4]], 24)
    second = rng.multivariate_normal([6.6, 5.6], [[0.5, -0.3], [-0.3, 1.6]], 24)
    points = np.concatenate([first, second]).round(2).tolist()
    return {"points": points, "labels": [0] * 24 + [1] * 24, "covariance": "tied"}


def compute(fields: Fields) -> dict[str, object]:
    """Fit the classes with a form of covariance; classify each cell of the plane; compare all forms."""
    fields.refuse_unknown("points", "labels", "covariance")
    points = fields.read_rows("points", [RANGE, RANGE], MAX_POINTS)
    labels = fields.read_integers("labels", 0, len(CLASSES) - 1, MAX_POINTS)
    covariance = COVARIANCES[fields.read_choice("covariance", tuple(COVARIANCES))]
    if len(labels) != len(points):
        raise FieldError(f"got {len(labels)} labels for {len(points)} points, expected one per point")
    if not len(points):
        raise FieldError("got no points, expected at least one: add points")
    model = _fit(covariance, points, labels)
    probabilities = model.predict_proba(_make_grid(_CENTRES))
    classes = [int(label) for label in model.classes_]
    forms = {form: _evaluate(form, points, labels) for form in COVARIANCES.values()}
    return {
        "classes": classes,
        "means": model.means_,
        "covariances": _expand_covariances(model),
        "ellipses": [
            [trace_ellipse(mean, matrix, deviations) for deviations in (1.0, 2.0)]
            for mean, matrix in zip(model.means_, _expand_covariances(model), strict=True)
        ],
        "cells": _CELLS,
        # The most probable class of each cell: row after row from y = 0, and in a row by x.
        "winner": np.asarray(model.classes_)[probabilities.argmax(axis=1)],
        "probability": probabilities.max(axis=1).round(2),
        "boundaries": _trace_boundaries(model),
        "linear": _get_linear_form(model, covariance),
        "forms": forms,
        "text": _write_sentences(model, covariance, labels, forms),
    }


def _make_grid(coordinates: Array) -> Array:
    """Return the points (coordinates², 2) of a grid, by rows of y."""
    x, y = np.meshgrid(coordinates, coordinates)
    return np.column_stack([x.ravel(), y.ravel()])


def _trace_boundaries(model: GaussianDiscriminant) -> Array:
    """Return the segments, (n, 2 ends, 2 coordinates), on which the two best classes are equally probable."""
    joint = model.predict_joint_log_proba(_make_grid(_EDGES)).reshape(len(_EDGES), len(_EDGES), -1)
    parts = [np.zeros((0, 2, 2))]
    for a, b in combinations(range(joint.shape[2]), 2):
        segments = trace_zeros(joint[:, :, a] - joint[:, :, b], _EDGES, _EDGES)
        if len(segments):
            best = model.predict_joint_log_proba(segments.mean(axis=1))
            parts.append(segments[np.maximum(best[:, a], best[:, b]) >= best.max(axis=1)])
    return np.concatenate(parts)


def _fit(covariance: Covariance, points: Array, labels: NDArray[np.int64]) -> GaussianDiscriminant:
    model = GaussianDiscriminant(covariance, prior=_PRIOR)
    model.fit(points, labels)
    return model


def _expand_covariances(model: GaussianDiscriminant) -> Array:
    """Return the covariance matrix of each class (classes, 2, 2), for any form of covariance."""
    given, count = np.asarray(model.covariance_), len(model.classes_)
    if model.covariance == "full":
        return given
    if model.covariance == "tied":
        return np.broadcast_to(given, (count, 2, 2))
    variances = given if model.covariance == "diag" else np.repeat(given[:, None], 2, axis=1)
    return np.asarray(variances[:, :, None] * np.eye(2))


def _get_linear_form(model: GaussianDiscriminant, covariance: Covariance) -> dict[str, object] | None:
    """Return w and w₀ of the log-odds w·x + w₀ of two classes with a tied covariance; None in other cases."""
    if covariance != "tied" or len(model.classes_) != 2:
        return None
    return {"w": model.coef_[0], "w0": model.intercept_[0]}


def _evaluate(covariance: Covariance, points: Array, labels: NDArray[np.int64]) -> dict[str, object]:
    """Return accuracy, accuracy on held-out points and log-evidence of a form of covariance.

    The accuracy on held-out points is None if there is only one class, or a class with only one point, of
    which nothing is left to learn from when it is held out.
    """
    model = _fit(covariance, points, labels)
    held_out = None
    counts = np.bincount(labels)
    if len(model.classes_) > 1 and counts[counts > 0].min() > 1:
        folds = min(_FOLDS, len(points))
        held_out = model.cross_validate(points, labels, folds, random_state=0).accuracy
    return {
        "right": model.score(points, labels),
        "right_held_out": held_out,
        "log_evidence": model.log_evidence_,
    }


def _write_sentences(
    model: GaussianDiscriminant,
    covariance: Covariance,
    labels: NDArray[np.int64],
    forms: dict[Covariance, dict[str, object]],
) -> list[str]:
    parts = [
        f"class {CLASSES[int(label)]} has {pluralize(int((labels == label).sum()), 'point')} and its mean at "
        f"({x:.2f}, {y:.2f})"
        for label, (x, y) in zip(model.classes_, model.means_, strict=True)
    ]
    sentence = "; ".join(parts)
    lines = [f"{sentence[0].upper()}{sentence[1:]}."]
    linear = _get_linear_form(model, covariance)
    if len(model.classes_) == 1:
        lines.append("There is one class, and so no boundary: add points of another class.")
    elif linear is not None:
        (w1, w2), w0 = model.coef_[0], model.intercept_[0]
        second = CLASSES[int(model.classes_[1])]
        lines.append(
            f"The boundary is the line {w1:.3f} x {w2:+.3f} y {w0:+.3f} = 0; class {second} is where the "
            "left side is positive."
        )
    else:
        lines.append(
            "The boundaries are straight lines." if covariance == "tied" else "The boundaries are conics."
        )
    chosen = forms[covariance]
    held_out = chosen["right_held_out"]
    lines.append(
        f"{chosen['right']:.1%} of the points are classified correctly"
        + ("" if held_out is None else f", {held_out:.1%} of held-out ones in cross-validation")
        + f"; the log-evidence is {chosen['log_evidence']:.2f}."
    )
    return lines
