"""rows of numbers and to whom they belong in part → Moments by class: the sums of an expectation step."""

import numpy as np

from tamis.arrays import Array
from tamis.models.generative.block import Responsibilities
from tamis.stats import Moments
from tamis.tables import runs

_BLOCK = 4096  # rows whose centred copy is in memory at a time


def share_vectors(rows: Array, shares: Responsibilities) -> Moments:
    """Full Moments of rows without gaps, each class about its own mean."""
    centre, weight, parts = _centres(rows, shares.parts), shares.parts.sum(axis=0), shares.parts
    k, d = centre.shape
    first, second = np.zeros((k, d)), np.zeros((k, d, d))
    for at in runs(len(rows), 1, _BLOCK):
        x, p = rows[at], parts[at]
        for own in range(k):
            about, w = _live(x, p[:, own])
            about = about - centre[own]
            first[own] += w @ about
            second[own] += products(about, w)
    return Moments.about(centre, weight, first, second, "full", shares.keys)


def share_columns(rows: Array, shares: Responsibilities) -> Moments:
    """Diagonal Moments, each class about its own mean; what is missing costs its own column alone."""
    centre, parts = _centres(rows, shares.parts), shares.parts
    k, d = centre.shape
    weight, first, second = np.zeros((k, d)), np.zeros((k, d)), np.zeros((k, d))
    for at in runs(len(rows), 1, _BLOCK):
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


def products(about: Array, weights: Array) -> Array:
    """Σ w x xᵀ (d, d); with no weight below zero by half the work, as BLAS sees YᵀY."""
    if (weights < 0).any():
        return np.asarray((about * weights[:, None]).T @ about)
    root = about * np.sqrt(weights)[:, None]
    return np.asarray(root.T @ root)
