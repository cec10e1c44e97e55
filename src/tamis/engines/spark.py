"""Spark data frames, classic or of Spark Connect → shards that are observed in Spark's tasks.

A shard is a partition. A task (`spark_tasks`) observes its partition and returns one row: the number of the
partition and the bytes of its statistic. The rows of many partitions are added in a tree. Spark repeats tasks
that fail or are slow; by their numbers, each partition is counted once (`parts`). After `keep`, the task that
first observes a shard also writes it to a file of its executor (`spark_files`), or puts it into Spark's cache
if it cannot write one. Spark caches the paths of these files, prefers to run later tasks on the executors
that have them, and makes a shard again from its source if its executor is lost.

A chunk is what a task holds in memory at once: about 64 MB of the rows of a partition, or one piece.

A classic session runs the later passes as jobs of RDDs, which start in half the time of queries. Spark
Connect has queries only.
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
    KEPT_COLUMNS,  # of the rows of `observe_and_keep`: PART_COLUMNS, and a shard's path or content
    PART_COLUMNS,  # of the rows of other tasks: a statistic, and the numbers of the shards that it sums
    SPARK_FRAME,  # "a Spark data frame", which `import_package` says to need a package
    LoadPieces,
    LostError,  # raised if a task does not find the file of a kept shard
    ReadTable,
    Task,
    TaskRow,  # one of these rows: values by the names of columns
)
from tamis.extras import import_package
from tamis.protocols import Statistic

X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound=Statistic)

_FIRST_ROWS = 10_000  # rows that this process reads to learn the columns and their types
_MAX_WITHOUT_TREE = 32  # partitions whose statistics the driver adds without a tree
_BRANCHES = 8  # of the tree, at most, if the number of partitions is not known
_TASK_BYTES = 1 << 28  # of kept shards that one task reads, about, unless fewer keep all cores busy


def open_shards(data: Any, request: Request) -> "SparkShards[Batch]":
    """Open a data frame of Spark, or one of its pandas interface."""
    import_package("pyarrow", SPARK_FRAME)
    # The type is asked, because a frame of Spark Connect takes any attribute for a column.
    frame = data.to_spark() if hasattr(type(data), "to_spark") else data
    with explain_failures():
        frame, read = select_columns(frame, request)
    return SparkShards(_Source(frame, ReadTable(read)), partial(read_head, frame, read, _FIRST_ROWS))


def place_pieces(pieces: Sequence[Piece[X]], request: Request) -> "SparkShards[X]":
    """Make shards of pieces, each of which a task reads; all executors must see the files."""
    if not pieces:
        raise ValueError("got no shards, expected at least one: is the list or the folder empty?")
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
        part: Part[Any] = spark_tasks.read_parts(rows)
        self.count = self.count or max(part.shards, default=-1) + 1
        return require_all_shards(part, self.count)


@dataclass(slots=True, eq=False, weakref_slot=True)
class _KeptSource:
    """Shards that the executors keep once they were observed."""

    origin: _Source
    kept_transforms: tuple[Callable[[Any], Any], ...]  # applied to rows of the origin before they are kept
    # The kept shards from which these are made; their `kept_transforms` are the first of these.
    parent: "_KeptSource | None" = None
    # The name of the folders of the files; None if the shards are kept in Spark's cache instead.
    name: str | None = field(default_factory=spark_files.name_kept)
    frame: Any = None  # the rows of `observe_and_keep`; None before shards were observed
    rows: Any = None  # the same as an RDD, if the session is a classic one
    folders: set[str] = field(default_factory=set)  # where executors keep the shards

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
        except LostError:
            self.name = self.frame = self.rows = self.parent = None
            return self._total(observe)

    def _total(self, observe: Callable[[Any], Any]) -> Any:
        origin = self.origin
        with explain_failures():
            rows = self._observe_first(observe) if self.frame is None else self._observe_again(observe)
        part: Part[Any] = spark_tasks.read_parts(rows)
        origin.count = origin.count or max(part.shards, default=-1) + 1
        return require_all_shards(part, origin.count)

    def _observe_first(self, observe: Callable[[Any], Any]) -> list[TaskRow]:
        origin, parent = self.origin, self.parent
        frame, read, transforms = origin.frame, origin.read, self.kept_transforms
        if parent is not None and parent.frame is not None:
            frame, read = parent.frame, spark_tasks.read_kept_batches
            transforms = transforms[len(parent.kept_transforms) :]
        # The task is part of the plan, and not broadcast: Spark may need it later, to make lost shards again.
        keep = partial(spark_tasks.observe_and_keep, Task(read, transforms, observe), self.name)
        self.frame = frame.mapInArrow(keep, KEPT_COLUMNS).persist()
        # At exit nothing is released here: an executor that ends removes its files.
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
            return _collect_in_tree(parts, self.count or 0)
        with _broadcast(self.frame, observe) as receive_observe:
            parts = self.frame.mapInArrow(
                partial(spark_tasks.observe_kept_batches, receive_observe), PART_COLUMNS
            )
            return _collect(parts, self.count)[0]


@dataclass(frozen=True, slots=True, eq=False)
class _TransformAndObserve:
    """Transforms the chunks of kept shards whenever they are observed."""

    transforms: tuple[Callable[[Any], Any], ...]
    observe: Callable[[Any], Any]

    def __call__(self, chunk: Any) -> Any:
        transformed = spark_tasks.transform_chunk(chunk, self.transforms)
        return None if transformed is None else self.observe(transformed)


@dataclass(frozen=True, slots=True, eq=False)
class SparkShards(Generic[X]):
    """The partitions of a data frame."""

    source: _Source | _KeptSource
    # Reads a batch, or a piece, with the columns of the source and none, some or all of its rows.
    read_head: Callable[[], Any]
    # Functions that are applied to each chunk of the source, one after the other.
    transforms: tuple[Callable[[Any], Any], ...] = ()

    def total(self, observe: Callable[[X], S | None], /) -> S:
        """Observe every partition, and add; `observe` returns None for a shard without rows."""
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
    those of the frame. `size` is the length of all files in bytes.
    """
    rows = frame.select("shard", "path", "content", "buffers", "failure").rdd
    tasks = max(rows.context.defaultParallelism, ceil(size / _TASK_BYTES))
    return rows.coalesce(tasks) if tasks < rows.getNumPartitions() else rows


def _collect(parts: Any, count: int | None) -> tuple[list[TaskRow], int | None]:
    """Run the tasks of a frame; return one row per partition or per branch of a tree, and `count`.

    `count` is the number of partitions, or None if it is not known, which it remains with Spark Connect.
    """
    if _is_connect(parts):
        return _add_in_tree(parts, count).toArrow().to_pylist(), count
    rows = parts.rdd
    count = int(rows.getNumPartitions())
    return _collect_in_tree(rows, count), count


def _collect_in_tree(rows: Any, count: int) -> list[TaskRow]:
    """Return the rows of `count` partitions or, from 33 partitions on, the sums of the branches of a tree."""
    if count > _MAX_WITHOUT_TREE:
        branches = ceil(count**0.5)
        rows = rows.keyBy(itemgetter("shard")).partitionBy(branches).values()
        rows = rows.mapPartitions(spark_tasks.add_rows)
    collected: list[TaskRow] = rows.collect()
    return collected


def _add_in_tree(parts: Any, count: int | None) -> Any:
    """Return a frame of the rows of all partitions, or of the sums of the branches of a tree.

    There is a tree if there are more than 32 partitions, or if their number is not known. In the second case
    Spark may join branches with few bytes.
    """
    if count is None:
        branched = parts.repartition(parts["shard"] % _BRANCHES)
    elif count <= _MAX_WITHOUT_TREE:
        return parts
    else:
        branches = ceil(count**0.5)
        branched = parts.repartition(branches, parts["shard"] % branches)
    return branched.mapInArrow(spark_tasks.add_batches, PART_COLUMNS)


@contextlib.contextmanager
def _broadcast(frame: Any, value: Any) -> Iterator[Callable[[], Any]]:
    """Send a value to all executors once; yield a function by which a task receives it.

    Spark Connect has no broadcast, and sends the value with each task.
    """
    content = import_package("pyspark.cloudpickle", SPARK_FRAME).dumps(value)
    if _is_connect(frame):
        yield partial(pickle.loads, content)
        return
    sent = frame.sparkSession.sparkContext.broadcast(content)
    try:
        yield partial(_receive, sent)
    finally:
        with contextlib.suppress(Exception):  # a session that was stopped meanwhile
            sent.destroy()


def _receive(sent: Any) -> Any:
    return pickle.loads(sent.value)


def _release(kept: Any, name: str | None, folders: Iterable[str]) -> None:
    """Free kept shards, of which `kept` is the frame; tasks remove the files on other machines."""
    paths = [Path(folder) for folder in folders]
    with contextlib.suppress(Exception):  # a session that was stopped meanwhile
        if name is not None and not all(path.parent.exists() for path in paths):
            kept.mapInArrow(partial(spark_tasks.remove_kept, name), PART_COLUMNS).toArrow()
        kept.unpersist()
    for path in paths:
        spark_files.remove_kept(path)


# ── errors ──


@contextlib.contextmanager
def explain_failures(outcome: str = "nothing was learned") -> Iterator[None]:
    """Turn errors of Spark, whose text is a page of Java, into a RuntimeError of one line.

    `outcome` says in the message what the failure means for the caller.
    """
    try:
        yield
    except Exception as problem:
        if not _is_of_spark(problem):
            raise
        text = str(problem)
        if isinstance(problem, AttributeError) and "'NoneType'" in text:  # the gateway to Java is gone
            text = "the session was stopped, expected a running one: make the data frame again"
        raise RuntimeError(f"Spark did not finish the work, {outcome}: {_find_cause(text)}") from None


def _is_of_spark(problem: Exception) -> bool:
    """Return whether an error is of a type of Spark, or was raised in its code (a session was stopped)."""
    innermost = problem.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    raiser = "" if innermost is None else innermost.tb_frame.f_globals.get("__name__", "")
    return any(name.partition(".")[0] in _SPARK for name in (type(problem).__module__, raiser))


_SPARK = ("grpc", "py4j", "pyspark")
_TRACEBACK = "Traceback (most recent call last):"
# Between two tracebacks, if the second exception was raised because of the first, or while it was handled.
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")


def _find_cause(text: str) -> str:
    """Return the exception that ends the first Python traceback in the text of an error, in one line.

    Of chained tracebacks it is the last exception. Without a traceback, it is the first line of the text.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cause = lines[0] if lines else "no reason given"
    for traceback in text.split(_TRACEBACK)[1:]:
        # Lines that name files and show code are indented.
        cause = next((line for line in traceback.splitlines() if line[:1].strip()), cause)
        if not any(phrase in traceback for phrase in _CHAINED):
            break
    return cause[:300]
