"""Frames, triples, pairs and sparse matrices → columns of users, items, ratings, times and weights."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array
from tamis.estimators.reading import weights as read_weights
from tamis.models.factors.ratings import Places
from tamis.stats import Keys

ROLES = ("user", "item", "rating", "time", "weight")  # the order of columns that have no names
_EXACT = 2.0**53  # from here on not every whole number is a float
_LARGEST = 1e30  # rating: draws are held as float32
_DAY = np.timedelta64(86_400_000_000, "us")
_KINDS = "a frame, rows of (user, item, rating), pairs with y, or a sparse matrix"


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What was read: n rows."""

    user: Any  # labels, one a row
    item: Any
    rating: Any = None
    time: Any = None
    weight: Any = None
    users: Keys | None = None  # all that there are, where the data says so
    items: Keys | None = None

    def __len__(self) -> int:
        return len(self.user)


def read(X: Any, columns: Mapping[str, Any] | None = None, spared: Sequence[str] = ROLES[2:]) -> Columns:
    """Columns by role; of those that `columns` names, only the spared roles need not be there.

    A frame has columns of the names that `columns` says of each role, else those called user, item, rating,
    time and weight, else its first three are user, item and rating. Rows without names are in that order.
    """
    if hasattr(X, "tocoo"):
        return _of_sparse(X)
    if arrays.is_frame(X):
        return _of_frame(X, columns, spared)
    if isinstance(X, np.ndarray) or hasattr(X, "__array__"):
        return _of_array(arrays.to_numpy(X))
    if isinstance(X, Iterable) and not isinstance(X, str | bytes | Set | Mapping):
        return _of_rows(list(X))
    raise TypeError(f"got a {type(X).__name__}, expected {_KINDS}")


def _of_sparse(X: Any) -> Columns:
    found = X.tocoo()
    if len(found.shape) != 2:
        raise ValueError(
            f"got a sparse array of shape {found.shape}, expected rows of users by columns of items"
        )
    user, item = (np.asarray(place, dtype=np.int64) for place in found.coords)
    users, items = (Keys(tuple(range(size))) for size in found.shape)
    return Columns(user, item, np.asarray(found.data), users=users, items=items)


def _of_frame(X: Any, columns: Mapping[str, Any] | None, spared: Sequence[str]) -> Columns:
    frame = arrays.frame(X)
    if frame is None:
        raise TypeError(f"got a {type(X).__name__} of one column, expected {_KINDS}")
    names = list(frame.columns)
    if columns is not None:
        if unknown := [role for role in columns if role not in ROLES]:
            raise ValueError(f"got columns for {unknown[0]!r}, expected some of {', '.join(ROLES)}")
        places = dict(columns)
        if lost := [role for role in ("user", "item") if role not in places]:
            raise ValueError(f"columns={places!r} names no {lost[0]}, expected names of user and item")
        if lost := [name for role, name in places.items() if name not in names and role not in spared]:
            raise ValueError(
                f"X has no column {lost[0]!r}, expected it by columns={places!r}: it has {names}"
            )
    elif "user" in names and "item" in names:
        places = {role: role for role in ROLES}
    elif len(names) >= 2:
        places = dict(zip(ROLES[:3], names, strict=False))
    else:
        raise ValueError(
            f"X has the columns {names}, expected user, item and rating: name them, or set columns"
        )
    series = {role: frame[name] for role, name in places.items() if name in names}
    return Columns(**{role: _series(found) for role, found in series.items()})


def _series(series: Any) -> Any:
    kind = series.dtype
    if kind.is_numeric() or kind.is_temporal():
        found = series.to_numpy()
        return found if found.dtype.kind in "iufM" else series.to_list()
    return series.to_list()


def _of_array(values: NDArray[Any]) -> Columns:
    if values.ndim != 2 or not 2 <= values.shape[1] <= len(ROLES):
        raise ValueError(
            f"got an array of shape {values.shape}, expected (n, 2) of pairs or (n, 3) of triples"
        )
    parts: list[Any] = list(values.T)
    if values.dtype.kind in "US":  # NumPy made strings of the numbers among them
        try:
            parts[2:] = [part.astype(np.float64) for part in parts[2:]]
        except ValueError as problem:
            raise TypeError(f"got {problem}, expected ratings that are numbers in the third column") from None
    return Columns(**dict(zip(ROLES, parts, strict=False)))


def _of_rows(rows: list[Any]) -> Columns:
    if not rows:
        raise ValueError("got 0 ratings, expected at least 1: was the list empty?")
    widths = {
        len(row) if isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) else -1
        for row in rows
    }
    if -1 in widths:
        odd = next(row for row in rows if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str))
        raise ValueError(
            f"got {odd!r} for a row, expected pairs or (user, item, rating): one pair is [(user, item)]"
        )
    if len(widths) != 1 or not 2 <= min(widths) <= len(ROLES):
        raise ValueError(f"got rows of {min(widths)} values, expected pairs or (user, item, rating)")
    parts: list[Any] = [list(part) for part in zip(*rows, strict=True)]
    return Columns(**dict(zip(ROLES, parts, strict=False)))


def labels(values: Any) -> Any:
    """Ids, whole numbers as integers: 3.0 is 3."""
    if isinstance(values, np.ndarray):
        if (
            values.dtype.kind == "f"
            and (np.abs(values) < _EXACT).all()
            and (values == np.floor(values)).all()
        ):
            return values.astype(np.int64)
        return values if values.dtype.kind in "iu" else values.tolist()
    return values


def keyed(values: Any, what: str) -> tuple[Keys, Places]:
    """The distinct ids and each row's place among them; `what` is whose ids these are."""
    try:
        keys, place = Keys.encode(labels(values))
    except TypeError as problem:
        raise TypeError(f"got a {what} that is no id ({problem})") from None
    if (place < 0).any():
        row = int(np.argmax(place < 0))
        raise ValueError(f"{what} of row {row} is missing, expected an id: drop that row")
    return keys, place


def refuse_no_id(value: Any, what: str) -> None:
    """One line if this is missing, or cannot be hashed."""
    try:
        missing = bool((Keys.encode([value])[1] < 0).any())
    except TypeError:
        raise TypeError(f"got {what} {value!r}, expected an id: a string, a number or a tuple") from None
    if missing:
        raise ValueError(f"got {what} {value!r}, which is missing, expected an id")


def found_in(keys: Keys, values: Any, what: str) -> Places:
    """Each row's place among the keys, −1 for those that are not there."""
    try:
        named = values.tolist() if isinstance(values, np.ndarray) else values
        return keys.find(named)
    except TypeError as problem:
        raise TypeError(
            f"got a {what} that is no id ({problem}), expected strings, numbers or tuples"
        ) from None


def ratings(values: Any, rows: int, what: str = "rating") -> Array:
    """Ratings (n,): finite numbers."""
    found = (
        arrays.column(arrays.to_numpy(values), what) if not arrays.is_frame(values) else _frame_column(values)
    )
    if found.shape != (rows,):
        raise ValueError(
            f"got {what}s of shape {found.shape} for {rows} pairs, expected one a pair: ({rows},)"
        )
    if not np.isfinite(found).all():
        row = int(np.argmax(~np.isfinite(found)))
        raise ValueError(f"{what} {row} is {found[row]}, expected a finite number: drop that row")
    if what == "rating" and len(found) and np.abs(found).max() > _LARGEST:
        row = int(np.abs(found).argmax())
        raise ValueError(
            f"rating {row} is {found[row]:g}, expected at most {_LARGEST:g} in size: rescale them"
        )
    return np.ascontiguousarray(found)


def _frame_column(values: Any) -> Array:
    read = arrays.matrix(values).values
    return read[:, 0] if read.shape[1] == 1 else read


def weights(column: Any, sample_weight: object, rows: int) -> Array | None:
    """The weights of both kinds, multiplied; at least 0 and not all 0."""
    given = [found for each in (column, sample_weight) if (found := read_weights(each, rows)) is not None]
    if not given:
        return None
    return given[0] if len(given) == 1 else read_weights(given[0] * given[1], rows)


def times(values: Any, rows: int) -> Array:
    """Times (n,): numbers as they are, dates and datetimes in days since 1970."""
    if isinstance(values, date | np.datetime64) or (np.ndim(values) == 0 and not arrays.is_frame(values)):
        values = [values] * rows
    return ratings(_days(values.to_list() if hasattr(values, "to_list") else values), rows, "time")


def _days(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        days = (values.astype("M8[us]") - np.datetime64(0, "us")) / _DAY
        return np.where(np.isnat(values), np.nan, days)
    listed = list(values) if not isinstance(values, np.ndarray) or values.dtype.kind == "O" else None
    if listed and isinstance(next((x for x in listed if x is not None), None), date | np.datetime64):
        return np.array([_day(x) for x in listed])
    return values


def _day(value: Any) -> float:
    if value is None or value != value:
        return float("nan")
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.timestamp() / 86_400.0
    return float((np.datetime64(value, "us") - np.datetime64(0, "us")) / _DAY)
