"""Read and check data that a caller passes: tables, labels, targets and weights."""

from collections.abc import Hashable, Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import LARGEST_EXACT_INTEGER, Array
from tamis.schema import Schema, find_kinds, find_poor_categories
from tamis.stats import Keys, Labels
from tamis.tables import OneRow, Table, read_named_rows

_FLOAT64 = np.dtype(np.float64)
_CONTINUOUS_LABELS = (
    "Unknown label type: continuous. Expected classes, got numbers with fractions or infinity: "
    "round them, or use a regression"
)
_FEW_ROWS = 16  # the largest number of rows that take the fast paths of this module
_DISCRETE_TYPES = (int, str, bool)  # types whose values are never missing, and never fractions


def list_named_rows(data: object) -> list[Mapping[Any, Any]] | None:
    """Return a list of mappings from column names to values; None if the data is no such list or mapping."""
    if isinstance(data, Mapping):  # so are SciPy's sparse matrices in DOK format
        return None if hasattr(data, "tocsr") else [data]
    if isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        return list(data)
    return None


def read_first_table(data: object, sparse: bool = True, absent: object = None) -> tuple[Table, Schema]:
    """Read the rows that a model is first fitted to, and the schema by which later rows are read.

    `sparse` is whether sparse matrices are accepted. `absent` is the value of a column that a row, given as a
    mapping, does not name.
    """
    named = list_named_rows(data)
    table = read_table(data, sparse) if named is None else read_named_rows(named, absent=absent)
    if table.width == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape=({table.rows}, 0)) while a minimum of 1 is required."
        )
    _refuse_empty(table)
    library = type(data).__module__.partition(".")[0] if arrays.is_frame(data) else None
    is_typed = isinstance(data, np.ndarray) and data.dtype.kind != "O"  # then its dtype decides the kinds
    kinds = table.kinds if is_typed else find_kinds(table)
    # Warnings about categories that are dates, or hardly ever repeat a value, for the model to give.
    remarks = find_poor_categories(table, range(table.width))
    return table, Schema(table.width, kinds, table.names, library, remarks)


def read_next_table(
    data: object,
    schema: Schema,
    caller: str,
    sparse: bool = True,
    takes_missing: bool = True,
    absent: object = None,
) -> Table:
    """Read further rows of the same columns, which are matched by name if the rows and the schema have names.

    `caller` is the estimator's name for error messages, and `sparse` whether sparse matrices are accepted.
    `takes_missing` is whether the model takes NaN. If a row is a mapping, `absent` is the value of a column
    that it does not name, and names that the schema does not have are ignored.
    """
    if type(data) is np.ndarray and data.dtype is _FLOAT64 and data.ndim == 2:  # the fast path
        table = Table(data if data.flags.c_contiguous else np.ascontiguousarray(data), len(data), "number")
    elif type(data) is np.ndarray and data.ndim == 2 and 0 < len(data) <= _FEW_ROWS and _are_exact(data):
        table = Table(data.astype(np.float64, order="C"), len(data), "number")
    elif (named := list_named_rows(data)) is not None:
        table = read_named_rows(named, require_names(schema, caller), absent)
    else:
        table = read_table(data, sparse)
    if table.names is not None and schema.names is not None and table.names != schema.names:
        table = table.select(_find_columns(table.names, schema.names, caller, takes_missing))
    if table.width != schema.width:
        raise ValueError(
            f"X has {table.width} features, but {caller} is expecting {schema.width} features as input"
        )
    _refuse_empty(table)
    return table


def require_names(schema: Schema, caller: str) -> tuple[object, ...]:
    """Return the names of the columns; raise if they have none, because rows given as mappings need them."""
    if schema.names is None:
        raise TypeError(
            f"got rows by name, but {caller} has learned columns without names, expected rows of "
            f"{schema.width} values: pass lists or an array, or fit a new model to rows by name"
        )
    return schema.names


def read_plain_row(row: Mapping[Any, Any], schema: Schema, absent: float) -> Table | None:
    """Read a row that maps names to Python values; return None if it needs the checks of `read_next_table`.

    This is a fast path. `absent` is the value of a column that the row does not name. The result is an
    ordinary `Table` if no column holds categories, and a `OneRow` otherwise.
    """
    names, kinds = schema.names, schema.kinds
    if names is None or "unknown" in kinds:
        return None
    values = [row.get(name, absent) for name in names]
    if isinstance(kinds, str) or "category" not in kinds:
        if kinds == "category" or not all(map(_is_plain_number, values)):
            return None
        return Table(np.array([values], dtype=np.float64), 1, "number", names)
    for j, kind in enumerate(kinds):
        value = values[j]
        value_type = type(value)
        if kind != "category":
            if value_type is not float and value_type is not bool and not _is_plain_number(value):
                return None
        elif value is absent:
            values[j] = None
        elif value_type not in _DISCRETE_TYPES:
            return None
    return OneRow(tuple(values), 1, kinds, names)  # type: ignore[arg-type]  # no kind is unknown here


def _is_plain_number(value: object) -> bool:
    if type(value) is int:
        return -LARGEST_EXACT_INTEGER <= value <= LARGEST_EXACT_INTEGER
    return type(value) is float or type(value) is bool


def read_table(data: object, sparse: bool) -> Table:
    """Read rows as a table; raise for a sparse matrix unless `sparse` is True."""
    if not sparse and hasattr(data, "tocsr"):
        raise TypeError(
            f"Sparse data was passed: got a {type(data).__name__}, expected dense rows: call .toarray()"
        )
    return Table.of(data)


def _refuse_empty(table: Table) -> None:
    if table.rows == 0:
        raise ValueError(f"got 0 rows (shape=(0, {table.width})), expected at least 1: was the batch empty?")


def refuse_empty_array(table: Table) -> None:
    """Raise, in scikit-learn's words, if there are no columns or no rows."""
    for size, what in ((table.width, "feature(s)"), (table.rows, "sample(s)")):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape=({table.rows}, {table.width})) while a minimum of 1 is "
                "required."
            )


def _are_exact(data: NDArray[Any]) -> bool:
    """Return whether the array holds integers that float64 represents exactly."""
    return (
        data.dtype.kind in "iu"
        and data.size > 0
        and data.min() >= -LARGEST_EXACT_INTEGER
        and data.max() <= LARGEST_EXACT_INTEGER
    )


def read_few_rows(X: object, y: object, schema: Schema) -> tuple[Array, list[Any]] | None:
    """Copy at most 16 rows of numbers, and their labels, which are integers, strings or bools.

    This is a fast path. Return None if there are more rows or none, or if X or y needs the checks of
    `read_next_table` and `read_labels`, for example because its type or length is another.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or not 0 < len(X) <= _FEW_ROWS or X.shape[1] != schema.width:
        return None
    if (X.dtype is not _FLOAT64 and X.dtype.kind not in "iub") or "unknown" in schema.kinds:
        return None
    labels = y if type(y) is list else y.tolist() if type(y) is np.ndarray and y.ndim == 1 else None
    if labels is None or len(labels) != len(X):
        return None
    if not all(type(label) in _DISCRETE_TYPES for label in labels):
        return None
    return (X.astype(np.float64), list(labels)) if X.dtype.kind in "fb" or _are_exact(X) else None


def _find_columns(
    names: tuple[object, ...], wanted: tuple[object, ...], caller: str, takes_missing: bool
) -> list[int]:
    """Return the index in `names` of each name in `wanted`; `takes_missing`: whether the model takes NaN."""
    columns = {name: j for j, name in enumerate(names)}
    if absent := [name for name in wanted if name not in columns]:
        remedy = "add it, as NaN if unknown" if takes_missing else "add it"
        raise ValueError(f"X has no column {absent[0]!r}, which {caller} was fitted with: {remedy}")
    known = set(wanted)
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"X has a column {unknown[0]!r}, which {caller} was not fitted with: drop it")
    return [columns[name] for name in wanted]


def read_labels(y: object, rows: int, missing_label: object = None) -> Labels:
    """Read labels by value. A label that is None, NaN, NA or equal to `missing_label` gets the index -1."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass one label per row")
    if type(y) is np.ndarray or hasattr(y, "__array__"):
        y = _check_label_array(y)
    keys, group = Keys.encode(y)
    arrays.refuse_unless_one_per_row(len(group), rows, "labels")
    if any(isinstance(key, float) and not key.is_integer() for key in keys):
        raise ValueError(_CONTINUOUS_LABELS)
    if missing_label is not None and missing_label in keys:
        removed = keys.values.index(missing_label)
        new_index = np.array([i - (i > removed) for i in range(len(keys))] + [-1])
        new_index[removed] = -1  # the last element, which the index -1 reads, is -1, too
        keys, group = Keys(keys[:removed] + keys[removed + 1 :]), new_index[group]
    return Labels(keys, group)


def match_labels(keys: Keys, labels: Labels) -> Labels:
    """Return the labels with indices into `keys`; raise for a label that is none of them."""
    index = keys.find(labels.keys)
    if (index < 0).any():
        unknown = labels.keys[int(np.argmin(index))]
        raise ValueError(
            f"got class {unknown!r}, expected one of {keys!r}: name all classes in the first call (classes=)"
        )
    return Labels(keys, index[labels.group])


def _check_label_array(y: Any) -> Any:
    """Return the labels; raise unless they are one-dimensional without fractions or infinity."""
    values = y if isinstance(y, np.ndarray) else np.asarray(y)
    y = y if arrays.is_frame(y) else values
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    if values.dtype.kind == "f":
        known = values[~np.isnan(values)]
        if not (np.isfinite(known).all() and (known == np.floor(known)).all()):
            raise ValueError(_CONTINUOUS_LABELS)
    return y


def read_targets(y: object, rows: int) -> Array:
    """Read the targets of a regression: (n,), or (n, q) for q targets per row."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass one number per row")
    matrix = arrays.to_matrix(y, target=True)
    arrays.refuse_unless_one_per_row(len(matrix.values), rows, "targets")
    if matrix.values.shape[1] == 0:
        raise ValueError(
            f"got y of shape {matrix.values.shape}, expected one target per row or more: pass (n,)"
        )
    if not np.isfinite(matrix.values).all():
        row, column = np.argwhere(~np.isfinite(matrix.values))[0].tolist()
        raise ValueError(
            f"target {row} is {matrix.values[row, column]}, expected a finite number: y holds NaN or "
            "infinity, drop or correct that row"
        )
    return np.ascontiguousarray(matrix.values[:, 0]) if matrix.had_one_axis else matrix.values


def read_numbers(table: Table) -> Array:
    """Return the rows as finite float64 (n, d); an error names the column and the row."""
    values = table.numbers()
    with np.errstate(over="ignore", invalid="ignore"):
        is_suspect = not np.isfinite(values.sum())  # three times as fast as a test of each value
    if is_suspect and not np.isfinite(values).all():
        column = int((~np.isfinite(values)).any(axis=0).argmax())
        arrays.Matrix(values, table.names).refuse_nonfinite(column)
    return values


def read_weights(sample_weight: object, rows: int) -> Array | None:
    """Read weights (n,) of at least 0, not all 0; a single number is the weight of every row."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(rows, float(sample_weight))
    weights = arrays.to_weights(sample_weight, rows)
    if weights is None:
        return None
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(
            f"weight {row} is {weights[row]:g}, expected at least 0: use unlearn to take rows away"
        )
    if not weights.any():
        raise ValueError(
            "the sample weights are all zero, expected one above 0: drop sample_weight, or the rows"
        )
    return weights


def to_label_array(values: Iterable[Hashable]) -> NDArray[Any]:
    """Convert labels to an array of their type, or of objects if they have several types.

    Integers together with floats become floats.
    """
    labels = list(values)
    plain = (str, bytes, bool, int, float)  # bool comes before int, because bool is a subclass of int
    types = {next((one for one in plain if isinstance(label, one)), object) for label in labels}
    if types in ({str}, {bytes}, {bool}, {int}, {float}, {int, float}):
        array = np.array(labels)
        if array.ndim == 1 and array.dtype.kind != "O":
            return array
    objects = np.empty(len(labels), dtype=object)
    objects[:] = labels
    return objects
