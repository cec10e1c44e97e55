"""Open data of any type as shards; the module for a type of data is imported when it is first needed.

Such a module has a function `open_shards(data, request) -> BatchShards[Batch]`. To add one, write the module
and name the types of its data in `SOURCES`.
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

_LARGE_MAP = 1 << 28  # bytes; `fit` of a face reads a larger memory map in shards, and a smaller one whole
_MEMORY_MAPS = "tamis.engines.memory_maps"


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """The arguments of `fit` besides the data, and where and how to read the data.

    `y`, `sample_weight` and the values of `others` are names of columns, or data of the same kind as the
    rows. `columns` are the names of the columns to learn from; by default all columns that are not labels,
    weights or others. `engine` is "threads", "sql", a Client of Dask or a SparkSession; None chooses threads
    of this process, or the engine that holds the data.
    """

    y: Any = None
    sample_weight: Any = None
    others: dict[str, Any] = field(default_factory=dict)  # further arguments of `fit`: offset, exposure
    columns: list[str] | None = None
    engine: Any = None
    progress: str = ""  # the name of a progress bar; none is drawn if it is empty

    @property
    def roles(self) -> dict[str, Any]:
        """The arguments of `fit`, besides the rows, that are not None: each is data or a column's name."""
        given = {"y": self.y, "sample_weight": self.sample_weight, **self.others}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def named_roles(self) -> dict[str, str]:
        """The roles, if all are names of columns; otherwise, it raises TypeError."""
        for name, value in self.roles.items():
            if not isinstance(value, str):
                raise TypeError(
                    f"got {name} of type {type(value).__name__} beside a table, expected a column's name"
                )
        return self.roles

    def choose_columns(self, available: list[str]) -> list[str]:
        """Return the names of the columns to learn from, among the available columns of a table."""
        roles = self.named_roles
        known = set(available)
        for role, name in roles.items():
            if name not in known:
                raise ValueError(
                    f"got {role}={name!r}, expected a column of the data: it has {_list_names(available)}"
                )
        if self.columns is None:
            others = set(roles.values())
            return [name for name in available if name not in others]
        if absent := [name for name in self.columns if name not in known]:
            raise ValueError(
                f"the data has no column {absent[0]!r}, expected one of {_list_names(available)}"
            )
        if used := [name for name in self.columns if name in roles.values()]:
            raise ValueError(f"got column {used[0]!r} to learn from and as a label or weight: name it once")
        return list(self.columns)


def _list_names(names: list[str]) -> str:
    """Write the first eight names, and the number of the others."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


class BatchShards(Protocol[X_co]):
    """Shards of any engine: the method of `protocols.Shards`, and methods for learning in several passes."""

    def total(self, observe: Callable[[X_co], S | None], /) -> S:
        """Observe every shard once, where it is stored, and return the sum of the statistics.

        `observe` returns None for a shard without rows.
        """

    def map(self, transform: Callable[[X_co], Y | None], /) -> "BatchShards[Y]":
        """Return shards to which `transform` is applied, where they are stored, whenever they are read.

        `transform` returns None for a shard without rows, which is then skipped.
        """

    def keep(self) -> "BatchShards[X_co]":
        """Return the same shards; an engine with workers keeps them there once they have been read."""

    def read_first(self) -> X_co:
        """Read the first shard, whose columns all shards must have, in this process.

        It may have no rows, if the engine knows the types of all columns.
        """


@dataclass(frozen=True, slots=True)
class Source:
    """Types of data, by the package and the names of their classes, and the module that opens them."""

    package: str
    names: frozenset[str]
    module: str

    def owns(self, kind: type) -> bool:
        """Return whether a class, or one that it derives from, is among these types."""
        return any(
            base.__name__ in self.names and base.__module__.partition(".")[0] == self.package
            for base in kind.__mro__
        )


SOURCES: tuple[Source, ...] = (
    Source("tamis", frozenset({"SQLTable"}), "tamis.engines.sql"),
    Source("tamis", frozenset({"Batches"}), "tamis.engines.iterables"),
    Source("pyarrow", frozenset({"Dataset", "RecordBatchReader"}), "tamis.engines.arrow"),
    Source("duckdb", frozenset({"DuckDBPyRelation"}), "tamis.engines.arrow"),
    Source("_duckdb", frozenset({"DuckDBPyRelation"}), "tamis.engines.arrow"),  # in some versions of DuckDB
    Source("dask", frozenset({"Array", "Bag", "DataFrame", "FrameBase"}), "tamis.engines.dask"),
    Source("pyspark", frozenset({"DataFrame"}), "tamis.engines.spark"),
)
ENGINES: dict[str, str] = {  # the module of an engine, by the package of the object given as `engine`
    "distributed": "tamis.engines.dask",  # the package of Dask's Client
    "pyspark": "tamis.engines.spark",
}

# What `find_module` returned before, by the type of the data.
_modules: dict[type, str | None] = {np.ndarray: None, list: None, tuple: None, dict: None}


def find_module(data: object) -> str | None:
    """Return the name of the module that opens the data; None for data that faces read as a whole."""
    kind = type(data)
    if kind in _modules:
        return _modules[kind]
    if isinstance(data, np.memmap):
        return _MEMORY_MAPS if data.nbytes > _LARGE_MAP else None
    module = next((source.module for source in SOURCES if source.owns(kind)), None)
    if module is None and issubclass(kind, str | Path):
        module = "tamis.engines.files"
    if module is None and issubclass(kind, Iterator):
        module = "tamis.engines.iterables"
    _modules[kind] = module
    return module


def place_pieces(pieces: Iterable[Piece[X]], count: int | None, request: Request) -> BatchShards[X]:
    """Make shards of pieces on the engine that the request names; by default in threads of this process."""
    if request.engine is None or request.engine == "threads":
        local: Any = LocalShards(pieces, count, request.progress)
        return cast("BatchShards[X]", local)
    module = ENGINES.get(type(request.engine).__module__.partition(".")[0])
    if module is None:
        raise TypeError(
            f"got engine={one_line(request.engine)}, expected None for threads, a Client of Dask or a "
            "SparkSession"
        )
    known = list(pieces)
    if not known:
        raise ValueError("got no shards, expected at least one: is the list or the folder empty?")
    shards: BatchShards[X] = importlib.import_module(module).place_pieces(known, request)
    return shards


def is_source(data: object) -> bool:
    """Return whether `fit` of a face reads this data in shards."""
    return find_module(data) is not None


def open_shards(data: Any, request: Request) -> BatchShards[Batch]:
    """Open data in shards, even a memory map that faces would read as a whole.

    Raise TypeError if no module opens data of this type.
    """
    module = find_module(data) if request.engine != "sql" else "tamis.engines.sql"
    if module is None and isinstance(data, np.memmap):
        module = _MEMORY_MAPS
    if module is None:
        raise TypeError(
            f"got data of type {type(data).__name__}, expected a path, a dataset, a memory map or batches: "
            "see tamis.engines"
        )
    shards: BatchShards[Batch] = importlib.import_module(module).open_shards(data, request)
    return shards
