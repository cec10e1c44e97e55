"""Run jobs, functions of a batch of messages, in this thread if there are few messages, otherwise in workers.

Workers are threads or, without the core, processes; they are kept for later jobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, islice
from threading import RLock

from tamis_mail.tokens import COMPILED_VERSIONS, VERSION

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from tamis_mail.sieve.pool import Pool
    from tamis_mail.sieve.threads import Threads

    Job = str | Callable[..., Any]  # a function, or the name of one in `jobs`
    # A function that runs a job once for each tuple of arguments, and yields the results in order.
    RunJobs = Callable[[Job, Iterable[tuple[Any, ...]]], Iterator[Any]]
    Message = TypeVar("Message")

# At most so many messages, of fewer bytes together, take less time in this thread than the start of workers.
_INLINE_MESSAGES = 150
_INLINE_BYTES = 4 << 20
# A job of learning or guessing has at most about so many messages or bytes; other jobs have other limits.
JOB_MESSAGES = 250
JOB_BYTES = 4 << 20
MAX_BATCH_BYTES = 32 << 20  # a batch ends with the message that reaches this, so that it fits into memory
_JOBS = "tamis_mail.sieve.jobs"


def count_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_job(job: Job) -> Callable[..., Any]:
    """Return the function of a job, given this function or its name in `jobs`.

    With a name, a process that lets worker processes run the job does not import `jobs`, which imports NumPy.
    """
    function: Callable[..., Any] = getattr(import_module(_JOBS), job) if isinstance(job, str) else job
    return function


def run_inline(job: Job, inputs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Run jobs in this thread."""
    function = find_job(job)
    return (function(*arguments) for arguments in inputs)


def batches(
    messages: Iterable[bytes], max_messages: int, max_bytes: int = MAX_BATCH_BYTES
) -> Iterator[list[bytes]]:
    """Group messages into batches; each ends with the message that reaches one of the limits."""
    batch: list[bytes] = []
    size = 0
    for raw in messages:
        batch.append(raw)
        size += len(raw)
        if len(batch) >= max_messages or size >= max_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Executor:
    """Runs jobs in worker threads or processes, or in this thread when there is little work."""

    def __init__(self, token_version: Callable[[], int] = lambda: VERSION) -> None:
        """`token_version` returns the version of the tokens that jobs read."""
        self._token_version = token_version
        self._pool: Pool | Threads | None = None
        # Several threads may use this object at the same time. The lock is reentrant, because the garbage
        # collector may end an abandoned call of `_run_in_pool` in a thread that holds it.
        self._lock = RLock()
        self._n_runs = 0  # calls of `_run_in_pool` that are not finished
        self._size = 0  # the number of workers: 0 before the first are started
        self._is_closed = False

    def prepare(
        self, messages: Iterable[Message], processes: int | None, measure: Callable[[Any], int] = len
    ) -> tuple[Iterator[Message], RunJobs]:
        """Return the messages and a function that runs jobs on them; `measure` returns the size of a message.

        The first messages are read here, to find whether there are few: then jobs run in this thread. With
        `processes=1`, jobs always run in this thread, and no messages are read here. Otherwise `processes` is
        the number of workers, by default that of the cores; workers that were started before are used again,
        whatever their number.
        """
        remaining = iter(messages)
        first: list[Message] = []
        size = 0
        while processes != 1 and len(first) <= _INLINE_MESSAGES and size < _INLINE_BYTES:
            message = next(remaining, None)
            if message is None:
                return iter(first), run_inline
            first.append(message)
            size += measure(message)
        if processes == 1:
            return chain(first, remaining), run_inline
        with self._lock:
            if self._pool is None:
                self._size = processes or count_cores()
            self._start_workers()
        return chain(first, remaining), self._run_in_pool

    def _start_workers(self) -> Pool | Threads:
        """Return the pool of workers, which is started if there is none."""
        if self._is_closed:
            raise AssertionError("a job was submitted after the pool was closed")
        if self._pool is None:
            # The core reads tokens without the interpreter's lock; Python reads those of other versions.
            if self._token_version() in COMPILED_VERSIONS:
                self._pool = import_module("tamis_mail.sieve.threads").Threads(self._size)
            else:
                self._pool = import_module("tamis_mail.sieve.pool").Pool(self._size)
        return self._pool

    def _run_in_pool(self, job: Job, inputs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        with self._lock:
            self._n_runs += 1
        pool = None
        try:
            remaining = iter(inputs)
            first = list(islice(remaining, 1))
            if not first:
                return
            with self._lock:
                pool = self._start_workers()
            yield from pool.map(job, chain(first, remaining))
        except GeneratorExit:  # the caller stops early; the pool stays usable
            raise
        except BaseException:  # an interrupt, or a job that failed: the results of other jobs are not needed
            if pool is not None:
                pool.close(at_once=True)
            if self._pool is pool:
                self._pool = None
            raise
        finally:
            with self._lock:
                self._n_runs -= 1

    def release_workers(self) -> None:
        """Stop the workers, unless they have jobs; the next job starts new ones.

        Memory that a thread has freed serves other threads only after the thread has ended.
        """
        with self._lock:
            if self._n_runs == 0:
                self._stop_workers(at_once=False)

    def close(self, *, at_once: bool = False) -> None:
        """Stop the workers, after the jobs that they are running; with `at_once`, processes are killed.

        Jobs that have not begun are dropped, except by threads without `at_once`, which run them first.
        """
        self._is_closed = True
        self._stop_workers(at_once=at_once)

    def _stop_workers(self, *, at_once: bool) -> None:
        if self._pool is not None:
            self._pool.close(at_once=at_once)
            self._pool = None
