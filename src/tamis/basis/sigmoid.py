"""x → 1 / (1 + exp(−(x − c) / s)): steps, one at each centre."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from tamis.arrays import Array
from tamis.basis.base import Basis, Plan
from tamis.basis.placing import Placed, Range, places, widths, written


class SigmoidBasis(Basis):
    """Steps 1 / (1 + exp(−(x − c) / s)): 0 far below the centre c, a half at it, 1 far above.

    >>> SigmoidBasis(centres=[1.0], width=0.5).fit_transform([[0.0], [1.0], [2.0]]).round(3).tolist()
    [[0.119], [0.5], [0.881]]
    >>> SigmoidBasis(centres=2).fit([[0.0], [4.0]]).get_feature_names_out().tolist()
    ['x0 above 0', 'x0 above 4']

    Parameters
    ----------
    centres : how many a column has; or where they are, (k,) in every column, or (k, d) with a column for each
    placed : where that many centres go: "evenly" from the least to the largest value, or at "quantiles"
        (fewer where these fall together). A constant column has a range of one about it
    width : None for the spacing of the centres (the mean distance to both neighbours; of one alone, the
        range); or a number, or an array that broadcasts to (k, d): one a column (d,), one a centre (k, 1)
    include_bias : whether a column of ones comes first, for models without an intercept
    """

    def __init__(
        self,
        centres: int | ArrayLike = 9,
        placed: Placed = "evenly",
        width: float | ArrayLike | None = None,
        include_bias: bool = False,
    ) -> None:
        self.centres = centres
        self.placed = placed
        self.width = width
        self.include_bias = include_bias

    @property
    def centres_(self) -> list[Array]:
        """Where the steps are, for each column (k,)."""
        found: list[Array] = self._fitted().plan["centres"]
        return found

    @property
    def width_(self) -> list[Array]:
        """How wide the steps are, for each column (k,)."""
        found: list[Array] = self._fitted().plan["widths"]
        return found

    def _plan(self, values: Array, span: Range) -> Plan:
        centres = places("centres", self.centres, self.placed, values, span)
        wide = widths(self.width, centres, span)
        return {"centres": centres, "widths": wide, "bias": bool(self.include_bias)}

    def _expand(self, plan: Plan, values: Array) -> Iterator[Array]:
        with np.errstate(over="ignore", under="ignore"):  # far away is 0 or 1
            for j, (c, s) in enumerate(zip(plan["centres"], plan["widths"], strict=True)):
                yield expit((values[:, j, None] - c) / s)

    def _names(self, plan: Plan, names: list[str]) -> Iterator[str]:
        for name, each in zip(names, plan["centres"], strict=True):
            yield from (f"{name} above {place}" for place in written(each))
