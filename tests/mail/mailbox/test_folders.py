"""A Maildir, an MH folder and a tree of files give their mail in order, whatever else lies there."""

import gzip
import os
import sys
from pathlib import Path

import pytest

from tamis_mail.mailbox import RawMessage, open_source
from tests.mail.mailbox.writers import POSTMARK, mboxo

LETTER = b"Subject: hello\n\nWorld.\n"


def plant(root: Path, *names: str) -> Path:
    """Files under a folder, each with a message that is its own name."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return root


def maildir(root: Path, *names: str) -> Path:
    for part in ("cur", "new", "tmp"):
        (root / part).mkdir(parents=True)
    return plant(root, *names)


def names(root: Path) -> list[str]:
    return [letter.name for letter in open_source(root)]


def test_a_maildir_is_its_cur_and_new_by_time(tmp_path: Path) -> None:
    box = maildir(tmp_path / "box", "cur/3:2,S", "new/2", "cur/1:2,", "tmp/0", ".Junk/cur/4", ".Junk/new/5")
    source = open_source(box)
    assert source.kind == "maildir"
    assert [letter.name for letter in source] == ["cur/1:2,", "new/2", "cur/3:2,S"]
    assert [letter.raw for letter in source] == [b"cur/1:2,", b"new/2", b"cur/3:2,S"]
    assert names(box / ".Junk") == ["cur/4", "new/5"]


def test_positions_in_a_folder_count_up_to_its_size(tmp_path: Path) -> None:
    box = maildir(tmp_path, "cur/1", "cur/22", "new/3")
    source = open_source(box)
    assert [letter.position for letter in source] == [5, 11, 16]
    assert source.size == 16


def test_an_empty_maildir_is_a_mailbox(tmp_path: Path) -> None:
    assert list(open_source(maildir(tmp_path))) == []


def test_mail_that_vanishes_is_passed_over(tmp_path: Path) -> None:
    source = open_source(maildir(tmp_path, "cur/1", "cur/2", "cur/3"))
    letters = iter(source)
    assert next(letters).name == "cur/1"
    (tmp_path / "cur" / "2").unlink()
    assert [letter.name for letter in letters] == ["cur/3"]
    assert source.unread == []


def test_a_folder_that_vanishes_is_passed_over(tmp_path: Path) -> None:
    source = open_source(plant(tmp_path, "a", "b/c", "d"))
    letters = iter(source)
    assert next(letters).raw == b"a"
    (tmp_path / "b" / "c").unlink()
    (tmp_path / "b").rmdir()
    assert [letter.raw for letter in letters] == [b"d"]


def test_a_name_may_hold_a_newline_an_escape_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    box = maildir(tmp_path)
    called = {b"1\n2": r"cur/1\n2", b"3\x1b[2J": r"cur/3\x1b[2J", "4é".encode(): "cur/4é"}
    if sys.platform != "darwin":  # where a name must be text
        called[b"5\xff"] = r"cur/5\udcff"
    for name in called:
        (box / "cur" / os.fsdecode(name)).write_bytes(b"x")
    assert names(box) == list(called.values())


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    box = maildir(tmp_path / "box", "cur/1")
    plant(tmp_path, "other_paths")
    os.mkfifo(box / "cur" / "2-fifo")
    (box / "cur" / "3-dangling").symlink_to("nowhere")
    (box / "cur" / "4-device").symlink_to("/dev/zero")
    (box / "cur" / "5-folder").mkdir()
    (box / "cur" / "6-link").symlink_to("1")
    source = open_source(box)
    assert [letter.raw for letter in source] == [b"cur/1", b"cur/1"]
    assert source.size == 2 * len("cur/1")
    assert source.unread == []


@pytest.mark.parametrize("kind", ["maildir", "mh", "folder"])
@pytest.mark.parametrize("target", ["file", "folder"])
def test_a_link_out_of_the_folder_is_not_followed_and_is_named(
    tmp_path: Path, kind: str, target: str
) -> None:
    box = {
        "maildir": lambda: maildir(tmp_path / "box", "cur/1"),
        "mh": lambda: plant(tmp_path / "box", "1", ".mh_sequences"),
        "folder": lambda: plant(tmp_path / "box", "a"),
    }[kind]()
    plant(tmp_path, "secret/2")
    place = {"maildir": "cur/2", "mh": "2", "folder": "b"}[kind]
    (box / place).symlink_to(tmp_path / ("secret/2" if target == "file" else "secret"))
    for named in (box, tmp_path / "link"):
        if named != box:
            named.symlink_to(box)  # a path that is named may be a link itself
        source = open_source(named)
        assert len(list(source)) == 1
        assert [reason for _, reason in source.left_out] == ["it is a link that leads out of the folder"]
        assert source.left_out[0][0].endswith(place)


def test_the_parts_of_a_maildir_may_not_lie_elsewhere(tmp_path: Path) -> None:
    box = maildir(tmp_path / "box", "cur/1")
    plant(tmp_path, "secret/2")
    (box / "new").rmdir()
    (box / "new").symlink_to(tmp_path / "secret")
    assert names(box) == ["cur/1"]


def test_subfolders_of_a_maildir_are_read_if_asked_for(tmp_path: Path) -> None:
    box = maildir(tmp_path / "box", "cur/1", ".Archive/cur/2", ".Archive/new/3", ".Junk/cur/4", ".Junk/new/5")
    plant(box, ".Junk/cur/4", ".git/6", ".Sent/cur/7", ".Sent/new/8")
    source = open_source(box, subfolders=True)
    assert [letter.raw[-1:] for letter in source] == [b"1", b"2", b"3", b"4", b"5", b"7", b"8"]
    assert source.subfolders == ["box/.Archive", "box/.Junk", "box/.Sent"]
    labelled = open_source(box, subfolders=True, label="ham")
    assert [letter.raw[-1:] for letter in labelled] == [b"1", b"2", b"3"]
    assert labelled.left_out == [
        ("box/.Junk", "its name says spam"),
        ("box/.Sent", "its name says neither spam nor ham"),
    ]


def test_what_says_another_label_is_left_out_of_a_tree_and_named(tmp_path: Path) -> None:
    root = plant(tmp_path / "tree", "a.eml", "Inbox/b.eml", "deep/Junk/c.eml")
    (root / "Spam.mbox").write_bytes(mboxo([LETTER]))
    ham = open_source(root, label="ham")
    assert [letter.name for letter in ham] == ["tree/Inbox/b.eml", "tree/a.eml"]
    assert sorted(name for name, _ in ham.left_out) == ["tree/Spam.mbox", "tree/deep/Junk"]
    spam = open_source(root, label="spam")
    assert "tree/Inbox/b.eml" not in [letter.name for letter in spam]
    assert spam.left_out == [("tree/Inbox", "its name says ham")]
    assert len(list(open_source(root))) == 4
    assert len(list(open_source(root / "deep" / "Junk", label="ham"))) == 1  # it was named itself
    assert len(list(open_source(plant(tmp_path / "Junk", "Archive/1.eml"), label="spam"))) == 1


def test_a_message_of_a_maildir_is_never_split_and_may_be_packed(tmp_path: Path) -> None:
    box = maildir(tmp_path)
    (box / "cur" / "1").write_bytes(mboxo([LETTER, LETTER]))
    (box / "cur" / "2").write_bytes(gzip.compress(LETTER))  # as Dovecot's zlib plugin keeps them
    assert [letter.raw for letter in open_source(box)] == [mboxo([LETTER, LETTER]), LETTER]


@pytest.mark.parametrize("sequences", [True, False])
def test_an_mh_folder_is_its_numbered_files_by_number(tmp_path: Path, sequences: bool) -> None:
    box = plant(tmp_path / "inbox", "10", "9", "100")
    if sequences:
        plant(box, ".mh_sequences", ",8", "notes", "drafts/1")
    source = open_source(box)
    assert source.kind == "mh"
    assert [letter.name for letter in source] == ["inbox/9", "inbox/10", "inbox/100"]


def test_a_folder_is_read_to_the_last_file_by_name(tmp_path: Path) -> None:
    root = plant(tmp_path / "mail", "b.eml", "a/2.eml", "a/1.eml", ".hidden", ".git/x", "c/10", "c/9")
    maildir(root / "d", "cur/1", "new/2", "tmp/3", ".Junk/cur/4")
    (root / "e.mbox").write_bytes(mboxo([LETTER, LETTER]))
    (root / "f.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (root / "Inbox.msf").write_bytes(b'// <!-- <mdb:mork:z v="1.4"/> -->')
    source = open_source(root)
    assert source.kind == "folder"
    assert [letter.name for letter in source] == [
        "mail/a/1.eml",
        "mail/a/2.eml",
        "mail/b.eml",
        "mail/c/9",
        "mail/c/10",
        "mail/d/cur/1",
        "mail/d/new/2",
        "mail/e.mbox#1",
        "mail/e.mbox#2",
    ]


def test_links_that_go_round_are_followed_once(tmp_path: Path) -> None:
    root = plant(tmp_path / "mail", "a/1.eml")
    (root / "a" / "up").symlink_to(root)
    (root / "b").symlink_to(root / "a")
    (root / "self").symlink_to("self")
    assert names(root) == ["mail/a/1.eml"]


def test_a_tree_may_be_deeper_than_calls_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depth = sys.getrecursionlimit() + 100
    monkeypatch.chdir(tmp_path)
    for _ in range(depth):
        Path("d").mkdir()
        os.chdir("d")
    Path("m").write_bytes(LETTER)
    try:
        assert [letter.raw for letter in open_source(tmp_path)] == [LETTER]
    finally:  # nobody else could remove it
        Path("m").unlink()
        for _ in range(depth):
            os.chdir("..")
            Path("d").rmdir()


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant(tmp_path / "mail", "1.eml", "2.eml", "4.eml")
    (root / "3.gz").write_bytes(gzip.compress(POSTMARK + b"\n") + gzip.compress(bytes(110 << 20), 1))
    opened = os.open

    def deny(path: str, flags: int) -> int:
        if path.endswith("2.eml"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, flags)

    source = open_source(root)
    monkeypatch.setattr(os, "open", deny)
    found = [letter.raw for letter in source]
    assert found[0] == b"1.eml"
    assert found[-1] == b"4.eml"
    assert [name for name, _ in source.unread] == ["mail/2.eml", "mail/3.gz"]
    assert "Permission denied" in source.unread[0][1]
    assert "more than mail does" in source.unread[1][1]


def test_a_folder_that_may_not_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plant(tmp_path / "mail", "a/1.eml", "b/2.eml")
    source = open_source(root)
    listed = os.scandir

    def deny(path: str) -> object:
        if path.endswith("a"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", deny)
    assert [letter.raw for letter in source] == [b"b/2.eml"]
    assert source.unread[0][0] == "mail/a"


def test_a_folder_can_be_read_twice(tmp_path: Path) -> None:
    source = open_source(plant(tmp_path / "mail", "a.eml"))
    assert (
        list(source)
        == list(source)
        == [RawMessage(b"a.eml", "mail/a.eml", 5, str(tmp_path / "mail" / "a.eml"))]
    )
