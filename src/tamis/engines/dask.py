"""Dask arrays, data frames and bags (Dask's lists of Python objects) → shards on the workers of Dask.

A shard is a partition. The worker that stores it computes its statistic. Workers also add the statistics, a
few per task, until one sum is left, and only that sum is sent to this process. Shards that are read several
times are kept in the workers' memory. In each step, the posterior is one task of Dask's graph of tasks, and
all tasks that observe a shard depend on it. If a worker is lost, Dask repeats its tasks, and `Part` makes
sure that each shard is counted once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Generic, TypeVar

import numpy as np

from tamis.arrays import one_line
from tamis.engines.batches import Batch, Loaded, Piece
from tamis.engines.iterables import read_batch
from tamis.engines.opening import Request
from tamis.engines.parts import Part, apply_to_piece, observe_part, require_all_shards
from tamis.extras import import_package
from tamis.protocols import Statistic

X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound=Statistic)

_PARTS_PER_TASK = 8  # parts that one task adds


@dataclass(frozen=True, eq=False)
class DaskShards(Generic[X]):
    """Shards that are results of Dask's tasks."""

    shards: Sequence[Any]  # a `dask.delayed.Delayed`, a task that was not run yet, for each shard
    names: Sequence[str]  # the shards' names in error messages
    client: Any = None  # the client of a cluster; None for the scheduler that Dask is configured to use

    def total(self, observe: Callable[[X], S | None], /) -> S:
        """Observe every shard where it is stored, and add the statistics."""
        delayed = _import_dask().delayed
        # With pure=True, Dask would compute a hash of the posterior to name the task.
        given = delayed(_Constant(observe), pure=False)
        parts = [
            delayed(_observe)(given, number, name, shard)
            for number, (name, shard) in enumerate(zip(self.names, self.shards, strict=True))
        ]
        while len(parts) > 1:
            groups = [parts[k : k + _PARTS_PER_TASK] for k in range(0, len(parts), _PARTS_PER_TASK)]
            parts = [delayed(_add)(group) for group in groups]
        part: Part[S] = self._compute(parts[0])
        return require_all_shards(part, len(self.shards))

    def map(self, transform: Callable[[X], Y | None], /) -> "DaskShards[Y]":
        """Return shards to which `transform` is applied where they are stored."""
        delayed = _import_dask().delayed
        transformed = [
            delayed(_transform)(transform, name, shard)
            for name, shard in zip(self.names, self.shards, strict=True)
        ]
        return DaskShards(transformed, self.names, self.client)

    def keep(self) -> "DaskShards[X]":
        """Return the shards, computed once and kept on the workers."""
        dask = _import_dask()
        shards = dask.persist(*self.shards) if self.client is None else self.client.persist(list(self.shards))
        return DaskShards(list(shards), self.names, self.client)

    def read_first(self) -> X:
        """Return the first shard."""
        first: X = self._compute(self.shards[0])
        return first

    def _compute(self, task: Any) -> Any:
        if self.client is None:
            return task.compute()
        return self.client.compute(task).result()


@dataclass(frozen=True, slots=True, eq=False)
class _Constant(Generic[X]):
    """A value that is one task of a graph, so that it is sent once and not with each task that needs it."""

    value: X


def _observe(given: _Constant[Any], number: int, name: str, shard: Any) -> Part[Any]:
    return observe_part(given.value, number, Loaded(name, shard))


def _transform(transform: Callable[[Any], Any], name: str, shard: Any) -> Any:
    return apply_to_piece(transform, Loaded(name, shard))


def _add(parts: list[Part[Any]]) -> Part[Any]:
    return reduce(add, parts)


def _import_dask(module: str = "dask") -> Any:
    return import_package(module, "tamis.engines.dask")


def place_pieces(pieces: Sequence[Piece[X]], request: Request) -> DaskShards[X]:
    """Make shards that the workers of the client read from pieces; all workers must see the files."""
    delayed = _import_dask().delayed
    shards = [delayed(_load)(piece) for piece in pieces]
    return DaskShards(shards, [piece.name for piece in pieces], request.engine)


def open_delayed(tasks: Sequence[Any], request: Request) -> DaskShards[Batch]:
    """Make shards of tasks of `dask.delayed`, each of which makes (X, y), (X, y, sample_weight) or X."""
    delayed = _import_dask().delayed
    shards = [delayed(read_batch)(task, number) for number, task in enumerate(tasks)]
    names = [f"batch {number}" for number in range(len(shards))]
    return DaskShards(shards, names, _find_client(request.engine))


def _load(piece: Piece[X]) -> X:
    return piece.load()


def open_shards(data: Any, request: Request) -> DaskShards[Batch]:
    """Open an array, a data frame or a bag of Dask."""
    classes = {base.__name__ for base in type(data).__mro__}
    # Each of these functions returns one task per partition, whose result is a batch.
    if "Array" in classes:
        shards = _read_array(data, request)
    elif "Bag" in classes:
        shards = _read_bag(data, request)
    else:
        shards = _read_frame(data, request)
    names = [f"partition {number}" for number in range(len(shards))]
    return DaskShards(shards, names, _find_client(request.engine))


def _find_client(engine: Any) -> Any:
    """Return the client that the caller gave, or this process's current one; None without a cluster."""
    if engine is not None:
        if all(base.__module__.partition(".")[0] != "distributed" for base in type(engine).__mro__):
            raise TypeError(
                f"got engine={one_line(engine)} for data of Dask, expected None or a Client of Dask"
            )
        return engine
    try:
        return _import_dask("distributed").get_client()
    except (ImportError, ValueError):
        return None


# ── arrays ──


def _read_array(data: Any, request: Request) -> list[Any]:
    if request.columns is not None:
        raise ValueError("got columns for an array, which has no names, expected None: slice the array")
    if data.ndim != 2:
        raise ValueError(f"Expected 2D array, got {data.ndim}D array instead: reshape the array of Dask")
    if data.numblocks[1] > 1:
        data = data.rechunk({1: -1})  # join the parts of each row: a partition has all columns
    rows = data.to_delayed()[:, 0].tolist()
    roles = {name: _list_partitions(name, value, data) for name, value in request.roles.items()}
    delayed = _import_dask().delayed
    return [
        delayed(Batch.from_roles)(part, {role: parts[number] for role, parts in roles.items()}, number)
        for number, part in enumerate(rows)
    ]


def _list_partitions(name: str, value: Any, data: Any) -> list[Any]:
    """Return the partitions of labels or weights; raise if there are more or fewer than those of the rows.

    `name` is their argument of `fit`. Arrays of known length are divided into the partitions of the rows.
    """
    classes = {base.__name__ for base in type(value).__mro__}
    # FrameBase is the base class of Dask's data frames and series.
    if not classes & {"Array", "Series", "FrameBase"} or type(value).__module__.partition(".")[0] != "dask":
        raise TypeError(
            f"got {name} of type {type(value).__name__} beside rows of Dask, expected an array of Dask"
        )
    if "Array" in classes:
        has_lengths = not (np.isnan(value.chunks[0]).any() or np.isnan(data.chunks[0]).any())
        if has_lengths and value.shape[0] != data.shape[0]:
            raise ValueError(
                f"got {name} of {value.shape[0]} values for {data.shape[0]} rows, expected one per row"
            )
        if has_lengths:
            value = value.rechunk({0: data.chunks[0]})
        parts: list[Any] = value.to_delayed().ravel().tolist()
    else:
        parts = list(value.to_delayed())
    if len(parts) != _count_partitions(data):
        raise ValueError(
            f"got {name} in {len(parts)} partitions for rows in {_count_partitions(data)}, expected the "
            "same: repartition one of them"
        )
    return parts


def _count_partitions(data: Any) -> int:
    return int(data.numblocks[0] if hasattr(data, "numblocks") else data.npartitions)


# ── data frames ──


def _read_frame(data: Any, request: Request) -> list[Any]:
    delayed = _import_dask().delayed
    available = list(data.columns)
    named = {role: value for role, value in request.roles.items() if isinstance(value, str)}
    beside = {role: value for role, value in request.roles.items() if role not in named}
    # As `others`, further arguments of `fit`, a request accepts any roles.
    columns = Request(others=named, columns=request.columns).choose_columns(available)
    values = {role: _list_partitions(role, value, data) for role, value in beside.items()}
    needed = list(dict.fromkeys([*columns, *named.values()]))
    partitions = data[needed].to_delayed()
    return [
        delayed(_split_frame)(
            part, columns, named, {role: parts[number] for role, parts in values.items()}, number
        )
        for number, part in enumerate(partitions)
    ]


def _split_frame(
    frame: Any, columns: list[Any], named: dict[str, Any], beside: dict[str, Any], number: int
) -> Batch:
    """Make a batch of a partition; `named` maps roles to columns of the frame, `beside` roles to values."""
    roles = {role: frame[name] for role, name in named.items()} | beside
    return Batch.from_roles(frame[columns], {role: np.asarray(each) for role, each in roles.items()}, number)


# ── bags ──


def _read_bag(data: Any, request: Request) -> list[Any]:
    delayed = _import_dask().delayed
    for name, value in request.roles.items():
        if not isinstance(value, str):
            raise TypeError(f"got {name} as values beside a bag, expected its name in the rows: y='label'")
    return [
        delayed(_split_bag)(part, dict(request.roles), request.columns, number)
        for number, part in enumerate(data.to_delayed())
    ]


def _split_bag(rows: Any, roles: dict[str, str], columns: list[str] | None, number: int) -> Batch:
    """Make a batch of a partition of a bag, whose rows are mappings from names to values."""
    rows = list(rows)
    values: dict[str, Any] = {}
    for role, name in roles.items():
        if (incomplete := next((row for row in rows if name not in row), None)) is not None:
            raise ValueError(
                f"partition {number}: a row has no {name!r}, expected it in all rows as {role}: "
                f"{one_line(incomplete)}"
            )
        values[role] = [row[name] for row in rows]
    used = set(roles.values())
    features = [
        {name: row[name] for name in (columns or row) if name in row and name not in used} for row in rows
    ]
    return Batch.from_roles(features, values, number)
