"""Batches: the rows of one shard with their labels and weights; and pieces, from which batches are read."""

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

X_co = TypeVar("X_co", covariant=True)
X = TypeVar("X")


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows, of any type that estimators (faces) accept, with their labels, weights and other values."""

    X: Any  # (n, d)
    y: Any = None  # (n,)
    sample_weight: Any = None  # (n,)
    others: dict[str, Any] = field(default_factory=dict)  # further arguments of `fit`, one value per row
    number: int = 0  # the shard's number; shard 0, shard 1, … in this order make up the data

    @classmethod
    def from_roles(cls, rows: Any, roles: dict[str, Any], number: int = 0) -> "Batch":
        """Make a batch; `roles` has the values of `y`, `sample_weight` and other arguments of `fit`."""
        others = dict(roles)
        return cls(rows, others.pop("y", None), others.pop("sample_weight", None), others, number)

    @property
    def rows(self) -> int:
        """The number of rows."""
        shape = getattr(self.X, "shape", None)
        return int(shape[0]) if shape else len(self.X)


class Piece(Protocol[X_co]):
    """One shard that is not read yet."""

    @property
    def name(self) -> str:
        """The shard's name in error messages, such as "part-3.parquet, row group 2"."""

    def load(self) -> X_co:
        """Read the shard and return it. An engine may do so several times, and in any thread."""


@dataclass(frozen=True, slots=True, eq=False)
class Loaded(Generic[X]):
    """A piece whose shard is in memory already."""

    name: str
    content: X

    def load(self) -> X:
        """Return the content."""
        return self.content
