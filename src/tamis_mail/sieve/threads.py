"""Run jobs in threads of this process and return the results in order.

The compiled core and NumPy release the interpreter's lock while they read messages and compute. So threads
use all cores, and neither messages nor results are copied to other processes.
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from tamis.compiled import core
from tamis_mail.sieve.executor import find_job
from tamis_mail.sieve.open_stores import keep_stores_open

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from typing import Any

    _Job = tuple["_Result", Callable[..., Any], tuple[Any, ...]]


# The message of the error that a reader of results gets, who would otherwise wait without end.
_STOPPED = (
    "the job was not run: its threads were stopped, because the filter was closed or another job failed"
)


class _Result:
    """The result of a job, for which one thread waits. Importing `concurrent.futures` would take 4 ms."""

    __slots__ = ("_error", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = Lock()  # held until the job is done
        self._lock.acquire()
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Run the job and keep its result or its error."""
        try:
            self._value = function(*arguments)
        except BaseException as error:  # noqa: BLE001 (raised where the result is asked for)
            self._error = error
        self._lock.release()

    def drop(self) -> None:
        """Record that the job will not run."""
        self._error = RuntimeError(_STOPPED)
        self._lock.release()

    def wait(self) -> Any:
        """Wait for the end of the job; return its result or raise its error."""
        self._lock.acquire()
        if self._error is not None:
            raise self._error
        return self._value


class Threads:
    """Threads that live as long as this object."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._is_closed = False
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(size)]
        for thread in self._threads:
            thread.start()
        # If a thread is in the core when the interpreter ends, the process ends by a signal.
        atexit.register(self.close, at_once=True)

    def close(self, *, at_once: bool = False) -> None:
        """Stop the threads: after all jobs or, with `at_once`, after those that are running.

        To read the result of a job that did not run raises RuntimeError.
        """
        atexit.unregister(self.close)
        self._is_closed = True
        while at_once:
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
            if item is not None:
                item[0].drop()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def map(self, job: str | Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield job(*input) for each input, in order; a few inputs are processed ahead.

        A job is a function, or the name of a function in `jobs`.
        """
        function = find_job(job)
        waiting: deque[_Result] = deque()
        for arguments in inputs:
            if self._is_closed:
                raise RuntimeError(_STOPPED)
            result = _Result()
            self._queue.put((result, function, arguments))
            waiting.append(result)
            if len(waiting) > 2 * self._size:
                yield waiting.popleft().wait()
        while waiting:
            yield waiting.popleft().wait()

    def _work(self) -> None:
        if core is not None:
            # If `keep_freed_memory` was called (surfaces/cli/sources.py), the next 31 MB of this thread lie
            # in pages of 2 MB, which the system makes faster than pages of 4 KB.
            core.mail.reserve_large_pages()
        with keep_stores_open():
            while (item := self._queue.get()) is not None:
                result, function, arguments = item
                result.run(function, arguments)
