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
    centres : the number of centres per column; or their places: (k,), the same in each column, or (k, d),
        one column of places per column of the data
    placed : how a number of centres is placed: "evenly" from the least to the largest value, or at
        "quantiles" (equal quantiles give one centre). A constant column gets a range of length 1 around its
        value
    width : None for the spacing of the centres: the mean distance to both neighbours, and for a single centre
        the length of the range. Or a number, or an array that broadcasts to (k, d): one per column (d,), one
        per centre (k, 1)
    include_bias : whether a column of ones comes first, for models without an intercept
    """

    def define_functions(self, values: Array, ranges: Range) -> Functions:
        centres = place_functions("centres", self.centres, self.placed, values, ranges)
        widths = choose_widths(self.width, centres, ranges)
        return {"centres": centres, "widths": widths, "bias": bool(self.include_bias)}

    def _expand(self, functions: Functions, values: Array) -> Iterator[Array]:
        with np.errstate(over="ignore", under="ignore"):  # far from the centre, the function is 0 or 1
            for j, (c, s) in enumerate(zip(functions["centres"], functions["widths"], strict=True)):
                yield expit((values[:, j, None] - c) / s)

    def _name_functions(self, functions: Functions, names: list[str]) -> Iterator[str]:
        for name, places in zip(names, functions["centres"], strict=True):
            yield from (f"{name} above {place}" for place in format_numbers(places))
