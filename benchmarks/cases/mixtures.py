"""Steps of EM for Gaussian mixtures, from one start, against the steps of scikit-learn's GaussianMixture."""

from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture

from benchmarks.harness import AnyCase, Case
from tamis.arrays import Array
from tamis.models.generative import GaussianVectors, Generative, LabelledRows, Posterior, em
from tamis.models.generative.gaussian_vectors import Covariance
from tamis.stats import Keys, Labels
from tamis.tables import Table

ROWS, COLUMNS, COMPONENTS, STEPS = 200_000, 16, 8, 10
BLOCK = "columns"
Summary = tuple[Array, Array, Array]  # weights, means, covariances


@dataclass(frozen=True)
class Start:
    """Rows without labels, and one start of EM for both."""

    X: Array
    model: Generative
    evidence: LabelledRows
    posterior: Posterior
    peer: Any  # a GaussianMixture that has made no step yet

    @classmethod
    def of(cls, covariance: Covariance) -> "Start":
        rng = np.random.default_rng(0)
        X = rng.normal(size=(ROWS, COLUMNS)) @ (np.eye(COLUMNS) + 0.2 * rng.normal(size=(COLUMNS, COLUMNS)))
        X += rng.normal(size=(COMPONENTS, COLUMNS))[rng.integers(0, COMPONENTS, size=ROWS)]
        keys = Keys(tuple(range(COMPONENTS)))
        block = GaussianVectors(covariance=covariance, estimate="mle", floor=1e-6)
        model = Generative({BLOCK: block}, classes=keys)
        evidence = LabelledRows(model.encode(Table.of(X)), Labels(keys, np.full(ROWS, -1)))
        posterior = em.start(model, evidence, COMPONENTS, rng)
        density: Any = posterior.densities[BLOCK]
        spread = density.covariance
        peer = GaussianMixture(
            COMPONENTS,
            covariance_type=covariance,
            reg_covar=1e-6,
            weights_init=np.exp(posterior.log_prior),
            means_init=density.mean,
            precisions_init=1.0 / spread if covariance == "diag" else np.linalg.inv(spread),
        )
        peer._initialize(X, None)
        return cls(X, model, evidence, posterior, peer)


def _ours(start: Start) -> Summary:
    walk = em.steps(start.model, start.evidence, start.posterior, pool_squares=True)
    *_, last = islice(walk, STEPS)
    density: Any = last.posterior.densities[BLOCK]
    return np.exp(last.posterior.log_prior), density.mean, density.covariance


def _peer(start: Start) -> Summary:
    """Its two half-steps alone: `fit` would check the rows, and end with half a step more."""
    model = copy(start.peer)
    for _ in range(STEPS):
        _, log_shares = model._e_step(start.X)
        model._m_step(start.X, log_shares)
    return model.weights_, model.means_, model.covariances_


def _near(ours: Summary, peer: Summary) -> bool:
    return all(
        bool(np.allclose(left, right, rtol=1e-6, atol=1e-7)) for left, right in zip(ours, peer, strict=True)
    )


def _mixture(covariance: Covariance) -> AnyCase:
    return Case(
        name=f"mixture-{covariance}",
        what=f"{STEPS} steps of EM, {covariance} covariance, {ROWS:,} × {COLUMNS}, {COMPONENTS} components, "
        "against GaussianMixture's",
        setup=lambda: Start.of(covariance),
        ours=_ours,
        peer=_peer,
        agree=_near,
        repeats=3,
    )


CASES: tuple[AnyCase, ...] = (_mixture("full"), _mixture("tied"), _mixture("diag"))

WANTED = {
    "mixture-full": 6.0,
    "mixture-tied": 10.0,
    "mixture-diag": 4.0,
}
