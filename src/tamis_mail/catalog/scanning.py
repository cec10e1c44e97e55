"""Find the messages of a path with their locations, and read a message by its location.

A file is skipped if its size and the time of its last change are those noted when it was read. An mbox that
has changed is read from its beginning, because a mail program may have rewritten it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import islice

from tamis_mail.catalog.catalog import IN_PACKED_FILE, Catalog, CatalogError, Location, NewMessage
from tamis_mail.files import open_regular
from tamis_mail.framing import LARGEST_RAW
from tamis_mail.mailbox import SourceError, mbox, open_source
from tamis_mail.mailbox.stream import is_packed
from tamis_mail.message import canonical, digest, read_heading
from tamis_mail.message.dates import date_of


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that was read, and the entry for the catalog, which the caller adds."""

    raw: bytes
    entry: NewMessage
    # To show the progress of a scan: the bytes of the files before this message's, in the order in which they
    # are scanned, plus those of its own file up to its end; in a compressed file, an estimate.
    position: int


def scan_path(
    catalog: Catalog, source_number: int, path: str, *, on_size: Callable[[int], None] | None = None
) -> Iterator[FoundMessage]:
    """Yield all messages of those files of a path that are new, or have changed since they were read.

    After its last message, a file is noted in the catalog as read. Of several files, one that cannot be read
    as mail is noted, too, and skipped until it changes. `on_size` is called with the number of bytes of all
    files. Raise SourceError if the path, or its only file, cannot be read as mail. `source_number` is the
    number of the path in the catalog.
    """
    files = [*_list_files(path)]
    if on_size:
        on_size(sum(size for _, size, _ in files))
    bytes_before = 0  # the size of the files before the current one
    for file_path, size, changed_ns in files:
        if catalog.find_file(file_path) != (size, changed_ns):
            # No file has the size -1: this one is read again if the caller stops before its end.
            file_number = catalog.note_file(source_number, file_path, size=-1, changed=0)
            with suppress(FileNotFoundError):  # it was moved or deleted meanwhile
                try:
                    yield from _scan_file(file_path, file_number, changed_ns // 1_000_000_000, bytes_before)
                except SourceError:
                    if len(files) == 1:
                        raise
                catalog.note_file(source_number, file_path, size=size, changed=changed_ns)
        bytes_before += size


def _list_files(path: str) -> Iterator[tuple[str, int, int]]:
    """Yield the path of each file, its size, and the time of its last change in nanoseconds."""
    source = open_source(path, subfolders=True)
    for file_path in [path] if source.kind in ("message", "mbox") else source.list_paths():
        with suppress(OSError):
            status = os.stat(file_path)  # noqa: PTH116 (pathlib is slower)
            yield file_path, status.st_size, status.st_mtime_ns


def _scan_file(path: str, file_number: int, change_seconds: int, bytes_before: int) -> Iterator[FoundMessage]:
    """Yield the messages of a file; those without a date get the time of its last change.

    `file_number` is the file's number in the catalog, and `bytes_before` the size of the files before it.
    """
    source = open_source(path)
    is_mbox = source.kind == "mbox"
    with open_regular(path) as file:  # raises for a FIFO, which could keep the reader waiting
        is_packed_mbox = is_mbox and is_packed(file.read(8))
    postmark_offset = 0
    for index, message in enumerate(source):
        end = message.position  # in an mbox that is not compressed, of the next postmark or of the file's end
        # `Location` says what start and length are in each kind of file: both are 0 in a file of one message.
        start, length = 0, 0
        if is_packed_mbox:
            start, length = index, IN_PACKED_FILE
        elif is_mbox:
            start, length = postmark_offset, end - postmark_offset
        heading = read_heading(message.raw)
        date = date_of(message.raw)
        entry = NewMessage(
            digest(canonical(message.raw)),
            heading.sender,
            heading.subject,
            change_seconds if date is None else date,
            len(message.raw),
            file_number,
            start=start,
            length=length,
        )
        yield FoundMessage(message.raw, entry, bytes_before + end)
        postmark_offset = end


def remove_missing(catalog: Catalog, source_number: int) -> None:
    """Remove the files of a source that do not exist any more, and their messages, except learned ones.

    First add the messages that `scan_path` yields: a message that moved to another file, as in a Maildir when
    its flags change, then belongs to that file, and is not removed with the old one.
    """
    files = catalog.list_files(source_number)
    catalog.remove_files([number for number, path in files if not os.path.lexists(path)])


def read_message(catalog: Catalog, message_digest: bytes) -> bytes:
    """Read the message that has a digest from its file.

    Raise CatalogError if no file is known for it, or if its file cannot be read or does not have it any more.
    """
    location = catalog.locate(message_digest)
    if location is None:
        raise CatalogError("the message is known from the log only, so its text cannot be shown")
    for path in _list_candidate_paths(location.path):
        try:
            raw = _read_location(path, location)
        except (OSError, SourceError):
            continue
        if raw is not None and digest(canonical(raw)) == message_digest:
            return raw
    raise CatalogError(f"the message cannot be read from {location.path} any more: check the file")


def _read_location(path: str, location: Location) -> bytes | None:
    """Return the message at a location of the file at this path; None if there is no message."""
    if location.length <= 0:  # a file of one message, or a compressed mbox
        return next((message.raw for message in islice(open_source(path), location.start, None)), None)
    with open_regular(path) as file:
        file.seek(location.start)
        # The message and, before it, its postmark, for which mbox.HEAD, 4096 bytes, is enough: except at
        # the start of a file, a line of 1024 bytes or more is no postmark.
        text = BytesIO(file.read(min(location.length, LARGEST_RAW + mbox.HEAD)))
    return next((raw for raw, _end in mbox.split(text.read, LARGEST_RAW)), None)


def _list_candidate_paths(path: str) -> Iterator[str]:
    """Yield the path and, for a message in a Maildir, its paths after a change of its flags."""
    yield path
    folder, name = os.path.split(path)
    root, last = os.path.split(folder)
    if last not in ("cur", "new"):
        return
    unique = name.partition(":")[0]  # the part of the name that stays when flags change
    for subfolder in ("cur", "new"):
        with suppress(OSError), os.scandir(os.path.join(root, subfolder)) as entries:  # noqa: PTH118
            for entry in entries:
                if entry.name.partition(":")[0] == unique and entry.path != path:
                    yield entry.path
