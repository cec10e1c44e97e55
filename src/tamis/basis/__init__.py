"""Basis functions: transformers that replace columns by functions of them, so that linear models fit curves.

They are scikit-learn transformers, for a pipeline with a linear model. Each column is expanded separately.
The positions of the functions (centres, knots) follow from the range of the data, or are parameters.
"""

from tamis.extras import explain_missing

try:
    from tamis.basis.fourier import FourierBasis
    from tamis.basis.gaussian import GaussianBasis
    from tamis.basis.polynomial import PolynomialBasis
    from tamis.basis.sigmoid import SigmoidBasis
    from tamis.basis.spline import SplineBasis
except ModuleNotFoundError as error:
    raise explain_missing(error, __name__) from None

__all__ = ["FourierBasis", "GaussianBasis", "PolynomialBasis", "SigmoidBasis", "SplineBasis"]
