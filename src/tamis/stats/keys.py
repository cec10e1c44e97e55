"""Names of axes: the labels and categories by which statistics are grouped.

Groups are identified by the label itself, not by its index. Two statistics with different labels are added
over the union of their labels, so no encoder has to know every label in advance.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.arrays import encode


@dataclass(frozen=True)
class Keys(Sequence[Hashable]):
    """Distinct values in ascending order; if they cannot all be compared, by type, numbers first.

    Values of one type are then sorted by value or, if some of them cannot be compared, all by repr. Values
    that are equal in Python are one key: 1, 1.0, True and NumPy's 1 are the same label.

    >>> Keys.of(["spam", "ham", "spam"])[0]
    Keys('ham', 'spam')
    """

    values: tuple[Hashable, ...]

    @classmethod
    def of(cls, labels: object) -> tuple["Keys", NDArray[np.int64]]:
        """Return the distinct labels, and for each label its index among them; raise for missing ones."""
        if isinstance(labels, Labels):
            return labels.keys, labels.group
        return cls._sort(*encode(labels))

    @classmethod
    def encode(cls, values: object) -> tuple["Keys", NDArray[np.int64]]:
        """Return the distinct values, and for each value its index among them; -1 for a missing one."""
        return cls._sort(*encode(values, missing=True))

    @classmethod
    def _sort(cls, values: list[Any], codes: NDArray[np.int64]) -> tuple["Keys", NDArray[np.int64]]:
        """Sort distinct values; return the keys, and the codes (indices of values) as indices of keys."""
        order = _sort_indices(values)
        if order == list(range(len(values))):
            return cls(tuple(values)), codes
        position = np.empty(len(values) + 1, dtype=np.int64)
        position[order] = np.arange(len(values))
        position[-1] = -1
        return cls(tuple(values[i] for i in order)), position[codes]

    def union(self, other: "Keys") -> tuple["Keys", NDArray[np.int64], NDArray[np.int64]]:
        """Return the union, and the index in it of each of these keys, and of each key of `other`."""
        if self.values == other.values:
            same = np.arange(len(self.values))
            return self, same, same
        known = self._positions.keys()
        if known >= set(other.values):
            return self, np.arange(len(self.values)), self.find(other.values)
        merged = list(self.values) + [value for value in other.values if value not in known]
        keys = Keys(tuple(merged[i] for i in _sort_indices(merged)))
        return keys, keys.find(self.values), keys.find(other.values)

    def find(self, labels: Iterable[Hashable]) -> NDArray[np.int64]:
        """Return the index of each label, or -1 where it is not a key."""
        position = self._positions
        return np.fromiter((position.get(label, -1) for label in labels), dtype=np.int64)

    def position(self, label: Hashable) -> int | None:
        """Return the index of a label; None where it is not a key."""
        return self._positions.get(label)

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {value: i for i, value in enumerate(self.values)}

    def __reduce__(self) -> tuple[type["Keys"], tuple[tuple[Hashable, ...]]]:
        return Keys, (self.values,)  # without the cached positions

    def keep(self, mask: NDArray[np.bool_]) -> "Keys":
        """Return the keys that the mask marks."""
        return Keys(tuple(compress(self.values, mask.tolist())))

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __contains__(self, value: object) -> bool:
        try:
            return value in self._positions
        except TypeError:  # an unhashable value is no key
            return False

    def __repr__(self) -> str:
        first_values = ", ".join(map(repr, self.values[:6]))
        return f"Keys({first_values}{', …' if len(self.values) > 6 else ''})"


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of rows, as keys and indices; every parameter `by` of this package accepts them."""

    keys: Keys
    group: NDArray[np.int64]  # (n,): the index of each row's key, -1 where the label is missing

    @classmethod
    def of(cls, labels: object) -> "Labels":
        """Read the labels."""
        return cls(*Keys.of(labels))

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of rows of each key (K,); no label may be missing."""
        return np.bincount(self.group, minlength=len(self.keys)).astype(np.int64, copy=False)

    def take(self, rows: NDArray[np.int64] | slice) -> "Labels":
        """Return the labels of these rows; all keys stay, even those without rows."""
        return Labels(self.keys, self.group[rows])

    def __len__(self) -> int:
        return len(self.group)


def _sort_indices(values: list[Any]) -> list[int]:
    """Return the indices that sort the values: by value, or by type if they cannot all be compared."""
    positions = range(len(values))
    try:
        return sorted(positions, key=values.__getitem__)
    except TypeError:
        pass
    try:
        return sorted(positions, key=lambda i: (_get_type_name(values[i]), values[i]))
    except TypeError:
        return sorted(positions, key=lambda i: (_get_type_name(values[i]), repr(values[i])))


def _get_type_name(value: Any) -> str:
    """Return the name of a value's type, "" for all numbers, which are comparable and sorted first."""
    return "" if isinstance(value, Real) else type(value).__qualname__
