"""The features of messages that were just read → the counts that are added to the store, and their places.

The features of a message are rows of these counts, so that a fit need not merge the features again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tamis.compiled import core
from tamis.threads import run_together
from tamis_mail.store.bundle_arrays import Bundle
from tamis_mail.store.tables import Change, CountTable, FeatureKeys

if TYPE_CHECKING:
    from tamis._core.mail import FeatureSum, MergedFeatures

    Part = Bundle | MergedFeatures  # the features of some messages

_RANGES = 2  # of keys, which threads sum at the same time


@dataclass(frozen=True, slots=True)
class PendingCounts:
    """Counts that are to be added to the store."""

    table: CountTable
    sums: "FeatureSum | None"  # None if not all of the counts are those of merged features
    numbers: "dict[int, int]"  # the identity of a part → its number in `sums`

    def gather(
        self, messages: "Sequence[tuple[Part, int]]"
    ) -> "tuple[NDArray[np.int32], NDArray[np.intp]] | None":
        """Return the rows of the table that are features of messages, and where those of each begin.

        Message i has rows[starts[i] : starts[i + 1]]. Return None if the counts do not have all of them.
        """
        if self.sums is None or any(id(part) not in self.numbers for part, _ in messages):
            return None
        places = [(self.numbers[id(part)], place) for part, place in messages]
        starts = np.cumsum([0, *self.sums.count_features(places)], dtype=np.intp)
        rows = np.empty(starts[-1], np.int32)
        half = len(places) // 2
        middle = starts[half]
        run_together(
            [
                partial(self.sums.gather, places[:half], rows[:middle]),
                partial(self.sums.gather, places[half:], rows[middle:]),
            ]
        )
        return rows, starts


class PendingSum:
    """A sum of counts in several tasks, which may run at the same time."""

    def __init__(
        self, parts: "Sequence[tuple[Part, Change]]", tables: Sequence[CountTable], labels: int
    ) -> None:
        """Sum the changes of counts by the features of parts, and tables of counts."""
        self._parts, self._tables, self._labels = list(parts), list(tables), labels
        self._sums: FeatureSum | None = None
        merged = [(part, change) for part, change in parts if not isinstance(part, Bundle)]
        self.tasks: list[Callable[[], object]] = []
        if core is not None and merged and not tables and len(merged) == len(parts):
            self._sums = core.mail.FeatureSum(labels, _RANGES)
            for part, change in merged:
                self._sums.add(part, list(change))
            self.tasks += [partial(self._sums.sum_range, number) for number in range(_RANGES)]

    def finish(self) -> PendingCounts:
        """Return the sum, after all tasks were done."""
        parts, tables = self._parts, self._tables
        self._parts, self._tables = [], []  # their memory is large
        if self._sums is None:
            tables += [
                CountTable.multiply_change(*count_part(part), change, self._labels) for part, change in parts
            ]
            return PendingCounts(CountTable.total(tables, self._labels), None, {})
        keys, counts = (
            np.empty(len(self._sums), np.uint64),
            np.empty((len(self._sums), self._labels), np.int64),
        )
        self._sums.write(keys, counts)
        numbers = {id(part): number for number, (part, _) in enumerate(parts)}
        return PendingCounts(CountTable(keys, counts), self._sums, numbers)

    def compute(self) -> PendingCounts:
        """Do all tasks and return the sum."""
        run_together(self.tasks)
        return self.finish()


def count_part(part: "Part") -> tuple[FeatureKeys, NDArray[np.int64]]:
    """Return the features of a part, and the number of its messages that have each."""
    if isinstance(part, Bundle):
        counts = np.bincount(part.indices, minlength=len(part.keys))
        return part.keys, counts.astype(np.int64, copy=False)
    keys, counts = np.empty(part.count_keys(), np.uint64), np.empty(part.count_keys(), np.int64)
    part.write_counts(keys, counts)
    return keys, counts


def read_features(part: "Part", place: int) -> FeatureKeys:
    """Return the features of one message of a part, in ascending order."""
    return part.features(place) if isinstance(part, Bundle) else np.frombuffer(part.pack(place), "<u8")
