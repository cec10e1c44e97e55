"""Split rows into chunks for threads. Kernels release the interpreter's lock, so they run in parallel.

No result depends on the number of threads: each chunk writes to its own rows of the result, or the chunks'
results are integers, which add up without rounding.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, TypeVar

from tamis.extras import import_package

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_THREADS = 4  # with more, memory bandwidth is the limit
MIN_PARALLEL_WORK = 1_000_000  # array elements; one thread takes 2 ms for them, and starting another 0.1 ms
_SMALL_MATRIX = 300  # rows: one thread decomposes matrices of up to this size as fast as two do


class _Pool:
    """Threads, started when first needed. A fork does not copy them: each forked process starts its own."""

    def __init__(self) -> None:
        # Process id and executor are one tuple, so that another thread never sees one without the other.
        self.started: tuple[int, ThreadPoolExecutor] | None = None

    def executor(self) -> ThreadPoolExecutor:
        """Return the executor of this process."""
        started = self.started
        if started is None or started[0] != os.getpid():
            started = (
                os.getpid(),
                ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="tamis", initializer=_work_alone),
            )
            self.started = started
        return started[1]


_pool = _Pool()
_this_thread = threading.local()  # has the attribute `works_alone` if the thread shall use no others


def _work_alone() -> None:
    """Let this thread do all its work by itself, without other threads."""
    _this_thread.works_alone = True


def count_chunks(work: int) -> int:
    """Return the number of chunks for this much work, in array elements: one in a thread that works alone."""
    if work < MIN_PARALLEL_WORK or hasattr(_this_thread, "works_alone"):
        return 1
    return min(MAX_THREADS, _processors())


def _processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Do all work in this thread, for an engine that has a process or a thread for each core."""
    if hasattr(_this_thread, "works_alone"):
        yield
        return
    _work_alone()
    try:
        with one_blas_thread:
            yield
    finally:
        del _this_thread.works_alone


def run_together(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run tasks at the same time, the first in this thread; return their results in order.

    In a thread of this module's pool, or under `use_one_thread`, they run one after the other.
    """
    if hasattr(_this_thread, "works_alone"):  # threads of the pool that wait for each other could deadlock
        return [task() for task in tasks]
    futures = [_pool.executor().submit(task) for task in tasks[1:]]
    return [task() for task in tasks[:1]] + [future.result() for future in futures]


def map_row_chunks(n: int, work: int, function: Callable[[int, int], Result]) -> list[Result]:
    """Call `function(start, stop)` for about equal chunks of n rows; return the results in order.

    `work` is the number of array elements in all n rows.
    """
    count = count_chunks(work)
    cuts = [n * k // count for k in range(count + 1)]
    return run_together([partial(function, *bounds) for bounds in pairwise(cuts)])


def run_in_turns(count: int, work: int, function: Callable[[int], object]) -> None:
    """Call `function(number)` for each number below `count`; a thread that is done takes the next number.

    `work` is the number of array elements of all calls.
    """
    numbers, lock = iter(range(count)), threading.Lock()

    def take_numbers() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            function(number)

    run_together([take_numbers] * min(count_chunks(work), max(count, 1)))


def map_ahead(
    function: Callable[[Item], Result], items: Iterable[Item], max_waiting: int = 0
) -> Generator[Result, None, None]:
    """Call `function` for each item, in threads; yield the results in order.

    With n processors (4 if there are more), at most n + 1 items are unfinished, and one more item was read.
    `max_waiting` is the number of further results that may wait for an earlier one, so that no thread is idle
    while one item takes long; it should be small if results need much memory.
    """
    count = min(MAX_THREADS, _processors())
    if count == 1 or hasattr(_this_thread, "works_alone"):
        yield from map(function, items)
        return
    max_unfinished = count + 1  # so that no processor waits until the caller takes a result
    free = threading.Semaphore(max_unfinished)
    waiting: deque[Future[Result]] = deque()

    def call(item: Item) -> Result:
        try:
            return function(item)
        finally:
            free.release()

    try:
        for item in items:
            while waiting and (waiting[0].done() or len(waiting) >= max_unfinished + max_waiting):
                yield waiting.popleft().result()
            free.acquire()
            waiting.append(_pool.executor().submit(call, item))
        while waiting:
            yield waiting.popleft().result()
    finally:  # the caller may have stopped, or a call may have failed
        for future in waiting:
            future.cancel()


class _OneBlasThread(AbstractContextManager[None]):
    """A context that limits BLAS to one thread while any of our threads is inside.

    Otherwise the sums of BLAS would depend on the number of its threads, which would also compete with ours:
    a step of EM over 200,000 rows of 16 columns would take 150 ms instead of 70.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0  # `inside` counts the threads in the context
        self.limit: Any = None  # of threadpoolctl, while the context is not empty

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
    """Return a context that limits BLAS to one thread if `size`, the rows of a square matrix, is at most 300.

    With small matrices, more threads take longer. The BLAS of NumPy and that of SciPy each have threads of
    their own, which keep cores busy while they wait: to solve for 100 unknowns after an eigendecomposition
    took 90 ms with these, and 0.3 ms with one thread.
    """
    return one_blas_thread if size <= _SMALL_MATRIX else nullcontext()


@lru_cache(maxsize=1)
def _controller() -> Any:
    # threadpoolctl finds the BLAS libraries of this process, and limits the number of their threads.
    return import_package("threadpoolctl", user="a matrix product").ThreadpoolController()
