"""From whatever people hold their data in to plain float64 arrays, with the column names kept for messages.

The only module that knows of frames, of other array libraries and of dtypes.
"""

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_EXACT_INTEGER = 2**53  # the largest run of integers that float64 holds without a gap
_CURE = "encode it, or use a categorical family"
_FRAMES = ("pandas", "polars", "pyarrow", "modin", "cudf", "narwhals")


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows and columns: float64 values (n, d) in row-major order, and the names of the columns."""

    values: Array
    names: tuple[str, ...] | None = None

    def name(self, column: int) -> str:
        """How a message calls the column."""
        return f"column {column}" if self.names is None else f"column {self.names[column]!r}"


def namespace(*arrays: object) -> Any:
    """The array-API namespace that the arrays share (NumPy's own for NumPy arrays)."""
    return importlib.import_module("array_api_compat").array_namespace(*arrays)


def is_frame(data: object) -> bool:
    """Whether the data is a table or column of a frame library."""
    return type(data).__module__.partition(".")[0] in _FRAMES


def matrix(data: object) -> Matrix:
    """The data as a matrix: two-dimensional, or one-dimensional and then a single column."""
    if isinstance(data, Matrix):
        return data
    if is_frame(data):
        narwhals = importlib.import_module("narwhals.stable.v2")
        frame = narwhals.from_native(data, eager_only=True, allow_series=True)
        if hasattr(frame, "columns"):
            names: tuple[str, ...] = tuple(frame.columns)
            columns = [_floats(frame[name].to_numpy(), f"column {name!r}") for name in names]
            values = np.column_stack(columns) if columns else np.empty((len(frame), 0))
            return Matrix(np.ascontiguousarray(values), names)
        data = frame.to_numpy()
    values = to_numpy(data)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(
            f"got an array of {values.ndim} dimensions, expected rows and columns: reshape it to (n, d)"
        )
    _refuse_wide_integers(values)
    return Matrix(np.ascontiguousarray(_floats(values, "data")))


def to_numpy(data: object) -> NDArray[Any]:
    """A NumPy array of the same values; arrays of other libraries come over from their device."""
    if isinstance(data, np.ndarray):
        return data
    if hasattr(data, "toarray"):
        raise TypeError(
            f"got a sparse {type(data).__name__}, expected a dense array: "
            "call .toarray() if it fits in memory, or use a model that takes sparse input"
        )
    if hasattr(data, "get") and hasattr(data, "__cuda_array_interface__"):
        return np.asarray(data.get())
    if hasattr(data, "detach") and hasattr(data, "cpu"):
        return np.asarray(data.detach().cpu())
    return np.asarray(data)


def floats(data: ArrayLike, what: str) -> Array:
    """Parameters or values as float64, of any shape; `what` names them in a message."""
    return _floats(np.asarray(data), what)


def weights(data: object, n: int) -> Array | None:
    """Sample weights as float64 (n,): finite, one a row; None stays None."""
    if data is None:
        return None
    values = _floats(to_numpy(data), "weights")
    if values.shape != (n,):
        raise ValueError(f"got weights of shape {values.shape}, expected one a row: ({n},)")
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"weight {row} is {values[row]}, expected a finite number: drop or mend that row")
    return np.ascontiguousarray(values)


def refuse_unless_finite(data: Matrix, finite: Sequence[bool] | NDArray[np.bool_]) -> None:
    """Raise for the first column that `finite` marks as broken, naming its column and its row."""
    broken = np.flatnonzero(~np.asarray(finite))
    if broken.size:
        column = int(broken[0])
        row = int(np.flatnonzero(~np.isfinite(data.values[:, column]))[0])
        raise ValueError(
            f"{data.name(column)} holds {data.values[row, column]} in row {row}, expected finite numbers: "
            "drop or fill those rows, or use a model that takes missing values"
        )


def _floats(values: NDArray[Any], what: str) -> Array:
    if values.dtype == np.float64:
        return values
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    if values.dtype.kind == "O":
        try:
            return np.array([np.nan if v is None else float(v) for v in values.flat]).reshape(values.shape)
        except (TypeError, ValueError):
            found = next(v for v in values.flat if not _is_number(v))
            raise TypeError(f"{what} holds {found!r}, expected numbers: {_CURE}") from None
    raise TypeError(f"{what} is of type {values.dtype}, expected real numbers: {_CURE}")


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return value is None
    return True


def _refuse_wide_integers(values: NDArray[Any]) -> None:
    if values.dtype.kind in "iu" and values.size and values.dtype.itemsize == 8:
        wide = (values > _EXACT_INTEGER) | (values < -_EXACT_INTEGER)
        if wide.any():
            row, column = np.argwhere(wide)[0]
            raise ValueError(
                f"column {column} holds {values[row, column]} in row {row}, expected integers up to 2**53, "
                "which float64 holds exactly: rescale the column, or treat it as a category"
            )


def encode(labels: object) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values among the labels, in no promised order, and each label's index among them."""
    if is_frame(labels):
        narwhals = importlib.import_module("narwhals.stable.v2")
        labels = narwhals.from_native(labels, series_only=True).to_list()
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "biuSU":
        values, codes = np.unique(labels, return_inverse=True)
        return values.tolist(), codes.astype(np.int64)
    if not isinstance(labels, Iterable) or isinstance(labels, str | bytes):
        raise TypeError(f"got labels of type {type(labels).__name__}, expected one label a row")
    items = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    index: dict[Any, int] = {}
    found = np.empty(len(items), dtype=np.int64)
    for row, item in enumerate(items):
        value = item.item() if isinstance(item, np.generic) else item
        if value is None or value != value:
            raise ValueError(f"label {row} is {value!r}, expected a value: drop the row, or label it")
        found[row] = index.setdefault(value, len(index))
    return list(index), found
