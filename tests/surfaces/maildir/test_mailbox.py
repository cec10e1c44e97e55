"""A Maildir as a mailbox: folders, messages, moves and keywords."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis_mail.mailbox.maildir import MaildirTarget
from tamis_mail.mailbox.names import decode_utf7, encode_utf7
from tamis_mail.mailbox.raw_message import SourceError
from tamis_mail.surfaces.maildir.keywords import KeywordFile
from tamis_mail.surfaces.maildir.mailbox import MaildirMailbox
from tamis_mail.watching.mailbox import Folder, FolderError, MailboxError, MessageError
from tests.surfaces.maildir.maildirs import list_files, make_maildir

RAW = b"Subject: hello\n\nbody\n"


@pytest.fixture
def maildir(tmp_path: Path) -> Path:
    return make_maildir(tmp_path / "Maildir")


def folder_of(mailbox: MaildirMailbox, name: str) -> Folder:
    return next(folder for folder in mailbox.list_folders() if folder.name == name)


def roles_of(path: Path, junk: str | None = None, unsure: str | None = None) -> dict[str, str]:
    mailbox = MaildirMailbox(str(path), junk=junk, unsure=unsure)
    return {folder.name: folder.role.value for folder in mailbox.list_folders()}


def test_folders_of_maildir_plus_plus_are_found_with_their_roles(maildir: Path) -> None:
    for name in (".Junk", ".Junk.2026", ".Sent", ".Entw&APw-rfe", ".Work.Plans"):
        make_maildir(maildir / name)
    (maildir / ".not-a-maildir").mkdir()
    (maildir / ".linked").symlink_to(maildir / ".Junk")
    assert roles_of(maildir) == {
        "INBOX": "inbox",
        "Entwürfe": "drafts",
        "Junk": "junk",
        "Sent": "sent",
        "Junk/2026": "junk",
        "Work/Plans": "other",
    }


def test_folders_in_folders_are_found_with_their_roles(tmp_path: Path) -> None:
    for name in ("Inbox", "Junk", "Work/Plans", "Work/Plans/Junk", "Papierkorb"):
        make_maildir(tmp_path / name)
    assert roles_of(tmp_path) == {
        "INBOX": "inbox",
        "Junk": "junk",
        "Papierkorb": "trash",
        "Work/Plans": "other",
        "Work/Plans/Junk": "other",
    }


def test_the_folders_that_the_user_names_are_used_and_planned(maildir: Path) -> None:
    make_maildir(maildir / ".Bad.Mail")
    assert roles_of(maildir, junk=".Bad.Mail", unsure="Maybe") == {
        "INBOX": "inbox",
        "Maybe": "unsure",
        "Bad/Mail": "junk",
    }


@pytest.mark.parametrize("given", ["nothing", "file", "plain"])
def test_what_is_no_maildir_is_refused_in_one_line(tmp_path: Path, given: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "plain").mkdir()
    with pytest.raises(SourceError, match="check the path"):
        MaildirMailbox(str(tmp_path / given))


def test_messages_have_the_flags_and_keywords_of_their_names(maildir: Path) -> None:
    (maildir / "dovecot-keywords").write_text("0 $Junk\n1 work\nx y\n99 much\n\n")
    (maildir / "new" / "1.host").write_bytes(RAW)
    (maildir / "cur" / "2.host,S=21,W=23:2,FRSaz").write_bytes(RAW)
    (maildir / "cur" / "3.host:1,old").write_bytes(RAW)
    (maildir / "tmp" / "4.host").write_bytes(RAW)
    mailbox = MaildirMailbox(str(maildir))
    listed = {one.uid: one.keywords for one in mailbox.list_messages(folder_of(mailbox, "INBOX"))}
    assert listed == {
        "1.host": frozenset(),
        "2.host,S=21,W=23": {"\\Flagged", "\\Answered", "\\Seen", "$Junk"},
        "3.host": frozenset(),
    }


def test_only_regular_files_are_messages_whatever_their_names(maildir: Path) -> None:
    odd = "1\n2.host:2,S"
    (maildir / "cur" / odd).write_bytes(RAW)
    with (maildir / "cur" / os.fsdecode(b"3\xff.host")).open("wb") as file:
        file.write(RAW)
    os.mkfifo(maildir / "new" / "4.host")
    (maildir / "new" / "5.host").symlink_to("/etc/passwd")
    (maildir / "new" / "6.host").mkdir()
    (maildir / "new" / ".hidden").touch()
    mailbox = MaildirMailbox(str(maildir))
    inbox = folder_of(mailbox, "INBOX")
    uids = [one.uid for one in mailbox.list_messages(inbox)]
    assert len(uids) == 2
    assert all(uid.isprintable() for uid in uids)
    assert dict(mailbox.read(inbox, uids)) == dict.fromkeys(uids, RAW)


def test_a_file_that_becomes_a_pipe_is_an_error_of_one_message(maildir: Path) -> None:
    (maildir / "cur" / "1.host").write_bytes(RAW)
    (maildir / "cur" / "2.host").write_bytes(RAW)
    mailbox = MaildirMailbox(str(maildir))
    inbox = folder_of(mailbox, "INBOX")
    mailbox.list_messages(inbox)
    (maildir / "cur" / "1.host").unlink()
    os.mkfifo(maildir / "cur" / "1.host")
    outcomes = dict(mailbox.read(inbox, ["1.host", "2.host"]))
    assert isinstance(outcomes["1.host"], MessageError)
    assert outcomes["2.host"] == RAW


def test_a_message_that_was_renamed_is_found_and_one_that_has_gone_is_left_out(maildir: Path) -> None:
    for name in ("1.host", "2.host"):
        (maildir / "new" / name).write_bytes(RAW)
    mailbox = MaildirMailbox(str(maildir))
    inbox = folder_of(mailbox, "INBOX")
    mailbox.list_messages(inbox)
    (maildir / "new" / "1.host").rename(maildir / "cur" / "1.host:2,RS")
    (maildir / "new" / "2.host").unlink()
    assert dict(mailbox.read(inbox, ["1.host", "2.host"])) == {"1.host": RAW}
    assert mailbox.move(inbox, "1.host", folder_of(mailbox, "Junk")) == "1.host"
    assert list_files(maildir) == {".Junk/cur/1.host:2,RS": RAW}
    with pytest.raises(LookupError):
        mailbox.move(inbox, "2.host", folder_of(mailbox, "Junk"))


def test_a_move_keeps_the_name_the_time_and_whether_it_is_new(maildir: Path) -> None:
    path = maildir / "new" / "1.host,S=21,W=23"
    path.write_bytes(RAW)
    os.utime(path, (1_000, 1_000))
    mailbox = MaildirMailbox(str(maildir), junk="Böses")
    inbox, junk = folder_of(mailbox, "INBOX"), folder_of(mailbox, "Böses")
    assert not junk.is_present
    mailbox.list_messages(inbox)
    assert mailbox.move(inbox, "1.host,S=21,W=23", junk) == "1.host,S=21,W=23"
    moved = maildir / ".B&APY-ses" / "new" / "1.host,S=21,W=23"
    assert moved.read_bytes() == RAW
    assert moved.stat().st_mtime == 1_000
    assert folder_of(mailbox, "Böses").is_present


def test_a_junk_folder_that_was_deleted_is_created_again(maildir: Path) -> None:
    for number in range(3):
        (maildir / "cur" / f"17{number}.M1P2.host:2,S").write_bytes(RAW)
    mailbox = MaildirMailbox(str(maildir))
    places = []
    for number in range(3):
        inbox, junk = folder_of(mailbox, "INBOX"), folder_of(mailbox, "Junk")
        mailbox.list_messages(inbox)
        assert mailbox.move(inbox, f"17{number}.M1P2.host", junk) == f"17{number}.M1P2.host"
        (place,) = maildir.glob(f"*/cur/17{number}.M1P2.host:2,S")
        places.append(place.parent.parent.name)
        shutil.rmtree(maildir / ".Junk", ignore_errors=True)
        if number == 1:
            make_maildir(maildir / "Junk")
    assert places == [".Junk", ".Junk", "Junk"]


def test_a_name_that_the_target_has_already_is_changed(maildir: Path) -> None:
    make_maildir(maildir / ".Junk")
    (maildir / ".Junk" / "cur" / "1.host:2,S").write_bytes(b"another")
    (maildir / "new" / "1.host").write_bytes(RAW)
    mailbox = MaildirMailbox(str(maildir))
    inbox, junk = folder_of(mailbox, "INBOX"), folder_of(mailbox, "Junk")
    mailbox.list_messages(inbox)
    assert mailbox.move(inbox, "1.host", junk) == "1.host-2"
    assert list_files(maildir) == {".Junk/cur/1.host:2,S": b"another", ".Junk/new/1.host-2": RAW}


def test_letters_of_keywords_are_translated_because_each_folder_has_its_own(maildir: Path) -> None:
    junk = make_maildir(maildir / ".Junk")
    (maildir / "dovecot-keywords").write_text("0 work\n1 later\n")
    (junk / "dovecot-keywords").write_text("0 other\n2 work\n")
    (maildir / "cur" / "1.host:2,Sab").write_bytes(RAW)
    mailbox = MaildirMailbox(str(maildir))
    inbox, target = folder_of(mailbox, "INBOX"), folder_of(mailbox, "Junk")
    mailbox.list_messages(inbox)
    mailbox.move(inbox, "1.host", target)
    assert list_files(maildir) == {".Junk/cur/1.host:2,Sbc": RAW}
    assert KeywordFile(str(junk)).read() == {"a": "other", "b": "later", "c": "work"}
    (listed,) = mailbox.list_messages(target)
    assert listed.keywords == {"\\Seen", "work", "later"}


def test_keywords_are_added_only_where_dovecot_keeps_them_and_never_in_new(maildir: Path) -> None:
    (maildir / "cur" / "1.host:2,S").write_bytes(RAW)
    (maildir / "new" / "2.host").write_bytes(RAW)
    mailbox = MaildirMailbox(str(maildir))
    inbox = folder_of(mailbox, "INBOX")
    mailbox.list_messages(inbox)
    assert not mailbox.add_keywords(inbox, "1.host", frozenset({"$Junk"}))
    (maildir / "dovecot-keywords").touch()
    assert mailbox.add_keywords(inbox, "1.host", frozenset({"$Junk"}))
    assert mailbox.add_keywords(inbox, "2.host", frozenset({"$Junk"}))
    assert (maildir / "dovecot-keywords").read_text() == "0 $Junk\n"
    assert sorted(list_files(maildir)) == ["cur/1.host:2,Sa", "new/2.host"]


def test_a_file_that_cannot_be_renamed_is_an_error_of_one_message(
    maildir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (maildir / "dovecot-keywords").write_text("0 $Junk\n")
    (maildir / "cur" / "1.host:2,").write_bytes(RAW)
    mailbox = MaildirMailbox(str(maildir))
    inbox = folder_of(mailbox, "INBOX")
    mailbox.list_messages(inbox)

    def fail(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(MessageError, match="cannot be marked: Permission denied"):
        mailbox.add_keywords(inbox, "1.host", frozenset({"$Junk"}))


def test_a_keyword_is_not_added_while_dovecot_holds_the_lock(maildir: Path) -> None:
    (maildir / "dovecot-keywords").touch()
    (maildir / "dovecot-keywords.lock").touch()
    assert KeywordFile(str(maildir)).find_or_add_letter("$Junk") is None
    os.utime(maildir / "dovecot-keywords.lock", (0, 0))  # left over
    assert KeywordFile(str(maildir)).find_or_add_letter("$Junk") == "a"


def test_a_full_file_of_keywords_takes_no_more(maildir: Path) -> None:
    (maildir / "dovecot-keywords").write_text("".join(f"{n} keyword{n}\n" for n in range(26)))
    assert KeywordFile(str(maildir)).find_or_add_letter("$Junk") is None
    assert KeywordFile(str(maildir)).find_or_add_letter("KEYWORD25") == "z"
    assert not (maildir / "dovecot-keywords.lock").exists()


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOSPC, FolderError), (errno.EACCES, FolderError), (errno.ENAMETOOLONG, MessageError)],
)
def test_a_folder_that_takes_nothing_is_told_from_a_message_that_cannot_be_moved(
    maildir: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    (maildir / "cur" / "1.host").write_bytes(RAW)
    mailbox = MaildirMailbox(str(maildir))
    inbox, junk = folder_of(mailbox, "INBOX"), folder_of(mailbox, "Junk")
    mailbox.list_messages(inbox)

    def fail(*_: object) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(MaildirTarget, "take", fail)
    with pytest.raises(error, match=os.strerror(number)):
        mailbox.move(inbox, "1.host", junk)


def test_a_folder_that_cannot_be_read_is_an_error_of_the_mailbox(maildir: Path) -> None:
    mailbox = MaildirMailbox(str(maildir))
    inbox = folder_of(mailbox, "INBOX")
    (maildir / "cur").rmdir()
    with pytest.raises(MailboxError, match="cannot be read"):
        mailbox.list_messages(inbox)
    maildir.rename(maildir.with_name("gone"))
    with pytest.raises(MailboxError, match="there is no folder"):
        mailbox.list_folders()


def test_the_revision_of_a_folder_changes_when_a_message_does(maildir: Path) -> None:
    for folder in ("cur", "new"):
        os.utime(maildir / folder, (1_000, 1_000))
    mailbox = MaildirMailbox(str(maildir))
    revision = folder_of(mailbox, "INBOX").revision
    assert revision
    assert folder_of(mailbox, "INBOX").revision == revision
    (maildir / "cur" / "1.host").write_bytes(RAW)
    assert folder_of(mailbox, "INBOX").revision == ""  # too recent to be told from a further change
    os.utime(maildir / "cur", (2_000, 2_000))
    assert folder_of(mailbox, "INBOX").revision not in ("", revision)


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])))
def test_the_name_of_a_folder_survives_modified_utf_7(name: str) -> None:
    encoded = encode_utf7(name)
    assert encoded.isascii()
    assert decode_utf7(encoded) == name


def test_broken_utf_7_is_left_as_it_is() -> None:
    for name in ("a&b", "&AOk", "&!!-", "é&-"):
        assert decode_utf7(name) == name
