"""Read ratings from data frames, triples, pairs or sparse matrices: ids of users and items, and numbers."""

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis import arrays
from tamis.arrays import Array
from tamis.inputs import read_weights
from tamis.models.factors import Entries, Indices, find_ids
from tamis.stats import Keys

ROLES = ("user", "item", "rating", "time", "weight")  # the order of columns that have no names
_EXACT_BELOW = 2.0**53  # float64 represents all whole numbers below this one
_MAX_RATING = 1e30  # posterior draws of ratings are stored as float32, which overflows at 3e38
_DAY = np.timedelta64(86_400_000_000, "us")
_REMEDIES = {  # the end of error messages, by role: what is expected, and how to convert to it
    "rating": "numbers: convert them, e.g. with astype(float)",
    "time": "numbers or dates: parse them, e.g. with pandas.to_datetime",
}
_ACCEPTED_INPUTS = "a frame, rows of (user, item, rating), pairs with y, or a sparse matrix"


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of n ratings as they were given, by role."""

    user: Any  # one id per rating; if `users` is not None, indices into it
    item: Any  # the same for items
    rating: Any = None
    time: Any = None
    weight: Any = None
    users: Keys | None = None  # the ids of all rows of a sparse matrix: 0, 1, 2, …; otherwise None
    items: Keys | None = None  # those of its columns

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """The times of n ratings."""

    values: Array  # (n,): numbers as they were given, dates in days since 1970
    are_dates: bool | None  # whether they were given as dates, not numbers; None if there are no times


@dataclass(frozen=True, slots=True, eq=False)
class RatingTable:
    """Ratings to learn, and the ids of their users and items."""

    users: Keys
    items: Keys
    entries: Entries
    times_are_dates: bool | None  # as `Times.are_dates`


def read_ratings(
    X: object, y: object, sample_weight: object, columns: Mapping[str, Any] | None, is_implicit: bool
) -> RatingTable:
    """Read ratings to learn; `y` holds them if X has only pairs."""
    table = read_shard(X, y, sample_weight, columns, is_implicit)
    return drop_zero_values(table) if is_implicit else table


def drop_zero_values(table: RatingTable) -> RatingTable:
    """Return the same users and items, without the entries of value 0."""
    return replace(table, entries=select_actions(table.entries))


def read_shard(
    X: object, y: object, sample_weight: object, columns: Mapping[str, Any] | None, is_implicit: bool
) -> RatingTable:
    """Read ratings to learn, of all rows or of one shard; values of 0 of implicit feedback are kept."""
    read = read_columns(X, columns, ("rating",) if y is not None else ())
    rows = len(read)
    if not rows:
        raise ValueError("got 0 ratings, expected at least 1: was the data empty?")
    if y is not None and read.rating is not None:
        raise ValueError(
            "got ratings both in X and as y, expected one of them: pass pairs with y, or triples"
        )
    rating = read.rating if y is None else y
    if rating is None and not is_implicit:
        raise ValueError(
            "got pairs without ratings, expected a third column or y; feedback='implicit' needs none"
        )
    value = np.ones(rows) if rating is None else _read_numbers(rating, rows)
    weight = _multiply_weights(read.weight, sample_weight, rows)
    time = None if read.time is None else read_times(read.time, rows)
    users, user = (read.users, read.user) if read.users is not None else _encode_ids(read.user, "user")
    items, item = (read.items, read.item) if read.items is not None else _encode_ids(read.item, "item")
    entries = Entries(user, item, value, weight, None if time is None else time.values)
    if weight is not None and not weight.all():  # a row of weight 0 was not observed
        entries = entries.select(weight > 0.0)
        if read.users is None or read.items is None:
            users, user = _keep_used(users, entries.user_index)
            items, item = _keep_used(items, entries.item_index)
            entries = replace(entries, user_index=user, item_index=item)
    return RatingTable(users, items, entries, None if time is None else time.are_dates)


def select_actions(entries: Entries) -> Entries:
    """Return the entries of implicit feedback with a value above 0; 0 means that there was no action."""
    value = entries.values
    if (value < 0.0).any():
        row = int(np.argmax(value < 0.0))
        raise ValueError(
            f"value {row} is {value[row]:g}, expected at least 0: with feedback='implicit' a value says how "
            "often or how long; for likes and dislikes use feedback='explicit'"
        )
    if len(value) and not value.any():
        raise ValueError("got values that are all 0, expected some above 0: with 0 there is no action")
    return entries if value.all() else entries.select(value > 0.0)


def read_ratings_of_one(
    ratings: Any, keys: Keys, what: str, columns: Mapping[str, Any] | None, is_implicit: bool
) -> tuple[Indices, Array]:
    """Return the indices and values of the ratings of one user or item.

    `what` is "item" for the ratings of one user, and "user" for those of one item; `keys` are these ids.
    """
    pairs: Iterable[Any]
    frame = arrays.wrap_frame(ratings) if arrays.is_frame(ratings) else None
    if frame is not None:
        pairs = _read_pairs(frame, what, columns)
    elif hasattr(ratings, "items"):  # a mapping, or a series with an index
        pairs = ratings.items()
    elif isinstance(ratings, Set):
        if not is_implicit:
            raise TypeError(f"got a set of {what}s, expected ratings of them: a mapping, or pairs")
        pairs = [(id_, 1.0) for id_ in ratings]
    else:
        pairs = ratings
    try:
        rows = [tuple(pair) for pair in pairs]
    except TypeError:
        rows = [()]
    if any(len(pair) != 2 for pair in rows):
        raise ValueError(f"got ratings that are not pairs, expected a mapping or pairs of ({what}, rating)")
    indices = find_ids(keys, [pair[0] for pair in rows], what)
    if (indices < 0).any():
        unknown = to_python(rows[int(np.argmax(indices < 0))][0])
        raise ValueError(f"got {what} {unknown!r}, expected one that is known: drop it, or add it first")
    values = _read_numbers([pair[1] for pair in rows], len(rows)) if rows else np.zeros(0)
    if is_implicit:
        actions = select_actions(Entries(indices, indices, values))
        return actions.item_index, actions.values
    return indices, values


def _read_pairs(frame: Any, what: str, columns: Mapping[str, Any] | None) -> list[tuple[Any, Any]]:
    """Return pairs (id, rating) of a frame with the ratings of one user or item.

    `what`, "user" or "item", says what the ids are ids of.
    """
    series, names_by_role = _map_columns(frame), dict(columns or {})
    names = list(series)
    id_column, rating_column = (names_by_role.get(role, role) for role in (what, "rating"))
    if id_column not in names or rating_column not in names:
        if len(names) != 2:
            raise ValueError(f"got the columns {names}, expected {what} and rating: rename them")
        _refuse_misplaced(names, (what, "rating"))
        id_column, rating_column = names
    return list(zip(series[id_column].to_list(), series[rating_column].to_list(), strict=True))


# ── columns by role ──


def read_columns(
    X: Any, columns: Mapping[str, Any] | None = None, optional: Sequence[str] = ROLES[2:]
) -> Columns:
    """Find the column of each role: user, item, rating, time and weight.

    `columns` maps roles to names of columns. These must exist, except those of the optional roles. A role
    that it does not name has the column with the name of the role. If `columns` is None and a frame has no
    columns called user and item, its first three columns are user, item and rating. Rows without names have
    their values in the order of the roles.
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise TypeError(
            f"got columns={columns!r}, expected a mapping from roles to names: e.g. {{'user': {columns!r}}}"
        )
    if hasattr(X, "tocoo"):
        return _read_sparse(X)
    if arrays.is_frame(X):
        return _read_frame(X, columns, optional)
    if isinstance(X, np.ndarray) or hasattr(X, "__array__"):
        return _read_array(arrays.to_numpy(X))
    if isinstance(X, Iterable) and not isinstance(X, str | bytes | Set | Mapping):
        return _read_rows(list(X))
    raise TypeError(f"got a {type(X).__name__}, expected {_ACCEPTED_INPUTS}")


def _read_sparse(X: Any) -> Columns:
    matrix = X.tocoo()
    if len(matrix.shape) != 2:
        raise ValueError(
            f"got a sparse array of shape {matrix.shape}, expected rows of users by columns of items"
        )
    user, item = (np.asarray(index, dtype=np.int64) for index in matrix.coords)
    users, items = (Keys(tuple(range(size))) for size in matrix.shape)
    return Columns(user, item, np.asarray(matrix.data), users=users, items=items)


def _read_frame(X: Any, columns: Mapping[str, Any] | None, optional: Sequence[str]) -> Columns:
    frame = arrays.wrap_frame(X)
    if frame is None:
        raise TypeError(f"got a {type(X).__name__} of one column, expected {_ACCEPTED_INPUTS}")
    names = list(frame.columns)
    by_role = _assign_roles(names, columns, optional) if columns is not None else _infer_roles(names)
    series = _map_columns(frame)
    return Columns(**{role: _read_series(series[name]) for role, name in by_role.items() if name in series})


def _assign_roles(names: list[Any], columns: Mapping[str, Any], optional: Sequence[str]) -> dict[str, Any]:
    """Return the name of each role's column, by `columns` or, if it lacks the role, the name of the role."""
    if unknown := [role for role in columns if role not in ROLES]:
        raise ValueError(f"got columns for {unknown[0]!r}, expected some of {', '.join(ROLES)}")
    given = dict(columns)
    if missing := [name for role, name in given.items() if name not in names and role not in optional]:
        raise ValueError(f"X has no column {missing[0]!r}, which columns={given!r} names: it has {names}")
    assigned = list(given.values())
    by_role = {role: role for role in ROLES if role in names and role not in assigned} | given
    if missing := [role for role in ROLES[:2] if role not in by_role]:
        raise ValueError(
            f"columns={given!r} has no {missing[0]!r}, expected the name of its column: X has {names}"
        )
    return by_role


def _infer_roles(names: list[Any]) -> dict[str, Any]:
    """Return the name of each role's column: that of the role, or else that of the column at its position."""
    if "user" in names and "item" in names:
        return {role: role for role in ROLES}
    if len(names) < 2:
        raise ValueError(
            f"X has the columns {names}, expected user, item and rating: name them, or set columns"
        )
    _refuse_misplaced(names, ROLES)
    rest = zip(ROLES[3:], names[3:], strict=False)
    return dict(zip(ROLES[:3], names, strict=False)) | {
        role: name for role, name in rest if str(name).casefold() == role
    }


def _refuse_misplaced(names: list[Any], roles: Sequence[str]) -> None:
    """Raise if a column with the name of a role is not at that role's position."""
    for position, name in enumerate(names):
        role = str(name).casefold()
        if role in ROLES and role not in roles[position : position + 1]:
            raise ValueError(
                f"got the columns {names}, of which {name!r} is not at its place, expected "
                f"{', '.join(roles[:3])} in that order: rename them, or set columns={{'{roles[0]}': …}}"
            )


def _map_columns(frame: Any) -> dict[Any, Any]:
    """Return the columns of a frame by name, as series of narwhals, the same for frames of all libraries."""
    # frame[name] would not do, because frame[0] is a row.
    return dict(zip(frame.columns, frame.iter_columns(), strict=True))


def _read_series(series: Any) -> Any:
    if series.dtype.is_numeric() or series.dtype.is_temporal():
        values = series.to_numpy()
        if values.dtype.kind in "iufM":
            return values
    return series.to_list()


def _read_array(values: NDArray[Any]) -> Columns:
    if values.shape == (0,):
        return _read_rows([])
    if values.ndim != 2 or not 2 <= values.shape[1] <= len(ROLES):
        raise ValueError(
            f"got an array of shape {values.shape}, expected (n, 2) of pairs, or up to (n, 5): "
            "user, item, rating, time and weight"
        )
    parts: list[Any] = list(values.T)
    if values.dtype.kind in "US":  # NumPy converted numbers to strings, because some values were strings
        parts[2:] = [_parse_numbers(part, role) for part, role in zip(parts[2:], ROLES[2:], strict=False)]
    return Columns(**dict(zip(ROLES, parts, strict=False)))


def _parse_numbers(part: NDArray[Any], role: str) -> Array:
    try:
        return part.astype(np.float64)
    except ValueError:
        raise _make_type_error(part, role) from None


def _read_rows(rows: list[Any]) -> Columns:
    if not rows:
        return Columns([], [])
    for row in rows:
        if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray):
            raise ValueError(
                f"got {row!r} for a row, expected pairs or (user, item, rating): one pair is [(user, item)]"
            )
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise ValueError(f"got rows of {min(widths)} and of {max(widths)} values, expected one length")
    if not 2 <= min(widths) <= len(ROLES):
        raise ValueError(f"got rows of {min(widths)} values, expected pairs or (user, item, rating)")
    parts: list[Any] = [list(part) for part in zip(*rows, strict=True)]
    return Columns(**dict(zip(ROLES, parts, strict=False)))


# ── ids ──


def to_labels(values: Any) -> Any:
    """Return ids in which floats that are whole numbers are integers: 3.0 becomes 3."""
    if isinstance(values, np.ndarray):
        if (
            values.dtype.kind == "f"
            and (np.abs(values) < _EXACT_BELOW).all()
            and (values == np.floor(values)).all()
        ):
            return values.astype(np.int64)
        return values if values.dtype.kind in "iu" else values.tolist()
    return values


def _encode_ids(values: Any, what: str) -> tuple[Keys, Indices]:
    """Return the distinct ids, and each row's index among them; `what` is "user" or "item"."""
    try:
        keys, index = Keys.encode(to_labels(values))
    except TypeError as problem:
        raise TypeError(
            f"got a {what} that cannot be an id ({problem}), expected strings, numbers or tuples"
        ) from None
    if (index < 0).any():
        row = int(np.argmax(index < 0))
        raise ValueError(f"{what} of row {row} is missing, expected an id: drop that row")
    return keys, index


def _keep_used(keys: Keys, index: Indices) -> tuple[Keys, Indices]:
    """Return the keys that occur in `index`, and the index of each row among these keys."""
    is_used = np.bincount(index, minlength=len(keys)) > 0
    return keys.keep(is_used), (np.cumsum(is_used) - 1)[index]


def require_new_id(keys: Keys, name: Hashable, what: str) -> None:
    """Raise if an id is missing, cannot be hashed, or is known already."""
    try:
        is_missing = bool((Keys.encode([name])[1] < 0).any())
    except TypeError:
        raise TypeError(f"got {what} {name!r}, expected an id: a string, a number or a tuple") from None
    if is_missing:
        raise ValueError(f"got {what} {name!r}, which is missing, expected an id")
    if name in keys:
        raise ValueError(
            f"got {what} {to_python(name)!r}, expected a new one: partial_fit adds ratings to known ones"
        )


# ── numbers ──


def _read_numbers(values: Any, rows: int, what: str = "rating") -> Array:
    """Read ratings or times (n,), which must be finite numbers."""
    given = values if arrays.is_frame(values) else arrays.to_numpy(values)
    try:
        numbers = _read_frame_column(given) if arrays.is_frame(given) else arrays.to_float_column(given, what)
    except TypeError:
        raise _make_type_error(values, what) from None
    if numbers.shape != (rows,):
        raise ValueError(
            f"got {what}s of shape {numbers.shape} for {rows} pairs, expected one per pair: ({rows},)"
        )
    if not np.isfinite(numbers).all():
        row = int(np.argmax(~np.isfinite(numbers)))
        raise ValueError(f"{what} {row} is {numbers[row]}, expected a finite number: drop that row")
    if what == "rating" and len(numbers) and np.abs(numbers).max() > _MAX_RATING:
        row = int(np.abs(numbers).argmax())
        raise ValueError(
            f"rating {row} is {numbers[row]:g}, expected a magnitude of at most {_MAX_RATING:g}: rescale them"
        )
    return np.ascontiguousarray(numbers)


def _read_frame_column(values: Any) -> Array:
    matrix = arrays.to_matrix(values).values
    return matrix[:, 0] if matrix.shape[1] == 1 else matrix


def _make_type_error(values: Any, what: str) -> TypeError:
    """Return the error that names the first value that is not a number."""
    frame = arrays.wrap_frame(values) if arrays.is_frame(values) else None
    items = list(values if frame is None else next(frame.iter_columns()).to_list())
    row = next((row for row, value in enumerate(items) if not _is_number(value)), 0)
    value = to_python(items[row])
    return TypeError(
        f"got {what}s of type {type(value).__name__} ({value!r} in row {row}), expected "
        f"{_REMEDIES.get(what, 'numbers')}"
    )


def _is_number(value: Any) -> bool:
    if not isinstance(value, np.str_):
        return arrays.find_object_kind(value) != "category"
    try:  # NumPy may have made strings of numbers
        float(value)
    except ValueError:
        return False
    return True


def to_python(value: Any) -> Any:
    """Convert a scalar of NumPy to Python's type, which is shorter in messages."""
    return value.item() if isinstance(value, np.generic) else value


def _multiply_weights(column: Any, sample_weight: object, rows: int) -> Array | None:
    """Return the product of both kinds of weights, of which some must be above 0, and none below."""
    given = [w for each in (column, sample_weight) if (w := read_weights(each, rows)) is not None]
    if not given:
        return None
    return given[0] if len(given) == 1 else read_weights(given[0] * given[1], rows)


# ── times ──


def read_times(values: Any, rows: int) -> Times:
    """Read numbers, dates or datetimes, one per row; a single value is the time of every row."""
    if isinstance(values, date | np.datetime64) or (np.ndim(values) == 0 and not arrays.is_frame(values)):
        values = [values] * rows
    if hasattr(values, "to_list"):
        values = values.to_list()
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        days = (values.astype("M8[us]") - np.datetime64(0, "us")) / _DAY
        return Times(_read_numbers(np.where(np.isnat(values), np.nan, days), rows, "time"), are_dates=True)
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return Times(_read_numbers(values, rows, "time"), are_dates=False)
    items = list(values)
    known = [
        (row, isinstance(x, date | np.datetime64))
        for row, x in enumerate(items)
        if arrays.find_object_kind(x) is not None
    ]
    if not any(is_date for _, is_date in known):
        return Times(_read_numbers(values, rows, "time"), are_dates=False if known else None)
    first = known[0][1]
    if (odd := next((row for row, is_date in known if is_date != first), None)) is not None:
        raise TypeError(
            f"time {odd} is {to_python(items[odd])!r} and time {known[0][0]} "
            f"{to_python(items[known[0][0]])!r}, expected all dates or all numbers: parse them, e.g. with "
            "pandas.to_datetime"
        )
    days = np.full(len(items), np.nan)
    for row, _ in known:
        days[row] = _count_days(items[row])
    return Times(_read_numbers(days, rows, "time"), are_dates=True)


def _count_days(value: Any) -> float:
    """Return the days since 1970, with a fraction."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.timestamp() / 86_400.0
    return float((np.datetime64(value, "us") - np.datetime64(0, "us")) / _DAY)


def read_duration(name: str, given: Any) -> float | None:
    """Read a length of time: a number stays as it is, and a timedelta is converted to days."""
    if isinstance(given, np.timedelta64 | timedelta):
        given = given / (timedelta(days=1) if isinstance(given, timedelta) else np.timedelta64(1, "D"))
    if given is None:
        return None
    if not isinstance(given, Real) or not 0.0 < float(given) < np.inf:
        raise ValueError(
            f"got {name}={given!r}, expected a length of time above 0: a number in the unit of the times, or "
            "a datetime.timedelta"
        )
    return float(given)


def refuse_mixed_times(fit_has_dates: bool | None, has_dates: bool | None) -> None:
    """Raise if the times of the fit were dates and these are numbers, or the reverse."""
    if fit_has_dates is None or has_dates is None or fit_has_dates == has_dates:
        return
    if has_dates:
        raise ValueError(
            "got times that are dates, expected numbers, as in the fit: convert them to its unit, or fit anew"
        )
    raise ValueError(
        "got times that are numbers, expected dates, as in the fit: convert them, e.g. with "
        "pandas.to_datetime(…, unit='s')"
    )
