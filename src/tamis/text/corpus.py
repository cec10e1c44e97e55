"""Read texts of any kind (strings, bytes, files, data frames, Arrow arrays, endless iterables) as UTF-8.

They are read in chunks of whole documents. The sizes of chunks depend on the texts only, so that no result
depends on the number of threads.
"""

import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tamis import arrays
from tamis._kernels.text import Bytes, Int64s
from tamis.text.charset import guess, to_utf8

Input = Literal["content", "filename", "file"]
DecodeError = Literal["strict", "ignore", "replace"]

# The size of a chunk, and the size to which chunks grow if their lexicons are merged: large enough that the
# overhead per chunk does not matter, and small enough that memory holds several chunks.
CHUNK_BYTES, MERGED_CHUNK_BYTES = 1 << 21, 1 << 23


class Corpus(NamedTuple):
    """Concatenated documents in UTF-8; bytes that are not valid UTF-8 separate words."""

    text: Bytes
    offsets: Int64s  # (n + 1,): document i is text[offsets[i] : offsets[i + 1]]

    @classmethod
    def of(cls, documents: Sequence[str | bytes]) -> "Corpus":
        """Join documents; bytes are taken to be UTF-8."""
        try:
            joined = "".join(documents)  # type: ignore[arg-type]  # bytes among the strings raise the error
        except TypeError:
            encoded = [_encode(document) for document in documents]
            return cls._from_bytes(b"".join(encoded), [len(document) for document in encoded])
        if joined.isascii():
            return cls._from_bytes(joined.encode(), [len(document) for document in documents])
        lengths = [len(d) if d.isascii() else len(_encode(d)) for d in documents]
        return cls._from_bytes(_encode(joined), lengths)

    @classmethod
    def _from_bytes(cls, text: bytes, lengths: list[int]) -> "Corpus":
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(np.frombuffer(text, dtype=np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.text)


def _encode(document: str | bytes) -> bytes:
    # "surrogatepass": a str may hold lone surrogates, whose bytes are not valid UTF-8 and separate words.
    return document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document


def read_corpora(
    documents: Any, encoding: str | None = None, chunk: int = CHUNK_BYTES, max_chunk: int = 0
) -> Iterator[Corpus]:
    """Yield the documents in chunks of about `chunk` bytes; a missing document becomes an empty one.

    If `max_chunk` is more than `chunk`, each chunk is a quarter larger than the last, up to about `max_chunk`
    bytes, so that fewer lexicons have to be merged. The encoding of bytes and files is guessed if it is not
    given.
    """
    refuse_single_text(documents)
    column = get_only_column(documents)
    if (arrow := _to_arrow(column)) is not None:
        yield from _read_arrow(arrow, encoding, chunk, max_chunk)
        return
    if not isinstance(column, Iterable) or getattr(column, "shape", None) == ():
        raise TypeError(f"got a {type(column).__name__}, expected an iterable of texts")
    batch: list[str | bytes] = []
    size = 0
    for row, document in enumerate(column):
        if type(document) is not str:
            document = read_document(document, encoding, row)
        batch.append(document)
        size += len(document) + 1  # 1, so that empty documents fill a chunk, too; a str counts its characters
        if size >= chunk:
            yield Corpus.of(batch)
            batch, size, chunk = [], 0, grow_chunk(chunk, max_chunk)
    if batch:
        yield Corpus.of(batch)


def refuse_single_text(documents: object) -> None:
    """Raise if one text was given where many are expected."""
    if isinstance(documents, str | bytes | bytearray | memoryview | Path):
        raise ValueError(
            "Iterable over raw text documents expected, string object received: got one "
            f"{type(documents).__name__}, put it into a list"
        )


def read_document(document: Any, encoding: str | None, row: int) -> str | bytes:
    """Return the text of a document, as str or in UTF-8; the text of a missing document is empty.

    `row` is the index of the document, for error messages.
    """
    if isinstance(document, str):
        return document
    if isinstance(document, Path):
        document = document.read_bytes()
    if isinstance(document, bytes | bytearray | memoryview):
        return to_utf8(bytes(document), encoding)
    if is_missing(document):
        return ""
    raise TypeError(
        f"document {row} is a {type(document).__name__}, expected text: str, bytes, a Path to a file, or None"
    )


def is_missing(document: Any) -> bool:
    """Return whether a document is None, NaN or pandas' NA."""
    if isinstance(document, float | np.floating):
        return bool(np.isnan(document))
    return document is None or type(document).__name__ in ("NAType", "NaTType")


def get_only_column(documents: Any) -> Any:
    """Return the only column of a data frame or a matrix, and any other object unchanged."""
    if hasattr(documents, "tocsr"):
        raise TypeError("got a sparse matrix, expected texts: was it transformed already?")
    shape = getattr(documents, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2:
        if shape[1] != 1:
            raise ValueError(
                f"got {shape[1]} columns, expected one of texts: pass frame['text'], "
                "or use scikit-learn's ColumnTransformer"
            )
        if isinstance(documents, np.ndarray):
            return documents[:, 0]
        if hasattr(documents, "column"):  # an Arrow table
            return documents.column(0)
        frame = arrays.wrap_frame(documents)
        return documents if frame is None else frame[frame.columns[0]].to_native()
    return documents


def _to_arrow(column: Any) -> Any:
    """Return pyarrow's chunked array of the column; None if it must be read item by item."""
    # By these methods, libraries hand over data in the format of Arrow.
    if not (hasattr(column, "__arrow_c_stream__") or hasattr(column, "__arrow_c_array__")):
        return None
    if str(getattr(column, "dtype", "")).lower() == "object":  # it may hold any object
        return None
    try:
        pyarrow = importlib.import_module("pyarrow")
    except ModuleNotFoundError:  # the column is read item by item
        return None
    if not isinstance(column, pyarrow.ChunkedArray):
        column = pyarrow.chunked_array([column] if isinstance(column, pyarrow.Array) else column)
    # Texts in a dictionary, or in parts (`string_view`), are copied into one buffer with 64-bit offsets.
    strings, kind = (pyarrow.string(), pyarrow.large_string()), column.type
    is_dictionary = pyarrow.types.is_dictionary(kind) and kind.value_type in strings
    return column.cast(pyarrow.large_string()) if is_dictionary or kind == pyarrow.string_view() else column


def grow_chunk(chunk: int, max_chunk: int) -> int:
    """Return the size of the next chunk: a quarter more, up to `max_chunk`, but not less."""
    return max(chunk, min(chunk + chunk // 4, max_chunk))


def _read_arrow(column: Any, encoding: str | None, chunk: int, max_chunk: int) -> Iterator[Corpus]:
    if str(column.type) not in ("string", "large_string"):
        yield from read_corpora((item.as_py() for item in column), encoding, chunk, max_chunk)
        return
    for part in column.chunks:
        if part.null_count:  # the text buffer may hold any bytes for a null
            part = part.fill_null("")
        _, offsets, text = part.buffers()  # the first says which texts are null: none here
        offset_type = np.int64 if "large" in str(part.type) else np.int32
        # The buffers may begin before this part. Of n texts, there are n + 1 offsets.
        in_part = slice(part.offset, part.offset + len(part) + 1)
        starts = np.frombuffer(offsets, dtype=offset_type)[in_part].astype(np.int64)
        buffer = np.zeros(0, dtype=np.uint8) if text is None else np.frombuffer(text, dtype=np.uint8)
        start = 0
        while start < len(part):
            stop = int(np.searchsorted(starts, starts[start] + chunk))
            stop = min(max(stop, start + 1), len(part))
            yield Corpus(buffer[starts[start] : starts[stop]], starts[start : stop + 1] - starts[start])
            start, chunk = stop, grow_chunk(chunk, max_chunk)


@dataclass(frozen=True)
class Source:
    """How documents are read: as texts, names of files or open files; and how bytes are decoded."""

    input: Input = "content"
    encoding: str | None = None  # guessed if None
    decode_error: DecodeError = "replace"

    def __post_init__(self) -> None:
        if self.input not in ("content", "filename", "file"):
            raise ValueError(f"got input={self.input!r}, expected 'content', 'filename' or 'file'")
        if not (self.encoding is None or isinstance(self.encoding, str)):
            raise TypeError(
                f"got encoding={self.encoding!r}, expected a name, such as 'utf-8', or None to guess"
            )
        if self.decode_error not in ("strict", "ignore", "replace"):
            raise ValueError(
                f"got decode_error={self.decode_error!r}, expected 'strict', 'ignore' or 'replace'"
            )

    def open(self, documents: Any) -> Any:
        """Return the documents with file names and open files replaced by their content, read one by one."""
        if self.input == "content" and self.decode_error == "replace":
            return documents  # `read_corpora` reads them; it reads Arrow arrays without a copy
        refuse_single_text(documents)
        column = get_only_column(documents)
        if not isinstance(column, Iterable):
            raise TypeError(f"got a {type(documents).__name__}, expected an iterable of texts")
        return (self._open_document(document, row) for row, document in enumerate(column))

    def _open_document(self, document: Any, row: int) -> Any:
        """Read a file, and decode bytes; with "replace", bytes stay, and `read_document` makes them UTF-8."""
        return (
            self._open_file(document, row)
            if self.decode_error == "replace"
            else self.read_content(document, row)
        )

    def read_text(self, document: Any) -> str | bytes:
        """Return the text of one document, as str or in UTF-8; the text of a missing document is empty."""
        return read_document(self._open_document(document, row=0), self.encoding, row=0)

    def read_content(self, document: Any, row: int = 0) -> Any:
        """Return the str of a document that is text, bytes or a file, and any other document unchanged."""
        document = self._open_file(document, row)
        if not isinstance(document, bytes | bytearray | memoryview):
            return document
        if self.decode_error == "replace":
            utf8 = read_document(document, self.encoding, row)
            return utf8.decode("utf-8", "replace") if isinstance(utf8, bytes) else utf8
        encoding = self.encoding or guess(bytes(document))
        try:  # unlike `to_utf8`, without the aliases of encodings that occur in mail
            return bytes(document).decode(encoding, self.decode_error)
        except UnicodeDecodeError as error:
            error.reason += f" (document {row}: give its encoding, or decode_error='replace')"
            raise

    def _open_file(self, document: Any, row: int) -> Any:
        """Return the content of the file that the document is or names; any other document unchanged."""
        if self.input == "filename":
            if not isinstance(document, str | Path):
                raise TypeError(
                    f"document {row} is a {type(document).__name__}, expected the name of a file: see input="
                )
            document = Path(document).read_bytes()
        elif self.input == "file":
            if not hasattr(document, "read"):
                raise TypeError(
                    f"document {row} is a {type(document).__name__}, expected an open file: see input="
                )
            document = document.read()
        elif isinstance(document, Path):
            document = document.read_bytes()
        return document
