"""Paths of Parquet, CSV and Arrow files → shards.

A path is a file, a folder of files, or a pattern such as "mail/2026-*.parquet". Files are read in the order
of their paths. A shard is some row groups of a Parquet file (a row group holds consecutive rows, and can be
read alone), a block of lines of a CSV file, or a record batch of an Arrow file. Of Parquet and CSV files,
only the columns that are needed are read.
"""

import glob
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tamis.engines.arrow import open_stream
from tamis.engines.batches import Batch
from tamis.engines.opening import (
    BatchShards,
    Request,
    place_pieces,  # makes shards of pieces, on the engine that the request names
)
from tamis.engines.tabular import (
    ROWS_PER_BATCH,
    Layout,  # which columns of a table are read, and as what
    import_arrow,
)

# The format of each suffix. Arrow has two formats: a "stream" is read from its start, and a file ("arrow")
# also has an index of its record batches.
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "stream",
}
# A shard has row groups of at most this size: bytes of the columns that are read, before compression. With
# shards of 64 MB, a pass takes a quarter longer, because the operating system fills the pages of newly
# allocated memory with zeros.
_MAX_SHARD_BYTES = 1 << 25
_CSV_BLOCK_BYTES = 1 << 24  # bytes of CSV that are parsed at a time


def open_shards(data: str | Path, request: Request) -> BatchShards[Batch]:
    """Open the files of a path, a folder or a pattern."""
    paths = find_files(data)
    formats = {_SUFFIXES[path.suffix] for path in paths}
    if len(formats) > 1:
        raise ValueError(
            f"got {data}, which holds {' and '.join(sorted(formats))} files, expected one format"
        )
    open_format: Callable[[list[Path], Request], BatchShards[Batch]] = {
        "parquet": _open_parquet,
        "csv": _open_csv,
        "arrow": _open_arrow,
        "stream": _open_streams,
    }[formats.pop()]
    return open_format(paths, request)


def find_files(data: str | Path) -> list[Path]:
    """Return the file, the files in a folder, or those that match a pattern, in the order of their paths.

    Files of other formats in a folder are ignored, and so are files and folders named ".…" or "_…".
    """
    path = Path(data)
    if path.is_dir():
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.is_file() and file.suffix in _SUFFIXES and not _is_hidden(file, path)
        ]
    elif path.exists():
        files = [path]
    else:
        files = [Path(file) for file in sorted(glob.glob(str(data), recursive=True))]  # noqa: PTH207
    if not files:
        raise FileNotFoundError(
            f"got {data}, where there is no file to read, expected a path of {', '.join(_SUFFIXES)} files"
        )
    if unknown := [file for file in files if file.suffix not in _SUFFIXES]:
        raise ValueError(f"got {unknown[0]}, expected a file that ends in one of {', '.join(_SUFFIXES)}")
    return files


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


# ── Parquet ──


@dataclass(frozen=True, slots=True, eq=False)
class RowGroups:
    """A shard: some row groups of a Parquet file, which any process that sees the file can read."""

    path: str
    groups: tuple[int, ...]  # indices of the row groups
    layout: Layout
    number: int  # the shard's number

    @property
    def name(self) -> str:
        first, last = self.groups[0], self.groups[-1]
        return f"{self.path}, row group {first}" + ("" if first == last else f" to {last}")

    def load(self) -> Batch:
        return self.layout.make_batch(self.read_table(), self.number)

    def read_table(self) -> Any:
        """Return the columns that are needed, as an Arrow table."""
        parquet = import_arrow("pyarrow.parquet")
        with parquet.ParquetFile(
            self.path, metadata=read_metadata(Path(self.path)), memory_map=False
        ) as file:
            self.layout.refuse_drift(file.schema_arrow)
            # Arrow uses one thread here, because other threads of tamis read other row groups meanwhile.
            return file.read_row_groups(list(self.groups), columns=self.layout.names, use_threads=False)


def read_metadata(path: Path) -> Any:
    """Return the metadata of a Parquet file, from a cache unless the file has changed."""
    status = path.stat()
    return _read_metadata(str(path), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _read_metadata(path: str, mtime: int, size: int) -> Any:
    return import_arrow("pyarrow.parquet").read_metadata(path)


def _open_parquet(paths: list[Path], request: Request) -> BatchShards[Batch]:
    parquet = import_arrow("pyarrow.parquet")
    layout = Layout.of(_read(paths[0], parquet.read_schema), request)
    pieces: list[RowGroups] = []
    for path in paths:
        metadata = _read(path, read_metadata)
        for groups in _join_groups(metadata, layout):
            pieces.append(RowGroups(str(path), groups, layout, len(pieces)))
    return place_pieces(pieces, len(pieces), request)


def _join_groups(metadata: Any, layout: Layout) -> Iterator[tuple[int, ...]]:
    """Yield tuples of consecutive row groups: one, or several of at most `_MAX_SHARD_BYTES` together."""
    joined: list[int] = []
    size = 0
    # The fraction of a row group's bytes that is read, assuming that all columns have the same size.
    fraction = min(1.0, len(layout.names) / max(1, metadata.num_columns))
    for group in range(metadata.num_row_groups):
        bytes_read = int(metadata.row_group(group).total_byte_size * fraction)
        if joined and size + bytes_read > _MAX_SHARD_BYTES:
            yield tuple(joined)
            joined, size = [], 0
        joined.append(group)
        size += bytes_read
    if joined:
        yield tuple(joined)


def _read(path: Path, read: Callable[[Path], Any]) -> Any:
    """Call `read` with a path; an error of Arrow becomes a ValueError of one line that names the file."""
    try:
        return read(path)
    except import_arrow().ArrowException as problem:
        raise ValueError(f"{path}: {' '.join(str(problem).split())}") from None


# ── CSV, Arrow files and streams, which are read from start to end ──


def _open_csv(paths: list[Path], request: Request) -> BatchShards[Batch]:
    layout = Layout.of(_read(paths[0], lambda path: _open_csv_file(path).schema), request)
    return _open_readers(paths, lambda path: _open_csv_file(path, layout), layout, request)


def _open_csv_file(path: Path, layout: Layout | None = None) -> Any:
    """Open the columns of the layout; without one, all columns, with types inferred from the first block."""
    csv = import_arrow("pyarrow.csv")
    convert = csv.ConvertOptions(strings_can_be_null=True)
    if layout is not None:
        convert = csv.ConvertOptions(
            include_columns=layout.names, column_types=layout.types, strings_can_be_null=True
        )
    return csv.open_csv(path, csv.ReadOptions(block_size=_CSV_BLOCK_BYTES), convert_options=convert)


def _open_streams(paths: list[Path], request: Request) -> BatchShards[Batch]:
    open_stream_file = import_arrow("pyarrow.ipc").open_stream
    layout = Layout.of(_read(paths[0], lambda path: open_stream_file(str(path)).schema), request)
    return _open_readers(paths, lambda path: open_stream_file(str(path)), layout, request)


def _open_arrow(paths: list[Path], request: Request) -> BatchShards[Batch]:
    arrow = import_arrow()
    open_file = import_arrow("pyarrow.ipc").open_file
    layout = Layout.of(_read(paths[0], lambda path: open_file(str(path)).schema), request)

    def read(path: Path) -> Iterator[Any]:
        with arrow.memory_map(str(path)) as source:
            file = open_file(source)
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                for start in range(0, batch.num_rows, ROWS_PER_BATCH):
                    yield batch.slice(start, ROWS_PER_BATCH)

    return _open_readers(paths, read, layout, request)


def _open_readers(
    paths: list[Path], read: Callable[[Path], Any], layout: Layout, request: Request
) -> BatchShards[Batch]:
    """Make shards of files that are read one after the other; `read` iterates over a file's batches."""
    arrow_error = import_arrow().ArrowException

    def read_all() -> Iterator[Any]:
        for path in paths:
            try:
                for batch in read(path):
                    layout.refuse_drift(batch.schema)
                    yield batch
            except (arrow_error, ValueError) as problem:
                raise ValueError(f"{path}: {' '.join(str(problem).split())}") from None

    return open_stream(read_all, layout, request)
