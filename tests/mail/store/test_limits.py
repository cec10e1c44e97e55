"""Limits inside the store: shelves that are bisected, folders that cannot be written, files that shrink."""

import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tamis_mail.store import Store, StoreError, tables
from tamis_mail.store.runs import Run, all_runs
from tamis_mail.store.tables import CountTable


# If all keys share their first bits, one shelf has them all; above 16 KiB it is bisected.
@pytest.mark.parametrize("bits", [20, 48])
@pytest.mark.parametrize("entries", [3, 200, 1000, 5000])
def test_one_message_is_looked_up_in_shelves_of_any_size(tmp_path: Path, entries: int, bits: int) -> None:
    keys = np.unique(np.random.default_rng(entries).integers(0, 1 << bits, entries, np.uint64))
    entries = len(keys)
    counts = np.stack([np.arange(entries) % 100, np.arange(entries) % 7], axis=1).astype(np.int64) + 1
    with Store(tmp_path / "store") as store:
        with store.transaction() as writer:
            writer.ensure_column("a"), writer.ensure_column("b")
            writer.add(CountTable(keys, counts))
        present = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        asked = sorted({*keys.tolist(), *(keys + np.uint64(1)).tolist(), 0, (1 << 20) + 5, (1 << 48) - 1})
        assert store.counts(asked) == {key: present.get(key, [0, 0]) for key in asked}


def test_a_new_store_in_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
    with pytest.raises(StoreError, match="cannot be written"):
        Store(tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_store_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "store") as store, store.transaction() as writer:
        writer.ensure_column("a")
        writer.add(CountTable(np.array([7], np.uint64), np.array([[3]])))
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
    with Store(tmp_path / "store", readonly=True) as store:
        assert store.counts([7, 8]) == {7: [3], 8: [0]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def fill(store: Store) -> CountTable:
    """Write counts that take more than 1000 pages, and return them."""
    keys = np.unique(np.random.default_rng(1).integers(0, 1 << 48, 900_000, np.uint64))
    table = CountTable(keys, np.ones((len(keys), 1), np.int64))
    with store.transaction() as writer:
        writer.ensure_column("a")
        writer.add(table)
    return table


def test_the_file_shrinks_when_much_of_it_is_free(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        table = fill(store)
        before = (tmp_path / "store").stat().st_size
        with store.transaction() as writer:
            writer.add_clipped(CountTable(table.keys[1:], -table.counts[1:]))
        assert sum(run.entries for run in all_runs(store.connection)) == 1
        assert (tmp_path / "store").stat().st_size < before / 4


def test_damage_that_shows_when_space_is_freed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_damage(store: Store) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(Store, "shrink", find_damage)
    with Store(tmp_path / "store") as store:
        table = fill(store)
        with pytest.raises(StoreError, match="is damaged") as error, store.transaction() as writer:
            writer.add_clipped(CountTable(table.keys, -table.counts))
        assert "\n" not in str(error.value)


def test_a_schema_with_names_that_are_no_text_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "store"
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET name = CAST(x'6a8484' AS TEXT), sql = CAST(x'6a8484' AS TEXT) "
            "WHERE name = 'journal'"
        )
    with pytest.raises(StoreError, match="damaged"):
        Store(path)


def test_a_shelf_at_a_place_that_its_run_does_not_have_is_damage() -> None:
    run = Run(1, 1, 100, 2, 1, 1, 1)
    for number in (99, 104):
        with pytest.raises(StoreError, match="a shelf of run 1 is out of place"):
            tables._decode_entries([(number, struct.pack("<Qb", 5, 1))], run)
