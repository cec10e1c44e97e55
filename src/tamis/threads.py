"""Split rows into chunks for threads: kernels release the interpreter's lock, so they run in parallel.

No result depends on the number of threads: each chunk writes its own rows, or adds integers.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

from tamis.extras import import_package

A = TypeVar("A")
R = TypeVar("R")

MOST = 4  # the largest number of threads: with more, memory bandwidth is the limit
_SMALL = 300  # one thread decomposes a matrix of so many rows as fast as two do
ENOUGH = 1_000_000  # array elements, about 2 ms of work; passing a chunk to a thread takes 0.1 ms


class _Pool:
    """Threads of this process, started when first needed; after a fork, the parent's threads are gone."""

    def __init__(self) -> None:
        # One tuple, so that a thread that races another sees a process and an executor that belong together.
        self.started: tuple[int, ThreadPoolExecutor] | None = None

    def executor(self) -> ThreadPoolExecutor:
        started = self.started
        if started is None or started[0] != os.getpid():
            started = os.getpid(), ThreadPoolExecutor(MOST, "tamis", _mark)
            self.started = started
        return started[1]


_pool = _Pool()
_here = threading.local()


def _mark() -> None:
    _here.is_worker = True


def count_chunks(work: int) -> int:
    """The number of chunks for this much work, in array elements."""
    return min(MOST, _processors()) if work >= ENOUGH else 1


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Do all work in this thread, for an engine that has a process or a thread for each core."""
    if hasattr(_here, "is_worker"):
        yield
        return
    _here.is_worker = True
    try:
        with one_blas_thread:
            yield
    finally:
        del _here.is_worker


def run_together(tasks: Sequence[Callable[[], R]]) -> list[R]:
    """Run tasks at the same time, the first in this thread; return their results."""
    if hasattr(_here, "is_worker"):  # a worker that waits for other workers could deadlock
        return [task() for task in tasks]
    futures = [_pool.executor().submit(task) for task in tasks[1:]]
    return [task() for task in tasks[:1]] + [future.result() for future in futures]


def map_row_chunks(n: int, work: int, function: Callable[[int, int], R]) -> list[R]:
    """Call `function(start, stop)` for even chunks of n rows; return the results in order."""
    count = count_chunks(work)
    cuts = [n * k // count for k in range(count + 1)]
    return run_together([_bound(function, cuts[k], cuts[k + 1]) for k in range(count)])


def run_in_turns(pieces: int, work: int, function: Callable[[int], object]) -> None:
    """Call `function` with the number of each piece; a thread that is done with one takes the next."""
    left, lock = iter(range(pieces)), threading.Lock()

    def lane() -> None:
        while True:
            with lock:
                piece = next(left, None)
            if piece is None:
                return
            function(piece)

    run_together([lane] * min(count_chunks(work), max(pieces, 1)))


def map_ahead(function: Callable[[A], R], items: Iterable[A], finished: int = 0) -> Generator[R, None, None]:
    """Call `function` for each item, in threads; yield the results in order.

    Items are read as they are needed: at most one more than there are threads is unfinished. `finished` is
    the number of further results that may wait for an earlier one, so that no thread is idle while one item
    takes long. It is for results that need little memory.
    """
    count = min(MOST, _processors())
    if count == 1 or hasattr(_here, "is_worker"):
        yield from map(function, items)
        return
    most_unfinished = count + 1  # one more than there are threads, so that none waits for the reader
    free = threading.Semaphore(most_unfinished)
    waiting: deque[Future[R]] = deque()

    def call(item: A) -> R:
        try:
            return function(item)
        finally:
            free.release()

    try:
        for item in items:
            while waiting and (waiting[0].done() or len(waiting) >= most_unfinished + finished):
                yield waiting.popleft().result()
            free.acquire()
            waiting.append(_pool.executor().submit(call, item))
        while waiting:
            yield waiting.popleft().result()
    finally:
        for left in waiting:
            left.cancel()


def _bound(function: Callable[[int, int], R], start: int, stop: int) -> Callable[[], R]:
    return lambda: function(start, stop)


class _OneBlasThread(AbstractContextManager[None]):
    """Limits BLAS to one thread: its sums would depend on their number, and our threads would wait for them.

    (150 ms for a step of EM over 2e5 rows of 16, instead of 70.) The first thread to enter sets the limit,
    the last one to leave lifts it.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.limit = _controller().limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.limit.restore_original_limits()


one_blas_thread = _OneBlasThread()


def limit_blas(size: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for small square matrices, for which more threads take longer.

    (NumPy's and SciPy's libraries each have their own, which keep cores busy while they wait: solving for 100
    unknowns next to an eigendecomposition took 0.3 ms, or 90.)
    """
    return one_blas_thread if size <= _SMALL else nullcontext()


@lru_cache(maxsize=1)
def _controller() -> Any:
    return import_package("threadpoolctl", "a matrix product").ThreadpoolController()
