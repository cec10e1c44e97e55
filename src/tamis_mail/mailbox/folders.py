"""A folder → the files in it that may hold mail, in an order that is the same every time.

- A Maildir is its `cur` and `new`, by name and so by time; folders `.Junk` in it are other mailboxes.
- An MH folder is its numbered files, by number.
- Any other folder is all its files and folders by name, down to the last, but for hidden ones.
"""
# pathlib would cost a cold process 8 ms.
# ruff: noqa: PTH116, PTH118, PTH208

import os
from collections.abc import Callable, Iterator

__all__ = ["Place", "files", "is_folder", "kind_of", "list_folder"]

Place = tuple[str, str, bool]  # a path, how it is called, and whether it may be an mbox
Note = Callable[[str, OSError], None]  # told what could not be looked into, by name


def list_folder(path: str) -> list[os.DirEntry[str]]:
    """What is in a folder, by name."""
    with os.scandir(path) as found:
        return sorted(found, key=lambda entry: entry.name)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or a link to one; a link to itself is neither, and no error."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def kind_of(entries: list[os.DirEntry[str]]) -> str:
    """What a folder with these entries is: "maildir", "mh" or "folder"."""
    names = {entry.name: entry for entry in entries}
    if "cur" in names and "new" in names and is_folder(names["cur"]) and is_folder(names["new"]):
        return "maildir"
    shown = [entry for entry in entries if not entry.name.startswith(".")]
    numbered = bool(shown) and all(_is_number(e.name) and not is_folder(e) for e in shown)
    return "mh" if numbered or ".mh_sequences" in names else "folder"


def files(root: str, name: str, note: Note) -> Iterator[Place]:
    """Each file under a folder, called by `name` and its path below."""
    visited: set[tuple[int, int]] = set()
    waiting: list[tuple[str, str, bool]] = [(root, name, True)]  # a stack: trees can be deeper than calls can
    while waiting:
        path, called, is_inner = waiting.pop()
        if not is_inner:
            yield path, called, True
            continue
        try:
            status = os.stat(path)
            entries = list_folder(path)
        except OSError as error:  # it vanished, or may not be read
            note(called, error)
            continue
        if (status.st_dev, status.st_ino) in visited:  # a link back up
            continue
        visited.add((status.st_dev, status.st_ino))
        kind = kind_of(entries)
        if kind == "maildir":
            yield from _maildir(path, called if called != name else "", note)
        elif kind == "mh":
            for entry in sorted((e for e in entries if _is_number(e.name)), key=lambda e: int(e.name)):
                yield entry.path, _join(called, entry.name), False
        else:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
            waiting += [(e.path, _join(called, e.name), is_folder(e)) for e in reversed(shown)]


def _maildir(path: str, called: str, note: Note) -> Iterator[Place]:
    found: list[tuple[str, str]] = []
    for part in ("cur", "new"):
        try:
            found += [(name, part) for name in os.listdir(os.path.join(path, part)) if name[0] != "."]
        except OSError as error:
            note(_join(called, part), error)
    for name, part in sorted(found):
        yield os.path.join(path, part, name), _join(called, f"{part}/{name}"), False


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
