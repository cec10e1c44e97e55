"""A path, or stdin → a source: what kind of mailbox it is, how large, and its letters one by one."""
# pathlib would cost a cold process 8 ms.
# ruff: noqa: PTH100, PTH112, PTH114, PTH115, PTH116, PTH118, PTH119, PTH120, PTH208

import os
import stat
from collections.abc import Iterator
from importlib import import_module

from tamis_mail.framing import LARGEST_RAW
from tamis_mail.mailbox import folders, kinds, mbox
from tamis_mail.mailbox.letter import Letter, SourceError, printable
from tamis_mail.mailbox.stream import File, IrregularFileError, Stdin, Text

__all__ = ["Source", "is_mbox_file", "open_source"]


def open_source(
    path: str | os.PathLike[str] | None,
    *,
    many: bool = False,
    largest: int | None = None,
    label: str | None = None,
    subfolders: bool = False,
    elsewhere: frozenset[str] = frozenset(),
) -> "Source":
    """Look at what a path holds; None or "-" is stdin.

    Stdin is one message, byte for byte and however long, since it may have to be written out again; if there
    may be `many` and it begins as an mbox does, it is read as one. Other messages are cut to `largest` bytes.
    Below a folder that is said to have a `label`, folders and mboxes whose names say otherwise are left out.
    With `subfolders`, the folders `.Name` of a Maildir are read after it, but for those whose real paths are
    in `elsewhere`.
    """
    given = None if path is None else os.fspath(path)
    if given is None or given == "-":
        return Source("stdin", "stdin", None, largest=largest, many=many)
    try:
        status = os.stat(given)
        if stat.S_ISDIR(status.st_mode):
            return _open_folder(given, largest, label, subfolders, elsewhere)
        if stat.S_ISREG(status.st_mode):
            return _open_file(given, status.st_size, largest)
    except FileNotFoundError:
        raise SourceError(_missing(given)) from None
    except SourceError:
        raise
    except (OSError, ValueError) as error:  # a ValueError: a zero byte in the path
        raise SourceError(_unreadable(given, error)) from None
    raise SourceError(
        f"{printable(given)} is a {_sort(status.st_mode)}, expected a message, an mbox or a folder of mail: "
        "to read from a pipe, give - and redirect it to stdin"
    )


def is_mbox_file(path: str) -> bool:
    """Whether a file is an mbox, by its first bytes; not if it cannot be read."""
    try:
        with File(path) as file:
            return mbox.is_mbox(Text(file).peek(mbox.HEAD))
    except (OSError, SourceError):
        return False


class Source:
    """Where letters come from; iterate as often as you like, but over stdin once."""

    __slots__ = (
        "_deep",
        "_elsewhere",
        "_label",
        "_largest",
        "_many",
        "_size",
        "kind",
        "left_out",
        "path",
        "subfolders",
        "unread",
    )

    path: str  # as it was given
    kind: str  # "message", "mbox", "maildir", "mh", "folder", "stdin"
    # Of the last time that it was read, name and reason of each file or folder below …
    unread: list[tuple[str, str]]  # … that could not be read
    left_out: list[tuple[str, str]]  # … that was left out on purpose
    subfolders: list[str]  # names of folders of a Maildir that were read with it

    def __init__(
        self,
        path: str,
        kind: str,
        size: int | None,
        *,
        largest: int | None = None,
        many: bool = False,
        label: str | None = None,
        subfolders: bool = False,
        elsewhere: frozenset[str] = frozenset(),
    ) -> None:
        self.path = path
        self.kind = kind
        self.unread = []
        self.left_out = []
        self.subfolders = []
        self._size = size
        self._largest = largest
        self._many = many
        self._label = label
        self._deep = subfolders
        self._elsewhere = elsewhere

    def __repr__(self) -> str:
        return f"Source({self.path!r}, {self.kind})"

    @property
    def size(self) -> int | None:
        """Bytes in all, which `Letter.position` nears; None for stdin. A folder is measured when asked."""
        if self._size is None and self.kind != "stdin":
            self._size = sum(_size_of(path) for path, _, _ in self._files([], [], []))
        return self._size

    def __iter__(self) -> Iterator[Letter]:
        self.unread = []
        self.left_out = []
        self.subfolders = []
        if self.kind == "stdin":
            return self._stdin()
        if self.kind in ("message", "mbox"):
            return self._file()
        return self._folder()

    def _stdin(self) -> Iterator[Letter]:
        text = Text(Stdin(), as_it_is=not self._many)
        if self._many:
            yield from _letters(text, "stdin", "", True, self._largest or LARGEST_RAW, 0)
        elif raw := text.read_all(self._largest):
            yield Letter(raw, "stdin", len(raw))

    def _file(self) -> Iterator[Letter]:
        name = printable(os.path.basename(self.path))
        try:
            with File(self.path) as file:
                yield from _letters(Text(file), name, self.path, True, self._largest or LARGEST_RAW, 0)
        except OSError as error:
            raise SourceError(_unreadable(self.path, error)) from None

    def _folder(self) -> Iterator[Letter]:
        passed = 0
        largest = self._largest or LARGEST_RAW
        for path, name, may_be_mbox in self._files(self.unread, self.left_out, self.subfolders):
            name = printable(name)
            try:
                with File(path) as file:
                    text = Text(file)
                    reason = self._reason_to_leave_out(path, text.peek(kinds.HEAD), may_be_mbox)
                    if reason:
                        self.left_out.append((name, reason))
                    else:
                        if may_be_mbox and text.is_packed and mbox.is_mbox(text.peek(mbox.HEAD)):
                            _refuse_unless_whole(path)
                        yield from _letters(text, name, path, may_be_mbox, largest, passed)
                    passed += file.size
            except (FileNotFoundError, IrregularFileError):
                continue  # it vanished, as mail that is read or moved does, or is no file at all
            except (OSError, SourceError) as error:
                self.unread.append((name, printable(str(error))))

    def _reason_to_leave_out(self, path: str, head: bytes, may_be_mbox: bool) -> str | None:
        # Whatever a Maildir or an MH folder holds was delivered there.
        other = kinds.describe_other(head, is_delivered=not may_be_mbox)
        if other:
            return f"it is {other}, not mail"
        return self._says_otherwise(path) if may_be_mbox and mbox.is_mbox(head) else None

    def _says_otherwise(self, path: str) -> str | None:
        if self._label is None:
            return None
        names = import_module("tamis_mail.mailbox.names")
        reason: str | None = names.reason_to_leave_out(path, self.path, self._label)
        return reason

    def _files(
        self, unread: list[tuple[str, str]], left_out: list[tuple[str, str]], subfolders: list[str]
    ) -> Iterator[folders.Place]:
        def note(name: str, error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                unread.append((printable(name), printable(str(error))))

        def leave_out(path: str, name: str, certain: str | None) -> bool:
            is_subfolder = os.path.basename(path).startswith(".")
            if not certain and is_subfolder and os.path.realpath(path) in self._elsewhere:
                return True
            reason = certain or self._says_otherwise(path)
            if reason:
                left_out.append((printable(name), reason))
            elif is_subfolder:
                subfolders.append(printable(name))
            return reason is not None

        name = os.path.basename(os.path.abspath(self.path))
        return folders.files(self.path, name, note, leave_out, subfolders=self._deep)


def _refuse_unless_whole(path: str) -> None:
    with File(path) as file:
        Text(file).refuse_unless_whole()


def _letters(
    text: Text, name: str, path: str, may_be_mbox: bool, largest: int, passed: int
) -> Iterator[Letter]:
    """The letters of one file, `passed` bytes into its source."""
    if may_be_mbox and mbox.is_mbox(text.peek(mbox.HEAD)):
        for number, (raw, end) in enumerate(mbox.split(text.read, largest), 1):
            yield Letter(raw, f"{name}#{number}", passed + text.consumed(end), path)
    elif raw := text.read_all(largest):
        yield Letter(raw, name, passed + text.consumed(len(raw)), path)


def _open_file(path: str, size: int, largest: int | None) -> Source:
    with File(path) as file:
        text = Text(file)
        head = text.peek(kinds.HEAD)
        other = kinds.describe_other(head)
        if other:
            what_to_do = (
                "unpack it, and name what comes out"
                if "archive" in other or "packed" in other
                else "give a message (header fields, or text), an mbox or a folder of mail"
            )
            raise SourceError(f"{printable(path)} is {other}, not mail: {what_to_do}")
        kind = "mbox" if mbox.is_mbox(head) else "message"
        if text.is_packed and kind == "mbox":
            text.refuse_unless_whole()
        elif text.is_packed:
            text.read_all(
                largest or LARGEST_RAW
            )  # a message that is cut off is refused before others are read
    return Source(path, kind, size, largest=largest)


def _open_folder(
    path: str, largest: int | None, label: str | None, subfolders: bool, elsewhere: frozenset[str]
) -> Source:
    kind = folders.kind_of(folders.list_folder(path))
    source = Source(
        path, kind, None, largest=largest, label=label, subfolders=subfolders, elsewhere=elsewhere
    )
    if source.kind == "folder" and not any(_may_be_mail(file) for file, _, _ in source._files([], [], [])):
        raise SourceError(
            f"{printable(path)} is a folder with nothing in it that could be a message, expected mail files, "
            "an mbox, a Maildir or an MH folder: name the folder that holds them"
        )
    return source


def _may_be_mail(path: str) -> bool:
    try:
        with File(path) as file:
            return kinds.describe_other(Text(file).peek(kinds.HEAD)) is None
    except IrregularFileError:
        return False
    except (OSError, SourceError):
        return True  # it is there, and reading it will say why not


def _size_of(path: str) -> int:
    try:
        status = os.stat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _sort(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "pipe (FIFO)"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _unreadable(path: str, error: OSError | ValueError) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return f"{printable(path)} cannot be read ({reason}), expected mail that you may read: see who owns it"


def _missing(path: str) -> str:
    """What to say of a path that is not there: how far it goes, and what is there of a similar name."""
    if os.path.islink(path):
        target = printable(os.readlink(path))
        return f"{printable(path)} is a link to {target}, which does not exist: mend the link"
    said = f"{printable(path)} does not exist, expected a message, an mbox or a folder of mail"
    missing = path.rstrip("/") or path
    while (parent := os.path.dirname(missing)) and not os.path.isdir(parent):
        missing = parent
    try:
        beside = os.listdir(parent or ".")
    except OSError:
        beside = []
    near = import_module("difflib").get_close_matches(os.path.basename(missing), beside, 1)
    if near:
        return f"{said}: did you mean {printable(os.path.join(parent, near[0]))}?"
    return f"{said}: check the path"
