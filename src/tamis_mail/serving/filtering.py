"""Judge and learn messages in a few threads, outside the event loop; errors of a store become return values.

A thread that is free judges several waiting messages together, which takes less time than one by one. Each
thread has its own connections to the stores. A separate thread learns: it may have to wait half a
minute for another process that writes, but verdicts only read and need not wait. A store that was replaced by
another file is opened again. Verdicts are written to the log beside the store once a second.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tamis_mail.files import is_there
from tamis_mail.locations import is_address
from tamis_mail.message import canonical, digest
from tamis_mail.serving.stores import OpenStores, describe_fault
from tamis_mail.sieve import Receipt
from tamis_mail.verdict import RULE, Judgement, Rule, Verdict

T = TypeVar("T")

_FLUSH_SECONDS = 1.0  # time between two writes of verdicts to the logs
_MAX_WAITING = 200  # messages in a queue; a caller with a further one waits until the queue has room
_BATCH = 32  # maximum number of messages that are judged together
_BATCH_BYTES = 4 << 20  # a batch of so many bytes gets no more messages


@dataclass(frozen=True, slots=True)
class TimedVerdict:
    """A verdict, and the seconds that it took."""

    verdict: Verdict
    required: float  # the probability of spam from which on the store's rule says spam
    seconds: float  # the mean for the messages that were judged together


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no verdict or nothing was learned: an error of a store or message, or the daemon's end."""

    sentence: str  # one line for the log


@dataclass(frozen=True, slots=True)
class _WaitingMessage:
    """A message that waits for its verdict."""

    raw: bytes
    user: str
    with_evidence: bool
    future: "asyncio.Future[TimedVerdict | Fault]"


_STOPPING = Fault("the daemon is stopping")


class Filtering:
    """Judges and learns messages for all connections of a daemon.

    `path_of` returns the path of a user's store. The user with an empty name has the common store, which also
    judges the mail of users without a store. `threads` is the number of threads that judge, at least one;
    `source` is the name of the daemon in the log of events.
    """

    def __init__(self, path_of: Callable[[str], Path], *, threads: int = 2, source: str = "") -> None:
        self._path_of = path_of
        self._judge_workers = [_Worker(source, readonly=True) for _ in range(max(1, threads))]
        self._learn_worker = _Worker(source, readonly=False)
        self._waiting: asyncio.Queue[_WaitingMessage] = asyncio.Queue(_MAX_WAITING)
        self._learn_slots = asyncio.Semaphore(_MAX_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False

    async def judge(self, raw: bytes, user: str = "", *, with_evidence: bool = False) -> TimedVerdict | Fault:
        """Judge a message; without a store, every message is unsure.

        The store of `user` judges it or, if there is none, the common store. With `with_evidence`, the thread
        also computes the strongest evidence, which would otherwise be computed when it is read, in the event
        loop.
        """
        if self._is_closed:
            return _STOPPING
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._judge_waiting(worker)) for worker in self._judge_workers]
            self._tasks.append(asyncio.create_task(self._flush_regularly()))
        future: asyncio.Future[TimedVerdict | Fault] = asyncio.get_running_loop().create_future()
        await self._waiting.put(_WaitingMessage(raw, user, with_evidence, future))
        return await future

    def find_store_user(self, user: str) -> str:
        """Return the user whose store judges a user's mail: this user, or "" for the common store.

        A store on a server counts as existing; the server is not asked.
        """
        try:
            path = self._path_of(user)
            return user if user and (is_address(path) or is_there(path)) else ""
        except OSError:
            return user  # `judge` will return a fault that says why the store cannot be reached

    async def learn(self, raw: bytes, label: str, user: str = "") -> Receipt | Fault:
        """Learn a message in the user's store; a missing store is created."""
        async with self._learn_slots:
            return await self._submit(self._learn_worker, user, partial(_learn, raw, label))

    async def forget(self, raw: bytes, user: str = "") -> Receipt | Fault:
        """Forget a message in the user's store; if there is no store, the message is unknown."""
        async with self._learn_slots:
            return await self._submit(self._learn_worker, user, partial(_forget, raw))

    def reopen(self) -> None:
        """Close all stores; each is opened again when it is needed."""
        for worker in (*self._judge_workers, self._learn_worker):
            worker.start(worker.stores.close)

    async def close(self) -> None:
        """Write what was recorded, and close all stores."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while not self._waiting.empty():
            _set_outcome(self._waiting.get_nowait(), _STOPPING)
        for worker in (*self._judge_workers, self._learn_worker):
            await worker.submit(worker.stores.close)
            worker.shut_down()

    async def _submit(self, worker: "_Worker", user: str, work: "Callable[[_Worker, Path], T]") -> T | Fault:
        if self._is_closed:
            return _STOPPING
        return await worker.submit(partial(_run_catching_faults, work, worker, self._path_of, user))

    async def _judge_waiting(self, worker: "_Worker") -> None:
        """Let a thread judge waiting messages, until the task is cancelled."""
        while True:
            items = [await self._waiting.get()]
            size = len(items[0].raw)
            while not self._waiting.empty() and len(items) < _BATCH and size < _BATCH_BYTES:
                items.append(self._waiting.get_nowait())
                size += len(items[-1].raw)
            outcomes: Sequence[TimedVerdict | Fault] = [_STOPPING] * len(items)
            try:
                outcomes = await worker.submit(partial(_judge_items, items, worker, self._path_of))
            finally:
                for item, outcome in zip(items, outcomes, strict=True):
                    _set_outcome(item, outcome)

    async def _flush_regularly(self) -> None:
        """Write recorded verdicts to the logs, until the task is cancelled."""
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            for worker in self._judge_workers:
                if worker.has_records:
                    await worker.submit(worker.flush)


class _Worker:
    """A thread with the stores that it has opened. If they are not read-only, missing ones are created."""

    def __init__(self, source: str, *, readonly: bool) -> None:
        self.source = source
        self.stores = OpenStores(readonly=readonly)
        self.has_records = False
        self._executor = ThreadPoolExecutor(1)

    async def submit(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def start(self, work: Callable[[], object]) -> None:
        """Start work in the thread, without waiting for it."""
        self._executor.submit(work)

    def flush(self) -> None:
        self.has_records = False
        self.stores.flush()

    def shut_down(self) -> None:
        self._executor.shutdown()


def _run_catching_faults(
    work: Callable[[_Worker, Path], T], worker: _Worker, path_of: Callable[[str], Path], user: str
) -> T | Fault:
    """Call `work` with the path of a user's store; after an error, close the store and return a fault."""
    path: Path | None = None
    try:
        path = path_of(user)
        return work(worker, path)
    except Exception as error:  # noqa: BLE001 (no error of a store may stop mail)
        if path is not None:
            worker.stores.drop(path)
        return Fault(describe_fault(error) or f"unexpected {type(error).__name__}")


def _judge_items(
    items: Sequence[_WaitingMessage], worker: _Worker, path_of: Callable[[str], Path]
) -> list[TimedVerdict | Fault]:
    """Judge messages of several users; the messages of each user are judged together."""
    outcomes: dict[int, TimedVerdict | Fault] = {}
    by_user: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        by_user.setdefault(item.user, []).append(index)
    common_path = path_of("")
    for user, indices in by_user.items():
        judge = partial(_judge, [items[index] for index in indices], common_path)
        judged = _run_catching_faults(judge, worker, path_of, user)
        if not isinstance(judged, Fault):
            outcomes.update(zip(indices, judged, strict=True))
        elif len(indices) == 1:
            outcomes[indices[0]] = judged
        else:  # one by one, because an error of one message must not affect others
            for index in indices:
                (outcomes[index],) = _judge_items([items[index]], worker, path_of)
    return [outcomes[index] for index in range(len(items))]


def _judge(
    items: Sequence[_WaitingMessage], common_path: Path, worker: _Worker, path: Path
) -> list[TimedVerdict]:
    """Judge messages by the store at a path or, if there is none, by the common store."""
    started = time.perf_counter()
    if path != common_path and not worker.stores.has_store(path):
        path = common_path
    if not worker.stores.has_store(path):
        nothing_learned = Verdict(Judgement("unsure", 0.5, 0.0, {}), tuple)  # `tuple()`: no evidence
        default_threshold = RULE.spam
        return [
            TimedVerdict(nothing_learned, default_threshold, time.perf_counter() - started) for _ in items
        ]
    sieve = worker.stores.open(path)
    required = Rule.of(sieve.verdict_store).spam
    verdicts: dict[int, Verdict] = {}
    for with_evidence in (False, True):
        indices = [index for index, item in enumerate(items) if item.with_evidence == with_evidence]
        batch = sieve.sort_batch([items[index].raw for index in indices], with_strongest=with_evidence)
        verdicts.update(zip(indices, batch, strict=True))
    for index, item in enumerate(items):
        sieve.log_verdict(item.raw, verdicts[index], source=worker.source)
    worker.has_records = True
    seconds = (time.perf_counter() - started) / len(items)
    return [TimedVerdict(verdicts[index], required, seconds) for index in range(len(items))]


def _set_outcome(item: _WaitingMessage, outcome: TimedVerdict | Fault) -> None:
    if not item.future.done():  # it is cancelled if its connection has ended
        item.future.set_result(outcome)


def _learn(raw: bytes, label: str, worker: _Worker, path: Path) -> Receipt:
    return worker.stores.open(path).learn(raw, label, source=worker.source)


def _forget(raw: bytes, worker: _Worker, path: Path) -> Receipt:
    if not worker.stores.has_store(path):
        return Receipt("unknown", label=None, before=None, digest=digest(canonical(raw)))
    return worker.stores.open(path).forget(raw, source=worker.source)
