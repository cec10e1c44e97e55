"""Threads that run jobs in this process and return the results in order.

The compiled core reads messages without the interpreter's lock, and NumPy computes without it. So threads use
all cores, and no process is started and no message or result is copied.
"""

import atexit
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from tamis_mail.sieve import jobs

__all__ = ["Threads"]

_Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Threads:
    """Threads that live as long as this object."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(size)]
        for thread in self._threads:
            thread.start()
        # A thread that is in the core when the interpreter ends would end the process by a signal.
        atexit.register(self.close, at_once=True)

    def close(self, *, at_once: bool = False) -> None:
        """Stop the threads, after all jobs or after their current ones."""
        atexit.unregister(self.close)
        while at_once:
            try:
                self._queue.get_nowait()
            except Empty:
                break
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def map(self, job: str | Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield job(*input) for each input, in order; a few inputs are processed ahead.

        A job is a function, or the name of a function in `jobs`.
        """
        function = getattr(jobs, job) if isinstance(job, str) else job
        waiting: deque[Future[Any]] = deque()
        for arguments in inputs:
            future: Future[Any] = Future()
            self._queue.put((future, function, arguments))
            waiting.append(future)
            if len(waiting) > 2 * self._size:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _work(self) -> None:
        with jobs.keep_stores_open():
            while (item := self._queue.get()) is not None:
                future, function, arguments = item
                try:
                    future.set_result(function(*arguments))
                except BaseException as error:  # noqa: BLE001 (raised where the result is asked for)
                    future.set_exception(error)
