"""Read files, and replace whole files, safely.

A new file is written under a random name in the folder of the old one, with mode 600 and O_EXCL, so that a
file or link that somebody else put there is not opened. It is synced to the disk (`os.fsync`) unless the
caller says otherwise, and renamed. Until then the writer holds a lock on it, where the system has such locks.
A killed process loses its lock, so the next writer of the same file recognises leftover temporary files and
removes them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

TYPE_CHECKING = False  # `typing` and `pathlib` would take 8 ms of a process that judges one message
if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

# Endings of the names of a temporary file and, if it is a store, of the files that SQLite writes beside it.
_ENDINGS = ("", "-wal", "-shm", "-journal")
_SUFFIX = ".tamis-part"  # of the names of temporary files
_CREATE_FLAGS = (
    os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
)
_IRREGULAR_KINDS: dict[str, Callable[[int], bool]] = {
    "FIFO": stat.S_ISFIFO,
    "folder": stat.S_ISDIR,
    "socket": stat.S_ISSOCK,
    "device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}


class IrregularFileError(OSError):
    """A FIFO, a device, a socket or a folder where a file was expected."""


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a file or link of this name exists; raises an error if that cannot be known.

    `os.path.lexists` returns False for a file in a folder without search permission.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def open_privately(name: str, flags: int) -> int:
    """Open a file, as an `opener` of `open`; a new one has mode 600, so that only its owner may read it."""
    return os.open(name, flags, 0o600)


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading; raise IrregularFileError for another, such as a FIFO or a device."""
    return open(path, "rb", opener=_open_descriptor)


def _open_descriptor(path: str, flags: int) -> int:  # an `opener` of `open`
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        refuse_irregular(os.fstat(descriptor).st_mode, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def refuse_irregular(mode: int, path: str | os.PathLike[str]) -> None:
    """Raise IrregularFileError unless the mode is that of a regular file."""
    if not stat.S_ISREG(mode):
        kind = next((name for name, is_kind in _IRREGULAR_KINDS.items() if is_kind(mode)), "special file")
        raise IrregularFileError(0, f"is a {kind}, expected a file", os.fspath(path))


def write_file(path: str | os.PathLike[str], data: bytes, *, sync: bool = True) -> None:
    """Replace the contents of a file atomically, as `replace_file` does.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder, "page"), b"text")
    ...     Path(folder, "page").read_bytes(), oct(Path(folder, "page").stat().st_mode & 0o777)
    (b'text', '0o600')
    """
    with replace_file(path, sync=sync) as file:
        file.write(data)


@contextmanager
def replace_file(path: str | os.PathLike[str], *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing; it replaces the old file when the block ends without an error.

    A link stays a link: its target is replaced. An irregular file (/dev/stdout) is written directly.
    """
    target = _make_path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    with temporary_beside(target) as temporary:
        with temporary.path.open("r+b") as file:
            yield file
        temporary.move_to(target, sync=sync)


class Temporary:
    """A temporary file under a random name, locked while it is written."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def move_to(self, target: Path, *, sync: bool = True) -> None:
        """Rename the finished file to its target; with `sync`, it is on disk before this returns."""
        if sync:
            os.fsync(self._descriptor)
        self.path.replace(target)
        if sync:
            _sync_folder(target.parent)

    def close(self) -> None:
        """Remove the file unless it was moved, and release the lock."""
        for ending in _ENDINGS:
            _make_path(f"{self.path}{ending}").unlink(missing_ok=True)
        os.close(self._descriptor)


@contextmanager
def temporary_beside(path: Path) -> Iterator[Temporary]:
    """Create an empty file in the folder of a path, readable by its owner only.

    At the end of the block it is removed, unless `move_to` has moved it.
    """
    _remove_leftovers(path)
    temporary = _create_beside(path)
    try:
        yield temporary
    finally:
        temporary.close()


def _create_beside(path: Path) -> Temporary:
    """Create a temporary file of a random name in the folder of a path, and lock it."""
    while True:
        temporary_path = path.with_name(f"{_make_prefix(path)}{os.urandom(8).hex()}{_SUFFIX}")
        descriptor = os.open(temporary_path, _CREATE_FLAGS, 0o600)
        try:
            lock_descriptor(descriptor, wait=True)
            # A link count of 0: another process removed the file as a leftover before it was locked.
            if os.fstat(descriptor).st_nlink:
                return Temporary(temporary_path, descriptor)
        except BaseException:
            os.close(descriptor)
            temporary_path.unlink(missing_ok=True)
            raise
        os.close(descriptor)


def _make_path(name: str) -> Path:
    path: Path = import_module("pathlib").Path(name)
    return path


def _make_prefix(path: Path) -> str:
    """Return the beginning of the names of temporary files of a path."""
    return f".{path.name[:100]}."  # truncated, because a file name may have at most 255 bytes


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of this path whose writers were killed, recognised by their free locks."""
    with suppress(OSError):
        for name in os.listdir(path.parent):  # noqa: PTH208 (pathlib would make a Path of each name)
            if name.startswith(_make_prefix(path)) and name.endswith(_SUFFIX):
                with suppress(OSError):
                    _remove_unless_locked(path.with_name(name))


def _remove_unless_locked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and lock_descriptor(descriptor, wait=False):
            for ending in _ENDINGS:
                _make_path(f"{path}{ending}").unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def lock_descriptor(descriptor: int, *, wait: bool) -> bool:
    """Lock an open file or folder; return False if another process has the lock, or if there are no locks.

    The lock is released when the descriptor is closed. With `wait`, another process is waited for.
    """
    try:
        fcntl = import_module("fcntl")
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):
        return False
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
