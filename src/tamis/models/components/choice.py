"""Choose the number of principal components: a score for each number of directions that could be kept.

The scores come from the variances along all directions (Minka's evidence), or from the Moments (sums of
products of columns) of each fold of a cross-validation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from tamis.arrays import Array
from tamis.linalg import complete_basis, spectrum
from tamis.stats import Moments

_MIN_RELATIVE_VARIANCE = 1e-15  # a variance below this part of the largest one counts as 0


def score_by_evidence(variances: Array, weight: float) -> Array:
    """Log-evidence (d − 1,) of 1, …, d − 1 directions by Laplace's method (Minka 2000), up to a constant.

    All numbers of directions together take d² operations, because sums over pairs are cumulative.
    """
    d = len(variances)
    if d < 2:
        return np.empty(0)
    k = np.arange(1, d)
    least = _MIN_RELATIVE_VARIANCE * float(variances.max())
    noise = np.maximum(np.cumsum(variances[::-1])[::-1][1:] / (d - k), least)  # mean variance of the others
    dimensions = d - k + 1.0
    prior = -k * np.log(2.0) + np.cumsum(gammaln(0.5 * dimensions) - 0.5 * dimensions * np.log(np.pi))
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = -0.5 * weight * (np.cumsum(np.log(variances))[:-1] + (d - k) * np.log(noise))
        # Matrices (d, d), of which the elements (i, j) with i < j are used.
        differences = np.log(variances[:, None] - variances)
        inverse_differences = np.log(1.0 / variances - 1.0 / variances[:, None])
        upper = np.triu(np.ones((d, d), dtype=np.bool_), 1)
        sum_differences = np.cumsum(np.where(upper, differences, 0.0).sum(axis=1))[:-1]  # i < k, all j > i
        sum_inverse = np.cumsum(np.where(upper, inverse_differences, 0.0).sum(axis=0))[:-1]  # i < j < k
        sum_to_noise = np.array([np.log(1.0 / noise[m - 1] - 1.0 / variances[:m]).sum() for m in k.tolist()])
        parameters = d * k - 0.5 * k * (k + 1.0)  # the dimension of the space of k orthonormal directions
        log_determinant = sum_differences + sum_inverse + (d - k) * sum_to_noise + parameters * np.log(weight)
        scores = (
            prior
            + likelihood
            + 0.5 * np.log(2.0 * np.pi) * (parameters + k)
            - 0.5 * log_determinant
            - 0.5 * k * np.log(weight)
        )
    # The evidence does not exist where one of the k variances is 0, or where two variances are equal.
    return np.where(np.isfinite(scores) & (variances[:-1] >= least), scores, -np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class CountScores:
    """The mean log-density of held-out rows under models with 1, 2, … directions."""

    log_densities: Array  # (d − 1,), or (1,) for one column; −∞ for more directions than the rows vary in

    @property
    def best(self) -> int:
        """The number of directions with the largest density; the larger one if two give the same Gaussian."""
        scores = self.log_densities
        return int(np.flatnonzero(scores == scores.max())[-1]) + 1 if np.isfinite(scores).any() else 1


def score_held_out(parts: Sequence[Moments], columns: int | None = None) -> CountScores:
    """Score every number of directions by the density of each fold under the model of the other folds.

    The Moments of each fold suffice: one decomposition per fold scores all numbers, and no row is read.
    Directions in which all rows together have no variance (less than 1e-13 of the largest) are left out,
    since there is no density along them; then a model may have all of the r other directions. `columns` is
    the number of columns, if the moments are not of columns but of coordinates along the directions in which
    rows vary.
    """
    if len(parts) < 2:
        raise ValueError(
            f"got rows of {len(parts)} fold, expected at least 2 to hold one out: give more distinct rows or "
            "a whole number as n_components"
        )
    total = sum(parts[1:], start=parts[0])
    width = total.first.shape[-1]
    d = width if columns is None else columns
    _, span = spectrum(total.scatter)  # (d, r): orthonormal directions in which the rows vary
    r = span.shape[1]
    densities = np.full(max(d - 1, 1), -np.inf)
    if r:
        basis = span if r < width else None
        scores = np.sum([_score_fold(total - part, part, basis) for part in parts], axis=0)
        densities[: len(scores)] = scores / float(total.weight.value)
        if r < d:  # r directions describe the same Gaussian as r − 1, whose noise is the variance of the last
            densities[r - 1] = densities[max(r - 2, 0)]
    return CountScores(densities)


def _score_fold(others: Moments, fold: Moments, span: Array | None) -> Array:
    """Σ w log p of the rows of a fold under the model of the others, for each number of directions (d − 1,).

    With a basis `span` (d, r), densities are those of the coordinates in it: (r − 1,), or (1,) if r = 1. A
    score is −∞ where a direction has no variance.
    """
    weight, freedom = float(fold.weight.value), float(others.weight.value) - 1.0
    if not freedom > 0:
        raise ValueError(f"got n_samples={freedom + 1.0:g} outside a fold, expected above 1: learn more rows")
    shift = fold.mean - others.mean
    scatter, held_out = others.scatter, fold.scatter + weight * shift[:, None] * shift
    if span is not None:
        scatter, held_out = span.T @ scatter @ span, span.T @ held_out @ span
    d = len(scatter)
    values, vectors = spectrum(scatter)
    order = np.argsort(values)[::-1]
    vectors = vectors[:, order]
    if len(order) < d:
        vectors = np.concatenate([vectors, complete_basis(vectors) if len(order) else np.eye(d)], axis=1)
    variances = np.zeros(d)
    variances[: len(order)] = values[order] / freedom
    squares = np.maximum(np.einsum("dk,dk->k", held_out @ vectors, vectors), 0.0)  # along each direction
    if d == 1:
        noise, squared_errors, counts = np.ones(1), np.zeros(1), np.arange(1, 2)
    else:
        counts = np.arange(1, d)
        noise = np.cumsum(variances[::-1])[::-1][1:] / (d - counts)
        squared_errors = np.cumsum(squares[::-1])[::-1][1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_scale = d * np.log(2.0 * np.pi) + np.cumsum(np.log(variances))[counts - 1]
        log_scale += (d - counts) * np.log(noise)
        distances = np.cumsum(squares / variances)[counts - 1] + squared_errors / noise
        scores = -0.5 * (weight * log_scale + distances)
    return np.where(np.isfinite(scores), scores, -np.inf)  # without variance there is no density
