"""Rows for tests of principal components."""

import numpy as np

from tamis.arrays import Array
from tamis.models.components import Components, PrincipalComponents


def drawn(n: int = 300, d: int = 8, mean: float = 5.0, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + mean


def low_rank(n: int, d: int, k: int, noise: float = 0.3, seed: int = 0) -> Array:
    """Rows of probabilistic PCA with k directions."""
    rng = np.random.default_rng(seed)
    factors = np.linspace(3.0, 1.0, k)[:, None] * np.linalg.qr(rng.normal(size=(d, k)))[0].T
    return np.asarray(rng.normal(size=(n, k)) @ factors + noise * rng.normal(size=(n, d)) + 10.0)


def fitted(x: Array, count: int | float | str | None = None, weights: Array | None = None) -> Components:
    model = PrincipalComponents(count)
    return model.infer(model.observe(x, weights=weights))
