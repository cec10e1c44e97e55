"""Find the messages of a path with their locations, and read a message by its location.

A file that has not changed since it was read is skipped. An mbox that has changed is read from its beginning,
because a mail program may have rewritten it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from tamis_mail.catalog.catalog import (
    IN_PACKED_FILE,
    WHOLE_FILE,
    Catalog,
    CatalogError,
    Location,
    NewMessage,
)
from tamis_mail.files import open_regular
from tamis_mail.framing import LARGEST_RAW
from tamis_mail.mailbox import SourceError, mbox, open_source
from tamis_mail.mailbox.stream import is_packed
from tamis_mail.message import canonical, digest, read_heading
from tamis_mail.message.dates import date_of


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that was read, and the entry that the caller adds to the catalog."""

    raw: bytes
    entry: NewMessage
    position: int  # total bytes of the files before its file, and of its file up to the end of the message


def scan_path(
    catalog: Catalog, source_number: int, path: str, *, on_size: Callable[[int], None] | None = None
) -> Iterator[FoundMessage]:
    """Yield all messages of those files of a path that are new or have changed since they were read.

    `source_number` is the number of the path in the catalog. `on_size` is called once, with the total bytes
    of all files. A file is noted as read after its last message, or where it cannot be read further: it is
    read again when it changes. Raise SourceError if the path is not mail, or if its only file cannot be read.
    """
    files = [*_list_files(path)]
    if on_size:
        on_size(sum(size for _, size, _ in files))
    position = 0
    for file_path, size, change_time in files:
        if catalog.find_file(file_path) != (size, change_time):
            # No file has the size -1, so a file is read again if the caller stops before its end.
            file_number = catalog.note_file(source_number, file_path, size=-1, change_time=0)
            with suppress(FileNotFoundError):  # it was moved or deleted meanwhile
                try:
                    yield from _scan_file(file_path, file_number, change_time // 1_000_000_000, position)
                except SourceError:
                    if len(files) == 1:
                        raise
                catalog.note_file(source_number, file_path, size=size, change_time=change_time)
        position += size


def _list_files(path: str) -> Iterator[tuple[str, int, int]]:
    """Yield the files of a path, each with its size and the time of its last change in nanoseconds."""
    source = open_source(path, subfolders=True)
    if source.kind in ("message", "mbox"):
        file_paths = [path]
    else:
        files = source.files(unread=[], left_out=[], subfolders=[])  # these lists are not needed here
        file_paths = [file_path for file_path, _name, _may_be_mbox in files]
    for file_path in file_paths:
        with suppress(OSError):
            status = os.stat(file_path)  # noqa: PTH116 (100,000 of them)
            yield file_path, status.st_size, status.st_mtime_ns


def _scan_file(path: str, file_number: int, change_seconds: int, bytes_before: int) -> Iterator[FoundMessage]:
    """Yield the messages of a file; one without a date gets the time of the file's last change."""
    source = open_source(path)
    is_mbox = source.kind == "mbox"
    with open_regular(path) as file:
        is_packed_mbox = is_mbox and is_packed(file.read(8))
    start = 0
    for index, message in enumerate(source):
        end = message.position
        heading = read_heading(message.raw)
        date = date_of(message.raw)
        entry = NewMessage(
            digest=digest(canonical(message.raw)),
            sender=heading.sender,
            subject=heading.subject,
            date=change_seconds if date is None else date,
            size=len(message.raw),
            file=file_number,
            start=index if is_packed_mbox else start if is_mbox else 0,
            length=IN_PACKED_FILE if is_packed_mbox else end - start if is_mbox else WHOLE_FILE,
        )
        yield FoundMessage(message.raw, entry, bytes_before + end)
        start = end


def remove_missing(catalog: Catalog, source_number: int) -> None:
    """Remove the files of a source that have vanished, after its messages were read and added."""
    files = catalog.list_files(source_number)
    catalog.remove_files([number for number, path in files if not os.path.lexists(path)])


def read_message(catalog: Catalog, message_digest: bytes) -> bytes:
    """Read the message that has a digest from its file.

    Raise CatalogError if the catalog names no file for it, or if it cannot be read there any more.
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
    raise CatalogError(
        f"the message is no longer in {location.path}, or cannot be read there: check the file"
    )


def _read_location(path: str, location: Location) -> bytes | None:
    """Read the message at a location, whose file may have been renamed to `path`; None if there is none."""
    if location.length in (WHOLE_FILE, IN_PACKED_FILE):
        return next((message.raw for message in islice(open_source(path), location.start, None)), None)
    with open_regular(path) as file:
        file.seek(location.start)
        block = file.read(min(location.length, LARGEST_RAW + mbox.HEAD))  # HEAD: room for the postmark
    blocks = iter((block,))
    return next((raw for raw, _end in mbox.split(lambda _limit: next(blocks, b""), LARGEST_RAW)), None)


def _list_candidate_paths(path: str) -> Iterator[str]:
    """Yield the path and, for a message in a Maildir, its paths after a change of its flags."""
    yield path
    folder, name = os.path.split(path)
    root, last = os.path.split(folder)
    if last not in ("cur", "new"):
        return
    unique = name.partition(":")[0]
    for subfolder in ("cur", "new"):
        with suppress(OSError), os.scandir(os.path.join(root, subfolder)) as entries:  # noqa: PTH118
            for entry in entries:
                if entry.name.partition(":")[0] == unique and entry.path != path:
                    yield entry.path
