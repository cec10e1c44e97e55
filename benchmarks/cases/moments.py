"""data → Moments, against NumPy: one exact pass for the variances, BLAS for the covariances."""

import numpy as np

from benchmarks.harness import AnyCase, Case
from tamis.arrays import Array
from tamis.stats import Moments

Summary = tuple[Array, Array]  # means, and variances or covariances


def _tall() -> Array:
    return np.random.default_rng(0).normal(5.0, 1.0, size=(1_000_000, 20))


def _wide() -> Array:
    return np.random.default_rng(0).normal(5.0, 1.0, size=(200_000, 100))


def _one_pass(x: Array) -> Summary:
    moments = Moments.observe(x)
    return moments.mean, moments.variance


def _two_passes(x: Array) -> Summary:
    mean = x.mean(axis=0, keepdims=True)
    return mean[0], np.asarray(x.var(axis=0, mean=mean))


def _full(x: Array) -> Summary:
    moments = Moments.observe(x, form="full")
    return moments.mean, moments.covariance


def _full_exact(x: Array) -> Summary:
    moments = Moments.observe(x, form="full", exact=True)
    return moments.mean, moments.covariance


def _numpy_covariance(x: Array) -> Summary:
    return x.mean(axis=0), np.asarray(np.cov(x, rowvar=False, ddof=0))


def _agree(ours: Summary, peer: Summary) -> bool:
    return all(
        bool(np.allclose(left, right, rtol=1e-10, atol=1e-12)) for left, right in zip(ours, peer, strict=True)
    )


CASES: tuple[AnyCase, ...] = (
    Case(
        name="moments-diagonal",
        what="means and variances of 1,000,000 × 20 in one exact pass, against NumPy's mean and then var",
        setup=_tall,
        ours=_one_pass,
        peer=_two_passes,
        agree=_agree,
    ),
    Case(
        name="moments-full",
        what="means and covariances of 200,000 × 100, to be added and taken back, against NumPy's cov",
        setup=_wide,
        ours=_full,
        peer=_numpy_covariance,
        agree=_agree,
    ),
    Case(
        name="moments-full-exact",
        what="the price of exact=True: covariances of 200,000 × 100 with it, against ours without it",
        setup=_wide,
        ours=_full_exact,
        peer=_full,
        agree=_agree,
    ),
)
