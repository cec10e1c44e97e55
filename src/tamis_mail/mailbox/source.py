"""Open a path, or stdin, as a source of mail: the kind of mailbox, its size, and its messages one by one."""
# Importing pathlib would take 8 ms of a process that judges one message.
# ruff: noqa: PTH100, PTH112, PTH114, PTH115, PTH116, PTH118, PTH119, PTH120, PTH208

import os
import stat
from collections.abc import Iterator
from importlib import import_module

from tamis_mail.files import IrregularFileError
from tamis_mail.framing import LARGEST_RAW
from tamis_mail.mailbox import folders, kinds, mbox
from tamis_mail.mailbox.raw_message import RawMessage, SourceError, printable
from tamis_mail.mailbox.stream import Content, File, Stdin, is_packed


def open_source(
    path: str | os.PathLike[str] | None,
    *,
    allow_mbox: bool = False,
    largest: int | None = None,
    label: str | None = None,
    subfolders: bool = False,
    other_paths: frozenset[str] = frozenset(),
) -> "Source":
    """Open a path as a source of mail; None or "-" is stdin.

    Without `allow_mbox`, stdin is one message, byte for byte, because it may have to be written out again.
    With it, stdin that begins like an mbox is read as one, and may be compressed. Messages are truncated to
    `largest` bytes; the default is `framing.LARGEST_RAW`, and no limit for stdin without `allow_mbox`.
    `label` is what the mail is to be learned as: a folder or mbox below `path` whose name says otherwise,
    such as Junk for ham, is left out. With `subfolders`, the folders `.Name` of a Maildir are read after it,
    except those whose real paths (without links) are among `other_paths`, which are sources of their own.
    Raise SourceError for a path that cannot be read, or is no mail.
    """
    source_path = None if path is None else os.fspath(path)
    if source_path is None or source_path == "-":
        content = Content(Stdin(), as_it_is=not allow_mbox)
        head = content.peek(kinds.HEAD)
        if not is_packed(head):
            _refuse_non_mail("standard input", head)
        return Source("stdin", "stdin", size=None, largest=largest, allow_mbox=allow_mbox, content=content)
    try:
        status = os.stat(source_path)
        if stat.S_ISDIR(status.st_mode):
            return _open_folder(source_path, largest, label, subfolders, other_paths)
        if stat.S_ISREG(status.st_mode):
            return _open_file(source_path, status.st_size, largest)
    except FileNotFoundError:
        raise SourceError(_describe_missing(source_path)) from None
    except SourceError:
        raise
    except (OSError, ValueError) as error:  # a ValueError: a zero byte in the path
        raise SourceError(_describe_unreadable(source_path, error)) from None
    raise SourceError(
        f"{printable(source_path)} is a {_describe_mode(status.st_mode)}, expected a message, an mbox or a "
        "folder of mail: to read from a pipe, give - and redirect it to stdin"
    )


def is_mbox_file(path: str) -> bool:
    """Whether a file is an mbox, by its first bytes; False if it cannot be read."""
    try:
        with File(path) as file:
            return mbox.is_mbox(Content(file).peek(mbox.HEAD))
    except (OSError, SourceError):
        return False


class Source:
    """An iterable of messages. Standard input can be iterated only once.

    If a file cannot be read, an iteration raises SourceError or, in a folder, appends the file's name and the
    reason to `unread`. A file that vanishes from a folder is skipped, because mail may be moved meanwhile.
    """

    __slots__ = (
        "_allow_mbox",
        "_content",
        "_label",
        "_largest",
        "_other_paths",
        "_size",
        "_with_subfolders",
        "kind",
        "left_out",
        "path",
        "subfolders",
        "unread",
    )

    path: str  # as it was given; "stdin" for standard input
    kind: str  # "message", "mbox", "maildir", "mh", "folder", "stdin"
    # The last iteration appends to these lists.
    unread: list[tuple[str, str]]  # name and reason of each file or folder that could not be read
    left_out: list[tuple[str, str]]  # name of each file or folder that is not mail to learn, and why
    subfolders: list[str]  # names of folders of a Maildir that were read with it

    def __init__(
        self,
        path: str,
        kind: str,
        size: int | None,  # in bytes, None if it is not known yet
        *,
        largest: int | None = None,
        allow_mbox: bool = False,
        label: str | None = None,
        subfolders: bool = False,
        other_paths: frozenset[str] = frozenset(),
        content: Content | None = None,
    ) -> None:
        self.path = path
        self.kind = kind
        self.unread = []
        self.left_out = []
        self.subfolders = []
        self._size = size
        self._largest = largest
        self._allow_mbox = allow_mbox
        self._label = label
        self._with_subfolders = subfolders
        self._other_paths = other_paths
        self._content = content  # of stdin, of which the beginning was read

    def __repr__(self) -> str:
        return f"Source({self.path!r}, {self.kind})"

    @property
    def size(self) -> int | None:
        """The total size of the files in bytes, up to which `RawMessage.position` counts; None for stdin."""
        if self._size is None and self.kind != "stdin":
            self._size = sum(map(_size_of, self.list_paths()))
        return self._size

    def __iter__(self) -> Iterator[RawMessage]:
        self.unread = []
        self.left_out = []
        self.subfolders = []
        if self.kind == "stdin":
            return self._read_stdin()
        if self.kind in ("message", "mbox"):
            return self._read_file()
        return self._read_folder()

    def _read_stdin(self) -> Iterator[RawMessage]:
        content = self._content or Content(Stdin(), as_it_is=not self._allow_mbox)
        if self._allow_mbox:
            yield from _read_messages(content, "stdin", path="", largest=self._largest or LARGEST_RAW)
        elif raw := content.read_all(self._largest):
            yield RawMessage(raw, "stdin", len(raw))

    def _read_file(self) -> Iterator[RawMessage]:
        name = printable(os.path.basename(self.path))
        try:
            with File(self.path) as file:
                content = Content(file)
                yield from _read_messages(content, name, self.path, largest=self._largest or LARGEST_RAW)
        except OSError as error:
            raise SourceError(_describe_unreadable(self.path, error)) from None

    def _read_folder(self) -> Iterator[RawMessage]:
        offset = 0
        largest = self._largest or LARGEST_RAW
        for path, name, may_be_mbox in self.files(self.unread, self.left_out, self.subfolders):
            name = printable(name)
            try:
                with File(path) as file:
                    content = Content(file)
                    reason = self._reason_to_leave_out(path, content.peek(kinds.HEAD), may_be_mbox)
                    if reason:
                        self.left_out.append((name, reason))
                    else:
                        if may_be_mbox and content.is_packed and mbox.is_mbox(content.peek(mbox.HEAD)):
                            _verify_packed(path)
                        yield from _read_messages(
                            content, name, path, may_be_mbox=may_be_mbox, largest=largest, offset=offset
                        )
                    offset += file.size
            except (FileNotFoundError, IrregularFileError):
                continue  # it vanished, or is no regular file
            except (OSError, SourceError) as error:
                self.unread.append((name, printable(str(error))))
                offset += _size_of(path)

    def _reason_to_leave_out(self, path: str, head: bytes, may_be_mbox: bool) -> str | None:
        """Return why a file with these first bytes is left out, or None."""
        # A file that may not be an mbox was delivered to a Maildir or an MH folder: it is mail unless its
        # first bytes show something else.
        description = kinds.describe_non_mail(head, is_delivered=not may_be_mbox)
        if description:
            return f"it is {description}, not mail"
        return self._find_name_conflict(path) if may_be_mbox and mbox.is_mbox(head) else None

    def _find_name_conflict(self, path: str) -> str | None:
        """Return why the name of a file or folder contradicts the label of the mail, or None."""
        if self._label is None:
            return None
        names = import_module("tamis_mail.mailbox.names")
        reason: str | None = names.reason_to_leave_out(path, self.path, self._label)
        return reason

    def list_paths(self) -> Iterator[str]:
        """Yield the paths of the files of a folder, without reading them."""
        return (path for path, _, _ in self.files([], [], []))

    def files(
        self, unread: list[tuple[str, str]], left_out: list[tuple[str, str]], subfolders: list[str]
    ) -> Iterator[folders.FoundFile]:
        """Yield the files of a folder; append to the lists what the attributes of the same names hold."""

        def report_error(name: str, error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                unread.append((printable(name), printable(str(error))))

        def leave_out(path: str, name: str, known_reason: str | None) -> bool:
            is_subfolder = os.path.basename(path).startswith(".")
            if not known_reason and is_subfolder and os.path.realpath(path) in self._other_paths:
                return True
            reason = known_reason or self._find_name_conflict(path)
            if reason:
                left_out.append((printable(name), reason))
            elif is_subfolder:
                subfolders.append(printable(name))
            return reason is not None

        name = os.path.basename(os.path.abspath(self.path))
        return folders.walk_files(self.path, name, report_error, leave_out, subfolders=self._with_subfolders)


def _verify_packed(path: str) -> None:
    """Raise SourceError if a compressed file is truncated or damaged."""
    with File(path) as file:
        Content(file).verify_packed()


def _read_messages(
    content: Content, name: str, path: str, *, largest: int, may_be_mbox: bool = True, offset: int = 0
) -> Iterator[RawMessage]:
    """Yield the messages of a file; `offset` is the total size of the files that precede it in its source."""
    if may_be_mbox and mbox.is_mbox(content.peek(mbox.HEAD)):
        for number, (raw, end) in enumerate(mbox.split(content.read, largest), 1):
            yield RawMessage(raw, f"{name}#{number}", offset + content.count_file_bytes(end), path)
    elif raw := content.read_all(largest):
        yield RawMessage(raw, name, offset + content.count_file_bytes(len(raw)), path)


def _open_file(path: str, size: int, largest: int | None) -> Source:
    """Open a file as a source; raise SourceError if it is no mail, or if damage to a compressed file shows.

    Of a compressed message, only the first `largest` bytes are unpacked.
    """
    with File(path) as file:
        content = Content(file)
        head = content.peek(kinds.HEAD)
        _refuse_non_mail(printable(path), head)
        kind = "mbox" if mbox.is_mbox(head) else "message"
        if content.is_packed and kind == "mbox":
            content.verify_packed()
        elif content.is_packed:
            # Refuse a file that was cut off before other sources are read.
            content.read_all(largest or LARGEST_RAW)
    return Source(path, kind, size, largest=largest)


def _refuse_non_mail(name: str, head: bytes) -> None:
    """Raise SourceError if the first bytes of a file show that it is not mail; `name` is for the message."""
    description = kinds.describe_non_mail(head)
    if description:
        advice = (
            "unpack it, and name what comes out"
            if "archive" in description or "packed" in description
            else "give a message (header fields, or text), an mbox or a folder of mail"
        )
        raise SourceError(f"{name} is {description}, not mail: {advice}")


def _open_folder(
    path: str, largest: int | None, label: str | None, subfolders: bool, other_paths: frozenset[str]
) -> Source:
    kind = folders.kind_of(folders.list_folder(path))
    source = Source(
        path, kind, size=None, largest=largest, label=label, subfolders=subfolders, other_paths=other_paths
    )
    if source.kind == "folder" and not any(map(_may_be_mail, source.list_paths())):
        raise SourceError(
            f"{printable(path)} is a folder without any file that could be a message, expected mail files, "
            "an mbox, a Maildir or an MH folder: name the folder that holds them"
        )
    return source


def _may_be_mail(path: str) -> bool:
    """Whether a file may be mail by its first bytes, or cannot be read."""
    try:
        with File(path) as file:
            return kinds.describe_non_mail(Content(file).peek(kinds.HEAD)) is None
    except (FileNotFoundError, IrregularFileError):  # a link to nothing, or a device
        return False
    except (OSError, SourceError):
        return True  # it exists, and reading it reports the error


def _size_of(path: str) -> int:
    try:
        status = os.stat(path)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _describe_mode(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "pipe (FIFO)"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _describe_unreadable(path: str, error: OSError | ValueError) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return (
        f"{printable(path)} cannot be read ({reason}), expected mail that you may read: check its permissions"
    )


def _describe_missing(path: str) -> str:
    """Describe a path that does not exist, with an existing path of a similar name."""
    if os.path.islink(path):
        target = printable(os.readlink(path))
        return f"{printable(path)} is a link to {target}, which does not exist: repair the link"
    fault = f"{printable(path)} does not exist, expected a message, an mbox or a folder of mail"
    missing = path.rstrip("/") or path
    while (parent := os.path.dirname(missing)) and not os.path.isdir(parent):
        missing = parent
    try:
        siblings = os.listdir(parent or ".")
    except OSError:
        siblings = []
    similar = import_module("difflib").get_close_matches(os.path.basename(missing), siblings, 1)
    if similar:
        return f"{fault}: did you mean {printable(os.path.join(parent, similar[0]))}?"
    return f"{fault}: check the path"
