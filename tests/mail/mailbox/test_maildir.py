"""A message that is moved between Maildirs is in one place, with its bytes, its flags and its time."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis_mail.mailbox import SourceError
from tamis_mail.mailbox.maildir import MaildirTarget, resolve_target
from tests.mail.mailbox.test_folders import maildir

MEMORY = Path("/dev/shm")
LIMIT = 400  # file operations of one move, at most


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system."""
    if not MEMORY.is_dir() or MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("this system has no second file system for tests")
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(params=["near", "far"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder on the same file system, and one on another."""
    return tmp_path if request.param == "near" else Path(request.getfixturevalue("far"))


def write(path: Path, text: str = "hello") -> Path:
    path.write_text(f"Subject: {text}\n\n{text}\n")
    return path


def messages(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for name in ("cur", "new", "tmp")
        for path in (root / name).iterdir()
    }


def test_a_message_keeps_its_name_its_folder_its_mode_and_its_time(tmp_path: Path, place: Path) -> None:
    inbox = maildir(tmp_path / "Inbox")
    read = write(inbox / "cur" / "1.M1P2.host,S=812:2,FS")
    unread = write(inbox / "new" / "2.M1P2.host", "other")
    read.chmod(0o640)
    os.utime(read, (10**9, 10**9))
    target = MaildirTarget(str(place / "Junk"))
    assert not (place / "Junk").exists()
    paths = [Path(target.take(str(path))) for path in (read, unread)]
    assert paths == [place / "Junk" / "cur" / read.name, place / "Junk" / "new" / unread.name]
    assert messages(inbox) == {}
    assert messages(place / "Junk") == {
        "cur/1.M1P2.host,S=812:2,FS": "Subject: hello\n\nhello\n",
        "new/2.M1P2.host": "Subject: other\n\nother\n",
    }
    assert (paths[0].stat().st_mode & 0o777, paths[0].stat().st_mtime) == (0o640, 10**9)


def test_another_message_of_the_same_name_stays(tmp_path: Path, place: Path) -> None:
    inbox = maildir(tmp_path / "Inbox")
    junk = maildir(place / "Junk")
    write(junk / "cur" / "1.host,S=8:2,S", "first")
    write(junk / "cur" / "1.host-2,S=8:2,", "second")
    target = MaildirTarget(str(junk))
    target.take(str(write(inbox / "cur" / "1.host,S=8:2,R", "third")))
    target.take(str(write(inbox / "new" / "1.host,S=8", "fourth")))
    assert {name: text.split()[-1] for name, text in messages(junk).items()} == {
        "cur/1.host,S=8:2,S": "first",
        "cur/1.host-2,S=8:2,": "second",
        "cur/1.host-3,S=8:2,R": "third",
        "new/1.host-4,S=8": "fourth",
    }
    assert messages(inbox) == {}


def test_a_name_that_appears_while_messages_are_moved_is_noticed(tmp_path: Path, place: Path) -> None:
    inbox = maildir(tmp_path / "Inbox")
    junk = maildir(place / "Junk")
    target = MaildirTarget(str(junk))
    target.take(str(write(inbox / "cur" / "1:2,", "one")))
    write(junk / "cur" / "2:2,", "delivered")
    target.take(str(write(inbox / "cur" / "2:2,", "two")))
    assert sorted(messages(junk)) == ["cur/1:2,", "cur/2-2:2,", "cur/2:2,"]


def test_two_processes_that_move_messages_of_one_name_keep_both(tmp_path: Path) -> None:
    junk = maildir(tmp_path / "Junk")
    child = os.fork()
    inbox = maildir(tmp_path / f"Inbox{child > 0}")
    for number in range(300):
        write(inbox / "cur" / f"{number}:2,", f"{number} of {child > 0}")
    (tmp_path / f"ready{child > 0}").touch()
    while not ((tmp_path / "readyTrue").exists() and (tmp_path / "readyFalse").exists()):
        pass
    try:
        target = MaildirTarget(str(junk))
        for number in range(300):
            target.take(str(inbox / "cur" / f"{number}:2,"))
    finally:
        if not child:
            os._exit(0)
    os.waitpid(child, 0)
    assert len(messages(junk)) == 600


def test_a_copy_of_an_interrupted_move_is_completed_whatever_flags_it_has_got(
    tmp_path: Path, far: Path
) -> None:
    inbox = maildir(tmp_path / "Inbox")
    junk = maildir(far / "Junk")
    target = MaildirTarget(str(junk))
    target.take(str(write(inbox / "new" / "0")))
    write(junk / "new" / "1")
    source = write(inbox / "new" / "1")
    MaildirTarget(str(junk)).take(str(source))
    assert (messages(inbox), sorted(messages(junk))) == ({}, ["new/0", "new/1"])
    (junk / "new" / "0").rename(junk / "cur" / "0:2,S")  # a mail program shows it
    assert target.take(str(write(inbox / "new" / "0"))) == str(junk / "cur" / "0:2,S")
    assert (messages(inbox), sorted(messages(junk))) == ({}, ["cur/0:2,S", "new/1"])


def test_a_message_that_vanished_is_told_and_nothing_is_left_of_it(tmp_path: Path, place: Path) -> None:
    inbox = maildir(tmp_path / "Inbox")
    target = MaildirTarget(str(place / "Junk"))
    with pytest.raises(FileNotFoundError):
        target.take(str(inbox / "cur" / "1"))
    assert messages(place / "Junk") == {}


def test_a_message_that_a_mail_program_renames_during_the_copy_is_not_doubled(
    tmp_path: Path, far: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = maildir(tmp_path / "Inbox")
    source = write(inbox / "new" / "1")
    fsync = os.fsync

    def read_mail(handle: int) -> None:
        fsync(handle)
        if source.exists():
            source.rename(inbox / "cur" / "1:2,S")

    monkeypatch.setattr(os, "fsync", read_mail)
    with pytest.raises(FileNotFoundError):
        MaildirTarget(str(far / "Junk")).take(str(source))
    assert (sorted(messages(inbox)), messages(far / "Junk")) == (["cur/1:2,S"], {})


def test_a_subfolder_of_maildir_plus_plus_is_marked(tmp_path: Path) -> None:
    inbox = maildir(tmp_path / "Maildir", "cur/1")
    path = resolve_target(".Junk/", str(inbox))
    MaildirTarget(path).take(str(inbox / "cur" / "1"))
    assert sorted(entry.name for entry in (inbox / ".Junk").iterdir()) == [
        "cur",
        "maildirfolder",
        "new",
        "tmp",
    ]
    assert resolve_target("./.Junk", str(inbox)) == "./.Junk"
    assert (resolve_target("/", "m"), resolve_target("..", "m"), resolve_target(".", "m")) == ("/", "..", ".")


def test_a_folder_that_is_half_made_is_completed(tmp_path: Path) -> None:
    inbox = maildir(tmp_path / "Maildir", "cur/1")
    (tmp_path / "Junk" / "tmp").mkdir(parents=True)
    target = MaildirTarget(str(tmp_path / "Junk"))
    assert not target.is_created
    target.take(str(inbox / "cur" / "1"))
    assert list(messages(tmp_path / "Junk")) == ["cur/1"]


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("file", "is a file"),
        ("mh", "is a folder of something else"),
        ("Mial/Junk", "did you mean .*/Mail\\?"),
        ("a/b/c", "check the path, or create that folder first"),
        ("dangling", "repair the link"),
    ],
)
def test_what_cannot_be_a_maildir_is_refused(tmp_path: Path, path: str, fault: str) -> None:
    (tmp_path / "Mail").mkdir()
    (tmp_path / "mh").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("file", "mh/1"):
        (tmp_path / name).touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SourceError, match=fault):
        MaildirTarget(str(tmp_path / path))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    junk = maildir(tmp_path / "Junk")
    (junk / "cur").chmod(0o500)
    with pytest.raises(SourceError, match="check its permissions"):
        MaildirTarget(str(junk))


def move_all(inbox: Path, junk: Path, changes: int) -> int:
    """Move all messages in a process that kills itself before its n-th access to a file; return its status.

    No kill from outside is as exact.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    remaining = changes

    def kill_at_last(event: str, _: object) -> None:
        nonlocal remaining
        if event.startswith(("os.", "open")) and event != "os.kill":
            remaining -= 1
            if remaining < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    status = 1
    try:
        paths = [path for name in ("cur", "new") for path in sorted((inbox / name).iterdir())]
        sys.addaudithook(kill_at_last)
        target = MaildirTarget(str(junk))
        for path in paths:
            target.take(str(path))
        status = 0
    finally:
        os._exit(status)


def test_a_kill_at_any_access_to_a_file_loses_nothing(tmp_path: Path, place: Path) -> None:
    texts = ["x", "xx", "xxx"]
    expected = sorted(f"Subject: {text}\n\n{text}\n" for text in [*texts, "another of this name"])
    n_killed = 0
    for changes in range(LIMIT):
        inbox, junk = maildir(tmp_path / f"Inbox{changes}"), place / f"Junk{changes}"
        for number, text in enumerate(texts):
            write(inbox / ("new" if number == 1 else "cur") / f"{number}:2,S", text)
        write(maildir(junk) / "cur" / "2:2,F", "another of this name")
        status = move_all(inbox, junk, changes)
        n_killed += status == -signal.SIGKILL
        visible = [
            text
            for root in (inbox, junk)
            for name, text in messages(root).items()
            if not name.startswith("tmp/")
        ]
        assert sorted(visible if place == tmp_path else set(visible)) == expected
        assert move_all(inbox, junk, LIMIT) == 0
        assert messages(inbox) == {}
        assert sorted(messages(junk)) == ["cur/0:2,S", "cur/2-2:2,S", "cur/2:2,F", "new/1:2,S"]
        assert sorted(messages(junk).values()) == expected
        if status == 0:
            break
    assert 8 < n_killed < LIMIT - 1
