"""Check and convert labels, targets, folds and other arguments in the forms that scikit-learn accepts."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_random_state

from tamis import arrays, inputs, validate
from tamis.arrays import Array, one_line
from tamis.stats import Keys, Labels
from tamis.tables import Table
from tamis.warning import warn

_COLUMN_VECTOR = (
    "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
    "(n_samples,), for example using ravel()."
)


def read_labels(y: Any, rows: int, missing_label: object = None) -> Labels:
    """Encode y by its values, see `inputs.read_labels`. An (n, 1) array is flattened, with a warning."""
    if hasattr(y, "__array__"):
        shape = tuple(y.shape) if hasattr(y, "shape") else np.asarray(y).shape
        if len(shape) == 2 and shape[1] == 1:
            warn(_COLUMN_VECTOR, DataConversionWarning)
            y = arrays.flatten_column(y)
    return inputs.read_labels(y, rows, missing_label)


def read_target(y: object, rows: int) -> Array:
    """Convert y to numbers (n,), see `inputs.read_targets`. An (n, 1) array is flattened, with a warning."""
    values = inputs.read_targets(y, rows)
    if values.ndim == 1:
        return values
    if values.shape[1] != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    warn(_COLUMN_VECTOR, DataConversionWarning)
    return np.ascontiguousarray(values[:, 0])


def make_generator(random_state: Any) -> np.random.Generator:
    """Make NumPy's generator from any random state that scikit-learn takes."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or (isinstance(random_state, int | np.integer) and random_state >= 0):
        return np.random.default_rng(random_state)
    if not isinstance(random_state, np.random.RandomState) and random_state is not np.random:
        raise ValueError(
            f"got random_state={one_line(random_state)}, expected None, a whole number of at least 0, or a "
            "generator of NumPy"
        )
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))


def check_sample_count(n_samples: object) -> int:
    """Return how many rows, functions or coefficients to draw; raise unless it is a whole number above 0."""
    count = float(n_samples) if isinstance(n_samples, Real) else np.nan
    if not 1.0 <= count < np.inf or not count.is_integer():
        raise ValueError(f"got n_samples={n_samples!r}, expected a whole number of at least 1")
    return int(count)


def read_folds(
    folds: int | str | ArrayLike,
    rows: int,
    class_index: NDArray[np.int64] | None,
    groups: Any,
    random_state: Any,
) -> NDArray[np.int64] | None:
    """Return the fold of each row (n,), or None for "leave-one-out".

    `folds` is the number of folds, or the fold of each row (n,). If it is a number, each fold has the classes
    of `class_index` (n,) in equal proportions or, if `groups` (n,) are given, all rows of some of these. With
    a `random_state`, rows are shuffled.
    """
    if isinstance(folds, str):
        if folds != "leave-one-out":
            raise ValueError(
                f"got folds={folds!r}, expected a whole number, the fold of each row, or 'leave-one-out'"
            )
        return None
    if np.ndim(folds) == 0:
        rng = None if random_state is None else make_generator(random_state)
        if np.asarray(folds).dtype.kind not in "iu":
            raise TypeError(
                f"got folds={folds!r}, expected a whole number, the fold of each row, or 'leave-one-out'"
            )
        return validate.split(
            rows, int(np.asarray(folds)), rng, class_index if groups is None else None, groups
        )
    _, fold = Keys.of(np.asarray(folds))
    if len(fold) != rows:
        raise ValueError(f"got folds with {len(fold)} entries for {rows} rows, expected one entry per row")
    return fold


def drop_weightless(
    labels: Labels, weights: Array | None, table: Table
) -> tuple[Labels, Array | None, Table]:
    """Drop rows of weight zero, with their labels and weights, and the classes that only these rows have."""
    if weights is None or weights.all():
        return labels, weights, table
    kept = weights > 0
    group = labels.group[kept]
    present = np.zeros(len(labels.keys), dtype=np.bool_)
    present[group[group >= 0]] = True
    new_index = np.append(np.cumsum(present) - 1, -1)  # a missing label, −1, selects the last entry: −1
    new_labels = Labels(labels.keys.keep(present), new_index[group])
    return new_labels, weights[kept], table.take(np.flatnonzero(kept))
