"""Opening files that are stores, will be, were, or never were, and what is said of those that are no use."""

import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tamis_mail.store import Store, StoreError, database, is_store
from tamis_mail.store.maintenance import check
from tests.mail.store.memory import expected, learn, remembered
from tests.mail.strangers import as_nobody


def test_a_new_store_is_known_as_one_at_once_and_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store"
    with Store(path) as store:
        assert is_store(path)  # while it is open, and all of its tables are still in the log
        with Store(path) as other:
            assert other.labels() == store.labels() == []
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not Path(f"{path}-wal").exists()


def test_a_store_that_was_copied_while_its_tables_were_in_the_log_is_a_store(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(store, [1])
        for ending in ("", "-wal"):  # what a process that is killed leaves behind
            shutil.copy(f"{store.path}{ending}", f"{tmp_path / 'left'}{ending}")
    with Store(tmp_path / "left") as left:
        assert remembered(left) == expected({1: "spam"})


def test_many_processes_may_make_the_same_store(tmp_path: Path) -> None:
    start = time.time() + 0.7
    code = f"""
import time
from tamis_mail.store import Store
while time.time() < {start}:
    pass
Store({str(tmp_path / "store")!r}).close()
"""
    arguments = [sys.executable, "-c", code]
    children = [subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [child.communicate()[1] for child in children] == [""] * 4
    with Store(tmp_path / "store") as store:
        assert check(store) == []


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with Store(tmp_path / "store") as store:
        learn(store, [1])
    assert is_store(tmp_path / "store")


@pytest.mark.parametrize("content", [b"From me\n\nHello", b"x" * 10_000, b"SQLite format 2\0" + bytes(100)])
def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mail"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is not a tamis store: give the path"):
        Store(path)
    assert path.read_bytes() == content
    assert not is_store(path)
    assert not is_store(tmp_path / "nothing")


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photo (name TEXT)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not a tamis store"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("options", [{"create": False}, {"readonly": True}])
def test_what_is_not_there_is_not_made_unless_asked_for(tmp_path: Path, options: dict[str, bool]) -> None:
    with pytest.raises(StoreError, match=r"there is no store at .*: learn some mail first"):
        Store(tmp_path / "store", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="check its permissions"):
        Store(tmp_path)


def test_a_store_of_a_newer_tamis_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store(path) as store:
        store.connection.execute("INSERT INTO migration VALUES ('9999-from-tomorrow', 0)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer tamis \(9999-from-tomorrow\): upgrade this one"):
        Store(path)
    assert path.read_bytes() == before


def test_migrations_are_applied_once_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    with Store(path) as store:
        learn(store, [1])
    more = {
        **database.MIGRATIONS,
        "9999-a-test": "CREATE TABLE test (a INTEGER); INSERT INTO test VALUES (1);",
    }
    monkeypatch.setattr(database, "MIGRATIONS", more)
    for _ in range(2):
        with Store(path) as store:
            assert store.connection.execute("SELECT * FROM test").fetchall() == [(1,)]
            names = store.connection.execute("SELECT name FROM migration ORDER BY name").fetchall()
            assert [name for (name,) in names] == list(more)
            assert remembered(store) == expected({1: "spam"})


def test_the_digest_of_the_schema_is_that_of_all_migrations() -> None:
    """After a new migration, `_NEWEST_OBJECTS` is what this test computes."""
    objects = database._list_expected_objects(tuple(database.MIGRATIONS.items()))
    assert database._digest_objects(objects) == database._NEWEST_OBJECTS


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    Store(path).close()
    with monkeypatch.context() as patch:
        wrong = {**database.MIGRATIONS, "9999-wrong": "CREATE TABLE test (a); INSERT INTO nowhere VALUES (1)"}
        patch.setattr(database, "MIGRATIONS", wrong)
        with pytest.raises(StoreError, match="nowhere"):
            Store(path)
    with Store(path) as store:
        assert store.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'test'").fetchone() is None


def test_an_older_store_without_write_permission_is_read_as_if_later_tables_were_empty(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = open_folder / "store"
    with Store(path) as store:
        learn(store, [1])
    before = path.read_bytes()
    more = {**database.MIGRATIONS, "9999-a-test": "CREATE TABLE test (a INTEGER PRIMARY KEY) WITHOUT ROWID;"}
    monkeypatch.setattr(database, "MIGRATIONS", more)
    path.chmod(0o444)
    open_folder.chmod(0o555)

    def read() -> object:
        with Store(path, readonly=True) as store:
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                store.connection.execute("INSERT INTO test VALUES (1)")
            rows = store.connection.execute("SELECT * FROM test").fetchall()
            return rows, remembered(store), check(store)

    answer = as_nobody(read)
    open_folder.chmod(0o755)
    assert answer == ([], expected({1: "spam"}), [])
    assert path.read_bytes() == before


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with Store(tmp_path / "store") as store:
        learn(store, range(60))
    return tmp_path / "store"


def test_a_damaged_page_is_found_and_said(filled: Path) -> None:
    dice = random.Random(146)
    with filled.open("r+b") as file:
        for page in range(1, filled.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(dice.randbytes(512))
    with (
        pytest.raises(StoreError, match=r"damaged: restore a backup \(tamis store restore\)"),
        Store(filled) as store,
    ):
        learn(store, [100])


def test_a_page_that_is_damaged_is_a_fault_that_check_finds(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'journal'").fetchone()
    with filled.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 64)
    with Store(filled) as store:
        assert check(store)


def test_a_file_that_was_cut_off_is_damaged(filled: Path) -> None:
    os.truncate(filled, filled.stat().st_size // 8192 * 4096)
    with pytest.raises(StoreError, match="damaged: restore a backup"), Store(filled) as store:
        learn(store, [100])


def test_when_the_disk_is_full_nothing_is_half_written(filled: Path) -> None:
    """SQLite gives the same error when a database may not grow as when the disk is full."""
    with Store(filled) as store:
        before = remembered(store)
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="the disk is full: free some space and do it again"):
            learn(store, range(1000, 1400))
        assert remembered(store) == before
        assert check(store) == []
        store.connection.execute("PRAGMA max_page_count = 1000000")
        learn(store, range(1000, 1010))
        assert check(store) == []


def test_a_store_in_a_folder_that_may_only_be_read_is_read(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what `access` answers: root may write anywhere, so permissions would prove nothing here."""
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    before = {path.name for path in filled.parent.iterdir()}
    with pytest.raises(StoreError, match="cannot be written: check its permissions"):
        Store(filled)
    with Store(filled, readonly=True) as store:
        assert remembered(store) == expected(dict.fromkeys(range(60), "spam"))
        with pytest.raises(StoreError, match="cannot be written"):
            learn(store, [100])
        assert {path.name for path in filled.parent.iterdir()} == before


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may search (pytest's own is its owner's)."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_readonly_store_behind_a_link_is_read_with_its_log(open_folder: Path) -> None:
    real, link = open_folder / "real", open_folder / "link"
    real.mkdir()
    with Store(real / "store") as store:
        learn(store, range(50))
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        learn(store, [50])  # in the log only
        link.symlink_to(real / "store")
        for path in (*real.iterdir(), real):
            path.chmod(0o555 if path.is_dir() else 0o444)

        def messages() -> list[int]:
            with Store(link, readonly=True) as opened:
                return [label.messages for label in opened.labels()]

        assert as_nobody(messages) == [51]
        real.chmod(0o755)


def test_a_store_in_a_folder_that_may_not_be_searched_is_not_said_to_be_missing(open_folder: Path) -> None:
    Store(open_folder / "closed" / "store").close()
    (open_folder / "closed").chmod(0o000)
    answer = as_nobody(lambda: Store(open_folder / "closed" / "store", readonly=True).labels())
    (open_folder / "closed").chmod(0o700)
    assert isinstance(answer, str)
    assert answer.startswith("StoreError: ")
    assert "cannot be read (Permission denied)" in answer


def test_an_empty_file_that_may_not_be_written_is_no_store(open_folder: Path) -> None:
    path = open_folder / "empty"
    path.touch(0o444)
    answer = as_nobody(lambda: Store(path, readonly=True).labels())
    assert answer == f"StoreError: there is no store at {path}: learn some mail first (tamis learn --help)"


@pytest.mark.parametrize("ending", ["", "-wal", "-journal"])
def test_a_fifo_is_no_store_and_is_not_waited_for(tmp_path: Path, ending: str) -> None:
    if ending:
        Store(tmp_path / "store").close()
    os.mkfifo(tmp_path / f"store{ending}")
    with pytest.raises(StoreError, match="is a FIFO, expected a file"):
        Store(tmp_path / "store")
    assert is_store(tmp_path / "store") is bool(ending)


@pytest.mark.parametrize("name", [":memory:", "file:store", "file::memory:?cache=shared"])
def test_names_that_sqlite_gives_a_meaning_of_its_own_are_no_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="expected a path: write it in full") as error:
        Store(name)
    assert list(tmp_path.iterdir()) == []
    full = str(error.value).rpartition(" as ")[2]
    with Store(full) as store:
        learn(store, [1])
    with Store(full) as store:
        assert remembered(store) == expected({1: "spam"})


def test_an_interrupt_while_sqlite_asks_for_the_time_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store(path):
        pass
    with closing(database.connect(path)) as connection:

        def interrupt() -> bool:
            raise KeyboardInterrupt

        connection.set_progress_handler(interrupt, 100)
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        with pytest.raises(KeyboardInterrupt), database.explain_errors(path):
            connection.execute(endless)
        with (
            pytest.raises(KeyboardInterrupt),
            suppress(sqlite3.OperationalError),
            database.reraise_interrupts(),
        ):
            connection.execute(endless)


def test_a_store_that_is_opened_to_be_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store(path) as store:
        learn(store, [1], "ham")
    with Store(path, readonly=True) as store:
        with pytest.raises(StoreError, match="cannot be written"):
            learn(store, [2], "spam")
        assert len(list(store.entries())) == 1
