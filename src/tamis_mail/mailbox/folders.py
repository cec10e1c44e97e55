"""List the files in a folder that may hold mail, in a deterministic order.

- Of a Maildir: the files of `cur` and `new`, together, by name, which begins with the time of delivery.
  Its folders `.Name` are other mailboxes, whose files follow only if the caller asks for them.
- Of an MH folder, which has one file per message, and perhaps marks of messages in `.mh_sequences`: the files
  whose names are numbers, by number.
- Of any other folder: its files and folders by name, without hidden ones; each folder is listed in turn.
- A link to a target outside the named folder is not followed: it could be any file, such as a password.
"""
# Importing pathlib would take 8 ms of a process that judges one message.
# ruff: noqa: PTH110, PTH116, PTH118

import os
from collections.abc import Callable, Iterator

FoundFile = tuple[str, str, bool]  # path, displayed name, and whether it may be an mbox
ReportError = Callable[[str, OSError], None]  # called with the displayed name of what cannot be read
# Called with the path and the displayed name of a subfolder, and None; or with those of a link that is left
# out in any case, and the reason. Returns whether the subfolder is left out.
LeaveOut = Callable[[str, str, str | None], bool]


def list_folder(path: str) -> list[os.DirEntry[str]]:
    """List the entries of a folder by name."""
    with os.scandir(path) as scan:
        return sorted(scan, key=lambda entry: entry.name)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or a link to one; False for a link to itself, which raises OSError."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def kind_of(entries: list[os.DirEntry[str]]) -> str:
    """Classify a folder by its entries: "maildir", "mh" or "folder"."""
    names = {entry.name: entry for entry in entries}
    if "cur" in names and "new" in names and is_folder(names["cur"]) and is_folder(names["new"]):
        return "maildir"
    visible = [entry for entry in entries if not entry.name.startswith(".")]
    is_numbered = bool(visible) and all(_is_number(e.name) and not is_folder(e) for e in visible)
    return "mh" if is_numbered or ".mh_sequences" in names else "folder"


def walk_files(
    root: str, name: str, report_error: ReportError, leave_out: LeaveOut, *, subfolders: bool = False
) -> Iterator[FoundFile]:
    """Yield the files below the folder `root`, except subfolders that `leave_out` leaves out.

    The displayed name of a file is `name` and its path below `root`; if `root` is itself a Maildir, its own
    messages have the path alone. With `subfolders`, the folders `.Name` of a Maildir are read after it.
    """
    root_folder = _RootFolder(root)
    visited: set[tuple[int, int]] = set()  # device and inode of folders
    # Path, displayed name, and whether it is a folder. This is a stack, because a tree can be deeper than
    # Python allows recursion to be.
    stack: list[tuple[str, str, bool]] = [(root, name, True)]
    while stack:
        path, display_name, is_directory = stack.pop()
        if not is_directory:
            yield path, display_name, True
            continue
        try:
            status = os.stat(path)
            entries = list_folder(path)
        except OSError as error:  # it vanished, or reading is not permitted
            report_error(display_name, error)
            continue
        if (status.st_dev, status.st_ino) in visited:  # a link led here again
            continue
        visited.add((status.st_dev, status.st_ino))
        kind = kind_of(entries)
        children = [entry for entry in entries if root_folder.contains(entry, display_name, leave_out)]
        if kind == "maildir":
            yield from _list_maildir(
                children, display_name if display_name != name else "", report_error, root_folder, leave_out
            )
            hidden_folders = [e for e in children if e.name.startswith(".") and is_folder(e)]
            children_to_visit = [e for e in hidden_folders if subfolders and is_maildir(e.path)]
        elif kind == "mh":
            for entry in sorted((e for e in children if _is_number(e.name)), key=lambda e: int(e.name)):
                yield entry.path, _join(display_name, entry.name), False
            continue
        else:
            children_to_visit = [entry for entry in children if not entry.name.startswith(".")]
        accepted: list[tuple[str, str, bool]] = []
        for entry in children_to_visit:
            child_name, is_subfolder = _join(display_name, entry.name), is_folder(entry)
            if not (is_subfolder and leave_out(entry.path, child_name, None)):
                accepted.append((entry.path, child_name, is_subfolder))
        stack += reversed(accepted)  # the first is popped first


class _RootFolder:
    """Recognises links whose targets are outside of the root folder."""

    def __init__(self, root: str) -> None:
        self._root = os.path.join(os.path.realpath(root), "")  # with "/" at its end

    def contains(self, entry: os.DirEntry[str], display_name: str, leave_out: LeaveOut) -> bool:
        """Whether an entry is inside, or the target of a link is; call `leave_out` if it is not."""
        if not entry.is_symlink():
            return True
        target = os.path.realpath(entry.path)
        if not os.path.exists(target) or os.path.join(target, "").startswith(self._root):
            return True  # a dangling link is handled like a file that has vanished
        leave_out(entry.path, _join(display_name, entry.name), "it is a link that leads out of the folder")
        return False


def is_maildir(path: str) -> bool:
    """Whether a folder is a Maildir; False if it cannot be read."""
    try:
        return kind_of(list_folder(path)) == "maildir"
    except OSError:
        return False


def _list_maildir(
    entries: list[os.DirEntry[str]],
    display_name: str,
    report_error: ReportError,
    root_folder: _RootFolder,
    leave_out: LeaveOut,
) -> Iterator[FoundFile]:
    """Yield the messages of a Maildir with these entries, in the order of the messages' file names."""
    messages: list[tuple[str, str, str]] = []
    for folder in entries:
        if folder.name in ("cur", "new"):
            folder_name = _join(display_name, folder.name)
            try:
                children = list_folder(folder.path)
            except OSError as error:
                report_error(folder_name, error)
                continue
            accepted = (
                e for e in children if e.name[0] != "." and root_folder.contains(e, folder_name, leave_out)
            )
            messages += [(entry.name, folder.name, entry.path) for entry in accepted]
    for name, cur_or_new, path in sorted(messages):
        yield path, _join(display_name, f"{cur_or_new}/{name}"), False


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
