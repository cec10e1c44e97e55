"""Find the mailboxes in a tree of folders whose names imply a label, and those whose names do not."""
# Importing pathlib would take 8 ms of a process that judges one message.
# ruff: noqa: PTH116, PTH120

import os

from tamis_mail.mailbox import folders, kinds, mbox
from tamis_mail.mailbox.names import guess_label, is_neither
from tamis_mail.mailbox.source import is_mbox_file
from tamis_mail.mailbox.stream import Content, File

_EXAMINED = 100  # maximum of files that are opened to find out whether a folder without a label holds mail
_NOT_INCOMING = "its name says that it is not incoming mail"
_UNKNOWN = "its name says neither spam nor ham"


LabelledPaths = list[tuple[str, str]]  # paths of mailboxes and their labels
PathsLeftOut = list[tuple[str, str]]  # paths of mailboxes without a label, and the reasons


def find_labelled_folders(root: str | os.PathLike[str]) -> LabelledPaths:
    """Find the mailboxes in a tree, including its root, whose names imply a label; return paths and labels.

    A root that is a Maildir is the inbox, so its label is ham, unless its name implies spam, or neither, as
    Sent does. Folders such as Sent, Drafts and Trash are skipped with all their subfolders. A folder other
    than the root that has a label, and is no Maildir, is one mailbox with all that is below it. The label of
    a root that is a folder of mailboxes counts only if none of them has a label.
    """
    return _find_mailboxes(root, is_complete=False)[0]


def find_all_folders(root: str | os.PathLike[str]) -> tuple[LabelledPaths, PathsLeftOut]:
    """Find mailboxes as `find_labelled_folders` does; also return what it leaves out, with reasons."""
    return _find_mailboxes(root, is_complete=True)


def _find_mailboxes(root: str | os.PathLike[str], *, is_complete: bool) -> tuple[LabelledPaths, PathsLeftOut]:
    """Find mailboxes with and without a label.

    Unless `is_complete`, mailboxes without a label that are files or folders of files are not searched for:
    their files would have to be opened.
    """
    mailboxes: LabelledPaths = []
    left_out: dict[str, str] = {}
    visited: set[tuple[int, int]] = set()
    examined: dict[str, int] = {}  # files that were opened, by folder
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
            elif not label and is_complete:
                folder = path if path == start else os.path.dirname(path)
                examined[folder] = examined.get(folder, 0) + 1
                if examined[folder] <= _EXAMINED and (mailbox := _find_mailbox(path, folder)):
                    left_out.setdefault(mailbox, _explain(mailbox))
            continue
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                left_out[path] = f"it cannot be read ({error.strerror})"
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
            else:
                left_out[path] = _explain(path)
            entries = [e for e in entries if e.name not in ("cur", "new", "tmp") and folders.is_folder(e)]
        elif label and (path != start or kind == "mh"):
            mailboxes.append((path, label))
            continue
        else:
            entries = [e for e in entries if not e.name.startswith(".")]
        for entry in entries:
            if not is_neither(entry.path):
                stack.append(entry.path)
            elif is_complete and (folders.is_folder(entry) or is_mbox_file(entry.path)):
                left_out[entry.path] = _NOT_INCOMING
    if not mailboxes and visited and (label := guess_label(start)):
        mailboxes.append((start, label))
        left_out.pop(start, None)
    return sorted(mailboxes), sorted(left_out.items())


def _explain(path: str) -> str:
    """Return why a mailbox that was found has no label."""
    if guess_label(path):
        return "folders in it have labels of their own"
    return _NOT_INCOMING if is_neither(path) else _UNKNOWN


def _find_mailbox(path: str, folder: str) -> str | None:
    """Return the file if it is an mbox, its folder if it is a message, None otherwise."""
    try:
        with File(path) as file:
            head = Content(file).peek(kinds.HEAD)
    except (OSError, ValueError):  # a ValueError: a damaged compressed file
        return None
    if mbox.is_mbox(head):
        return path
    return folder if kinds.begins_with_field(head) else None
