"""Map names to a fixed number of columns by hash, without a vocabulary, as scikit-learn does."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import text as kernels
from tamis._kernels.text import Int64s
from tamis.text.lexicon import ColumnSigns, Lexicon, PackedTexts
from tamis.text.tokenizer import LexiconCounts

# The absolute value of this hash is not a 32-bit integer, so scikit-learn computes its column in another way.
_MIN_INT32 = -(2**31)
_TOKENS_PER_NAME = 4  # tokens that are remembered per column that gets a name; rarer tokens are dropped
_MAX_NAMES = 1 << 24  # the largest number of columns that get names: they take about 1 GB


class Buckets(NamedTuple):
    """The column of each name, and whether its sign is negative."""

    columns: Int64s
    negative: NDArray[np.bool_]


def find_buckets(names: PackedTexts, width: int) -> Buckets:
    """Return the column of each name, below `width`, and whether it counts negatively if columns are signed.

    >>> columns, negative = find_buckets(PackedTexts.pack([b"money"]), 1024)
    >>> columns.tolist(), negative.tolist()
    ([698], [True])
    """
    hashed = kernels.hash_tokens(*names).view(np.int32).astype(np.int64)
    columns = np.where(hashed == _MIN_INT32, (-_MIN_INT32 - 1 - (width - 1)) % width, np.abs(hashed) % width)
    return Buckets(columns, hashed < 0)


def refuse_many_names(width: int) -> None:
    """Raise if names of `width` columns would fill the memory: a file of 1 kB may declare 2**31 columns."""
    if width > _MAX_NAMES:
        raise ValueError(
            f"got {width} columns without names of their own, expected at most {_MAX_NAMES} to name: name "
            "the columns that you need by their numbers, or set n_features lower and fit again"
        )


class Hashed:
    """`width` columns by hash; if `signed`, about half of the tokens are subtracted.

    At most `limit` columns are named after their tokens: those of the tokens that `remember` counted most
    often. To save memory, `remember` drops rare tokens, so that counts may be too small.
    """

    def __init__(self, width: int, signed: bool, limit: int = 0) -> None:
        self.width = width
        self.signed = signed
        self.limit = limit
        self.frequencies: Counter[str] = Counter()

    def __len__(self) -> int:
        return self.width

    def find(self, lexicon: Lexicon) -> ColumnSigns:
        """Return the column and the sign of each entry."""
        columns, negative = find_buckets(lexicon.names, self.width)
        signs = np.where(negative, -1.0, 1.0) if self.signed else np.ones(len(columns))
        return ColumnSigns(columns.astype(np.int32), signs)

    def remember(self, counted: LexiconCounts) -> None:
        """Count the tokens of some texts, if columns are to have names."""
        if not self.limit:
            return
        counts = np.bincount(counted.rows.indices, counted.rows.counts, len(counted.lexicon)).astype(np.int64)
        frequent = np.argsort(-counts, kind="stable")[: _TOKENS_PER_NAME * self.limit]
        names = counted.lexicon.names.strings(frequent)
        self.frequencies.update(dict(zip(names, counts[frequent].tolist(), strict=True)))
        if len(self.frequencies) > 2 * _TOKENS_PER_NAME * self.limit:
            self.frequencies = Counter(dict(self._rank_tokens()[: _TOKENS_PER_NAME * self.limit]))

    def _rank_tokens(self) -> list[tuple[str, int]]:
        """Return the remembered tokens with their counts, the most frequent first."""
        return sorted(self.frequencies.items(), key=lambda item: (-item[1], item[0]))

    @property
    def names(self) -> NDArray[np.object_]:
        """The name of each column: its tokens, the most frequent first, or its number if it has none."""
        refuse_many_names(self.width)
        names = np.array([f"#{k}" for k in range(self.width)], dtype=object)
        ranked = [name for name, _ in self._rank_tokens()]
        known: dict[int, list[str]] = {}
        for name, column in zip(ranked, self.find_columns(ranked), strict=True):
            if column in known or len(known) < self.limit:
                known.setdefault(column, []).append(name)
        for column, tokens in known.items():
            names[column] = " | ".join(tokens)
        return names

    def to_state(self) -> dict[str, Any]:
        """Return the parameters and the remembered tokens as plain values."""
        return {
            "width": self.width,
            "signed": self.signed,
            "limit": self.limit,
            "often": dict(self.frequencies),  # the name in files
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Hashed":
        """Restore the columns that `to_state` wrote."""
        columns = cls(int(state["width"]), bool(state["signed"]), int(state["limit"]))
        columns.frequencies.update(state["often"])
        return columns

    def find_columns(self, names: list[str]) -> list[int]:
        packed = PackedTexts.pack([name.encode() for name in names])
        columns: list[int] = find_buckets(packed, self.width).columns.tolist()
        return columns
