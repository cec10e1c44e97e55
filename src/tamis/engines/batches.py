"""Batches: the rows of one shard with their labels and weights; and pieces, from which batches are read."""

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

X_co = TypeVar("X_co", covariant=True)
X = TypeVar("X")


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows, of any type that estimators (faces) take, with their labels, weights and other values."""

    X: Any  # (n, d)
    y: Any = None  # (n,)
    sample_weight: Any = None  # (n,)
    others: dict[str, Any] = field(default_factory=dict)  # further arguments of `fit`, one value per row
    number: int = 0  # of the shard, from 0; the shards in this order make up the data

    @property
    def rows(self) -> int:
        """The number of rows."""
        shape = getattr(self.X, "shape", None)
        return int(shape[0]) if shape else len(self.X)


class Piece(Protocol[X_co]):
    """One shard that is not read yet."""

    @property
    def name(self) -> str:
        """What error messages call the shard, such as "part-3.parquet, row group 2"."""

    def load(self) -> X_co:
        """Read the shard and return it. An engine may do so several times, and in any thread."""


@dataclass(frozen=True, slots=True, eq=False)
class Loaded(Generic[X]):
    """A shard that is in memory."""

    name: str
    content: X

    def load(self) -> X:
        """Return the content."""
        return self.content
