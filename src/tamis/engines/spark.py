"""Spark data frames, classic or of Spark Connect → shards that are observed in Spark's tasks.

A shard is a partition. A task observes its partition and returns one row: the number of the partition and the
bytes of its statistic (`messages`). Rows are added in a tree. Spark repeats tasks that fail or are slow, and
numbers make sure that each partition is counted once (`parts`). The function that observes, and with it the
current posterior of a model that iterates, is broadcast. Shards that `map` changed are kept in files of the
executors (`spark_files`); Spark caches which executor has which, runs tasks there, and makes a shard anew
from its source if the executor is lost.
"""

import contextlib
import pickle
import re
import socket
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from math import ceil
from operator import add
from pathlib import Path
from typing import Any, Generic, TypeVar

from tamis import threads
from tamis.engines import messages, spark_files
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
_FIRST_FILES = 32  # open files of a task's process among which its socket to Java is
_DIRECT = 32  # partitions whose statistics the driver adds without a tree
_BRANCHES = 8  # of the tree, where the number of partitions is not known
_USER = "a Spark data frame"
_PARTS = "branch int, shards array<int>, statistic binary, problem string, folders array<string>"
_KEPT = "shard int, path string, content binary, buffers array<binary>, problem string"
_ALIGNMENT = 64  # bytes: numbers of a kept shard are read where they are


class _LostError(Exception):
    """A task ran where the file of its shard is not."""


_PROBLEMS: dict[str, type[Exception]] = {
    "TypeError": TypeError,
    "ValueError": ValueError,
    "_LostError": _LostError,
}


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
    keep_otherwise: Callable[[], Any] | None = None  # a frame of the same shards that needs no files
    folders: set[str] = field(default_factory=set)  # where executors keep the shards


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
        try:
            return self._total(observe)
        except _LostError:
            source = self.source
            if source.keep_otherwise is None:
                raise
            with explain_failures():
                source.frame, source.keep_otherwise = source.keep_otherwise(), None
            weakref.finalize(source, _release, source.frame).atexit = False
            return self._total(observe)

    def _total(self, observe: Callable[[X], S | None], /) -> S:
        source = self.source
        task = _Task(source.read, self.changes, observe)
        with explain_failures(), _broadcast(source.frame, task) as receive_task:
            parts = source.frame.mapInArrow(partial(_observe_rows, receive_task), _PARTS)
            parts = _add_in_tree(parts, source.count)
            table = parts.toArrow()
        source.folders.update(*table.column("folders").to_pylist())
        part: Part[S] = _read_parts(table)
        source.count = source.count or max(part.shards, default=-1) + 1
        return finish(part, source.count)

    def map(self, change: Callable[[X], Y | None], /) -> "SparkShards[Y]":
        """The shards after a change, which tasks make whenever they read them."""
        return SparkShards(self.source, self.read_head, (*self.changes, change), self.kept_changes)

    def keep(self) -> "SparkShards[X]":
        """The shards, changed once when they are first read, and then kept in files of the executors."""
        source, changes = self.source, (*self.kept_changes, *self.changes)
        name = spark_files.name_kept()

        def persist(name: str | None) -> Any:
            return source.frame.mapInArrow(partial(_keep, source.read, self.changes, name), _KEPT).persist()

        with explain_failures():
            frame = persist(name)
        own = _Source(frame, _ReadKept(name), source.count, lambda: persist(None))
        # At the end of the session Spark frees the rest.
        weakref.finalize(own, _release, frame, name, own.folders).atexit = False
        return SparkShards(own, self.read_head, (), changes)

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
    statistic, problem, task = None, None, receive_task()
    batches = _receive_rows(batches)
    with threads.use_one_thread():
        try:
            statistic = observe_piece(task, Loaded(f"partition {shard}", batches))
        except (TypeError, ValueError) as error:
            problem = _describe(error)
        except _LostError:
            problem = f"{_LostError.__name__}: "
    _drain(batches)
    folders = spark_files.list_folders(task.read.name) if isinstance(task.read, _ReadKept) else []
    yield _make_row(shard, Part(frozenset((shard,)), statistic), problem, map(str, folders))


def _receive_rows(batches: Iterator[Any]) -> Iterator[Any]:
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
            batch = next(batches, None)
            if batch is None:
                return
            yield batch
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


def _drain(batches: Iterable[Any]) -> None:
    """Read rows that are not needed: Spark ends a Python process that leaves some, and starts another."""
    for _ in batches:
        pass


def _add_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """Rows of statistics → one row with their sum."""
    parts: Part[Any] = Part(frozenset(), None)
    folders: set[str] = set()
    batches = _receive_rows(batches)
    for batch in batches:
        for row in batch.to_pylist():
            folders.update(row["folders"])
            if row["problem"] is not None:
                _drain(batches)
                yield _make_row(0, Part(frozenset(row["shards"]), None), row["problem"], folders)
                return
            parts = parts + _read_part(row)
    yield _make_row(0, parts, None, folders)


def _make_row(branch: int, part: Part[Any], problem: str | None, folders: Iterable[str] = ()) -> Any:
    pa = import_package("pyarrow", _USER)
    content = None if part.statistic is None else messages.encode(part.statistic)
    return pa.record_batch(
        [
            pa.array([branch], pa.int32()),
            pa.array([sorted(part.shards)], pa.list_(pa.int32())),
            pa.array([content], pa.binary()),
            pa.array([problem], pa.string()),
            pa.array([sorted(folders)], pa.list_(pa.string())),
        ],
        names=["branch", "shards", "statistic", "problem", "folders"],
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
    name: str | None,
    batches: Iterator[Any],
) -> Iterator[Any]:
    """Rows of a partition → changed pieces in a file, and one row with its path.

    Where there is no file (no name, no local directory, a full disk), pieces are rows themselves. Only tasks
    of the same application read either.
    """
    pa = import_package("pyarrow", _USER)
    shard = _find_shard()
    batches = _receive_rows(batches)

    def make_row(path: Path | None, parts: list[Any], problem: str | None) -> Any:
        content, *buffers = parts or [None]
        return pa.record_batch(
            [
                pa.array([shard], pa.int32()),
                pa.array([None if path is None else str(path)], pa.string()),
                pa.array([None if content is None else bytes(content)], pa.binary()),
                pa.array([[_pad(memoryview(buffer)) for buffer in buffers]], pa.list_(pa.binary())),
                pa.array([problem], pa.string()),
            ],
            names=["shard", "path", "content", "buffers", "problem"],
        )

    file = _open_kept(name, shard)
    with threads.use_one_thread():
        try:
            for piece in read(batches):
                changed = _change(piece, changes)
                if changed is None:
                    continue
                parts = _pickle(changed)
                if file is not None:
                    try:
                        file.write(parts)
                        continue
                    except OSError:  # a full disk: Spark's own cache may have another one, or memory
                        for before in file.abandon():
                            yield make_row(None, before, None)
                        file = None
                yield make_row(None, parts, None)
        except (TypeError, ValueError) as error:
            if file is not None:
                file.abandon()
            if type(error) not in (TypeError, ValueError):
                raise
            yield make_row(None, [], f"{type(error).__name__}: partition {shard}: {error}")
            file = None
    _drain(batches)
    if file is not None:
        file.finish()
        yield make_row(file.path, [], None)


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


def _pad(raw: memoryview) -> bytes:
    """The bytes, and the number of those that follow, so that the next ones are aligned."""
    spare = -(raw.nbytes + 1) % _ALIGNMENT
    return b"".join((raw, bytes(spare), bytes((spare + 1,))))


@dataclass(frozen=True, slots=True)
class _ReadKept:
    """Pieces that `_keep` wrote, of the file that has the number of the task, or of the rows."""

    name: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        path = spark_files.find_kept(self.name, _find_shard())
        return _read_kept_rows(batches) if path is None else spark_files.read_kept(path)


def _read_kept_rows(batches: Iterable[Any]) -> Iterator[Any]:
    """Pieces that rows hold, or name the file of; a problem that a task met before is raised again."""
    for batch in batches:
        for place in range(batch.num_rows):
            path, content, buffers, problem = (
                batch.column(name)[place] for name in ("path", "content", "buffers", "problem")
            )
            if problem.is_valid:
                raise _KeptError(problem.as_py())
            if path.is_valid:
                file = Path(path.as_py())
                if not file.exists():
                    raise _LostError
                yield from spark_files.read_kept(file)
                continue
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


def _release(kept: Any, name: str = "", folders: Iterable[str] = ()) -> None:
    """Free kept shards. Of executors on other machines, tasks remove the files where they ran."""
    paths = [Path(folder) for folder in folders]
    with contextlib.suppress(Exception):  # a session that was stopped meanwhile
        if not all(path.parent.exists() for path in paths):
            kept.mapInArrow(partial(_remove_kept, name), _KEPT).toArrow()
        kept.unpersist()
    for path in paths:
        spark_files.remove_kept(path)


def _remove_kept(name: str, batches: Iterator[Any]) -> Iterator[Any]:
    _drain(batches)
    for folder in spark_files.list_folders(name):
        spark_files.remove_kept(folder)
    yield from ()


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
