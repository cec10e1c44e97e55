"""rows of numbers and to whom they belong in part → Moments by class: the sums of an expectation step."""

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import Array
from tamis.models.block import Density, Shares
from tamis.models.gaussian_densities import FullNormal, TiedNormal, blocks, marginal_factor, patterns
from tamis.stats import Moments


def share_vectors(rows: Array, shares: Shares) -> Moments:
    """Full Moments of rows without gaps, each class about its own mean."""
    centre, weight, parts = _centres(rows, shares.parts), shares.parts.sum(axis=0), shares.parts
    k, d = centre.shape
    first, second = np.zeros((k, d)), np.zeros((k, d, d))
    for at in blocks(len(rows)):
        x, p = rows[at], parts[at]
        for own in range(k):
            about, w = _live(x, p[:, own])
            about = about - centre[own]
            first[own] += w @ about
            second[own] += _products(about, w)
    return Moments.about(centre, weight, first, second, "full", shares.keys)


def share_columns(rows: Array, shares: Shares) -> Moments:
    """Diagonal Moments, each class about its own mean; what is missing costs its own column alone."""
    centre, parts = _centres(rows, shares.parts), shares.parts
    k, d = centre.shape
    weight, first, second = np.zeros((k, d)), np.zeros((k, d)), np.zeros((k, d))
    for at in blocks(len(rows)):
        present = ~np.isnan(rows[at])
        whole = bool(present.all())
        weight += parts[at].sum(axis=0)[:, None] if whole else parts[at].T @ present
        for own in range(k):
            about, w = _live(rows[at], parts[at, own])
            about = about - centre[own]
            if not whole:
                about[np.isnan(about)] = 0.0
            first[own] += w @ about
            second[own] += w @ np.square(about)
    return Moments.about(centre, weight, first, second, keys=shares.keys)


def share_guessed(rows: Array, shares: Shares, given: Density[Array] | None) -> Moments:
    """Full Moments of rows with gaps, as the given Gaussians expect them."""
    if not isinstance(given, FullNormal | TiedNormal):
        raise ValueError(
            "some values are missing, expected a Gaussian to guess them by, made by estimate='mle', 'map' or "
            "'mean': drop or fill those rows, or use covariance='diag'"
        )
    centre = given.mean[given.keys.find(shares.keys)]
    k, d = centre.shape
    first, second = np.zeros((k, d)), np.zeros((k, d, d))
    for at, columns, _ in patterns(rows):
        x, p = rows[at], shares.parts[at]
        for own, row in enumerate(given.keys.find(shares.keys).tolist()):
            about, rest = _guess(x, columns, centre[own], given.covariance_of(row))
            first[own] += p[:, own] @ about
            second[own] += _products(about, p[:, own]) + p[:, own].sum() * rest
    return Moments.about(centre, shares.parts.sum(axis=0), first, second, "full", shares.keys)


def _guess(rows: Array, columns: NDArray[np.int64], mean: Array, covariance: Array) -> tuple[Array, Array]:
    """E[x | the columns that are there] less the mean (n, d), and the covariance of the others (d, d)."""
    d = rows.shape[1]
    missing = np.setdiff1d(np.arange(d), columns)
    across = covariance[np.ix_(columns, missing)]
    slope = marginal_factor(covariance, columns).solve(across)
    about, rest = np.zeros(rows.shape), np.zeros((d, d))
    about[:, columns] = rows[:, columns] - mean[columns]
    about[:, missing] = about[:, columns] @ slope
    rest[np.ix_(missing, missing)] = covariance[np.ix_(missing, missing)] - across.T @ slope
    return about, rest


def _centres(rows: Array, parts: Array) -> Array:
    """The mean of each class (K, d), by sums about the mean of all: near enough to take squares about."""
    if not len(rows):
        return np.zeros((parts.shape[1], rows.shape[1]))
    present = ~np.isnan(rows)
    whole = bool(present.all())
    filled = rows if whole else np.where(present, rows, 0.0)
    centre = filled.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    about = rows - centre
    if not whole:
        about[~present] = 0.0
    weight = parts.sum(axis=0)[:, None] if whole else parts.T @ present
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = (parts.T @ about) / weight
    return np.asarray(centre + np.where(np.isfinite(shift), shift, 0.0))


def _live(rows: Array, weights: Array) -> tuple[Array, Array]:
    """Less the rows that have no weight, if they are many: of classes far apart, each row is in one."""
    live = weights != 0
    return (rows[live], weights[live]) if 2 * live.sum() < len(rows) else (rows, weights)


def _products(about: Array, weights: Array) -> Array:
    """Σ w x xᵀ (d, d); with no weight below zero by half the work, as BLAS sees YᵀY."""
    if (weights < 0).any():
        return np.asarray((about * weights[:, None]).T @ about)
    root = about * np.sqrt(weights)[:, None]
    return np.asarray(root.T @ root)
