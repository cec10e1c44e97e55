"""Ratings in shards → one table of ratings, in the order of the shards.

The statistic of a recommender is the ratings themselves, because it needs them to explain predictions, to
update and to forget. The worker that reads a shard reduces it to its ids and 24 bytes per rating (40 with
times and weights). The ratings of all shards are then concatenated in this process, and fitted together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.engines import Batch
from tamis.estimators.rating_tables import RatingTable, read_shard, refuse_mixed_times
from tamis.estimators.sharded import has_rows
from tamis.models.factors import Entries, Indices
from tamis.stats import Keys


@dataclass(frozen=True, slots=True, eq=False)
class GatheredRatings:
    """The ratings of some shards, by the numbers of the shards; + unites two of these."""

    tables: dict[int, RatingTable]

    def __add__(self, other: "GatheredRatings") -> "GatheredRatings":
        return GatheredRatings(self.tables | other.tables)

    def __mul__(self, weight: float) -> "GatheredRatings":
        raise TypeError("ratings in shards cannot be multiplied by a weight: learn them with sample_weight")

    def join(self) -> RatingTable:
        """Concatenate the ratings of all shards."""
        tables = [self.tables[number] for number in sorted(self.tables)]
        users, user_index = _join_ids([(table.users, table.entries.user_index) for table in tables])
        items, item_index = _join_ids([(table.items, table.entries.item_index) for table in tables])
        are_dates = next(
            (table.times_are_dates for table in tables if table.times_are_dates is not None), None
        )
        for table in tables:
            refuse_mixed_times(are_dates, table.times_are_dates)
        entries = Entries(
            user_index,
            item_index,
            np.concatenate([table.entries.values for table in tables]),
            _join_weights([table.entries for table in tables]),
            _join_times([table.entries for table in tables]),
        )
        return RatingTable(users, items, entries, are_dates)


def _join_ids(parts: list[tuple[Keys, Indices]]) -> tuple[Keys, Indices]:
    """Return all distinct ids, and for each rating the index of its id among these.

    `parts` has the ids of each shard, and for each of its ratings the index of the id.
    """
    keys, new_indices = Keys.of([key for ids, _ in parts for key in ids])
    starts = np.cumsum([0, *(len(ids) for ids, _ in parts)])
    return keys, np.concatenate(
        [new_indices[start:][index] for start, (_, index) in zip(starts[:-1], parts, strict=True)]
    )


def _join_weights(parts: list[Entries]) -> Array | None:
    if all(part.undecayed_weights is None for part in parts):
        return None
    return np.concatenate(
        [np.ones(len(part)) if part.undecayed_weights is None else part.undecayed_weights for part in parts]
    )


def _join_times(parts: list[Entries]) -> Array | None:
    times = [part.time for part in parts if part.time is not None]
    if times and len(times) < len(parts):
        raise ValueError(
            "got shards with times and shards without, expected times in all or in none: write all alike"
        )
    return np.concatenate(times) if times else None


@dataclass(frozen=True, slots=True, eq=False)
class ReadRatings:
    """A function that reads the ratings of a batch; it returns None if the batch has no rows."""

    columns: Mapping[str, Any] | None  # from "user", "item", … to names of columns, as users give them
    is_implicit: bool

    def __call__(self, batch: Batch) -> GatheredRatings | None:
        if not has_rows(batch):
            return None
        if hasattr(batch.X, "tocoo"):
            raise TypeError(
                "got a sparse matrix in a shard, where row numbers name no users, expected rows of "
                "(user, item, rating)"
            )
        table = read_shard(batch.X, batch.y, batch.sample_weight, self.columns, self.is_implicit)
        return GatheredRatings({batch.number: table})
