"""Moments of many rows in one pass, against NumPy's two passes."""

import numpy as np

from benchmarks.harness import Case
from tamis.arrays import Array
from tamis.stats import Moments

TWO_PASSES = tuple[Array, Array]


def _normal(n: int, d: int) -> Array:
    return np.random.default_rng(0).normal(10.0, 1.0, size=(n, d))


def _diagonal(x: Array) -> Moments:
    return Moments.observe(x)


def _full(x: Array) -> Moments:
    return Moments.observe(x, form="full")


def _exactly(x: Array) -> Moments:
    return Moments.observe(x, form="full", exact=True)


def _mean_then_variance(x: Array) -> TWO_PASSES:
    return x.mean(axis=0), x.var(axis=0)


def _mean_then_covariance(x: Array) -> TWO_PASSES:
    return x.mean(axis=0), np.cov(x, rowvar=False, bias=True)


def _same_variance(ours: Moments, peer: TWO_PASSES) -> bool:
    return np.allclose(ours.mean, peer[0], rtol=1e-12) and np.allclose(ours.variance, peer[1], rtol=1e-10)


def _same_covariance(ours: Moments, peer: TWO_PASSES) -> bool:
    return np.allclose(ours.mean, peer[0], rtol=1e-12) and np.allclose(ours.covariance, peer[1], atol=1e-10)


CASES = [
    Case(
        name="moments-diagonal",
        what="exact sums of 1e6 × 20 in one pass; peer: NumPy mean, then variance",
        setup=lambda: _normal(1_000_000, 20),
        ours=_diagonal,
        peer=_mean_then_variance,
        agree=_same_variance,
    ),
    Case(
        name="moments-diagonal-narrow",
        what="exact sums of 2e7 × 1 in one pass; peer: NumPy mean, then variance",
        setup=lambda: _normal(20_000_000, 1),
        ours=_diagonal,
        peer=_mean_then_variance,
        agree=_same_variance,
    ),
    Case(
        name="moments-full",
        what="full moments of 2e5 × 100 by centred BLAS; peer: NumPy mean, then cov",
        setup=lambda: _normal(200_000, 100),
        ours=_full,
        peer=_mean_then_covariance,
        agree=_same_covariance,
    ),
    Case(
        name="moments-full-exact",
        what="full moments of 2e5 × 100 with exact=True; peer: NumPy mean, then cov (not exact)",
        setup=lambda: _normal(200_000, 100),
        ours=_exactly,
        peer=_mean_then_covariance,
        agree=_same_covariance,
    ),
]
