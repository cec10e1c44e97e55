"""Files that are written safely: private, all or nothing, not through a planted link, and nothing is left."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tamis_mail.files import IrregularFileError, is_there, open_regular, replace_file, write_file
from tests.mail.strangers import as_nobody


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_replaced_when_all_of_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("old")
    path.chmod(0o644)

    def write_half() -> None:
        with replace_file(path) as file:
            file.write(b"half")
            assert path.read_text() == "old"
            (beside,) = names(tmp_path) - {"page"}
            assert stat.S_IMODE((tmp_path / beside).stat().st_mode) == 0o600
            raise InterruptedError

    with pytest.raises(InterruptedError):
        write_half()
    assert path.read_text() == "old"
    write_file(path, b"new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == {"page"}


def test_a_link_stays_one_and_a_device_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "page")
    write_file(tmp_path / "link", b"text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "page").read_bytes() == b"text"
    write_file("/dev/null", b"text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_what_a_killed_writer_left_is_removed_by_the_next_and_a_live_ones_file_is_not(tmp_path: Path) -> None:
    code = f"""
import os, signal
from tamis_mail.files import replace_file
with replace_file({str(tmp_path / "page")!r}) as file:
    file.write(b"secret")
    file.flush()
    print(flush=True)
    signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        (left,) = names(tmp_path)
        for ending in ("-wal", "-journal"):
            (tmp_path / f"{left}{ending}").write_bytes(b"secret")
        (tmp_path / ".page.mine").write_text("not a temporary file of ours")
        write_file(tmp_path / "page", b"while it lives")
        assert left in names(tmp_path)
        child.send_signal(signal.SIGKILL)
    write_file(tmp_path / "other", b"another file")
    assert left in names(tmp_path)
    write_file(tmp_path / "page", b"after it died")
    assert names(tmp_path) == {"page", "other", ".page.mine"}


def test_links_that_are_planted_are_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".page.part").symlink_to(victim)
    (tmp_path / ".page.0123456789abcdef.tamis-part").symlink_to(victim)
    os.mkfifo(tmp_path / ".page.fifo.tamis-part")
    write_file(tmp_path / "page", b"text")
    assert victim.read_text() == "precious"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, kind in ((tmp_path / "fifo", "FIFO"), (tmp_path, "folder"), (Path("/dev/null"), "device")):
        with pytest.raises(IrregularFileError, match=f"is a {kind}, expected a file"):
            open_regular(path)


def test_where_one_may_not_look_nothing_is_said_to_be_missing(tmp_path: Path) -> None:
    assert not is_there(tmp_path / "nothing")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    assert is_there(tmp_path / "link")
    (tmp_path / "closed").mkdir(mode=0o000)
    answer = as_nobody(lambda: is_there(tmp_path / "closed" / "store"))
    (tmp_path / "closed").chmod(0o700)
    assert isinstance(answer, str)
    assert answer.startswith("PermissionError")
