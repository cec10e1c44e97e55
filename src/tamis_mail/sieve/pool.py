"""Worker processes that run jobs and return the results in order.

Without the compiled core, and for versions of the tokens that it does not read, Python parses the mail, and
the interpreter runs one thread at a time; so processes are used (otherwise threads:
`tamis_mail.sieve.threads`). The processes run `tamis_mail.sieve.worker`. They are not made by
`multiprocessing`, which would import the caller's script again in each of them.
"""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from tamis_mail.sieve.pipe import receive, send


class WorkerError(Exception):
    """A worker process that ended before its job was done."""


class Pool:
    """Worker processes that live as long as the pool."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._threads = ThreadPoolExecutor(size)
        self._workers: list[subprocess.Popen[bytes]] = []
        for _ in range(size):  # now, not with the first job: they import modules while messages are read
            worker = _start()
            self._workers.append(worker)
            self._idle.put(worker)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None)

    def close(self, *, at_once: bool = False) -> None:
        """Stop the workers after the jobs that they are running; with `at_once`, kill them."""
        for worker in self._workers:
            if at_once:
                worker.kill()
            elif worker.stdin:
                with suppress(OSError):
                    worker.stdin.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.wait()
            for stream in (worker.stdin, worker.stdout):
                if stream:
                    with suppress(OSError):
                        stream.close()

    def map(self, job: str | Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield job(*input) for each input, in order; some inputs are processed before the caller needs them.

        A job is a function, or the name of a function in `tamis_mail.sieve.jobs`, which this process then
        need not import.
        """
        waiting: deque[Future[Any]] = deque()
        for arguments in inputs:
            waiting.append(self._threads.submit(self._run_job, job, arguments))
            if len(waiting) > 2 * self._size:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _run_job(self, job: str | Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        worker = self._idle.get()
        try:
            if worker.stdin is None or worker.stdout is None:
                raise AssertionError("workers are started with pipes")
            send(worker.stdin, (job, arguments))
            succeeded, result_or_error = receive(worker.stdout)
        except (EOFError, OSError, ValueError) as error:
            raise WorkerError(
                "a worker process was killed, perhaps for lack of memory: "
                "nothing is half-written, run the command again"
            ) from error
        finally:
            self._idle.put(worker)
        if not succeeded:
            raise result_or_error
        return result_or_error


def _start() -> subprocess.Popen[bytes]:
    """Start a worker with the `sys.path` of this process."""
    # Jobs make no reference cycles, and garbage collection would take a tenth of the run time.
    imports = "from tamis_mail.sieve.worker import main"
    program = f"import gc, sys; gc.disable(); sys.path[:] = {sys.path!r}; {imports}; main()"
    # -P: the current folder is not added to `sys.path`. -S: nor are those that the module `site` would add.
    command = [sys.executable, "-P", "-S", "-c", program]
    # There is one worker per core, and NumPy would start one thread per core in each of them.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
