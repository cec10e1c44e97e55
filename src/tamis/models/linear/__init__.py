"""Linear models: Bayesian regression from sums of products (`Gram`), and models fitted by Newton's method."""

from tamis.models.linear.held_out import HeldOutNumbers, cross_validate, leave_one_out
from tamis.models.linear.posterior import LinearPosterior
from tamis.models.linear.regression import BayesianLinear, Paired

__all__ = ["BayesianLinear", "HeldOutNumbers", "LinearPosterior", "Paired", "cross_validate", "leave_one_out"]
