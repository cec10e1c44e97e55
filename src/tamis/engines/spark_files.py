"""Shards of a Spark fit that are kept between passes → files of the executors.

Rows that cross from Java to Python cost much more than arithmetic does. So a shard that is kept is a file in
the local directories of its executor, which Spark removes when the executor ends, and each pass maps it to
memory.
"""

import mmap
import os
import pickle
import struct
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_ALIGNMENT = 64  # bytes: numbers are read where they are


def name_kept() -> str:
    """A name of new kept shards, which no others have."""
    return f"tamis-{uuid.uuid4().hex}"


def list_folders(name: str) -> list[Path]:
    """Where a task of this executor keeps shards; none if Spark does not say."""
    return [
        Path(each) / "python" / name for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each
    ]


class KeptWriter:
    """A file of the pieces of one shard, which has its name only once it is complete."""

    def __init__(self, name: str, shard: int) -> None:
        folders = list_folders(name)
        if not folders:
            raise OSError("Spark names no local directory")
        folder = folders[shard % len(folders)]
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / str(shard)
        self._partial = folder / f"{shard}.{uuid.uuid4().hex}"
        self._file = self._partial.open("wb")
        self._end = 0

    def write(self, parts: list[Any]) -> None:
        """Write a piece: its pickle, and the buffers that belong to it. After an error, nothing is added."""
        sizes = [memoryview(part).nbytes for part in parts]
        head = struct.pack(f"<{len(parts) + 1}Q", len(parts), *sizes)
        for part in (head, *parts):
            self._file.write(part)
            self._file.write(bytes(-memoryview(part).nbytes % _ALIGNMENT))
        self._file.flush()
        self._end = self._file.tell()

    def finish(self) -> int:
        """Give the file its name; the number of its bytes."""
        self._file.close()
        self._partial.replace(self.path)
        return self._end

    def abandon(self) -> Iterator[list[Any]]:
        """Remove the file; the pieces that were written to it."""
        with suppress(OSError):
            self._file.close()
        pieces = list(_read_pieces(self._partial, self._end))
        self._partial.unlink()
        return iter(pieces)


def read_kept(path: Path) -> Iterator[Any]:
    """The pieces of a shard, whose numbers stay in the file."""
    for content, *buffers in _read_pieces(path, path.stat().st_size):
        yield pickle.loads(content, buffers=buffers)


def _read_pieces(path: Path, end: int) -> Iterator[list[memoryview]]:
    if not end:
        return
    with path.open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ))
    place = 0
    while place < end:
        (count,) = struct.unpack_from("<Q", view, place)
        sizes = struct.unpack_from(f"<{count}Q", view, place + 8)
        parts: list[memoryview] = []
        place += _align(8 * (count + 1))
        for size in sizes:
            parts.append(view[place : place + size])
            place += _align(size)
        yield parts


def _align(size: int) -> int:
    return size + -size % _ALIGNMENT


def remove_kept(folder: Path) -> None:
    """Remove the files of a folder of kept shards, if it is on this machine."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
