"""Move a message from one Maildir to another without losing it, even if the process is killed.

- Within one file system a message is renamed, so that it is in one folder at every moment.
- Between file systems it is copied to `tmp`, synced and renamed to its place in the target; then the original
  is removed. If the process is killed before that, the message is in both folders under one name. The next
  attempt to move it recognises the copy, and removes the original.
- A message keeps its modification time, which servers use as time of arrival, and its folder: `new` (unread)
  or `cur`. It keeps its name, and so its flags, unless the caller gives it another. If the target has another
  message of that name, it gets a new name.
- Where the system has file locks, one process at a time moves messages into a folder, so that two messages of
  one name do not collide.
"""

import errno
import itertools
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from tamis_mail.files import lock_descriptor, temporary_beside
from tamis_mail.mailbox.folders import is_folder, is_maildir, list_folder
from tamis_mail.mailbox.raw_message import SourceError, printable

_FOLDERS = ("tmp", "new", "cur")
_MODE = 0o700  # permissions of folders that are created
_BLOCK = 1 << 20
_MARK_FILE = "maildirfolder"  # the empty file that marks a subfolder in Maildir++ (Maildir with subfolders)


def resolve_target(path: str, maildir: str) -> str:
    """Return the path of a target: `.Junk`, without a slash, is the subfolder of the Maildir.

    >>> resolve_target(".Junk", "/home/me/Maildir"), resolve_target("Mail/Junk/", "/home/me/Maildir")
    ('/home/me/Maildir/.Junk', 'Mail/Junk')
    """
    name = path.rstrip("/") or path
    is_subfolder = name.startswith(".") and name not in {".", ".."} and "/" not in name
    return os.path.join(maildir, name) if is_subfolder else name  # noqa: PTH118 (it stays as it was given)


def refuse_unless_maildir(path: str, kind: str, *, is_read_only: bool = False) -> None:
    """Raise SourceError for a source that is no Maildir or, unless `is_read_only`, cannot be written to."""
    if kind == "maildir":
        for name in ("cur", "new"):
            if not is_read_only and not os.access(f"{path}/{name}", os.W_OK | os.X_OK):
                raise SourceError(
                    f"{printable(path)} has messages that cannot be moved (no permission to write in "
                    f"{name}), expected a Maildir in which you may write: check its permissions"
                )
        return
    maildirs = [e.name for e in list_folder(path) if is_maildir(e.path)] if kind == "folder" else []
    if maildirs:
        raise SourceError(
            f"{printable(path)} is a folder of Maildirs, expected one Maildir to move mail from: name it, "
            f"such as {printable(os.path.join(path, maildirs[0]))}"  # noqa: PTH118 (it stays as it was given)
        )
    described = {
        "mbox": "an mbox, which is one file of all its messages",
        "mh": "an MH folder",
        "message": "a single message",
        "stdin": "standard input",
    }.get(kind, "a folder without cur and new")
    raise SourceError(
        f"{printable(path)} is {described}, expected a Maildir, in which each message is a file that can be "
        "moved: sort it without --move, or convert it to a Maildir"
    )


class MaildirTarget:
    """A Maildir that takes messages; it is created when it takes the first one."""

    def __init__(self, path: str) -> None:
        """Raise SourceError if the path is neither a Maildir nor can become one."""
        self.path = path
        self._paths: dict[str, Path] = {}  # of its messages, by their names without flags
        self._is_ready = False
        try:
            self.is_created = self._is_complete()  # False: it will be created
        except OSError as error:
            raise SourceError(
                f"{printable(path)} cannot be used ({error.strerror}), expected a Maildir in which you may "
                "write: check its permissions"
            ) from None

    def is_same_folder(self, path: str) -> bool:
        """Whether a path leads to this folder, perhaps by a link."""
        return os.path.realpath(path) == os.path.realpath(self.path)

    def create(self) -> None:
        """Create those folders of the Maildir that are missing."""
        root = Path(self.path)
        root.mkdir(_MODE, exist_ok=True)
        for name in _FOLDERS:
            (root / name).mkdir(_MODE, exist_ok=True)
        if not self.is_created and root.name.startswith(".") and is_maildir(str(root.parent)):
            (root / _MARK_FILE).touch(0o600)
        self.is_created = True

    def take(self, path: str, name: str | None = None) -> str:
        """Move the message at a path of another Maildir into this one, and return its new path.

        With `name`, it is renamed: the letters of keywords in a file name have other meanings in each
        folder. Raise FileNotFoundError if another program has moved, renamed or deleted it meanwhile.
        """
        if not self._is_ready:
            self.create()
            self._paths = {_split_name(one.name)[0]: one for one in self._list_messages()}
            self._is_ready = True
        source = Path(path)
        folder = Path(self.path, "new" if source.parent.name == "new" else "cur")
        name = source.name if name is None else name
        with _lock(self.path) as is_locked:
            target = next(one for one in _propose_paths(folder, name) if self._find(one) is None)
            try:
                source.rename(target)
            except OSError as error:
                if error.errno != errno.EXDEV:  # EXDEV: the target is on another file system
                    raise
                target = self._move_copy(source, folder, name, is_locked=is_locked)
        self._paths[_split_name(target.name)[0]] = target
        return str(target)

    def _move_copy(self, source: Path, folder: Path, name: str, *, is_locked: bool) -> Path:
        """Move a message from another file system: copy it, then remove the original."""
        for target in _propose_paths(folder, name):
            known = self._find(target)
            if known is None:
                break
            if _have_same_bytes(source, known):  # the process that copied it was killed
                source.unlink()
                return known
        self._write_copy(source, target)
        try:
            source.unlink()
        except FileNotFoundError:
            # A mail program renamed the original, to set a flag, or deleted it: remove the copy. Without the
            # lock, the file at the target could be one that another tamis has moved there.
            if is_locked:
                target.unlink(missing_ok=True)
            raise
        return target

    def _write_copy(self, source: Path, target: Path) -> None:
        temporary_path = Path(self.path, "tmp", _split_name(target.name)[0])
        with source.open("rb") as original, temporary_beside(temporary_path) as temporary:
            with temporary.path.open("r+b") as copy:
                shutil.copyfileobj(original, copy, _BLOCK)
            status = os.fstat(original.fileno())
            os.utime(temporary.path, ns=(status.st_atime_ns, status.st_mtime_ns))
            temporary.path.chmod(stat.S_IMODE(status.st_mode))
            temporary.move_to(target)

    def _is_complete(self) -> bool:
        """Whether the folder is a complete Maildir; raise SourceError if it cannot become one."""
        root = Path(self.path)
        if not root.exists():
            self._refuse_missing_parent()
            return False
        advice = "expected a Maildir (a folder with cur, new and tmp) to move mail to: name another path"
        if not root.is_dir():
            raise SourceError(f"{printable(self.path)} is a file, {advice}")
        entries = list_folder(self.path)
        names = {entry.name for entry in entries if is_folder(entry)}
        if not names.issuperset(("cur", "new")) and any(
            e.name not in (*_FOLDERS, _MARK_FILE) for e in entries
        ):
            raise SourceError(f"{printable(self.path)} is a folder of something else, {advice}")
        for folder in (root, *(root / name for name in _FOLDERS if name in names)):
            _refuse_unless_writable(folder)
        return names.issuperset(_FOLDERS)

    def _refuse_missing_parent(self) -> None:
        root = Path(self.path)
        if root.is_symlink():
            raise SourceError(
                f"{printable(self.path)} is a link to {printable(str(root.readlink()))}, which does not "
                "exist: repair the link"
            )
        parent = root.absolute().parent
        if not parent.is_dir():
            raise SourceError(
                f"{printable(self.path)} cannot be created, because there is no folder "
                f"{printable(str(parent))}: {_suggest(parent)}"
            )
        _refuse_unless_writable(parent)

    def _list_messages(self) -> Iterator[Path]:
        for name in ("cur", "new"):
            yield from Path(self.path, name).iterdir()

    def _find(self, path: Path) -> Path | None:
        """Return the path of the message in this Maildir with the name of a path, but perhaps other flags."""
        if os.path.lexists(path):
            return path
        base, _ = _split_name(path.name)
        known = self._paths.get(base)
        if known is None or os.path.lexists(known):
            return known
        return next((one for one in self._list_messages() if _split_name(one.name)[0] == base), None)


def _propose_paths(folder: Path, name: str) -> Iterator[Path]:
    """Yield the paths that a message may get, in the order of preference: its own name, then changed ones.

    They are the same for each attempt, so that the copy of an interrupted move is recognised.

    >>> [path.name for path in itertools.islice(_propose_paths(Path("cur"), "17.M1P2.host,S=812:2,S"), 3)]
    ['17.M1P2.host,S=812:2,S', '17.M1P2.host-2,S=812:2,S', '17.M1P2.host-3,S=812:2,S']
    """
    yield folder / name
    base, flags = _split_name(name)
    unique, comma, sizes = base.partition(",")
    for number in itertools.count(2):
        yield folder / f"{unique}-{number}{comma}{sizes}{flags}"


def _split_name(name: str) -> tuple[str, str]:
    """Split a file name into the part that identifies the message and the flags.

    >>> _split_name("1700000000.M1P2.host,S=812:2,FS")
    ('1700000000.M1P2.host,S=812', ':2,FS')
    """
    base, colon, flags = name.partition(":")
    return base, colon + flags


def _have_same_bytes(one: Path, other: Path) -> bool:
    with one.open("rb") as one_file, other.open("rb") as other_file:
        if os.fstat(one_file.fileno()).st_size != os.fstat(other_file.fileno()).st_size:
            return False
        while block := one_file.read(_BLOCK):
            if block != other_file.read(len(block)):
                return False
    return True


@contextmanager
def _lock(folder: str) -> Iterator[bool]:
    """Hold the lock of a folder, which one process at a time has; yield False if there are no such locks."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield lock_descriptor(descriptor, wait=True)
    finally:
        os.close(descriptor)


def _refuse_unless_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"no permission to write in {printable(str(folder))}")


def _suggest(missing: Path) -> str:
    """Return advice on a path that does not exist; it names an existing folder of a similar name, if any."""
    folder = missing
    while not folder.parent.is_dir():
        folder = folder.parent
    try:
        siblings = [entry.name for entry in list_folder(str(folder.parent)) if is_folder(entry)]
    except OSError:
        siblings = []
    similar = get_close_matches(folder.name, siblings, 1)
    if similar:
        return f"did you mean {printable(str(folder.parent / similar[0]))}?"
    return "check the path, or create that folder first"
