"""Files of Spark's executors, in which a fit keeps shards between passes.

Sending rows from Java to Python takes much longer than observing them. So each shard that is kept is written
to a file in the local directories of its executor, which Spark removes when the executor ends, and each pass
maps the file to memory. A file has the chunks of its shard, one after the other. A chunk is a list of parts:
its pickle, then the buffers of its arrays.
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

_ALIGNMENT = 64  # bytes; each part begins at a multiple of it, so that arrays can be used where they lie


def name_kept() -> str:
    """Return a new name for the folders of the shards that one call of `keep` keeps."""
    return f"tamis-{uuid.uuid4().hex}"


def list_folders(name: str) -> list[Path]:
    """Return the folders in which tasks of this executor keep shards; none if Spark names no directories."""
    return [
        Path(each) / "python" / name for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each
    ]


class KeptWriter:
    """Writes the file of one shard, which gets its final name when it is complete."""

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
        """Write the parts of a chunk; an OSError leaves the chunks before it readable."""
        sizes = [memoryview(part).nbytes for part in parts]
        head = struct.pack(f"<{len(parts) + 1}Q", len(parts), *sizes)
        for part in (head, *parts):
            self._file.write(part)
            self._file.write(bytes(-memoryview(part).nbytes % _ALIGNMENT))
        self._file.flush()
        self._end = self._file.tell()

    def finish(self) -> int:
        """Give the file its final name; return its length in bytes."""
        self._file.close()
        self._partial.replace(self.path)
        return self._end

    def abandon(self) -> Iterator[list[Any]]:
        """Remove the file; return the parts of each chunk that was written completely."""
        with suppress(OSError):
            self._file.close()
        chunks = list(_read_chunks(self._partial, self._end))
        self._partial.unlink()
        return iter(chunks)


def read_kept(path: Path) -> Iterator[Any]:
    """Yield the chunks of a shard, whose arrays are mapped to memory."""
    for content, *buffers in _read_chunks(path, path.stat().st_size):
        yield pickle.loads(content, buffers=buffers)


def _read_chunks(path: Path, end: int) -> Iterator[list[memoryview]]:
    """Yield the parts of each chunk in the first `end` bytes of a file.

    A chunk begins with the number of its parts and their lengths in bytes, as 64-bit integers.
    """
    if not end:
        return
    with path.open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ))
    position = 0
    while position < end:
        (count,) = struct.unpack_from("<Q", view, position)
        sizes = struct.unpack_from(f"<{count}Q", view, position + 8)
        parts: list[memoryview] = []
        position += _align(8 * (count + 1))
        for size in sizes:
            parts.append(view[position : position + size])
            position += _align(size)
        yield parts


def _align(size: int) -> int:
    """Round a number of bytes up to a multiple of the alignment."""
    return size + -size % _ALIGNMENT


def remove_kept(folder: Path) -> None:
    """Remove the files of a folder of kept shards, if it is on this machine."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
