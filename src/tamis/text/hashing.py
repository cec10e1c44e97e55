"""names → columns of fixed number, without a vocabulary: scikit-learn's hashing, bucket by bucket."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis._kernels import text as kernels
from tamis._kernels.text import Words
from tamis.text.lexicon import Lexicon, Names, Places
from tamis.text.tokenizer import LexiconCounts

_LEAST = -(2**31)  # has no absolute value among 32-bit integers; scikit-learn puts it here, too
_MANY = 4  # times as many tokens are remembered as columns are to have names, before the rarest are dropped
_NAMED = 1 << 24  # columns whose names are made, at most: so many take about 1 GB


class Buckets(NamedTuple):
    """The columns of names, and their signs."""

    columns: Words
    negative: NDArray[np.bool_]


def find_buckets(names: Names, width: int) -> Buckets:
    """The column of each name among `width`, and whether it counts negatively if columns are signed.

    >>> money = Names(np.frombuffer(b"money" + bytes(72), dtype=np.uint8), np.array([0]), np.array([5]))
    >>> columns, negative = find_buckets(money, 1024)
    >>> columns.tolist(), negative.tolist()
    ([698], [True])
    """
    hashed = kernels.hashes(*names).view(np.int32).astype(np.int64)
    columns = np.where(hashed == _LEAST, (-_LEAST - 1 - (width - 1)) % width, np.abs(hashed) % width)
    return Buckets(columns, hashed < 0)


def refuse_many_names(width: int) -> None:
    """Raise if names of so many columns would fill the memory; a file of 1 kB may announce 2**31 columns."""
    if width > _NAMED:
        raise ValueError(
            f"got {width} columns without names of their own, expected at most {_NAMED} to name: name the "
            "columns that you need by their numbers, or set n_features lower and fit again"
        )


class Hashed:
    """Columns by hash; with `names` above 0, the most frequent tokens are remembered as names of columns."""

    def __init__(self, width: int, signed: bool, names: int = 0) -> None:
        self.width = width
        self.signed = signed
        self.limit = names
        self.frequencies: Counter[str] = Counter()

    def __len__(self) -> int:
        return self.width

    def find(self, lexicon: Lexicon) -> Places:
        """The column and the sign of each entry."""
        columns, negative = find_buckets(lexicon.names, self.width)
        signs = np.where(negative, -1.0, 1.0) if self.signed else np.ones(len(columns))
        return Places(columns.astype(np.int32), signs)

    def remember(self, counted: LexiconCounts) -> None:
        """Count the tokens of some texts, if names are wanted."""
        if not self.limit:
            return
        counts = np.bincount(counted.rows.indices, counted.rows.counts, len(counted.lexicon)).astype(np.int64)
        often = np.argsort(-counts, kind="stable")[: _MANY * self.limit]
        names = counted.lexicon.names.strings(often)
        self.frequencies.update(dict(zip(names, counts[often].tolist(), strict=True)))
        if len(self.frequencies) > 2 * _MANY * self.limit:
            ranked = sorted(self.frequencies.items(), key=lambda item: (-item[1], item[0]))
            self.frequencies = Counter(dict(ranked[: _MANY * self.limit]))

    @property
    def names(self) -> NDArray[np.object_]:
        """The tokens of each column, the most frequent first; its number where none is remembered."""
        refuse_many_names(self.width)
        names = np.array([f"#{k}" for k in range(self.width)], dtype=object)
        ranked = sorted(self.frequencies.items(), key=lambda item: (-item[1], item[0]))
        known: dict[int, list[str]] = {}
        for name, column in zip(
            [n for n, _ in ranked], self.find_columns([n for n, _ in ranked]), strict=True
        ):
            if column in known or len(known) < self.limit:
                known.setdefault(column, []).append(name)
        for column, tokens in known.items():
            names[column] = " | ".join(tokens)
        return names

    def to_state(self) -> dict[str, Any]:
        """The hashing and the remembered tokens as plain values."""
        return {
            "width": self.width,
            "signed": self.signed,
            "limit": self.limit,
            "often": dict(self.frequencies),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Hashed":
        """The columns that `to_state` wrote."""
        columns = cls(int(state["width"]), bool(state["signed"]), int(state["limit"]))
        columns.frequencies.update(state["often"])
        return columns

    def find_columns(self, names: list[str]) -> list[int]:
        """The columns of tokens."""
        each = [name.encode() for name in names]
        lengths = np.array([len(name) for name in each], dtype=np.int64)
        text = np.frombuffer(b"".join(each) + bytes(kernels.PAD), dtype=np.uint8)
        columns: list[int] = find_buckets(
            Names(text, np.cumsum(lengths) - lengths, lengths), self.width
        ).columns.tolist()
        return columns
