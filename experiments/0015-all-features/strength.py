"""The first regression with a prior that knows of a common factor of all scales.

How strong all evidence is differs much from store to store, and a few messages show it. What the views are
worth relative to each other differs less, and needs many messages. So a scale is s₀ (1 + u + e), where the
factor u is common to all views and e is the view's own.
"""

import numpy as np

from tamis.links import sigmoid
from tamis_mail.verdict import fitting

Floats = np.ndarray


def make_precision(scales: Floats, own: float, common: float) -> Floats:
    """(views + 1, views + 1): the inverse of the covariance of the scales and of the intercept."""
    covariance = np.diag(np.append(np.square(own * scales), fitting.INTERCEPT_WIDTH**2))
    covariance[:-1, :-1] += common**2 * np.outer(scales, scales)
    return np.linalg.inv(covariance)


def fit_scales(
    designs: Floats,
    is_spam: np.ndarray,
    weights: Floats,
    centre: Floats,
    precision: Floats,
    is_bounded: np.ndarray,
) -> Floats:
    """(columns,): the posterior mode, as `fitting.fit_scales` finds it for a diagonal precision."""
    signs = np.where(is_spam, 1.0, -1.0)

    def loss(point: Floats) -> float:
        difference = point - centre
        return (
            weights * np.logaddexp(0, -signs * (designs @ point))
        ).sum() + difference @ precision @ difference / 2

    def clip(point: Floats) -> Floats:
        return np.where(is_bounded, np.maximum(point, 0), point)

    point = centre.copy()
    for _ in range(100):
        p = sigmoid(designs @ point)
        gradient = designs.T @ (weights * (p - is_spam)) + precision @ (point - centre)
        hessian = (designs.T * (weights * p * (1 - p))) @ designs + precision
        is_free = (point > 0) | (gradient < 0) | ~is_bounded
        if np.abs(gradient[is_free]).max() < 1e-10 * len(designs):
            break
        step = np.zeros_like(point)
        step[is_free] = np.linalg.solve(hessian[np.ix_(is_free, is_free)], gradient[is_free])
        size, current = 1.0, loss(point)
        while size > 1e-8 and loss(clip(point - size * step)) > current:
            size /= 2
        next_point = clip(point - size * step)
        if np.abs(next_point - point).max() < 1e-10:
            break
        point = next_point
    return point
