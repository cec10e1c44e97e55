"""Transform parameters to unbounded coordinates, in which a density is easier to integrate numerically."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from tamis.arrays import Array
from tamis.linalg import Cholesky


@dataclass(frozen=True)
class Transform:
    """Functions between n draws of parameters, as `Prior.sample` returns them, and unbounded coordinates."""

    unconstrain: Callable[[Any, Any], Array]  # prior, parameters → coordinates u (n, p)
    constrain: Callable[[Any, Array], Any]  # prior, u → parameters
    log_jacobian: Callable[[Any, Any], Array]  # prior, parameters → log |d parameters / d u| (n,)


def _log(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(x))


PROBABILITY = Transform(
    lambda prior, p: special.logit(p)[:, None],
    lambda prior, u: special.expit(u[:, 0]),
    lambda prior, p: _log(p) + _log(1.0 - p),
)
RATE = Transform(
    lambda prior, rate: np.log(rate)[:, None],
    lambda prior, u: np.exp(u[:, 0]),
    lambda prior, rate: np.log(rate),
)
PROBABILITIES = Transform(
    lambda prior, p: _log(p[:, :-1]) - _log(p[:, -1:]),
    lambda prior, u: special.softmax(np.column_stack([u, np.zeros(len(u))]), axis=-1),
    lambda prior, p: _log(p).sum(axis=-1),
)


# The coordinate of a mean is its distance from the prior's location in units of the drawn covariance, which
# is normally distributed. The mean itself has a t distribution, whose tails would need too many draws.


def _unconstrain_matrix(prior: Any, parameters: Any) -> Array:
    factor = Cholesky.of(parameters[1])
    rows, columns = np.tril_indices(prior.dimension, -1)
    diagonal = np.log(np.diagonal(factor.lower, axis1=-2, axis2=-1))
    return np.column_stack(
        [factor.whiten(parameters[0] - prior.location), diagonal, factor.lower[:, rows, columns]]
    )


def _constrain_matrix(prior: Any, u: Array) -> tuple[Array, Array]:
    d = prior.dimension
    rows, columns = np.tril_indices(d, -1)
    root = np.zeros((len(u), d, d))
    root[:, np.arange(d), np.arange(d)] = np.exp(u[:, d : 2 * d])
    root[:, rows, columns] = u[:, 2 * d :]
    # `colour` multiplies vectors by the root L; `whiten` above divides by it.
    return prior.location + Cholesky(root).colour(u[:, :d]), root @ np.swapaxes(root, -1, -2)


def _log_jacobian_of_matrix(prior: Any, parameters: Any) -> Array:
    """Return log |d(μ, Σ) / d coordinates|.

    dΣ = 2^d ∏ L_ii^(d − i + 1) dL for i = 1 … d, dL_ii = L_ii d log L_ii, and dμ = ∏ L_ii dz.
    """
    d, lower = prior.dimension, Cholesky.of(parameters[1]).lower
    logs = np.log(np.diagonal(lower, axis1=-2, axis2=-1))
    return np.asarray(d * np.log(2.0) + (logs * np.arange(d + 2, 2, -1)).sum(axis=-1))


MEAN_AND_COVARIANCE = Transform(_unconstrain_matrix, _constrain_matrix, _log_jacobian_of_matrix)
MEAN_AND_VARIANCE = Transform(
    lambda prior, parameters: np.column_stack(
        [(parameters[0] - prior.location) / np.sqrt(parameters[1]), np.log(parameters[1])]
    ),
    lambda prior, u: (prior.location + np.exp(0.5 * u[:, 1]) * u[:, 0], np.exp(u[:, 1])),
    lambda prior, parameters: 1.5 * np.log(parameters[1]),
)
