"""Run work with the store and the catalog in a few threads, outside the event loop.

Each thread has connections of its own, which it opens when it is first used. Everything that changes the
store runs in the one writer thread, in the order in which it was submitted. Work that takes seconds (figures)
or minutes (imports of mailboxes) has threads of its own, so that a page waits for neither.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tamis_mail.catalog import Catalog
from tamis_mail.sieve import Sieve

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections of one thread."""

    sieve: Sieve
    catalog: Catalog

    def close(self) -> None:
        self.catalog.close()
        self.sieve.close()


class Threads:
    """Runs functions that take `Connections` in threads."""

    def __init__(self, store: Path, *, readers: int = 2) -> None:
        self._store = store
        self._lock = threading.Lock()
        # By executor, each of which has one thread: device and inode of the store, and the connections.
        self._connections: dict[ThreadPoolExecutor, tuple[tuple[int, int] | None, Connections]] = {}
        self._writer = ThreadPoolExecutor(1, "writer")
        self._readers = [ThreadPoolExecutor(1, f"reader-{number}") for number in range(readers)]
        self._background = ThreadPoolExecutor(1, "background")
        self._analyst = ThreadPoolExecutor(1, "analyst")
        self._next_reader = 0
        self._is_closing = False

    async def read(self, work: Callable[[Connections], T]) -> T:
        """Run work that changes nothing in the store; it may write to the catalog."""
        return await asyncio.wrap_future(self.submit_reading(work))

    async def write(self, work: Callable[[Connections], T]) -> T:
        return await asyncio.wrap_future(self.submit_writing(work))

    def submit_reading(self, work: Callable[[Connections], T]) -> "Future[T]":
        """Start work in the next reader thread."""
        with self._lock:
            self._next_reader = (self._next_reader + 1) % len(self._readers)
            executor = self._readers[self._next_reader]
        return executor.submit(self._run, executor, work, readonly=True)

    def submit_writing(self, work: Callable[[Connections], T]) -> "Future[T]":
        return self._writer.submit(self._run, self._writer, work, readonly=False)

    def submit_analysis(self, work: Callable[[Connections], T]) -> "Future[T]":
        """Start work that takes seconds and changes nothing in the store, after other work of this kind."""
        return self._analyst.submit(self._run, self._analyst, work, readonly=True)

    def submit_background(self, work: Callable[[Connections], T]) -> "Future[T]":
        """Start long work, after other long work; it changes the store only by `submit_writing`."""
        return self._background.submit(self._run, self._background, work, readonly=True)

    def close(self) -> None:
        """Finish work that has begun, drop waiting work, and close all connections in their own threads."""
        self._is_closing = True
        for executor in (self._background, self._analyst, *self._readers, self._writer):
            executor.submit(self._close_connections, executor).result()
            executor.shutdown()

    def _run(self, executor: ThreadPoolExecutor, work: Callable[[Connections], T], *, readonly: bool) -> T:
        """Run work with the connections of a thread; a store that was replaced is opened again."""
        if self._is_closing:
            raise RuntimeError("the server is stopping")
        file_identity, connections = self._connections.get(executor, (None, None))
        if connections is None or file_identity != self._identify_store():
            self._close_connections(executor)
            sieve = Sieve.open(self._store, create=not readonly, readonly=readonly)
            connections = Connections(sieve, Catalog.of(self._store))
            self._connections[executor] = (self._identify_store(), connections)
        return work(connections)

    def _close_connections(self, executor: ThreadPoolExecutor) -> None:
        """Close the connections of a thread. Errors are ignored: the connections are not used any more."""
        _, connections = self._connections.pop(executor, (None, None))
        if connections is not None:
            with suppress(Exception):
                connections.close()

    def _identify_store(self) -> tuple[int, int] | None:
        """Return device and inode of the file of the store; None if there is no file."""
        try:
            status = self._store.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino
