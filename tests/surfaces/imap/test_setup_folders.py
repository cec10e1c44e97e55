"""What `tamis setup imap` says about the folders of an account: without a server."""

from argparse import ArgumentParser
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tamis_mail.surfaces.imap import setup
from tamis_mail.watching.mailbox import Folder, ListedMessage
from tamis_mail.watching.roles import Role

INBOX, JUNK = Folder("INBOX", Role.INBOX), Folder("Junk", Role.JUNK)


def show_folders(folders: Sequence[Folder], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Run the command on an account whose folders have one message, or none in Junk; return its output."""

    class Mailbox:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def list_folders(self) -> Sequence[Folder]:
            return folders

        def list_messages(self, folder: Folder) -> list[ListedMessage]:
            return [] if folder.role == Role.JUNK else [ListedMessage("1")]

        def close(self) -> None:
            pass

    module = SimpleNamespace(ImapMailbox=Mailbox, LoginError=ValueError)
    monkeypatch.setattr(setup, "load_mailbox_module", lambda: module)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    parser = ArgumentParser()
    parser.add_argument("--store")
    setup.configure(parser)
    words = ["--host", "mail.example", "--user", "ann", "--password-command", "true", "--yes", "--no-learn"]
    out = StringIO()
    assert setup.run(out, parser.parse_args(words)) == 0
    return out.getvalue()


def test_an_account_without_junk_is_told_to_name_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "No folder of spam was found: name it with --junk" in show_folders([INBOX], monkeypatch, tmp_path)
    shown = show_folders([INBOX, JUNK], monkeypatch, tmp_path)
    assert "move some to Junk, and run this again" in shown
    assert "--junk" not in shown


def test_no_empty_list_of_folders_is_announced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = show_folders([], monkeypatch, tmp_path)
    assert "There is no folder to learn." in shown
    assert "These folders" not in shown
