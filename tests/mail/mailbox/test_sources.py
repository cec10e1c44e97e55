"""What a path holds is found by looking; what cannot be mail is refused in one line."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import socket
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tamis_mail.framing import LARGEST_RAW
from tamis_mail.mailbox import RawMessage, SourceError, open_source
from tests.mail.mailbox.writers import POSTMARK, mboxo

LETTER = b"Subject: hello\n\nWorld.\n"
OTHER = b"Subject: other\n\nFrom me.\n"
PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def refusal(path: object) -> str:
    """What is said of a path that cannot be opened: one line."""
    with pytest.raises(SourceError) as refused:
        list(open_source(path))  # type: ignore[arg-type]
    said = str(refused.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("name", ["a.eml", "inbox.mbox", "1"])
@pytest.mark.parametrize(
    "raw", [LETTER, b"no headers", b"Subject: \x00\xff\r\r\n", b"\xe4\xf6\xfc \x1b$B", b"From me, hello"]
)
def test_a_file_that_is_no_mbox_is_one_message_whatever_its_name(
    tmp_path: Path, name: str, raw: bytes
) -> None:
    (tmp_path / name).write_bytes(raw)
    source = open_source(tmp_path / name)
    assert (source.kind, source.size) == ("message", len(raw))
    assert list(source) == list(source) == [RawMessage(raw, name, len(raw), str(tmp_path / name))]


def test_an_empty_file_holds_no_message(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert list(open_source(tmp_path / "empty")) == []


def test_a_message_that_is_too_large_is_cut(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(LETTER * 100_000)
    assert [len(letter.raw) for letter in open_source(tmp_path / "large", largest=1_500_000)] == [1_500_000]


@pytest.mark.parametrize("packer", PACKERS)
def test_packed_files_are_unpacked_whatever_their_name(tmp_path: Path, packer: str) -> None:
    pack, path = PACKERS[packer], tmp_path / "mail"
    for text, kind, expected in (
        (LETTER, "message", [LETTER]),
        (mboxo([LETTER * 100, OTHER] * 800), "mbox", [LETTER * 100, OTHER] * 800),
    ):
        path.write_bytes(pack(text))
        source = open_source(path)
        letters = list(source)
        assert source.kind == kind
        assert [letter.raw for letter in letters] == expected
        assert letters[-1].position == source.size == path.stat().st_size


@pytest.mark.parametrize("packer", PACKERS)
def test_packed_files_joined_are_read_to_the_end(tmp_path: Path, packer: str) -> None:
    pack, path = PACKERS[packer], tmp_path / "mail"
    path.write_bytes(pack(mboxo([LETTER])) + pack(mboxo([OTHER])) + b"\0" * 100)
    assert [letter.raw for letter in open_source(path)] == [LETTER, OTHER]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("lost", [1, 5, 0.5])
@pytest.mark.parametrize("content", [LETTER + os.urandom(5000).hex().encode(), mboxo([LETTER, OTHER] * 3000)])
def test_a_packed_file_that_is_cut_off_gives_nothing(
    tmp_path: Path, packer: str, lost: float, content: bytes
) -> None:
    packed = PACKERS[packer](content)
    cut = packed[: -int(lost)] if lost >= 1 else packed[: int(lost * len(packed))]
    path = tmp_path / "folder" / "mail"
    path.parent.mkdir()
    path.write_bytes(cut)
    with pytest.raises(SourceError, match="is cut off"):
        open_source(path)
    (tmp_path / "folder" / "whole").write_bytes(LETTER)
    source = open_source(path.parent)
    assert [letter.name for letter in source] == ["folder/whole"]
    ((name, reason),) = source.unread
    assert name == "folder/mail"
    assert "is cut off" in reason


def test_packed_mail_on_standard_input_that_is_cut_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, gzip.compress(mboxo([LETTER, OTHER]))[:-5])
    with pytest.raises(SourceError, match="stdin is cut off"):
        list(open_source("-", allow_mbox=True))


def _archive(kind: str) -> bytes:
    written = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(written, "w") as zipped:
            zipped.writestr("a.eml", LETTER)
    else:
        with tarfile.open(fileobj=written, mode="w:gz" if kind == "tar.gz" else "w") as tarred:
            member = tarfile.TarInfo("cur/1700:2,S")
            member.size = len(LETTER)
            tarred.addfile(member, io.BytesIO(LETTER))
    return written.getvalue()


OTHERS = {
    "PNG": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a picture (PNG)"),
    "ELF": (Path(sys.executable).read_bytes()[:10_000], "a program"),
    "random": (random.Random(1).randbytes(3000), "binary data"),
    "random, packed": (gzip.compress(random.Random(1).randbytes(3000)), "binary data"),
    "zip": (_archive("zip"), "an archive (zip)"),
    "tar": (_archive("tar"), "an archive (tar)"),
    "tar.gz": (_archive("tar.gz"), "an archive (tar)"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_mail_is_refused_if_it_is_named_and_left_out_of_a_folder(
    tmp_path: Path, kind: str
) -> None:
    raw, described = OTHERS[kind]
    if kind == "ELF" and not raw.startswith(b"\x7fELF"):
        pytest.skip("programs of this system are not ELF")
    path = tmp_path / "other"
    path.write_bytes(raw)
    said = refusal(path)
    assert f"is {described}, not mail: " in said
    assert ("unpack it" in said) == ("archive" in described)
    (tmp_path / "mail").write_bytes(LETTER)
    source = open_source(tmp_path)
    assert [letter.raw for letter in source] == [LETTER]
    assert [reason for _, reason in source.left_out] == [f"it is {described}, not mail"]


@pytest.mark.parametrize(
    "charset", ["utf-8", "latin-1", "koi8-r", "iso2022_jp", "shift_jis", "gb18030", "big5"]
)
def test_a_text_without_a_header_is_a_message_in_any_charset(tmp_path: Path, charset: str) -> None:
    text = "Übergrößenträger Привет, как дела? これは日本語のテキストです。 这是一个中文文本\n" * 50
    (tmp_path / "text").write_bytes(text.encode(charset, "ignore"))
    assert len(list(open_source(tmp_path / "text"))) == 1


def test_a_damaged_packed_file_is_said_to_be(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(LETTER + random.Random(88).randbytes(5000)))
    packed[2000:2100] = b"\xff" * 100
    (tmp_path / "mail").write_bytes(packed)
    assert "is damaged" in refusal(tmp_path / "mail")


def test_a_bomb_is_refused_and_a_monotonous_mailbox_is_not(tmp_path: Path) -> None:
    bomb = gzip.compress(POSTMARK + b"\n") + gzip.compress(bytes(100 << 20), compresslevel=1)
    (tmp_path / "bomb").write_bytes(bomb)
    assert "more than mail does" in refusal(tmp_path / "bomb")
    (tmp_path / "newsletter").write_bytes(gzip.compress(mboxo([LETTER * 300] * 500)))
    assert len(list(open_source(tmp_path / "newsletter"))) == 500


def test_a_bomb_that_is_one_message_is_cut_like_any(tmp_path: Path) -> None:
    (tmp_path / "bomb").write_bytes(gzip.compress(LETTER + bytes(100 << 20), compresslevel=1))
    assert [len(letter.raw) for letter in open_source(tmp_path / "bomb")] == [LARGEST_RAW]


def piped(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))


@pytest.mark.parametrize("path", [None, "-"])
@pytest.mark.parametrize(
    "raw",
    [LETTER, mboxo([LETTER, OTHER]), gzip.compress(LETTER, mtime=0), LETTER * 200_000],
    ids=["message", "mbox", "packed", "large"],
)
def test_stdin_is_one_message_byte_for_byte(
    monkeypatch: pytest.MonkeyPatch, path: str | None, raw: bytes
) -> None:
    piped(monkeypatch, raw)
    source = open_source(path)
    assert (source.kind, source.path, source.size) == ("stdin", "stdin", None)
    assert list(source) == [RawMessage(raw, "stdin", len(raw))]


def test_stdin_is_many_messages_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, mboxo([LETTER, OTHER]))
    assert [(x.raw, x.name) for x in open_source("-", allow_mbox=True)] == [
        (LETTER, "stdin#1"),
        (OTHER, "stdin#2"),
    ]
    piped(monkeypatch, LETTER)
    assert [letter.raw for letter in open_source("-", allow_mbox=True)] == [LETTER]


def test_a_process_without_stdin_is_given_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert list(open_source("-")) == []


def test_a_path_that_is_mistyped_is_told_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "Maildir" / "inbox.mbox").mkdir(parents=True)
    assert f"did you mean {tmp_path}/Maildir/inbox.mbox?" in refusal(tmp_path / "Maildir" / "inbox.mbx")
    assert f"did you mean {tmp_path}/Maildir?" in refusal(tmp_path / "Mialdir" / "cur" / "1")
    assert "does not exist" in refusal(tmp_path / "zzz")
    assert "does not exist" in refusal("no-such-file-here")


def test_what_is_not_mail_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store") as store:
        store.execute("create table t (x)")
    store.close()
    assert "SQLite database, not mail" in refusal(tmp_path / "store")
    os.mkfifo(tmp_path / "fifo")
    assert "is a pipe (FIFO)" in refusal(tmp_path / "fifo")
    assert "is a device" in refusal("/dev/null")
    (tmp_path / "link").symlink_to("nowhere")
    assert "is a link to nowhere" in refusal(tmp_path / "link")
    (tmp_path / "round").symlink_to("round")
    assert "cannot be read" in refusal(tmp_path / "round")
    assert "cannot be read" in refusal("zero\0byte")
    assert "cannot be read" in refusal(tmp_path / "store" / "below")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("socket")
        assert "is a socket" in refusal("socket")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    (tmp_path / "mail").write_bytes(LETTER)
    source = open_source(tmp_path / "mail")
    monkeypatch.setattr(os, "open", deny)  # for root nothing is denied by mode
    assert "Permission denied" in refusal(tmp_path / "mail")
    with pytest.raises(SourceError, match="Permission denied"):
        list(source)


@pytest.mark.parametrize("entry", [None, ".hidden", "picture.png"])
def test_a_folder_without_mail_is_refused(tmp_path: Path, entry: str | None) -> None:
    if entry:
        (tmp_path / entry).write_bytes(b"\x89PNG\r\n\x1a\n")
    assert "without any file that could be a message" in refusal(tmp_path)


def test_a_folder_with_a_link_to_nothing_has_no_mail(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    assert "without any file that could be a message" in refusal(tmp_path)


def test_positions_count_files_that_could_not_be_read(tmp_path: Path) -> None:
    mbox = b"From a@b.c Thu Jan  1 00:00:00 2026\n" + LETTER + b"\n"
    damaged = gzip.compress(mbox * 50)[:-9]
    (tmp_path / "a.mbox.gz").write_bytes(damaged)
    (tmp_path / "b.eml").write_bytes(LETTER)
    source = open_source(tmp_path)
    (letter,) = source
    assert [name for name, _ in source.unread] == [f"{tmp_path.name}/a.mbox.gz"]
    assert letter.position == source.size


def test_a_letter_is_frozen_and_can_be_sent_to_another_process() -> None:
    letter = RawMessage(b"raw", "name", 3)
    with pytest.raises(AttributeError, match="frozen"):
        letter.raw = b""
    with pytest.raises(AttributeError, match="frozen"):
        del letter.name
    assert pickle.loads(pickle.dumps(letter)) == letter
    assert len({letter, RawMessage(b"raw", "name", 3)}) == 1
    assert letter != "name"
    assert repr(letter) == "RawMessage('name', 3 bytes, position=3)"


def test_nothing_is_imported_that_one_message_does_not_need() -> None:
    code = "import sys, tamis_mail.mailbox; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"re", "typing", "dataclasses", "pathlib", "zlib", "lzma", "difflib"} & set(loaded.split())
