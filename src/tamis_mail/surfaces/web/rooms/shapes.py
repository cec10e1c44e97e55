"""A Gaussian of two numbers → the ellipse that is drawn for it."""

import numpy as np

from tamis.arrays import Array
from tamis.linalg import eigen

_CORNERS = 60  # of the polygon that is drawn for an ellipse


def trace_ellipse(mean: Array, covariance: Array, deviations: float) -> Array:
    """The points (corners, 2) at so many standard deviations from the mean in every direction."""
    values, axes = eigen(covariance)
    turn = np.linspace(0.0, 2.0 * np.pi, _CORNERS, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return np.asarray(mean + deviations * (circle * np.sqrt(np.maximum(values, 0.0))) @ axes.T)
