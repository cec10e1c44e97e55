"""Texts of any kind → UTF-8, back to back: strings, bytes, files, frames, Arrow, iterables without end.

Chunks end between documents, at a size that depends on the texts alone, so that no result depends on threads.
"""

import importlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tamis import arrays
from tamis._kernels.text import Bytes, Words
from tamis.text.charset import as_utf8

# Bytes worked on at a time: enough to forget what starting costs, few enough to hold several.
CHUNK, LARGE = 1 << 21, 1 << 23


class Corpus(NamedTuple):
    """Documents as UTF-8; what is not UTF-8 in them is no text."""

    text: Bytes
    offsets: Words  # (n + 1,)

    @classmethod
    def of(cls, documents: Sequence[str | bytes]) -> "Corpus":
        """Of a few documents at once; bytes are taken for UTF-8."""
        try:
            joined = "".join(documents)  # type: ignore[arg-type]  # what is not all strings is told by the error
        except TypeError:
            each = [_encoded(document) for document in documents]
            return cls._of_bytes(b"".join(each), [len(document) for document in each])
        if joined.isascii():
            return cls._of_bytes(joined.encode(), [len(document) for document in documents])
        lengths = [len(d) if d.isascii() else len(_encoded(d)) for d in documents]
        return cls._of_bytes(_encoded(joined), lengths)

    @classmethod
    def _of_bytes(cls, text: bytes, lengths: list[int]) -> "Corpus":
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(np.frombuffer(text, dtype=np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.text)


def _encoded(document: str | bytes) -> bytes:
    return document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document


def corpora(
    documents: Any, encoding: str | None = None, chunk: int = CHUNK, most: int = 0
) -> Iterator[Corpus]:
    """The documents in chunks of about so many bytes; a document that is missing is an empty one.

    Chunks grow up to `most` bytes, if that is more: the larger, the less there is to merge.

    Bytes and files are in the encoding given, or in the one that they seem to be in.
    """
    refuse_one(documents)
    column = column_of(documents)
    if (found := _arrow(column)) is not None:
        yield from _of_arrow(found, encoding, chunk, most)
        return
    if not isinstance(column, Iterable) or getattr(column, "shape", None) == ():
        raise TypeError(f"got a {type(column).__name__}, expected an iterable of texts")
    batch: list[str | bytes] = []
    size = 0
    for row, document in enumerate(column):
        if type(document) is not str:
            document = read(document, encoding, row)
        batch.append(document)
        size += len(document) + 1
        if size >= chunk:
            yield Corpus.of(batch)
            batch, size, chunk = [], 0, grown(chunk, most)
    if batch:
        yield Corpus.of(batch)


def refuse_one(documents: object) -> None:
    """Raise if one text was given where many are expected."""
    if isinstance(documents, str | bytes | bytearray | memoryview | Path):
        raise ValueError(
            "Iterable over raw text documents expected, string object received: got one "
            f"{type(documents).__name__}, put it into a list"
        )


def read(document: Any, encoding: str | None, row: int) -> str | bytes:
    """One document that may be a file, bytes, or missing."""
    if isinstance(document, str):
        return document
    if isinstance(document, Path):
        document = document.read_bytes()
    if isinstance(document, bytes | bytearray | memoryview):
        return as_utf8(bytes(document), encoding)
    if is_missing(document):
        return ""
    raise TypeError(
        f"document {row} is a {type(document).__name__}, expected text: str, bytes, a Path to a file, or None"
    )


def is_missing(document: Any) -> bool:
    """Whether a document is None, NaN or pandas' NA."""
    if isinstance(document, float | np.floating):
        return bool(np.isnan(document))
    return document is None or type(document).__name__ in ("NAType", "NaTType")


def column_of(documents: Any) -> Any:
    """The one column of a frame or a matrix; anything else as it is."""
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
        if hasattr(documents, "column"):  # of Arrow
            return documents.column(0)
        frame = arrays.frame(documents)
        return documents if frame is None else frame[frame.columns[0]].to_native()
    return documents


def _arrow(column: Any) -> Any:
    """The column as pyarrow's chunked array, if it can be one without being read item by item; else None."""
    if not (hasattr(column, "__arrow_c_stream__") or hasattr(column, "__arrow_c_array__")):
        return None
    if str(getattr(column, "dtype", "")).lower() == "object":  # may hold anything
        return None
    try:
        pyarrow = importlib.import_module("pyarrow")
    except ModuleNotFoundError:  # then it is read item by item
        return None
    whole = isinstance(column, pyarrow.ChunkedArray)
    found = column if whole else pyarrow.chunked_array(_parts(column, pyarrow))
    plain, kind = (pyarrow.string(), pyarrow.large_string()), found.type
    named = pyarrow.types.is_dictionary(kind) and kind.value_type in plain
    return found.cast(pyarrow.large_string()) if named or kind == pyarrow.string_view() else found


def _parts(column: Any, pyarrow: Any) -> Any:
    return [column] if isinstance(column, pyarrow.Array) else column


def grown(chunk: int, most: int) -> int:
    """The size of the next chunk."""
    return max(chunk, min(chunk + chunk // 4, most))


def _of_arrow(column: Any, encoding: str | None, chunk: int, most: int) -> Iterator[Corpus]:
    if str(column.type) not in ("string", "large_string"):
        yield from corpora((item.as_py() for item in column), encoding, chunk, most)
        return
    for part in column.chunks:
        if part.null_count:  # what is under a null may be anything
            part = part.fill_null("")
        _, offsets, text = part.buffers()
        wide = np.int64 if "large" in str(part.type) else np.int32
        rows = slice(part.offset, part.offset + len(part) + 1)
        places = np.frombuffer(offsets, dtype=wide)[rows].astype(np.int64)
        whole = np.zeros(0, dtype=np.uint8) if text is None else np.frombuffer(text, dtype=np.uint8)
        start = 0
        while start < len(part):
            stop = int(np.searchsorted(places, places[start] + chunk))
            stop = min(max(stop, start + 1), len(part))
            yield Corpus(whole[places[start] : places[stop]], places[start : stop + 1] - places[start])
            start, chunk = stop, grown(chunk, most)
