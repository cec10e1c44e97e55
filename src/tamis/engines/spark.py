"""Spark data frames → shards that are observed in Spark's tasks.

In Spark's terms, the driver is the process that plans queries, executors are the processes that run their
tasks, and a task works on one partition of the rows. In a classic session, the driver belongs to this Python
process; with Spark Connect, it is a server, to which this process sends queries.

A shard is a partition. A task (`spark_tasks`) observes its partition and returns one row: the number of the
partition and the bytes of its statistic. If there are many of these rows, further tasks add them in groups,
and the driver adds the sums. Spark repeats tasks that fail or are slow; by their numbers, each partition is
counted once (`parts`). After `keep`, the task that first observes a shard also writes it to a file of its
executor (`spark_files`), or puts it into Spark's cache if it cannot write one. Spark caches the paths of
these files, prefers to run later tasks on the executors that have them, and makes a shard again from its
source if its executor is lost.

A chunk is what a task holds in memory at once: about 64 MB of the rows of a partition, or one piece. Queries
call the functions of `spark_tasks` by `mapInArrow`, with an iterator over the record batches of a partition.

A classic session runs the later passes as jobs of RDDs (resilient distributed datasets, Spark's older
interface), which start in half the time of queries. Spark Connect has queries only.
"""

import contextlib
import pickle
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from tamis.engines import spark_files, spark_tasks
from tamis.engines.batches import Batch, Piece
from tamis.engines.opening import Request
from tamis.engines.parts import Part, require_all_shards
from tamis.engines.spark_columns import read_head, select_columns
from tamis.engines.spark_tasks import (
    KEPT_COLUMNS,  # the columns of rows of `observe_and_keep`: PART_COLUMNS, and a shard's path or content
    PART_COLUMNS,  # those of rows of other tasks: a statistic, and the numbers of the shards that it sums
    SPARK_FRAME,  # "a Spark data frame", for errors of `import_package` about a missing package
    LoadPieces,
    LostFileError,  # raised if a task does not find the file of a kept shard
    ReadTable,
    Task,
    TaskRow,  # one of these rows: values by the names of columns
)
from tamis.extras import import_package
from tamis.protocols import Statistic

X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound=Statistic)

_FIRST_ROWS = 10_000  # rows that this process reads to find the columns and their types
_MAX_UNGROUPED = 32  # if there are more partitions, tasks add their statistics in groups
_MAX_GROUPS = 8  # the largest number of these groups, if the number of partitions is not known
_TASK_BYTES = 1 << 28  # bytes of kept shards that one task reads, about, or fewer so that no core is idle


def open_shards(data: Any, request: Request) -> "SparkShards[Batch]":
    """Open a data frame of Spark, or one of its pandas interface."""
    import_package("pyarrow", SPARK_FRAME)
    # `hasattr` tests the type, because a frame of Spark Connect has a column of any name that is asked for.
    frame = data.to_spark() if hasattr(type(data), "to_spark") else data
    with explain_failures():
        frame, read = select_columns(frame, request)
    return SparkShards(_Source(frame, ReadTable(read)), partial(read_head, frame, read, _FIRST_ROWS))


def place_pieces(pieces: Sequence[Piece[X]], request: Request) -> "SparkShards[X]":
    """Make shards of pieces, each of which a task reads; all executors must see the files."""
    with explain_failures():
        session = request.engine  # a SparkSession
        frame = session.range(0, len(pieces), 1, len(pieces))
    return SparkShards(_Source(frame, LoadPieces(tuple(pieces)), len(pieces)), pieces[0].load)


@dataclass(slots=True, eq=False)
class _Source:
    """A data frame, how a task reads its rows, and the number of its partitions, if it is known."""

    frame: Any
    read: Callable[[Iterable[Any]], Iterator[Any]]
    count: int | None = None

    def total(self, transforms: tuple[Callable[[Any], Any], ...], observe: Callable[[Any], Any]) -> Any:
        """Transform and observe every partition, and add the statistics."""
        with explain_failures(), _broadcast(self.frame, Task(self.read, transforms, observe)) as receive_task:
            parts = self.frame.mapInArrow(partial(spark_tasks.observe_rows, receive_task), PART_COLUMNS)
            rows, self.count = _collect(parts, self.count)
        return self.sum_rows(rows)

    def sum_rows(self, rows: list[TaskRow]) -> Any:
        """Add the statistics of rows that tasks returned; raise unless all partitions are among them."""
        part: Part[Any] = spark_tasks.read_parts(rows)
        # If the number of partitions was not known, it follows from the largest of their numbers.
        self.count = self.count or max(part.shards, default=-1) + 1
        return require_all_shards(part, self.count)


@dataclass(slots=True, eq=False, weakref_slot=True)
class _KeptSource:
    """Shards that the executors keep once they were observed."""

    origin: _Source  # from which the shards can be made again
    kept_transforms: tuple[Callable[[Any], Any], ...]  # applied to rows of the origin before they are kept
    # The kept shards from which these are made by further transforms; None if these are made from the origin.
    parent: "_KeptSource | None" = None
    # The name of the folders of the files; None if the shards are kept in Spark's cache instead.
    name: str | None = field(default_factory=spark_files.name_kept)
    frame: Any = None  # the rows of `observe_and_keep`; None until the shards are observed
    rows: Any = None  # the same rows as an RDD, if the session is a classic one
    folders: set[str] = field(default_factory=set)  # the folders in which executors keep the shards

    @property
    def count(self) -> int | None:
        """The number of shards, if it is known."""
        return self.origin.count

    def total(self, transforms: tuple[Callable[[Any], Any], ...], observe: Callable[[Any], Any]) -> Any:
        """Observe every shard, and add the statistics.

        If files are lost, read the shards from the origin again, and keep them in Spark's cache.
        """
        observe = _TransformAndObserve(transforms, observe) if transforms else observe
        try:
            return self._total(observe)
        except LostFileError:
            self.name = self.frame = self.rows = self.parent = None
            return self._total(observe)

    def _total(self, observe: Callable[[Any], Any]) -> Any:
        with explain_failures():
            rows = self._observe_first(observe) if self.frame is None else self._observe_again(observe)
        return self.origin.sum_rows(rows)

    def _observe_first(self, observe: Callable[[Any], Any]) -> list[TaskRow]:
        origin, parent = self.origin, self.parent
        frame, read, transforms = origin.frame, origin.read, self.kept_transforms
        if parent is not None and parent.frame is not None:
            frame, read = parent.frame, spark_tasks.read_kept_batches
            transforms = transforms[len(parent.kept_transforms) :]
        # The task is part of Spark's plan, and not broadcast, because Spark may need it to make lost shards.
        keep = partial(spark_tasks.observe_and_keep, Task(read, transforms, observe), self.name)
        self.frame = frame.mapInArrow(keep, KEPT_COLUMNS).persist()
        # When Python exits, nothing need be released: each executor removes its files when it ends.
        weakref.finalize(self, _release, self.frame, self.name, self.folders).atexit = False
        columns = [column.split()[0] for column in PART_COLUMNS.split(", ")]
        rows, origin.count = _collect(self.frame.select(*columns), origin.count)
        self.folders.update(*(row["folders"] for row in rows))
        if not _is_connect(self.frame):
            self.rows = _group_rows(self.frame, sum(row["size"] for row in rows))
        return rows

    def _observe_again(self, observe: Callable[[Any], Any]) -> list[TaskRow]:
        if self.rows is not None:
            parts = self.rows.mapPartitions(partial(spark_tasks.observe_kept, observe))
            return _collect_sums(parts, self.count or 0)
        with _broadcast(self.frame, observe) as receive_observe:
            parts = self.frame.mapInArrow(
                partial(spark_tasks.observe_kept_batches, receive_observe), PART_COLUMNS
            )
            return _collect(parts, self.count)[0]


@dataclass(frozen=True, slots=True, eq=False)
class _TransformAndObserve:
    """A function that applies transforms to a chunk of a kept shard, and observes the result."""

    transforms: tuple[Callable[[Any], Any], ...]
    observe: Callable[[Any], Any]

    def __call__(self, chunk: Any) -> Any:
        transformed = spark_tasks.transform_chunk(chunk, self.transforms)
        return None if transformed is None else self.observe(transformed)


@dataclass(frozen=True, slots=True, eq=False)
class SparkShards(Generic[X]):
    """The partitions of a data frame."""

    source: _Source | _KeptSource
    # Returns what a task would read, with all columns of the source, and none, some or all of its rows.
    read_head: Callable[[], Any]
    # Functions that are applied to each chunk of the source, one after the other.
    transforms: tuple[Callable[[Any], Any], ...] = ()

    def total(self, observe: Callable[[X], S | None], /) -> S:
        """Observe every partition, and add the statistics."""
        sums: S = self.source.total(self.transforms, observe)
        return sums

    def map(self, transform: Callable[[X], Y | None], /) -> "SparkShards[Y]":
        """Return shards to which tasks apply `transform` whenever they read them."""
        return SparkShards(self.source, self.read_head, (*self.transforms, transform))

    def keep(self) -> "SparkShards[X]":
        """Return the shards; once they are transformed and observed, the executors keep them."""
        source = self.source
        if isinstance(source, _Source):
            kept = _KeptSource(source, self.transforms)
        else:
            kept = _KeptSource(source.origin, (*source.kept_transforms, *self.transforms), source)
        return SparkShards(kept, self._read_first)

    def read_first(self) -> X:
        """Return a batch with the columns of all shards, and none, some or all of the rows of the first.

        None if a transform returns None, which stands for no rows.
        """
        with explain_failures():
            first: X = self._read_first()
        return first

    def _read_first(self) -> Any:
        return spark_tasks.transform_chunk(self.read_head(), self.transforms)


# ── jobs ──


def _is_connect(frame: Any) -> bool:
    return ".connect." in type(frame).__module__


def _group_rows(frame: Any, size: int) -> Any:
    """Return the rows of kept shards as an RDD with one partition per core.

    If that were more than `_TASK_BYTES` per partition, there are more partitions; there are never more than
    those of the frame. `size` is the length of all files in bytes. The columns are those of `KEPT_COLUMNS` in
    `spark_tasks`; `buffers` are those of the arrays of a pickled chunk.
    """
    rows = frame.select("shard", "path", "content", "buffers", "failure").rdd
    tasks = max(rows.context.defaultParallelism, ceil(size / _TASK_BYTES))
    # `coalesce` joins partitions, where they are, until there are so many.
    return rows.coalesce(tasks) if tasks < rows.getNumPartitions() else rows


def _collect(parts: Any, count: int | None) -> tuple[list[TaskRow], int | None]:
    """Run the tasks of a frame; return one row per partition, or per group of partitions, and `count`.

    `count` is the number of partitions, or None if it is not known; with Spark Connect, it remains unknown.
    """
    if _is_connect(parts):
        return _add_groups(parts, count).toArrow().to_pylist(), count
    rows = parts.rdd
    count = int(rows.getNumPartitions())
    return _collect_sums(rows, count), count


def _collect_sums(rows: Any, count: int) -> list[TaskRow]:
    """Return the rows of `count` partitions; if there are many, add them in groups, and return the sums."""
    if count > _MAX_UNGROUPED:
        groups = ceil(count**0.5)
        # `partitionBy` moves a row to the partition that its key, here the number of the shard, determines.
        rows = rows.keyBy(itemgetter("shard")).partitionBy(groups).values()
        rows = rows.mapPartitions(spark_tasks.add_rows)
    collected: list[TaskRow] = rows.collect()
    return collected


def _add_groups(parts: Any, count: int | None) -> Any:
    """Add the rows of a frame in groups, as `_collect_sums` does, but return a frame.

    If the number of partitions is not known, their rows are added in groups, too; Spark may then join groups
    that have few bytes.
    """
    if count is None:
        grouped = parts.repartition(parts["shard"] % _MAX_GROUPS)
    elif count <= _MAX_UNGROUPED:
        return parts
    else:
        groups = ceil(count**0.5)
        grouped = parts.repartition(groups, parts["shard"] % groups)
    return grouped.mapInArrow(spark_tasks.add_batches, PART_COLUMNS)


@contextlib.contextmanager
def _broadcast(frame: Any, value: Any) -> Iterator[Callable[[], Any]]:
    """Send a value to each executor once; yield a function that a task calls to receive it.

    Spark Connect cannot do this. There the value is part of the function, which is sent with each task.
    """
    content = import_package("pyspark.cloudpickle", SPARK_FRAME).dumps(value)
    if _is_connect(frame):
        yield partial(pickle.loads, content)
        return
    sent = frame.sparkSession.sparkContext.broadcast(content)
    try:
        yield partial(_receive, sent)
    finally:
        with contextlib.suppress(Exception):  # the session may have been stopped meanwhile
            sent.destroy()


def _receive(sent: Any) -> Any:
    return pickle.loads(sent.value)


def _release(kept: Any, name: str | None, folders: Iterable[str]) -> None:
    """Free the shards of the frame `kept` and remove their files; tasks do so on other machines."""
    paths = [Path(folder) for folder in folders]
    with contextlib.suppress(Exception):  # the session may have been stopped meanwhile
        if name is not None and not all(path.parent.exists() for path in paths):
            kept.mapInArrow(partial(spark_tasks.remove_kept, name), PART_COLUMNS).toArrow()
        kept.unpersist()
    for path in paths:
        spark_files.remove_kept(path)


# ── errors ──


@contextlib.contextmanager
def explain_failures(outcome: str = "nothing was learned") -> Iterator[None]:
    """Turn errors of Spark, whose text is a long stack trace of Java, into a RuntimeError of one line.

    `outcome` is the part of its message that says what the failure means for the caller.
    """
    try:
        yield
    except Exception as problem:
        if not _is_spark_error(problem):
            raise
        text = str(problem)
        # The connection from Python to Java, an attribute of the session, is None once it was stopped.
        if isinstance(problem, AttributeError) and "'NoneType'" in text:
            text = "the session was stopped, expected a running one: make the data frame again"
        raise RuntimeError(f"Spark did not finish the work, {outcome}: {_find_cause(text)}") from None


_SPARK_PACKAGES = ("grpc", "py4j", "pyspark")  # grpc connects Python to Spark Connect, py4j to Java
_TRACEBACK = "Traceback (most recent call last):"
# Python prints one of these between the tracebacks of two exceptions, of which the first led to the second.
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")


def _is_spark_error(problem: Exception) -> bool:
    """Return whether an error has a type of Spark's packages, or was raised in their code."""
    innermost = problem.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    raiser = "" if innermost is None else innermost.tb_frame.f_globals.get("__name__", "")
    return any(name.partition(".")[0] in _SPARK_PACKAGES for name in (type(problem).__module__, raiser))


def _find_cause(text: str) -> str:
    """Return one line of an error's text: the exception at the end of the first Python traceback in it.

    If tracebacks are chained, it is the last exception of the chain; if there is no traceback, it is the
    first line of the text.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cause = lines[0] if lines else "no reason given"
    for traceback in text.split(_TRACEBACK)[1:]:
        # Lines that name files and show code are indented.
        cause = next((line for line in traceback.splitlines() if line[:1].strip()), cause)
        if not any(phrase in traceback for phrase in _CHAINED):
            break
    return cause[:300]
