"""Shards in this process: threads read and observe a few at a time, and statistics are added in order.

Memory holds at most one shard more than there are threads. Kernels release the interpreter's lock, so threads
read and observe different shards at the same time.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from tamis import threads
from tamis.engines.batches import Piece
from tamis.engines.parts import change_shard, observe_piece, refuse_no_rows
from tamis.progress import Bar
from tamis.protocols import Statistic

X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound=Statistic)


_MAX_WAITING = 16  # statistics, which are small, that may wait until those of earlier shards are added


@dataclass(frozen=True, eq=False)
class LocalShards(Generic[X]):
    """Pieces that are read again at each pass."""

    pieces: Iterable[Piece[X]]  # it is iterated over at each pass
    count: int | None = None  # of pieces, if it is known before they are read
    progress: str = ""  # the name of the progress bar; none is drawn if it is empty

    def total(self, observe: Callable[[X], S | None], /) -> S:
        """Observe every shard, and add the statistics; `observe` returns None for a shard without rows."""
        bar = Bar(self.progress, self.count) if self.progress and self.count else None
        sums: S | None = None
        observed = threads.map_ahead(partial(observe_piece, observe), self.pieces, finished=_MAX_WAITING)
        with threads.one_blas_thread, closing(observed) as parts:
            for part in parts:
                sums = part if sums is None else sums if part is None else sums + part
                if bar is not None:
                    bar.step()
        if bar is not None:
            bar.close()
        return refuse_no_rows(sums)

    def map(self, change: Callable[[X], Y | None], /) -> "LocalShards[Y]":
        """Return the shards after a change, which is made whenever a shard is read.

        The change returns None for a shard without rows.
        """
        return LocalShards(_Changed(self.pieces, change), self.count, self.progress)

    def keep(self) -> "LocalShards[X]":
        """Return the same shards: to bound the memory, none is kept, and each pass reads them again."""
        return self

    def read_first(self) -> X:
        """Return the first shard."""
        for piece in self.pieces:
            return piece.load()
        raise ValueError("got no shards, expected at least one: is the list or the folder empty?")


@dataclass(frozen=True, slots=True, eq=False)
class _Changed(Generic[X, Y]):
    """Pieces whose content is changed when they are loaded."""

    pieces: Iterable[Piece[X]]
    change: Callable[[X], Y | None]

    def __iter__(self) -> Iterator["_ChangedPiece[X, Y]"]:
        return (_ChangedPiece(piece, self.change) for piece in self.pieces)


@dataclass(frozen=True, slots=True, eq=False)
class _ChangedPiece(Generic[X, Y]):
    piece: Piece[X]
    change: Callable[[X], Y | None]

    @property
    def name(self) -> str:
        return self.piece.name

    def load(self) -> Any:
        return change_shard(self.change, self.piece.load())
