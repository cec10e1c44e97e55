"""Names of folders tell spam from ham, as mail programs and people write them, or tell nothing."""

from pathlib import Path

import pytest

from tamis_mail.mailbox import find_labelled_folders, guess_label
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
