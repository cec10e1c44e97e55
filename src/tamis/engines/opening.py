"""Open data of any source as shards (parts); the module of a source is imported when it is first needed.

A source is a module with a function `open_shards(data, request) -> BatchShards[Batch]`. To add one, write the
module and name the types of its data in `SOURCES`.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from tamis.arrays import one_line
from tamis.engines.batches import Batch, Piece
from tamis.engines.local import LocalShards
from tamis.protocols import Statistic

S = TypeVar("S", bound=Statistic)
X_co = TypeVar("X_co", covariant=True)
X = TypeVar("X")
Y = TypeVar("Y")

_LARGE_MAP = 1 << 28  # bytes: a memory map that is larger is read in shards, a smaller one at once


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """The arguments of `fit` besides the data, and where and how to read it.

    `y`, `sample_weight` and `others` are names of columns, or data of the same kind as the rows. `columns`
    are the names of those to learn from; by default all that have no other meaning.
    """

    y: Any = None
    sample_weight: Any = None
    others: dict[str, Any] = field(default_factory=dict)  # further arguments of `fit`: offset, exposure
    columns: list[str] | None = None
    engine: Any = None  # where to observe; None for threads of this process, or for where the data is
    progress: str = ""  # the name of a progress bar; none is drawn if it is empty

    @property
    def roles(self) -> dict[str, Any]:
        """The columns, or data, that each argument of `fit` besides the rows is read from."""
        given = {"y": self.y, "sample_weight": self.sample_weight, **self.others}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def named_roles(self) -> dict[str, str]:
        """The same for tables, where each must be the name of a column."""
        for name, value in self.roles.items():
            if not isinstance(value, str):
                raise TypeError(
                    f"got {name} of type {type(value).__name__} beside a table, expected a column's name"
                )
        return self.roles

    def choose_columns(self, available: list[str]) -> list[str]:
        """The names of the columns to learn from, of those that a table has."""
        roles = self.named_roles
        known = set(available)
        for role, name in roles.items():
            if name not in known:
                raise ValueError(
                    f"got {role}={name!r}, expected a column of the data: it has {_list(available)}"
                )
        if self.columns is None:
            taken = set(roles.values())
            return [name for name in available if name not in taken]
        if absent := [name for name in self.columns if name not in known]:
            raise ValueError(f"the data has no column {absent[0]!r}, expected one of {_list(available)}")
        if used := [name for name in self.columns if name in roles.values()]:
            raise ValueError(f"got column {used[0]!r} to learn from and as a label or weight: name it once")
        return list(self.columns)


def _list(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


class BatchShards(Protocol[X_co]):
    """Shards of a source or of an engine: `protocols.Shards`, and what learning in several passes needs."""

    def total(self, observe: Callable[[X_co], S | None], /) -> S:
        """Observe every shard, once, where it is; add. `observe` returns None for a shard without rows."""

    def map(self, change: Callable[[X_co], Y | None], /) -> "BatchShards[Y]":
        """The shards after a change, which is made where they are, whenever they are read.

        The change may make None of a shard without rows, which is then passed over.
        """

    def keep(self) -> "BatchShards[X_co]":
        """The shards, kept in the memory of the workers that have them, if the engine has workers."""

    def read_first(self) -> X_co:
        """The first shard, brought to this process: its columns are the ones that all must have.

        It may have no rows, if the engine knows the types of all columns without them.
        """


@dataclass(frozen=True, slots=True)
class Source:
    """A type of data, by the package and the name of its class, and the module that makes shards of it."""

    package: str
    names: frozenset[str]
    module: str

    def owns(self, kind: type) -> bool:
        """Whether a class, or one that it derives from, is of this source."""
        return any(
            base.__name__ in self.names and base.__module__.partition(".")[0] == self.package
            for base in kind.__mro__
        )


SOURCES: tuple[Source, ...] = (
    Source("tamis", frozenset({"SQLTable"}), "tamis.engines.sql"),
    Source("tamis", frozenset({"Batches"}), "tamis.engines.iterables"),
    Source("pyarrow", frozenset({"Dataset", "RecordBatchReader"}), "tamis.engines.arrow"),
    Source("duckdb", frozenset({"DuckDBPyRelation"}), "tamis.engines.arrow"),
    Source("_duckdb", frozenset({"DuckDBPyRelation"}), "tamis.engines.arrow"),
    Source("dask", frozenset({"Array", "Bag", "DataFrame", "FrameBase"}), "tamis.engines.dask"),
    Source("pyspark", frozenset({"DataFrame"}), "tamis.engines.spark"),
)
ENGINES: dict[str, str] = {  # by the package of the object that is given
    "distributed": "tamis.engines.dask",
    "pyspark": "tamis.engines.spark",
}

_sources: dict[type, str | None] = {np.ndarray: None, list: None, tuple: None, dict: None}


def find_module(data: object) -> str | None:
    """The module that makes shards of the data; None if the data is not in shards."""
    kind = type(data)
    if kind in _sources:
        return _sources[kind]
    if isinstance(data, np.memmap):
        return "tamis.engines.memory_maps" if data.nbytes > _LARGE_MAP else None
    module = next((source.module for source in SOURCES if source.owns(kind)), None)
    if module is None and issubclass(kind, str | Path):
        module = "tamis.engines.files"
    if module is None and issubclass(kind, Iterator):
        module = "tamis.engines.iterables"
    _sources[kind] = module
    return module


def place_pieces(pieces: Iterable[Piece[X]], count: int | None, request: Request) -> BatchShards[X]:
    """Pieces, as shards of the engine that the caller asks for; by default of threads in this process."""
    if request.engine is None or request.engine == "threads":
        local: Any = LocalShards(pieces, count, request.progress)
        return cast("BatchShards[X]", local)
    module = ENGINES.get(type(request.engine).__module__.partition(".")[0])
    if module is None:
        raise TypeError(
            f"got engine={one_line(request.engine)}, expected None for threads, a Client of Dask or a "
            "SparkSession"
        )
    shards: BatchShards[X] = importlib.import_module(module).place_pieces(list(pieces), request)
    return shards


def is_source(data: object) -> bool:
    """Whether the data comes in shards: see `open_shards`."""
    return find_module(data) is not None


def open_shards(data: Any, request: Request) -> BatchShards[Batch]:
    """Open data in shards; TypeError for any other."""
    module = find_module(data) if request.engine != "sql" else "tamis.engines.sql"
    if module is None:
        raise TypeError(
            f"got data of type {type(data).__name__}, expected a path, a dataset, a memory map or batches: "
            "see tamis.engines"
        )
    shards: BatchShards[Batch] = importlib.import_module(module).open_shards(data, request)
    return shards
