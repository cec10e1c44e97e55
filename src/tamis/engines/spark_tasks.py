"""What Spark's tasks do: read the rows of a partition, change them, observe them, and keep them in a file.

A task returns rows, one per shard, with the number of the shard and the bytes of its statistic (`messages`),
or with the problem that it met. Rows of kept shards also name the file, or hold what is kept if there is no
file. Only tasks of the same application read these.
"""

import contextlib
import gc
import pickle
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import add, itemgetter
from pathlib import Path
from typing import Any

from tamis import threads
from tamis.engines import messages, spark_files
from tamis.engines.batches import Batch, Piece
from tamis.engines.parts import Part
from tamis.engines.spark_columns import ReadRows
from tamis.extras import import_package

USER = "a Spark data frame"
PARTS = "shard int, shards array<int>, statistic binary, problem string, folders array<string>, size bigint"
KEPT = f"{PARTS}, path string, content binary, buffers array<binary>, failure string"

Row = Mapping[str, Any]

_PIECE = 1 << 26  # bytes of rows that a task reads before it observes them
_MOST_PIECES = 1 << 24  # of a partition: batches are numbered in the order of partitions and pieces
_FIRST_FILES = 32  # open files of a task's process among which its socket to Java is


_frozen = {"modules": 0}  # how many were loaded in this process when objects were last frozen


class LostError(Exception):
    """A task ran where the file of its shard is not."""


_LOST = "LostError: "
_PROBLEMS: dict[str, type[Exception]] = {
    "TypeError": TypeError,
    "ValueError": ValueError,
    "LostError": LostError,
}


# ── reading ──


@dataclass(frozen=True, slots=True)
class ReadTable:
    """Rows of a partition → batches of some size."""

    read: ReadRows

    def __call__(self, batches: Iterable[Any]) -> Iterator[Batch]:
        first = _find_shard() * _MOST_PIECES
        for number, table in enumerate(_join_batches(map(self.read.packing.unpack, batches)), first):
            yield replace(self.read(table), number=number)


def _join_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of a few thousand rows, as Spark sends them → tables of `_PIECE` bytes."""
    pa = import_package("pyarrow", USER)
    waiting: list[Any] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _PIECE:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


@dataclass(frozen=True, slots=True)
class LoadPieces:
    """Rows with the numbers of pieces → these pieces, read."""

    pieces: tuple[Piece[Any], ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self.pieces[number].load()


def _find_shard() -> int:
    context = import_package("pyspark", USER).TaskContext.get()
    return int(context.partitionId())


def _spare_packages() -> None:
    """Exempt the packages that are loaded from garbage collection.

    Spark collects garbage in a worker's process between any two of its tasks, and visits all objects of all
    packages, which takes 40 ms: more than the rest of a short task. Garbage in a cycle that is frozen stays
    for ever; so objects are frozen only if packages were loaded since.
    """
    if len(sys.modules) != _frozen["modules"]:
        _frozen["modules"] = len(sys.modules)
        gc.freeze()


def _receive_rows(rows: Iterator[Any]) -> Iterator[Any]:
    """The same rows, without waiting: each part that Java sends is acknowledged at once.

    Java sends rows and their end in small parts, and each waits until the last one is acknowledged, which
    Linux delays by 40 ms: as long as the rest of a short task takes.
    """
    sockets = _list_sockets() if hasattr(socket, "TCP_QUICKACK") else []
    try:
        while True:
            for each in sockets:
                with contextlib.suppress(OSError):  # a socket of another kind, which never waits
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # until some more arrives
            row = next(rows, None)
            if row is None:
                return
            yield row
    finally:
        for each in sockets:
            each.detach()  # they are Spark's, and stay open


def _list_sockets() -> list[socket.socket]:
    """The sockets of this process among the first files that it opened: one leads to Java."""
    sockets = []
    for number in range(_FIRST_FILES):
        with contextlib.suppress(OSError):
            sockets.append(socket.socket(fileno=number))
    return sockets


def _drain(rows: Iterable[Any]) -> None:
    """Read rows that are not needed: Spark ends a Python process that leaves some, and starts another."""
    for _ in rows:
        pass


# ── observing ──


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is done to the rows of each partition."""

    read: Callable[[Iterable[Any]], Iterator[Any]]
    changes: tuple[Callable[[Any], Any], ...]
    observe: Callable[[Any], Any]

    def make_pieces(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Read rows and change them; pieces of which a change makes None have no rows."""
        for piece in self.read(batches):
            changed = change_piece(piece, self.changes)
            if changed is not None:
                yield changed


def change_piece(content: Any, changes: Sequence[Callable[[Any], Any]]) -> Any:
    """Make all changes; None as soon as one of them makes None, of a shard without rows."""
    for change in changes:
        if content is None:
            return None
        content = change(content)
    return content


def observe_rows(receive_task: Callable[[], Task], batches: Iterator[Any]) -> Iterator[Any]:
    """The rows of a partition → one row with its number and its statistic."""
    shard, task = _find_shard(), receive_task()
    _spare_packages()
    batches = _receive_rows(batches)
    with threads.use_one_thread():
        sums = _Sums(task.observe, shard)
        try:
            for piece in task.make_pieces(batches):
                sums.add(piece)
                if sums.problem is not None:
                    break
        except (TypeError, ValueError) as error:
            sums.problem = _describe(error, shard)
    _drain(batches)
    yield _make_batch(PARTS, sums.make_row())


def observe_and_keep(task: Task, name: str | None, batches: Iterator[Any]) -> Iterator[Any]:
    """The same, and the changed pieces are kept in a file that the row names.

    Where there is no file (no name, no local directory, a full disk), pieces are rows themselves.
    """
    shard = _find_shard()
    _spare_packages()
    batches = _receive_rows(batches)
    file, failure = _open_kept(name, shard), None
    with threads.use_one_thread():
        sums = _Sums(task.observe, shard)
        try:
            for piece in task.make_pieces(batches):
                parts = _pickle(piece)
                try:
                    if file is not None:
                        file.write(parts)
                except OSError:  # a full disk: Spark's own cache may have another one, or memory
                    for before in () if file is None else file.abandon():
                        yield _make_batch(KEPT, _make_content(shard, before))
                    file = None
                if file is None:
                    yield _make_batch(KEPT, _make_content(shard, parts))
                sums.add(piece)
        except (TypeError, ValueError) as error:
            if file is not None:
                file.abandon()
            file, sums.problem = None, _describe(error, shard)
            failure = sums.problem
        except LostError:
            if file is not None:
                file.abandon()
            file, sums.problem = None, _LOST
    _drain(batches)
    row = sums.make_row() | {"failure": failure}
    if file is not None:
        size = file.finish()
        row |= {"path": str(file.path), "folders": [str(file.path.parent)], "size": size}
    yield _make_batch(KEPT, row)


class _Sums:
    """The statistic of the pieces of a shard, until one of them has a problem."""

    def __init__(self, observe: Callable[[Any], Any], shard: int) -> None:
        self.observe, self.shard = observe, shard
        self.statistic: Any = None
        self.problem: str | None = None

    def add(self, piece: Any) -> None:
        """Observe a piece."""
        if self.problem is not None:
            return
        try:
            part = self.observe(piece)
        except (TypeError, ValueError) as error:
            self.problem = _describe(error, self.shard)
            return
        if part is not None:
            self.statistic = part if self.statistic is None else self.statistic + part

    def make_row(self) -> dict[str, Any]:
        """The row that the task returns."""
        statistic = None if self.problem is not None else self.statistic
        return make_part_row(self.shard, Part(frozenset((self.shard,)), statistic), self.problem)


def _describe(error: TypeError | ValueError, shard: int) -> str:
    """The kind and the text of an error, with the number of the partition; other kinds are raised."""
    if isinstance(error, _KeptError):
        return str(error)
    if type(error) not in (TypeError, ValueError):
        raise error
    return f"{type(error).__name__}: partition {shard}: {error}"


def make_part_row(shard: int, part: Part[Any], problem: str | None = None) -> dict[str, Any]:
    """The columns `PARTS` of a row."""
    statistic = None if part.statistic is None else messages.encode(part.statistic)
    return {
        "shard": shard,
        "shards": sorted(part.shards),
        "statistic": statistic,
        "problem": problem,
        "folders": [],
        "size": 0,
    }


def _make_content(shard: int, parts: list[Any]) -> dict[str, Any]:
    """A row that holds a piece itself."""
    content, *buffers = (bytes(memoryview(part)) for part in parts)
    row = make_part_row(shard, Part(frozenset(), None))
    return row | {"content": content, "buffers": buffers}


def _make_batch(columns: str, row: Row) -> Any:
    """One row as a batch of Arrow that has these columns."""
    pa = import_package("pyarrow", USER)
    kinds = {
        "int": pa.int32(),
        "bigint": pa.int64(),
        "array<int>": pa.list_(pa.int32()),
        "binary": pa.binary(),
        "array<binary>": pa.list_(pa.binary()),
        "array<string>": pa.list_(pa.string()),
        "string": pa.string(),
    }
    fields = dict(column.split() for column in columns.split(", "))
    return pa.record_batch(
        [pa.array([row.get(name)], kinds[kind]) for name, kind in fields.items()], names=list(fields)
    )


# ── kept shards ──


def _open_kept(name: str | None, shard: int) -> spark_files.KeptWriter | None:
    try:
        return None if name is None else spark_files.KeptWriter(name, shard)
    except OSError:
        return None


def _pickle(content: Any) -> list[Any]:
    """The pickle of a value, and the buffers of its arrays."""
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    return [stream, *(buffer.raw() for buffer in buffers)]


def observe_kept(observe: Callable[[Any], Any], rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Rows that `observe_and_keep` made, of one or several shards → one row per shard with its statistic."""
    _spare_packages()
    received = _receive_rows(iter(rows))
    for shard, own in groupby(received, key=itemgetter("shard")):
        with threads.use_one_thread():
            sums = _Sums(observe, shard)
            try:
                for piece in _read_kept(own):
                    sums.add(piece)
            except (TypeError, ValueError) as error:
                sums.problem = _describe(error, shard)
            except LostError:
                sums.problem = _LOST
        yield sums.make_row()


def observe_kept_batches(
    receive_observe: Callable[[], Callable[[Any], Any]], batches: Iterator[Any]
) -> Iterator[Any]:
    """The same for rows that come as batches of Arrow."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for row in observe_kept(receive_observe(), rows):
        yield _make_batch(PARTS, row)


def read_kept_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Pieces of kept shards, whose rows come as batches of Arrow."""
    return _read_kept(row for batch in batches for row in batch.to_pylist())


def _read_kept(rows: Iterable[Row]) -> Iterator[Any]:
    """Pieces that rows hold, or name the file of; a failure to make them is raised again."""
    for row in rows:
        if row["failure"] is not None:
            raise _KeptError(row["failure"])
        if row["content"] is not None:
            yield pickle.loads(row["content"], buffers=row["buffers"])
        elif row["path"] is not None:
            path = Path(row["path"])
            if not path.exists():
                raise LostError
            yield from spark_files.read_kept(path)


class _KeptError(ValueError):
    """A failure of an earlier task, with the partition that it met it in."""


def remove_kept(name: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Remove the files of this name where a task runs."""
    _drain(batches)
    for folder in spark_files.list_folders(name):
        spark_files.remove_kept(folder)
    yield from ()


# ── adding ──


def add_rows(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Rows of statistics → one row with their sum, which does not depend on the order in which they come."""
    found = list(_receive_rows(iter(rows)))
    problems = [row for row in found if row["problem"] is not None]
    if problems:
        first = min(problems, key=lambda row: row["shards"])
        made = make_part_row(0, Part(frozenset(first["shards"]), None), first["problem"])
    else:
        made = make_part_row(0, _add_parts(found))
    folders = sorted({folder for row in found for folder in row["folders"]})
    yield made | {"folders": folders, "size": sum(row["size"] for row in found)}


def add_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """The same for rows that come as batches of Arrow."""
    for row in add_rows(row for batch in batches for row in batch.to_pylist()):
        yield _make_batch(PARTS, row)


def read_parts(rows: Sequence[Row]) -> Part[Any]:
    """The sum of all rows; raise the problem of the first shard that has one."""
    for row in sorted(rows, key=lambda row: row["shards"]):
        if row["problem"] is not None:
            kind, _, text = row["problem"].partition(": ")
            raise _PROBLEMS[kind](text)
    return _add_parts(rows)


def _add_parts(rows: Iterable[Row]) -> Part[Any]:
    return reduce(add, map(_read_part, sorted(rows, key=lambda row: row["shards"])), Part(frozenset(), None))


def _read_part(row: Row) -> Part[Any]:
    content = row["statistic"]
    return Part(frozenset(row["shards"]), None if content is None else messages.decode(content))
