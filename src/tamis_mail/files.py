"""a path → a file that is read or replaced safely: the one place of this package that writes files by name.

A file is written under a random name beside its place (mode 600, O_EXCL, so that nothing planted there is
followed), synced, and renamed. The writer holds a lock on it meanwhile. After a kill the lock is gone: the
next writer of the same file sees that, and removes what was left.
"""

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO

__all__ = ["IrregularFileError", "is_there", "open_regular", "replace_file", "temporary_beside", "write_file"]

_ENDINGS = ("", "-wal", "-shm", "-journal")  # a temporary store has these beside it
_SUFFIX = ".tamis-part"
_EXCLUSIVE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_KINDS: dict[str, Callable[[int], bool]] = {
    "FIFO": stat.S_ISFIFO,
    "folder": stat.S_ISDIR,
    "socket": stat.S_ISSOCK,
    "device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}


class IrregularFileError(OSError):
    """A FIFO, a device, a socket or a folder where a file was expected."""


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether something, if only a link, has this name; an error where that cannot be known.

    `os.path.lexists` says no of a file in a folder that may not be searched.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file to read it: a FIFO would wait for a writer for ever, a device may act."""
    return open(path, "rb", opener=_open_descriptor)


def _open_descriptor(path: str, flags: int) -> int:
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        refuse_irregular(os.fstat(handle).st_mode, path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def refuse_irregular(mode: int, path: str | os.PathLike[str]) -> None:
    """Raise an error unless the mode is that of a regular file."""
    if not stat.S_ISREG(mode):
        kind = next((name for name, is_kind in _KINDS.items() if is_kind(mode)), "special file")
        raise IrregularFileError(0, f"is a {kind}, expected a file", os.fspath(path))


def write_file(path: str | os.PathLike[str], data: bytes, *, sync: bool = True) -> None:
    """Make the file hold these bytes: all of them, or what it held before.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder, "page"), b"text")
    ...     Path(folder, "page").read_bytes(), oct(Path(folder, "page").stat().st_mode & 0o777)
    (b'text', '0o600')
    """
    with replace_file(path, sync=sync) as file:
        file.write(data)


@contextmanager
def replace_file(path: str | os.PathLike[str], *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a file to write; it takes the place of the old one when the block ends without an error.

    A link stays one: its target is replaced. What is no regular file (/dev/stdout) is written to as it is.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    with temporary_beside(target) as temporary:
        with temporary.path.open("r+b") as file:
            yield file
        temporary.move_to(target, sync=sync)


class Temporary:
    """A file of ours under a random name, locked as long as it is written."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    def move_to(self, target: Path, *, sync: bool = True) -> None:
        """Give the finished file its name; with `sync`, on the disk before this returns."""
        if sync:
            os.fsync(self._handle)
        self.path.replace(target)
        if sync:
            _sync_folder(target.parent)

    def close(self) -> None:
        """Remove what was not moved, and release the lock."""
        for ending in _ENDINGS:
            Path(f"{self.path}{ending}").unlink(missing_ok=True)
        os.close(self._handle)


@contextmanager
def temporary_beside(path: Path) -> Iterator[Temporary]:
    """Make an empty file on the same disk, which only its owner may read and which is gone at the end."""
    _remove_leftovers(path)
    temporary = _create_beside(path)
    try:
        yield temporary
    finally:
        temporary.close()


def _create_beside(path: Path) -> Temporary:
    while True:
        temporary_path = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}{_SUFFIX}")
        handle = os.open(temporary_path, _EXCLUSIVE, 0o600)
        try:
            _lock(handle, wait=True)
            if os.fstat(handle).st_nlink:  # else another process took it for a leftover before the lock
                return Temporary(temporary_path, handle)
        except BaseException:
            os.close(handle)
            temporary_path.unlink(missing_ok=True)
            raise
        os.close(handle)


def _prefix(path: Path) -> str:
    return f".{path.name[:100]}."  # a name has at most 255 bytes


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files of this path whose writers were killed: nobody holds their locks."""
    with suppress(OSError):
        for name in os.listdir(path.parent):  # noqa: PTH208 (names only)
            if name.startswith(_prefix(path)) and name.endswith(_SUFFIX):
                with suppress(OSError):
                    _remove_unless_locked(path.with_name(name))


def _remove_unless_locked(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    try:
        if stat.S_ISREG(os.fstat(handle).st_mode) and _lock(handle, wait=False):
            for ending in _ENDINGS:
                Path(f"{path}{ending}").unlink(missing_ok=True)
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Take the lock of a file; false if another process has it, or where there are no such locks."""
    try:
        fcntl = import_module("fcntl")
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):
        return False
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
