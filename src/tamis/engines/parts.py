"""Add the statistics of shards so that every shard is counted exactly once, even if tasks are repeated.

A part holds a statistic and the numbers of the shards that it sums. Engines run a task again when its worker
was lost or is slow. If all shards of a part were added before, adding it changes nothing. At the end, every
shard must have been added. So no shard is ever counted twice or left out.
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
    """The statistic of some shards, which is None if they have no rows."""

    shards: frozenset[int]  # the numbers of the shards
    statistic: S | None

    def __add__(self, other: "Part[S]") -> "Part[S]":
        if other.shards <= self.shards:
            return self
        if self.shards < other.shards:
            return other
        if common := self.shards & other.shards:
            raise ValueError(
                f"got parts that share shards {sorted(common)[:3]} and differ in others, expected each "
                "shard in one part: add only disjoint parts, or the same part again"
            )
        if self.statistic is None or other.statistic is None:
            statistic = other.statistic if self.statistic is None else self.statistic
        else:
            statistic = self.statistic + other.statistic
        return Part(self.shards | other.shards, statistic)


def observe_piece(observe: Callable[[X], S | None], piece: Piece[X]) -> S | None:
    """Read a shard and observe it, with the errors of `apply_to_piece`; None if it has no rows."""
    return apply_to_piece(observe, piece)


def apply_to_piece(function: Callable[[X], Y | None], piece: Piece[X]) -> Y | None:
    """Read a shard and apply a function to it; None if it has no rows.

    If this raises a TypeError or ValueError, its message names the shard.
    """
    try:
        return transform_shard(function, piece.load())
    except (TypeError, ValueError) as problem:
        if type(problem) not in (TypeError, ValueError):
            raise
        raise type(problem)(f"{piece.name}: {problem}") from None


def transform_shard(transform: Callable[[X], Y], shard: X) -> Y | None:
    """Apply a function to a shard; return None for None, which is a shard without rows."""
    return None if shard is None else transform(shard)


def observe_part(observe: Callable[[X], S | None], number: int, piece: Piece[X]) -> Part[S]:
    """Read the shard of this number and observe it, for engines that may do so more than once."""
    return Part(frozenset((number,)), observe_piece(observe, piece))


def require_all_shards(part: Part[S], shards: int) -> S:
    """Return the statistic of a part; raise unless it sums all shards, 0 to `shards` − 1, and has rows."""
    if part.shards != frozenset(range(shards)):
        missing = sorted(frozenset(range(shards)) - part.shards)
        raise RuntimeError(f"got no statistic of shards {missing[:3]} of {shards}, expected all: fit again")
    return require_rows(part.statistic)


def require_rows(statistic: S | None) -> S:
    """Return the statistic; raise if it is None, because no shard has rows."""
    if statistic is None:
        raise ValueError("got no rows, expected at least one: all shards are empty")
    return statistic
