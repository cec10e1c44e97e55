"""Spark data frames, classic or of Spark Connect → shards that are observed in Spark's tasks.

A shard is a partition. A task (`spark_tasks`) observes its partition and returns one row: the number of the
partition and the bytes of its statistic. Rows of many partitions are added in a tree. Spark repeats tasks
that fail or are slow, and numbers make sure that each partition is counted once (`parts`). Shards that `map`
changed are kept in files of the executors (`spark_files`) by the tasks that observe them first; Spark caches
which executor has which, runs later tasks there, and makes a shard anew from its source if the executor is
lost.

A classic session runs the later passes as jobs of RDDs, whose start takes half the time of a query's. Spark
Connect has queries only.
"""

import contextlib
import pickle
import re
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
from tamis.engines.parts import Part, finish
from tamis.engines.spark_columns import choose_rows, read_head
from tamis.engines.spark_tasks import KEPT, PARTS, USER, LoadPieces, LostError, ReadTable, Row, Task
from tamis.extras import import_package
from tamis.protocols import Statistic

X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound=Statistic)

_FIRST_ROWS = 10_000  # of the frame, by which the columns are known
_DIRECT = 32  # partitions whose statistics the driver adds without a tree
_BRANCHES = 8  # of the tree, where the number of partitions is not known
_TASK_SIZE = 1 << 28  # bytes of kept shards that one task reads, if all cores have a task


def open_shards(data: Any, request: Request) -> "SparkShards[Batch]":
    """Open a data frame of Spark, or one of its pandas interface."""
    import_package("pyarrow", USER)
    # the type is asked: a frame of Spark Connect takes any attribute for a column
    frame = data.to_spark() if hasattr(type(data), "to_spark") else data
    with explain_failures():
        frame, read = choose_rows(frame, request)
    return SparkShards(_Source(frame, ReadTable(read)), partial(read_head, frame, read, _FIRST_ROWS))


def place_pieces(pieces: Sequence[Piece[X]], request: Request) -> "SparkShards[X]":
    """Pieces that tasks of a session read, one piece each: all executors must see the files."""
    if not pieces:
        raise ValueError("got no shards, expected at least one: is the list or the folder empty?")
    with explain_failures():
        frame = request.engine.range(0, len(pieces), 1, len(pieces))
    return SparkShards(_Source(frame, LoadPieces(tuple(pieces)), len(pieces)), pieces[0].load)


@dataclass(slots=True, eq=False)
class _Source:
    """A data frame, how a task reads its rows, and the number of its partitions, if it is known."""

    frame: Any
    read: Callable[[Iterable[Any]], Iterator[Any]]
    count: int | None = None

    def total(self, changes: tuple[Callable[[Any], Any], ...], observe: Callable[[Any], Any]) -> Any:
        """Change and observe every partition, add."""
        with explain_failures(), _broadcast(self.frame, Task(self.read, changes, observe)) as receive_task:
            parts = self.frame.mapInArrow(partial(spark_tasks.observe_rows, receive_task), PARTS)
            rows, self.count = _collect(parts, self.count)
        part: Part[Any] = spark_tasks.read_parts(rows)
        self.count = self.count or max(part.shards, default=-1) + 1
        return finish(part, self.count)


@dataclass(slots=True, eq=False, weakref_slot=True)
class _KeptSource:
    """Shards that the executors keep, from when they are first observed."""

    origin: _Source
    kept_changes: tuple[Callable[[Any], Any], ...]  # made to rows of the origin before they are kept
    before: "_KeptSource | None" = None  # the shards after the first of these changes, which are kept, too
    name: str | None = field(default_factory=spark_files.name_kept)  # of the files; None if there are none
    frame: Any = None  # one row per shard; None before they were observed
    rows: Any = None  # the same as an RDD, if the session is a classic one
    folders: set[str] = field(default_factory=set)  # where executors keep the shards

    @property
    def count(self) -> int | None:
        """The number of shards, if it is known."""
        return self.origin.count

    def total(self, changes: tuple[Callable[[Any], Any], ...], observe: Callable[[Any], Any]) -> Any:
        """Observe every shard, add; shards whose files are lost are kept again, without files."""
        observe = _ChangeAndObserve(changes, observe) if changes else observe
        try:
            return self._total(observe)
        except LostError:
            self.name = self.frame = self.rows = self.before = None
            return self._total(observe)

    def _total(self, observe: Callable[[Any], Any]) -> Any:
        origin = self.origin
        with explain_failures():
            rows = self._observe_first(observe) if self.frame is None else self._observe_again(observe)
        part: Part[Any] = spark_tasks.read_parts(rows)
        origin.count = origin.count or max(part.shards, default=-1) + 1
        return finish(part, origin.count)

    def _observe_first(self, observe: Callable[[Any], Any]) -> list[Row]:
        origin, before = self.origin, self.before
        frame, read, changes = origin.frame, origin.read, self.kept_changes
        if before is not None and before.frame is not None:
            frame, read = before.frame, spark_tasks.read_kept_batches
            changes = changes[len(before.kept_changes) :]
        # Spark may need the task later, to make lost shards again: it is part of the plan, and not broadcast.
        keep = partial(spark_tasks.observe_and_keep, Task(read, changes, observe), self.name)
        self.frame = frame.mapInArrow(keep, KEPT).persist()
        # At the end of the session Spark frees the rest.
        weakref.finalize(self, _release, self.frame, self.name, self.folders).atexit = False
        columns = [column.split()[0] for column in PARTS.split(", ")]
        rows, origin.count = _collect(self.frame.select(*columns), origin.count)
        self.folders.update(*(row["folders"] for row in rows))
        if not _is_connect(self.frame):
            self.rows = _group_rows(self.frame, sum(row["size"] for row in rows))
        return rows

    def _observe_again(self, observe: Callable[[Any], Any]) -> list[Row]:
        if self.rows is not None:
            parts = self.rows.mapPartitions(partial(spark_tasks.observe_kept, observe))
            return _collect_in_tree(parts, self.count or 0)
        with _broadcast(self.frame, observe) as receive_observe:
            parts = self.frame.mapInArrow(partial(spark_tasks.observe_kept_batches, receive_observe), PARTS)
            return _collect(parts, self.count)[0]


@dataclass(frozen=True, slots=True, eq=False)
class _ChangeAndObserve:
    """Changes that are made to kept shards whenever they are observed."""

    changes: tuple[Callable[[Any], Any], ...]
    observe: Callable[[Any], Any]

    def __call__(self, piece: Any) -> Any:
        changed = spark_tasks.change_piece(piece, self.changes)
        return None if changed is None else self.observe(changed)


@dataclass(frozen=True, slots=True, eq=False)
class SparkShards(Generic[X]):
    """The partitions of a data frame."""

    source: _Source | _KeptSource
    read_head: Callable[[], Any]  # the first rows, in this process
    # The changes are applied to each batch of rows of the source, one after the other.
    changes: tuple[Callable[[Any], Any], ...] = ()

    def total(self, observe: Callable[[X], S | None], /) -> S:
        """Observe every partition, add. `observe` returns None for a shard without rows."""
        sums: S = self.source.total(self.changes, observe)
        return sums

    def map(self, change: Callable[[X], Y | None], /) -> "SparkShards[Y]":
        """The shards after a change, which tasks make whenever they read them."""
        return SparkShards(self.source, self.read_head, (*self.changes, change))

    def keep(self) -> "SparkShards[X]":
        """The shards, changed once when they are first observed, and then kept in files of the executors."""
        source = self.source
        if isinstance(source, _Source):
            kept = _KeptSource(source, self.changes)
        else:
            kept = _KeptSource(source.origin, (*source.kept_changes, *self.changes), source)
        return SparkShards(kept, self._read_first)

    def read_first(self) -> X:
        """The first rows, which have the columns of all."""
        with explain_failures():
            first: X = self._read_first()
        return first

    def _read_first(self) -> Any:
        return spark_tasks.change_piece(self.read_head(), self.changes)


# ── jobs ──


def _is_connect(frame: Any) -> bool:
    return ".connect." in type(frame).__module__


def _group_rows(frame: Any, size: int) -> Any:
    """Rows of kept shards of so many bytes, as few tasks read them as keep all cores busy."""
    rows = frame.select("shard", "path", "content", "buffers", "failure").rdd
    tasks = max(rows.context.defaultParallelism, ceil(size / _TASK_SIZE))
    return rows.coalesce(tasks) if tasks < rows.getNumPartitions() else rows


def _collect(parts: Any, count: int | None) -> tuple[list[Row], int | None]:
    """Rows of statistics, or sums of some, and the number of partitions, if it is known now."""
    if _is_connect(parts):
        return _add_in_tree(parts, count).toArrow().to_pylist(), count
    rows = parts.rdd
    count = int(rows.getNumPartitions())
    return _collect_in_tree(rows, count), count


def _collect_in_tree(rows: Any, count: int) -> list[Row]:
    """Rows of statistics of so many partitions; of many, the sums of branches."""
    if count > _DIRECT:
        branches = ceil(count**0.5)
        rows = rows.keyBy(itemgetter("shard")).partitionBy(branches).values()
        rows = rows.mapPartitions(spark_tasks.add_rows)
    found: list[Row] = rows.collect()
    return found


def _add_in_tree(parts: Any, count: int | None) -> Any:
    """The same for Spark Connect, as a frame.

    Where the number of partitions is not known, Spark chooses that of tasks by the size of the rows.
    """
    if count is None:
        branched = parts.repartition(parts["shard"] % _BRANCHES)
    elif count <= _DIRECT:
        return parts
    else:
        branches = ceil(count**0.5)
        branched = parts.repartition(branches, parts["shard"] % branches)
    return branched.mapInArrow(spark_tasks.add_batches, PARTS)


@contextlib.contextmanager
def _broadcast(frame: Any, value: Any) -> Iterator[Callable[[], Any]]:
    """Send a value to all executors once; Spark Connect has no broadcast, and sends it with each task."""
    content = import_package("pyspark.cloudpickle", USER).dumps(value)
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
    """Free kept shards. Of executors on other machines, tasks remove the files where they ran."""
    paths = [Path(folder) for folder in folders]
    with contextlib.suppress(Exception):  # a session that was stopped meanwhile
        if name is not None and not all(path.parent.exists() for path in paths):
            kept.mapInArrow(partial(spark_tasks.remove_kept, name), PARTS).toArrow()
        kept.unpersist()
    for path in paths:
        spark_files.remove_kept(path)


# ── errors ──


@contextlib.contextmanager
def explain_failures(outcome: str = "nothing was learned") -> Iterator[None]:
    """Turn errors of Spark, whose text is a page of Java, into one line."""
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
    """Whether an error is of a type of Spark, or was raised in its code, as by a session that was stopped."""
    innermost = problem.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    raiser = "" if innermost is None else innermost.tb_frame.f_globals.get("__name__", "")
    return any(name.partition(".")[0] in _SPARK for name in (type(problem).__module__, raiser))


_SPARK = ("grpc", "py4j", "pyspark")
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning): .*)$", re.MULTILINE)


def _find_cause(text: str) -> str:
    """The last line of a Python traceback in the text of an error; its first line if there is none."""
    _, _, traceback = text.partition("Traceback (most recent call last)")
    causes = [cause for cause in _PYTHON_ERROR.findall(traceback) if not cause.startswith("org.apache")]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (causes[0] if causes else lines[0] if lines else "no reason given")[:300]
