"""What a caller passes → tables, labels and weights, or one line that says what is wrong with it."""

import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from tamis import arrays
from tamis.arrays import Array
from tamis.estimators.kinds import ColumnKind, observed_kinds, poor_categories
from tamis.stats import Keys, Labels
from tamis.tables import Table

_FLOAT64 = np.dtype(np.float64)
_CONTINUOUS = (
    "Unknown label type: continuous. Expected classes, got numbers with fractions or infinity: "
    "round them, or use a regression"
)
_COLUMN_VECTOR = (
    "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
    "(n_samples,), for example using ravel()."
)
_FEW = 16  # rows that may wait to be summed with others
_EXACT = 2**53  # up to here integers are floats, too
_PLAIN = (int, str, bool)  # labels that are never missing nor a fraction


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns that a model was first fitted to."""

    width: int
    kinds: tuple[ColumnKind, ...] | ColumnKind
    names: tuple[object, ...] | None = None
    library: str | None = None  # of the frame, to answer with the same
    remarks: tuple[
        tuple[int, str], ...
    ] = ()  # columns of the rows just read that make poor categories, and why

    def kind(self, column: int) -> ColumnKind:
        """What the column held; "unknown" until its first value comes."""
        return self.kinds if isinstance(self.kinds, str) else self.kinds[column]

    @property
    def undecided(self) -> tuple[int, ...]:
        """The columns that had no value yet."""
        if isinstance(self.kinds, str):
            return tuple(range(self.width)) if self.kinds == "unknown" else ()
        return tuple(j for j, kind in enumerate(self.kinds) if kind == "unknown")

    def decided_by(self, rows: "Table | Schema") -> "Schema":
        """With the kinds of columns that had no value yet, as these rows or this other schema have them."""
        columns = self.undecided
        if not columns:
            return self
        told = observed_kinds(rows) if isinstance(rows, Table) else rows.kinds
        found = {j: told if isinstance(told, str) else told[j] for j in columns}
        if set(found.values()) == {"unknown"}:
            return self
        kinds = tuple(found.get(j, self.kind(j)) for j in range(self.width))
        remarks = poor_categories(rows, columns) if isinstance(rows, Table) else ()
        return replace(self, kinds=kinds, remarks=remarks)

    def settled(self) -> "Schema":
        """Without the remarks: they are for whoever first reads the rows."""
        return replace(self, remarks=()) if self.remarks else self

    def name(self, column: int) -> Any:
        """The column's name, or its place if it has none."""
        return column if self.names is None else self.names[column]


def first_table(data: object, sparse: bool = True) -> tuple[Table, Schema]:
    """The data that a model is first fitted to, and what to expect from then on."""
    table = _table(data, sparse)
    if table.width == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape=({table.rows}, 0)) while a minimum of 1 is required."
        )
    _refuse_empty(table)
    library = type(data).__module__.partition(".")[0] if arrays.is_frame(data) else None
    stated = isinstance(data, np.ndarray) and data.dtype.kind != "O"  # an array of floats holds numbers
    kinds = table.kinds if stated else observed_kinds(table)
    remarks = poor_categories(table, range(table.width))
    return table, Schema(table.width, kinds, table.names, library, remarks)


def next_table(data: object, schema: Schema, caller: str, sparse: bool = True, missing: bool = True) -> Table:
    """Further data for a model that was fitted: the same columns, found by name where both have names.

    `missing` is whether the model takes NaN.
    """
    if type(data) is np.ndarray and data.dtype is _FLOAT64 and data.ndim == 2:  # at once: this is timed
        table = Table(data if data.flags.c_contiguous else np.ascontiguousarray(data), len(data), "number")
    elif type(data) is np.ndarray and data.ndim == 2 and 0 < len(data) <= _FEW and _are_floats(data):
        table = Table(data.astype(np.float64, order="C"), len(data), "number")
    else:
        table = _table(data, sparse)
    if table.names is not None and schema.names is not None and table.names != schema.names:
        table = table.select(_places(table.names, schema.names, caller, missing))
    if table.width != schema.width:
        raise ValueError(
            f"X has {table.width} features, but {caller} is expecting {schema.width} features as input"
        )
    _refuse_empty(table)
    return table


def _table(data: object, sparse: bool) -> Table:
    if not sparse and hasattr(data, "tocsr"):
        raise TypeError(
            f"Sparse data was passed: got a {type(data).__name__}, expected dense rows: call .toarray()"
        )
    return Table.of(data)


def _refuse_empty(table: Table) -> None:
    if table.rows == 0:
        raise ValueError(f"got 0 rows (shape=(0, {table.width})), expected at least 1: was the batch empty?")


def _are_floats(data: NDArray[Any]) -> bool:
    """Whether integers are floats without a change."""
    return data.dtype.kind in "iu" and data.size > 0 and data.min() >= -_EXACT and data.max() <= _EXACT


def few_rows(X: object, y: object, schema: Schema) -> tuple[Array, list[Any]] | None:
    """A few plain rows and their plain labels, copied; None for anything that needs a closer look."""
    if type(X) is not np.ndarray or X.ndim != 2 or not 0 < len(X) <= _FEW or X.shape[1] != schema.width:
        return None
    if (X.dtype is not _FLOAT64 and X.dtype.kind not in "iub") or "unknown" in schema.kinds:
        return None
    named = y if type(y) is list else y.tolist() if type(y) is np.ndarray and y.ndim == 1 else None
    if named is None or len(named) != len(X):
        return None
    if not all(type(label) in _PLAIN for label in named):
        return None
    return (X.astype(np.float64), list(named)) if X.dtype.kind in "fb" or _are_floats(X) else None


def _places(found: tuple[object, ...], wanted: tuple[object, ...], caller: str, missing: bool) -> list[int]:
    place = {name: j for j, name in enumerate(found)}
    if absent := [name for name in wanted if name not in place]:
        said = "add it, as NaN if unknown" if missing else "add it"
        raise ValueError(f"X has no column {absent[0]!r}, which {caller} was fitted with: {said}")
    known = set(wanted)
    if unknown := [name for name in found if name not in known]:
        raise ValueError(f"X has a column {unknown[0]!r}, which {caller} was not fitted with: drop it")
    return [place[name] for name in wanted]


def labels(y: object, rows: int, missing_label: object = None) -> Labels:
    """Labels by value; -1 stands where one is missing: None, NaN or NA, or what `missing_label` names."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass one label per row")
    if type(y) is np.ndarray or hasattr(y, "__array__"):
        y = _one_column(y)
    keys, group = Keys.encode(y)
    if len(group) != rows:
        raise ValueError(f"got {len(group)} labels for {rows} rows, expected one per row")
    if any(isinstance(key, float) and not key.is_integer() for key in keys):
        raise ValueError(_CONTINUOUS)
    if missing_label is not None and missing_label in keys:
        place = keys.values.index(missing_label)
        rest = np.array([i - (i > place) for i in range(len(keys))] + [-1])
        rest[place] = -1
        keys, group = Keys(keys[:place] + keys[place + 1 :]), rest[group]
    return Labels(keys, group)


def among(keys: Keys, filed: Labels) -> Labels:
    """The labels among these keys."""
    place = keys.find(filed.keys)
    if (place < 0).any():
        unknown = filed.keys[int(np.argmin(place))]
        raise ValueError(
            f"got class {unknown!r}, expected one of {keys!r}: name all in the first call, as classes="
        )
    return Labels(keys, place[filed.group])


def _one_column(y: Any) -> Any:
    values = y if isinstance(y, np.ndarray) else np.asarray(y)
    y = y if arrays.is_frame(y) else values
    if values.ndim == 2 and values.shape[1] == 1:
        warnings.warn(_COLUMN_VECTOR, DataConversionWarning, stacklevel=4)
        y, values = arrays.only_column(y), values.ravel()
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    if values.dtype.kind == "f":
        known = values[~np.isnan(values)]
        if not (np.isfinite(known).all() and (known == np.floor(known)).all()):
            raise ValueError(_CONTINUOUS)
    return y


def targets(y: object, rows: int, several: bool = True) -> Array:
    """Numbers to be predicted: (n,), or (n, q) of several at once where the model takes them."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass one number per row")
    read = arrays.matrix(y, target=True)
    if len(read.values) != rows:
        raise ValueError(f"got {len(read.values)} targets for {rows} rows, expected one per row")
    if read.values.shape[1] == 0:
        raise ValueError(
            f"got y of shape {read.values.shape}, expected one target per row or more: pass (n,)"
        )
    if not np.isfinite(read.values).all():
        row, column = np.argwhere(~np.isfinite(read.values))[0].tolist()
        raise ValueError(
            f"target {row} is {read.values[row, column]}, expected a finite number: y holds NaN or infinity, "
            "drop or mend that row"
        )
    if read.flat:
        return np.ascontiguousarray(read.values[:, 0])
    if several:
        return read.values
    if read.values.shape[1] != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {read.values.shape} instead.")
    warnings.warn(_COLUMN_VECTOR, DataConversionWarning, stacklevel=4)
    return np.ascontiguousarray(read.values[:, 0])


def numbers(table: Table) -> Array:
    """Dense rows as finite float64 (n, d), or an error that names the column."""
    values = table.numbers()
    with np.errstate(over="ignore", invalid="ignore"):
        broken = not np.isfinite(values.sum())  # a third of the time of looking at each
    if broken and not np.isfinite(values).all():
        column = int((~np.isfinite(values)).any(axis=0).argmax())
        arrays.Matrix(values, table.names).refuse_broken(column)
    return values


def weights(sample_weight: object, rows: int) -> Array | None:
    """Weights, at least 0 and not all 0; one number is the weight of every row."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(rows, float(sample_weight))
    found = arrays.weights(sample_weight, rows)
    if found is None:
        return None
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        raise ValueError(
            f"weight {row} is {found[row]:g}, expected at least 0: use unlearn to take rows away"
        )
    if not found.any():
        raise ValueError(
            "the sample weights are all zero, expected some weight: drop sample_weight, or the rows"
        )
    return found


def at_least_zero(name: str, value: float) -> float:
    """A parameter as a number, finite and not negative."""
    given: object = value
    if not isinstance(given, Real):
        raise TypeError(f"got {name}={arrays.one_line(given)}, expected a number of at least 0")
    found = float(given)
    if not 0.0 <= found < np.inf:
        raise ValueError(f"got {name}={value}, expected a number of at least 0")
    return found


def decay_factor(given: object) -> float:
    """By how much what was learned is to count, checked."""
    if not isinstance(given, Real) or not 0.0 < float(given) <= 1.0:
        raise ValueError(f"got factor={given!r}, expected a number above 0 and at most 1, as 0.99")
    return float(given)


def label_array(values: Iterable[Hashable]) -> NDArray[Any]:
    """Labels as NumPy keeps them: of one kind where they are, else objects."""
    listed = list(values)
    kinds = {
        str
        if isinstance(v, str)
        else bytes
        if isinstance(v, bytes)
        else bool
        if isinstance(v, bool)
        else int
        if isinstance(v, int)
        else float
        if isinstance(v, float)
        else object
        for v in listed
    }
    if kinds in ({str}, {bytes}, {bool}, {int}, {float}, {int, float}):
        found = np.array(listed)
        if found.ndim == 1 and found.dtype.kind != "O":
            return found
    boxed = np.empty(len(listed), dtype=object)
    boxed[:] = listed
    return boxed


def class_probabilities(
    given: Any, classes: Keys, total: bool = True, name: str = "priors"
) -> dict[Any, float] | None:
    """The classes' probabilities by label, checked; None if they are to be counted.

    `total` says that they must sum to one; `name` is the parameter that they were given by.
    """
    if given is None or not len(classes):
        return None
    written = f"{name}={arrays.one_line(given)}"
    if isinstance(given, Mapping) and (missing := [key for key in classes if key not in given]):
        raise ValueError(
            f"got {written}, without class {missing[0]!r}, expected a probability for every class"
        )
    try:
        listed = [given[key] for key in classes] if isinstance(given, Mapping) else given
        shares = np.asarray(listed, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"got {written}, expected one probability per class") from None
    if shares.shape != (len(classes),):
        raise ValueError(
            f"Number of priors must match number of classes: got {name} of shape {shares.shape}, expected "
            f"{len(classes)} numbers"
        )
    if not (shares >= 0).all():
        raise ValueError(f"Priors must be non-negative: got {written}")
    if total and not np.isclose(shares.sum(), 1.0):
        raise ValueError(f"The sum of the priors should be 1: got {written}, which sum to {shares.sum():g}")
    if not 0 < shares.sum() < np.inf:
        raise ValueError(f"got {written}, expected finite numbers with a sum above 0")
    return dict(zip(classes, shares.tolist(), strict=True))
