"""Dovecot's file `dovecot-keywords`, which maps small letters in file names to the keywords of a folder.

To change the file, Dovecot creates `dovecot-keywords.lock`, writes the new contents to it and renames it to
`dovecot-keywords`; it reads the file again when its time has changed. A keyword is added here in the same
way. Without such a file, no other program would understand the letters, so none are written.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from string import ascii_lowercase

from tamis_mail.files import open_regular

KEYWORD_FILE = "dovecot-keywords"
_MAX_BYTES = 1 << 16  # of the file that are read
_STALE_SECONDS = 120  # an older lock was left behind by a killed process, as Dovecot also assumes


class KeywordFile:
    """The keywords of one folder."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, KEYWORD_FILE)
        self._version: tuple[int, int] | None = None  # time and inode of the file that was read
        self._names: dict[str, str] = {}

    def read(self) -> dict[str, str]:
        """Return the keywords by their letters; none if the file is missing or cannot be read."""
        try:
            with open_regular(self._path) as file:
                status = os.fstat(file.fileno())
                version = (status.st_mtime_ns, status.st_ino)
                if version == self._version:
                    return self._names
                lines = file.read(_MAX_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:
            return {}
        names = {}
        for line in lines:
            number, _, name = line.partition(" ")
            if number.isascii() and number.isdigit() and name:
                index = int(number[:3])  # more digits are not needed: there are 26 letters
                if index < len(ascii_lowercase):
                    names[ascii_lowercase[index]] = name
        self._names, self._version = names, version
        return names

    def find_or_add_letter(self, keyword: str) -> str | None:
        """Return the letter of a keyword; a missing keyword is added to the file.

        Return None if it cannot be added: there is no file, another program is writing it, this process may
        not write it, or all letters are taken.
        """
        known = self._find_known(keyword)
        return known if known is not None else self._add(keyword)

    def _find_known(self, keyword: str) -> str | None:
        folded = keyword.casefold()
        return next((letter for letter, name in self.read().items() if name.casefold() == folded), None)

    def _add(self, keyword: str) -> str | None:
        """Add a keyword to the file, under Dovecot's lock; return its letter, or None if that fails."""
        if not self._path.is_file() or not keyword.isprintable() or " " in keyword:
            return None
        lock = self._path.with_name(f"{KEYWORD_FILE}.lock")
        with suppress(OSError):
            if time.time() - lock.stat().st_mtime > _STALE_SECONDS:
                lock.unlink()
        try:
            handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:  # Dovecot is writing, or this process may not write
            return None
        try:
            known = self._find_known(keyword)
            names = self.read()
            free = [letter for letter in ascii_lowercase if letter not in names]
            if known is not None or not free:
                lock.unlink()
                return known
            lines = {**names, free[0]: keyword}
            text = "".join(f"{ascii_lowercase.index(letter)} {lines[letter]}\n" for letter in sorted(lines))
            os.write(handle, text.encode("utf-8", "replace"))
            status = self._path.stat()
            os.fchmod(handle, status.st_mode & 0o777)
            with suppress(OSError):  # if this process is root, the file keeps its owner
                os.fchown(handle, status.st_uid, status.st_gid)
            lock.replace(self._path)
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        return free[0]
