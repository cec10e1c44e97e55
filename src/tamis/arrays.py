"""Convert data of any library to float64 arrays, with the names of columns for error messages.

Data frames and series are read through narwhals, a library that reads frames of pandas, Polars and others in
one way; NumPy arrays are made of everything else.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.extras import import_package

Array = NDArray[np.float64]

_FLOAT64 = np.dtype(np.float64)
LARGEST_EXACT_INTEGER = 2**53  # float64 represents all integers up to this one
_FRAME_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf", "narwhals")
_REMEDY = "encode it, or use a categorical family"
_TARGETS_REMEDY = "turn the targets into numbers, or use a classifier"
_LONGEST_VALUE = 80  # the largest number of characters of a value in a message


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows and columns: float64 values (n, d) in row-major order, and the names of the columns."""

    values: Array
    names: tuple[object, ...] | None = None
    had_one_axis: bool = False  # whether the data was one-dimensional, and became a single column

    def describe(self, column: int) -> str:
        """Return what messages call the column, such as "column 3" or "column 'city'"."""
        return f"column {column}" if self.names is None else f"column {self.names[column]!r}"

    def refuse_nonfinite(self, column: int) -> None:
        """Raise for a column that is known to hold NaN or infinity; the message names column and row."""
        row = int(np.flatnonzero(~np.isfinite(self.values[:, column]))[0])
        raise ValueError(
            f"{self.describe(column)} holds {self.values[row, column]} in row {row}, expected finite "
            "numbers: drop or fill those rows, or use a model that takes NaN"
        )


def is_frame(data: object) -> bool:
    """Return whether the data's type, such as a frame or a series, belongs to a library of data frames."""
    return type(data).__module__.partition(".")[0] in _FRAME_LIBRARIES


def one_line(value: object) -> str:
    """Format a value for a message: on one line, truncated if it is long.

    >>> one_line(np.ones((2, 2)))
    'array([[1., 1.], [1., 1.]])'
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def to_matrix(data: object, target: bool = False) -> Matrix:
    """Convert data to float64; data of one dimension becomes a single column.

    `target` is whether the data is the target y, so that error messages call it y.
    """
    if type(data) is np.ndarray and data.dtype is _FLOAT64 and data.ndim == 2:  # the fast path
        return Matrix(_align(data))
    if isinstance(data, Matrix):
        return data
    if is_frame(data):
        data = _wrap(data)
        if hasattr(data, "columns"):
            return _read_frame(data, target)
    values = to_numpy(data)
    if values.ndim not in (1, 2):
        raise ValueError(
            f"got an array of {values.ndim} dimensions, expected rows and columns: reshape it to (n, d)"
        )
    table = values[:, None] if values.ndim == 1 else values
    numbers = _convert_targets(table, "y") if target else _convert(table, "data", _describe_cell)
    return Matrix(_align(numbers), had_one_axis=values.ndim == 1)


def import_scipy_sparse() -> Any:
    """Import SciPy's sparse module, when it is first needed."""
    return import_package("scipy.sparse", "a sparse matrix")


def wrap_frame(data: Any) -> Any:
    """Wrap a data frame by narwhals; None for a series and for anything else."""
    wrapped = _wrap(data)
    return wrapped if hasattr(wrapped, "columns") else None


def read_arrow_columns(data: Any) -> dict[str, Array] | None:
    """Return the columns of an Arrow table by name, without a copy.

    None unless each column is one chunk of float64 without nulls (Arrow may store a column in several arrays,
    called chunks); NaN is allowed.
    """
    if type(data).__module__.partition(".")[0] != "pyarrow" or type(data).__name__ != "Table":
        return None
    columns = data.columns
    if not all(
        column.num_chunks == 1 and column.null_count == 0 and str(column.type) == "double"
        for column in columns
    ):
        return None
    return {name: column.chunk(0).to_numpy() for name, column in zip(data.column_names, columns, strict=True)}


def to_float_column(values: NDArray[Any], name: str) -> Array:
    """Convert a column (n,) to float64, missing values to NaN; `name` is its name in error messages."""
    return _convert(values, name, lambda index, value: f"{name} holds {value} in row {index[0]}")


def find_series_kind(series: Any) -> Literal["number", "integer", "bool", "category"]:
    """Return the kind of a narwhals series' values, by its dtype."""
    kind = series.dtype
    if kind == _import_narwhals().Boolean:
        return "bool"
    if not kind.is_numeric():
        return "category"
    return "integer" if kind.is_integer() else "number"


def flatten_column(data: Any) -> Any:
    """Convert a table of one column to a list (a data frame) or to an array (anything else).

    In a list, missing values keep their type.
    """
    if is_frame(data) and (table := wrap_frame(data)) is not None:
        return next(table.iter_columns()).to_list()
    return np.asanyarray(data).reshape(-1)  # `asanyarray` keeps the mask of a masked array


def is_categorical(series: Any) -> bool:
    """Return whether a narwhals series has a categorical dtype."""
    narwhals = _import_narwhals()
    return isinstance(series.dtype, narwhals.Categorical | narwhals.Enum)


def find_object_kind(value: Any) -> Literal["number", "integer", "bool", "category"] | None:
    """Return the kind of a Python value; None if it is missing."""
    if isinstance(value, str | bytes | np.datetime64 | np.timedelta64):
        return None if is_missing(value) else "category"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | np.integer):
        return "integer"
    if is_missing(value):
        return None
    return "number" if isinstance(value, Real) or hasattr(value, "__float__") else "category"


def _wrap(data: Any) -> Any:
    """Wrap a data frame or series by narwhals; return anything else of those libraries unchanged."""
    if hasattr(data, "collect"):
        raise TypeError(f"got a lazy {type(data).__name__}, expected rows in memory: call .collect() first")
    return _import_narwhals().from_native(data, eager_only=True, allow_series=True, pass_through=True)


def _import_narwhals() -> Any:
    return import_package("narwhals.stable.v2", "a data frame")


def _read_frame(frame: Any, target: bool = False) -> Matrix:
    names = tuple(frame.columns)
    values = np.empty((len(frame), len(names)))
    for j, (name, series) in enumerate(zip(names, frame.iter_columns(), strict=True)):
        cells = series.to_numpy()
        if series.dtype.is_integer() and cells.dtype.kind == "f":  # nulls turned integers into floats
            cells = np.array(series.to_list(), dtype=object)
        if target:
            values[:, j] = _convert_targets(cells, "y" if len(names) == 1 else f"y, in column {name!r},")
        else:
            values[:, j] = to_float_column(cells, f"column {name!r}")
    return Matrix(values, names)


def to_numpy(data: object) -> NDArray[Any]:
    """Convert to a NumPy array; arrays on a GPU are copied to main memory."""
    if hasattr(data, "toarray"):
        raise TypeError(
            f"got a sparse {type(data).__name__}, expected a dense array: "
            "call .toarray() if it fits in memory, or use a model that takes sparse input"
        )
    if isinstance(data, np.ndarray):
        fill = getattr(data.astype(np.float64), "filled", None) if hasattr(data, "mask") else None
        return np.asarray(data if fill is None else fill(np.nan))  # masked values become NaN
    if hasattr(data, "get") and hasattr(data, "__cuda_array_interface__"):  # CuPy: NumPy on a GPU
        return np.asarray(data.get())
    if hasattr(data, "detach") and hasattr(data, "cpu"):  # a tensor of PyTorch
        return np.asarray(data.detach().cpu())
    try:
        return np.asarray(data)
    except ValueError:
        raise ValueError(
            f"got a {type(data).__name__} of rows of different lengths, expected equal lengths"
        ) from None


def floats(data: ArrayLike, what: str) -> Array:
    """Convert parameters or values of any shape to float64; `what` names them in error messages."""
    return _convert(np.asarray(data), what, lambda index, value: f"{what} holds {value}")


def to_weights(data: object, n: int) -> Array | None:
    """Convert sample weights to float64 (n,): finite, one per row; None stays None."""
    if data is None:
        return None
    array = to_numpy(data)
    if array.shape != (n,):
        raise ValueError(f"got weights of shape {array.shape}, expected one per row: ({n},)")
    values = _convert(array, "weights", lambda index, value: f"weight {index[0]} is {value}")
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"weight {row} is {values[row]}, expected a finite number: drop or correct that row")
    return _align(values)


def refuse_unless_one_per_row(count: int, rows: int, what: str) -> None:
    """Raise unless the count equals the number of rows; `what` names the values that were counted."""
    if count != rows:
        raise ValueError(f"got {count} {what} for {rows} rows, expected one per row")


def _align(values: Array) -> Array:
    """Copy, if necessary, to an aligned array in row-major order, which kernels need."""
    flags = values.flags
    return values if flags.c_contiguous and flags.aligned else np.array(values, order="C")


# Describes a value by its index in the array and its text: "column 3 holds 'x' in row 5".
_Describe = Callable[[tuple[int, ...], str], str]


def _describe_cell(index: tuple[int, ...], value: str) -> str:
    return f"column {index[1]} holds {value} in row {index[0]}"


def _convert_targets(values: NDArray[Any], what: str) -> Array:
    """Convert targets to float64, without changing the shape."""
    return _convert(
        values, what, lambda index, value: f"{what} holds {value} in row {index[0]}", _TARGETS_REMEDY
    )


def _convert(values: NDArray[Any], what: str, describe: _Describe, remedy: str = _REMEDY) -> Array:
    """Convert to float64; error messages call the array `what`, and one value of it as `describe` says."""
    if values.dtype == np.float64:
        return values
    # NumPy's letters: b bool, i u integers, f floats, c complex, m M times, O objects, S U strings
    kind = values.dtype.kind
    if kind == "O":
        return _convert_objects(values, describe, remedy)
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {what} is of type {values.dtype}, expected real numbers"
        )
    if kind not in "fiub":
        remedy = "turn dates into numbers, such as days since a start" if kind in "mM" else remedy
        raise TypeError(f"{what} is of type {values.dtype}, expected real numbers: {remedy}")
    if kind in "iu" and values.dtype.itemsize == 8:
        inexact = (values > LARGEST_EXACT_INTEGER) | (values < -LARGEST_EXACT_INTEGER)
        if inexact.any():
            _refuse_inexact(tuple(np.argwhere(inexact)[0].tolist()), values, describe)
    return values.astype(np.float64)


def _convert_objects(values: NDArray[Any], describe: _Describe, remedy: str) -> Array:
    converted = np.empty(values.shape)
    for index, value in np.ndenumerate(values):
        if isinstance(value, int | np.integer) and abs(int(value)) > LARGEST_EXACT_INTEGER:
            _refuse_inexact(index, values, describe)
        try:
            if isinstance(value, str | bytes):
                raise TypeError
            converted[index] = np.nan if is_missing(value) else float(value)
        except (TypeError, ValueError) as problem:
            reason = f" ({problem})" if str(problem) else ""
            raise TypeError(f"{describe(index, repr(value))}, expected numbers{reason}: {remedy}") from None
    return converted


def _refuse_inexact(index: tuple[int, ...], values: NDArray[Any], describe: _Describe) -> None:
    raise ValueError(
        f"{describe(index, str(values[index]))}, expected integers up to 2**53, which float64 holds exactly: "
        "rescale them, or treat them as categories"
    )


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT, or pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"  # NA != NA is NA, which has no truth value


def encode(labels: object, missing: bool = False) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct labels, in any order, and the index of each row's label among them (n,).

    With `missing=True`, labels that are None, NaN or NA get the index -1; otherwise they raise an error.
    """
    items = _list_labels(labels)
    if isinstance(items, np.ndarray):
        if items.dtype.kind == "f" and np.isnan(items).any():
            is_nan = np.isnan(items)
            if not missing:
                _refuse_missing(int(np.argmax(is_nan)), np.nan)
            codes = np.full(len(items), -1, dtype=np.int64)
            names, codes[~is_nan] = encode(items[~is_nan])
            return names, codes
        if items.dtype.kind in "iu" and (encoded := _encode_range(items)) is not None:
            return encoded
        values, codes = np.unique(items, return_inverse=True)
        return values.tolist(), codes.astype(np.int64)
    index: dict[Any, int] = {}
    codes = np.empty(len(items), dtype=np.int64)
    for row, item in enumerate(items):
        try:
            code = index.get(item)
        except TypeError:
            raise TypeError(
                f"label {row} is {item!r}: an argument must be a string, a number or another hashable value"
            ) from None
        if code is None:
            if is_missing(item):
                if not missing:
                    _refuse_missing(row, item)
                codes[row] = -1
                continue
            code = len(index)
            index[item.item() if isinstance(item, np.generic) else item] = code
        codes[row] = code
    return list(index), codes


def _refuse_missing(row: int, item: object) -> None:
    raise ValueError(f"label {row} is {item!r}, expected a value: drop the row, or label it")


def argsort_codes(
    codes: NDArray[np.int64], size: int, order: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the indices that sort codes (n,), integers from 0 to `size` - 1.

    Equal codes keep their order in the array, or in `order` (n,), a permutation of the rows. NumPy sorts
    16-bit integers by radix sort, five times as fast as 64-bit ones. So the codes are sorted by 16 bits at a
    time, the lowest first.
    """
    for shift in range(0, max(1, (size - 1).bit_length()), 16):
        digits = codes if order is None else codes[order]
        by_digit = np.argsort((digits >> shift).astype(np.uint16), kind="stable")
        order = by_digit if order is None else order[by_digit]
    assert order is not None
    return order


def _encode_range(items: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]] | None:
    """Encode integers of a small range without sorting: 5 ns for each, where `np.unique` takes 80 ns.

    None if there are none, or if their range is large.
    """
    if not len(items):
        return None
    least, most = int(items.min()), int(items.max())
    if most - least > 2 * len(items) + 64:
        return None
    if items.dtype.itemsize < 8:  # the difference of two may be too large for their type
        items = items.astype(np.int64)
    offsets = (items - np.asarray(least, dtype=items.dtype)).astype(np.int64, copy=False)
    occurs = np.zeros(most - least + 1, dtype=np.bool_)
    occurs[offsets] = True
    if occurs.all():
        return list(range(least, most + 1)), offsets
    return (np.flatnonzero(occurs) + least).tolist(), (np.cumsum(occurs) - 1)[offsets]


def _list_labels(labels: Any) -> list[Any] | NDArray[Any]:
    """Return the labels as a list of Python values, or as an array where NumPy is faster than a dict."""
    if is_frame(labels):
        labels = _wrap(labels)
        if not hasattr(labels, "columns"):
            if hasattr(labels, "to_list"):
                return list(labels.to_list())
            if hasattr(labels, "tolist"):  # one of pandas' own arrays, whose integers may be missing
                return list(labels.tolist())
    if isinstance(labels, np.ma.MaskedArray):
        return list(labels.tolist())  # None where the mask is set
    if not isinstance(labels, Iterable) or isinstance(labels, str | bytes | Set | Mapping):
        raise TypeError(
            f"got labels of type {type(labels).__name__}, expected one label per row, in their order"
        )
    if not isinstance(labels, np.ndarray) and not hasattr(labels, "__array__"):
        return list(labels)
    values = to_numpy(labels)
    if values.ndim != 1:
        raise ValueError(f"got labels of shape {values.shape}, expected one label per row: pass one column")
    if values.dtype.kind in "US":  # a dictionary is faster than sorting strings
        return list(values.tolist())
    if values.dtype.kind in "biuf":
        return values
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: got complex labels, expected strings or numbers")
    if values.dtype.kind not in "mM":
        return list(values.tolist())
    if np.datetime_data(values.dtype)[0] in ("ns", "ps", "fs", "as"):
        microseconds = values.astype(f"{values.dtype.kind}8[us]")
        if ((microseconds != values) & ~np.isnat(values)).any():
            raise ValueError("got labels finer than a microsecond, expected datetimes that Python can store")
        values = microseconds
    times = list(values.tolist())
    if any(isinstance(time, int) for time in times):  # NumPy returns an integer where `datetime` has no value
        raise ValueError(
            f"got labels of type {values.dtype} that Python cannot store as times, expected years 1 to 9999, "
            "or durations in a unit of fixed length"
        )
    return times
