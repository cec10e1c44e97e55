"""Principal components against scikit-learn's: one pass for the sums of products, and one decomposition."""

import numpy as np
from sklearn import decomposition

from benchmarks.harness import AnyCase, Case
from tamis.arrays import Array
from tamis.estimators import PCA

ROWS, COLUMNS, KEPT, FOLDS = 200_000, 100, 20, 5


def _rows() -> Array:
    """Correlated rows about zero, where scikit-learn's fastest solver is right."""
    rng = np.random.default_rng(0)
    spread = np.linspace(10.0, 1.0, COLUMNS)
    turned, _ = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))
    return np.asarray((rng.normal(size=(ROWS, COLUMNS)) * spread) @ turned)


def _near(ours: Array, peer: Array) -> bool:
    return ours.shape == peer.shape and bool(np.allclose(ours, peer, rtol=1e-8))


def _roughly(ours: Array, peer: Array) -> bool:
    """Batches that each keep 20 of 100 directions lose what they leave over."""
    return ours.shape == peer.shape and bool(np.allclose(ours, peer, rtol=0.05))


def _fit(rows: Array) -> Array:
    return np.asarray(PCA(KEPT).fit(rows).explained_variance_)


def _in_batches(rows: Array) -> Array:
    model = PCA(KEPT)
    for start in range(0, ROWS, 10_000):
        model.partial_fit(rows[start : start + 10_000])
    return np.asarray(model.explained_variance_)


def _peer(rows: Array) -> Array:
    return np.asarray(decomposition.PCA(KEPT, svd_solver="covariance_eigh").fit(rows).explained_variance_)


def _incremental_peer(rows: Array) -> Array:
    return np.asarray(decomposition.IncrementalPCA(KEPT).fit(rows).explained_variance_)


def _held_out(rows: Array) -> Array:
    fold = np.arange(ROWS) % FOLDS
    return np.asarray(PCA(KEPT).cross_validate(rows, folds=fold).log_densities)


def _held_out_peer(rows: Array) -> Array:
    fold, found = np.arange(ROWS) % FOLDS, np.empty(ROWS)
    for one in range(FOLDS):
        model = decomposition.PCA(KEPT, svd_solver="covariance_eigh").fit(rows[fold != one])
        found[fold == one] = model.score_samples(rows[fold == one])
    return found


_SIZE = f"{ROWS:,} × {COLUMNS}"

CASES: tuple[AnyCase, ...] = (
    Case(
        name="components-fit",
        what=f"PCA({KEPT}).fit of {_SIZE}, against scikit-learn's with its fastest solver, covariance_eigh",
        setup=_rows,
        ours=_fit,
        peer=_peer,
        agree=_near,
        repeats=5,
    ),
    Case(
        name="components-incremental",
        what=f"PCA({KEPT}).fit of {_SIZE}, which could be in batches, against IncrementalPCA({KEPT}).fit",
        setup=_rows,
        ours=_fit,
        peer=_incremental_peer,
        agree=_roughly,
        repeats=3,
    ),
    Case(
        name="components-batches",
        what=f"PCA({KEPT}).partial_fit of {_SIZE} in batches of 10,000, against one fit of scikit-learn's",
        setup=_rows,
        ours=_in_batches,
        peer=_peer,
        agree=_near,
        repeats=5,
    ),
    Case(
        name="components-held-out",
        what=f"log-densities of {_SIZE} in {FOLDS} folds, against {FOLDS} fits of scikit-learn's",
        setup=_rows,
        ours=_held_out,
        peer=_held_out_peer,
        agree=_near,
        repeats=3,
    ),
)

WANTED = {
    "components-fit": 1.0,
    "components-incremental": 40.0,
}
