"""Batches of rows from a list, a function or an iterator → shards that are observed in their order."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from typing import Any

from tamis.arrays import one_line
from tamis.engines.batches import Batch, Loaded
from tamis.engines.opening import (
    BatchShards,
    Request,
    place_pieces,  # makes shards of pieces, on the engine that the request names
)


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Batches of rows: (X, y), (X, y, sample_weight), or X alone.

    Every model can learn from a list of batches, or from a function that returns a new iterator of them for
    each pass. An iterator can be read once, which is enough for models that learn in one pass. A list may
    consist of tasks of `dask.delayed` instead, each of which makes a batch on a worker.
    """

    content: Iterable[Any] | Callable[[], Iterable[Any]]


def open_shards(data: Any, request: Request) -> BatchShards[Batch]:
    """Open batches, or an iterator of them."""
    if request.roles or request.columns is not None:
        name = next(iter(request.roles), "columns")
        raise ValueError(f"got {name} beside batches, expected batches (X, y, sample_weight) that hold all")
    content = data.content if isinstance(data, Batches) else data
    if not isinstance(content, list | tuple):
        return place_pieces(_Pieces(content), None, request)
    if content and all(type(each).__module__.partition(".")[0] == "dask" for each in content):
        shards: BatchShards[Batch] = import_module("tamis.engines.dask").open_delayed(content, request)
        return shards
    return place_pieces(_Pieces(content), len(content), request)


class _Pieces:
    """The batches as pieces; each pass iterates over them again.

    If they come from an iterator, only one pass is possible; its first batch can also be read before it.
    """

    def __init__(self, content: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self._content = content
        self._head: list[Any] = []  # the first batch of an iterator, if it was read before the pass
        self._is_read = False

    def __iter__(self) -> Iterator[Loaded[Batch]]:
        if isinstance(self._content, Iterator):
            batches = self._read_once(self._content)
        else:
            batches = iter(self._content() if callable(self._content) else self._content)
        return (Loaded(f"batch {number}", read_batch(each, number)) for number, each in enumerate(batches))

    def _read_once(self, content: Iterator[Any]) -> Iterator[Any]:
        if self._is_read:
            raise ValueError(
                "got an iterator of batches, which can be read once, for a model that reads them several "
                "times, expected tamis.engines.Batches of a list, or of a function that returns an iterator"
            )
        if not self._head:
            self._head.extend(islice(content, 1))
        yield from self._head
        self._is_read = True
        self._head.clear()
        yield from content


def read_batch(content: Any, number: int) -> Batch:
    """Make the batch of shard `number` from a tuple, from rows alone or from another batch."""
    if isinstance(content, Batch):
        return replace(content, number=number)
    if not isinstance(content, tuple):
        return Batch(content, number=number)
    if not 1 <= len(content) <= 3:
        raise ValueError(f"batch {number} is {one_line(content)}, expected (X, y) or (X, y, sample_weight)")
    return replace(Batch(*content), number=number)
