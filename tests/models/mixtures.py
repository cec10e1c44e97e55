"""Mixtures, rows to try them on, and a first guess: what the tests of EM share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.models.generative import (
    BernoulliColumns,
    Block,
    CategoryColumns,
    GaussianColumns,
    Generative,
    LabelledRows,
    MultinomialCounts,
    PoissonColumns,
    Posterior,
    Responsibilities,
)
from tamis.models.generative.gaussian_vectors import Covariance, GaussianVectors
from tamis.models.generative.model import observe_blocks
from tamis.stats import Keys, Labels, Moments
from tamis.tables import Table

Floats = NDArray[np.float64]

COVARIANCES: tuple[Covariance, ...] = ("full", "tied", "diag", "spherical")


def classes(k: int) -> Keys:
    return Keys(tuple(range(k)))


def mixture(k: int, **blocks: Block[Any, Any]) -> Generative:
    return Generative(blocks, classes=classes(k))


def gaussian(covariance: Covariance, k: int = 3) -> Generative:
    return mixture(k, x=GaussianVectors(covariance=covariance, estimate="mle"))


def unlabelled(model: Generative, data: object, weights: Floats | None = None) -> LabelledRows:
    table = Table.of(data)
    return LabelledRows(model.encode(table), Labels(classes(0), np.full(table.rows, -1)), weights)


def clouds(rng: np.random.Generator, n: int = 600, d: int = 3, k: int = 3, apart: float = 3.0) -> Floats:
    """k Gaussians that overlap, each with correlations of its own."""
    group = rng.integers(0, k, n)
    turn = rng.normal(size=(k, d, d)) / np.sqrt(d) + np.eye(d)
    noise = (turn[group] @ rng.normal(size=(n, d, 1)))[..., 0]
    return np.asarray(apart * rng.normal(size=(k, d))[group] + noise)


def table_of_all(rng: np.random.Generator, n: int = 400) -> NDArray[Any]:
    """Numbers, counts, flags, categories and words, of two classes."""
    group = rng.integers(0, 2, n)
    columns: list[Any] = [
        rng.normal(2.0 * group, 1.0),
        rng.poisson(1.0 + 4.0 * group),
        rng.poisson(3.0 - 2.0 * group),
        (rng.random(n) < 0.2 + 0.6 * group).astype(int),
        np.array(["red", "green", "blue"])[(group + (rng.random(n) < 0.3)) % 3],
        rng.poisson(1 + group),
        rng.poisson(2 - group),
    ]
    found = np.empty((n, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        found[:, j] = column.tolist()
    return found


FAMILIES: dict[str, dict[str, Block[Any, Any]]] = {
    "gaussian": {"g": GaussianColumns(columns=(0,), estimate="mle")},
    "poisson": {"p": PoissonColumns(columns=(1, 2), estimate="mle")},
    "bernoulli": {"b": BernoulliColumns(columns=(3,), estimate="mle")},
    "categorical": {"c": CategoryColumns(columns=(4,), estimate="mle")},
    "multinomial": {"m": MultinomialCounts(columns=(5, 6), estimate="mle")},
    "mixed": {
        "g": GaussianVectors(columns=(0,), covariance="diag", estimate="mle"),
        "p": PoissonColumns(columns=(1, 2), estimate="mle"),
        "b": BernoulliColumns(columns=(3,), estimate="mle"),
        "c": CategoryColumns(columns=(4,), estimate="mle"),
        "m": MultinomialCounts(columns=(5, 6), estimate="mle"),
    },
}


def random_start(model: Generative, evidence: LabelledRows, k: int, rng: np.random.Generator) -> Posterior:
    parts = rng.dirichlet(np.full(k, 0.3), size=len(evidence.rows)) * evidence.weight()[:, None]
    return model.infer(observe_blocks(model.blocks, evidence.rows, Responsibilities(classes(k), parts)))


def close(found: Moments, expected: Moments, rtol: float) -> None:
    np.testing.assert_allclose(found.weight.value, expected.weight.value, rtol=rtol)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found.scatter, expected.scatter, rtol=rtol, atol=rtol * expected.scatter.max())
