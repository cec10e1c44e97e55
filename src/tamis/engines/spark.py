"""Spark data frames, classic or of Spark Connect → shards that are observed in Spark's tasks.

A shard is a partition. A task observes its partition and returns one row: the number of the partition and the
bytes of its statistic (`messages`). Rows are added in a tree. Spark repeats tasks that fail or are slow, and
numbers make sure that each partition is counted once (`parts`). The function that observes, and with it the
current posterior of a model that iterates, is broadcast; shards that `map` changed are cached by Spark.
"""

import contextlib
import pickle
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import ceil
from operator import add
from typing import Any, Generic, TypeVar

from tamis import threads
from tamis.engines import messages
from tamis.engines.batches import Batch, Loaded, Piece
from tamis.engines.opening import Request
from tamis.engines.parts import Part, finish, observe_piece
from tamis.engines.spark_columns import ReadRows, choose_rows
from tamis.extras import import_package
from tamis.protocols import Statistic

X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound=Statistic)

_PIECE = 1 << 26  # bytes of rows that a task reads before it observes them
_MOST_PIECES = 1 << 24  # of a partition: batches are numbered in the order of partitions and pieces
_FIRST_ROWS = 10_000  # of the frame, by which the columns are known
_DIRECT = 32  # partitions whose statistics the driver adds without a tree
_BRANCHES = 8  # of the tree, where the number of partitions is not known
_USER = "a Spark data frame"
_PARTS = "branch int, shards array<int>, statistic binary, problem string"
_KEPT = "shard int, content binary, buffers array<binary>, problem string"
_ALIGNMENT = 64  # bytes: numbers of a kept shard are read where they are
_PROBLEMS: dict[str, type[Exception]] = {"TypeError": TypeError, "ValueError": ValueError}


def open_shards(data: Any, request: Request) -> "SparkShards[Batch]":
    """Open a data frame of Spark, or one of its pandas interface."""
    import_package("pyarrow", _USER)
    # the type is asked: a frame of Spark Connect takes any attribute for a column
    frame = data.to_spark() if hasattr(type(data), "to_spark") else data
    with explain_failures():
        frame, read = choose_rows(frame, request)
    return SparkShards(_Source(frame, _ReadTable(read)), lambda: read(frame.limit(_FIRST_ROWS).toArrow()))


def place_pieces(pieces: Sequence[Piece[X]], request: Request) -> "SparkShards[X]":
    """Pieces that tasks of a session read, one piece each: all executors must see the files."""
    if not pieces:
        raise ValueError("got no shards, expected at least one: is the list or the folder empty?")
    with explain_failures():
        frame = request.engine.range(0, len(pieces), 1, len(pieces))
    return SparkShards(_Source(frame, _LoadPieces(tuple(pieces)), len(pieces)), pieces[0].load)


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Source:
    """A data frame, how a task reads its rows, and the number of its partitions, if it is known."""

    frame: Any
    read: Callable[[Iterable[Any]], Iterator[Any]]
    count: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SparkShards(Generic[X]):
    """The partitions of a data frame."""

    source: _Source
    read_head: Callable[[], Any]  # the first rows, in this process
    # The changes are applied to each batch of rows of the source, one after the other.
    changes: tuple[Callable[[Any], Any], ...] = ()
    kept_changes: tuple[Callable[[Any], Any], ...] = ()  # changes that were made before the rows were kept

    def total(self, observe: Callable[[X], S | None], /) -> S:
        """Observe every partition, add. `observe` returns None for a shard without rows."""
        source = self.source
        task = _Task(source.read, self.changes, observe)
        with explain_failures(), _broadcast(source.frame, task) as receive_task:
            parts = source.frame.mapInArrow(partial(_observe_rows, receive_task), _PARTS)
            parts = _add_in_tree(parts, source.count)
            part: Part[S] = _read_parts(parts.toArrow())
        source.count = source.count or max(part.shards, default=-1) + 1
        return finish(part, source.count)

    def map(self, change: Callable[[X], Y | None], /) -> "SparkShards[Y]":
        """The shards after a change, which tasks make whenever they read them."""
        return SparkShards(self.source, self.read_head, (*self.changes, change), self.kept_changes)

    def keep(self) -> "SparkShards[X]":
        """The shards, changed once when they are first read, and then kept by Spark in memory or on disk."""
        source, changes = self.source, (*self.kept_changes, *self.changes)
        with explain_failures():
            frame = source.frame.mapInArrow(partial(_keep, source.read, self.changes), _KEPT).persist()
        kept: SparkShards[X] = SparkShards(
            _Source(frame, _read_kept, source.count), self.read_head, (), changes
        )
        weakref.finalize(kept.source, _release, frame).atexit = False  # the session frees the rest at its end
        return kept

    def read_first(self) -> X:
        """The first rows, which have the columns of all."""
        with explain_failures():
            head = self.read_head()
        first: X = _change(head, (*self.kept_changes, *self.changes))
        return first


# ── in tasks ──


@dataclass(frozen=True, slots=True)
class _ReadTable:
    """Rows of a partition → batches of some size."""

    read: ReadRows

    def __call__(self, batches: Iterable[Any]) -> Iterator[Batch]:
        first = _find_shard() * _MOST_PIECES
        for number, table in enumerate(_join_batches(batches), first):
            yield replace(self.read(table), number=number)


def _join_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of a few thousand rows, as Spark sends them → tables of `_PIECE` bytes."""
    pa = import_package("pyarrow", _USER)
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
class _LoadPieces:
    """Rows with the numbers of pieces → these pieces, read."""

    pieces: tuple[Piece[Any], ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self.pieces[number].load()


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """What is done to the rows of each partition."""

    read: Callable[[Iterable[Any]], Iterator[Any]]
    changes: tuple[Callable[[Any], Any], ...]
    observe: Callable[[Any], Any]

    def __call__(self, batches: Iterator[Any]) -> Any:
        """The statistic of a partition; None if it has no rows."""
        total = None
        for piece in self.read(batches):
            changed = _change(piece, self.changes)
            part = None if changed is None else self.observe(changed)
            total = part if total is None else total if part is None else total + part
        return total


def _change(content: Any, changes: Sequence[Callable[[Any], Any]]) -> Any:
    """Make all changes; None as soon as one of them makes None, of a shard without rows."""
    for change in changes:
        if content is None:
            return None
        content = change(content)
    return content


def _observe_rows(receive_task: Callable[[], _Task], batches: Iterator[Any]) -> Iterator[Any]:
    """The rows of a partition → one row with its number and its statistic."""
    shard = _find_shard()
    statistic, problem = None, None
    with threads.use_one_thread():
        try:
            statistic = observe_piece(receive_task(), Loaded(f"partition {shard}", batches))
        except (TypeError, ValueError) as error:
            problem = _describe(error)
    yield _make_row(shard, Part(frozenset((shard,)), statistic), problem)


def _add_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """Rows of statistics → one row with their sum."""
    parts: Part[Any] = Part(frozenset(), None)
    for batch in batches:
        for row in batch.to_pylist():
            if row["problem"] is not None:
                yield _make_row(0, Part(frozenset(row["shards"]), None), row["problem"])
                return
            parts = parts + _read_part(row)
    yield _make_row(0, parts, None)


def _make_row(branch: int, part: Part[Any], problem: str | None) -> Any:
    pa = import_package("pyarrow", _USER)
    content = None if part.statistic is None else messages.encode(part.statistic)
    return pa.record_batch(
        [
            pa.array([branch], pa.int32()),
            pa.array([sorted(part.shards)], pa.list_(pa.int32())),
            pa.array([content], pa.binary()),
            pa.array([problem], pa.string()),
        ],
        names=["branch", "shards", "statistic", "problem"],
    )


def _read_part(row: dict[str, Any]) -> Part[Any]:
    content = row["statistic"]
    return Part(frozenset(row["shards"]), None if content is None else messages.decode(content))


def _read_parts(table: Any) -> Part[Any]:
    """The sum of all rows, in the order of their numbers."""
    rows = sorted(table.to_pylist(), key=lambda row: row["shards"])
    for row in rows:
        if row["problem"] is not None:
            kind, _, text = row["problem"].partition(": ")
            raise _PROBLEMS[kind](text)
    return reduce(add, map(_read_part, rows), Part(frozenset(), None))


def _keep(
    read: Callable[[Iterable[Any]], Iterator[Any]],
    changes: Sequence[Callable[[Any], Any]],
    batches: Iterator[Any],
) -> Iterator[Any]:
    """Rows of a partition → changed pieces as bytes, which only tasks of the same application read."""
    pa = import_package("pyarrow", _USER)
    shard = _find_shard()

    def make_row(content: bytes | None, buffers: list[Any], problem: str | None) -> Any:
        return pa.record_batch(
            [
                pa.array([shard], pa.int32()),
                pa.array([content], pa.binary()),
                pa.array([buffers], pa.list_(pa.binary())),
                pa.array([problem], pa.string()),
            ],
            names=["shard", "content", "buffers", "problem"],
        )

    with threads.use_one_thread():
        try:
            for piece in read(batches):
                changed = _change(piece, changes)
                if changed is None:
                    continue
                buffers: list[pickle.PickleBuffer] = []
                content = pickle.dumps(changed, protocol=5, buffer_callback=buffers.append)
                yield make_row(content, [_pad(buffer.raw()) for buffer in buffers], None)
        except (TypeError, ValueError) as error:
            if type(error) not in (TypeError, ValueError):
                raise
            yield make_row(None, [], f"{type(error).__name__}: partition {shard}: {error}")


def _pad(raw: memoryview) -> bytes:
    """The bytes, and the number of those that follow, so that the next ones are aligned."""
    spare = -(raw.nbytes + 1) % _ALIGNMENT
    return b"".join((raw, bytes(spare), bytes((spare + 1,))))


def _read_kept(batches: Iterable[Any]) -> Iterator[Any]:
    """Pieces that `_keep` wrote; a problem that it met is raised again."""
    for batch in batches:
        for place in range(batch.num_rows):
            content, buffers, problem = (
                batch.column(name)[place] for name in ("content", "buffers", "problem")
            )
            if problem.is_valid:
                raise _KeptError(problem.as_py())
            cells = [cell.as_buffer() for cell in buffers.values]
            parts = [memoryview(cell)[: cell.size - memoryview(cell)[-1]] for cell in cells]
            yield pickle.loads(content.as_buffer(), buffers=parts)


class _KeptError(ValueError):
    """A problem that a task met before, with the partition that it met it in."""


def _describe(error: TypeError | ValueError) -> str:
    if isinstance(error, _KeptError):
        return str(error)
    if type(error) not in (TypeError, ValueError):
        raise error
    return f"{type(error).__name__}: {error}"


def _find_shard() -> int:
    context = import_package("pyspark", _USER).TaskContext.get()
    return int(context.partitionId())


# ── in the driver ──


def _add_in_tree(parts: Any, count: int | None) -> Any:
    """Rows of statistics, of so many partitions → fewer rows, each the sum of a branch.

    Where the number of partitions is not known, Spark chooses that of tasks by the size of the rows.
    """
    if count is None:
        return parts.repartition(parts["branch"] % _BRANCHES).mapInArrow(_add_rows, _PARTS)
    if count <= _DIRECT:
        return parts
    branches = ceil(count**0.5)
    return parts.repartition(branches, parts["branch"] % branches).mapInArrow(_add_rows, _PARTS)


@contextlib.contextmanager
def _broadcast(frame: Any, value: Any) -> Iterator[Callable[[], Any]]:
    """Send a value to all executors once; Spark Connect has no broadcast, and sends it with each task."""
    content = import_package("pyspark.cloudpickle", _USER).dumps(value)
    if ".connect." in type(frame).__module__:
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


def _release(kept: Any) -> None:
    with contextlib.suppress(Exception):  # a session that was stopped meanwhile
        kept.unpersist()


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
