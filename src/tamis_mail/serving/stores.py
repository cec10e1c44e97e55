"""Stores that a long-running process keeps open, and descriptions of their errors for a log."""

import os
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from tamis_mail.locations import is_address
from tamis_mail.sieve import Sieve
from tamis_mail.store import has_store

_MAX_STORES = 16  # stores that are kept open; each has some megabytes of cached counts


class OpenStores:
    """Stores by path, for one thread.

    A store is opened again if another file has replaced it, or if it has changed and was opened without write
    permission while no process had it open for writing: it is then read without locks, and changes are not
    seen (`Store.sees_changes`).
    """

    def __init__(self, *, readonly: bool) -> None:
        self._readonly = readonly
        # The numbers of `_identify` when the store was opened, and the store; the last used is the last.
        self._sieves: OrderedDict[Path, tuple[tuple[int, ...], Sieve]] = OrderedDict()

    def open(self, path: Path) -> Sieve:
        """Return the open store of a path; a missing store is created, or raises an error if `readonly`."""
        opened = self._sieves.get(path)
        if opened is not None and opened[0] == _identify(path, opened[1]):
            self._sieves.move_to_end(path)
            return opened[1]
        self.drop(path)
        sieve = Sieve.open(path, create=not self._readonly, readonly=self._readonly)
        self._sieves[path] = (_identify(path, sieve), sieve)
        if len(self._sieves) > _MAX_STORES:
            self.drop(next(iter(self._sieves)))
        return sieve

    def has_store(self, path: Path) -> bool:
        """Whether there is a store at a path.

        A store on a server that is open here is not asked: if it has gone, reading it raises an error.
        """
        return (path in self._sieves and is_address(path)) or has_store(path)

    def drop(self, path: Path) -> None:
        """Close a store; errors are ignored, because it is not used any more."""
        opened = self._sieves.pop(path, None)
        if opened is not None:
            with suppress(Exception):
                opened[1].close()

    def flush(self) -> None:
        """Write the recorded verdicts to their logs; errors are ignored."""
        for _, sieve in self._sieves.values():
            with suppress(Exception):
                sieve.flush_log()

    def close(self) -> None:
        for path in list(self._sieves):
            self.drop(path)


def describe_fault(error: Exception) -> str | None:
    """Describe an error of a store or of the system in one line; return None for an unexpected error.

    The text of an unexpected error may quote a message, and this line is logged.
    """
    if isinstance(error, OSError) or type(error).__module__.startswith("tamis_mail."):
        return " ".join(str(error).split())
    return None


def _identify(path: Path, sieve: Sieve) -> tuple[int, ...]:
    """Return numbers that change when the store must be opened again; none if there is no file at the path.

    They change when another file replaces the store and, if the open store does not see changes, when its
    file changes.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 (once per batch of messages)
    except FileNotFoundError:
        return ()
    if sieve.store.sees_changes:
        return status.st_dev, status.st_ino
    has_write_ahead_log = os.path.exists(f"{path}-wal")  # noqa: PTH110
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, has_write_ahead_log
