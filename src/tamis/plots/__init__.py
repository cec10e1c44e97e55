"""Fitted models → pictures, in the manner of scikit-learn's displays; matplotlib draws them."""

from tamis.plots.boundary import BoundaryDisplay
from tamis.plots.calibration import CalibrationDisplay
from tamis.plots.explanation import ExplanationDisplay

__all__ = ["BoundaryDisplay", "CalibrationDisplay", "ExplanationDisplay"]
