"""Names of folders tell spam from ham, as mail programs and people write them, or tell nothing."""

import os
from pathlib import Path

import pytest

from tamis_mail.mailbox import find_labelled_folders, guess_label
from tamis_mail.mailbox.labels import find_all_folders
from tests.mail.mailbox.test_folders import maildir, plant
from tests.mail.mailbox.writers import mboxo

SPAM = """
    Junk, Spam, .Junk, .INBOX.Spam, Bulk, spam_2, spam.mbox, spam.mbox.gz, Junk.sbd, caughtspam, Junk E-mail,
    Bulk Mail, Pourriel, .Lixo, Спам, Courrier indésirable, .Courrier ind&AOk-sirable, Correo no deseado
"""
HAM = """
    INBOX, ham, easy_ham, Archive, .Archive.2024, not-spam, notspam.mbox, Maildir, mbox, Inbox.sbd, 收件箱
"""
NEITHER = """
    Sent, Drafts, .Trash, Work, spamassassin, hamburg, Deleted&Spam, .Sent.Archive, a&b&c, ..., &&&, Sent-Spam
"""
NAMES = [
    (name.strip(), label)
    for label, names in (("spam", SPAM), ("ham", HAM), (None, NEITHER))
    for name in names.split(",")
]


@pytest.mark.parametrize(("name", "label"), NAMES)
def test_a_name_tells(name: str, label: str | None) -> None:
    assert guess_label(f"/home/spam/{name}") == label
    assert guess_label(Path("mail") / name) == label


def found(root: Path) -> dict[str, str]:
    return {str(Path(path).relative_to(root)): label for path, label in find_labelled_folders(root)}


def test_a_maildir_tree(tmp_path: Path) -> None:
    root = maildir(tmp_path / "anybody", "cur/1")
    for name in (".Junk", ".Archive.2024", ".Sent", ".Drafts", ".Trash", ".Work", "Spam"):
        maildir(root / name)
    assert found(root) == {".": "ham", ".Junk": "spam", ".Archive.2024": "ham", "Spam": "spam"}
    assert found(root / ".Junk") == {".": "spam"}
    assert found(root / ".Sent") == {}


def test_a_tree_of_folders_and_mboxes(tmp_path: Path) -> None:
    root = plant(tmp_path, "corpus/easy_ham/1", "corpus/spam_2/x/y.eml", "corpus/other/z.eml", "Sent/spam/1")
    for name in ("Junk", "Inbox", "Trash", "Work"):
        (root / name).write_bytes(mboxo([b"Subject: x\n\ny\n"]))
    (root / "Junk.msf").write_bytes(b"// <!-- <mdb:mork")
    (root / "corpus" / "round").symlink_to(root)
    assert found(root) == {
        "Inbox": "ham",
        "Junk": "spam",
        "corpus/easy_ham": "ham",
        "corpus/spam_2": "spam",
    }


def test_a_folder_that_is_named_itself(tmp_path: Path) -> None:
    assert found(plant(tmp_path / "spam", "a.eml").parent) == {"spam": "spam"}
    assert found(tmp_path / "spam") == {".": "spam"}
    plant(tmp_path / "archive", "spam/1", "ham/1")
    assert found(tmp_path / "archive") == {"ham": "ham", "spam": "spam"}


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert find_labelled_folders(tmp_path / "spam") == []
    assert find_labelled_folders(plant(tmp_path, "a.eml")) == []


def left_out(root: Path) -> dict[str, str]:
    return {str(Path(path).relative_to(root)): reason for path, reason in find_all_folders(root)[1]}


def test_a_survey_gives_the_reasons_of_what_it_leaves_out(tmp_path: Path) -> None:
    root = maildir(tmp_path / "anybody", "cur/1")
    for name in (".Junk", ".Sent", ".Work"):
        maildir(root / name)
    assert left_out(root) == {
        ".Sent": "its name says that it is not incoming mail",
        ".Work": "its name says neither spam nor ham",
    }
    assert find_all_folders(root)[0] == find_labelled_folders(root)
    assert left_out(root / ".Sent") == {".": "its name says that it is not incoming mail"}


def test_a_survey_of_plain_folders_names_those_that_hold_mail(tmp_path: Path) -> None:
    root = plant(tmp_path, "notes/README", "spam/1.eml", "Trash/1.eml", "archive/ham/1.eml")
    for name in ("lists/1.eml", "lists/2.eml", "archive/top.eml"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"Subject: x\n\ny\n")
    for name in ("work", "Sent"):
        (root / name).write_bytes(mboxo([b"Subject: x\n\ny\n"]))
    (root / "Drafts.msf").write_bytes(b"// <!-- <mdb:mork")
    (root / "broken.gz").write_bytes(b"\x1f\x8b\x08 damaged")
    assert left_out(root) == {
        "Sent": "its name says that it is not incoming mail",
        "Trash": "its name says that it is not incoming mail",
        "lists": "its name says neither spam nor ham",
        "work": "its name says neither spam nor ham",
    }
    assert left_out(root / "archive") == {".": "folders in it have labels of their own"}
    assert left_out(root / "lists" / "1.eml") == {".": "its name says neither spam nor ham"}
    assert find_all_folders(root / "spam") == ([(str(root / "spam"), "spam")], [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_survey_names_what_it_may_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir(0o000)
    assert left_out(tmp_path) == {"secret": "it cannot be read (Permission denied)"}
