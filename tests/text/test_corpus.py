"""Whatever texts come in, the same texts are read; and what is no text is told by its row."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.text import Corpus, TokenCounts
from tamis.text.corpus import read_corpora

TEXTS: list[str | None] = ["Send money", "", "café 東京都", None, "money \0 x", "a" * 100]
Given = Callable[[list[str | None]], Any]


def documents(given: Any, **settings: Any) -> list[bytes]:
    """The documents that are read, one by one."""
    found = []
    for text, offsets in read_corpora(given, **settings):
        assert offsets[0] == 0
        assert offsets[-1] == len(text)
        found += [text[i:j].tobytes() for i, j in pairwise(offsets)]
    return found


def encoded(texts: list[str | None]) -> list[bytes | None]:
    return [None if text is None else text.encode() for text in texts]


def filled(texts: list[str | None]) -> list[str]:
    return [text or "" for text in texts]


def arrow_of(kind: Any) -> Given:
    return lambda texts: pa.array(encoded(texts), kind)


ARROW = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
KINDS: dict[str, Given] = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "bytes": encoded,
    "bytearray": lambda texts: [None if t is None else bytearray(t.encode()) for t in texts],
    "memoryview": lambda texts: [None if t is None else memoryview(t.encode()) for t in texts],
    "strings and bytes": lambda texts: [t if k % 2 or t is None else t.encode() for k, t in enumerate(texts)],
    "NaN": lambda texts: [float("nan") if t is None else t for t in texts],
    "NaN of NumPy": lambda texts: [np.float32("nan") if t is None else t for t in texts],
    "NA": lambda texts: [pd.NA if t is None else t for t in texts],
    "NaT": lambda texts: [pd.NaT if t is None else t for t in texts],
    "objects": lambda texts: np.array(texts, dtype=object),
    "objects, a column": lambda texts: np.array(texts, dtype=object)[:, None],
    "a view of objects": lambda texts: np.repeat(np.array(texts, dtype=object), 2)[::2],
    "<U": lambda texts: np.array(filled(texts)),
    "<U, a column": lambda texts: np.array(filled(texts))[:, None],
    "StringDType": lambda texts: np.array(filled(texts), dtype=np.dtypes.StringDType()),
    "pandas": lambda texts: pd.Series(texts),
    "pandas objects": lambda texts: pd.Series(texts, dtype=object, index=range(9, 9 + len(texts))),
    "pandas bytes": lambda texts: pd.Series(encoded(texts), dtype=object),
    "pandas string": lambda texts: pd.Series(texts, dtype="string"),
    "pandas string of Python": lambda texts: pd.Series(texts, dtype=pd.StringDtype("python")),
    "pandas Arrow": lambda texts: pd.Series(texts, dtype=pd.ArrowDtype(pa.string())),
    "pandas categories": lambda texts: pd.Series(texts, dtype="category"),
    "pandas frame": lambda texts: pd.DataFrame({"text": texts}),
    "polars": pl.Series,
    "polars categories": lambda texts: pl.Series(texts, dtype=pl.Categorical),
    "polars bytes": lambda texts: pl.Series(encoded(texts), dtype=pl.Binary),
    "polars objects": lambda texts: pl.Series(texts, dtype=pl.Object),
    "polars frame": lambda texts: pl.DataFrame({"text": texts}),
    "Arrow table": lambda texts: pa.table({"text": texts}),
    "Arrow batch": lambda texts: pa.record_batch({"text": texts}),
    "Arrow fixed": lambda texts: pa.chunked_array([encoded([t])[0:1] for t in texts], pa.binary()),
    **{f"Arrow {kind}": arrow_of(kind) for kind in ARROW},
    "Arrow dictionary": lambda texts: pa.array(texts).dictionary_encode(),
    "Arrow dictionary of bytes": lambda texts: pa.array(encoded(texts)).dictionary_encode(),
    "Arrow slice": lambda texts: pa.array(["before", *texts, "after"])[1:-1],
    "Arrow slice of large": lambda texts: pa.array(["before", *texts, "after"], pa.large_string())[1:-1],
    "Arrow chunks": lambda texts: pa.chunked_array([texts[:1], [], texts[1:]], pa.string()),
    "Arrow chunks, sliced": lambda texts: pa.chunked_array([["x"], texts[:2], texts[2:]], pa.string())[1:],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_any_kind_are_the_same_texts(kind: str) -> None:
    expected = [text.encode() for text in filled(TEXTS)]
    assert documents(KINDS[kind](TEXTS)) == expected
    assert documents(KINDS[kind](TEXTS), chunk=1) == expected
    assert documents(KINDS[kind]([])) == []


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_any_kind_are_counted_the_same(kind: str) -> None:
    counts = TokenCounts().fit(KINDS["list"](TEXTS))
    expected = counts.transform(TEXTS)
    assert (counts.transform(KINDS[kind](TEXTS)) != expected).nnz == 0
    again = TokenCounts().fit_transform(KINDS[kind](TEXTS))
    assert (again != expected).nnz == 0


@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=12),
    chunk=st.integers(1, 40),
    start=st.integers(0, 4),
)
def test_chunks_hold_each_document_once(texts: list[str | None], chunk: int, start: int) -> None:
    expected = [text.encode() for text in filled(texts)]
    assert documents(texts, chunk=chunk) == expected
    for kind in (pa.string(), pa.large_string()):
        assert documents(pa.array(texts, kind), chunk=chunk) == expected
        assert documents(pa.array(texts, kind)[start:], chunk=chunk) == expected[start:]
    for corpus in read_corpora(texts, chunk=chunk):  # it was not full before its last document
        before = corpus.text[: corpus.offsets[-2]].tobytes().decode()
        assert len(before) + len(corpus) - 1 < chunk


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Send café", encoding="utf-8")
    (tmp_path / "b.txt").write_bytes(b"")
    paths = sorted(tmp_path.iterdir())
    for column in (paths, pd.Series(paths), np.array(paths, dtype=object), iter(paths)):
        assert documents(column) == ["Send café".encode(), b""]


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        documents([Path("/nowhere/at/all")])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_of_arrow_are_not_copied(kind: Any) -> None:
    column = pa.array(["Send money", "to Mary", "x" * 50], kind)[1:]
    buffer = np.frombuffer(column.buffers()[2], dtype=np.uint8)
    for held in (column, pa.chunked_array([column]), pa.table({"text": column})):
        (corpus,) = read_corpora(held)
        assert np.shares_memory(corpus.text, buffer)
        assert corpus.text.ctypes.data == buffer.ctypes.data + 10


def test_strings_of_pandas_that_arrow_holds_are_not_copied() -> None:
    held = pa.array(["Send money", "to Mary"])
    series = pd.Series(held, dtype=pd.ArrowDtype(pa.string()))
    (corpus,) = read_corpora(series)
    assert np.shares_memory(corpus.text, np.frombuffer(cast(Any, held.buffers()[2]), dtype=np.uint8))


def test_what_lies_under_a_null_is_not_read() -> None:
    whole = pa.array(["seen", "secret", "seen"])
    column = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), *whole.buffers()[1:]])
    assert column.to_pylist() == ["seen", None, "seen"]
    assert documents(column) == [b"seen", b"", b"seen"]


def test_texts_without_end_are_read_as_they_are_asked_for() -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "send money"

    found = read_corpora(endless(), chunk=110)
    assert len(next(found)) == taken == 10
    assert len(next(found)) == 10


def test_lone_surrogates_are_kept_out() -> None:
    (corpus,) = read_corpora(["ab\ud800cd", "x"])
    assert corpus.offsets.tolist() == [0, 7, 8]
    assert TokenCounts().tokens("ab\ud800cd") == ["ab", "cd"]


def test_a_corpus_is_of_strings_or_bytes() -> None:
    ascii_only, mixed = Corpus.of(["ab", "", "c"]), Corpus.of(["é", b"\xff", "c"])
    assert (ascii_only.text.tobytes(), ascii_only.offsets.tolist()) == (b"abc", [0, 2, 2, 3])
    assert (mixed.text.tobytes(), mixed.offsets.tolist()) == (b"\xc3\xa9\xffc", [0, 2, 3, 4])
    assert len(Corpus.of([])) == 0


# ── refusals ──


@pytest.mark.parametrize("one", ["a text", b"a text", bytearray(b"a text"), Path("a")])
def test_one_text_is_not_texts(one: Any) -> None:
    with pytest.raises(
        ValueError, match=f"string object received: got one {type(one).__name__}, put it into"
    ):
        documents(one)


@pytest.mark.parametrize("wrong", [3, None, 2.5, np.array("text"), np.float64(3)])
def test_what_is_no_iterable_is_told(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"got a {type(wrong).__name__}, expected an iterable of texts"):
        documents(wrong)


@pytest.mark.parametrize(
    "item", [3, 2.5, np.int64(3), ["a"], {"a": 1}, np.array(["a", "b"]), np.array([1.0, 2.0]), object(), True]
)
def test_a_wrong_item_is_told_by_its_row(item: Any) -> None:
    message = f"document 2 is a {type(item).__name__}, expected text: str, bytes, a Path to a file, or None"
    with pytest.raises(TypeError, match=message):
        documents(["a", None, item])
    series = np.empty(3, dtype=object)
    series[:] = ["a", None, None]
    series[2] = item
    for column in (series, pd.Series(series), series[:, None]):
        with pytest.raises(TypeError, match=message):
            documents(column)


@pytest.mark.parametrize(
    "numbers",
    [
        pd.Series([1, 2]),
        pd.Series([True, False]),
        pl.Series([1, 2]),
        pa.array([1, 2]),
        pa.array([1, 2]).dictionary_encode(),
        np.array([1, 2]),
        np.array([[1], [2]]),
        pd.DataFrame({"a": [1, 2]}),
    ],
)
def test_numbers_are_no_texts(numbers: Any) -> None:
    with pytest.raises(TypeError, match=r"document 0 is a (int|int64|bool)_?, expected text"):
        documents(numbers)


@pytest.mark.parametrize(
    "columns",
    [
        np.array([["a", "b"]]),
        pd.DataFrame({"a": ["x"], "b": ["y"]}),
        pl.DataFrame({"a": ["x"], "b": ["y"]}),
        pa.table({"a": ["x"], "b": ["y"]}),
    ],
)
def test_several_columns_are_told(columns: Any) -> None:
    with pytest.raises(ValueError, match="got 2 columns, expected one of texts: pass frame"):
        documents(columns)


def test_counts_are_no_texts() -> None:
    with pytest.raises(TypeError, match="got a sparse matrix, expected texts: was it transformed already"):
        documents(TokenCounts().fit_transform(["some text"]))
