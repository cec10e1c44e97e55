"""Stores and exports from strangers: every command ends, in one line, and mail passes through."""

import gzip
import json
import math
import os
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from tamis_mail.surfaces.cli.store import UnpackedExport
from tamis_mail.verdict import RULE
from tests.mail.strangers import as_nobody
from tests.surfaces.terminal import NEW_SPAM, Answer, Type, learn_some


@pytest.fixture(autouse=True)
def store(tmp_path: Path, typed: Type, monkeypatch: pytest.MonkeyPatch) -> Path:
    return learn_some(typed, tmp_path, monkeypatch)


def refused(answer: Answer) -> bool:
    return answer.status == 3 and len(answer.err.splitlines()) == 1 and "unexpected" not in answer.err


def change(store: Path, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(statement, values)


def test_a_rule_of_nan_does_not_let_mail_through_as_ham(typed: Type, store: Path) -> None:
    rule = RULE.with_scales((math.nan, 1, 1, 1, 1)).to_json()
    change(store, "INSERT INTO setting VALUES ('rule', ?)", rule)
    answer = typed("sort", stdin=NEW_SPAM)
    assert refused(answer)
    assert answer.out == b""
    assert "views[0].scale is nan" in answer.err
    passed = typed("sort", "-p", stdin=NEW_SPAM)
    assert refused(passed)
    assert passed.out == NEW_SPAM
    assert refused(typed("sort", store.parent / "mail" / "junk"))
    checked = typed("store", "check")
    assert checked.status == 3
    assert "scale" in checked.text
    assert typed("tune", "--reset").status == 0
    assert typed("sort", stdin=NEW_SPAM).status == 0
    assert typed("store", "check").status == 0


@pytest.mark.parametrize(
    "statement",
    [
        """CREATE TRIGGER endless AFTER INSERT ON journal BEGIN INSERT INTO source (name)
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n; END""",
        """CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT count(*) FROM n""",
    ],
)
def test_a_trigger_or_a_view_ends_no_command_in_a_hang(typed: Type, store: Path, statement: str) -> None:
    typed("store", "backup", store.parent / "backup")
    change(store, statement)
    passed = typed("sort", "-p", stdin=NEW_SPAM)
    assert refused(passed)
    assert passed.out == NEW_SPAM
    assert "that no store of tamis has" in passed.err
    for words in (["learn", "--spam"], ["status"], ["store", "check"], ["store", "export"], ["explain"]):
        assert refused(typed(*words, stdin=NEW_SPAM)), words
    assert typed("store", "restore", store.parent / "backup").status == 0
    assert typed("sort", stdin=NEW_SPAM).status == 0


def test_an_export_is_private_and_does_not_follow_a_planted_link(typed: Type, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".all.txt.part").symlink_to(victim)
    for name in ("all.txt", "all.txt.gz"):
        assert typed("store", "export", tmp_path / name).status == 0
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert victim.read_text() == "precious"
    assert gzip.decompress((tmp_path / "all.txt.gz").read_bytes()) == (tmp_path / "all.txt").read_bytes()


def test_a_fifo_is_neither_a_store_nor_an_export(typed: Type, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for words in (["status"], ["sort", "-p"], ["learn", "--spam"], ["store", "check"], ["store", "import"]):
        answer = typed(*words, "--store", tmp_path / "fifo", stdin=NEW_SPAM)
        assert refused(answer), words
        assert "FIFO" in answer.err
    for form in ("tamis", "bogofilter"):
        answer = typed("store", "import", "--format", form, tmp_path / "fifo", "--store", tmp_path / "new")
        assert refused(answer)
        assert "to read from a pipe, give -" in answer.err
    assert refused(typed("store", "restore", tmp_path / "fifo"))
    assert refused(typed("store", "merge", tmp_path / "fifo"))


def test_names_of_sqlite_are_no_stores(typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:x"):
        assert refused(typed("learn", "--spam", "--store", name, stdin=NEW_SPAM))
        assert not (tmp_path / name).exists()


def test_a_folder_that_may_not_be_searched_is_not_an_empty_store(typed: Type) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "closed").mkdir(mode=0o000)
        path = Path(name) / "closed" / "mail.tamis"
        typed("status", "--store", path)  # loads what the commands need, which the other user may not
        typed("explain", "--store", path, stdin=NEW_SPAM)
        answers = as_nobody(
            lambda: [
                typed(*words, "--store", path, stdin=NEW_SPAM)
                for words in (["sort"], ["sort", "-p"], ["status"], ["explain"])
            ]
        )
        assert isinstance(answers, list), answers
        for answer in answers:
            assert refused(answer), answer
            assert "Permission denied" in answer.err
        assert answers[1].out == NEW_SPAM


def test_a_packed_file_that_unpacks_without_end_is_refused(typed: Type, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b".MSG_COUNT 1 1\n" + b"cheap 1 1\n" * 500_000))
    assert bomb.stat().st_size < 20_000
    new = tmp_path / "new"
    answer = typed("store", "import", "--format", "bogofilter", bomb, "--store", new)
    assert refused(answer)
    assert "unpacks to more than 200 times its size" in answer.err
    assert json.loads(typed("status", "--json", "--store", new).text)["messages"] == 0
    with (tmp_path / "bomb.gz").open("rb") as file, UnpackedExport(file) as unpacked:
        assert unpacked.readline() == b".MSG_COUNT 1 1\n"
