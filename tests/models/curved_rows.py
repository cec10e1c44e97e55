"""Responses, rows to try them on, and priors: what the tests of Newton's method share."""

from typing import Any

import numpy as np
from scipy import sparse

from tamis.arrays import Array
from tamis.models.linear.design import DenseDesign, Design, SparseDesign
from tamis.models.linear.objective import GaussianPrior, LinearRows, Objective
from tamis.models.linear.responses import RESPONSES, Gamma, Response, Softmax
from tamis.tables import Sparse

ALL: tuple[Response, ...] = (
    *(kind() for kind in RESPONSES.values()),
    Softmax.of(2),
    Softmax.of(4),
)


def named(response: Response) -> str:
    """How a test calls the response."""
    if isinstance(response, Softmax):
        return f"softmax-{response.classes}"
    return f"{response.family}-{response.link}"


def design_of(values: Array, intercept: bool = True, as_sparse: bool = False, centred: bool = True) -> Design:
    """The rows as a design."""
    if not as_sparse:
        return DenseDesign.of(values, intercept, centred)
    matrix = sparse.csr_array(values)
    indptr = matrix.indptr.astype(np.int64)
    return SparseDesign.of(Sparse(indptr, matrix.indices, matrix.data, values.shape[1]), intercept)


def outputs_of(response: Response) -> int:
    """Rows of parameters."""
    return int(response.expansion.shape[1])


def near(response: Response, rng: np.random.Generator, d: int, intercept: bool = True) -> Array:
    """Parameters (D,) at which every score of rows in the unit cube is in the link's range."""
    width = d + intercept
    found = rng.uniform(-0.8, 0.8, (outputs_of(response), width))
    if isinstance(response, Gamma):
        found /= d
        found[:, -1] = 2.0
    return found.ravel()


def prior_of(response: Response, d: int, alpha: float, intercept: bool = True) -> GaussianPrior:
    """One precision for coefficients, none for intercepts, which lie in the link's range."""
    width = d + intercept
    mean, precision = np.zeros((outputs_of(response), width)), np.full((outputs_of(response), width), alpha)
    if intercept:
        precision[:, -1] = 0.0
    if isinstance(response, Gamma):
        mean[:, -1] = 1.5
    return GaussianPrior(mean.ravel(), precision.ravel())


def drawn(
    response: Response,
    rng: np.random.Generator,
    n: int = 60,
    d: int = 3,
    *,
    as_sparse: bool = False,
    weighed: bool = False,
    moved: bool = False,
    intercept: bool = True,
) -> LinearRows:
    """Rows in the unit cube whose targets come from the response itself."""
    values = rng.uniform(-1.0, 1.0, (n, d))
    if as_sparse:
        values[rng.random((n, d)) < 0.5] = 0.0
    design = design_of(values, intercept, as_sparse)
    weights = np.asarray(rng.integers(1, 4, n) * 0.5, dtype=np.float64) if weighed else None
    offsets = rng.uniform(-0.2, 0.2, n) if moved else None
    truth = near(response, rng, d, intercept)
    if isinstance(response, Softmax):
        scores = design.scores(response.expansion @ truth.reshape(-1, d + intercept))
        chances = response.probabilities(scores).cumsum(axis=1)
        targets = (rng.random((n, 1)) > chances[:, :-1]).sum(axis=1).astype(np.float64)
        return LinearRows(design, targets, weights, offsets)
    scores = design.scores(truth) + (0.0 if offsets is None else offsets)
    return LinearRows(design, _targets(response, rng, response.mean(scores)), weights, offsets)


def _targets(response: Response, rng: np.random.Generator, mean: Array) -> Array:
    if response.family == "bernoulli":
        return (rng.random(len(mean)) < mean).astype(np.float64)
    if response.family == "poisson":
        return rng.poisson(mean).astype(np.float64)
    if response.family == "gamma":
        return np.asarray(rng.gamma(20.0, mean / 20.0))
    return np.asarray(mean + rng.normal(0.0, 0.1, len(mean)))


def expected(response: Response, objective: Objective, at: Array) -> Array:
    """Targets at which the curvature is the expected one: the means, if they are no classes."""
    if isinstance(response, Softmax):
        return objective.targets
    offsets = 0.0 if objective.offsets is None else objective.offsets
    return response.mean(objective.design.scores(at) + offsets)


def part(rows: LinearRows, index: Any) -> LinearRows:
    """These rows."""
    return LinearRows(
        rows.design.take(index),
        rows.targets[index],
        None if rows.weights is None else rows.weights[index],
        None if rows.offsets is None else rows.offsets[index],
    )
