"""Backups: whole, private, and put back while others read."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tamis_mail.store import Store, StoreError, is_store, saving
from tamis_mail.store.maintenance import check, status
from tests.mail.store.memory import careless, expected, learn, remembered

FIRST = expected(dict.fromkeys(range(20), "spam"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        learn(careless(store), range(20))
        yield store


@pytest.fixture
def backup(store: Store, tmp_path: Path) -> Path:
    saving.backup(store, tmp_path / "backup")
    return tmp_path / "backup"


def test_a_backup_is_a_store_of_its_own_that_nobody_else_may_read(backup: Path) -> None:
    assert is_store(backup)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with Store(backup) as copy:
        assert remembered(copy) == FIRST
        assert check(copy) == []
        assert copy.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_newer_backup_takes_the_place_of_an_older(store: Store, backup: Path) -> None:
    learn(store, range(20, 25))
    with Store(store.path) as writer, writer.transaction():  # a backup does not wait for one who writes
        saving.backup(store, backup)
    with Store(backup) as copy:
        assert remembered(copy) == expected(dict.fromkeys(range(25), "spam"))
    assert not [path for path in backup.parent.iterdir() if path.name.startswith(".")]


def test_a_backup_never_takes_the_place_of_something_else(store: Store, tmp_path: Path) -> None:
    letter = tmp_path / "letter"
    letter.write_text("Dear all")
    for path in (letter, store.path):
        with pytest.raises(StoreError, match="is not a backup of a store: give the path of a backup"):
            saving.backup(store, path)
    assert letter.read_text() == "Dear all"
    with Store(tmp_path / "used") as used:
        learn(used, [1])
        with pytest.raises(StoreError, match="is in use as a store"):
            saving.backup(store, used.path)
    with pytest.raises(StoreError, match="there is no folder"):
        saving.backup(store, tmp_path / "no" / "folder")


def test_a_store_is_put_back_while_others_have_it_open(store: Store, backup: Path) -> None:
    learn(store, range(100, 140), "ham")
    now = remembered(store)
    with Store(store.path) as reader:
        with reader.snapshot():
            saving.restore(backup, store.path)
            assert remembered(reader) == now
        assert remembered(reader) == FIRST
    assert remembered(store) == FIRST
    learn(store, [50])
    assert check(store) == []
    assert store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_store_is_put_back_where_none_is(backup: Path, tmp_path: Path) -> None:
    saving.restore(backup, tmp_path / "deep" / "new")
    with Store(tmp_path / "deep" / "new") as new:
        assert remembered(new) == FIRST
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["new"]


def test_a_log_that_a_lost_store_left_behind_is_not_read_into_the_new(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(store, range(20))
        saving.backup(store, tmp_path / "backup")
        learn(store, range(20, 60))
        left = Path(f"{store.path}-wal").read_bytes()
    store.path.unlink()
    Path(f"{store.path}-wal").write_bytes(left)
    saving.restore(tmp_path / "backup", store.path)
    with Store(store.path) as again:
        assert remembered(again) == FIRST
        assert check(again) == []


def test_a_damaged_store_is_replaced_and_kept_beside(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(store, range(20))
        saving.backup(store, tmp_path / "backup")
    os.truncate(store.path, 4096 + 100)
    saving.restore(tmp_path / "backup", store.path)
    with Store(store.path) as again:
        assert remembered(again) == FIRST
        assert check(again) == []


def test_a_store_whose_first_page_is_damaged_is_kept_beside(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        learn(store, range(20))
        saving.backup(store, tmp_path / "backup")
    with store.path.open("r+b") as file:
        file.seek(16)
        file.write(b"\xff\xff")  # the size of a page
    saving.restore(tmp_path / "backup", store.path)
    with Store(store.path) as again:
        assert remembered(again) == FIRST
    assert (tmp_path / "store.damaged").exists()


def test_a_damaged_backup_is_not_put_back(store: Store, backup: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute("UPDATE label SET features = 1")
        connection.commit()
    with pytest.raises(StoreError, match=r"the backup .* is damaged \(label 'spam' claims 1 features"):
        saving.restore(backup, store.path)
    os.truncate(backup, 8192)
    with pytest.raises(StoreError, match="damaged"):
        saving.restore(backup, store.path)
    (tmp_path / "letter").write_text("Dear all")
    with pytest.raises(StoreError, match="is not a backup of a store"):
        saving.restore(tmp_path / "letter", store.path)
    assert remembered(store) == FIRST
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_backup_never_replaces_what_is_no_store(backup: Path, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear all")
    for path in (tmp_path / "letter", backup):
        with pytest.raises(StoreError, match=r"is not a store that .* could replace"):
            saving.restore(backup, path)
    assert (tmp_path / "letter").read_text() == "Dear all"


def test_a_store_that_is_being_written_is_waited_for(
    store: Store, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "BUSY_SECONDS", 0.05)
    with (
        Store(store.path) as writer,
        writer.transaction(),
        pytest.raises(StoreError, match="another process"),
    ):
        saving.restore(backup, store.path)
    assert remembered(store) == FIRST


def test_a_store_and_a_backup_behind_links_stay_behind_them(store: Store, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    for name in ("backup", "mail"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
    saving.backup(store, tmp_path / "backup")
    saving.restore(tmp_path / "backup", tmp_path / "mail")
    assert {path.name for path in (tmp_path / "disk").iterdir()} == {"backup", "mail"}
    assert (tmp_path / "backup").is_symlink()
    assert (tmp_path / "mail").is_symlink()
    with Store(tmp_path / "mail") as restored:
        learn(restored, [99])
        (tmp_path / "disk" / "mail-wal").stat()
        assert status(restored).bytes > (tmp_path / "mail").stat().st_size


def test_what_a_killed_backup_left_is_removed_by_the_next(store: Store, tmp_path: Path) -> None:
    saving.backup(store, tmp_path / "backup")
    left = tmp_path / ".backup.0123456789abcdef.tamis-part"
    left.write_bytes((tmp_path / "backup").read_bytes())
    Path(f"{left}-journal").write_bytes(b"part")
    saving.backup(store, tmp_path / "backup")
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_fifo_is_not_replaced_by_a_store(backup: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(StoreError, match=r"is not a store that .* could replace"):
        saving.restore(backup, tmp_path / "fifo")
    assert (tmp_path / "fifo").is_fifo()
