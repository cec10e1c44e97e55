"""Verdicts and learning off the event loop, in a few threads; faults of a store are values.

Each thread has its own connections to the stores, because SQLite's belong to a thread. A store that was
replaced by another file is opened again. Verdicts are written to the log beside the store once a second.
"""

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tamis_mail.sieve import Receipt, Sieve
from tamis_mail.verdict import RULE, Judgement, Rule, Verdict

__all__ = ["Fault", "Filtering", "Judged"]

T = TypeVar("T")

_STORES = 64  # that a thread keeps open
_FLUSH_SECONDS = 1.0
_WAITING = 200  # messages that may wait for a thread; further ones wait in their connections


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, and the least probability of spam."""

    verdict: Verdict
    required: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no verdict, or nothing was learned, in one sentence."""

    sentence: str


class Filtering:
    """Judges and learns messages for all connections of a daemon.

    `path_of` gives the store of a user; the user of a daemon for one person is an empty string.
    """

    def __init__(self, path_of: Callable[[str], Path], *, threads: int = 2, source: str = "") -> None:
        self._path_of = path_of
        self._workers = [_Worker(source) for _ in range(max(1, threads))]
        self._waiting = asyncio.Semaphore(_WAITING)
        self._flushing: asyncio.Task[None] | None = None

    async def judge(self, raw: bytes, user: str = "") -> Judged | Fault:
        """Judge a message; before anything was learned, every message is unsure."""
        return await self._run(user, partial(_judge, raw))

    async def learn(self, raw: bytes, label: str, user: str = "") -> Receipt | Fault:
        """Learn a message; the store is created if there is none."""
        return await self._run(user, partial(_learn, raw, label))

    async def forget(self, raw: bytes, user: str = "") -> Receipt | Fault:
        """Forget a message."""
        return await self._run(user, partial(_forget, raw))

    async def close(self) -> None:
        """Write what was recorded, and close all stores."""
        if self._flushing is not None:
            self._flushing.cancel()
        await asyncio.gather(*(worker.submit(worker.close) for worker in self._workers))
        for worker in self._workers:
            worker.shut_down()

    async def _run(self, user: str, work: "Callable[[_Worker, Path], T]") -> T | Fault:
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush_regularly())
        async with self._waiting:
            worker = min(self._workers, key=lambda each: each.pending)
            try:
                return await worker.submit(partial(_catch_faults, work, worker, self._path_of, user))
            except RuntimeError as error:  # the daemon is stopping
                return Fault(str(error))

    async def _flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            for worker in self._workers:
                if worker.has_records:
                    await worker.submit(worker.flush)


class _Worker:
    """A thread with the stores that it has opened."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.pending = 0
        self.has_records = False
        self._executor = ThreadPoolExecutor(1)
        self._sieves: OrderedDict[Path, tuple[tuple[int, int], Sieve]] = OrderedDict()

    async def submit(self, work: Callable[[], T]) -> T:
        self.pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self.pending -= 1

    def open(self, path: Path, *, create: bool) -> Sieve | None:
        """Return the open store of a path; None if there is none and none is to be created."""
        identity = _identity(path)
        known = self._sieves.get(path)
        if known is not None and known[0] == identity:
            self._sieves.move_to_end(path)
            return known[1]
        self.drop(path)
        if identity is None and not create:
            return None
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        sieve = Sieve.open(path, create=create)
        self._sieves[path] = (_identity(path) or (0, 0), sieve)
        if len(self._sieves) > _STORES:
            self.drop(next(iter(self._sieves)))
        return sieve

    def drop(self, path: Path) -> None:
        """Close a store."""
        known = self._sieves.pop(path, None)
        if known is not None:
            known[1].close()

    def flush(self) -> None:
        self.has_records = False
        for _, sieve in self._sieves.values():
            sieve.flush_log()

    def close(self) -> None:
        for path in list(self._sieves):
            self.drop(path)

    def shut_down(self) -> None:
        self._executor.shutdown()


def _catch_faults(
    work: Callable[[_Worker, Path], T], worker: _Worker, path_of: Callable[[str], Path], user: str
) -> T | Fault:
    path: Path | None = None
    try:
        path = path_of(user)
        return work(worker, path)
    except Exception as error:  # noqa: BLE001 (whatever a store does, mail flows)
        if path is not None:
            worker.drop(path)
        expected = isinstance(error, OSError | ValueError) or type(error).__module__.startswith("tamis_mail.")
        name = "" if expected else f"unexpected {type(error).__name__}: "
        return Fault(name + " ".join(str(error).split()))


def _judge(raw: bytes, worker: _Worker, path: Path) -> Judged:
    begun = time.perf_counter()
    sieve = worker.open(path, create=False)
    if sieve is None:
        nothing_learned = Verdict(Judgement("unsure", 0.5, 0.0, {}), tuple)
        return Judged(nothing_learned, RULE.spam, time.perf_counter() - begun)
    verdict = sieve.sort(raw)
    sieve.log_verdict(raw, verdict, source=worker.source)
    worker.has_records = True
    return Judged(verdict, Rule.of(sieve.store).spam, time.perf_counter() - begun)


def _learn(raw: bytes, label: str, worker: _Worker, path: Path) -> Receipt:
    sieve = worker.open(path, create=True)
    assert sieve is not None  # it was created
    return sieve.learn(raw, label, source=worker.source)


def _forget(raw: bytes, worker: _Worker, path: Path) -> Receipt:
    sieve = worker.open(path, create=False)
    if sieve is None:
        raise FileNotFoundError(f"{path}: there is no store, so there is nothing to forget")
    return sieve.forget(raw, source=worker.source)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 (once per message)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
