"""Read data of any kind as a table: columns of numbers, integers, flags (bool) and categories, checked once.

Arrays, SciPy's sparse matrices and data frames all become a `Table`. The type of the values decides a
column's kind. An integer may be a count or a category; the user of the model chooses which.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array, Matrix
from tamis.stats.keys import Keys

Kind = Literal["number", "integer", "bool", "category"]
RowIndex = NDArray[np.int64] | NDArray[np.bool_] | slice  # selects rows: indices, a mask, or a slice

_WIDENING: tuple[Kind, ...] = ("bool", "integer", "number", "category")  # each can hold the values before it
_ALL = slice(None)
_NO_KEYS = Keys(())
_MIN_SEPARATE_VALUES = 1 << 16  # to copy fewer values takes less than 0.1 ms
_STACKED_VALUES = 1 << 18  # the largest number of values that are stacked at a time, unless one row has more
_KINDS: dict[str, Kind] = {"f": "number", "i": "integer", "u": "integer", "b": "bool"}


def runs(rows: int, width: int, cells: int) -> Iterator[slice]:
    """Split rows of `width` values into slices of one row, or of several with at most `cells` values."""
    step = max(1, cells // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, start + step)


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """A sparse matrix (CSR): the entries of row i are those from indptr[i] to before indptr[i + 1]."""

    indptr: NDArray[np.int64]  # (n + 1,)
    indices: NDArray[np.int64] | NDArray[np.int32]  # (entries,): columns; not converted, to save memory
    values: Array  # (entries,)
    columns: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def matrix(self) -> Any:
        """Convert to SciPy's CSR array."""
        sparse = arrays.import_scipy_sparse()
        indptr = self.indptr.astype(self.indices.dtype, copy=False)
        return sparse.csr_array((self.values, self.indices, indptr), shape=(len(self), self.columns))

    def dense(self, rows: slice) -> Array:
        """Convert these rows to a dense array (rows, columns)."""
        start, stop, _ = rows.indices(len(self))
        entries = slice(int(self.indptr[start]), int(self.indptr[stop]))
        dense = np.zeros((stop - start, self.columns))
        row = np.repeat(np.arange(stop - start), np.diff(self.indptr[start : stop + 1]))
        np.add.at(dense, (row, self.indices[entries]), self.values[entries])
        return dense

    def take(self, rows: RowIndex) -> "Sparse":
        """Return these rows, in this order."""
        index = np.arange(len(self))[rows]
        lengths = np.diff(self.indptr)[index]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[index] - indptr[:-1], lengths)
        return Sparse(indptr, self.indices[entries], self.values[entries], self.columns)


def widen_kinds(*kinds: Kind) -> Kind:
    """Return the kind of a column that has the values of several columns, one below the other.

    >>> widen_kinds("bool", "integer"), widen_kinds("integer", "number"), widen_kinds("number", "category")
    ('integer', 'number', 'category')
    """
    return max(kinds, key=_WIDENING.index)


class Columns(tuple[Array, ...]):
    """Columns of numbers (n,), each an array of its own, as data frames store them."""

    @cached_property
    def stacked(self) -> Array:
        """The rows (n, d): a copy, made at the first access."""
        return _stack_columns(self)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """n rows of columns. A missing number is NaN; a missing flag or category is None, NaN or NA."""

    data: NDArray[Any] | Sparse | tuple[Any, ...]  # numbers or bools (n, d), or a tuple of columns (n,)
    rows: int  # n
    kinds: tuple[Kind, ...] | Kind  # the kind of each column, or one kind for all columns
    names: tuple[object, ...] | None = None

    @classmethod
    def of(cls, data: object) -> "Table":
        """Read the data.

        >>> Table.of([[1.5, "red"], [2.5, None]]).kinds
        ('number', 'category')
        """
        if isinstance(data, Table):
            return data
        if isinstance(data, Matrix):
            return cls(data.values, len(data.values), "number", data.names)
        if hasattr(data, "tocsr"):
            return _read_sparse(data)
        if arrays.is_frame(data):
            _refuse_repeated_names(data)
            if named_columns := arrays.read_arrow_columns(data):
                return _make_number_table(list(named_columns.values()), tuple(named_columns))
            if (frame := arrays.wrap_frame(data)) is not None:
                return _read_frame(frame)
        values = arrays.to_numpy(data)
        if values.dtype.kind in "US" and isinstance(data, list | tuple):  # NumPy made strings of numbers
            values = np.array(data, dtype=object)
        if values.ndim == 0:
            raise TypeError(
                f"Expected 2D array, got 0D array instead: a {type(data).__name__}. Reshape your data: pass "
                "rows of values, a frame or a sparse matrix"
            )
        if values.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {values.ndim}D array instead, of shape {values.shape}. Reshape your "
                "data: X[:, None] if it is one column, X[None] if it is one row"
            )
        if values.dtype.kind in "OUS":
            return _read_columns([values[:, j] for j in range(values.shape[1])], len(values))
        if values.dtype.kind in "iub":
            return cls(values, len(values), _KINDS[values.dtype.kind])
        return cls(arrays.to_matrix(values).values, len(values), "number")

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.rows, self.width

    @property
    def width(self) -> int:
        """The number of columns."""
        if isinstance(self.data, Sparse):
            return self.data.columns
        return len(self.data) if isinstance(self.data, tuple) else int(self.data.shape[1])

    @property
    def sparse(self) -> Sparse | None:
        """The data, if it is sparse."""
        return self.data if isinstance(self.data, Sparse) else None

    def kind(self, column: int) -> Kind:
        """Return the kind of values of the column."""
        return self.kinds if isinstance(self.kinds, str) else self.kinds[column]

    def describe(self, column: int) -> str:
        """Return what messages call the column, such as "column 3" or "column 'city'"."""
        return f"column {column}" if self.names is None else f"column {self.names[column]!r}"

    def list_separate_columns(self, columns: Sequence[int] | None = None) -> list[Array] | None:
        """Return columns as separate arrays of float64; None if the table does not store them so."""
        if not isinstance(self.data, Columns):
            return None
        return list(self.data) if columns is None else [self.data[j] for j in columns]

    def numbers(self, columns: Sequence[int] | None = None) -> Array:
        """Return columns, or all, as float64 (n, len(columns)), with NaN where a value is missing."""
        if columns is not None and len(columns) == self.width and list(columns) == list(range(self.width)):
            columns = None
        if columns is None and isinstance(self.data, Columns):
            return self.data.stacked
        if columns is None and self.kinds == "number" and isinstance(self.data, np.ndarray):
            return self.data
        if isinstance(self.data, Sparse):
            dense = self.data.dense(slice(None))
            return dense if columns is None else np.ascontiguousarray(dense[:, list(columns)])
        if isinstance(self.data, np.ndarray):
            return arrays.to_matrix(self.data if columns is None else self.data[:, list(columns)]).values
        columns = range(self.width) if columns is None else columns
        numbers = np.empty((self.rows, len(columns)))
        for i, j in enumerate(columns):
            numbers[:, i] = arrays.to_float_column(self.data[j], self.describe(j))
        return numbers

    def dense_runs(self, cells: int, rows: RowIndex = _ALL) -> Iterator[tuple[RowIndex, Array]]:
        """Yield indices of rows and their numbers (rows, d): all rows at once or, if sparse, in runs.

        A run has at most `cells` numbers, or one row.
        """
        if self.sparse is None:
            yield rows, self.numbers()[rows]
        elif isinstance(rows, slice) and rows == _ALL:
            yield from ((run, self.sparse.dense(run)) for run in runs(self.rows, self.width, cells))
        else:
            index = np.arange(self.rows)[rows]
            for run in runs(len(index), self.width, cells):
                yield index[run], self.sparse.take(index[run]).dense(slice(None))

    def categories(self, column: int) -> tuple[Keys, NDArray[np.int64]]:
        """Return the distinct values of a column, and the index of each row's value, -1 if missing."""
        if isinstance(self.data, Sparse):
            raise TypeError("got a sparse matrix, expected dense columns of categories: call .toarray()")
        values = self.data[:, column] if isinstance(self.data, np.ndarray) else self.data[column]
        try:
            return Keys.encode(values)
        except TypeError as problem:
            raise TypeError(f"{self.describe(column)}: {problem}") from None

    def take(self, rows: RowIndex) -> "Table":
        """Return these rows, in this order."""
        count = len(np.arange(self.rows)[rows])
        if isinstance(self.data, Sparse):
            return Table(self.data.take(rows), count, self.kinds, self.names)
        if isinstance(self.data, np.ndarray):
            return Table(np.ascontiguousarray(self.data[rows]), count, self.kinds, self.names)
        columns = [values[rows] for values in self.data]
        is_numeric = isinstance(self.data, Columns)
        return Table(_stack_columns(columns) if is_numeric else tuple(columns), count, self.kinds, self.names)

    def blank_categories(self, columns: Sequence[int]) -> "Table":
        """Replace each of these columns that holds categories by a column of missing numbers."""
        categories = [j for j in columns if self.kind(j) == "category"]
        if not categories or not isinstance(self.data, tuple):
            return self
        blank = np.full(self.rows, np.nan)
        data = tuple(blank if j in categories else values for j, values in enumerate(self.data))
        kinds: tuple[Kind, ...] = tuple(
            "number" if j in categories else self.kind(j) for j in range(self.width)
        )
        return Table(data, self.rows, kinds, self.names)

    def select(self, columns: Sequence[int]) -> "Table":
        """Return these columns, in this order."""
        kinds = self.kinds if isinstance(self.kinds, str) else tuple(self.kinds[j] for j in columns)
        names = None if self.names is None else tuple(self.names[j] for j in columns)
        if isinstance(self.data, tuple):
            kind = Columns if isinstance(self.data, Columns) else tuple
            return Table(kind(self.data[j] for j in columns), self.rows, kinds, names)
        if isinstance(self.data, Sparse):
            return _read_sparse(self.data.matrix()[:, list(columns)])
        return Table(self.numbers(columns), self.rows, kinds, names)


class OneRow(Table):
    """A single row of checked Python values, faster than a `Table`; missing categories are None or NaN."""

    __slots__ = ()

    def numbers(self, columns: Sequence[int] | None = None) -> Array:
        values: Any = self.data
        return np.array([values if columns is None else [values[j] for j in columns]], dtype=np.float64)

    def categories(self, column: int) -> tuple[Keys, NDArray[np.int64]]:
        value: Any = self.data[column]  # type: ignore[index]
        if value is None or value != value:
            return Keys(()), np.full(1, -1)
        return Keys((value,)), np.zeros(1, dtype=np.int64)

    def list_categories(self, columns: Sequence[int]) -> tuple[Keys, ...]:
        """Return the category of each of these columns as its only key; no key where it is missing."""
        values: Any = self.data
        row = [values[j] for j in columns]
        return tuple(_NO_KEYS if value is None or value != value else Keys((value,)) for value in row)


def read_named_rows(
    rows: Sequence[Mapping[Any, Any]], names: tuple[object, ...] | None = None, absent: object = None
) -> Table:
    """Read rows that map names to values: the columns `names`, or all columns in the order of appearance.

    `absent` is the value of a column that a row does not name.

    >>> read_named_rows([{"x": 1.5}, {"x": 2.5, "colour": "red"}]).kinds
    ('number', 'category')
    """
    if names is None:
        names = tuple(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in names:
        column = np.empty(len(rows), dtype=object)
        for i, row in enumerate(rows):
            value = row.get(name, absent)
            if isinstance(value, list | tuple | dict | set | np.ndarray):
                raise TypeError(
                    f"column {name!r} holds {arrays.one_line(value)} in row {i}, expected one value per "
                    "name: pass several rows as a list of dicts"
                )
            column[i] = value
        columns.append(column)
    table = _read_columns(columns, len(rows))
    return Table(table.data, table.rows, table.kinds, names)


def _read_sparse(data: Any) -> Table:
    if data.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: the sparse matrix is of type {data.dtype}")
    _refuse_invalid_indices(data)
    matrix = data.tocsr()  # if it is CSR already, these are the caller's arrays, which must not be changed
    n, d = matrix.shape
    if matrix is not data:
        _refuse_invalid_indices(matrix)
    if not _is_canonical(matrix):
        matrix = arrays.import_scipy_sparse().csr_array(
            (matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape
        )
        matrix.sum_duplicates()
    values = np.asarray(matrix.data, dtype=np.float64)
    indices: Any = matrix.indices
    if indices.dtype != np.int32:
        indices = indices.astype(np.int64, copy=False)
    indptr = np.asarray(matrix.indptr, dtype=np.int64)
    return Table(
        Sparse(indptr, indices, values, int(d)),
        int(n),
        _KINDS.get(data.dtype.kind, "number"),
    )


def _is_canonical(matrix: Any) -> bool:
    """Return whether the column indices of each row ascend, without repetition.

    If they do not, `sum_duplicates` would sort them in place, in the caller's arrays, so the matrix is copied
    first. SciPy's flag `has_canonical_format` is not used, because it may be out of date.
    """
    ascends = matrix.indices[1:] > matrix.indices[:-1]
    starts = matrix.indptr[1:-1]
    ascends[starts[(starts > 0) & (starts <= len(ascends))] - 1] = True
    return bool(ascends[int(matrix.indptr[0]) : max(0, int(matrix.indptr[-1]) - 1)].all())


def _refuse_repeated_names(data: Any) -> None:
    """Raise if two columns of a data frame have the same name; narwhals' own message is longer."""
    names = list(getattr(data, "column_names", getattr(data, "columns", ())))
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"got two columns named {name!r}, expected one name per column: rename one of them")


def _refuse_invalid_indices(matrix: Any) -> None:
    """Raise if the indices of a sparse matrix are outside its shape, which SciPy does not always check.

    Matrices in formats other than COO (each entry with its row and column), CSR (compressed by row), CSC (by
    column) and BSR (by row of blocks) are checked after they were converted to CSR.
    """
    rows, columns = matrix.shape
    if matrix.format == "coo":
        entries = len(matrix.data)
        is_valid = all(
            len(indices) == entries and _are_below(indices, size)
            for indices, size in zip((matrix.row, matrix.col), (rows, columns), strict=True)
        )
    elif matrix.format in ("csr", "csc", "bsr"):
        # `indptr` has the bounds of the entries of each row, column (CSC) or row of blocks (BSR).
        major, minor = (columns, rows) if matrix.format == "csc" else (rows, columns)
        if matrix.format == "bsr":
            major, minor = major // matrix.data.shape[1], minor // matrix.data.shape[2]
        indptr, indices = matrix.indptr, matrix.indices
        is_valid = (
            indptr.shape == (major + 1,)
            and indices.ndim == 1
            and indptr[0] >= 0
            and indptr[-1] <= min(len(indices), len(matrix.data))
            and bool((indptr[1:] >= indptr[:-1]).all())
            and _are_below(indices, minor)
        )
    else:
        return
    if not is_valid:
        raise ValueError(
            "the sparse matrix has indices outside its shape, expected a valid one: build it anew, or call "
            "its check_format()"
        )


def _are_below(indices: NDArray[Any], size: int) -> bool:
    """Return whether all indices are integers from 0 to `size` - 1.

    One pass is enough: as unsigned integers, negative ones are larger than any size.
    """
    if indices.dtype.kind not in "iu":
        return False
    return not len(indices) or int(np.asarray(indices).view(f"u{indices.dtype.itemsize}").max()) < size


def _read_frame(frame: Any) -> Table:
    names = tuple(frame.columns)
    kinds: list[Kind] = []
    columns: list[Any] = []
    for series in frame.iter_columns():
        kind, values = _read_series(series)
        kinds.append(kind)
        columns.append(values)
    if all(kind == "number" for kind in kinds) and columns:
        return _make_number_table(columns, names)
    return Table(tuple(columns), len(frame), tuple(kinds), names)


def _make_number_table(columns: list[Array], names: tuple[object, ...]) -> Table:
    data = Columns(columns) if _should_stay_separate(columns) else _stack_columns(columns)
    return Table(data, len(columns[0]), "number", names)


def _should_stay_separate(columns: list[Array]) -> bool:
    """Return whether the columns are contiguous, and so large that copying takes longer than summing them."""
    return len(columns) * len(columns[0]) >= _MIN_SEPARATE_VALUES and all(
        column.flags.c_contiguous and column.flags.aligned for column in columns
    )


def _stack_columns(columns: Sequence[Array]) -> Array:
    """Stack d columns (n,) to an array (n, d).

    Runs of rows that fit in a core's cache are stacked one after the other: three times as fast as NumPy's
    `column_stack` for 16 columns of 262,144 rows.
    """
    n, d = len(columns[0]), len(columns)
    values = np.empty((n, d))
    for run in runs(n, d, _STACKED_VALUES):
        rows = values[run]
        for j, column in enumerate(columns):
            rows[:, j] = column[run]
    return values


def _read_series(series: Any) -> tuple[Kind, Any]:
    kind = arrays.find_series_kind(series)
    if kind == "category":
        objects = np.empty(len(series), dtype=object)
        objects[:] = series.to_list()
        return ("category", objects) if arrays.is_categorical(series) else _read_objects(objects)
    values = series.to_numpy()
    if values.dtype.kind == "O" or (kind == "integer" and values.dtype.kind == "f"):  # because of nulls
        values = np.array(series.to_list(), dtype=object)
    return kind, values if values.dtype.kind in "iub" else arrays.to_float_column(
        values, f"column {series.name!r}"
    )


def _read_columns(columns: list[NDArray[Any]], rows: int) -> Table:
    kinds, values = zip(*map(_read_objects, columns), strict=True) if columns else ((), ())
    if columns and all(kind == "number" for kind in kinds):
        return Table(np.ascontiguousarray(np.column_stack(values)), rows, "number")
    return Table(tuple(values), rows, tuple(kinds))


def _read_objects(values: NDArray[Any]) -> tuple[Kind, NDArray[Any]]:
    """Read a column of Python values. It is a category unless all known values are numbers, or all bools."""
    kinds = {arrays.find_object_kind(value) for value in values.tolist()} - {None}
    if kinds <= {"number", "integer"}:
        return ("integer" if kinds == {"integer"} else "number"), arrays.to_float_column(values, "the column")
    return ("bool" if kinds == {"bool"} else "category"), values


def make_frame(columns: dict[Any, Any], library: str | None, like: Any = None) -> Any:
    """Make a data frame of that library from columns by name; an array (n, d) for None or another library.

    A pandas frame gets the index of `like`, if that has one.
    """
    if library == "pandas":
        pandas = importlib.import_module("pandas")
        return pandas.DataFrame(columns, index=getattr(like, "index", None))
    if library in ("polars", "pyarrow", "modin", "cudf"):
        narwhals = importlib.import_module("narwhals.stable.v2")
        frame = narwhals.from_dict({str(name): list(c) for name, c in columns.items()}, backend=library)
        return frame.to_native()
    return np.column_stack(list(columns.values()))
