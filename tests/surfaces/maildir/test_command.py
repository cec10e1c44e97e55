"""`tamis watch maildir`, as it is typed."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.surfaces.maildir.maildirs import list_files, make_maildir, run_watcher
from tests.surfaces.terminal import NEW_HAM, NEW_SPAM, SPAM, Type, make_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "mail.tamis")


@pytest.fixture
def maildir(tmp_path: Path) -> Path:
    made = make_maildir(tmp_path / "Maildir")
    (made / "new" / "1.host").write_bytes(NEW_SPAM)
    (made / "new" / "2.host").write_bytes(NEW_HAM)
    (made / "cur" / "3.host:2,S").write_bytes(NEW_SPAM + b"read\n")
    return made


def test_a_new_maildir_is_only_looked_at_until_move_is_given(
    typed: Type, maildir: Path, store: Path, tmp_path: Path
) -> None:
    before, files = list_files(maildir), sorted(tmp_path.iterdir())
    for options in ([], ["--dry-run"]):
        answer = typed("watch", "maildir", maildir, "--store", store, *options)
        assert answer.status == 0, answer.err
        assert answer.err == ""
        lines = answer.text.splitlines()
        assert lines[:3] == [
            "would move to Junk 1.000: INBOX: x@shop.example: Cheap pills",
            "1 would move to Junk, 1 would stay",
            "This was a dry run: nothing was changed.",
        ]
        assert lines[3:] == (
            [] if options else [f"This account is new. To begin: tamis watch maildir {maildir} --move"]
        )
        assert list_files(maildir) == before
        assert sorted(tmp_path.iterdir()) == files
    answer = typed("watch", "maildir", maildir, "--store", store, "--move", "--once")
    assert answer.text == "1 moved to Junk, 1 stayed\n"
    assert sorted(list_files(maildir)) == [".Junk/new/1.host", "cur/3.host:2,S", "new/2.host"]
    (maildir / "new" / "4.host").write_bytes(NEW_SPAM + b"again\n")
    answer = typed("watch", "maildir", maildir, "--store", store, "--once")
    assert answer.text == "1 moved to Junk\n"


def test_a_dry_run_can_sort_what_was_read_before(typed: Type, maildir: Path, store: Path) -> None:
    answer = typed("watch", "maildir", maildir, "--store", store, "--dry-run", "--sort-read")
    assert "2 would move to Junk, 1 would stay" in answer.text


def test_a_dry_run_prints_what_would_be_learned(typed: Type, maildir: Path, store: Path) -> None:
    typed("watch", "maildir", maildir, "--store", store, "--move", "--once")
    (maildir / ".Junk" / "new" / "1.host").rename(maildir / "cur" / "1.host:2,S")
    answer = typed("watch", "maildir", maildir, "--store", store, "--dry-run")
    assert "would learn as ham: INBOX: x@shop.example: Cheap pills\n" in answer.text
    answer = typed("watch", "maildir", maildir, "--store", store, "--once")
    assert answer.text == "1 learned as ham\n"


def test_unsure_mail_gets_a_folder_of_its_own_on_request(typed: Type, maildir: Path, store: Path) -> None:
    (maildir / "new" / "5.host").write_bytes(b"Subject: \n\nzzz\n")
    answer = typed(
        "watch",
        "maildir",
        maildir,
        "--store",
        store,
        "--move",
        "--once",
        "--unsure",
        "To read",
        "--junk",
        "Bad",
    )
    assert answer.text == "1 moved to Bad, 1 moved to To read, 1 stayed\n"
    assert {".To read/new/5.host", ".Bad/new/1.host"} <= set(list_files(maildir))


@pytest.mark.parametrize("options", [["--poll", "1"], []])
def test_a_watcher_sorts_learns_and_stops_by_a_signal(maildir: Path, store: Path, options: list[str]) -> None:
    with run_watcher(maildir, store, *options) as watching:
        _wait_for(lambda: "event=verdict label=spam" in watching.log.read_text())
        (maildir / "new" / "9.host").write_bytes(SPAM[0].replace(b"now", b"soon"))
        _wait_for(lambda: (maildir / ".Junk" / "new" / "9.host").exists())
        (maildir / ".Junk" / "new" / "9.host").rename(maildir / "cur" / "9.host:2,")
        _wait_for(lambda: "event=learned label=ham" in watching.log.read_text())
    assert "event=polling" not in watching.log.read_text()
    assert watching.log.read_text().endswith("event=stopped\n")
    assert b"pills" not in watching.log.read_bytes()


def test_without_watchfiles_folders_are_looked_at_regularly(
    maildir: Path, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "watchfiles.py").write_text("raise ModuleNotFoundError('watchfiles')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        with run_watcher(maildir, store) as watching:
            _wait_for(lambda: "event=polling" in watching.log.read_text())
    assert 'pip install \\"tamis[maildir]\\"' in watching.log.read_text()


def test_bad_options_get_one_line(typed: Type, maildir: Path, store: Path, tmp_path: Path) -> None:
    (maildir / ".Junk").write_text("a file")
    mistakes: list[tuple[list[str | Path], str]] = [
        ([tmp_path / "nowhere"], "there is no folder"),
        ([tmp_path], "is not a Maildir, expected a folder with cur and new"),
        ([maildir, "--move"], ".Junk is a file, expected a Maildir"),
        ([maildir, "--poll", "0"], "expected a positive integer"),
        ([maildir, "--move", "--dry-run"], "not allowed with"),
    ]
    for words, expected in mistakes:
        answer = typed("watch", "maildir", *words, "--store", store)
        assert answer.status in (2, 3)
        assert expected in answer.err
        assert answer.err.count("\n") == 1


def _wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(800):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")
