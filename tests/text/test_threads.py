"""No count depends on how many threads there are, nor on where chunks end; and no thread is left behind."""

import gc
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tamis import threads
from tamis.text import TokenCounts, counts
from tamis.text.corpus import read_corpora

WORDS = [f"{stem}{k}" for k in range(60) for stem in ("a", "Be", "é", "longer-word", "東京都")]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"ngram_range": (1, 3), "min_df": 2},
    {"ngram_range": None, "pairs": 3, "max_features": 100},
    {"ngram_range": (1, 2), "pairs": 3, "stop_words": ["a1", "be2", "東京"]},
    {"analyzer": "char_wb", "ngram_range": (2, 4)},
    {"form": "hashed", "n_features": 500, "alternate_sign": True},
    {"form": "hashed", "names": 20, "n_features": 1000},
    {"unknown": True, "max_df": 0.5, "binary": True},
    {"keep_by": "evidence", "max_features": 50},
]


def some_texts(count: int = 120) -> list[str]:
    rng = np.random.default_rng(7)
    return [" ".join(rng.choice(WORDS, size=rng.integers(0, 30))) for _ in range(count)]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Set the number of threads and the size of chunks."""

    def set_to(count: int, chunk: int) -> None:
        monkeypatch.setattr(threads, "_processors", lambda: count)

        def cut_so(X: object, encoding: str | None, *_: int) -> Any:
            return read_corpora(X, encoding, chunk)

        monkeypatch.setattr(counts, "read_corpora", cut_so)

    return set_to


def outcome(settings: dict[str, Any]) -> tuple[list[Any], Any]:
    """All arrays of a fit and of a transform, and the names of columns."""
    texts, labels = some_texts(), [k % 3 for k in range(120)]
    model = TokenCounts(**settings)
    learned = model.fit_transform(texts, labels)
    later = model.transform(texts[::-1])
    alone = TokenCounts(**settings).fit(texts, labels)
    assert (alone.transform(texts) != learned).nnz == 0
    arrays = [part for found in (learned, later) for part in (found.data, found.indices, found.indptr)]
    return arrays, model.get_feature_names_out().tolist()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_threads_do_not_show(cut: Callable[[int, int], None], settings: dict[str, Any]) -> None:
    found = []
    for count in (1, 2, 3, 4):
        cut(count, 700)
        found.append(outcome(settings))
    for arrays, names in found[1:]:
        assert names == found[0][1]
        for ours, theirs in zip(arrays, found[0][0], strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_chunks_do_not_show(cut: Callable[[int, int], None], settings: dict[str, Any]) -> None:
    texts, labels = some_texts(), [k % 3 for k in range(120)]
    found = []
    for chunk in (1, 100, 1500, 10**6):
        cut(2, chunk)
        model = TokenCounts(**settings)
        found.append((model.fit_transform(texts, labels), model.get_feature_names_out().tolist()))
        assert (model.transform(texts) != found[-1][0]).nnz == 0
    for matrix, names in found[1:]:
        # Hashed columns remember what is frequent in some chunk: which of them have names may depend on it.
        assert names == found[0][1] or "names" in settings
        assert (matrix != found[0][0]).nnz == 0
        assert matrix.nnz == found[0][0].nnz


def test_entries_that_wait_are_merged_on_the_way(
    cut: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(2, 10**6)
    whole = TokenCounts(ngram_range=(1, 2), min_df=2).fit(some_texts())
    cut(2, 200)
    monkeypatch.setattr("tamis.text.vocabulary._MERGE_SIZE", 10)
    parts = TokenCounts(ngram_range=(1, 2), min_df=2).fit(some_texts())
    assert parts.vocabulary_ == whole.vocabulary_


def test_labels_that_end_where_a_chunk_does_are_too_few(cut: Callable[[int, int], None]) -> None:
    cut(2, 1)
    model = TokenCounts(keep_by="evidence", max_features=2)
    for labels in ([0, 1], [0, 1, 0, 1]):
        with pytest.raises(ValueError, match=f"got {len(labels)} labels, expected one for each text"):
            model.fit(["some text", "more text", "yet more"], labels)


def test_batches_are_the_rows_of_all(cut: Callable[[int, int], None]) -> None:
    cut(3, 500)
    model = TokenCounts().fit(some_texts())
    batches = list(model.batches(iter(some_texts())))
    assert len(batches) > 5
    rows = np.concatenate([batch.toarray() for batch in batches])
    assert (rows == model.transform(some_texts()).toarray()).all()


# ── working ahead ──


@pytest.mark.parametrize("count", [1, 2, 4])
def test_results_come_in_the_order_of_items(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(threads, "_processors", lambda: count)
    gate = threading.Event()

    def slow_first(item: int) -> int:
        if item == 0 and count > 1:
            gate.wait(10)
        if item == 1:
            gate.set()
        return item * item

    assert list(threads.map_ahead(slow_first, range(20))) == [k * k for k in range(20)]
    assert list(threads.map_ahead(slow_first, [])) == []


@pytest.mark.parametrize("count", [2, 4])
def test_small_results_do_not_wait_for_a_slow_item(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(threads, "_processors", lambda: count)
    lock, others_are_done = threading.Lock(), threading.Event()
    done = unfinished = most_unfinished = 0

    def slow_first(item: int) -> int:
        nonlocal done, unfinished, most_unfinished
        with lock:
            unfinished += 1
            most_unfinished = max(most_unfinished, unfinished)
        if item == 0:
            assert others_are_done.wait(10)
        with lock:
            unfinished -= 1
            done += 1
            if done == count + 8:  # more than there are threads: others go on while the first one takes long
                others_are_done.set()
        return item

    assert list(threads.map_ahead(slow_first, range(40), max_waiting=8)) == list(range(40))
    assert most_unfinished <= count + 1


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_items_are_taken_as_they_are_needed(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(threads, "_processors", lambda: count)
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    found = threads.map_ahead(lambda item: item, endless())
    for consumed in range(1, 30):
        assert next(found) == consumed
        assert taken <= consumed + count + 2
    found.close()
    assert taken < 40


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("where", ["item", "function"])
def test_errors_come_where_their_item_would(monkeypatch: pytest.MonkeyPatch, count: int, where: str) -> None:
    monkeypatch.setattr(threads, "_processors", lambda: count)

    def items() -> Iterator[int]:
        yield from range(5)
        if where == "item":
            raise LookupError("five")
        yield from range(5, 50)

    def function(item: int) -> int:
        if item == 5:
            raise LookupError("five")
        return item

    seen: deque[int] = deque()
    with pytest.raises(LookupError, match="five"):
        seen.extend(threads.map_ahead(function, items()))
    assert list(seen) == list(range(len(seen)))
    assert len(seen) == 5 or where == "item"  # those that were ahead of a source that fails are lost
    assert list(threads.map_ahead(function, range(4))) == [0, 1, 2, 3]  # and the pool goes on


def test_what_is_abandoned_is_not_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_processors", lambda: 2)
    closed = threading.Event()
    begun = []

    def items() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.set()

    def function(item: int) -> int:
        begun.append(item)
        return item

    for item in threads.map_ahead(function, items()):
        if item == 3:
            break
    gc.collect()
    assert len(begun) <= 3 + 2 + 2 + 1
    assert closed.is_set()


def test_texts_may_be_counted_by_several_threads_at_once(cut: Callable[[int, int], None]) -> None:
    cut(3, 300)
    model = TokenCounts(ngram_range=(1, 2)).fit(some_texts())
    expected = model.transform(some_texts())
    found: list[Any] = [None] * 6

    def work(k: int) -> None:
        found[k] = model.transform(some_texts())

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all((each != expected).nnz == 0 for each in found)
