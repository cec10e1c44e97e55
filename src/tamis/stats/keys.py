"""Axes named by value: the labels and categories that statistics are grouped under.

A class first seen on another machine, or only tomorrow, has no number yet; it has a name. Rows are grouped
by that name, so merging is a union, and no encoder has to know every name in advance.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import encode


@dataclass(frozen=True)
class Keys(Sequence[Hashable]):
    """Distinct values in their natural order; numbers, then type by type, where values do not compare.

    Values that Python calls equal are one key: 1, 1.0, True and NumPy's 1 are the same label.

    >>> Keys.of(["spam", "ham", "spam"])[0]
    Keys('ham', 'spam')
    """

    values: tuple[Hashable, ...]

    @classmethod
    def of(cls, labels: object) -> tuple["Keys", NDArray[np.int64]]:
        """The keys among the labels, and for each label the index of its key."""
        if isinstance(labels, Labels):
            return labels.keys, labels.group
        return cls._sort(*encode(labels))

    @classmethod
    def encode(cls, values: object) -> tuple["Keys", NDArray[np.int64]]:
        """As `of`, and -1 for each value that is missing."""
        return cls._sort(*encode(values, missing=True))

    @classmethod
    def _sort(cls, values: list[Any], codes: NDArray[np.int64]) -> tuple["Keys", NDArray[np.int64]]:
        order = _order(values)
        if order == list(range(len(values))):
            return cls(tuple(values)), codes
        place = np.empty(len(values) + 1, dtype=np.int64)
        place[order] = np.arange(len(values))
        place[-1] = -1
        return cls(tuple(values[i] for i in order)), place[codes]

    def union(self, other: "Keys") -> tuple["Keys", NDArray[np.int64], NDArray[np.int64]]:
        """All keys of both, and where each one's keys stand among them."""
        if self.values == other.values:
            same = np.arange(len(self.values))
            return self, same, same
        known = self._places.keys()
        if known >= set(other.values):
            return self, np.arange(len(self.values)), self.find(other.values)
        merged = list(self.values) + [value for value in other.values if value not in known]
        keys = Keys(tuple(merged[i] for i in _order(merged)))
        return keys, keys.find(self.values), keys.find(other.values)

    def find(self, labels: Iterable[Hashable]) -> NDArray[np.int64]:
        """The index of each label, or -1 where it is not a key."""
        place = self._places
        return np.fromiter((place.get(label, -1) for label in labels), dtype=np.int64)

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {value: i for i, value in enumerate(self.values)}

    def __reduce__(self) -> tuple[type["Keys"], tuple[tuple[Hashable, ...]]]:
        return Keys, (self.values,)  # without what can be had again

    def keep(self, mask: NDArray[np.bool_]) -> "Keys":
        """The keys that the mask marks."""
        return Keys(tuple(value for value, kept in zip(self.values, mask.tolist(), strict=True) if kept))

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __contains__(self, value: object) -> bool:
        try:
            return value in self._places
        except TypeError:  # what cannot be hashed is no key
            return False

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.values[:6]))
        return f"Keys({shown}{', …' if len(self.values) > 6 else ''})"


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Labels that were read once: their keys, and of each row the index of its key. Any `by=` takes it."""

    keys: Keys
    group: NDArray[np.int64]  # (n,)

    @classmethod
    def of(cls, labels: object) -> "Labels":
        """Read the labels."""
        return cls(*Keys.of(labels))

    def take(self, rows: NDArray[np.int64] | slice) -> "Labels":
        """These rows alone; keys that have none left stay."""
        return Labels(self.keys, self.group[rows])

    def __len__(self) -> int:
        return len(self.group)


def _order(values: list[Any]) -> list[int]:
    """Natural order where values compare; else numbers first, then type by type."""
    places = range(len(values))
    try:
        return sorted(places, key=values.__getitem__)
    except TypeError:
        pass
    try:
        return sorted(places, key=lambda i: (_type_name(values[i]), values[i]))
    except TypeError:
        return sorted(places, key=lambda i: (_type_name(values[i]), repr(values[i])))


def _type_name(value: Any) -> str:
    """One name for all numbers, for 1 and True are one key and must have one place."""
    return "" if isinstance(value, Real) else type(value).__qualname__
