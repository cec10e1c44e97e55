"""Shards in this process: they are read and observed by threads, a few at a time, and added in order.

Memory holds as many shards as there are threads. Kernels release the interpreter's lock, so that reading,
decoding and observing of different shards overlap.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tamis import threads
from tamis.engines.batches import Piece
from tamis.engines.parts import change_shard, observe_piece, refuse_no_rows
from tamis.progress import Bar
from tamis.protocols import Statistic

X = TypeVar("X")
Y = TypeVar("Y")
S = TypeVar("S", bound=Statistic)


_FINISHED = 16  # statistics that may wait for that of an earlier shard: they are small


@dataclass(frozen=True, eq=False)
class LocalShards(Generic[X]):
    """Pieces that are read again at each pass.

    `pieces` is a list, or anything else that can be iterated several times, of pieces.
    """

    pieces: Iterable[Piece[X]]
    count: int | None = None  # of pieces, if it is known before they are read
    progress: str = ""  # the name of the progress bar; none is drawn if it is empty

    def total(self, observe: Callable[[X], S | None], /) -> S:
        """Observe every shard, add. `observe` returns None for a shard without rows."""
        bar = Bar(self.progress, self.count) if self.progress and self.count else None
        sums: S | None = None
        observed = threads.map_ahead(self._bind(observe), self.pieces, finished=_FINISHED)
        with threads.one_blas_thread, closing(observed) as parts:
            for part in parts:
                sums = part if sums is None else sums if part is None else sums + part
                if bar is not None:
                    bar.step()
        if bar is not None:
            bar.close()
        return refuse_no_rows(sums)

    @staticmethod
    def _bind(observe: Callable[[X], S | None]) -> Callable[[Piece[X]], S | None]:
        return lambda piece: observe_piece(observe, piece)

    def map(self, change: Callable[[X], Y | None], /) -> "LocalShards[Y]":
        """The shards with a change that is made whenever they are read; None is a shard without rows."""
        return LocalShards(_Changed(self.pieces, change), self.count, self.progress)

    def keep(self) -> "LocalShards[X]":
        """The same shards: memory stays bounded, and each pass reads them again."""
        return self

    def read_first(self) -> X:
        """The first shard."""
        for piece in self.pieces:
            return piece.load()
        raise ValueError("got no shards, expected at least one: is the list or the folder empty?")


@dataclass(frozen=True, slots=True, eq=False)
class _Changed(Generic[X, Y]):
    """Pieces whose content is changed as they are loaded."""

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
