"""covariances → covariances drawn to a multiple of the identity: few rows then make none singular."""

from numbers import Real

import numpy as np

from tamis.arrays import Array, one_line


def refuse_shrinkage(shrinkage: float | str | None) -> None:
    """Raise unless it is a share, or none."""
    if shrinkage is None:
        return
    if isinstance(shrinkage, str):
        raise ValueError(
            f"got shrinkage={shrinkage!r}, expected a number from 0 to 1: Ledoit and Wolf's choice needs "
            "fourth moments, which no statistic keeps; give a number, or None for a prior in its place"
        )
    given: object = shrinkage
    if not isinstance(given, Real) or not 0.0 <= float(given) <= 1.0:
        raise ValueError(f"got shrinkage={one_line(given)}, expected a number from 0 to 1")


def shrunk(covariance: Array, shrinkage: float | str | None) -> Array:
    """(1 − s) Σ + s tr(Σ)/d I, for matrices (..., d, d)."""
    refuse_shrinkage(shrinkage)
    if not shrinkage:
        return covariance
    s, d = float(shrinkage), covariance.shape[-1]
    level = np.trace(covariance, axis1=-2, axis2=-1)[..., None, None] / d
    return np.asarray((1.0 - s) * covariance + s * level * np.eye(d))
