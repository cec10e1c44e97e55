"""Add the statistics of shards so that every shard is counted exactly once, even if tasks are repeated.

A part holds a statistic and the numbers of the shards that it sums. Engines repeat tasks: a worker is lost, a
slow task runs twice. A part whose shards were all added before adds nothing, and at the end every shard must
be there, so that no shard is ever counted twice or left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tamis.engines.batches import Piece
from tamis.protocols import Statistic

S = TypeVar("S", bound=Statistic)
X = TypeVar("X")
Y = TypeVar("Y")


@dataclass(frozen=True, slots=True, eq=False)
class Part(Generic[S]):
    """The statistic of some shards; None if these have no rows."""

    shards: frozenset[int]
    statistic: S | None

    def __add__(self, other: "Part[S]") -> "Part[S]":
        if other.shards <= self.shards:
            return self
        if self.shards < other.shards:
            return other
        if common := self.shards & other.shards:
            raise ValueError(
                f"got parts that share shards {sorted(common)[:3]} and differ in others, expected each "
                "shard in one part: an engine adds whole parts only"
            )
        if self.statistic is None or other.statistic is None:
            statistic = other.statistic if self.statistic is None else self.statistic
        else:
            statistic = self.statistic + other.statistic
        return Part(self.shards | other.shards, statistic)


def observe_piece(observe: Callable[[X], S | None], piece: Piece[X]) -> S | None:
    """Read a shard and observe it; an error names the shard. None, of a shard and of a result, is no rows."""
    try:
        return change_shard(observe, piece.load())
    except (TypeError, ValueError) as problem:
        if type(problem) not in (TypeError, ValueError):
            raise
        raise type(problem)(f"{piece.name}: {problem}") from None


def change_shard(change: Callable[[X], Y], shard: X) -> Y | None:
    """Apply a function to a shard; a shard without rows may be None, and stays so."""
    return None if shard is None else change(shard)


def observe_part(observe: Callable[[X], S | None], number: int, piece: Piece[X]) -> Part[S]:
    """Read the shard of this number and observe it, for engines that may do so more than once."""
    return Part(frozenset((number,)), observe_piece(observe, piece))


def finish(part: Part[S], shards: int) -> S:
    """The statistic of a part that has all shards, 0 to `shards` − 1; raise if it has not, or has no rows."""
    if part.shards != frozenset(range(shards)):
        missing = sorted(frozenset(range(shards)) - part.shards)
        raise RuntimeError(f"got no statistic of shards {missing[:3]} of {shards}, expected all: fit again")
    return refuse_no_rows(part.statistic)


def refuse_no_rows(statistic: S | None) -> S:
    """The statistic; raise if it is None, since no shard has rows."""
    if statistic is None:
        raise ValueError("got no rows, expected at least one: all shards are empty")
    return statistic
