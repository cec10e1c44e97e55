"""columns → functions of columns, by which a model that is linear in its weights fits curves.

They are transformers of scikit-learn, to stand before a linear model in a pipeline. Each column is expanded
by itself. The places of the functions follow from the range of the data, or are given by hand.
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
