"""Worker processes, one per core, that run jobs and return the results in order.

Parsing mail is Python code, and the interpreter runs one thread at a time; so processes are used. They run
`tamis_mail.sieve.worker` and are not made by `multiprocessing`, which would run the caller's script again
in each of them.
"""

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any

__all__ = ["Pool", "WorkerError", "count_cores"]


def count_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def send(stream: IO[bytes], value: object) -> None:
    """Write one value to the other process."""
    data = pickle.dumps(value, protocol=5)
    stream.write(len(data).to_bytes(8, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one value from the other process; EOFError if it has ended."""
    size = int.from_bytes(_read_exactly(stream, 8), "little")
    return pickle.loads(_read_exactly(stream, size))  # the other process is our child or our parent


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the other process has ended")
    return data


class WorkerError(Exception):
    """A worker process that ended before its job was done."""


class Pool:
    """Worker processes that live as long as the pool."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._threads = ThreadPoolExecutor(size)
        self._workers: list[subprocess.Popen[bytes]] = []
        for _ in range(size):  # started at once, so that they load while the first messages are read
            worker = _start()
            self._workers.append(worker)
            self._idle.put(worker)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None)

    def close(self, *, at_once: bool = False) -> None:
        """Stop the workers, after their current jobs or at once."""
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
        """Yield job(*input) for each input, in order; a few inputs are processed ahead.

        A job is a function, or the name of one of `jobs`, which this process then need not import.
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
            succeeded, result = receive(worker.stdout)
        except (EOFError, OSError, ValueError) as error:
            raise WorkerError(
                "a worker process was killed, perhaps for lack of memory: "
                "nothing is half-written, run the command again"
            ) from error
        finally:
            self._idle.put(worker)
        if not succeeded:
            raise result
        return result


def _start() -> subprocess.Popen[bytes]:
    """Start a worker with our module path, without the current folder."""
    begin = f"import sys; sys.path[:] = {sys.path!r}; from tamis_mail.sieve.worker import main; main()"
    command = [sys.executable, "-P", "-S", "-c", begin]  # our module path is complete without `site`
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
