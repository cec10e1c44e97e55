"""x → 1 / (1 + exp(−(x − c) / s)): steps, one at each centre."""

from collections.abc import Iterator

import numpy as np
from scipy.special import expit

from tamis.arrays import Array
from tamis.basis.base import CentredBasis, Functions
from tamis.basis.placement import Range, choose_widths, format_numbers, place_functions


class SigmoidBasis(CentredBasis):
    """Steps 1 / (1 + exp(−(x − c) / s)): 0 far below the centre c, a half at it, 1 far above.

    >>> SigmoidBasis(centres=[1.0], width=0.5).fit_transform([[0.0], [1.0], [2.0]]).round(3).tolist()
    [[0.119], [0.5], [0.881]]
    >>> SigmoidBasis(centres=2).fit([[0.0], [4.0]]).get_feature_names_out().tolist()
    ['x0 above 0', 'x0 above 4']

    Parameters
    ----------
    centres : their number per column; or their places, (k,) in every column, or (k, d) with a column for each
    placed : where that many centres go: "evenly" from the least to the largest value, or at "quantiles"
        (fewer where these fall together). A constant column has a range of one about it
    width : None for the spacing of the centres (the mean distance to both neighbours; of one alone, the
        range); or a number, or an array that broadcasts to (k, d): one per column (d,), one per centre (k, 1)
    include_bias : whether a column of ones comes first, for models without an intercept
    """

    def define_functions(self, values: Array, span: Range) -> Functions:
        centres = place_functions("centres", self.centres, self.placed, values, span)
        widths = choose_widths(self.width, centres, span)
        return {"centres": centres, "widths": widths, "bias": bool(self.include_bias)}

    def _expand(self, functions: Functions, values: Array) -> Iterator[Array]:
        with np.errstate(over="ignore", under="ignore"):  # far away is 0 or 1
            for j, (c, s) in enumerate(zip(functions["centres"], functions["widths"], strict=True)):
                yield expit((values[:, j, None] - c) / s)

    def _name(self, functions: Functions, names: list[str]) -> Iterator[str]:
        for name, each in zip(names, functions["centres"], strict=True):
            yield from (f"{name} above {place}" for place in format_numbers(each))
