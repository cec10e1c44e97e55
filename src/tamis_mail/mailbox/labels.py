"""A tree of folders → the mailboxes in it whose names imply a label."""
# pathlib would cost a cold process 8 ms.
# ruff: noqa: PTH116

import os

from tamis_mail.mailbox import folders
from tamis_mail.mailbox.names import guess_label, is_neither
from tamis_mail.mailbox.source import is_mbox_file

__all__ = ["find_labelled_folders"]


def find_labelled_folders(root: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Find the mailboxes in a tree, including its root, whose names imply a label: paths and labels.

    The root of a Maildir tree is the inbox, whatever its name. Sent, Drafts and Trash are skipped with all
    their subfolders. Everything below a plain folder with a label has that label.
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
