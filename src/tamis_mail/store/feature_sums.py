"""Sum what the messages of a transaction add to the counts, in several threads.

The sum remembers which of its rows are the features of which message, so that a fit of the weights in the
same transaction need not merge the features again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tamis.compiled import core
from tamis.threads import run_together
from tamis_mail.records import record
from tamis_mail.store.bundle_arrays import Bundle
from tamis_mail.store.tables import Change, CountTable, FeatureKeys

if TYPE_CHECKING:
    from tamis._core.mail import FeatureSum, MergedFeatures

    Part = Bundle | MergedFeatures  # the features of some messages, read by NumPy or by the compiled core

_RANGES = 2  # the keys are divided into this many ranges, which threads sum at the same time


@record(frozen=True, slots=True)
class PendingCounts:
    """Counts that will be added to the store."""

    table: CountTable
    # The core's sum of the parts, which remembers the features of each message; None if the core has not
    # merged all parts.
    sums: "FeatureSum | None"
    numbers: "dict[int, int]"  # id(part) → its number in `sums`

    def gather(
        self, messages: "Sequence[tuple[Part, int]]"
    ) -> "tuple[NDArray[np.int32], NDArray[np.intp]] | None":
        """Return (rows, starts): message i has the features rows[starts[i] : starts[i + 1]] of `table`.

        A message is given as its part and its place there. Return None if `sums` does not have all parts.
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
    """A sum of counts that is computed by `tasks`, which may run at the same time."""

    def __init__(
        self, parts: "Sequence[tuple[Part, Change]]", tables: Sequence[CountTable], labels: int
    ) -> None:
        """Prepare the sum of `tables` and of what the messages of each part add, given the part's change.

        A change is pairs of a label's column and a weight.
        """
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
        """Return the sum; all tasks must have ended."""
        parts, tables = self._parts, self._tables
        self._parts, self._tables = [], []  # to free their memory, which is large
        if self._sums is None:
            tables += [
                CountTable.multiply_change(*count_part(part), change, self._labels) for part, change in parts
            ]
            return PendingCounts(CountTable.total(tables, self._labels), None, {})
        keys, counts = (
            np.empty(len(self._sums), np.uint64),
            np.empty((len(self._sums), self._labels), np.int64),
        )
        run_together([partial(self._sums.write_range, number, keys, counts) for number in range(_RANGES)])
        numbers = {id(part): number for number, (part, _) in enumerate(parts)}
        return PendingCounts(CountTable(keys, counts), self._sums, numbers)

    def compute(self) -> PendingCounts:
        """Run all tasks and return the sum."""
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
