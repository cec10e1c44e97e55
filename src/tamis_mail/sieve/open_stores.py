"""Keep stores open from one job of a worker to the next, with a cache of their counts.

A worker is a thread or process that runs jobs; a job is one call of a function of the module `jobs`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from importlib import import_module

from tamis_mail.locations import is_address
from tamis_mail.store import Store

TYPE_CHECKING = False  # importing `typing` would take 3 ms
if TYPE_CHECKING:
    from tamis_mail.store.overlay import VerdictStore
    from tamis_mail.store.tables import RunCache


class OpenStore:
    """An open store with a cache of its runs, which `snapshot` clears if the store has changed."""

    def __init__(self, store: VerdictStore) -> None:
        self.store = store
        self.data_version = -1  # of the store when the cache was last cleared
        self.runs: RunCache = {}

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reads in the block see one state of the store."""
        with self.store.snapshot():
            data_version = self.store.data_version()
            if data_version != self.data_version:
                self.runs.clear()
                self.data_version = data_version
            yield


class _StoreAtPath:
    """The store at a path (`own`), and what verdicts read: this store, or an overlay of it and the site's."""

    def __init__(self, own: Store, judging: OpenStore) -> None:
        self.own = own
        self.judging = judging

    @classmethod
    def open_path(cls, path: str) -> _StoreAtPath:
        own = Store(path, readonly=True)
        try:
            overlay = None
            if is_address(path):  # the address of a store on a server may also name the site's store
                overlay = import_module("tamis_mail.store.overlay").open_overlay(own)
            return cls(own, OpenStore(overlay or own))
        except BaseException:  # the site's store cannot be opened
            own.close()
            raise

    def close(self) -> None:
        self.judging.store.close()
        self.own.close()


class _ThreadStores(threading.local):
    """The stores that a thread keeps open, by path; None if the thread closes stores after each job."""

    stores: dict[str, _StoreAtPath] | None = None


_thread = _ThreadStores()


@contextmanager
def keep_stores_open() -> Iterator[None]:
    """Keep the stores of this thread open until the end of the block, for all jobs of a worker."""
    _thread.stores = {}
    try:
        yield
    finally:
        for opened in _thread.stores.values():
            opened.close()
        _thread.stores = None


@contextmanager
def open_store(path: str) -> Iterator[_StoreAtPath]:
    """Open a store, or take the open one of this thread; all reads in the block see one state of it."""
    stores = _thread.stores
    if stores is None:
        opened = _StoreAtPath.open_path(path)
    elif path in stores:
        opened = stores[path]
    else:
        opened = stores[path] = _StoreAtPath.open_path(path)
    with closing(opened) if stores is None else nullcontext(), opened.judging.snapshot():
        yield opened
