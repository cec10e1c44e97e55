"""rows → which of them lie far out among the others of their group.

Sums of products in floats have the rounding of their largest terms. While these stay in the sum it does no
harm; once they are taken away, what is left has lost as many digits as they were larger. So rows that are
very large for their group, by w (x − median)² against that of most rows, are found here and summed exactly.
The choice of these rows changes no sum, but for its rounding.
"""

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import Floats
from tamis.stats.rows import Rows

Flags = NDArray[np.bool_]

_FAR = 256.0  # times the lower quartile of deviations: about 80 standard deviations of normal rows
_FEW = 16  # rows that alone differ from all others in a column: exact whatever their size
_ALONE = 2  # rows of those looked at first that may all be outliers, if they alone differ from the others
_LEAST, _MOST = 8, 64  # rows of a group that are looked at first, if its squares are as expected
_SHARE = 16  # of the rows are looked at first, where groups are many


def find_outliers(rows: Rows, extra: Rows | None, squares: Floats) -> Flags | None:
    """Mark the rows to be summed by themselves (n,), None if there are none.

    `squares` (groups, d) are Σ w (x − c)². A few rows of each group show how large most deviations are; if
    the squares of a column are no more than rows within `_FAR` times that could have, nothing else is read.
    """
    order, edges = rows.sort_by_group()
    places = np.asarray(edges)
    sizes = np.diff(places)
    groups = np.flatnonzero(sizes)
    count = int(np.clip(len(rows.values) // (_SHARE * max(1, len(groups))), _LEAST, _MOST))
    index = places[groups][:, None] + (np.arange(count) * sizes[groups][:, None]) // count
    middle, scale = _quartiles(_deviations(rows, extra, index if order is None else order[index]))
    far: Flags | None = None
    suspect = squares[groups] > np.square(_FAR * scale) * sizes[groups][:, None]
    for k, j in np.argwhere(suspect).tolist():
        own = slice(places[groups[k]], places[groups[k] + 1])
        index = np.arange(own.start, own.stop) if order is None else order[own]
        outlying = _far_in_column(rows, extra, index, j, float(middle[k, j]), float(scale[k, j]))
        if outlying.any():
            far = np.zeros(len(rows.values), dtype=np.bool_) if far is None else far
            far[index[outlying]] = True
    return far


def _far_in_column(
    rows: Rows, extra: Rows | None, index: NDArray[np.int64], j: int, middle: float, scale: float
) -> Flags:
    width = rows.values.shape[1]
    source, column = (rows, j) if extra is None or j < width else (extra, j - width)
    away = np.abs(source.values[index, column] - middle)
    if rows.weights is not None:
        away *= np.sqrt(rows.weights[index, 0])
    if scale == 0.0:  # most rows are alike: the few that differ are far, or else tell the scale
        others = np.flatnonzero(away)
        if len(others) <= _FEW:
            return np.asarray(away > 0)
        scale = float(np.partition(away[others], len(others) // 4)[len(others) // 4])
    return np.asarray(away > _FAR * scale)


def _deviations(rows: Rows, extra: Rows | None, index: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
    """Values (groups, count, d) of the rows at an index (groups, count), and roots of their weights."""
    values = rows.values[index]
    if extra is not None:
        values = np.concatenate([values, extra.values[index]], axis=-1)
    return values, None if rows.weights is None else np.sqrt(rows.weights[index])


def _quartiles(drawn: tuple[Floats, Floats | None]) -> tuple[Floats, Floats]:
    """The median (groups, d), and the lower quartile of deviations from it other than zero.

    0 where so few are other than zero that these may all be outliers: then the whole column is read.
    """
    values, roots = drawn
    count = values.shape[1]
    middle = np.partition(values, count // 2, axis=1)[:, count // 2]
    away = np.abs(values - middle[:, None])
    if roots is not None:
        away *= roots
    away.sort(axis=1)
    zeros = (away == 0.0).sum(axis=1, keepdims=True)
    place = np.minimum(zeros + (count - zeros) // 4, count - 1)
    scale = np.take_along_axis(away, place, axis=1)[:, 0]
    return middle, np.where(count - zeros[:, 0] > _ALONE, scale, 0.0)
