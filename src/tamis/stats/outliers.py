"""rows → whether each row is an outlier in its group.

A sum of products in floats has rounding errors in proportion to its largest terms. While the terms stay in
the sum, the relative error is small; after they are subtracted, it is large. So rows whose w (x − median)² is
very large for their group are found here, and `products` sums them exactly. Which rows are chosen affects
only the rounding errors of a sum.
"""

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import Floats
from tamis.stats.rows import Rows

Flags = NDArray[np.bool_]

# An outlier deviates from the median by more than this many times the lower quartile of |x − median|: about
# 80 standard deviations of a normal column.
_OUTLIER_DEVIATION = 256.0
_FEW_DIFFERENT = 16  # if no more rows of a column than this differ from the median, all of them are outliers
_FEW_SAMPLED = 2  # if no more rows of a sample than this differ from the median, all of them may be outliers
_MIN_SAMPLE, _MAX_SAMPLE = 8, 64  # rows sampled per group
_SAMPLING = 16  # between these limits, one of every 16 rows is sampled


def find_outliers(rows: Rows, last_columns: Rows | None, squares: Floats) -> Flags | None:
    """Mark the outliers (n,); None if there are none. `last_columns` are further columns of the rows.

    `squares` (groups, d) are Σ w (x − c)². A sample of each group's rows gives a scale of each column: the
    lower quartile of √w |x − median|. A column is read completely only if its squares exceed those that rows
    within `_OUTLIER_DEVIATION` times the scale can have.
    """
    order, edges = rows.sort_by_group()
    starts = np.asarray(edges)
    sizes = np.diff(starts)
    groups = np.flatnonzero(sizes)
    index = starts[groups][:, None] + _choose_places(sizes[groups])
    median, scale = _find_quartiles(_sample(rows, last_columns, index if order is None else order[index]))
    is_outlier: Flags | None = None
    is_suspect = _exceed_scale(squares[groups], scale, sizes[groups][:, None])
    for k, j in np.argwhere(is_suspect).tolist():
        group_slice = slice(starts[groups[k]], starts[groups[k] + 1])
        index = np.arange(group_slice.start, group_slice.stop) if order is None else order[group_slice]
        is_outlier_in_group = _find_in_column(
            rows, last_columns, index, j, float(median[k, j]), float(scale[k, j])
        )
        if is_outlier_in_group.any():
            is_outlier = np.zeros(len(rows.values), dtype=np.bool_) if is_outlier is None else is_outlier
            is_outlier[index[is_outlier_in_group]] = True
    return is_outlier


def sample_columns(rows: Floats | list[Floats]) -> tuple[Floats, Floats]:
    """Return the median and the scale of each column (d,), from a sample of rows without groups.

    `rows` is (n, d), or a list of columns (n,). The scale is described in `find_outliers`.
    """
    places = _choose_places(np.array([len(rows[0]) if isinstance(rows, list) else len(rows)]))
    if isinstance(rows, list):
        sample = np.stack([column[places] for column in rows], axis=-1)
    else:
        sample = rows[places]
    median, scale = _find_quartiles((sample, None))
    return median[0], scale[0]


def may_have_outliers(squares: Floats, scale: Floats, n: int) -> bool:
    """Return whether `find_outliers` would read a column of n rows without groups completely.

    `squares` (d,) are Σ (x − c)², and `scale` (d,) is the second result of `sample_columns`.
    """
    return bool(_exceed_scale(squares, scale, np.array(n)).any())


def _choose_places(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose the rows to sample: return their indices within each group (groups, count), evenly spaced."""
    count = int(np.clip(sizes.sum() // (_SAMPLING * max(1, len(sizes))), _MIN_SAMPLE, _MAX_SAMPLE))
    places: NDArray[np.int64] = (np.arange(count) * sizes[:, None]) // count
    return places


def _exceed_scale(squares: Floats, scale: Floats, sizes: NDArray[np.int64]) -> Flags:
    """Return whether the sums of squares exceed the largest that rows without outliers can have.

    `squares` and `scale` are (..., d); `sizes` are the numbers of rows, and broadcast with them.
    """
    return np.asarray(squares > np.square(_OUTLIER_DEVIATION * scale) * sizes)


def _find_in_column(
    rows: Rows, last_columns: Rows | None, index: NDArray[np.int64], j: int, median: float, scale: float
) -> Flags:
    """Mark those rows at `index` that are outliers in column j, whose median and scale are given."""
    width = rows.values.shape[1]
    source, column = (rows, j) if last_columns is None or j < width else (last_columns, j - width)
    deviation = np.abs(source.values[index, column] - median)
    if rows.weights is not None:
        deviation *= np.sqrt(rows.weights[index, 0])
    if scale == 0.0:  # most rows equal the median; then the others give the scale, unless they are few
        different = np.flatnonzero(deviation)
        if len(different) <= _FEW_DIFFERENT:
            return np.asarray(deviation > 0)
        scale = float(np.partition(deviation[different], len(different) // 4)[len(different) // 4])
    return np.asarray(deviation > _OUTLIER_DEVIATION * scale)


def _sample(rows: Rows, last_columns: Rows | None, index: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
    """Return the values (groups, count, d) of the rows at `index` (groups, count), and √ of their weights."""
    values = rows.values[index]
    if last_columns is not None:
        values = np.concatenate([values, last_columns.values[index]], axis=-1)
    return values, None if rows.weights is None else np.sqrt(rows.weights[index])


def _find_quartiles(sample: tuple[Floats, Floats | None]) -> tuple[Floats, Floats]:
    """Return the median (groups, d), and the lower quartile of the nonzero deviations from it (groups, d).

    The quartile is 0 if at most `_FEW_SAMPLED` deviations are nonzero, which may all be outliers;
    then `find_outliers` reads the column completely, if any of its squares is not 0.
    """
    values, roots = sample  # as of `_sample`
    count = values.shape[1]
    median = np.partition(values, count // 2, axis=1)[:, count // 2]
    deviation = np.abs(values - median[:, None])
    if roots is not None:
        deviation *= roots
    deviation.sort(axis=1)
    zeros = (deviation == 0.0).sum(axis=1, keepdims=True)
    quartile = np.minimum(zeros + (count - zeros) // 4, count - 1)
    scale = np.take_along_axis(deviation, quartile, axis=1)[:, 0]
    return median, np.where(count - zeros[:, 0] > _FEW_SAMPLED, scale, 0.0)
