"""Points without labels → responsibilities → Moments per component → a mixture of Gaussians, step by step.

A request names the number of steps, and all of them are made again from the start: the server keeps nothing
between requests, so that a step back is as simple as a step forward.

Components have a prior, because a component of one point would otherwise have no covariance. A step of EM
then never lowers log p(points | θ) + log p(θ), the objective here. Its lower bound at θ, given the parameters
θ₀ before the step, is A(θ, θ₀) + log p(θ): equal to the objective at θ₀, and nowhere above it.
"""

from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from tamis.arrays import Array
from tamis.conjugate import NormalInverseWishart
from tamis.linalg import eigen
from tamis.models.generative import GaussianVectors, Generative, LabelledRows, Posterior, em
from tamis.models.generative.gaussian_densities import FullNormal
from tamis.stats import Keys, Labels
from tamis.tables import Table
from tamis_mail.surfaces.web.rooms.fields import FieldError, Fields
from tamis_mail.surfaces.web.rooms.shapes import trace_ellipse
from tamis_mail.surfaces.web.rooms.wording import pluralize

MAX_POINTS = 300
MAX_STEPS = 100
RANGE = (-100.0, 100.0)  # of a point's coordinates; the plane shows 0 to 10
STARTS = ("random_from_data", "kmeans")
_BLOCK = "points"  # name of the model's only block
# The prior of each component: its mean is the middle of the plane, and has the weight of a hundredth of a
# point. The covariance of a component without points has its mode at scale / (freedom + 4), a standard
# deviation of a quarter of a unit.
_PRIOR = NormalInverseWishart(np.array([5.0, 5.0]), 0.01, 4.0, 0.5 * np.eye(2))
_ALPHA = 0.01  # pseudo-points of each component, because a weight of 0 would stay 0 at every step
_FRACTIONS = np.linspace(-0.5, 1.5, 41)  # fractions of the next step for which objective and bound are drawn
_CONVERGED = 1e-3  # if the next step raises the objective by less, the steps have converged


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """The points and the model that observes them."""

    model: Generative
    rows: LabelledRows
    components: int

    @classmethod
    def of(cls, points: Array, components: int) -> "_Points":
        keys = Keys(tuple(range(components)))
        block = GaussianVectors(covariance="full", estimate="map", prior=_PRIOR)
        model = Generative({_BLOCK: block}, alpha=_ALPHA, classes=keys)
        labels = Labels(keys, np.full(len(points), -1))
        return cls(model, LabelledRows(model.encode(Table.of(points)), labels), components)

    def compute_objective(self, mixture: Posterior) -> float:
        """Return log p(points | θ) + log p(θ)."""
        return em.log_likelihood(self.rows, mixture) + _compute_log_prior(mixture)

    def compute_bound(self, mixture: Posterior, before: Posterior) -> float:
        """Return A(θ, θ₀) + log p(θ)."""
        return em.lower_bound(self.rows, mixture, before) + _compute_log_prior(mixture)


def make_example() -> dict[str, object]:
    """Return the first request of the page: three groups of points, and a random start."""
    rng = np.random.default_rng(5)
    groups = [
        rng.multivariate_normal([2.8, 3.0], [[0.8, 0.5], [0.5, 0.8]], 20),
        rng.multivariate_normal([7.2, 3.2], [[0.4, 0.0], [0.0, 1.0]], 16),
        rng.multivariate_normal([5.0, 7.4], [[1.4, -0.5], [-0.5, 0.5]], 20),
    ]
    points = np.concatenate(groups).round(2).tolist()
    return {"points": points, "components": 3, "start": STARTS[0], "step": 0, "seed": 1}


def compute(fields: Fields) -> dict[str, object]:
    """Make the steps; describe the mixture after the last one, and the bound that the next one maximises."""
    fields.refuse_unknown("points", "components", "start", "step", "seed")
    points = fields.read_rows("points", [RANGE, RANGE], MAX_POINTS)
    wanted = fields.read_integer("components", 1, 6)
    start = fields.read_choice("start", STARTS)
    step = fields.read_integer("step", 0, MAX_STEPS)
    seed = fields.read_integer("seed", 0, 1_000_000)
    if not len(points):
        raise FieldError("got no points, expected at least one: add points")
    data = _Points.of(points, min(wanted, len(points)))
    method: em.Method = "kmeans" if start == "kmeans" else "random_from_data"
    first = em.start(data.model, data.rows, data.components, np.random.default_rng(seed), method)
    mixtures = [first]
    mixtures.extend(result.posterior for result in islice(em.steps(data.model, data.rows, first), step + 1))
    objectives = [data.compute_objective(mixture) for mixture in mixtures]
    bounds = [data.compute_bound(mixtures[t + 1], mixtures[t]) for t in range(step + 1)]
    mixture, converged = mixtures[step], objectives[step + 1] - objectives[step] < _CONVERGED
    density = _get_density(mixture)
    between = [_interpolate(mixture, mixtures[step + 1], fraction) for fraction in _FRACTIONS]
    return {
        "step": step,
        "converged": converged,
        "weights": np.exp(mixture.log_prior),
        "means": density.mean,
        "covariances": density.covariance,
        "ellipses": [
            [trace_ellipse(mean, covariance, deviations) for deviations in (1.0, 2.0)]
            for mean, covariance in zip(density.mean, density.covariance, strict=True)
        ],
        "responsibilities": _compute_responsibilities(mixture, data.rows),
        "objectives": objectives[: step + 1],
        "bounds": bounds[:step],  # of each step that was made, at the parameters that it has reached
        "next": {
            "along": _FRACTIONS,
            "objective": [data.compute_objective(theta) for theta in between],
            "bound": [data.compute_bound(theta, mixture) for theta in between],
            "reached": objectives[step + 1],
            "bound_reached": bounds[step],
        },
        "text": _write_sentences(len(points), wanted, mixture, objectives, bounds, converged),
    }


def _get_density(mixture: Posterior) -> FullNormal:
    density = mixture.densities[_BLOCK]
    assert isinstance(density, FullNormal)
    return density


def _compute_log_prior(mixture: Posterior) -> float:
    """Return log p(θ) of means, covariances and weights, without the constant of the weights' Dirichlet."""
    density = _get_density(mixture)
    components = _PRIOR.log_density((density.mean, density.covariance)).sum()
    return float(components + _ALPHA * mixture.log_prior.sum())


def _compute_responsibilities(mixture: Posterior, rows: LabelledRows) -> Array:
    """Return p(component | point), (n, components)."""
    joint = mixture.log_joint(rows.rows)
    r = np.exp(joint - joint.max(axis=1, keepdims=True))
    return np.asarray(r / r.sum(axis=1, keepdims=True))


def _interpolate(start: Posterior, end: Posterior, fraction: float) -> Posterior:
    """Return the mixture at a fraction of the way from start to end; below 0 and above 1 it extrapolates.

    Means move on straight lines, and weights and covariances by their logarithms, so that they stay valid.
    """
    first, last = _get_density(start), _get_density(end)
    log_weights = (1.0 - fraction) * start.log_prior + fraction * end.log_prior
    log_weights = log_weights - np.log(np.exp(log_weights - log_weights.max()).sum()) - log_weights.max()
    means = (1.0 - fraction) * first.mean + fraction * last.mean
    covariances = np.stack(
        [
            _apply_to_spectrum(np.exp, (1.0 - fraction) * _log_matrix(a) + fraction * _log_matrix(b))
            for a, b in zip(first.covariance, last.covariance, strict=True)
        ]
    )
    density = first.with_parameters(means, covariances)
    return replace(start, log_prior=log_weights, densities={_BLOCK: density})


def _log_matrix(covariance: Array) -> Array:
    return _apply_to_spectrum(np.log, covariance)


def _apply_to_spectrum(function: np.ufunc, matrix: Array) -> Array:
    """Return the symmetric matrix with the same eigenvectors, and the function of the eigenvalues."""
    values, axes = eigen(matrix)
    return np.asarray((axes * function(values)) @ axes.T)


def _write_sentences(
    count: int,
    wanted: int,
    mixture: Posterior,
    objectives: list[float],
    bounds: list[float],
    converged: bool,
) -> list[str]:
    """Describe the mixture after the last step that was made; `objectives` and `bounds` include the next one.

    `count` is the number of points, `wanted` the number of components that the request names.
    """
    step = len(bounds) - 1
    weights, means = np.exp(mixture.log_prior), _get_density(mixture).mean
    parts = [
        f"{chr(65 + k)} with weight {weight:.2f} at ({x:.2f}, {y:.2f})"
        for k, (weight, (x, y)) in enumerate(zip(weights, means, strict=True))
    ]
    lines = [
        f"After {pluralize(step, 'step')} on {pluralize(count, 'point')}: component {'; '.join(parts)}.",
        (
            f"The objective, log-likelihood plus log-prior, is {objectives[step]:.3f}. The next step raises "
            f"the bound to {bounds[step]:.3f} and the objective to {objectives[step + 1]:.3f}."
        ),
    ]
    if converged:
        lines.append("The steps have converged: the next one changes almost nothing.")
    if wanted > len(weights):
        lines.append(f"There are only as many components as points: {len(weights)} instead of {wanted}.")
    return lines
