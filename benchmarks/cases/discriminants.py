"""Gaussian discriminants against scikit-learn's, in its defaults: one pass and Cholesky, against its SVDs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from benchmarks.harness import AnyCase, Case
from tamis.arrays import Array
from tamis.estimators import GaussianDiscriminant
from tamis.models.generative import GaussianVectors, Generative, LabelledRows
from tamis.stats import Labels
from tamis.tables import Table

ROWS, COLUMNS, CLASSES = 200_000, 100, 10
BLOCK = "columns"


@dataclass(frozen=True)
class Rows:
    """Correlated rows and their labels, and the same as a model keeps them."""

    X: Array
    y: NDArray[np.int64]
    linear: Generative
    quadratic: Generative
    evidence: LabelledRows


def _rows() -> Rows:
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, size=ROWS)
    X = rng.normal(size=(ROWS, COLUMNS)) @ (np.eye(COLUMNS) + 0.05 * rng.normal(size=(COLUMNS, COLUMNS)))
    X += rng.normal(size=(CLASSES, COLUMNS))[y]
    linear = Generative({BLOCK: GaussianVectors(covariance="tied", estimate="mle")})
    quadratic = Generative({BLOCK: GaussianVectors(covariance="full", estimate="mle")})
    return Rows(X, y, linear, quadratic, LabelledRows(linear.encode(Table.of(X)), Labels.of(y)))


def _inferred(model: Generative, evidence: LabelledRows) -> Any:
    return model.infer(model.observe(evidence)).densities[BLOCK]


def _near(ours: Array, peer: Array) -> bool:
    return ours.shape == peer.shape and bool(np.allclose(ours, peer, rtol=1e-7, atol=1e-8))


# Both sides return what tells the classes apart: weights against those of the first class, or covariances.


def _against_the_first(weights: Array) -> Array:
    return np.asarray(weights - weights[0])


def _linear_face(rows: Rows) -> Array:
    model = GaussianDiscriminant(estimate="mle").fit(rows.X, rows.y)
    return _against_the_first(model.coef_)


def _linear_inferred(rows: Rows) -> Array:
    return _against_the_first(_inferred(rows.linear, rows.evidence).coefficients)


def _linear_peer(rows: Rows) -> Array:
    return _against_the_first(LinearDiscriminantAnalysis().fit(rows.X, rows.y).coef_)


def _quadratic_face(rows: Rows) -> Array:
    model = GaussianDiscriminant("full", estimate="mle").fit(rows.X, rows.y)
    return np.asarray(model.covariance_)


def _quadratic_inferred(rows: Rows) -> Array:
    return np.asarray(_inferred(rows.quadratic, rows.evidence).covariance)


def _quadratic_peer(rows: Rows) -> Array:
    model = QuadraticDiscriminantAnalysis().fit(rows.X, rows.y)
    return np.stack(
        [(axes * scale) @ axes.T for axes, scale in zip(model.rotations_, model.scalings_, strict=True)]
    )


_SIZE = f"{ROWS:,} × {COLUMNS}, {CLASSES} classes"

CASES: tuple[AnyCase, ...] = (
    Case(
        name="linear-discriminant-fit",
        what=f"GaussianDiscriminant('tied').fit of {_SIZE}, against LinearDiscriminantAnalysis().fit",
        setup=_rows,
        ours=_linear_face,
        peer=_linear_peer,
        agree=_near,
        repeats=5,
    ),
    Case(
        name="linear-discriminant-infer",
        what=f"observe and infer only, one covariance, {_SIZE}, against LinearDiscriminantAnalysis().fit",
        setup=_rows,
        ours=_linear_inferred,
        peer=_linear_peer,
        agree=_near,
        repeats=5,
    ),
    Case(
        name="quadratic-discriminant-fit",
        what=f"GaussianDiscriminant('full').fit of {_SIZE}, against QuadraticDiscriminantAnalysis().fit",
        setup=_rows,
        ours=_quadratic_face,
        peer=_quadratic_peer,
        agree=_near,
        repeats=5,
    ),
    Case(
        name="quadratic-discriminant-infer",
        what=f"observe and infer only, a covariance each, {_SIZE}, against QuadraticDiscriminantAnalysis",
        setup=_rows,
        ours=_quadratic_inferred,
        peer=_quadratic_peer,
        agree=_near,
        repeats=5,
    ),
)

WANTED = {
    "linear-discriminant-fit": 15.0,
    "quadratic-discriminant-fit": 4.0,
}
