"""a store → a file that is put away, and back: backups, whole at every moment and safe while others read.

A backup is a store of its own, tidy and at rest: one file, which can be copied. It is written beside the
place it will have, and gets its name when all of it is on the disk.
"""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tamis_mail.store.database import PATIENCE, StoreError, explained, is_store
from tamis_mail.store.store import Store
from tamis_mail.store.upkeep import check

__all__ = ["backup", "restore"]


def backup(store: Store, path: str | os.PathLike[str]) -> None:
    """Write the store as it is now into one file, in the place of an older backup if there is one."""
    path = Path(path)
    if path.exists() and (not is_store(path) or path.samefile(store.path)):
        raise StoreError(
            f"{path} is not a backup of a store: give the path of one, or one where nothing is yet"
        )
    if Path(f"{path}-wal").exists():
        raise StoreError(f"{path} is in use as a store: give another path for the backup")
    if not path.parent.is_dir():
        raise StoreError(f"there is no folder {path.parent}: make it, or give another path for the backup")
    with _beside(path) as temporary, explained(store.path):
        store.connection.execute("VACUUM INTO ?", (str(temporary),))
        _put(temporary, path)


def restore(path: str | os.PathLike[str], store_path: str | os.PathLike[str]) -> None:
    """Make the store what it was when the backup was written.

    The backup is copied and checked before anything is touched. A store that can be opened is then written
    over in one transaction: processes that have it open go on, and see the new one from their next one
    on. One that is too damaged for that is kept beside, as `.damaged`.
    """
    path, store_path = Path(path), Path(store_path)
    if not is_store(path):
        raise StoreError(
            f"{path} is not a backup of a store: give the path of a file that `tamis store backup` wrote"
        )
    there = store_path.exists() and store_path.stat().st_size > 0
    if there and (not is_store(store_path) or path.samefile(store_path)):
        raise StoreError(
            f"{store_path} is not a store that {path} could replace: move it away, then restore again"
        )
    store_path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    with _beside(store_path) as temporary:
        with (
            explained(path),
            closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
        ):
            source.execute("VACUUM INTO ?", (str(temporary),))
        with Store(temporary) as copy:  # brings an older schema up to date, too
            faults = check(copy)
        if faults:
            raise StoreError(f"the backup {path} is damaged ({faults[0]}): restore another one")
        if not there or not _overwrite(temporary, store_path):
            for ending in (
                "-wal",
                "-shm",
                *([""] if there else []),
            ):  # a log that was left would be read into the new
                with suppress(FileNotFoundError):
                    Path(f"{store_path}{ending}").replace(f"{store_path}.damaged{ending}")
            _put(temporary, store_path)


def _overwrite(source: Path, target: Path) -> bool:
    """Copy all pages in one transaction; false if the target is too damaged for one."""

    def refuse_busy(result: int, _remaining: int, _total: int) -> None:
        if result in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreError(
                f"the store {target}: another process has been writing for {PATIENCE:.0f} seconds: try again"
            )

    with closing(sqlite3.connect(source)) as new, closing(sqlite3.connect(target, timeout=PATIENCE)) as old:
        try:
            new.backup(old, progress=refuse_busy)
        except sqlite3.DatabaseError as error:
            if "malformed" in str(error) or "not a database" in str(error):
                return False
            with explained(target):
                raise
    return True


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """An empty file that only its owner may read, on the same disk, gone at the end."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise StoreError(
            f"{path.parent} cannot be written ({error.strerror}): check its permissions"
        ) from error
    os.close(handle)
    try:
        yield Path(name)
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            Path(f"{name}{ending}").unlink(missing_ok=True)


def _put(temporary: Path, path: Path) -> None:
    """Give a finished file its name, on the disk before it is said to be there."""
    _sync(temporary)
    temporary.replace(path)
    _sync(path.parent)


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
