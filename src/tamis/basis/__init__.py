"""columns → functions of columns: what makes a model that is linear in its weights bend.

They are scikit-learn's transformers, to stand before a linear model in a pipeline. Several columns are
expanded each by itself, side by side. Where functions lie follows from the range of the data, or is given by
hand.
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
