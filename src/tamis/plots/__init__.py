"""Plots of fitted models, like scikit-learn's displays; matplotlib draws them."""

from tamis.extras import explain_missing

try:
    from tamis.plots.boundary import BoundaryDisplay
    from tamis.plots.calibration import CalibrationDisplay
    from tamis.plots.explanation import ExplanationDisplay
except ModuleNotFoundError as error:
    raise explain_missing(error, __name__) from None

__all__ = ["BoundaryDisplay", "CalibrationDisplay", "ExplanationDisplay"]
