"""x → exp(−(x − c)² / 2s²): bumps, one at each centre."""

from collections.abc import Iterator

import numpy as np

from tamis.arrays import Array
from tamis.basis.base import CentredBasis, Functions
from tamis.basis.placement import (
    Range,
    broadcast,
    check_finite,
    check_positive,
    choose_widths,
    format_numbers,
    place_functions,
)


class GaussianBasis(CentredBasis):
    """Bumps exp(−(x − c)² / 2s²), each 1 at its centre c and near 0 some widths s away from it.

    By default, each bump is a function of one column. Centres (k, d), with one coordinate per column, make a
    radial basis: each bump is then a function of all columns, and falls with the distance from its centre.

    >>> GaussianBasis(centres=[0.0, 1.0], width=0.5).fit_transform([[0.0], [0.5], [1.0]]).round(3).tolist()
    [[1.0, 0.135], [0.607, 0.607], [0.135, 1.0]]
    >>> GaussianBasis(centres=3).fit([[0.0], [4.0]]).get_feature_names_out().tolist()
    ['x0 near 0', 'x0 near 2', 'x0 near 4']
    >>> radial = GaussianBasis(centres=[[0, 0], [3, 4]], width=5).fit([[0, 0], [3, 4]])
    >>> radial.transform([[0, 0]]).round(3).tolist(), radial.get_feature_names_out().tolist()
    ([[1.0, 0.607]], ['near (0, 0)', 'near (3, 4)'])

    Parameters
    ----------
    centres : the number of centres per column; or their places: (k,), the same in each column, or (k, d) for
        a radial basis
    placed : how a number of centres is placed: "evenly" from the least to the largest value, or at
        "quantiles" (equal quantiles give one centre). A constant column gets a range of length 1 around its
        value
    width : None for the spacing of the centres: the mean distance to both neighbours, in a radial basis the
        distance to the nearest one, and for a single centre the length of the range. Or a number, or an array
        that broadcasts to (k, d): one per column (d,), one per centre (k, 1)
    include_bias : whether a column of ones comes first, for models without an intercept
    """

    def define_functions(self, values: Array, ranges: Range) -> Functions:
        columns = len(ranges.low)
        bias = bool(self.include_bias)
        centres = check_finite("centres", self.centres)
        if columns > 1 and centres.ndim == 2:
            if centres.shape[1] != columns or not len(centres):
                raise ValueError(
                    f"got centres of shape {centres.shape}, expected (k,) in every column, or (k, {columns}) "
                    "for a radial basis"
                )
            width = (
                _measure_spacing(centres, ranges)
                if self.width is None
                else check_positive("width", self.width)
            )
            return {
                "centres": centres.copy(),
                "widths": broadcast("width", width, centres.shape).copy(),
                "bias": bias,
            }
        places = place_functions("centres", self.centres, self.placed, values, ranges)
        return {"centres": places, "widths": choose_widths(self.width, places, ranges), "bias": bias}

    def _expand(self, functions: Functions, values: Array) -> Iterator[Array]:
        centres, widths = functions["centres"], functions["widths"]
        with np.errstate(over="ignore", under="ignore"):  # far from the centre, the function is 0
            if isinstance(centres, list):
                for j, (c, s) in enumerate(zip(centres, widths, strict=True)):
                    yield np.exp(-0.5 * ((values[:, j, None] - c) / s) ** 2)
            else:
                distance = np.zeros((len(values), len(centres)))
                for j in range(values.shape[1]):
                    distance += ((values[:, j, None] - centres[:, j]) / widths[:, j]) ** 2
                yield np.exp(-0.5 * distance)

    def _name_functions(self, functions: Functions, names: list[str]) -> Iterator[str]:
        centres = functions["centres"]
        if isinstance(centres, list):
            for name, places in zip(names, centres, strict=True):
                yield from (f"{name} near {place}" for place in format_numbers(places))
        else:
            texts = [
                dict(zip(places.tolist(), format_numbers(places), strict=True))
                for places in map(np.unique, centres.T)
            ]
            for row in centres.tolist():
                yield f"near ({', '.join(text[x] for text, x in zip(texts, row, strict=True))})"


def _measure_spacing(centres: Array, ranges: Range) -> Array:
    """Return the distance of each centre (k, d) to the nearest other one (k, 1).

    For a single centre it is the length of the longest range.
    """
    if len(centres) == 1:
        ranges = ranges.widen_constants()
        return np.array([[np.max(ranges.high - ranges.low)]])
    distances = np.linalg.norm(centres[:, None] - centres, axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.min(axis=1)
    if not nearest.all():
        raise ValueError("got centres with two equal places, expected distinct ones: drop one, or set width")
    return np.asarray(nearest[:, None])
