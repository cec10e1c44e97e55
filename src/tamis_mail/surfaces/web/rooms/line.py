"""Points about a straight line → Gram → the distribution of its level and slope, point by point.

The level of the line is its value at x = 0.
"""

import numpy as np

from tamis.arrays import Array
from tamis.models.linear import LinearPosterior
from tamis_mail.surfaces.web.rooms.fields import Fields
from tamis_mail.surfaces.web.rooms.shapes import trace_ellipse
from tamis_mail.surfaces.web.rooms.weights import describe_predictions, get_log_evidence, infer_weights
from tamis_mail.surfaces.web.rooms.wording import pluralize

MAX_POINTS = 200
RANGE = (-100.0, 100.0)  # of a point's coordinates; the plane shows -1 to 1
_GRID = np.linspace(-1.0, 1.0, 41)
_SLOPES = (-2.0, 2.0)  # the slopes that the plane of level and slope shows


def make_example() -> dict[str, object]:
    """Return the first request of the page: twelve points about y = -0.3 + 0.5 x."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-0.95, 0.95, 12).round(2)
    y = (-0.3 + 0.5 * x + rng.normal(0.0, 0.2, 12)).round(2)
    return {"points": np.stack([x, y], axis=1).tolist(), "alpha": 2.0, "noise": 0.2, "seed": 0}


def compute(fields: Fields) -> dict[str, object]:
    """Infer level and slope from the points; predict along the line."""
    fields.refuse_unknown("points", "alpha", "noise", "seed")
    points = fields.read_rows("points", [RANGE, RANGE], MAX_POINTS)
    alpha = fields.read_number("alpha", 0.001, 1000.0)
    noise = fields.read_number("noise", 0.01, 10.0)  # standard deviation
    seed = fields.read_integer("seed", 0, 1_000_000)  # of the lines drawn from the posterior
    posterior = infer_weights(_expand(points[:, 0]), points[:, 1], alpha, noise)
    mean, covariance = posterior.mean[0], posterior.covariance[0]
    return {
        "places": _GRID,  # the x of all curves
        **describe_predictions(posterior, _expand(_GRID), seed),
        "weights": {
            "mean": mean,
            "deviation": np.sqrt(np.diagonal(covariance)),
            "ellipses": [trace_ellipse(mean, covariance, deviations) for deviations in (1.0, 2.0, 3.0)],
            "last_likelihood": _trace_likelihood(points[-1], noise) if len(points) else None,
        },
        "log_evidence": get_log_evidence(posterior),
        "text": _write_sentences(len(points), posterior),
    }


def _expand(x: Array) -> Array:
    """Return the features 1 and x, (n, 2)."""
    return np.column_stack([np.ones(len(x)), x])


def _trace_likelihood(point: Array, noise: float) -> Array:
    """Return the corners, (4, 2), of the stripe of levels and slopes with a likelihood near its maximum.

    Their lines pass the point above or below it at a distance of at most `noise`.
    """
    x, y = point
    (low, high), (first, last) = (-noise, noise), _SLOPES
    return np.array(
        [
            [y - first * x + low, first],
            [y - first * x + high, first],
            [y - last * x + high, last],
            [y - last * x + low, last],
        ]
    )


def _write_sentences(count: int, posterior: LinearPosterior) -> list[str]:
    (level, slope), deviation = posterior.mean[0], np.sqrt(np.diagonal(posterior.covariance[0]))
    middle = posterior.distribution(np.array([[1.0, 0.0]]), target=0)
    return [
        (
            f"After {pluralize(count, 'point')} the level is {level:.3f} ± {deviation[0]:.3f} and the slope "
            f"{slope:.3f} ± {deviation[1]:.3f}."
        ),
        (
            f"The next observation at x = 0 is expected at {middle.mean[0]:.3f} ± "
            f"{np.sqrt(middle.variance[0]):.3f}, noise included."
        ),
        f"The log-evidence of the points is {get_log_evidence(posterior):.3f}.",
    ]
