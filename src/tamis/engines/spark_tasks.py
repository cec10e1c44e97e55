"""Functions that Spark's tasks run: read the rows of a partition, transform, observe and keep them in a file.

A shard is a partition. A task reads it in chunks of about 64 MB, each of which `transform_chunk` transforms.
It returns one row per shard, with the number of the shard and the bytes of its statistic (`messages`), or
with the error that it met. If the shard is kept, the row also has the path of its file; without a file, there
is a further row with the content of each chunk. Only tasks of the same Spark application read the files.
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

SPARK_FRAME = "a Spark data frame"  # what needs a package, in the error of `import_package` if it is missing

# Columns of the rows that tasks return, as a schema of Spark: `statistic` is the sum of the statistics of the
# partitions with the numbers `shards`; `shard` is the number of the partition, by which rows are divided
# among the tasks that add them (0 in a sum of rows); `problem` is the type and text of the first error (null
# if there was none); `folders` have the files of kept shards, and `size` is the number of bytes of the files.
PART_COLUMNS = (
    "shard int, shards array<int>, statistic binary, problem string, folders array<string>, size bigint"
)
# The rows of kept shards also have the path of the file or, without a file, the pickle of one chunk with its
# buffers. `failure` is an error that was raised while the chunks were made. Each later task raises it again,
# whereas an error of `observe` is only a `problem` of the task itself.
KEPT_COLUMNS = f"{PART_COLUMNS}, path string, content binary, buffers array<binary>, failure string"

TaskRow = Mapping[str, Any]  # a row that a task returns: the values of these columns by name

_CHUNK_BYTES = 1 << 26  # bytes of rows that a task reads before it observes them
_MAX_CHUNKS = 1 << 24  # per partition; chunk c of partition p becomes the batch of number p * _MAX_CHUNKS + c
_MAX_DESCRIPTOR = 32  # the socket to Java is searched among the file descriptors below this one

_frozen = {"modules": 0}  # the number of modules that were loaded when `gc.freeze` was last called


class LostFileError(Exception):
    """The file of a kept shard does not exist where the task runs."""


# The types of errors in a `problem`.
_ERROR_TYPES: dict[str, type[Exception]] = {
    each.__name__: each for each in (TypeError, ValueError, LostFileError)
}


# ── reading ──


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A function that reads the rows of a partition as batches, one per chunk."""

    read: ReadRows

    def __call__(self, batches: Iterable[Any]) -> Iterator[Batch]:
        first = _find_shard() * _MAX_CHUNKS
        # Spark sends several columns of one type as one column of arrays; `unpack` makes them columns again.
        for number, table in enumerate(_join_batches(map(self.read.packing.unpack, batches)), first):
            yield replace(self.read(table), number=number)


def _join_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Join batches of a few thousand rows, as Spark sends them, to tables of about `_CHUNK_BYTES` bytes."""
    pa = import_package("pyarrow", SPARK_FRAME)
    joined: list[Any] = []
    size = 0
    for batch in batches:
        joined.append(batch)
        size += batch.nbytes
        if size >= _CHUNK_BYTES:
            yield pa.Table.from_batches(joined)
            joined, size = [], 0
    if joined:
        yield pa.Table.from_batches(joined)


@dataclass(frozen=True, slots=True)
class LoadPieces:
    """A function that loads the pieces whose numbers are in the rows of a partition, each as one chunk."""

    pieces: tuple[Piece[Any], ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self.pieces[number].load()


def _find_shard() -> int:
    """Return the number of the partition that this task reads."""
    context = import_package("pyspark", SPARK_FRAME).TaskContext.get()
    return int(context.partitionId())


def _freeze_modules() -> None:
    """Exempt all existing objects, most of which belong to modules, from garbage collection.

    Spark collects garbage in a worker's process between any two of its tasks. To visit all objects of all
    modules takes 40 ms: more than the rest of a short task. But `gc.freeze` also keeps unreachable objects in
    memory for ever. So it is called only if modules were loaded since the last call.
    """
    if len(sys.modules) != _frozen["modules"]:
        _frozen["modules"] = len(sys.modules)
        gc.freeze()


def _receive_rows(rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the same rows, but make Linux acknowledge at once each packet that Java sends.

    Java sends rows and their end in small packets, and each waits until the one before it is acknowledged,
    which Linux delays by 40 ms: as long as the rest of a short task takes.
    """
    sockets = _list_sockets() if hasattr(socket, "TCP_QUICKACK") else []
    try:
        while True:
            for each in sockets:
                with contextlib.suppress(OSError):  # it may be no TCP socket, and has no delay then
                    # Linux may reset this option at any time, so it is set before each row.
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            row = next(rows, None)
            if row is None:
                return
            yield row
    finally:
        for each in sockets:
            each.detach()  # so that the socket, which belongs to Spark, is not closed


def _list_sockets() -> list[socket.socket]:
    """Return the sockets among the lowest file descriptors of this process; one is connected to Java."""
    sockets = []
    for number in range(_MAX_DESCRIPTOR):
        with contextlib.suppress(OSError):
            sockets.append(socket.socket(fileno=number))
    return sockets


def _drain(rows: Iterable[Any]) -> None:
    """Read rows that are not needed, because Spark restarts a Python process that leaves rows unread."""
    for _ in rows:
        pass


# ── observing ──


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """How a task reads, transforms and observes the rows of a partition."""

    read: Callable[[Iterable[Any]], Iterator[Any]]  # Arrow batches of a partition → chunks
    transforms: tuple[Callable[[Any], Any], ...]
    observe: Callable[[Any], Any]  # a transformed chunk → its statistic; None if it has no rows

    def make_chunks(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Read rows and transform them; yield the chunks that have rows."""
        for chunk in self.read(batches):
            transformed = transform_chunk(chunk, self.transforms)
            if transformed is not None:
                yield transformed


def transform_chunk(chunk: Any, transforms: Sequence[Callable[[Any], Any]]) -> Any:
    """Apply the transforms, one after the other; return None as soon as one returns None, for no rows."""
    for transform in transforms:
        if chunk is None:
            return None
        chunk = transform(chunk)
    return chunk


def observe_rows(receive_task: Callable[[], Task], batches: Iterator[Any]) -> Iterator[Any]:
    """Observe the rows of a partition; yield one row with its number and its statistic."""
    shard, task = _find_shard(), receive_task()
    _freeze_modules()
    batches = _receive_rows(batches)
    with threads.use_one_thread():
        sums = _ShardSum(task.observe, shard)
        try:
            for chunk in task.make_chunks(batches):
                sums.add(chunk)
                if sums.problem is not None:
                    break
        except (TypeError, ValueError) as error:
            sums.problem = _describe(error, shard)
    _drain(batches)
    yield _make_batch(PART_COLUMNS, sums.make_row())


def observe_and_keep(task: Task, name: str | None, batches: Iterator[Any]) -> Iterator[Any]:
    """Observe the rows of a partition, and keep the transformed chunks in a file; the row has its path.

    If there is no file (because of no name, no local directory or a full disk), a row for each chunk holds
    the chunk.
    """
    shard = _find_shard()
    _freeze_modules()
    batches = _receive_rows(batches)
    file, failure = _open_kept(name, shard), None
    with threads.use_one_thread():
        sums = _ShardSum(task.observe, shard)
        try:
            for chunk in task.make_chunks(batches):
                parts = _pickle(chunk)
                try:
                    if file is not None:
                        file.write(parts)
                except OSError:  # a full disk: Spark's own cache may use another disk, or memory
                    for written in () if file is None else file.abandon():
                        yield _make_batch(KEPT_COLUMNS, _make_content_row(shard, written))
                    file = None
                if file is None:
                    yield _make_batch(KEPT_COLUMNS, _make_content_row(shard, parts))
                sums.add(chunk)
        except (TypeError, ValueError, LostFileError) as error:
            if file is not None:
                file.abandon()
            file, sums.problem = None, _describe(error, shard)
            failure = None if isinstance(error, LostFileError) else sums.problem
    _drain(batches)
    row = sums.make_row() | {"failure": failure}
    if file is not None:
        size = file.finish()
        row |= {"path": str(file.path), "folders": [str(file.path.parent)], "size": size}
    yield _make_batch(KEPT_COLUMNS, row)


class _ShardSum:
    """The sum of the statistics of a shard's chunks, or the first error."""

    def __init__(self, observe: Callable[[Any], Any], shard: int) -> None:
        self.observe, self.shard = observe, shard
        self.statistic: Any = None
        self.problem: str | None = None

    def add(self, chunk: Any) -> None:
        """Observe a chunk; after an error, do nothing."""
        if self.problem is not None:
            return
        try:
            part = self.observe(chunk)
        except (TypeError, ValueError) as error:
            self.problem = _describe(error, self.shard)
            return
        if part is not None:
            self.statistic = part if self.statistic is None else self.statistic + part

    def make_row(self) -> dict[str, Any]:
        """Return the row of the task, with the columns `PART_COLUMNS`."""
        statistic = None if self.problem is not None else self.statistic
        return make_part_row(self.shard, Part(frozenset((self.shard,)), statistic), self.problem)


def _describe(error: TypeError | ValueError | LostFileError, shard: int) -> str:
    """Return type, partition and text of an error; if it is of a subclass of these types, raise it again."""
    if isinstance(error, _KeptError):
        return str(error)
    if isinstance(error, LostFileError):
        return "LostFileError: "
    if type(error) not in (TypeError, ValueError):
        raise error
    return f"{type(error).__name__}: partition {shard}: {error}"


def make_part_row(shard: int, part: Part[Any], problem: str | None = None) -> dict[str, Any]:
    """Make a row with the columns `PART_COLUMNS`; `shard` decides which task adds it to others."""
    statistic = None if part.statistic is None else messages.encode(part.statistic)
    return {
        "shard": shard,
        "shards": sorted(part.shards),
        "statistic": statistic,
        "problem": problem,
        "folders": [],
        "size": 0,
    }


def _make_content_row(shard: int, parts: list[Any]) -> dict[str, Any]:
    """Make a row that holds a chunk: its pickle and buffers, as `_pickle` returns them."""
    content, *buffers = (bytes(memoryview(part)) for part in parts)
    row = make_part_row(shard, Part(frozenset(), None))
    return row | {"content": content, "buffers": buffers}


def _make_batch(columns: str, row: TaskRow) -> Any:
    """Make an Arrow batch of one row with these columns, which are null where the row has no value."""
    pa = import_package("pyarrow", SPARK_FRAME)
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
    """Open the file of a shard; return None without a name, or if no file can be made."""
    try:
        return None if name is None else spark_files.KeptWriter(name, shard)
    except OSError:
        return None


def _pickle(content: Any) -> list[Any]:
    """Return the pickle of a value, followed by the buffers of its arrays."""
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    return [stream, *(buffer.raw() for buffer in buffers)]


def observe_kept(observe: Callable[[Any], Any], rows: Iterable[TaskRow]) -> Iterator[dict[str, Any]]:
    """Observe the shards whose rows `observe_and_keep` returned; yield one row per shard."""
    _freeze_modules()
    received = _receive_rows(iter(rows))
    for shard, own in groupby(received, key=itemgetter("shard")):
        with threads.use_one_thread():
            sums = _ShardSum(observe, shard)
            try:
                for chunk in _read_kept(own):
                    sums.add(chunk)
            except (TypeError, ValueError, LostFileError) as error:
                sums.problem = _describe(error, shard)
        yield sums.make_row()


def observe_kept_batches(
    receive_observe: Callable[[], Callable[[Any], Any]], batches: Iterator[Any]
) -> Iterator[Any]:
    """Call `observe_kept` with rows in Arrow batches, and yield Arrow batches."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for row in observe_kept(receive_observe(), rows):
        yield _make_batch(PART_COLUMNS, row)


def read_kept_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the chunks of kept shards, whose rows are in Arrow batches."""
    return _read_kept(row for batch in batches for row in batch.to_pylist())


def _read_kept(rows: Iterable[TaskRow]) -> Iterator[Any]:
    """Yield the chunks that rows hold, or that are in the file of a row; raise a `failure` again."""
    for row in rows:
        if row["failure"] is not None:
            raise _KeptError(row["failure"])
        if row["content"] is not None:
            yield pickle.loads(row["content"], buffers=row["buffers"])
        elif row["path"] is not None:
            path = Path(row["path"])
            if not path.exists():
                raise LostFileError
            yield from spark_files.read_kept(path)


class _KeptError(ValueError):
    """The `failure` of an earlier task, whose text already names the type of the error and the partition."""


def remove_kept(name: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Remove the files of this name on the executor that runs the task."""
    _drain(batches)
    for folder in spark_files.list_folders(name):
        spark_files.remove_kept(folder)
    yield from ()


# ── adding ──


def add_rows(rows: Iterable[TaskRow]) -> Iterator[dict[str, Any]]:
    """Yield one row with the sum of the statistics of these rows, which does not depend on their order.

    If some have a problem instead of a statistic, the row has the problem of the first shard.
    """
    received = list(_receive_rows(iter(rows)))
    problems = [row for row in received if row["problem"] is not None]
    if problems:
        first = min(problems, key=lambda row: row["shards"])
        total = make_part_row(0, Part(frozenset(first["shards"]), None), first["problem"])
    else:
        total = make_part_row(0, _add_parts(received))
    folders = sorted({folder for row in received for folder in row["folders"]})
    yield total | {"folders": folders, "size": sum(row["size"] for row in received)}


def add_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Call `add_rows` with rows in Arrow batches, and yield Arrow batches."""
    for row in add_rows(row for batch in batches for row in batch.to_pylist()):
        yield _make_batch(PART_COLUMNS, row)


def read_parts(rows: Sequence[TaskRow]) -> Part[Any]:
    """Return the sum of the statistics of all rows; raise the problem of the first shard that has one."""
    for row in sorted(rows, key=lambda row: row["shards"]):
        if row["problem"] is not None:
            kind, _, text = row["problem"].partition(": ")
            raise _ERROR_TYPES[kind](text)
    return _add_parts(rows)


def _add_parts(rows: Iterable[TaskRow]) -> Part[Any]:
    return reduce(add, map(_read_part, sorted(rows, key=lambda row: row["shards"])), Part(frozenset(), None))


def _read_part(row: TaskRow) -> Part[Any]:
    content = row["statistic"]
    return Part(frozenset(row["shards"]), None if content is None else messages.decode(content))
