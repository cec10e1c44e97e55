"""Frames, triples, pairs and sparse matrices → columns of users, items, ratings, times and weights."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array
from tamis.inputs import read_weights
from tamis.models.factors.ratings import Places
from tamis.stats import Keys

ROLES = ("user", "item", "rating", "time", "weight")  # the order of columns that have no names
_EXACT = 2.0**53  # from here on not every whole number is a float
_LARGEST = 1e30  # rating: draws are held as float32
_INSTEAD = {
    "rating": "numbers: convert them, e.g. with astype(float)",
    "time": "numbers or dates: parse them, e.g. with pandas.to_datetime",
}
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

    A frame has columns of the names that `columns` says, those of other roles by the role's own name: user,
    item, rating, time and weight. Without `columns`, user and item its first three are user, item and rating.
    Rows without names are in that order.
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise TypeError(
            f"got columns={columns!r}, expected a mapping from roles to names: e.g. {{'user': {columns!r}}}"
        )
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
    places = _named(names, columns, spared) if columns is not None else _unnamed(names)
    series = _by_name(frame)
    return Columns(**{role: _series(series[name]) for role, name in places.items() if name in series})


def _named(names: list[Any], columns: Mapping[str, Any], spared: Sequence[str]) -> dict[str, Any]:
    """Columns of each role as `columns` says; what it does not name is called as its role."""
    if unknown := [role for role in columns if role not in ROLES]:
        raise ValueError(f"got columns for {unknown[0]!r}, expected some of {', '.join(ROLES)}")
    told = dict(columns)
    if lost := [name for role, name in told.items() if name not in names and role not in spared]:
        raise ValueError(f"X has no column {lost[0]!r}, expected it by columns={told!r}: it has {names}")
    taken = list(told.values())
    places = {role: role for role in ROLES if role in names and role not in taken} | told
    if lost := [role for role in ROLES[:2] if role not in places]:
        raise ValueError(
            f"columns={told!r} names no {lost[0]}, expected a name of it, for X has the columns {names}"
        )
    return places


def _unnamed(names: list[Any]) -> dict[str, Any]:
    """Columns by the names of roles, or else by their places."""
    if "user" in names and "item" in names:
        return {role: role for role in ROLES}
    if len(names) < 2:
        raise ValueError(
            f"X has the columns {names}, expected user, item and rating: name them, or set columns"
        )
    refuse_misplaced(names, ROLES)
    more = zip(ROLES[3:], names[3:], strict=False)
    return dict(zip(ROLES[:3], names, strict=False)) | {
        role: name for role, name in more if _role(name) == role
    }


def refuse_misplaced(names: list[Any], roles: Sequence[str]) -> None:
    """One line if a column that is called as a role is not at its place."""
    for place, name in enumerate(names):
        if _role(name) in ROLES and _role(name) not in roles[place : place + 1]:
            raise ValueError(
                f"got the columns {names}, of which {name!r} is not at its place, expected "
                f"{', '.join(roles[:3])} in that order: name them so, or set columns={{'{roles[0]}': …}}"
            )


def _role(name: Any) -> str:
    return str(name).casefold()


def _by_name(frame: Any) -> dict[Any, Any]:
    return dict(zip(frame.columns, frame.iter_columns(), strict=True))  # by frame[…], 0 would be a row


def _series(series: Any) -> Any:
    kind = series.dtype
    if kind.is_numeric() or kind.is_temporal():
        found = series.to_numpy()
        return found if found.dtype.kind in "iufM" else series.to_list()
    return series.to_list()


def _of_array(values: NDArray[Any]) -> Columns:
    if values.shape == (0,):
        return _of_rows([])
    if values.ndim != 2 or not 2 <= values.shape[1] <= len(ROLES):
        raise ValueError(
            f"got an array of shape {values.shape}, expected (n, 2) of pairs or (n, 3) of triples"
        )
    parts: list[Any] = list(values.T)
    if values.dtype.kind in "US":  # NumPy made strings of the numbers among them
        parts[2:] = [_parsed(part, role) for part, role in zip(parts[2:], ROLES[2:], strict=False)]
    return Columns(**dict(zip(ROLES, parts, strict=False)))


def _parsed(part: NDArray[Any], role: str) -> Array:
    try:
        return part.astype(np.float64)
    except ValueError:
        raise _no_numbers(part, role) from None


def _of_rows(rows: list[Any]) -> Columns:
    if not rows:
        return Columns([], [])
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
    given = values if arrays.is_frame(values) else arrays.to_numpy(values)
    try:
        found = _frame_column(given) if arrays.is_frame(given) else arrays.column(given, what)
    except TypeError:
        raise _no_numbers(values, what) from None
    if found.shape != (rows,):
        raise ValueError(
            f"got {what}s of shape {found.shape} for {rows} pairs, expected one per pair: ({rows},)"
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


def _no_numbers(values: Any, what: str) -> TypeError:
    """One line about the first value that is no number."""
    wrapped = arrays.frame(values) if arrays.is_frame(values) else None
    listed = list(values if wrapped is None else next(wrapped.iter_columns()).to_list())
    row = next((row for row, value in enumerate(listed) if not _is_number(value)), 0)
    value = plain(listed[row])
    return TypeError(
        f"got {what}s of type {type(value).__name__} ({value!r} in row {row}), expected "
        f"{_INSTEAD.get(what, 'numbers')}"
    )


def _is_number(value: Any) -> bool:
    if not isinstance(value, np.str_):
        return arrays.object_kind(value) != "category"
    try:  # NumPy may have made strings of numbers
        float(value)
    except ValueError:
        return False
    return True


def plain(value: Any) -> Any:
    """A value of NumPy as Python's own, to be read in a message."""
    return value.item() if isinstance(value, np.generic) else value


def pairs_of(frame: Any, what: str, columns: Mapping[str, Any] | None) -> list[tuple[Any, Any]]:
    """(id, rating) of a frame that is of one user or item; `what` is what the others are."""
    series, told = _by_name(frame), dict(columns or {})
    names = list(series)
    own, rating = (told.get(role, role) for role in (what, "rating"))
    if own not in names or rating not in names:
        if len(names) != 2:
            raise ValueError(f"got the columns {names}, expected {what} and rating: name them so")
        refuse_misplaced(names, (what, "rating"))
        own, rating = names
    return list(zip(series[own].to_list(), series[rating].to_list(), strict=True))


def weights(column: Any, sample_weight: object, rows: int) -> Array | None:
    """The weights of both kinds, multiplied; at least 0 and not all 0."""
    given = [found for each in (column, sample_weight) if (found := read_weights(each, rows)) is not None]
    if not given:
        return None
    return given[0] if len(given) == 1 else read_weights(given[0] * given[1], rows)
