"""x → B-splines: piecewise polynomials between knots, each nonzero only between a few of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline

from tamis.arrays import Array
from tamis.basis.base import Basis, Functions
from tamis.basis.placement import Placement, Range, check_choice, check_integer, place_functions


@dataclass(eq=False, repr=False)
class SplineBasis(Basis):
    """B-splines: smooth bumps, each nonzero between a few knots; from first to last knot they sum to 1.

    Further knots follow beyond both ends, at the distance of the two outermost knots there, so that the
    functions are those of scikit-learn's SplineTransformer. The sum of all functions is constant, as a
    model's intercept is, so the last function of each column is left out unless `include_bias` is set.

    >>> basis = SplineBasis(knots=[0.0, 1.0, 2.0], degree=1, include_bias=True).fit([[0.0]])
    >>> basis.transform([[0.0], [0.5], [2.0], [9.0]]).tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    >>> SplineBasis(knots=3, degree=1).fit([[0.0], [2.0]]).get_feature_names_out().tolist()
    ['x0 spline 0', 'x0 spline 1']

    Parameters
    ----------
    knots : the number of knots per column, ends included; or their places in ascending order: (k,), the same
        in each column, or (k, d), one column of places per column of the data
    degree : the degree of the polynomials between knots: 0 for steps, 1 for straight lines, 3 for cubics
    placed : how a number of knots is placed: "evenly" from the least to the largest value, or at "quantiles"
        (equal quantiles give one knot). A constant column gets a range of length 1 around its value
    extrapolation : how the functions continue beyond the first and the last knot: "constant" with their value
        there, "linear" with their value and slope there, or "periodic", so that they repeat and join smoothly
    include_bias : whether all functions are kept, for models without an intercept
    """

    knots: int | ArrayLike = 5
    degree: int = 3
    placed: Placement = "evenly"
    extrapolation: Literal["constant", "linear", "periodic"] = "constant"
    include_bias: bool = False

    @property
    def knots_(self) -> list[Array]:
        """The knots of each column (k,), without those beyond its ends."""
        knots: list[Array] = self._require_state().functions["knots"]
        return knots

    def define_functions(self, values: Array, ranges: Range) -> Functions:
        degree = check_integer("degree", self.degree, 0)
        check_choice("extrapolation", self.extrapolation, ("constant", "linear", "periodic"))
        knots = place_functions("knots", self.knots, self.placed, values, ranges, least=2)
        for places in knots:
            if (np.diff(places) <= 0).any():
                raise ValueError(f"got knots {places.tolist()}, expected ascending numbers: sort them")
            if self.extrapolation == "periodic" and len(places) <= degree:
                raise ValueError(
                    f"got {len(places)} knots for periodic splines of degree {degree}, expected at least "
                    f"{degree + 1}: add knots, or lower the degree"
                )
        functions: Functions = {
            "knots": knots,
            "degree": degree,
            "extrapolation": self.extrapolation,
            "all": bool(self.include_bias),  # whether the last function of each column is kept
            "bias": False,  # no column of ones is added, because all functions of a column sum to it
        }
        if any(_count_functions(functions, places) == 0 for places in knots):
            raise ValueError(
                f"got {min(map(len, knots))} knots and degree={degree}, which make only a constant function, "
                "expected two or more functions: add knots, raise the degree, or set include_bias"
            )
        return functions

    def _expand(self, functions: Functions, values: Array) -> Iterator[Array]:
        for j, knots in enumerate(functions["knots"]):
            splines = _evaluate(functions, knots, np.ascontiguousarray(values[:, j]))
            yield splines[:, : _count_functions(functions, knots)]

    def _name_functions(self, functions: Functions, names: list[str]) -> Iterator[str]:
        for name, knots in zip(names, functions["knots"], strict=True):
            yield from (f"{name} spline {i}" for i in range(_count_functions(functions, knots)))


def _count_functions(functions: Functions, knots: Array) -> int:
    """Return the number of functions of a column."""
    count = len(knots) - 1 + (0 if functions["extrapolation"] == "periodic" else functions["degree"])
    return count if functions["all"] else count - 1


def _evaluate(functions: Functions, knots: Array, x: Array) -> Array:
    """Return the values of all functions of a column (n, functions)."""
    degree, low, high = functions["degree"], knots[0], knots[-1]
    if functions["extrapolation"] == "periodic":
        period = high - low
        all_knots = np.r_[knots[-(degree + 1) : -1] - period, knots, knots[1 : degree + 1] + period]
        coefficients = np.eye(len(knots) - 1)
        curves = BSpline(all_knots, np.concatenate([coefficients, coefficients[:degree]]), degree)
        return np.asarray(curves(np.minimum(low + np.remainder(x - low, period), high)))
    steps = np.arange(1, degree + 1)
    all_knots = np.r_[low - (knots[1] - low) * steps[::-1], knots, high + (high - knots[-2]) * steps]
    curves = BSpline(all_knots, np.eye(len(knots) - 1 + degree), degree)
    inside = np.clip(x, low, high)
    splines = np.asarray(curves(inside))
    outside = np.flatnonzero(inside != x)
    if functions["extrapolation"] == "linear" and len(outside):
        slopes = curves(inside[outside], nu=1)  # the first derivative
        splines[outside] += (x[outside] - inside[outside])[:, None] * slopes
    return splines
