"""Noisy points of a curve → weights of Gaussian basis functions → the curve's distribution and evidence."""

import numpy as np

from tamis.arrays import Array
from tamis.basis import GaussianBasis
from tamis.models.linear import LinearPosterior
from tamis_mail.surfaces.web.rooms.fields import FieldError, Fields
from tamis_mail.surfaces.web.rooms.weights import (
    describe_predictions,
    get_log_evidence,
    infer_by_evidence,
    infer_weights,
)
from tamis_mail.surfaces.web.rooms.wording import pluralize

MAX_POINTS = 200
MAX_FUNCTIONS = 20
X_RANGE, Y_RANGE = (-10.0, 10.0), (-100.0, 100.0)  # allowed; the page's plot shows 0 to 1 and -2 to 2
# Different points: fewer do not suffice to choose the precisions of the weights and of the noise by evidence.
_MIN_POINTS = 3
_GRID = np.linspace(0.0, 1.0, 101)


def make_example() -> dict[str, object]:
    """Return the first request of the page: ten points of a noisy sinusoid, and nine functions."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 1.0, 10).round(2)
    y = (np.sin(2.0 * np.pi * x) + rng.normal(0.0, 0.2, 10)).round(2)
    points = np.stack([x, y], axis=1).tolist()
    settings = {"functions": 9, "width": 0.12, "alpha": 2.0, "noise": 0.2}
    return {"points": points, **settings, "by_evidence": False, "seed": 0}


def compute(fields: Fields) -> dict[str, object]:
    """Infer the weights of the functions; predict the curve; compare numbers of functions by evidence.

    In requests, answers and this module, `alpha` is the prior precision of the weights, and `noise` the
    standard deviation of the noise.
    """
    fields.refuse_unknown("points", "functions", "width", "alpha", "noise", "by_evidence", "seed")
    points = fields.read_rows("points", [X_RANGE, Y_RANGE], MAX_POINTS)
    number = fields.read_integer("functions", 1, MAX_FUNCTIONS)
    width = fields.read_number("width", 0.01, 5.0)
    alpha = fields.read_number("alpha", 1e-4, 1e4)
    noise = fields.read_number("noise", 0.01, 10.0)
    seed = fields.read_integer("seed", 0, 1_000_000)  # of the functions drawn from the posterior
    basis = _make_basis(number, width)
    features, targets = _expand(basis, points[:, 0]), points[:, 1]
    if fields.read_flag("by_evidence"):
        if len(np.unique(points, axis=0)) < _MIN_POINTS:
            raise FieldError(
                f"got {pluralize(len(points), 'point')}, expected {_MIN_POINTS} different ones to choose "
                "ridge and noise by evidence: add points"
            )
        posterior = infer_by_evidence(features, targets)
        assert posterior.alpha is not None
        # The posterior has one entry for each column of targets, and here there is one column.
        alpha, noise = float(posterior.alpha[0]), float(1.0 / np.sqrt(posterior.beta[0]))
    else:
        posterior = infer_weights(features, targets, alpha, noise)
    numbers = list(range(1, MAX_FUNCTIONS + 1))
    grid_features = _expand(basis, _GRID)
    evidences = [_evaluate(k, width, points, alpha, noise) for k in numbers]
    return {
        "places": _GRID,  # the x of all curves
        # The curves "mean", "low" and "high", and "functions", which are drawn with this seed.
        **describe_predictions(posterior, grid_features, seed),
        # Each function times its weight, without the first, which is constant.
        "parts": (grid_features * posterior.mean[0]).T[1:],
        "alpha": alpha,
        "noise": noise,
        "ridge": alpha * noise**2,
        "effective": posterior.effective[0],
        "log_evidence": get_log_evidence(posterior),
        "numbers": numbers,
        "evidences": evidences,
        "best_number": numbers[int(np.argmax(evidences))],
        "text": _write_sentences(len(points), number, posterior, alpha, noise, evidences),
    }


def _make_basis(number: int, width: float) -> GaussianBasis:
    """Return a constant, and functions with centres evenly spaced from 0 to 1; a single one is at 0.5."""
    return GaussianBasis(number, width=width, include_bias=True).fit([[0.0], [1.0]])


def _expand(basis: GaussianBasis, x: Array) -> Array:
    """Return the features of points, (n, functions + 1)."""
    if not len(x):
        return np.zeros((0, basis.transform([[0.0]]).shape[1]))
    return np.asarray(basis.transform(x[:, None]))


def _evaluate(number: int, width: float, points: Array, alpha: float, noise: float) -> float:
    """Return the log-evidence of the points for a number of functions."""
    features = _expand(_make_basis(number, width), points[:, 0])
    return get_log_evidence(infer_weights(features, points[:, 1], alpha, noise))


def _write_sentences(
    count: int, number: int, posterior: LinearPosterior, alpha: float, noise: float, evidences: list[float]
) -> list[str]:
    best = int(np.argmax(evidences))
    lines = [
        (
            f"{pluralize(count, 'point')}, {pluralize(number, 'basis function')}: the log-evidence is "
            f"{get_log_evidence(posterior):.3f}, and the points determine {posterior.effective[0]:.2f} of "
            f"the {number + 1} weights."
        ),
        (
            f"The prior precision of the weights is {alpha:.4g}, the standard deviation of the noise "
            f"{noise:.4g}; that is a ridge of {alpha * noise**2:.4g}."
        ),
    ]
    if count:
        lines.append(
            f"At this width, ridge and noise, {pluralize(best + 1, 'function')} would have the largest "
            f"log-evidence, {evidences[best]:.3f}."
        )
    return lines
