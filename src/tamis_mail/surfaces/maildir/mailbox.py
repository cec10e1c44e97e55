"""A Maildir and its subfolders as a mailbox that is watched.

- The layouts are Maildir++, which has all subfolders directly in the Maildir under names such as `.Junk` and
  `.Junk.2026`, and folders in folders (`Junk/2026`), also mixed. Names are in modified UTF-7 or UTF-8.
  Links below the Maildir are not followed.
- A message is a regular file in `new` or `cur`; files in `tmp` are never touched. Its uid is its name without
  flags. A message in `new` that is not moved stays in `new`, so that mail programs still see it as new mail.
- A message is moved by `MaildirTarget.take`: its file is renamed, or copied to another file system, and keeps
  its flags and time. In its name, a small letter stands for a keyword; each folder has its own letters, in
  Dovecot's file `dovecot-keywords` (`keywords`), so the letters are translated.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tamis_mail.files import IrregularFileError, open_regular
from tamis_mail.framing import LARGEST_RAW
from tamis_mail.mailbox.folders import is_maildir
from tamis_mail.mailbox.maildir import MaildirTarget
from tamis_mail.mailbox.names import decode_utf7, encode_utf7
from tamis_mail.mailbox.raw_message import SourceError, printable
from tamis_mail.surfaces.maildir import names
from tamis_mail.surfaces.maildir.keywords import KEYWORD_FILE, KeywordFile
from tamis_mail.surfaces.maildir.notifications import Notifications
from tamis_mail.watching.mailbox import Folder, FolderError, ListedMessage, MailboxError, MessageError
from tamis_mail.watching.roles import NamedFolder, Role, find_roles

T = TypeVar("T")

_MAX_DEPTH = 12  # of folders in folders
_MAX_FOLDERS = 10_000  # further folders are ignored
_SUBFOLDERS = ("cur", "new", "tmp")  # of a Maildir
_FRESH_SECONDS = 2.0  # two changes within this time may have the same time stamp
# Errors for which no message can be moved to a folder now.
_FOLDER_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE})


@dataclass(slots=True)
class _Directory:
    """A folder on disk."""

    path: str
    parts: tuple[str, ...]
    keywords: KeywordFile
    # By uid: the path of each message when the folder was last listed.
    files: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "/".join(self.parts)


class MaildirMailbox:
    """The Maildir at a path.

    `junk` and `unsure` are folders that the user chose, such as ".Junk.2026" or "Junk/2026". With `poll`,
    `wait` sleeps for at most so many seconds and does not use notifications of the system. `report` is called
    with the event "polling" and the reason if the system sends no notifications.
    """

    def __init__(
        self,
        path: str,
        *,
        junk: str | None = None,
        unsure: str | None = None,
        poll: float | None = None,
        report: Callable[[str, str], None] = lambda event, reason: None,
    ) -> None:
        """Raise SourceError if the path is not a Maildir."""
        self.path = os.path.realpath(path)
        self._junk = names.split_folder_name(junk) if junk else None
        self._unsure = names.split_folder_name(unsure) if unsure else None
        self._notifications = Notifications(poll, lambda reason: report("polling", reason))
        self._targets: dict[str, MaildirTarget] = {}
        self._directories: dict[str, _Directory] = {}  # by name
        self._refuse_unless_maildir(path)

    def refuse_unless_writable(self) -> None:
        """Create Junk and Unsure if they are missing; raise SourceError if one of them cannot be written."""
        try:
            for folder in self.list_folders():
                if folder.role in (Role.JUNK, Role.UNSURE):
                    self._open_target(folder)
        except (FolderError, MailboxError) as error:
            raise SourceError(str(error)) from None

    def close(self) -> None:
        """Stop the notifications of the system."""
        self._notifications.close()

    # The methods of `watching.mailbox.Mailbox`.

    def list_folders(self) -> Sequence[Folder]:
        """List all folders, also Junk, and Unsure if the user chose one, before they exist."""
        paths = self._find_directories()
        named = [NamedFolder(parts) for parts in paths]
        roles = find_roles(
            named,
            junk=["/".join(self._junk)] if self._junk else (),
            unsure=["/".join(self._unsure)] if self._unsure else (),
        )
        folders = [
            Folder(self._directories["/".join(parts)].name, role, revision=self._read_revision(paths[parts]))
            for parts, role in zip(paths, roles, strict=True)
        ]
        present_roles = {folder.role for folder in folders}
        if Role.JUNK not in present_roles:
            folders.append(self._plan_folder(self._junk or ("Junk",), Role.JUNK, paths))
        if self._unsure and Role.UNSURE not in present_roles:
            folders.append(self._plan_folder(self._unsure, Role.UNSURE, paths))
        # The first folder of a role gets the messages: Junk, not Junk/2026.
        return sorted(folders, key=lambda folder: (folder.name.count("/"), folder.name))

    def list_messages(self, folder: Folder) -> list[ListedMessage]:
        """List the messages of a folder by the names of their files."""
        directory = self._directories[folder.name]
        keywords = directory.keywords.read()
        directory.files, listed = {}, {}
        # `new` comes before `cur`: a message that a mail program opens meanwhile is found twice, not missed.
        for path, base, flags in self._list_files(directory.path):
            uid = names.make_uid(base)
            directory.files[uid] = path
            listed[uid] = ListedMessage(uid, names.read_flags(flags, keywords))
        return list(listed.values())

    def read(self, folder: Folder, uids: Sequence[str]) -> Iterator[tuple[str, bytes | MessageError]]:
        """Read messages, each up to LARGEST_RAW bytes (100 MB).

        Yield each uid with the message, or with an error if it cannot be read. A message that is not in the
        folder any more is left out.
        """
        for uid in uids:
            try:
                yield uid, self._apply_to_file(folder, uid, _read_file)
            except LookupError:
                continue
            except IrregularFileError as error:
                yield uid, MessageError(f"it {error.strerror}")  # "it is a FIFO, …"
            except OSError as error:
                yield uid, MessageError(f"it cannot be read: {error.strerror}")

    def move(self, folder: Folder, uid: str, target: Folder, *, copy_uid: str | None = None) -> str | None:
        """Move a message by renaming or copying its file; return its uid in the target.

        `copy_uid`, the uid of a copy that an interrupted move between two disks has left in the target, is
        not needed: `MaildirTarget.take` itself recognises such a copy.
        """
        destination = self._open_target(target)
        letters = self._directories[folder.name].keywords.read()

        def take(path: str) -> str:
            name = Path(path).name
            return destination.take(path, _translate_keywords(name, letters, KeywordFile(destination.path)))

        try:
            new_path = self._apply_to_file(folder, uid, take)
        except OSError as error:
            if error.errno in _FOLDER_ERRORS:
                sentence = f"mail cannot be moved to {printable(target.name)}: {error.strerror}"
                raise FolderError(sentence) from None
            raise MessageError(f"it cannot be moved: {error.strerror}") from None
        self._directories[folder.name].files.pop(uid, None)
        if target.name not in self._directories:
            self._directories[target.name] = _Directory(
                destination.path, tuple(target.name.split("/")), KeywordFile(destination.path)
            )
        new_uid = names.make_uid(names.split_name(Path(new_path).name)[0])
        self._directories[target.name].files[new_uid] = new_path
        return new_uid

    def add_keywords(self, folder: Folder, uid: str, keywords: frozenset[str]) -> bool:
        """Add keywords to a message.

        Return False if the folder has no file `dovecot-keywords` that can list them all. A message in `new`
        stays as it is, because names in `new` have no flags.
        """
        directory = self._directories[folder.name]

        def add(path: str) -> None:
            file = Path(path)
            if file.parent.name == "cur":
                # `or ""` is for the type checker: no letter is None here.
                flags = names.split_name(file.name)[1] + "".join(letter or "" for letter in letters)
                renamed = file.with_name(names.with_flags(file.name, flags))
                file.rename(renamed)
                directory.files[uid] = str(renamed)

        try:
            letters = [directory.keywords.find_or_add_letter(keyword) for keyword in sorted(keywords)]
            if None in letters:
                return False
            self._apply_to_file(folder, uid, add)
        except OSError as error:
            raise MessageError(f"it cannot be marked: {error.strerror}") from None
        return True

    def wait(self, seconds: float) -> None:
        """Wait for a notification of the system, or for some seconds."""
        watched = [self.path]
        for directory in self._directories.values():
            subfolders = (Path(directory.path, name) for name in ("cur", "new"))
            watched += [str(subfolder) for subfolder in subfolders if subfolder.is_dir()]
        self._notifications.wait(watched, seconds)

    # Folders on disk.

    def _refuse_unless_maildir(self, path: str) -> None:
        try:
            roles = {folder.role for folder in self.list_folders()}
        except MailboxError as error:
            raise SourceError(str(error)) from None
        if Role.INBOX not in roles:
            raise SourceError(
                f"{printable(path)} is not a Maildir, expected a folder with cur and new, or with a folder "
                "INBOX: check the path"
            )

    def _find_directories(self) -> dict[tuple[str, ...], str]:
        """Return the paths of all folders by the parts of their names, and remember them."""
        paths: dict[tuple[str, ...], str] = {}
        if not Path(self.path).is_dir():
            raise MailboxError(f"there is no folder {printable(self.path)}: check the path, or mount it")
        if is_maildir(self.path):
            paths["INBOX",] = self.path
        self._add_subfolders(self.path, (), paths)
        for parts, path in paths.items():
            name = "/".join(parts)
            if name not in self._directories or self._directories[name].path != path:
                self._directories[name] = _Directory(path, parts, KeywordFile(path))
        return paths

    def _add_subfolders(self, path: str, parts: tuple[str, ...], paths: dict[tuple[str, ...], str]) -> None:
        """Add the folders below a path to `paths`, by the parts of their names, which begin with `parts`."""
        try:
            with os.scandir(path) as scan:
                entries = sorted(
                    (entry.name for entry in scan if entry.is_dir(follow_symlinks=False)), key=os.fsencode
                )
        except OSError as error:
            raise MailboxError(f"{printable(path)} cannot be read: {error.strerror}") from None
        for name in entries:
            if name in _SUBFOLDERS or len(paths) >= _MAX_FOLDERS:
                continue
            subfolder = f"{path}/{name}"
            if name.startswith("."):
                if parts or not is_maildir(subfolder):
                    continue
                subfolder_parts = names.split_folder_name(name)
            else:
                subfolder_parts = (*parts, decode_utf7(name))
            # Printable, because the folder's name, which these parts make, is logged and stored.
            key = tuple(printable(part).replace("/", "\\/") for part in subfolder_parts)
            if not parts and len(key) == 1 and key[0].casefold() == "inbox":
                key = ("INBOX",)
            if key not in paths and is_maildir(subfolder):
                paths[key] = subfolder
            if not name.startswith(".") and len(subfolder_parts) < _MAX_DEPTH:
                self._add_subfolders(subfolder, subfolder_parts, paths)

    def _plan_folder(self, parts: tuple[str, ...], role: Role, paths: dict[tuple[str, ...], str]) -> Folder:
        """Return a folder that will be created by the first move to it, in the layout of the others."""
        is_maildir_plus_plus = ("INBOX",) in paths and not any(
            Path(path).parent == Path(self.path) and not Path(path).name.startswith(".")
            for path in paths.values()
            if path != self.path
        )
        encoded = [encode_utf7(part) for part in parts]
        path = f"{self.path}/{'/'.join(encoded)}"
        if is_maildir_plus_plus:
            path = f"{self.path}/.{'.'.join(encoded)}"
        name = "/".join(parts)
        self._directories[name] = _Directory(path, parts, KeywordFile(path))
        return Folder(name, role, is_present=False)

    def _open_target(self, folder: Folder) -> MaildirTarget:
        """Open a folder to move mail to it; create it if it is missing. Raise FolderError if that fails."""
        path = self._directories[folder.name].path
        target = self._targets.get(folder.name)
        # A target that was used before may have been deleted since, and another folder may have its name now.
        if target is None or target.path != path or not is_maildir(path):
            try:
                target = MaildirTarget(path)
            except SourceError as error:
                raise FolderError(str(error)) from None
            self._targets[folder.name] = target
        return target

    def _read_revision(self, path: str) -> str:
        """Return the times of a folder's last changes as text.

        The text is empty if the last change is too recent, or if the times cannot be read: the folder then
        has no revision, and is listed.
        """
        times: list[int] = []
        for name in ("cur", "new", KEYWORD_FILE):
            with suppress(FileNotFoundError):
                try:
                    times.append(os.stat(f"{path}/{name}").st_mtime_ns)  # noqa: PTH116 (pathlib is slower)
                except PermissionError:
                    return ""
        is_fresh = max(times, default=0) > (time.time() - _FRESH_SECONDS) * 1e9
        return "" if is_fresh else f"{path} {times}"

    # Messages on disk.

    def _list_files(self, path: str) -> Iterator[tuple[str, str, str]]:
        """Yield the path of each message, and the base and flags of its name (`names.split_name`)."""
        for name in ("new", "cur"):
            try:
                with os.scandir(f"{path}/{name}") as scan:
                    for entry in scan:
                        if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
                            yield entry.path, *names.split_name(entry.name)
            except OSError as error:
                raise MailboxError(f"{printable(path)}/{name} cannot be read: {error.strerror}") from None

    def _apply_to_file(self, folder: Folder, uid: str, function: Callable[[str], T]) -> T:
        """Call a function with the path of a message's file; if the file was renamed, look for it once more.

        Raise LookupError if the message is not in the folder any more.
        """
        directory = self._directories[folder.name]
        for attempt in range(2):
            path = directory.files.get(uid)
            if path is not None:
                with suppress(FileNotFoundError):
                    return function(path)
            if attempt == 0:
                directory.files = {
                    names.make_uid(base): path for path, base, _ in self._list_files(directory.path)
                }
        raise LookupError(uid)


def _translate_keywords(name: str, letters: dict[str, str], target: KeywordFile) -> str:
    """Return the name of a message with the letters that its keywords have in the target."""
    flags = names.split_name(name)[1]
    if not any(flag in letters for flag in flags):
        return name
    kept = [flag for flag in flags if flag not in letters]
    kept += [target.find_or_add_letter(letters[flag]) or "" for flag in flags if flag in letters]
    return names.with_flags(name, "".join(kept))


def _read_file(path: str) -> bytes:
    with open_regular(path) as file:
        return file.read(LARGEST_RAW)
