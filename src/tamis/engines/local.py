"""Shards in this process: threads read and observe a few at a time, and statistics are added in order.

Memory holds at most one shard more than there are threads; two more if an iterator yields shards that are
already in memory, because it is asked for the next shard before an earlier one is released. Kernels release
Python's global interpreter lock, so threads observe different shards at the same time.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from tamis import threads
from tamis.engines.batches import Piece
from tamis.engines.parts import apply_to_piece, require_rows, transform_shard
from tamis.progress import Bar
from tamis.protocols import Statistic

X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound=Statistic)

# A statistic is added after those of all earlier shards. This many may wait for that, besides one per thread.
_MAX_WAITING = 16


@dataclass(frozen=True, eq=False)
class LocalShards(Generic[X]):
    """Shards that are read from their pieces at each pass, with the methods of `engines.BatchShards`."""

    pieces: Iterable[Piece[X]]  # each pass iterates over it
    count: int | None = None  # the number of pieces, if it is known before they are read
    progress: str = ""  # the name of the progress bar; no bar is drawn if it is empty, or `count` None or 0

    def total(self, observe: Callable[[X], S | None], /) -> S:
        """Observe every shard, and add the statistics."""
        bar = Bar(self.progress, self.count) if self.progress and self.count else None
        sums: S | None = None
        observed = threads.map_ahead(partial(apply_to_piece, observe), self.pieces, max_waiting=_MAX_WAITING)
        with threads.one_blas_thread, closing(observed) as parts:
            for part in parts:
                sums = part if sums is None else sums if part is None else sums + part
                if bar is not None:
                    bar.step()
        if bar is not None:
            bar.close()
        return require_rows(sums)

    def map(self, transform: Callable[[X], Y | None], /) -> "LocalShards[Y]":
        """Return shards to which `transform` is applied each time one is read."""
        return LocalShards(_TransformedPieces(self.pieces, transform), self.count, self.progress)

    def keep(self) -> "LocalShards[X]":
        """Return self. Other engines cache the shards here; this one reads them again, to bound memory."""
        return self

    def read_first(self) -> X:
        """Return the first shard."""
        for piece in self.pieces:
            return piece.load()
        raise ValueError("got no shards, expected at least one: is the list or the folder empty?")


@dataclass(frozen=True, slots=True, eq=False)
class _TransformedPieces(Generic[X, Y]):
    """Pieces whose content is transformed when they are loaded."""

    pieces: Iterable[Piece[X]]
    transform: Callable[[X], Y | None]

    def __iter__(self) -> Iterator["_TransformedPiece[X, Y]"]:
        return (_TransformedPiece(piece, self.transform) for piece in self.pieces)


@dataclass(frozen=True, slots=True, eq=False)
class _TransformedPiece(Generic[X, Y]):
    piece: Piece[X]
    transform: Callable[[X], Y | None]

    @property
    def name(self) -> str:
        return self.piece.name

    def load(self) -> Any:
        return transform_shard(self.transform, self.piece.load())
