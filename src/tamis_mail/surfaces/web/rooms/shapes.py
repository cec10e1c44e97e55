"""Gaussians and functions of two numbers → the ellipses and lines that are drawn for them."""

import numpy as np

from tamis.arrays import Array
from tamis.linalg import eigen

_CORNERS = 60  # corners of the polygon that is drawn for an ellipse


def trace_ellipse(mean: Array, covariance: Array, deviations: float) -> Array:
    """Return the corners, (n, 2), of a polygon at a number of standard deviations from the mean."""
    values, axes = eigen(covariance)
    angles = np.linspace(0.0, 2.0 * np.pi, _CORNERS, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.asarray(mean + deviations * (circle * np.sqrt(np.maximum(values, 0.0))) @ axes.T)


def trace_zeros(values: Array, x: Array, y: Array) -> Array:
    """Return the segments, (n, 2 ends, 2 coordinates), on which a function is zero.

    `values`, (len(y), len(x)), are those of the function on a grid. Each square of the grid is cut into two
    triangles. In a triangle the function is taken to be linear, so that it is zero on one segment or on none
    (marching triangles). If the function is linear, the segments are exact.
    """
    across, up = np.meshgrid(x, y)
    nodes = np.stack([across, up, values], axis=-1)
    corners = nodes[:-1, :-1], nodes[:-1, 1:], nodes[1:, 1:], nodes[1:, :-1]
    triangles = np.concatenate(
        [
            np.stack([corners[k] for k in chosen], axis=2).reshape(-1, 3, 3)
            for chosen in ((0, 1, 2), (0, 2, 3))
        ]
    )
    is_above = triangles[:, :, 2] > 0
    mixed = is_above.any(axis=1) & ~is_above.all(axis=1)
    triangles, is_above = triangles[mixed], is_above[mixed]
    # The corner that is alone on its side of zero: the segment ends on its two edges.
    alone = np.where(is_above.sum(axis=1) == 1, is_above.argmax(axis=1), is_above.argmin(axis=1))
    rows = np.arange(len(triangles))
    tip = triangles[rows, alone]
    ends = []
    for other in (1, 2):
        far = triangles[rows, (alone + other) % 3]
        fraction = tip[:, 2] / (tip[:, 2] - far[:, 2])
        ends.append(tip[:, :2] + fraction[:, None] * (far[:, :2] - tip[:, :2]))
    return np.stack(ends, axis=1)
