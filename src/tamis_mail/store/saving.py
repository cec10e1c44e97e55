"""Back up a store while other processes use it, and restore it.

A backup is one file, which can be copied: a compact store without SQLite's write-ahead log. It is
written under a temporary name and renamed when it is on disk.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tamis_mail.files import Temporary, is_there, temporary_beside
from tamis_mail.locations import is_address
from tamis_mail.store.database import (
    BUSY_SECONDS,
    MAINTENANCE_SECONDS,
    Connection,
    StoreError,
    explain_errors,
    is_store,
    refuse_other_schema,
)
from tamis_mail.store.maintenance import check
from tamis_mail.store.store import Store

# The tables of counts, messages and weights, which an upgrade of the tokens replaces.
_LEARNED_TABLES = ("label", "source", "journal", "run", "shelf", "bundle", "message", "coefficient")
# The settings that belong to these tables. The record of bogofilter's list belongs to the table `word_list`,
# which stays; without such a table, the counts of bogofilter were added to the others, by an older tamis.
_LEARNED_SETTINGS = (
    "name IN ('era', 'rule', 'tokens', 'weights') OR (name LIKE 'imported %' "
    "AND NOT (value = 'bogofilter' AND EXISTS (SELECT 1 FROM main.word_list)))"
)


def backup(store: Store, path: str | os.PathLike[str]) -> None:
    """Write the present contents of a store to a file; replace an older backup there."""
    path = Path(os.path.realpath(path))  # the target of a link is replaced, not the link
    if fault := find_backup_fault(store, path):
        raise StoreError(f"{path} {fault}: give the path of a backup, or a new path")
    if not path.parent.is_dir():
        raise StoreError(f"there is no folder {path.parent}: make it, or give another path for the backup")
    with _create_temporary(path) as temporary, explain_errors(store.path):
        store.connection.execute("VACUUM INTO ?", (str(temporary.path),))
        temporary.move_to(path)


def find_backup_fault(store: Store, path: Path) -> str | None:
    """Describe what is at a path and must not be replaced by a backup; return None if nothing is."""
    if path.exists() and (not is_store(path) or path.samefile(store.path)):
        return "is not a backup of a store"
    return "is in use as a store" if Path(f"{path}-wal").exists() else None


def restore(path: str | os.PathLike[str], store_path: str | os.PathLike[str]) -> None:
    """Restore a store from a backup.

    The backup is copied and checked first. The contents of an existing store are then overwritten in one
    transaction: processes that have it open see the new contents in their next transaction. A store that is
    too damaged for that is renamed: `.damaged` is appended to its name, and an older file of that name is
    replaced.
    """
    if is_address(store_path):
        raise StoreError(
            f"{store_path} is on a server, and a backup is restored to a file: copy the backup there "
            "(tamis store copy --replace BACKUP ADDRESS)"
        )
    path, store_path = Path(path), Path(os.path.realpath(store_path))
    if not is_store(path):
        raise StoreError(
            f"{path} is not a backup of a store: give the path of a file that `tamis store backup` wrote"
        )
    # An empty file counts as no store. `is_there` raises an error if existence cannot be known.
    exists = is_there(store_path) and (not store_path.is_file() or store_path.stat().st_size > 0)
    if exists and path.samefile(store_path):
        raise StoreError(
            f"{store_path} is not a store that {path} could replace: they are the same file; give another "
            "path"
        )
    if exists and not is_store(store_path):
        raise StoreError(
            f"{store_path} is not a store that {path} could replace: move it away, then restore again"
        )
    store_path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    with _create_temporary(store_path) as temporary:
        with (
            explain_errors(path),
            closing(
                sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, factory=Connection)
            ) as source,
        ):
            refuse_other_schema(source, path)
            with source.limit_statements(MAINTENANCE_SECONDS):
                source.execute("VACUUM INTO ?", (str(temporary.path),))
        with Store(temporary.path) as copy:  # also upgrades an older schema
            faults = check(copy)
        if faults:
            raise StoreError(f"the backup {path} is damaged ({faults[0]}): restore another one")
        if not exists or not _overwrite(temporary.path, store_path):
            # SQLite would apply a leftover write-ahead log (-wal) to the new file: move it away with its
            # index (-shm) and the store.
            for ending in ("-wal", "-shm", *([""] if exists else [])):
                with suppress(FileNotFoundError):
                    Path(f"{store_path}{ending}").replace(f"{store_path}.damaged{ending}")
            temporary.move_to(store_path)


def replace_contents(store: Store, source: Path, data_version: int) -> None:
    """Replace the learned data of `store` with those of the store at `source`, in one transaction.

    Settings and lists stay, except what belongs to the old counts: the tuned rule, the version of the tokens,
    the number of prunings and the record of imports. The fitted weights are those of the other store.
    `data_version` is the value of `store.data_version()` when the caller read the table `journal`; StoreError
    is raised, and nothing is changed, if another process has changed the store since.
    """
    connection = store.connection
    with explain_errors(store.path):
        connection.execute("ATTACH DATABASE ? AS new", (str(source),))
        try:
            with store.transaction():
                if store.data_version() != data_version:
                    raise StoreError(
                        f"the store {store.name} was changed by another process meanwhile, and was left as "
                        "it is: run the command again"
                    )
                for table in _LEARNED_TABLES:
                    connection.execute(f"DELETE FROM main.{table}")
                    connection.execute(f"INSERT INTO main.{table} SELECT * FROM new.{table}")
                connection.execute(f"DELETE FROM main.setting WHERE {_LEARNED_SETTINGS}")
                connection.execute(
                    "INSERT INTO main.setting SELECT * FROM new.setting WHERE name = 'weights'"
                )
        finally:
            connection.execute("DETACH DATABASE new")


def _overwrite(source: Path, target: Path) -> bool:
    """Copy all pages in one transaction; return False, and change nothing, if the target is too damaged."""

    def refuse_busy(result: int, _remaining: int, _total: int) -> None:
        if result in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreError(
                f"the store {target}: waited {BUSY_SECONDS:.0f} seconds for another process that is writing: "
                "try again"
            )

    with (
        closing(sqlite3.connect(source)) as new,
        closing(sqlite3.connect(target, timeout=BUSY_SECONDS)) as old,
    ):
        try:
            new.backup(old, progress=refuse_busy)
        except sqlite3.DatabaseError as error:
            if "malformed" in str(error) or "not a database" in str(error):
                return False
            with explain_errors(target):
                raise
    return True


@contextmanager
def _create_temporary(path: Path) -> Iterator[Temporary]:
    try:
        with temporary_beside(path) as temporary:
            yield temporary
    except OSError as error:
        raise StoreError(
            f"{path.parent} cannot be written ({error.strerror}): check its permissions"
        ) from error
