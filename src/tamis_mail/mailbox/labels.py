"""A tree of folders → the mailboxes in it whose names tell what is in them."""
# pathlib would cost a cold process 8 ms.
# ruff: noqa: PTH116

import os

from tamis_mail.mailbox import folders
from tamis_mail.mailbox.names import guess_label, is_neither
from tamis_mail.mailbox.source import is_mbox_file

__all__ = ["find_labelled_folders"]


def find_labelled_folders(root: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The mailboxes in a tree, itself included, whose names tell what is in them: paths and labels.

    The root of a Maildir tree is the inbox, whatever it is called. Below Sent, Drafts and Trash nothing is
    looked for, and all below a plain folder with a label is of that label.
    """
    mailboxes: list[tuple[str, str]] = []
    visited: set[tuple[int, int]] = set()
    start = os.fspath(root)
    stack = [start]
    while stack:
        path = stack.pop()
        label = guess_label(path)
        try:
            status = os.stat(path)
            entries = folders.list_folder(path)
        except NotADirectoryError:
            if label and is_mbox_file(path):
                mailboxes.append((path, label))
            continue
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in visited:
            continue
        visited.add((status.st_dev, status.st_ino))
        kind = folders.kind_of(entries)
        if kind == "maildir":
            if path == start and not is_neither(path):
                label = label or "ham"
            if label:
                mailboxes.append((path, label))
            entries = [e for e in entries if e.name not in ("cur", "new", "tmp") and folders.is_folder(e)]
        elif label and (path != start or kind == "mh"):
            mailboxes.append((path, label))
            continue
        else:
            entries = [e for e in entries if not e.name.startswith(".")]
        stack += [entry.path for entry in entries if not is_neither(entry.path)]
    if not mailboxes and visited and (label := guess_label(start)):
        mailboxes.append((start, label))
    return sorted(mailboxes)
