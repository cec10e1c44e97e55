"""Row G1 of the lectures: PCA as the best factorisation of rank K, equal to the SVD."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tamis.arrays import Array
from tamis.estimators import PCA


def drawn(n: int = 120, d: int = 7) -> Array:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d) * 10.0


def reconstructed(x: Array, count: int) -> Array:
    model = PCA(count).fit(x)
    return np.asarray(model.inverse_transform(model.transform(x)))


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_g1_the_reconstruction_is_the_truncated_svd(count: int) -> None:
    x = drawn()
    u, s, v = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    assert_allclose(reconstructed(x, count), (u[:, :count] * s[:count]) @ v[:count] + x.mean(axis=0))
    model = PCA(count).fit(x)
    assert_allclose(model.singular_values_, s[:count], rtol=1e-10)
    assert_allclose(np.abs(model.components_), np.abs(v[:count]), atol=1e-10)


@pytest.mark.parametrize("count", [1, 3, 6])
def test_g1_no_factorisation_of_that_rank_is_better(count: int) -> None:
    """Eckart and Young: the error is what the singular values left over sum to, and others have more."""
    x, rng = drawn(), np.random.default_rng(1)
    s = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
    best = np.square(x - reconstructed(x, count)).sum()
    assert_allclose(best, np.square(s[count:]).sum())
    model = PCA(count).fit(x)
    for step in (1e-3, 1e-1, 10.0):
        for _ in range(20):
            directions = np.linalg.qr((model.components_ + step * rng.normal(size=(count, 7))).T)[0]
            about = x - x.mean(axis=0)
            assert np.square(about - about @ directions @ directions.T).sum() >= best * (1 - 1e-12)


def test_g1_codes_are_decorrelated_with_the_variances_of_the_directions() -> None:
    x = drawn()
    model = PCA().fit(x)
    codes = model.transform(x)
    assert_allclose(np.cov(codes.T), np.diag(model.explained_variance_), atol=1e-10)
    assert_allclose(codes.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(np.cov(model.set_params(whiten=True).transform(x).T), np.eye(7), atol=1e-12)


def test_g1_each_direction_has_the_largest_variance_that_those_before_leave() -> None:
    x, rng = drawn(), np.random.default_rng(2)
    model = PCA().fit(x)
    for k, variance in enumerate(model.explained_variance_):
        direction = rng.normal(size=(200, 7))
        before = model.components_[:k]
        direction -= direction @ before.T @ before
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        assert (np.var(x @ direction.T, axis=0, ddof=1) <= variance * (1 + 1e-12)).all()
